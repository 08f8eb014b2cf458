"""Several clients of one store: one of their servers holds everything, the others pass on, and none of it shows."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from mcp import Client

from helpers import PATIENCE_S, Database, call, connected, environment, found, hits, refused, remember, until
from pgengram.runtime import local_socket

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="servers there don't stand in for each other")

LIGHT_MB = 25
WRITES = 12  # of each client while a server goes
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short one, as the path of a socket has to be."""
    with tempfile.TemporaryDirectory(prefix="pg-servers-") as folder:
        yield Path(folder)


@pytest.fixture
def start(database: Database, tmp_path: Path) -> Callable[..., AsyncExitStack]:
    """Start a server of one store, with settings of its own."""

    def started(**settings: str) -> AsyncExitStack:
        return connected(**{"database_url": database.url, "data_dir": str(tmp_path), "embedder": "none:", **settings})

    return started


@asynccontextmanager
async def several(start: Callable[..., AsyncExitStack], count: int) -> AsyncIterator[list[Client]]:
    """Start servers one after the other, each of which has answered a call before the next begins."""
    async with AsyncExitStack() as stack:
        clients = []
        for number in range(count):
            clients.append(await stack.enter_async_context(start()))
            await remember(clients[-1], f"Visitor {number} has arrived.")
        yield clients


def first_server(folder: Path) -> psutil.Process:
    """Return the process that answers for all; its socket has its number."""
    [number] = [int(path.stem.rpartition("-")[2]) for path in (folder / "run").glob("*.sock")]
    return psutil.Process(number)


def servers(folder: Path) -> list[psutil.Process]:
    there = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PGENGRAM_DATA_DIR") == str(folder):
                there.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess):
            continue
    return there


@pytest.mark.real_start
async def test_further_servers_of_a_store_are_light_and_go_with_their_clients(
    start: Callable[..., AsyncExitStack], tmp_path: Path
) -> None:
    async with several(start, 3) as clients:
        first = first_server(tmp_path)
        further = [process for process in servers(tmp_path) if process != first]

        assert len(further) == 2
        assert max(process.memory_full_info().uss for process in further) < LIGHT_MB * 1e6
        assert len(await found(clients[2], "visitor")) == 3
    assert servers(tmp_path) == []
    assert list((tmp_path / "run").iterdir()) == []


async def test_each_client_keeps_its_own_settings(start: Callable[..., AsyncExitStack]) -> None:
    async with (
        start() as first,
        start(namespace="ada", toolsets="essential", answers="short") as ada,
        start(namespace="ben", compat="mcp-memory") as ben,
        start(secrets="redact") as careful,
    ):
        await remember(first, "The harbour has forty berths.")
        hers = await ada.call_tool("create_memory", {"content": "The harbour is closed in winter."})
        redacted = await call(careful, "create_memory", content="The password: hunter2-Orchid-77 opens the harbour.")

        assert "memory" not in hers.structured_content
        assert redacted["redacted"]
        assert len((await ada.list_tools()).tools) == 5
        assert "create_entities" in {tool.name for tool in (await ben.list_tools()).tools}
        assert len((await ada.call_tool("search_memories", {"query": "harbour"})).structured_content["results"]) == 1
        assert len(await found(first, "harbour")) == 2


async def test_hooks_and_commands_of_every_namespace_are_answered_by_the_one_server(
    start: Callable[..., AsyncExitStack], tmp_path: Path, database: Database
) -> None:
    """Whether a client of that namespace is here or not; and nothing of one is told to another."""
    async with start() as first, start(namespace="ada") as ada:
        await remember(first, "The harbour has forty berths.", importance=1)
        await remember(ada, "The harbour is closed in winter.", importance=1)
        await run("add", "The harbour has a crane.", database=database, folder=tmp_path, namespace="ben")

        begun = [
            await run("hook", "claude-code", database=database, folder=tmp_path, namespace=one)
            for one in ("", "ada", "ben")
        ]

        assert [[word in text for word in ("berths", "winter", "crane")] for text in begun] == [
            [True, False, False],
            [False, True, False],
            [False, False, True],
        ]
        assert len(list((tmp_path / "run").glob("*.sock"))) == 1
    assert list((tmp_path / "run").iterdir()) == []


async def run(*words: str, database: Database, folder: Path, namespace: str) -> str:
    """Run a command, a hook at the beginning of a session, and return what it prints."""
    settings = {"database_url": database.url, "data_dir": str(folder), "embedder": "none:", "namespace": namespace}
    event = {"hook_event_name": "SessionStart", "session_id": f"s-{namespace}", "cwd": str(folder)}
    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "pgengram", *words], input=json.dumps(event), env=environment(**settings),
        capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    return ended.stdout


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A data folder that is too deep for a socket, where somebody has made the usual folder for that."""
    deep = tmp_path / ("d" * 100)
    usual = Path(local_socket.Endpoints({"PGENGRAM_DATA_DIR": str(deep)}).folder)
    usual.mkdir()
    usual.chmod(0o777)
    yield deep
    there = endings(usual)
    shutil.rmtree(usual)
    chosen = Path((deep / local_socket.ELSEWHERE).read_text())
    shutil.rmtree(chosen)
    assert (there, chosen != usual) == (set(), True)


def endings(folder: Path) -> set[str]:
    return {path.suffix for path in folder.iterdir()}


async def test_servers_meet_in_no_folder_that_others_may_enter(
    start: Callable[..., AsyncExitStack], deep: Path
) -> None:
    async with start(data_dir=str(deep)) as first, start(data_dir=str(deep)) as second:
        id_ = await remember(first, "The harbour has forty berths.")

        assert await found(second, "berths") == [id_]
        assert endings(Path((deep / local_socket.ELSEWHERE).read_text())) == {".lock", ".sock"}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
async def test_when_the_first_server_goes_no_call_of_the_others_is_lost_or_done_twice(
    start: Callable[..., AsyncExitStack], tmp_path: Path, how: signal.Signals
) -> None:
    halfway = asyncio.Event()

    async def write(client: Client, who: int) -> list[str]:
        ids = []
        for number in range(WRITES):
            ids.append(await remember(client, f"Client {who} has counted {number} gulls."))
            if number == WRITES // 3:
                halfway.set()
        return ids

    async with several(start, 4) as clients:
        before = first_server(tmp_path)
        writing = [asyncio.create_task(write(client, who)) for who, client in enumerate(clients[1:])]
        await halfway.wait()
        before.send_signal(how)
        written = await asyncio.gather(*writing)

        stored = await hits(clients[3], "gulls", limit=100)
        assert sorted(hit["id"] for hit in stored) == sorted(id_ for ids in written for id_ in ids)
        assert len({hit["content"] for hit in stored}) == len(stored) == 3 * WRITES
        assert first_server(tmp_path) != before


async def test_a_call_that_may_not_be_done_twice_says_that_its_end_is_not_known(
    start: Callable[..., AsyncExitStack], tmp_path: Path, database: Database
) -> None:
    async with several(start, 2) as clients:
        id_ = await remember(clients[1], "The ferry leaves at nine.")
        with psycopg.connect(database.url) as holder, psycopg.connect(database.url, autocommit=True) as looking:
            holder.execute("LOCK TABLE memories IN SHARE MODE")
            changing = asyncio.create_task(
                refused(clients[1], "update_memory", id=id_, content="The ferry leaves at ten.")
            )
            adding = asyncio.create_task(remember(clients[1], "The ferry carries bicycles."))

            async def both_wait() -> bool:
                return looking.execute(WAITING).fetchone() == (2,)

            await until(both_wait)
            first_server(tmp_path).kill()
            error = await changing
        added = await adding

        assert error["code"] == "DATABASE_ERROR"
        assert "not known" in error["message"]
        assert await found(clients[1], "bicycles") == [added]


@pytest.mark.nightly
async def test_a_suspended_server_does_not_hold_the_others_up(
    start: Callable[..., AsyncExitStack], tmp_path: Path
) -> None:
    async with several(start, 2) as clients:
        first = first_server(tmp_path)
        first.suspend()
        try:
            id_ = await remember(clients[1], "The lighthouse was painted.")
        finally:
            first.resume()

        assert await found(clients[0], "lighthouse") == [id_]
