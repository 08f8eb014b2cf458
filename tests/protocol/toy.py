"""A small server over the real edge: its manager remembers nothing, but can be slow, stuck, loud and broken.

Run as a script it serves stdio. The environment sets it up: TOY_JOURNAL is a file that its life is written to,
TOY_READY_S how long it takes to get ready; TOY_LOUD makes it print before it serves, TOY_START and TOY_CLOSE make it stuck there;
TOY_WINDOWS gives it a loop that waits for sockets only.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import hashlib
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pgengram.mcp.stdio.watchdog import claim_stdio
from pgengram.runtime import process_setup

if __name__ == "__main__":
    claim_stdio()
    gc.disable()
    if os.environ.get("TOY_LOUD"):
        print("a print before serving")  # noqa: T201
        os.write(1, b"bytes before serving\n")
    if os.environ.get("TOY_START") == "stuck":
        time.sleep(3_600)

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from pgengram.errors import NotFound
from pgengram.service.tools import ADDS, READS, REMOVES, Tool, tool, tools_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Words = Annotated[list[str], Field(max_length=3, description="Labels.")]
Weight = Annotated[float, Field(ge=0, le=1, description="How much it matters.")]
Text = Annotated[str, Field(min_length=1, max_length=100_000, description="What to keep.")]


class Note(BaseModel):
    """One note."""

    model_config = ConfigDict(extra="forbid")

    text: Text
    weight: Weight = 0.5
    words: Words = []
    when: Annotated[AwareDatetime | None, Field(description="When it happened.")] = None


class Kept(BaseModel):
    """What was kept, as it was understood."""

    ok: bool = True
    place: str | None
    text: str
    weight: float
    words: list[str]
    detail: dict[str, Any] = {}
    kind: Literal["fact", "plan"] | None = None
    label: str | None = None
    first: Note | None = None
    when: AwareDatetime | None = None


class Said(BaseModel):
    """A few words."""

    ok: bool = True
    message: str


class Manager:
    """Has one tool for every way in which a call can go."""

    def __init__(self) -> None:
        self.tools: list[Tool] = tools_of(self)
        self._journal = os.environ.get("TOY_JOURNAL")
        self._left_s = float(os.environ.get("TOY_READY_S", "0"))
        self._opening = asyncio.Lock()

    def write(self, line: str) -> None:
        if self._journal:
            with open(self._journal, "a", encoding="utf-8") as journal:
                journal.write(line + "\n")

    async def ready(self, report: Callable[[str], Awaitable[None]] | None, embeds: bool = True) -> None:  # noqa: ARG002 - has no model
        async with self._opening:
            while self._left_s > 0:
                if report is not None:
                    await report("starting the database")
                await asyncio.sleep(0.05)
                self._left_s -= 0.05

    async def open(self) -> None:
        self.write("open")

    async def close(self) -> None:
        self.write("close")
        if os.environ.get("TOY_CLOSE") == "stuck":
            await asyncio.sleep(3_600)

    @tool(ADDS, title="Keep a note")
    async def keep(
        self,
        text: Text,
        weight: Weight = 0.5,
        words: Words = [],  # noqa: B006 - never changed
        detail: Annotated[dict[str, Any], Field(description="Anything else.")] = {},  # noqa: B006
        kind: Annotated[Literal["fact", "plan"] | None, Field(description="What it is.")] = None,
        label: Annotated[str | None, Field(max_length=50, description="What to call it.")] = None,
        when: Annotated[AwareDatetime | None, Field(description="When it happened.")] = None,
    ) -> Kept:
        """Keep one note and say how it was understood."""
        return Kept(place=None, text=text, weight=weight, words=words, detail=detail, kind=kind, label=label, when=when)

    @tool(ADDS, title="Keep notes")
    async def keep_many(
        self, notes: Annotated[list[Note], Field(min_length=1, max_length=5, description="The notes.")]
    ) -> Kept:
        """Keep several notes and say how the first was understood."""
        return Kept(place=None, text=str(len(notes)), weight=0, words=[], first=notes[0])

    @tool(READS, title="Wait")
    async def wait(self, seconds: Annotated[float, Field(ge=0, le=120, description="How long.")] = 0.1) -> Said:
        """Take its time, and notice when it is called off."""
        self.write("waiting")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.write("cancelled")
            raise
        self.write("waited")
        return Said(message="waited")

    @tool(READS, title="Get stuck")
    async def get_stuck(self, how: Annotated[Literal["loop", "deaf"], Field(description="In which way.")]) -> Said:
        """Block the event loop, or never listen to a cancellation."""
        self.write("stuck")
        if how == "loop":
            _stand_still()
        while True:
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                self.write("deaf")

    @tool(REMOVES, title="Fail")
    async def fail(
        self, how: Annotated[Literal["foreseen", "unforeseen", "partly", "unwritable"], Field(description="How.")]
    ) -> Said:
        """Fail in a chosen way."""
        if how == "foreseen":
            raise NotFound("memory", "m-1")
        if how == "partly":
            return Said(ok=False, message="one of two failed")
        if how == "unwritable":
            return Said.model_construct(ok=True, message="\ud800")
        raise RuntimeError("postgresql://someone:hunter2@host/db")

    @tool(READS, title="Make noise")
    async def make_noise(self) -> Said:
        """Write to the standard output in every way there is."""
        print("a print while serving", flush=True)  # noqa: T201
        os.write(1, b"bytes while serving\n")
        warnings.warn("a warning while serving", stacklevel=1)
        subprocess.run([sys.executable, "-c", "print('a child')"], check=True)  # noqa: ASYNC221
        return Said(message="noisy")


def _stand_still() -> None:
    """Spend minutes in which no Python code runs, a signal's handler neither."""
    if sys.platform == "linux":  # where a mutex that is all zeros is an open one: no processor is kept busy
        libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
        libc.pthread_mutex_lock(mutex)
        libc.pthread_mutex_lock(mutex)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000_000)


async def main() -> None:
    """Serve a manager that is made inside the loop."""
    from pgengram.mcp.serving import serve_stdio
    from pgengram.settings import Settings

    await serve_stdio(Manager(), Settings())


if __name__ == "__main__":
    factory = None
    if os.environ.get("TOY_WINDOWS"):
        sys.path.append(str(Path(__file__).parents[1]))
        from windows_like import WindowsLoop

        factory = WindowsLoop

        process_setup.WAITS_FOR_PIPES = False
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
