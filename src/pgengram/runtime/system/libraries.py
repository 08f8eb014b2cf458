"""The C++ libraries of Microsoft, which neither Windows nor Python brings and onnxruntime needs."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

NEEDED: Final = ("msvcp140.dll", "msvcp140_1.dll") if sys.platform == "win32" else ()
INSTALL: Final = "Run `winget install Microsoft.VCRedist.2015+.x64`, then start again."


def missing_libraries() -> list[str]:
    """Return the names of those that cannot be loaded; none on other systems than Windows."""
    return [name for name in NEEDED if not _loads(name)]


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
