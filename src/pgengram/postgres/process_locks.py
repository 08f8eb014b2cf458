"""Who uses an embedded server, told by locks that the operating system drops when a process dies.

Run as a program this file is the supervisor: it stops the server once nobody is left. It idles for as long as the
server runs, so it knows the standard library only and imports the larger modules when it needs them.

Files in the home of a server:
    start.lock     held while somebody starts, joins, leaves or stops
    server.lock    held by PostgreSQL's own processes: it is free only when the last of them has gone (not on Windows)
    supervisor.lock    held by the supervisor
    presence/      one file for each user of the server, locked while that user lives
    cluster/       PostgreSQL's data folder
    server.log     what PostgreSQL says
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from contextlib import suppress

# ruff: noqa: S603 - every command here is ours


START, SERVER, SUPERVISOR, PRESENCE = "start.lock", "server.lock", "supervisor.lock", "presence"
CLUSTER, LOG = "cluster", "server.log"
POLL_S = 2.0  # the supervisor's only work: one listing and one attempt to lock each file in it
LOG_LIMIT_BYTES = 2_000_000
# Windows refuses a file that is just being removed, as a server does at its end.
REFUSED_PAUSES_S = (0.02, 0.1, 0.5, 1.0, 0.0) if sys.platform == "win32" else (0.0,)
MISTAKABLE_S = 3.0  # a second more than pg_ctl's grace, as the file has whole seconds
LEFT_BEHIND_S = 5.0  # for Windows to end a process
NO_WINDOW = 0x08000000 if sys.platform == "win32" else 0  # subprocess.CREATE_NO_WINDOW, which only Windows has
PATIENCE_S = {"fast": 30, "immediate": 10}  # how long each way to stop may take; the second costs a recovery, no data

if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    GONE: tuple[type[OSError], ...] = (FileNotFoundError, PermissionError)  # the second for a file somebody looks at

    def _grab(fd: int) -> bool:
        os.lseek(fd, 0, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:  # the only answer Windows has for a lock that is held
            return False
        return True

    def _drop(fd: int) -> None:
        os.lseek(fd, 0, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

    class _Entry(ctypes.Structure):
        """A process as Windows lists it, PROCESSENTRY32W."""

        _fields_ = (
            ("size", wintypes.DWORD),
            ("uses", wintypes.DWORD),
            ("pid", wintypes.DWORD),
            ("heap", ctypes.c_size_t),
            ("module", wintypes.DWORD),
            ("threads", wintypes.DWORD),
            ("parent", wintypes.DWORD),
            ("priority", wintypes.LONG),
            ("flags", wintypes.DWORD),
            ("name", wintypes.WCHAR * wintypes.MAX_PATH),
        )

    def _processes() -> list[tuple[int, int, str]]:
        kernel = ctypes.WinDLL("kernel32")
        kernel.CreateToolhelp32Snapshot.restype = wintypes.HANDLE
        listed = wintypes.HANDLE(kernel.CreateToolhelp32Snapshot(2, 0))  # TH32CS_SNAPPROCESS
        entry, found = _Entry(ctypes.sizeof(_Entry)), []
        more = kernel.Process32FirstW(listed, ctypes.byref(entry))
        while more:
            found.append((entry.pid, entry.parent, entry.name))
            more = kernel.Process32NextW(listed, ctypes.byref(entry))
        kernel.CloseHandle(listed)
        return found

else:
    import fcntl

    GONE = (FileNotFoundError,)

    def _grab(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _drop(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

    def _processes() -> list[tuple[int, int, str]]:
        return []  # there every process of a killed server notices by itself


class Lock:
    """An exclusive lock on a file, dropped by the system when its last holder dies."""

    def __init__(self, home: str, name: str) -> None:
        self.path = os.path.join(home, name)
        self.fd = -1

    def take(self, timeout_s: float = 0) -> bool:
        """Return whether the lock could be had within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        while not _grab(fd):
            if time.monotonic() >= deadline:
                os.close(fd)
                return False
            time.sleep(0.01)
        self.fd = fd
        return True

    def release(self) -> None:
        """Give up the lock, also on behalf of processes that inherited it."""
        if self.fd >= 0:
            _drop(self.fd)
            self.hand_over()

    def hand_over(self) -> None:
        """Leave the lock to the processes that inherited it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def is_held(path: str) -> bool:
    """Return whether a living process holds the lock at `path`."""
    try:
        fd = os.open(path, os.O_RDWR)
    except GONE:
        return False
    try:
        if not _grab(fd):
            return True
        _drop(fd)
        return False
    finally:
        os.close(fd)


def join_users(home: str) -> Lock:
    """Become one of the server's users; the caller holds the start lock."""
    here = Lock(home, os.path.join(PRESENCE, f"{os.getpid()}-{os.urandom(6).hex()}"))
    here.take(timeout_s=1)
    return here


def living_users(home: str) -> list[str]:
    """Return the presence files of the server's living users."""
    folder = os.path.join(home, PRESENCE)
    return [path for path in (os.path.join(folder, name) for name in os.listdir(folder)) if is_held(path)]


def sweep(home: str) -> None:
    """Remove the presence files of those who have gone; the caller holds the start lock."""
    living = set(living_users(home))
    folder = os.path.join(home, PRESENCE)
    for path in (os.path.join(folder, name) for name in os.listdir(folder)):
        if path not in living:
            try:
                os.unlink(path)
            except GONE:
                continue


def announced(home: str) -> list[str]:
    """Return the lines of postmaster.pid, none when there is no such file; on Windows the data folder may be garbled.

    They are pid, data folder, start time, port, socket folder, listening address, shared memory and state, written
    one after the other while the server starts. Left by a crash they describe a server that is gone.
    """
    for pause_s in REFUSED_PAUSES_S:
        try:
            with open(os.path.join(home, CLUSTER, "postmaster.pid"), "rb") as file:
                # PostgreSQL for Windows writes the path in the code page, which is not what Python reads paths in.
                return [line.decode(sys.getfilesystemencoding(), "surrogateescape").strip() for line in file]
        except FileNotFoundError:
            break
        except PermissionError:
            if not pause_s:
                raise
            time.sleep(pause_s)
    return []


def mistakable_s(home: str, now: float) -> float:
    """Return for how long pg_ctl would take the postmaster.pid that a killed server left for that of a new one.

    On Windows it looks at the server's start only, and gives it two seconds' grace.
    """
    started = announced(home)[2:3]
    return min(max(0.0, int(started[0]) + MISTAKABLE_S - now), MISTAKABLE_S) if started else 0.0


def is_private(folder: str, owner: int) -> bool:
    """Return whether nobody but `owner` can put a socket into `folder`."""
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == owner and not found.st_mode & 0o077


def address(home: str) -> tuple[str, int] | None:
    """Return socket folder (on Windows: IP address) and port of the server if it has announced them.

    A socket folder in which another user could listen in PostgreSQL's place is not believed.
    """
    lines = announced(home)
    if len(lines) < 6 or not lines[3].isdigit():
        return None
    if sys.platform == "win32":
        return (lines[5], int(lines[3])) if lines[5] else None
    cluster = os.path.join(home, CLUSTER)
    folder = cluster if lines[4] == "." else lines[4]
    return (folder, int(lines[3])) if folder and is_private(folder, os.stat(cluster).st_uid) else None


def postmaster_listens(home: str) -> bool:
    """Return whether a postmaster listens where the server of `home` announced itself."""
    import socket

    where = address(home)
    if where is None:
        return False
    if sys.platform == "win32":
        with socket.socket() as probe:
            probe.settimeout(2)
            return probe.connect_ex(where) == 0
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        return probe.connect_ex(os.path.join(where[0], f".s.PGSQL.{where[1]}")) == 0


def has_ended(home: str) -> bool:
    """Return whether no process of the server is left."""
    return not (postmaster_listens(home) if sys.platform == "win32" else is_held(os.path.join(home, SERVER)))


def orphans(postmaster: int, processes: list[tuple[int, int, str]]) -> list[int]:
    """Return which of these processes, given as pid, parent and name, a postmaster has left that is not among them."""
    servers = [(pid, parent) for pid, parent, name in processes if name.lower() == "postgres.exe"]
    return [] if postmaster in dict(servers) else [pid for pid, parent in servers if parent == postmaster]


def end_left_behind(home: str) -> None:
    """End what a killed postmaster has left on Windows; the caller holds the start lock.

    A process that it was just starting never comes to life, and keeps the port and the log from the next server.
    """
    lines = announced(home)[:1]
    deadline = time.monotonic() + LEFT_BEHIND_S
    while lines and lines[0].isdigit() and (left := orphans(int(lines[0]), _processes())):
        if time.monotonic() > deadline:
            return  # whoever starts the next server is told by PostgreSQL what is in its way
        for pid in left:
            with suppress(OSError):  # it has ended meanwhile
                os.kill(pid, signal.SIGTERM)  # which on Windows ends a process at once
        time.sleep(0.05)


def stop_server(home: str) -> bool:
    """Stop the server and return whether its last process has gone; the caller holds the start lock."""
    where = address(home)
    end_left_behind(home)
    for mode, patience_s in PATIENCE_S.items():
        if has_ended(home):
            break
        # Only a live postmaster listens on its socket: its pid file cannot be stale, and the pid is not a stranger's.
        if postmaster_listens(home):
            _ask_to_stop(home, mode)
        deadline = time.monotonic() + patience_s
        while not has_ended(home) and time.monotonic() < deadline:
            time.sleep(0.01)
    gone = has_ended(home)
    if gone and where and sys.platform != "win32" and where[0] != os.path.join(home, CLUSTER):
        _remove_socket_folder(*where)  # the short folder in place of a path too long for a socket
    return gone


def _remove_socket_folder(folder: str, port: int) -> None:
    """Remove the folder of a server that has gone, if it is still there; a killed one has left its socket in it."""
    for name in (f".s.PGSQL.{port}", f".s.PGSQL.{port}.lock"):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    with suppress(FileNotFoundError):
        os.rmdir(folder)


def _ask_to_stop(home: str, mode: str) -> None:
    pid = next(iter(announced(home)), "")
    if not pid:
        return  # it has ended since somebody saw it listen
    if sys.platform == "win32":
        # PostgreSQL's stand-in for a signal there: one byte into this pipe, answered by one byte, as pg_ctl does it.
        try:
            with open(rf"\\.\pipe\pgsignal_{pid}", "r+b", buffering=0) as pipe:
                pipe.write({"fast": b"\x02", "immediate": b"\x03"}[mode])
                pipe.read(1)
        except OSError:
            return  # it is ending, or busy with another signal: whoever asked looks whether it has gone
        return
    name = {"fast": "INT", "immediate": "QUIT"}[mode]
    # Sent by the server's own user, so that root signals nobody else whatever the file says.
    owner = os.stat(os.path.join(home, CLUSTER)).st_uid if os.geteuid() == 0 else None
    exit_code_of(["/bin/sh", "-c", 'kill -s "$0" "$1"', name, pid], owner)


def exit_code_of(command: list[str], uid: int | None = None, env: dict[str, str] | None = None) -> int:
    """Run a program in silence, as `uid` and with another environment when given, and return its exit code."""
    import subprocess

    return subprocess.run(
        command,
        cwd=os.path.abspath(os.sep),
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
        creationflags=NO_WINDOW,
    ).returncode


def trim_log(home: str) -> None:
    """Empty the server's log when it has grown past its limit; PostgreSQL goes on appending to it."""
    path = os.path.join(home, LOG)
    if os.path.exists(path) and os.path.getsize(path) > LOG_LIMIT_BYTES:
        os.truncate(path, 0)


def _stopped_for_want_of_users(home: str, supervisor: Lock) -> bool:
    start = Lock(home, START)
    if not start.take():
        return False  # somebody is coming or going
    try:
        if living_users(home) or not stop_server(home):
            return False
        supervisor.release()  # before the start lock: whoever starts next has to see that there is no supervisor
        return True
    finally:
        start.release()


def stop_when_idle(home: str) -> None:
    """Stop the server of `home` when nobody has used it for a few seconds, then return."""
    supervisor = Lock(home, SUPERVISOR)
    if not supervisor.take():
        return
    alone = False
    while os.path.isdir(home):
        time.sleep(POLL_S)
        if not os.path.isdir(home):
            return  # PostgreSQL ends by itself when its folder has gone
        if sys.platform != "win32":  # there the server alone may write to its log
            trim_log(home)
        was_alone, alone = alone, not living_users(home)
        if was_alone and alone and _stopped_for_want_of_users(home, supervisor):
            return


if __name__ == "__main__":
    stop_when_idle(sys.argv[1])
