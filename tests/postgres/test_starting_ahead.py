"""A server is started while the program that needs it is still being imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from machine import copied
from pgengram.errors import NotReady
from pgengram.postgres import server_status
from pgengram.settings import Settings
from pgengram.store import ahead
from pgengram.store.store import Store


@pytest.fixture
def mine(prepared: Path, tmp_path: Path) -> Path:
    copied(prepared, tmp_path)
    return tmp_path


async def test_the_store_takes_the_server_that_was_begun_ahead(mine: Path) -> None:
    settings = Settings(data_dir=str(mine))
    ahead.start_ahead(settings, embeds=False)
    store = Store(settings)

    await store.open()
    seen = server_status(mine)
    await store.close()

    assert (seen.running, seen.present) == (True, 1)
    assert not server_status(mine).running


async def test_a_server_that_was_begun_for_a_store_that_nobody_opened_ends_with_it(mine: Path) -> None:
    settings = Settings(data_dir=str(mine))
    ahead.start_ahead(settings, embeds=False)

    await Store(settings).close()

    assert not server_status(mine).running


async def test_a_start_that_fails_ahead_is_told_to_the_first_who_asks_and_tried_again_then(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.write_text("This is no folder.")
    settings = Settings(data_dir=str(folder))
    ahead.start_ahead(settings, embeds=False)
    store = Store(settings)

    with pytest.raises(NotReady, match="cannot be used"):
        await store.open()
    folder.unlink()
    await store.open()
    await store.close()

    assert (folder / "postgres").is_dir()


def test_what_was_said_before_somebody_listens_is_not_lost(mine: Path) -> None:
    begun, heard = ahead.Begun(mine), list[str]()
    server = begun.server()

    begun.listen(heard.append)
    server.stop()

    assert heard
