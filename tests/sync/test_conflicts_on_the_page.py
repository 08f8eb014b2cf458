"""What two machines say of the same memory, in the review of the web app."""

from __future__ import annotations

import sys
from html import unescape
from pathlib import Path

import httpx
from machines import Machine, all_have_all, carry

from helpers import NAMESPACE, PATIENCE_S, Database

sys.path.append(str(Path(__file__).parents[1] / "ui"))
from ui_process import Ui, run_ui


async def test_the_page_shows_what_another_machine_said_at_the_same_time_until_somebody_chooses(
    database: Database, tmp_path: Path
) -> None:
    laptop = Machine(database, tmp_path / "laptop", "laptop", namespace=NAMESPACE)
    desktop = Machine(database, tmp_path / "desktop", "desktop")
    key = await laptop.begins()
    id_ = await laptop.adds("The mill opens at 9.")
    await laptop.syncs()
    carry([laptop, desktop])
    await desktop.begins(key)
    await all_have_all([laptop, desktop])
    await laptop.edits(id_, content="The mill opens at 8.")
    await desktop.edits(id_, content="The mill opens at 10.")
    await all_have_all([laptop, desktop])
    async with (
        run_ui(database.url, embedder="none:") as link,
        httpx.AsyncClient(base_url=link.partition("/enter")[0], timeout=PATIENCE_S) as client,
    ):
        ui = Ui(link, client, database, {"mill": id_}, await client.get(link))
        settings = await ui.page("/settings")
        assert "1 memory was changed on two machines at once" in " ".join(settings.split())
        assert 'href="/review?find=disputed"' in settings
        review = unescape(await ui.page("/review", find="disputed"))
        assert "The mill opens at 10." in review
        assert "content: The mill opens at 8." in review
        await desktop.edits(id_, confirm=True)
        await all_have_all([laptop, desktop])
        await client.get("/review?again=1")
        assert "The mill opens at 8." not in unescape(await ui.page("/review"))
        assert "two machines at once" not in await ui.page("/settings")
    for one in (laptop, desktop):
        await one.memories.close()
