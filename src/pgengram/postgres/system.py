"""What differs between the systems PostgreSQL runs on: its user, its socket and how its processes are started."""

# ruff: noqa: S603 - every command here is ours

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pgengram.errors import NotReady
from pgengram.postgres.process_locks import CLUSTER, LOG, NO_WINDOW, is_private

SERVER_UID = 60906  # run by root: neither a person's nor a service's, in a range that systemd keeps free
SOCKET = ".s.PGSQL.5432"
SOCKET_PATH_BYTES = 103  # macOS; Linux has 107
SHORT = "/tmp"  # noqa: S108 # the only short folder everywhere; what we make in it is private and checked before use
SHARED_MEMORY_BYTES = 268_435_456  # containers often have 64 MB in /dev/shm, which a parallel index build outgrows
KEPT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP")


def owner(cluster: Path) -> int | None:
    """Return the user that has to run the server, None for our own.

    PostgreSQL refuses to run as root. Who owns the data runs the server, so that data survives its container.
    """
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    uid = cluster.stat().st_uid if cluster.exists() else SERVER_UID
    if uid == 0:  # restored by root from a backup
        give(cluster, SERVER_UID)
        return SERVER_UID
    return uid


def maker(uid: int | None) -> int | None:
    """Return the user for initdb, None for our own: it refuses root, and users without a name.

    Raises:
        NotReady: there is no such user.
    """
    if sys.platform == "win32":
        return None
    import pwd

    names = {entry.pw_uid: entry.pw_name for entry in pwd.getpwall()}
    if uid is None and os.geteuid() in names:
        return None
    if uid is None:
        raise NotReady(
            f"The user with id {os.geteuid()} has no name here, and PostgreSQL's initdb insists on one.",
            "Add it to /etc/passwd or run as another user; in a container leave out --user: root will do.",
        )
    others = [known for known in names if known != 0]
    if not others:
        raise NotReady("PostgreSQL's initdb refuses root, and there is no other user here.", "Add a user.")
    return next((known for known in others if names[known] == "nobody"), others[0])


def give(folder: Path, uid: int) -> None:
    """Make `uid` the namespace of `folder` and all that is in it.

    Raises:
        NotReady: this root may not do so, as in a container without capabilities.
    """
    try:
        for place, _, files in os.walk(folder):
            for path in (place, *(os.path.join(place, name) for name in files)):
                os.chown(path, uid, uid, follow_symlinks=False)
    except OSError as error:
        raise NotReady(
            f"PostgreSQL refuses to run as root, and {folder} cannot be given to another user: {error.strerror}.",
            "Run as an ordinary user, or give root the capabilities CHOWN, SETUID and SETGID.",
        ) from error


def folder_argument(cluster: Path, uid: int | None) -> str:
    """Return how the server is told its data folder, which is also its working directory.

    Run by root, the server's user may be shut out by a folder above the data. Root enters the data folder before it
    changes the user, and the kernel leads to it from there without a look at the folders above.
    """
    return "/proc/self/cwd" if uid is not None and sys.platform == "linux" else str(cluster)


def environment() -> dict[str, str]:
    """Return what PostgreSQL's processes see of our environment: no keys of ours, no PG settings of the user."""
    return {"LC_ALL": "C", **{name: os.environ[name] for name in KEPT if name in os.environ}}


def run(command: Sequence[str], *, cwd: Path, uid: int | None, keep: Sequence[int] = ()) -> tuple[int, str]:
    """Run a program to its end and return its exit code and what it said."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
        pass_fds=keep,
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
        creationflags=NO_WINDOW,
    )
    return done.returncode, done.stdout


def detach(
    command: Sequence[str],
    home: Path,
    *,
    cwd: Path,
    uid: int | None = None,
    keep: Sequence[int] = (),
    more: dict[str, str] | None = None,
) -> None:
    """Start a program that outlives us: in a session of its own, orphaned at once, its output in the server's log."""
    env = environment() | (more or {})
    name = "supervisor.log" if sys.platform == "win32" else LOG  # Windows lets the server share its log with nobody
    log = os.open(home / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        if sys.platform == "win32":
            flags = NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
            process = subprocess.Popen(
                command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, creationflags=flags
            )
            process.returncode = 0  # nobody waits for it
            return
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", *command],  # orphaned, it is never a zombie of ours
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=keep,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
            check=True,
        )
    finally:
        os.close(log)


def socket_folder(home: Path, uid: int | None) -> str:
    """Return where the server puts its socket, as its configuration says it: `.` is the data folder.

    A path that is too long for a socket, or that libpq would take for two, is replaced by a short private folder.
    """
    cluster = home / CLUSTER
    if len(os.fsencode(cluster / SOCKET)) <= SOCKET_PATH_BYTES and "," not in str(cluster) and _holds_sockets(home):
        return "."
    ours = os.geteuid() if uid is None else uid
    name = f"{SHORT}/pgengram-{ours}-{hashlib.sha256(os.fsencode(cluster)).hexdigest()[:12]}"
    try:
        os.mkdir(name, 0o700)
    except FileExistsError:
        if is_private(name, ours):
            return name
        name = tempfile.mkdtemp(prefix="pgengram-", dir=SHORT)  # somebody sits on our name
    os.chown(name, ours, -1)
    return name


def _holds_sockets(home: Path) -> bool:
    # Some shared folders of virtual machines hold files only.
    trial = home / "socket"
    trial.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(str(trial))
        except OSError:
            return False
    trial.unlink()
    return True


def free_port() -> int:
    """Return a TCP port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def shared_memory() -> str:
    """Return the settings for memory shared by parallel workers."""
    if sys.platform != "linux":
        return ""
    found = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None  # noqa: S108 # asked for its size only
    enough = found is not None and found.f_frsize * found.f_blocks >= SHARED_MEMORY_BYTES
    return f"dynamic_shared_memory_type = {'posix' if enough else 'sysv'}\n"


def protect(secret: Path) -> None:
    """Let nobody but the current user read the file."""
    if sys.platform == "win32":
        icacls = shutil.which("icacls") or "icacls"
        grant = f"{os.environ['USERNAME']}:F"
        subprocess.run([icacls, str(secret), "/inheritance:r", "/grant:r", grant], check=True, capture_output=True)
    else:
        secret.chmod(0o600)
