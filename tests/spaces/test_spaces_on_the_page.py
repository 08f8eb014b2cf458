"""The page of somebody who shares memories."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
from sharing_team import Team

from helpers import PATIENCE_S
from pgengram.store import membership

sys.path.append(str(Path(__file__).parents[1] / "ui"))  # a real page of this machine

from ui_process import Ui, run_ui

OVEN = "The oven in the shared kitchen runs ten degrees hot."


async def test_the_page_lists_ones_spaces_and_shows_who_stored_what(team: Team) -> None:
    await team.mara.remember(OVEN, space="Kitchen")
    id_ = await team.mara.remember("Flour is on the top shelf.", space="Kitchen")
    await membership.create(team.home.store, "Cellar", team.people["dora"])

    async with (
        run_ui(team.database.url, namespace="ben", embedder="none:") as link,
        httpx.AsyncClient(base_url=link.partition("/enter")[0], timeout=PATIENCE_S) as browser,
    ):
        page = Ui(link, browser, team.database, {}, await browser.get(link))
        names = await page.page("/namespaces")
        assert "space:Kitchen" in names
        assert "Cellar" not in names
        await page.send("/namespaces", name="space:Kitchen")
        assert OVEN in await page.page("/")
        shown = await page.page(f"/memory/{id_}")
        assert "shared by" in shown
        assert "Mara" in shown
        assert (await page.send("/namespaces", name="space:Cellar")).status_code == 404

        await membership.remove(team.home.store, team.kitchen.id, team.people["ben"], by=team.people["mara"])
        assert OVEN not in await page.page("/")
