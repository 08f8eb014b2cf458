"""The tools for looking after a store: count it, review it, and tidy it up after a preview."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import log
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

from pgengram import fields as f
from pgengram.errors import ConfirmRequired, InvalidInput, LimitExceeded, NotFound
from pgengram.inputs import Request, checked
from pgengram.runtime.context import asked
from pgengram.service.core import Core
from pgengram.service.tools import READS, REMOVES, tool
from pgengram.service.toolsets.reviewing import FINDINGS, Finding, Review
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.maintenance import findings
from pgengram.store.memory import bulk_actions, confirmations, duplicates, memories
from pgengram.store.memory.bulk_actions import Effect, Step
from pgengram.store.reading.synonyms import set_synonyms
from pgengram.store.reading.synonyms import synonyms as all_synonyms
from pgengram.text.fencing import one_line
from pgengram.views import Answer, Shown, cut, moment

STALE_DAYS: Final = 180
MAX_TAGS: Final = 500
MAX_GROUPS: Final = 500
MAX_DAYS: Final = 36_500
MAX_OFFSET: Final = 10_000_000
MAX_AT_ONCE: Final = 1_000  # memories that one archiving or pruning takes
FINDING_EXCERPT_CHARS: Final = 120
NAMED: Final = 50  # projects, providers and collections that are counted by name
QUOTED: Final = 5  # memories that a question to the user quotes
NONE_GIVEN: Final = "none given"

Action = Literal["apply", "archive", "prune", "merge", "synonyms"]


def _within(low: float, high: float) -> AfterValidator:
    """Return a check that is told when it fails; among the schemas in tools/list, which every model reads, it is not."""

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
    """Answer of tidy_memories: whether it was done, what it did or would do to each memory, and what confirms it."""

    done: SkipJsonSchema[bool]
    changes: SkipJsonSchema[list[Shown]]
    plan: SkipJsonSchema[list[Shown] | None] = None
    confirm_token: SkipJsonSchema[str | None] = None
    left: SkipJsonSchema[int | None] = None
    synonyms: SkipJsonSchema[dict[str, str] | None] = None
    message: SkipJsonSchema[str]


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


class Maintenance:
    """Counting, reviewing and tidying the memories of one namespace.

    Args:
        core: the store, embedder and session that the tools work on.
    """

    def __init__(self, core: Core) -> None:
        self.core = core

    # -- counting --------------------------------------------------------------------------------------------------

    @tool(READS, title="Memory statistics")
    async def memory_stats(
        self,
        project: f.Name | None = None,
        tags: Annotated[int, _within(0, MAX_TAGS)] = 20,
    ) -> Statistics:
        """Count memories by status, type, kind, project, tag, age; tell how index and embedder are.

        Use when asked how much is remembered, or for tags; to find use search_memories. Errors: DATABASE_ERROR.
        """
        counted = await self.core.store.read_transaction(lambda tx: findings.count(tx, project=project, tags=tags))
        tables = {
            **_counts(counted),
            "recent": [_example(row, "created_at") for row in counted.recent],
            "most_accessed": [_example(row, "access_count") for row in counted.most_read],
            "vectors": {
                **await self.core.models.state(),
                "index": await self.core.index_state(),
                "coverage_percent": _percent(counted.sums["embedded"], counted.sums["active"]),
            },
            "database": {"namespace": self.core.settings.namespace, "bytes": counted.bytes} | self.core.store.health(),
        }
        return Statistics(totals=_totals(counted), **tables)

    # -- reviewing -------------------------------------------------------------------------------------------------

    @tool(READS, title="Review memories")
    async def review_memories(
        self,
        find: Annotated[list[Finding] | None, f.AnyOf] = None,
        project: f.Name | None = None,
        threshold: Annotated[float | None, _within(0.5, 1)] = None,
        max_groups: Annotated[int, _within(1, MAX_GROUPS)] = 50,
        stale_days: Annotated[int, _within(1, MAX_DAYS)] = STALE_DAYS,
        offset: Annotated[int, _within(0, MAX_OFFSET)] = 0,
    ) -> Reviewed:
        """Find memories that need care; propose a plan of what is safe. Changes nothing.

        Use to clean up: decide on the rest, then call tidy_memories. Go on at next_offset. Errors: DATABASE_ERROR.
        """
        wanted = [name for name in FINDINGS if find is None or name in find]
        model = await self.core.current_model()
        async with self.core.store.transaction() as tx:
            review = Review(tx, project, max_groups)
            if {"duplicates", "contradictions"} & {*wanted}:
                await review.compare(model, threshold=self._near(threshold), offset=offset)
            await review.judge([name for name in wanted if name in findings.CONDITIONS], timedelta(days=stale_days))
            steps = [step for name in wanted for step in review.steps.get(name, ())][: f.MAX_BATCH]
            token = await confirmations.ask(tx, "apply", _kept(steps, await _read(tx, steps))) if steps else None
        return Reviewed(
            findings=[finding for name in wanted for finding in review.findings.get(name, ())],
            found={name: review.found.get(name, 0) for name in wanted},
            plan=[step.as_json() for step in steps],
            confirm_token=token,
            looked_at=review.looked_at,
            degraded=self.core.degraded,
        )

    def _near(self, chosen: float | None) -> float:
        """Return the cosine from which on two memories say nearly the same: the caller's, else the model's own."""
        name = "" if self.core.embedder is None else self.core.embedder.name
        return duplicates.threshold(name) if chosen is None else chosen

    # -- tidying ---------------------------------------------------------------------------------------------------

    @tool(REMOVES, title="Tidy memories")
    async def tidy_memories(
        self,
        action: Action,
        plan: Annotated[
            list[Annotated[Any, WithJsonSchema({"type": "object"})]] | None,  # each is checked alone
            Field(description="{action: merge|forget|archive|tag|confirm|keep, ids, into, tags, reason, replaced_by}"),
        ] = None,
        confirm_token: str = "",
        older_than_days: Annotated[int | None, _within(0, MAX_DAYS)] = None,
        below_importance: Annotated[float | None, _within(0, 1)] = None,
        max_accesses: Annotated[int | None, _within(0, MAX_OFFSET)] = None,
        project: SkipJsonSchema[f.Name | None] = None,
        synonyms: Annotated[
            dict[str, f.Tag | None] | None,
            WithJsonSchema({"type": "object"}),
            Field(description="{alias: tag or null}"),
        ] = None,
    ) -> Tidied:
        """Apply a plan, archive faded memories, erase archived ones (prune), merge duplicates, or edit tag synonyms.

        Use after review_memories. A first call shows what would change; repeat it with confirm_token within 60 s. Errors: CONFIRM_REQUIRED, CONFLICT.
        """
        given = await self._checked(action, plan or [], synonyms)
        if confirm_token:
            return await self._confirmed(action, given, confirm_token)
        if action == "apply" and not given:
            raise InvalidInput("apply needs a plan, or the confirm_token of one.", "review_memories proposes a plan.")
        chosen = {
            "older_than_days": older_than_days,
            "below_importance": below_importance,
            "max_accesses": max_accesses,
        }
        model = await self.core.current_model() if action == "merge" else None
        left, meant = 0, None
        async with self.core.store.transaction() as tx:
            if action == "apply":
                steps = await self._steps(tx, given)
            elif action == "merge":
                review = Review(tx, project, f.MAX_BATCH)
                await review.compare(model, threshold=self._near(None), offset=0)
                steps = review.steps.get("duplicates", [])
            elif action == "synonyms":
                meant = await set_synonyms(tx, synonyms) if synonyms else await all_synonyms(tx)
                steps, left = await _retagged(tx, meant, project)
            else:
                steps, left = await _faded(tx, action, chosen, project)
            rows = await _read(tx, steps)
        bulk_actions.check(steps, rows)
        kept, effects = _kept(steps, rows), bulk_actions.effects(steps, rows)
        if not effects:
            return Tidied(done=False, changes=[], synonyms=meant, message="There is nothing to do.")
        allowed = await asked(_question(kept, effects, rows))
        if allowed is None:
            asking = await self._to_be_confirmed(action, kept, effects, left)
            return asking.model_copy(update={"synonyms": meant})
        if not allowed:
            return Tidied(done=False, changes=[], synonyms=meant, message="The user said no: no memory was changed.")
        async with self.core.store.transaction() as tx:
            return await self._carried_out(tx, kept)

    async def _checked(
        self, action: Action, plan: Sequence[Any], synonyms: Mapping[str, Any] | None
    ) -> list[PlannedAction]:
        """Return the actions of a plan, each checked and its tags as they are stored; refuse what does not belong together."""
        if len(plan) > f.MAX_BATCH:
            raise LimitExceeded(f"plan must be a list of at most {f.MAX_BATCH} actions.")
        if plan and action != "apply":
            raise InvalidInput("A plan belongs to the action apply.")
        if synonyms and action != "synonyms":
            raise InvalidInput("synonyms belong to the action synonyms.")
        given = [checked(PlannedAction, item) for item in plan]
        return [one.model_copy(update={"tags": await self.core.tags(one.tags)}) for one in given]

    async def _confirmed(self, action: Action, given: Sequence[PlannedAction], token: str) -> Tidied:
        async with self.core.store.transaction() as tx:
            kept = await confirmations.redeem(tx, token, action)
            if given and [step.as_json() for step in await self._steps(tx, given)] != kept["steps"]:
                raise ConfirmRequired("The confirm_token was given for other actions.")
            return await self._carried_out(tx, kept)

    async def _steps(self, tx: Transaction, given: Sequence[PlannedAction]) -> list[Step]:
        """Return a caller's plan with whole ids."""
        found, missing = await self.core.resolved(tx, [id_ for one in given for id_ in one.named])
        if missing:
            raise NotFound("memory", missing[0]["id"])
        return [
            Step(
                one.action,
                list(dict.fromkeys(found[id_] for id_ in one.ids)),
                found[one.into] if one.into else None,
                one.tags,
                one.reason,
                [found[id_] for id_ in one.replaced_by],
            )
            for one in given
        ]

    async def _to_be_confirmed(
        self, action: str, kept: Mapping[str, Any], effects: Sequence[Effect], left: int
    ) -> Tidied:
        async with self.core.store.transaction() as tx:
            token = await confirmations.ask(tx, action, kept)
        return Tidied(
            done=False,
            changes=[effect.as_json() for effect in effects],
            plan=kept["steps"],
            confirm_token=token,
            left=left or None,
            message=f"{_summed(effects)}: nothing was changed yet. Call again with confirm_token within 60 s.",
        )

    async def _carried_out(self, tx: Transaction, kept: Mapping[str, Any]) -> Tidied:
        """Do what was shown, when every memory is still what it was."""
        steps = [Step.from_json(step) for step in kept["steps"]]
        rows = await bulk_actions.lock(tx, [UUID(id_) for id_ in kept["versions"]])
        bulk_actions.refuse_changed(kept["versions"], rows)
        bulk_actions.check(steps, rows)
        done = await bulk_actions.do(tx, steps, rows, session_id=self.core.session.current())
        return Tidied(done=True, changes=[effect.as_json() for effect in done], message=f"{_summed(done)}: done.")


async def _faded(
    tx: Transaction, action: Literal["archive", "prune"], chosen: Mapping[str, Any], project: str | None
) -> tuple[list[Step], int]:
    """Return what archiving or pruning would take, and how many more there are."""
    bounds = USUAL[action].model_copy(update={name: value for name, value in chosen.items() if value is not None})
    ids, found = await bulk_actions.faded(
        tx,
        status="active" if action == "archive" else "archived",
        age=timedelta(days=bounds.older_than_days),
        importance=bounds.below_importance,
        accesses=bounds.max_accesses,
        project=project,
        limit=MAX_AT_ONCE,
    )
    return [Step("archive" if action == "archive" else "erase", ids)] if ids else [], found - len(ids)


async def _retagged(tx: Transaction, meant: Mapping[str, str], project: str | None) -> tuple[list[Step], int]:
    """Return the memories that still have a tag which means another one, and how many more there are."""
    used, found = await bulk_actions.tagged(tx, list(meant), project=project, limit=MAX_AT_ONCE)
    pairs = [f"{alias}={meant[alias]}" for alias in sorted({alias for tags in used.values() for alias in tags})]
    return [Step("retag", list(used), tags=pairs)] if used else [], found - len(used)


async def _read(tx: Transaction, steps: Sequence[Step]) -> dict[UUID, Row]:
    """Return the memories that a plan speaks of."""
    return await memories.read(tx, list({id_ for step in steps for id_ in step.named}), tx.model_id)


def _kept(steps: Sequence[Step], rows: Mapping[UUID, Row]) -> dict[str, Any]:
    """Return what a yes stands for: the steps, and the version of each memory that they speak of."""
    return {"steps": [step.as_json() for step in steps], "versions": bulk_actions.versions(rows)}


def _summed(effects: Sequence[Effect]) -> str:
    """Say how many memories which operation concerns."""
    numbers: dict[str, int] = {}
    for effect in effects:
        numbers[effect.operation] = numbers.get(effect.operation, 0) + 1
    return ", ".join(f"{operation} {number}" for operation, number in numbers.items())


def _question(kept: Mapping[str, Any], effects: Sequence[Effect], rows: Mapping[UUID, Row]) -> str:
    """Return what the user is asked; the same words for the same memories in the same versions, and no others."""
    mark = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:8]
    erases = any(effect.operation == "erase" for effect in effects)
    lines = [f"Tidy memories up: {_summed(effects)}? (plan {mark})"]
    lines += [
        f"- {effect.operation}: {cut(one_line(rows[effect.id]['content']), FINDING_EXCERPT_CHARS)}"
        for effect in effects[:QUOTED]
    ]
    lines += [f"and {len(effects) - QUOTED} more"] if len(effects) > QUOTED else []
    return "\n".join([*lines, *(["What is erased cannot be brought back."] if erases else [])])


# ------------------------------------------------------------------------------------------------------------ statistics


def _totals(counted: findings.Counted) -> Shown:
    state = counted.by["state"]
    return {
        "memories": counted.sums["memories"],
        **{name: state.get(name, 0) for name in ("active", "expired", "archived", "working")},
        "forgotten": state.get("invalidated", 0),
        **{name: counted.sums[name] for name in ("pinned", "embedded", "untagged", "accesses")},
        "tags": counted.all_tags,
        "relationships": counted.relationships,
    }


def _counts(counted: findings.Counted) -> Shown:
    """Return the counts of active memories, by what callers know; histograms have all their bins."""
    by = counted.by
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
            {
                "rate_per_day": rate,
                "half_life_days": round(log(2) / rate, 1) if rate else None,
                "memories": number,
            }
            for rate, number in sorted(counted.rates.items())
        ],
    }


def _most(numbers: Mapping[Any, int]) -> dict[str, int]:
    """Return the largest counts, those without a value last."""
    named = sorted(((name, n) for name, n in numbers.items() if name is not None), key=lambda one: (-one[1], one[0]))
    return dict(named[:NAMED]) | ({NONE_GIVEN: numbers[None]} if None in numbers else {})


def _binned(numbers: Mapping[int, int], names: Sequence[str]) -> dict[str, int]:
    return {name: numbers.get(place, 0) for place, name in enumerate(names)}


def _example(row: Row, name: str) -> Shown:
    return {
        "id": str(row["id"]),
        "excerpt": cut(one_line(row["excerpt"]), FINDING_EXCERPT_CHARS),
        name: moment(row[name]),
    }


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None
