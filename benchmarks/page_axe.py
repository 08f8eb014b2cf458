"""Whether axe finds anything on any page of `pgengram ui`, in every state that a person brings it to.

    npm install --prefix FOLDER axe-core
    python benchmarks/page_axe.py FOLDER/node_modules/axe-core/axe.min.js [--only WORD] [--pictures FOLDER] [--widths 1440 390]

States are the addresses, and what a person does there: an open dialog, a refused form, a conflict of two windows, a selection, a
preview, a server that ended; each at three widths, light and dark. A second round looks at an empty store, a third at the pages that a
phone sees after it signed in over HTTP. --pictures writes a picture of each. It needs Playwright (`pip install playwright`) and a
Chromium, and starts an embedded PostgreSQL in a temporary folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright
from playwright.async_api import Error as PlaywrightError

sys.path += [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parents[1] / "tests" / "ui")]

from ui_process import fill, run_ui

from pgengram import demo
from pgengram.postgres import start_embedded
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

HEIGHTS = {1440: 900, 1024: 768, 390: 844}
PHONE = 500  # pixels; narrower ones are touched
PATIENCE_MS = 60_000
AUDIT = "axe.run().then((all) => all.violations.map((one) => ({id: one.id, help: one.help, nodes: one.nodes.map((node) => node.html + ' ' + node.failureSummary)})))"
NOTES = "\n".join(json.dumps({"content": f"Crate {n} holds {n} lamps."}) for n in range(30)) + "\n{broken\n"
TABLE = "note,when,who\nThe lift is repaired on Monday.,2026-03-01,Ines\n"
Act = Callable[[Page], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class State:
    """An address, and what is done there before it is looked at; a name for those that are more than an address."""

    path: str
    act: Act | None = None
    name: str = ""

    @property
    def title(self) -> str:
        """What its picture is called."""
        return re.sub(r"[^a-z0-9=]+", "-", f"{self.path} {self.name}".lower()).strip("-") or "start"


async def press(page: Page, *keys: str) -> None:
    """Press keys one after the other."""
    for key in keys:
        await page.keyboard.press(key)


async def palette(page: Page) -> None:
    await press(page, "Control+k")
    await page.keyboard.type("se")


async def filters(page: Page) -> None:
    if await page.locator("label[for=narrow]").is_visible():
        await page.locator("label[for=narrow]").click()
    await page.evaluate("document.querySelectorAll('.facets details').forEach((one) => { one.open = true; })")
    await page.locator(".facets input[type=checkbox]").first.wait_for()


async def typed(page: Page) -> None:
    await page.locator("#q").fill("harbour")
    await page.locator("#hits mark").first.wait_for()


async def reasons(page: Page) -> None:
    await page.evaluate("document.querySelectorAll('#hits details').forEach((one) => { one.open = true; })")


async def marked(page: Page) -> None:
    await page.locator("#q").press("Escape")
    await press(page, "j", "j", "x")


async def selected(page: Page) -> None:
    for one in (await page.locator(".pick").all())[:3]:
        await one.check()
    await page.locator(".selection summary").click()


async def erasing(page: Page) -> None:
    await page.locator(".pick").first.check()
    await page.get_by_role("button", name="Erase permanently").click()
    await page.locator("h1", has_text="Permanently erase").wait_for()


async def editing(page: Page) -> None:
    await page.get_by_text("Edit", exact=True).click()
    await page.get_by_text("More fields").click()


async def refused_edit(page: Page) -> None:
    await editing(page)
    await page.locator("#edit textarea").fill("My password is: hunter2-Xk29!pq")
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("alert").first.wait_for()


async def conflict(page: Page) -> None:
    other = await page.context.new_page()
    await other.goto(page.url)
    for window in (page, other):  # both, before a draft of one is restored in the other
        await window.get_by_text("Edit", exact=True).click()
    for window, text in ((page, "Mine is this text."), (other, f"Theirs is that text {id(page)}.")):
        await window.locator("#edit textarea").fill(text)
    await other.get_by_role("button", name="Save").click()
    await other.locator(".prose", has_text="Theirs is").wait_for()
    await other.close()
    await page.get_by_role("button", name="Save").click()
    await page.locator("#conflict").wait_for()


async def draft(page: Page) -> None:
    await page.locator("textarea").first.fill("A draft that was left.")
    await page.reload()
    await page.get_by_text("draft was restored").wait_for()


async def forgetting(page: Page) -> None:
    await page.get_by_text("Forget", exact=True).click()


async def linking(page: Page) -> None:
    await page.get_by_text("Add a link").click()
    await page.locator(".linking [name=q]").fill("harbour")
    await page.locator("#candidates li").first.wait_for()


async def everything_open(page: Page) -> None:
    await page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


async def said(page: Page) -> None:
    pinned = page.get_by_role("button", name="Pin", exact=True)
    await (pinned if await pinned.count() else page.get_by_role("button", name="Unpin")).click()
    await page.locator(".said").wait_for()


async def refused_new(page: Page) -> None:
    await page.locator("textarea").fill("My password is: hunter2-Xk29!pq")
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("alert").first.wait_for()


async def days_to_keep(page: Page) -> None:
    await page.get_by_label("For how many days").fill("1")
    await page.locator("form[action='/settings/conversations'] button").first.click()
    await page.wait_for_load_state("networkidle")


async def named(page: Page) -> None:
    await page.get_by_label("Name", exact=True).fill("A phone")
    await page.get_by_role("button", name="Create token").click()
    await page.locator(".secret").wait_for()


async def give(page: Page, name: str, text: str, shown: str) -> None:
    again = page.get_by_role("button", name="Another file")
    if await again.count():
        await again.click()
    await page.get_by_label("File").set_input_files({"name": name, "mimeType": "text/plain", "buffer": text.encode()})
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_text(shown).first.wait_for()


async def previewed(page: Page) -> None:
    await give(page, "notes.jsonl", NOTES, "Nothing is changed yet")
    await everything_open(page)


async def columns(page: Page) -> None:
    await give(page, "table.csv", TABLE, "Which column")


async def exported(page: Page) -> None:
    await page.get_by_role("button", name="Export").click()
    await page.get_by_role("link", name="Download").wait_for()


async def suggested(page: Page) -> None:
    await page.get_by_role("button", name="Preview").first.click()
    await page.locator("h1", has_text="Preview").wait_for()


async def lost(page: Page) -> None:
    await page.route("**/*", lambda route: route.abort())
    await page.locator("#q").fill("anything")
    await page.locator("#lost:not([hidden])").wait_for()


async def pointed(page: Page) -> None:
    drawing = page.locator(".canvas")
    await drawing.focus()
    await press(page, "+", "Enter")
    await page.get_by_role("button", name="Full screen").click()


async def lasso(page: Page) -> None:
    await page.locator("[data-region]").first.click()
    await page.locator("#area li").first.wait_for()


async def marks_of(page: Page) -> None:
    await page.locator(".chart .u-over").wait_for()
    await page.locator(".chart").focus()
    await press(page, "Home")
    await everything_open(page)


ADDRESSES = (
    "/", "/?q=harbour", "/?q=who+must+not+eat+nuts", "/?q=zzzqqq", "/?q=zzz&tags=no-such-tag", "/?since=9999-99-99", "/news", "/about?project=harbour", "/about?name=Jonas",
    "/about?name=nobody", "/timeline", "/conversations", "/conversations?q=harbour", "/conversations?project=nowhere",
    "/conversation?client=claude-code&conversation=c-1", "/conversations/erase", "/receipts", "/receipts?conversation=none", "/review",
    "/review?find=duplicates", "/review?find=contradictions", "/review?find=untagged", "/review?find=stale", "/review?find=plan",
    "/projects", "/clusters", "/cluster/{cluster}", "/map", "/graph", "/graph?id={stripe}", "/trash", "/trash?status=archived",
    "/settings", "/import", "/export", "/health", "/sign-ins", "/tokens", "/connections", "/namespaces", "/new", "/more", "/help",
    "/help/look-at-your-memory", "/help/no-such-guide", "/memory/{stripe}", "/memory/{old}", "/memory/{hostile}",
    "/memory/00000000-0000-0000-0000-000000000000", "/compare/{one}/{other}", "/nowhere",
)  # fmt: skip
ACTS = (
    State("/", palette, "palette"), State("/", filters, "filters"), State("/", typed, "typed"), State("/", selected, "selected"),
    State("/?q=harbour", reasons, "reasons"), State("/?q=harbour", marked, "marked"), State("/", lost, "server ended"),
    State("/trash", erasing, "erasing"), State("/memory/{twelve}", editing, "editing"),
    State("/memory/{twelve}", refused_edit, "refused"), State("/memory/{fourteen}", conflict, "conflict"),
    State("/new", draft, "draft"), State("/memory/{stripe}", forgetting, "forgetting"), State("/memory/{stripe}", linking, "linking"),
    State("/memory/{jonas}", everything_open, "all open"), State("/memory/{jonas}", said, "said"), State("/memory/{jonas}", marks_of, "marks"),
    State("/new", refused_new, "refused"), State("/settings", days_to_keep, "older turns"), State("/tokens", named, "made"),
    State("/import", previewed, "preview"), State("/import", columns, "columns"), State("/export", exported, "done"),
    State("/review?find=plan", suggested, "suggested"), State("/map", pointed, "full screen"), State("/map", lasso, "topic"),
    State("/graph", pointed, "full screen"),
)  # fmt: skip
EMPTY = (
    "/", "/?q=anything", "/news", "/timeline", "/conversations", "/review", "/projects", "/clusters", "/map", "/graph", "/trash",
    "/settings", "/export", "/health", "/tokens", "/connections", "/receipts",
)  # fmt: skip
SIGNED_IN = (
    State("/"), State("/?q=harbour"), State("/", filters, "filters"), State("/", palette, "palette"), State("/", selected, "selected"),
    *map(State, ("/timeline", "/news", "/conversations", "/review", "/projects", "/map", "/trash", "/connections", "/new", "/more", "/help")),
    State("/memory/{stripe}", editing, "editing"), State("/memory/{stripe}"), State("/new", refused_new, "refused"), State("/settings"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Visitor:
    """A browser, where it goes, and the cookies it has there."""

    chromium: Browser
    base: str
    cookies: Any = None

    async def window(self, **look: Any) -> Page:
        """Open a window; axe may be put into its pages."""
        context = await self.chromium.new_context(storage_state=self.cookies, bypass_csp=True, **look)
        return await context.new_page()


class Audit:
    """Looks at states, and keeps what is wrong in them.

    Args:
        axe: its text; widths: of the window, in pixels.
        only: a word that the name of a state has; pictures: a folder for them.
    """

    def __init__(self, axe: str, widths: list[int], only: str, pictures: Path | None) -> None:
        self._axe, self._widths, self._only, self._pictures = axe, widths, only, pictures
        self.states = 0
        self.found: dict[str, list[str]] = {}  # by rule and element, the states that have it

    async def all(
        self, kind: str, visitor: Visitor, states: list[State], ids: Mapping[str, str], widths: list[int] | None = None
    ) -> None:
        """Look at every state at every width, light and dark."""
        for state in (one for one in states if self._only in f"{kind}-{one.title}"):
            for width in widths or self._widths:
                for scheme in ("light", "dark"):
                    touched: dict[str, Any] = {"is_mobile": True, "has_touch": True} if width < PHONE else {}
                    size = {"width": width, "height": HEIGHTS.get(width, 900)}
                    page = await visitor.window(viewport=size, color_scheme=scheme, **touched)
                    await self._one(f"{kind}-{state.title}-{width}-{scheme}", page, visitor.base, state, ids)
                    await page.context.close()

    async def _one(self, name: str, page: Page, base: str, state: State, ids: Mapping[str, str]) -> None:
        page.set_default_timeout(PATIENCE_MS)
        try:
            await page.goto(base + state.path.format(**ids))
            await page.locator(".waiting").first.wait_for(state="detached")
            await page.wait_for_load_state("networkidle")
            if state.act is not None:
                await state.act(page)
            await page.wait_for_timeout(150)  # colours that change slowly
            await self._look(name, page)
        except PlaywrightError as error:  # the others are looked at all the same
            self.found.setdefault(f"not reached: {str(error).splitlines()[0]}", []).append(name)

    async def _look(self, name: str, page: Page) -> None:
        if self._pictures is not None:
            await page.screenshot(path=self._pictures / f"{name}.png")
        await page.add_script_tag(content=self._axe)
        for violation in await page.evaluate(AUDIT):
            for node in violation["nodes"]:
                self.found.setdefault(f"{violation['id']}: {violation['help']}\n      {node}", []).append(name)
        wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wide > 0:
            self.found.setdefault("the page can be scrolled sideways", []).append(name)
        self.states += 1


async def entered(chromium: Browser, link: str) -> Any:
    """Return the cookies of a browser that opened a link of the page."""
    context = await chromium.new_context()
    page = await context.new_page()
    await page.goto(link)
    await page.wait_for_url(re.compile(r"/$"))
    cookies = await context.storage_state()
    await context.close()
    return cookies


@asynccontextmanager
async def served(database_url: str) -> AsyncIterator[str]:
    """Serve the page over HTTP with sign-in, and give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = f"http://127.0.0.1:{port}"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pgengram", "serve", "--http", "--sign-in", "--port", port, "--url", f"{address}/mcp",
        env={**os.environ, "PGENGRAM_DATABASE_URL": database_url}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE_MS / 1e3):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", int(port))
                    break
                except OSError:
                    await asyncio.sleep(0.1)
        writer.close()
        yield address
    finally:
        process.terminate()
        await process.wait()


async def signed_in(chromium: Browser, address: str, database_url: str) -> Any:
    """Return the cookies of a browser that signed in with a pairing code."""
    answer = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "pgengram", "pair", "--json"],
        env={**os.environ, "PGENGRAM_DATABASE_URL": database_url}, capture_output=True, check=True, text=True,
    )  # fmt: skip
    context = await chromium.new_context()
    page = await context.new_page()
    await page.goto(address + "/")
    await page.get_by_label("Code").fill(str(json.loads(answer.stdout)["code"]))
    await page.get_by_role("button", name="Allow", exact=True).click()
    await page.wait_for_url(address + "/")
    cookies = await context.storage_state()
    await context.close()
    return cookies


async def filled(settings: Settings) -> dict[str, str]:
    """Store the demo's company and what the states speak of; return ids by name."""
    ids = await fill(settings)
    manager = MemoryManager(settings)
    try:
        await manager.create_memories([one.arguments() for one in demo.load_corpus().memories])
    finally:
        await manager.close()
    return ids


async def run(audit: Audit, chromium: Browser, url: str, empty_url: str) -> None:
    """Look at a store with memories, at an empty one, and at what a phone sees."""
    ids = await filled(Settings(database_url=url))
    async with run_ui(url) as link:
        base = link.partition("/enter")[0]
        inside = Visitor(chromium, base, await entered(chromium, link))
        await audit.all("full", inside, [*map(State, ADDRESSES), *ACTS], ids)
        await audit.all("stranger", Visitor(chromium, base), [State("/"), State("/enter?token=wrong")], ids)
    async with run_ui(empty_url) as link:
        inside = Visitor(chromium, link.partition("/enter")[0], await entered(chromium, link))
        await audit.all("empty", inside, [*map(State, EMPTY)], {})
    async with served(url) as base:
        await audit.all("phone", Visitor(chromium, base), [State("/")], ids, [390])
        inside = Visitor(chromium, base, await signed_in(chromium, base, url))
        await audit.all("phone", inside, list(SIGNED_IN), ids, [390])


async def main(audit: Audit, folder: str) -> int:
    """Run every round in a browser, and tell what was found."""
    path = next(one for name in ("chromium", "chromium-browser", "google-chrome") if (one := shutil.which(name)))
    servers = [start_embedded(Path(folder) / name) for name in ("full", "empty")]
    try:
        async with async_playwright() as tool:
            chromium = await tool.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            await run(audit, chromium, servers[0].url, servers[1].url)
            await chromium.close()
    finally:
        for server in servers:
            server.stop()
    for what, where in audit.found.items():
        print(f"{what}\n   in {len(where)}: {', '.join(where[:6])}")
    print(f"{audit.states} states looked at, {len(audit.found)} findings.")
    return 1 if audit.found else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("axe", type=Path, help="axe.min.js of the npm package axe-core")
    parser.add_argument("--widths", type=int, nargs="+", default=list(HEIGHTS), help="of the window, in pixels")
    parser.add_argument("--only", default="", help="only states whose name has this word")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write a picture of each state there")
    chosen = parser.parse_args()
    if chosen.pictures:
        chosen.pictures.mkdir(parents=True, exist_ok=True)
    looks = Audit(chosen.axe.read_text("utf-8"), chosen.widths, chosen.only, chosen.pictures)
    with tempfile.TemporaryDirectory(prefix="pgengram-axe-", ignore_cleanup_errors=True) as temporary:
        Path(temporary).chmod(0o755)  # for root another user's PostgreSQL must reach it
        sys.exit(asyncio.run(main(looks, temporary)))
