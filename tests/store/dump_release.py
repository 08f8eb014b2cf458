"""Writes tests/store/releases/NNNN.sql: a small store as this version makes it, which every later version must bring up to date.

Run it once for each new migration, before the release that brings it:

    python tests/store/dump_release.py

It writes migrations/new_store.sql, too: what all migrations do to an empty database; and migrations/comments.sql, from
docs/reference/schema.md.

It starts a PostgreSQL of its own in a temporary folder, leaves at least one row in every table, and dumps everything. What was
released stays as it is: the file of an older migration is never written again.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, event

sys.path.insert(0, str(Path(__file__).parents[1]))  # the other tests' helpers, when run alone

from helpers import Database, call, connected, remember
from pgengram.postgres import programs, start_embedded
from pgengram.store.schema import migrate

RELEASES: Final = Path(__file__).parent / "releases"
HEAD_OF_NEW: Final = (
    "-- What the migrations do to an empty database. Written by tests/store/dump_release.py; a test compares.\n"
)
TEXTS: Final = {
    "episodic": "Mara moved billing to Stripe on 3 March 2026.",
    "semantic": "Jonas is allergic to peanuts.",
    "procedural": "To deploy, tag the commit and wait for the checks.",
    "strategic": "Small invoices are paid sooner than large ones.",
}
# What storing without an embedder leaves empty.
REST: Final = """
INSERT INTO embedding_models (name, dimensions, state) VALUES ('tiny', 3, 'active');
INSERT INTO memory_vectors SELECT namespace_id, id, 1, 0, '[1,0,0]' FROM memories WHERE type = 'semantic';
INSERT INTO memory_posting_lists SELECT namespace_id, 1, 1, array_agg(id), array_agg(65537) FROM memories GROUP BY 1;
INSERT INTO access_tokens (id, secret_hash, name, namespace, scope) VALUES ('abcdef', '\\x00', 'Mara', 'default', 'read-only');
INSERT INTO conversations (namespace_id, client, conversation, project, transcript, read_to, title)
  SELECT id, 'claude-code', 's-1', 'ark', '/home/mara/s-1.jsonl', 1, 'Payments' FROM namespaces;
INSERT INTO conversation_turns SELECT id, 'claude-code', 's-1', 1, 'user', 'We pay by Stripe.', 'ark', now() FROM namespaces;
INSERT INTO hidden_turns SELECT id, 'claude-code', 's-1', 7, true, 'x', 'user', 2, now() FROM namespaces;
INSERT INTO conversation_settings SELECT id, true, 30 FROM namespaces;
INSERT INTO sync_settings (namespace_id, secret, folder, device, device_name)
  SELECT id, '\\x00', '/home/mara/Sync', '00', 'laptop' FROM namespaces;
INSERT INTO sync_changes SELECT namespace_id, 'memory', id::text, now(), false FROM memories WHERE type = 'semantic';
INSERT INTO sync_documents SELECT namespace_id, 'memory', id::text, '{}' FROM memories WHERE type = 'semantic';
INSERT INTO sync_files SELECT id, '00', 'device.sync', '1-1' FROM namespaces;
INSERT INTO oauth_grants (id, client_id, client_name, client_host, redirect_host, namespace, scope, resource, expires_at)
  VALUES ('ab', 'https://claude.ai/x', 'Claude', 'claude.ai', 'claude.ai', 'default', 'read-only', 'https://memory.example.org/mcp', now());
INSERT INTO oauth_requests (id_hash, cookie_hash, asked, expires_at) VALUES ('\\x00', '\\x00', '{}', now());
INSERT INTO pairing_codes (code_hash, namespace, may_write, expires_at) VALUES ('\\x00', 'default', true, now());
INSERT INTO server_keys VALUES ('tokens', '\\x00');
INSERT INTO access_events (event) VALUES ('pairing_opened');
INSERT INTO recall_receipts (namespace_id, memory_id, client, conversation, version, event, tokens, milliseconds)
  SELECT namespace_id, id, 'claude-code', 's-1', 1, 'SessionStart', 12, 34 FROM memories WHERE type = 'semantic'
"""


SCHEMA_PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "schema.md"


def comments() -> str:
    """Return what the page about the schema says of each table and column, as statements."""
    page = SCHEMA_PAGE.read_text(encoding="utf-8")
    head, *sections = re.split(r"^## ", page, flags=re.MULTILINE)
    statements = []
    for names, meaning in re.findall(r"^\| (\[.*?) \| (.*?) \|$", head, re.MULTILINE):
        kinds = [kind.strip() for kind in meaning.split(";")]
        for number, name in enumerate(re.findall(r"\[(\w+)\]", names)):
            statements.append(_comment("TABLE", name, f"One row for each {kinds[min(number, len(kinds) - 1)]}."))
    for section in sections:
        table = section.split("\n", 1)[0]
        for names, meaning in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*?) \|$", section, re.MULTILINE):
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


async def filled(url: str) -> None:
    """Leave a row in every table, through the door that users have where there is one."""
    async with connected(database_url=url, embedder="none:", toolsets="all") as client:
        ids = [await remember(client, text, type=type_, tags=["work"]) for type_, text in TEXTS.items()]
        await call(client, "update_memory", id=ids[1], importance=0.9)
        await call(client, "link_memories", from_id=ids[0], to_ids=ids[1:3], type="near")
        cluster = await call(client, "create_memory_cluster", name="Billing", memory_ids=ids[:2])
        await call(client, "activate_cluster", cluster_id=cluster["cluster"]["id"])
        await call(client, "create_working_memory", content="Call Stripe.")
        await call(client, "record_identity", self_concept="Keeper of the books.")
        await call(client, "record_belief", belief="Invoices are paid late.", supported_by=ids[:1])
        await call(client, "tidy_memories", action="synonyms", synonyms={"job": "work"})
        gone = await remember(client, "Soon to be erased.")
        shown = await call(client, "forget_memories", ids=[gone], hard=True)
        await call(client, "forget_memories", ids=[gone], hard=True, confirm_token=shown["confirm_token"])
        await call(client, "forget_memories", ids=ids[:1], hard=True)
    Database(url).as_login(*REST.split(";\n"))


def dumped(url: str, login: str) -> str:
    """Return the whole database as statements that any login of PostgreSQL 15 or newer can run."""
    tools = programs.programs_for(18)
    command = [tools.program("pg_dump"), "--inserts", "--no-owner", "--no-comments", f"--dbname={url}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept = [
        line
        for line in text.splitlines()
        if line and not line.startswith(("--", "\\", "SET ", "SELECT pg_catalog.set_config"))
    ]
    return re.sub(rf"(CREATE POLICY maintenance .* TO ){login} ", r"\1CURRENT_USER ", "\n".join(kept)) + "\n"


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
    with tempfile.TemporaryDirectory() as folder:
        server = start_embedded(Path(folder))
        try:
            asyncio.run(filled(server.url))
            [(login,)] = Database(server.url).as_login("SELECT current_user")
            text = dumped(server.url, login)
        finally:
            server.stop()
    path = RELEASES / f"{migrate.newest_version()}.sql"
    path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{path}: {len(text):,} characters\n")


if __name__ == "__main__":
    main()
