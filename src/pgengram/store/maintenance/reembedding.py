"""Moving a store to another embedding model while it is in use.

The new model's vectors are made beside those of the active one, batch by batch, for every memory of every namespace.
Searches use the active model until one transaction makes the new one active; only then the old vectors go. What is left
to do is whatever has no vector of the new model, so a move that was interrupted goes on where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

import psycopg
from psycopg.errors import DeadlockDetected, LockNotAvailable

from pgengram.embedders import Embedder, Passage
from pgengram.errors import Conflict, DatabaseFailed
from pgengram.ids import BEFORE_ALL
from pgengram.store import clusters
from pgengram.store.connection import locks, pooler
from pgengram.store.connection.begin import UPKEEP, set_local
from pgengram.store.connection.database import FIND_MODEL_OF_STATE, RENEW_MARK, Database, Row, Transaction
from pgengram.store.connection.pool import vectors_of
from pgengram.store.connection.translation import our_errors
from pgengram.store.maintenance.index_state import describe_index
from pgengram.store.maintenance.indexes import drop_indexes, maintain
from pgengram.store.schema.embedding_models import SET_STATE, StoredModel, add_model, model_of_state

if TYPE_CHECKING:
    pass

Step = Literal["embedding", "indexing", "switching", "removing", "done"]

MOVE_LOCK_WAIT_S: Final = 5.0  # a process that was killed holds it for a moment
CANCEL_WAIT_S: Final = 600.0  # until a move under way has noticed that it is cancelled; it may be building an index
BATCH: Final = 32  # memories embedded and stored together: what is lost when a move is broken off
LAST: Final = 64  # memories that may be embedded while nobody can write, a second or so of the built-in model
LAST_S: Final = 20.0
SWITCH_TRIES: Final = 60
SWITCH_WAIT: Final = "3s"  # writers wait as long behind one that waits for the writers before them
PAUSE_S: Final = 0.5
REMOVED: Final = 2_000  # memories whose old vectors go in one transaction
SETTLED_S: Final = 45.0  # no transaction of ours lives longer

FIND_NAMESPACES: Final = "SELECT id FROM namespaces ORDER BY id"
# A memory is done with vectors of the model, which may be the caller's own. Uses memory_vectors_pkey.
DONE: Final = """EXISTS (SELECT 1 FROM memory_vectors v
  WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = m.id AND v.model_id = %(model_id)s)"""
# Uses memories_pkey.
COUNT_DONE: Final = f"""
SELECT count(*) AS total, count(*) FILTER (WHERE {DONE}) AS done FROM memories m WHERE m.namespace_id = %(namespace_id)s
"""
# Uses memories_pkey.
FIND_WAITING: Final = f"""
SELECT m.id, m.content FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.id > %(after)s AND NOT {DONE} ORDER BY m.id LIMIT %(limit)s
"""
# Whoever changes a text locks its memory first, so a text that is locked here is the one that its vectors stay with.
# Uses memories_pkey.
LOCK_TEXTS: Final = """
SELECT id, content FROM memories WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s) ORDER BY id FOR SHARE
"""
LOCK_TEXTS_AT_ONCE: Final = LOCK_TEXTS + " NOWAIT"  # whoever holds one may be waiting for the vectors
ADD: Final = """
INSERT INTO memory_vectors (namespace_id, memory_id, model_id, part, embedding)
SELECT %(namespace_id)s, v.id, %(model_id)s, v.part, v.embedding
FROM unnest(%(vector_ids)s::uuid[], %(vector_parts)s::smallint[], %(vectors)b::halfvec[]) AS v(id, part, embedding)
WHERE NOT EXISTS (SELECT 1 FROM memory_vectors there
  WHERE there.namespace_id = %(namespace_id)s AND there.memory_id = v.id AND there.model_id = %(model_id)s)
ON CONFLICT DO NOTHING
"""
STATE_OF: Final = "SELECT state FROM embedding_models WHERE id = %(model_id)s"
LOCK_STATE: Final = "SELECT state FROM embedding_models WHERE id = %(id)s FOR UPDATE"
# Writers of vectors wait for the switch, and the switch for those before it; searches wait for nobody.
LOCK_VECTORS: Final = "LOCK TABLE memory_vectors IN SHARE ROW EXCLUSIVE MODE"
SET_LOCK_TIMEOUT: Final = "SELECT set_config('lock_timeout', %(timeout)s, true)"
NOW: Final = "SELECT clock_timestamp() AS now"
COUNT_OLDER: Final = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
  AND pid NOT IN (pg_backend_pid(), %(holder)s) AND xact_start < %(moment)s
"""
FIND_RETIRED: Final = "SELECT id FROM embedding_models WHERE state = 'retired' ORDER BY id"
# Uses memories_pkey and, for each memory, memory_vectors_pkey.
REMOVE: Final = """
WITH batch AS MATERIALIZED (
  SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND id > %(after)s ORDER BY id LIMIT %(limit)s
), gone AS (
  DELETE FROM memory_vectors v USING batch
  WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = batch.id AND v.model_id = ANY(%(models)s) RETURNING v.memory_id
)
SELECT (SELECT id FROM batch ORDER BY id DESC LIMIT 1) AS last, (SELECT count(*) FROM gone) AS removed
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a move is: what is being done, for which model, and how many memories of all have its vectors."""

    step: Step
    model: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move came to: the model, how many memories were embedded in this run, whether it became the active one."""

    model: str
    embedded: int
    switched: bool
    removed: int


Report = Callable[[Progress], None]


async def progress(database: Database) -> Progress | None:
    """Return how far a move is that has not ended yet, or None."""
    filling = await model_of_state(database, "filling")
    if filling is None:
        return None
    done, total = await _progress(database, filling.id)
    return Progress("embedding", filling.name, done, total)


async def cancel(database: Database) -> str | None:
    """Give up a move and remove its vectors; return its model, or None when there is no move."""
    async with database.as_login() as connection:
        await connection.execute(locks.WAIT, {"key": locks.MODELS})
        row = await (await connection.execute(FIND_MODEL_OF_STATE, {"state": "filling"})).fetchone()
        if row is not None:
            await connection.execute(SET_STATE, {"id": row["id"], "state": "retired"})
    if row is None:
        return None
    async with _only_mover(database, CANCEL_WAIT_S), await pooler.connect(database.url) as maintenance_login:
        await _remove_retired(database, maintenance_login)
    return str(row["name"])


async def reembed_store(database: Database, embedder: Embedder, setting: str, report: Report) -> Moved:
    """Give every memory vectors of `embedder`'s model, and make it the store's active one.

    Where it is the active one already, memories without its vectors get some. Vectors of retired models are
    removed.

    Args:
        database: the store's.
        embedder: of the new model.
        setting: the value of PGENGRAM_EMBEDDER that leads to it, for servers that are set to another one.
        report: told how far it is.

    Raises:
        Conflict: another process moves the store, it is on its way to another model, or the move was cancelled.
        EmbeddingFailed: a text could not be embedded; what was made is kept, and the next run goes on.
    """
    async with (
        _only_mover(database, MOVE_LOCK_WAIT_S) as holder,
        await pooler.connect(database.url) as maintenance_login,
    ):
        model = await _model_to_fill(database, embedder.name, await embedder.dimensions(), setting)
        moving = _Move(database, embedder, model, report)
        await moving.fill()
        switched = model.state == "filling"
        if switched:
            await moving.build_index()
            await moving.switch()
            moving.report("removing")
            await _settled(maintenance_login, holder)
        removed = await _remove_retired(database, maintenance_login)
        moving.report("done")
        return Moved(model.name, moving.embedded, switched, removed)


async def _model_to_fill(database: Database, name: str, dimensions: int, setting: str) -> StoredModel:
    """Return the model to be filled, marked so; a store without an active model takes it as such at once."""
    async with database.as_login() as connection:
        await connection.execute(locks.WAIT, {"key": locks.MODELS})
        found = {
            state: await (await connection.execute(FIND_MODEL_OF_STATE, {"state": state})).fetchone()
            for state in ("active", "filling")
        }
        active, filling = found["active"], found["filling"]
        if filling is not None and filling["name"] != name:
            raise Conflict(
                f"The store is being moved to {filling['name']}.",
                f"Finish that with `pgengram reembed {filling['embedder']}`, or cancel it with "
                "`pgengram reembed --cancel`.",
            )
        model = await add_model(connection, name, dimensions, setting)
        state = "active" if active is None or active["name"] == name else "filling"
        await connection.execute(SET_STATE, {"id": model.id, "state": state})
        if active is None:
            await connection.execute(RENEW_MARK)
    return StoredModel(model.id, model.name, model.dimensions, setting, state)


class _Move:
    """One run of a move; only one at a time is under way."""

    def __init__(self, database: Database, embedder: Embedder, model: StoredModel, report: Report) -> None:
        self._database = database
        self._embedder = embedder
        self._model = model
        self._report = report
        self._done = self._total = 0
        self.embedded = 0

    def report(self, step: Step) -> None:
        self._report(Progress(step, self._model.name, min(self._done, self._total), self._total))

    async def fill(self) -> None:
        """Embed whatever has no vector of the model, until there is nothing more to be seen."""
        self._done, self._total = await _progress(self._database, self._model.id)
        self.report("embedding")
        made = -1
        while made != self.embedded:  # memories that came or changed meanwhile are the next round's
            made = self.embedded
            for namespace_id in await _namespaces(self._database):
                await self._fill_namespace(namespace_id)

    async def _fill_namespace(self, namespace_id: int) -> None:
        after = BEFORE_ALL
        while True:
            async with self._database.transaction(namespace_id, member=UPKEEP) as tx:
                waiting = await self._waiting(tx, after, BATCH)
            if not waiting:
                return
            after = waiting[-1]["id"]
            vectors = await self._embedder.passages([row["content"] for row in waiting])
            async with self._database.transaction(namespace_id, member=UPKEEP) as tx:
                state = await tx.row(STATE_OF, {"model_id": self._model.id})
                if state is None or state["state"] != self._model.state:
                    raise Conflict("The move was cancelled.", "Start again with `pgengram reembed`.")
                texts = await tx.rows(LOCK_TEXTS, {"ids": [row["id"] for row in waiting]})
                self._count(await self._store(tx, texts, waiting, vectors))
            self.report("embedding")

    async def _waiting(self, tx: Transaction, after: UUID, limit: int) -> list[Row]:
        return await tx.rows(FIND_WAITING, {"after": after, "limit": limit, "model_id": self._model.id})

    def _count(self, stored: int) -> None:
        self.embedded += stored
        self._done += stored
        self._total = max(self._total, self._done)

    async def _store(
        self, tx: Transaction, texts: Sequence[Row], embedded: Sequence[Row], vectors: Sequence[Passage]
    ) -> int:
        """Store the vectors of what is still as it was embedded, and return how many memories that is.

        Args:
            tx: a transaction of their namespace.
            texts: the memories as they are now, locked.
            embedded: the memories as they were read.
            vectors: of each one that was read.
        """
        now = {row["id"]: row["content"] for row in texts}
        pairs = zip(embedded, vectors, strict=True)
        same = [(row["id"], parts) for row, parts in pairs if now.get(row["id"]) == row["content"]]
        await tx.run(ADD, {"model_id": self._model.id, **vectors_of(same)})
        return len(same)

    async def build_index(self) -> None:
        """Have the index that searches will need before they need it."""
        self.report("indexing")
        with our_errors():
            while not await maintain(self._database.url, self._model.id, self._model.dimensions):
                if not (await describe_index(self._database, self._model.id)).is_missing:
                    return
                await asyncio.sleep(PAUSE_S)  # another process builds some index

    async def switch(self) -> None:
        """Make the model the active one, in one transaction that leaves no memory without its vectors behind."""
        for _ in range(SWITCH_TRIES):
            self.report("switching")
            if await self._switched():
                return
            await asyncio.sleep(PAUSE_S)
            await self.fill()
        raise DatabaseFailed(
            "There were too many writes to switch to the new model.",
            "The vectors made so far are kept; try again when there are fewer writes.",
        )

    async def _switched(self) -> bool:
        async with self._database.as_login() as connection:
            try:
                done = await self._switch_in(connection)
            except (LockNotAvailable, DeadlockDetected):
                done = False
            if not done:
                await connection.rollback()
            return done

    async def _switch_in(self, connection: psycopg.AsyncConnection[Row]) -> bool:
        """Do the switch; return whether the transaction may be committed."""
        await connection.execute(SET_LOCK_TIMEOUT, {"timeout": SWITCH_WAIT})
        await connection.execute(LOCK_VECTORS)
        row = await (await connection.execute(LOCK_STATE, {"id": self._model.id})).fetchone()
        if row is None or row["state"] != "filling":
            raise Conflict("The move was cancelled.", "Start again with `pgengram reembed`.")
        left = 0
        for namespace_id in await _namespaces(self._database):
            settings = {"pgengram.namespace_id": str(namespace_id), "pgengram.person_id": str(UPKEEP.person_id)}
            await connection.execute(set_local(settings, distributed=self._database.distributed))
            tx = Transaction(connection, namespace_id, self._model.id, distributed=self._database.distributed)
            waiting = await self._waiting(tx, BEFORE_ALL, LAST)
            left += len(waiting)
            if left >= LAST or not await self._complete(tx, waiting):
                return False
            await clusters.recompute(tx, self._model.id)
        active = await (await connection.execute(FIND_MODEL_OF_STATE, {"state": "active"})).fetchone()
        if active is not None:
            await connection.execute(SET_STATE, {"id": active["id"], "state": "retired"})
        await connection.execute(SET_STATE, {"id": self._model.id, "state": "active"})
        await connection.execute(RENEW_MARK)
        return True

    async def _complete(self, tx: Transaction, waiting: Sequence[Row]) -> bool:
        """Embed what came in at the last moment, while nobody else can write vectors; return whether all of it was."""
        if not waiting:
            return True
        texts = await tx.rows(LOCK_TEXTS_AT_ONCE, {"ids": [row["id"] for row in waiting]})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_S):
                vectors = await self._embedder.passages([row["content"] for row in waiting])
                return await self._store(tx, texts, waiting, vectors) == len(waiting)
        return False


@asynccontextmanager
async def _only_mover(database: Database, wait_s: float) -> AsyncIterator[int]:
    """Be the only one to move this store while a block runs; yield the PostgreSQL process that says so."""
    for _ in range(round(wait_s / PAUSE_S)):
        async with pooler.alone(database.url, locks.REEMBEDDING) as holder:
            if holder is not None:
                yield holder
                return
        await asyncio.sleep(PAUSE_S)
    raise Conflict("Another process is moving this store to another model.", "`pgengram stats` shows how far it is.")


async def _namespaces(database: Database) -> list[int]:
    async with database.as_login() as connection:
        return [row["id"] for row in await (await connection.execute(FIND_NAMESPACES)).fetchall()]


async def _progress(database: Database, model_id: int) -> tuple[int, int]:
    """Return how many memories have vectors of the model, and how many there are."""
    done = total = 0
    for namespace_id in await _namespaces(database):
        async with database.transaction(namespace_id, member=UPKEEP) as tx:
            row = await tx.row(COUNT_DONE, {"model_id": model_id})
        if row is not None:
            done, total = done + row["done"], total + row["total"]
    return done, total


async def _settled(maintenance_login: psycopg.AsyncConnection[Any], holder: int) -> None:
    """Wait for the transactions that began before now: they may still be searching with the old vectors."""
    moment = await (await maintenance_login.execute(NOW)).fetchone()
    for _ in range(round(SETTLED_S / PAUSE_S)):
        given = {"moment": moment and moment[0], "holder": holder}
        older = await (await maintenance_login.execute(COUNT_OLDER, given)).fetchone()
        if older is None or older[0] == 0:
            return
        await asyncio.sleep(PAUSE_S)


async def _remove_retired(database: Database, maintenance_login: psycopg.AsyncConnection[Any]) -> int:
    """Remove indexes and vectors of models that no search uses any more, and return how many vectors those were."""
    retired = [row[0] for row in await (await maintenance_login.execute(FIND_RETIRED)).fetchall()]
    if not retired:
        return 0
    await drop_indexes(database.url, retired)  # nobody builds one for a retired model
    removed = 0
    for namespace_id in await _namespaces(database):
        last: UUID | None = BEFORE_ALL
        while last is not None:
            async with database.transaction(namespace_id, member=UPKEEP) as tx:
                row = await tx.row(REMOVE, {"after": last, "limit": REMOVED, "models": retired})
            last = row["last"] if row else None
            removed += row["removed"] if row else 0
    return removed
