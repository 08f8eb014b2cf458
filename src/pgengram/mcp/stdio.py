"""The process's standard streams as one line-wise channel, and every reason to end the process.

Nothing here knows MCP, and nothing heavy is imported, so that `claim_stdio` can run before anything may print.

Three parts: the `Wire` is the pair of descriptors, taken away from everybody else; the `Channel` carries lines over
it for one event loop; the `Lifeline` is a thread that notices when the client is gone and ends the process even if
the loop is stuck.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import queue
import re
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

MAX_LINE: Final = 8 * 2**20  # bytes; the HTTP transport of the SDK stops at 4 MiB
CHUNK: Final = 2**16  # bytes; what a Linux pipe holds
READ_AHEAD: Final = 64  # lines held before reading pauses
WRITE_AHEAD: Final = 2**20  # bytes held for a client that does not read, before its answers wait

STOP_S: Final = 8.5  # from the first reason to end until the process is gone, however stuck; promised are 10
INPUT_S: Final = 1.0  # after the client has hung up, to read what it sent before
TICK_S: Final = 2.0  # between two looks at the ancestors

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603

Id = int | str | None


# ---------------------------------------------------------------------------------------------------- the descriptors


@dataclass(frozen=True, slots=True)
class StdioFds:
    """The client's two pipes, as descriptors that nobody else has, and who started us."""

    read_fd: int
    write_fd: int
    parent: int


_fds: StdioFds | None = None


def claim_stdio() -> StdioFds:
    """Take stdin and stdout away from the rest of the process and return them; call it before anything else.

    Afterwards descriptor 0 reads nothing and 1 is stderr, so that no print, library or child can disturb the protocol.
    A signal that comes before `Lifeline` is started ends the process quietly, as there is nothing to clean up yet.
    Calling it again returns the same wire. Must run in the main thread.
    """
    global _fds
    if _fds is None:
        _fds = StdioFds(_private(0, os.O_RDONLY), _private(1, os.O_WRONLY), os.getppid())
        _divert(0, os.open(os.devnull, os.O_RDONLY))
        _divert(1, _stderr_or_null())
        _on_signals(lambda *_: os._exit(0))
    return _fds


def _private(fd: int, flags: int) -> int:
    """Duplicate a standard descriptor outside the standard range, hidden from children; the null device when closed."""
    try:
        return _above_standard(fd)
    except OSError:
        return _above_standard(os.open(os.devnull, flags))


def _above_standard(fd: int) -> int:
    if sys.platform == "win32":
        import msvcrt

        copy = os.dup(fd)
        msvcrt.setmode(copy, os.O_BINARY)
        return copy
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _stderr_or_null() -> int:
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _divert(fd: int, target: int) -> None:
    """Make `fd` mean what `target` means, for C code and children too."""
    os.dup2(target, fd)
    if target != fd:
        os.close(target)
    if sys.platform == "win32":  # children inherit the console handles, not the C runtime's descriptors
        import ctypes
        import msvcrt

        standard_handle = {0: -10, 1: -11}[fd]
        ctypes.windll.kernel32.SetStdHandle(standard_handle, ctypes.c_void_p(msvcrt.get_osfhandle(fd)))


def _on_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Handle every signal that asks the process to end; a hang-up ignored by `nohup` stays ignored."""
    for name in ("SIGTERM", "SIGINT", "SIGBREAK", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
            signal.signal(number, handler)


# ---------------------------------------------------------------------------------------------------------- the lines


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


def refusal(id_: Id, code: int, message: str) -> bytes:
    """Return a JSON-RPC error as a line."""
    frame = {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}
    return json.dumps(frame, separators=(",", ":")).encode() + b"\n"


# -------------------------------------------------------------------------------------------------------- the channel


class Channel:
    """Lines in and lines out over a wire, for the event loop that runs when it is made.

    Pipes are read and written by the loop itself, as a thread would cost each message two switches. What the loop
    cannot wait for (files, terminals, everything on Windows) and what a full pipe does not take is left to daemon
    threads, so that a client that neither reads nor writes never blocks the loop.

    Args:
        wire: the claimed descriptors.
        lost: called once when the client no longer reads.
    """

    def __init__(self, fds: StdioFds, lost: Callable[[], None]) -> None:
        self._fds = fds
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._splitter = Lines()
        self._lines: deque[Line] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ended = False
        self._by_loop = False
        self._unpaused = threading.Event()
        self._direct = _takes_at_once(fds.write_fd)
        self._broken = False
        self._pending = 0  # bytes given to the writer thread
        self._backlog: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._emptied: asyncio.Future[None] | None = None
        self._unpaused.set()
        self._start_reading()
        if sys.platform == "win32":
            self._tick()

    # Reading

    async def line(self) -> Line | None:
        """Return the next line, or None when the client sends no more or `end` was called."""
        while not self._lines:
            if self._ended:
                return None
            self._waiting = self._loop.create_future()
            await self._waiting
        line = self._lines.popleft()
        if not self._unpaused.is_set() and len(self._lines) < READ_AHEAD:
            self._unpaused.set()
            if self._by_loop and not self._ended:
                self._loop.add_reader(self._fds.read_fd, self._readable)
        return line

    def end(self) -> None:
        """Read no more; lines that have arrived are still handed out."""
        if not self._ended:
            self._ended = True
            self._stop_reader()
            self._wake()
            self._written(0)

    def _start_reading(self) -> None:
        try:
            self._loop.add_reader(self._fds.read_fd, self._readable)
            self._by_loop = True
        except (NotImplementedError, OSError, ValueError):
            threading.Thread(target=self._read_always, name="stdin", daemon=True).start()

    def _readable(self) -> None:
        try:
            self._feed(os.read(self._fds.read_fd, CHUNK))
        except BlockingIOError:
            return  # somebody else's read was faster
        except OSError:
            self._feed(b"")

    def _read_always(self) -> None:
        chunk = b"more"
        while chunk:
            try:
                chunk = os.read(self._fds.read_fd, CHUNK)
            except OSError:
                chunk = b""
            self._unpaused.wait()
            if not self._tell(self._feed, chunk):
                return

    def _feed(self, chunk: bytes) -> None:
        if self._ended:
            return
        self._lines.extend(self._splitter.feed(chunk) if chunk else self._splitter.close())
        if not chunk:
            self._ended = True
            self._stop_reader()
            self._written(0)
        elif len(self._lines) >= READ_AHEAD:
            self._unpaused.clear()
            self._stop_reader()
        self._wake()

    def _stop_reader(self) -> None:
        if self._by_loop:
            self._loop.remove_reader(self._fds.read_fd)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _tick(self) -> None:
        """Come by four times a second: on Windows a signal does not interrupt the loop's wait."""
        self._loop.call_later(0.25, self._tick)

    # Writing

    def write(self, data: bytes) -> None:
        """Send whole lines; what the pipe does not take now follows in order."""
        if self._broken:
            return
        if self._direct and not self._pending:
            try:
                data = data[os.write(self._fds.write_fd, data) :]
            except BlockingIOError:
                pass  # the pipe is full
            except OSError:
                self._break()
                return
        if data:
            self._pending += len(data)
            self._backlog.put(data)
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_backlog, name="stdout", daemon=True)
                self._writer.start()

    async def drain(self) -> None:
        """Wait until the client has read most of what was sent; once nothing more is read, do not wait."""
        while self._pending > WRITE_AHEAD and not self._broken and not self._ended:
            await self._less_pending()

    async def _less_pending(self) -> None:
        if self._emptied is None or self._emptied.done():
            self._emptied = self._loop.create_future()
        await asyncio.shield(self._emptied)

    async def _flush(self) -> None:
        while self._pending and not self._broken:
            await self._less_pending()

    async def close(self, timeout_s: float) -> None:
        """Give the client `timeout_s` to read the rest, and stop."""
        self.end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._flush(), timeout_s)
        if self._direct and sys.platform != "win32":
            with contextlib.suppress(OSError):
                os.set_blocking(self._fds.write_fd, True)  # the pipe may be shared with a later program

    def _write_backlog(self) -> None:
        while True:
            data = self._backlog.get()
            try:
                _write_all(self._fds.write_fd, data)
            except OSError:
                self._tell(self._break)
                return
            if not self._tell(self._written, len(data)):
                return

    def _written(self, count: int) -> None:
        """Take `count` bytes off what is pending, and let those who wait look again."""
        self._pending -= count
        if self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _break(self) -> None:
        if not self._broken:
            self._broken = True
            self._written(0)
            self._lost()

    def _tell(self, what: Callable[..., None], *args: object) -> bool:
        """Run `what` in the loop; False when there is no loop any more."""
        try:
            self._loop.call_soon_threadsafe(what, *args)
        except RuntimeError:
            return False
        return True


def _takes_at_once(fd: int) -> bool:
    """Whether a write to `fd` never makes us wait; pipes and sockets are told not to."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        os.set_blocking(fd, False)
        return True
    return stat.S_ISREG(mode)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            select.select([], [fd], [])


# ------------------------------------------------------------------------------------------------------- the lifeline


class ParentWatchdog:
    """A thread that knows every reason to end and outlives a stuck event loop.

    Reasons are a signal, the client's end of the pipes closing, and the client's death while somebody else holds them.
    For each it asks the loop to stop; if the process is still there `STOP_S` after the first reason, it is ended with
    code 1.

    Args:
        wire: the claimed descriptors.
        ask: called once, from any thread or from a signal handler, to stop the loop cleanly.
    """

    def __init__(self, fds: StdioFds, ask: Callable[[], None]) -> None:
        self._fds = fds
        self._ask = ask
        self._gone = ancestors_gone(fds.parent)  # before the first answer: a client may die right after it
        self._asked = False
        self._deadline = self._ask_at = math.inf
        self._code = 1
        self._wake_read, self._wake_write = os.pipe()
        if sys.platform != "win32":
            os.set_blocking(self._wake_write, False)

    def start(self) -> None:
        """Begin to watch; must run in the main thread, as it handles the signals."""
        _on_signals(lambda *_: self.stop())
        if sys.platform != "win32":  # there a wake-up descriptor must be a socket
            # Written by the C handler at once, even while the main thread is inside a long computation.
            signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def stop(self) -> None:
        """Ask for a clean end; a second reason changes nothing."""
        if not self._asked:
            self._asked = True
            self._end_within(STOP_S, 1)
            self._ask()

    def finish(self, grace_s: float, code: int) -> None:
        """Say that all is closed: what still runs after `grace_s` is ended with `code`."""
        self._end_within(grace_s, code)

    def _end_within(self, seconds: float, code: int) -> None:
        deadline = time.monotonic() + seconds
        if deadline < self._deadline:
            self._deadline, self._code = deadline, code
            with contextlib.suppress(OSError):
                os.write(self._wake_write, b"\0")

    def _watch(self) -> None:
        if sys.platform == "win32":
            wait = _doze  # nothing wakes it, so it must look more often
        else:
            wait = self._poll()
        while True:
            now = time.monotonic()
            if now >= self._deadline:
                os._exit(self._code)
            wait(max(0.0, min(TICK_S, self._deadline - now, math.inf if self._asked else self._ask_at - now)))
            if not self._asked and (self._gone() or time.monotonic() >= self._ask_at):
                self.stop()

    if sys.platform != "win32":

        def _poll(self) -> Callable[[float], None]:
            """Return a wait for signals and for hang-ups on both pipes."""
            no_more = getattr(select, "POLLRDHUP", 0)  # Linux: a socket whose peer only stopped sending
            poller = select.poll()
            poller.register(self._wake_read, select.POLLIN)
            poller.register(self._fds.read_fd, no_more)
            poller.register(self._fds.write_fd, 0)

            def wait(seconds: float) -> None:
                for fd, event in poller.poll(seconds * 1_000):
                    if fd == self._wake_read:
                        if any(os.read(fd, CHUNK)):
                            self.stop()
                        continue
                    poller.unregister(fd)
                    if not event & (select.POLLHUP | select.POLLERR | no_more):
                        continue  # not a thing that can hang up
                    if fd == self._fds.read_fd:
                        # The loop finds the end itself after the lines before it, unless it is held up.
                        self._ask_at = time.monotonic() + INPUT_S
                        self._end_within(STOP_S, 1)
                    else:
                        self.stop()

            return wait


def _doze(seconds: float) -> None:
    time.sleep(min(seconds, 0.25))


# ------------------------------------------------------------------------------------------------------ the ancestors

# Programs that only start others and wait: the client is whoever started them.
WRAPPERS: Final = frozenset(
    {
        "uv", "uvx", "pipx", "poetry", "hatch", "pdm", "rye", "pixi", "conda", "mamba", "mise", "asdf", "direnv",
        "npx", "npx-cli.js", "npm", "npm-cli.js", "pnpm", "yarn", "bunx",
        "env", "sudo", "timeout", "nice", "nohup", "setsid", "stdbuf", "disclaimer", "tini", "dumb-init", "docker-init",
        "sh", "bash", "dash", "zsh", "fish", "ksh", "cmd",
    }
)  # fmt: skip
WINDOWS_LAUNCHERS: Final = frozenset(
    {"pgengram", "python", "pythonw", "py"}
)  # console scripts and venvs start a second one
MAX_ANCESTORS: Final = 16


@dataclass(frozen=True, slots=True)
class Process:
    """A living process; the moment it started tells it from a later one with the same number."""

    pid: int
    parent: int
    started: str
    command: tuple[str, ...]

    @property
    def wraps(self) -> bool:
        """Whether it only stands between us and the client."""
        words = [word for word in self.command if not word.startswith("-") or word == self.command[0]][:2]
        return any(_program(word) in WRAPPERS for word in words)


def _program(path: str) -> str:
    name = re.split(r"[/\\]", path)[-1].removeprefix("-").lower()  # a login shell calls itself -zsh
    return re.sub(r"\.(exe|cmd|bat|ps1)$", "", name)


def ancestors_gone(parent: int) -> Callable[[], bool]:
    """Return a question: has the client that started us ended?

    The client is the nearest ancestor that is no wrapper; it and every wrapper below it have to live. A process that
    was already an orphan has nobody to watch.
    """
    if sys.platform == "win32":
        return _windows_ancestors_gone(parent)
    family: list[Process] = []
    pid = parent
    while pid > 1 and len(family) < MAX_ANCESTORS and (process := process_of(pid)) is not None:
        family.append(process)
        pid = process.parent if process.wraps else 0

    def gone() -> bool:
        if parent > 1 and os.getppid() != parent:
            return True
        return any((now := process_of(one.pid)) is None or now.started != one.started for one in family)

    return gone


def process_of(pid: int) -> Process | None:
    """Return the living process with this number, or None; one that is dead but not yet buried does not live."""
    return _from_proc(pid) if Path("/proc/self/stat").exists() else _from_ps(pid)


def _from_proc(pid: int) -> Process | None:
    folder = Path("/proc", str(pid))
    try:
        fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        command = (folder / "cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return None
    state, parent, started = fields[0], int(fields[1]), fields[19]
    return None if state in "ZX" else Process(pid, parent, started, tuple(command))


def _from_ps(pid: int) -> Process | None:
    """Ask `ps`, where there is no /proc."""
    found = subprocess.run(  # noqa: S603 - a number is all that varies
        ["/bin/ps", "-o", "ppid=,stat=,lstart=,args=", "-p", str(pid)],
        capture_output=True, text=True, errors="replace", env={"LC_ALL": "C"}, check=False,
    )  # fmt: skip
    fields = found.stdout.split(None, 7)
    if found.returncode != 0 or len(fields) < 8 or fields[1].startswith("Z"):
        return None
    return Process(pid, int(fields[0]), " ".join(fields[2:7]), tuple(fields[7].split()))


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _SYNCHRONIZE, _QUERY_LIMITED, _SNAP_PROCESSES = 0x100000, 0x1000, 0x2

    class _Entry(ctypes.Structure):
        _fields_ = (
            ("size", wintypes.DWORD), ("usage", wintypes.DWORD), ("pid", wintypes.DWORD), ("heap", ctypes.c_size_t),
            ("module", wintypes.DWORD), ("threads", wintypes.DWORD), ("parent", wintypes.DWORD),
            ("priority", wintypes.LONG), ("flags", wintypes.DWORD), ("name", wintypes.WCHAR * 260),
        )  # fmt: skip

    def _kernel() -> ctypes.WinDLL:
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
        kernel.OpenProcess.restype = wintypes.HANDLE
        for function in (kernel.Process32FirstW, kernel.Process32NextW):
            function.argtypes = (wintypes.HANDLE, ctypes.POINTER(_Entry))
        kernel.GetProcessTimes.argtypes = (wintypes.HANDLE, *[ctypes.POINTER(ctypes.c_uint64)] * 4)
        kernel.WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
        kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        return kernel

    def _processes(kernel: ctypes.WinDLL) -> dict[int, tuple[int, str]]:
        """Return the parent and the program of every process."""
        snapshot = kernel.CreateToolhelp32Snapshot(_SNAP_PROCESSES, 0)
        entry = _Entry(size=ctypes.sizeof(_Entry))
        found: dict[int, tuple[int, str]] = {}
        more = kernel.Process32FirstW(snapshot, ctypes.byref(entry))
        while more:
            found[entry.pid] = (entry.parent, _program(entry.name))
            more = kernel.Process32NextW(snapshot, ctypes.byref(entry))
        kernel.CloseHandle(snapshot)
        return found

    def _created(kernel: ctypes.WinDLL, handle: int) -> int:
        times = [ctypes.c_uint64() for _ in range(4)]
        kernel.GetProcessTimes(handle, *map(ctypes.byref, times))
        return times[0].value

    def _windows_ancestors_gone(parent: int) -> Callable[[], bool]:
        """Hold a handle of each ancestor: a handle stays with its process, whatever becomes of the number."""
        kernel = _kernel()
        processes = _processes(kernel)
        handles: list[int] = []
        pid, born = parent, 2**63
        while pid in processes and len(handles) < MAX_ANCESTORS:
            above, program = processes[pid]
            handle = kernel.OpenProcess(_SYNCHRONIZE | _QUERY_LIMITED, False, pid)
            if (
                not handle or (created := _created(kernel, handle)) > born
            ):  # younger than its child: the number was reused
                break
            handles.append(handle)
            if program not in WRAPPERS | WINDOWS_LAUNCHERS:
                break
            pid, born = above, created
        return lambda: any(kernel.WaitForSingleObject(handle, 0) == 0 for handle in handles)
