"""A named pipe of Windows with a server behind it: one line in, one line out, for the same user only.

The loop that psycopg needs there cannot wait for pipes, so threads do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from pgengram.runtime import windows_pipe

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
