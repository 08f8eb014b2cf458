"""A server that another one of the same store stands in for.

What serves takes a hundred megabytes and more, so of several servers of one store, each started by its client, only the
first loads it. The others pass lines on to it and its answers back. They know what their client has asked and what was
answered: when the first server ends, however it ends, they ask the next one again, or become it. Standard library only,
as each of them lives as long as its client.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import sys
import time
from dataclasses import dataclass, field

from pgengram import __version__
from pgengram.mcp.stdio.fds import StdioFds
from pgengram.mcp.stdio.lines import Line, Lines, Oversized, has_too_much, too_long
from pgengram.mcp.stdio.watchdog import ParentWatchdog
from pgengram.runtime import local_socket

TYPE_CHECKING = False  # as in local_socket
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

if sys.platform != "win32":
    import fcntl

# Settings that each client has for itself: they go along. All others are of the process, and servers that differ in
# them don't stand in for each other, nor do those that differ in what libpq and OpenTelemetry read.
OWN: Final = tuple(f"PGENGRAM_{name}" for name in ("NAMESPACE", "PROJECT", "TOOLSETS", "COMPAT", "SECRETS", "ANSWERS"))
OF_PROCESS: Final = ("PG", "OTEL_")
FOLDER: Final = "PGENGRAM_DATA_DIR"  # in which the socket is
CLOSED: Final = b'{"closed":true}'  # the last line of a server that has done nothing but what it answered
RELAYED: Final = {"relayed": True}

START_S: Final = 30.0  # in which a server that has begun to start listens
GREETING_S: Final = 10.0
POLL_S: Final = 0.02
SILENT_S: Final = 5.0  # without a word while something is unanswered, until the server is asked whether it lives
STUCK_S: Final = 10.0  # after that question
CHUNK: Final = 2**16
AHEAD: Final = 2**20  # bytes held for one side before the other is read no further
_ANSWER: Final = re.compile(rb'\{"jsonrpc":"2\.0","id":(-?\d+|"(?:[^"\\]|\\.)*"),"(?:result|error)"')


class FirstServer:
    """Where the server that stands in for others with the same settings listens, and the lock that makes it the first.

    Args:
        environ: the settings, as environment variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        import hashlib

        shared = [
            f"{name}={value}"
            for name, value in sorted(environ.items())
            if value and name.startswith(OF_PROCESS) and name not in (*OWN, FOLDER)
        ]
        decisive = "\0".join((__version__, sys.executable, os.path.abspath(__file__), *shared))
        key = f"all-{hashlib.sha256(os.fsencode(decisive)).hexdigest()[:12]}"
        self.place = local_socket.Endpoints(environ)
        self.path = os.path.join(self.place.folder, f"{key}.first")
        self._lock = os.path.join(self.place.folder, f"{key}.lock")
        self._held = -1

    def prepare(self) -> bool:
        """Make the folder; return whether servers can stand in for each other here at all."""
        if sys.platform == "win32" or len(os.fsencode(self.path)) > local_socket.LONGEST_PATH:
            return False
        try:
            self.place.make()
        except OSError:
            return False
        return True

    def take(self) -> bool:
        """Become the first server; False while there is one, and while the folder is taken away and made again."""
        try:
            fd = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            self.place.make()
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        if os.fstat(fd).st_nlink == 0:  # released between our two steps: the name means another file now
            os.close(fd)
            return False
        self._held = fd
        return True

    def release(self) -> None:
        """Let another server become the first."""
        if self._held >= 0:
            for path in (self.path, self._lock):
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    continue
            os.close(self._held)
            self._held = -1

    def give_up(self) -> None:
        """Leave the folder as it was: this process cannot serve."""
        self.release()
        try:
            os.rmdir(self.place.folder)
        except OSError:  # others use it
            return

    def connect(self) -> socket.socket | None:
        """Return a connection; None while nobody listens."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(GREETING_S)
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            return None
        return connection


@dataclass
class Handover:
    """What a client has said to a server that is gone.

    Args:
        begun: the lines of the handshake.
        is_greeted: whether the handshake was answered.
        unanswered: requests without an answer, in their order.
        is_certain: whether the server that is gone has not begun any of these.
        unsent: what it answered and the client has not read yet.
        rest: what has arrived of the client's next line.
        watchdog: the thread that waits for the client's end, once there is one.
        first: the lock that its holder has to give back; None for a server that stands in for nobody.
    """

    begun: list[bytes] = field(default_factory=list)
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

    def heard_again(self, line: bytes, *, begun: bool) -> None:
        """Note what another server says of its client."""
        if begun:
            self.begun.append(line)
        else:
            self.asked(line)

    def asked(self, line: bytes) -> None:
        """Note what the client says."""
        message = None if has_too_much(line) else _parsed(line)
        if message is None:
            return
        method, id_ = message.get("method"), message.get("id")
        if method == "initialize":
            self.begun, self.is_greeted = [line], False
        elif method == "notifications/initialized":
            self.begun.append(line)
        if method == "notifications/cancelled":
            params = message.get("params")
            self._settle(params.get("requestId") if isinstance(params, dict) else None)
        elif isinstance(method, str) and isinstance(id_, int | str):
            self.unanswered.append((id_, line))

    def answered(self, line: bytes) -> None:
        """Note what the server says."""
        found = _ANSWER.match(line)
        if found is not None:
            self._settle(json.loads(found[1]))

    def replayed(self) -> tuple[list[bytes], list[bytes]]:
        """Return the lines that a new server is told: the handshake, and what it is to answer."""
        open_ = [line for _, line in self.unanswered if line not in self.begun[:1]]
        return self.begun, open_

    def _settle(self, id_: object) -> None:
        for place, (asked, line) in enumerate(self.unanswered):
            if asked == id_ and isinstance(asked, str) is isinstance(id_, str):
                self.is_greeted = self.is_greeted or line in self.begun[:1]
                del self.unanswered[place]
                return


class _Alone(Exception):
    """Nobody can stand in for this server."""


def relayed(fds: StdioFds, environ: Mapping[str, str]) -> Handover | None:
    """Pass everything on to the first server of the store until the client leaves, and return None then; or return what
    this process has to begin with, as it serves itself.

    It serves itself where it is the first server, or becomes it as the one before is gone, or where no other can stand
    in for it.
    """
    first = FirstServer(environ)
    if not first.prepare():
        return Handover()
    return _Relay(fds, first, environ).run()


class _Relay:
    def __init__(self, fds: StdioFds, first: FirstServer, environ: Mapping[str, str]) -> None:
        self._fds = fds
        self._first = first
        self._own = {name: environ[name] for name in OWN if environ.get(name)}
        self._handover = Handover()
        self._to_client = bytearray()
        self._ended = False  # the client says no more
        self._lost = False  # it reads no more
        self._stopped = False  # there is a reason to end
        self._woken, self._wake = os.pipe()

    def run(self) -> Handover | None:
        try:
            while (connection := self._connected()) is not None:
                with connection:
                    if _Exchange(self, connection).is_over():
                        return None
            if self._stopped:
                return None
            self._handover.first = self._first
        except _Alone:
            pass
        self._handover.unsent = bytes(self._to_client)
        return self._handover

    def _connected(self) -> socket.socket | None:
        """Return a connection to the first server; None once this process is it, or is to end."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._first.take():
                return None
            connection = self._first.connect()
            if connection is not None and self._greet(connection):
                self._watch()
                return connection
            if select.select([self._woken], [], [], POLL_S)[0]:
                self._stopped = True
                return None
        raise _Alone

    def _greet(self, connection: socket.socket) -> bool:
        """Tell a server whom it stands in for; False where it ended meanwhile."""
        begun, unanswered = self._handover.replayed()
        hello = {
            "settings": self._own,
            "folder": local_socket.working_folder(),
            "begun": len(begun),
            "is_greeted": self._handover.is_greeted,
            "unanswered": len(unanswered),
            "is_certain": self._handover.is_certain,
        }
        try:
            connection.sendall(b"\n".join((json.dumps(hello).encode(), *begun, *unanswered, b"")))
            answer = connection.makefile("rb", buffering=0).readline()
        except OSError:
            answer = b""
        if answer and _parsed(answer) != RELAYED:
            connection.close()
            raise _Alone
        if not answer:
            connection.close()
        self._handover.is_certain = self._handover.is_certain and not answer
        return bool(answer)

    def _watch(self) -> None:
        if self._handover.watchdog is None:
            self._handover.watchdog = ParentWatchdog(self._fds, self._stop)
            self._handover.watchdog.start()

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
        self._handover = relay._handover
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
        answered = self._is_closed or not self._handover.unanswered
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
        held, patience_s = len(self._to_client), SILENT_S if self._handover.unanswered else None
        reads: list[Any] = [self._relay._woken]
        if held < AHEAD:
            reads.append(self._connection)
            if len(self._to_server) < AHEAD and not self._relay._ended:
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
        for line in self._handover.rest.feed(chunk) if chunk else self._handover.rest.close():
            self._pass_on(line)
        if not chunk:
            self._end()

    def _pass_on(self, line: Line) -> None:
        if isinstance(line, Oversized):
            self._to_client += too_long(line)
            return
        if not self._handover.unanswered:
            self._heard, self._questioned = time.monotonic(), False
        self._handover.asked(line)
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
                self._is_closed = self._handover.is_certain = True
            elif line:
                self._handover.answered(line)
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
            _Alone: it is stuck, perhaps suspended with the terminal of its client; it is still the first server.
        """
        now = time.monotonic()
        if heard or not self._handover.unanswered:
            self._heard, self._questioned = now, False
        elif not self._questioned and now - self._heard > SILENT_S:
            self._to_server += b"\n"
            self._heard, self._questioned = now, True
        elif self._questioned and now - self._heard > STUCK_S:
            raise _Alone


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:  # it is gone, which the next read tells
        return


def _parsed(line: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
