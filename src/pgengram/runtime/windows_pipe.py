"""The local socket of Windows: a named pipe that only its user can open, named in a file of the store's folder.

Its name is random, so that nobody can make a pipe of that name before; and whoever asks looks whose it is.
"""

from __future__ import annotations

import os
import re
import sys
import time

NAME = r"\\.\pipe\pgengram-"
RANDOM_BYTES = 16
POLL_S = 0.01
MISSING = 2  # ERROR_FILE_NOT_FOUND
TOKEN_QUERY, TOKEN_USER, KERNEL_OBJECT, OWNER = 8, 1, 6, 1


def new_name() -> str:
    """Return a name that no pipe has yet and nobody can guess."""
    return NAME + os.urandom(RANDOM_BYTES).hex()


def name_in(path: str) -> str | None:
    """Return the name that a server has left in a file; None for any other file."""
    try:
        with open(path, encoding="ascii") as file:
            name = file.read(len(NAME) + 2 * RANDOM_BYTES + 1)
    except (OSError, ValueError):
        return None
    return name if re.fullmatch(re.escape(NAME) + "[0-9a-f]+", name) else None


def security(sid: str) -> str:
    """Return who may open a pipe, in Windows' language for that: its owner with this id, and nobody else."""
    return f"O:{sid}D:P(A;;GA;;;{sid})"


def exchange_line(path: str, line: bytes, deadline: float) -> bytes | None:
    """Send a line to the server whose pipe a file names, and return its answer; None where nobody listens.

    Raises:
        OSError: it has not answered until `deadline` (monotonic seconds), or is gone.
    """
    name = name_in(path)
    pipe = None if name is None else _open_own_pipe(name, deadline)
    if pipe is None:
        return None
    import threading

    came: list[bytes | OSError] = []

    def talk() -> None:
        try:
            write_all(pipe, line)
            came.append(read_line(pipe))
        except OSError as error:
            came.append(error)
        finally:
            os.close(pipe)

    thread = threading.Thread(target=talk, daemon=True)  # reading cannot be ended from outside
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    if not came:
        raise TimeoutError("no answer in time")
    [answer] = came
    if isinstance(answer, OSError):
        raise answer
    return answer


def read_line(pipe: int) -> bytes:
    """Read from a pipe up to the end of a line.

    Raises:
        OSError: it ends before.
    """
    read = bytearray()
    while not read.endswith(b"\n"):
        part = os.read(pipe, 65_536)
        if not part:
            raise ConnectionResetError("the pipe ended in the middle of a line")
        read += part
    return bytes(read)


def write_all(pipe: int, data: bytes) -> None:
    """Write all of some data, of which a pipe may take a part at a time."""
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]


def pipe_listens(path: str) -> bool:
    """Whether there is a server behind the pipe that a file names; always no on other systems."""
    name = name_in(path)
    if name is None or sys.platform != "win32":
        return False
    import ctypes

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    return bool(kernel.WaitNamedPipeW(name, 1)) or ctypes.get_last_error() != MISSING


def own_sid() -> str:
    """Return the id of the user that this process runs as; empty on other systems."""
    if sys.platform != "win32":
        return ""
    import ctypes

    advapi = ctypes.WinDLL("advapi32", use_last_error=True)
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    token, size, room = ctypes.c_void_p(), ctypes.c_ulong(), ctypes.create_string_buffer(256)
    me = ctypes.c_void_p(kernel.GetCurrentProcess())
    if not advapi.OpenProcessToken(me, TOKEN_QUERY, ctypes.byref(token)):
        raise ctypes.WinError(ctypes.get_last_error())
    try:
        if not advapi.GetTokenInformation(token, TOKEN_USER, room, len(room), ctypes.byref(size)):
            raise ctypes.WinError(ctypes.get_last_error())
        return _sid_text(ctypes.c_void_p.from_buffer(room).value)
    finally:
        kernel.CloseHandle(token)


def _open_own_pipe(name: str, deadline: float) -> int | None:
    """Open a pipe, once it is free; None where it is gone or somebody else's."""
    while True:
        try:
            pipe = os.open(name, os.O_RDWR | getattr(os, "O_BINARY", 0))
        except (FileNotFoundError, PermissionError):
            return None
        except OSError:  # each instance is being talked to
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
            continue
        if _owner(pipe) == own_sid():
            return pipe
        os.close(pipe)
        return None


def _owner(pipe: int) -> str:
    """Return the id of the user whose pipe it is; empty on other systems."""
    if sys.platform != "win32":
        return ""
    import ctypes
    import msvcrt

    advapi = ctypes.WinDLL("advapi32")
    kernel = ctypes.WinDLL("kernel32")
    owner, descriptor = ctypes.c_void_p(), ctypes.c_void_p()
    handle = ctypes.c_void_p(msvcrt.get_osfhandle(pipe))
    failed = advapi.GetSecurityInfo(
        handle, KERNEL_OBJECT, OWNER, ctypes.byref(owner), None, None, None, ctypes.byref(descriptor)
    )
    if failed:
        raise ctypes.WinError(failed)
    try:
        return _sid_text(owner.value)
    finally:
        kernel.LocalFree(descriptor)


def _sid_text(sid: int | None) -> str:
    if sys.platform != "win32":
        return ""
    import ctypes

    text = ctypes.c_wchar_p()
    advapi = ctypes.WinDLL("advapi32", use_last_error=True)
    if not advapi.ConvertSidToStringSidW(ctypes.c_void_p(sid), ctypes.byref(text)):
        raise ctypes.WinError(ctypes.get_last_error())
    try:
        return str(text.value)
    finally:
        ctypes.WinDLL("kernel32").LocalFree(text)
