"""The pages in a real browser, where playwright and a Chromium are there: no error, nothing from elsewhere, keys, typing."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from ui_process import fill, run_ui

from door import database_of
from pgengram.settings import Settings

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
KEEP = os.environ.get("PGENGRAM_TEST_SCREENSHOTS")  # a folder
AXE = os.environ.get("PGENGRAM_TEST_AXE")  # axe.min.js, to check accessibility as well
VIEWS = (
    "/",
    "/?q=harbour",
    "/timeline",
    "/tags",
    "/graph",
    "/clusters",
    "/map",
    "/review",
    "/trash",
    "/health",
    "/export",
)
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 780}, "is_mobile": True, "has_touch": True},
}


class Browser:
    """A browser that has come in, and what went wrong in it."""

    def __init__(self, chromium: Any, base: str, state: Any, ids: dict[str, str]) -> None:
        self.chromium, self.base, self.state, self.ids = chromium, base, state, ids
        self.problems: list[str] = []

    async def open(self, path: str, look: str = "light", **more: Any) -> Any:
        context = await self.chromium.new_context(storage_state=self.state, **LOOKS[look], **more)
        page = await context.new_page()
        page.on(
            "console", lambda said: said.type in ("error", "warning") and self.problems.append(f"{path}: {said.text}")
        )
        page.on("pageerror", lambda error: self.problems.append(f"{path}: {error}"))
        page.on("request", lambda asked: asked.url.startswith((self.base, "data:")) or self.problems.append(asked.url))
        await page.goto(self.base + path)
        await page.locator(".waiting").wait_for(state="detached")
        return page


@pytest_asyncio.fixture(scope="module")
async def browser(postgres: str, template: str) -> AsyncIterator[Browser]:
    with database_of(postgres, template) as db:
        ids = await fill(Settings(database_url=db.url))
        async with run_ui(db.url) as link, playwright.async_playwright() as tool:
            chromium = await tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            context = await chromium.new_context()
            page = await context.new_page()
            base = link.partition("/enter")[0]
            await page.goto(link)
            await page.wait_for_url(base + "/")
            yield Browser(chromium, base, await context.storage_state(), ids)
            await chromium.close()


@pytest.fixture(autouse=True)
def _nothing_went_wrong(browser: Browser) -> Iterator[None]:
    browser.problems.clear()
    yield
    assert browser.problems == []


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("path", [*VIEWS, "/memory/{stripe}", "/graph?id={stripe}"])
async def test_every_view_is_drawn_without_an_error(browser: Browser, path: str, look: str) -> None:
    page = await browser.open(path.format(**browser.ids), look)

    assert await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    if KEEP:
        name = path.strip("/").replace("{", "").replace("}", "").replace("/", "-").replace("?", "-") or "start"
        await page.screenshot(path=str(Path(KEEP) / f"{look}-{name}.png"))
    await page.context.close()


@pytest.mark.skipif(not AXE, reason="PGENGRAM_TEST_AXE names no axe.min.js")
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("path", [*VIEWS, "/memory/{stripe}"])
async def test_no_view_keeps_anybody_out(browser: Browser, path: str, look: str) -> None:
    page = await browser.open(path.format(**browser.ids), look, bypass_csp=True)
    await page.add_script_tag(content=await asyncio.to_thread(Path(AXE or "").read_text))
    found = await page.evaluate("axe.run().then(all => all.violations)")

    assert [one for one in found if one["impact"] in ("serious", "critical")] == [], json.dumps(found)
    await page.context.close()


async def test_hits_change_while_somebody_types_and_keys_lead_through_them(browser: Browser) -> None:
    page = await browser.open("/")
    await page.locator("#q").press("Escape")
    await page.keyboard.press("/")
    await page.keyboard.type("who must not eat nuts")
    await page.locator(".hit .content", has_text="Jonas is allergic").first.wait_for()
    await page.wait_for_url("**/?q=who*")
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    assert await page.locator(".hit.on").count() == 1
    await page.keyboard.press("Enter")
    await page.locator("h1.content", has_text="Jonas is allergic").wait_for()
    await page.context.close()


async def test_a_memory_is_edited_and_forgotten_by_its_forms(browser: Browser) -> None:
    page = await browser.open(f"/memory/{browser.ids['twelve']}")
    await page.get_by_text("Edit", exact=True).click()
    await page.get_by_label("Content").fill("The office in Bern has 15 desks.")
    await page.get_by_role("button", name="Save").click()
    await page.locator("h1.content", has_text="15 desks").wait_for()
    await page.get_by_text("Forget", exact=True).click()
    await page.get_by_role("button", name="Forget it").click()
    await page.get_by_role("button", name="Restore").click()
    await page.get_by_text("Edit", exact=True).wait_for()
    await page.context.close()
