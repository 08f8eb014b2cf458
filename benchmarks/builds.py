"""The processor time of a search in this checkout and in another one, in turns.

    git worktree add OTHER COMMIT
    python benchmarks/builds.py OTHER [--memories N] [--searches N] [--rounds N] [--chat]

Each build stores the same memories with the same vectors in a PostgreSQL of its own, and is asked the same questions with
their vectors, so that no model runs, once the words are compacted. Each round asks both. What counts is the processor time of the process that searches
and of its PostgreSQL, by search; the clock says little on a machine with other work.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from synthetic import Synthetic

HERE = Path(__file__).resolve()
BATCH = 100
COMPACT_AT = 256  # memories that may wait to be compacted
PATIENCE_S = 120
SESSION = 40  # turns of a conversation
SPEAKERS = ("Ann", "Ben")
TICKS = os.sysconf("SC_CLK_TCK")
WORDS = range(50, 2_000)  # by frequency, of questions


def fields(pid: int | str) -> list[str]:
    """Return the fields of /proc/PID/stat after the name: state, parent, …; none of a process that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def postgres_s(postmaster: int) -> float:
    """Return the processor seconds of a PostgreSQL with its children, also those that have ended."""
    live = [of for folder in Path("/proc").glob("[0-9]*") if (of := fields(folder.name)) and int(of[1]) == postmaster]
    return sum(sum(map(int, of[11:13])) for of in live) / TICKS + sum(map(int, fields(postmaster)[11:15])) / TICKS


async def compacted(url: str) -> None:
    """Wait until the words of all memories are in posting lists, as in a store that nobody has just filled."""
    import psycopg

    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with psycopg.connect(url) as login:
            [waiting] = login.execute("SELECT count(*) FROM memory_words WHERE segment IS NULL").fetchone() or (0,)
            [busy] = login.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'VACUUM%' AND state = 'active'"
            ).fetchone() or (0,)
        if waiting < COMPACT_AT and not busy:
            return
        await asyncio.sleep(1)
    raise RuntimeError("The words were not compacted.")


async def work(memories: int, searches: int, *, chat: bool) -> None:
    """Fill a store, and for each line that comes ask all questions and print milliseconds by search: own, PostgreSQL's."""
    import psycopg

    from pgengram.inputs import Question
    from pgengram.postgres import start_embedded
    from pgengram.service.manager import MemoryManager
    from pgengram.settings import Settings

    source = Synthetic()
    with tempfile.TemporaryDirectory(prefix="pgengram-builds-", ignore_cleanup_errors=True) as folder:
        server = start_embedded(Path(folder) / "data")
        manager = MemoryManager(Settings(database_url=server.url, embedder="builtin:"))
        await manager.ready()
        with psycopg.connect(server.url) as login:
            pid = login.info.backend_pid
            postmaster = int(fields(pid)[1])
        given = [*source.memories(memories)]
        for place, one in enumerate(given if chat else ()):
            one |= {"session_id": f"talk {place // SESSION}", "speaker": SPEAKERS[place % 2]}
        for start in range(0, memories, BATCH):
            stored = await manager.create_memories(given[start : start + BATCH])
            if not stored.ok:
                raise RuntimeError(f"Not stored: {stored.results[0]}")
        vectors = source.vectors(searches)
        asked = [Question(query=source.question(WORDS), embedding=vector.tolist(), limit=10) for vector in vectors]
        for question in asked[:10]:
            await manager.search_memories(question)
        await compacted(server.url)
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            own, others = time.process_time(), postgres_s(postmaster)
            for question in asked:
                await manager.search_memories(question)
            own, others = time.process_time() - own, postgres_s(postmaster) - others
            print(1e3 * own / searches, 1e3 * others / searches, flush=True)
        await manager.close()
        server.stop()


class Build:
    """A build that has a process of its own."""

    def __init__(self, checkout: Path, arguments: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE), str(checkout), "--worker", *arguments],
            env={**os.environ, "PYTHONPATH": str(checkout / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise RuntimeError("A build ended before it was asked; its error stands above.")
        return line.strip()

    def ask(self) -> tuple[float, float]:
        """Return the milliseconds of a search: of its process, and of PostgreSQL."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        own, others = map(float, self.says().split())
        return own, others

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("other", type=Path, help="another checkout")
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--searches", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chat", action="store_true", help="store turns of conversations instead of notes")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    its = parser.parse_args()
    if its.worker:
        asyncio.run(work(its.memories, its.searches, chat=its.chat))
        return 0
    sizes = [f"--memories={its.memories}", f"--searches={its.searches}", *(["--chat"] if its.chat else [])]
    builds = {"this": Build(HERE.parent.parent, sizes), "other": Build(its.other.resolve(), sizes)}
    for build in builds.values():
        assert build.says() == "ready"
    rounds = [{name: build.ask() for name, build in builds.items()} for _ in range(its.rounds)]
    for build in builds.values():
        build.end()
    for name in builds:
        own, others = (median(one[name][place] for one in rounds) for place in (0, 1))
        print(
            f"{name}: {own:.1f} ms of its process, {others:.1f} of PostgreSQL, {own + others:.1f} together, by search"
        )
    ratios = [sum(one["this"]) / sum(one["other"]) for one in rounds]
    print(
        f"this / other: {median(ratios):.2f} (median of {len(ratios)} rounds, {min(ratios):.2f} to {max(ratios):.2f})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
