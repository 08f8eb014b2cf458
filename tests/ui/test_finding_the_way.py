"""What a person does at the page in a real browser: goes somewhere, narrows a search, sets something, on a desk and on a phone."""

# ruff: noqa: F811 - fixtures of another module are arguments here
from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_plus

import pytest
from test_in_a_browser import (  # noqa: F401 - fixtures
    CHROMIUM,
    Browser,
    _nothing_went_wrong,
    assistant,
    browser,
    look_again,
    playwright,
)
from ui_process import PLAIN, talk

from helpers import until
from pgengram.inputs import Change, NewMemory
from pgengram.runtime.context import ACTOR
from pgengram.service.manager import MemoryManager

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")


async def test_what_was_said_in_a_conversation_is_found_below_the_memories_and_opened_at_its_place(
    browser: Browser, assistant: MemoryManager
) -> None:
    await talk(assistant, "I am left-handed, like Lowri.", "Noted, left-handed like Lowri.", first=500)
    page = await browser.open("/?q=left-handed Lowri")
    found = page.locator(".said-before")
    await found.get_by_text("2 turns of your conversations match").wait_for()
    await found.get_by_role("link", name="I am left-handed").click()
    await page.locator(".turn.user:target", has_text="like Lowri").wait_for()

    await page.goto(browser.base + "/conversations?q=Lowri")
    await page.locator(".turn", has_text="Noted, left-handed").wait_for()
    await page.goto(browser.base + "/conversations")
    await page.get_by_text("Imported ones stay until you erase them").wait_for()
    await page.context.close()


async def test_where_nothing_fits_the_page_says_so_and_folds_the_nearest_away(browser: Browser) -> None:
    page = await browser.open("/?q=zzzqqq")
    await page.get_by_text("No memory has these words.").wait_for()
    assert not await page.locator(".nearest .hit").first.is_visible()
    assert await page.locator("#count").inner_text() == ""
    await page.keyboard.press("j")
    assert await page.locator(".hit.on").count() == 0
    await page.get_by_text("Show the nearest").click()
    await page.locator(".nearest .hit").first.wait_for()
    await page.context.close()


@pytest.mark.parametrize(("part", "marked"), [("allerg", "allergic"), ("eanut", "eanut")])
async def test_a_part_of_a_word_is_a_match_and_is_marked(browser: Browser, part: str, marked: str) -> None:
    page = await browser.open(f"/?q={part}")
    await page.locator("#hits > .hit mark", has_text=re.compile(f"^{marked}$")).first.wait_for()
    assert "good match" in await page.locator("#count").inner_text()
    await page.context.close()


async def test_the_numbers_of_filters_follow_the_filters_and_offer_nothing_that_finds_nothing(browser: Browser) -> None:
    page = await browser.open("/")
    await page.locator("#tags-archive").wait_for(state="attached")
    assert await page.locator("#kind-person").count() == 1
    await page.locator("#tags-archive").check()
    await until(lambda: page.evaluate("!document.getElementById('kind-person')"))  # no map on a shelf is one
    assert await page.locator("#tags-archive").is_checked()
    assert {*await page.locator("#counted .number").all_inner_texts()} == {str(PLAIN)}
    await page.locator("#tags-archive").uncheck()
    await page.locator("#kind-person").wait_for()
    await page.context.close()


async def test_keys_lead_anywhere_and_are_listed_with_the_guides(browser: Browser) -> None:
    page = await browser.open("/trash")
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox").fill("conv")
    await page.get_by_role("option", name="Conversations", exact=True, selected=True).wait_for()
    await page.keyboard.press("Enter")
    await page.wait_for_url(browser.base + "/conversations")
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox").fill("peanuts")
    await page.keyboard.press("Enter")
    await page.locator(".hit", has_text="allergic to peanuts").first.wait_for()
    await page.keyboard.press("Control+k")
    await page.keyboard.press("Escape")
    assert not await page.locator("dialog").is_visible()

    await page.goto(browser.base + "/settings")
    await page.keyboard.press("?")
    await page.wait_for_url(browser.base + "/help")
    await page.locator("dl div", has_text="Undo the change").locator("kbd", has_text="u").wait_for()
    await page.get_by_role("link", name="Look at your memory").click()
    await page.locator("article h2").first.wait_for()
    leads = page.locator("article a[href^='/help/']").first
    address = await leads.get_attribute("href")
    await leads.click()
    await page.wait_for_url(f"{browser.base}{address}")
    await page.locator("article h2").first.wait_for()
    await page.context.close()


async def test_no_control_is_drawn_with_a_character_that_a_bare_system_has_no_font_for(browser: Browser) -> None:
    for path in ("/", "/map", "/graph", f"/memory/{browser.ids['stripe']}"):
        page = await browser.open(path)
        words = await page.locator("button, .button, .rail a").all_inner_texts()
        assert not [text for text in words if re.search("[^\x20-\x7e\\s\u00a0-\u024f…←→]", text)], path
        await page.context.close()


async def test_a_second_browser_is_told_how_to_come_in(browser: Browser) -> None:
    context = await browser.chromium.new_context()
    page = await context.new_page()
    await page.goto(browser.base + "/?q=gate")
    await page.get_by_role("heading", name="This browser isn't let in yet").wait_for()
    await page.get_by_text("type pgengram ui").wait_for()
    assert await page.get_by_text("Something went wrong").count() == 0
    await context.close()


async def test_the_map_stays_as_it_is_when_a_few_memories_come(browser: Browser, assistant: MemoryManager) -> None:
    page = await browser.open("/map")
    places = """async () => { const map = document.querySelector('#map');
      const { key } = JSON.parse(map.querySelector('script').textContent);
      const bytes = await (await fetch(`/map/points?key=${key}`)).arrayBuffer();
      const count = bytes.byteLength / 7; return [...new Int16Array(bytes, 0, count)]; }"""
    topics = page.locator("[data-region]")
    names, before = await topics.all_inner_texts(), await page.evaluate(places)
    for number in range(3):
        await assistant.create_memory(NewMemory(content=f"The ferryman of Ghent painted boat {number} green."))
    await page.goto(browser.base + "/new")
    await page.get_by_label("Text").fill("The ferryman of Ghent sings.")  # a change at the page draws the map anew
    await page.get_by_role("button", name="Save").click()
    await page.locator(".reading .prose").wait_for()

    await page.goto(browser.base + "/map")
    await page.locator(".waiting").wait_for(state="detached", timeout=120_000)
    after = await page.evaluate(places)
    assert len(after) == len(before) + 4
    assert sum(abs(one - other) > 100 for one, other in zip(before, after, strict=False)) == 0  # of 10,000
    renamed = {*names} ^ {*await topics.all_inner_texts()}
    assert len(renamed) <= 4  # the numbers of the topics that grew
    await page.context.close()


async def test_the_timeline_counts_whole_memories_and_says_dates_in_words(browser: Browser) -> None:
    page = await browser.open("/timeline?day=2025-01-01")
    await page.locator(".chart .u-over").wait_for()
    labels = await page.evaluate("drawn.size && uPlot.paths && document.querySelector('.chart').innerText")
    assert "2025-" not in await page.locator("main").inner_text()
    assert labels is not None
    await page.get_by_role("heading", name="1 Jan 2025: 1 memory").wait_for()
    await page.context.close()


async def test_what_a_finger_needs_is_large_enough_and_four_places_are_in_reach(browser: Browser) -> None:
    small = """() => [...document.querySelectorAll('button, a.button, label.button, summary, .rail a, .tabs a, select')]
      .filter((one) => one.checkVisibility() && getComputedStyle(one).clipPath === 'none')
      .map((one) => [one.innerText || one.ariaLabel, one.getBoundingClientRect()])
      .filter(([, box]) => box.height && (box.height < 43.5)).map(([text, box]) => `${text}: ${box.height}`)"""
    for path in (
        "/",
        "/?q=gate",
        "/review",
        "/timeline",
        "/trash",
        "/settings",
        "/projects",
        "/map",
        "/more",
        f"/memory/{browser.ids['stripe']}",
    ):
        page = await browser.open(path, "phone")
        assert await page.evaluate(small) == [], path
        assert len([one for one in await page.locator(".rail nav a").all() if await one.is_visible()]) == 4
        assert await page.evaluate("document.activeElement === document.body")
        seen = await page.locator("main").inner_text()
        assert not re.search(r"\b(click|point at|double-click|scroll)\b", seen, re.IGNORECASE), path
        await page.context.close()
    page = await browser.open("/", "phone")
    await page.locator(".rail").get_by_role("link", name="More").click()
    await page.get_by_role("region", name="Settings").get_by_role("link", name="Import").wait_for()
    await page.get_by_role("link", name="Trash").click()
    await page.wait_for_url("**/trash")
    await page.context.close()


async def test_a_phone_has_room_for_what_is_looked_for(assistant: MemoryManager, browser: Browser) -> None:
    page = await browser.open("/?q=gate", "phone")
    await page.locator(".hit .why").first.wait_for()
    own_row = """() => [...document.querySelectorAll('.hit .facts:has(.why)')].filter((facts) => {
      const box = facts.querySelector('summary').getBoundingClientRect();
      const others = [...facts.children].filter((one) => !one.matches('.why')).map((one) => one.getBoundingClientRect().bottom);
      return (box.top + box.bottom) / 2 > Math.max(...others); }).length"""
    assert await page.evaluate(own_row) == 0, "why? takes a row of its own"
    await page.context.close()
    for path in ("/settings", "/review?find=plan", "/timeline"):
        page = await browser.open(path, "phone")
        beyond = "() => [...document.querySelectorAll('.tabs a')].filter((one) => one.getBoundingClientRect().right > innerWidth).length"
        assert await page.evaluate(beyond) == 0, f"a tab of {path} is cut"
        if path == "/timeline":
            await page.locator(".chart .u-over").wait_for()
            assert (await page.locator(".chart").bounding_box())["height"] < 780 / 4
        await page.context.close()
    stored = await assistant.create_memory(NewMemory(content="The weir of Ghent was rebuilt. " * 20))
    await assistant.forget_memories([stored.memory_id], "it was another weir")
    page = await browser.open("/news", "phone")
    card = page.locator(".hit", has_text="Forgotten").first
    assert "it was another weir" in await card.inner_text()
    assert "status" not in await card.inner_text(), "which is what Forgotten says"
    assert (await card.bounding_box())["height"] < 780 / 3
    await page.context.close()


async def test_a_finger_opens_a_card_wherever_it_touches_it_but_its_box(browser: Browser) -> None:
    page = await browser.open("/?tags=archive", "phone")
    card = page.locator(".hit", has=page.locator(".tag")).first
    await card.locator(".pick").tap()
    await page.locator("#selected", has_text="1 selected").wait_for()
    tag = await card.locator(".tag").first.bounding_box()
    await page.touchscreen.tap(tag["x"] + tag["width"] / 2, tag["y"] + tag["height"] / 2)
    await page.wait_for_url(re.compile("/memory/"))
    await page.context.close()


async def test_typing_on_gives_up_the_search_before_it_without_an_error(browser: Browser) -> None:
    page = await browser.open("/")
    asked: list[str] = []

    async def hold(route: Any) -> None:
        asked.append(route.request.url)
        await asyncio.sleep(0.6)
        with suppress(playwright.Error):  # what was given up
            await route.continue_()

    await page.route("**/?q=*", hold)
    await page.evaluate(
        "() => { window.logs = []; const log = console.error;"
        " document.addEventListener('htmx:sendAbort', () => window.logs.push(console.error === log)); }"
    )
    ended: list[str] = []
    page.on("requestfailed", lambda request: ended.append(request.url))
    for text in ("har", "harbour", "harbour gate"):
        await page.fill("#q", text)
        await until(lambda text=text: _was_asked(asked, text))
    await page.locator("#hits > .hit mark", has_text="gate").first.wait_for()
    assert len(ended) == 2
    assert await page.evaluate("window.logs") == [True, True], "errors of others are logged meanwhile"
    await page.context.close()


async def _was_asked(asked: list[str], text: str) -> bool:
    return any(unquote_plus(url).endswith(f"?q={text}") for url in asked)


async def test_a_backup_is_made_by_a_button_and_the_page_says_when(browser: Browser) -> None:
    page = await browser.open("/settings")
    await page.get_by_text("There is no backup yet").wait_for()
    await page.get_by_role("button", name="Back up now").click()
    await page.get_by_text("The last backup was made").wait_for(timeout=120_000)
    await page.get_by_role("button", name="Back up now").wait_for()
    await page.goto(browser.base + "/health")
    await page.get_by_text("was made just now").or_(page.get_by_text("minute ago")).first.wait_for()
    assert not await page.get_by_text("coverage percent").is_visible()
    await page.context.close()


async def test_what_was_just_imported_is_not_said_to_be_stale(assistant: MemoryManager, browser: Browser) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=900)
    lines = f'{{"content": "The heron of the old weir moved in 2024.", "kind": "observation", "created_at": "{long_ago.isoformat()}"}}'
    page = await browser.open("/import")
    await page.get_by_label("File").set_input_files(
        {"name": "old.jsonl", "mimeType": "text/plain", "buffer": lines.encode()}
    )
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_role("button", name="Import", exact=True).click()
    await page.get_by_text("old.jsonl was imported").wait_for()
    await page.goto(browser.base + "/review?again")
    await page.locator(".waiting").wait_for(state="detached", timeout=120_000)
    await page.goto(browser.base + "/review?find=stale")
    await page.locator(".waiting").wait_for(state="detached", timeout=120_000)
    assert await page.locator(".hit", has_text="heron").count() == 0
    await page.context.close()


async def test_what_an_assistant_did_since_the_last_visit_is_told_by_whom_and_taken_back(
    browser: Browser, assistant: MemoryManager
) -> None:
    page = await browser.open("/news")
    await page.get_by_role("button", name="Mark as seen").click()
    await page.wait_for_url(browser.base + "/")
    assert await page.locator("#news .notice").count() == 0
    ACTOR.set("claude-code")
    stored = await assistant.create_memory(NewMemory(content="The bosun keeps a parrot called Umber."))
    await assistant.update_memory(Change(id=browser.ids["jonas"], project="infirmary"))

    await page.goto(browser.base + "/")
    await page.locator("#news .notice", has_text="1 memory stored, 1 changed").wait_for()
    await page.locator("#news").get_by_role("link", name="Show").click()
    entry = page.locator(".hit", has_text="a parrot called Umber")
    await entry.get_by_text("by claude-code").wait_for()
    await entry.get_by_role("button", name="Undo").click()
    await page.locator(".said", has_text="Memory forgotten").wait_for()
    changed = page.locator(".hit", has_text="Jonas is allergic")
    await changed.locator("ins", has_text="infirmary").wait_for()
    await changed.get_by_role("button", name="Undo").click()
    await page.locator(".said", has_text="Memory changed").wait_for()
    [forgotten, kept] = (await assistant.get_memories([stored.memory_id, browser.ids["jonas"]])).memories
    assert forgotten["status"] == "invalidated"
    assert not kept.get("project")
    await page.context.close()


async def test_a_marked_sentence_of_a_conversation_becomes_a_memory_that_leads_back_to_it(
    browser: Browser, assistant: MemoryManager
) -> None:
    await talk(assistant, "It rains. Pilot Odile takes no ships after dusk. See you.", "Noted.", first=700)
    page = await browser.open("/conversation?client=claude-code&conversation=c-1&turn=700")
    turn = page.locator("#turn-700")
    await turn.locator(".prose p").evaluate(
        """one => { const text = one.firstChild; const from = text.data.indexOf('Pilot');
          const range = document.createRange(); range.setStart(text, from); range.setEnd(text, text.data.indexOf(' See'));
          getSelection().removeAllRanges(); getSelection().addRange(range); }"""
    )
    await turn.get_by_role("link", name="Make a memory").click()
    assert await page.get_by_label("Text").input_value() == "Pilot Odile takes no ships after dusk."
    await page.get_by_role("button", name="Save").click()
    await page.locator(".reading .prose", has_text="Pilot Odile takes no ships after dusk.").wait_for()
    await page.get_by_role("link", name="a conversation with claude-code").click()
    await page.locator("#turn-700:target", has_text="It rains.").wait_for()
    await page.context.close()


async def test_a_project_a_topic_and_a_name_have_a_page_that_reads_as_a_text(
    browser: Browser, assistant: MemoryManager
) -> None:
    for content, kind, importance in (
        ("The lantern of Skerry was lit on 3 March.", "observation", 0.5),
        ("Skerry gets a lamp of gas.", "decision", 0.5),
        ("Skerry is a rock with one house.", "fact", 0.4),
        ("Keeper Ines runs Skerry.", "person", 0.9),
    ):
        new = NewMemory.model_validate(
            {"content": content, "kind": kind, "importance": importance, "project": "skerry"}
        )
        await assistant.create_memory(new)
    page = await browser.open("/about?project=skerry")
    assert await page.locator("main section h2").all_inner_texts() == ["In short", "Decisions", "What happened"]
    told = await page.locator(".account .content").all_inner_texts()
    assert told[:2] == ["Keeper Ines runs Skerry.", "Skerry is a rock with one house."]

    await page.goto(browser.base + "/?q=tell me everything that we know about Ines")
    assert await page.get_by_role("link", name="all about “Ines”").get_attribute("href") == "/about?name=Ines"
    await page.goto(browser.base + "/?q=Ines")
    await page.get_by_role("link", name="all about “Ines”").click()
    await page.get_by_role("heading", name="Ines", exact=True).wait_for()
    assert await page.locator(".account .content").all_inner_texts() == ["Keeper Ines runs Skerry."]
    await page.context.close()
