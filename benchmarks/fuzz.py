"""Tell a server anything for a while: calls made from the schemas of all its tools, and lines that are hardly frames.

    python benchmarks/fuzz.py [--minutes 10] [--embedder none:] [--compat agi] [--seed N] [--json PATH]

The server is a real process on an embedded PostgreSQL in a temporary folder. Ends with 1 when it died, showed a fault of
the database or of its own, or took 500 MB of memory; each fault is printed with the call that led to it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "hostile", "protocol")]

from fuzzing import Fuzzed, calls, fuzzed, lines  # noqa: E402 - these lie with the tests
from protocol_peer import SilenceError  # noqa: E402

from pgengram.postgres import start_embedded  # noqa: E402

MOST_MB = 500
AT_ONCE = 6  # calls in flight
ROUND = 100  # examples between two looks at the clock
EFFORT = settings(deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
screen = Console()


def one_round(server: Fuzzed, number: int, handfuls: int = ROUND) -> None:
    """Make `handfuls` of calls, and send a tenth as many lines."""

    @seed(number)
    @settings(EFFORT, max_examples=handfuls)
    @given(st.lists(calls(server.tools), min_size=1, max_size=AT_ONCE))
    def call(made: list[tuple[str, object]]) -> None:
        server.call(*made)

    @seed(number)
    @settings(EFFORT, max_examples=handfuls // 10)
    @given(lines)
    def tell(line: bytes) -> None:
        server.tell(line)

    call()
    tell()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--embedder", default="none:", help="builtin: embeds every text; slower, and holds the model")
    parser.add_argument(
        "--compat", default="", help="the tools of another memory server instead, as in PGENGRAM_COMPAT"
    )
    parser.add_argument("--seed", type=int, help="repeat a run")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--log", type=Path, help="write the server's log there")
    options = parser.parse_args()
    first = Random().randrange(2**31) if options.seed is None else options.seed
    died = ""
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with tempfile.TemporaryDirectory() as folder, Progress(*columns, console=screen) as bar:
        postgres = start_embedded(Path(folder))
        try:
            with fuzzed(postgres.url, embedder=options.embedder, compat=options.compat) as server:
                task = bar.add_task("fuzzing", total=options.minutes * 60)
                began = time.monotonic()
                number = 0
                while (spent := time.monotonic() - began) < options.minutes * 60 and not died:
                    bar.update(task, completed=spent, description=f"fuzzing, {len(server.faults)} faults")
                    try:
                        one_round(server, first + number)
                    except (SilenceError, OSError) as error:
                        died = str(error)[-2_000:] or type(error).__name__
                    number += 1
                alive = server.peer.process.poll() is None
                memory = server.memory_mb() if alive else 0.0
                if options.log:
                    options.log.write_bytes(server.peer.log)
        finally:
            postgres.stop()
    figures = {
        "seed": first,
        "calls": sum(server.codes.values()),
        "minutes": round((time.monotonic() - began) / 60, 1),
        "answers": dict(sorted(server.codes.items(), key=lambda one: -one[1])),
        "answered well, of each tool": {name: f"{well} of {of}" for name, (well, of) in sorted(server.well.items())},
        "server alive": alive,
        "faults shown": len(server.faults),
        "unforeseen faults logged": server.tracebacks,
        "memory MB": round(memory),
    }
    table = Table("measure", "value", title="fuzz", title_justify="left")
    for name, value in figures.items():
        table.add_row(name, str(value))
    screen.print(table)
    for fault, asked in server.faults.items():
        screen.print(f"{fault}\n    after {str(asked)[:600]}", markup=False, highlight=False)
    if died:
        screen.print(died, markup=False, highlight=False)
    if options.json:
        options.json.write_text(
            json.dumps(figures | {"faults": {f: str(a) for f, a in server.faults.items()}}, indent=2)
        )
    return int(bool(server.faults or died or server.tracebacks or not alive or memory >= MOST_MB))


if __name__ == "__main__":
    sys.exit(main())
