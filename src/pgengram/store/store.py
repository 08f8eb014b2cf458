"""One namespace's store: the server it lives on, brought up and migrated when first needed."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from pgengram.errors import DatabaseFailed, NotReady, Unreachable
from pgengram.runtime.context import retried
from pgengram.settings import Settings
from pgengram.store import ahead
from pgengram.store.connection.begin import PROBES, UPKEEP, Member
from pgengram.store.connection.database import NOBODYS, Database, Row, Transaction
from pgengram.store.connection.pool import PoolLimits
from pgengram.store.connection.replica import Begin, Replica
from pgengram.store.connection.translation import SOON, unreachable

if TYPE_CHECKING:
    from pgengram.postgres import EmbeddedPostgres

log = logging.getLogger(__name__)
Report = Callable[[str], Awaitable[None]]
T = TypeVar("T")

ALONE_AFTER_S: Final = 2.0  # that readings wait for a server that is silent, where a replica can stand in for it
# Writing into an embedded store ends while PostgreSQL still has room for what it does by itself: recovery, vacuum, a
# new file of its log. A batch of the largest memories takes about half of it.
RESERVE_BYTES: Final = 128_000_000


class Store:
    """The database of the settings, and in it the memories of one namespace.

    Args:
        settings: which database (an embedded one when no URL is set) and whose memories.
        limits: of the pool of connections.
    """

    active_model_id: int | None = None  # as the last transaction saw it
    member: Member | None = None  # who asks, where it is a space

    def __init__(self, settings: Settings, limits: PoolLimits | None = None) -> None:
        self._settings = settings
        self._limits = limits
        self._embedded: EmbeddedPostgres | None = None
        self._database: Database | None = None
        self.replica = Replica(settings.read_url) if settings.read_url else None
        self._attempt: asyncio.Task[None] | None = None
        self._listeners: list[Report] = []
        self._said: str | None = None  # what the attempt reported last
        self._changing = asyncio.Lock()
        self._namespace_id = NOBODYS
        self._stand_in_database: Database | None = None  # the replica's, once nothing else could be reached

    @property
    def is_open(self) -> bool:
        """Whether a transaction can be begun at once."""
        return self._database is not None

    @property
    def database(self) -> Database:
        """The open database.

        Raises:
            NotReady: `open` has not been called, or the server was lost.
        """
        if self._database is None:
            raise NotReady("The store is not open.")
        return self._database

    async def open(self, report: Report | None = None) -> None:
        """Start the server when it is ours, migrate, connect; returns at once when that is done already.

        All callers share one attempt: one that is cancelled leaves the others waiting for it.

        Raises:
            NotReady: one of these failed; the next call tries again.
        """
        if self._database is not None:
            if self._namespace_id == NOBODYS:
                self._namespace_id = await self._database.namespace_id(self._settings.namespace)
            return
        if self._attempt is None or self._attempt.done():
            self._said = None
            self._attempt = asyncio.create_task(self._open(), name="opening the store")
        if report is not None:
            self._listeners.append(report)
        try:
            if report is not None and self._said is not None:  # said before this caller came
                await report(self._said)
            await asyncio.shield(self._attempt)
        finally:
            if report is not None:
                self._listeners.remove(report)

    async def reach(self, report: Report | None = None) -> None:
        """Open the store; where its server cannot be reached, make sure that the replica can be read from instead.

        Raises:
            NotReady: neither can be used; the next call tries again.
        """
        if self.is_open or self.replica is None:
            await self.open(report)
            return
        try:
            async with asyncio.timeout(ALONE_AFTER_S):
                await self.open(report)
        except Unreachable as error:
            await self._stand_in(self.replica, error)
        except TimeoutError:
            await self._stand_in(self.replica, Unreachable("The database does not answer.", SOON))

    async def _stand_in(self, replica: Replica, error: Unreachable) -> None:
        """Have the replica read from alone, unless it is of another schema, which nobody can bring up to date now."""
        from pgengram.store.schema.migrate import state
        from pgengram.store.schema.place import pinned

        if self._stand_in_database is None:
            url = self._settings.read_url
            try:
                found = await asyncio.to_thread(state, url)
            except NotReady:
                raise error from None
            if not found.ready:
                raise error
            replica.use(pinned(url, found.search_path))
            log.warning(
                "%s Until it is back nothing is stored, and searches are answered by the replica, marked as stale.",
                error.message,
            )
        self._stand_in_database = await replica.stand_in(error.message)

    async def _namespace_of_replica(self) -> int:
        return await self.readable.namespace_id(self._settings.namespace)

    @property
    def readable(self) -> Database:
        """The open database, or the replica's while that stands in for it.

        Raises:
            NotReady: neither is open.
        """
        return self.database if self.is_open or self._stand_in_database is None else self._stand_in_database

    async def _open(self) -> None:
        async with self._changing:
            if self._database is not None:
                return
            url = self._settings.database_url or await self._start_embedded()
            with _reached(url):
                url = await self._migrated(url)
            database = Database(url, self._has_room, limits=self._limits)
            await database.open()
            try:
                self._namespace_id = await database.namespace_id(self._settings.namespace)
            except BaseException:
                await database.close()
                raise
            if self.replica is not None:
                await self.replica.open()
            self._database = database

    async def close(self) -> None:
        """Disconnect, and stop the embedded server when nobody else uses it; an opening under way is waited for."""
        if self._attempt is not None:
            await asyncio.wait({self._attempt})
        async with self._changing:
            await self._disconnect()
            if self.replica is not None:
                await self.replica.close()
            if begun := ahead.taken(self._settings.data_path):
                self._embedded = await asyncio.to_thread(begun.server)
            if self._embedded is not None:
                embedded, self._embedded = self._embedded, None
                await asyncio.to_thread(embedded.stop)

    @asynccontextmanager
    async def transaction(self, probes: int = PROBES, *, reads: bool = False) -> AsyncIterator[Transaction]:
        """Run a block in one transaction that sees this namespace's rows only.

        Args:
            probes: lists of an ivfflat index visited for a vector.
            reads: whether it only reads; see Database.transaction.

        Raises:
            DatabaseFailed: see Database.transaction. A lost embedded server is started again by the next call.
        """
        await self.open()
        try:
            async with (
                self.recovering() as database,
                database.transaction(self._namespace_id, probes, reads=reads, member=self.member) as tx,
            ):
                self.active_model_id = tx.model_id
                yield tx
        finally:
            if self.replica is not None and not reads:
                self.replica.note_write()

    def health(self) -> dict[str, str]:
        """Return how the replica is, if there is to be one."""
        return {} if self.replica is None else {"replica": self.replica.state}

    async def read(self, work: Callable[[Begin], Awaitable[T]]) -> T:
        """Return what `work` returns, whose transactions only read: the replica's where that knows enough.

        Args:
            work: is given what begins a transaction; called again when the replica fails in the middle or the store
                moved.

        Raises:
            DatabaseFailed: see Database.transaction.
        """
        return await retried(lambda: self._read(work))

    async def _read(self, work: Callable[[Begin], Awaitable[T]]) -> T:
        await self.reach()
        if self.replica is not None:
            primary = self.database if self.is_open else None
            namespace_id = self._namespace_id if primary else await self._namespace_of_replica()
            done = await self.replica.read(namespace_id, primary, work)
            if done is not None:
                return done[0]
        return await work(partial(self.transaction, reads=True))

    async def read_transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Return what `work` returns, which reads in one transaction; see `read`."""

        async def once(begin: Begin) -> T:
            async with begin() as tx:
                return await work(tx)

        return await self.read(once)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        """Run a block that only reads this namespace's rows, as they are now."""
        await self.open()
        async with self.database.snapshot(self._namespace_id, self.member) as tx:
            yield tx

    @asynccontextmanager
    async def as_login(self) -> AsyncIterator[psycopg.AsyncConnection[Row]]:
        """Run a block in one transaction of the login's own, for what belongs to no namespace.

        Raises:
            DatabaseFailed: see Database.transaction.
        """
        await self.open()
        async with self.recovering() as database, database.as_login() as connection:
            yield connection

    async def one(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
        """Run one statement as the login, a transaction by itself, and return its first row.

        Raises:
            DatabaseFailed: see Database.transaction.
        """
        return next(iter(await self.login_rows(statement, parameters)), None)

    async def login_rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement as the login, a transaction by itself, and return its rows.

        Raises:
            DatabaseFailed: see Database.transaction.
        """
        await self.open()
        async with self.recovering() as database:
            return await database.login_rows(statement, parameters)

    @asynccontextmanager
    async def recovering(self) -> AsyncIterator[Database]:
        """Let the next call start an embedded server again that was lost in the block."""
        database = self.database
        try:
            yield database
        except DatabaseFailed as error:
            if error.connection_lost and self._embedded is not None:
                await self._forget_server(database)
            raise

    async def _start_embedded(self) -> str:
        loop = asyncio.get_running_loop()

        def report(message: str) -> None:
            asyncio.run_coroutine_threadsafe(self._tell(message), loop)

        folder = self._settings.data_path
        begun = ahead.taken(folder) or ahead.Begun(folder)
        begun.listen(report)
        former, self._embedded = self._embedded, await asyncio.to_thread(begun.server)
        if former is not None:  # only now: the last one to leave would stop a server that is just recovering by itself
            await asyncio.to_thread(former.stop)
        return self._embedded.url

    def _has_room(self) -> bool:
        """Whether the disk of an embedded server has space for more; another server looks after its own."""
        return bool(self._settings.database_url) or shutil.disk_usage(self._settings.data_path).free >= RESERVE_BYTES

    async def _migrated(self, url: str) -> str:
        """Bring the schema up to date, and return the URL by which the application's role finds the tables, too."""
        from pgengram.store.schema.migrate import make_new, migrate_apart, newest_version, state
        from pgengram.store.schema.place import pinned

        found = await asyncio.to_thread(state, url)
        if found.version != newest_version():
            await self._tell("Bringing the database's schema up to date")
        if found.version is None:
            await asyncio.to_thread(make_new, url)
            found = await asyncio.to_thread(state, url)
        if not found.ready:
            await asyncio.to_thread(migrate_apart, url)
            found = await asyncio.to_thread(state, url)
        if self.replica is not None:
            self.replica.use(pinned(self._settings.read_url, found.search_path))
        return pinned(url, found.search_path)

    async def _tell(self, message: str) -> None:
        self._said = message
        for report in list(self._listeners):
            await report(message)

    async def _forget_server(self, lost: Database) -> None:
        """Let the next call start the server again, unless another call has done so already."""
        async with self._changing:
            if self._database is lost:
                await self._disconnect()

    async def _disconnect(self) -> None:
        if self._database is not None:
            database, self._database = self._database, None
            await database.close()


@contextmanager
def _reached(url: str) -> Iterator[None]:
    """Let an error that the database cannot be reached say why."""
    try:
        yield
    except NotReady as error:
        cause = error.__cause__
        if isinstance(cause, psycopg.Error) and cause.sqlstate is None:
            raise unreachable(url, cause) from cause
        raise


class SharedStore(Store):
    """The memories of another namespace, in a database that is opened and closed by somebody else.

    Args:
        host: whose database it is.
        settings: whose memories; which database they name does not matter.
    """

    def __init__(self, host: Store, settings: Settings) -> None:
        super().__init__(replace(settings, read_url=""))
        self._host = host
        self.replica = host.replica

    @property
    def is_open(self) -> bool:
        """Whether a transaction can be begun at once."""
        return self._host.is_open

    @property
    def database(self) -> Database:
        """The open database.

        Raises:
            NotReady: it is not open.
        """
        return self._host.database

    async def open(self, report: Report | None = None) -> None:
        """Have the database opened, and find this namespace in it.

        Raises:
            NotReady: that failed; the next call tries again.
        """
        await self._host.open(report)
        self._namespace_id = await self.database.namespace_id(self._settings.namespace)

    async def reach(self, report: Report | None = None) -> None:
        """As the host does; find this namespace where that is open.

        Raises:
            NotReady: neither the database nor a replica can be used.
        """
        await self._host.reach(report)
        if self.is_open:
            await self.open()

    @property
    def readable(self) -> Database:
        """The host's.

        Raises:
            NotReady: it is not open.
        """
        return self._host.readable

    async def close(self) -> None:
        """Leave the database to whoever opened it."""

    @asynccontextmanager
    async def recovering(self) -> AsyncIterator[Database]:
        """As the host does."""
        async with self._host.recovering() as database:
            yield database

    @property
    def active_model_id(self) -> int | None:
        """The active model as the last transaction of anybody saw it."""
        return self._host.active_model_id

    @active_model_id.setter
    def active_model_id(self, id_: int | None) -> None:
        self._host.active_model_id = id_


class SpaceStore(SharedStore):
    """What people share in a space, as one of them sees it; no replica is asked, which may not know who has left it.

    Args:
        host: whose database it is.
        settings: the person's.
        space_id: the space.
        member: who asks.
    """

    def __init__(self, host: Store, settings: Settings, space_id: int, member: Member) -> None:
        super().__init__(host, settings)
        self.replica = None
        self.member = member
        self._namespace_id = space_id

    async def open(self, report: Report | None = None) -> None:
        """Have the database opened.

        Raises:
            NotReady: that failed; the next call tries again.
        """
        await self._host.open(report)

    async def reach(self, report: Report | None = None) -> None:
        """Have the database opened, as only that knows who is in a space.

        Raises:
            NotReady: that failed; the next call tries again.
        """
        await self.open(report)

    @property
    def readable(self) -> Database:
        """The open database.

        Raises:
            NotReady: it is not open.
        """
        return self.database

    def for_upkeep(self) -> SpaceStore:
        """Return the same space as the server itself sees it, for work in the background that nobody asked for."""
        return SpaceStore(self._host, self._settings, self._namespace_id, UPKEEP)
