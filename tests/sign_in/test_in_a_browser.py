"""The sign-in page in a real browser, under the policy that it is served with."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from http_server import HttpServer
from signing_in import PROFILES, Pair, Profile, Program

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


@asynccontextmanager
async def program_that_listens() -> AsyncIterator[tuple[str, list[str]]]:
    """Be a program that waits for its answer on this machine; give its address, and what came."""
    came: list[str] = []

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append((await reader.readuntil(b"\r\n\r\n")).decode().split()[1])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answers, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback", came


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_person_on_a_phone_types_a_wrong_code_then_the_right_one_and_is_back_in_the_program(
    web: HttpServer, pair: Pair, theme: str
) -> None:
    async with program_that_listens() as (back, came), playwright.async_playwright() as tool:
        program = Program(web.base, Profile("Claude Code", PROFILES[1].client_id, back))
        chromium = await tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = await chromium.new_context(viewport={"width": 320, "height": 640}, color_scheme=theme)
        page = await context.new_page()
        problems: list[Any] = []
        page.on(
            "console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: problems.append(error))

        await page.goto(f"{web.base}/oauth/authorize?{urlencode(program.asks())}")
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 320
        await page.get_by_label("Code").fill("zzzz zzzz")
        await page.get_by_role("button", name="Allow", exact=True).click()
        assert "4 tries left" in await page.get_by_role("alert").inner_text()
        await page.get_by_label("Code").fill((await pair()).lower())
        await page.get_by_role("button", name="Allow", exact=True).click()
        await page.wait_for_url(f"{back}?*")
        assert problems == []
        assert "code=" in came[0]
        assert "iss=" in came[0]
        await chromium.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_phone_is_let_in_searches_stores_and_signs_out(web: HttpServer, pair: Pair, theme: str) -> None:
    async with playwright.async_playwright() as tool:
        chromium = await tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = await chromium.new_context(viewport={"width": 320, "height": 640}, color_scheme=theme)
        page = await context.new_page()
        problems: list[Any] = []
        page.on(
            "console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: problems.append(error))

        await page.goto(f"{web.base}/")
        await page.get_by_label("Code").fill((await pair()).lower())
        await page.get_by_role("button", name="Allow", exact=True).click()
        await page.wait_for_url(f"{web.base}/")
        await page.get_by_role("link", name="Add memory").click()
        await page.locator("textarea[name=content]").fill(f"The {theme} lamp stands in the hall.")
        await page.locator("form[action='/new'] button.strong").click()
        await page.wait_for_url(f"{web.base}/memory/*")
        await page.goto(f"{web.base}/?q={theme}+lamp")
        await page.get_by_text(f"The {theme} lamp stands in the hall.").first.wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 320
        await page.goto(f"{web.base}/connections")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 320
        await page.get_by_role("button", name="End the connection of").first.click()
        await page.wait_for_url(f"{web.base}/oauth/page?*")
        assert problems == []
        await chromium.close()
