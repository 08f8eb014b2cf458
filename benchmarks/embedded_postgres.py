"""How long users of the embedded PostgreSQL wait: python benchmarks/embedded_postgres.py [--rounds N] [--json FILE].

cold: an empty folder, with initdb · warm: a made folder, the server stopped · attach: the server runs already ·
stop: the last user leaves. Times are of the call alone; the first line says what importing the package adds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

begun = time.perf_counter()
from pgengram.postgres import find_binaries, start_embedded  # noqa: E402 - its import is timed

IMPORT_S = time.perf_counter() - begun
LIMITS_S = {"cold": 10.0, "warm": 1.0, "attach": 0.1}
Answer = TypeVar("Answer")


def timed(work: Callable[[], Answer], into: list[float]) -> Answer:
    start = time.perf_counter()
    answer = work()
    into.append(time.perf_counter() - start)
    return answer


def one_round(folder: Path, times: dict[str, list[float]]) -> None:
    timed(timed(lambda: start_embedded(folder), times["cold"]).stop, times["stop"])
    first = timed(lambda: start_embedded(folder), times["warm"])
    timed(lambda: start_embedded(folder), times["attach"]).stop()
    timed(first.stop, times["stop"])


def measured(rounds: int) -> dict[str, dict[str, float]]:
    times: dict[str, list[float]] = {"cold": [], "warm": [], "attach": [], "stop": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            one_round(Path(folder) / "data", times)
    return {name: {"min_s": min(all_), "median_s": statistics.median(all_)} for name, all_ in times.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    times = measured(chosen.rounds)

    print(
        f"import {IMPORT_S:.3f} s · PostgreSQL {find_binaries().version} · {platform.platform()} · {os.cpu_count()} CPUs"
    )
    print(f"{'':8}{'min s':>8}{'median s':>10}{'limit s':>9}")
    for name, found in times.items():
        print(f"{name:8}{found['min_s']:8.3f}{found['median_s']:10.3f}{LIMITS_S.get(name, ''):>9}")
    if chosen.json:
        report = {"postgres": find_binaries().version, "rounds": chosen.rounds, "import_s": IMPORT_S, "times": times}
        chosen.json.write_text(json.dumps(report | {"limits_s": LIMITS_S}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
