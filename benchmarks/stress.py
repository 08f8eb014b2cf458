"""Do what breaks stores, and count what is lost: python benchmarks/stress.py [kill|restart|clients|leak|capture|all] [--json FILE].

kill: ends the server, its whole tree or its database with SIGKILL in the middle of writes · restart: restarts the database again
and again under callers that retry by idempotency key · clients: several servers write into one embedded store · leak: memory over
many calls, and what cancelled calls leave · capture: sessions with hooks, some of which are killed while they keep what was said.
Each works in a temporary folder, ends by itself, and ends only processes that it
started. The exit code is 1 when a limit is missed. Needs `ps`, so it does not run on Windows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from stress_capture import run_capture

from pgengram.postgres import EmbeddedPostgres, process_locks, start_embedded

IN_FLIGHT = 8  # calls under way at the least when something is killed
WRITERS = 16
OPEN_S = 10.0  # from a kill to the next answer
RECOVERY_S = 5.0  # from the database's return to the first answer
GOODBYE_S = 15.0
CALL_S = 60.0
LINE_BYTES = 32_000_000
SAYS_SO = re.compile(r"retried|call again", re.IGNORECASE)
WARM_UP = 0.3  # of the calls, until caches have their size
GROWTH_MB = 32.0


class Gone(Exception):
    """The server ended before it answered."""


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, error: dict[str, str]) -> None:
        super().__init__(error.get("message", ""))
        self.error = error


class Server:
    """A `pgengram` process and calls to it, as many at once as one likes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last = 0
        self._reader = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def in_flight(self) -> int:
        """How many calls have no answer yet."""
        return sum(not future.done() for future in self.waiting.values())

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return a tool's structured answer."""
        return await self.answer(self.ask(tool, arguments))

    def ask(self, tool: str, arguments: dict[str, Any]) -> int:
        """Send a call and return its id."""
        return self._send("tools/call", {"name": tool, "arguments": arguments})

    async def answer(self, id_: int) -> dict[str, Any]:
        """Wait for the answer to a call."""
        async with asyncio.timeout(CALL_S):
            result = await self.waiting[id_]
        del self.waiting[id_]
        if "error" in result:
            raise Refused(result["error"])
        outcome = result["result"]
        if outcome.get("isError"):
            raise Refused(json.loads(outcome["content"][0]["text"])["error"])
        return dict(outcome["structuredContent"])

    def cancel(self, id_: int) -> None:
        """Take a call back; it gets no answer."""
        self.waiting.pop(id_)
        self._write({"method": "notifications/cancelled", "params": {"requestId": id_}})

    def kill(self) -> None:
        """End the process at once."""
        with suppress(ProcessLookupError):
            self.process.kill()

    async def close(self) -> None:
        """End the input, as a client does when it leaves, and wait until the process has ended."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            async with asyncio.timeout(GOODBYE_S):
                await self.process.wait()
        except TimeoutError:
            self.kill()
            await self.process.wait()
        await self._reader

    async def hello(self) -> None:
        """Say hello, as the protocol wants."""
        client = {"name": "stress", "version": "1"}
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        async with asyncio.timeout(CALL_S):
            await self.waiting[self._send("initialize", about)]
        self._write({"method": "notifications/initialized"})

    def _send(self, method: str, params: dict[str, Any]) -> int:
        self._last += 1
        if self._reader.done():
            raise Gone
        self.waiting[self._last] = asyncio.get_running_loop().create_future()
        self._write({"id": self._last, "method": method, "params": params})
        return self._last

    def _write(self, message: dict[str, Any]) -> None:
        if self.process.stdin is not None and not self.process.stdin.is_closing():
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ConnectionResetError):
            async for line in self.process.stdout:
                message = json.loads(line)
                future = self.waiting.get(message.get("id"))
                if future is not None and not future.done():
                    future.set_result(message)
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(Gone())
                future.exception()  # whoever waits sees it; nobody else has to


async def started(folder: Path, **settings: str) -> Server:
    """Start a server and say hello to it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PGENGRAM_")}
    given = {f"PGENGRAM_{name.upper()}": value for name, value in ({"answers": "full"} | settings).items()}
    with (folder / "stderr.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pgengram", env=inherited | given, limit=LINE_BYTES, start_new_session=True,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
        )  # fmt: skip
    server = Server(process)
    try:
        await server.hello()
    except Gone:
        said = (folder / "stderr.log").read_text(encoding="utf-8", errors="replace")
        raise SystemExit(f"pgengram did not start:\n{said[-2000:]}") from None
    return server


@asynccontextmanager
async def serving(folder: Path, **settings: str) -> AsyncIterator[Server]:
    """Start a server for a while."""
    server = await started(folder, **settings)
    try:
        yield server
    finally:
        await server.close()


def processes() -> dict[int, tuple[int, str]]:
    """Return parent and command line of each process of this machine."""
    listing = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    split = (line.split(maxsplit=2) for line in listing.stdout.splitlines())
    return {int(pid): (int(parent), args) for pid, parent, args in (one for one in split if len(one) == 3)}


def below(pid: int, known: dict[int, tuple[int, str]]) -> list[int]:
    """Return a process and all that descend from it."""
    found = [pid]
    for one in found:
        found += [child for child, (parent, _) in known.items() if parent == one]
    return found


def database_pids(data: Path) -> list[int]:
    """Return the processes of the folder's PostgreSQL; none when it does not run."""
    home = str(data / "postgres")
    announced = process_locks.announced(home)
    known = processes()
    if not announced or not process_locks.is_held(os.path.join(home, process_locks.SERVER)):
        return []
    return [pid for pid in below(int(announced[0]), known) if pid in known]


def keeper_pids(data: Path) -> list[int]:
    """Return the keeper of the folder's PostgreSQL."""
    home = str(data / "postgres")
    return [pid for pid, (_, args) in processes().items() if "process_locks.py" in args and args.endswith(" " + home)]


def kill(pids: list[int]) -> None:
    """End processes at once, by id."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def resident_mb(pid: int) -> float:
    """Return the memory of a process."""
    outcome = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(outcome.stdout) / 1024


@dataclass
class Ledger:
    """What callers were told, to be compared with what is there."""

    acknowledged: dict[str, str] = field(default_factory=dict)  # content → id
    unknown: set[str] = field(default_factory=set)  # sent, and not answered
    errors: Counter[str] = field(default_factory=Counter)
    silent: list[str] = field(default_factory=list)  # errors that do not say that the call can be retried

    def note(self, error: dict[str, str]) -> None:
        """Keep an error that a call got."""
        self.errors[error["code"]] += 1
        if not SAYS_SO.search(error.get("hint", "")):
            self.silent.append(f"{error['message']} {error.get('hint', '')}")


def stored(url: str) -> dict[str, list[str]]:
    """Return the ids of the memories of each content, past every wall."""
    found: dict[str, list[str]] = {}
    with psycopg.connect(url) as connection:
        for content, id_ in connection.execute("SELECT content, id::text FROM memories"):
            found.setdefault(content, []).append(id_)
    return found


def missing(ledger: Ledger, there: dict[str, list[str]]) -> list[str]:
    """Return what was acknowledged and is not there, or under another id."""
    return [content for content, id_ in ledger.acknowledged.items() if id_ not in there.get(content, [])]


def doubled(there: dict[str, list[str]]) -> list[str]:
    """Return what is there more than once."""
    return [content for content, ids in there.items() if len(ids) > 1]


async def seen(data: Path) -> dict[str, list[str]]:
    """Look into the embedded store of a folder, as one more user of it."""

    def look() -> dict[str, list[str]]:
        database = start_embedded(data)
        try:
            return stored(database.url)
        finally:
            database.stop()

    return await asyncio.to_thread(look)


async def write(server: Server, content: str, ledger: Ledger) -> None:
    """Store one memory, and keep what came of it."""
    ledger.unknown.add(content)
    answer = await server.call("create_memory", content=content, idempotency_key=content)
    ledger.acknowledged[content] = answer["memory_id"]
    ledger.unknown.discard(content)


Report = Callable[[float], None]


# ------------------------------------------------------------------------------------------------------------------ kill


async def run_kill(folder: Path, options: argparse.Namespace, report: Report) -> dict[str, Any]:
    """Kill in turn the server, its whole tree and its database while it writes; then look, retry, and look again."""
    data, chance = folder / "data", random.Random(options.seed)
    ledger, rounds = Ledger(), []
    lost: set[str] = set()
    twice: set[str] = set()
    for number in range(options.rounds):
        target = ("server", "tree", "database")[number % 3]
        one = await kill_round(folder, options, number, target, ledger, chance)
        there = await seen(data)
        lost |= set(missing(ledger, there))
        kept = sum(content in there for content in ledger.unknown)
        one |= {"unacknowledged": len(ledger.unknown), "of_these_stored": kept}
        async with serving(folder, data_dir=str(data), embedder=options.embedder) as server:
            await asyncio.gather(*(write(server, content, ledger) for content in sorted(ledger.unknown)))
            there = await seen(data)
        lost |= set(missing(ledger, there))
        twice |= set(doubled(there))
        rounds.append(one)
        report(number + 1)
    return {
        "rounds": len(rounds),
        "acknowledged": len(ledger.acknowledged),
        "in flight at the kill, least": min(one["in_flight"] for one in rounds),
        "left unacknowledged": sum(one["unacknowledged"] for one in rounds),
        "of these stored": sum(one["of_these_stored"] for one in rounds),
        "lost": len(lost),
        "duplicated": len(twice),
        "next answer s, median": sorted(one["open_s"] for one in rounds)[len(rounds) // 2],
        "next answer s, worst": max(one["open_s"] for one in rounds),
        "errors": dict(ledger.errors),
        "errors that do not say so": len(ledger.silent),
        "each round": rounds,
        "limits": {"in flight at the kill, least": f">= {IN_FLIGHT}", "lost": "<= 0", "duplicated": "<= 0",
                   "next answer s, worst": f"<= {OPEN_S}", "errors that do not say so": "<= 0"},
    }  # fmt: skip


async def kill_round(
    folder: Path, options: argparse.Namespace, number: int, target: str, ledger: Ledger, chance: random.Random
) -> dict[str, Any]:
    data = folder / "data"
    server = await started(folder, data_dir=str(data), embedder=options.embedder)
    over = asyncio.Event()

    async def writer(name: int) -> None:
        for count in range(10_000):
            if over.is_set():
                return
            try:
                await write(server, f"Round {number}, writer {name}, note {count}.", ledger)
            except Gone:
                return
            except Refused as refusal:
                ledger.note(refusal.error)
                return

    try:
        await server.call("search_memories", query="ready")
        writers = [asyncio.create_task(writer(name)) for name in range(WRITERS)]
        await asyncio.sleep(chance.uniform(0.1, 1.2))
        victims = await asyncio.to_thread(victims_of, target, server, data)  # looked up beside the calls, not before
        while server.in_flight < IN_FLIGHT:  # noqa: ASYNC110 - a turn of the loop each time
            await asyncio.sleep(0)
        in_flight = server.in_flight
        kill(victims)
        begun = time.perf_counter()
        over.set()
        await asyncio.gather(*writers)
        if target != "database":
            await server.close()
            server = await started(folder, data_dir=str(data), embedder=options.embedder)
        await first_answer(server)
        return {"target": target, "in_flight": in_flight, "open_s": round(time.perf_counter() - begun, 2)}
    finally:
        await server.close()


def victims_of(target: str, server: Server, data: Path) -> list[int]:
    """Return the processes to kill, all of which this run has started."""
    if target == "server":
        return [server.pid]
    if target == "database":
        return database_pids(data)[:1]
    return [*below(server.pid, processes()), *keeper_pids(data), *database_pids(data)]


async def first_answer(server: Server) -> None:
    """Call until the server answers; it has to within a call's time."""
    async with asyncio.timeout(CALL_S):
        while True:
            try:
                await server.call("search_memories", query="ready")
            except Refused:
                await asyncio.sleep(0.05)
            else:
                return


# --------------------------------------------------------------------------------------------------------------- restart


async def run_restart(folder: Path, options: argparse.Namespace, report: Report) -> dict[str, Any]:
    """Restart the database under callers, once as the servers' own and once as one that they were given by URL."""
    result: dict[str, Any] = {}
    for place, how in enumerate(("embedded", "by url")):
        part = folder / how.replace(" ", "-")
        part.mkdir()
        part.chmod(0o755)
        of_part = await restart_under_callers(
            part, how, options, lambda done, offset=place * options.seconds: report(offset + done)
        )
        result |= {f"{how}: {name}": value for name, value in of_part.items()}
    limits = {"lost": "<= 0", "duplicated": "<= 0", "unfinished": "<= 0", "errors that do not say so": "<= 0",
              "recovery s, worst": f"<= {RECOVERY_S}"}  # fmt: skip
    return result | {
        "limits": {f"{how}: {name}": limit for how in ("embedded", "by url") for name, limit in limits.items()}
    }


async def restart_under_callers(folder: Path, how: str, options: argparse.Namespace, report: Report) -> dict[str, Any]:
    data, ledger = folder / "data", Ledger()
    database: EmbeddedPostgres | None = None
    settings = {"data_dir": str(data)}
    if how == "by url":
        database = await asyncio.to_thread(start_embedded, data)
        settings = {"database_url": database.url}
    servers = [await started(folder, embedder=options.embedder, **settings) for _ in range(2)]
    over, answers, recoveries = asyncio.Event(), Counter[int](), []

    async def caller(name: int) -> None:
        count = 0
        while not over.is_set():
            await write_at_last(servers[name % len(servers)], f"Caller {name}, note {count}.", ledger)
            answers[name % len(servers)] += 1
            count += 1

    try:
        for server in servers:
            await first_answer(server)
        callers = [asyncio.create_task(caller(name)) for name in range(options.callers)]
        begun = time.perf_counter()
        restarts = 0
        while (elapsed := time.perf_counter() - begun) < options.seconds:
            report(elapsed)
            await asyncio.sleep(min(options.every, options.seconds - elapsed))
            database = await restarted(data, database)
            restarts += 1
            recoveries.append(await recovered(answers, len(servers)))
        over.set()
        await asyncio.gather(*callers)
        report(options.seconds)
        there = await seen(data)
    finally:
        for server in servers:
            await server.close()
        if database is not None:
            await asyncio.to_thread(database.stop)
    return {
        "restarts": restarts,
        "acknowledged": len(ledger.acknowledged),
        "failed calls": sum(ledger.errors.values()),
        "errors": dict(ledger.errors),
        "errors that do not say so": len(ledger.silent),
        "lost": len(missing(ledger, there)),
        "duplicated": len(doubled(there)),
        "unfinished": len(ledger.unknown),
        "recovery s, worst": round(max(recoveries), 2),
    }


async def write_at_last(server: Server, content: str, ledger: Ledger) -> None:
    """Store one memory, with the same key until it is stored."""
    while True:
        try:
            return await write(server, content, ledger)
        except Refused as refusal:
            ledger.note(refusal.error)
            await asyncio.sleep(0.1)


async def recovered(answers: Counter[int], servers: int) -> float:
    """Return how long it takes until each server has answered well again."""
    begun, before = time.perf_counter(), answers.copy()
    for _ in range(int(CALL_S / 0.01)):
        if all(answers[one] > before[one] for one in range(servers)):
            break
        await asyncio.sleep(0.01)
    return time.perf_counter() - begun


async def restarted(data: Path, database: EmbeddedPostgres | None) -> EmbeddedPostgres | None:
    """Stop the database; start it again when it is ours, else leave that to its users."""

    def restart() -> EmbeddedPostgres | None:
        if database is not None:
            database.stop()
            return start_embedded(data)
        home = str(data / "postgres")
        start = process_locks.Lock(home, process_locks.START)
        if not start.take(30):
            raise SystemExit("somebody holds the start lock for half a minute")
        try:
            process_locks.stop_server(home)
        finally:
            start.release()
        return None

    return await asyncio.to_thread(restart)


# --------------------------------------------------------------------------------------------------------------- clients


async def run_clients(folder: Path, options: argparse.Namespace, report: Report) -> dict[str, Any]:
    """Let several servers start at once on an empty folder and write into one embedded store."""
    data, ledger, done = folder / "data", Ledger(), 0

    async def client(name: int) -> None:
        nonlocal done
        async with serving(folder, data_dir=str(data), embedder=options.embedder) as server:
            for count in range(options.writes):
                try:
                    await write(server, f"Client {name}, note {count}.", ledger)
                except Refused as refusal:
                    ledger.note(refusal.error)
                done += 1
                report(done)

    begun = time.perf_counter()
    await asyncio.gather(*(client(name) for name in range(options.clients)))
    took = time.perf_counter() - begun
    there = await seen(data)
    return {
        "clients": options.clients,
        "writes": done,
        "acknowledged": len(ledger.acknowledged),
        "errors": sum(ledger.errors.values()),
        "missing": len(missing(ledger, there)) + options.clients * options.writes - len(there),
        "duplicated": len(doubled(there)),
        "seconds, with the start": round(took, 1),
        "limits": {"errors": "<= 0", "missing": "<= 0", "duplicated": "<= 0"},
    }


# ------------------------------------------------------------------------------------------------------------------ leak


async def run_leak(folder: Path, options: argparse.Namespace, report: Report) -> dict[str, Any]:
    """Watch memory over many calls of all kinds, then cancel calls at random moments."""
    data = folder / "data"
    async with serving(folder, data_dir=str(data), embedder=options.leak_embedder) as server:
        samples = await mixed_calls(server, options.calls, report)
        left = await cancelled_calls(server, data, options.cancelled, random.Random(options.seed))
        report(options.calls + options.cancelled)
    settled = [mb for number, mb in samples if number >= WARM_UP * options.calls]
    return {
        "calls": options.calls,
        "memory MB after warm-up": round(settled[0], 1),
        "memory MB at the end": round(settled[-1], 1),
        "growth MB": round(settled[-1] - settled[0], 1),
        **left,
        "samples": samples,
        "limits": {"growth MB": f"<= {GROWTH_MB}", "cancelled calls with more than one row": "<= 0",
                   "connections left in a transaction": "<= 0", "connections": "<= 8", "failed afterwards": "<= 0"},
    }  # fmt: skip


async def mixed_calls(server: Server, calls: int, report: Report) -> list[tuple[int, float]]:
    samples, ids = [], [(await server.call("create_memory", content="The first note."))["memory_id"]]
    step = max(calls // 20, 1)
    done = 0

    async def one(number: int) -> None:
        kind = number % 5
        if kind == 0:
            outcome = await server.call(
                "create_memory", content=f"Note {number} of the long run.", dedup_policy="insert"
            )
            ids.append(outcome["memory_id"])
        elif kind in (1, 2):
            await server.call("search_memories", query=f"note {number}", limit=5)
        elif kind == 3:
            await server.call("get_memories", ids=[ids[number % len(ids)]])
        else:
            with suppress(Refused):  # another call may have changed it at the same moment
                await server.call("update_memory", id=ids[number % len(ids)], importance=number % 10 / 10)

    while done < calls:
        batch = min(8, calls - done)
        await asyncio.gather(*(one(done + place) for place in range(batch)))
        if (done + batch) // step > done // step:
            samples.append((done + batch, resident_mb(server.pid)))
        done += batch
        report(done)
    return samples


async def cancelled_calls(server: Server, data: Path, number: int, chance: random.Random) -> dict[str, Any]:
    async def one(count: int) -> None:
        id_ = server.ask("create_memory", {"content": f"Cancelled {count}.", "dedup_policy": "insert"})
        await asyncio.sleep(chance.uniform(0, 0.05))
        answer = server.waiting[id_]
        if not answer.done():
            server.cancel(id_)

    for first in range(0, number, 20):
        await asyncio.gather(*(one(count) for count in range(first, min(first + 20, number))))
    after = [server.call("create_memory", content=f"After {count}.") for count in range(16)]
    failed = [
        outcome
        for outcome in await asyncio.gather(*after, return_exceptions=True)
        if isinstance(outcome, BaseException)
    ]
    await asyncio.sleep(0.5)

    def look() -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
        database = start_embedded(data)
        try:
            with psycopg.connect(database.url) as connection:
                open_ = connection.execute(
                    "SELECT state, left(query, 60) FROM pg_stat_activity "
                    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = current_database()"
                ).fetchall()
            return stored(database.url), open_
        finally:
            database.stop()

    there, open_ = await asyncio.to_thread(look)
    rows = [len(there.get(f"Cancelled {count}.", [])) for count in range(number)]
    return {
        "cancelled calls": number,
        "cancelled calls with a row": sum(one == 1 for one in rows),
        "cancelled calls with more than one row": sum(one > 1 for one in rows),
        "connections": len(open_),
        "connections left in a transaction": sum(state != "idle" for state, _ in open_),
        "failed afterwards": len(failed),
        "failed with": counted(str(error) or type(error).__name__ for error in failed),
        "last statements": counted(query for _, query in open_),
    }


def counted(words: Iterable[str]) -> str:
    """Return each of the words once, with how often it came."""
    return ", ".join(f"{number} × {' '.join(word.split())}" for word, number in Counter(words).most_common()) or "none"


# ------------------------------------------------------------------------------------------------------------- the whole

RUNS: dict[str, Callable[[Path, argparse.Namespace, Report], Awaitable[dict[str, Any]]]] = {
    "kill": run_kill,
    "restart": run_restart,
    "clients": run_clients,
    "leak": run_leak,
    "capture": run_capture,
}


def total(name: str, options: argparse.Namespace) -> float:
    """Return how far the bar of a run goes."""
    return {
        "kill": options.rounds,
        "restart": 2 * options.seconds,
        "clients": options.clients * options.writes,
        "leak": options.calls + options.cancelled,
        "capture": options.turns,
    }[name]


def verdicts(result: dict[str, Any]) -> dict[str, bool]:
    """Return whether each limit is kept."""
    kept = {}
    for name, limit in result["limits"].items():
        relation, bound = limit.split()
        kept[name] = result[name] >= float(bound) if relation == ">=" else result[name] <= float(bound)
    return kept


def show(screen: Console, name: str, result: dict[str, Any]) -> None:
    """Print the table of one run."""
    table = Table("", "measured", "limit", "", title=name, title_justify="left")
    kept = verdicts(result)
    for what, value in result.items():
        if what not in ("limits", "each round", "samples"):
            mark = "" if what not in kept else "[green]kept[/green]" if kept[what] else "[red]missed[/red]"
            table.add_row(
                what, f"{value:,}" if isinstance(value, int) else str(value), result["limits"].get(what, ""), mark
            )
    screen.print(table)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("run", nargs="?", choices=[*RUNS, "all"], default="all")
    options.add_argument("--rounds", type=int, default=51, help="of kill")
    options.add_argument("--seconds", type=float, default=60, help="of restart, for each of its two ways")
    options.add_argument("--every", type=float, default=5, help="seconds between restarts")
    options.add_argument("--callers", type=int, default=8, help="of restart")
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--writes", type=int, default=200, help="of each client")
    options.add_argument("--calls", type=int, default=10_000, help="of leak")
    options.add_argument("--cancelled", type=int, default=200, help="calls taken back in leak")
    options.add_argument(
        "--embedder", default="none:", help="of kill, restart, clients and capture; none: writes fastest"
    )
    options.add_argument("--turns", type=int, default=1_000, help="of capture, each of a session of its own")
    options.add_argument("--kills", type=int, default=50, help="of capture")
    options.add_argument("--leak-embedder", default="builtin:")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--json", type=Path)
    return options.parse_args(arguments)


async def measured(names: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """Do the runs one after the other, each in a folder of its own."""
    notes = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    results = {}
    with Progress(*columns, console=notes, disable=not notes.is_terminal) as bar:
        tasks: dict[str, TaskID] = {name: bar.add_task(name, total=total(name, options), start=False) for name in names}
        for name in names:
            bar.start_task(tasks[name])
            with tempfile.TemporaryDirectory(prefix="pgengram-stress-", ignore_cleanup_errors=True) as place:
                os.chmod(place, 0o755)  # for root, PostgreSQL runs as another user
                folder = Path(place)
                results[name] = await RUNS[name](
                    folder, options, lambda done, task=tasks[name]: bar.update(task, completed=done)
                )
    return results


def main() -> None:
    options = parsed()
    names = [*RUNS] if options.run == "all" else [options.run]
    results = asyncio.run(measured(names, options))
    screen = Console()
    for name, result in results.items():
        show(screen, name, result)
    if options.json:
        machine = {"platform": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
        options.json.write_text(json.dumps({"machine": machine, **results}, indent=2) + "\n", encoding="utf-8")
    raise SystemExit(not all(all(verdicts(result).values()) for result in results.values()))


if __name__ == "__main__":
    main()
