"""Plans of changes: forgetting, archiving, merging and erasing, shown first and then done as a whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram.errors import Conflict, InvalidInput, NotFound
from pgengram.inputs import Change
from pgengram.runtime.context import report_progress
from pgengram.store import clusters, membership
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory import changes, deletion, memories, statements
from pgengram.store.memory import statements as s
from pgengram.store.memory.changes import merged_plan
from pgengram.store.memory.confirmations import QUOTED, row_versions
from pgengram.store.memory.merging import move_edges
from pgengram.text.markdown import one_line
from pgengram.text.shown import counted
from pgengram.views import cut

Verb = Literal["merge", "forget", "archive", "tag", "retag", "confirm", "keep", "erase"]
REMOVING: Final = ("merge", "forget", "archive", "erase")
LIVING: Final = ("active", "archived")
ASKED: Final = {"erase": "Permanently erase", "forget": "Forget"}  # of a plan that does nothing else
EXCERPT: Final = 120
TOLD_EACH: Final = 20  # memories that are changed before whoever waits is told

# One statement for all, as archiving takes many at once. Uses memories_pkey.
ARCHIVE: Final = """
WITH done AS (
  UPDATE memories SET status = 'archived', version = version + 1, updated_at = now()
  WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s) RETURNING id, version
)
INSERT INTO memory_history (namespace_id, memory_id, version, operation, session_id, changes)
SELECT %(namespace_id)s, id, version, 'archive', %(session_id)s, %(changes)s FROM done RETURNING 1
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: the verb, to which memories, and what the verb needs beside.

    turns: whether what is erased takes along the turns of conversations that it cites.
    """

    action: Verb
    ids: list[UUID]
    into: UUID | None = None
    tags: list[str] = field(default_factory=list)
    reason: str | None = None
    replaced_by: list[UUID] = field(default_factory=list)
    turns: bool = False

    @property
    def touched(self) -> list[UUID]:
        """The memories that would be changed."""
        return [*self.ids, *([self.into] if self.into else [])]

    @property
    def named(self) -> list[UUID]:
        """All memories that it speaks of."""
        return [*self.touched, *self.replaced_by]

    @property
    def instead(self) -> list[UUID]:
        """The memories that replace those it forgets."""
        return [self.into] if self.into else self.replaced_by

    def as_json(self) -> dict[str, Any]:
        """Return it as it is kept for a confirmation, and shown."""
        known: dict[str, Any] = {
            "action": self.action,
            "ids": [str(id_) for id_ in self.ids],
            "into": self.into and str(self.into),
            "tags": self.tags,
            "reason": self.reason,
            "replaced_by": [str(id_) for id_ in self.replaced_by],
            "turns": self.turns,
        }
        return {name: value for name, value in known.items() if value}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Step:
        """Return what `as_json` wrote."""
        return cls(
            kept["action"],
            [UUID(id_) for id_ in kept["ids"]],
            UUID(into) if (into := kept.get("into")) else None,
            kept.get("tags", []),
            kept.get("reason"),
            [UUID(id_) for id_ in kept.get("replaced_by", [])],
            kept.get("turns", False),
        )


@dataclass(frozen=True, slots=True)
class Effect:
    """What a plan does to one memory."""

    row: Row
    step: Step
    made: changes.Plan

    @property
    def id(self) -> UUID:
        """The memory."""
        id_: UUID = self.row["id"]
        return id_

    def as_json(self) -> dict[str, Any]:
        """Return it as it is shown: the operation, and for each field its old and its new value."""
        return {"id": str(self.id), "operation": self.made.operation, "changes": self.made.changes}


@dataclass(frozen=True)
class ChangePlan:
    """Steps, the memories that they speak of as they are now, and so what would be changed.

    Attributes:
        steps: what is to be done.
        rows: those of the memories that are there.
        replayable: whether a token alone carries it out, so that the steps are kept with the token.
        problems: what was asked for and is not a memory, with the error of each.
    """

    steps: Sequence[Step]
    rows: Mapping[UUID, Row]
    replayable: bool = False
    problems: Mapping[str, NotFound | Conflict] = field(default_factory=dict)

    @classmethod
    async def read(
        cls, tx: Transaction, steps: Sequence[Step], *, lock: bool = True, replayable: bool = False, **more: Any
    ) -> ChangePlan:
        """Return the plan of `steps` over the memories that they speak of, which are locked from now on unless `lock`
        is off or `tx` only reads.
        """
        named = sorted({id_ for step in steps for id_ in step.named})
        if lock:
            await tx.rows(s.LOCK, {"ids": named})
        return cls(steps, await memories.read_memories(tx, named, tx.model_id), replayable, **more)

    # -- showing ---------------------------------------------------------------------------------------------------

    @cached_property
    def effects(self) -> list[Effect]:
        """What the steps do to each memory; memories that stay as they are have none.

        Raises:
            InvalidInput: memories that are to be merged hold too much together.
        """
        return [effect for step in self.steps for effect in self._effects(step) if effect.made.changes]

    def _effects(self, step: Step) -> Iterator[Effect]:
        if step.action == "merge" and step.into is not None:
            into, others = self.rows[step.into], [self.rows[id_] for id_ in step.ids]
            yield Effect(into, step, merged_plan(into, others))
        for id_ in dict.fromkeys(step.ids):
            if id_ in self.rows:
                yield Effect(self.rows[id_], step, _made(step, self.rows[id_]))

    @property
    def summary(self) -> str:
        """How many memories which operation concerns."""
        counted = Counter(effect.made.operation for effect in self.effects)
        return ", ".join(f"{operation} {number}" for operation, number in counted.items())

    @property
    def question(self) -> str:
        """What the user is asked: how many memories, the first of them, and whether they can be restored."""
        done = {effect.made.operation for effect in self.effects}
        one_verb = ASKED.get(next(iter(done), "")) if len(done) == 1 else None
        lines = [f"{one_verb} {counted(len(self.effects))}?" if one_verb else f"Tidy memories: {self.summary}?"]
        for effect in self.effects[:QUOTED]:
            text = cut(one_line(effect.row["content"]), EXCERPT)
            lines.append(f"- {text}" if one_verb else f"- {effect.made.operation}: {text}")
        if len(self.effects) > QUOTED:
            lines.append(f"and {len(self.effects) - QUOTED} more")
        return "\n".join([*lines, *(self._what_goes_with_erased() if "erase" in done else ())])

    def _what_goes_with_erased(self) -> Iterator[str]:
        if self.cited:
            fate = "are erased, too" if any(step.turns for step in self.steps) else "stay"
            yield f"The turns of conversations that they cite {fate}."
        yield "Erased memories cannot be restored."

    @property
    def cited(self) -> list[Row]:
        """The turns of conversations that the memories to erase cite: `memory_id`, client, conversation and number."""
        return [
            turn
            for effect in self.effects
            if effect.made.operation == "erase"
            for turn in deletion.cited_turns(effect.row)
        ]

    # -- agreeing --------------------------------------------------------------------------------------------------

    @property
    def kept(self) -> dict[str, Any]:
        """What a confirmation is valid for: these steps, and these memories in the versions that were shown."""
        kept = {"fingerprint": fingerprint(self.steps), "versions": row_versions(self.rows.values())}
        return kept | ({"steps": [step.as_json() for step in self.steps]} if self.replayable else {})

    def check(self) -> None:
        """Refuse a plan that cannot be done as it stands.

        Raises:
            NotFound: a memory is not there.
            InvalidInput: a memory would be changed twice, is pinned, is merged into itself, or is replaced by a
            forgotten one. Conflict: a memory is forgotten already.
        """
        seen: set[UUID] = set()
        for step in self.steps:
            for id_ in step.named:
                if id_ not in self.rows:
                    raise NotFound("memory", id_)
            if step.action == "keep":
                continue
            if twice := seen & set(step.touched):
                raise InvalidInput(f"Memory {min(twice)} is in two actions of the plan.")
            seen |= set(step.touched)
            self.check_replacements(step)
            self._check_states(step)

    def check_replacements(self, step: Step) -> None:
        """Refuse a step whose memories would be replaced by themselves or by one that is forgotten.

        Raises:
            InvalidInput: that is so, or the step lacks something.
        """
        if step.action == "merge" and step.into is None:
            raise InvalidInput("A merge needs into: the memory to keep.")
        if step.action == "tag" and not step.tags:
            raise InvalidInput("The action tag needs tags.")
        if set(step.ids) & set(step.instead):
            raise InvalidInput("A memory cannot be merged into itself or replace itself.")
        for id_ in step.replaced_by:
            if self.rows[id_]["status"] == "invalidated":
                raise InvalidInput(f"{id_} is forgotten, so it cannot replace another memory.")

    def _check_states(self, step: Step) -> None:
        for row in (self.rows[id_] for id_ in step.ids):
            if step.action in ("merge", "forget", "archive", "erase") and row["pinned"]:
                raise InvalidInput(
                    f"Memory {row['id']} is pinned.", "Unpin it with update_memory first, or leave it out."
                )
            wanted = {"archive": ("active",), "erase": ("archived",)}.get(step.action, LIVING)
            if row["status"] not in wanted:
                raise Conflict(
                    f"Memory {row['id']} is {row['status']}.",
                    "Leave it out, or restore it with update_memory (status active).",
                )
        if step.into is not None and self.rows[step.into]["status"] != "active":
            raise Conflict(f"Memory {step.into} is not active, so none can be merged into it.")

    def check_rights(self, tx: Transaction) -> None:
        """Refuse to remove what others stored in a space, unless another memory is to hold instead.

        Raises:
            NotAllowed: whoever asks may not do that.
        """
        for step in self.steps:
            corrects = step.action == "forget" and step.replaced_by
            ids = [] if step.action not in REMOVING or corrects else step.ids
            membership.refuse_removal(tx, (self.rows[id_] for id_ in ids if id_ in self.rows))

    # -- doing -----------------------------------------------------------------------------------------------------

    async def execute(
        self, tx: Transaction, *, session_id: str | None, listed: bool = True
    ) -> dict[UUID, dict[str, Any]]:
        """Do all of it, in the transaction that locked the memories; return a receipt for each that was erased.

        Args:
            tx: the transaction.
            session_id: the conversation in which it is done.
            listed: whether erased memories are listed, so that an older backup does not bring them back.
        """
        self.check_rights(tx)
        await statements.hold_words(tx, [effect.id for effect in self.effects])
        if archived := self._with_operation("archive"):
            await _archive(tx, archived, session_id)
        for done, effect in enumerate(self.effects, 1):
            await self._apply(tx, effect, session_id)
            if not done % TOLD_EACH:
                await report_progress(f"{done:,} of {len(self.effects):,} memories are changed.")
        for step in self.steps:
            if step.action == "merge" and step.into is not None:
                await move_edges(tx, step.into, step.ids, session_id)
        return await self._erase(tx, session_id=session_id, listed=listed)

    def _with_operation(self, operation: str) -> list[UUID]:
        return [effect.id for effect in self.effects if effect.made.operation == operation]

    async def _apply(self, tx: Transaction, effect: Effect, session_id: str | None) -> None:
        """Change or forget one memory; those to archive or erase are done all at once."""
        if effect.made.operation == "forget":
            await self._forget(tx, effect, session_id)
        elif effect.made.operation not in ("archive", "erase"):
            await changes.apply(tx, effect.row, effect.made, parts=None, model_id=tx.model_id, session_id=session_id)

    async def _erase(self, tx: Transaction, *, session_id: str | None, listed: bool) -> dict[UUID, dict[str, Any]]:
        if not (erased := self._with_operation("erase")):
            return {}
        with_turns = {id_ for step in self.steps if step.turns for id_ in step.ids}
        cited = [turn for turn in self.cited if turn["memory_id"] in with_turns]
        receipts = await deletion.erase_memories(tx, erased, session_id=session_id, listed=listed, cited=cited)
        return {receipt["id"]: receipt for receipt in receipts}

    async def _forget(self, tx: Transaction, effect: Effect, session_id: str | None) -> None:
        instead = effect.step.instead
        await changes.forget_memory(
            tx,
            effect.row,
            reason=effect.step.reason,
            replaced_by=instead,
            session_id=session_id,
            replaced_from=min((self.rows[id_]["valid_from"] for id_ in instead), default=None),
        )


async def _archive(tx: Transaction, ids: list[UUID], session_id: str | None) -> None:
    await statements.unpost(tx, ids)
    await tx.run(ARCHIVE, {"ids": ids, "session_id": session_id, "changes": Jsonb({"status": ["active", "archived"]})})
    await clusters.renew_of(tx, ids)


def _made(step: Step, row: Row) -> changes.Plan:
    """Return what a step makes of one of its memories."""
    if step.action == "confirm":
        return changes.plan(row, Change(id=str(row["id"]), confirm=True))
    if step.action in ("tag", "retag"):
        return changes.plan(row, Change(id=str(row["id"]), tags=_tagged(step, row["tags"])))
    after: dict[str, Any] = {}
    if step.action in ("merge", "forget"):
        after = {"status": "invalidated", "reason": step.reason or row["reason"]}
        after |= {"replaced_by": step.instead} if step.instead else {}
    elif step.action in ("archive", "erase"):
        after = {"status": f"{step.action}d"}
    made = changes.Plan(operation="forget" if step.action == "merge" else step.action)
    for name, value in after.items():
        if value != row[name]:
            changes.note_field(made, name, row[name], value)
    return made


def _tagged(step: Step, tags: list[str]) -> list[str]:
    """Return the tags of a memory with those of the step; retagging takes `alias=tag` pairs and replaces them."""
    if step.action == "tag":
        return list(dict.fromkeys([*tags, *step.tags]))
    instead = dict(pair.split("=", 1) for pair in step.tags)
    return list(dict.fromkeys(instead.get(tag, tag) for tag in tags))


async def removal(
    tx: Transaction,
    ids: Sequence[str],
    replaced_by_ids: Sequence[str],
    reason: str = "",
    *,
    hard: bool = False,
    turns: bool = False,
    corrects: bool = False,
) -> ChangePlan:
    """Return the plan of forgetting or erasing memories, and refuse what cannot hold instead of them.

    What `corrects` will have others instead.
    """
    instead = await memories.resolve_ids(tx, replaced_by_ids)
    instead.refuse_problems()
    there = await memories.resolve_ids(tx, ids)
    step = Step("erase" if hard else "forget", there.ids, reason=reason or None, replaced_by=instead.ids, turns=turns)
    made = await ChangePlan.read(tx, [step], problems=there.problems)
    made.check_replacements(step)
    if not corrects:
        made.check_rights(tx)
    return made


def fingerprint(steps: Iterable[Step]) -> str:
    """Return a digest of steps that tells them from others; their reasons, which are only noted, don't count."""
    shown = [{name: value for name, value in step.as_json().items() if name != "reason"} for step in steps]
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()
