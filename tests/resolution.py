"""Asks the package index whether everything that pgengram needs is to be had on each platform that it promises.

usage: python tests/resolution.py         needs `uv` on PATH and the network; prints the table of docs/reference/platforms.md
exit code 1 when a platform that is promised has no answer, or one that is not promised has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "Windows, amd64": "x86_64-pc-windows-msvc",
    "Windows, arm64": "aarch64-pc-windows-msvc",
    "macOS 14, arm64": "aarch64-apple-darwin",
    "macOS 13, arm64": "aarch64-apple-darwin",
    "macOS 13, x86-64": "x86_64-apple-darwin",
    "Linux, x86-64": "x86_64-manylinux_2_28",
    "Linux, arm64": "aarch64-manylinux_2_28",
}
NOT_THERE = {("Windows, arm64", "3.11"), ("macOS 13, arm64", "3.14")}
TOLD = {("Windows, arm64", python) for python in PYTHONS[1:]} | {("macOS 13, x86-64", "3.14")}  # by the first start


def main() -> int:
    """Print a row for each platform; return the exit code."""
    sys.stdout.write(f"| | {' | '.join(PYTHONS)} |\n| --- |{' --- |' * len(PYTHONS)}\n")
    wrong = 0
    for name, target in PLATFORMS.items():
        cells = []
        for python in PYTHONS:
            lacking = unavailable(name, target, python)
            wrong += bool(lacking) != ((name, python) in NOT_THERE)
            cells.append(lacking or ("no: the start says so" if (name, python) in TOLD else "yes"))
        sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")
    return 1 if wrong else 0


def unavailable(name: str, target: str, python: str) -> str:
    """Return what stands in the way of an installation from wheels alone, nothing when there are all."""
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--only-binary=:all:"]
    command += [f"--python-platform={target}", f"--python-version={python}", "pyproject.toml"]
    environment = os.environ | ({"MACOSX_DEPLOYMENT_TARGET": name[6:8]} if name.startswith("macOS") else {})
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else "no wheels"


if __name__ == "__main__":
    sys.exit(main())
