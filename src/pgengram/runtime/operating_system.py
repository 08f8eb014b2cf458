"""Files: those that another program holds open, paths that a program without Unicode can read, and hashes."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

# Windows refuses to rename or remove what anybody has open. A virus scanner, an indexer or OneDrive lets go in seconds.
PATIENCE_S = 10.0 if sys.platform == "win32" else 0.0
PAUSE_S: Final = 0.1
HELD: Final = (errno.EACCES, errno.EPERM, errno.ENOTEMPTY)  # the last while a removed file is still open

UNREADABLE: Final = (
    "PostgreSQL cannot read the path {path}: it has characters that are not in the code page of this Windows."
)
CODE_PAGE = "mbcs" if sys.platform == "win32" else None  # what paths are converted to for C programs; None for no loss


def rename(source: Path, target: Path) -> None:
    """Rename a file or folder; a file that has the name already is replaced."""
    _patiently(lambda: os.replace(source, target))


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, whoever else removes some of it meanwhile."""

    def remove() -> None:
        while folder.exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)

    _patiently(remove)


def _patiently(change: Callable[[], None]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return change()
        except OSError as error:
            if error.errno not in HELD or time.monotonic() >= deadline:
                raise
        time.sleep(PAUSE_S)


def for_c_programs(path: Path) -> Path | None:
    """Return a spelling of an existing path that survives the code page of Windows, or None when there is none.

    That is the path itself or its short form, such as `C:\\Users\\8F3A~1`, which a drive may have or not.
    """
    return next((one for one in (path, short_form(path)) if _fits_code_page(one)), None)


def short_form(path: Path) -> Path:
    """Return an existing path in its 8.3 form; as it is on other systems and where the drive keeps none."""
    if sys.platform != "win32":
        return path
    import ctypes

    buffer = ctypes.create_unicode_buffer(32_768)
    length = ctypes.windll.kernel32.GetShortPathNameW(str(path), buffer, len(buffer))
    return Path(buffer.value) if length else path


def _fits_code_page(path: Path) -> bool:
    if CODE_PAGE is None:
        return True
    try:
        str(path).encode(CODE_PAGE)
    except UnicodeEncodeError:
        return False
    return True


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


# Programs that only start others and wait: the client is whoever started them.
WRAPPERS: Final = frozenset(
    {
        "uv", "uvx", "pipx", "poetry", "hatch", "pdm", "rye", "pixi", "conda", "mamba", "mise", "asdf", "direnv",
        "npx", "npx-cli.js", "npm", "npm-cli.js", "pnpm", "yarn", "bunx",
        "env", "sudo", "timeout", "nice", "nohup", "setsid", "stdbuf", "disclaimer", "tini", "dumb-init", "docker-init",
        "sh", "bash", "dash", "zsh", "fish", "ksh", "cmd",
    }
)  # fmt: skip
# On Windows a console script starts Python, and the Python of a virtual environment starts another one.
LAUNCHERS: Final = frozenset({"pgengram", "python", "pythonw", "py"}) if sys.platform == "win32" else frozenset()
MAX_ANCESTORS: Final = 16
# Of SetInformationJobObject: the kind of information, its size, where its flags are, and the flag that is wanted.
EXTENDED_LIMITS, EXTENDED_LIMITS_BYTES, FLAGS_AT, KILL_ON_JOB_CLOSE = 9, 144, 16, 0x2000
DEAD: Final = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def ancestors_gone(parent: int) -> Callable[[], bool]:
    """Return a question: has the client that started us ended?

    The client is the nearest ancestor that is not a wrapper; it and every wrapper below it have to live. A process
    that was already an orphan has nobody to watch.

    Args:
        parent: the pid of the process that started us, asked as early as possible.
    """
    family = _family()

    def gone() -> bool:
        orphaned = sys.platform != "win32" and parent > 1 and os.getppid() != parent
        return orphaned or not all(map(lives, family))

    return gone


def lives(process: psutil.Process) -> bool:
    """Return whether a process still runs; one that has ended and whose parent has not asked for its code does not."""
    try:
        return process.is_running() and (sys.platform == "win32" or process.status() not in DEAD)
    except psutil.NoSuchProcess:
        return False


def is_wrapper(command: Sequence[str]) -> bool:
    """Return whether a command line belongs to a program that only stands between us and the client."""
    words = [word for word in command if not word.startswith("-") or word == command[0]][:2]
    return any(_program(word) in WRAPPERS for word in words) or _program(command[0]) in LAUNCHERS


def end_tree(pid: int, patience_s: float) -> None:
    """Kill a process and everything that it has started, and wait `patience_s` for their end."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        process.suspend()  # it starts no more
        tree = [process, *process.children(recursive=True)]
        for one in tree:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(tree, patience_s)


def end_with_us(process: subprocess.Popen[str]) -> None:
    """Have Windows end a process and what it starts when this one ends, however that comes about.

    The handle of the job stays open until then: closing it is what ends the processes in it.
    """
    if sys.platform != "win32":
        return
    import ctypes
    import struct

    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.CreateJobObjectW.restype = ctypes.c_void_p
    job = ctypes.c_void_p(kernel.CreateJobObjectW(None, None))
    limits = ctypes.create_string_buffer(EXTENDED_LIMITS_BYTES)
    struct.pack_into("<I", limits, FLAGS_AT, KILL_ON_JOB_CLOSE)
    kernel.SetInformationJobObject(job, EXTENDED_LIMITS, limits, len(limits))
    kernel.AssignProcessToJobObject(job, ctypes.c_void_p(int(process._handle)))


def _family() -> list[psutil.Process]:
    """Return the processes from our parent up to the client."""
    family: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        above = psutil.Process().parent()
        while above is not None and above.pid > 1 and len(family) < MAX_ANCESTORS:
            family.append(above)
            above = above.parent() if is_wrapper(_command_line(above)) else None
    return family


def _command_line(process: psutil.Process) -> list[str]:
    """Return the command line of a process, or its name alone where that belongs to another user."""
    with suppress(psutil.AccessDenied):
        return list(process.cmdline()) or [str(process.name())]
    return [str(process.name())]


def _program(path: str) -> str:
    name = re.split(r"[/\\]", path)[-1].removeprefix("-").lower()  # a login shell calls itself -zsh
    return re.sub(r"\.(exe|cmd|bat|ps1)$", "", name)
