"""The card that a host shows in the chat: in a real browser, under the policy that hosts give it, in front of a real server."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from http_server import HttpServer, client_of
from mcp import Client
from signing_in import PROFILES, Pair, Program, query

from helpers import read, remember
from pgengram.store import membership, persons
from pgengram.store.store import Store

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
KEEP = os.environ.get("PGENGRAM_TEST_SCREENSHOTS")  # a folder
CARD = "ui://pgengram/card.html"
POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; object-src 'none'; connect-src 'none'"
HOST = """<!doctype html><style>body { margin: 0; color-scheme: THEME; background: Canvas; }</style>
<iframe id="card" src="/card" style="width:100vw;height:600px;border:0" sandbox="allow-scripts"></iframe>
<script>
window.told = [];
const card = document.getElementById("card");
const post = (message) => card.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
window.addEventListener("message", async ({ source, data }) => {
  if (source !== card.contentWindow) return;
  window.told.push(data);
  if (data.method === "ui/initialize") {
    const styles = { variables: { "--color-text-primary": "rgb(1, 2, 3)", "color": "red", "--font-sans": "serif" } };
    const hostContext = { theme: "THEME", locale: "de-DE", timeZone: "Europe/Berlin", ...(window.styled ? { styles } : {}) };
    post({ id: data.id, result: { protocolVersion: data.params.protocolVersion, hostInfo: { name: "host", version: "1" },
      hostCapabilities: { serverTools: {}, updateModelContext: { text: {} } }, hostContext } });
  } else if (data.method === "ui/notifications/initialized") {
    post({ method: "ui/notifications/tool-input", params: { arguments: window.given } });
    post({ method: "ui/notifications/tool-result", params: await window.called("GIVEN_TOOL", window.given) });
  } else if (data.method === "ui/notifications/size-changed") {
    card.style.height = `${data.params.height}px`;
  } else if (data.method === "tools/call") {
    post({ id: data.id, result: await window.called(data.params.name, data.params.arguments) });
  } else if (data.id !== undefined) post({ id: data.id, result: {} });
});
</script>"""


@asynccontextmanager
async def host(width: int = 320) -> AsyncIterator[tuple[Any, Any, list[str]]]:
    """Open a page of a host; give it, the card in it, and what the browser complains of."""
    async with playwright.async_playwright() as tool:
        chromium = await tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = await (await chromium.new_context(viewport={"width": width, "height": 700})).new_page()
        problems: list[str] = []
        page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        yield page, page.frame_locator("#card"), problems
        await chromium.close()


async def opened(page: Any, client: Client, name: str, given: dict[str, Any], theme: str = "light") -> None:
    """Be a host that shows the card of a call, in one of the ways in which hosts frame it."""
    [content] = (await client.read_resource(CARD)).contents

    async def called(tool: str, arguments: dict[str, Any]) -> Any:
        answer = await client.call_tool(tool, arguments)
        return answer.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def answers(route: Any) -> None:
        if route.request.url.endswith("/card"):
            headers = {"content-security-policy": POLICY}
            await route.fulfill(body=content.text, content_type="text/html", headers=headers)
        else:
            body = HOST.replace("THEME", theme).replace("GIVEN_TOOL", name)
            await route.fulfill(body=body, content_type="text/html")

    await page.route("**/*", answers)
    await page.expose_function("called", called)
    await page.add_init_script(f"window.given = {json.dumps(given)}")
    await page.goto("https://host.example.org/")


async def picture(page: Any, name: str) -> None:
    """Take a picture for whoever wants to look; nothing is wider than the host's frame."""
    card = page.frame_locator("#card").locator("html")
    assert await card.evaluate("one => one.scrollWidth <= one.clientWidth")
    if KEEP:
        await page.screenshot(path=f"{KEEP}/card-{name}.png")


async def context_told(page: Any) -> str:
    """Return what the model is told: hosts keep the last update only."""
    updates = [one for one in await page.evaluate("window.told") if one.get("method") == "ui/update-model-context"]
    return str(updates[-1]["params"]["content"][0]["text"]) if updates else ""


async def test_programs_that_sign_in_are_offered_the_card_and_others_are_not(web: HttpServer, pair: Pair) -> None:
    token = (await Program(web.base, PROFILES[0]).signed_in(pair))["access_token"]
    async with client_of(web, token) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        shown = {name for name, tool in tools.items() if (tool.meta or {}).get("ui", {}).get("resourceUri") == CARD}
        assert shown == {"show_memories", "create_memory", "create_memories", "update_memory", "forget_memories"}
        [content] = (await client.read_resource(CARD)).contents
        assert content.mime_type == "text/html;profile=mcp-app"
        assert content.meta == {"ui": {"prefersBorder": True}}, "no domain, so nothing may be fetched"
        assert "://" not in content.text.replace("ui://", "")
        assert len(content.text.encode()) < 60_000
    async with client_of(web, web.token("pasted")) as client:
        others = (await client.list_tools()).tools
        assert not [tool for tool in others if tool.meta or tool.name == "show_memories"]


async def test_where_there_is_no_card_the_answer_says_the_same_as_text(web: HttpServer, pair: Pair) -> None:
    token = (await Program(web.base, PROFILES[0]).signed_in(partial(pair, "card-text")))["access_token"]
    async with client_of(web, token) as client:
        id_ = await remember(client, "Mara drinks tea.")
        calls = {
            "show_memories": {"query": "tea"}, "create_memory": {"content": "Ben drinks milk."},
            "update_memory": {"id": str(id_), "content": "Mara drinks mint tea."}, "forget_memories": {"ids": [str(id_)]},
        }  # fmt: skip
        for name, given in calls.items():
            answer = await client.call_tool(name, given)
            [text] = answer.content
            assert json.loads(text.text) == answer.structured_content, name
            assert answer.meta is None or "pgengram/read_only" not in answer.meta


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize(("theme", "width"), [("light", 320), ("dark", 600)])
async def test_a_person_corrects_forgets_and_undoes_in_the_card(
    web: HttpServer, pair: Pair, theme: str, width: int
) -> None:
    token = (await Program(web.base, PROFILES[0]).signed_in(partial(pair, f"card-{theme}")))["access_token"]
    async with client_of(web, token) as client, host(width) as (page, card, problems):
        hostile = "<img src=x onerror=alert(1)> Mara drinks tea."
        id_ = await remember(client, hostile)
        other = await remember(
            client, "Ben keeps the green tea on the upper shelf of the kitchen cupboard.", kind="fact"
        )
        await opened(page, client, "show_memories", {"ids": [str(id_), str(other)]}, theme)

        await card.get_by_text(hostile).wait_for()
        assert await card.locator("html").get_attribute("data-theme") == theme
        await picture(page, f"{theme}-shown")
        first = card.get_by_role("listitem").first
        await first.get_by_role("button", name="Correct").click()
        await picture(page, f"{theme}-correct")
        await first.get_by_role("textbox").fill("Mara drinks coffee.")
        await first.get_by_role("button", name="Save").click()
        await first.get_by_text("Mara drinks coffee.").wait_for()
        await picture(page, f"{theme}-corrected")
        await first.get_by_role("button", name="Undo").click()
        await first.get_by_text(hostile).wait_for()

        await first.get_by_role("button", name="Correct").click()
        await client.call_tool("update_memory", {"id": str(id_), "content": "Mara drinks cocoa."})  # meanwhile
        await first.get_by_role("textbox").fill("Mara drinks water.")
        await first.get_by_role("button", name="Save").click()
        await first.get_by_text("changed in the meantime").wait_for()
        assert await first.get_by_text("Mara drinks cocoa.").is_visible()
        assert await first.get_by_role("textbox").input_value() == "Mara drinks water."
        await picture(page, f"{theme}-conflict")
        await first.get_by_role("button", name="Cancel").click()

        second = card.get_by_role("listitem").nth(1)
        await second.get_by_role("button", name="Forget").click()
        await second.get_by_text("forgotten").wait_for()
        await picture(page, f"{theme}-forgotten")
        told = await context_told(page)
        assert str(id_) in told, "each update takes the place of the one before, so it holds all"
        assert f"The user had memory {other} forgotten" in told
        await second.get_by_role("button", name="Undo").click()
        await second.get_by_role("button", name="Forget").wait_for()
        assert f"The user restored memory {other}" in await context_told(page)
        methods = [one.get("method") for one in await page.evaluate("window.told")]
        assert methods[:2] == ["ui/initialize", "ui/notifications/initialized"], "hosts take nothing before"
        assert "ui/notifications/size-changed" in methods
        assert problems == []


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
async def test_what_the_assistant_changed_or_replaced_is_taken_back_in_the_card(web: HttpServer, pair: Pair) -> None:
    token = (await Program(web.base, PROFILES[0]).signed_in(partial(pair, "card-undo")))["access_token"]
    async with client_of(web, token) as client:
        id_ = await remember(client, "Mara drinks tea.", importance=0.4)
        async with host() as (page, card, problems):
            change = {"id": str(id_), "content": "Mara drinks gin.", "importance": 0.9}
            await opened(page, client, "update_memory", change)
            await card.get_by_text("Mara drinks gin.").wait_for()
            await card.get_by_role("button", name="Undo").click()
            await card.get_by_text("Mara drinks tea.").wait_for()
            assert problems == []
        now = await read(client, id_)
        assert (now["content"], now["importance"]) == ("Mara drinks tea.", 0.4)
        async with host() as (page, card, problems):
            wrong = {"content": "Mara drinks rum.", "replaces": [str(id_)]}
            await opened(page, client, "create_memory", wrong)
            await card.get_by_text("Mara drinks rum.").wait_for()
            await card.get_by_role("button", name="Forget").click()
            old = card.get_by_role("listitem").nth(1)
            await old.get_by_role("button", name="Undo").click()
            await old.get_by_role("button", name="Forget").wait_for()
            assert problems == []
        assert (await read(client, id_))["status"] == "active"


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
async def test_a_memory_of_a_space_is_corrected_there_and_the_card_says_where_it_is(
    web: HttpServer, pair: Pair, shared_store: Store
) -> None:
    ruth = await persons.add(shared_store, "Ruth")
    kitchen = await membership.create(shared_store, "Card kitchen", ruth)
    program = Program(web.base, PROFILES[0])
    program.client_id = PROFILES[0].client_id
    page_ = await program.answer(await program.page(), await pair("Ruth"))
    back = await program.answer(page_, "", step="choose", **{f"space-{kitchen.id}": "yes"})
    token = (await program.exchange(query(back)["code"])).json()["access_token"]
    async with client_of(web, token) as client, host() as (page, card, problems):
        await page.add_init_script("window.styled = true")
        await opened(page, client, "create_memory", {"content": "The salt is in the red tin.", "space": "Card kitchen"})
        await card.get_by_text("The salt is in the red tin.").wait_for()
        assert await card.get_by_text("Card kitchen").is_visible()
        colour = await card.locator("body").evaluate("one => getComputedStyle(one).color")
        assert colour == "rgb(1, 2, 3)", "the host's own colours"
        await card.get_by_role("button", name="Correct").click()
        await card.get_by_role("textbox").fill("The salt is in the blue tin.")
        await card.get_by_role("button", name="Save").click()
        await card.get_by_text("The salt is in the blue tin.").wait_for()
        await card.get_by_role("button", name="Forget").click()
        await card.get_by_text("forgotten").wait_for()
        await card.get_by_role("button", name="Undo").click()
        await card.get_by_role("button", name="Forget").wait_for()
        assert problems == []


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
async def test_who_may_only_read_is_shown_memories_without_buttons(web: HttpServer, pair: Pair) -> None:
    program = Program(web.base, PROFILES[0])
    token = (await program.signed_in(partial(pair, "card-reader")))["access_token"]
    async with client_of(web, token) as client:
        await remember(client, "Jonas reads in the evening.")
    reading = (await program.signed_in(partial(pair, "card-reader", may_write=False)))["access_token"]
    async with client_of(web, reading) as client, host() as (page, card, problems):
        await opened(page, client, "show_memories", {"query": "evening"})
        await card.get_by_text("Jonas reads in the evening.").wait_for()
        assert await card.get_by_role("button").count() == 0
        assert problems == []
