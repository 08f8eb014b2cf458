"""What growth costs: one store of many namespaces, measured as it grows from ten thousand memories to a million.

    python benchmarks/scale.py [--rows 10000 30000 100000 300000 1000000] [--folder PATH] [--json PATH] [--svg PATH]

One namespace has two fifths of all memories and one a hundredth; two others never grow; the rest belongs to one namespace for each
hundred memories, with sizes by Zipf's law. When the store has its first size it is copied, and from then on every search and
create is made in turns in the copy and in the grown store: a busy minute hits both, and what counts is their ratio. Memories
are stored by the statement that stores all memories, with their vectors given; words are compacted and the index is built by the
program's own jobs; everything of a namespace runs as the application's role subject to row-level security.

With --folder the store and the figures are kept there, and a run that was broken off goes on where it was. Without, the server
is an embedded PostgreSQL in a temporary folder, or PGENGRAM_DATABASE_URL's, on which two databases are made and dropped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psycopg
from performance import HAS_PROC, WORDS, Peer, children, code_hash, parent_of_postgres, resident_mb
from plots import Line, log_log
from psycopg import sql
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.progress import Progress, TaskID, TimeElapsedColumn
from rich.table import Table
from synthetic import DIMENSIONS, Synthetic

from pgengram.inputs import NewMemory, Question
from pgengram.postgres import start_embedded
from pgengram.service.core import Session
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection.database import Database
from pgengram.store.maintenance.indexes import ANALYZE, index_name, maintain
from pgengram.store.maintenance.postings_compaction import COMPACT_AT, compact
from pgengram.store.memory import memories

SIZES = [10_000, 30_000, 100_000, 300_000, 1_000_000]
LARGE, PERCENT, MIDDLE, FEW = "large", "one percent", "4,000", "500"  # namespaces; the last two never grow
FIXED = {MIDDLE: 4_000, FEW: 500}
LARGE_SHARE = 0.4
PER_TAIL_NAMESPACE = 500  # memories in all for each namespace of the tail
STEP = 50_000  # memories stored at a time, after which words are compacted where enough wait
BATCH = 200
WRITERS = 3
ROUNDS, PER_ROUND, WARM_UP = 8, 10, 10  # of searches, for each namespace and store
CREATES = 30
RSS_CALLS = 40
MAIN, COPY = "grown", "copy"
LIMITS = {"others": 1.2, "growth": 0.5, "kilobytes": 4.5}


# -------------------------------------------------------------------------------------------------------- the generator


def sizes(total: int) -> dict[str, int]:
    """Return how many memories each namespace has in a store of `total`; no namespace has fewer in a larger store."""
    found = {LARGE: int(LARGE_SHARE * total), PERCENT: total // 100, **FIXED}
    tail, namespaces = total - sum(found.values()), total // PER_TAIL_NAMESPACE
    harmonic = sum(1 / rank for rank in range(1, namespaces + 1))
    found |= {f"namespace {rank}": max(1, int(tail / harmonic / rank)) for rank in range(1, namespaces + 1)}
    found[LARGE] += total - sum(found.values())  # what rounding left
    return found


def median_namespace(total: int) -> str:
    """Return the namespace of the tail that has as many memories as half of all namespaces have at most."""
    return f"namespace {max(1, total // PER_TAIL_NAMESPACE // 2)}"


class Source:
    """Memories to store, vectors included, made some thousands at a time.

    Args:
        seed: of what is drawn; topics and words are the same for every seed.
    """

    def __init__(self, seed: int) -> None:
        self._synthetic = Synthetic()
        self._synthetic.random = np.random.default_rng(seed)
        self._ready: list[tuple[str, Any]] = []
        self._dice = random.Random(seed)

    def draft(self, session: Session) -> memories.Draft:
        """Return one memory as the manager prepares it."""
        if not self._ready:
            self._ready = [*zip(self._synthetic.texts(5_000), self._synthetic.vectors(5_000), strict=True)]
        text, vector = self._ready.pop()
        new = NewMemory(
            content=text,
            kind=self._dice.choice(("fact", "preference", "observation", "decision", "process")),
            importance=round(self._dice.random(), 3),
            collection=f"c{self._dice.randrange(100)}",
        )
        session_id, sequence = session.next()
        draft = memories.draft(new, session_id=session_id, sequence=sequence)
        draft.parts = [vector]
        return draft

    def new(self) -> NewMemory:
        """Return one memory as a caller gives it."""
        return NewMemory(content=self._synthetic.text(), kind="fact", embedding=self._synthetic.vectors(1)[0].tolist())

    def questions(self, count: int) -> list[Question]:
        """Return questions of four words of medium frequency, with their vectors."""
        return [
            Question(query=self._synthetic.question(WORDS["medium"]), embedding=vector.tolist())
            for vector in self._synthetic.vectors(count)
        ]


# ------------------------------------------------------------------------------------------------------------- the store


@dataclass
class Lab:
    """Two databases of one server: the one that grows, and the copy of its first size.

    Args:
        settings: of the grown database; copy_url: of the copy, made by `keep_copy`.
    """

    settings: Settings
    copy_url: str
    progress: Progress
    whole: TaskID
    model_id: int = 0

    @asynccontextmanager
    async def login(self, url: str = "") -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """Yield a connection of the login, for what belongs to no namespace."""
        async with await psycopg.AsyncConnection.connect(url or self.settings.database_url, autocommit=True) as one:
            yield one

    async def value(self, statement: str, *parameters: Any) -> Any:
        """Return the first value that a statement of the login gives."""
        async with self.login() as connection:
            row = await (await connection.execute(statement, parameters or None)).fetchone()
        return row[0] if row else None

    async def prepare(self) -> None:
        """Migrate, and name the model whose vectors are given."""
        manager = MemoryManager(self.settings)
        await manager.open()
        model = await manager.current_model()
        await manager.close()
        assert model is not None
        self.model_id = model.id

    async def keep_copy(self) -> None:
        """Copy the database as it is, unless there is a copy."""
        grown, copy = (
            psycopg.conninfo.conninfo_to_dict(url)["dbname"] for url in (self.settings.database_url, self.copy_url)
        )
        async with self.login(make_conninfo(self.settings.database_url, dbname="template1")) as connection:
            found = await connection.execute("SELECT FROM pg_database WHERE datname = %s", [copy])
            if await found.fetchone() is None:
                names = (sql.Identifier(str(name)) for name in (copy, grown))
                await connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))

    async def counts(self) -> dict[str, int]:
        """Return how many memories each namespace has now."""
        async with self.login() as connection:
            await connection.execute("SELECT set_config('pgengram.maintenance', 'on', false)")
            return dict(await (await connection.execute(COUNTS)).fetchall())

    async def grow(self, total: int) -> dict[str, float]:
        """Store what is missing and compact words now and then, as many servers would; return the rates."""
        now = sum((await self.counts()).values())
        task = self.progress.add_task(f"{total:,}: storing memories", total=max(0, total - now))
        database = Database(self.settings.database_url)
        await database.open()
        rows, storing_s, compacting_s = 0, 0.0, 0.0
        try:
            for size in [*range(now + STEP, total, STEP), total]:
                begun = time.perf_counter()
                rows += await self._store(database, size, task)
                stored = time.perf_counter()
                async with self.login() as connection:
                    await connection.execute(ANALYZE)  # as the keeper does when a store has grown
                await self._compact(database, size)
                storing_s += stored - begun
                compacting_s += time.perf_counter() - stored
        finally:
            await database.close()
        return {"rows": rows, "rows_per_s": round(rows / storing_s), "compacting_s": round(compacting_s, 2)}

    async def _store(self, database: Database, total: int, task: TaskID) -> int:
        """Store what is missing in a store of `total`, namespaces mixed as they would come; return how many that were."""
        there = await self.counts()
        missing = {name: size - there.get(name, 0) for name, size in sizes(total).items()}
        batches = [
            (name, min(BATCH, n - start)) for name, n in missing.items() if n > 0 for start in range(0, n, BATCH)
        ]
        random.Random(total).shuffle(batches)
        rows, source = sum(n for _, n in batches), Source(seed=total + len(batches))

        async def write() -> None:
            while batches:
                name, count = batches.pop()
                session = Session()
                drafts = [source.draft(session) for _ in range(count)]
                async with database.transaction(await database.namespace_id(name)) as tx:
                    await memories.insert(tx, drafts, self.model_id)
                self.progress.advance(task, count)
                self.progress.advance(self.whole, count)

        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(write())
        return rows

    async def _compact(self, database: Database, total: int) -> None:
        """Compact the words of every namespace of whom enough wait, as their servers do."""
        for name, size in sizes(total).items():
            if size >= COMPACT_AT:
                namespace_id = await database.namespace_id(name)
                await compact(partial(database.transaction, namespace_id), self.settings.database_url)

    async def index(self, total: int) -> float:
        """Have the keeper look after the index; return how long it took, in seconds."""
        task = self.progress.add_task(f"{total:,}: building the index", total=None)
        begun = time.perf_counter()
        await maintain(self.settings.database_url, self.model_id, DIMENSIONS)
        took = time.perf_counter() - begun
        async with self.login() as connection:
            await connection.execute("VACUUM (ANALYZE)")
            await connection.execute("CHECKPOINT")
        self.progress.update(task, total=1, completed=1)
        return took

    async def tables(self) -> dict[str, int]:
        """Return the bytes of each table with its indexes, the largest first."""
        async with self.login() as connection:
            return dict(await (await connection.execute(TABLES)).fetchall())

    async def text_bytes(self) -> int:
        """Return the bytes of all contents; row-level security hides each namespace's from everybody else, so namespace by namespace."""
        database, found = Database(self.settings.database_url), 0
        await database.open()
        try:
            for name in await self.counts():
                async with database.transaction(await database.namespace_id(name)) as tx:
                    found += (await tx.row(TEXT_BYTES) or {})["bytes"]
        finally:
            await database.close()
        return found


COUNTS = """
SELECT n.name, count(*) FROM memory_vectors v JOIN namespaces n ON n.id = v.namespace_id WHERE v.part = 0 GROUP BY n.name
"""
TEXT_BYTES = """
SELECT coalesce(sum(octet_length(content)), 0)::bigint AS bytes FROM memories WHERE namespace_id = %(namespace_id)s
"""
TABLES = """
SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND pg_total_relation_size(c.oid) > 0 ORDER BY 2 DESC
"""


# --------------------------------------------------------------------------------------------------------- what is timed


@dataclass
class Timed:
    """Milliseconds of the calls of one namespace in one store."""

    ms: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Return the middle and the slow end, in milliseconds."""
        return {"p50": round(median(self.ms), 3), "p95": round(float(np.quantile(self.ms, 0.95)), 3)}


class Pair:
    """Managers of the same namespaces in the grown store and in the copy."""

    def __init__(self, lab: Lab, totals: dict[str, int]) -> None:
        self._urls = {MAIN: lab.settings.database_url, COPY: lab.copy_url}
        self._settings, self._totals = lab.settings, totals
        self.managers: dict[tuple[str, str], MemoryManager] = {}

    async def __aenter__(self) -> Pair:
        self._closing = AsyncExitStack()
        for place, url in self._urls.items():
            host = MemoryManager(replace(self._settings, database_url=url, namespace=LARGE))
            self._closing.push_async_callback(host.close)
            await host.open()
            self.managers[LARGE, place] = host
            for namespace in (PERCENT, MIDDLE, FEW, "median"):
                name = median_namespace(self._totals[place]) if namespace == "median" else namespace
                guest = MemoryManager(replace(self._settings, database_url=url, namespace=name), host)
                self._closing.push_async_callback(guest.close)
                await guest.open()
                self.managers[namespace, place] = guest
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._closing.aclose()

    async def race(
        self, namespaces: tuple[str, ...], calls: list[Any], per_round: int,
        call: Callable[[MemoryManager, Any], Awaitable[Any]], advance: Callable[[], None],
    ) -> dict[tuple[str, str], Timed]:  # fmt: skip
        """Let each namespace make the same calls in both stores, some at a time and in turns."""
        found = {(namespace, place): Timed() for namespace in namespaces for place in (COPY, MAIN)}
        for start in range(0, len(calls), per_round):
            for namespace, place in found:
                for given in calls[start : start + per_round]:
                    begun = time.perf_counter()
                    await call(self.managers[namespace, place], given)
                    found[namespace, place].ms.append((time.perf_counter() - begun) * 1e3)
                advance()
        return found


async def search(manager: MemoryManager, question: Question) -> Any:
    return await manager.search_memories(question)


async def create(manager: MemoryManager, source: Source) -> Any:
    return await manager.create_memory(source.new())


async def searches(lab: Lab, total: int, first: int) -> dict[str, Any]:
    """Return how long searches and creates take, for each namespace in both stores."""
    namespaces = (LARGE, PERCENT, MIDDLE, FEW, "median")
    source = Source(seed=total + 1)
    async with Pair(lab, {MAIN: total, COPY: first}) as pair:
        task = lab.progress.add_task(f"{total:,}: searching", total=2 * len(namespaces) * (ROUNDS + 2) + 4 * CREATES)

        def advance() -> None:
            lab.progress.advance(task)

        cold = await pair.race(namespaces, source.questions(1), 1, search, advance)
        await pair.race(namespaces, source.questions(WARM_UP), WARM_UP, search, advance)
        found = await pair.race(namespaces, source.questions(ROUNDS * PER_ROUND), PER_ROUND, search, advance)
        changed = (LARGE, MIDDLE)
        await pair.race(changed, [source] * WARM_UP, WARM_UP, create, lambda: None)
        made = await pair.race(changed, [source] * CREATES, 1, create, advance)
        postgres = await postgres_mb(lab)
    return {
        "search": both(found),
        "first search": both(cold),
        "create": both(made),
        "postgres_mb": postgres,
    }


def both(found: dict[tuple[str, str], Timed]) -> dict[str, Any]:
    """Return the figures of each namespace, with the ratio of the grown store to the copy."""
    said: dict[str, Any] = {}
    for namespace in dict.fromkeys(namespace for namespace, _ in found):
        grown, copy = found[namespace, MAIN].figures(), found[namespace, COPY].figures()
        said[namespace] = {**grown, "copy": copy, "ratio": {name: round(grown[name] / copy[name], 3) for name in grown}}
    return said


async def postgres_mb(lab: Lab) -> float | None:
    """Return the memory of PostgreSQL and all its processes, what they share counted once; None where it cannot be seen."""
    postmaster = parent_of_postgres(await lab.value("SELECT pg_backend_pid()"))
    if not HAS_PROC or postmaster is None:
        return None
    return round(sum(map(_proportional_mb, [postmaster, *children(postmaster)])), 1)


def _proportional_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


def server_mb(lab: Lab) -> float | None:
    """Return the memory of a server process over stdio that has searched the large namespace's memories."""
    if not HAS_PROC:
        return None
    os.environ.update(replace(lab.settings, namespace=LARGE).variables)
    with Peer([sys.executable, "-m", "pgengram"], modern=False) as server:
        server.hello()
        for question in Source(seed=3).questions(RSS_CALLS):
            arguments = {"query": question.query, "embedding": question.embedding}
            server.ask("tools/call", {"name": "search_memories", "arguments": arguments})
        return round(resident_mb(server, "VmRSS"), 1)


# ---------------------------------------------------------------------------------------------------------------- stages


async def stage(lab: Lab, total: int, first: int) -> dict[str, Any]:
    """Let the store grow to `total` memories and return all that is measured then."""
    grown = await lab.grow(total)
    index_s = await lab.index(total)
    if total == first:
        await lab.keep_copy()
    counts, tables = await lab.counts(), await lab.tables()
    memories_now = sum(counts.values())
    beyond = (sum(tables.values()) - await lab.text_bytes()) / memories_now
    return {
        "memories": memories_now,
        "owners": len(counts),
        "sizes": {name: counts[name] for name in (LARGE, PERCENT, MIDDLE, FEW)} | {"median": counts[median_namespace(total)]},
        "stored": grown,
        "index_s": round(index_s, 2),
        "index_mb": round(await lab.value("SELECT pg_relation_size(to_regclass(%s))", index_name(lab.model_id)) / 1e6, 2),
        "disk_bytes_beyond_text": round(beyond),
        "tables": {name: round(size / memories_now) for name, size in tables.items() if size >= 10 * memories_now},
        **await searches(lab, total, first),
        "server_mb": await asyncio.to_thread(server_mb, lab),
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------------ fits


@dataclass(frozen=True, slots=True)
class Fit:
    """y = scale · x^exponent, fitted by least squares to the logarithms; error: of the exponent, one standard error."""

    exponent: float
    error: float
    scale: float

    def at(self, x: float) -> float:
        """Return what the fit says for `x`."""
        return float(self.scale * x**self.exponent)


def fit(points: list[tuple[float, float]]) -> Fit | None:
    """Return the power law through the points; None for fewer than three. A continued run has none where it went on."""
    points = [point for point in points if min(point) > 0]
    if len(points) < 3:
        return None
    x, y = (np.log([point[axis] for point in points]) for axis in (0, 1))
    spread = ((x - x.mean()) ** 2).sum()
    exponent = float(((x - x.mean()) * (y - y.mean())).sum() / spread)
    rest = y - y.mean() - exponent * (x - x.mean())
    error = float(np.sqrt((rest**2).sum() / (len(x) - 2) / spread))
    return Fit(exponent, error, float(np.exp(y.mean() - exponent * x.mean())))


def steady(stages: list[dict[str, Any]], what: str, namespace: str, quantile: str) -> list[tuple[float, float]]:
    """Return milliseconds by size as on a machine that stays as it was at its quietest: the ratio to the copy, times that of then."""
    quietest = min(one[what][namespace]["copy"][quantile] for one in stages)
    return [(one["memories"], quietest * one[what][namespace]["ratio"][quantile]) for one in stages]


def series(stages: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Return what is fitted: each figure against the memories in the store, or those of the namespace where it says so."""
    total = "memories"
    found = {
        f"search {namespace}, {quantile}": steady(stages, "search", namespace, quantile)
        for namespace in (LARGE, PERCENT, MIDDLE, FEW, "median")
        for quantile in ("p50", "p95")
    }
    own = [one["sizes"][LARGE] for one in stages]
    found |= {
        f"search large by its size, {quantile}": [
            (size, ms) for size, (_, ms) in zip(own, found[f"search large, {quantile}"], strict=True)
        ]
        for quantile in ("p50", "p95")
    }
    return found | {
        "create large, p50": steady(stages, "create", LARGE, "p50"),
        "create 4,000, p50": steady(stages, "create", MIDDLE, "p50"),
        "index build, s": [(one[total], one["index_s"]) for one in stages],
        "index, MB": [(one[total], one["index_mb"]) for one in stages],
        "load, rows/s": [(one[total], one["stored"]["rows_per_s"]) for one in stages],
        "disk beyond text, bytes a memory": [(one[total], one["disk_bytes_beyond_text"]) for one in stages],
        "PostgreSQL, MB": [(one[total], one["postgres_mb"]) for one in stages if one["postgres_mb"]],
        "server process, MB": [(one[total], one["server_mb"]) for one in stages if one["server_mb"]],
    }


def checks(stages: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """Return what must hold: what it is, the figure of the last stage, and its limit."""
    last, first = stages[-1], stages[0]
    found = [
        (f"search of a namespace of {namespace}, {last['memories']:,} memories to {first['memories']:,}", last["search"][namespace]["ratio"]["p50"], LIMITS["others"])
        for namespace in (MIDDLE, FEW)
    ]  # fmt: skip
    grown = last["sizes"][LARGE] / first["sizes"][LARGE]
    root = grown ** LIMITS["growth"]
    found.append(
        (f"search of the namespace that grew {grown:.0f}-fold", last["search"][LARGE]["ratio"]["p50"], round(root, 2))
    )
    found.append(("kB on disk a memory beyond its text", last["disk_bytes_beyond_text"] / 1e3, LIMITS["kilobytes"]))
    return found


# --------------------------------------------------------------------------------------------------------------- the run


@contextmanager
def laboratory(folder: Path | None) -> Iterator[tuple[Settings, str]]:
    """Yield the settings of the database that grows and the address of its copy."""
    given = replace(Settings.from_environment(), embedder="builtin:", namespace=LARGE)
    if given.database_url and folder is None:
        names = [f"pgengram_scale_{os.getpid()}", f"pgengram_scale_{os.getpid()}_copy"]
        with psycopg.connect(given.database_url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(names[0])))
            grown, copy = (make_conninfo(given.database_url, dbname=name) for name in names)
            try:
                yield replace(given, database_url=grown), copy
            finally:
                for name in names:
                    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
                    connection.execute(drop.format(sql.Identifier(name)))
        return
    with tempfile.TemporaryDirectory(prefix="pgengram-scale-", ignore_cleanup_errors=True) as temporary:
        server = start_embedded((folder or Path(temporary)) / "data")
        try:
            yield replace(given, database_url=server.url), make_conninfo(server.url, dbname="pgengram_scale_copy")
        finally:
            server.stop()


async def run(
    settings: Settings, copy_url: str, rows: list[int], kept: Path | None, progress: Progress
) -> list[dict[str, Any]]:
    """Measure every size that has not been measured, and return all stages."""
    whole = progress.add_task("the whole run", total=rows[-1])
    lab = Lab(settings, copy_url, progress, whole)
    await lab.prepare()
    stages = await asyncio.to_thread(read, kept)
    progress.update(whole, completed=sum((await lab.counts()).values()))
    for total in rows[len(stages) :]:
        stages.append(await stage(lab, total, rows[0]))
        await asyncio.to_thread(keep, kept, stages)
        progress.console.print(said(stages[-1]), highlight=False)
    progress.update(whole, completed=rows[-1])
    return stages


def read(kept: Path | None) -> list[dict[str, Any]]:
    """Return the stages that an earlier run has measured."""
    return json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else []


def keep(kept: Path | None, stages: list[dict[str, Any]]) -> None:
    """Write down what was measured, for a run that goes on with it."""
    if kept:
        kept.write_text(json.dumps(stages, indent=1) + "\n", encoding="utf-8")


def said(one: dict[str, Any]) -> str:
    """Return a stage as a line."""
    times = ", ".join(
        f"{namespace} {ms['p50']:.1f}/{ms['p95']:.1f} ({ms['ratio']['p50']:.2f}×)"
        for namespace, ms in one["search"].items()
    )
    creates = ", ".join(
        f"{namespace} {ms['p50']:.1f} ({ms['ratio']['p50']:.2f}×)" for namespace, ms in one["create"].items()
    )
    return (
        f"{one['memories']:,} of {one['owners']:,} namespaces: stored {one['stored']['rows_per_s']:,}/s, compacted in {one['stored']['compacting_s']} s, "
        f"index {one['index_s']} s, {one['index_mb']} MB; {one['disk_bytes_beyond_text']:,} bytes a memory; PostgreSQL {one['postgres_mb']} MB, "
        f"server {one['server_mb']} MB\n  search ms p50/p95 (× the copy): {times}\n  create: {creates}"
    )


def report(stages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the run as JSON has it."""
    fits = {name: fit(points) for name, points in series(stages).items()}
    return {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code_hash(),
        "stages": stages,
        "fits": {
            name: {"exponent": round(f.exponent, 4), "standard_error": round(f.error, 4), "scale": f.scale,
                   "at": {f"{size:.0e}": f.at(size) for size in (1e7, 1e8, 1e9)}}
            for name, f in fits.items() if f is not None
        },
        "checks": [{"what": what, "figure": figure, "limit": limit, "reached": figure <= limit} for what, figure, limit in checks(stages)],
    }  # fmt: skip


def drawn(stages: list[dict[str, Any]]) -> str:
    """Return the plot: searches on the left, what is done once on the right."""
    points = series(stages)
    labels = {
        LARGE: "two fifths of all",
        PERCENT: "one percent",
        MIDDLE: "always 4,000",
        FEW: "always 500",
        "median": "median namespace",
    }
    left = [Line(label, points[f"search {namespace}, p50"]) for namespace, label in labels.items()]
    left.append(Line("create, large namespace", points["create large, p50"], dashed=True))
    gigabytes = [(one["memories"], one["disk_bytes_beyond_text"] * one["memories"] / 1e9) for one in stages]
    right = [
        Line("index build, s", points["index build, s"]),
        Line("storing a million, s", [(x, 1e6 / y) for x, y in points["load, rows/s"]]),
        Line("disk beyond text, GB", gigabytes),
        Line("PostgreSQL, GB", [(x, y / 1e3) for x, y in points["PostgreSQL, MB"]]),
    ]
    return log_log("What growth costs", "memories in the store", [("ms (p50)", left), ("seconds, GB", right)])


def tables(screen: Console, found: dict[str, Any]) -> None:
    fits = Table("what", "exponent", "± standard error", "at 10 M", title="y = c · x^exponent", highlight=False)
    for name, one in found["fits"].items():
        fits.add_row(name, f"{one['exponent']:.3f}", f"{one['standard_error']:.3f}", f"{one['at']['1e+07']:,.4g}")
    screen.print(fits)
    must = Table("what must hold", "figure", "limit", title="checks", highlight=False)
    for one in found["checks"]:
        colour = "green" if one["reached"] else "red"
        must.add_row(one["what"], f"[{colour}]{one['figure']:.2f}[/]", f"≤ {one['limit']}")
    screen.print(must)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES, help="sizes to measure, rising, from 10,000 on")
    parser.add_argument("--folder", type=Path, help="keep the store and the figures here, and go on with what is there")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--svg", type=Path, help="draw them here")
    chosen = parser.parse_args()
    if chosen.rows != sorted(set(chosen.rows)) or chosen.rows[0] < SIZES[0]:
        parser.error(f"--rows must rise and begin at {SIZES[0]:,} or more")
    kept = chosen.folder and chosen.folder / "stages.json"
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns) as progress, laboratory(chosen.folder) as (settings, copy_url):
        stages = asyncio.run(run(settings, copy_url, chosen.rows, kept, progress))
    found = report(stages)
    tables(Console(), found)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if chosen.svg:
        chosen.svg.write_text(drawn(stages), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
