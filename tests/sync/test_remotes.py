"""Machines that share no folder: their files are at a pgengram server, in a git repository, or behind ssh."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from http_server import HttpServer, outcome, serving_http, status
from machines import Machine, differences

from helpers import Database, database_of, nightly
from pgengram.errors import Conflict, InvalidInput
from pgengram.sync import devices
from pgengram.sync.files import read
from pgengram.sync.keys import Key
from pgengram.sync.remotes import git, ssh
from pgengram.sync.schedule import ExchangeScheduler

SECRET = "The alarm code is under the stair."
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift 2
cd "$HOME_OF_SSH" && exec sh -c "$*"
"""


@dataclass
class Meeting:
    """Where two machines meet. away: what stops being there when the place is; stores: where its files lie."""

    address: str
    token: str | None
    away: Path | None
    stores: Path

    def texts(self, key: Key) -> str:
        """Return all that a person with the key can read there."""
        found = [str(list(read(path, key))) for path in self.stores.rglob("*.sync")]
        for heads in self.stores.rglob("refs/heads"):
            found += [str(list(read(path, key))) for path in checked_out(heads.parents[1])]
        return "".join(found)


def checked_out(repository: Path) -> list[Path]:
    """Return all files that any commit of a repository has, each written out."""
    folder = Path(tempfile.mkdtemp(dir=repository.parents[1]))
    listed = subprocess.run(
        ["git", "-C", repository, "rev-list", "--objects", "--branches"], check=True, capture_output=True, text=True
    )
    for place, line in enumerate(listed.stdout.splitlines()):
        blob, _, name = line.partition(" ")
        if name.endswith(".sync"):
            data = subprocess.run(["git", "-C", repository, "cat-file", "blob", blob], check=True, capture_output=True)
            (folder / f"{place}.sync").write_bytes(data.stdout)
    return sorted(folder.iterdir())


@pytest.fixture(params=["server", "git", "ssh"])
def meeting(
    request: pytest.FixtureRequest, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Meeting]:
    """A place where machines meet."""
    stores = tmp_path / "there"
    stores.mkdir()
    if request.param == "server":
        settings = {"database_url": database.url, "embedder": "none:", "data_dir": str(stores)}
        with serving_http(**settings) as server:
            yield Meeting(server.url, server.token("probe", "--namespace", "relay"), None, stores)
    elif request.param == "git":
        subprocess.run(["git", "init", "--quiet", "--bare", stores / "memory.git"], check=True)
        yield Meeting(f"git+file://{stores}/memory.git", None, stores / "memory.git", stores)
    else:
        program = tmp_path / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(SSH)
        program.chmod(0o700)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        monkeypatch.setenv("HOME_OF_SSH", str(stores))
        yield Meeting("ssh://ada@home.example:2222/~/mem ories", None, stores, stores)


@pytest_asyncio.fixture
async def pair(meeting: Meeting, database: Database, tmp_path: Path) -> AsyncIterator[tuple[Machine, Machine]]:
    """Two machines that meet there."""
    laptop, desktop = (
        Machine(database, tmp_path / name, name, address=meeting.address, token=meeting.token)
        for name in ("laptop", "desktop")
    )
    key = await laptop.begins()
    await laptop.syncs()
    await desktop.begins(key)
    yield laptop, desktop
    for one in (laptop, desktop):
        await one.memories.close()


async def exchange_all(*machines: Machine) -> None:
    """Let machines exchange until nothing is new to any."""
    for _ in range(12):
        outcomes = [await one.syncs() for one in machines]
        assert [(one.problem, one.unread) for one in outcomes] == [(None, {})] * len(machines)
        if not any(one.taken or one.written or one.erased for one in outcomes):
            return
    raise AssertionError("the machines never come to an end")


@pytest.mark.parametrize("meeting", ["server", *nightly("git", "ssh")], indirect=True)
async def test_machines_without_a_shared_folder_have_one_memory_and_erase_it_everywhere(
    meeting: Meeting, pair: tuple[Machine, Machine], tmp_path: Path
) -> None:
    laptop, desktop = pair
    id_ = await laptop.adds(SECRET, tags=["house"])
    await desktop.adds("The stair is oak.")
    await exchange_all(laptop, desktop)
    assert differences(await laptop.states(), await desktop.states()) == []
    key = Key((await laptop.exchange_settings()).secret)
    assert "alarm" in meeting.texts(key)
    for number in range(52):  # so many files that they become one
        await laptop.adds(f"Boat {number} is blue.")
        await laptop.syncs()
    assert len(list(laptop.data.rglob("0*.sync"))) < 20
    await laptop.erases(id_)
    await exchange_all(laptop, desktop)
    await exchange_all(laptop, desktop)
    assert sorted((await desktop.texts()).values())[-1] == "The stair is oak."
    assert len(await desktop.texts()) == 53
    assert differences(await laptop.states(), await desktop.states()) == []
    assert [one.where("alarm") for one in pair] == [[], []]
    assert "alarm" not in meeting.texts(key)
    assert [device.behind for device in (await laptop.status()).devices] == [False, False]
    shutil.rmtree(laptop.data)  # all that it had here
    await laptop.edits(next(iter(await laptop.texts())), project="harbour")
    await exchange_all(laptop, desktop)
    assert len({device.id for device in (await desktop.status()).devices}) == 2
    assert differences(await laptop.states(), await desktop.states()) == []
    await devices.end(laptop.memories)
    assert list(laptop.data.rglob("*.sync")) == []


async def test_a_place_that_is_away_stops_nothing_and_status_says_so(
    meeting: Meeting, pair: tuple[Machine, Machine]
) -> None:
    laptop, desktop = pair
    if meeting.away is None:
        pytest.skip("the server of this test cannot go away")
    away = meeting.away.rename(meeting.away.with_name("away"))
    await laptop.adds(SECRET)
    assert (await laptop.syncs()).problem
    assert (await laptop.status()).problem
    assert (await laptop.status()).changes >= 1
    away.rename(meeting.away)
    await exchange_all(laptop, desktop)
    assert (await laptop.status()).problem is None
    assert list((await desktop.texts()).values()) == [SECRET]


async def test_two_machines_that_write_at_the_same_moment_both_arrive(pair: tuple[Machine, Machine]) -> None:
    for number in range(4):
        for one in pair:
            await one.adds(f"{one.name} {number} is blue.")
        outcomes = await asyncio.gather(*(one.syncs() for one in pair))
        assert [(one.problem, one.unread) for one in outcomes] == [(None, {})] * 2
    await exchange_all(*pair)
    assert differences(await pair[0].states(), await pair[1].states()) == []
    assert len(await pair[0].texts()) == 8


async def test_what_lets_a_machine_into_a_server_is_told_to_nobody(
    database: Database, tmp_path: Path, door: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    issued = door.issued("laptop", "--namespace", "ada")
    token = issued["token"]
    laptop = Machine(database, tmp_path / "laptop", "laptop", address=door.base, token=token)
    other = Machine(database, tmp_path / "other", "other")
    await other.begins()
    key = await laptop.begins()
    await laptop.adds(SECRET)
    await laptop.syncs()
    texts = [
        json.dumps(await laptop.lines()),
        "".join(str(list(read(path, key))) for path in laptop.data.rglob("*.sync")),
        json.dumps((await laptop.status()).as_dict()),  # as the command and the page show it
        repr(await laptop.exchange_settings()),
    ]
    assert "alarm" in texts[0]
    assert "alarm" in texts[1]
    outcome("token", "revoke", issued["id"], **door.settings)
    problem = str((await laptop.syncs()).problem)
    assert "401" in problem
    texts += [problem, str((await laptop.status()).problem), caplog.text]
    for text in texts:
        assert token not in text
        assert key.code not in text
    [row] = database.rows("SELECT * FROM sync_settings", namespace=other.namespace)  # nobody else's namespace sees it
    assert row["device_name"] == "other"
    for one in (laptop, other):
        await one.memories.close()


async def test_nothing_is_begun_where_nothing_can_be_exchanged(database: Database, tmp_path: Path) -> None:
    for address, said in (
        ("https://home.example/mcp", "ends within a day"), ("ftp://home.example/memory", "ftp"), ("http://8.8.8.8/mcp", "not encrypted"), ("http://127.0.0.1:9/mcp", "127.0.0.1:9"),
        (f"git+file://{tmp_path}/nowhere.git", "git says"),
    ):  # fmt: skip
        one = Machine(database, tmp_path / "laptop", "laptop", address=address)
        one.token = "pga_abc_def" if address.startswith("https:") else None  # of a program that signed in
        with pytest.raises(InvalidInput, match=said):
            await one.begins()
        await one.memories.ready()
        with pytest.raises(Conflict, match="not synchronised"):
            await one.status()
        await one.memories.close()


@pytest.fixture(scope="module")
def door(postgres: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server that machines exchange files through."""
    with (
        database_of(postgres, template) as made,
        serving_http(database_url=made.url, embedder="none:", data_dir=str(tmp_path_factory.mktemp("door"))) as server,
    ):
        yield server


def test_the_server_keeps_only_files_of_machines_for_those_who_may_write(door: HttpServer) -> None:
    own, reads, other = (
        {"authorization": f"Bearer {door.token(name, '--namespace', namespace, *more)}"}
        for name, namespace, more in (("a", "ada", ()), ("b", "ada", ("--read-only",)), ("c", "ben", ()))
    )
    memory = f"{door.base}/sync/{'a' * 20}"
    name = f"{'b' * 16}/000000000001-{'c' * 12}.sync"
    body = b"pgengram-sync\n" + bytes(1000)

    def asked(method: str, path: str, headers: dict[str, str], content: bytes = b"") -> httpx.Response:
        return httpx.request(method, memory + path, headers=headers, content=content)

    assert asked("PUT", f"/{name}", own, body).status_code == 204
    assert asked("GET", f"/{name}", own).content == body
    assert list(asked("GET", "", own).json()["files"]) == [name]
    assert asked("GET", "", other).json()["files"] == {}
    assert asked("GET", f"/{name}", other).status_code == 404
    assert [asked(method, f"/{name}", reads).status_code for method in ("GET", "PUT", "DELETE")] == [403] * 3
    assert asked("GET", "", {}).status_code == 401
    assert asked("GET", "", own | {"origin": "https://evil.example"}).status_code == 403
    assert asked("GET", "", own | {"host": "evil.example"}).status_code == 421
    assert asked("PUT", f"/{name}", own, b"#!/bin/sh").status_code == 422
    for path in ("/../../../x", f"/{'b' * 16}/x.sync", f"/{'b' * 16}/..%2f..%2fx", f"/{name}.part", f"/{'b' * 16}"):
        assert asked("PUT", path, own, body).status_code in (404, 405), path
    head = f"PUT /sync/{'a' * 20}/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {own['authorization']}\r\n"
    assert status(door.raw(f"{head}Content-Length: 99999999999\r\n\r\n".encode())) == 413
    assert asked("DELETE", f"/{name}", own).status_code == 204
    assert asked("GET", "", own).json()["files"] == {}


async def test_a_server_that_takes_part_itself_offers_its_own_folder(database: Database, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    server = Machine(database, shared, "server")
    key = await server.begins()
    await server.adds("The server stands in the cellar.")
    await server.syncs()
    with serving_http(database_url=database.url, embedder="none:", data_dir=str(tmp_path / "data")) as door:
        token = door.token("laptop", "--namespace", server.namespace)
        laptop = Machine(database, tmp_path / "laptop", "laptop", address=door.base, token=token)
        await laptop.begins(key)
        await laptop.adds("The laptop is on the table.")
        await exchange_all(laptop, server)
        assert differences(await laptop.states(), await server.states()) == []
        assert len(await server.texts()) == 2
    for one in (laptop, server):
        await one.memories.close()


async def test_a_remote_that_starts_programs_is_asked_less_and_less_while_nothing_happens(
    meeting: Meeting, pair: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = pair
    await exchange_all(laptop, desktop)
    started: list[Sequence[str]] = []
    for module in (git, ssh):
        run = module.run_program
        monkeypatch.setattr(
            module, "run_program", lambda *of, run=run, **more: started.append(of[0]) or run(*of, **more)
        )
    scheduler = ExchangeScheduler(laptop.memories, every_s=60)
    pauses = []
    for _ in range(4):
        await scheduler._look()
        pauses.append(scheduler.pause_s)
    costly = laptop.address.startswith(("git+", "ssh:"))
    assert pauses[-1] == (240 if costly else 60)
    started.clear()
    await scheduler._look()
    assert len(started) == costly
    await desktop.adds("The ladder is in the cellar.")
    await desktop.syncs()
    await scheduler._look()
    assert scheduler.pause_s == 60
    assert await laptop.finds("ladder") == ["The ladder is in the cellar."]
