"""The life of an embedded server: made once, started by the first of its users, stopped after the last.

A server lives where its users can connect; no pid is ever taken as a sign of life. Everything that changes its state
happens under the start lock of its home, see `process_locks`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import pq

from pgengram.data_folder import make_data_folder
from pgengram.errors import Conflict, NotReady
from pgengram.postgres import new_data, process_locks, system
from pgengram.postgres.binaries import Binaries, find_binaries, runnable
from pgengram.postgres.new_data import DATABASE, USER
from pgengram.postgres.process_locks import Lock
from pgengram.postgres.system import home_of, turn
from pgengram.runtime.operating_system import CODE_PAGE, remove_tree, rename

MAINTENANCE = "template1"  # the database that every server has
FORMER = "cluster.former"  # beside the data that took its place
OTHERS = "Another process is preparing the database…"
STUCK = "Close the assistants and other programs that use it, then call again."
IN_USE = "Close the assistants and other programs that use it, then call again; nothing was changed."
RECOVERY_S = 600  # a server that replays its log is making progress: interrupted, it would begin anew
LOCK_S = 90  # longer than anybody holds the start lock while stopping
REPORT_S = 2  # an ordinary start is over by then

CONFIGURATION = """\
# Written by pgengram at each start. Your own settings belong into postgresql.auto.conf, by ALTER SYSTEM.
listen_addresses = '{listen}'
port = {port}
{sockets}
max_connections = 100
cluster_name = 'pgengram'
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'

# Nothing that was committed is lost.
fsync = on
synchronous_commit = on
full_page_writes = on
autovacuum = on

# One of many programs on somebody's machine.
shared_buffers = 128MB
effective_cache_size = 1GB
work_mem = 8MB
huge_pages = off
random_page_cost = 1.1
jit = off
max_parallel_workers = 2
max_parallel_workers_per_gather = 1
max_parallel_maintenance_workers = 2
autovacuum_max_workers = 2
# An import writes 10 kB of log a memory, and pages whole again after each checkpoint.
max_wal_size = 1GB
wal_compression = on
wal_recycle = on
wal_buffers = 4MB
max_pred_locks_per_transaction = 10  # nothing here is serializable; 1.4 MB
checkpoint_timeout = 15min
{shared_memory}{newer}{libraries}
# Nobody replicates from here.
wal_level = minimal
max_wal_senders = 0
max_logical_replication_workers = 0

# The log is about the server and carries no statement, parameter, row or other content.
logging_collector = off
log_line_prefix = '%m [%p] '
log_min_messages = log
log_min_error_statement = panic
log_error_verbosity = terse
log_statement = none
log_min_duration_statement = -1
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
log_checkpoints = off
log_connections = off
log_disconnections = off
log_autovacuum_min_duration = -1
"""
# From 18 on: no idle helper processes, and no room for what they would do (1.4 MB).
NEWER = "io_method = sync\nio_max_concurrency = 4\n"


@dataclass(frozen=True)
class Status:
    """What can be seen of an embedded server without touching it."""

    folder: Path
    initialised: bool
    running: bool
    major: int | None
    pid: int | None
    log: Path
    present: int
    size_bytes: int


class EmbeddedPostgres:
    """A running server and our presence with it.

    Args:
        url: a libpq URL of the database `pgengram`; it is valid while the server runs.
        data_dir: the folder that holds the server.
        here: the lock that says that we are present.
    """

    def __init__(self, url: str, data_dir: Path, here: Lock) -> None:
        self.url = url
        self.data_dir = data_dir
        self._here = here

    def stop(self) -> None:
        """Give up our presence; the last one out stops the server. Doing so twice changes nothing.

        Raises:
            NotReady: we were the last and the server does not end.
        """
        home = str(home_of(self.data_dir))
        start = Lock(home, process_locks.START)
        if self._here.fd < 0 or not os.path.isdir(home):
            return
        if not start.take(LOCK_S):
            self._here.release()  # somebody is at work for longer than we wait; the supervisor stops the server
            return
        try:
            _leave_server(home, self._here)
        finally:
            start.release()


def exchange_data(server: EmbeddedPostgres, other: Path, unchanged: Callable[[], bool]) -> None:
    """Put the data of the stopped server of the folder `other` in the place of a running server's, and stop that.

    Nobody can join meanwhile. The former data is kept beside, for `take_back` or `throw_away`; a crash in the middle
    leaves the former data in its place.

    Args:
        server: the one that runs on the former data; our presence with it ends.
        other: a data folder whose server is stopped.
        unchanged: asked when nobody else can write any more: whether `other` holds what the server holds.

    Raises:
        Conflict: somebody else uses the server, or has written since.
    """
    home = home_of(server.data_dir)
    with _start_lock(home):
        if len(process_locks.living_users(str(home))) > 1 or not unchanged():
            raise Conflict("The store is in use.", IN_USE)
        _leave_server(str(home), server._here)
        rename(home / process_locks.CLUSTER, home / FORMER)
        rename(home_of(other) / process_locks.CLUSTER, home / process_locks.CLUSTER)


def take_data_back(data_dir: Path) -> None:
    """Put the data that an exchange replaced back into its place."""
    home = home_of(data_dir)
    with _start_lock(home):
        process_locks.stop_server(str(home))
        if (home / FORMER).exists():
            remove_tree(home / process_locks.CLUSTER)
            rename(home / FORMER, home / process_locks.CLUSTER)


@contextmanager
def _start_lock(home: Path) -> Iterator[None]:
    """Keep everybody else from starting or stopping the server."""
    start = Lock(str(home), process_locks.START)
    if not start.take(LOCK_S):
        raise Conflict("Another process is starting or stopping the database.", IN_USE)
    try:
        yield
    finally:
        start.release()


def throw_away(data_dir: Path) -> None:
    """Remove the data that an exchange replaced."""
    former = home_of(data_dir) / FORMER
    if former.exists():
        remove_tree(former)


def ignore(_: str) -> None:
    """Let a report of progress pass."""


def start_embedded(
    data_dir: Path, *, timeout_s: float = 60, report: Callable[[str], None] = ignore
) -> EmbeddedPostgres:
    """Join the server of `data_dir`; make and start it first where necessary. Blocks.

    Raises:
        NotReady: the folder cannot be used, the server does not come up within `timeout_s` of its start, or somebody
            else who starts or stops it does not get on for as long.
    """
    data_dir = data_dir.absolute()
    try:
        return _started(_prepared(data_dir), data_dir, timeout_s, report)
    except OSError as error:
        raise system.unusable(data_dir, error) from error


def server_status(data_dir: Path) -> Status:
    """Look at the server of `data_dir` without starting, stopping or making anything.

    Raises:
        NotReady: the folder is closed to us.
    """
    try:
        return _observed(home_of(data_dir.absolute()))
    except PermissionError as error:
        raise system.unusable(data_dir, error) from error


def has_data(data_dir: Path) -> bool:
    """Tell whether there is a server's data in a folder, without asking the server.

    Raises:
        NotReady: the folder is closed to us.
    """
    try:
        return _initialised(home_of(data_dir.absolute()) / process_locks.CLUSTER)
    except PermissionError as error:
        raise system.unusable(data_dir, error) from error


def _initialised(cluster: Path) -> bool:
    return (cluster / "PG_VERSION").exists()


def _observed(home: Path) -> Status:
    cluster = home / process_locks.CLUSTER
    initialised = _initialised(cluster)
    running = initialised and _ping(home) == pq.Ping.OK
    return Status(
        folder=home,
        initialised=initialised,
        running=running,
        major=_major(cluster) if initialised else None,
        pid=next((int(pid) for pid in process_locks.announced(str(home))[:1]), None) if running else None,
        log=home / process_locks.LOG,
        present=len(process_locks.living_users(str(home))) if (home / process_locks.PRESENCE).exists() else 0,
        size_bytes=_folder_size(cluster),
    )


def _prepared(data_dir: Path) -> Path:
    system.require_own_disk(data_dir)
    make_data_folder(str(data_dir))
    home = system.settled_home(data_dir)
    home.mkdir(mode=0o700, exist_ok=True)
    if sys.platform != "win32":
        found = home.stat()
        if found.st_uid != os.geteuid():
            raise NotReady(f"The data folder {home} belongs to another user (uid {found.st_uid}).", system.ELSEWHERE)
        if found.st_mode & 0o077:
            home.chmod(0o700)
    (home / process_locks.PRESENCE).mkdir(mode=0o700, exist_ok=True)
    return home


def _started(home: Path, data_dir: Path, timeout_s: float, report: Callable[[str], None]) -> EmbeddedPostgres:
    start = turn(home, timeout_s, lambda: report(OTHERS))
    if start is None:
        raise NotReady("Another process is starting or stopping the database and makes no progress.", STUCK)
    try:
        process_locks.sweep(str(home))
        here = process_locks.join_users(str(home))
        try:
            _ensure_supervisor(home)  # before the server, so that there is none without a supervisor
            _ensure_running(data_dir, timeout_s, report)
            _ensure_database(home)
        except BaseException:
            here.release()  # if the server still comes up, the supervisor ends it
            raise
        return EmbeddedPostgres(_socket_url(home, DATABASE), data_dir, here)
    finally:
        start.release()


def _leave_server(home: str, here: Lock) -> None:
    here.release()
    process_locks.sweep(home)
    if not process_locks.living_users(home) and not process_locks.stop_server(home):
        raise NotReady("The database server does not stop.", f"Its log is {os.path.join(home, process_locks.LOG)}.")


def _ensure_supervisor(home: Path) -> None:
    if not process_locks.is_held(str(home / process_locks.SUPERVISOR)):
        command = [sys.executable, "-I", "-S", str(Path(process_locks.__file__)), str(home)]
        system.detach(command, home, cwd=Path(home.anchor))


def _ensure_running(data_dir: Path, timeout_s: float, report: Callable[[str], None]) -> None:
    home = home_of(data_dir)
    deadline = time.monotonic() + timeout_s
    processes = Lock(str(home), process_locks.SERVER)
    launched = False
    report_at = time.monotonic() + REPORT_S
    process_locks.end_left_behind(str(home))
    while (state := _ping(home)) != pq.Ping.OK:
        # No process of the server is left, or there was none. Windows gives that lock also while it recovers.
        if state != pq.Ping.REJECT and processes.take():
            try:
                if launched:
                    raise system.failed(home, "PostgreSQL ended while it was starting.", _log_tail(home))
                _launch(data_dir, processes, report)
                launched = True
                deadline = time.monotonic() + timeout_s  # a slow machine may have made the data for longer than that
            finally:
                processes.hand_over()
        now = time.monotonic()
        if state == pq.Ping.REJECT and now > report_at:
            report("The database is recovering…")
            report_at = float("inf")
        if now > deadline + (RECOVERY_S if state == pq.Ping.REJECT else 0):
            raise NotReady(
                f"PostgreSQL does not answer, although some of its processes are still running.\n{_log_tail(home)}"
            )
        time.sleep(0.01)


def _launch(data_dir: Path, processes: Lock, report: Callable[[str], None]) -> None:
    home = home_of(data_dir)
    cluster = home / process_locks.CLUSTER
    if not cluster.exists() and (home / FORMER).exists():
        rename(home / FORMER, cluster)  # an exchange was broken off between its two steps
    uid = system.owner(cluster)
    programs = find_binaries(_major(cluster) if cluster.exists() else None)
    if cluster.exists():
        system.require_complete(cluster)
    programs = runnable(programs, data_dir, by_another_user=uid is not None)
    if not cluster.exists():
        report("Preparing the database…")
        new_data.make_data(home, programs, uid, _living(processes))
    report("Starting the database…")
    _configure(home, programs, uid)
    _start(home, programs, uid, processes)


def _configure(home: Path, programs: Binaries, uid: int | None) -> None:
    if sys.platform == "win32":
        listen, port, sockets = "127.0.0.1", system.free_port(), ""
    else:
        folder = system.socket_folder(home, uid)
        listen, port = "", 5432
        sockets = f"unix_socket_directories = '{folder}'\nunix_socket_permissions = 0700"
    text = CONFIGURATION.format(
        listen=listen,
        port=port,
        sockets=sockets,
        shared_memory=system.shared_memory(uid),
        newer=NEWER if programs.major >= 18 else "",
        libraries=programs.settings,
    )
    cluster = home / process_locks.CLUSTER
    draft = home / "pgengram.conf"
    draft.write_text(text, encoding=CODE_PAGE or "utf-8")
    if uid is not None:
        os.chown(draft, uid, -1)
    rename(draft, cluster / "pgengram.conf")
    process_locks.trim_log(str(home))


def _start(home: Path, programs: Binaries, uid: int | None, processes: Lock) -> None:
    cluster = home / process_locks.CLUSTER
    if sys.platform == "win32":
        # pg_ctl lets an administrator's server run without those rights, which PostgreSQL demands.
        time.sleep(process_locks.mistakable_s(str(home), time.time()))
        command = [programs.program("pg_ctl"), "start", "-w", "-D", str(cluster), "-l", str(home / process_locks.LOG)]
        started = process_locks.exit_code_of(command, env=system.environment()) == 0
        if not started and process_locks.has_ended(str(home)):  # else it recovers for longer than pg_ctl waits
            raise NotReady(f"PostgreSQL could not be started.\n{_log_tail(home)}")
        return
    # We hold the lock of the server's processes, so the pid that a crash left behind is not a postmaster's, whoever
    # has it now. PostgreSQL does not mind this one pid; its own check for shared memory still in use stays.
    stale = process_locks.announced(str(home))[:1]
    more = {"PG_GRANDPARENT_PID": stale[0]} if stale and stale[0].isdigit() else {}
    command = [programs.program("postgres"), "-D", system.folder_argument(cluster, uid)]
    system.detach(command, home, cwd=cluster, uid=uid, keep=_living(processes), more=more)


def _living(processes: Lock) -> tuple[int, ...]:
    return () if sys.platform == "win32" else (processes.fd,)


def _ensure_database(home: Path) -> None:
    try:
        with psycopg.connect(_socket_url(home, MAINTENANCE), autocommit=True, connect_timeout=10) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if known is None:
                _make_database(connection)
    except psycopg.OperationalError as error:
        raise NotReady(f"PostgreSQL started but cannot be used: {error}\n{_log_tail(home)}") from error


def _make_database(connection: psycopg.Connection) -> None:
    """Turn one of initdb's three databases into ours, and drop another: each takes 7 MB, and copying one takes time.

    What remains is the template for new ones, which PostgreSQL's own programs use for maintenance, too.
    """
    connection.execute("UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'")
    connection.execute("DROP DATABASE IF EXISTS template0")
    connection.execute(f"ALTER DATABASE postgres RENAME TO {DATABASE}")


def _socket_url(home: Path, database: str) -> str:
    host, port = process_locks.address(str(home)) or ("", 0)
    if sys.platform == "win32":
        return f"postgresql://{USER}:{_password(home)}@{host}:{port}/{database}?require_auth=scram-sha-256"
    return f"postgresql://{USER}@/{database}?host={quote(os.fsencode(host), safe='')}&port={port}"


def _ping(home: Path) -> pq.Ping:
    if process_locks.address(str(home)) is None:
        return pq.Ping.NO_RESPONSE
    url = _socket_url(home, MAINTENANCE)
    return pq.Ping(pq.PGconn.ping(f"{url}&connect_timeout=5".encode()))


def _password(home: Path) -> str:
    return (home / "password").read_text(encoding="ascii").strip()


def _major(cluster: Path) -> int:
    try:
        return int((cluster / "PG_VERSION").read_text(encoding="ascii"))
    except FileNotFoundError as error:
        raise NotReady(f"{cluster} contains no PostgreSQL data.", "Move it away, or set PGENGRAM_DATA_DIR.") from error


def _folder_size(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):  # a running server removes files as it likes
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def _log_tail(home: Path) -> str:
    log = home / process_locks.LOG
    return system.tail(log.read_text(encoding="utf-8", errors="replace")) if log.exists() else ""
