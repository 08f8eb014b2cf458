"""Asks the package index whether everything that pgengram needs is to be had on each platform that it promises.

usage: python tests/resolution.py [PROJECT]     needs `uv`, which the extra `dev` brings, and the network; takes half a minute

Prints the table of docs/reference/platforms.md for the dependencies of PROJECT, a pyproject.toml, by default ours.
Exit code 1 when a platform that is promised has no answer, or one that is not promised has.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
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
AT_ONCE = 8  # what takes time is the network
TIMEOUT_S = 120
Cell = tuple[str, str]  # a platform and a Python


def main(project: Path = PROJECT) -> int:
    """Print a row for each platform, and the reasons for what is not as promised; return the exit code."""
    cells = [(name, python) for name in PLATFORMS for python in PYTHONS]
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(AT_ONCE) as pool:
        environment = os.environ | indexes() | {"UV_CACHE_DIR": cache}
        lacking = dict(zip(cells, pool.map(partial(unavailable, project, environment), cells), strict=True))
    sys.stdout.write(f"| | {' | '.join(PYTHONS)} |\n| --- |{' --- |' * len(PYTHONS)}\n")
    for name in PLATFORMS:
        sys.stdout.write(f"| {name} | {' | '.join(said((name, python), lacking) for python in PYTHONS)} |\n")
    wrong = [cell for cell in cells if bool(lacking[cell]) != (cell in NOT_THERE)]
    for name, python in wrong:
        sys.stderr.write(f"\n{name}, Python {python}: {lacking[name, python] or 'has all wheels, unlike the table'}\n")
    return 1 if wrong else 0


def said(cell: Cell, lacking: Mapping[Cell, str]) -> str:
    """Return what the table says of a platform and a Python."""
    return "no wheels" if lacking[cell] else "no: the start says so" if cell in TOLD else "yes"


def unavailable(project: Path, environment: Mapping[str, str], cell: Cell) -> str:
    """Return what stands in the way of an installation from wheels alone, nothing when there are all."""
    name, python = cell
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--only-binary=:all:", "--system-certs"]
    command += ["--no-python-downloads", f"--python={sys.executable}", f"--python-version={python}"]
    command += [f"--python-platform={PLATFORMS[name]}", str(project)]
    macos = {"MACOSX_DEPLOYMENT_TARGET": name[6:8]} if name.startswith("macOS") else {}
    done = subprocess.run(
        command, env={**environment, **macos}, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    return "" if done.returncode == 0 else done.stderr.strip() or f"uv ended with exit code {done.returncode}"


def indexes() -> dict[str, str]:
    """Return the setting that makes uv ask the index that pip asks, which uv does not read; nothing when uv has its own."""
    if any(name in os.environ for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL")):
        return {}
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    found = dict(re.findall(r"^(:env:|download|install|global)\.index-url='(.+)'$", listed, re.MULTILINE))
    first = next((found[scope] for scope in (":env:", "download", "install", "global") if scope in found), None)
    return {"UV_DEFAULT_INDEX": first} if first else {}


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:2])))
