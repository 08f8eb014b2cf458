"""The same material for other memory servers: python benchmarks/compare.py [--only NAME …] [--rows ROW …] [--lend-model [FOLDER]] [--json PATH].

Each server is installed from its registry into a folder of its own, and started as a client starts it, over stdin and stdout, with its
default settings in an empty home. It is given the 115 memories of `pgengram demo` one by one and asked the 26 questions, which hardly
share a word with the memory that answers them. Then it is asked for what it was told, started again, used by eight clients at once, and
killed a few times while it stores. --larger fills it with more and asks again, which can take hours; --homes keeps what was filled, so that
it can be filled at any time, in several calls, and asked on a quiet machine. --rows chooses among all this. --runs repeats it, the servers
taking turns, and the table shows the median with the least and the most. A row that fails says so, and the others go on. With --locomo FILE it gets the turns
and questions of conversations in that file instead. Nothing is tuned, no language model helps any of them, and the corpus is ours: the
table shows how each behaves, and is no score.

Needs /proc, for processor time and memory; node and npm for server-memory; for basic-memory a Python of 3.12 or newer. The SQLite of
the Python that runs the last two must be allowed to load extensions. Both fetch an embedding model when first used; --lend-model puts
pgengram's copy of all-MiniLM-L6-v2 where they look for theirs, for a machine without the net, or the one in a folder: theirs has weights of
32 bits, which packaging/models/all_minilm_l6_v2.py writes with --in-full.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from corpus import worlds
from mcp import Client
from peers import MODEL, MORE, SERVERS, Failed, Server
from rich.console import Console
from rich.table import Table

from pgengram.demo import load_corpus

FIRST = 3
SETTLE_S, PATIENCE_S = 5, 120  # after the last store, until it is idle: an index may be filled behind the answer
STARTS = 3
KILLS = 5
BEFORE_A_KILL = 20  # memories that are acknowledged before the moment is drawn
FEW_CLIENTS, CLIENTS, CALLS_EACH = 4, 8, 50
FILLED_AT_ONCE = 1_000  # memories, after which their number is noted
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

Result = dict[str, Any]

AWKWARD = (
    "  Spaces before and after  ",
    "Lines\n\n    indented\n\twith a tab\n",
    "Windows\r\nlines",
    "---\ntitle: Not a title\n---\nText under a front matter",
    "- [fact] Something #tag\n- links to [[Another note]]",
    "Ame\u0301lie, Am\u00e9lie, 👩‍👩‍👧, zero\u200bwidth, 日本語, עברית",
    '<b>&amp;</b> {"a": "\\\\n"} \'quoted\' %s $1 `code`',
    "Nine thousand letters: " + "pen and ink " * 750,
)


# -- what processes cost -----------------------------------------------------------------------------------------------


def processes(home: Path) -> Iterator[Path]:
    """Yield the /proc folders of the processes that work in a home: a server, what it started, and a database it brought along."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            inside = (folder / "cwd").readlink().is_relative_to(home)
        except OSError:  # it ended meanwhile, or is not ours
            continue
        if inside:
            yield folder


def read_of(folder: Path, name: str) -> str:
    """Return a file of a process, empty where it ended meanwhile."""
    try:
        return (folder / name).read_text()
    except OSError:
        return ""


def cpu_s(home: Path) -> float:
    """Return the processor time that they and their ended children used, in seconds."""
    fields = [read_of(folder, "stat").rpartition(")")[2].split() for folder in processes(home)]
    return sum(int(value) for one in fields for value in one[11:15]) * TICK_S


def memory_mb(home: Path) -> float:
    """Return what they hold in memory, pages that several share counted once."""
    shares = [re.search(r"^Pss:\s+(\d+) kB", read_of(one, "smaps_rollup"), re.MULTILINE) for one in processes(home)]
    return sum(int(share[1]) for share in shares if share) * 1024 / 1e6


def disk_mb(home: Path) -> float:
    """Return what a home takes on the disk, without lent or fetched models."""
    files = [path for path in home.rglob("*") if not {".cache", "fastembed_cache"} & set(path.parts)]
    return sum(path.lstat().st_blocks * 512 for path in files) / 1e6


def kill(home: Path) -> None:
    """End every process of a home without warning: the server, and the database that it brought along."""
    while found := [int(folder.name) for folder in processes(home)]:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # ended with the one before it
        time.sleep(0.05)


# -- what is measured --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Material:
    """Texts by key, and questions with the keys that answer them."""

    texts: dict[str, str]
    questions: list[tuple[str, set[str]]]


def demo() -> Material:
    corpus = load_corpus()
    return Material(
        {memory.key: memory.content for memory in corpus.memories},
        [(question.question, {question.expects}) for question in corpus.questions],
    )


def conversations(file: Path, most: int) -> list[Material]:
    """Return the first conversations of a LoCoMo file: speaker and date in each text, questions of categories 1 to 4."""
    found = []
    for world in [*worlds(file)][:most]:
        steps = [step for session in world.sessions for step in session.steps]
        texts = {one.key: f"{one.arguments['content']} ({one.arguments['occurred_at'][:10]})" for one in steps}
        asked = [(query.text, set(query.wanted)) for query in world.queries if query.wanted]
        found.append(Material(texts, asked))
    return found


def found_share(material: Material, answers: list[list[str]], most: int) -> int:
    """Return how many questions have a text that answers them among the first `most`."""
    wanted = [{material.texts[key] for key in keys} for _, keys in material.questions]
    return sum(bool(its & set(answer[:most])) for its, answer in zip(wanted, answers, strict=True))


async def settled(home: Path) -> None:
    """Wait until a server uses next to no processor time any more."""
    for _ in range(PATIENCE_S // SETTLE_S):
        before = cpu_s(home)
        await asyncio.sleep(SETTLE_S)
        if cpu_s(home) - before < SETTLE_S / 100:
            return


async def timed(calls: list[Any], home: Path) -> tuple[list[Any], float, float]:
    """Await calls one after the other; return the answers, the median in ms, and the processor time of one, what follows included."""
    answers, took, before = [], [], cpu_s(home)
    for call in calls:
        begun = time.perf_counter()
        answers.append(await call)
        took.append((time.perf_counter() - begun) * 1e3)
    await settled(home)
    return answers, median(took), (cpu_s(home) - before) / len(calls) * 1e3


async def filled(server: Server, client: Client, material: Material) -> dict[str, Any]:
    """Store the material, ask for it, and return what was found and what it took."""
    stores = [server.store(client, key, text) for key, text in material.texts.items()]
    _, store_ms, store_cpu_ms = await timed(stores, server.home)
    questions = [server.ask(client, question) for question, _ in material.questions]
    answers, ask_ms, ask_cpu_ms = await timed(questions, server.home)
    return {
        f"in the first {FIRST}": found_share(material, answers, FIRST),
        f"in the first {MORE}": found_share(material, answers, MORE),
        "questions": len(answers),
        "memories": len(material.texts),
        "ms to store one": round(store_ms, 1),
        "ms to ask": round(ask_ms, 1),
        "CPU ms to store one": round(store_cpu_ms, 1),
        "CPU ms to ask": round(ask_cpu_ms, 1),
    }


async def first_answer_s(server: Server) -> float:
    """Return the time from starting the process to the answer to a first question."""
    begun = time.perf_counter()
    async with server.started() as client:
        await server.ask(client, load_corpus().questions[0].question)
        return time.perf_counter() - begun


async def unchanged(server: Server, client: Client) -> int:
    """Return how many awkward texts are read again exactly as they were stored."""
    handles = [await server.store(client, f"awkward-{number}", text) for number, text in enumerate(AWKWARD)]
    return len(set(AWKWARD) & set(await server.read(client, handles)))


def note(number: int) -> str:
    return f"Note {number}: on day {number * 7 % 365} someone counted {number * 13 % 1000} of them."


async def store_on(server: Server, ledger: Path, start: int) -> None:
    """Store notes until killed; each that was acknowledged goes into the ledger first."""
    async with server.started() as client:
        with ledger.open("a", encoding="utf-8") as written:
            for number in count(start):
                handle = await server.store(client, f"note-{number}", note(number))
                written.write(json.dumps([number, handle]) + "\n")
                written.flush()


def store_until_killed(name: str, environments: Path, home: Path, model: Path | None, ledger: Path, start: int) -> None:
    with (home.parent / "log").open("a") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())  # it tells that its server was killed
    asyncio.run(store_on(SERVERS[name](environments, home, model=model), ledger, start))


async def lost(server: Server, ledger: Path) -> tuple[int, int]:
    """Kill the server while it stores, a few times; return how many were acknowledged, and how many of those are gone."""
    chance = random.Random(7)
    for turn in range(KILLS):
        start = (turn + 1) * 100_000  # above the numbers of the other rows' notes, which would be stored twice
        given = (server.name, server.environments, server.home, server.model, ledger, start)
        storing = multiprocessing.get_context("spawn").Process(target=store_until_killed, args=given)
        before = len(entries(ledger))
        storing.start()
        while len(entries(ledger)) < before + BEFORE_A_KILL:
            if not storing.is_alive():
                raise Failed("It did not store again after it was killed.")
            await asyncio.sleep(0.01)
        await asyncio.sleep(chance.random())
        kill(server.home)
        storing.kill()
        storing.join()
    acknowledged = entries(ledger)
    async with server.started() as client:
        there = set(await server.read(client, [handle for _, handle in acknowledged]))
    return len(acknowledged), sum(note(number) not in there for number, _ in acknowledged)


def entries(ledger: Path) -> list[tuple[int, str]]:
    """Return the numbers and handles that were acknowledged; a line that the kill cut off is none."""
    lines = ledger.read_text(encoding="utf-8").splitlines(keepends=True) if ledger.exists() else []
    return [tuple(json.loads(line)) for line in lines if line.endswith("\n")]


async def together(server: Server, given: argparse.Namespace) -> Result:
    """Have several clients, each with a process of its own, use one store; return what a few take of memory, and how fast many are."""
    del given
    questions = [question for question, _ in demo().questions]
    took: list[float] = []
    failed: list[str] = []
    held: list[float] = []  # MB with one client, two, three

    async def use(client: Client, number: int) -> None:
        for key in range(number * CALLS_EACH, (number + 1) * CALLS_EACH):
            for call in (
                server.store(client, f"note-{key}", note(key)),
                server.ask(client, questions[key % len(questions)]),
            ):
                begun = time.perf_counter()
                try:
                    await call
                except Failed as error:
                    failed.append(str(error))
                took.append((time.perf_counter() - begun) * 1e3)

    async with AsyncExitStack() as clients:
        there: list[Client] = []
        while len(there) < CLIENTS:
            there.append(await clients.enter_async_context(server.started()))
            await server.store(there[-1], f"guest-{len(there)}", f"Guest {len(there)} has arrived.")
            await server.ask(there[-1], questions[0])
            held.append(round(memory_mb(server.home), 1))
        begun, before = time.perf_counter(), cpu_s(server.home)
        await asyncio.gather(*(use(client, number) for number, client in enumerate(there)))
        seconds, busy_s = time.perf_counter() - begun, cpu_s(server.home) - before
    return {
        "MB of memory, 1 client": held[0],
        f"MB of memory, {FEW_CLIENTS} clients": held[FEW_CLIENTS - 1],
        f"calls a second, {CLIENTS} clients": round(len(took) / seconds),
        "ms of a call of theirs, 95 %": round(quantiles(took, n=20)[-1], 1),
        "CPU ms of a call of theirs": round(busy_s / len(took) * 1e3, 1),
        "calls of theirs that failed": len(failed),
    }


async def larger(server: Server, given: argparse.Namespace) -> Result:
    """Fill a server until it has so many memories, and return how long it takes to ask it then."""
    result: Result = {}
    for memories in given.larger:
        async with server.started() as client:
            await fill_up(server, client, memories)
            await settled(server.home)
            questions = [server.ask(client, question) for question, _ in demo().questions]
            _, ask_ms, ask_cpu_ms = await timed(questions, server.home)
        result |= {f"ms to ask among {memories:,}": round(ask_ms, 1)}
        result |= {f"CPU ms to ask among {memories:,}": round(ask_cpu_ms, 1)}
    return result


def ledger_of(server: Server) -> Path:
    """Return the file beside a home that says how many memories are in it; there is none beside an empty one."""
    return server.home.parent / "memories"


async def fill_up(server: Server, client: Client, memories: int) -> None:
    """Store notes until there are so many memories; a fill that was broken off goes on where it was noted last."""
    ledger = ledger_of(server)
    while (there := int(ledger.read_text())) < memories:
        until = min(memories, there + FILLED_AT_ONCE)
        await server.fill(client, [f"{note(number)} That was in room {number}." for number in range(there, until)])
        ledger.write_text(str(until))
    if there > memories:
        raise Failed(f"There are {there:,} memories already.")


async def first_start(server: Server, given: argparse.Namespace) -> Result:
    del given
    return {"s to the first answer, nothing stored": round(await first_answer_s(server), 2)}


async def alone(server: Server, given: argparse.Namespace) -> Result:
    del given
    async with server.started() as client:
        found = await filled(server, client, demo())
        ledger_of(server).write_text(str(len(demo().texts)))
        return found | {
            "MB of memory": round(memory_mb(server.home), 1),
            "MB on disk": round(disk_mb(server.home), 2),
        }


async def later_starts(server: Server, given: argparse.Namespace) -> Result:
    del given
    return {"s to the first answer": round(median([await first_answer_s(server) for _ in range(STARTS)]), 2)}


async def awkward(server: Server, given: argparse.Namespace) -> Result:
    del given
    async with server.started() as client:
        return {"awkward texts unchanged": f"{await unchanged(server, client)} of {len(AWKWARD)}"}


async def kills(server: Server, given: argparse.Namespace) -> Result:
    del given
    acknowledged, gone = await lost(server, server.home.parent / "ledger")
    return {f"lost in {KILLS} kills": f"{gone} of {acknowledged}"}


async def talks(server: Server, given: argparse.Namespace) -> Result:
    """Give each conversation of the file to a server of its own."""
    result: Result = {}
    for number, material in enumerate(conversations(given.locomo, given.conversations)):
        own = homed(server.name, given, server.home.parent / f"talk-{number}")
        async with own.started() as client:
            found = await filled(own, client, material)
        result |= {f"conversation {number + 1}, {measure}": value for measure, value in found.items()}
    return result


ROWS: dict[str, Callable[[Server, argparse.Namespace], Awaitable[Result]]] = {
    "first-start": first_start,
    "alone": alone,
    "later-starts": later_starts,
    "larger": larger,
    "together": together,
    "awkward": awkward,
    "kills": kills,
}


async def measured(name: str, given: argparse.Namespace) -> Result:
    """Put one server through the rows that are asked for, in a home of its own."""
    rows = {"talks": talks} if given.locomo else {row: ROWS[row] for row in ROWS if row in given.rows}
    with ExitStack() as until_measured:
        folder = given.homes / name if given.homes else Path(until_measured.enter_context(temporary_folder()))
        server = homed(name, given, folder / "demo")
        others_ask = "alone" not in rows and rows.keys() - {"first-start", "talks"}  # for the material
        if others_ask and not ledger_of(server).exists():
            await alone(server, given)
        result: Result = {}
        for row, measure in rows.items():
            found = await tried(measure, server, given)
            print(f"{name}, {row}: {json.dumps(found)}", file=sys.stderr, flush=True)
            result |= found
    return result


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pgengram-compare-", ignore_cleanup_errors=True)


async def tried(measure: Callable[..., Awaitable[Result]], server: Server, given: argparse.Namespace) -> Result:
    """Return what a row came to; where it fails or does not end, that, so that the other rows have their figures."""
    try:
        async with asyncio.timeout(given.patience):
            return await measure(server, given)
    except Exception as error:  # noqa: BLE001 - whatever another program does wrong
        kill(server.home)
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        return {measure.__name__: f"failed, {type(error).__name__}: {str(error)[:80]}"}


def installed(name: str, given: argparse.Namespace) -> Result:
    """Install a server, and return what it is; without a version, and with the reason, where that fails."""
    given.environments.mkdir(parents=True, exist_ok=True)
    try:
        return {"server": name, "version": SERVERS[name](given.environments, Path()).install()}
    except Failed as error:
        return {"server": name, "version": "", "not installed": [str(error)]}


def homed(name: str, given: argparse.Namespace, home: Path) -> Server:
    home.mkdir(parents=True, exist_ok=bool(given.homes))
    return SERVERS[name](given.environments, home.resolve(), model=given.lend_model)


def spread(values: list[Any]) -> str:
    """Return the median of several runs with the least and the most; what is no number, or always the same, as it is."""
    if len(set(values)) <= 1:
        return str(values[0]) if values else ""
    if any(isinstance(value, str) for value in values):
        return ", ".join(map(str, values))
    return f"{median(values):g} ({min(values):g} to {max(values):g})"


def print_results(results: list[dict[str, Any]]) -> None:
    """Print a column for each server."""
    table = Table("", *(f"{one['server']} {one['version']}" for one in results))
    for measure in dict.fromkeys(measure for one in results for measure in list(one)[2:]):
        table.add_row(measure, *(spread(one.get(measure, [])) for one in results))
    Console(width=max(Console().width, 130)).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument(
        "--lend-model",
        type=Path,
        nargs="?",
        const=MODEL,
        metavar="FOLDER",
        help="give them this model, or pgengram's copy",
    )
    parser.add_argument("--locomo", type=Path, help="LoCoMo's JSON: measure with it instead")
    parser.add_argument("--conversations", type=int, default=1, help="how many of that file")
    kept = Path(tempfile.gettempdir()) / "pgengram-compare"
    parser.add_argument("--environments", type=Path, default=kept, help=f"where they are installed, and kept ({kept})")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="what is measured")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument(
        "--larger", type=int, nargs="*", default=[], help="ask again with so many memories, in rising order"
    )
    parser.add_argument(
        "--homes", type=Path, help="keep them filled here, and go on with what is there: for larger alone"
    )
    parser.add_argument("--patience", type=float, default=3_600, help="seconds in which a row ends or has failed")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.homes and (given.locomo or given.rows != ["larger"]):
        parser.error("--homes goes with --rows larger alone: the other rows begin with an empty home.")
    results = [installed(name, given) for name in given.only]
    for _ in range(given.runs):  # in turns, as a machine is not as quick at any time
        for result in results:
            if result["version"]:
                for measure, value in asyncio.run(measured(result["server"], given)).items():
                    result.setdefault(measure, []).append(value)
            if given.json:
                given.json.write_text(json.dumps(results, indent=2) + "\n")
    print_results(results)


if __name__ == "__main__":
    main()
