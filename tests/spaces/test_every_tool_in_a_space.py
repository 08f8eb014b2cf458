"""Every tool by every role, inside and outside of a space: nothing of a space that somebody is not in leaves it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import psycopg
import pytest
from sharing_team import Caller, Team, made

from helpers import database_of, examples
from pgengram.store import membership
from pgengram.store.connection.database import Role

OF_KITCHEN: Final = "canarykitchen"
OF_MARA: Final = "canarymara"
OF_CELLAR: Final = "canarycellar"  # a space of Dora's alone
WORDS: Final = (OF_KITCHEN, OF_MARA, OF_CELLAR, "gate", "oven", "green", "")


@pytest.fixture(scope="module")
async def house(postgres: str, template: str) -> AsyncIterator[tuple[Team, dict[str, list[str]]]]:
    """A team with memories of everything everywhere, and the ids of what is where."""
    async with AsyncExitStack() as stack:
        team = await made(stack.enter_context(database_of(postgres, template)), stack)
        await membership.create(team.home.store, "Cellar", team.people["dora"])
        ids = {
            OF_KITCHEN: await _filled(team.mara, OF_KITCHEN, space="Kitchen"),
            OF_MARA: await _filled(team.mara, OF_MARA),
            OF_CELLAR: await _filled(team.dora, OF_CELLAR, space="Cellar"),
        }
        yield team, ids


async def _filled(caller: Caller, word: str, **where: str) -> list[str]:
    first = await caller.remember(f"The {word} gate is green.", tags=[word], project=word, **where)
    second = await caller.remember(f"The {word} oven is hot.", related_to=[first], user=word, **where)
    note = (await caller.call("create_working_memory", content=f"Oil the {word} gate.", **where))["memory_id"]
    cluster = (await caller.call("create_memory_cluster", name=word, memory_ids=[first], **where))["cluster"]["id"]
    belief = (await caller.call("record_belief", belief=f"{word} gates last.", supported_by=[first], **where))["belief"]
    return [first, second, note, cluster, belief["id"]]


def _value(schema: dict[str, Any], name: str, chance: random.Random, ids: list[str], said: list[str]) -> Any:
    """Return a value that an argument may take, often one that names something of somebody else."""
    if name == "id" or name.endswith("_id") or name == "into":
        return chance.choice(ids)
    if "enum" in schema:
        return chance.choice(schema["enum"])
    kind = schema.get("type", "string")
    kind = chance.choice(kind) if isinstance(kind, list) else kind
    if kind == "array":
        if "ids" in name or name in ("related_to", "replaces", "supported_by", "contradicted_by", "add", "remove"):
            return chance.sample(ids, chance.randint(1, 3))
        items = schema.get("items", {})
        if items.get("type") == "object":
            return [{"content": f"The {chance.choice(said)} lamp {chance.random()} is on.", "action": "archive"}]
        return [_value(items, "", chance, ids, said)]
    return {
        "boolean": lambda: chance.random() < 0.5,
        "integer": lambda: chance.randint(1, 20),
        "number": lambda: round(chance.random(), 2),
        "object": lambda: {"note": chance.choice(said)},
        "null": lambda: None,
    }.get(kind, lambda: f"the {chance.choice(said)} {chance.choice(('gate', 'oven'))}")()


def _given(caller: Caller, tool: str, chance: random.Random, ids: list[str]) -> dict[str, Any]:
    """Return arguments of a call; what it writes has no word by which what is another's is known again."""
    said = [*WORDS] if caller.registry.bindings[tool].tool.hints.read_only else ["gate", "oven", "green"]
    schema = caller.registry.bindings[tool].input_schema
    wanted = set(schema.get("required", ())) | {name for name in schema["properties"] if chance.random() < 0.3}
    given = {name: _value(schema["properties"][name], name, chance, ids, said) for name in sorted(wanted)}
    given |= {"expected_version": 1} if tool == "update_memory" and chance.random() < 0.5 else {}
    given = {name: value for name, value in given.items() if not name.startswith("ttl")}  # else it ends by itself
    where = chance.choice(["Kitchen", "Cellar", "personal", "", ""])
    return given | ({"space": where} if where and tool != "list_spaces" else {})


@pytest.mark.parametrize("name", ["mara", "ben", "cleo", "dora"])
async def test_no_call_of_any_tool_tells_or_changes_what_its_person_may_not_see(
    house: tuple[Team, dict[str, list[str]]], name: str
) -> None:
    team, ids = house
    caller, chance = team.callers[name], random.Random(name)
    hidden = {
        "mara": [OF_CELLAR],
        "ben": [OF_CELLAR, OF_MARA],
        "cleo": [OF_CELLAR, OF_MARA],
        "dora": [OF_KITCHEN, OF_MARA],
    }
    foreign = hidden[name]
    every = [id_ for group in ids.values() for id_ in group]
    tools = sorted(caller.registry.bindings)
    before = {word: _rows(team, word) for word in (*foreign, *([OF_KITCHEN] if name == "cleo" else []))}

    for number in range(examples(150)):
        tool = tools[number % len(tools)]
        given = _given(caller, tool, chance, every)
        if tool == "forget_memories" or "hard" in given:
            given["hard"] = False  # what somebody may erase of their own would leave nothing to ask for
        text = (await caller.raw(tool, None, **given))["content"][0]["text"]

        for word in foreign:
            told = text
            for mine in given.values():  # what the call itself says may be said back
                told = told.replace(str(mine), "")
            if word not in str(given):
                assert word not in told, (tool, given)
        for group in foreign:
            assert not [id_ for id_ in ids[group] if id_ in text and id_ not in str(given)], (tool, given)
    for word, rows in before.items():
        assert _rows(team, word) ^ rows == set()


def _rows(team: Team, word: str) -> set[str]:
    """Return all rows of where a word belongs, but for how often hits were shown, which is counted later."""
    where = {OF_KITCHEN: "space:Kitchen", OF_MARA: "mara", OF_CELLAR: "space:Cellar"}[word]
    tables = ("memories", "memory_tags", "memory_relationships", "memory_clusters", "memory_cluster_members",
              "working_memories", "memory_beliefs", "memory_belief_evidence", "memory_history", "memory_activation")  # fmt: skip
    found: list[tuple[str]] = []
    with psycopg.connect(team.database.url) as connection:
        connection.execute("SELECT set_config('pgengram.maintenance', 'on', true)")
        for table in tables:
            found += connection.execute(
                f"SELECT (to_jsonb(t) - 'access_count')::text FROM {table} t WHERE namespace_id = (SELECT id FROM namespaces WHERE name = %s) ORDER BY 1",
                [where],
            ).fetchall()
    return {row for (row,) in found}


async def test_a_removed_members_next_statement_sees_nothing_in_any_of_many_races(
    house: tuple[Team, dict[str, list[str]]],
) -> None:
    team, _ = house
    store, kitchen, ben, mara = team.home.store, team.kitchen.id, team.people["ben"], team.people["mara"]
    async with team.ben.spaces.manager(await team.ben.spaces.named("Kitchen")) as manager:
        for _ in range(examples(10)):
            async with manager.store.transaction() as tx:
                assert await tx.rows("SELECT 1 FROM memories LIMIT 1")
                await membership.remove(store, kitchen, ben, by=mara)
                assert await tx.rows("SELECT 1 FROM memories LIMIT 1") == []
                assert await tx.rows("SELECT 1 FROM memory_tags LIMIT 1") == []
            await membership.put(store, kitchen, ben, Role.WRITE, by=mara)
