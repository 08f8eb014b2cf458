"""Make the pictures of the web app under docs/img, from the demo's invented company: python tests/screenshots.py

`--every FOLDER` writes every view instead, in three sizes, light and dark, with texts that are hard to show: Chinese, Arabic, emoji,
HTML, many tags, 16,000 characters. It needs Playwright (`pip install playwright`) and a Chromium, and fonts for these scripts. A run starts the
embedded PostgreSQL in a temporary folder.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

from playwright.async_api import Browser, async_playwright

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "ui")]

from ui_process import run_ui

from pgengram import demo
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

Picture = tuple[Path, str, Any, Literal["light", "dark"]]  # file, address, size, scheme
FOLDER: Final = Path(__file__).parents[1] / "docs" / "img"
DESKTOP: Final = {"width": 1280, "height": 760}
PHONE: Final = {"width": 390, "height": 760}
PICTURES: Final[dict[str, tuple[str, dict[str, int], Literal["light", "dark"]]]] = {
    "ui-search": ("/?q=who+should+not+drink+coffee", DESKTOP, "light"),
    "ui-memory": ("/memory/{memory}", DESKTOP, "light"),
    "ui-review": ("/review", DESKTOP, "light"),
    "ui-map": ("/map", DESKTOP, "light"),
    "ui-map-dark": ("/map", DESKTOP, "dark"),
    "ui-phone": ("/?q=who+should+not+drink+coffee", PHONE, "dark"),
}

VIEWS: Final = (
    "/", "/?q=who+should+not+drink+coffee", "/?q=zzz&tags=no-such-tag", "/new", "/memory/{memory}", "/memory/{long}", "/memory/{arabic}",
    "/memory/{hostile}", "/timeline", "/conversations", "/projects", "/clusters", "/map", "/graph", "/graph?id={memory}", "/review",
    "/review?find=contradictions", "/review?find=untagged", "/review?find=plan", "/trash", "/trash?status=archived", "/health", "/import",
    "/export", "/tokens", "/receipts", "/namespaces", "/memory/00000000-0000-0000-0000-000000000000",
)  # fmt: skip
SIZES: Final = {"1440": (1440, 900), "1024": (1024, 768), "390": (390, 844)}
HARD: Final = {  # to show
    "chinese": "奥托在苏黎世的办公室里存放着三百本旧地图册，每年春天都要清点一次。钥匙在门后的木盒子里。",
    "arabic": "المفتاح خلف الباب الأخضر في مكتب برن، ورقم الغرفة 214. **لا تنسَ** إغلاق النافذة في المساء.",
    "emoji": "👩🏽‍🚀 The team's stand-up is at 9:30 🕤 — bring coffee ☕️ and the 🇨🇭 flag. 🎉🎉🎉",
    "hostile": "<script>alert('x')</script> <b>bold</b> \u202eright to left\u202c {{ 7 * 7 }} [click](javascript:alert(1)) " + "W" * 300,
    "long": "# The handbook of the archive\n\n" + "\n\n".join(
        f"## Room {n}\n\nShelf {n} holds *{n * 7} maps* and a `catalogue-{n}.csv`:\n\n- those before 1900\n- those after" for n in range(1, 150)
    )[:15_900],
}  # fmt: skip

TAGS: Final = tuple(f"{word} \u202e{n}" for n, word in enumerate(["<b>tag</b>", "ציפור", "标签", "a" * 56] * 3))
DISAGREEING: Final = (  # for the review
    "The printer in the office in Bern needs toner 305 and stands beside the green door.",
    "The printer in the office in Bern needs toner 415 and stands beside the green door.",
)


async def fill(data_dir: str, *, hard: bool) -> dict[str, str]:
    """Store the demo's memories, and those that are hard to show; return ids by name."""
    manager = MemoryManager(Settings(data_dir=data_dir))
    try:
        await manager.open()
        stored = await manager.create_memories([one.arguments() for one in demo.load_corpus().memories])
        await manager.create_memories([{"content": one, "dedup_policy": "insert"} for one in DISAGREEING])
        ids = {"memory": str(stored.results[0]["memory_id"])}
        if hard:
            made = await manager.create_memories(
                [
                    {"content": text, "tags": [name, "hard to show", *(TAGS if name == "hostile" else ())]}
                    for name, text in HARD.items()
                ]
            )
            ids |= {name: str(one["memory_id"]) for name, one in zip(HARD, made.results, strict=True)}
        return ids
    finally:
        await manager.close()


async def photograph(browser: Browser, link: str, ids: dict[str, str], every: Path | None) -> None:
    """Open the link once and write every picture."""
    base = link.partition("/enter")[0]
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(link)
    await page.wait_for_url(base + "/")
    state: Any = await context.storage_state()
    for file, path, size, scheme in _every(every) if every else _chosen():
        context = await browser.new_context(viewport=size, color_scheme=scheme, storage_state=state)
        page = await context.new_page()
        await page.goto(base + path.format(**ids))
        await page.locator(".waiting").first.wait_for(state="detached", timeout=120_000)
        await page.wait_for_load_state("networkidle")
        if path == "/map":
            await page.locator("#map[data-named]").wait_for(
                timeout=120_000
            )  # its script draws after the page is loaded
        await page.screenshot(path=file)
        await context.close()


def _chosen() -> Iterator[Picture]:
    for name, (path, size, scheme) in PICTURES.items():
        yield FOLDER / f"{name}.png", path, size, scheme


def _every(folder: Path) -> Iterator[Picture]:
    for path in VIEWS:
        name = re.sub(r"[^a-z=]+", "-", path).strip("-") or "start"
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                yield folder / f"{name}-{size}-{scheme}.png", path, {"width": width, "height": height}, scheme


async def main(data_dir: str, chromium: str, every: Path | None) -> None:
    """Fill a store, start the page over it and write the pictures."""
    ids = await fill(data_dir, hard=every is not None)
    async with run_ui("", data_dir=data_dir) as link, async_playwright() as tool:
        browser = await tool.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        await photograph(browser, link, ids, every)
        await browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--every", type=Path, metavar="FOLDER", help="write every view there, for looking at them")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # for root another user's PostgreSQL must reach it
        found = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
        asyncio.run(main(str(Path(folder) / "data"), found, chosen.every))
