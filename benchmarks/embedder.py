"""Measure the built-in embedder: python benchmarks/embedder.py [--json PATH].

Prints a table: time to load, texts per CPU-second (one by one and in one call), memory before, with and after it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pgengram.embedders.builtin import BuiltinEmbedder

SHORT = [
    f"On day {n} Anna told Ben that the {n * 7 % 31}th train to Lisbon was late and that she had read."
    for n in range(300)
]
LONG = [" ".join(SHORT[start : start + 12]) for start in range(32)]  # each a little more than one window
QUESTIONS = [f"When did Anna take train {n}?" for n in range(200)]


def resident_mb() -> float | None:
    """Return the memory this process holds now, in MB; None where the system does not tell."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return None
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def timed(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return CPU seconds of the process and wall seconds."""
    cpu, row_level_security = time.process_time(), time.perf_counter()
    await work()
    return time.process_time() - cpu, time.perf_counter() - row_level_security


async def measure() -> dict[str, float | str | None]:
    """Run everything once; keys say what and in which unit."""
    found: dict[str, float | str | None] = {"resident before, MB": resident_mb()}
    embedder = BuiltinEmbedder()
    found["name"] = embedder.name
    _, found["load and first question, s"] = await timed(lambda: embedder.query("first"))
    found["resident with model, MB"] = resident_mb()

    async def one_by_one(texts: list[str]) -> None:
        for text in texts:
            await embedder.passages([text])

    async def questions() -> None:
        for text in QUESTIONS:
            await embedder.query(text)

    cpu, row_level_security = await timed(questions)
    found["question, CPU ms"], found["question, ms"] = (
        cpu / len(QUESTIONS) * 1e3,
        row_level_security / len(QUESTIONS) * 1e3,
    )
    for kind, texts in (("short", SHORT), ("long", LONG)):
        cpu, _ = await timed(lambda texts=texts: one_by_one(texts))  # type: ignore[misc]
        found[f"{kind} texts per CPU-s, one by one"] = len(texts) / cpu
        cpu, _ = await timed(lambda texts=texts: embedder.passages(texts))  # type: ignore[misc]
        found[f"{kind} texts per CPU-s, in one call"] = len(texts) / cpu
    for _ in range(3):
        await embedder.passages(LONG)
    found["resident after 32 long texts, MB"] = resident_mb()
    await embedder.close()
    found["resident after letting go, MB"] = resident_mb()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the built-in embedder.")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    found = asyncio.run(measure())
    for what, figure in found.items():
        print(f"{what:40} {figure:>12.2f}" if isinstance(figure, float) else f"{what:40} {figure}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"python": sys.version, **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
