"""Assistants come and go, several at once; their memories and their database behave."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from helpers import PATIENCE_S, call, connected, environment, found, hits, read, remember, said, until
from machine import closed_in_the_end, copied, is_over, pgengram
from pgengram.postgres import process_locks, server_status


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that does not exist yet, with a space in its name."""
    with closed_in_the_end(tmp_path / "my memories") as chosen:
        yield chosen


@pytest.fixture
def store(folder: Path, prepared: Path) -> Path:
    """That folder, with a store in it that holds no memories yet."""
    copied(prepared, folder)
    return folder


@pytest.mark.shows(44)
@pytest.mark.nightly
async def test_two_servers_started_at_once_on_an_empty_folder_share_one_database(folder: Path) -> None:
    async def assistant(name: str, other: str, outcome: asyncio.Event, heard: asyncio.Event) -> list[str]:
        async with connected(data_dir=str(folder)) as client:
            await remember(client, f"{name} was here.", user=name)
            outcome.set()
            await heard.wait()
            ids = await found(client, user=other)
            told_both.release()
            await both_done.wait()
            return ids

    one, two, both_done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    told_both = asyncio.Semaphore(0)

    async def wait_for_both() -> None:
        await told_both.acquire()
        await told_both.acquire()
        made = [path.name for path in (folder / "postgres").iterdir() if path.name.startswith("cluster")]
        assert made == ["cluster"]
        both_done.set()

    mine, theirs, _ = await asyncio.gather(
        assistant("Ada", "Ben", one, two), assistant("Ben", "Ada", two, one), wait_for_both()
    )

    assert len(mine) == len(theirs) == 1


async def test_what_one_assistant_was_told_another_remembers_in_the_next_session(store: Path) -> None:
    async with connected(data_dir=str(store)) as client:
        id_ = await remember(client, "Mira is allergic to walnuts.", type="semantic", metadata={"category": ["health"]})
    await until(over(store))

    async with connected(data_dir=str(store)) as client:
        [first, *_] = await hits(client, "May I bake her a cake with nuts?")
        memory = await read(client, first["id"])

    assert first["id"] == id_
    assert memory["detail"]["category"] == ["health"]


async def test_a_fact_that_changes_is_corrected_and_the_old_one_is_told_as_old(store: Path) -> None:
    async with connected(data_dir=str(store)) as client:
        old = await remember(client, "Tomas lives in Oslo.")
        new = await remember(client, "Tomas has moved to Bergen.")
        await call(client, "forget_memories", ids=[old], reason="He moved.", replaced_by_ids=[new])

        assert await found(client, "Where does Tomas live?") == [new]
        [past] = await hits(client, "Where did Tomas live?", status="invalidated", detail=True)
        assert (past["id"], past["reason"], past["replaced_by"]) == (old, "He moved.", [new])

        await call(client, "update_memory", id=old, status="active")
        await call(client, "forget_memories", ids=[new], reason="A misunderstanding.")
        assert await found(client, "Where does Tomas live?") == [old]


@contextmanager
def one_that_was_told_something(store: Path) -> Iterator[subprocess.Popen[str]]:
    """A server of `store` that has stored a memory."""
    server = subprocess.Popen(
        [sys.executable, "-m", "pgengram"],
        env=environment(data_dir=str(store)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        for message in (
            {"id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "create_memory", "arguments": {"content": "Once."}}},
        ):  # fmt: skip
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()
        answers = {}
        while 2 not in answers:
            answer = json.loads(server.stdout.readline())
            answers[answer.get("id")] = answer
        assert "Remembered." in json.dumps(answers[2])
        assert not is_over(store)
        try:
            yield server
        finally:
            server.kill()


@pytest.mark.real_start
async def test_process_and_database_are_gone_after_stdin_closes(store: Path) -> None:
    with one_that_was_told_something(store) as server:
        said, _ = server.communicate(timeout=PATIENCE_S)

        assert server.returncode == 0
        assert said == ""
        await until(over(store))


@pytest.mark.real_start
async def test_a_database_that_takes_its_time_to_stop_is_told_of_and_is_no_failure(store: Path) -> None:
    with one_that_was_told_something(store) as server:
        database = psutil.Process(server_status(store).pid)
        database.suspend()
        try:
            _, warned = server.communicate(timeout=PATIENCE_S)
        finally:
            database.resume()

        assert "It ends without this server, and nothing is lost." in warned
        assert server.returncode == 0
        await until(over(store))
    assert "Once." in pgengram("list", data_dir=str(store)).stdout


def over(store: Path) -> Callable[[], Awaitable[bool]]:
    """Return a question: is nothing of a store's server left?"""

    async def asked() -> bool:
        return is_over(store)

    return asked


async def test_a_server_whose_database_was_killed_answers_again(store: Path) -> None:
    async with connected(data_dir=str(store)) as client:
        id_ = await remember(client, "Survives a crash.")
        assert process_locks.stop_server(str(store / "postgres"))

        async def answers() -> bool:
            answer = await client.call_tool("get_memories", {"ids": [id_]})
            return not answer.is_error

        await until(answers)
        assert await found(client, "crash") == [id_]


async def test_a_first_memory_is_stored_as_soon_as_all_has_started_and_what_it_waits_for_is_told(store: Path) -> None:
    another = process_locks.Lock(str(store / "postgres"), process_locks.START)  # who prepares the database
    assert another.take()
    outcome: list[str | None] = []

    async def progress(_: float, __: float | None, message: str | None) -> None:
        outcome.append(message)
        another.release()

    async with connected(data_dir=str(store)) as client:
        answer = await client.call_tool("create_memory", {"content": "The very first."}, progress_callback=progress)

        assert not answer.is_error, said(answer)
        assert "Another process is preparing the database…" in outcome
