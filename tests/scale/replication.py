"""A primary and its streaming replica, both of the PostgreSQL that pgengram carries, for as long as a block runs.

    python tests/scale/replication.py pytest tests/tools

runs a command with PGENGRAM_TEST_DATABASE_URL naming the primary and PGENGRAM_TEST_REPLICA_URL its replica.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgengram.errors import NotReady
from pgengram.postgres import server_status, start_embedded
from pgengram.postgres.binaries import find_binaries

WAIT_S = 60
# Servers run by root cannot pass each other's folders. With a path too long for a socket, the sockets lie where they can.
LONG = "a-folder-with-a-path-that-is-too-long-for-a-socket-so-that-the-socket-lies-in-a-short-folder-of-its-own"


@dataclass
class Pair:
    """A primary and its replica."""

    folder: Path
    primary: str
    replica: str

    @property
    def both(self) -> str:
        """The URL of whichever of the two takes writes."""
        parts = [conninfo_to_dict(url) for url in (self.primary, self.replica)]
        where = urlencode({name: ",".join(str(one[name]) for one in parts) for name in ("host", "port")})
        return f"postgresql://{parts[0]['user']}@/{parts[0]['dbname']}?{where}&target_session_attrs=read-write"

    def kill_primary(self) -> None:
        """End the primary as a power cut would."""
        pid = server_status(self.folder / "primary").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def stop_replaying(self) -> None:
        """Let the replica fall behind."""
        self._on_replica("SELECT pg_wal_replay_pause()")
        _until(lambda: self._on_replica("SELECT pg_get_wal_replay_pause_state()") == [("paused",)])

    def go_on_replaying(self) -> None:
        """Let the replica catch up."""
        self._on_replica("SELECT pg_wal_replay_resume()")
        self.catch_up()

    def catch_up(self) -> None:
        """Wait until the replica knows what the primary knows now."""
        with psycopg.connect(self.primary, autocommit=True) as connection:
            row = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert row is not None
        _until(lambda: self._on_replica(f"SELECT pg_last_wal_replay_lsn() >= '{row[0]}'::pg_lsn") == [(True,)])

    def promote(self) -> None:
        """Have the replica take writes from now on."""
        assert self._on_replica("SELECT pg_promote(true)") == [(True,)]

    def _on_replica(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.replica, autocommit=True) as connection:
            return connection.execute(statement).fetchall()


def _until(true: object) -> None:
    assert callable(true)
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@contextmanager
def replicated(*, synchronous: bool = False) -> Iterator[Pair]:
    """Start a primary and a replica.

    Args:
        synchronous: whether the primary acknowledges a write once the replica has it.
    """
    with tempfile.TemporaryDirectory(prefix="pgengram") as name:
        Path(name).chmod(0o755)
        folder = Path(name) / LONG
        folder.mkdir(mode=0o755)
        running = []
        try:
            first = start_embedded(folder / "primary")
            _set(first.url, wal_level="replica", max_wal_senders="8")
            first.stop()
            primary = start_embedded(folder / "primary")
            running.append(primary)
            home = folder / "replica" / "postgres"
            home.mkdir(mode=0o700, parents=True)
            (folder / "replica").chmod(0o711)
            command = [
                find_binaries().program("pg_basebackup"),
                f"--dbname={primary.url}",
                f"--pgdata={home / 'cluster'}",
            ]
            subprocess.run([*command, "--write-recovery-conf", "--checkpoint=fast"], check=True, capture_output=True)
            replica = start_embedded(folder / "replica")
            running.append(replica)
            pair = Pair(folder, primary.url, replica.url)
            pair.catch_up()
            if synchronous:
                _set(primary.url, synchronous_standby_names="*")
            yield pair
        finally:
            for server in reversed(running):
                with suppress(NotReady, OSError):  # one that a test has killed
                    server.stop()
                shutil.rmtree(str(conninfo_to_dict(server.url)["host"]), ignore_errors=True)


def _set(url: str, **settings: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for setting, value in settings.items():
            connection.execute(f"ALTER SYSTEM SET {setting} = '{value}'".encode())
        connection.execute("SELECT pg_reload_conf()")


def main() -> int:
    """Run a command beside a primary and its replica."""
    sys.path.append(str(Path(__file__).parents[1]))
    from helpers import add_postgres

    with replicated() as pair:
        add_postgres(pair.primary)
        pair.catch_up()
        more = {"PGENGRAM_TEST_DATABASE_URL": pair.primary, "PGENGRAM_TEST_REPLICA_URL": pair.replica}
        return subprocess.run(sys.argv[1:], env=os.environ | more, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
