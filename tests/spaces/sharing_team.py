"""People who share a space, each with a client of their own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from helpers import Database
from pgengram.mcp.tool_registry import ToolRegistry
from pgengram.service.manager import MemoryManager
from pgengram.service.spaces import SpaceManagers, Spaces
from pgengram.settings import Settings
from pgengram.store import membership, persons
from pgengram.store.connection.database import Role
from pgengram.store.membership import Space
from pgengram.store.persons import Person, Right

WHO = {"mara": Role.ADMIN, "ben": Role.WRITE, "cleo": Role.READ}  # Dora is in no space


class PersonWhoAnswers:
    """Whoever sits before a client: says what they were shown, and yes or no."""

    answer = None

    def __init__(self, *, agrees: bool = True) -> None:
        self.agrees = agrees
        self.asked: list[str] = []

    async def ask(self, question: str, token: str) -> bool:
        del token
        self.asked.append(question)
        return self.agrees


@dataclass
class Caller:
    """Somebody's assistant: what it may use, and calls as a client makes them."""

    spaces: Spaces
    registry: ToolRegistry
    numbers: list[int] = field(default_factory=lambda: [0])

    async def raw(self, tool: str, asker: Any = None, **given: Any) -> dict[str, Any]:
        async def report(_: str) -> None:
            return None

        self.numbers[0] += 1
        return await self.registry.call(tool, given, id_=self.numbers[0], caller="test", asker=asker, report=report)

    async def call(self, tool: str, asker: Any = None, **given: Any) -> dict[str, Any]:
        answer = await self.raw(tool, asker, **given)
        assert not answer["isError"], answer["content"][0]["text"]
        return answer["structuredContent"]

    async def refused(self, tool: str, asker: Any = None, **given: Any) -> str:
        answer = await self.raw(tool, asker, **given)
        assert answer["isError"], answer
        return answer["content"][0]["text"]

    async def remember(self, content: str, **given: Any) -> str:
        return (await self.call("create_memory", content=content, **given))["memory_id"]

    async def found(self, query: str, **given: Any) -> list[str]:
        return [hit["content"] for hit in (await self.call("search_memories", query=query, **given))["results"]]


@dataclass
class Team:
    """A space called Kitchen with an admin, somebody who writes and a guest, and somebody who is not in it."""

    database: Database
    home: MemoryManager
    people: dict[str, Person]
    kitchen: Space
    stack: AsyncExitStack
    callers: dict[str, Caller]

    def __getattr__(self, name: str) -> Caller:
        return self.callers[name]

    def caller(
        self, name: str, allowed: Mapping[int, Right] | None = None, *, writes: bool = True, **settings: Any
    ) -> Caller:
        """Return an assistant of somebody that may use the spaces named; all of theirs unless some are."""
        chosen = (
            {"database_url": self.database.url, "namespace": name, "embedder": "none:", "answers": "full"}
            | {"toolsets": "all"}
            | settings
        )
        manager = MemoryManager(Settings(**chosen), self.home)
        managers = SpaceManagers(manager)
        self.stack.push_async_callback(manager.close)
        self.stack.push_async_callback(managers.close)
        spaces = Spaces(managers, allowed, writes=writes)
        tools = [tool for tool in manager.tools if writes or tool.hints.read_only]
        return Caller(spaces, ToolRegistry(tools, ready=manager.ready, spaces=spaces))


async def made(database: Database, stack: AsyncExitStack, **settings: Any) -> Team:
    """Return a team in a database without memories."""
    home = MemoryManager(Settings(database_url=database.url, embedder=settings.get("embedder", "none:")))
    await home.ready()
    stack.push_async_callback(home.close)
    people = {name: await persons.add(home.store, name.title(), name) for name in (*WHO, "dora")}
    kitchen = await membership.create(home.store, "Kitchen", people["mara"])
    for name in ("ben", "cleo"):
        await membership.put(home.store, kitchen.id, people[name], WHO[name], by=people["mara"])
    for person in people.values():
        await membership.notices(home.store, person.id)
    team = Team(database, home, people, kitchen, stack, {})
    team.callers = {name: team.caller(name, **settings) for name in people}
    return team
