"""How a namespace is synchronised, what was changed since it was last written down, and which files were read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from pgengram.errors import Conflict
from pgengram.store.connection import locks
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.reading.transferring import DETAIL_TABLES, TABLES, Table

MEMORY: Final = "memory"
# What a machine knows of a conversation for itself: where its client's own file is and how far that was read, and words
# made of the text.
FOR_ITSELF: Final = {"conversation": ("transcript", "read_to"), "turn": ("terms",)}
TURN: Final = "turn"
# Two machines may say something in the same place of a conversation, so what tells a turn from others is its id alone.
KEYS: Final = {TURN: (("client", "text"), ("conversation", "text"), ("id", "bigint"))}
# Rows that are exchanged each by itself. A memory's history is part of it.
ROWS: Final = tuple(
    replace(table, derived=FOR_ITSELF.get(table.record, table.derived), key=KEYS.get(table.record, table.key))
    for table in TABLES
    if table.record != "history"
)
OF_CONVERSATIONS: Final = ("conversation", TURN, "hidden_turn")
DEVICE: Final = "device.sync"  # the file that a machine writes about itself
USES_EVERY_S: Final = 3600  # seconds between two times that mere uses of a memory are written down

READ: Final = """
SELECT secret, folder, token, device, device_name, writers, problem, exchanged_at FROM sync_settings WHERE namespace_id = %(namespace_id)s
"""
BEGIN: Final = """
INSERT INTO sync_settings (namespace_id, secret, folder, token, device, device_name)
VALUES (%(namespace_id)s, %(secret)s, %(folder)s, %(token)s, %(device)s, %(device_name)s) RETURNING 1
"""
SET_DEVICE: Final = """
UPDATE sync_settings SET device = %(device)s, writers = %(writers)s WHERE namespace_id = %(namespace_id)s
"""
LET_IN: Final = "UPDATE sync_settings SET token = %(token)s WHERE namespace_id = %(namespace_id)s"
SET_OUTCOME: Final = """
UPDATE sync_settings SET problem = %(problem)s::text,
  exchanged_at = CASE WHEN %(problem)s::text IS NULL THEN now() ELSE exchanged_at END
WHERE namespace_id = %(namespace_id)s
"""
END: Final = tuple(
    f"DELETE FROM {table} WHERE namespace_id = %(namespace_id)s"
    for table in ("sync_changes", "sync_documents", "sync_files", "sync_settings")
)

# Uses sync_changes_pkey.
CHANGED: Final = """
SELECT kind, key, at, uses FROM sync_changes
WHERE namespace_id = %(namespace_id)s AND (NOT uses OR at < now() - make_interval(secs => %(uses_every_s)s))
ORDER BY kind, key LIMIT %(limit)s FOR UPDATE
"""
IS_CHANGED: Final = """
SELECT EXISTS (SELECT 1 FROM sync_changes WHERE namespace_id = %(namespace_id)s
  AND (NOT uses OR at < now() - make_interval(secs => %(uses_every_s)s))) AS changed
"""
COUNT_CHANGED: Final = "SELECT count(*) AS changes FROM sync_changes WHERE namespace_id = %(namespace_id)s AND NOT uses"
WHEN_CHANGED: Final = """
SELECT key, at FROM sync_changes WHERE namespace_id = %(namespace_id)s AND kind = %(kind)s AND key = ANY(%(keys)s) AND NOT uses
"""
WRITTEN_DOWN: Final = """
DELETE FROM sync_changes c USING unnest(%(kinds)s::text[], %(keys)s::text[], %(times)s::timestamptz[]) AS w(kind, key, at)
WHERE c.namespace_id = %(namespace_id)s AND c.kind = w.kind AND c.key = w.key AND c.at = w.at
"""
NOTE: Final = """
INSERT INTO sync_changes (namespace_id, kind, key, at, uses)
SELECT %(namespace_id)s, %(kind)s, key, clock_timestamp(), false FROM unnest(%(keys)s::text[]) AS key
ON CONFLICT (namespace_id, kind, key) DO UPDATE SET at = excluded.at, uses = false
"""
NOTE_ALL: Final = """
INSERT INTO sync_changes (namespace_id, kind, key, at, uses)
SELECT namespace_id, 'memory', id::text, updated_at, false FROM memories WHERE namespace_id = %(namespace_id)s
ON CONFLICT (namespace_id, kind, key) DO NOTHING
"""
NOTE_ROWS: Final = sql.SQL("""
INSERT INTO sync_changes (namespace_id, kind, key, at, uses)
SELECT namespace_id, {kind}, jsonb_build_array({key})::text, now(), false FROM {table} WHERE namespace_id = %(namespace_id)s
ON CONFLICT (namespace_id, kind, key) DO NOTHING
""")

# Uses sync_documents_pkey.
DOCUMENTS: Final = """
SELECT key, state, waits FROM sync_documents WHERE namespace_id = %(namespace_id)s AND kind = %(kind)s AND key = ANY(%(keys)s)
"""
KEEP: Final = """
INSERT INTO sync_documents (namespace_id, kind, key, state, disputed, waits)
SELECT %(namespace_id)s, %(kind)s, d.key, d.state, d.disputed, d.waits
FROM jsonb_to_recordset(%(documents)s) AS d(key text, state jsonb, disputed boolean, waits boolean)
ON CONFLICT (namespace_id, kind, key) DO UPDATE
SET state = excluded.state, disputed = excluded.disputed, waits = excluded.waits
"""
# Uses sync_documents_waiting.
WAITING: Final = """
SELECT kind, key, state FROM sync_documents WHERE namespace_id = %(namespace_id)s AND waits ORDER BY kind, key LIMIT %(limit)s
"""
# Uses sync_documents_disputed.
DISPUTED: Final = """
SELECT key, state FROM sync_documents WHERE namespace_id = %(namespace_id)s AND disputed AND kind = 'memory' ORDER BY key LIMIT %(limit)s
"""
COUNT_DISPUTED: Final = """
SELECT count(*) AS disputed FROM sync_documents WHERE namespace_id = %(namespace_id)s AND disputed AND kind = 'memory'
"""
# Erased here, and not imported again. Uses memory_history_pkey and memories_pkey.
ERASED: Final = """
SELECT DISTINCT h.memory_id::text AS id FROM memory_history h
WHERE h.namespace_id = %(namespace_id)s AND h.operation = 'erase'
  AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m.id = h.memory_id)
"""
# Turns that were erased or taken back: what they said must be in no file. Reads all that are known.
REMOVED_TURNS: Final = """
SELECT key FROM sync_documents WHERE namespace_id = %(namespace_id)s AND kind = 'turn' AND jsonb_exists(state, 'gone')
"""
# All rows, as they are once they are removed.
REMOVED_ROWS: Final = """
SELECT kind, key, CASE WHEN kind = 'turn' THEN '{"seen": {}, "entries": {}, "gone": true}'::jsonb
  ELSE jsonb_build_object('seen', state -> 'seen', 'entries', '{}'::jsonb) END AS state FROM sync_documents WHERE namespace_id = %(namespace_id)s AND kind <> 'memory'
"""
ALL_IDS: Final = "SELECT id::text AS id FROM memories WHERE namespace_id = %(namespace_id)s"

FILES: Final = "SELECT device, name, mark, written, problem FROM sync_files WHERE namespace_id = %(namespace_id)s"
NOTE_FILES: Final = """
INSERT INTO sync_files (namespace_id, device, name, mark, written, problem)
SELECT %(namespace_id)s, f.device, f.name, f.mark, f.written, f.problem
FROM jsonb_to_recordset(%(files)s) AS f(device text, name text, mark text, written boolean, problem text)
ON CONFLICT (namespace_id, device, name) DO UPDATE
SET mark = excluded.mark, written = sync_files.written OR excluded.written, problem = excluded.problem
"""

DROP_FILES: Final = """
DELETE FROM sync_files WHERE namespace_id = %(namespace_id)s AND device = %(device)s AND name = ANY(%(names)s)
"""

# The mark of the file about this machine: a digest of what it last said was erased, and the day of that, empty if
# something was erased since.
LAST_ERASURE_NOTICE: Final = """
SELECT mark FROM sync_files WHERE namespace_id = %(namespace_id)s AND device = %(device)s AND name = %(name)s AND written
"""
NOTE_ERASURE: Final = """
UPDATE sync_files SET mark = split_part(mark, ' ', 1) || ' ' WHERE namespace_id = %(namespace_id)s AND name = %(name)s AND written
"""
SAY_AGAIN: Final = "DELETE FROM sync_files WHERE namespace_id = %(namespace_id)s AND name = %(name)s AND written"

# -- triggers: only stores that synchronise have them ------------------------------------------------------------------

# A trigger's arguments: the kind of document, whether it tells of a use only, and for any but a memory the columns of
# its key.
NOTE_CHANGE_FUNCTION: Final = """
CREATE OR REPLACE FUNCTION pgengram_note_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE changed jsonb; named text;
BEGIN
  IF TG_NARGS > 2 THEN
    changed := CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END;
    SELECT jsonb_agg(changed ->> TG_ARGV[place] ORDER BY place)::text INTO named FROM generate_series(2, TG_NARGS - 1) AS place;
  ELSIF TG_TABLE_NAME = 'memories' THEN
    named := CASE TG_OP WHEN 'DELETE' THEN OLD.id ELSE NEW.id END;
  ELSE
    named := CASE TG_OP WHEN 'DELETE' THEN OLD.memory_id ELSE NEW.memory_id END;
  END IF;
  INSERT INTO sync_changes AS c (namespace_id, kind, key, at, uses)
  SELECT CASE TG_OP WHEN 'DELETE' THEN OLD.namespace_id ELSE NEW.namespace_id END, TG_ARGV[0], named, clock_timestamp(), TG_ARGV[1] = 'uses'
  FROM sync_settings s WHERE s.namespace_id = CASE TG_OP WHEN 'DELETE' THEN OLD.namespace_id ELSE NEW.namespace_id END
  ON CONFLICT (namespace_id, kind, key) DO UPDATE
  SET at = CASE WHEN excluded.uses THEN c.at ELSE excluded.at END, uses = c.uses AND excluded.uses;
  RETURN NULL;
END
$$
"""
PARTS: Final = ("memory_tags", *DETAIL_TABLES)
SILENT: Final = "WHEN (current_setting('pgengram.syncing', true) IS DISTINCT FROM 'on')"
HAS_TRIGGERS: Final = """
SELECT count(*) AS triggers FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE t.tgname LIKE 'pgengram\\_notes\\_%%' AND c.relnamespace = quote_ident(current_schema())::regnamespace
"""


def _triggers() -> dict[str, tuple[str, str, str]]:
    """Return for each trigger its table, its events, and the arguments of its function."""
    every = "INSERT OR UPDATE OR DELETE"
    memory = {table: (table, every, "'memory', ''") for table in ("memories", *PARTS)}
    rows = {
        table.name: (table.name, every, ", ".join(f"'{word}'" for word in (table.record, "", *_key(table))))
        for table in ROWS
    }
    return {
        **memory,
        **rows,
        "importance": ("memory_activation", "UPDATE OF importance, rate_per_day, started_at", "'memory', ''"),
        "uses": ("memory_activation", "UPDATE OF access_count, reinforcement", "'memory', 'uses'"),
        "history": ("memory_history", "UPDATE OF changes", "'memory', ''"),
    }


def _key(table: Table) -> list[str]:
    return [name for name, _ in table.key]


async def has_triggers(tx: Transaction) -> bool:
    """Whether all that is changed is noted; a store that was restored from a backup has to be told to do so again."""
    found = await tx.row(HAS_TRIGGERS)
    return bool(found and found["triggers"] == len(_triggers()))


async def install_triggers(connection: psycopg.AsyncConnection[Row]) -> None:
    """Have each transaction note what it changes in a namespace that is synchronised; as the tables' owner."""
    await connection.execute(NOTE_CHANGE_FUNCTION)
    for name, (table, events, arguments) in _triggers().items():
        await connection.execute(
            f"CREATE OR REPLACE TRIGGER pgengram_notes_{name} AFTER {events} ON {table} FOR EACH ROW {SILENT} "
            f"EXECUTE FUNCTION pgengram_note_change({arguments})"
        )


# -- settings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Settings:
    """How a namespace is synchronised.

    secret: the key's bytes; folder: a path or an address; writers: processes of this device that wrote files; token:
    that lets it into a server; exchanged_at: when that last succeeded.
    """

    secret: bytes
    folder: str
    device: str
    device_name: str
    writers: tuple[str, ...]
    problem: str | None
    token: str | None = field(default=None, repr=False)
    exchanged_at: datetime | None = None


async def settings(tx: Transaction) -> Settings | None:
    """Return how the namespace is synchronised, if it is."""
    row = await tx.row(READ)
    if row is None:
        return None
    return Settings(
        bytes(row["secret"]),
        row["folder"],
        row["device"],
        row["device_name"],
        tuple(row["writers"]),
        row["problem"],
        row["token"],
        row["exchanged_at"],
    )


async def begin(tx: Transaction, given: Settings) -> None:
    """Begin to synchronise: everything there is counts as changed."""
    names = {name: getattr(given, name) for name in ("secret", "folder", "token", "device", "device_name")}
    await tx.rows(BEGIN, names)
    await note_everything(tx)


async def note_everything(tx: Transaction) -> None:
    """Have all that there is written down, and said again what was erased."""
    await tx.run(SAY_AGAIN, {"name": DEVICE})
    await tx.run(NOTE_ALL)
    for table in ROWS:
        key = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in _key(table))
        await tx.run(NOTE_ROWS.format(kind=sql.Literal(table.record), key=key, table=sql.Identifier(table.name)))


async def end(tx: Transaction) -> None:
    """Synchronise no longer; the memories stay."""
    for statement in END:
        await tx.run(statement)


async def lock(tx: Transaction) -> None:
    """Be the only one who synchronises the namespace until the transaction ends.

    Raises:
        Conflict: somebody else does.
    """
    row = await tx.row(locks.TRY_IN_NAMESPACE, {"key": locks.SYNC})
    if not (row and row["taken"]):
        raise Conflict("Another process synchronises now.", "Call again in a moment.")


# -- what was changed, and what is known -------------------------------------------------------------------------------


async def changed(tx: Transaction, limit: int, turns: int) -> list[Row]:
    """Return what was changed and is not written down: `kind`, `key`, `at`, and whether it was only used (`uses`).

    So many at most, and when nothing else is left so many `turns`, which may be much longer.
    """
    rows = await tx.rows(CHANGED, {"limit": limit, "uses_every_s": USES_EVERY_S})
    return [row for row in rows if row["kind"] != TURN] or rows[:turns]


async def is_changed(tx: Transaction) -> bool:
    """Whether there is something to write down."""
    row = await tx.row(IS_CHANGED, {"uses_every_s": USES_EVERY_S})
    return bool(row and row["changed"])


async def written_down(tx: Transaction, rows: Sequence[Row]) -> None:
    """Note that changes were written down, unless there was another since."""
    columns = {name: [row[one] for row in rows] for name, one in (("kinds", "kind"), ("keys", "key"), ("times", "at"))}
    await tx.run(WRITTEN_DOWN, columns)


async def note_changed(tx: Transaction, kind: str, keys: Collection[str]) -> None:
    """Note changes that no trigger saw."""
    if keys:
        await tx.run(NOTE, {"kind": kind, "keys": sorted(keys)})


async def note_untold(
    tx: Transaction, kind: str, seen: Mapping[str, Any], known: Mapping[str, Any], changed: Collection[str]
) -> None:
    """Note what rows came to say by themselves: it has numbers that no other machine ever hears of else. By their keys
    are given which numbers they have `seen` now, what was `known` of them, and those of which a change is noted.
    """
    before = {key: known[key]["seen"] if key in known else {} for key in seen}
    await note_changed(tx, kind, [key for key in seen if key not in changed and seen[key] != before[key]])


async def documents(tx: Transaction, kind: str, keys: Collection[str]) -> tuple[dict[str, Any], set[str]]:
    """Return what is known of memories or rows, as JSON, by their keys, and the keys of those that wait for what they
    lead to, and are not here yet.
    """
    found = await tx.rows(DOCUMENTS, {"kind": kind, "keys": list(keys)})
    return {row["key"]: row["state"] for row in found}, {row["key"] for row in found if row["waits"]}


async def keep(tx: Transaction, kind: str, states: Sequence[Mapping[str, Any]]) -> None:
    """Keep what is known now: `key`, `state`, whether it is `disputed`, and whether it `waits` for what it leads to."""
    if states:
        await tx.run(KEEP, {"kind": kind, "documents": Jsonb(list(states))})


async def last_erasure_notice(tx: Transaction, device: str) -> tuple[str, str]:
    """Return a digest of what this device last said was erased, and the day of that; empty if there is more to say."""
    row = await tx.row(LAST_ERASURE_NOTICE, {"device": device, "name": DEVICE})
    digest, _, day = str(row["mark"] if row else "").partition(" ")
    return digest, day


async def removed_turns(tx: Transaction) -> set[str]:
    """Return the keys of turns that were known and are not kept any more."""
    return {row["key"] for row in await tx.rows(REMOVED_TURNS)}


async def note_files(tx: Transaction, files: Sequence[Mapping[str, Any]]) -> None:
    """Note files that were read or written: `device`, `name`, `mark`, whether `written` here, and a `problem`."""
    if files:
        await tx.run(NOTE_FILES, {"files": Jsonb(list(files))})


async def note_erasure(tx: Transaction) -> None:
    """Note that something was erased, which the other machines have to be told."""
    await tx.run(NOTE_ERASURE, {"name": DEVICE})


async def erased(tx: Transaction) -> set[str]:
    """Return the ids of all memories that were erased."""
    return {row["id"] for row in await tx.rows(ERASED)}
