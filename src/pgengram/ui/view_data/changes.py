"""What somebody changes on the page: many memories at once only after a preview, and everything but erasing undone."""

from __future__ import annotations

import json
import secrets
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from pgengram.errors import Conflict, InvalidInput, NotFound
from pgengram.inputs import CLEARABLE, Change, validated
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.graph import Graph
from pgengram.service.toolsets.maintenance import Maintenance
from pgengram.store.memory import memories
from pgengram.store.reading import history
from pgengram.text.shown import local_moment
from pgengram.ui.view_data.query_values import filled
from pgengram.views import EMPTY, Shown, memory_view

MAX_KEPT: Final = 200  # previews, and changes that can be undone
DONE: Final = {
    "forget": "forgotten", "archive": "archived", "restore": "restored", "erase": "permanently erased", "merge": "merged",
    "update": "changed", "confirm": "kept",
}  # fmt: skip
TAKEN_BACK: Final = frozenset({"create", "update", "forget", "archive"})  # operations that have an undo of their own
FOLLOWS: Final = frozenset({"valid_to", "reason", "replaced_by", "merged"})  # from the status, or from other memories
Undo = Callable[[], Awaitable[list[str]]]  # takes a change back, and returns the ids of its memories
Value = TypeVar("Value")


class Kept(Generic[Value]):
    """The newest values, each under a key that nobody guesses."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, Value] = OrderedDict()

    def add(self, value: Value) -> str:
        """Keep a value and return its key."""
        key = secrets.token_urlsafe(9)
        self._values[key] = value
        if len(self._values) > MAX_KEPT:
            self._values.popitem(last=False)
        return key

    def get(self, key: str) -> Value | None:
        """Return a value; None when it is not there."""
        return self._values.get(key)

    def take(self, key: str) -> Value | None:
        """Return a value and forget it; None when it is not there."""
        return self._values.pop(key, None)


@dataclass(frozen=True, slots=True)
class Preview:
    """What was shown: the plan (or the memories to erase), its changes, the version of each memory, and how many turns
    of conversations those cite.
    """

    plan: list[Shown]
    changes: list[Shown]
    rows: dict[str, Shown]
    erases: bool = False
    turns: int = 0

    def same_as(self, other: Preview) -> bool:
        """Whether it does the same to the same versions."""
        mine, theirs = ({id_: row["version"] for id_, row in one.rows.items()} for one in (self, other))
        return mine == theirs and [one["id"] for one in self.changes] == [one["id"] for one in other.changes]


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, in words, and the key to undo it; empty where that cannot be."""

    text: str
    undo: str = ""


class Changes:
    """Changes of one namespace's memories that are shown, made as they were shown however late, and undone.

    Args:
        manager: whose memories; changed: called after each change.
    """

    def __init__(self, manager: MemoryManager, changed: Callable[[], None]) -> None:
        self._manager = manager
        self._maintenance = Maintenance(manager)
        self._changed = changed
        self._previews: Kept[Preview] = Kept()
        self._graph = Graph(manager)
        self._undos: Kept[Undo] = Kept()

    async def rows(self, ids: Sequence[UUID]) -> dict[str, Shown]:
        """Return memories whole, by id."""
        store, model = self._manager.store, self._manager.model_key
        found = await store.read_transaction(lambda tx: memories.read_memories(tx, list(ids), model))
        return {str(id_): memory_view(row) for id_, row in found.items()}

    async def preview(self, plan: list[Shown], *, erases: bool = False) -> str:
        """Return the key of what a plan would change, or of which memories it would erase; nothing is changed."""
        shown, _ = await self._shown(plan, erases=erases)
        return self._previews.add(shown)

    def shown(self, key: str) -> Preview:
        """Return what is shown under a key.

        Raises:
            NotFound: it is not kept any more.
        """
        shown = self._previews.get(key)
        if shown is None:
            raise NotFound(
                "preview", key[:16], "It was already applied, or the server was restarted. Load the page again."
            )
        return shown

    async def _shown(self, plan: list[Shown], *, erases: bool, turns: bool = False) -> tuple[Preview, str]:
        """Return a preview, and what confirms it within the next minute."""
        cited = 0
        if erases:
            asked = await self._manager.forget_memories(plan[0]["ids"], hard=True, turns=turns)
            cited = asked.turns or 0
            changes = [{"id": one["id"], "operation": "erase", "changes": {}} for one in asked.results if one["ok"]]
            token = asked.confirm_token
        else:
            tidied = await self._maintenance.tidy_memories("apply", plan=plan)
            changes, token = tidied.changes, tidied.confirm_token
        rows = await self.rows([UUID(one["id"]) for one in changes])
        return Preview(plan, changes, rows, erases, cited), token or ""

    async def apply(self, key: str, *, turns: bool = False) -> tuple[Done, Preview]:
        """Do what was shown.

        Args:
            key: of the preview.
            turns: whether the turns of conversations that erased memories cite are erased, too.

        Raises:
            NotFound: the preview is not kept any more. Conflict: it would do something else by now.
        """
        shown = self.shown(key)
        self._previews.take(key)
        now, token = await self._shown(shown.plan, erases=shown.erases, turns=turns)
        if not now.same_as(shown):
            raise Conflict(
                "Some of these memories changed after the preview was shown.", "Nothing was changed. Look again."
            )
        if shown.erases:
            await self._manager.forget_memories(shown.plan[0]["ids"], hard=True, turns=turns, confirm_token=token)
        else:
            await self._maintenance.tidy_memories("apply", confirm_token=token)
        return await self._done(shown.changes, undo=not shown.erases), shown

    async def update(self, fields: Mapping[str, Any]) -> Done:
        """Change one memory."""
        updated = await self._manager.update_memory(filled(Change, fields))
        if not updated.changed_fields:
            return Done("Nothing changed.")
        return await self._last(UUID(updated.memory_id))

    async def forget(self, id_: UUID, reason: str) -> Done:
        """Forget one memory."""
        if not (await self._manager.forget_memories([str(id_)], reason)).ok:
            raise NotFound("memory", id_)
        return await self._last(id_)

    async def restore(self, ids: Sequence[UUID]) -> Done:
        """Bring forgotten or archived memories back."""
        for id_ in ids:
            await self._manager.update_memory(Change(id=str(id_), status="active"))
        self._changed()
        return Done(f"{memories_in_words(len(ids))} restored")

    async def take_back(self, id_: UUID, version: int) -> Done:
        """Undo the newest change of a memory, whoever made it; what was stored is forgotten.

        Raises:
            Conflict: it is not the newest any more, or of a sort that has no single undo.
        """
        around = await self._manager.store.read_transaction(lambda tx: history.around(tx, [id_], ["history"]))
        newest = next(iter(around[id_]["history"]), None)
        if newest is None or newest["version"] != version or newest["operation"] not in TAKEN_BACK:
            raise Conflict("This memory was changed again since.", "Nothing was undone. Open it to see its history.")
        if newest["operation"] == "create":
            return await self.forget(id_, "taken back")
        row = (await self.rows([id_]))[str(id_)]
        await self._manager.update_memory(inverse(str(id_), newest["changes"] or {}, row))
        return await self._last(id_)

    async def _last(self, id_: UUID) -> Done:
        """Return the last change of a memory, with its undo."""
        around = await self._manager.store.read_transaction(lambda tx: history.around(tx, [id_], ["history"]))
        entry = around[id_]["history"][0]
        return await self._done([{"id": str(id_), "operation": entry["operation"], "changes": entry["changes"] or {}}])

    async def _done(self, changes: Sequence[Shown], *, undo: bool = True) -> Done:
        self._changed()
        rows = await self.rows([UUID(one["id"]) for one in changes]) if undo else {}
        back = [inverse(one["id"], one["changes"], rows[one["id"]]) for one in changes if one["id"] in rows]
        back = [change for change in back if not change.is_empty]
        return Done(summary(changes), self._undos.add(lambda: self._update(back)) if back else "")

    async def _update(self, changes: Sequence[Change]) -> list[str]:
        for change in changes:
            await self._manager.update_memory(change)
        return [change.id for change in changes]

    async def link(self, start: str, end: str, type_: str, strength: float, *, remove: bool) -> Done:
        """Link one memory to another, or remove that link."""

        async def act(*, remove: bool) -> list[str]:
            await self._graph.link_memories(start, [end], type_.strip() or None, strength, remove=remove)
            self._changed()
            return [start]

        await act(remove=remove)
        return Done("Link removed" if remove else "Linked", self._undos.add(lambda: act(remove=not remove)))

    async def rename_tag(self, tag: str, name: str) -> Done:
        """Give every memory with a tag another one instead; whoever uses the old name from now on means the new one.

        Raises:
            InvalidInput: one of them can be no tag, or they are the same.
        """
        made = await self._maintenance.tidy_memories("synonyms", synonyms={name: None, tag: name})
        changes: list[Shown] = []
        while made.confirm_token:
            changes += (await self._maintenance.tidy_memories("synonyms", confirm_token=made.confirm_token)).changes
            made = await self._maintenance.tidy_memories("synonyms")
        self._changed()
        rows = await self.rows([UUID(one["id"]) for one in changes])
        before = [inverse(one["id"], one["changes"], rows[one["id"]]) for one in changes if one["id"] in rows]

        async def back() -> list[str]:
            await self._maintenance.tidy_memories("synonyms", synonyms={tag: None})
            return await self._update(before)

        number = f"{len(changes):,} {'memory' if len(changes) == 1 else 'memories'}"
        return Done(f"Tag renamed in {number}", self._undos.add(back))

    async def undo(self, key: str) -> tuple[str, list[str]]:
        """Take a change back; return that in words, and the memories.

        Raises:
            NotFound: it was undone before, or is too long ago. Conflict: somebody changed a memory since.
        """
        back = self._undos.take(key)
        if back is None:
            raise NotFound("change", key[:16], "It was already undone, or the server was restarted.")
        ids = await back()
        self._changed()
        return "Undone", ids


def inverse(id_: str, changes: Mapping[str, Sequence[Any]], row: Shown) -> Change:
    """Return the change that takes another one back, as long as the memory is at the version of `row`."""
    before, metadata = _before(changes)
    clear = [name for name, old in before.items() if old in EMPTY and name in CLEARABLE]
    fields = {name: old for name, old in before.items() if old is not None and name not in clear}
    if row["status"] == "invalidated" or fields.get("status", "archived") != "archived":
        fields["status"] = "active"  # what is forgotten cannot be archived at once
    fields |= {"id": id_, "expected_version": row["version"]}
    return validated(
        Change, fields | ({"metadata": metadata} if metadata else {}) | ({"clear": clear} if clear else {})
    )


def _before(changes: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the changed fields and metadata were, with the type's own fields; None for no value."""
    own = {name: pair for name, pair in changes.items() if name not in FOLLOWS}
    old, new = own.pop("metadata", ({}, {}))
    fields = {name: pair[0] for name, pair in own.items() if name in Change.model_fields}
    details = {name: pair[0] for name, pair in own.items() if name not in Change.model_fields}
    return fields, dict.fromkeys(new or {}) | (old or {}) | details


def summary(changes: Sequence[Shown]) -> str:
    """Say what was done to how many memories."""
    numbers = Counter(one["operation"] for one in changes)
    if "merge" in numbers:  # whose others are forgotten
        numbers = Counter({"merge": numbers["merge"] + numbers["forget"]})
    return ", ".join(
        f"{memories_in_words(number, first=not place)} {DONE.get(operation, operation)}"
        for place, (operation, number) in enumerate(numbers.items())
    )


def memories_in_words(number: int, *, first: bool = True) -> str:
    """Return a number of memories in words; one alone needs no number."""
    one = "Memory" if first else "1 memory"
    return one if number == 1 else f"{number:,} memories"


def plan_of(action: str, ids: Sequence[str], tags: str) -> list[Shown]:
    """Return the plan of doing one thing to selected memories.

    Raises:
        InvalidInput: there is no such action, or something is missing.
    """
    if not ids:
        raise InvalidInput("No memory is selected.", "Select at least one.")
    if action not in ("forget", "archive", "tag", "erase"):
        raise InvalidInput("There is no such action.", "Use the buttons of this page.")
    if action == "tag" and not tags.strip(" ,"):
        raise InvalidInput("No tag is given.", "Type the tags to add, separated by commas.")
    return [{"action": action, "ids": list(ids), **({"tags": tags} if action == "tag" else {})}]


DAYS: Final = ("occurred_at", "expires_at")
NEEDED: Final = ("content", "importance")  # never cleared
FIELDS: Final = (*NEEDED, "kind", "project", "tags", *DAYS, "speaker", "user", "source", "pinned")


def as_typed(memory: Shown) -> dict[str, str]:
    """Return the fields of a memory as its form shows them."""
    return {name: _form_text(name, memory.get(name)) for name in FIELDS}


def _form_text(name: str, value: Any) -> str:
    if name == "tags":
        return ", ".join(value or ())
    if name == "pinned":
        return "on" if value else ""
    if name in DAYS:
        return str(local_moment(datetime.fromisoformat(value)).date()) if value else ""
    return "" if value is None else str(value)


def edited(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that somebody changed since the form was shown; all of them if it doesn't say what it showed.

    Raises:
        InvalidInput: what it showed cannot be read.
    """
    given = {name: fields.get(name, "").replace("\r\n", "\n") for name in FIELDS if name in fields or name == "pinned"}
    try:
        before = dict(json.loads(fields.get("before") or "{}"))
    except (TypeError, ValueError):
        raise InvalidInput("This form cannot be read.", "Load the page again.") from None
    return {name: value for name, value in given.items() if name not in before or before[name] != value}


def change_asked(id_: UUID, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the change that a form asks for, as arguments of update_memory."""
    given = edited(fields)
    change: dict[str, Any] = {"id": str(id_), "clear": []}
    if "pinned" in given:
        change["pinned"] = given.pop("pinned") == "on"
    for name, value in given.items():
        kept = value if name == "content" else value.strip(" ,")
        if kept or name in NEEDED:
            change[name] = f"{kept}T00:00:00Z" if name in DAYS else kept
        else:
            change["clear"].append(name)
    return change | ({"expected_version": fields["version"]} if fields.get("version") else {})
