"""What it costs that several machines have one memory: to join with many memories, while nothing happens, and in each write.

    python benchmarks/sync.py [--rows 100000] [--idle-minutes 2] [--writes 400] [--only join] [--embedder none:] [--json PATH]

One PostgreSQL in a temporary folder has two namespaces, which exchange files through another folder as two machines do.
The first is filled with invented memories, and `pgengram sync join` brings them to the second while that is searched. Then
both only wait for each other, and so do two that meet at a pgengram server, two in a git repository and two behind `ssh`; what is measured is what this process, the programs that it starts, the server and the database take.
Last, memories are stored with and without the exchange, in turns. Without an embedder, which
is the same for all, so that nothing hides what is measured. Ends with 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from synthetic import Synthetic

from pgengram.inputs import NewMemory, Question
from pgengram.postgres import start_embedded
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.sync import devices
from pgengram.sync.exchange import Exchange
from pgengram.sync.schedule import EVERY_S, LOOKS_S, ExchangeScheduler

BATCH: Final = 200
LOOK_S: Final = 0.05  # between two looks at a process
TICKS: Final = os.sysconf("SC_CLK_TCK")
QUICKER: Final = 20  # than a server looks for changes, so that what else the machine does counts less
SETTLE_S: Final = 10.0
LIMITS: Final = {
    "join_peak_mb": 250.0, "idle_percent": 0.5, "http_idle_percent": 0.5, "git_idle_percent": 0.5, "ssh_idle_percent": 0.5,
    "write_ratio": 1.1,
}  # fmt: skip
PARTS: Final = ("join", "idle", "write")
SSH: Final = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift 2
cd {home} && exec sh -c "$*"
"""


class Lab:
    """A store with two machines' memories, and the folder that they share."""

    def __init__(self, settings: Settings, folder: Path, bar: Progress) -> None:
        self.settings, self.folder, self.bar = settings, folder, bar
        self.source = Synthetic()
        self.laptop, self.desktop, self.alone = (
            MemoryManager(replace(settings, namespace=name)) for name in ("laptop", "desktop", "alone")
        )

    async def fill(self, rows: int) -> None:
        """Give the laptop its memories, and let it begin to exchange them."""
        task = self.bar.add_task("filling", total=rows)
        for start in range(0, rows, BATCH):
            texts = self.source.texts(min(BATCH, rows - start))
            items = [
                {"content": text, "kind": "fact", "tags": ["invented"], "dedup_policy": "insert"} for text in texts
            ]
            await self.laptop.create_memories(items)
            self.bar.advance(task, len(items))

    async def join(self) -> dict[str, Any]:
        """Let the desktop join, as a command, while somebody searches its memories."""
        began = time.perf_counter()
        key = await devices.begin(self.laptop, str(self.folder), None, "laptop")
        await devices.install(self.laptop)
        await Exchange(self.laptop).run()
        written_s = time.perf_counter() - began
        await self.desktop.search_memories(Question(query="anything"))
        environment = {**os.environ, "PGENGRAM_DATABASE_URL": self.settings.database_url,
                       "PGENGRAM_EMBEDDER": self.settings.embedder, "PGENGRAM_NAMESPACE": "desktop"}  # fmt: skip
        began = time.perf_counter()
        joining = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pgengram", "sync", "join", str(self.folder), key.code, "--name", "desktop", env=environment,
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        task = self.bar.add_task("joining", total=None)
        ended = asyncio.create_task(joining.wait())
        peak_mb, during = 0.0, []
        while not ended.done():
            during.append(await self._searched_s())
            peak_mb = max(peak_mb, highest_mb(joining.pid))
            await asyncio.wait({ended}, timeout=LOOK_S)
        took_s = time.perf_counter() - began
        self.bar.update(task, total=1, completed=1)
        if joining.returncode:
            raise SystemExit("the second machine could not join")
        after = [await self._searched_s() for _ in range(40)]
        return {
            "join_peak_mb": peak_mb, "write_all_s": written_s, "join_s": took_s,
            "files_mb": sum(path.stat().st_size for path in self.folder.rglob("*.sync")) / 1e6,
            "search_while_joining_ms": 1e3 * median(during), "search_longest_ms": 1e3 * max(during),
            "search_afterwards_ms": 1e3 * median(after),
        }  # fmt: skip

    async def _searched_s(self) -> float:
        began = time.perf_counter()
        await self.desktop.search_memories(Question(query=self.source.question(range(100, 1_000)), mode="text"))
        return time.perf_counter() - began

    async def idle(self, minutes: float, database: int) -> dict[str, Any]:
        """Let both wait for each other at a quickened pace, and two more through each remote that starts programs, and see
        what that takes of a processor.
        """
        nothing = await self._share([], minutes, [database], "doing nothing")
        figures = {"doing_nothing_percent": 100 * nothing}
        pairs = {"": [self.laptop, self.desktop]}
        for name, address in self._remotes().items():
            pairs[f"{name}_"] = await self._pair(name, address)
        with self._server() as (server, address, token):
            pairs["http_"] = await self._pair("http", address, token)
            for name, pair in pairs.items():
                others = [database, server] if name == "http_" else [database]
                share = await self._share(pair, minutes, others, f"waiting for each other {name.strip('_')}")
                figures[f"{name}idle_percent"] = 100 * (share - nothing) / QUICKER
            for one in [one for name, pair in pairs.items() if name for one in pair]:
                await one.close()
        return figures

    @contextmanager
    def _server(self) -> Iterator[tuple[int, str, str]]:
        """Run a server; yield its process, its address, and a token that lets machines in."""
        command, environment = [sys.executable, "-m", "pgengram"], {
            **os.environ, "PGENGRAM_DATABASE_URL": self.settings.database_url, "PGENGRAM_EMBEDDER": self.settings.embedder,
            "PGENGRAM_NAMESPACE": "relay", "PGENGRAM_DATA_DIR": str(self.folder.parent / "server"),
        }  # fmt: skip
        made = subprocess.run(
            [*command, "token", "create", "idle", "--json"], env=environment, check=True, capture_output=True
        )
        server = subprocess.Popen(
            [*command, "serve", "--http", "--port", "0"], env=environment, stderr=subprocess.PIPE, text=True
        )
        try:
            if server.stderr is None:
                raise SystemExit("the server says nothing")
            said = next(line for line in server.stderr if " at http" in line)
            yield server.pid, said.split()[-1], json.loads(made.stdout)["token"]
        finally:
            server.terminate()
            server.wait()

    def _remotes(self) -> dict[str, str]:
        """Make a git repository, and an `ssh` that signs in on this machine; return their addresses."""
        place = self.folder.parent
        subprocess.run(["git", "init", "--quiet", "--bare", place / "memory.git"], check=True)
        program = place / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(SSH.format(home=place))
        program.chmod(0o700)
        os.environ["PATH"] = f"{program.parent}:{os.environ['PATH']}"
        return {"git": f"git+file://{place}/memory.git", "ssh": "ssh://ada@home.example/~/memory"}

    async def _pair(self, name: str, address: str, token: str | None = None) -> list[MemoryManager]:
        """Return two machines that exchange a hundred memories through a remote."""
        one, other = (MemoryManager(replace(self.settings, namespace=f"{name} {number}")) for number in (1, 2))
        for manager in (one, other):
            await manager.ready()
        await one.create_memories([{"content": text, "dedup_policy": "insert"} for text in self.source.texts(100)])
        key = await devices.begin(one, address, None, "one", token)
        await Exchange(one).run()
        await devices.begin(other, address, key, "other", token)
        for manager in (other, one):
            await Exchange(manager).run()
        return [one, other]

    async def _share(self, pair: Sequence[MemoryManager], minutes: float, others: Sequence[int], what: str) -> float:
        """Return how much of a processor this process, what it starts and other processes take while a pair is idle."""
        schedulers = [ExchangeScheduler(one, EVERY_S / QUICKER, LOOKS_S / QUICKER) for one in pair]
        task = self.bar.add_task(what, total=minutes * 60)
        for scheduler in schedulers:
            scheduler.begin()
        await asyncio.sleep(SETTLE_S)  # for what is done once

        def used_s() -> float:
            return cpu_s(os.getpid(), dead_children=True) + sum(map(tree_cpu_s, others))

        before, began = used_s(), time.perf_counter()
        while (passed := time.perf_counter() - began) < minutes * 60:
            self.bar.update(task, completed=passed)
            await asyncio.sleep(1)
        share = (used_s() - before) / passed
        self.bar.update(task, completed=minutes * 60)
        for scheduler in schedulers:
            await scheduler.close()
        return share

    async def write(self, writes: int) -> dict[str, Any]:
        """Store memories with and without the exchange, in turns."""
        task = self.bar.add_task("storing", total=2 * writes)
        shared, alone = MemoryManager(replace(self.settings, namespace="shared")), self.alone
        await shared.ready()
        (self.folder / "shared").mkdir()
        await devices.begin(shared, str(self.folder / "shared"), None, "shared")
        took: dict[str, list[float]] = {"shared": [], "alone": []}
        for number, text in enumerate(self.source.texts(writes)):
            turns = [("shared", shared), ("alone", alone)]
            for name, one in turns if number % 2 else reversed(turns):
                given = NewMemory(content=text, tags=["invented", "second"], dedup_policy="insert")
                began = time.perf_counter()
                await one.create_memory(given)
                took[name].append(time.perf_counter() - began)
                self.bar.advance(task)
        await shared.close()
        with_, without = (1e3 * median(took[name][writes // 10 :]) for name in ("shared", "alone"))
        return {"write_ratio": with_ / without, "write_shared_ms": with_, "write_alone_ms": without}


def cpu_s(pid: int, *, dead_children: bool = False) -> float:
    """Return processor seconds that a process has used, on request with those of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if dead_children else 13])) / TICKS


def tree_cpu_s(pid: int) -> float:
    """Return processor seconds that a process and all its children have used, also those that ended."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu_s(pid, dead_children=True) + sum(cpu_s(int(child)) for child in children)


def highest_mb(pid: int) -> float:
    """Return the most memory that a process has had, in MB of a million bytes; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:")), 0.0)


async def run(
    settings: Settings, folder: Path, database: int, options: argparse.Namespace, bar: Progress
) -> dict[str, Any]:
    """Return the figures."""
    lab = Lab(settings, folder, bar)
    try:
        for one in (lab.laptop, lab.desktop, lab.alone):
            await one.ready()
        figures: dict[str, Any] = {}
        if "join" in options.only:
            await lab.fill(options.rows)
            figures |= await lab.join()
        if "idle" in options.only:
            figures |= await lab.idle(options.idle_minutes, database)
        if "write" in options.only:
            figures |= await lab.write(options.writes)
        return figures
    finally:
        for one in (lab.laptop, lab.desktop, lab.alone):
            await one.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="memories that are joined")
    parser.add_argument("--idle-minutes", type=float, default=2, help="at 20 times the usual pace")
    parser.add_argument("--writes", type=int, default=400, help="with the exchange, and as many without")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="what is measured")
    parser.add_argument("--embedder", default="none:")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    screen = Console()
    with tempfile.TemporaryDirectory() as place, Progress(console=screen) as bar:
        shared = Path(place, "shared")
        shared.mkdir()
        postgres = start_embedded(Path(place, "data"))
        [pid_file] = Path(place, "data").rglob("postmaster.pid")
        settings = Settings(database_url=postgres.url, embedder=options.embedder)
        try:
            pid = int(pid_file.read_text().split()[0])
            figures = asyncio.run(run(settings, shared, pid, options, bar))
        finally:
            postgres.stop()
    table = Table("measure", "value", "at most", title="several machines", title_justify="left")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.3f}", f"{LIMITS[name]:g}" if name in LIMITS else "")
    screen.print(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(any(figures[name] > limit for name, limit in LIMITS.items() if name in figures))


if __name__ == "__main__":
    sys.exit(main())
