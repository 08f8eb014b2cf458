"""The local socket of a process that serves a store: for hooks, commands and further servers of the same user only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import socket
import sys
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pgengram import __version__
from pgengram.errors import DatabaseFailed, InvalidInput, PgengramError
from pgengram.runtime import local_socket, windows_pipe
from pgengram.runtime.logs import trace

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager
    from pgengram.settings import Settings

DUPLEX: Final = 3
FIRST: Final = 0x80000  # of a pipe that nobody else has made
LOCAL_ONLY: Final = 8  # no other machine may open it
UNLIMITED: Final = 255
BUFFER: Final = 65_536
ALREADY_CONNECTED: Final = 535


class PipeServer:
    """Answers lines that come over a pipe of a name of its own.

    Args:
        answer: a coroutine function that runs in the loop in which `start` is called.
    """

    def __init__(self, answer: Callable[[bytes], Coroutine[Any, Any, bytes]]) -> None:
        self.name = windows_pipe.new_name()
        self._answer = answer
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False

    def start(self) -> None:
        """Make the pipe, and wait for whoever opens it in a thread.

        Raises:
            OSError: it cannot be made.
        """
        self._loop = asyncio.get_running_loop()
        first = self._instance(FIRST)
        threading.Thread(target=self._accept, args=(first,), name="local pipe", daemon=True).start()

    def close(self) -> None:
        """Let nobody open it any more; those whose answer is under way get it."""
        self._closing = True
        with contextlib.suppress(OSError):
            os.close(os.open(self.name, os.O_RDWR))  # wakes the thread

    def _accept(self, instance: int) -> None:
        if sys.platform != "win32":
            return
        import ctypes

        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        while True:
            came = kernel.ConnectNamedPipe(ctypes.c_void_p(instance), None)
            came = came or ctypes.get_last_error() == ALREADY_CONNECTED
            if self._closing:
                kernel.CloseHandle(ctypes.c_void_p(instance))
                return
            following = self._instance()  # before this one is answered, so that the next finds one
            if came:
                threading.Thread(target=self._talk, args=(instance,), name="local request", daemon=True).start()
            else:
                kernel.CloseHandle(ctypes.c_void_p(instance))
            instance = following

    def _talk(self, instance: int) -> None:
        if sys.platform != "win32" or self._loop is None:
            return
        import ctypes
        import msvcrt

        pipe = msvcrt.open_osfhandle(instance, os.O_BINARY)
        try:
            with contextlib.suppress(OSError):  # whoever asked is gone
                line = windows_pipe.read_line(pipe)
                answer = asyncio.run_coroutine_threadsafe(self._answer(line), self._loop).result()
                windows_pipe.write_all(pipe, answer)
                ctypes.WinDLL("kernel32").FlushFileBuffers(ctypes.c_void_p(instance))  # until it was read
        finally:
            os.close(pipe)

    def _instance(self, first: int = 0) -> int:
        """Return the handle of a new instance of the pipe, which one program can open."""
        if sys.platform != "win32":
            raise OSError("There are named pipes of this kind on Windows only.")
        import ctypes

        class Attributes(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ulong), ("descriptor", ctypes.c_void_p), ("inherit", ctypes.c_int)]

        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        advapi = ctypes.WinDLL("advapi32", use_last_error=True)
        kernel.CreateNamedPipeW.restype = ctypes.c_void_p
        allowed = ctypes.c_void_p()
        text = windows_pipe.security(windows_pipe.own_sid())
        if not advapi.ConvertStringSecurityDescriptorToSecurityDescriptorW(text, 1, ctypes.byref(allowed), None):
            raise ctypes.WinError(ctypes.get_last_error())
        attributes = Attributes(ctypes.sizeof(Attributes), allowed, 0)
        try:
            made = kernel.CreateNamedPipeW(
                self.name, DUPLEX | first, LOCAL_ONLY, UNLIMITED, BUFFER, BUFFER, 0, ctypes.byref(attributes)
            )
            if made in (None, ctypes.c_void_p(-1).value):
                raise ctypes.WinError(ctypes.get_last_error())
            return int(made)
        finally:
            kernel.LocalFree(allowed)


log = logging.getLogger(__name__)

DRAIN_S: Final = 1.0  # for requests in flight at the end
MOST_TRIES: Final = 3  # servers that may end over an event
TRIES: Final = re.compile(r"~(\d+)\Z")
FIRST_S: Final = 1.0  # in which a hook that waits for this server has asked
UNFORESEEN: Final = {"code": "INTERNAL_ERROR", "message": "Something unforeseen went wrong.", "hint": "See the log."}
Request = dict[str, Any]
Relays = Callable[[Request, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class LocalServer:
    """Answers on the local socket of a store for as long as its process runs, whichever namespace it is asked about.

    Args:
        manager: the memories of one namespace; opened by whoever made it.
        relays: answers another server, which has said hello, until it leaves; None where this process does not.
    """

    def __init__(self, manager: MemoryManager, relays: Relays | None = None) -> None:
        self._managers = {manager.settings: manager}
        self._host, self._relays = manager, relays
        self.place = local_socket.Endpoints(manager.settings.variables)
        self._server: asyncio.Server | PipeServer | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._missed: defaultdict[Settings, set[tuple[str, str]]] = defaultdict(set)
        self._asked = asyncio.Event()

    async def start(self) -> bool:
        """Listen, and return whether that was possible. Without the socket all else goes on."""
        if not local_socket.SUPPORTED:
            return False
        try:
            self._server = await self._listening()
        except OSError as error:
            log.warning("no local socket in %s: %s", self.place.folder, error.strerror or type(error).__name__)
            return False
        return True

    def take_up(self) -> None:
        """Begin to answer what came while no server listened."""
        if self._server is not None:
            self._begin(self._answer_waiting())

    async def close(self) -> None:
        """Take no more requests, and let those in flight end."""
        if self._server is not None:
            _unlink(self._path)
            self._server.close()
            self._server = None
        if self._answering:
            await asyncio.wait({*self._answering}, timeout=DRAIN_S)
        await asyncio.gather(*(one.close() for one in self._managers.values() if one is not self._host))

    @property
    def _path(self) -> str:
        return self.place.socket(os.getpid())

    async def settled(self) -> None:
        """Wait until those who ask now have their answers; first, a moment for whoever started this server to ask."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._asked.wait(), FIRST_S)
        if self._answering:
            await asyncio.wait({*self._answering})

    async def idle(self, seconds: float) -> None:
        """Wait until nobody has asked for so long."""
        busy = True
        while busy:
            self._asked.clear()
            try:
                await asyncio.wait_for(self._asked.wait(), seconds)
            except TimeoutError:
                busy = bool(self._answering)

    async def _listening(self) -> asyncio.Server | PipeServer:
        """Listen where nobody looks yet, in a folder without what killed servers have left."""
        self.place.make()
        for path in self.place.files(local_socket.SOCKET):
            if not local_socket.listens(path):
                _unlink(path)
        _unlink(unnamed := f"{self._path}.new")
        made = await (self._pipe(unnamed) if local_socket.PIPES else self._socket(unnamed))
        os.replace(unnamed, self._path)  # once it answers, so that nobody who sees it is refused
        return made

    async def _pipe(self, path: str) -> PipeServer:
        pipe = PipeServer(lambda line: self._replied(local_socket.parsed_object(line) or {}))
        pipe.start()
        await asyncio.to_thread(Path(path).write_text, pipe.name, encoding="ascii")
        return pipe

    async def _socket(self, path: str) -> asyncio.Server:
        bound = socket.socket(socket.AF_UNIX)
        try:
            bound.bind(path)
            os.chmod(path, 0o600)
            return await asyncio.start_unix_server(self._serve, sock=bound, limit=local_socket.LONGEST_LINE)
        except OSError:
            bound.close()
            raise

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._begin(self._exchange(reader, writer))

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request, or another server, which its first line tells."""
        try:
            with contextlib.suppress(ConnectionError):  # whoever asked is gone
                line = await _request_line(reader)
                first = local_socket.parsed_object(line) or {}
                if "first" not in first:
                    writer.write(await self._replied(first) if line.endswith(b"\n") else b"")
                    await writer.drain()
                elif self._relays and (task := asyncio.current_task()):
                    self._answering.discard(task)  # it has as long as its client
                    await self._relays(first, reader, writer)
        finally:
            self._asked.set()
            writer.close()

    async def _replied(self, request: Request) -> bytes:
        """Return the line that answers a request; what waits for a server is taken up next."""
        if task := asyncio.current_task():  # that of a pipe is not one of ours yet
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        is_known = request.get("version") == __version__
        answer = {"version": __version__, **(await self._answer(request) if is_known else {})}
        self._asked.set()
        self.take_up()
        return json.dumps(answer).encode() + b"\n"

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name="answering on the local socket")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer_waiting(self) -> None:
        """Take up the events that came while no server listened; whoever sent them is gone."""
        for path in self.place.files(local_socket.EVENT):
            try:
                trying = _tried_once_more(path)
                waiting = local_socket.parsed_object(await asyncio.to_thread(Path(trying).read_bytes)) or {}
            except FileNotFoundError:  # another server was faster
                continue
            except OSError as error:  # the others are taken up nevertheless
                log.warning("an event cannot be read: %s", error.strerror or type(error).__name__)
                continue
            answer = await self._answer(waiting)
            if answer.get("error", {}).get("code") != DatabaseFailed.code:
                _unlink(trying)
            else:
                os.replace(trying, path)

    async def _answer(self, request: Request) -> dict[str, Any]:
        from pgengram.local.session_hooks import answer_request

        try:
            manager = self._manager_for(request.get("settings", {}))
            answer = await answer_request(manager, request, self._missed[manager.settings])
        except PgengramError as error:
            return {"error": error.as_dict()}
        except Exception as error:  # noqa: BLE001 - the edge: the text of a library's error may quote content
            log.error("a local request failed: %s", trace(error))  # noqa: TRY400
            return {"error": UNFORESEEN}
        for one in manager.companions:  # the store is open now
            one.begin()
        return answer

    def _manager_for(self, own: Any) -> MemoryManager:
        """Return the memories of whoever has these settings of its own."""
        if not isinstance(own, dict) or not all(isinstance(value, str) for value in own.values()):
            raise InvalidInput("A request needs the settings of whoever asks.")
        settings = self._host.settings.with_own(own, local_socket.OWN)
        if settings not in self._managers:
            from pgengram.service.manager import MemoryManager
            from pgengram.sync.schedule import ExchangeScheduler

            self._managers[settings] = made = MemoryManager(settings, self._host)
            made.accompany(ExchangeScheduler(made))
        return self._managers[settings]


async def _request_line(reader: asyncio.StreamReader) -> bytes:
    """Return a line; nothing of one that is too long, which its sender leaves as an event in a file."""
    try:
        return await reader.readline()
    except ValueError:
        log.warning("a request of more than %s bytes was not read", local_socket.LONGEST_LINE)
        return b""


def _tried_once_more(path: str) -> str:
    """Note in the name of an event's file that a server takes it up, and return that; whoever ends in the middle has
    not counted for nothing.

    Raises:
        FileNotFoundError: it is not there any more, or was taken up too often.
    """
    stem, tries = path.removesuffix(local_socket.EVENT), 1
    if found := TRIES.search(stem):
        stem, tries = stem[: found.start()], int(found[1]) + 1
    if tries > MOST_TRIES:
        log.error("an event was given up after %s servers had ended over it", MOST_TRIES)
        _unlink(path)
        raise FileNotFoundError(path)
    trying = f"{stem}~{tries}{local_socket.EVENT}"
    os.replace(path, trying)
    return trying


def _unlink(path: str) -> None:
    """Remove a file, if it is one and is there."""
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(path)
