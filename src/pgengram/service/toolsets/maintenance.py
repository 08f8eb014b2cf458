"""The tools for looking after a store: count it, review it, and tidy it up after a preview."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from math import log
from typing import Annotated, Any, Final

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from pgengram import fields as f
from pgengram.runtime.context import BRIEFLY
from pgengram.service import confirming
from pgengram.service.conversations import Conversations
from pgengram.service.tools import READS, REMOVES, tool
from pgengram.service.toolsets import Toolset
from pgengram.service.toolsets.reviewing import FINDING_EXCERPT_CHARS, FINDINGS, Finding, Review
from pgengram.service.toolsets.tidy_request import Action, Tidied, TidyRequest, checked_actions
from pgengram.store.connection.database import Row
from pgengram.store.maintenance import findings
from pgengram.store.memory import confirmations, duplicates
from pgengram.store.memory.plans import ChangePlan
from pgengram.store.reading.names import names, unknown
from pgengram.text.markdown import one_line
from pgengram.views import Answer, Shown, as_text, cut

NAMED: Final = 50  # projects, providers and collections that are counted by name
NONE_GIVEN: Final = "none given"


def totals_view(counted: findings.Counted) -> Shown:
    """Return how many memories there are in each state, and how much else."""
    state = counted.by["state"]
    return {
        "memories": counted.sums["memories"],
        **{name: state.get(name, 0) for name in ("active", "expired", "archived", "working")},
        "forgotten": state.get("invalidated", 0),
        **{name: counted.sums[name] for name in ("pinned", "embedded", "untagged", "accesses")},
        "tags": counted.all_tags,
        "relationships": counted.relationships,
    }


def counts(counted: findings.Counted, meant: Callable[[str], str]) -> Shown:
    """Return the counts of active memories, by what callers know; histograms have all their bins.

    Args:
        counted: what was counted.
        meant: returns the project that a name stands for.
    """
    by = counted.by | {"project": _alias_counts(counted.by["project"], meant)}
    tenths = range(findings.IMPORTANCE_BINS)
    return {
        "by_type": dict(sorted(by["type"].items())),
        "by_kind": dict(sorted(by["kind"].items())),
        **{f"by_{name}": _most(by[name]) for name in ("project", "source_provider", "collection")},
        "tags": counted.tags,
        "importance": {f"{n / 10:.1f}–{(n + 1) / 10:.1f}": by["importance_bin"].get(n, 0) for n in tenths},
        "age": _binned(by["age_bin"], [*findings.AGES.values(), findings.OLDEST]),
        "length": _binned(by["length_bin"], [*findings.LENGTHS.values(), findings.LONGEST]),
        "half_lives": [
            {"rate_per_day": rate, "half_life_days": round(log(2) / rate, 1) if rate else None, "memories": number}
            for rate, number in sorted(counted.rates.items())
        ],
    }


def _alias_counts(numbers: Mapping[Any, int], meant: Callable[[str], str]) -> dict[Any, int]:
    """Return the counts of projects, those of their aliases among them."""
    joined: dict[Any, int] = {}
    for name, number in numbers.items():
        one = name if name is None else meant(name)
        joined[one] = joined.get(one, 0) + number
    return joined


def _most(numbers: Mapping[Any, int]) -> dict[str, int]:
    """Return the largest counts, those without a value last."""
    named = sorted(((name, n) for name, n in numbers.items() if name is not None), key=lambda one: (-one[1], one[0]))
    return dict(named[:NAMED]) | ({NONE_GIVEN: numbers[None]} if None in numbers else {})


def _binned(numbers: Mapping[int, int], names: Sequence[str]) -> dict[str, int]:
    return {name: numbers.get(place, 0) for place, name in enumerate(names)}


def example_of(row: Row, name: str) -> Shown:
    """Return a memory as an example of what is counted, with the value it is one for."""
    return {
        "id": str(row["id"]),
        "excerpt": cut(one_line(row["excerpt"]), FINDING_EXCERPT_CHARS),
        name: as_text(row[name]),
    }


def percent(part: int, whole: int) -> float | None:
    """Return a share in percent; None of nothing."""
    return round(100 * part / whole, 1) if whole else None


STALE_DAYS: Final = 180
MAX_TAGS: Final = 500
MAX_GROUPS: Final = 500
MAX_DAYS: Final = 36_500
MAX_OFFSET: Final = 10_000_000


def _bounds(low: float, high: float) -> AfterValidator:
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


BRIEF_BYTES: Final = 3_000  # of findings in an answer that a model reads, with what stands around them 4 kB
MOST_IN_BRIEF: Final = 8  # findings of one sort alone
FEWEST: Final = 3  # of each of many sorts
NOT_SHOWN: Final = "Not shown yet: {}; ask for them with find."


class Reviewed(Answer):
    """Answer of review_memories: what was found and how much of it, a plan, and what confirms the plan."""

    findings: SkipJsonSchema[list[Shown]]
    found: SkipJsonSchema[Shown]
    plan: SkipJsonSchema[list[Shown]]
    confirm_token: SkipJsonSchema[str | None] = None
    looked_at: SkipJsonSchema[Shown]
    note: SkipJsonSchema[str | None] = None
    degraded: SkipJsonSchema[bool | None] = None


def _findings_limit(wanted: Sequence[str]) -> int:
    """Return how many findings of each sort an answer has room for that a model reads."""
    return max(FEWEST, MOST_IN_BRIEF // len(wanted))


class Maintenance(Toolset):
    """Counting, reviewing and tidying the memories of one namespace."""

    # -- counting --------------------------------------------------------------------------------------------------

    @tool(READS, title="Count memories")
    async def memory_stats(
        self,
        project: Annotated[f.Name | None, Field(description="Only of this one.")] = None,
        tags: Annotated[int, _bounds(0, MAX_TAGS), Field(description="How many of the most used.")] = 20,
    ) -> Statistics:
        """Count memories by status, type, kind, project, tag and age, and tell the state of index and embedder.

        Use when asked how much is remembered, or which tags exist; to find memories: search_memories; what needs care:
        review_memories. Error: DATABASE_ERROR.
        """
        projects = await self.core.projects_meant(project)
        counted = await self.core.store.read_transaction(
            lambda tx: findings.count_memories(tx, projects=projects, tags=tags)
        )
        tables = {
            **counts(counted, self.core.projects.names().meant),
            "recent": [example_of(row, "created_at") for row in counted.recent],
            "most_accessed": [example_of(row, "access_count") for row in counted.most_read],
            "vectors": {
                **await self.core.models.state(),
                "index": await self.core.index_state(),
                "coverage_percent": percent(counted.sums["embedded"], counted.sums["active"]),
            },
            "conversations": await Conversations(self.core).state(),
            "database": {"namespace": self.core.settings.namespace, "bytes": counted.bytes} | self.core.store.health(),
        }
        if project and not counted.sums.get("memories"):
            known = await self.core.store.read_transaction(lambda tx: names(tx, "project"))
            tables["note"] = unknown("project", project, known)
        return Statistics(totals=totals_view(counted), **tables)

    # -- reviewing -------------------------------------------------------------------------------------------------

    @tool(READS, title="Review memories")
    async def review_memories(
        self,
        find: Annotated[list[Finding] | None, f.AnyOf, Field(description="Default: all.")] = None,
        project: Annotated[f.Name | None, Field(description="Only of this one.")] = None,
        threshold: Annotated[float | None, _bounds(0.5, 1), Field(description="Least cosine of duplicates.")] = None,
        max_groups: Annotated[int, _bounds(1, MAX_GROUPS), Field(description="Most of each finding.")] = 50,
        stale_days: Annotated[int, _bounds(1, MAX_DAYS), Field(description="Unused for so long.")] = STALE_DAYS,
        offset: Annotated[int, _bounds(0, MAX_OFFSET), Field(description="next_offset, to go on.")] = 0,
    ) -> Reviewed:
        """Find memories that need care, such as duplicates, and propose a plan for the sure ones. Changes nothing.

        Use when asked to clean up; what contradicts or no longer holds is first. Show the findings, and settle what the
        user agrees to by forget_memories or update_memory, or where it is listed by tidy_memories (apply the plan). To
        find memories by what they say: search_memories. Error: DATABASE_ERROR.
        """
        wanted = [name for name in FINDINGS if find is None or name in find]
        model = await self.core.current_model()
        projects = await self.core.projects_meant(project)
        most = min(max_groups, _findings_limit(wanted)) if BRIEFLY.get() else max_groups
        async with self.core.store.snapshot() as tx:  # so that the versions are those of the texts that it compared
            review = Review(tx, projects, most)
            await review.inspect(
                wanted, model, threshold=self._near(threshold), offset=offset, stale=timedelta(days=stale_days)
            )
            left_out = review.leave_out(wanted, BRIEF_BYTES) if BRIEFLY.get() else []
            steps = review.steps_of(wanted)[: f.MAX_BATCH] if self._can_tidy else []
            plan = await ChangePlan.read(tx, steps, lock=False, replayable=True)
        return Reviewed(
            **review.shown(wanted),
            plan=[step.as_json() for step in plan.steps],
            confirm_token=await self._confirm_token(plan) if plan.steps else None,
            note=NOT_SHOWN.format(", ".join(left_out)) if left_out else None,
            degraded=self.core.degraded,
        )

    @property
    def _can_tidy(self) -> bool:
        """Whether a plan is of use to who asked: a model needs a tool that takes it."""
        return not BRIEFLY.get() or "maintenance" in self.core.settings.toolset_names

    async def _confirm_token(self, plan: ChangePlan) -> str:
        async with self.core.store.transaction() as tx:
            return await confirmations.make_token(tx, "apply", plan.kept)

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
        older_than_days: Annotated[int | None, _bounds(0, MAX_DAYS), Field(description="To archive or prune.")] = None,
        below_importance: Annotated[float | None, _bounds(0, 1), Field(description="To archive or prune.")] = None,
        max_accesses: Annotated[int | None, _bounds(0, MAX_OFFSET), Field(description="To archive or prune.")] = None,
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
        request = TidyRequest(
            action,
            await checked_actions(self.core, action, plan or [], synonyms),
            {"older_than_days": older_than_days, "below_importance": below_importance, "max_accesses": max_accesses},
            await self.core.projects_meant(project),
            synonyms,
            model=await self.core.current_model() if action == "merge" else None,
            threshold=self._near(None),
            session=self.core.session,
        )
        try:
            return await confirming.when_confirmed(
                self.core.store,
                action,
                confirm_token,
                plan=request.plan,
                needs_confirmation=lambda made: bool(made.effects),
                preview=request.preview,
                execute=request.execute,
            )
        except confirming.Declined:
            return request.answer("The user said no: no memory was changed.")
