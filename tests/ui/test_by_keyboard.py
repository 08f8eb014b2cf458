"""Ten tasks in a real browser without a mouse."""

from __future__ import annotations

from typing import Any

import pytest
from test_in_a_browser import CHROMIUM, Browser, _nothing_went_wrong, browser, playwright  # noqa: F401 - fixtures

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
FOCUSED = """() => { const on = document.activeElement;
  return (on.ariaLabel ?? on.labels?.[0]?.textContent ?? on.textContent ?? '').trim().replace(/\\s+/g, ' '); }"""
MOST_STEPS = 150  # of the Tab key through one page


async def tab_to(page: Any, name: str) -> None:
    """Press Tab until what has the focus begins with a name, as a screen reader would say it."""
    passed = []
    for _ in range(MOST_STEPS):
        await page.keyboard.press("Tab")
        passed.append(await page.evaluate(FOCUSED))
        if passed[-1].startswith(name):
            assert await page.evaluate("document.activeElement.matches(':focus-visible')"), f"{name} shows no focus"
            return
    raise AssertionError(f"{name} is not among {passed}")


async def press(page: Any, name: str, key: str = "Enter") -> None:
    await tab_to(page, name)
    await page.keyboard.press(key)


async def go(page: Any, section: str) -> None:
    """Go to a section by the menu, however far down a list has led."""
    await page.wait_for_load_state()
    await page.keyboard.press("m")
    for key in ("Tab", "Shift+Tab"):
        for _ in range(10):
            if await page.evaluate(FOCUSED) == section:
                await page.keyboard.press("Enter")
                return
            await page.keyboard.press(key)
    raise AssertionError(f"{section} is not near {await page.evaluate(FOCUSED)}")


async def said(page: Any, text: str) -> None:
    await page.locator(".said", has_text=text).wait_for(timeout=60_000)
    await page.wait_for_load_state()  # from then on keys are heard


async def test_ten_tasks_are_done_by_the_keyboard_alone(browser: Browser) -> None:  # noqa: F811
    page = await browser.open("/")
    keys = page.keyboard

    # 1, 2: search, and open a hit
    await keys.press("Escape")
    await keys.press("/")
    await keys.type("who must not eat nuts")
    await page.locator(".hit .content", has_text="Jonas is allergic").first.wait_for()
    await keys.press("Escape")
    await keys.press("j")
    await page.locator(".hit.on", has_text="Jonas is allergic").wait_for()
    await keys.press("Enter")
    await page.locator(".prose", has_text="Jonas is allergic").wait_for()

    # 3, 4: edit it, and take that back
    await press(page, "Edit")
    await page.locator("#edit textarea:focus").wait_for()
    await keys.press("Control+End")
    await keys.type(" He told us so.")
    await press(page, "Save")
    await page.locator(".prose", has_text="He told us so.").wait_for()
    await keys.press("u")
    await said(page, "Undone")
    assert await page.locator(".reading .prose").inner_text() == "Jonas is allergic to peanuts."

    # 5: link it to another
    await press(page, "Add a link")
    await tab_to(page, "Find a memory to link to")
    await keys.type("twelve desks in Bern")
    await page.locator("#candidates button").first.wait_for()
    await press(page, "Link to:")
    await said(page, "Linked")

    # 6: add a memory
    await keys.press("n")
    await page.locator("[name=content]:focus").wait_for()
    await keys.type("The cellar key hangs behind the door.")
    await press(page, "Save")
    await page.locator(".prose", has_text="The cellar key").wait_for()

    # 7: forget it, and erase it from the trash after its text was shown
    await press(page, "Forget")
    await press(page, "Forget this memory")
    await page.locator(".notice", has_text="Forgotten").wait_for()
    await go(page, "Trash")
    await page.locator(".hit", has_text="The cellar key").wait_for()
    await page.wait_for_load_state()  # the keys work once the script is there
    await keys.press("j")
    await keys.press("x")
    await press(page, "Erase permanently …")
    await page.get_by_role("heading", name="Permanently erase 1 memory?").wait_for()
    assert "The cellar key" in await page.locator(".history").inner_text()
    await press(page, "Erase permanently")
    await said(page, "Memory permanently erased")

    # 8: filter a list, and archive two of it after a preview
    await go(page, "Search")
    await page.locator("#q:focus").wait_for()
    await tab_to(page, "any time")
    await page.locator(".hit").first.wait_for()
    await keys.press("ArrowDown")  # the past 24 hours
    await page.wait_for_url(lambda address: "period=day" in address)
    await page.locator("#looking .spinner, #hits.htmx-request").wait_for(state="detached")
    await keys.press("Escape")
    await keys.press("j")
    await keys.press("x")
    await keys.press("j")
    await keys.press("x")
    await page.locator("#selected", has_text="2 selected").wait_for()
    await keys.press("a")
    await press(page, "Archive …")
    await page.get_by_role("heading", name="Preview").wait_for()
    await press(page, "Apply")
    await said(page, "2 memories archived")
    await keys.press("u")
    await said(page, "Undone")

    # 9: answer a question of the review
    await go(page, "Review")
    await page.locator(".question").first.wait_for(timeout=120_000)
    await keys.press("1")
    await page.locator(".said button").wait_for(timeout=60_000)

    # 10: list a topic of the map
    await go(page, "Map")
    await page.locator("#map").wait_for(timeout=120_000)
    await tab_to(page, "Map of")
    await keys.press("+")
    await page.locator("#map[data-zoom='1.50']").wait_for()
    topic = await page.locator("[data-region]").first.inner_text()
    await press(page, topic.split(",")[0])
    await page.locator("#area .hit").first.wait_for()
    await page.context.close()
