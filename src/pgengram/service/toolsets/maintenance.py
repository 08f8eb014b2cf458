"""The tools for looking after a store: count it, review it, and tidy it up after a preview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from pgengram import fields as f
from pgengram.errors import InvalidInput, LimitExceeded
from pgengram.inputs import Request
from pgengram.search.vector_index import VectorIndex
from pgengram.service import confirming
from pgengram.service.calls.arguments import reader
from pgengram.service.confirming import Kept
from pgengram.service.conversations import Conversations
from pgengram.service.tools import READS, REMOVES, tool
from pgengram.service.toolsets import Toolset, counts
from pgengram.service.toolsets.reviewing import FINDINGS, Finding, Review
from pgengram.store.connection.database import Transaction
from pgengram.store.maintenance import findings
from pgengram.store.memory import duplicates, memories
from pgengram.store.memory.bulk_changes import confirmations, selection
from pgengram.store.memory.bulk_changes.plans import ChangePlan, Step, fingerprint
from pgengram.store.reading.names import names, unknown
from pgengram.store.reading.synonyms import set_synonyms
from pgengram.store.reading.synonyms import synonyms as all_synonyms
from pgengram.views import Answer, Shown

STALE_DAYS: Final = 180
MAX_TAGS: Final = 500
MAX_GROUPS: Final = 500
MAX_DAYS: Final = 36_500
MAX_OFFSET: Final = 10_000_000
MAX_AT_ONCE: Final = 1_000  # memories that one archiving or pruning takes

Action = Literal["apply", "archive", "prune", "merge", "synonyms"]


def _within(low: float, high: float) -> AfterValidator:
    """Return a check whose bounds are named when it fails, but not in tools/list, which every model reads."""

    def check(value: float | None) -> float | None:
        if value is not None and not low <= value <= high:
            raise ValueError(f"must be between {low:g} and {high:,}")
        return value

    return AfterValidator(check)


class Statistics(Answer):
    """Answer of memory_stats: `totals`, and a table for each thing that is counted."""

    model_config = ConfigDict(extra="allow")

    totals: SkipJsonSchema[Shown]


class Reviewed(Answer):
    """Answer of review_memories: what was found and how much of it, a plan, and what confirms the plan."""

    findings: SkipJsonSchema[list[Shown]]
    found: SkipJsonSchema[Shown]
    plan: SkipJsonSchema[list[Shown]]
    confirm_token: SkipJsonSchema[str | None] = None
    looked_at: SkipJsonSchema[Shown]
    degraded: SkipJsonSchema[bool | None] = None


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


class Maintenance(Toolset):
    """Counting, reviewing and tidying the memories of one namespace."""

    # -- counting --------------------------------------------------------------------------------------------------

    @tool(READS, title="Count memories")
    async def memory_stats(
        self,
        project: Annotated[f.Name | None, Field(description="Only of this one.")] = None,
        tags: Annotated[int, _within(0, MAX_TAGS), Field(description="How many of the most used.")] = 20,
    ) -> Statistics:
        """Count memories by status, type, kind, project, tag and age, and tell the state of index and embedder.

        Use when asked how much is remembered, or which tags exist; to find memories: search_memories; what needs care:
        review_memories. Error: DATABASE_ERROR.
        """
        projects = await self.core.projects_meant(project)
        counted = await self.core.store.read_transaction(lambda tx: findings.count(tx, projects=projects, tags=tags))
        tables = {
            **counts.counts(counted, self.core.projects.names().meant),
            "recent": [counts.example(row, "created_at") for row in counted.recent],
            "most_accessed": [counts.example(row, "access_count") for row in counted.most_read],
            "vectors": {
                **await self.core.models.state(),
                "index": await self.core.index_state(),
                "coverage_percent": counts.percent(counted.sums["embedded"], counted.sums["active"]),
            },
            "conversations": await Conversations(self.core).state(),
            "database": {"namespace": self.core.settings.namespace, "bytes": counted.bytes} | self.core.store.health(),
        }
        if project and not counted.sums.get("memories"):
            known = await self.core.store.read_transaction(lambda tx: names(tx, "project"))
            tables["note"] = unknown("project", project, known)
        return Statistics(totals=counts.totals(counted), **tables)

    # -- reviewing -------------------------------------------------------------------------------------------------

    @tool(READS, title="Review memories")
    async def review_memories(
        self,
        find: Annotated[list[Finding] | None, f.AnyOf, Field(description="Default: all.")] = None,
        project: Annotated[f.Name | None, Field(description="Only of this one.")] = None,
        threshold: Annotated[float | None, _within(0.5, 1)] = None,
        max_groups: Annotated[int, _within(1, MAX_GROUPS)] = 50,
        stale_days: Annotated[int, _within(1, MAX_DAYS)] = STALE_DAYS,
        offset: Annotated[int, _within(0, MAX_OFFSET), Field(description="next_offset, to go on.")] = 0,
    ) -> Reviewed:
        """Find memories that need care, such as duplicates, and propose a plan for the sure ones. Changes nothing.

        Use when asked to clean up; show the findings, then call tidy_memories (apply). To find memories by what they
        say: search_memories. Error: DATABASE_ERROR.
        """
        wanted = [name for name in FINDINGS if find is None or name in find]
        model = await self.core.current_model()
        projects = await self.core.projects_meant(project)
        async with self.core.store.snapshot() as tx:  # so that the versions are those of the texts that it compared
            review = Review(tx, projects, max_groups)
            if {"duplicates", "contradictions", "outdated"} & {*wanted}:
                await review.compare(model, threshold=self._near(threshold), offset=offset)
            await review.judge([name for name in wanted if name in findings.CONDITIONS], timedelta(days=stale_days))
            plan = await ChangePlan.read(tx, review.steps_of(wanted)[: f.MAX_BATCH], lock=False, replayable=True)
        return Reviewed(
            **review.shown(wanted),
            plan=[step.as_json() for step in plan.steps],
            confirm_token=await self._confirm_token(plan) if plan.steps else None,
            degraded=self.core.degraded,
        )

    async def _confirm_token(self, plan: ChangePlan) -> str:
        async with self.core.store.transaction() as tx:
            return await confirmations.ask(tx, "apply", plan.kept)

    def _near(self, chosen: float | None) -> float:
        """Return the cosine from which on two memories say nearly the same: the caller's, else the model's own."""
        name = "" if self.core.embedder is None else self.core.embedder.name
        return duplicates.threshold(name) if chosen is None else chosen

    # -- tidying ---------------------------------------------------------------------------------------------------

    @tool(REMOVES, title="Tidy memories")
    async def tidy_memories(
        self,
        action: Annotated[Action, Field(description="apply carries out plan.")],
        plan: Annotated[
            list[Annotated[Any, WithJsonSchema({"type": "object"})]] | None,  # each is checked alone
            Field(description="{action: merge|forget|archive|tag|confirm|keep, ids, into, tags, reason, replaced_by}"),
        ] = None,
        confirm_token: Annotated[str, Field(description="From the preview.")] = "",
        older_than_days: Annotated[int | None, _within(0, MAX_DAYS), Field(description="To archive or prune.")] = None,
        below_importance: Annotated[float | None, _within(0, 1), Field(description="To archive or prune.")] = None,
        max_accesses: Annotated[int | None, _within(0, MAX_OFFSET), Field(description="To archive or prune.")] = None,
        project: SkipJsonSchema[f.Name | None] = None,
        synonyms: Annotated[
            dict[str, f.Tag | None] | None,
            WithJsonSchema({"type": "object"}),
            Field(description="{alias: tag or null}"),
        ] = None,
    ) -> Tidied:
        """Apply a plan, archive faded memories, erase archived ones (prune), merge duplicates, or edit tag synonyms.

        Use after review_memories, or when asked to clear away old memories; for single ones: forget_memories. A first
        call only shows what would change; if the user agrees, repeat it with confirm_token within 60 s. All but prune
        can be undone. Errors: CONFIRM_REQUIRED, CONFLICT.
        """
        given = await self._checked(action, plan or [], synonyms)
        projects = await self.core.projects_meant(project)
        chosen = {
            "older_than_days": older_than_days,
            "below_importance": below_importance,
            "max_accesses": max_accesses,
        }
        model = await self.core.current_model() if action == "merge" else None
        left, meant = 0, None
        saved = "The synonyms are saved. " if synonyms else ""

        async def plan_now(tx: Transaction, kept: Kept | None) -> ChangePlan:
            """Return the plan given, else the one that was agreed to, else what is asked for."""
            nonlocal left, meant
            steps = await self._steps(tx, given) if given else None
            if kept is not None and (steps is None or fingerprint(steps) == kept["fingerprint"]):
                steps = [Step.from_json(step) for step in kept["steps"]]
            elif steps is None:
                steps, left, meant = await self._chosen(tx, action, chosen, projects, synonyms, model)
            made = await ChangePlan.read(tx, steps, replayable=True)
            made.check()
            return made

        async def preview(_: Transaction, made: ChangePlan) -> Tidied:
            message = f"{saved}{made.summary}."
            shown = Tidied(done=False, changes=_changes(made), plan=made.kept["steps"], message=message)
            return shown.model_copy(update={"left": left or None, "synonyms": meant})

        async def execute(tx: Transaction, made: ChangePlan) -> Tidied:
            if not made.effects:
                return Tidied(
                    done=False, changes=[], synonyms=meant, message=saved.strip() or "There is nothing to do."
                )
            await made.execute(tx, session_id=self.core.session.current())
            done = Tidied(done=True, changes=_changes(made), message=f"{made.summary}: done.")
            return done.model_copy(update={"before": [effect.row for effect in made.effects]})

        try:
            return await confirming.confirmed(
                self.core.store,
                action,
                confirm_token,
                plan=plan_now,
                needs_confirmation=lambda made: bool(made.effects),
                preview=preview,
                execute=execute,
            )
        except confirming.Declined:
            return Tidied(done=False, changes=[], synonyms=meant, message="The user said no: no memory was changed.")

    async def _checked(
        self, action: Action, plan: Sequence[Any], synonyms: Mapping[str, Any] | None
    ) -> list[PlannedAction]:
        """Return the actions of a plan, each checked and its tags as they are stored; refuse what does not belong
        together.
        """
        if len(plan) > f.MAX_BATCH:
            raise LimitExceeded(f"plan must be a list of at most {f.MAX_BATCH} actions.")
        if plan and action != "apply":
            raise InvalidInput("A plan belongs to the action apply.")
        if synonyms and action != "synonyms":
            raise InvalidInput("synonyms belong to the action synonyms.")
        given = [reader(PlannedAction).read(item)[0] for item in plan]
        return [one.model_copy(update={"tags": await self.core.tags(one.tags)}) for one in given]

    async def _steps(self, tx: Transaction, given: Sequence[PlannedAction]) -> list[Step]:
        """Return a caller's plan with whole ids."""
        there = await memories.resolve(tx, dict.fromkeys(id_ for one in given for id_ in one.named))
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
            for one in given
        ]

    async def _chosen(
        self,
        tx: Transaction,
        action: Action,
        chosen: Mapping[str, Any],
        projects: Sequence[str] | None,
        synonyms: Mapping[str, Any] | None,
        model: VectorIndex | None,
    ) -> tuple[list[Step], int, dict[str, str] | None]:
        """Return the steps of an action that picks its memories itself, how many are left for later, and what tags
        mean.
        """
        if action == "apply":
            raise InvalidInput("apply needs a plan, or the confirm_token of one.", "review_memories proposes a plan.")
        if action == "merge":
            review = Review(tx, projects, f.MAX_BATCH)
            await review.compare(model, threshold=self._near(None), offset=0)
            return review.steps.get("duplicates", []), 0, None
        if action == "synonyms":
            meant = await set_synonyms(tx, synonyms) if synonyms else await all_synonyms(tx)
            return *await _retagged(tx, meant, projects), meant
        return *await _faded(tx, action, chosen, projects), None


async def _faded(
    tx: Transaction, action: Literal["archive", "prune"], chosen: Mapping[str, Any], projects: Sequence[str] | None
) -> tuple[list[Step], int]:
    """Return what archiving or pruning would take, and how many more there are."""
    bounds = USUAL[action].model_copy(update={name: value for name, value in chosen.items() if value is not None})
    ids, found = await selection.faded(
        tx,
        status="active" if action == "archive" else "archived",
        age=timedelta(days=bounds.older_than_days),
        importance=bounds.below_importance,
        accesses=bounds.max_accesses,
        projects=projects,
        limit=MAX_AT_ONCE,
    )
    return [Step("archive" if action == "archive" else "erase", ids)] if ids else [], found - len(ids)


async def _retagged(
    tx: Transaction, meant: Mapping[str, str], projects: Sequence[str] | None
) -> tuple[list[Step], int]:
    """Return the memories that still have a tag which means another one, and how many more there are."""
    used, found = await selection.tagged(tx, list(meant), projects=projects, limit=MAX_AT_ONCE)
    pairs = [f"{alias}={meant[alias]}" for alias in sorted({alias for tags in used.values() for alias in tags})]
    return [Step("retag", list(used), tags=pairs)] if used else [], found - len(used)


def _changes(made: ChangePlan) -> list[Shown]:
    return [effect.as_json() for effect in made.effects]
