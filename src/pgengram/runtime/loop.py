"""The event loop that everything runs in."""

from __future__ import annotations

import asyncio
import sys


def event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that psycopg can use: on Windows that is the selector loop, not the default."""
    return asyncio.SelectorEventLoop() if sys.platform == "win32" else asyncio.new_event_loop()
