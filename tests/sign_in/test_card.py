"""The card that a host shows in the chat: in a real browser, under the policy that hosts give it, in front of a real server."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from http_server import HttpServer, client_of
from mcp import Client
from signing_in import PROFILES, Pair, Program

from helpers import remember

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
CARD = "ui://pgengram/card.html"
POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; object-src 'none'; connect-src 'none'"
HOST = """<!doctype html><iframe id="card" src="/card" style="width:320px;height:600px;border:0" sandbox="allow-scripts"></iframe>
<script>
window.told = [];
const card = document.getElementById("card");
const post = (message) => card.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
window.addEventListener("message", async ({ source, data }) => {
  if (source !== card.contentWindow) return;
  window.told.push(data);
  if (data.method === "ui/initialize") {
    post({ id: data.id, result: { protocolVersion: data.params.protocolVersion, hostInfo: { name: "host", version: "1" },
      hostCapabilities: { serverTools: {} }, hostContext: { theme: "THEME", locale: "de-DE", timeZone: "Europe/Berlin" } } });
  } else if (data.method === "ui/notifications/initialized") {
    post({ method: "ui/notifications/tool-input", params: { arguments: window.given } });
    post({ method: "ui/notifications/tool-result", params: await window.called("GIVEN_TOOL", window.given) });
  } else if (data.method === "tools/call") {
    post({ id: data.id, result: await window.called(data.params.name, data.params.arguments) });
  } else if (data.id !== undefined) post({ id: data.id, result: {} });
});
</script>"""


async def test_programs_that_sign_in_are_offered_the_card_and_others_are_not(web: HttpServer, pair: Pair) -> None:
    token = (await Program(web.base, PROFILES[0]).signed_in(pair))["access_token"]
    async with client_of(web, token) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        shown = {name for name, tool in tools.items() if (tool.meta or {}).get("ui", {}).get("resourceUri") == CARD}
        assert shown == {"show_memories", "create_memory", "create_memories", "update_memory", "forget_memories"}
        [content] = (await client.read_resource(CARD)).contents
        assert content.mime_type == "text/html;profile=mcp-app"
        assert "://" not in content.text.replace("ui://", "")
        assert len(content.text.encode()) < 60_000
    async with client_of(web, web.token("pasted")) as client:
        others = (await client.list_tools()).tools
        assert not [tool for tool in others if tool.meta or tool.name == "show_memories"]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_a_person_corrects_forgets_and_undoes_in_the_card(web: HttpServer, pair: Pair, theme: str) -> None:
    namespace = f"card-{theme}"

    async def paired() -> str:
        return await pair(namespace)

    token = (await Program(web.base, PROFILES[0]).signed_in(paired))["access_token"]
    async with client_of(web, token) as client, playwright.async_playwright() as tool:
        hostile = "<img src=x onerror=alert(1)> Mara drinks tea."
        id_ = await remember(client, hostile)
        chromium = await tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = await (await chromium.new_context(viewport={"width": 360, "height": 700})).new_page()
        problems: list[str] = []
        page.on("console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        await opened(page, client, "show_memories", {"query": "tea"}, theme)
        card = page.frame_locator("#card")

        await card.get_by_text(hostile).wait_for()
        assert await card.locator("html").get_attribute("data-theme") == theme
        assert await card.locator("html").evaluate("one => one.scrollWidth") <= 320
        await card.get_by_role("button", name="Correct").click()
        await card.get_by_role("textbox").fill("Mara drinks coffee.")
        await card.get_by_role("button", name="Save").click()
        await card.get_by_text("Mara drinks coffee.").wait_for()
        await card.get_by_role("button", name="Undo").click()
        await card.get_by_text(hostile).wait_for()

        await card.get_by_role("button", name="Correct").click()
        await client.call_tool("update_memory", {"id": str(id_), "content": "Mara drinks cocoa."})  # meanwhile
        await card.get_by_role("textbox").fill("Mara drinks water.")
        await card.get_by_role("button", name="Save").click()
        await card.get_by_text("changed in the meantime").wait_for()
        assert await card.get_by_text("Mara drinks cocoa.").is_visible()
        assert await card.get_by_role("textbox").input_value() == "Mara drinks water."
        await card.get_by_role("button", name="Cancel").click()

        await card.get_by_role("button", name="Forget").click()
        await card.get_by_text("forgotten").wait_for()
        await card.get_by_role("button", name="Undo").click()
        await card.get_by_role("button", name="Forget").wait_for()
        told = await page.evaluate("window.told")
        assert any(one.get("method") == "ui/update-model-context" for one in told)
        assert any(one.get("method") == "ui/notifications/size-changed" for one in told)
        assert problems == []
        await chromium.close()


async def opened(page: Any, client: Client, name: str, given: dict[str, Any], theme: str) -> None:
    """Be a host that shows the card of a call."""
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
    await page.add_init_script(f"window.given = {given!r}")
    await page.goto("https://host.example.org/")
