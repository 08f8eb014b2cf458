"""Memories for Python programs: `from pgengram import Memory`.

```python
async with Memory(namespace="notes") as memory:
    await memory.add("Mara prefers green tea.", kind="preference", tags=["drinks"])
    for hit in (await memory.search("what does she drink?")).results:
        print(hit["score"], hit["content"])
```

A front of the same manager that assistants call: the same checks, the same errors (`pgengram.errors`), the same
answers. On Windows run it in the loop of `pgengram.runtime.system.loop.event_loop`, as psycopg cannot use the default
one there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack, cast

from pgengram import fields as f
from pgengram.errors import NotFound
from pgengram.inputs import DedupPolicy, Mode, Sort
from pgengram.service.calls.arguments import Arguments
from pgengram.service.manager import MemoryManager
from pgengram.service.tools import tools_of
from pgengram.service.toolsets.graph import Explored, Graph, Linked
from pgengram.service.toolsets.maintenance import Maintenance, Statistics
from pgengram.settings import Settings
from pgengram.views import Forgotten, Found, Read, Recalled, Shown, Stored, StoredMany, Updated

Answer = TypeVar("Answer")
Around = Literal["history", "relations", "clusters"]
Direction = Literal["both", "out", "in"]


class SettingNames(TypedDict, total=False):
    """Settings that a program may set itself; each means what PGENGRAM_ + its name in capitals means."""

    database_url: str
    data_dir: str
    embedder: str
    embedder_api_key: str
    namespace: str
    secrets: str


class Described(TypedDict, total=False):
    """Fields of a memory besides its content, for storing and for changing it."""

    kind: f.Kind
    importance: float
    tags: Sequence[str]
    metadata: dict[str, Any]
    confidence: float
    emotion: f.Emotion
    occurred_at: datetime | str
    expires_at: datetime | str
    pinned: bool
    source: str
    capture_mode: f.CaptureMode
    session_id: str
    speaker: str
    user: str
    project: str
    collection: str


class New(Described, total=False):
    """Further fields of a new memory."""

    type: f.MemoryType
    related_to: Sequence[str]
    dedup_policy: DedupPolicy
    idempotency_key: str


class Changed(Described, total=False):
    """Fields of a memory that can be changed; `clear` names fields to empty."""

    content: str
    status: Literal["active", "archived"]
    confirm: bool
    outcome: Literal["success", "failure"]
    clear: Sequence[str]
    expected_version: int
    dry_run: bool


class Narrowed(TypedDict, total=False):
    """Which memories a search may find, and how many."""

    type: Sequence[f.MemoryType]
    kind: Sequence[f.Kind]
    tags: Sequence[str]
    tags_match: Literal["any", "all"]
    min_importance: float
    since: datetime | str
    until: datetime | str
    user: str
    project: str
    collection: str
    session_id: str
    speaker: str
    source: str
    status: f.Status
    mode: Mode
    sort: Sort
    limit: int
    offset: int
    detail: bool
    as_of: datetime | str


class Memory:
    """One namespace's memories. Use it as an asynchronous context manager, or call `close` at the end.

    The first call starts the database; opening costs nothing. Any number of tasks can share one object.

    Args:
        settings: which store and namespace to use; by default those of the environment, as for the server.
        chosen: single settings that override these, such as `namespace="notes"`.

    Raises:
        InvalidInput: a setting is wrong.
    """

    def __init__(self, settings: Settings | None = None, **chosen: Unpack[SettingNames]) -> None:
        self.manager = MemoryManager(replace(settings or Settings.from_environment(), **chosen))
        self._tools: dict[str, Arguments] = {}

    async def __aenter__(self) -> Self:
        await self.manager.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the database connections and unload the model."""
        await self.manager.close()

    async def _call(
        self,
        answer: type[Answer],  # noqa: ARG002 - for the type checker
        toolset: object,
        tool: str,
        **given: Any,
    ) -> Answer:
        """Call a tool as an assistant does: arguments are read as they are meant, and the `answer` says how."""
        if tool not in self._tools:
            self._tools |= {one.name: Arguments(one) for one in tools_of(toolset)}
        return cast("Answer", await self._tools[tool].read(given).run())

    # -- writing ---------------------------------------------------------------------------------------------------

    async def add(self, content: str, **said: Unpack[New]) -> Stored:
        """Store one memory; storing the same text again confirms it. The answer's `memory_id` is its id.

        Raises:
            InvalidInput: a field is wrong; nothing was stored.
            SecretRejected: a text holds a password, key or token; nothing was stored.
        """
        return await self._call(Stored, self.manager, "create_memory", content=content, **said)

    async def add_many(self, items: Sequence[dict[str, Any]], *, atomic: bool = False) -> StoredMany:
        """Store up to 200 memories, each with `content` and the arguments of `add`; an invalid one is reported and
        doesn't affect the others.

        Raises:
            ItemRefused: with `atomic`, one of them is wrong; nothing was stored.
        """
        return await self._call(StoredMany, self.manager, "create_memories", items=[*items], atomic=atomic)

    async def update(self, id: str, **changes: Unpack[Changed]) -> Updated:
        """Change fields of a memory.

        Raises:
            NotFound: there is no such memory.
            Conflict: its version is not `expected_version`, or another memory has the same text.
        """
        return await self._call(Updated, self.manager, "update_memory", id=id, **changes)

    async def forget(self, *ids: str, reason: str = "", replaced_by: Sequence[str] = ()) -> Forgotten:
        """Forget up to 20 memories: they don't appear in search, and `restore` undoes it.

        Raises:
            ConfirmRequired: there are more than 20.
        """
        given = {"ids": [*ids], "reason": reason, "replaced_by_ids": [*replaced_by]}
        return await self._call(Forgotten, self.manager, "forget_memories", **given)

    async def restore(self, id: str) -> Updated:
        """Restore a forgotten or archived memory.

        Raises:
            NotFound: there is no such memory, or it was erased.
        """
        return await self.update(id, status="active")

    async def erase(self, *ids: str) -> int:
        """Permanently erase memories without a confirmation, and return how many there were."""
        return await self.manager.erase(ids)

    async def erase_source(self, source: str) -> int:
        """Permanently erase everything from one source without a confirmation, and return the number of memories.

        Args:
            source: a memory's `source`, the `ref` or `label` of one of its `sources`, or the system it was imported
                from.
        """
        return await self.manager.erase_source(source)

    async def link(
        self,
        from_id: str,
        *to_ids: str,
        type: str = "related_to",
        strength: float = 1.0,
        properties: dict[str, Any] | None = None,
    ) -> Linked:
        """Link a memory to others with any type; linking again replaces strength and properties.

        Raises:
            NotFound: there is no such memory.
        """
        given = {"from_id": from_id, "to_ids": [*to_ids], "type": type, "strength": strength, "properties": properties}
        return await self._call(Linked, Graph(self.manager), "link_memories", **given)

    # -- finding ---------------------------------------------------------------------------------------------------

    async def search(self, query: str | Sequence[str] = "", **narrowed: Unpack[Narrowed]) -> Found:
        """Find memories by meaning and words, best first; without a query the newest. `results` are dictionaries.

        Args:
            query: one question, or up to five that are answered as one, such as the same one in several languages.
            narrowed: filters, `limit`, `mode` and the rest of what `search_memories` takes.
        """
        asked = query if isinstance(query, str) else [*query]
        return await self._call(Found, self.manager, "search_memories", query=asked, **narrowed)

    async def recall(
        self, context: str, *, max_chars: int = 4_000, project: str | None = None, user: str | None = None
    ) -> Recalled:
        """Gather what is remembered about a task as one text for a model, between marks that it cannot close."""
        given = {"context": context, "max_chars": max_chars, "project": project, "user": user}
        return await self._call(Recalled, self.manager, "recall_context", **given)

    async def get(self, id: str, *include: Around) -> Shown:
        """Return one memory whole, forgotten ones too, by its id or its last 8 or more digits.

        Raises:
            NotFound: there is none.
        """
        found = await self._call(Read, self.manager, "get_memories", ids=[id], include=[*include])
        if not found.memories:
            raise NotFound("memory", id, "Use search to find the right id.")
        return found.memories[0]

    async def explore(self, *ids: str, depth: int = 2, direction: Direction = "both", limit: int = 50) -> Explored:
        """Return what is linked to memories, `nodes` and `edges`, and what means nearly the same, `similar`.

        Raises:
            NotFound: there is no such memory.
        """
        given = {"ids": [*ids], "depth": depth, "direction": direction, "limit": limit}
        return await self._call(Explored, Graph(self.manager), "explore_memories", **given)

    async def stats(self, project: str | None = None) -> Statistics:
        """Count the memories by status, type, kind, project, tag and age."""
        return await self._call(Statistics, Maintenance(self.manager), "memory_stats", project=project)
