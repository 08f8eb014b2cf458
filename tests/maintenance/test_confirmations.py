"""Whoever agrees, by whatever way, agrees to the memories that were shown, in the versions that were shown, and to no others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from helpers import Database, diagonal, examples, owned_tables
from pgengram.errors import ConfirmRequired, Conflict, NotFound
from pgengram.inputs import Change
from pgengram.runtime.context import ASKER
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.maintenance import Maintenance
from pgengram.store.maintenance import findings
from pgengram.ui.view_data.changes import Changes
from pgengram.views import Answer

Call = Callable[[str], Awaitable[Any]]
Meanwhile = Callable[[], Awaitable[None]]

ACTIONS = ("erase", "forget", "archive", "prune", "merge", "plan")
WAYS = ("token", "asked while the call waits", "asked by repeating the call")
PAGE = "on the page"  # where nothing is pruned
CHANGES = ("content", "confirm", "tag", "forget", "erase")  # of a memory that was shown
HARMLESS = ("read", "add")


class Taken(Exception):
    """A question that goes out as a result; the answer comes with the call made again."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token


@dataclass
class Asked:
    """The user of a client: what they are asked, what happens before they answer, and that they say yes."""

    meanwhile: Meanwhile
    waits: bool
    answer: tuple[str, bool] | None = None
    questions: list[str] = field(default_factory=list)

    async def ask(self, question: str, token: str) -> bool | None:
        self.questions.append(question)
        if not self.waits:
            raise Taken(token)
        await self.meanwhile()
        return True


async def agreed(call: Call, way: str, meanwhile: Meanwhile) -> Any:
    """Make a call that needs a yes, let something happen, and say yes."""
    if way == "token":
        shown = await call("")
        await meanwhile()
        return await call(shown.confirm_token)
    asked = Asked(meanwhile, waits=way == WAYS[1])
    mark = ASKER.set(asked)
    try:
        try:
            return await call("")
        except Taken as taken:
            await meanwhile()
            asked.answer = taken.token, True
            return await call("")
    finally:
        ASKER.reset(mark)


def rows(db: Database) -> dict[str, tuple[str, int, str]]:
    found = db.rows("SELECT id::text, status, version, content FROM memories")
    return {row["id"]: (row["status"], row["version"], row["content"]) for row in found}


async def notes(manager: MemoryManager, count: int) -> list[str]:
    """Store memories of which the first five, which a question quotes, say the same as those of every other such batch."""
    items = [
        {"content": f"Shopping list {n}: bread.", "project": uuid4().hex, "dedup_policy": "insert"}
        for n in range(count)
    ]
    return [one["memory_id"] for one in (await manager.create_memories(items)).results]


def steps_for(action: str, ids: list[str]) -> list[dict[str, Any]]:
    """Return the plan that does `action` to `ids`."""
    if action == "merge":
        return [{"action": "merge", "into": ids[0], "ids": ids[1:]}]
    if action != "plan":
        return [{"action": action, "ids": ids}]
    third = max(1, len(ids) // 3)
    parts = {"forget": ids[:third], "archive": ids[third : 2 * third], "confirm": ids[2 * third :]}
    return [{"action": verb, "ids": part} for verb, part in parts.items() if part]


def call_for(action: str, manager: MemoryManager, ids: list[str]) -> Call:
    """Return the call that does `action` to `ids`, and takes what stands for a yes."""
    tidy = Maintenance(manager).tidy_memories
    if action in ("erase", "forget"):
        return lambda token: manager.forget_memories(ids, hard=action == "erase", confirm_token=token)
    if action in ("archive", "prune"):
        return lambda token: tidy(action, confirm_token=token, older_than_days=0, below_importance=0.9, max_accesses=9)
    return lambda token: tidy("apply", plan=steps_for(action, ids), confirm_token=token)


async def agreed_on_the_page(action: str, manager: MemoryManager, ids: list[str], meanwhile: Meanwhile) -> None:
    """Look at the preview of a change, let something happen, and apply it."""
    page = Changes(manager, lambda: None)
    key = await page.preview(steps_for(action, ids), erases=action == "erase")
    await meanwhile()
    await page.apply(key)


async def happen(manager: MemoryManager, change: str, id_: str) -> None:
    if change == "content":
        await manager.update_memory(Change(id=id_, content=f"Now it says something else: {uuid4()}."))
    elif change == "confirm":
        await manager.update_memory(Change(id=id_, confirm=True))
    elif change == "tag":
        await manager.update_memory(Change(id=id_, tags=["changed"]))
    elif change == "forget":
        await manager.forget_memories([id_])
    elif change == "erase":
        await manager.erase([id_])
    elif change == "read":
        await manager.get_memories([id_])
    else:
        await notes(manager, 3)


@pytest.mark.parametrize(
    ("action", "way"),
    [one for one in diagonal(ACTIONS, (*WAYS, PAGE)) if one.values != ("prune", PAGE)],
)
@settings(
    max_examples=examples(1),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@example(count=3, changes=[("content", 0)])
@example(count=3, changes=[("read", 0), ("add", 0)])
@given(
    count=st.integers(1, 200) | st.sampled_from([1, 5, 20, 21, 200]),
    changes=st.lists(st.tuples(st.sampled_from(CHANGES + HARMLESS), st.integers(0, 199)), max_size=3),
)
async def test_a_yes_is_for_the_memories_and_versions_that_were_shown(
    manager: MemoryManager, database: Database, action: str, way: str, count: int, changes: list[tuple[str, int]]
) -> None:
    database.empty(owned_tables())
    count = max(count, {"forget": 21, "merge": 2}.get(action, 1))
    ids = await notes(manager, count)
    bystanders = await notes(manager, 3)
    await manager.forget_memories(bystanders)
    if action == "prune":
        database.rows("UPDATE memories SET status = 'archived' WHERE id = ANY(%s)", [[UUID(id_) for id_ in ids]])
    between: dict[str, Any] = {}

    async def meanwhile() -> None:
        for change, place in changes:
            if ids[place % count] in rows(database):
                await happen(manager, change, ids[place % count])
        between.update(rows(database))

    def agree() -> Awaitable[Any]:
        if way == PAGE:
            return agreed_on_the_page(action, manager, ids, meanwhile)
        return agreed(call_for(action, manager, ids), way, meanwhile)

    if any(change in CHANGES for change, _ in changes):
        with pytest.raises((ConfirmRequired, Conflict, NotFound)) as refused:
            await agree()
        assert rows(database) == between
        if isinstance(refused.value, ConfirmRequired):
            assert any(id_ in refused.value.message for id_ in ids)
            assert "without confirm_token" in refused.value.hint
        else:
            assert way == PAGE
    else:
        before = rows(database)
        await agree()
        after = rows(database)
        assert {id_ for id_ in before if after.get(id_) != before[id_]} == set(ids)
        assert {id_: after[id_] for id_ in bystanders} == {id_: before[id_] for id_ in bystanders}


@pytest.mark.parametrize("way", WAYS)
async def test_a_yes_to_some_memories_is_none_to_others_that_look_the_same(
    manager: MemoryManager, database: Database, way: str
) -> None:
    ids, others = await notes(manager, 21), await notes(manager, 21)
    swapped: list[str] = []
    before = rows(database)

    def call(token: str) -> Awaitable[Any]:
        return manager.forget_memories([*ids[:5], *(swapped or ids[5:])], hard=True, confirm_token=token)

    async def meanwhile() -> None:
        swapped.extend(others[5:])

    if way == WAYS[1]:  # there the arguments cannot change: the call is still the same one
        await agreed(call, way, meanwhile)
        assert before.keys() - rows(database).keys() == set(ids)
    else:
        with pytest.raises(ConfirmRequired):
            await agreed(call, way, meanwhile)
        assert rows(database) == before


async def test_ids_of_memories_that_are_gone_count_when_it_is_decided_whether_to_ask(
    manager: MemoryManager, database: Database
) -> None:
    ids = await notes(manager, 21)
    await manager.erase(ids[:1])
    before = rows(database)

    shown = await manager.forget_memories(ids)

    assert shown.confirm_token
    assert rows(database) == before


@pytest.mark.parametrize("way", WAYS[1:])
async def test_a_no_leaves_everything_and_makes_the_question_worthless(
    manager: MemoryManager, database: Database, way: str
) -> None:
    ids = await notes(manager, 3)
    before = rows(database)
    asked = Asked(lambda: None, waits=False)  # type: ignore[arg-type, return-value]
    mark = ASKER.set(asked)
    try:
        with pytest.raises(Taken) as taken:
            await manager.forget_memories(ids, hard=True)
        asked.answer = taken.value.token, False
        with pytest.raises(ConfirmRequired):
            await manager.forget_memories(ids, hard=True)
    finally:
        ASKER.reset(mark)

    assert rows(database) == before
    assert database.value("SELECT count(*) FROM memory_confirmations") == 0
    with pytest.raises(ConfirmRequired):
        await manager.forget_memories(ids, hard=True, confirm_token=taken.value.token)


async def test_a_review_confirms_nothing_that_was_changed_while_it_looked(
    manager: MemoryManager, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    [id_] = await notes(manager, 1)
    database.rows("UPDATE memories SET expires_at = now() - interval '1 day'")
    judge = findings.count_findings

    async def judge_and_then_live_on(*args: Any, **how: Any) -> Any:
        found = await judge(*args, **how)
        await manager.update_memory(Change(id=id_, expires_at=datetime.now(UTC) + timedelta(days=9)))
        return found

    monkeypatch.setattr(findings, "count_findings", judge_and_then_live_on)
    reviewed = await Maintenance(manager).review_memories(find=["expired"])
    monkeypatch.undo()

    assert reviewed.plan == [{"action": "archive", "ids": [id_]}]
    assert reviewed.confirm_token
    with pytest.raises(ConfirmRequired, match=id_):
        await Maintenance(manager).tidy_memories("apply", confirm_token=reviewed.confirm_token)
    assert rows(database)[id_][0] == "active"


async def test_what_was_erased_while_a_plan_waited_is_named(manager: MemoryManager, database: Database) -> None:
    one, two = await notes(manager, 2)
    shown: Answer = await Maintenance(manager).tidy_memories("apply", plan=[{"action": "archive", "ids": [one, two]}])
    await manager.erase([one])

    with pytest.raises(ConfirmRequired, match=f"memory {one} was erased"):
        await Maintenance(manager).tidy_memories("apply", confirm_token=shown.confirm_token)  # type: ignore[attr-defined]

    assert rows(database)[two][0] == "active"
