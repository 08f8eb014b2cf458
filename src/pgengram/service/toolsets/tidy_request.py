"""What tidy_memories is asked to do, planned, shown and done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from pgengram import fields as f
from pgengram.errors import InvalidInput, LimitExceeded
from pgengram.inputs import Request
from pgengram.runtime.context import ROOM
from pgengram.search.vector_index import VectorIndex
from pgengram.service.calls.arguments import reader
from pgengram.service.confirming import Kept
from pgengram.service.core import Core, Session
from pgengram.service.toolsets.reviewing import Review
from pgengram.store.connection.database import Transaction
from pgengram.store.memory import confirmations, memories
from pgengram.store.memory.plans import ChangePlan, Step, fingerprint
from pgengram.store.reading.names import set_synonyms
from pgengram.store.reading.names import synonyms as all_synonyms
from pgengram.views import Answer, Shown

MAX_AT_ONCE: Final = 1_000  # memories that one archiving or pruning takes
BYTES_EACH: Final = 200  # of an answer, at most, for one of them

Action = Literal["apply", "archive", "prune", "merge", "synonyms"]


class Tidied(Answer):
    """Answer of tidy_memories: whether it was done, what it did or would do to each memory, and what confirms it.

    before: the memories that were changed, as they were; no part of what is sent.
    """

    done: SkipJsonSchema[bool]
    changes: SkipJsonSchema[list[Shown]]
    plan: SkipJsonSchema[list[Shown] | None] = None
    confirm_token: SkipJsonSchema[str | None] = None
    left: SkipJsonSchema[int | None] = None
    synonyms: SkipJsonSchema[dict[str, str] | None] = None
    message: SkipJsonSchema[str]
    before: SkipJsonSchema[list[dict[str, Any]]] = Field(default_factory=list, exclude=True, repr=False)


class PlannedAction(Request):
    """One action of a plan, as callers write it."""

    action: Literal["merge", "forget", "archive", "tag", "confirm", "keep"]
    ids: Annotated[list[f.MemoryId], f.AnyOf, Field(min_length=1, max_length=MAX_AT_ONCE)]
    into: f.MemoryId | None = None
    tags: Annotated[f.Tags, Field(default_factory=list)]
    reason: f.Reason | None = None
    replaced_by: Annotated[list[f.MemoryId], f.AnyOf, Field(default_factory=list, max_length=f.MAX_GET)]

    @property
    def named(self) -> list[str]:
        """Every id that it speaks of."""
        return [*self.ids, *([self.into] if self.into else []), *self.replaced_by]


class Thresholds(Request):
    """Which memories have faded enough: stored longer ago, less important, and read no more often."""

    older_than_days: int
    below_importance: float
    max_accesses: int


USUAL: Final = {
    "archive": Thresholds(older_than_days=365, below_importance=0.3, max_accesses=4),
    "prune": Thresholds(older_than_days=1_095, below_importance=0.1, max_accesses=2),
}


@dataclass
class TidyRequest:
    """One call of tidy_memories.

    Args:
        action: what it is about.
        given: the caller's plan, checked.
        bounds: the caller's of USUAL, None where it has none.
        projects: only of these.
        synonyms: what tags are to mean from now on.
        model: whose vectors are compared, to merge.
        threshold: the cosine from which on two memories say nearly the same.
        session: the one in which it is done.
        left: how many memories are left for another call, once it is planned.
        meant: what tags mean, once it is planned.
    """

    action: Action
    given: list[PlannedAction]
    bounds: Mapping[str, Any]
    projects: Sequence[str] | None
    synonyms: Mapping[str, Any] | None
    model: VectorIndex | None
    threshold: float
    session: Session
    left: int = 0
    meant: dict[str, str] | None = None

    async def plan(self, tx: Transaction, kept: Kept | None) -> ChangePlan:
        """Return the plan given, else the one that was agreed to, else what is asked for."""
        steps = await self._whole(tx) if self.given else None
        if kept is not None and (steps is None or fingerprint(steps) == kept["fingerprint"]):
            steps = [Step.from_json(step) for step in kept["steps"]]
        elif steps is None:
            steps = await self._chosen(tx)
        made = await ChangePlan.read(tx, steps, replayable=True)
        made.check()
        return made

    async def preview(self, _: Transaction, made: ChangePlan) -> Tidied:
        """Return what a plan would do."""
        shown = self.answer(f"{self._saved}{made.summary}.", made)
        return shown.model_copy(update={"plan": made.kept["steps"], "left": self.left or None})

    async def execute(self, tx: Transaction, made: ChangePlan) -> Tidied:
        """Carry a plan out and return what it did."""
        if not made.effects:
            return self.answer(self._saved.strip() or "There is nothing to do.")
        await made.execute(tx, session_id=self.session.current())
        done = Tidied(done=True, changes=_changes_made(made), message=f"{made.summary}: done.")
        return done.model_copy(update={"before": [effect.row for effect in made.effects]})

    def answer(self, message: str, made: ChangePlan | None = None) -> Tidied:
        """Return the answer when nothing was done: with what a plan would change, and with what tags mean now."""
        return Tidied(done=False, changes=_changes_made(made) if made else [], synonyms=self.meant, message=message)

    @property
    def _saved(self) -> str:
        return "The synonyms are saved. " if self.synonyms else ""

    async def _whole(self, tx: Transaction) -> list[Step]:
        """Return a caller's plan with whole ids."""
        there = await memories.resolve_ids(tx, dict.fromkeys(id_ for one in self.given for id_ in one.named))
        there.refuse_problems()
        return [
            Step(
                one.action,
                list(dict.fromkeys(there.found[id_] for id_ in one.ids)),
                there.found[one.into] if one.into else None,
                one.tags,
                one.reason,
                [there.found[id_] for id_ in one.replaced_by],
            )
            for one in self.given
        ]

    async def _chosen(self, tx: Transaction) -> list[Step]:
        """Return the steps of an action that picks its memories itself."""
        if self.action == "apply":
            raise InvalidInput("apply needs a plan, or the confirm_token of one.", "review_memories proposes a plan.")
        if self.action == "merge":
            review = Review(tx, self.projects, f.MAX_BATCH)
            await review.compare(self.model, threshold=self.threshold, offset=0)
            return review.steps.get("duplicates", [])
        if self.action == "synonyms":
            self.meant = await set_synonyms(tx, self.synonyms) if self.synonyms else await all_synonyms(tx)
            steps, self.left = await _retagged(tx, self.meant, self.projects)
        else:
            steps, self.left = await _faded(tx, self.action, self.bounds, self.projects)
        return steps


async def checked_actions(
    core: Core, action: Action, plan: Sequence[Any], synonyms: Mapping[str, Any] | None
) -> list[PlannedAction]:
    """Return the actions of a plan, each checked and its tags as they are stored.

    Raises:
        LimitExceeded: the plan is too long.
        InvalidInput: an action is not one, or plan or synonyms do not belong to `action`.
    """
    if len(plan) > f.MAX_BATCH:
        raise LimitExceeded(f"plan must be a list of at most {f.MAX_BATCH} actions.")
    if plan and action != "apply":
        raise InvalidInput("plan can only be used with the action apply.")
    if synonyms and action != "synonyms":
        raise InvalidInput("synonyms can only be used with the action synonyms.")
    given = [reader(PlannedAction).read(item)[0] for item in plan]
    return [one.model_copy(update={"tags": await core.tags(one.tags)}) for one in given]


async def _faded(
    tx: Transaction, action: Literal["archive", "prune"], chosen: Mapping[str, Any], projects: Sequence[str] | None
) -> tuple[list[Step], int]:
    """Return what archiving or pruning would take, and how many more there are."""
    bounds = USUAL[action].model_copy(update={name: value for name, value in chosen.items() if value is not None})
    ids, found = await confirmations.faded(
        tx,
        status="active" if action == "archive" else "archived",
        age=timedelta(days=bounds.older_than_days),
        importance=bounds.below_importance,
        accesses=bounds.max_accesses,
        projects=projects,
        limit=_at_once(),
    )
    return [Step("archive" if action == "archive" else "erase", ids)] if ids else [], found - len(ids)


async def _retagged(
    tx: Transaction, meant: Mapping[str, str], projects: Sequence[str] | None
) -> tuple[list[Step], int]:
    """Return the memories that still have a tag which means another one, and how many more there are."""
    used, found = await confirmations.tagged(tx, list(meant), projects=projects, limit=_at_once())
    pairs = [f"{alias}={meant[alias]}" for alias in sorted({alias for tags in used.values() for alias in tags})]
    return [Step("retag", list(used), tags=pairs)] if used else [], found - len(used)


def _at_once() -> int:
    """Return how many memories one call takes: as many as its answer can show, which a confirmation covers."""
    room = ROOM.get()
    return MAX_AT_ONCE if room is None else min(MAX_AT_ONCE, room // BYTES_EACH)


def _changes_made(made: ChangePlan) -> list[Shown]:
    return [effect.as_json() for effect in made.effects]
