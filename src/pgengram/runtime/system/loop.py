"""The event loop that everything runs in."""

from __future__ import annotations

import asyncio
import sys

# Windows' selector loop registers a pipe without an error and fails later, when it waits for it.
WAITS_FOR_PIPES = sys.platform != "win32"


def event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that psycopg can use: on Windows that is the selector loop, not the default."""
    return asyncio.SelectorEventLoop() if sys.platform == "win32" else asyncio.new_event_loop()
