"""What the memories of many users cost one Python program: by one `Pgengram`, and by a `Memory` for each.

    python benchmarks/users.py [--users 1,10,50] [--json PATH]

Each number of users is a process of its own, on a database of its own of one embedded server. Every user stores three memories and
asks five questions, all at once, with the built-in embedder. Printed are connections of the database and memory of the process
(resident, at the end), and that in proportion to one user's. Ends with 1 where an agreed bound is broken: 12 connections, and 1.3 times
the memory of one user, for any number of users of one `Pgengram`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import psycopg
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.table import Table

from pgengram import Memory, Pgengram
from pgengram.postgres import start_embedded
from pgengram.runtime.process_setup import event_loop

MOST_CONNECTIONS = 12
MOST_EACH = 10  # users with a `Memory` each: many more need more than the 100 connections that the server has
MOST_MEMORY = 1.3  # times that of one user
TEXTS = ("{} keeps bees behind the mill.", "{} is allergic to peanuts.", "{} cycles to work on Mondays.")
QUESTIONS = ("Who keeps bees?", "What must not be in the cake?", "How does she get to work?", "mill", "allergy")


async def use(memory: Memory, name: str) -> None:
    """Do what one user does."""
    await memory.add_many([{"content": text.format(name)} for text in TEXTS])
    await asyncio.gather(*(memory.search(question) for question in QUESTIONS))


async def connections(url: str) -> int:
    """Return how many connections the database has, without this one."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        counted = await connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        row = await counted.fetchone()
        return int(row[0]) if row else 0


async def one_run(url: str, users: int, *, shares: bool) -> dict[str, int]:
    """Serve `users` at once, and return what that took."""
    names = [f"user-{n}" for n in range(users)]
    if shares:
        async with Pgengram(url) as store:
            await asyncio.gather(*(use(store.namespace(name), name) for name in names))
            open_ = await connections(url)
    else:
        memories = [Memory(database_url=url, namespace=name) for name in names]
        await memories[0].search("")  # makes the schema
        await asyncio.gather(*(use(memory, name) for memory, name in zip(memories, names, strict=True)))
        open_ = await connections(url)
        await asyncio.gather(*(memory.close() for memory in memories))
    return {"connections": open_, "bytes": psutil.Process().memory_info().rss}


def measured(url: str, users: int, *, shares: bool) -> dict[str, int]:
    """Return the figures of a process of its own, on a new database."""
    name = f"users_{users}_{shares}".lower()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    own = make_conninfo(url, dbname=name)
    command = [sys.executable, __file__, "--run", own, "--users", str(users), *(["--shares"] if shares else [])]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", default="1,10,50")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--shares", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        with asyncio.Runner(loop_factory=event_loop) as runner:
            figures = runner.run(one_run(options.run, int(options.users), shares=options.shares))
        sys.stdout.write(json.dumps(figures) + "\n")
        return 0
    counts = [int(count) for count in options.users.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        postgres = start_embedded(Path(folder))
        try:
            found = {
                (shares, users): measured(postgres.url, users, shares=shares)
                for shares in (True, False)
                for users in counts
                if shares or users <= MOST_EACH
            }
        finally:
            postgres.stop()
    return report(found, options.json)


def report(found: dict[tuple[bool, int], dict[str, int]], path: Path | None) -> int:
    """Print the figures; return 1 where a bound is broken."""
    table = Table(
        "users",
        "how",
        "connections",
        "memory, MB",
        "times one user's",
        title="users of one program",
        title_justify="left",
    )
    rows, broken = [], False
    for (shares, users), figures in found.items():
        least = min(count for way, count in found if way == shares)
        ratio = figures["bytes"] / found[shares, least]["bytes"]
        how = "one Pgengram" if shares else "a Memory each"
        table.add_row(str(users), how, str(figures["connections"]), f"{figures['bytes'] / 1e6:.0f}", f"{ratio:.2f}")
        rows.append({"users": users, "how": how, **figures, "ratio": round(ratio, 3)})
        broken |= shares and (figures["connections"] > MOST_CONNECTIONS or ratio > MOST_MEMORY)
    Console().print(table)
    if path:
        path.write_text(json.dumps(rows, indent=2) + "\n")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
