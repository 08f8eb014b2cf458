"""Writing memories: stored, confirmed, left out or merged, as their dedup_policy says."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final
from uuid import UUID

from pgengram.errors import Conflict
from pgengram.inputs import Change
from pgengram.store import clusters, edges
from pgengram.store.connection import locks
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory import changes, memories, merging
from pgengram.store.memory import statements as s
from pgengram.store.memory.duplicates import (
    MAX_REPORTED,
    Model,
    Near,
    WriteCandidate,
    compare,
    find_by_words,
    note_similar,
    stands_elsewhere,
    unlike,
)
from pgengram.store.memory.memories import Draft, Outcome
from pgengram.store.memory.plans import ChangePlan, Step
from pgengram.text.sameness import includes
from pgengram.text.vocabulary import announces_change

RELATED: Final = "related_to"
Replaced = Callable[[Row, Sequence[Row]], list[Row]]
# Fields that make a memory the same one, and those that are united or compared by themselves.
JUDGED_APART: Final = frozenset(
    {"content", "tags", "user", "project", "collection", "speaker", "occurred_at", "expires_at"}
)


NearText = tuple[UUID, float, str, list[str]]  # a memory's id, its cosine, its content, and in what it differs


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What became of a draft, and what the caller may want to know beside it.

    near: memories that say nearly the same, each with its cosine, content and in what it differs; corrected: forgotten
    ones that did; kept: fields given otherwise than they are stored; may_replace: active memories that a new one may
    change, surest first; replaced: those that were forgotten for it; may_change: it announces a change of something,
    but of what is not told; row: the memory as it is now, when it was read back.
    """

    outcome: Outcome
    near: list[NearText]
    corrected: list[Near]
    kept: list[str]
    may_replace: list[Row] = field(default_factory=list)
    replaced: list[UUID] = field(default_factory=list)
    may_change: bool = False
    row: Row | None = None

    @property
    def id(self) -> UUID:
        """The memory that there is now."""
        return self.outcome.id

    @property
    def created(self) -> bool:
        """Whether it is a new one."""
        return self.outcome.created


async def write_memories(
    tx: Transaction,
    drafts: Sequence[Draft],
    model: Model | None,
    model_id: int | None,
    least: float,
    replaced: Replaced,
    *,
    whole: bool = False,
) -> list[WriteResult]:
    """Store drafts as their dedup_policy says, in the caller's transaction.

    Args:
        tx: the namespace's transaction.
        drafts: with their vectors.
        model: which made the vectors; None without an embedder: then words are compared.
        model_id: its key.
        least: the cosine from which on memories are near.
        replaced: returns which of the rows nearest to a draft it may change.
        whole: whether to say of each memory what it is now.
    """
    candidates = [WriteCandidate(draft, place) for place, draft in enumerate(drafts)]
    await _by_key(tx, candidates)
    unsettled = [t for t in candidates if not t.settled]
    await _compare_with_others(tx, candidates, unsettled, model, least)
    await _store_new(tx, candidates, model_id, whole=whole)
    for candidate in candidates:
        await _link_related(tx, candidate)
    await _retire(tx, candidates)
    await clusters.assign(tx, [t.outcome.id for t in candidates if t.outcome and t.outcome.clustered])
    results = [_write_result(candidate, candidates, replaced) for candidate in candidates]
    return await _with_rows(tx, results, drafts, model_id) if whole else results


async def _compare_with_others(
    tx: Transaction,
    candidates: Sequence[WriteCandidate],
    unsettled: Sequence[WriteCandidate],
    model: Model | None,
    least: float,
) -> None:
    """Find which memories and earlier drafts are near, and settle what stands for those that may be left out."""
    for candidate in unsettled:
        candidate.looks = candidate.draft.request.dedup_policy != "insert" and candidate.draft.row["status"] == "active"
    looking = [t for t in unsettled if t.looks]
    if any(t.draft.request.dedup_policy in ("merge", "skip_if_near") for t in looking):
        await tx.row(locks.WAIT_IN_NAMESPACE, {"key": locks.NEAR_DUPLICATES})
    if looking:
        await (find_by_words(tx, looking) if model is None else note_similar(tx, looking, model, least))
    compare(unsettled, least, by_words=model is None)
    for candidate in looking:
        _decide(candidate, candidates)


async def _with_rows(
    tx: Transaction, results: Sequence[WriteResult], drafts: Sequence[Draft], model_id: int | None
) -> list[WriteResult]:
    """Add the memories as they are now; what was only stored is known already."""
    rows = {t.id: t.outcome.row for t, d in zip(results, drafts, strict=True) if t.outcome.row and not d.related}
    rows |= (
        await memories.read_memories(tx, left, model_id)
        if (left := [t.id for t in results if t.id not in rows])
        else {}
    )
    return [replace(result, row=rows[result.id]) for result in results]


async def _by_key(tx: Transaction, candidates: Sequence[WriteCandidate]) -> None:
    """Find those whose key was used before, by an earlier call or an earlier item."""
    first: dict[str, int] = {}
    for candidate in candidates:
        key = candidate.draft.row["idempotency_key"]
        if key is not None and first.setdefault(key, candidate.place) != candidate.place:
            candidate.stands_for = first[key]
    known = await memories.find_by_key(tx, list(first))
    for key, id_ in known.items():
        candidates[first[key]].outcome = Outcome(id_, created=False, how="key")


def _decide(candidate: WriteCandidate, candidates: Sequence[WriteCandidate]) -> None:
    """Settle which memory or earlier draft stands for one that may be left out or merged; what differs never does."""
    if candidate.known:
        return
    draft, near = candidate.draft, [one for one in candidate.near if one.id not in candidate.draft.replaced]
    elsewhere = (n for n in near if stands_elsewhere(draft, n))
    fitting = (n for n in near if _stands_for(draft, n.row, n.differs_in))
    candidate.target = next(chain(elsewhere, fitting), None)
    if candidate.target is None:
        earlier = candidate.earlier
        fitting_drafts = (at for _, at, differs in earlier if _stands_for(draft, candidates[at].draft.row, differs))
        candidate.stands_for = next(fitting_drafts, None)


def _stands_for(draft: Draft, row: Row, differs: Sequence[str]) -> bool:
    """Whether a memory, or another draft, stands for a draft as its dedup_policy says."""
    if differs or row["type"] != draft.row["type"]:
        return False
    policy = draft.request.dedup_policy
    return policy == "merge" or (policy == "skip_if_near" and includes(row["content"], draft.row["content"]))


async def _store_new(
    tx: Transaction, candidates: Sequence[WriteCandidate], model_id: int | None, *, whole: bool
) -> None:
    """Store what nothing stands for by one statement, then merge the rest into what does, in their order."""
    fresh = [t for t in candidates if not t.settled]
    if fresh:
        stored = await memories.insert(tx, [t.draft for t in fresh], model_id, whole=whole)
        for t, outcome in zip(fresh, stored, strict=True):
            t.outcome = outcome
    for t in candidates:
        if t.outcome is None:
            t.outcome = await _stood_for(tx, t, candidates, model_id)


async def _stood_for(
    tx: Transaction, t: WriteCandidate, candidates: Sequence[WriteCandidate], model_id: int | None
) -> Outcome:
    """Return what becomes of a draft for which a memory or an earlier draft stands."""
    earlier = None if t.stands_for is None else candidates[t.stands_for]
    there = _memory_behind(t, earlier)
    key = t.draft.row["idempotency_key"]
    if earlier is not None and key is not None and key == earlier.draft.row["idempotency_key"]:
        return Outcome(there, created=False, how="key")
    if t.draft.request.dedup_policy == "merge" and not (t.target and stands_elsewhere(t.draft, t.target)):
        outcome = await merge(tx, there, t.draft, model_id)
    else:
        outcome = Outcome(there, created=False, how="near")
    if key is not None and not outcome.created:
        await tx.run(s.SET_KEY, {"id": outcome.id, "key": key})
    return outcome


def _memory_behind(t: WriteCandidate, earlier: WriteCandidate | None) -> UUID:
    """Return the memory that stands for a draft, or that came of the earlier draft that does."""
    there = earlier.outcome if earlier and earlier.outcome else t.target
    if there is None:
        raise Conflict("The memory was changed at the same time.")
    return there.id


async def merge(tx: Transaction, id_: UUID, draft: Draft, model_id: int | None) -> Outcome:
    """Unite a draft with a memory that says nearly the same.

    The text that says more holds, of two that say the same the longer one, the one that was there when both are as
    long; `merging.change` says what becomes of the other fields. A memory that was changed since it was found near is
    left alone, and the draft is stored beside it.
    """
    await tx.rows(s.LOCK, {"ids": [id_]})
    row = (await memories.read_memories(tx, [id_], model_id)).get(id_)
    if row is None or row["status"] != "active" or unlike(draft, row):
        [outcome] = await memories.insert(tx, [draft], model_id)
        return outcome
    longer = _says_more(draft.row["content"], row["content"])
    result = draft.row | {"expires_at": draft.expires_at, "last_confirmed_at": datetime.now(UTC)}
    text = {"content": draft.row["content"]} if longer else {}
    made = changes.plan(row, merging.merged_change(row, [result], **text))
    made.operation = "merge"
    if not longer:
        made.changes["told"] = [None, draft.row["content"]]  # kept: the text that does not hold
    parts = draft.parts if longer else None
    await changes.apply(tx, row, made, parts=parts, model_id=model_id, session_id=draft.row["session_id"])
    taken = [name for name in made.changed_fields if name not in ("last_confirmed_at", "told")]
    return Outcome(id_, created=False, how="merged", before=row, taken_over=taken)


def _says_more(text: str, there: str) -> bool:
    return not includes(there, text) or (len(text) > len(there) and includes(text, there))


async def _link_related(tx: Transaction, candidate: WriteCandidate) -> None:
    outcome = candidate.outcome
    if outcome is None or outcome.how == "key":
        return
    for id_ in candidate.draft.related:
        if id_ != outcome.id:
            await edges.store_link(tx, outcome.id, id_, RELATED, 1.0, {}, session_id=candidate.draft.row["session_id"])


async def _retire(tx: Transaction, candidates: Sequence[WriteCandidate]) -> None:
    """Forget the memories that drafts replace; one that says the same already holds on."""
    instead: dict[UUID, dict[UUID, str | None]] = {}
    for candidate in candidates:
        if candidate.outcome is None:
            continue
        for id_ in candidate.replaced:
            instead.setdefault(id_, {})[candidate.outcome.id] = candidate.draft.row["session_id"]
    for id_, new in instead.items():
        step = Step("forget", [id_], replaced_by=[*new])
        made = await ChangePlan.read(tx, [step])
        made.check_replacements(step)
        await made.execute(tx, session_id=next(iter(new.values())))


def _write_result(candidate: WriteCandidate, candidates: Sequence[WriteCandidate], replaced: Replaced) -> WriteResult:
    outcome = candidate.outcome
    if outcome is None:
        raise Conflict("The memory was changed at the same time.")
    if outcome.how in ("known", "key"):
        return WriteResult(outcome, [], [], _kept_as_stored(candidate.draft, outcome), replaced=candidate.replaced)
    changed = replaced(candidate.draft.row, candidate.alike) if outcome.created else []
    changed = [row for row in changed if row["id"] not in candidate.said_again.union(candidate.draft.replaced)]
    return WriteResult(
        outcome,
        _nearest_memories(candidate, candidates, outcome),
        candidate.corrected,
        _kept_as_stored(candidate.draft, outcome),
        changed,
        candidate.replaced,
        outcome.created and not (changed or candidate.replaced) and _may_succeed(candidate),
    )


def _nearest_memories(
    candidate: WriteCandidate, candidates: Sequence[WriteCandidate], outcome: Outcome
) -> list[NearText]:
    """Return the memories nearest to one that was written, those of the same call among them."""
    stored = (one for one in candidate.near if one.id not in candidate.draft.replaced)
    near = {one.id: (one.id, one.similarity, one.row["content"], one.differs_in) for one in stored}
    for cosine, place, differs in candidate.earlier:
        other = candidates[place].outcome
        if other is not None and other.id != outcome.id:
            near.setdefault(other.id, (other.id, cosine, candidates[place].draft.row["content"], differs))
    return sorted(near.values(), key=lambda found: -found[1])[:MAX_REPORTED]


def _may_succeed(candidate: WriteCandidate) -> bool:
    """Whether a draft says that something is otherwise than before, and something is remembered of its subject."""
    row = candidate.draft.row
    return bool(candidate.alike) and row["type"] != "episodic" and announces_change(row["content"])


def _kept_as_stored(draft: Draft, outcome: Outcome) -> list[str]:
    """Return the fields that were given for a known memory otherwise than they are stored, and so they stay."""
    row = outcome.before
    if row is None or outcome.how not in ("known", "merged"):
        return []
    taken = outcome.taken_over
    wanted = Change(id=str(outcome.id), **_fields_given(draft, {*JUDGED_APART, *taken}))
    kept = [name for name in changes.plan(row, wanted).changed_fields if name not in taken]
    if draft.request.type not in (None, row["type"]):
        kept.insert(0, "type")
    if draft.expires_at not in (None, row["expires_at"]) and "expires_at" not in taken:
        kept.append("expires_at")
    return kept


def _fields_given(draft: Draft, apart: Set[str]) -> dict[str, Any]:
    """Return the fields of a change that the caller gave, but for those of `apart`."""
    given = draft.request.model_dump(include=draft.request.model_fields_set, exclude={"sources"})
    given["metadata"] = {key: value for key, value in draft.request.metadata.items() if value is not None}
    return {name: given[name] for name in Change.model_fields if given.get(name) is not None and name not in apart}
