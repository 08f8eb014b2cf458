"""Ways to bring files to where other machines find them, if the machines share no folder; one module for each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 300.0
IDLE_PAUSES: Final = 4  # of a remote that starts a program, and elsewhere another, for each look


def with_bytes(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield files of a folder with their bytes."""
    for name in names:
        yield name, (folder / name).read_bytes()


def run_program(command: Sequence[str], given: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
    """Run a program with this input, and return what it wrote.

    Raises:
        OSError: it is not there, failed, or took too long.
    """
    program = command[0]
    try:
        done = subprocess.run(  # noqa: S603 - git and ssh, with what we put together
            command, input=given, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise ConnectionError(f"{program} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ConnectionError(f"{program} did not end within {TIMEOUT_S:g} seconds") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ConnectionError(f"{program} says: {last or f'exit code {done.returncode}'}")
    return done.stdout
