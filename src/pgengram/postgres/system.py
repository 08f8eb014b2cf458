"""What differs between the systems PostgreSQL runs on: its user, its socket and how its processes are started."""

# ruff: noqa: S603 - every command here is ours

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import psutil

from pgengram.errors import NotReady
from pgengram.postgres.process_locks import CLUSTER, GONE, LOG, NO_WINDOW, START, Lock, is_private
from pgengram.runtime import operating_system

ATTEMPT_S: Final = 1.0
REPORT_AT: Final = 2  # attempts; an ordinary start is over by then
MOST_ATTEMPTS: Final = 900  # a slow machine takes minutes to make the data, and so does a recovery

SERVER_UID = 60906  # run by root: neither a person's nor a service's, in a range that systemd keeps free
SOCKET = ".s.PGSQL.5432"
SOCKET_PATH_BYTES = 103  # macOS; Linux has 107
SHORT = "/tmp"  # noqa: S108 # the only short folder everywhere; what we make in it is private and checked before use
SHARED_MEMORY = "/dev/shm"  # noqa: S108 # PostgreSQL writes there, we only look at it
SHARED_MEMORY_BYTES = 268_435_456  # containers often have 64 MB in /dev/shm, which a parallel index build outgrows
HOME = "postgres"  # of a server, in its data folder
POINTER = "postgres.path"  # in a data folder whose path PostgreSQL cannot read: says where its server's home is instead
DRIVE_REMOTE = 4  # of GetDriveType
NETWORK = ("nfs", "cifs", "smb", "afpfs", "webdav", "davfs", "fuse.sshfs", "fuse.rclone", "ceph", "glusterfs")
ON_NETWORK = "The data folder {folder} lies on a network drive ({kind}), where PostgreSQL can lose data."
PARTS = ("postgresql.conf", "global/pg_control", "base", "pg_xact", "pg_wal")  # of every data folder
ELSEWHERE = "Set PGENGRAM_DATA_DIR to a folder of your own, or run as the user who owns this one."
HINTS = {
    errno.EROFS: "Set PGENGRAM_DATA_DIR to a folder on a writable disk.",
    errno.ENOSPC: "Free some space there, or set PGENGRAM_DATA_DIR to a folder on another disk.",
}
FULL = os.strerror(errno.ENOSPC)  # as PostgreSQL says it
LOG_TAIL = 8  # lines of what a program said
KEPT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP")


def home_of(data_dir: Path) -> Path:
    """Return the folder of a data folder's server, spelled as PostgreSQL can read it."""
    pointer = data_dir / POINTER
    if pointer.exists():
        return Path(pointer.read_text(encoding="utf-8"))
    found = operating_system.for_c_programs(data_dir) if data_dir.exists() else None
    return (found or data_dir) / HOME


def settled_home(data_dir: Path) -> Path:
    """Return the same; where PostgreSQL cannot read the path, first make a folder elsewhere for this user alone.

    Raises:
        NotReady: there is no place for that.
    """
    pointer = data_dir / POINTER
    if not pointer.exists() and operating_system.for_c_programs(data_dir) is None:
        try:
            home = Path(tempfile.mkdtemp(prefix="pgengram-", dir=common_folder()))
            protect(home)
            draft = data_dir / f"{POINTER}.{home.name}"
            draft.write_text(str(home), encoding="utf-8")
            draft.rename(pointer)
        except FileExistsError:  # somebody else was faster
            draft.unlink()
            home.rmdir()
        except OSError as error:
            raise NotReady(
                operating_system.UNREADABLE.format(path=data_dir),
                "Set PGENGRAM_DATA_DIR to a folder such as C:\\pgengram.",
            ) from error
    return home_of(data_dir)


def common_folder() -> Path:
    """Return the folder for programs' data outside the users' own, on Windows `C:\\ProgramData`."""
    import platformdirs  # which few need

    return platformdirs.site_data_path(appauthor=False)


def require_own_disk(data_dir: Path) -> None:
    """Refuse a data folder on a network drive: locks and flushed writes do not hold there as PostgreSQL needs them.

    Raises:
        NotReady: it lies on one.
    """
    kind = _network_drive(data_dir)
    if kind:
        raise NotReady(
            ON_NETWORK.format(folder=data_dir, kind=kind), "Set PGENGRAM_DATA_DIR to a folder on a local disk."
        )


def unusable(data_dir: Path, error: OSError) -> NotReady:
    """Return what to say of a data folder in which the system refuses something."""
    return NotReady(f"The data folder {data_dir} cannot be used: {error}.", HINTS.get(error.errno or 0, ELSEWHERE))


def failed(home: Path, what: str, said: str) -> NotReady:
    """Return what to say of a program that could not do its work, by what it said itself."""
    if FULL in said:
        return NotReady(f"The disk that holds PostgreSQL's data is full: {home}.", HINTS[errno.ENOSPC])
    return NotReady(f"{what}\n{said}")


def tail(text: str) -> str:
    """Return the last lines of what a program said."""
    return "\n".join(text.rstrip().splitlines()[-LOG_TAIL:])


def _network_drive(folder: Path) -> str | None:
    real = folder.resolve()
    if sys.platform == "win32":
        import ctypes

        remote = real.drive.startswith("\\\\") or ctypes.windll.kernel32.GetDriveTypeW(real.anchor) == DRIVE_REMOTE
        return real.drive if remote else None
    mounts = [one for one in psutil.disk_partitions(all=True) if real.is_relative_to(one.mountpoint)]
    kind = max(mounts, key=lambda one: len(one.mountpoint)).fstype if mounts else ""
    return kind if kind.startswith(NETWORK) else None


def require_complete(cluster: Path) -> None:
    """Refuse a data folder of which a part is missing, before PostgreSQL writes into it.

    Raises:
        NotReady: it was copied or restored in part.
    """
    lacking = [part for part in PARTS if not (cluster / part).exists()]
    if lacking:
        raise NotReady(
            f"{cluster} is incomplete: {', '.join(lacking)} is missing.",
            "Copy the whole folder again while pgengram does not run, or move it away and run `pgengram restore`.",
        )


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
            f"The user with id {os.geteuid()} has no name here, but PostgreSQL's initdb needs one.",
            "Add it to /etc/passwd or run as another user; in a container, leave out --user: root works.",
        )
    others = sorted((name != "nobody", known) for known, name in names.items() if known != 0)
    if not others:
        raise NotReady("PostgreSQL's initdb refuses to run as root, and there is no other user here.", "Add a user.")
    return others[0][1]


def give(folder: Path, uid: int) -> None:
    """Make `uid` the owner of `folder` and all that is in it.

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


def run_program(command: Sequence[str], *, cwd: Path, uid: int | None, keep: Sequence[int] = ()) -> tuple[int, str]:
    """Run a program to its end and return its exit code and what it said; on Windows it ends when we do."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        pass_fds=keep,
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
        creationflags=NO_WINDOW,
    ) as process:
        operating_system.end_with_us(process)
        said, _ = process.communicate()
        return process.returncode, said


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


def shared_memory(uid: int | None) -> str:
    """Return the settings for memory shared by parallel workers, of a server run by `uid` or by us."""
    if sys.platform != "linux":
        return ""
    return f"dynamic_shared_memory_type = {'posix' if _room_in_memory(uid) else 'sysv'}\n"


def _room_in_memory(uid: int | None) -> bool:
    try:
        found, mode = os.statvfs(SHARED_MEMORY), os.stat(SHARED_MEMORY).st_mode
    except OSError:
        return False
    writable = os.access(SHARED_MEMORY, os.W_OK | os.X_OK) and (uid is None or mode & 0o003 == 0o003)
    return writable and found.f_frsize * found.f_blocks >= SHARED_MEMORY_BYTES


def protect(secret: Path) -> None:
    """Let nobody but the current user read the file, or enter the folder."""
    if sys.platform == "win32":
        icacls = shutil.which("icacls") or "icacls"
        grant = f"{os.environ['USERNAME']}:{'(OI)(CI)' if secret.is_dir() else ''}F"
        subprocess.run([icacls, str(secret), "/inheritance:r", "/grant:r", grant], check=True, capture_output=True)
    else:
        secret.chmod(0o700 if secret.is_dir() else 0o600)


def turn(home: Path, patience_s: float, waits: Callable[[], None]) -> Lock | None:
    """Return the start lock of a home once it is ours, None when its holder has written nothing for `patience_s`.

    Attempts are counted, not seconds: who slept meanwhile with the whole machine has not waited.

    Args:
        home: of the server.
        patience_s: how long nothing may change in the home.
        waits: called once when it takes longer than usual.
    """
    start, seen, still = Lock(str(home), START), (-1, 0, 0), 0
    for attempt in range(1, MOST_ATTEMPTS):
        if start.take(ATTEMPT_S):
            return start
        found = _traces(home)
        still, seen = (still + 1 if found == seen else 0), found
        if attempt == REPORT_AT:
            waits()
        if still * ATTEMPT_S >= patience_s:
            break
    return None


def _traces(home: Path) -> tuple[int, int, int]:
    """Return what differs once something was written below a folder: how many files, their size, the latest change."""
    count = size = latest = 0
    for place, _, names in os.walk(home):
        for name in names:
            try:
                found = os.lstat(os.path.join(place, name))
            except GONE:
                continue
            count, size, latest = count + 1, size + found.st_size, max(latest, found.st_mtime_ns)
    return count, size, latest
