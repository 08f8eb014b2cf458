"""The encoding of the standard streams."""

from __future__ import annotations

import io
import sys


def use_utf8() -> None:
    """Read and write UTF-8 on the standard streams, also where Windows would use its code page: in pipes and files."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
