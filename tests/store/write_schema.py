"""Writes what is made from the migrations and the page about the schema; run it after a change of either.

    python tests/store/write_schema.py

migrations/new_store.sql is what all migrations do to an empty database, which it watches on a PostgreSQL of its own in a
temporary folder; migrations/comments.sql is what docs/reference/schema.md says of tables and columns.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, event

from pgengram.postgres import start_embedded
from pgengram.store.schema import migrate

HEAD_OF_NEW: Final = (
    "-- What the migrations do to an empty database. Written by tests/store/write_schema.py; a test compares.\n"
)
SCHEMA_PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "schema.md"


def comments() -> str:
    """Return what the page about the schema says of each table and column, as statements."""
    page = SCHEMA_PAGE.read_text(encoding="utf-8")
    _, *sections = re.split(r"^## ", page, flags=re.MULTILINE)
    statements = []
    for section in sections:
        table, _, rest = section.partition("\n\n")
        about = re.split(r"(?<=\.)\s", rest, maxsplit=1)[0]  # its first sentence
        statements.append(_comment("TABLE", table, " ".join(about.split())))
        for names, meaning in re.findall(r"^- (`\w+`(?:, `\w+`)*): (.*)$", section, re.MULTILINE):
            columns = re.findall(r"`(\w+)`", names)
            parts = [part.strip(" .") for part in meaning.split("; ")]
            for number, column in enumerate(columns):
                own = parts[number] if len(parts) == len(columns) else meaning.rstrip(".")
                statements.append(_comment("COLUMN", f'{table}."{column}"', f"{own[:1].upper()}{own[1:]}."))
    return "".join(f"{statement};\n" for statement in statements)


def _comment(kind: str, name: str, meaning: str) -> str:
    plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", meaning).replace("`", "").replace("'", "''")
    if not name.startswith("memories_now"):
        return f"COMMENT ON {kind} {name} IS '{plain}'"
    kind = "VIEW" if kind == "TABLE" else kind
    return f"DO $$ BEGIN IF to_regclass('memories_now') IS NOT NULL THEN COMMENT ON {kind} {name} IS '{plain}'; END IF; END $$"


def recorded(url: str) -> str:
    """Migrate an empty database and return the statements that did it."""
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        if not statement.lstrip().startswith("SELECT"):
            assert not parameters, statement
            statements.append(statement.strip().rstrip(";").replace("%%", "%"))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        migrate._upgrade(url, "head")
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    return HEAD_OF_NEW + ";\n".join(statements) + ";\n"


def main() -> None:
    (migrate.migrations_folder() / migrate.COMMENTS).write_text(comments(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        server = start_embedded(Path(folder))
        try:
            (migrate.migrations_folder() / migrate.NEW_STORE).write_text(recorded(server.url), encoding="utf-8")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
