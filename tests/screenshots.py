"""Make the pictures of the web app under docs/img, from the demo's invented company: python tests/screenshots.py

It needs Playwright (`pip install playwright`) and a Chromium. A run starts the embedded PostgreSQL in a temporary folder.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, async_playwright

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "ui")]

from ui_process import run_ui

from pgengram import demo
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

FOLDER: Final = Path(__file__).parents[1] / "docs" / "img"
DESKTOP: Final = {"width": 1280, "height": 760}
PHONE: Final = {"width": 390, "height": 760}
PICTURES: Final[dict[str, tuple[str, dict[str, int], str]]] = {
    "ui-search": ("/?q=who+should+not+drink+coffee", DESKTOP, "light"),
    "ui-memory": ("/memory/{memory}", DESKTOP, "light"),
    "ui-review": ("/review", DESKTOP, "light"),
    "ui-map": ("/map", DESKTOP, "light"),
    "ui-map-dark": ("/map", DESKTOP, "dark"),
    "ui-phone": ("/?q=who+should+not+drink+coffee", PHONE, "dark"),
}

DISAGREEING: Final = (  # for the review
    "The printer in the office in Bern needs toner 305 and stands beside the green door.",
    "The printer in the office in Bern needs toner 415 and stands beside the green door.",
)


async def fill(data_dir: str) -> str:
    """Store the demo's memories, and return the id of one."""
    manager = MemoryManager(Settings(data_dir=data_dir))
    try:
        await manager.open()
        stored = await manager.create_memories([one.arguments() for one in demo.load().memories])
        await manager.create_memories([{"content": one, "dedup_policy": "insert"} for one in DISAGREEING])
        return str(stored.results[0]["memory_id"])
    finally:
        await manager.close()


async def photograph(browser: Browser, link: str, memory: str) -> None:
    """Open the link once and write every picture."""
    base = link.partition("/enter")[0]
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(link)
    await page.wait_for_url(base + "/")
    state: Any = await context.storage_state()
    for name, (path, size, scheme) in PICTURES.items():
        look: dict[str, Any] = {"viewport": size, "color_scheme": scheme, "storage_state": state}
        page = await (await browser.new_context(**look)).new_page()
        await page.goto(base + path.format(memory=memory))
        await page.locator(".waiting").first.wait_for(state="detached", timeout=120_000)
        await page.wait_for_load_state("networkidle")
        await page.screenshot(path=FOLDER / f"{name}.png")


async def main(data_dir: str, chromium: str) -> None:
    """Fill a store, start the page over it and write the pictures."""
    memory = await fill(data_dir)
    async with run_ui("", data_dir=data_dir) as link, async_playwright() as tool:
        browser = await tool.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        await photograph(browser, link, memory)
        await browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # for root another user's PostgreSQL must reach it
        found = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
        asyncio.run(main(str(Path(folder) / "data"), found))
