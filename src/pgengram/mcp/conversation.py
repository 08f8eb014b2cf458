"""What a client and this server say to each other: lines in, lines out, and which requests are still unanswered."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, deque
from typing import Final, Protocol

from pgengram.mcp.stdio.lines import Line, ReplayState

MAX_IN_FLIGHT: Final = 256  # calls at once; further ones wait unread in the pipe
DRAIN_S: Final = 1.0  # for calls in flight at the end; the SDK's client sends SIGTERM 2 s after closing the pipe

Id = int | str


class Lines(Protocol):
    """Lines in and lines out."""

    async def line(self) -> Line | None:
        """Return the next line; None when no more come."""

    def write(self, data: bytes) -> None:
        """Send whole lines."""

    async def drain(self) -> None:
        """Wait until most of what was sent has been read."""


class Conversation:
    """One client's lines over one channel, knowing which requests are still unanswered.

    Args:
        channel: to the client.
        replay: what the client has said to a server that is gone, if this conversation goes on with it. What that one
            has asked the client is not taken for a question of ours: each conversation marks its own.
        mark: stands before the number of each question to the client; empty for a conversation without a past.
    """

    def __init__(self, channel: Lines, replay: ReplayState | None = None, mark: str = "") -> None:
        self._channel = channel
        handshake, unanswered = ([], []) if replay is None else replay.replayed()
        self._earlier: deque[Line] = deque([*handshake, *unanswered])
        # The handshake, if the client has had the answer: it is repeated, and the second answer not sent.
        self._silent: Id | None = json.loads(handshake[0])["id"] if replay is not None and replay.is_greeted else None
        self.mark = mark
        self._unanswered: Counter[Id] = Counter()
        self._changed = asyncio.Event()
        self.answered = asyncio.Event()  # set once the first request is answered
        self.ended = asyncio.Event()  # set once nothing more is read

    def begin(self, id_: Id) -> None:
        """Note a request."""
        self._unanswered[id_] += 1

    def settle(self, id_: Id | None) -> None:
        """Note that a request is answered, or never will be."""
        if id_ is None:
            return
        if self._unanswered[id_] > 1:
            self._unanswered[id_] -= 1
        else:
            self._unanswered.pop(id_, None)
        self._changed.set()
        self.answered.set()

    @property
    def is_settled(self) -> bool:
        """Whether all that was begun is answered."""
        return not self._unanswered

    async def below(self, count: int) -> None:
        """Wait until fewer than `count` requests are unanswered."""
        while self._unanswered.total() >= count:
            self._changed.clear()
            await self._changed.wait()

    async def line(self) -> Line | None:
        """Return the next line; None at the end, once calls in flight are drained."""
        line = self._earlier.popleft() if self._earlier else await self._channel.line()
        if line is not None:
            return line
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.below(1), DRAIN_S)
        self.ended.set()
        return None

    async def send(self, data: bytes, id_: Id | None = None, *, is_result: bool = False) -> None:
        """Send a line, which settles the request `id_`."""
        if is_result and self._silent is not None and id_ == self._silent:
            self._silent = None
            self.settle(id_)
            return
        self._channel.write(data)
        self.settle(id_)
        await self._channel.drain()
