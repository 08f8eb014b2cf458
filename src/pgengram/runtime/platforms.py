"""The platforms on which a part of pgengram cannot be had, and what to use instead."""

from __future__ import annotations

import io
import platform
import sys
from typing import Final

INSTEAD: Final = {
    ("win32", "ARM64"): "pgengram does not run on Python for Windows on Arm, which psycopg lacks. "
    "Install the 64-bit (x86-64) Python from python.org, which Windows 11 on Arm runs too, and install pgengram with "
    "it.",
    ("darwin", "x86_64"): "pgengram does not run on Python 3.14 on Intel Macs, which onnxruntime lacks. "
    "Install it with Python 3.13.",
}


def refuse_unsupported() -> None:
    """End the program with a sentence where it cannot run."""
    here = (sys.platform, platform.machine())
    if here in INSTEAD and (sys.platform != "darwin" or sys.version_info >= (3, 14)):
        sys.stderr.write(f"pgengram: {INSTEAD[here]}\n")
        raise SystemExit(2)


def use_utf8() -> None:
    """Read and write UTF-8 on the standard streams, also where Windows would use its code page: in pipes and files."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
