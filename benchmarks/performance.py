"""What memories cost in time, processor, memory and disk, beside floors that the same run measures.

    python benchmarks/performance.py [--rows 100000] [--only NAME …] [--json PATH] [--svg PATH]

Absolute times say little on a machine that others share, so each row of the table is a ratio: ours to the least that the
same data, machine and minute allow, taken in turns. All statements run as the application's role subject to row-level security between
namespaces. The server is an embedded PostgreSQL in a temporary folder, or a database made for this run, and dropped after it,
on the server of PGENGRAM_DATABASE_URL.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import psycopg
from embedder import LONG
from numpy.typing import NDArray
from plots import Bar, bars
from psycopg import sql
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from synthetic import DIMENSIONS, Synthetic

from pgengram.cli.commands.bench import ROUND, Race
from pgengram.cli.commands.bench import race as raced
from pgengram.embedders import Passage
from pgengram.embedders.builtin import BuiltinEmbedder
from pgengram.inputs import Question
from pgengram.postgres import start_embedded
from pgengram.search import listing, ranking
from pgengram.search.filters import WITH_ACTIVATION, Asked, scope_of
from pgengram.search.listing import vectors_alone
from pgengram.search.lookup import Frequencies, understand
from pgengram.search.question import parse
from pgengram.search.results import HIT_COLUMNS
from pgengram.search.vector_index import Embedded, VectorIndex
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection.database import Transaction
from pgengram.store.connection.pool import vectors_of, vectors_parameter
from pgengram.store.maintenance import reembedding
from pgengram.store.maintenance.indexes import GROWTH, LOOK_AGAIN_GROWTH, index_name, maintain
from pgengram.store.maintenance.postings_compaction import COMPACT_AT, COUNT_WAITING
from pgengram.store.memory import statements as s
from protocol import REFERENCE, TEN_NOTES, Peer

MAIN, SMALL, FADING, GROWN, EMBEDDED = "main", "one in a hundred", "fading", "grown", "embedded"
AT_FIRST = 10_000  # memories for what is measured through the protocol
FADING_ROWS = 300_000
QUESTIONS = 40
RECALL_QUESTIONS = 100  # 1,000 neighbours: a difference of a point is seen
CALLS = 150
BATCH = 200
WORDS = {"rare": range(2_000, 20_000), "medium": range(100, 1_000), "common": range(50)}  # ranks by frequency
IDLE_S = 4.0  # after which the server that is looked at lets its model go; its usual minutes are long to wait
HAS_PROC = Path("/proc/self/status").exists()
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
SERVER = [sys.executable, "-m", "pgengram"]
IMPATIENT_SERVER = [
    sys.executable, "-c",
    f"from pgengram.embedders import onnx; onnx.OnnxEmbedder.__init__.__kwdefaults__['idle_s'] = {IDLE_S}\n"
    f"onnx.UNUSED_S = {IDLE_S}\n"
    "from pgengram.__main__ import serve; serve()",
]  # fmt: skip

Case = TypeVar("Case")
Vector = NDArray[np.float32]


# ------------------------------------------------------------------------------------------------------ what is said


@dataclass(frozen=True, slots=True)
class Check:
    """A figure and the limit it keeps to; `what` is its unit."""

    what: str
    figure: float
    limit: float
    at_most: bool = True

    @property
    def share(self) -> float:
        """The part of the limit that is taken: 1 just reaches it, more misses it."""
        return self.figure / self.limit if self.at_most else self.limit / max(self.figure, 1e-9)


@dataclass(frozen=True, slots=True)
class Mark:
    """One row of the table: what was measured, its checks, and the absolute figures behind them."""

    name: str
    checks: tuple[Check, ...]
    note: str

    @property
    def share(self) -> float:
        """The share of the check that is farthest from its limit on the wrong side."""
        return max(check.share for check in self.checks)

    @property
    def reach(self) -> str:
        """The limits in words."""
        return ", ".join(f"{'≤' if c.at_most else '≥'} {c.limit:,.4g} {c.what}" for c in self.checks)

    @property
    def measured(self) -> str:
        """The figures in words."""
        return ", ".join(f"{c.figure:,.3g} {c.what}" for c in self.checks)


def at_most(limit: float, figure: float, what: str) -> Check:
    return Check(what, figure, limit)


def at_least(limit: float, figure: float, what: str) -> Check:
    return Check(what, figure, limit, at_most=False)


# ---------------------------------------------------------------------------------------------------- the laboratory


@dataclass
class Lab:
    """One database, the namespaces in it, and what fills them.

    Args:
        settings: of the main namespace; rows: memories it has in the end.
    """

    settings: Settings
    rows: int
    progress: Progress
    login: psycopg.AsyncConnection[Any]
    closing: AsyncExitStack
    source: Synthetic = field(default_factory=Synthetic)
    embedder: BuiltinEmbedder = field(default_factory=BuiltinEmbedder)
    namespaces: dict[str, MemoryManager] = field(default_factory=dict)
    filled: dict[str, int] = field(default_factory=dict)
    import_s: float = 0.0
    imported: int = 0

    async def namespace(self, name: str) -> MemoryManager:
        """Return the manager of the namespace called `name`, opened."""
        if name not in self.namespaces:
            manager = MemoryManager(replace(self.settings, namespace=name))
            self.closing.push_async_callback(manager.close)
            await manager.open()
            self.namespaces[name] = manager
        return self.namespaces[name]

    async def model(self, name: str = "") -> int:
        """Return the key of a model: the built-in one, or one of the name that only these figures use."""
        await (await self.namespace(MAIN)).current_model()
        given = {"name": name or self.embedder.name, "dimensions": DIMENSIONS}
        if await (await self.login.execute(FIND_MODEL, given)).fetchone() is None:
            await self.login.execute(ADD_MODEL, given)
        return int((await (await self.login.execute(FIND_MODEL, given)).fetchone() or (0,))[0])

    async def fill(self, name: str, rows: int) -> None:
        """Store memories with given vectors until the namespace has `rows`, as an importer does, and let the jobs finish."""
        manager, missing = await self.namespace(name), rows - self.filled.get(name, 0)
        if missing <= 0:
            return
        task = self.progress.add_task(f"storing {missing:,} memories for {name}", total=missing)
        while missing > 0:
            # Made first: making them takes time too. An import looks for no near duplicates.
            items = [item | {"dedup_policy": "insert"} for item in self.source.memories(min(25 * BATCH, missing))]
            for start in range(0, len(items), BATCH):
                batch = items[start : start + BATCH]
                begun = time.perf_counter()
                await manager.create_memories(batch)
                self.import_s += time.perf_counter() - begun
                self.progress.advance(task, len(batch))
            self.imported += len(items)
            missing -= len(items)
        self.filled[name] = rows
        await self.settle()

    async def settle(self) -> None:
        """Wait until words are compacted and indexes built, as they are when an importer has left."""
        task = self.progress.add_task("waiting for the background jobs", total=None)
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 3:
            await asyncio.sleep(0.1)
            if await self._busy():
                quiet_since = time.monotonic()
        await maintain(self.settings.database_url, await self.model(), DIMENSIONS)
        await self.login.execute("VACUUM (ANALYZE)")
        await self.login.execute("CHECKPOINT")
        self.progress.update(task, total=1, completed=1)

    async def _busy(self) -> bool:
        cursor = await self.login.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND backend_type = 'client backend' "
            "AND datname = current_database() AND pid <> pg_backend_pid()"
        )
        active = (await cursor.fetchone() or (0,))[0]
        for manager in self.namespaces.values():
            async with manager.store.transaction() as tx:
                waiting = await tx.row(COUNT_WAITING, {"limit": COMPACT_AT})
            active += waiting is not None and waiting["memories"] >= COMPACT_AT
        return active > 0

    async def nearest(self, name: str, model: int, vector: Vector, *, exact: bool = False) -> list[UUID]:
        """Return the ten nearest memories by vectors alone: the least that a search by meaning does."""
        async with (await self.namespace(name)).store.transaction() as tx:
            return await vectors_alone(tx, VectorIndex(model, DIMENSIONS), halfvec(vector), exact=exact)

    async def asked(self, name: str, question: Question) -> Asked:
        """Return a question with its words looked up."""
        async with (await self.namespace(name)).store.transaction() as tx:
            return await understand(tx, parse(question, datetime.now(UTC)), Frequencies())

    async def ranked(
        self, name: str, asked: Asked, question: Question, vector: Vector, *, indexed: bool = True
    ) -> list[UUID]:
        """Return the memories that the ranking statement finds, in a transaction of its own; without index exactly."""
        namespace = await self.namespace(name)
        model = await namespace.current_model() if indexed else VectorIndex(await self.model(), DIMENSIONS)
        async with namespace.store.transaction() as tx:
            parsed = replace(asked.parsed, question=question, scope=scope_of(question))
            found = await ranking.ranked(tx, replace(asked, parsed=parsed), Embedded(model, [vector]))
        return [hit.id for hit in found.found]

    async def search(self, name: str, question: Question) -> list[UUID]:
        """Return what the tool finds."""
        found = await (await self.namespace(name)).search_memories(question)
        return [UUID(hit["id"]) for hit in found.results]


ADD_MODEL = """
INSERT INTO embedding_models (name, dimensions) VALUES (%(name)s, %(dimensions)s) ON CONFLICT (name) DO NOTHING
"""
FIND_MODEL = "SELECT id FROM embedding_models WHERE name = %(name)s"


def halfvec(vector: Vector) -> Any:
    return vectors_parameter([vector])[0]


async def race(
    lab: Lab,
    title: str,
    runs: Mapping[str, Callable[[Case], Awaitable[Any]]],
    cases: Sequence[Case],
    *,
    at_once: int = ROUND,
) -> dict[str, Race]:
    """Let the contestants race, and show how far they are."""
    task = lab.progress.add_task(title, total=len(cases))
    return await raced(runs, cases, lambda done, _: lab.progress.update(task, completed=done), at_once=at_once)


async def against_parts(
    lab: Lab,
    whole: str,
    runs: Mapping[str, Callable[[Case], Awaitable[Any]]],
    cases: Sequence[Case],
    allowed: Callable[[Mapping[str, float]], float],
) -> tuple[Mapping[str, float], float, float]:
    """Return how many ms each contestant took, and how many times its allowance the `whole` did that the others are parts of.

    Case by case, as in a call each part finds the processor's caches as the part before has left them; and once more in rounds,
    where the parts find what they left themselves.
    """
    by_case, in_rounds = [
        {name: run.ms for name, run in (await race(lab, f"{whole} through stdio", runs, some, at_once=size)).items()}
        for size, some in ((1, cases[::2]), (ROUND, cases[1::2]))
    ]
    return by_case, by_case[whole] / allowed(by_case), in_rounds[whole] / allowed(in_rounds)


def recall(found: Race, truth: Race) -> float:
    """Return the mean share of the true answers that were found."""
    shares = [len({*f} & {*t}) / max(1, len(t)) for f, t in zip(found.answers, truth.answers, strict=True)]
    return sum(shares) / len(shares)


# ------------------------------------------------------------------------------------------------------ what is measured


async def vector(lab: Lab) -> list[Mark]:
    """The index against looking at every vector."""
    await lab.fill(MAIN, lab.rows)
    model = await lab.model()
    found = await race(
        lab, "vectors",
        {"index": lambda v: lab.nearest(MAIN, model, v), "exact": lambda v: lab.nearest(MAIN, model, v, exact=True)},
        [*lab.source.vectors(RECALL_QUESTIONS)],
    )  # fmt: skip
    index, exact = found["index"], found["exact"]
    checks = at_most(0.1, index.ms / exact.ms, "× exact"), at_least(0.97, recall(index, exact), "recall@10")
    return [Mark(f"vector top-10 of {count(lab.rows)}", checks, f"{index.ms:.1f} ms, exact {exact.ms:.1f} ms")]


async def fused(lab: Lab) -> list[Mark]:
    """The whole search, words and all signals included, against vectors alone."""
    await lab.fill(MAIN, lab.rows)
    return [await _fused(lab, kind, ranks) for kind, ranks in WORDS.items()]


async def _fused(lab: Lab, kind: str, ranks: range) -> Mark:
    model, cases = await lab.model(), []
    for one in lab.source.vectors(QUESTIONS):
        question = Question(query=lab.source.question(ranks), embedding=one.tolist())
        cases.append((question, one, await lab.asked(MAIN, question)))
    found = await race(
        lab, f"fused, {kind} words",
        {
            "floor": lambda c: lab.nearest(MAIN, model, c[1]),
            "search": lambda c: lab.search(MAIN, c[0]),
            "statement": lambda c: lab.ranked(MAIN, c[2], c[0], c[1]),
            "exact": lambda c: lab.ranked(MAIN, c[2], c[0], c[1], indexed=False),
        },
        cases,
    )  # fmt: skip
    floor, ours = found["floor"], found["search"]
    checks = (
        at_most(12 if kind == "common" else 8, ours.ms / floor.ms, "× vectors alone"),
        at_least(0.97, recall(ours, found["exact"]), "recall@10"),
    )
    note = f"{ours.ms:.1f} ms, of it {found['statement'].ms:.1f} ms the statement; vectors alone {floor.ms:.1f} ms"
    return Mark(f"fused top-10, {kind} words", checks, note)


async def scope(lab: Lab) -> list[Mark]:
    """One namespace of a hundred, and a filter that leaves one memory of a hundred."""
    await lab.fill(MAIN, lab.rows)
    await lab.fill(SMALL, lab.rows // 100)
    model, vectors = await lab.model(), [*lab.source.vectors(RECALL_QUESTIONS)]
    among = await _ids_of_collection(lab, "c7")
    return [
        await _scoped(lab, "1 % namespace", SMALL, {}, vectors, lambda v: lab.nearest(SMALL, model, v, exact=True)),
        await _scoped(lab, "1 % filter", MAIN, {"collection": "c7"}, vectors, lambda v: _among(lab, model, among, v)),
    ]


async def _scoped(
    lab: Lab, title: str, name: str, filters: dict[str, Any], vectors: list[Vector],
    floor: Callable[[Vector], Awaitable[list[UUID]]],
) -> Mark:  # fmt: skip
    cases = [(v, Question(mode="semantic", embedding=v.tolist(), **filters)) for v in vectors]
    nothing = await lab.asked(name, cases[0][1])
    found = await race(
        lab, title,
        {
            "floor": lambda c: floor(c[0]),
            "statement": lambda c: lab.ranked(name, nothing, c[1], c[0]),
            "search": lambda c: lab.search(name, c[1]),
        },
        cases,
    )  # fmt: skip
    exact, statement, search = found["floor"], found["statement"], found["search"]
    checks = at_most(2, statement.ms / exact.ms, "× exact"), at_least(0.99, recall(search, exact), "recall@10")
    note = f"statement {statement.ms:.1f} ms, whole search {search.ms:.1f} ms, exact over just those {exact.ms:.1f} ms"
    return Mark(title, checks, note)


async def _ids_of_collection(lab: Lab, collection: str) -> list[UUID]:
    async with (await lab.namespace(MAIN)).store.transaction() as tx:
        statement = "SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND collection = %(collection)s"
        return [row["id"] for row in await tx.rows(statement, {"collection": collection})]


async def _among(lab: Lab, model: int, ids: list[UUID], vector: Vector) -> list[UUID]:
    """Return the ten nearest of the memories `ids`: the least that a search behind a filter does."""
    async with (await lab.namespace(MAIN)).store.transaction() as tx:
        rows = await tx.rows(NEAREST_AMONG.format(model=model), {"ids": ids, "vector": halfvec(vector)})
    return [row["memory_id"] for row in rows]


NEAREST_AMONG = """
SELECT v.memory_id FROM unnest(%(ids)s::uuid[]) AS given(id)
JOIN memory_vectors v ON v.namespace_id = %(namespace_id)s AND v.memory_id = given.id AND v.model_id = {model}
ORDER BY v.embedding <=> %(vector)b::halfvec LIMIT 10
"""


async def relevance(lab: Lab) -> list[Mark]:
    """What matters most now, and at other moments, against computing the relevance of every memory; both give whole hits.

    Both statements are asked in one open transaction: to begin and to end one costs nearly as much as ours, and the same for
    both. What it is with a transaction of its own is said beside it.
    """
    await _fade(lab, FADING_ROWS)
    now = datetime.now(UTC)
    moments = [now + timedelta(days=days) for days in (-700, -365, -90, -30, -7, -1, 0, 1, 7, 30, 90, 365, 1_500)]
    namespace = await lab.namespace(FADING)
    async with namespace.store.transaction() as open_:
        found = await race(
            lab, "live relevance",
            {
                "brute": lambda moment: _most_relevant_by_brute_force(open_, moment),
                "index": lambda moment: _most_relevant(open_, moment),
                "alone": lambda moment: _most_relevant_alone(namespace, moment),
                "search": lambda moment: lab.search(FADING, Question(sort="relevance", now=moment)),
            },
            moments * 3,
        )  # fmt: skip
    brute, index, alone, search = found["brute"], found["index"], found["alone"], found["search"]
    answers = zip(brute.answers, index.answers, alone.answers, search.answers, strict=True)
    same = sum(a == b == c == d for a, b, c, d in answers) // 3
    checks = (
        at_most(0.01, index.ms / brute.ms, "× brute force"),
        at_least(len(moments), same, "moments identical"),
    )
    note = (
        f"{index.ms:.2f} ms, in a transaction of its own {alone.ms:.2f} ms, whole search {search.ms:.1f} ms, "
        f"brute force {brute.ms:.0f} ms"
    )
    return [Mark(f"live relevance top-10 of {count(FADING_ROWS)}", checks, note)]


async def _most_relevant(tx: Transaction, moment: datetime) -> list[UUID]:
    return [row["id"] for row in await listing.most_relevant(tx, now=moment, limit=10, offset=0)]


async def _most_relevant_alone(namespace: MemoryManager, moment: datetime) -> list[UUID]:
    async with namespace.store.transaction() as tx:
        return await _most_relevant(tx, moment)


async def _most_relevant_by_brute_force(tx: Transaction, moment: datetime) -> list[UUID]:
    return [row["id"] for row in await tx.rows(BRUTE_FORCE, {"moment": moment})]


async def _fade(lab: Lab, rows: int) -> None:
    """Add memories that are hardly more than their relevance, a thousand of them strengthened by use."""
    namespace = await lab.namespace(FADING)
    task = lab.progress.add_task(f"storing {rows:,} fading memories", total=rows)
    for first in range(0, rows, 20_000):
        async with namespace.store.transaction() as tx:
            await tx.run(FADE, {"first": first + 1, "last": min(first + 20_000, rows)})
        lab.progress.advance(task, 20_000)
    async with namespace.store.transaction() as tx:
        used = await tx.rows("SELECT id FROM memories WHERE namespace_id = %(namespace_id)s ORDER BY id LIMIT 1000")
        await tx.run(s.REINFORCE, {"ids": [row["id"] for row in used], "weight": 0.1})
    await lab.settle()


BARE = """
INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
SELECT %(namespace_id)s, gen_random_uuid(), 'semantic', 'm' || i, sha256(i::text::bytea), now()
FROM generate_series(%(first)s::integer, %(last)s::integer) AS i RETURNING id
"""
FADE = f"""
WITH fresh AS ({BARE}), rates AS (SELECT array_agg(rate_per_day) AS rates FROM decay_classes)
INSERT INTO memory_activation (namespace_id, memory_id, importance, rate_per_day, started_at)
SELECT %(namespace_id)s, id, random(), rates[1 + floor(random() * cardinality(rates))::integer],
  now() - random() * interval '1000 days' FROM fresh, rates
"""
BRUTE_FORCE = f"""
WITH best AS MATERIALIZED (
  SELECT memory_id, relevance_anchor - rate_per_day * (extract(epoch FROM %(moment)s::timestamptz)::double precision / 86400 - 20000) AS line
  FROM memory_activation WHERE namespace_id = %(namespace_id)s ORDER BY line DESC, memory_id LIMIT 10
)
SELECT {HIT_COLUMNS} FROM best
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = best.memory_id {WITH_ACTIVATION}
ORDER BY best.line DESC, m.id
"""


async def growth(lab: Lab) -> list[Mark]:
    """An index after tenfold growth and after a change of subject, once its keeper has looked, against a fresh one."""
    tenth = max(6_000, lab.rows // 20)
    async with (await lab.namespace(GROWN)).store.transaction() as tx:
        ids = [row["id"] for row in await tx.rows(BARE, {"first": 1, "last": 10 * tenth})]
    old, new = lab.source, Synthetic(seed=8)  # another seed, other subjects
    half = 5 * tenth
    changed = int(half * GROWTH * 0.95)  # less than what is rebuilt for its growth alone
    return [
        await _grown(lab, "tenfold growth", ids, tenth, [(old, tenth), (old, 9 * tenth)]),
        await _grown(lab, "change of subject", ids, half, [(old, half), (new, changed - half)]),
    ]


async def _grown(lab: Lab, title: str, ids: list[UUID], first: int, parts: list[tuple[Synthetic, int]]) -> Mark:
    model, placed = await lab.model(title), 0
    questions: list[Vector] = []
    for source, rows in parts:
        await _add_vectors(lab, title, model, ids[placed : placed + rows], source)
        placed += rows
        if placed == first:
            await looked_after(lab, model, placed)
        questions += [*source.vectors(RECALL_QUESTIONS // len(parts))]
    exact = await race(lab, f"{title}: exact", {"": lambda v: lab.nearest(GROWN, model, v, exact=True)}, questions)
    found = {}
    for state in ("stale", "kept", "fresh"):
        if state == "fresh":
            await lab.login.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(index_name(model))))
        if state != "stale":
            await looked_after(lab, model, placed)
        run = await race(lab, f"{title}: {state}", {"": lambda v: lab.nearest(GROWN, model, v)}, questions)
        found[state] = recall(run[""], exact[""])
    note = f"recall@10 {found['stale']:.3f} before the keeper looked, {found['kept']:.3f} after, fresh {found['fresh']:.3f}"
    return Mark(f"recall after {title}", (at_least(0.98, found["kept"] / found["fresh"], "of a fresh index"),), note)


async def looked_after(lab: Lab, model: int, rows: int) -> None:
    """Have the keeper look at an index of `rows` vectors; again while another keeper is at work, as only one may be."""
    given = {"name": index_name(model), "model_id": model}
    while True:
        await maintain(lab.settings.database_url, model, DIMENSIONS)
        there, checked = await (await lab.login.execute(LOOKED_AFTER, given)).fetchone() or (False, None)
        if there and rows < LOOK_AGAIN_GROWTH * (checked or 0):
            return
        await asyncio.sleep(0.2)


LOOKED_AFTER = "SELECT to_regclass(%(name)s) IS NOT NULL, rows_at_check FROM embedding_models WHERE id = %(model_id)s"


async def _add_vectors(lab: Lab, title: str, model: int, ids: list[UUID], source: Synthetic) -> None:
    namespace = await lab.namespace(GROWN)
    task = lab.progress.add_task(f"{title}: {len(ids):,} vectors", total=len(ids))
    for start in range(0, len(ids), 2_000):
        some = ids[start : start + 2_000]
        made = zip(some, map(Passage, [[vector] for vector in source.vectors(len(some))]), strict=True)
        async with namespace.store.transaction() as tx:
            await tx.run(reembedding.ADD, {"model_id": model, **vectors_of(made)})
        lab.progress.advance(task, len(some))


async def stdio(lab: Lab) -> list[Mark]:
    """A search and a store as an assistant makes them, through the pipes of a server process."""
    await lab.fill(MAIN, AT_FIRST)
    with Peer([sys.executable, "-c", REFERENCE], modern=False) as trivial, Peer(SERVER, modern=False) as server:
        trivial.hello()
        server.hello()
        return [await _stdio_search(lab, trivial, server), await _stdio_create(lab, server)]


async def _stdio_search(lab: Lab, trivial: Peer, server: Peer) -> Mark:
    cases = []
    for number, one in enumerate(lab.source.vectors(2 * CALLS)):
        question = Question(query=f"{lab.source.question(WORDS['medium'])} {number}")
        cases.append((question, one, await lab.asked(MAIN, question)))

    async def call(case: tuple[Question, Vector, Asked]) -> None:
        answered(server, "search_memories", {"query": case[0].query})

    async def nothing(_: object) -> None:
        answered(trivial, "keep", TEN_NOTES)

    ms, times, in_rounds = await against_parts(
        lab, "search",
        {
            "trivial": nothing,
            "statement": lambda c: lab.ranked(MAIN, c[2], c[0], c[1]),
            "embedding": lambda c: lab.embedder.query(c[0].query),
            "search": call,
        },
        cases,
        lambda ms: 2 * ms["trivial"] + 1.2 * ms["statement"] + ms["embedding"],
    )  # fmt: skip
    note = (
        f"{ms['search']:.1f} ms; trivial call {ms['trivial']:.1f}, SQL {ms['statement']:.1f}, "
        f"embedding {ms['embedding']:.1f} ms; {in_rounds:.2f} with each part ten times in a row"
    )
    unit = "× (2 calls + 1.2 SQL + embedding)"
    return Mark(f"search through stdio at {count(AT_FIRST)}", (at_most(1, times, unit),), note)


async def _stdio_create(lab: Lab, server: Peer) -> Mark:
    model = await lab.model()
    cases = [(lab.source.text(), one) for one in lab.source.vectors(2 * CALLS)]

    async def call(case: tuple[str, Vector]) -> None:
        answered(server, "create_memory", {"content": case[0], "kind": "fact"})

    async with one_row_inserts(lab) as insert:
        ms, times, in_rounds = await against_parts(
            lab, "create",
            {
                "embedding": lambda c: lab.embedder.passages([c[0]]),
                "vectors": lambda c: lab.nearest(MAIN, model, c[1]),
                "insert": insert,
                "create": call,
            },
            cases,
            lambda ms: ms["embedding"] + ms["vectors"] + 8 * ms["insert"],
        )  # fmt: skip
    note = (
        f"{ms['create']:.1f} ms; embedding {ms['embedding']:.1f}, vectors {ms['vectors']:.1f}, "
        f"one-row insert {ms['insert']:.2f} ms; {in_rounds:.2f} with each part ten times in a row"
    )
    unit = "× (embedding + vectors + 8 inserts)"
    return Mark("create through stdio", (at_most(1, times, unit),), note)


@asynccontextmanager
async def one_row_inserts(lab: Lab) -> AsyncIterator[Callable[[tuple[str, Vector]], Awaitable[Any]]]:
    """Yield the least that a durable write does: one row into a bare table, and the wait for the disk."""
    await lab.login.execute("CREATE TABLE bare (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), content text NOT NULL)")
    yield lambda case: lab.login.execute("INSERT INTO bare (content) VALUES (%s)", [case[0]], prepare=True)
    await lab.login.execute("DROP TABLE bare")


def answered(peer: Peer, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = peer.ask("tools/call", {"name": tool, "arguments": arguments})
    if answer.get("isError"):
        raise RuntimeError(answer["content"])
    return answer


async def cpu(lab: Lab) -> list[Mark]:
    """Processor time of client, server and PostgreSQL together, in multiples of what embedding the same texts takes."""
    await lab.fill(MAIN, AT_FIRST)
    postmaster = await _postmaster(lab)
    if postmaster is None:
        lab.progress.console.print("cpu: not measured, PostgreSQL runs on another machine or shows no /proc")
        return []
    stores = [lab.source.text() for _ in range(CALLS)]
    searches = [f"{lab.source.question(WORDS['medium'])} {n}" for n in range(2 * CALLS)]
    with Peer(SERVER, modern=False) as server:
        server.hello()
        answered(server, "search_memories", {"query": "warm"})

        def store(text: str) -> None:
            answered(server, "create_memory", {"content": text, "kind": "fact"})

        def search(text: str) -> None:
            answered(server, "search_memories", {"query": text})

        return [
            await _cpu(lab, "CPU per store", 2.5, stores, store, server, postmaster),
            await _cpu(lab, "CPU per search", 7.5, searches, search, server, postmaster),
        ]


async def _cpu(
    lab: Lab, title: str, limit: float, texts: list[str], call: Callable[[str], None], server: Peer, postmaster: int
) -> Mark:
    def now() -> dict[str, float]:
        return {
            "client": time.process_time(),
            "server": cpu_s(server.process.pid),
            "PostgreSQL": cpu_s(postmaster, dead_children=True) + sum(map(cpu_s, children(postmaster))),
        }

    task = lab.progress.add_task(title, total=len(texts))
    before = now()
    for text in texts:
        call(text)
        lab.progress.advance(task)
    ms = {name: (after - before[name]) / len(texts) * 1e3 for name, after in now().items()}
    await lab.embedder.query("warm")
    before_s = time.process_time()
    for text in texts:
        await lab.embedder.query(text)
    embedding = (time.process_time() - before_s) / len(texts) * 1e3
    note = ", ".join(f"{name} {share:.1f}" for name, share in ms.items())
    note = f"{sum(ms.values()):.1f} ms ({note}); one embedding {embedding:.1f} ms"
    return Mark(title, (at_most(limit, sum(ms.values()) / embedding, "× one embedding"),), note)


async def _postmaster(lab: Lab) -> int | None:
    pid = (await (await lab.login.execute("SELECT pg_backend_pid()")).fetchone() or (0,))[0]
    return parent_of_postgres(pid)


def parent_of_postgres(pid: int) -> int | None:
    """Return the postmaster of a backend, None where the backend cannot be seen from here."""
    name = Path(f"/proc/{pid}/comm")
    return int(stat(pid)[1]) if name.exists() and name.read_text().startswith("postgres") else None


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_s(pid: int, *, dead_children: bool = False) -> float:
    """Return processor seconds that a process has used, on request with those of its ended children."""
    return sum(map(int, stat(pid)[11 : 15 if dead_children else 13])) / TICKS


def children(pid: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int(stat(int(folder.name))[1]) == pid:
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


async def memory(lab: Lab) -> list[Mark]:
    """Resident memory of the server process, from before its first embedding until it has let its model go."""
    if not HAS_PROC:
        lab.progress.console.print("memory: not measured, this system shows no /proc")
        return []
    await lab.fill(MAIN, AT_FIRST)
    with Peer(IMPATIENT_SERVER, modern=False) as server:
        server.hello()
        server.ask("tools/list")
        answered(server, "search_memories", {"query": ""})
        before = resident_mb(server, "VmRSS")
        for number in range(5):
            items = [{"content": f"{number}: {text}", "kind": "fact"} for text in LONG]
            answered(server, "create_memories", {"items": items})
        after, peak = resident_mb(server, "VmRSS"), resident_mb(server, "VmHWM")
        await asyncio.sleep(2 * IDLE_S)
        idle = resident_mb(server, "VmRSS")
    return [
        Mark("memory before embedding", (at_most(85, before, "MB"),), "a list was asked for"),
        Mark("memory with the model", (at_most(250, peak, "MB"),), f"highest; {after:.0f} MB after 5 × 32 long texts"),
        Mark("memory when idle again", (at_most(160, idle, "MB"),), f"the model was let go after {IDLE_S:.0f} s here"),
    ]


def resident_mb(peer: Peer, what: str) -> float:
    """Return VmRSS (now) or VmHWM (highest) of a server, in MB of a million bytes."""
    status = Path(f"/proc/{peer.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{what}:")) * 1024 / 1e6


async def embedding_import(lab: Lab) -> list[Mark]:
    """An import that embeds, against the embedder alone; like the one of given vectors it looks for no near duplicates."""
    namespace = await lab.namespace(EMBEDDED)
    batches = [[lab.source.text() for _ in range(2 * BATCH)] for _ in range(8)]

    async def store(texts: list[str]) -> None:
        items = [{"content": text, "kind": "fact", "dedup_policy": "insert"} for text in texts[:BATCH]]
        await namespace.create_memories(items)

    found = await race(
        lab, "import with embedding",
        {"embedder": lambda texts: lab.embedder.passages(texts[BATCH:]), "import": store}, batches,
    )  # fmt: skip
    alone, ours = (BATCH / found[name].ms * 1e3 for name in ("embedder", "import"))
    note = f"{ours:.0f} rows/s, embedder alone {alone:.0f} texts/s"
    return [Mark("import with embedding", (at_least(0.9, ours / alone, "of the embedder alone"),), note)]


async def given_import(lab: Lab) -> list[Mark]:
    """The import that filled the store, words and history included, against copying the bare rows."""
    await lab.fill(MAIN, lab.rows)
    ours, copied = lab.imported / lab.import_s, await _copied_per_s(lab, AT_FIRST)
    note = f"over {lab.imported:,} rows; COPY of the bare rows {copied:,.0f} rows/s, {copied / ours:.1f} ×"
    return [Mark("import with vectors given", (at_least(3_000, ours, "rows/s"),), note)]


async def _copied_per_s(lab: Lab, rows: int) -> float:
    """Return how many rows of text and vector PostgreSQL takes in without anything around them."""
    bare = [(lab.source.text(), halfvec(vector)) for vector in lab.source.vectors(rows)]
    await lab.login.execute("CREATE TABLE bare (content text NOT NULL, embedding halfvec NOT NULL)")
    begun = time.perf_counter()
    async with lab.login.cursor() as cursor, cursor.copy("COPY bare FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["text", "halfvec"])
        for row in bare:
            await copy.write_row(row)
    took = time.perf_counter() - begun
    await lab.login.execute("DROP TABLE bare")
    return rows / took


async def disk_at_first(lab: Lab) -> list[Mark]:
    """Disk while the store is small."""
    await lab.fill(MAIN, AT_FIRST)
    return [await _disk(lab)]


async def disk(lab: Lab) -> list[Mark]:
    """Disk when the store is full."""
    await lab.fill(MAIN, lab.rows)
    return [await _disk(lab)]


async def _disk(lab: Lab) -> Mark:
    """Everything in the schema, its indexes included, without the bytes of the contents, by memory."""
    memories = text_bytes = 0
    for namespace in lab.namespaces.values():
        async with namespace.store.transaction() as tx:
            row = await tx.row(COUNT_TEXT) or {}
        memories += row["memories"]
        text_bytes += row["bytes"]
    sizes = {name: size for name, size in await (await lab.login.execute(SIZES)).fetchall() if size >= memories}
    kb = (sum(sizes.values()) - text_bytes) / memories / 1e3
    note = ", ".join(f"{name} {size / memories:,.0f}" for name, size in list(sizes.items())[:6]) + " bytes each"
    return Mark(f"disk per memory at {count(memories)}", (at_most(4.5, kb, "kB"),), note)


COUNT_TEXT = """
SELECT count(*) AS memories, coalesce(sum(octet_length(content)), 0)::bigint AS bytes
FROM memories WHERE namespace_id = %(namespace_id)s
"""
SIZES = """
SELECT c.relname, pg_total_relation_size(c.oid) FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 2 DESC
"""


def count(number: int) -> str:
    return f"{number / 1e3:.0f} k" if number >= 1_000 else str(number)


# The order matters: what is measured through the protocol comes before the store is filled up.
MEASURES: list[tuple[str, Callable[[Lab], Awaitable[list[Mark]]]]] = [
    ("disk", disk_at_first),
    ("stdio", stdio),
    ("cpu", cpu),
    ("memory", memory),
    ("import", embedding_import),
    ("import", given_import),
    ("disk", disk),
    ("vector", vector),
    ("fused", fused),
    ("scope", scope),
    ("growth", growth),
    ("relevance", relevance),
]


# ------------------------------------------------------------------------------------------------------------ the run


@contextmanager
def database() -> Iterator[Settings]:
    """Yield the settings of an empty database that is gone afterwards."""
    settings = Settings.from_environment()
    if settings.database_url:
        name = sql.Identifier(f"pgengram_benchmark_{os.getpid()}")
        with psycopg.connect(settings.database_url, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
            try:
                url = make_conninfo(settings.database_url, dbname=f"pgengram_benchmark_{os.getpid()}")
                yield replace(settings, database_url=url, namespace=MAIN, embedder="builtin:")
            finally:
                connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        return
    with tempfile.TemporaryDirectory(prefix="pgengram-performance-", ignore_cleanup_errors=True) as folder:
        server = start_embedded(Path(folder) / "data")
        try:
            yield replace(settings, database_url=server.url, namespace=MAIN, embedder="builtin:")
        finally:
            server.stop()


async def measure(settings: Settings, rows: int, only: Sequence[str], progress: Progress) -> list[Mark]:
    """Run the chosen measures and return their marks."""
    os.environ.update(settings.variables)  # the servers we start find the same database
    found: list[Mark] = []
    async with AsyncExitStack() as closing:
        first = MemoryManager(settings)
        await first.open()  # migrates
        await first.close()
        login = await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True)
        await closing.enter_async_context(login)
        await _register_vectors(login)
        lab = Lab(settings, rows, progress, login, closing)
        closing.push_async_callback(lab.embedder.close)
        for name, work in MEASURES:
            if not only or name in only:
                for mark in await work(lab):
                    found.append(mark)
                    progress.console.print(f"{mark.name}: {mark.measured} ({mark.note})", highlight=False)
    return found


async def _register_vectors(connection: psycopg.AsyncConnection[Any]) -> None:
    from pgvector.psycopg import register_vector_async

    await register_vector_async(connection)


def table(marks: Sequence[Mark], title: str) -> Table:
    made = Table("what", "reach", "measured", "of the limit", title=title, highlight=False)
    for mark in marks:
        colour = "green" if mark.share <= 1 else "red"
        made.add_row(mark.name, mark.reach, mark.measured, f"[{colour}]{mark.share:.0%}[/]")
    return made


def report(marks: Sequence[Mark], rows: int) -> dict[str, Any]:
    """Return the run as JSON has it."""
    return {
        "rows": rows,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code_hash(),
        "marks": [
            {
                "what": mark.name, "reached": mark.share <= 1, "share_of_limit": round(mark.share, 4), "note": mark.note,
                "checks": [
                    {"what": c.what, "figure": c.figure, "limit": c.limit, "at_most": c.at_most} for c in mark.checks
                ],
            }
            for mark in marks
        ],
    }  # fmt: skip


def code_hash() -> str:
    """Return a short hash of the package's own code, so that figures can be told apart."""
    digest = hashlib.sha256()
    for path in sorted(Path(ranking.__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = list(dict.fromkeys(name for name, _ in MEASURES))
    parser.add_argument("--rows", type=int, default=100_000, help="memories in the store, at least 20,000")
    parser.add_argument("--only", nargs="+", choices=names, default=[], metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--svg", type=Path, help="draw them here")
    chosen = parser.parse_args()
    with Progress() as progress, database() as settings:
        marks = asyncio.run(measure(settings, chosen.rows, chosen.only, progress))
    title = f"{chosen.rows:,} memories, {os.cpu_count()} cores, Python {platform.python_version()}"
    Console().print(table(marks, title))
    if chosen.json:
        chosen.json.write_text(json.dumps(report(marks, chosen.rows), indent=1) + "\n", encoding="utf-8")
    if chosen.svg:
        drawn = bars(
            f"What it costs, as a share of what is allowed · {title}", [Bar(m.name, m.share, m.measured) for m in marks]
        )
        chosen.svg.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
