"""A backup lets nobody in whom the store it came from has shut out since, and shuts nobody out who is still welcome."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fido2", reason="pgengram[passkeys] is not installed")

from http_server import serving_http
from signing_in import Program
from soft_authenticator import Device
from test_passkeys import by_passkey, with_passkey

from helpers import Database, database_of
from machine import answered, pgengram


class Home:
    """A store, and the server in front of it, which runs only now and then."""

    def __init__(self, database: Database) -> None:
        self.settings = {"database_url": database.url, "embedder": "none:"}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.base = f"http://localhost:{port}"
        self._words = ("--sign-in", "--sign-in-rate", "100000", "--port", port, "--url", f"{self.base}/mcp")

    def serving(self) -> object:
        return serving_http(*self._words, **self.settings)

    async def pair(self) -> str:
        return str((await asyncio.to_thread(answered, "pair", "--json", **self.settings))["code"])

    async def run(self, *words: str) -> None:
        await asyncio.to_thread(pgengram, *words, **self.settings)

    async def restore(self, path: str) -> dict[str, int]:
        told = await asyncio.to_thread(answered, "restore", path, "--yes", "--without-copy", "--json", **self.settings)
        return {"tokens": told["again"]["tokens"], "let_in": told["let_in"]}


@pytest.fixture
def home(postgres: str, template: str) -> Iterator[Home]:
    with database_of(postgres, template, keeps=False) as made:
        yield Home(made)


async def test_what_was_ended_since_a_backup_stays_ended_and_what_was_not_goes_on(home: Home, tmp_path: Path) -> None:
    before, early = str(tmp_path / "before.backup"), str(tmp_path / "early.backup")
    ended, going_on = Program(home.base), Program(home.base)
    lost, kept = Device(home.base), Device(home.base)
    with home.serving():  # type: ignore[attr-defined]
        await home.pair()
    await home.run("backup", before)
    with home.serving():  # type: ignore[attr-defined]
        of_ended, first = await ended.signed_in(home.pair), await going_on.signed_in(home.pair)
        for device in (lost, kept):
            assert (await with_passkey(home.base, await home.pair(), device)).status_code == 303
        waiting = await home.pair()
    await home.run("backup", early)
    with home.serving():  # type: ignore[attr-defined]
        second = (await going_on.refresh(first["refresh_token"])).json()
        third = (await going_on.refresh(second["refresh_token"])).json()
        assert (await by_passkey(home.base, kept)).status_code == 303
    connections = await asyncio.to_thread(answered, "connection", "list", "--json", **home.settings)
    keys = await asyncio.to_thread(answered, "passkey", "list", "--json", **home.settings)
    await home.run("connection", "revoke", connections[0]["id"])
    await home.run("passkey", "remove", keys[0]["id"])

    assert await home.restore(early) == {"tokens": 3, "let_in": 0}
    with home.serving():  # type: ignore[attr-defined]
        await shut_out(ended, of_ended, lost)
        again = await going_on.refresh(third["refresh_token"])
        assert again.status_code == 200, "a program that went on since the backup goes on"
        assert (await going_on.call(again.json()["access_token"])).status_code == 200
        kept.count -= 1
        assert (await by_passkey(home.base, kept)).status_code == 200, "a copy that has signed less often"
        assert (await by_passkey(home.base, kept)).status_code == 303
        page = await ended.page()
        assert "not right" in (await ended.answer(page, waiting)).text, "no code waits that may have been used since"
        assert (await going_on.refresh(first["refresh_token"])).json()["error"] == "invalid_grant"
        assert (await going_on.refresh(again.json()["refresh_token"])).json()["error"] == "invalid_grant", "a thief's"

    await home.restore(before)
    await home.restore(early)
    with home.serving():  # type: ignore[attr-defined]
        await shut_out(ended, of_ended, lost)


async def shut_out(program: Program, tokens: dict[str, str], device: Device) -> None:
    """Check that neither a program's tokens nor a device's passkey are good."""
    assert (await program.call(tokens["access_token"])).status_code == 401
    assert (await program.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await by_passkey(program.base, device)).status_code == 200


async def test_where_nothing_is_known_of_whom_a_backup_lets_in_its_restore_says_so(
    home: Home, blank: Database, tmp_path: Path
) -> None:
    path = str(tmp_path / "of-another-machine.backup")
    with home.serving():  # type: ignore[attr-defined]
        await Program(home.base).signed_in(home.pair)
        await with_passkey(home.base, await home.pair(), Device(home.base))
    await home.run("token", "create", "Mara's laptop")
    await home.run("backup", path)

    elsewhere = {"database_url": blank.url, "embedder": "none:"}
    told = await asyncio.to_thread(pgengram, "restore", path, "--yes", **elsewhere)
    assert "4 tokens, connections and passkeys" in told.stdout
    assert "pgengram connection revoke --all" in told.stdout
    assert await home.restore(path) == {"tokens": 0, "let_in": 0}, "they are known here"
