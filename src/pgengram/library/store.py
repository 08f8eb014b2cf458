"""A store whose memories belong to many."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import Self, Unpack

from pgengram.library.engine import Engine
from pgengram.library.given import StoreSettings
from pgengram.library.memory import Memory, pool_limits
from pgengram.settings import Settings
from pgengram.store.connection.pool import POOL_MAX, POOL_TIMEOUT_S


class Pgengram:
    """A store with one pool of connections and one model, for the memories of any number of namespaces.

    Open it once in a process, and ask it for the memories of each person when they are needed:

    ```python
    async with Pgengram("postgresql://…") as store:
        await store.namespace("user-7").add("Mara prefers green tea.")
    ```

    Args:
        database_url: which PostgreSQL; None takes that of the environment, as the server does.
        pool_size: how many connections are opened at most, for all namespaces together.
        connect_timeout_s: how long a call waits for a connection.
        timeout_s: how long a call may take; None sets no limit beyond the database's own (10 s for one statement).
        chosen: single settings that override those of the environment.

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
        """Return the memories of a namespace, which is made when something is first asked of it; costs nothing.

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
        """Wait for calls under way, close the database connections and unload the model; calls after that raise
        `Misused`.
        """
        await self._engine.close()
