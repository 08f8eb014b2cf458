"""Where pgengram cannot run it says so, and what to use instead."""

from __future__ import annotations

import subprocess
import sys

import pytest

PRETENDED = """
import platform, sys
from pgengram.__main__ import main
system, machine, python = sys.argv[1:4]
del sys.argv[1:4]
sys.platform, sys.version_info = system, tuple(map(int, python.split(".")))
platform.machine = lambda: machine
main()
"""


@pytest.mark.parametrize(
    ("system", "machine", "python", "advice"),
    [
        ("win32", "ARM64", "3.13", "Install the 64-bit (x86-64) Python"),
        ("darwin", "x86_64", "3.14", "Install it with Python 3.13"),
    ],
)
def test_on_a_platform_that_lacks_a_part_the_start_says_what_to_install(
    system: str, machine: str, python: str, advice: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRETENDED, system, machine, python, "--version"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert advice in done.stderr
    assert len(done.stderr.splitlines()) == 1
