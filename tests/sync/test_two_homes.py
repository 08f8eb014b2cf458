"""A walk: two homes on one machine, each with a data folder of its own, by the commands that a person types."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from http_server import client_of, serving_http

from helpers import remember, until
from machine import answered, closed_in_the_end, copied, kept_running, pgengram


@pytest.fixture
def homes(prepared: Path, tmp_path: Path) -> Iterator[list[dict[str, str]]]:
    """The settings of a laptop's and of a desktop's home."""
    with ExitStack() as stack:
        found = []
        for name in ("laptop", "desktop"):
            folder = tmp_path / name / "data"
            folder.mkdir(parents=True)
            copied(prepared, folder)
            stack.enter_context(closed_in_the_end(folder))
            stack.enter_context(kept_running(folder))  # a command that starts it takes seconds
            found.append({"data_dir": str(folder), "embedder": "none:"})
        yield found


def texts(home: dict[str, str]) -> list[str]:
    """Return all memories of a home."""
    found = answered("call", "search_memories", "sort=created", "limit=50", **home)
    return sorted(one["content"] for one in found["results"])


async def test_two_homes_have_one_memory_though_one_is_killed_and_the_folder_is_unplugged(
    homes: list[dict[str, str]], tmp_path: Path
) -> None:
    laptop, desktop = homes
    shared = tmp_path / "disk"
    shared.mkdir()
    pgengram("call", "create_memory", "content=The lamp is in the attic.", **laptop)
    pgengram("call", "create_memory", "content=The ladder is in the cellar.", **desktop)
    code = answered("sync", "init", str(shared), "--name", "laptop", "--json", **laptop)["code"]
    joined = answered("sync", "join", str(shared), code, "--name", "desktop", "--json", **desktop)
    assert (joined["taken"], joined["written"]) == (1, 1)

    written = {path.name for path in shared.rglob("0*.sync")}
    with serving_http("--no-auth", **laptop) as server:
        async with client_of(server, None) as client:
            await remember(client, "The kettle is in the kitchen.")

            async def is_written() -> bool:
                return bool({path.name for path in shared.rglob("0*.sync")} - written)

            await until(is_written)  # the running server does it
            await remember(client, "The clock is in the hall.")
        server.process.kill()
        await asyncio.to_thread(server.process.wait)
    shutil.move(shared, tmp_path / "unplugged")
    pgengram("call", "create_memory", "content=The violin is in its case.", **laptop)
    pgengram("call", "create_memory", "content=The stove is in the kitchen.", **desktop)
    for home in homes:
        assert "is not there" in pgengram("sync", "now", expect=1, **home).stdout
        status = answered("sync", "status", "--json", **home)
        assert "is not there" in status["problem"]
        assert status["changes"] >= 1

    shutil.move(tmp_path / "unplugged", shared)
    for home in (laptop, desktop, laptop):
        pgengram("sync", "now", **home)
    assert texts(laptop) == texts(desktop)
    assert len(texts(laptop)) == 6
    for home in homes:
        status = answered("sync", "status", "--json", **home)
        assert (status["problem"], status["unread"]) == (None, {})
        assert sorted(device["name"] for device in status["devices"]) == ["desktop", "laptop"]
