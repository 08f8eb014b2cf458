"""Writing memories: drafts in, rows and history out; every function runs inside its caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from psycopg import sql
from psycopg.types.json import Jsonb

from pgengram import fields as f
from pgengram.details import CONFIDENCE_NAME, DETAILS, split_metadata
from pgengram.ids import uuid7
from pgengram.inputs import NewMemory
from pgengram.store import statements as s
from pgengram.store.database import Row, Transaction, vectors_parameter
from pgengram.text.normalising import content_hash
from pgengram.text.traits import traits_of, voice_of
from pgengram.text.words import extra_terms, searched_text, speaker_terms

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

DETAIL_TABLE: Final = {type_: f"{type_}_memories" for type_ in f.TYPES}


@dataclass(slots=True)
class Draft:
    """A memory about to be stored.

    row: its columns as JSON has them; parts: its vectors, shape (parts, dims), empty without an embedder.
    """

    row: dict[str, Any]
    hash: bytes
    extra_metadata: list[str]
    expires_at: datetime | None
    tags: list[str]
    parts: NDArray[float32] | Sequence[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a draft: a new memory, or the one that says the same already."""

    id: UUID
    created: bool


def draft(new: NewMemory, *, session_id: str, sequence: int, place: int = 1) -> Draft:
    """Return `new` with its detail checked, its rate of fading and all that it is searched by.

    Args:
        new: what to store.
        session_id: the connection's session, for a memory that names no conversation of its own.
        sequence: its place in that session.
        place: its place in this batch, counted on from the last turn of a conversation that it names.

    Raises:
        ValidationError: a key of `metadata` that is detail of the type has a wrong value.
    """
    type_ = new.memory_type
    known, extra = split_metadata(type_, new.metadata)
    detail = DETAILS[type_].model_validate(known)
    confidence = new.confidence if new.confidence is not None else getattr(detail, CONFIDENCE_NAME.get(type_, ""), None)
    occurred_at = new.occurred_at or getattr(detail, "event_time", None)
    tags = list(dict.fromkeys(tag.strip() for tag in new.tags))
    digest = content_hash(
        new.content,
        user=new.user,
        project=new.project,
        collection=new.collection,
        speaker=new.speaker,
        occurred_at=occurred_at,
    )
    voice = voice_of(new.content, new.speaker)
    row = {
        **new.model_dump(
            mode="json", exclude={"embedding", "metadata", "tags", "session_id", "confidence", "occurred_at", "type"}
        ),
        "id": str(uuid7()),
        "type": type_,
        "content_hash": digest.hex(),
        "metadata": extra,
        "detail": detail.model_dump(mode="json"),
        "tags": tags,
        "confidence": f.DEFAULT_CONFIDENCE.get(type_) if confidence is None else confidence,
        "rate_per_day": f.rate_per_day(type_, new.kind, pinned=new.pinned),
        "session_id": new.session_id or session_id,
        "session_sequence": None if new.session_id else sequence,
        "place": place,
        "voice": voice,
        "traits": traits_of(new.content, voice=voice, in_conversation=new.session_id is not None),
        "occurred_at": f.as_utc(occurred_at),
        "searched": searched_text(
            new.content, speaker=new.speaker, tags=tags, occurred_at=occurred_at, metadata=new.metadata
        ),
        "extra": extra_terms(new.content) + speaker_terms(voice),
        "actor": new.source_provider,
    }
    return Draft(row, digest, sorted(extra), new.expires_at, tags)


async def insert(tx: Transaction, drafts: Sequence[Draft], model_id: int | None) -> list[Outcome]:
    """Store `drafts` in one statement; one that says what an active memory says already gives that memory instead."""
    stored = await tx.rows(
        s.CREATE,
        {
            "memories": Jsonb([d.row for d in drafts]),
            "model_id": model_id,
            **_vectors((UUID(d.row["id"]), d.parts) for d in drafts),
        },
    )
    created = {row["id"] for row in stored}
    if len(created) == len(drafts):
        return [Outcome(UUID(d.row["id"]), created=True) for d in drafts]
    # A new statement sees what the winner of a race has committed meanwhile.
    twins = {
        bytes(row["content_hash"]): row["id"]
        for row in await tx.rows(s.FIND_TWINS, {"hashes": [d.hash for d in drafts]})
    }
    gone = [d for d in drafts if d.hash not in twins]  # forgotten by somebody in this very moment: told anew
    fresh = await insert(tx, gone, model_id) if gone else []
    told_anew = {id(d): outcome for d, outcome in zip(gone, fresh, strict=True)}
    outcomes = [
        told_anew[id(d)] if id(d) in told_anew else Outcome(twins[d.hash], created=UUID(d.row["id"]) in created)
        for d in drafts
    ]
    known = [(outcome.id, d) for d, outcome in zip(drafts, outcomes, strict=True) if not outcome.created]
    # In the order of their ids, so that two batches that tell the same again cannot wait for each other in a circle.
    for id_, d in sorted(known, key=lambda pair: pair[0]):
        await _tell_again(tx, id_, d, model_id)
    return outcomes


async def _tell_again(tx: Transaction, id_: UUID, again: Draft, model_id: int | None) -> None:
    """Confirm a memory that was told once more: it lives again when it had expired, and has the tags of both."""
    before = (await read(tx, [id_], model_id))[id_]
    await tx.run(s.CONFIRM_TWIN, {"id": id_, "expires_at": again.expires_at})
    revived = before["expires_at"] is not None and before["expires_at"] <= datetime.now(UTC)
    new_tags = not set(again.tags) <= set(before["tags"])
    if not revived and not new_tags:
        return
    await tx.rows(s.LOCK, {"ids": [id_]})
    if new_tags:
        await tx.run(s.UNITE_TAGS, {"id": id_, "tags": again.tags})
    after = (await read(tx, [id_], model_id))[id_]
    if new_tags:
        await set_words(tx, after)
    version = after["version"] + 1
    await set_columns(tx, "memories", id_, {"version": version, "updated_at": datetime.now(UTC)})
    told = {"tags": [before["tags"], after["tags"]]} if new_tags else {}
    if revived:
        told["expires_at"] = [f.as_utc(before["expires_at"]), f.as_utc(after["expires_at"])]
    await add_history(
        tx, id_, version, "revive" if revived else "update", changes=told, session_id=again.row["session_id"]
    )


async def read(tx: Transaction, ids: Sequence[UUID], model_id: int | None) -> dict[UUID, Row]:
    """Return the memories with these ids whole, by id."""
    return {row["id"]: row for row in await tx.rows(s.READ, {"ids": list(ids), "model_id": model_id})}


async def resolve(tx: Transaction, given: Sequence[str]) -> dict[str, list[UUID]]:
    """Return for each id or end of an id the memories it may mean: none, one, or several."""
    plain = {key: key.replace("-", "").lower() for key in given}
    short = [digits[-8:] for digits in plain.values() if len(digits) < 32]
    rows = await tx.rows(s.FIND_BY_SHORT_ID, {"short_ids": short}) if short else []
    return {
        key: [UUID(hex=digits)] if len(digits) == 32 else [row["id"] for row in rows if row["id"].hex.endswith(digits)]
        for key, digits in plain.items()
    }


async def set_columns(tx: Transaction, table: str, id_: UUID, values: dict[str, Any]) -> None:
    """Set columns of one memory's row in `table`; the names come from our own tables, never from a caller."""
    key = "id" if table == "memories" else "memory_id"
    assignments = [sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in values]
    statement = sql.SQL("UPDATE {} SET {} WHERE namespace_id = %(namespace_id)s AND {} = %(key)s").format(
        sql.Identifier(table), sql.SQL(", ").join(assignments), sql.Identifier(key)
    )
    await tx.run(statement, {**values, "key": id_})


async def set_vectors(tx: Transaction, id_: UUID, parts: Any, model_id: int | None) -> None:
    """Replace every vector of a memory, of whatever model, by those of its new text."""
    await tx.run(s.DROP_VECTORS, {"id": id_})
    if len(parts):
        await tx.run(s.ADD_VECTORS, {"model_id": model_id, **_vectors([(id_, parts)])})


async def unpost(tx: Transaction, id_: UUID) -> None:
    """Take a locked memory out of all postings; its own list of words stays."""
    await tx.run(s.DROP_POSTINGS, {"id": id_})
    await tx.rows(s.LOCK_LISTS, {"id": id_})
    folded = await tx.row(s.UNFOLD, {"id": id_})
    if folded is not None:
        where = {"id": id_, "segment": folded["segment"], "terms": folded["terms"]}
        await tx.run(s.DROP_FROM_LISTS, where)
        await tx.run(s.DROP_EMPTY_LISTS, where)


async def set_words(tx: Transaction, row: Row) -> None:
    """Make a memory found by the words it has now; only an active one has postings."""
    named = {"ids": [row["id"]], "id": row["id"]}
    await unpost(tx, row["id"])
    searched = searched_text(
        row["content"], speaker=row["speaker"], tags=row["tags"], occurred_at=row["occurred_at"],
        metadata={**row["metadata"], **(row["detail"] or {})},
    )  # fmt: skip
    extra = extra_terms(row["content"]) + speaker_terms(voice_of(row["content"], row["speaker"]))
    await tx.run(s.DROP_WORDS, named)
    await tx.run(s.SET_WORDS, {**named, "searched": searched, "extra": extra})
    if row["status"] == "active":
        await tx.run(s.ADD_POSTINGS, named)


async def add_history(
    tx: Transaction, id_: UUID, version: int, operation: str, *, changes: dict[str, Any], session_id: str | None
) -> None:
    """Tell what was changed: for each field its old and its new value."""
    await tx.run(
        s.ADD_HISTORY,
        {
            "id": id_,
            "version": version,
            "operation": operation,
            "actor": None,
            "session_id": session_id,
            "changes": Jsonb(changes),
        },
    )


def _vectors(parts_of: Any) -> dict[str, Any]:
    flat = [(id_, number, part) for id_, parts in parts_of for number, part in enumerate(parts)]
    return {
        "vector_ids": [id_ for id_, _, _ in flat],
        "vector_parts": [number for _, number, _ in flat],
        "vectors": vectors_parameter([part for _, _, part in flat]),
    }
