"""What a client has said and what is unanswered, so that another server can go on where one has ended.

Standard library only, as every relay keeps it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from pgengram.mcp.stdio.lines import Lines, has_too_much
from pgengram.mcp.stdio.watchdog import ParentWatchdog

TYPE_CHECKING = False  # as in local_socket
if TYPE_CHECKING:
    from typing import Final

    from pgengram.mcp.stdio.first_server import FirstServer

_ANSWER: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(?:result|error)"')


@dataclass
class ReplayState:
    """What a client has said to a server that is gone.

    Args:
        handshake: the lines of the handshake.
        is_greeted: whether the handshake was answered.
        unanswered: requests without an answer, in their order.
        is_certain: whether the server that is gone has not begun any of these.
        unsent: what it answered and the client has not read yet.
        rest: what has arrived of the client's next line.
        watchdog: the thread that waits for the client's end, once there is one.
        first: the lock that its holder has to give back; None for a server that stands in for nobody.
    """

    handshake: list[bytes] = field(default_factory=list)
    is_greeted: bool = False
    unanswered: list[tuple[object, bytes]] = field(default_factory=list)
    is_certain: bool = False
    unsent: bytes = b""
    rest: Lines = field(default_factory=Lines)
    watchdog: ParentWatchdog | None = None
    first: FirstServer | None = None

    @property
    def perhaps_done(self) -> set[object]:
        """The ids of requests that the server that is gone may have done."""
        return set() if self.is_certain else {id_ for id_, _ in self.unanswered}

    def restore(self, line: bytes, *, is_handshake: bool) -> None:
        """Note what another server says of its client."""
        if is_handshake:
            self.handshake.append(line)
        else:
            self.note_request(line)

    def note_request(self, line: bytes) -> None:
        """Note what the client says."""
        message = None if has_too_much(line) else parsed_object(line)
        if message is None:
            return
        method, id_ = message.get("method"), message.get("id")
        if method == "initialize":
            self.handshake, self.is_greeted = [line], False
        elif method == "notifications/initialized":
            self.handshake.append(line)
        if method == "notifications/cancelled":
            params = message.get("params")
            self._settle(params.get("requestId") if isinstance(params, dict) else None)
        elif isinstance(method, str) and isinstance(id_, int | str):
            self.unanswered.append((id_, line))

    def note_answer(self, line: bytes) -> None:
        """Note what the server says."""
        found = _ANSWER.match(line)
        if found is not None:
            self._settle(json.loads(found[1]))

    def replayed(self) -> tuple[list[bytes], list[bytes]]:
        """Return the lines that a new server is told: the handshake, and what it is to answer."""
        open_ = [line for _, line in self.unanswered if line not in self.handshake[:1]]
        return self.handshake, open_

    def _settle(self, id_: object) -> None:
        for index, (asked, line) in enumerate(self.unanswered):
            if asked == id_ and isinstance(asked, str) is isinstance(id_, str):
                self.is_greeted = self.is_greeted or line in self.handshake[:1]
                del self.unanswered[index]
                return


def parsed_object(line: bytes) -> dict[str, object] | None:
    """Return a line of JSON as an object; None where it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
