"""Writing memories: drafts in, rows and history out; every function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from pgengram import fields as f
from pgengram.details import CONFIDENCE_NAME, DETAILS, split_metadata
from pgengram.embedders import Passage
from pgengram.errors import Conflict, ModelSwitched, NotFound
from pgengram.ids import short, uuid7
from pgengram.inputs import NewMemory
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.connection.pool import vectors_of
from pgengram.store.memory import merging, statements
from pgengram.store.memory import statements as s
from pgengram.text.derived import IDENTITY, derived

SET_OTHERWISE: Final = {
    "embedding", "metadata", "tags", "session_id", "confidence", "occurred_at", "type", "sources", "related_to",
    "dedup_policy", "replaces",
}  # fmt: skip
MOST_NAMED: Final = 5  # memories that one short id may mean
LASTING: Final = ("active", "archived")  # the states in which new edges and clusters may lead to a memory
DETAIL_TABLE: Final = {type_: f"{type_}_memories" for type_ in f.TYPES}


@dataclass(slots=True)
class Draft:
    """A memory about to be stored.

    row: its columns as JSON has them; request: what the caller gave; parts: its vectors, none
    without an embedder; model_id: which model made them; related: the memories that it will lead to; replaced:
    those that it stands for from now on; redacted: the
    sorts of secrets that were taken out; id: what it has once it is stored.
    """

    row: dict[str, Any]
    hash: bytes
    extra_metadata: list[str]
    expires_at: datetime | None
    tags: list[str]
    request: NewMemory
    parts: Passage = field(default_factory=Passage)
    model_id: int | None = None
    related: list[UUID] = field(default_factory=list)
    replaced: list[UUID] = field(default_factory=list)
    redacted: list[str] = field(default_factory=list)
    id: UUID = field(init=False)

    def __post_init__(self) -> None:
        self.id = UUID(self.row["id"])


How = Literal["new", "known", "near", "merged", "key"]


@dataclass(slots=True)
class Outcome:
    """What became of a draft: a new memory, or the one that stands for it already.

    how: stored new; known, as one says the same; near, as one says nearly the same; merged into such a one; or its key
    was used before. before: a known memory as it was; taken_over: the fields in which it has more now; clustered: there
    are clusters that a new one may belong to; row: a new one whole, when that was asked for.
    """

    id: UUID
    created: bool
    how: How = "new"
    before: Row | None = None
    taken_over: list[str] = field(default_factory=list)
    clustered: bool = False
    row: Row | None = None


def draft(
    new: NewMemory, *, session_id: str, sequence: int, place: int = 1, status: Literal["active", "working"] = "active"
) -> Draft:
    """Return `new` with its detail checked, its rate of fading and all that it is searched by.

    Args:
        new: what to store.
        session_id: the connection's session, for a memory that names no conversation of its own.
        sequence: its place in that session.
        place: its place in this batch, counted on from the last turn of a conversation that it names.
        status: `working` for a memory that is only held for a task; no search by words finds it, and it may say what
            another says. `set_words` makes it found once its status is `active`.

    Raises:
        ValidationError: a key of `metadata` that is detail of the type has a wrong value.
    """
    type_ = new.memory_type
    known, extra = split_metadata(type_, new.metadata)
    detail = DETAILS[type_].model_validate(known)
    confidence = new.confidence if new.confidence is not None else getattr(detail, CONFIDENCE_NAME.get(type_, ""), None)
    occurred_at = new.occurred_at or getattr(detail, "event_time", None)
    tags = list(dict.fromkeys(tag.strip() for tag in new.tags))
    stored_detail = detail.model_dump(mode="json")
    follows = derived(
        {**{name: getattr(new, name) for name in IDENTITY}, "occurred_at": occurred_at, "metadata": extra},
        tags=tags,
        detail=stored_detail,
        in_conversation=new.session_id is not None,
    )
    row = {
        **new.model_dump(mode="json", exclude=SET_OTHERWISE),
        "sources": [source.model_dump(mode="json", exclude_none=True) for source in new.sources] or None,
        "id": str(uuid7()),
        "type": type_,
        "status": status,
        "content_hash": follows.content_hash.hex(),
        "metadata": extra,
        "detail": stored_detail,
        "tags": tags,
        "confidence": f.DEFAULT_CONFIDENCE.get(type_) if confidence is None else confidence,
        "rate_per_day": f.rate_per_day(type_, new.kind, pinned=new.pinned),
        "session_id": new.session_id or session_id,
        "session_sequence": None if new.session_id else sequence,
        "place": place,
        "speaker_key": follows.speaker_key,
        "turn_features": follows.turn_features,
        "occurred_at": f.as_utc(occurred_at),
        "searched": follows.searched,
        "extra": follows.extra,
        "actor": new.source_provider,
    }
    return Draft(row, follows.content_hash, sorted(extra), new.expires_at, tags, new)


async def insert(
    tx: Transaction, drafts: Sequence[Draft], model_id: int | None, *, whole: bool = False
) -> list[Outcome]:
    """Store `drafts` in one statement; one that says what an active memory says already gives that memory instead.

    With `whole` a new memory comes with its row, as `read` gives it.
    """
    outcomes = _new(drafts, await _create_new(tx, drafts, model_id, whole=whole), whole=whole)
    outcomes |= await _known_for_drafts(tx, [d for d in drafts if d.id not in outcomes], model_id)
    gone = [d for d in drafts if d.id not in outcomes]  # forgotten by somebody in this very moment: stored anew
    if gone:
        again = await insert(tx, gone, model_id, whole=whole)
        outcomes |= {d.id: outcome for d, outcome in zip(gone, again, strict=True)}
    return [outcomes[d.id] for d in drafts]


async def _create_new(tx: Transaction, drafts: Sequence[Draft], model_id: int | None, *, whole: bool) -> list[Row]:
    """Store those drafts that no active memory says already, and return their rows."""
    given = {
        "memories": Jsonb([d.row for d in drafts]),
        "model_id": model_id,
        **vectors_of((d.id, d.parts) for d in drafts),
    }
    stored = await tx.rows(s.CREATE_WHOLE if whole else s.CREATE, given)
    if stored and given["vectors"] and stored[0]["active_model_id"] != model_id:
        raise ModelSwitched
    return stored


def _new(drafts: Sequence[Draft], stored: Sequence[Row], *, whole: bool) -> dict[UUID, Outcome]:
    """Return what was stored, by the draft's id."""
    rows = {row["id"]: row for row in stored}
    ids = [id_ for d in drafts if (id_ := d.id) in rows]
    return {
        id_: Outcome(id_, created=True, clustered=bool(rows[id_]["clustered"]), row=rows[id_] if whole else None)
        for id_ in ids
    }


async def _known_for_drafts(tx: Transaction, lost: Sequence[Draft], model_id: int | None) -> dict[UUID, Outcome]:
    """Return the memories that stand for drafts that were not stored, by the draft's id.

    A new statement sees what the winner of a race has committed meanwhile.
    """
    if not lost:
        return {}
    by_key = await find_by_key(tx, [key for d in lost if (key := d.row["idempotency_key"]) is not None])
    twins = await _find_twins(tx, lost)
    outcomes: dict[UUID, Outcome] = {}
    known: list[tuple[Outcome, Draft]] = []
    for d in lost:
        if (id_ := by_key.get(d.row["idempotency_key"])) is not None:
            outcomes[d.id] = Outcome(id_, created=False, how="key")
        elif d.hash in twins:
            known.append((Outcome(twins[d.hash], created=False, how="known"), d))
    there = await _confirm_again(tx, known, model_id) if known else set()
    return outcomes | {d.id: outcome for outcome, d in known if outcome.id in there}


async def _find_twins(tx: Transaction, drafts: Sequence[Draft]) -> dict[bytes, UUID]:
    """Return the active memories that say what drafts say, by the hash of it."""
    rows = await tx.rows(s.FIND_TWINS, {"hashes": [d.hash for d in drafts]})
    return {bytes(row["content_hash"]): row["id"] for row in rows}


async def find_by_key(tx: Transaction, keys: Sequence[str]) -> dict[str, UUID]:
    """Return the memories of the calls that had these keys, whatever has become of them since."""
    rows = await tx.rows(s.FIND_BY_KEY, {"keys": list(keys)}) if keys else []
    return {row["idempotency_key"]: row["id"] for row in rows}


async def _confirm_again(tx: Transaction, known: Sequence[tuple[Outcome, Draft]], model_id: int | None) -> set[UUID]:
    """Confirm memories that were stored once more; return those that are still there.

    One lives again when it had expired, and has tags and sources of both calls; whatever else was given differently
    stays as it is. Memories are locked in the order of their ids and their words after that, so that two batches that
    store the same again cannot wait for each other in a circle.
    """
    before = await read_memories(tx, [outcome.id for outcome, _ in known], model_id)
    active, changed = (
        _active(before),
        {outcome.id for outcome, d in known if _storing_changes(before.get(outcome.id), d)},
    )
    locked = {row["id"] for row in await tx.rows(s.LOCK_TWINS, {"ids": list(active), "changed": list(changed)})}
    rows = await read_memories(tx, list(changed), model_id) if changed else {}
    active -= changed - _active(rows)
    confirmed = await _confirm(tx, [(outcome, d) for outcome, d in known if outcome.id in locked & active])
    for outcome, d in known:
        outcome.before = before.get(outcome.id)
        if outcome.id in changed & active:
            await _take_over(tx, outcome, d, rows[outcome.id], confirmed[outcome.id])
    await _find_by_new_tags(tx, known, model_id)
    return active


def _active(rows: Mapping[UUID, Row]) -> set[UUID]:
    return {id_ for id_, row in rows.items() if row["status"] == "active"}


async def _find_by_new_tags(tx: Transaction, known: Sequence[tuple[Outcome, Draft]], model_id: int | None) -> None:
    tagged = [outcome.id for outcome, _ in known if "tags" in outcome.taken_over]
    if tagged:
        await statements.set_words(tx, [*(await read_memories(tx, tagged, model_id)).values()])


async def _confirm(tx: Transaction, known: Sequence[tuple[Outcome, Draft]]) -> dict[UUID, datetime | None]:
    """Confirm locked memories; return until when each lives, once for one that had expired."""
    until = {outcome.id: d.expires_at for outcome, d in reversed(known)}
    given = {"ids": list(until), "untils": list(until.values())}
    return {row["id"]: row["expires_at"] for row in await tx.rows(s.CONFIRM_TWINS, given)} if until else {}


def _storing_changes(row: Row | None, again: Draft) -> bool:
    """Whether storing an active memory again may change more of it than when it was confirmed last."""
    if row is None or row["status"] != "active":
        return False
    more = not set(again.tags) <= set(row["tags"]) or _sources(row, again) != row["sources"]
    return more or row["expires_at"] is not None or again.row["idempotency_key"] is not None


async def _take_over(tx: Transaction, outcome: Outcome, again: Draft, row: Row, expires_at: datetime | None) -> None:
    """Give a locked memory the key, the tags and the sources it was stored again with; `row` is kept true.

    Whoever calls sees to it that it is found by new tags, and has set until when it lives now.
    """
    if (key := again.row["idempotency_key"]) is not None:
        await tx.run(s.SET_KEY, {"id": outcome.id, "key": key})
    changed: dict[str, Any] = {}
    if expires_at != row["expires_at"]:
        changed["expires_at"] = [f.as_utc(row["expires_at"]), f.as_utc(expires_at)]
    tags = merging.united_tags(row["tags"], again.tags)
    if tags != row["tags"]:
        await tx.run(s.ADD_TAGS, {"id": outcome.id, "tags": tags[len(row["tags"]) :]})
        changed["tags"] = [row["tags"], tags]
    sources = _sources(row, again)
    if sources != row["sources"]:
        changed["sources"] = [row["sources"], sources]
    if not changed:
        return
    columns = {"version": row["version"] + 1, "updated_at": datetime.now(UTC), "sources": sources and Jsonb(sources)}
    await set_columns(tx, "memories", outcome.id, columns)
    operation = "revive" if "expires_at" in changed else "update"
    await add_history(
        tx, outcome.id, row["version"] + 1, operation, changes=changed, session_id=again.row["session_id"]
    )
    outcome.taken_over = list(changed)
    row |= {"version": row["version"] + 1, "expires_at": expires_at, "tags": tags, "sources": sources}


def _sources(row: Row, again: Draft) -> list[dict[str, Any]] | None:
    return merging.united_sources(row["sources"], again.row["sources"])


def refuse_forgotten(row: Row) -> None:
    """Refuse a memory that nothing new may lead to.

    Raises:
        Conflict: it is forgotten, or only held in working memory.
    """
    if row["status"] not in LASTING:
        raise Conflict(
            f"Memory {row['id']} is not active.", "Restore it with update_memory (status active), or choose another."
        )


async def read_memories(tx: Transaction, ids: Sequence[UUID], model_id: int | None) -> dict[UUID, Row]:
    """Return the memories with these ids whole, by id."""
    return {row["id"]: row for row in await tx.rows(s.READ, {"ids": list(ids), "model_id": model_id})}


@dataclass(frozen=True, slots=True)
class Resolved:
    """Which memories ids and ends of ids mean, by what was given; and what is wrong with each of the others."""

    found: dict[str, UUID]
    problems: dict[str, NotFound | Conflict]

    @property
    def ids(self) -> list[UUID]:
        """The memories, each once, in the order in which they were named."""
        return list(dict.fromkeys(self.found.values()))

    def refuse_problems(self) -> None:
        """Raise what is wrong with the first of those that are not memories.

        Raises:
            NotFound: there is no such memory.
            Conflict: several end in the same digits.
        """
        for problem in self.problems.values():
            raise problem


async def resolve_ids(tx: Transaction, given: Iterable[str]) -> Resolved:
    """Return which memories are meant by ids, or by their ends or beginnings.

    Memories stored within a minute begin alike, so the end of an id counts first.
    """
    plain = {key: str(f.bare_id(key)).replace("-", "").lower() for key in given}
    there = await _find_by_digits(tx, plain.values()) if plain else []
    resolved = Resolved({}, {})
    for key, digits in plain.items():
        ids = [id_ for id_ in there if id_.hex.endswith(digits)] or await _ids_beginning(tx, digits)
        if len(ids) == 1:
            resolved.found[key] = ids[0]
        else:
            resolved.problems[key] = _several(key, ids) if ids else NotFound("memory", key)
    return resolved


async def _find_by_digits(tx: Transaction, given: Iterable[str]) -> list[UUID]:
    """Return the memories whose ids are given whole or by their ends."""
    whole = [UUID(hex=digits) for digits in given if len(digits) == f.ID_DIGITS]
    ends = [short(digits) for digits in given if len(digits) < f.ID_DIGITS]
    return [row["id"] for row in await tx.rows(s.FIND_BY_ID, {"ids": whole, "short_ids": ends})]


async def _ids_beginning(tx: Transaction, digits: str) -> list[UUID]:
    if len(digits) >= f.ID_DIGITS:
        return []
    bounds = {"low": UUID(digits.ljust(f.ID_DIGITS, "0")), "high": UUID(digits.ljust(f.ID_DIGITS, "f"))}
    return [row["id"] for row in await tx.rows(s.FIND_BY_BEGINNING, bounds)]


def _several(key: str, ids: Sequence[UUID]) -> Conflict:
    ends = ", ".join(short(id_) for id_ in ids[:MOST_NAMED])
    more = " and others" if len(ids) > MOST_NAMED else ""
    return Conflict(f"{key} may mean several memories, which end in {ends}{more}.", "Give the last 8 digits of one.")


async def set_columns(tx: Transaction, table: str, id_: UUID, values: dict[str, Any]) -> None:
    """Set columns of one memory's row in `table`; the names come from our own tables, never from a caller."""
    key = "id" if table == "memories" else "memory_id"
    assignments = [sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in values]
    statement = sql.SQL("UPDATE {} SET {} WHERE namespace_id = %(namespace_id)s AND {} = %(key)s").format(
        sql.Identifier(table), sql.SQL(", ").join(assignments), sql.Identifier(key)
    )
    await tx.run(statement, {**values, "key": id_})


async def add_history(
    tx: Transaction, id_: UUID, version: int, operation: str, *, changes: dict[str, Any], session_id: str | None
) -> None:
    """Tell what was changed: for each field its old and its new value. Who did it, the transaction knows."""
    await tx.run(
        s.ADD_HISTORY,
        {"id": id_, "version": version, "operation": operation, "session_id": session_id, "changes": Jsonb(changes)},
    )
