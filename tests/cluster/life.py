"""One of everything that a namespace can ask, and a record of the statements that it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from pgengram.mcp.binding import ToolBinding
from pgengram.service.manager import MemoryManager
from pgengram.store.connection.database import Transaction
from pgengram.store.maintenance import namespaces

DIMENSIONS = 384
SECRET_FREE = "The provider rejects cards from Norway."


def vector(seed: int) -> list[float]:
    return [float((seed * 7919 + place * 104729) % 97 - 48) for place in range(DIMENSIONS)]


class Life:
    """Calls tools as an assistant would, in this process."""

    def __init__(self, manager: MemoryManager) -> None:
        self._offers = {tool.name: ToolBinding(tool) for tool in manager.tools}
        self.called: set[str] = set()
        self.manager = manager

    @property
    def tools(self) -> set[str]:
        return set(self._offers)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.called.add(tool)
        binding = self._offers[tool]
        answer = await binding.read(arguments).run()
        assert answer.ok
        return answer.model_dump(mode="json")

    async def one_of_each(self) -> None:
        """Call every tool, search in every way, and erase the namespace in the end."""
        ids = await self._stored()
        await self._searched()
        await self._linked(ids)
        await self._held()
        await self._kept_in_order(ids)
        await namespaces.take_away_namespace(self.manager.store.database, "default")

    async def _stored(self) -> list[str]:
        first = await self.call("create_memory", content=SECRET_FREE, embedding=vector(1), tags=["cards"], kind="fact")
        await self.call("create_memory", content=SECRET_FREE, tags=["cards", "norway"])
        items = [
            {"content": f"Turn {n}: {'why is the card rejected?' if n % 2 else 'because it is Norwegian'}", "type": type_,
             "session_id": "chat", "speaker": f"S{n % 2}", "tags": ["turn"], "project": "pay"}
            for n, type_ in enumerate(["episodic", "semantic", "procedural", "strategic"])
        ]  # fmt: skip
        made = await self.call("create_memories", items=items)
        ids = [first["memory_id"], *(result["memory_id"] for result in made["results"])]
        await self.call(
            "update_memory", id=ids[0], content="The provider rejects all cards from Norway.", importance=0.9
        )
        await self.call("update_memory", id=ids[1], tags=["turn", "spoken"])
        await self.call("get_memories", ids=[*ids, ids[0][-8:]], include=["history", "relations", "clusters"])
        return ids

    async def _searched(self) -> None:
        for more in (
            {"query": "Norway"},
            {"query": "Norway", "mode": "text"},
            {"query": '"all cards" -Sweden', "mode": "text"},
            {"query": "Norway", "embedding": vector(1)},
            {"embedding": vector(1), "mode": "semantic"},
            {"query": "Norway", "tags": ["turn"], "min_importance": 0.1, "project": "pay", "detail": True},
            {"query": "when was that in March?", "session_id": "chat"},
            {"query": "Norway", "status": "invalidated"},
            {"query": "", "sort": "relevance"},
            {"query": "", "sort": "created", "limit": 1},
            {"query": "", "sort": "importance", "tags": ["turn"]},
            {"query": "all cards", "mode": "substring"},
            {"query": "Norway", "as_of": "2030-01-01T00:00:00Z"},
            {"query": "Norway", "count_only": True},
        ):
            found = await self.call("search_memories", **more)
            if found.get("next_cursor"):
                await self.call("search_memories", **more, cursor=found["next_cursor"])
        await self.call("recall_context", context="rejected cards from Norway")

    async def _linked(self, ids: list[str]) -> None:
        await self.call("link_memories", from_id=ids[0], to_ids=ids[1:4], type="causes")
        await self.call("link_memories", from_id=ids[1], to_ids=ids[2:3], type="contradicts")
        await self.call("explore_memories", ids=[ids[0]], depth=3, include_similar=True)
        await self.call("link_memories", from_id=ids[0], to_ids=ids[1:2], remove=True)
        cluster = await self.call("create_memory_cluster", name="Payment", type="theme", memory_ids=ids[:2])
        cluster_id = cluster["cluster"]["id"]
        await self.call("update_cluster_members", cluster_id=cluster_id, add=ids[2:4], remove=ids[1:2])
        await self.call("activate_cluster", cluster_id=cluster_id)
        await self.call("get_memory_clusters", ids=[cluster_id], insights=True, similar_threshold=0.1)

    async def _held(self) -> None:
        note = await self.call("create_working_memory", content="Oslo was rejected.", embedding=vector(3))
        await self.call("create_working_memory", content="Oslo was rejected.", embedding=vector(3))
        await self.call("get_working_memories", query="Oslo")
        await self.call("consolidate_working_memory", ids=[note["memory_id"]], content="Cards of Oslo are rejected.")

    async def _kept_in_order(self, ids: list[str]) -> None:
        await self.call("record_identity", self_concept="A bookkeeper.")
        await self.call("get_identity_core")
        await self.call("record_belief", belief="Norway is difficult.", supported_by=[ids[0]])
        await self.call("get_worldview")
        await self.call("memory_stats")
        await self.call("review_memories")
        await self.call("tidy_memories", action="archive")
        await self.call("forget_memories", ids=ids[1:2], reason="no longer")
        await self.call("update_memory", id=ids[1], status="active")
        await self.manager.erase(ids[2:3])


@contextmanager
def recorded() -> Iterator[list[tuple[str, Mapping[str, Any]]]]:
    """Keep what is sent inside transactions of a namespace: the text as it is in the program, and its parameters."""
    sent: list[tuple[str, Mapping[str, Any]]] = []
    run = Transaction._execute

    async def kept(self: Transaction, statement: Any, parameters: Mapping[str, Any] | None, *rows_as: Any) -> Any:
        text = statement.as_string() if isinstance(statement, sql.Composable) else statement
        sent.append((text, parameters or {}))
        return await run(self, statement, parameters, *rows_as)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "_execute", kept)
        yield sent


@contextmanager
def explained() -> Iterator[list[tuple[str, list[int], str]]]:
    """Before each statement of a namespace ask for its plan: the text, the number of tasks of each part, and the plan."""
    plans: list[tuple[str, list[int], str]] = []
    run = Transaction._execute

    async def looked_at(self: Transaction, statement: Any, parameters: Mapping[str, Any] | None, *rows_as: Any) -> Any:
        text = statement.as_string() if isinstance(statement, sql.Composable) else statement
        if text.split()[0].upper() in ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE"):
            plan = await _plan(self, text, parameters)
            plans.append((text, [int(line.split(":")[1]) for line in plan.splitlines() if "Task Count:" in line], plan))
        return await run(self, statement, parameters, *rows_as)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "_execute", looked_at)
        yield plans


async def _plan(tx: Transaction, text: str, parameters: Mapping[str, Any] | None) -> str:
    values = {"namespace_id": tx.namespace_id, **(parameters or {})}
    try:
        async with tx.connection.transaction():  # a savepoint: a plan that cannot be shown spoils nothing
            cursor = psycopg.AsyncClientCursor(tx.connection)  # values in the text: parts of a plan are planned alone
            await cursor.execute(f"EXPLAIN (COSTS OFF) {text}".encode(), values)
            return "\n".join(next(iter(row.values())) for row in await cursor.fetchall())
    except psycopg.Error as error:
        return f"no plan: {error}"
