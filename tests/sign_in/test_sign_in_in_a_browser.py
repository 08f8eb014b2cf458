"""The sign-in page in a real browser, under the policy that it is served with."""

from __future__ import annotations

import asyncio
import html
import os
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
KEEP = os.environ.get("PGENGRAM_TEST_SCREENSHOTS")  # a folder
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


@asynccontextmanager
async def phone(theme: str) -> AsyncIterator[tuple[Any, list[Any], Any]]:
    """Open a browser of a phone's size; give its page, what that complains of, and the context that it is in."""
    async with playwright.async_playwright() as tool:
        chromium = await tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = await chromium.new_context(viewport={"width": 320, "height": 640}, color_scheme=theme)
        page = await context.new_page()
        problems: list[Any] = []
        page.on(
            "console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: problems.append(error))
        yield page, problems, context
        await chromium.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_person_on_a_phone_types_a_wrong_code_then_the_right_one_and_is_back_in_the_program(
    web: HttpServer, pair: Pair, theme: str
) -> None:
    async with program_that_listens() as (back, came), phone(theme) as (page, problems, _):
        program = Program(web.base, Profile("Claude Code", PROFILES[1].client_id, back))

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


async def test_no_other_page_frames_the_sign_in(web: HttpServer) -> None:
    async with phone("light") as (page, *_):
        address = f"{web.base}/oauth/authorize?{urlencode(Program(web.base).asks())}"
        other = f"<!doctype html><iframe src='{html.escape(address)}'></iframe>"

        async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(other)}\r\nconnection: close\r\n\r\n"
            writer.write((head + other).encode())
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(answers, "127.0.0.1", 0) as server:
            await page.goto(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        assert [one.url.partition(":")[0] for one in page.frames] == ["http", "chrome-error"]


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_phone_is_let_in_searches_stores_and_signs_out(web: HttpServer, pair: Pair, theme: str) -> None:
    async with phone(theme) as (page, problems, _):
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


@asynccontextmanager
async def browser_with_a_device(theme: str) -> AsyncIterator[tuple[Any, list[Any], Any]]:
    """Open a browser of a phone's size on a device that makes passkeys; give its page, what it complains of, and a way
    to say whether the person is there.
    """
    async with phone(theme) as (page, problems, context):
        devtools = await context.new_cdp_session(page)
        await devtools.send("WebAuthn.enable")
        device = {
            "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
            "isUserVerified": True, "automaticPresenceSimulation": True,
        }  # fmt: skip
        made = await devtools.send("WebAuthn.addVirtualAuthenticator", {"options": device})

        async def is_verified(yes: bool) -> None:
            where = {"authenticatorId": made["authenticatorId"], "isUserVerified": yes}
            await devtools.send("WebAuthn.setUserVerified", where)

        yield page, problems, is_verified


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_phone_adds_a_passkey_with_a_code_and_is_let_in_by_it_afterwards(
    named_web: HttpServer, pair: Pair, theme: str
) -> None:
    pytest.importorskip("fido2", reason="pgengram[passkeys] is not installed")
    base = f"http://localhost:{named_web.address[1]}"
    async with program_that_listens() as (back, came), browser_with_a_device(theme) as (page, problems, is_verified):
        program = Program(base, Profile("Claude Code", PROFILES[1].client_id, back))
        address = f"{base}/oauth/authorize?{urlencode(program.asks())}"
        await page.goto(address)
        await page.get_by_label("Code").fill(await pair())
        await page.get_by_label("Then add a passkey").check()
        await shown(page, f"passkey-1-{theme}")
        await page.get_by_role("button", name="Allow", exact=True).click()
        await page.get_by_role("button", name="Add a passkey for next time").click()
        await page.get_by_text("The passkey is added when you choose Allow.").wait_for()
        await shown(page, f"passkey-2-{theme}")
        await page.get_by_role("button", name="Allow", exact=True).click()
        await page.wait_for_url(f"{back}?*")

        await page.goto(address)
        await is_verified(False)  # a finger that the device doesn't know
        await page.get_by_role("button", name="Allow with a passkey").click()
        await page.get_by_text("No passkey was used. Try again, or type a code.").wait_for()
        await is_verified(True)
        await page.get_by_role("button", name="Allow with a passkey").click()
        await page.wait_for_url(f"{back}?*")
        assert sum("code=" in one for one in came) == 2
        assert problems == []

        await page.goto(f"{base}/")
        await page.get_by_role("button", name="Allow with a passkey").click()
        await page.wait_for_url(f"{base}/")
        await page.goto(f"{base}/connections")
        await page.get_by_role("heading", name="Passkeys").wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth") <= 320
        await shown(page, f"passkey-3-{theme}")
        await page.get_by_role("button", name="Remove the passkey of").first.click()
        await page.get_by_text("is removed.").wait_for()
        await page.goto(address)
        await page.get_by_role("button", name="Allow with a passkey").click()
        assert "not known here, or was removed" in await page.get_by_role("alert").inner_text()
        assert problems == []


async def shown(page: Any, name: str) -> None:
    """Take a picture for whoever wants to look."""
    assert await page.evaluate("document.documentElement.scrollWidth") <= 320
    if KEEP:
        await page.screenshot(path=f"{KEEP}/sign-in-{name}.png", full_page=True)
