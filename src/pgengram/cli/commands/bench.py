"""`pgengram bench`: how fast this store is on this machine, beside floors that the same run measures."""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle, islice
from statistics import median, quantiles
from typing import Annotated, Any, Final, TypeVar

import typer

from pgengram import __version__
from pgengram.cli.options import AsJson
from pgengram.cli.output import plain_table
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import command, opened_manager, print_json, say, screen
from pgengram.demo import load_corpus
from pgengram.inputs import NewMemory, Question
from pgengram.search import listing
from pgengram.search.results import Cursor
from pgengram.service.manager import MemoryManager
from pgengram.store.connection.pool import vectors_parameter
from pgengram.store.maintenance import findings, namespaces

ROUND: Final = 10  # cases that a contestant takes before the next one's turn
WARM_UP: Final = 5  # calls whose time is not counted: statements are being planned
WORDS: Final = 6  # of a memory, that make a question
SCRATCH: Final = (
    "pgengram-bench-"  # begins the name of the namespace that what is stored here belongs to, until the end
)
# A commit that waits for the disk and leaves nothing: a message in the write-ahead log that nobody reads.
COMMIT: Final = "SELECT pg_logical_emit_message(true, 'pgengram bench', '')"
_NOTHING: Final = "an empty transaction"
_WITHOUT: Final = ", because there is no embedder"

Case = TypeVar("Case")


@dataclass(frozen=True, slots=True)
class Race:
    """What one contestant took for its cases, without the first ones, in milliseconds; and its answers."""

    all_ms: list[float]
    answers: list[Any]

    @property
    def ms(self) -> float:
        """The median."""
        return median(self.all_ms)

    def percentile(self, percent: int) -> float:
        """Return the time that `percent` of the calls do not exceed, 1 to 99."""
        return quantiles(self.all_ms, n=100, method="inclusive")[percent - 1] if len(self.all_ms) > 1 else self.ms


async def race(
    runs: Mapping[str, Callable[[Case], Awaitable[Any]]],
    cases: Sequence[Case],
    progress: Callable[[int, int], None],
    *,
    at_once: int = ROUND,
) -> dict[str, Race]:
    """Let all contestants take some cases, then the next ones, so that a busy minute of the machine hits them alike.

    In rounds, not case by case: a scan of everything empties the caches, and whoever came after it would pay for it.
    One case
    `at_once` is for contestants that are the parts of another: there, too, each finds the caches as the one before left
    them.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    answers: dict[str, list[Any]] = {name: [] for name in runs}
    for start in range(0, len(cases), at_once):
        some = cases[start : start + at_once]
        for name, run in runs.items():
            for case in some:
                begun = time.perf_counter()
                answers[name].append(await run(case))
                times[name].append((time.perf_counter() - begun) * 1e3)
        progress(start + len(some), len(cases))
    return {name: Race(times[name][min(WARM_UP, len(cases) // 2) :], answers[name]) for name in runs}


@dataclass(frozen=True, slots=True)
class Mark:
    """One row of the table: a contestant, and the floor beside it if there is one, in words and in milliseconds."""

    what: str
    race: Race
    floor: str = ""
    floor_ms: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        percentiles = {f"p{percent}_ms": round(self.race.percentile(percent), 3) for percent in (50, 95, 99)}
        if self.floor_ms is None:
            return {"what": self.what, **percentiles}
        floor = {"floor": self.floor, "floor_ms": round(self.floor_ms, 3)}
        return {"what": self.what, **percentiles, **floor, "times_floor": round(self.race.ms / self.floor_ms, 2)}


@command
async def bench(
    calls: Annotated[int, typer.Option(help="How often to measure each operation.", min=10, max=10_000)] = 100,
    as_json: AsJson = False,
) -> None:
    """Shows each time next to the best that this machine can do. Changes nothing.

    Examples: `pgengram bench`, `pgengram bench --calls 500 --json`
    """
    async with opened_manager() as manager:
        with ProgressBar("Starting") as progress:
            await manager.current_model()
            marks = await _searching(manager, await _question_texts(manager, calls), calls, progress)
            async with _scratch(manager) as scratch:
                marks += await _storing(scratch, calls, progress)
            report = await _report(manager, calls, marks)
    if as_json:
        print_json(report)
    else:
        _print_report(report)


async def _question_texts(manager: MemoryManager, calls: int) -> list[str]:
    """Return what questions are made from: the newest memories, or the demo's where nothing is remembered."""
    newest = await manager.search(Question(limit=min(calls, 100)), Cursor(datetime.now(UTC)))
    return [hit.content for hit in newest.found] or _demo()


def _demo() -> list[str]:
    return [memory.content for memory in load_corpus().memories]


def _questions(texts: Sequence[str], calls: int) -> list[str]:
    """Return as many questions as calls, each unlike all others, as what was embedded before is not embedded again."""
    return [
        f"{' '.join(text.split()[:WORDS])[:200]} {number}" for number, text in enumerate(islice(cycle(texts), calls))
    ]


async def _searching(manager: MemoryManager, texts: list[str], calls: int, progress: ProgressBar) -> list[Mark]:
    """Race whole searches, which count no memory as shown, against the parts that none can do without."""
    progress.step("Searching")
    model, questions = await manager.current_model(), _questions(texts, calls)

    async def search(question: str) -> None:
        await manager.search(Question(query=question), Cursor(datetime.now(UTC)))

    async def words(question: str) -> None:
        await manager.search(Question(query=question, mode="text"), Cursor(datetime.now(UTC)))

    async def newest(_: str) -> None:
        await manager.search(Question(), Cursor(datetime.now(UTC)))

    async def nothing(_: str) -> None:
        async with manager.store.transaction() as tx:
            await tx.row("SELECT 1")

    runs = {"nothing": nothing, "words": words, "newest": newest, "search": search}
    if model is None or manager.embedder is None:
        found = await race(runs, questions, progress)
        return [
            Mark(f"search by words{_WITHOUT}", found["search"], _NOTHING, found["nothing"].ms),
            Mark("list the newest", found["newest"], _NOTHING, found["nothing"].ms),
        ]
    embedder = manager.embedder
    vector = vectors_parameter([await embedder.query(questions[0])])[0]

    async def embed(question: str) -> None:
        await embedder.query(f"{question} alone")

    async def vectors(_: str) -> None:
        async with manager.store.transaction() as tx:
            await listing.vectors_alone(tx, model, vector, exact=False)

    found = await race({**runs, "embed": embed, "vectors": vectors}, questions, progress)
    floor_ms = found["embed"].ms + found["vectors"].ms
    return [
        Mark("search", found["search"], "embed the question + nearest vectors alone", floor_ms),
        Mark("search by words", found["words"], _NOTHING, found["nothing"].ms),
        Mark("list the newest", found["newest"], _NOTHING, found["nothing"].ms),
        Mark("embed a question", found["embed"]),
    ]


async def _storing(scratch: MemoryManager, calls: int, progress: ProgressBar) -> list[Mark]:
    """Race whole creates against embedding the text and one commit that waits for the disk."""
    progress.step("Storing")
    texts = [f"{text} ({number})" for number, text in enumerate(islice(cycle(_demo()), calls))]

    async def create(text: str) -> None:
        await scratch.create_memory(NewMemory(content=text))

    async def commit(_: str) -> None:
        async with scratch.store.transaction() as tx:
            await tx.rows(COMMIT)

    async def embed(text: str) -> None:
        if scratch.embedder is not None:
            await scratch.embedder.passages([f"{text} alone"])

    found = await race({"commit": commit, "embed": embed, "create": create}, texts, progress)
    floor = "one durable commit" if scratch.embedder is None else "embed the text + one durable commit"
    return [Mark("create", found["create"], floor, found["commit"].ms + found["embed"].ms)]


@asynccontextmanager
async def _scratch(manager: MemoryManager) -> AsyncIterator[MemoryManager]:
    """Yield a manager of a new namespace beside the one that is measured, and erase it afterwards."""
    name = SCRATCH + secrets.token_hex(4)
    scratch = MemoryManager(replace(manager.settings, namespace=name), manager)
    try:
        yield scratch
    finally:
        await scratch.close()
        await namespaces.take_away_namespace(manager.store.database, name)


async def _report(manager: MemoryManager, calls: int, marks: Sequence[Mark]) -> dict[str, Any]:
    async with manager.store.transaction() as tx:
        counted = await findings.count_memories(tx, projects=None, tags=0)
    return {
        "pgengram": __version__,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "database": await manager.store.database.describe(),
        "embedder": None if manager.embedder is None else manager.embedder.name,
        "namespace": manager.settings.namespace,
        "memories": counted.sums["active"],
        "index": await manager.index_state(),
        "calls": calls,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "marks": [mark.as_dict() for mark in marks],
    }


def _print_report(report: Mapping[str, Any]) -> None:
    title = f"{report['memories']:,} memories in the namespace {report['namespace']}, {report['calls']} calls, in ms"
    table = plain_table(title, "what")
    for name in ("median", "95%", "99%", "floor", "× floor"):
        table.add_column(name, justify="right")
    table.add_column("the floor is")
    for mark in report["marks"]:
        times = (f"{mark[f'p{percent}_ms']:.1f}" for percent in (50, 95, 99))
        floor = (
            (f"{mark['floor_ms']:.1f}", f"{mark['times_floor']:.1f}", mark["floor"]) if "floor" in mark else ("–",) * 3
        )
        table.add_row(mark["what"], *times, *floor)
    screen.print(table)
    say(f"{report['database']}; {report['embedder'] or 'no embedder'}; {report['index']}")
    say("The memories stored for this were in a separate namespace and have been erased.")
