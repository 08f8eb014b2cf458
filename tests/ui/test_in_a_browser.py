"""The pages in a real browser, where playwright and a Chromium are there: no error, nothing from elsewhere, keys, typing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from ui_process import run_ui

from helpers import database_of, until
from pgengram.inputs import NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

if TYPE_CHECKING:
    from conftest import Crowd

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
KEEP = os.environ.get("PGENGRAM_TEST_SCREENSHOTS")  # a folder
AXE = os.environ.get("PGENGRAM_TEST_AXE")  # axe.min.js, to check accessibility as well
VIEWS = (
    "/", "/news", "/about?project=harbour", "/about?name=nobody", "/settings", "/help", "/more", "/conversations?q=harbour", "/?q=harbour", "/?q=zzz&tags=no-such-tag", "/timeline", "/projects", "/graph", "/graph?id={stripe}", "/clusters", "/cluster/{cluster}",
    "/map", "/review", "/review?find=contradictions", "/review?find=untagged", "/review?find=plan", "/trash", "/trash?status=archived",
    "/health", "/import", "/export", "/tokens", "/sign-ins", "/namespaces", "/new", "/memory/{stripe}", "/memory/{old}",
    "/compare/{one}/{other}", "/conversations", "/conversations?project=nowhere", "/conversation?client=claude-code&conversation=c-1",
    "/conversations/erase", "/receipts", "/receipts?conversation=none",
)  # fmt: skip
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 780}, "is_mobile": True, "has_touch": True},
}


class Browser:
    """A browser that has come in, and what went wrong in it."""

    def __init__(self, chromium: Any, base: str, state: Any, crowd: Crowd, database_url: str) -> None:
        self.chromium, self.base, self.state, self.ids, self.size = chromium, base, state, crowd.ids, crowd.size
        self.database_url = database_url
        self.problems: list[str] = []

    async def open(self, path: str, look: str = "light", **more: Any) -> Any:
        context = await self.chromium.new_context(storage_state=self.state, **LOOKS[look], **more)
        page = await context.new_page()
        page.on(
            "console",
            lambda said: (
                said.type in ("error", "warning") and self.problems.append(f"{path}: {said.text} {said.location}")
            ),
        )
        page.on("pageerror", lambda error: self.problems.append(f"{path}: {error}"))
        page.on("request", lambda asked: asked.url.startswith((self.base, "data:")) or self.problems.append(asked.url))
        await page.goto(self.base + path)
        await page.locator(".waiting").wait_for(state="detached", timeout=120_000)
        return page


@pytest_asyncio.fixture(scope="module")
async def browser(postgres: str, crowd: Crowd) -> AsyncIterator[Browser]:
    with database_of(postgres, crowd.name) as db:
        async with run_ui(db.url) as link, playwright.async_playwright() as tool:
            chromium = await tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            context = await chromium.new_context()
            page = await context.new_page()
            base = link.partition("/enter")[0]
            await page.goto(link)
            await page.wait_for_url(base + "/")
            yield Browser(chromium, base, await context.storage_state(), crowd, db.url)
            await chromium.close()


@pytest.fixture(autouse=True)
def _nothing_went_wrong(browser: Browser) -> Iterator[None]:
    browser.problems.clear()
    yield
    assert browser.problems == []


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("path", VIEWS)
async def test_every_view_is_drawn_without_an_error(browser: Browser, path: str, look: str) -> None:
    page = await browser.open(path.format(**browser.ids), look)

    assert await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    if KEEP:
        name = re.sub(r"[^a-z=]+", "-", path).strip("-") or "start"
        await page.screenshot(path=str(Path(KEEP) / f"{browser.size}-{look}-{name}.png"))
    await page.context.close()


async def test_a_theme_is_chosen_for_every_page_and_for_the_drawings(browser: Browser) -> None:
    page = await browser.open("/settings")
    ground = "getComputedStyle(document.body).backgroundColor"
    follows = await page.evaluate(ground)
    assert await page.get_by_label("System").is_checked()

    await page.get_by_label("Dark").check()

    dark = await page.evaluate(ground)
    assert dark != follows
    await page.goto(browser.base + "/timeline")
    assert await page.evaluate(ground) == dark
    assert await page.evaluate("isDark()")
    await page.context.close()


async def test_filters_with_long_names_fit_on_a_phone(browser: Browser) -> None:
    page = await browser.open("/", "phone")
    await page.locator(".facets input[name=tags]").first.wait_for(state="attached")
    await page.locator("label[for=narrow]").click()

    names = "document.querySelectorAll('.facet span:not(.unseen, .number)')"
    await page.evaluate(f"{names}.forEach((one) => {{ one.textContent = 'The archive of the harbour'; }})")

    right = "Math.max(...[...document.querySelectorAll('.facets *')].map((one) => one.getBoundingClientRect().right))"
    assert await page.evaluate(right) <= 390
    await page.context.close()


async def test_the_order_is_named_as_it_is_while_somebody_types(browser: Browser) -> None:
    page = await browser.open("/")
    order = page.locator("#search [name=sort] option").first
    assert await order.inner_text() == "newest first"

    await page.fill("#q", "harbour")
    await page.locator("#hits mark").first.wait_for()

    assert await order.inner_text() == "best first"
    await page.context.close()


@pytest.mark.skipif(not AXE, reason="PGENGRAM_TEST_AXE names no axe.min.js")
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("path", VIEWS)
async def test_no_view_keeps_anybody_out(browser: Browser, path: str, look: str) -> None:
    page = await browser.open(path.format(**browser.ids), look, bypass_csp=True)
    await page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    await page.add_script_tag(content=await asyncio.to_thread(Path(AXE or "").read_text))
    found = await page.evaluate("axe.run().then(all => all.violations)")

    assert found == [], json.dumps(found)
    await page.context.close()


async def test_hits_change_while_somebody_types_and_keys_lead_through_them(browser: Browser) -> None:
    page = await browser.open("/")
    await page.locator("#q").press("Escape")
    await page.keyboard.press("/")
    await page.keyboard.type("who must not eat nuts")
    await page.locator(".hit .content", has_text="Jonas is allergic").first.wait_for()
    await page.wait_for_url(re.compile("not%20eat%20nuts"))
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    assert await page.locator("#q").input_value() == "who must not eat nuts"
    await page.locator(".hit.on", has_text="Jonas is allergic").wait_for()
    await page.keyboard.press("Enter")
    await page.locator(".prose", has_text="Jonas is allergic").wait_for()
    await page.context.close()


async def test_a_key_that_is_pressed_while_a_search_takes_its_time_marks_the_first_of_what_it_finds(
    browser: Browser,
) -> None:
    page = await browser.open("/?q=harbour+gate")
    found = asyncio.Event()

    async def hold(route: Any) -> None:
        await found.wait()
        await route.continue_()

    await page.route("**/?q=who*", hold)
    await page.locator("#q").fill("who must not eat nuts")
    await page.locator("#hits.htmx-request").wait_for()
    assert await page.locator(".hit", has_text="The harbour gate").count() > 0
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    assert await page.locator(".hit.on").count() == 0
    found.set()
    await page.locator(".hit.on", has_text="Jonas is allergic").wait_for()
    await page.keyboard.press("Enter")
    await page.locator(".prose", has_text="Jonas is allergic").wait_for()
    await page.context.close()


async def test_a_memory_is_edited_and_forgotten_by_its_forms(browser: Browser) -> None:
    page = await browser.open(f"/memory/{browser.ids['twelve']}")
    await page.get_by_text("Edit", exact=True).click()
    await page.locator("#edit textarea").fill("The office in Bern has 15 desks.")
    await page.get_by_role("button", name="Save").click()
    await page.locator(".prose", has_text="15 desks").wait_for()
    await page.get_by_text("Forget", exact=True).click()
    await page.get_by_role("button", name="Forget this memory").click()
    await page.get_by_role("button", name="Restore").click()
    await page.get_by_text("Edit", exact=True).wait_for()
    await page.context.close()


async def test_the_uses_of_a_memory_are_told_to_keys_and_to_the_mouse(browser: Browser) -> None:
    page = await browser.open(f"/memory/{browser.ids['fourteen']}")
    await page.get_by_text("Edit", exact=True).click()
    await page.get_by_label("Importance").fill("0.2")
    await page.get_by_role("button", name="Save").click()
    await page.locator(".history", has_text="importance").wait_for()
    chart, answer = page.locator(".chart"), page.locator(".below .chosen")
    await chart.locator(".u-over").wait_for()

    await chart.focus()
    await page.keyboard.press("End")
    assert ": now, relevance 0.300" in await answer.inner_text()
    await page.keyboard.press("ArrowLeft")
    assert ": update, relevance 0.500 → 0.300" in await answer.inner_text()
    await page.keyboard.press("Home")
    assert ": stored" in await answer.inner_text()

    whole = await chart.screenshot()
    await page.get_by_role("button", name="Zoom in").click()
    await page.wait_for_timeout(100)
    assert await chart.screenshot() != whole
    await page.keyboard.press("End")
    await page.get_by_role("button", name="Show all").click()
    box = await chart.locator(".u-over").bounding_box()
    await chart.focus()
    await page.keyboard.press("Home")
    await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    await page.mouse.move(box["x"] + 5, box["y"] + 40)
    await page.locator(
        ".below .chosen", has_text=": now"
    ).wait_for()  # a year is drawn, so all lie there; this is the last

    await page.get_by_text("List of marks").click()
    await page.locator(".aslist li", has_text="update").wait_for()
    await page.context.close()


async def test_a_memory_is_pinned_by_its_button(browser: Browser) -> None:
    page = await browser.open(f"/memory/{browser.ids['jonas']}")
    await page.get_by_role("button", name="Pin", exact=True).click()
    await page.locator(".hint", has_text="it never fades").wait_for()
    await page.get_by_role("button", name="Unpin").click()
    await page.get_by_role("button", name="Pin", exact=True).wait_for()
    await page.context.close()


async def test_a_day_is_opened_by_its_date(browser: Browser) -> None:
    page = await browser.open("/timeline")
    await page.get_by_label("Day", exact=True).fill("2025-01-01")
    await page.get_by_role("button", name="Show").click()
    await page.locator(".hit .content", has_text="Shelf 0 of the archive").wait_for()
    assert await page.locator(".hit").count() == 1
    await page.context.close()


async def test_the_graph_is_zoomed_by_keys_and_buttons_and_a_click_tells_a_memory(browser: Browser) -> None:
    page = await browser.open("/graph")
    network = page.locator("#network")
    before = await network.screenshot()
    await page.get_by_role("button", name="Zoom in").click()
    await network.focus()
    await page.keyboard.press("+")
    await page.keyboard.press("ArrowLeft")
    await page.wait_for_timeout(300)
    assert await network.screenshot() != before

    await page.goto(f"{browser.base}/graph?id={browser.ids['stripe']}")
    await page.locator(".waiting").wait_for(state="detached", timeout=120_000)
    await page.locator("#network canvas").first.wait_for()
    nodes = "document.getElementById('network')._cyreg.cy.nodes().map(one => Object.values(one.renderedPosition()))"
    box = await network.bounding_box()
    for x, y in await page.evaluate(nodes):
        await page.mouse.click(box["x"] + x, box["y"] + y)
        await page.locator("#chosen a").first.wait_for()
    assert page.url.endswith(browser.ids["stripe"])
    await page.mouse.dblclick(box["x"] + x, box["y"] + y)
    await page.wait_for_url(lambda address: not address.endswith(browser.ids["stripe"]))
    await page.context.close()


async def test_labels_of_the_graph_cover_neither_a_memory_nor_each_other(browser: Browser) -> None:
    page = await browser.open("/graph")
    await page.locator("#network[data-labels]").wait_for()
    covered = await page.evaluate(
        """() => { const graph = document.getElementById('network')._cyreg.cy;
          const box = (node, more) => node.renderedBoundingBox({ includeNodes: false, includeLabels: false, includeOverlays: false, ...more });
          const named = graph.nodes('.below, .above, .left, .right');
          const over = (one, other) => Math.min(one.x2, other.x2) - Math.max(one.x1, other.x1) > 5 && Math.min(one.y2, other.y2) - Math.max(one.y1, other.y1) > 5;
          const found = [];
          named.forEach((one) => graph.nodes().forEach((other) => { if (one === other) return;
            if (over(box(one, { includeLabels: true }), box(other, { includeNodes: true }))) found.push([one.data('short'), other.id()]);
            if (named.contains(other) && over(box(one, { includeLabels: true }), box(other, { includeLabels: true }))) found.push([one.data('short'), other.data('short')]); }));
          return [named.length, found]; }"""
    )  # outlines of letters may touch, so five pixels are no cover
    assert covered[0] > 3
    assert covered[1] == []
    await page.context.close()


async def test_the_panel_of_the_graph_leads_along_links(browser: Browser) -> None:
    page = await browser.open(f"/graph?id={browser.ids['stripe']}")
    panel = page.locator("#chosen")
    await panel.locator("p", has_text="Mara moved billing to Stripe.").wait_for()
    await panel.locator("li", has_text="→ causes").get_by_role("button", name="Jonas is allergic").click()
    await panel.locator("p", has_text="Jonas is allergic to peanuts.").wait_for()
    await panel.locator("li", has_text="← causes").wait_for()
    await panel.get_by_role("link", name="Explore from here").click()
    await page.wait_for_url(lambda address: address.endswith(browser.ids["jonas"]))
    await page.context.close()


async def test_the_map_is_steered_by_keys_and_tells_what_is_pointed_at(browser: Browser) -> None:
    page = await browser.open("/map")
    shown = page.locator("#map")
    await shown.wait_for()
    assert await shown.get_attribute("data-zoom") == "1.00"
    await shown.focus()
    await page.keyboard.press("+")
    await page.locator("#map[data-zoom='1.50']").wait_for()
    await page.get_by_role("button", name="Show all").click()
    await page.locator("#map[data-zoom='1.00']").wait_for()
    await page.get_by_label("Colour by").select_option("cluster")
    await page.locator("#legend", has_text="in no cluster").wait_for()

    box = await shown.bounding_box()
    for place in range(1, 400):  # somewhere there is one
        await page.mouse.move(
            box["x"] + box["width"] * (place % 20) / 20, box["y"] + box["height"] * (place // 20) / 20
        )
        if await page.locator("#map canvas").evaluate("one => one.style.cursor") == "pointer":
            break
    await page.locator("#chosen a").wait_for()
    await page.context.close()


@pytest.mark.parametrize(("path", "picture"), [("/map", "#map"), ("/graph", "#network")])
async def test_a_picture_fills_the_screen_and_gives_it_back(browser: Browser, path: str, picture: str) -> None:
    page = await browser.open(path)
    drawn = page.locator(f"{picture} canvas").first
    await drawn.wait_for()
    before = await drawn.bounding_box()
    button = page.get_by_role("button", name="Full screen")

    await button.click()
    filled = "document.fullscreenElement && innerHeight - document.querySelector('.canvas').clientHeight < 120"
    await until(lambda: page.evaluate(filled))  # wait_for_function asks again by eval, which the pages forbid
    await button.click()
    await until(lambda: page.evaluate("!document.fullscreenElement"))
    smaller = f"document.querySelector('{picture}').clientHeight <= {before['height'] + 2}"
    await until(lambda: page.evaluate(smaller))
    await page.context.close()


async def test_a_file_is_chosen_looked_through_and_brought_in(browser: Browser) -> None:
    lines = [*(json.dumps({"content": f"Crate {n} holds {n} lamps."}) for n in range(70)), "{broken"]
    page = await browser.open("/import")
    await page.get_by_label("File").set_input_files(
        {"name": "crates.jsonl", "mimeType": "text/plain", "buffer": "\n".join(lines).encode()}
    )
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_text("Nothing is changed yet").wait_for()
    await page.get_by_text("line 71").wait_for()
    await page.get_by_role("button", name="Import").click()
    await page.get_by_text("was imported").wait_for(timeout=60_000)
    await page.get_by_role("button", name="Another file").click()
    await page.get_by_role("button", name="Preview").wait_for()
    await page.context.close()


async def test_an_export_shows_how_far_it_is_and_is_downloaded(browser: Browser) -> None:
    page = await browser.open("/export")
    await page.get_by_role("button", name="Export").click()
    link = page.get_by_role("link", name="Download")
    await link.wait_for(timeout=120_000)
    async with page.expect_download() as waited:
        await link.click()
    path = await (await waited.value).path()
    lines = (await asyncio.to_thread(Path(path).read_text, encoding="utf-8")).splitlines()
    assert json.loads(lines[0])["record"] == "export"
    assert len(lines) > browser.size
    await page.context.close()


async def test_a_token_is_made_and_revoked_by_its_forms(browser: Browser) -> None:
    page = await browser.open("/tokens")
    await page.get_by_label("Name", exact=True).fill("A phone")
    await page.get_by_role("button", name="Create token").click()
    assert (await page.locator(".secret").inner_text()).startswith("pgt_")
    await page.get_by_role("button", name="Revoke A phone").click()
    await page.get_by_text("A phone is revoked.").wait_for()
    assert await page.locator(".secret").count() == 0
    await page.context.close()


async def test_a_question_is_answered_by_a_key_and_taken_back(browser: Browser) -> None:
    page = await browser.open("/review?find=duplicates")
    before = await page.locator(".question .content").first.inner_text()
    await page.keyboard.press("1")
    await page.locator(".said", has_text="merged").wait_for(timeout=60_000)
    await page.get_by_role("button", name="Undo").click()
    await page.locator(".said", has_text="Undone").wait_for()
    await page.goto(browser.base + "/review?find=duplicates")
    assert await page.locator(".question .content").first.inner_text() == before
    await page.context.close()


async def test_a_page_whose_server_has_ended_says_so(browser: Browser) -> None:
    page = await browser.open("/")
    await page.route("**/?q=*", lambda route: route.abort())
    await page.locator("#q").type("anything")
    await page.get_by_text("The server isn't answering").wait_for()
    browser.problems.clear()  # the browser tells of the request that did not arrive
    await page.context.close()


async def test_what_is_typed_is_kept_while_the_server_is_gone_and_until_it_is_saved(browser: Browser) -> None:
    page = await browser.open(f"/memory/{browser.ids['other']}")
    await page.get_by_text("Edit", exact=True).click()
    await page.locator("#edit textarea").fill("The gate is opened by a new supervisor.")
    await page.route("**/memory/*", lambda route: route.abort())
    await page.get_by_role("button", name="Save").click()
    await page.get_by_text("The server isn't answering").wait_for()
    assert await page.locator("#edit textarea").input_value() == "The gate is opened by a new supervisor."
    browser.problems.clear()

    await page.unroute("**/memory/*")
    await page.reload()
    await page.get_by_text("Your unsaved draft was restored.").wait_for()
    assert await page.locator("#edit textarea").input_value() == "The gate is opened by a new supervisor."
    await page.get_by_role("button", name="Save").click()
    await page.locator(".prose", has_text="new supervisor").wait_for()
    await page.reload()
    assert await page.get_by_text("unsaved draft").count() == 0
    await page.get_by_role("button", name="Undo").or_(page.get_by_text("Edit", exact=True)).first.wait_for()
    await page.context.close()


async def test_a_text_that_is_too_long_is_told_and_not_cut(browser: Browser) -> None:
    page = await browser.open("/new")
    await page.get_by_label("Text").fill("x" * 16_001)
    await page.get_by_role("button", name="Save").click()
    await page.get_by_text("16,001 of 16,000 characters").wait_for()
    assert len(await page.get_by_label("Text").input_value()) == 16_001
    await page.context.close()


async def test_a_paste_of_40_megabytes_is_refused_and_what_was_typed_stays(browser: Browser) -> None:
    page = await browser.open("/new")
    await page.get_by_label("Text").fill("The baker delivers on Fridays.")
    pasted = await page.get_by_label("Text").evaluate(
        """one => { const clipboardData = new DataTransfer(); clipboardData.setData("text", "memory ".repeat(6e6));
             return one.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true })); }"""
    )
    assert pasted is False
    await page.get_by_text("Not pasted: 42,000,000 characters").wait_for()
    assert await page.get_by_label("Text").input_value() == "The baker delivers on Fridays."
    await page.context.close()


async def test_ten_thousand_tags_are_refused_with_a_sentence_and_stay_in_their_field(browser: Browser) -> None:
    page = await browser.open("/new")
    tags = ", ".join(f"tag {n}" for n in range(10_000))
    await page.get_by_label("Text").fill("The boat has a name for each of its planks.")
    await page.get_by_label("Tags").fill(tags)
    await page.get_by_role("button", name="Save").click()
    await page.get_by_text("Tags must be a list of at most 16 items").wait_for()
    assert await page.get_by_label("Tags").input_value() == tags
    assert await page.get_by_label("Text").input_value() == "The boat has a name for each of its planks."
    browser.problems.clear()  # the browser tells of the answer 422
    await page.context.close()


async def test_as_many_tags_as_a_memory_may_have_widen_no_page_and_are_nothing_but_text(browser: Browser) -> None:
    page = await browser.open("/new", "phone")
    words = ["<b>bold</b>", "\u202eturned", "标签", "a" * 60]
    await page.get_by_label("Text").fill("The chest has sixteen labels.")
    await page.get_by_label("Tags").fill(", ".join(f"{words[n % 4]}{n}" for n in range(16)))
    await page.get_by_role("button", name="Save").click()
    await page.locator(".prose", has_text="sixteen labels").wait_for()
    for path in (
        page.url.removeprefix(browser.base),
        "/?q=sixteen+labels&mode=text",
        "/projects",
        "/?q=zzz&tags=no-such-tag",
    ):
        await page.goto(browser.base + path)
        await page.locator(".waiting").wait_for(state="detached")
        assert await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path
        assert await page.locator("main b").count() == 0
    await page.context.close()


@pytest.mark.parametrize("scripts", ["nothing", "what is written tomorrow", "what others wrote"])
async def test_without_scripts_or_in_an_old_browser_memories_are_added_found_edited_and_nothing_refused_is_lost(
    browser: Browser, scripts: str
) -> None:
    page = await browser.open("/new", java_script_enabled=scripts != "nothing")
    unread = {"what others wrote": "**/static/page.js", "what is written tomorrow": "**/*.js"}
    if scripts in unread:
        await page.route(unread[scripts], lambda route: route.fulfill(body="let tomorrow = @;"))
        await page.reload()
    await page.get_by_label("Text").fill(f"The baker of {scripts} delivers on Fridays.")
    await page.get_by_label("Importance").evaluate("one => one.removeAttribute('max')")
    await page.get_by_label("Importance").fill("7")
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("alert").first.wait_for()
    assert await page.get_by_label("Text").input_value() == f"The baker of {scripts} delivers on Fridays."
    await page.get_by_label("Importance").fill("0.7")
    await page.get_by_role("button", name="Save").click()
    await page.locator(".prose", has_text="on Fridays").wait_for()

    await page.get_by_text("Edit", exact=True).click()
    await page.locator("#edit textarea").fill(f"The baker of {scripts} delivers on Mondays.")
    await page.get_by_role("button", name="Save").click()
    await page.locator(".prose", has_text="on Mondays").wait_for()
    await page.goto(f"{browser.base}/?q=when+does+the+baker+deliver&mode=text")
    await page.locator(".hit", has_text="on Mondays").first.wait_for()
    browser.problems.clear()  # the browser tells of the answer 422, and of scripts that it cannot read
    await page.context.close()


async def test_whoever_goes_back_finds_the_list_as_long_and_at_the_same_place(browser: Browser) -> None:
    page = await browser.open("/?sort=occurred")
    await page.evaluate("scrollTo(0, document.body.scrollHeight)")
    await page.wait_for_url(re.compile("pages=2"))
    opened = page.locator(".hit").nth(30)
    address = await opened.get_attribute("data-href")
    await opened.locator("a.content").click()
    await page.locator(".prose").wait_for()
    await page.go_back()
    await page.locator(".hit.on").wait_for()

    assert await page.locator(".hit.on").get_attribute("data-href") == address
    assert await page.locator(".hit").count() >= 40
    assert await page.evaluate("scrollY") > 500
    await page.context.close()


@pytest_asyncio.fixture
async def assistant(browser: Browser) -> AsyncIterator[MemoryManager]:
    """A client that works on the same store beside the page."""
    manager = MemoryManager(Settings(database_url=browser.database_url))
    try:
        yield manager
    finally:
        await manager.close()


async def look_again(page: Any) -> None:
    """Let an open page ask at once what is new, as it does every few seconds."""
    await page.locator("#live[data-asked]").wait_for(state="attached")
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


async def test_what_an_assistant_stores_appears_by_itself(browser: Browser, assistant: MemoryManager) -> None:
    page = await browser.open("/")
    await page.locator("#live[data-asked]").wait_for(state="attached")
    await assistant.create_memory(NewMemory(content="The lighthouse keeper is called Nils."))
    await look_again(page)
    await page.locator(".hit.fresh", has_text="The lighthouse keeper is called Nils.").wait_for()
    await page.context.close()


async def test_a_list_that_is_read_stays_until_its_reader_wants_the_new_ones(
    browser: Browser, assistant: MemoryManager
) -> None:
    page = await browser.open("/")
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.locator("#live[data-asked]").wait_for(state="attached")
    await assistant.create_memory(NewMemory(content="The lighthouse burns gas."))
    await look_again(page)
    await page.get_by_text("1 memory was added or changed.").wait_for()
    assert await page.locator(".hit", has_text="burns gas").count() == 0
    await page.locator("#live button").click()
    await page.locator(".hit", has_text="burns gas").wait_for()
    assert await page.locator("#live").is_hidden()
    await page.context.close()


async def conflict(browser: Browser, mine: str, theirs: str) -> Any:
    """Return a page that was refused its text, because another window saved its own, with another kind, in between."""
    one, other = [await browser.open(f"/memory/{browser.ids['fourteen']}") for _ in range(2)]
    for page, text in ((one, theirs), (other, mine)):
        await page.get_by_text("Edit", exact=True).click()
        await page.locator("#edit textarea").fill(text)
    await one.get_by_label("Kind").select_option("decision")
    await one.get_by_role("button", name="Save").click()
    await one.locator(".prose", has_text=theirs).wait_for()
    await one.context.close()
    await look_again(other)
    await other.get_by_text("This memory was changed elsewhere.").wait_for()
    await other.get_by_role("button", name="Save").click()
    await other.get_by_role("alert").get_by_text("changed while you were editing").wait_for()
    browser.problems.clear()  # the browser tells of the answer 409
    return other


async def test_of_two_windows_that_edit_one_memory_the_second_sees_both_texts_first_and_chooses(
    browser: Browser,
) -> None:
    page = await conflict(browser, "Bern has fourteen desks and a lamp.", "Bern has fourteen desks that stand.")
    question = page.get_by_role("alert")
    assert (await question.bounding_box())["y"] < (await page.locator("#edit textarea").bounding_box())["y"]
    assert await question.get_by_text("Bern has fourteen desks and a lamp.").count() == 1
    assert await question.locator(".diff ins", has_text="stand").count() == 1
    await page.reload()  # what was typed is still there, and still shows both before it replaces anything
    await (
        page.get_by_text("The memory changed since you began")
        .or_(page.get_by_text("draft was restored"))
        .first.wait_for()
    )
    assert await page.locator("#edit textarea").input_value() == "Bern has fourteen desks and a lamp."
    await page.get_by_role("button", name="Save").click()
    await page.locator(".prose", has_text="and a lamp").wait_for()
    assert await page.locator(".facts .type").first.inner_text() == "decision"  # theirs, as this window didn't touch it
    await page.context.close()

    page = await conflict(browser, "Mine is lost on purpose.", "The desks of Bern are fourteen.")
    await page.get_by_role("link", name="Use theirs").click()
    await page.locator(".reading .prose", has_text="The desks of Bern").wait_for()
    await page.reload()
    assert await page.get_by_text("unsaved draft").count() == 0
    await page.context.close()

    page = await conflict(browser, "Mine stays.", "Theirs goes.")
    await page.get_by_role("button", name="Use mine").click()
    await page.locator(".reading .prose", has_text="Mine stays.").wait_for()
    await page.context.close()


async def test_a_memory_is_edited_where_its_text_stands_with_kind_and_day_and_no_button_moves(browser: Browser) -> None:
    page = await browser.open(f"/memory/{browser.ids['one']}")
    buttons = page.locator(".memory > .actions :is(.button, button)")
    places = [await one.bounding_box() for one in await buttons.all() if await one.is_visible()]
    await page.get_by_text("Edit", exact=True).click()
    assert [await one.bounding_box() for one in await buttons.all() if await one.is_visible()] == places
    assert await page.locator(".reading").is_hidden()
    await page.get_by_text("Edit", exact=True).click()
    await page.get_by_text("Forget", exact=True).click()
    assert [await one.bounding_box() for one in (await buttons.all())[:3]] == places[:3]
    await page.get_by_text("Forget", exact=True).click()

    await page.get_by_text("Edit", exact=True).click()
    await page.get_by_label("Kind").select_option("process")
    await page.get_by_label("Happened on").fill("2026-03-01")
    await page.get_by_text("More fields").click()
    await page.get_by_label("Said by").fill("Mara")
    await page.get_by_role("button", name="Save").click()
    await page.locator(".reading .type", has_text="process").wait_for()
    assert await page.locator("dl.table div", has_text="said by").locator("dd").inner_text() == "Mara"
    assert await page.locator(".reading .facts time").get_attribute("title") == "1 Mar 2026"
    await page.context.close()


async def test_the_chart_of_a_memory_that_was_just_added_is_drawn_inside_its_frame(browser: Browser) -> None:
    page = await browser.open("/new")
    await page.get_by_label("Text").fill("The customs house keeps its ledgers in the cellar.")
    await page.get_by_role("button", name="Save").click()
    frame, plot = page.locator(".chart"), page.locator(".chart .u-over")
    await plot.wait_for()
    outer, inner = await frame.bounding_box(), await plot.bounding_box()
    legend = await page.locator(".chart .u-legend").bounding_box()
    assert outer["y"] < inner["y"]
    assert inner["y"] + inner["height"] <= legend["y"]
    assert legend["y"] + legend["height"] <= outer["y"] + outer["height"]
    await page.context.close()


async def test_long_lists_go_on_by_themselves(browser: Browser) -> None:
    page = await browser.open("/?sort=occurred")
    for _ in range(3):
        count = await page.locator(".hit").count()
        await page.evaluate("scrollTo(0, document.body.scrollHeight)")
        await page.locator(".hit").nth(count).wait_for()
    await page.context.close()
