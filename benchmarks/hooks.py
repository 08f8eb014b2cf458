"""How long an assistant waits for its hooks, and a person for the commands: each is a process, timed from its start to its end.

    python benchmarks/hooks.py [--runs 100] [--memories 1000]

Warm a server for the moment runs already, cold none does. Last, no process may be left. Prints a table and the same as JSON. What is kept
when hooks and servers are killed is shown by `stress.py capture`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

SESSION = "00000000-0000-4000-8000-000000000001"
COMMANDS = ("--help", "list", "search 'room 119'", "add 'Room 119 has a new lamp.'")
QUESTION = "Which office does the release train number 17 leave from?"
PATIENCE_S = 120


class Lab:
    """A store in a temporary folder, and a conversation whose transcript grows.

    Args:
        folder: the data folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.transcript = folder / "transcript.jsonl"
        # An installed program has its bytecode: without, each start compiles what it imports, which takes as long again.
        left_out = ("PGENGRAM_", "PYTHONDONTWRITEBYTECODE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        self.environment = {**kept, "PGENGRAM_DATA_DIR": str(folder), "PGENGRAM_PROJECT": "ark"}
        self.turns = 0

    def start(self, event: str, **fields: Any) -> subprocess.Popen[str]:
        """Start the hook of an event."""
        given = {"session_id": SESSION, "cwd": str(self.folder), "transcript_path": str(self.transcript), **fields}
        process = subprocess.Popen(
            [sys.executable, "-m", "pgengram", "hook", "claude-code"],
            env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps({**given, "hook_event_name": event}))
        process.stdin.close()
        return process

    def hook(self, event: str, **fields: Any) -> tuple[float, str]:
        """Run the hook of an event; return how many milliseconds it took and what it printed."""
        began = time.perf_counter()
        process = self.start(event, **fields)
        assert process.stdout is not None
        printed = process.stdout.read()
        process.wait()
        return (time.perf_counter() - began) * 1000, printed

    def command(self, line: str) -> tuple[float, str]:
        """Run a command as a person types it; return how many milliseconds it took and what it printed."""
        began = time.perf_counter()
        words = [sys.executable, "-m", "pgengram", *shlex.split(line)]
        ended = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=True)
        return (time.perf_counter() - began) * 1000, ended.stdout

    def say(self) -> None:
        """Add a turn to the transcript."""
        self.turns += 1
        line = {
            "type": "user", "message": {"role": "user", "content": f"This is turn {self.turns}."},
            "timestamp": datetime.now(UTC).isoformat(), "sessionId": SESSION,
        }  # fmt: skip
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def servers(self) -> list[psutil.Process]:
        """Return the servers for the moment of this store."""
        pids = [int(path.stem.rpartition("-")[2]) for path in (self.folder / "run").glob("*.sock")]
        return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]

    def stop(self) -> None:
        """End them."""
        for server in self.servers():
            server.terminate()
            server.wait(PATIENCE_S)

    def processes(self) -> list[int]:
        """Return the processes that have this store's folder on their command line or as their own."""
        found = []
        for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
            words = " ".join(process.info["cmdline"] or ())
            if process.pid != os.getpid() and str(self.folder) in f"{words} {process.info['cwd']}":
                found.append(process.pid)
        return found


def p95(times: list[float]) -> float:
    """Return the time that 95 in 100 don't exceed."""
    return statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0]


@contextmanager
def warm(lab: Lab) -> Iterator[None]:
    """Have a server run for a block."""
    deadline = time.monotonic() + PATIENCE_S
    while not lab.hook("SessionStart", session_id="warming")[1]:
        assert time.monotonic() < deadline, (lab.folder / "hooks.log").read_text()
    try:
        yield
    finally:
        lab.stop()


def timed(runs: int, run: Callable[[], tuple[float, str]]) -> dict[str, float]:
    """Run something many times; return median and 95th percentile in milliseconds, and how often something came."""
    found = [run() for _ in range(runs)]
    times = [took for took, _ in found]
    answered = sum(bool(printed) for _, printed in found)
    return {"median_ms": round(statistics.median(times)), "p95_ms": round(p95(times)), "answered": answered}


def idle() -> tuple[float, str]:
    """Start a Python that does nothing: less than that no hook in Python can take."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter() - began) * 1000, ""


def captured(lab: Lab) -> tuple[float, str]:
    """Say something and have it kept."""
    lab.say()
    return lab.hook("Stop")


def commands(lab: Lab, runs: int, lines: Sequence[str]) -> dict[str, dict[str, float]]:
    """Time commands, each many times."""
    return {f"pgengram {line}": timed(runs, lambda line=line: lab.command(line)) for line in lines}  # type: ignore[misc]


async def fill(settings: Settings, memories: int) -> None:
    """Store memories to be found among."""
    manager = MemoryManager(settings)
    items = [
        {"content": f"The release train number {number} leaves from the office in room {number * 7}.", "project": "ark"}
        for number in range(memories)
    ]
    for start in range(0, memories, 200):
        await manager.create_memories(items[start : start + 200])
    await manager.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--memories", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder:
        lab = Lab(Path(folder))
        asyncio.run(fill(Settings(data_dir=folder), given.memories))
        results: dict[str, Any] = {}
        cold = []
        for number in range(max(2, given.runs // 20)):
            cold.append(lab.hook("SessionStart", session_id=f"cold-{number}"))
            with warm(lab):
                pass
        for name, came in (("recall cold, answered", True), ("recall cold, given up", False)):
            times = [took for took, printed in cold if bool(printed) == came]
            results[name] = {"runs": len(times), "of": len(cold), "longest_ms": round(max(times, default=0))}
        results["a Python that does nothing"] = timed(given.runs, idle)
        with warm(lab):
            results["capture"] = timed(given.runs, lambda: captured(lab))
            results["recall with a prompt"] = timed(
                given.runs, lambda: lab.hook("UserPromptSubmit", prompt=QUESTION, session_id=str(random.random()))
            )
            results |= commands(lab, given.runs // 4 or 1, COMMANDS)
            [newest] = json.loads(lab.command("list --json -n 1")[1])["results"]
        cold_commands = commands(lab, given.runs // 4 or 1, (*COMMANDS[1:], f"show {newest['id'][-8:]}"))
        results |= {f"{name}, cold": result for name, result in cold_commands.items()}
        deadline = time.monotonic() + PATIENCE_S
        while lab.processes() and time.monotonic() < deadline:
            time.sleep(0.5)  # PostgreSQL is being stopped
        results["processes left"] = len(lab.processes())
    for name, result in results.items():
        print(f"{name:46}{result}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
