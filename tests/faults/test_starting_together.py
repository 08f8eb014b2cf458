"""Many servers on one folder at the same moment, and a schema change that is killed in the middle."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg

from helpers import PATIENCE_S, Database, connected, found, remember
from machine import closed_in_the_end
from pgengram.postgres import process_locks, start_embedded
from pgengram.store.schema import migrate

SERVERS = 8
MIGRATE = "import sys; from pgengram.store.schema.migrate import migrate; migrate(sys.argv[1])"
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
LEFT = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'in_the_way'"


def wait_until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


async def test_eight_servers_make_one_database_and_the_first_to_leave_does_not_stop_it(tmp_path: Path) -> None:
    with closed_in_the_end(tmp_path / "data") as folder:
        async with AsyncExitStack() as rest:
            async with AsyncExitStack() as first:
                places = [first, *([rest] * (SERVERS - 1))]
                clients = await asyncio.gather(
                    *(place.enter_async_context(connected(data_dir=str(folder), embedder="none:")) for place in places)
                )
                ids = await asyncio.gather(
                    *(remember(client, f"Server {number} was here.") for number, client in enumerate(clients))
                )
            after = await asyncio.gather(*(found(client, "server", limit=SERVERS) for client in clients[1:]))
            log = (folder / "postgres" / process_locks.LOG).read_text(encoding="utf-8")
            looking = start_embedded(folder)
            with psycopg.connect(looking.url) as connection:
                versions = connection.execute("SELECT version_num FROM pgengram_version").fetchall()
            looking.stop()

        assert all(set(those) == set(ids) for those in after)
        assert versions == [(migrate.newest_version(),)]
        assert (
            log.count("starting PostgreSQL") <= 2
        )  # again where the next server takes long to come up in the first's place
        made = [path.name for path in (folder / "postgres").iterdir() if path.name.startswith("cluster")]
        assert made == ["cluster"]


def test_a_migration_killed_in_the_middle_leaves_nothing_and_is_done_by_the_next(blank: Database) -> None:
    with psycopg.connect(blank.url) as holder:
        holder.execute(
            "CREATE TABLE memory_tags (in_the_way integer)"
        )  # the migration waits when it comes to this name
        migrating = subprocess.Popen([sys.executable, "-c", MIGRATE, blank.url])
        try:
            wait_until(lambda: blank.as_login(WAITS) == [(1,)])
        finally:
            migrating.kill()
            migrating.wait()
        holder.rollback()
    wait_until(lambda: blank.as_login(WAITS) == [(0,)])

    wait_until(lambda: blank.as_login(LEFT) == [(0,)])
    assert migrate.state(blank.url).version is None
    assert migrate.migrate(blank.url) is None
    assert migrate.state(blank.url).version == migrate.newest_version()
