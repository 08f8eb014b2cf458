"""Memories that were written by plain SQL: what they lack to be found, and making them whole.

Whoever inserts into `memories` alone leaves out what a memory is ranked and found by, and whoever updates its text
leaves the words and vectors of the former one behind. Nothing of the text is changed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from psycopg import sql

from pgengram import fields as f
from pgengram.embedders import Passage
from pgengram.errors import Conflict
from pgengram.ids import BEFORE_ALL
from pgengram.inputs import NewMemory
from pgengram.store import clusters
from pgengram.store.connection.begin import UPKEEP
from pgengram.store.connection.database import Database, Row, Transaction
from pgengram.store.memory import memories, statements
from pgengram.store.memory import statements as s
from pgengram.text.derived import IDENTITY, TURN, derived
from pgengram.text.sameness import content_hash
from pgengram.text.shown import counted

BATCH: Final = 1_000  # memories looked at in one transaction
AT_ONCE: Final = 32  # memories embedded together
# What is amiss with memories, in the words for a person, the worst first.
DEFECTS: Final = {
    "activation": "without activation, found nowhere",
    "detail": "without the detail of their type",
    "content": "whose text, user, project, speaker or date was changed, found as they were",
    "words": "whose words are missing, or not as their status wants them",
    "vectors": "without vectors, not found by meaning",
}
FIND_NAMESPACES: Final = "SELECT id FROM namespaces ORDER BY id"
# Scalar subqueries: of EXISTS, a plan for every namespace would read the whole of each table for each batch.
HAS_DETAIL: Final = sql.SQL(", ").join(
    sql.SQL(
        "(SELECT true FROM {} d WHERE d.namespace_id = %(namespace_id)s AND d.memory_id = m.id AND m.type = {})"
    ).format(sql.Identifier(table), sql.Literal(type_))
    for type_, table in memories.DETAIL_TABLE.items()
)
# Uses memories_pkey and, for each memory, the primary keys of the others.
FIND: Final = sql.SQL("""
SELECT m.id, m.content, m.content_hash, m."user", m.project, m.collection, m.speaker, m.occurred_at,
  (SELECT true FROM memory_activation a WHERE a.namespace_id = %(namespace_id)s AND a.memory_id = m.id) AS activation,
  coalesce({detail}) AS detail,
  (SELECT true FROM memory_words w WHERE w.namespace_id = %(namespace_id)s AND w.memory_id = m.id
    AND (w.segment IS DISTINCT FROM 0) = (m.status = 'active')) AS words,
  (SELECT true FROM memory_vectors v
    WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = m.id AND v.model_id = %(model_id)s LIMIT 1) AS vectors
FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m.id > %(after)s ORDER BY m.id LIMIT %(limit)s
""").format(detail=HAS_DETAIL)
HAS_TERMS: Final = "SELECT EXISTS (SELECT 1 FROM pgengram_terms(%(searched)s, %(extra)s)) AS has"
# Uses memories_pkey.
LOCK: Final = """
SELECT * FROM memories WHERE namespace_id = %(namespace_id)s AND id = %(id)s AND content = %(content)s FOR UPDATE
"""
ADD_ACTIVATION: Final = """
INSERT INTO memory_activation (namespace_id, memory_id, importance, rate_per_day, started_at)
VALUES (%(namespace_id)s, %(id)s, %(importance)s, %(rate_per_day)s, %(started_at)s) ON CONFLICT DO NOTHING
"""
ADD_DETAIL: Final = sql.SQL(
    "INSERT INTO {} (namespace_id, memory_id) VALUES (%(namespace_id)s, %(id)s) ON CONFLICT DO NOTHING RETURNING 1"
)

Embed = Callable[[Sequence[str]], Awaitable[Sequence[Passage]]]


@dataclass(slots=True)
class Found:
    """How many memories there are, how many have which defect, and how many could not be made whole, by the reason."""

    memories: int = 0
    incomplete: int = 0
    defects: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        named = [f"{self.defects[name]:,} {what}" for name, what in DEFECTS.items() if self.defects[name]]
        if not named:
            return f"{counted(self.memories)}, all complete"
        be = "is" if self.incomplete == 1 else "are"
        return f"{self.incomplete:,} of {counted(self.memories)} {be} incomplete: {'; '.join(named)}"

    def note(self, defects: set[str]) -> None:
        """Count an incomplete memory; one that was never stored by us had no former text."""
        self.incomplete += 1
        self.defects.update(defects - {"content"} if "activation" in defects else defects)


async def find_defects(database: Database, model_id: int | None) -> Found:
    """Return what memories of all namespaces lack; without a model nobody misses vectors."""
    found = Found()
    async for namespace_id, rows in _incomplete_batches(database, model_id):
        found.memories += len(rows)
        for _, defects in await _incomplete(database, namespace_id, rows, model_id):
            found.note(defects)
    return found


async def complete_memories(database: Database, model_id: int | None, embed: Embed) -> Found:
    """Make incomplete memories whole, each in a transaction of its own; return what was amiss, and what is left of it.

    A text that was changed counts as a new version of its memory; what it said before is not known.
    """
    found = Found()
    async for namespace_id, rows in _incomplete_batches(database, model_id):
        found.memories += len(rows)
        incomplete = await _incomplete(database, namespace_id, rows, model_id)
        for start in range(0, len(incomplete), AT_ONCE):
            part = incomplete[start : start + AT_ONCE]
            passages = {} if model_id is None else await _missing_passages(part, embed)
            for row, defects in part:
                found.note(defects)
                try:
                    async with database.transaction(namespace_id, member=UPKEEP) as tx:
                        await _complete_one(tx, row, defects, passages.get(row["id"]), model_id)
                except Conflict as error:
                    found.left[error.message] += 1
    return found


async def _incomplete_batches(database: Database, model_id: int | None) -> AsyncIterator[tuple[int, list[Row]]]:
    async with database.as_login() as connection:
        namespaces = [row["id"] for row in await (await connection.execute(FIND_NAMESPACES)).fetchall()]
    for namespace_id in namespaces:
        after: UUID | None = BEFORE_ALL
        while after is not None:
            async with database.transaction(namespace_id, reads=True, member=UPKEEP) as tx:
                rows = await tx.rows(FIND, {"after": after, "limit": BATCH, "model_id": model_id})
            after = rows[-1]["id"] if len(rows) == BATCH else None
            yield namespace_id, rows


async def _missing_passages(part: Sequence[tuple[Row, set[str]]], embed: Embed) -> dict[UUID, Passage]:
    """Return the vectors of memories that lack them, or whose text was changed."""
    needing = {row["id"]: row["content"] for row, defects in part if not defects.isdisjoint(("vectors", "content"))}
    return dict(zip(needing, await embed([*needing.values()]), strict=True)) if needing else {}


def _defects(row: Row, model_id: int | None) -> set[str]:
    defects = {name for name in ("activation", "detail", "words") if not row[name]}
    if model_id is not None and not row["vectors"]:
        defects.add("vectors")
    if bytes(row["content_hash"]) != content_hash(**{name: row[name] for name in IDENTITY}):
        defects.add("content")
    return defects


async def _incomplete(
    database: Database, namespace_id: int, rows: Sequence[Row], model_id: int | None
) -> list[tuple[Row, set[str]]]:
    """Return the memories that lack something, each with its defects."""
    found = []
    for row in rows:
        defects = _defects(row, model_id)
        if defects == {"words"} and not await _has_terms(database, namespace_id, row):
            defects.clear()
        if defects:
            found.append((row, defects))
    return found


async def _has_terms(database: Database, namespace_id: int, row: Row) -> bool:
    """Whether a text has any word at all to be found by."""
    follows = derived({**row, "metadata": {}}, tags=[], detail=None, in_conversation=False)
    async with database.transaction(namespace_id, reads=True, member=UPKEEP) as tx:
        has = await tx.row(HAS_TERMS, {"searched": follows.searched, "extra": follows.extra})
    return bool(has and has["has"])


async def _complete_one(
    tx: Transaction, seen: Row, defects: set[str], passage: Passage | None, model_id: int | None
) -> None:
    """Make one memory whole, unless it was changed once more meanwhile.

    Raises:
        Conflict: another active memory says what this one says now.
    """
    id_ = seen["id"]
    row = await tx.row(LOCK, {"id": id_, "content": seen["content"]})
    if row is None:
        return
    await _add_rows(tx, row)
    if "content" in defects:
        await _follow_text(tx, row, is_new="activation" in defects)
    if {"content", "words"} & defects:
        await statements.set_words(tx, [(await memories.read_memories(tx, [id_], model_id))[id_]])
    if "content" in defects:
        await tx.run(s.DROP_VECTORS, {"id": id_})
    if passage is not None and len(passage):
        await statements.add_vectors(tx, [(id_, passage)], model_id)
        await clusters.reassign(tx, [id_])


async def _add_rows(tx: Transaction, row: Row) -> None:
    """Give a memory the rows that every memory of its type has."""
    rate = f.rate_per_day(row["type"], row["kind"], pinned=row["pinned"])
    importance = NewMemory.model_fields["importance"].default
    await tx.run(
        ADD_ACTIVATION,
        {"id": row["id"], "importance": importance, "rate_per_day": rate, "started_at": row["created_at"]},
    )
    table = memories.DETAIL_TABLE[row["type"]]
    is_new = await tx.row(ADD_DETAIL.format(sql.Identifier(table)), {"id": row["id"]})
    if is_new and row["type"] == "episodic":
        await memories.set_columns(tx, table, row["id"], {"event_time": row["occurred_at"] or row["created_at"]})


async def _follow_text(tx: Transaction, row: Row, *, is_new: bool) -> None:
    """Make what is worked out from a memory's text follow it, and note the change in its history."""
    in_conversation = bool(row["turn_features"] & TURN)
    follows = derived(row, tags=[], detail=None, in_conversation=in_conversation)
    twins = await tx.rows(s.FIND_TWINS, {"hashes": [follows.content_hash]}) if row["status"] == "active" else []
    if any(twin["id"] != row["id"] for twin in twins):
        raise Conflict(f"The active memory {row['id']} says exactly what another one says.", "Forget one of them.")
    version = row["version"] + (not is_new)
    columns = {
        "content_hash": follows.content_hash,
        "speaker_key": follows.speaker_key,
        "turn_features": follows.turn_features,
        "version": version,
        "updated_at": datetime.now(UTC),
    }
    await memories.set_columns(tx, "memories", row["id"], columns)
    changes = {} if is_new else {"content": [None, row["content"]]}
    operation = "create" if is_new else "update"
    await memories.add_history(tx, row["id"], version, operation, changes=changes, session_id=None)
