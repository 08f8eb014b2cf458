"""Tidying up: a plan of several changes, what each would come to, and doing all of them in one transaction or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram.errors import Conflict, InvalidInput, NotFound
from pgengram.fields import MAX_TAGS
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.graph import clusters, edges
from pgengram.store.memory import changes, deletion, memories
from pgengram.store.memory import statements as s
from pgengram.views import moment

Verb = Literal["merge", "forget", "archive", "tag", "retag", "confirm", "keep", "erase"]
LIVING: Final = ("active", "archived")

# Those that are long stored, matter little and were hardly read; the oldest first. Pinned ones are left alone. Uses
# memories_by_time or memories_hidden, and memory_activation_pkey.
FADED: Final = """
SELECT m.id, count(*) OVER () AS found FROM memories m
JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
WHERE m.namespace_id = %(namespace_id)s AND m.status = %(status)s AND NOT m.pinned
  AND m.created_at < now() - %(age)s AND a.importance < %(importance)s AND a.access_count <= %(accesses)s
  AND (%(project)s::text IS NULL OR m.project = %(project)s)
ORDER BY m.created_at, m.id LIMIT %(limit)s
"""

# Uses memory_tags_by_tag and memories_pkey.
TAGGED: Final = """
SELECT m.id, count(*) OVER () AS found, ARRAY(SELECT tag FROM memory_tags t
  WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id AND t.tag = ANY(%(tags)s)) AS tags
FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.status IN ('active', 'archived')
  AND m.id IN (SELECT memory_id FROM memory_tags WHERE namespace_id = %(namespace_id)s AND tag = ANY(%(tags)s))
  AND (%(project)s::text IS NULL OR m.project = %(project)s)
ORDER BY m.id LIMIT %(limit)s
"""

# One statement for all, as archiving takes many at once. Uses memories_pkey.
ARCHIVE: Final = """
WITH done AS (
  UPDATE memories SET status = 'archived', version = version + 1, updated_at = now()
  WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s) RETURNING id, version
)
INSERT INTO memory_history (namespace_id, memory_id, version, operation, session_id, changes)
SELECT %(namespace_id)s, id, version, 'archive', %(session_id)s, %(changes)s FROM done RETURNING 1
"""
# The edges of those that are merged, as they would be of the one that stays. Uses memory_relationships_pkey and
# memory_relationships_to.
EDGES_OF: Final = """
SELECT r.from_id, r.to_id, r.type, r.strength, r.properties FROM memory_relationships r
WHERE r.namespace_id = %(namespace_id)s AND (r.from_id = ANY(%(ids)s) OR r.to_id = ANY(%(ids)s)) ORDER BY r.from_id, r.to_id, r.type
"""
# Uses memory_belief_evidence_by_memory.
MOVE_EVIDENCE: Final = """
INSERT INTO memory_belief_evidence (namespace_id, belief_id, memory_id, supports)
SELECT namespace_id, belief_id, %(into)s, supports FROM memory_belief_evidence
WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s)
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: the verb, to which memories, and what the verb needs beside."""

    action: Verb
    ids: list[UUID]
    into: UUID | None = None
    tags: list[str] = field(default_factory=list)
    reason: str | None = None
    replaced_by: list[UUID] = field(default_factory=list)

    @property
    def touched(self) -> list[UUID]:
        """The memories that would be changed."""
        return [*self.ids, *([self.into] if self.into else [])]

    @property
    def named(self) -> list[UUID]:
        """All memories that it speaks of."""
        return [*self.touched, *self.replaced_by]

    def as_json(self) -> dict[str, Any]:
        """Return it as it is kept for a confirmation, and shown."""
        known: dict[str, Any] = {
            "action": self.action,
            "ids": [str(id_) for id_ in self.ids],
            "into": self.into and str(self.into),
            "tags": self.tags,
            "reason": self.reason,
            "replaced_by": [str(id_) for id_ in self.replaced_by],
        }
        return {name: value for name, value in known.items() if value}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Step:
        """Return what `as_json` wrote."""
        into = kept.get("into")
        return cls(
            kept["action"],
            [UUID(id_) for id_ in kept["ids"]],
            None if into is None else UUID(into),
            kept.get("tags", []),
            kept.get("reason"),
            [UUID(id_) for id_ in kept.get("replaced_by", [])],
        )


@dataclass(slots=True)
class Effect:
    """What a plan does to one memory: the operation, and for each field its old and its new value."""

    id: UUID
    operation: str
    changes: dict[str, list[Any]]
    step: Step

    def as_json(self) -> dict[str, Any]:
        """Return it as it is shown."""
        return {"id": str(self.id), "operation": self.operation, "changes": self.changes}


async def faded(
    tx: Transaction,
    *,
    status: str,
    age: timedelta,
    importance: float,
    accesses: int,
    project: str | None,
    limit: int,
) -> tuple[list[UUID], int]:
    """Return memories of `status` that were stored longer ago than `age`, are less important than `importance` and were
    read at most `accesses` times, the oldest first; and how many there are.
    """
    given = {"status": status, "age": age, "importance": importance, "accesses": accesses}
    rows = await tx.rows(FADED, {**given, "project": project, "limit": limit})
    return [row["id"] for row in rows], rows[0]["found"] if rows else 0


async def tagged(
    tx: Transaction, tags: Sequence[str], *, project: str | None, limit: int
) -> tuple[dict[UUID, list[str]], int]:
    """Return memories that have some of `tags`, the oldest first, each with those; and how many memories there are."""
    rows = await tx.rows(TAGGED, {"tags": list(tags), "project": project, "limit": limit})
    return {row["id"]: row["tags"] for row in rows}, rows[0]["found"] if rows else 0


def check(steps: Sequence[Step], rows: Mapping[UUID, Row]) -> None:
    """Refuse a plan that cannot be done as it stands.

    Raises:
        NotFound: a memory is not there.
        InvalidInput: a memory would be changed twice, is pinned, or is merged into itself.
        Conflict: a memory is forgotten already.
    """
    seen: set[UUID] = set()
    for step in steps:
        for id_ in step.named:
            if id_ not in rows:
                raise NotFound("memory", id_)
        if step.action == "keep":
            continue
        _check_whole(step)
        if twice := seen & set(step.touched):
            raise InvalidInput(f"Memory {min(twice)} is in two actions of the plan.")
        seen |= set(step.touched)
        for id_ in step.ids:
            _check_one(step, rows[id_])
        if step.into is not None and rows[step.into]["status"] != "active":
            raise Conflict(f"Memory {step.into} is not active, so none can be merged into it.")


def _check_whole(step: Step) -> None:
    if step.action == "merge" and step.into is None:
        raise InvalidInput("A merge needs into: the memory that stays.")
    if step.action == "tag" and not step.tags:
        raise InvalidInput("The action tag needs tags.")
    if set(step.ids) & {step.into, *step.replaced_by}:
        raise InvalidInput("A memory cannot be merged into itself or replace itself.")


def _check_one(step: Step, row: Row) -> None:
    removes = step.action in ("merge", "forget", "archive", "erase")
    if removes and row["pinned"]:
        raise InvalidInput(f"Memory {row['id']} is pinned.", "Unpin it with update_memory first, or leave it out.")
    wanted = {"archive": ("active",), "erase": ("archived",)}.get(step.action, LIVING)
    if row["status"] not in wanted:
        raise Conflict(
            f"Memory {row['id']} is {row['status']}.", "Leave it out, or restore it with update_memory (status active)."
        )


def effects(steps: Sequence[Step], rows: Mapping[UUID, Row]) -> list[Effect]:
    """Return what `steps` do to each memory; memories that stay as they are have none."""
    found: list[Effect] = []
    for step in steps:
        if step.action == "merge" and step.into is not None:
            found.append(Effect(step.into, "merge", _united(rows[step.into], [rows[id_] for id_ in step.ids]), step))
        found += [effect for id_ in dict.fromkeys(step.ids) if (effect := _effect(step, rows[id_])) is not None]
    return found


def _effect(step: Step, row: Row) -> Effect | None:
    after: dict[str, Any] = {}
    operation: str = step.action
    if step.action in ("merge", "forget"):
        operation = "forget"
        replaced_by = [step.into] if step.into else step.replaced_by
        after = {"status": "invalidated", "reason": step.reason or row["reason"]}
        after |= {"replaced_by": replaced_by} if replaced_by else {}
    elif step.action == "archive":
        after = {"status": "archived"}
    elif step.action == "erase":
        after = {"status": "erased"}
    elif step.action == "confirm":
        after = {"last_confirmed_at": "now"}
    elif step.action in ("tag", "retag"):
        operation = "update"
        after = {"tags": _tagged(step, row["tags"])}
    changed = {name: [_result(row[name]), _result(value)] for name, value in after.items() if value != row[name]}
    return Effect(row["id"], operation, changed, step) if changed else None


def _tagged(step: Step, tags: list[str]) -> list[str]:
    """Return the tags of a memory with those of the step; retagging takes `alias=tag` pairs and replaces them."""
    if step.action == "tag":
        return list(dict.fromkeys([*tags, *step.tags]))[:MAX_TAGS]
    instead = dict(pair.split("=", 1) for pair in step.tags)
    return list(dict.fromkeys(instead.get(tag, tag) for tag in tags))


def _united(into: Row, others: Sequence[Row]) -> dict[str, list[Any]]:
    """Return what the memory that stays takes over: tags and metadata of all (its own win), the highest importance, the
    latest confirmation. The others keep their texts, forgotten.
    """
    after: dict[str, Any] = {
        "tags": list(dict.fromkeys(tag for row in (into, *others) for tag in row["tags"]))[:MAX_TAGS],
        "metadata": {name: value for row in (*reversed(others), into) for name, value in row["metadata"].items()},
        "importance": max(row["importance"] for row in (into, *others)),
        "last_confirmed_at": max(
            (row["last_confirmed_at"] for row in (into, *others) if row["last_confirmed_at"]), default=None
        ),
    }
    changed = {name: [_result(into[name]), _result(value)] for name, value in after.items() if value != into[name]}
    return {**changed, "merged": [None, [str(row["id"]) for row in others]]}


def _result(value: Any) -> Any:
    return [str(one) for one in value] if isinstance(value, list) else moment(value)


async def lock(tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Row]:
    """Lock the memories that a plan speaks of, and return those that are there."""
    await tx.rows(s.LOCK, {"ids": sorted(set(ids))})
    return await memories.read(tx, sorted(set(ids)), tx.model_id)


def versions(rows: Mapping[UUID, Row]) -> dict[str, int]:
    """Return the version of each memory, as it is kept for a confirmation."""
    return {str(id_): row["version"] for id_, row in rows.items()}


def refuse_changed(kept: Mapping[str, int], rows: Mapping[UUID, Row]) -> None:
    """Refuse to go on when a memory is not what was shown.

    Raises:
        Conflict: one was changed or erased since.
    """
    for id_, version in kept.items():
        row = rows.get(UUID(id_))
        if row is None or row["version"] != version:
            raise Conflict(
                f"Memory {id_} was changed since it was shown; nothing was done.",
                "Ask for the preview again and confirm that one.",
            )


async def do(
    tx: Transaction, steps: Sequence[Step], rows: Mapping[UUID, Row], *, session_id: str | None
) -> list[Effect]:
    """Do all of a checked plan to locked memories, and return what became of each."""
    done = effects(steps, rows)
    await memories.hold_words(tx, [effect.id for effect in done])
    archived = [effect.id for effect in done if effect.operation == "archive"]
    if archived:
        await memories.unpost(tx, archived)
        history = Jsonb({"status": ["active", "archived"]})
        await tx.run(ARCHIVE, {"ids": archived, "session_id": session_id, "changes": history})
        await clusters.renew_of(tx, archived)
    for effect in done:
        if effect.operation == "forget":
            await _forget(tx, effect, rows, session_id)
        elif effect.operation not in ("archive", "erase"):
            await _change(tx, effect, rows[effect.id], session_id)
    for step in steps:
        if step.action == "merge" and step.into is not None:
            await _move(tx, step.into, step.ids, session_id)
    erased = [effect.id for effect in done if effect.operation == "erase"]
    if erased:
        await deletion.erase(tx, erased, session_id=session_id)
    return done


async def _forget(tx: Transaction, effect: Effect, rows: Mapping[UUID, Row], session_id: str | None) -> None:
    step = effect.step
    await changes.forget(
        tx,
        rows[effect.id],
        reason=step.reason,
        replaced_by=[step.into] if step.into else step.replaced_by,
        session_id=session_id,
    )


async def _change(tx: Transaction, effect: Effect, row: Row, session_id: str | None) -> None:
    made = changes.Plan(operation=effect.operation, changes=effect.changes)
    if effect.operation == "confirm":
        made.base["last_confirmed_at"] = datetime.now(UTC)
        effect.changes["last_confirmed_at"][1] = moment(made.base["last_confirmed_at"])
    elif "last_confirmed_at" in effect.changes:
        made.base["last_confirmed_at"] = datetime.fromisoformat(effect.changes["last_confirmed_at"][1])
    if "metadata" in effect.changes:
        made.base["metadata"] = Jsonb(effect.changes["metadata"][1])
    if "importance" in effect.changes:
        made.importance = effect.changes["importance"][1]
    if "tags" in effect.changes:
        made.tags = effect.changes["tags"][1]
    await changes.apply(tx, row, made, parts=None, model_id=tx.model_id, session_id=session_id)


async def _move(tx: Transaction, into: UUID, ids: Sequence[UUID], session_id: str | None) -> None:
    """Give the memory that stays the edges of those that go, and their place as evidence; its own edges win."""
    found = await tx.rows(EDGES_OF, {"ids": [into]})
    known = {(row["from_id"], row["to_id"], row["type"]) for row in found}
    for row in await tx.rows(EDGES_OF, {"ids": list(ids)}):
        ends = (into if row["from_id"] in ids else row["from_id"], into if row["to_id"] in ids else row["to_id"])
        if ends[0] != ends[1] and (*ends, row["type"]) not in known:
            known.add((*ends, row["type"]))
            await edges.link(tx, *ends, row["type"], row["strength"], row["properties"], session_id=session_id)
    await tx.run(MOVE_EVIDENCE, {"into": into, "ids": list(ids)})
