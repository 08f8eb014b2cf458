"""A server that another one of the same store stands in for.

What serves takes a hundred megabytes and more, so of several servers of one store, each started by its client, only the
first loads it. The others pass lines on to it and its answers back. They know what their client has asked and what was
answered: when the first server ends, however it ends, they ask the next one again, or become it. Standard library only,
as each of them lives as long as its client.
"""

from __future__ import annotations

import json
import os
import select
import socket
import time

from pgengram.mcp.stdio.first_server import OWN, FirstServer
from pgengram.mcp.stdio.lines import Line, Oversized, ReplayState, line_too_long
from pgengram.mcp.stdio.watchdog import ParentWatchdog, StdioFds
from pgengram.runtime import local_socket

TYPE_CHECKING = False  # as in local_socket
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

CLOSED: Final = b'{"closed":true}'  # the last line of a server that has done nothing but what it answered
RELAYED: Final = {"relayed": True}

START_S: Final = 30.0  # in which a server that has begun to start listens
POLL_S: Final = 0.02
SILENT_S: Final = 5.0  # without a word while something is unanswered, until the server is asked whether it lives
STUCK_S: Final = 10.0  # after that question
CHUNK: Final = 2**16
MAX_BUFFERED: Final = 2**20  # bytes held for one side before the other is read no further


class _NoServerToRelayTo(Exception):
    """Nobody can stand in for this server."""


def relayed(fds: StdioFds, environ: Mapping[str, str]) -> ReplayState | None:
    """Pass everything on to the first server of the store until the client leaves, and return None then; or return what
    this process has to begin with, as it serves itself.

    It serves itself where it is the first server, or becomes it as the one before is gone, or where no other can stand
    in for it.
    """
    first = FirstServer(environ)
    if not first.prepare():
        return ReplayState()
    return _Relay(fds, first, environ).run()


class _Relay:
    def __init__(self, fds: StdioFds, first: FirstServer, environ: Mapping[str, str]) -> None:
        self._fds = fds
        self._first = first
        self._own = {name: environ[name] for name in OWN if environ.get(name)}
        self._replay = ReplayState()
        self._to_client = bytearray()
        self._ended = False  # the client says no more
        self._lost = False  # it reads no more
        self._stopped = False  # there is a reason to end
        self._woken, self._wake = os.pipe()

    def run(self) -> ReplayState | None:
        try:
            while (connection := self._connected()) is not None:
                with connection:
                    if _Exchange(self, connection).is_over():
                        return None
            if self._stopped:
                return None
            self._replay.first = self._first
        except _NoServerToRelayTo:
            pass
        self._replay.unsent = bytes(self._to_client)
        return self._replay

    def _connected(self) -> socket.socket | None:
        """Return a connection to the first server; None once this process is it, or is to end."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._first.prepare():
            if self._first.take():
                return None
            connection = self._first.connect()
            if connection is not None and self._greet(connection):
                self._watch()
                return connection
            if select.select([self._woken], [], [], POLL_S)[0]:
                self._stopped = True
                return None
        raise _NoServerToRelayTo

    def _greet(self, connection: socket.socket) -> bool:
        """Tell a server whom it stands in for; False where it ended meanwhile."""
        handshake, unanswered = self._replay.replayed()
        hello = {
            "first": self._first.key,
            "settings": self._own,
            "folder": local_socket.working_folder(),
            "handshake": len(handshake),
            "is_greeted": self._replay.is_greeted,
            "unanswered": len(unanswered),
            "is_certain": self._replay.is_certain,
        }
        try:
            connection.sendall(b"\n".join((json.dumps(hello).encode(), *handshake, *unanswered, b"")))
            answer = connection.makefile("rb", buffering=0).readline()
        except OSError:
            answer = b""
        if answer and local_socket.parsed_object(answer) != RELAYED:
            connection.close()
            raise _NoServerToRelayTo
        if not answer:
            connection.close()
        self._replay.is_certain = self._replay.is_certain and not answer
        return bool(answer)

    def _watch(self) -> None:
        if self._replay.watchdog is None:
            self._replay.watchdog = ParentWatchdog(self._fds, self._stop)
            self._replay.watchdog.start()

    def _stop(self) -> None:
        os.write(self._wake, b"\0")


class _Exchange:
    """Lines in both directions, until the client or the server is gone.

    Args:
        relay: what outlives this server.
        connection: to it, greeted.
    """

    def __init__(self, relay: _Relay, connection: socket.socket) -> None:
        self._relay = relay
        self._replay = relay._replay
        self._to_client = relay._to_client
        self._fds = relay._fds
        self._connection = connection
        self._to_server = bytearray()
        self._from_server = bytearray()  # of the line that is arriving
        self._is_closed = False  # the server said goodbye
        self._heard = time.monotonic()
        self._questioned = False  # whether it was asked for a sign of life
        connection.setblocking(False)
        if relay._ended:
            _shut(connection)

    def is_over(self) -> bool:
        """Exchange, and return whether the client has left; else the server has."""
        while self._turn():
            pass
        relay = self._relay
        answered = self._is_closed or not self._replay.unanswered
        return relay._lost or relay._stopped or (relay._ended and answered)

    def _turn(self) -> bool:
        """Wait for something to happen and do it; False at the end."""
        relay, server = self._relay, self._connection
        ready, free = self._ready()
        if relay._woken in ready:
            os.read(relay._woken, CHUNK)
            relay._stopped = True
            self._end()
        if self._fds.read_fd in ready:
            self._read_client()
        if self._fds.write_fd in free:
            self._write_client()
        alive = (server not in free or self._write_server()) and (server not in ready or self._read_server())
        self._look_after(heard=server in ready)
        return alive and not relay._lost

    def _ready(self) -> tuple[list[Any], list[Any]]:
        """Return what can be read and what can be written; a side that does not read makes the other wait."""
        held, patience_s = len(self._to_client), SILENT_S if self._replay.unanswered else None
        reads: list[Any] = [self._relay._woken]
        if held < MAX_BUFFERED:
            reads.append(self._connection)
            if len(self._to_server) < MAX_BUFFERED and not self._relay._ended:
                reads.append(self._fds.read_fd)
        writes = [self._connection] * bool(self._to_server) + [self._fds.write_fd] * bool(held)
        return select.select(reads, writes, [], patience_s)[:2]

    def _read_client(self) -> None:
        try:
            chunk = os.read(self._fds.read_fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        for line in self._replay.rest.feed(chunk) if chunk else self._replay.rest.close():
            self._pass_on(line)
        if not chunk:
            self._end()

    def _pass_on(self, line: Line) -> None:
        if isinstance(line, Oversized):
            self._to_client += line_too_long(line)
            return
        if not self._replay.unanswered:
            self._heard, self._questioned = time.monotonic(), False
        self._replay.note_request(line)
        self._to_server += line + b"\n"

    def _end(self) -> None:
        """Take nothing more from the client, and let the server know once it has everything."""
        self._relay._ended = True
        if not self._to_server:
            _shut(self._connection)

    def _write_server(self) -> bool:
        try:
            del self._to_server[: self._connection.send(self._to_server)]
        except BlockingIOError:
            return True
        except OSError:
            return False
        if self._relay._ended and not self._to_server:
            _shut(self._connection)
        return True

    def _read_server(self) -> bool:
        try:
            chunk = self._connection.recv(CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        *lines, rest = (bytes(self._from_server) + chunk).split(b"\n")
        self._from_server[:] = rest
        for line in lines:
            if line == CLOSED:
                self._is_closed = self._replay.is_certain = True
            elif line:
                self._replay.note_answer(line)
                self._to_client += line + b"\n"
        self._write_client()
        return bool(chunk)

    def _write_client(self) -> None:
        if not self._to_client:
            return
        try:
            os.set_blocking(self._fds.write_fd, False)
            del self._to_client[: os.write(self._fds.write_fd, self._to_client)]
        except BlockingIOError:
            return
        except OSError:
            self._relay._lost = True

    def _look_after(self, *, heard: bool) -> None:
        """Ask a server that is silent for a sign of life, which is an empty line; leave one that gives none.

        Raises:
            _NoServerToRelayTo: it is stuck, perhaps suspended with the terminal of its client; it is still the first
            server.
        """
        now = time.monotonic()
        if heard or not self._replay.unanswered:
            self._heard, self._questioned = now, False
        elif not self._questioned and now - self._heard > SILENT_S:
            self._to_server += b"\n"
            self._heard, self._questioned = now, True
        elif self._questioned and now - self._heard > STUCK_S:
            raise _NoServerToRelayTo


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:  # it is gone, which the next read tells
        return
