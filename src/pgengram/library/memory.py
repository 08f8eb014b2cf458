"""One namespace's memories, as a program uses them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, Unpack, get_type_hints

from pgengram import fields as f
from pgengram.details import DETAILS
from pgengram.errors import ConfirmRequired, InvalidInput, ItemRefused, NotFound, PgengramError
from pgengram.inputs import NewMemory
from pgengram.library import given as g
from pgengram.library import results as r
from pgengram.library.engine import Engine, pool_limits
from pgengram.library.given import StoreSettings, checked_method, given_moment, item_of
from pgengram.service.calls.arguments import Reader
from pgengram.service.manager import FREELY
from pgengram.service.toolsets.maintenance import Statistics
from pgengram.settings import Settings
from pgengram.store.connection.pool import POOL_MAX, POOL_TIMEOUT_S

DETAIL: Final = frozenset(g.DetailGiven.__annotations__)
MOMENTS: Final = frozenset(
    name
    for kind in (g.Described, g.Narrowed, g.SourceGiven)
    for name, hint in get_type_hints(kind).items()
    if hint == g.Moment
)
PAGE: Final = 100  # memories that are read at once where all are gone through

_new_memory: Final = Reader(NewMemory, liberal=False)


class Memory:
    """One namespace's memories. Use it as an asynchronous context manager, or call `close` at the end.

    The first call starts the database; opening costs nothing. Any number of tasks of one event loop can share an
    object.

    Args:
        settings: which store and namespace to use; by default those of the environment, as for the server.
        pool_size: how many connections are opened at most.
        connect_timeout_s: how long a call waits for a connection.
        timeout_s: how long a call may take; None sets no limit beyond the database's own (10 s for one statement).
        chosen: single settings that override these, such as `namespace="notes"`.

    Raises:
        InvalidInput: a setting is wrong.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        pool_size: int = POOL_MAX,
        connect_timeout_s: float = POOL_TIMEOUT_S,
        timeout_s: float | None = None,
        **chosen: Unpack[g.SettingNames],
    ) -> None:
        made = replace(settings or Settings.from_environment(), **chosen)
        self._set(Engine(made, pool_limits(pool_size, connect_timeout_s)), made.namespace, timeout_s, owns=True)

    def _set(self, engine: Engine, namespace: str, timeout_s: float | None, *, owns: bool, space: str = "") -> Self:
        self._engine, self.namespace, self._timeout_s, self._owns = engine, namespace, timeout_s, owns
        self.space = space
        return self

    @classmethod
    def _of(cls, engine: Engine, namespace: str, timeout_s: float | None, space: str = "") -> Self:
        """Return the memories of a namespace in a store that somebody else opens and closes."""
        return cls.__new__(cls)._set(engine, namespace, timeout_s, owns=False, space=space)

    def with_timeout(self, timeout_s: float | None) -> Self:
        """Return the same memories for calls that may take another time: `memory.with_timeout(2).search("tea")`."""
        return self._of(self._engine, self.namespace, timeout_s, self.space)

    def in_space(self, name: str) -> Self:
        """Return the memories of a shared space: `memory.in_space("Kitchen").search("oven")`.

        Its calls raise `NotFound` if the person of this namespace isn't in it, and `NotAllowed` for what their role
        doesn't let them do. Hits and memories say who stored them (`author`).
        """
        return self._of(self._engine, self.namespace, self._timeout_s, name)

    async def __aenter__(self) -> Self:
        await self._engine.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for calls under way, then close the connections and unload the model; later calls raise `Misused`. What
        a `Pgengram` gave is closed with that.
        """
        if self._owns:
            await self._engine.close()

    async def _call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool as an assistant does, with arguments that mean what they say."""
        async with self._engine.serving(self.namespace, self._timeout_s, self.space) as served:
            return await served.call(tool, _with_moments(arguments))

    # -- writing ---------------------------------------------------------------------------------------------------

    @checked_method
    async def add(self, content: str, **said: Unpack[g.New]) -> r.Stored:
        """Store one memory; storing the same text again confirms it.

        What only one type keeps, such as `steps` or `action_taken`, needs that `type`, or a `kind` of it.

        Raises:
            InvalidInput: a field is wrong; nothing was stored.
            SecretRejected: a text holds a password, key or token; nothing was stored.
        """
        return r.of_answer(r.Stored, await self._call("create_memory", content=content, **_with_detail(said)))

    @checked_method
    async def add_many(self, items: Sequence[Mapping[str, Any]], *, atomic: bool = False) -> r.StoredMany:
        """Store up to 200 memories, each with `content` and the arguments of `add` (`pgengram.library.NewItem`); an
        invalid one is reported in `results` and doesn't affect the others.

        Raises:
            ItemRefused: with `atomic`, one of them is wrong; nothing was stored.
        """
        good: dict[int, dict[str, Any]] = {}
        refused: dict[int, dict[str, str]] = {}
        for index, item in enumerate(items):
            try:
                good[index] = _with_moments(_with_detail(item_of(item)))
                _new_memory.read(good[index])
            except PgengramError as error:
                if atomic:
                    raise ItemRefused(index, error.as_dict()) from None
                refused[index] = error.as_dict()
                good.pop(index, None)
        if items and not good:
            return r.StoredMany(
                _outcomes_in_order(refused, []), 0, len(refused), f"0 remembered, {len(refused)} refused."
            )
        stored = await self._call("create_memories", items=[*good.values()], atomic=atomic)
        places = [*good]
        outcomes = [{**one, "index": places[one["index"]]} for one in stored.results]
        failed = stored.failed + len(refused)
        message = stored.message.replace(f"{stored.failed} refused.", f"{failed} refused.")
        return r.StoredMany(_outcomes_in_order(refused, outcomes), stored.created, failed, message)

    @checked_method
    async def update(self, id: str, **changes: Unpack[g.Changed]) -> r.Updated:
        """Change fields of a memory. `metadata` is merged with what is there; `clear` names fields to empty.

        Raises:
            NotFound: there is no such memory.
            Conflict: its version is not `expected_version`, or another memory has the same text.
        """
        named = sorted(DETAIL & changes.keys())
        made = _into_metadata(changes, named)
        if named:
            plan = await self._call("update_memory", id=id, metadata=made["metadata"], dry_run=True)
            if foreign := sorted({*named} & {*(plan.extra_metadata or ())}):
                raise InvalidInput(f"{_names_in_words(foreign)} of this memory, which is {plan.memory['type']}.")
        return r.of_answer(r.Updated, await self._call("update_memory", id=id, **made))

    @checked_method
    async def forget(self, *ids: str, reason: str = "", replaced_by: Sequence[str] = ()) -> r.Forgotten:
        """Forget up to 20 memories; `restore` undoes it.

        Raises:
            ConfirmRequired: there are more than 20.
        """
        given = {"ids": [*ids], "reason": reason, "replaced_by_ids": [*replaced_by]}
        answer = await self._call("forget_memories", **given)
        if answer.confirm_token is not None:
            raise ConfirmRequired(
                f"More than {FREELY} memories are forgotten in steps only.",
                f"Forget {FREELY} at a time; nothing was changed.",
            )
        return r.of_answer(r.Forgotten, answer)

    async def restore(self, id: str) -> r.Updated:
        """Restore a forgotten or archived memory.

        Raises:
            NotFound: there is no such memory, or it was erased.
        """
        return await self.update(id, status="active")

    @checked_method
    async def erase(self, *ids: str) -> int:
        """Permanently erase memories without a confirmation; return how many."""
        async with self._engine.serving(self.namespace, self._timeout_s, self.space) as served:
            return await served.manager.erase(ids)

    @checked_method
    async def erase_source(self, source: str) -> int:
        """Permanently erase everything from one source without a confirmation; return how many memories.

        Args:
            source: a memory's `source`, the `ref` or `label` of one of its `sources`, or the system it was imported
                from.
        """
        async with self._engine.serving(self.namespace, self._timeout_s, self.space) as served:
            return await served.manager.erase_source(source)

    @checked_method
    async def link(
        self,
        from_id: str,
        *to_ids: str,
        type: str = "related_to",
        strength: float = 1.0,
        properties: dict[str, Any] | None = None,
    ) -> r.Linked:
        """Link a memory to others with any type; linking again replaces strength and properties.

        Raises:
            NotFound: there is no such memory.
        """
        given = {"from_id": from_id, "to_ids": [*to_ids], "type": type, "strength": strength, "properties": properties}
        return r.of_answer(r.Linked, await self._call("link_memories", **given))

    # -- finding ---------------------------------------------------------------------------------------------------

    @checked_method
    async def search(self, query: str | Sequence[str] = "", **narrowed: Unpack[g.Narrowed]) -> r.Found:
        """Find memories by meaning and words, best first; without a query the newest.

        Args:
            query: one question, or up to five that are answered as one, such as in several languages.
            narrowed: filters, `limit`, `mode` and what else `search_memories` takes.
        """
        asked = query if isinstance(query, str) else [*query]
        return r.of_answer(r.Found, await self._call("search_memories", query=asked, **narrowed))

    @checked_method
    async def all(self, **chosen: Unpack[g.Chosen]) -> AsyncIterator[r.Hit]:
        """Go through all memories, or those that filters allow, newest first: `async for one in
        memory.all(tags=["drinks"])`. What is stored meanwhile is left out.
        """
        cursor = ""
        while True:
            page = await self._call("search_memories", sort="created", limit=PAGE, detail=True, cursor=cursor, **chosen)
            for hit in page.results:
                yield hit
            cursor = page.next_cursor or ""
            if not cursor:
                return

    @checked_method
    async def recall(
        self, context: str, *, max_chars: int = 4_000, project: str | None = None, user: str | None = None
    ) -> r.Recalled:
        """Gather what is remembered about a task as one text for a model, marked as data."""
        given = {"context": context, "max_chars": max_chars, "project": project, "user": user}
        return r.of_answer(r.Recalled, await self._call("recall_context", **given))

    @checked_method
    async def get(self, id: str, *include: g.Around) -> r.WholeMemory:
        """Return one memory whole, forgotten ones too, by its id or its last 8 or more digits.

        Raises:
            NotFound: there is none.
        """
        found = await self._call("get_memories", ids=[id], include=[*include])
        if not found.memories:
            raise NotFound("memory", id, "Use search to find the right id.")
        memory: r.WholeMemory = found.memories[0]
        return memory

    @checked_method
    async def explore(self, *ids: str, depth: int = 2, direction: g.Direction = "both", limit: int = 50) -> r.Explored:
        """Return what is linked to memories (`nodes`, `edges`), and what means nearly the same (`similar`).

        Raises:
            NotFound: there is no such memory.
        """
        given = {"ids": [*ids], "depth": depth, "direction": direction, "limit": limit}
        return r.of_answer(r.Explored, await self._call("explore_memories", **given))

    @checked_method
    async def stats(self, project: str | None = None) -> Statistics:
        """Count the memories by status, type, kind, project, tag and age."""
        counted: Statistics = await self._call("memory_stats", project=project)
        return counted


def _with_moments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with a date and time instead of each text that names one."""
    made = {name: given_moment(name, value) if name in MOMENTS else value for name, value in arguments.items()}
    if "sources" in made:
        made["sources"] = [_with_moments(source) for source in made["sources"]]
    return made


def _with_detail(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a new memory with what its type keeps in `metadata`.

    Raises:
        InvalidInput: memories of its type keep no such thing.
    """
    named = sorted(DETAIL & said.keys())
    type_ = said.get("type") or f.TYPE_OF_KIND.get(said.get("kind", ""), "semantic")
    if foreign := [name for name in named if name not in DETAILS[type_].model_fields]:
        fitting = next(one for one, detail in DETAILS.items() if foreign[0] in detail.model_fields)
        raise InvalidInput(
            f"{_names_in_words(foreign)} of {type_} memories.",
            f"For {foreign[0]} say type={fitting!r}; nothing was changed.",
        )
    return _into_metadata(said, named)


def _into_metadata(said: Mapping[str, Any], named: Sequence[str]) -> dict[str, Any]:
    made = {name: value for name, value in said.items() if name not in named}
    if not named:
        return made
    metadata = made.get("metadata", {})
    if twice := sorted(metadata.keys() & {*named}):
        raise InvalidInput(f"{', '.join(twice)}: say it once, beside metadata or in it.")
    made["metadata"] = metadata | {name: _json_argument(name, said[name]) for name in named}
    return made


def _json_argument(name: str, value: Any) -> Any:
    read = given_moment(name, value) if name in MOMENTS else value
    if isinstance(read, datetime):
        return f.as_utc(read)
    return [*read] if isinstance(read, tuple) else read


def _names_in_words(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} no detail"


def _outcomes_in_order(refused: Mapping[int, dict[str, str]], outcomes: Sequence[dict[str, Any]]) -> list[r.Outcome]:
    """Return what became of each item, in the order of the items."""
    made: list[Any] = [{"index": index, "ok": False, "error": error} for index, error in refused.items()]
    return sorted([*made, *outcomes], key=lambda one: one["index"])


class Pgengram:
    """A store with one pool of connections and one model, for the memories of any number of namespaces.

    `async with Pgengram("postgresql://…") as store: await store.namespace("user-7").add("Mara prefers green tea.")`

    Args:
        database_url: which PostgreSQL; None takes that of the environment.
        pool_size: how many connections are opened at most, for all namespaces together.
        connect_timeout_s, timeout_s, chosen: as of a `Memory`.

    Raises:
        InvalidInput: a setting is wrong.
    """

    def __init__(
        self,
        database_url: str | Settings | None = None,
        *,
        pool_size: int = POOL_MAX,
        connect_timeout_s: float = POOL_TIMEOUT_S,
        timeout_s: float | None = None,
        **chosen: Unpack[StoreSettings],
    ) -> None:
        settings = database_url if isinstance(database_url, Settings) else Settings.from_environment()
        if isinstance(database_url, str):
            settings = replace(settings, database_url=database_url)
        self._engine = Engine(replace(settings, **chosen), pool_limits(pool_size, connect_timeout_s))
        self._timeout_s = timeout_s

    def namespace(self, name: str) -> Memory:
        """Return the memories of a namespace, which is made at the first call.

        Raises:
            InvalidInput: a name has 1 to 128 characters.
        """
        replace(self._engine.settings, namespace=name)
        return Memory._of(self._engine, name, self._timeout_s)

    async def __aenter__(self) -> Self:
        await self._engine.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for calls under way, then close the connections and unload the model; later calls raise `Misused`."""
        await self._engine.close()
