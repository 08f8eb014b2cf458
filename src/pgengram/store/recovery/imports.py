"""Imports: what each stored is noted in the transaction that stores it, so that one can be undone.

An undo forgets the memories that nobody has touched since, and removes the turns that nothing cites; what another
import had, too, stays until that one is undone. What was forgotten comes back when the same file is imported again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram import fields as f
from pgengram.errors import ConfirmRequired, Conflict, InvalidInput, NotFound
from pgengram.ids import SHORT_DIGITS, short, uuid7
from pgengram.store import clusters, membership, turn_arrivals
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.maintenance.namespaces import PATIENTLY
from pgengram.store.memory import deletion, memories, statements
from pgengram.store.memory import statements as s
from pgengram.store.turn_arrivals import Name, clean
from pgengram.text.shown import counted

BATCH: Final = 500  # memories changed by one statement
EXAMPLES: Final = 5
LISTED: Final = 100
# Why something that was imported stays. A memory that was forgotten or erased since needs no undo.
REASONS: Final = {
    "changed": "changed since the import",
    "linked": "linked since the import",
    "confirmed": "confirmed since the import",
    "cited": "cited by a memory",
    "copied": "also part of another conversation",
    "imported": "also in another import",
}
FIND_IT: Final = "`pgengram import --list` shows the imports."

# The clock of whoever imports dates what a file does not date; that of the database dates what anybody does later.
NOTE: Final = """
INSERT INTO memory_imports AS i (namespace_id, id, name, system, actor, ended_at)
VALUES (%(namespace_id)s, %(import_id)s, %(name)s, %(system)s, %(actor)s, greatest(now(), %(at)s::timestamptz))
ON CONFLICT (namespace_id, id) DO UPDATE SET ended_at = greatest(i.ended_at, excluded.ended_at)
"""
# Uses memories_pkey and imported_memories_pkey.
NOTE_MEMORIES: Final = """
INSERT INTO imported_memories (namespace_id, memory_id, import_id, version, at)
SELECT %(namespace_id)s, m.id, %(import_id)s, m.version, greatest(now(), %(at)s::timestamptz) FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.id = ANY(%(ids)s)
ON CONFLICT (namespace_id, memory_id, import_id) DO NOTHING
"""
# What an import changes of what it stored itself is its own. Uses imported_memories_pkey and memories_pkey.
NOTE_VERSIONS: Final = """
UPDATE imported_memories i SET version = m.version FROM memories m
WHERE i.namespace_id = %(namespace_id)s AND i.import_id = %(import_id)s AND i.memory_id = ANY(%(ids)s)
  AND m.namespace_id = %(namespace_id)s AND m.id = i.memory_id
"""
NOTE_TURNS: Final = """
INSERT INTO imported_turns AS t (namespace_id, import_id, client, conversation, turn_ids)
SELECT %(namespace_id)s, %(import_id)s, g.client, g.conversation, g.turn_ids
FROM jsonb_to_recordset(%(turns)s) AS g(client text, conversation text, turn_ids bigint[])
ON CONFLICT (namespace_id, import_id, client, conversation) DO UPDATE SET turn_ids = t.turn_ids || excluded.turn_ids
"""
# Another import of what is called the same, which is mostly the same file again. Reads all of the namespace's imports.
FIND_SAME: Final = """
SELECT 1 FROM memory_imports WHERE namespace_id = %(namespace_id)s AND name = %(name)s AND system = %(system)s
  AND id <> %(import_id)s AND undone_at IS NULL LIMIT 1
"""
OF_OTHERS: Final = """
JOIN memory_imports i ON i.namespace_id = %(namespace_id)s AND i.id = o.import_id
WHERE o.namespace_id = %(namespace_id)s AND i.undone_at IS NULL AND i.id <> %(import_id)s"""
# Each what an import found that others had stored. Uses imported_memories_pkey and imported_turns by the namespace.
FIND_STORED: Final = (
    f"SELECT DISTINCT o.memory_id AS id FROM imported_memories o {OF_OTHERS} AND o.memory_id = ANY(%(ids)s)"
)
FIND_STORED_TURNS: Final = f"""
WITH given AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(%(turns)s) AS g(client text, conversation text, turn_ids bigint[])
), stored AS MATERIALIZED (
  SELECT o.client, o.conversation, unnest(o.turn_ids) AS id FROM imported_turns o {OF_OTHERS}
    AND (o.client, o.conversation) IN (SELECT client, conversation FROM given)
)
SELECT g.client, g.conversation, array_agg(u.id) AS turn_ids FROM given g, unnest(g.turn_ids) AS u(id)
WHERE (g.client, g.conversation, u.id) IN (SELECT client, conversation, id FROM stored) GROUP BY 1, 2
"""
# As they were when they were stored: whoever changed one before this import found it has changed it nevertheless.
NOTE_FOUND: Final = f"""
INSERT INTO imported_memories (namespace_id, memory_id, import_id, version, at)
SELECT DISTINCT ON (o.memory_id) o.namespace_id, o.memory_id, %(import_id)s::uuid, o.version, o.at
FROM imported_memories o {OF_OTHERS} AND o.memory_id = ANY(%(ids)s) ORDER BY o.memory_id, o.version DESC
ON CONFLICT (namespace_id, memory_id, import_id) DO NOTHING
"""
# Of a file that is imported again and again, who stored something and the last that found it are enough.
BETWEEN: Final = """
JOIN memory_imports i ON i.namespace_id = %(namespace_id)s AND i.id = o.import_id
WHERE o.namespace_id = %(namespace_id)s AND i.undone_at IS NULL AND i.id < m.import_id"""
LET_GO: Final = f"""
DELETE FROM imported_memories m USING memory_imports s
WHERE m.namespace_id = %(namespace_id)s AND m.memory_id = ANY(%(ids)s) AND m.import_id <> %(import_id)s
  AND s.namespace_id = %(namespace_id)s AND s.id = m.import_id AND s.undone_at IS NULL AND s.name = %(name)s
  AND s.system = %(system)s AND EXISTS (SELECT 1 FROM imported_memories o {BETWEEN} AND o.memory_id = m.memory_id)
"""
LET_GO_TURNS: Final = f"""
UPDATE imported_turns m SET turn_ids = ARRAY(SELECT u.id FROM unnest(m.turn_ids) AS u(id) WHERE u.id <> ALL(g.turn_ids)
  OR NOT EXISTS (SELECT 1 FROM imported_turns o {BETWEEN}
    AND o.client = m.client AND o.conversation = m.conversation AND u.id = ANY(o.turn_ids)))
FROM jsonb_to_recordset(%(turns)s) AS g(client text, conversation text, turn_ids bigint[]), memory_imports s
WHERE m.namespace_id = %(namespace_id)s AND m.client = g.client AND m.conversation = g.conversation
  AND m.import_id <> %(import_id)s AND s.namespace_id = %(namespace_id)s AND s.id = m.import_id
  AND s.undone_at IS NULL AND s.name = %(name)s AND s.system = %(system)s
"""
# Uses memory_imports_pkey.
NOTE_OTHERS: Final = """
UPDATE memory_imports SET others = jsonb_set(others, ARRAY[%(record)s::text],
  to_jsonb(coalesce((others ->> %(record)s)::integer, 0) + %(count)s::integer))
WHERE namespace_id = %(namespace_id)s AND id = %(import_id)s
"""
COLUMNS: Final = """
SELECT i.id, i.name, i.system, i.actor, i.others, i.began_at, i.ended_at, i.undone_at,
  (SELECT count(*) FROM imported_memories m WHERE m.namespace_id = %(namespace_id)s AND m.import_id = i.id) AS memories,
  (SELECT coalesce(sum(cardinality(t.turn_ids)), 0)::bigint FROM imported_turns t
   WHERE t.namespace_id = %(namespace_id)s AND t.import_id = i.id) AS turns
FROM memory_imports i WHERE i.namespace_id = %(namespace_id)s"""
# Each reads all of the namespace's imports, which are few; uses imported_memories_by_import and imported_turns_pkey.
LIST: Final = f"{COLUMNS} ORDER BY i.began_at DESC, i.id DESC LIMIT %(limit)s"
FIND: Final = f"""{COLUMNS}
  AND (i.name = ANY(%(names)s) OR (length(%(digits)s) >= {SHORT_DIGITS}
    AND right(replace(i.id::text, '-', ''), length(%(digits)s)) = %(digits)s))
ORDER BY i.undone_at IS NOT NULL, i.began_at DESC, i.id DESC"""
FIND_LAST: Final = f"{COLUMNS} AND i.undone_at IS NULL ORDER BY i.began_at DESC, i.id DESC LIMIT 1"
# Each uses memory_imports_pkey. Whoever undoes the same import waits for who holds it.
READ: Final = f"{COLUMNS} AND i.id = %(import_id)s"
HOLD: Final = f"{READ} FOR UPDATE OF i"
# Uses imported_memories_pkey and memory_imports_pkey.
ORIGIN: Final = """
SELECT i.id, i.name, i.system, i.began_at, i.undone_at FROM imported_memories m
JOIN memory_imports i ON i.namespace_id = %(namespace_id)s AND i.id = m.import_id
WHERE m.namespace_id = %(namespace_id)s AND m.memory_id = %(id)s ORDER BY i.began_at DESC LIMIT 1
"""
# Uses imported_memories_by_import.
IDS: Final = """
SELECT memory_id AS id FROM imported_memories WHERE namespace_id = %(namespace_id)s AND import_id = %(import_id)s
"""
# Somebody leads to a memory: by a link that was made or changed since, or that a later import brought; by a cluster, a
# belief, or a forgotten memory that it replaces. Uses imported_memories_by_import, memories_pkey, both indexes of
# memory_relationships, memory_cluster_members_by_memory, memory_belief_evidence_by_memory and memories_hidden.
MEMORIES: Final = f"""
WITH this AS MATERIALIZED (
  SELECT id, ended_at FROM memory_imports WHERE namespace_id = %(namespace_id)s AND id = %(import_id)s
), mine AS MATERIALIZED (
  SELECT memory_id AS id, version, at FROM imported_memories WHERE namespace_id = %(namespace_id)s AND import_id = %(import_id)s
), later AS MATERIALIZED (
  SELECT o.memory_id AS id FROM imported_memories o
  JOIN memory_imports i ON i.namespace_id = %(namespace_id)s AND i.id = o.import_id CROSS JOIN this
  WHERE o.namespace_id = %(namespace_id)s AND i.undone_at IS NULL AND i.id <> this.id AND i.began_at > this.ended_at
    AND o.memory_id NOT IN (SELECT id FROM mine)
), led AS MATERIALIZED (
  SELECT mine.id FROM mine CROSS JOIN this JOIN memory_relationships r ON r.namespace_id = %(namespace_id)s AND r.to_id = mine.id
  WHERE r.updated_at > this.ended_at OR r.from_id IN (SELECT id FROM later)
  UNION SELECT mine.id FROM mine CROSS JOIN this JOIN memory_relationships r ON r.namespace_id = %(namespace_id)s AND r.from_id = mine.id
  WHERE r.updated_at > this.ended_at OR r.to_id IN (SELECT id FROM later)
  UNION SELECT mine.id FROM mine CROSS JOIN this JOIN memory_cluster_members c ON c.namespace_id = %(namespace_id)s AND c.memory_id = mine.id
  WHERE NOT c.automatic AND c.added_at > this.ended_at
  UNION SELECT mine.id FROM mine CROSS JOIN this JOIN memory_belief_evidence e ON e.namespace_id = %(namespace_id)s AND e.memory_id = mine.id
  WHERE e.added_at > this.ended_at
  UNION SELECT unnest(o.replaced_by) FROM memories o
  WHERE o.namespace_id = %(namespace_id)s AND o.status <> 'active' AND o.replaced_by IS NOT NULL
    AND o.id NOT IN (SELECT id FROM mine)
)
SELECT m.id, m.version, m.status, m.reason, m.valid_to, m.person_id, left(m.content, 200) AS content,
  CASE WHEN m.id IN (SELECT id FROM led) THEN 'linked' WHEN m.version <> mine.version THEN 'changed'
    WHEN m.last_confirmed_at > mine.at THEN 'confirmed'
    WHEN m.id IN (SELECT o.memory_id FROM imported_memories o {OF_OTHERS}) THEN 'imported' END AS stays
FROM mine JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = mine.id
WHERE m.status <> 'invalidated' ORDER BY m.created_at, m.id
"""
# Uses imported_turns_pkey and conversation_turns_pkey; what is copied, hidden_turns_by_source for each client.
TURNS: Final = f"""
WITH noted AS MATERIALIZED (
  SELECT client, conversation, turn_ids FROM imported_turns WHERE namespace_id = %(namespace_id)s AND import_id = %(import_id)s
), mine AS MATERIALIZED (
  SELECT DISTINCT client, conversation, unnest(turn_ids) AS id FROM noted
), others AS MATERIALIZED (
  SELECT o.client, o.conversation, unnest(o.turn_ids) AS id FROM imported_turns o {OF_OTHERS}
    AND (o.client, o.conversation) IN (SELECT client, conversation FROM noted)
), copied AS MATERIALIZED (
  SELECT h.client, coalesce(h.copy_of, h.source_key) AS key, h.digest FROM hidden_turns h
  WHERE h.namespace_id = %(namespace_id)s AND NOT h.withdrawn
    AND (h.client, h.conversation) NOT IN (SELECT client, conversation FROM noted)
)
SELECT t.client, t.conversation, t.number, t.id, t.role, left(t.text, 200) AS text, md5(t.text) AS version,
  CASE WHEN (t.client, coalesce(t.copy_of, t.source_key), md5(t.text)) IN (SELECT client, key, digest FROM copied) THEN 'copied'
    WHEN (t.client, t.conversation, t.id) IN (SELECT client, conversation, id FROM others) THEN 'imported' END AS stays
FROM mine JOIN conversation_turns t ON t.namespace_id = %(namespace_id)s AND t.client = mine.client
  AND t.conversation = mine.conversation AND t.id = mine.id
ORDER BY t.client, t.conversation, t.number, t.id
"""
# Reads all of the namespace's memories: nothing indexes what they cite.
CITING: Final = """
SELECT id, sources FROM memories
WHERE namespace_id = %(namespace_id)s AND status <> 'invalidated' AND jsonb_typeof(sources) = 'array' AND id <> ALL(%(but)s)
"""
# Uses imported_memories_pkey and memories_pkey.
MARK: Final = """
UPDATE imported_memories i SET before_undo = m.updated_at FROM memories m
WHERE i.namespace_id = %(namespace_id)s AND i.import_id = %(import_id)s AND i.memory_id = ANY(%(ids)s)
  AND m.namespace_id = %(namespace_id)s AND m.id = i.memory_id
"""
# Uses memories_pkey.
FORGET: Final = """
UPDATE memories SET status = 'invalidated', reason = %(reason)s, valid_to = coalesce(valid_to, moment.at),
  version = version + 1, updated_at = moment.at
FROM (SELECT now() AS at OFFSET 0) AS moment
WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s) RETURNING id, version, valid_to
"""
TELL: Final = """
INSERT INTO memory_history (namespace_id, memory_id, version, operation, changes)
SELECT %(namespace_id)s, g.id, g.version, %(operation)s, g.changes
FROM jsonb_to_recordset(%(entries)s) AS g(id uuid, version integer, changes jsonb) RETURNING 1
"""
# Copies of turns that are gone, and of conversations of which nothing is left; or the same file would not bring them
# again. Uses hidden_turns_by_source and hidden_turns_pkey.
DROP_COPIES: Final = """
DELETE FROM hidden_turns h WHERE h.namespace_id = %(namespace_id)s AND NOT h.withdrawn AND EXISTS (
  SELECT 1 FROM imported_turns i WHERE i.namespace_id = %(namespace_id)s AND i.import_id = %(import_id)s
    AND i.client = h.client AND i.conversation = h.conversation)
  AND (NOT EXISTS (SELECT 1 FROM conversation_turns t WHERE t.namespace_id = %(namespace_id)s AND t.client = h.client
      AND coalesce(t.copy_of, t.source_key) = coalesce(h.copy_of, h.source_key) AND md5(t.text) = h.digest)
    OR NOT EXISTS (SELECT 1 FROM conversation_turns t WHERE t.namespace_id = %(namespace_id)s AND t.client = h.client
      AND t.conversation = h.conversation))
"""
# Uses memory_imports_pkey.
UNDONE: Final = (
    "UPDATE memory_imports SET undone_at = now() WHERE namespace_id = %(namespace_id)s AND id = %(import_id)s"
)
# What an undo forgot and nobody has touched since, with what its history says of that. Uses imported_memories_pkey,
# memories_pkey and memory_history_pkey.
FORGOTTEN: Final = """
SELECT m.id, m.content_hash, m.reason, m.valid_to, i.before_undo, h.changes FROM imported_memories i
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = i.memory_id
JOIN memory_history h ON h.namespace_id = %(namespace_id)s AND h.memory_id = m.id AND h.version = m.version
WHERE i.namespace_id = %(namespace_id)s AND i.memory_id = ANY(%(ids)s) AND i.before_undo IS NOT NULL
  AND m.status = 'invalidated' AND m.version = i.version + 1
"""
# Uses memories_pkey.
RESTORE: Final = """
UPDATE memories m SET status = g.status, reason = g.reason, valid_to = g.valid_to, version = m.version + 1,
  updated_at = coalesce(g.updated_at, moment.at)
FROM jsonb_to_recordset(%(rows)s) AS g(id uuid, status text, reason text, valid_to timestamptz, updated_at timestamptz),
  (SELECT now() AS at OFFSET 0) AS moment
WHERE m.namespace_id = %(namespace_id)s AND m.id = g.id RETURNING m.id, m.version
"""
# Uses imported_turns_pkey and memory_imports_pkey.
REMOVED: Final = """
SELECT u.id FROM imported_turns t
JOIN memory_imports i ON i.namespace_id = %(namespace_id)s AND i.id = t.import_id CROSS JOIN unnest(t.turn_ids) AS u(id)
WHERE t.namespace_id = %(namespace_id)s AND i.undone_at IS NOT NULL AND u.id = ANY(%(ids)s)
"""


# -- noting ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Note:
    """Notes what one import stores, each time in the transaction that stores it.

    name: of the file; system: that it is of; actor: who imports it; id: of the import, which is there once something
    was stored.
    """

    name: str
    system: str
    actor: str | None
    id: UUID = field(default_factory=uuid7)
    _has_begun: bool = False
    _named: set[Name] = field(default_factory=set)  # conversations that are noted once something is stored
    _found: set[UUID] = field(default_factory=set)  # memories that were there, and turns
    _found_turns: dict[Name, set[int]] = field(default_factory=dict)

    async def memories(self, tx: Transaction, ids: Sequence[UUID]) -> None:
        """Note memories that were stored or restored."""
        if ids:
            await tx.run(NOTE_MEMORIES, await self._begun(tx, ids=list(ids)))

    async def changed(self, tx: Transaction, ids: Sequence[UUID]) -> None:
        """Note memories that took over what the file says."""
        await self.versions(tx, ids)
        await self.others(tx, "changed_memory", len(ids))

    async def versions(self, tx: Transaction, ids: Sequence[UUID]) -> None:
        """Note that memories have new versions by this import: those that it stored are still its own."""
        if ids:
            await tx.run(NOTE_VERSIONS, await self._begun(tx, ids=list(ids)))

    async def turns(self, tx: Transaction, named: Iterable[Name], stored: Iterable[tuple[Name, int | None]]) -> None:
        """Note turns that were stored, and the conversations that the file tells of, which may have only copies."""
        self._named |= set(named)
        ids: dict[Name, list[int]] = {name: [] for name in self._named}
        for name, id_ in stored:
            ids.setdefault(name, []).extend([] if id_ is None else [id_])
        if self._has_begun or any(ids.values()):
            rows = [{"client": client, "conversation": id_, "turn_ids": its} for (client, id_), its in ids.items()]
            await tx.run(NOTE_TURNS, await self._begun(tx, turns=Jsonb(rows)))
            self._named.clear()

    async def others(self, tx: Transaction, record: str, count: int, its_own: int = 0) -> None:
        """Note how many records of another kind were stored, but for those of memories that the import stored."""
        if count:
            given = await self._begun(tx, record=record, count=count - its_own)
            if count > its_own:
                await tx.run(NOTE_OTHERS, given)

    def found(self, ids: Iterable[UUID]) -> None:
        """Keep in mind which memories of the file were there."""
        self._found |= set(ids)

    def found_turns(self, ids: Iterable[tuple[Name, int | None]]) -> None:
        """Keep in mind which turns of the file were there."""
        for name, id_ in ids:
            self._found_turns.setdefault(name, set()).update([] if id_ is None else [id_])

    async def end(self, tx: Transaction) -> None:
        """Note what other imports have stored of this file; of a file that is imported again, if it had more, too."""
        about = {"import_id": self.id, "name": self.name, "system": self.system}
        if not self._has_begun and await tx.row(FIND_SAME, about):
            return
        await tx.run(PATIENTLY)
        ids = [row["id"] for row in await tx.rows(FIND_STORED, {**about, "ids": list(self._found)})]
        named = [
            {"client": client, "conversation": id_, "turn_ids": list(its)}
            for (client, id_), its in self._found_turns.items()
        ]
        turns = await tx.rows(FIND_STORED_TURNS, {**about, "turns": Jsonb(named)}) if named else []
        if ids or turns:
            given = about | await self._begun(tx, ids=ids, turns=Jsonb(turns))
            for statement in (NOTE_FOUND, LET_GO, NOTE_TURNS, LET_GO_TURNS):
                await tx.run(statement, given)

    async def _begun(self, tx: Transaction, **given: Any) -> dict[str, Any]:
        self._has_begun = True
        key = {"import_id": self.id, "at": datetime.now(UTC)}
        await tx.run(NOTE, {**key, "name": self.name, "system": self.system, "actor": self.actor})
        return {**key, **given}


# -- looking -----------------------------------------------------------------------------------------------------------


async def noted_imports(tx: Transaction, limit: int = LISTED) -> list[Row]:
    """Return the imports, the latest first, each with how many `memories` and `turns` it stored."""
    return await tx.rows(LIST, {"limit": limit})


async def find_import(tx: Transaction, given: str = "") -> Row:
    """Return the import that has an id, or the end of one, or the latest of a file of that name or path; without
    either the latest that was not undone.

    Raises:
        NotFound: there is none. InvalidInput: nothing was named, and none is left to undo.
        Conflict: several end in the same digits.
    """
    if not given:
        row = await tx.row(FIND_LAST)
        if row is None:
            raise InvalidInput("No import can be undone here.", FIND_IT)
        return row
    given = clean(given)
    names = [given, PurePath(given).name]
    rows = await tx.rows(FIND, {"names": names, "digits": given.replace("-", "").lower()})
    if not rows:
        raise NotFound("import", given[: f.MAX_TAG], FIND_IT)
    if len({row["name"] for row in rows}) > 1:
        ends = ", ".join(f"{short(row['id'])} ({row['name']})" for row in rows[:EXAMPLES])
        raise Conflict(f"{given} may mean several imports: {ends}.", "Give the 8 digits of one.")
    return rows[0]


async def import_of(tx: Transaction, memory_id: UUID) -> Row | None:
    """Return the last import that stored a memory; None where none did."""
    return await tx.row(ORIGIN, {"id": memory_id})


@dataclass(frozen=True)
class Undo:
    """What undoing an import would do, and what it would leave.

    Attributes:
        row: the import, as `noted_imports` has it.
        memories: those of it that are not forgotten; `stays` says why one is left, and is None for one that is taken.
        turns: the same of the turns that are there.
    """

    row: Row
    memories: Sequence[Row]
    turns: Sequence[Row]

    @cached_property
    def taken(self) -> list[Row]:
        """The memories that are forgotten."""
        return [row for row in self.memories if row["stays"] is None]

    @cached_property
    def removed(self) -> list[Row]:
        """The turns that are removed."""
        return [row for row in self.turns if row["stays"] is None]

    @cached_property
    def left(self) -> dict[tuple[str, str], list[Row]]:
        """What stays, by the kind of record and the reason in words."""
        found: dict[tuple[str, str], list[Row]] = {}
        for name, reason in REASONS.items():
            for record, rows in (("memory", self.memories), ("turn", self.turns)):
                if its := [row for row in rows if row["stays"] == name]:
                    found[record, reason] = its
        return found

    @cached_property
    def conversations(self) -> int:
        """How many conversations turns are removed from."""
        return len({(row["client"], row["conversation"]) for row in self.removed})

    @property
    def gone(self) -> int:
        """How many of the memories that it stored were forgotten or erased since."""
        return int(self.row["memories"]) - len(self.memories)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to take back."""
        return not (self.taken or self.removed)

    @property
    def summary(self) -> str:
        """How many memories are forgotten and turns removed, in words."""
        turns, kept_in = len(self.removed), self.conversations
        removed = f"{counted(turns, 'turn', 'turns')} of {counted(kept_in, 'conversation', 'conversations')} removed"
        parts = [f"{counted(len(self.taken))} forgotten"] if self.taken or not self.removed else []
        return ", ".join([*parts, *([removed] if self.removed else [])])

    @property
    def fingerprint(self) -> str:
        """A digest of everything that is shown: whoever agrees, agrees to exactly this."""
        shown = [[str(row["id"]), row.get("version"), row["stays"]] for row in (*self.memories, *self.turns)]
        text = json.dumps([str(self.row["id"]), self.row["others"], self.gone, shown], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        stays = [
            {"record": record, "reason": reason, "count": len(rows), "ids": [str(row["id"]) for row in rows]}
            for (record, reason), rows in self.left.items()
        ]
        return {
            "import": import_as_json(self.row),
            "forgets": [str(row["id"]) for row in self.taken],
            "removes_turns": len(self.removed),
            "stays": stays,
            "gone_before": self.gone,
        }


def import_as_json(row: Row) -> dict[str, Any]:
    """Return an import as JSON has it."""
    moments = {name: f.as_utc(row[name]) for name in ("began_at", "ended_at", "undone_at")}
    return {**row, **moments, "id": str(row["id"])}


async def planned_undo(tx: Transaction, import_id: UUID, *, lock: bool = False) -> Undo:
    """Return what undoing an import would do now; with `lock` nobody changes that until the transaction ends.

    Raises:
        NotFound: there is no such import. Conflict: it was undone already.
    """
    row = await _import_to_undo(tx, import_id, lock=lock)
    found = await tx.rows(MEMORIES, {"import_id": import_id})
    turns = await tx.rows(TURNS, {"import_id": import_id})
    cited = await _cited_turns(tx, but=[row["id"] for row in found if row["stays"] is None]) if turns else set()
    for turn in turns:
        if (turn["client"], turn["conversation"], turn["number"]) in cited:
            turn["stays"] = "cited"
    return Undo(row, found, turns)


async def _import_to_undo(tx: Transaction, import_id: UUID, *, lock: bool) -> Row:
    await tx.run(PATIENTLY)  # it may have stored very much
    if lock:
        await tx.rows(s.LOCK, {"ids": [row["id"] for row in await tx.rows(IDS, {"import_id": import_id})]})
    row = await tx.row(HOLD if lock else READ, {"import_id": import_id})
    if row is None:
        raise NotFound("import", import_id, FIND_IT)
    if row["undone_at"] is not None:
        raise Conflict(
            f"The import of {row['name']} was undone already.", "To have it again, import the file once more."
        )
    return row


async def _cited_turns(tx: Transaction, but: Sequence[UUID]) -> set[tuple[str, str, int]]:
    """Return the turns that memories cite which are not forgotten."""
    return {
        (turn["client"], turn["conversation"], turn["number"])
        for row in await tx.rows(CITING, {"but": list(but)})
        for turn in deletion.cited_turns(row)
    }


# -- undoing -----------------------------------------------------------------------------------------------------------


async def undo_as_shown(tx: Transaction, import_id: UUID, shown: str) -> Undo:
    """Take an import back as it was shown, and return what was done.

    Raises:
        NotFound: there is no such import.
        Conflict: it was undone already.
        ConfirmRequired: it would do something else by now than what has the fingerprint `shown`.
        NotAllowed: in a space, some of it is another member's.
    """
    made = await planned_undo(tx, import_id, lock=True)
    if made.fingerprint != shown:
        raise ConfirmRequired("Something changed after this was shown.", "Nothing was undone. Look again.")
    membership.refuse_removal(tx, made.taken)
    ids = [row["id"] for row in made.taken]
    await tx.run(MARK, {"import_id": import_id, "ids": ids})
    await statements.hold_words(tx, ids)
    rest = iter(made.taken)
    while batch := list(islice(rest, BATCH)):
        await _forget_batch(tx, batch, f"the import of {made.row['name']} was undone")
    await clusters.renew_of(tx, ids)
    gone = [((turn["client"], turn["conversation"]), turn["id"]) for turn in made.removed]
    await turn_arrivals.remove_turns(tx, gone)
    await tx.run(DROP_COPIES, {"import_id": import_id})
    await tx.run(UNDONE, {"import_id": import_id})
    return made


async def _forget_batch(tx: Transaction, rows: Sequence[Row], reason: str) -> None:
    ids = [row["id"] for row in rows]
    done = {row["id"]: row for row in await tx.rows(FORGET, {"ids": ids, "reason": reason})}
    await statements.unpost(tx, ids)
    entries = []
    for row in rows:
        after = {"status": "invalidated", "reason": reason, "valid_to": f.as_utc(done[row["id"]]["valid_to"])}
        before = {**row, "valid_to": f.as_utc(row["valid_to"])}
        changes = {name: [before[name], value] for name, value in after.items() if before[name] != value}
        entries.append({"id": str(row["id"]), "version": done[row["id"]]["version"], "changes": changes})
    await tx.run(TELL, {"operation": "forget", "entries": Jsonb(entries)})


# -- importing again ---------------------------------------------------------------------------------------------------


async def forgotten_by_undo(tx: Transaction, ids: Collection[UUID]) -> dict[UUID, Row]:
    """Return those of these memories that an undo forgot and nobody has touched since, by their ids, but for those
    that say what another active memory says by now.
    """
    rows = await tx.rows(FORGOTTEN, {"ids": list(ids)}) if ids else []
    hashes = [row["content_hash"] for row in rows if row["changes"]["status"][0] == "active"]
    twins = {bytes(row["content_hash"]) for row in await tx.rows(s.FIND_TWINS, {"hashes": hashes})} if rows else set()
    return {row["id"]: row for row in rows if bytes(row["content_hash"]) not in twins}


async def restore_forgotten(tx: Transaction, rows: Mapping[UUID, Row], changing: Collection[UUID]) -> None:
    """Make memories that an undo forgot what they were before.

    Args:
        tx: of the namespace.
        rows: what `forgotten_by_undo` returned of them.
        changing: those of which the file has another state, so that their time is to be the one they had.
    """
    await tx.rows(s.LOCK, {"ids": list(rows)})
    back = []
    for id_, row in rows.items():
        before = {name: pair[0] for name, pair in row["changes"].items()}
        at = f.as_utc(row["before_undo"]) if id_ in changing else None
        kept = {"reason": row["reason"], "valid_to": f.as_utc(row["valid_to"])}
        back.append({"id": str(id_), **kept, **before, "updated_at": at})
    entries = [
        {
            "id": str(done["id"]),
            "version": done["version"],
            "changes": {name: [new, old] for name, (old, new) in rows[done["id"]]["changes"].items()},
        }
        for done in await tx.rows(RESTORE, {"rows": Jsonb(back)})
    ]
    await tx.run(TELL, {"operation": "restore", "entries": Jsonb(entries)})
    await statements.set_words(tx, [*(await memories.read_memories(tx, list(rows), None)).values()])
    await clusters.renew_of(tx, list(rows))


async def removed_by_undo(tx: Transaction, ids: Collection[int]) -> set[int]:
    """Return those of these ids of turns that undone imports had stored."""
    return {row["id"] for row in await tx.rows(REMOVED, {"ids": list(ids)})} if ids else set()
