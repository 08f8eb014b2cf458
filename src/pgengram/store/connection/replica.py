"""Reading from a replica: a streaming standby of the store's PostgreSQL, asked while it knows all its reader may know.

Whatever was acknowledged lies in the primary's log before a position that the primary tells. A replica that has
replayed its log up to there shows the reader's own writes, whichever server they went through.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from pgengram.errors import DatabaseFailed, NotReady, PgengramError
from pgengram.runtime import process_setup
from pgengram.store.connection.database import GIVING_S, Database, Transaction

OPEN_S: Final = 1.0  # that opening the store waits for the replica; it is opened in the background otherwise
CATCH_UP_S: Final = 0.1  # that a reading waits for the replica to have replayed what it must know
LOOK_AGAIN_S: Final = 0.005
ATTEMPT_S: Final = 1.0  # for a replica to let a reading begin
ENTER_S: Final = 0.8  # of it, for what is connected to answer
RETRY_S: Final = 2.0  # after which a replica that failed is asked again
FRESH_S: Final = 1.0  # so old may be, for a reader that has not written since, what the replica must know

POSITION: Final = "SELECT pg_current_wal_flush_lsn()::text AS position"
REPLAYED: Final = """
SELECT pg_is_in_recovery() AS standby, pg_last_wal_replay_lsn() >= %(position)s::pg_lsn AS reached
"""

Begin = Callable[[], AbstractAsyncContextManager[Transaction]]
T = TypeVar("T")

# Where the primary's log ended when the request that is being answered came in; None when nobody asked.
KNOWN: ContextVar[str | None] = ContextVar("known", default=None)
# Whether what the request read may lack what was written last: the primary could not be asked how far its log goes.
STALE: ContextVar[bool] = ContextVar("stale", default=False)
IN_USE: Final = "in use"


class Behind(DatabaseFailed):
    """The replica has not replayed yet what its reader must see."""


class Replica:
    """A replica, and how it is.

    Args:
        url: a libpq connection string or URL.
    """

    def __init__(self, url: str) -> None:
        self.state = "not reached yet"
        self._database = Database(url, enter_timeout_s=ENTER_S)
        self._opening: asyncio.Task[None] | None = None
        self._is_open = False
        self._retry_at = 0.0
        self._position: str | None = None
        self._position_at = 0.0
        self._writes = 0
        self._primary_lost = ""  # why the primary could not be asked when it last was

    @property
    def is_used(self) -> bool:
        """Whether the last reading that was tried came from here."""
        return self.state.startswith(IN_USE)

    def use(self, url: str) -> None:
        """Connect by another string from the next opening on."""
        self._database.url = url

    async def open(self) -> None:
        """Connect; a replica that does not answer soon is waited for in the background."""
        if not self._is_open:
            await asyncio.wait({self._begun_to_open()}, timeout=OPEN_S)

    async def stand_in(self, why: str) -> Database:
        """Return the replica's database, to be read from alone as the primary cannot be reached.

        Raises:
            NotReady: the replica cannot be reached either.
        """
        await self.open()
        if not self._is_open:
            raise NotReady(f"{why} The replica is {self.state}.")
        self._primary_lost = why
        return self._database

    async def close(self) -> None:
        """Disconnect."""
        await process_setup.end_task(self._opening, GIVING_S)
        await self._database.close()

    def note_write(self) -> None:
        """Say that the process has written: its next reading must show that."""
        self._writes += 1
        self._position = None
        KNOWN.set(None)

    async def read(
        self, namespace_id: int, primary: Database | None, work: Callable[[Begin], Awaitable[T]]
    ) -> tuple[T] | None:
        """Return what `work` returned when its transactions were the replica's; None where the primary has to do it.

        Args:
            namespace_id: whose rows.
            primary: asked how far its log goes; None while the replica stands in for it.
            work: is given what begins a transaction.
        """
        if not self._may_be_asked():
            return None
        try:
            position = await self._position_to_reach(primary)
        except DatabaseFailed:
            return None
        try:
            done = await work(lambda: self._transaction(namespace_id, position))
        except Behind:
            self._fail("lagging: it has not replayed what was written last")
        except DatabaseFailed as error:
            self._fail(f"lost: {error.message}")
        else:
            self.state = (
                f"in use alone, as the primary cannot be asked: {self._primary_lost}" if position is None else IN_USE
            )
            STALE.set(position is None)
            return (done,)
        return None

    async def _position_to_reach(self, primary: Database | None) -> str | None:
        """Return how far the replica must have replayed the log; None if the primary is lost, as what the replica has
        is better than nothing.

        Raises:
            DatabaseFailed: the primary answers, but not this.
        """
        if primary is None:
            return None
        try:
            position = KNOWN.get() or await self._end_of_log(primary)
        except DatabaseFailed as error:
            if not error.connection_lost:
                raise
            self._primary_lost = error.message
            return None
        self._primary_lost = ""
        return position

    def _may_be_asked(self) -> bool:
        if time.monotonic() < self._retry_at:
            return False
        if not self._is_open:
            self._begun_to_open()
        return self._is_open

    def _begun_to_open(self) -> asyncio.Task[None]:
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open(), name="opening the replica")
        return self._opening

    async def _open(self) -> None:
        try:
            await self._database.open()
        except PgengramError as error:
            self._fail(f"lost: {error.message}")
        else:
            self._is_open = True

    def _fail(self, state: str) -> None:
        self.state = f"not used, {state}"
        self._retry_at = time.monotonic() + RETRY_S

    async def _end_of_log(self, primary: Database) -> str:
        """Return where the primary's log ended: after this process's last write, and not long ago."""
        if self._position is None or time.monotonic() - self._position_at > FRESH_S:
            writes, at = self._writes, time.monotonic()
            row = await primary.one(POSITION)
            if row is None:
                raise DatabaseFailed("The primary does not say where its log ends.")
            if writes != self._writes:  # what was written meanwhile may lie behind it
                return str(row["position"])
            self._position, self._position_at = str(row["position"]), at
        return self._position

    @asynccontextmanager
    async def _transaction(self, namespace_id: int, position: str | None) -> AsyncIterator[Transaction]:
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(ATTEMPT_S):
                    tx = await stack.enter_async_context(self._database.transaction(namespace_id, reads=True))
                    if position is not None:
                        await _caught_up(tx, position)
            except TimeoutError:
                raise DatabaseFailed("The database does not answer.") from None
            yield tx


async def _caught_up(tx: Transaction, position: str) -> None:
    """Wait for a moment until the replica has replayed the log up to a position.

    Raises:
        Behind: it has not.
        DatabaseFailed: this is not a replica, or no longer.
    """
    deadline = time.monotonic() + CATCH_UP_S
    while True:
        row = await tx.row(REPLAYED, {"position": position})
        if row is None or not row["standby"]:
            raise DatabaseFailed("PGENGRAM_READ_URL doesn't point to a replica, or the replica was promoted.")
        if row["reached"]:
            return
        if time.monotonic() > deadline:
            raise Behind("The replica lags behind.")
        await asyncio.sleep(LOOK_AGAIN_S)
