"""What other systems keep in SQLite databases, and in files of JSON that are read whole."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from pgengram.errors import InvalidInput

SQLITE: Final = b"SQLite format 3\0"  # as such a file begins


def read_only(path: Path) -> sqlite3.Connection:
    """Open a database so that nothing of it can change."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def schema_of(path: Path) -> bytes:
    """Return the statements that made a database's tables; nothing of what is none."""
    try:
        with closing(read_only(path)) as connection:
            rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    except sqlite3.DatabaseError:
        return b""
    return "\n".join(row[0] for row in rows).encode()


def json_memories(path: Path, hint: str) -> list[Any]:
    """Read a JSON file that is a list of memories, or an object with one.

    Raises:
        InvalidInput: it is neither; `hint` says which file to give.
    """
    found = json_file(path)
    rows = found.get("memories") if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise InvalidInput(f"{path} has no list of memories.", hint)
    return rows


def json_file(path: Path) -> Any:
    """Read a file of JSON.

    Raises:
        InvalidInput: it is not there, or is none.
    """
    try:
        return json.loads(existing(path).read_text(encoding="utf-8"))
    except ValueError:
        raise InvalidInput(f"{path} is not valid JSON.", "Give the file that the other system exported.") from None


def existing(path: Path) -> Path:
    """Return the path of a file that is there.

    Raises:
        InvalidInput: it is not.
    """
    if not path.is_file():
        raise InvalidInput(f"There is no file {path}.", "Give the path of the other system's file.")
    return path


def is_sqlite(path: Path) -> bool:
    """Whether a file is a SQLite database."""
    with existing(path).open("rb") as opened:
        return opened.read(16) == SQLITE


class Tables:
    """The tables of a SQLite database, read without changing it.

    Raises:
        InvalidInput: the file is none.
    """

    def __init__(self, path: Path) -> None:
        if not is_sqlite(path):
            raise InvalidInput(
                f"{path} is not a SQLite database.", "Give the path of the other system's database file."
            )
        self.path = path
        self.names = {row["name"] for row in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return all rows of a table in the order in which they were added; none when it is not there."""
        if table not in self.names:
            return []
        quoted = '"' + table.replace('"', '""') + '"'
        return self._rows(f"SELECT * FROM {quoted} ORDER BY rowid")  # noqa: S608 - a name that the file itself tells

    def needed(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """Return all rows of a table that must be there, with these columns.

        Raises:
            InvalidInput: it is not.
        """
        rows = self.rows(table)
        if table not in self.names or any(rows and column not in rows[0] for column in columns):
            raise InvalidInput(
                f"{self.path} has no table {table} with {', '.join(columns)}.",
                "Give the path of the other system's database file.",
            )
        return rows

    def _rows(self, statement: str) -> list[dict[str, Any]]:
        with closing(read_only(self.path)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(statement)]
