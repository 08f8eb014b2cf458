"""What was erased, kept as ids, so that restoring an older backup does not bring it back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

import psycopg

from pgengram.runtime.process_setup import event_loop
from pgengram.store.connection.begin import UPKEEP
from pgengram.store.connection.database import Database
from pgengram.store.maintenance import namespaces
from pgengram.store.memory import deletion

BATCH: Final = 200  # memories erased in one transaction

HAS_LIST: Final = "SELECT to_regclass('deletion_log') IS NOT NULL"
# What is there again was brought back on purpose, by an import. Reads the whole list.
ERASED: Final = """
SELECT e.former_namespace_id, e.namespace_since, e.memory_id, e.at FROM deletion_log e
WHERE NOT EXISTS (SELECT 1 FROM namespaces n JOIN memories m ON m.namespace_id = n.id
  WHERE n.id = e.former_namespace_id AND n.created_at = e.namespace_since AND m.id = e.memory_id)
"""
# Only what is newer than the restored list itself was erased after the backup; of that, what the backup has brought
# back. Uses the unique index and the primary keys.
ADD: Final = """
WITH new AS (
  INSERT INTO deletion_log AS e (former_namespace_id, namespace_since, memory_id, at)
  SELECT * FROM unnest(%s::integer[], %s::timestamptz[], %s::uuid[], %s::timestamptz[])
  ON CONFLICT (former_namespace_id, namespace_since, memory_id) DO UPDATE SET at = excluded.at WHERE e.at < excluded.at
  RETURNING former_namespace_id, namespace_since, memory_id)
SELECT n.name, new.memory_id FROM new JOIN namespaces n ON n.id = new.former_namespace_id AND n.created_at = new.namespace_since
WHERE new.memory_id IS NULL OR EXISTS (SELECT 1 FROM memories m WHERE m.namespace_id = n.id AND m.id = new.memory_id)
"""
SEEING_ALL: Final = "SELECT set_config('pgengram.maintenance', 'on', true)"  # as the tables' owner
# With the tokens, the connections that would be given new ones.
REVOKED: Final = """
SELECT revoked_at, id FROM access_tokens WHERE revoked_at IS NOT NULL
UNION ALL SELECT revoked_at, id FROM oauth_grants WHERE revoked_at IS NOT NULL
"""
REVOKE: Final = (
    "UPDATE access_tokens SET revoked_at = %s WHERE id = %s AND revoked_at IS NULL",
    "UPDATE oauth_grants SET revoked_at = %s WHERE id = %s AND revoked_at IS NULL",
)


@dataclass(slots=True)
class Gone:
    """What a store has erased and revoked.

    rows: of the list of deletion_log, as they are stored.
    revoked: when and which access tokens and connections were revoked.
    """

    rows: list[tuple[int, datetime, UUID | None, datetime]] = field(default_factory=list)
    revoked: list[tuple[datetime, str]] = field(default_factory=list)


@dataclass(slots=True)
class Again:
    """What a restore has erased and revoked again, as it had been after the backup was made."""

    memories: int = 0
    namespaces: int = 0
    tokens: int = 0


def erased_in_store(connection: psycopg.Connection[Any]) -> Gone:
    """Return what the store has erased and revoked; nothing where there is no store, or one without a list.

    The login must be able to read past row-level security, or own the tables.
    """
    connection.execute(SEEING_ALL)
    row = connection.execute(HAS_LIST).fetchone()
    if row is None or not row[0]:
        return Gone()
    return Gone(connection.execute(ERASED).fetchall(), connection.execute(REVOKED).fetchall())


def repeat(url: str, before: Gone, report: Callable[[str], None]) -> Again:
    """Erase and revoke in a restored database what had been gone from the one it takes the place of.

    The list is copied, too, so that a restore of a still older backup knows of it too. The files are cleared of what
    was erased.

    Raises:
        DatabaseFailed: that failed.
    """
    with psycopg.connect(url) as connection:
        connection.execute(SEEING_ALL)
        tokens = sum(connection.execute(revoke, one).rowcount for revoke in REVOKE for one in before.revoked)
        columns = [list(column) for column in zip(*before.rows, strict=True)]
        there = connection.execute(ADD, columns).fetchall() if columns else []
    names = {name for name, memory_id in there if memory_id is None}
    ids: dict[str, list[UUID]] = {}
    for name, memory_id in there:
        if name not in names:
            ids.setdefault(name, []).append(memory_id)
    if there:
        report("Erasing again what was erased since the backup")
        with asyncio.Runner(loop_factory=event_loop) as runner:
            runner.run(_erase(url, names, ids, report))
    return Again(sum(map(len, ids.values())), len(names), tokens)


async def _erase(url: str, names: set[str], ids: dict[str, list[UUID]], report: Callable[[str], None]) -> None:
    database = Database(url)
    await database.open()

    async def relay(message: str) -> None:
        report(message)

    try:
        for name in names:
            await namespaces.take_away_namespace(database, name)
        for name, some in ids.items():
            key, rest = await namespaces.namespace_key(database, name), iter(some)
            while batch := list(islice(rest, BATCH)):
                async with database.transaction(key, member=UPKEEP) as tx:
                    await deletion.erase_memories(tx, batch, session_id=None)
        await namespaces.scrub_files(database, relay)
    finally:
        await database.close()
