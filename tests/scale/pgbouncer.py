"""A pgbouncer in transaction mode before a server of this machine, for as long as a block runs.

    python tests/scale/pgbouncer.py pytest tests/tools

runs a command with PGENGRAM_TEST_DATABASE_URL naming a new server and PGENGRAM_TEST_PGBOUNCER_URL a pgbouncer before it. Another
pgbouncer than the one on PATH is named by PGENGRAM_TEST_PGBOUNCER. One from 1.21 on keeps prepared statements, unless the first
word is --unprepared; an older one cannot.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

START_S = 20
NAMED = os.environ.get("PGENGRAM_TEST_PGBOUNCER", "")
PREPARED_SINCE = (1, 21)
PREPARED = 200
CONFIGURATION = """
[databases]
* = host={host} port={port}
[pgbouncer]
unix_socket_dir = {folder}
unix_socket_mode = 0777
listen_addr =
listen_port = 6432
auth_type = trust
auth_file = {folder}/users.txt
auth_user = {user}
pool_mode = transaction
default_pool_size = 20
max_client_conn = 400
server_idle_timeout = 5
"""


def program() -> str | None:
    """Return where pgbouncer is, or None; Debian puts it where only root looks."""
    return NAMED or shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def version(pgbouncer: str) -> tuple[int, ...]:
    """Return the version of a pgbouncer."""
    answer = subprocess.run([pgbouncer, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.findall(r"\d+", answer)[:2]))


@contextmanager
def before(postgres: str, *, prepared: int = 0) -> Iterator[str]:
    """Start pgbouncer before the server of a URL on a unix socket, and yield its URL.

    Args:
        postgres: the URL.
        prepared: how many prepared statements it knows of a connection; pgbouncer before 1.21 cannot.
    """
    pgbouncer = program()
    assert pgbouncer is not None
    parts = conninfo_to_dict(postgres)
    sockets = Path(str(parts["host"]))
    uid = sockets.stat().st_uid if os.geteuid() == 0 else None  # root is refused, as by PostgreSQL
    with tempfile.TemporaryDirectory(prefix="pgbouncer") as name:
        folder = Path(name)
        folder.chmod(0o755)
        # As its user could not pass the folders of root before it, the server's folder is the one it stands in.
        host = "/proc/self/cwd" if uid is not None else str(sockets)
        text = CONFIGURATION.format(host=host, port=parts["port"], folder=folder, user=parts["user"])
        if version(pgbouncer) >= PREPARED_SINCE:
            text += f"max_prepared_statements = {prepared}\n"
        (folder / "pgbouncer.ini").write_text(text)
        (folder / "users.txt").write_text(f'"{parts["user"]}" ""\n')
        if uid is not None:
            os.chown(folder, uid, -1)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [pgbouncer, str(folder / "pgbouncer.ini")], cwd=sockets, user=uid, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        try:
            url = f"postgresql://{parts['user']}@/{parts['dbname']}?host={quote(str(folder), safe='')}&port=6432"
            _wait(process, url, folder / "log")
            yield url
        finally:
            process.terminate()
            process.wait(START_S)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()  # noqa: PT018
            time.sleep(0.05)
        else:
            return


def main() -> int:
    """Run a command behind a pgbouncer."""
    command, prepared = sys.argv[1:], PREPARED
    if command[:1] == ["--unprepared"]:
        command, prepared = command[1:], 0
    sys.path.append(str(Path(__file__).parents[1]))
    from helpers import add_postgres
    from pgengram.postgres import start_embedded

    with tempfile.TemporaryDirectory(prefix="pgengram") as folder:
        Path(folder).chmod(0o755)
        server = start_embedded(Path(folder) / "data")
        try:
            add_postgres(server.url)
            with before(server.url, prepared=prepared) as url:
                more = {"PGENGRAM_TEST_DATABASE_URL": server.url, "PGENGRAM_TEST_PGBOUNCER_URL": url}
                return subprocess.run(command, env=os.environ | more, check=False).returncode
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
