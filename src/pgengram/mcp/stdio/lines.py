"""Bytes cut into lines, and the id and refusal of a line that cannot be read as a message."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from pgengram.mcp.stdio.watchdog import ParentWatchdog
from pgengram.runtime import local_socket

TYPE_CHECKING = False  # as in local_socket
if TYPE_CHECKING:
    from pgengram.mcp.stdio.first_server import FirstServer


MAX_LINE: Final = 8 * 2**20  # bytes; the HTTP transport of the SDK stops at 4 MiB
MAX_CONTAINERS: Final = 250_000  # lists and objects in a frame; 8 MiB of [] would take a gigabyte
MAX_VALUES: Final = 1_000_000  # told by the commas; 8 MiB of vectors have fewer

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603

Id = int | str | None


@dataclass(frozen=True, slots=True)
class Oversized:
    """What is left of a line longer than `MAX_LINE`: its two ends, in which its id may be."""

    head: bytes
    tail: bytes


Line = bytes | Oversized


class Lines:
    """Cuts chunks into lines and never holds more than one line's limit."""

    KEPT = 1_024  # bytes kept of each end of an oversized line

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._partial = bytearray()
        self._head: bytes | None = None  # set while an oversized line is being skipped

    def feed(self, chunk: bytes) -> list[Line]:
        """Return the lines that `chunk` completes, without their line ends."""
        *whole, rest = chunk.split(b"\n")
        lines: list[Line] = []
        for piece in whole:
            self._grow(piece)
            lines.append(self._take())
        self._grow(rest)
        return lines

    def close(self) -> list[Line]:
        """Return the last line when it has no line end."""
        return [self._take()] if self._partial or self._head is not None else []

    def _grow(self, piece: bytes) -> None:
        self._partial += piece
        if self._head is None and len(self._partial) > self._limit:
            self._head = bytes(self._partial[: self.KEPT])
        if self._head is not None:
            del self._partial[: -self.KEPT]

    def _take(self) -> Line:
        line, head = bytes(self._partial), self._head
        self._partial, self._head = bytearray(), None
        return line.removesuffix(b"\r") if head is None else Oversized(head, line)


# A string that never ends runs to the end of the text: with that, no input takes more than one pass.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_ID_VALUE = re.compile(rb'\s*:\s*(-?\d{1,18}|"[^"\\]{0,256}")\s*[,}]')
_ID_AT_END = re.compile(rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\]{0,256}")\s*\}\s*\Z')
_SCANNED = 2**16  # bytes at the start of a broken frame in which its id is looked for


def recovered_id(line: Line) -> Id:
    """Return the id of a frame that cannot be parsed, or None when it cannot be told for sure.

    Only a member of the outermost object counts: an `"id"` among the arguments belongs to somebody else.
    """
    head, tail = (line.head, line.tail) if isinstance(line, Oversized) else (line[:_SCANNED], line[-Lines.KEPT :])
    found = _outermost_id(head) or _ID_AT_END.search(tail)
    if found is None:
        return None
    try:
        value = json.loads(found[1])
    except ValueError:
        return None
    return value if isinstance(value, int | str) else None


def _outermost_id(text: bytes) -> re.Match[bytes] | None:
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in b"{[":
            depth += 1
        elif token[0] in b"}]":
            depth -= 1
        elif depth == 1 and token[0] == b'"id"' and (value := _ID_VALUE.match(text, token.end())):
            return value
    return None


def has_too_much(line: bytes) -> bool:
    """Whether a line would take too much memory once it is parsed."""
    return line.count(b"[") + line.count(b"{") > MAX_CONTAINERS or line.count(b",") > MAX_VALUES


def line_too_long(line: Oversized) -> bytes:
    """Return the answer to a line that is longer than allowed, as a line."""
    return refusal(recovered_id(line), INVALID_REQUEST, f"Longer than {MAX_LINE:,} bytes; send less at once.")


def refusal(id_: Id, code: int, message: str) -> bytes:
    """Return a JSON-RPC error as a line."""
    frame = {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}
    return json.dumps(frame, separators=(",", ":")).encode() + b"\n"


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
        message = None if has_too_much(line) else local_socket.parsed_object(line)
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
