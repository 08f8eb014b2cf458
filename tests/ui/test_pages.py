"""The pages of `pgengram ui`, asked for as a browser asks, and the walls around them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import psycopg
import pytest
from ui_process import HOSTILE, PLAIN, TALK, Ui, marks, run_ui, shown, talk

from helpers import PATIENCE_S, Database, database_of, environment, until
from pgengram.errors import NotReady
from pgengram.inputs import Change, NewMemory, Question
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets import reviewing
from pgengram.settings import Settings
from pgengram.sync import devices
from pgengram.sync.exchange import Exchange
from pgengram.ui.pages.markup import excerpt, markdown
from pgengram.ui.serving import Pages
from pgengram.ui.view_data import drawing
from pgengram.ui.view_data.map_view import region_names
from pgengram.ui.view_data.view_service import PAGE, SEARCH_PATIENCE_S, Results, ViewService
from pgengram.views import Found

TYPED = {"hx-request": "true", "hx-target": "hits"}  # headers of a request while somebody types

STATIC = Path(drawing.__file__).parents[1] / "static"


def drawn(page: str) -> Any:
    """Return what a page has to draw."""
    return json.loads(page.partition('<script type="application/json">')[2].partition("</script>")[0])


async def previewed(ui: Ui, path: str, **fields: str) -> str:
    """Press a button that leads to a preview, and return that."""
    answer = await ui.send(path, **fields)
    assert answer.status_code == 303, answer.text
    return await ui.page(answer.headers["location"])


async def question(ui: Ui, find: str, ids: set[str]) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Return the page of a review that asks about memories, the fields of its form, and its steps by their action."""
    for page in range(1, 200):
        text = await ui.page("/review", find=find, page=page)
        asked = {
            name: unescape(value)
            for name, value in re.findall(r'name="(ids|back|version:[^"]+)" value="([^"]*)"', text)
        }
        if {*asked.get("ids", "").split(",")} == ids:
            steps = [json.loads(unescape(step)) for step in re.findall(r'name="step" value="([^"]+)"', text)]
            return text, asked, {step["action"]: step for step in steps}
        if "Skip" not in text:
            break
    raise AssertionError(f"nobody asks about {ids}")


async def apply(ui: Ui, preview: str, **boxes: str) -> httpx.Response:
    """Press the button below a preview, with boxes ticked."""
    fields = {name: unescape(re.findall(rf'name="{name}" value="([^"]*)"', preview)[-1]) for name in ("key", "back")}
    return await ui.send("/apply", **fields, **boxes)


@asynccontextmanager
async def inside(look: ViewService) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client that has come in to pages that no server stands before."""
    guard = Pages(look, "default", 80).session_guard
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=guard), base_url="http://127.0.0.1:80", headers={"host": "127.0.0.1:80"}
    ) as client:
        await client.get("/enter", params={"token": guard.sign_ins.ticket()})
        yield client
    await look.close()


# -- views ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "Search memories"),
        ("/timeline", "Memories by day"),
        ("/projects", "archive"),
        ("/graph", "Strongest links"),
        ("/clusters", "People"),
        ("/map", "approximate"),
        ("/review", "Question 1 of"),
        ("/trash", "The office is in Basel."),
        ("/trash?status=archived", "No archived memories"),
        ("/health", "all-MiniLM-L6-v2"),
        ("/import", "Preview"),
        ("/export", ">Export</button>"),
        ("/tokens", "There are no tokens yet"),
        ("/sign-ins", "this browser"),
        ("/conversations", "1 conversation with 3 turns"),
        ("/receipts", "Mara moved billing to Stripe."),
        ("/about?project=harbour", "<h2>Decisions</h2>"),
        ("/about?name=nobody+at+all", "Nothing is remembered about this"),
        ("/about?name=Meridian", "All about the project Meridian"),
        ("/about?project=Meridian", "the most important of more"),
        ("/about?name=Tag-7", "All about the tag tag-7"),
        ("/news", "Mark as seen"),
        ("/settings", "Back up now"),
        ("/help/forget-and-erase", "← Help"),
        ("/more", "Receipts"),
    ],
)
async def test_every_view_shows_what_it_is_for(ui: Ui, path: str, expected: str) -> None:
    assert expected in await ui.page(path)


async def test_a_search_finds_by_meaning_and_draws_the_parts_of_the_score(ui: Ui) -> None:
    page = await ui.page("/", q="who must not eat nuts")

    assert shown(page)[0] == "Jonas is allergic to peanuts."
    assert 'aria-label="meaning 0.' in page
    assert "<dt>score</dt>" in page


async def test_words_that_were_looked_for_are_marked_and_weak_hits_stand_below_a_line(ui: Ui) -> None:
    page = await ui.page("/", q="peanut allergy")

    assert "Jonas is <mark>allergic</mark> to <mark>peanuts</mark>." in page
    strong, _, weak = page.partition("Weaker matches")
    assert f">{len(shown(strong))} good match" in page
    assert "Jonas is allergic to peanuts." in shown(strong)
    assert shown(weak)


async def test_a_list_says_how_many_there_are_and_comes_back_as_long_as_it_was(ui: Ui) -> None:
    page = await ui.page("/", tags="archive", sort="occurred", pages="2")

    assert f"{PLAIN} memories" in page
    assert len(shown(page)) == 40


async def test_a_memory_is_added_and_what_is_refused_is_not_lost(ui: Ui) -> None:
    refused = await ui.send("/new", content="The bridge opens at 6.", importance="7")
    assert refused.status_code == 422
    assert "The bridge opens at 6." in refused.text

    added = await ui.send("/new", content="The bridge opens at 6.", kind="fact", tags="bridge", importance="0.5")
    page = await ui.page(added.headers["location"])
    assert "Memory added" in page
    assert ">bridge</a>" in page


async def test_selected_memories_are_changed_after_a_preview_and_changed_back(ui: Ui) -> None:
    ids = [row["id"] for row in ui.db.rows("SELECT id FROM memories WHERE content LIKE 'Shelf 4_ %%' ORDER BY id")]
    picked = {f"id:{id_}": "on" for id_ in ids}
    assert (await ui.send("/selection", action="forget")).status_code == 422
    status = "SELECT array_agg(DISTINCT status) FROM memories WHERE id = ANY(%s)"

    preview = await previewed(ui, "/selection", action="forget", **picked)
    assert len(shown(preview)) == len(ids) == 5
    assert ui.db.value(status, [ids]) == ["active"]
    done = await apply(ui, preview)
    assert ui.db.value(status, [ids]) == ["invalidated"]
    page = await ui.page(done.headers["location"])
    assert "5 memories forgotten" in page

    [key] = re.findall(r'name="key" value="([^"]+)"', page)
    await ui.send("/undo", key=key, back="/")
    assert ui.db.value(status, [ids]) == ["active"]
    assert (await ui.send("/undo", key=key, back="/")).status_code == 404


@pytest.mark.parametrize(
    "path", ["/?q=shelf&tags=a%2Cb&tags=", "/timeline?day=2026-01-02", "/review?find=untagged&page=2"]
)
async def test_a_list_with_its_question_and_filters_is_there_again_after_a_change_and_after_undo(
    ui: Ui, path: str
) -> None:
    id_ = ui.ids["stripe"]

    preview = await ui.send("/selection", shown_on=path, action="tag", tags="shelf", **{f"id:{id_}": "on"})
    done = await apply(ui, await ui.page(preview.headers["location"]))
    assert done.headers["location"] == path
    [key] = re.findall(r'name="key" value="([^"]+)"', await ui.page(path))
    undone = await ui.send("/undo", shown_on=path, key=key, back="/")

    assert undone.headers["location"] == path


@pytest.mark.parametrize("path", ["/?q=harbour", "/timeline", "/cluster/{cluster}", "/review?find=untagged"])
async def test_where_memories_can_be_selected_something_can_be_done_with_them(ui: Ui, path: str) -> None:
    page = await ui.page(path.format(**ui.ids))

    assert 'class="pick"' in page
    assert '<form id="selection"' in page


async def test_what_changed_after_a_preview_is_not_overwritten(ui: Ui) -> None:
    id_ = ui.ids["stripe"]
    preview = await previewed(ui, "/selection", action="tag", tags="nuts", **{f"id:{id_}": "on"})
    await ui.send(f"/memory/{id_}/pin", pinned="on")

    assert (await apply(ui, preview)).status_code == 409
    await ui.send(f"/memory/{id_}/pin")
    assert ui.db.value("SELECT count(*) FROM memory_tags WHERE memory_id = %s", [id_]) == 0


async def test_memories_are_erased_only_after_their_texts_were_shown(ui: Ui) -> None:
    added = await ui.send("/new", content="The ferry sank in 1901.", importance="0.5")
    id_ = added.headers["location"].rpartition("/")[2]
    await ui.send(f"/memory/{id_}/forget")

    preview = await previewed(ui, "/selection", action="erase", **{f"id:{id_}": "on"})
    assert "Permanently erase 1 memory?" in preview
    assert shown(preview) == ["The ferry sank in 1901."]
    await apply(ui, preview)

    assert "Memory permanently erased" in await ui.page("/trash")
    assert ui.db.value("SELECT count(*) FROM memories WHERE id = %s", [id_]) == 0


async def test_while_somebody_types_only_the_hits_are_sent(ui: Ui) -> None:
    part = await ui.page("/", q="billing", headers={"hx-request": "true", "hx-target": "hits"})

    assert "<html" not in part
    assert "Mara moved billing to Stripe." in shown(part)


async def test_a_page_does_not_wait_for_a_slow_search_and_its_list_does(
    manager: MemoryManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await manager.create_memory(NewMemory(content="The old gate has 14 locks."))
    look, done = ViewService(manager, tmp_path), asyncio.Event()
    results, searches = look.results, 0

    async def slow(asked: Mapping[str, str]) -> Results:
        nonlocal searches
        searches += 1
        await done.wait()
        return await results(asked)

    monkeypatch.setattr(look, "results", slow)
    async with inside(look) as client:
        page = await client.get("/", params={"q": "gate"})
        assert 'hx-trigger="load" hx-target="#hits"' in page.text
        part = asyncio.create_task(client.get("/", params={"q": "gate"}, headers=TYPED))
        await asyncio.sleep(2 * SEARCH_PATIENCE_S)
        assert not part.done()
        done.set()
        found = await part

    assert shown(found.text) == ["The old gate has 14 locks."]
    assert '<div id="looking" hx-swap-oob="true"></div>' in found.text
    assert searches == 1


async def test_a_search_ends_when_more_is_typed_unless_another_window_waits_for_it(ui: Ui) -> None:
    """Shown by what PostgreSQL is still doing."""
    host, port = ui.client.base_url.host, ui.client.base_url.port
    cookies = "; ".join(f"{one.name}={one.value}" for one in ui.client.cookies.jar)
    with psycopg.connect(ui.db.url, autocommit=True) as login:
        login.execute("BEGIN")
        login.execute("LOCK TABLE memory_words IN ACCESS EXCLUSIVE MODE")  # no search gets past this
        windows = [await asyncio.open_connection(host, port) for _ in range(3)]
        for number, (_, writer) in enumerate(windows):
            asked = "shared" if number else "alone"
            writer.write(
                f"GET /?q={asked} HTTP/1.1\r\nHost: {host}:{port}\r\nhx-target: hits\r\nCookie: {cookies}\r\n\r\n".encode()
            )
            await writer.drain()
        await until(lambda: _blocked(ui, 2))
        for _, writer in windows[:2]:
            writer.close()
        await until(lambda: _blocked(ui, 1))
        login.execute("ROLLBACK")
    answer = await windows[2][0].readline()
    windows[2][1].close()
    assert b"200" in answer


async def _blocked(ui: Ui, many: int) -> bool:
    """Whether so many searches wait for a lock."""
    with psycopg.connect(ui.db.url, autocommit=True) as login:
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return login.execute(waiting).fetchone() == (many,)


async def test_filters_that_take_their_time_come_by_themselves(
    manager: MemoryManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await manager.create_memory(NewMemory(content="The old gate has 14 locks.", kind="fact"))
    look = ViewService(manager, tmp_path)

    async def not_yet(_: object, *, patience_s: float) -> None:
        return None

    async with inside(look) as client:
        with monkeypatch.context() as patched:
            patched.setattr(look, "facets", not_yet)
            assert 'hx-trigger="load delay:600ms' in (await client.get("/")).text
        async with asyncio.timeout(PATIENCE_S):
            while 'name="kind"' not in (page := (await client.get("/facets")).text):
                pass
    assert 'name="kind" value="fact"' in page


def moments(page: str) -> list[str]:
    """Return the last moment of each memory in a list: what the list is sorted by."""
    return [
        re.findall(r'<time datetime="([^"]+)"', hit)[-1]
        for hit in re.findall(r'<li class="hit".*?</li>', page, re.DOTALL)
    ]


@pytest.mark.parametrize(
    ("path", "told"),
    [("/", "stored"), ("/?sort=created", "stored"), ("/?sort=updated", "changed"), ("/trash", "forgotten")],
)
async def test_a_list_shows_of_each_memory_the_moment_that_it_is_sorted_by(
    manager: MemoryManager, tmp_path: Path, path: str, told: str
) -> None:
    for day in (3, 9, 1, 7):
        occurred = datetime(2026, 3, day, tzinfo=UTC)
        stored = await manager.create_memory(NewMemory(content=f"The dam was seen on day {day}.", occurred_at=occurred))
        if path == "/trash":
            await manager.forget_memories([stored.memory_id])
    async with inside(ViewService(manager, tmp_path)) as client:
        page = ""
        while not shown(page):
            page = (await client.get(path)).text

    assert [text[-2] for text in shown(page)] == ["7", "1", "9", "3"]
    assert page.count(f"<span>{told} <time") == 4
    assert moments(page) == sorted(moments(page), reverse=True)


async def test_the_page_about_a_project_shows_all_else_where_the_review_fails(
    manager: MemoryManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await manager.create_memory(NewMemory(content="The dam is 40 m high.", project="dam"))
    for failing, told in (
        (NotReady("The embedder is gone."), "The embedder is gone."),
        (KeyError("x"), "internal error"),
    ):
        look = ViewService(manager, tmp_path)

        async def review(_: object, error: Exception = failing) -> None:
            raise error

        monkeypatch.setattr(look, "review", review)
        async with inside(look) as client:
            page = await client.get("/about", params={"project": "dam"})

        assert page.status_code == 200
        assert shown(page.text) == ["The dam is 40 m high."]
        assert "Open questions aren&#39;t known" in page.text or "Open questions aren't known" in page.text
        assert told in page.text


async def test_a_list_does_not_wait_until_it_is_counted(
    manager: MemoryManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await manager.create_memories([{"content": f"The old gate has {number} locks."} for number in range(PAGE + 1)])
    counting, search = asyncio.Event(), manager.search_memories

    async def slow(question: Question) -> Found:
        if question.count_only:
            await counting.wait()
        return await search(question)

    monkeypatch.setattr(manager, "search_memories", slow)
    async with inside(ViewService(manager, tmp_path)) as client:
        page, asked = "", {"at": datetime.now(UTC).isoformat(timespec="seconds")}
        while not shown(page):  # a slow machine looks for a while, and says so
            page = (await client.get("/", params=asked)).text
        assert len(shown(page)) == PAGE
        assert "Counting …" in page
        counting.set()
        assert (await client.get("/count")).text.strip() == f'<p id="count">{PAGE + 1} memories</p>'


async def test_a_list_that_fits_on_its_page_is_not_counted_again(
    manager: MemoryManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await manager.create_memory(NewMemory(content="The old gate has 14 locks."))
    search = manager.search_memories

    async def without_counting(question: Question) -> Found:
        assert not question.count_only
        return await search(question)

    monkeypatch.setattr(manager, "search_memories", without_counting)
    async with inside(ViewService(manager, tmp_path)) as client:
        page, asked = "", {"q": "GATE", "mode": "substring"}
        while not shown(page):
            page = (await client.get("/", params=asked)).text
        assert '<p id="count">1 memory</p>' in page


@pytest.mark.parametrize("target", ["hits", "more"])
async def test_what_goes_wrong_while_somebody_types_is_told_in_the_list(ui: Ui, target: str) -> None:
    part = await ui.page("/", code=422, cursor="nonsense", headers={"hx-request": "true", "hx-target": target})

    assert 'role="alert"' in part
    assert "<html" not in part


async def test_filters_hold_together(ui: Ui) -> None:
    assert shown(await ui.page("/", kind="decision", project="harbour")) == ["Mara moved billing to Stripe."]
    assert "Nothing found" in await ui.page("/", kind="decision", tags="health")


async def test_pages_follow_each_other_without_repeating_or_skipping(ui: Ui) -> None:
    seen: list[str] = []
    path = "/?tags=archive&sort=occurred"
    while path:
        page = await ui.page(path)
        seen += shown(page)
        more = re.search(r'id="more"><a href="([^"]+)"', page)
        path = unescape(more[1]) if more else ""

    assert len(seen) == len(set(seen)) == PLAIN


async def test_a_list_of_a_period_goes_on_past_its_first_page(ui: Ui) -> None:
    first = await ui.page("/", kind="fact", period="week")
    more = re.search(r'id="more"><a href="([^"]+)"', first)
    assert more is not None
    second = await ui.page(unescape(more[1]))

    assert len(shown(first)) == 20
    assert shown(second)
    assert not {*shown(first)} & {*shown(second)}


async def test_a_moment_without_an_offset_in_an_address_is_of_this_machine(ui: Ui) -> None:
    here = datetime.now()

    with_it, without = [
        shown(await ui.page("/", kind="fact", period="week", at=at.isoformat())) for at in (here.astimezone(), here)
    ]

    assert without
    assert without == with_it


async def test_a_memory_is_shown_with_all_that_belongs_to_it(ui: Ui) -> None:
    page = await ui.page(f"/memory/{ui.ids['jonas']}")

    for expected in (
        "Jonas is allergic to peanuts.",
        '<dd dir="auto">Mara</dd>',
        "← causes",
        "Mara moved billing",
        "People",
    ):
        assert expected in page
    fading = drawn(page)
    assert fading["unused"] == sorted(fading["unused"], reverse=True)
    marked = {mark["what"]: mark["at"] for mark in fading["marks"]}
    assert marked.keys() >= {"stored", "now"}
    assert fading["at"][0] == marked["stored"] < marked["now"] < fading["at"][-1]


async def test_markdown_is_rendered_and_nothing_in_it_runs_or_loads(ui: Ui) -> None:
    text = "# Plan\n\n**Now** `x`\n\n<b onclick=evil()>b</b> [a](javascript:evil()) ![p](https://evil.example/p.png)\n\n| a |\n|---|\n| 1 |"
    added = await ui.send("/new", content=text, importance="0.5")
    page = await ui.page(added.headers["location"])
    prose = page.partition('<div class="prose"')[2].partition('<div class="facts">')[0]

    for expected in ('<h2 dir="auto">Plan</h2>', "<strong>Now</strong>", "<code>x</code>", "<td>1</td>"):
        assert expected in prose
    assert "&lt;b onclick=evil()&gt;" in prose
    assert "<img" not in prose
    assert 'href="javascript' not in prose


async def test_a_link_is_made_removed_and_made_again_by_undo(ui: Ui) -> None:
    one, other = ui.ids["twelve"], ui.ids["hostile"]
    links = "SELECT count(*) FROM memory_relationships WHERE from_id = %s AND to_id = %s AND type = 'supports'"

    found = await ui.page(f"/memory/{one}/candidates", q="quoted bold single", type="supports")
    assert f'name="to" value="{other}"' in found
    await ui.send(f"/memory/{one}/link", to=other, type="supports")
    assert ui.db.value(links, [one, other]) == 1
    await ui.send(f"/memory/{other}/link", to=one, type="supports", direction="in", remove="yes")
    assert ui.db.value(links, [one, other]) == 0
    page = await ui.page(f"/memory/{other}")
    assert "Link removed" in page
    await ui.send("/undo", key=re.findall(r'name="key" value="([^"]+)"', page)[0])
    assert ui.db.value(links, [one, other]) == 1


async def test_an_edit_is_taken_back_field_by_field(ui: Ui) -> None:
    id_ = ui.ids["twelve"]
    before = ui.db.rows("SELECT content, project FROM memories WHERE id = %s", [id_])
    await ui.send(f"/memory/{id_}", content="Twelve desks.", importance="0.1", tags="desks", project="bern")
    page = await ui.page(f"/memory/{id_}")
    await ui.send("/undo", key=re.findall(r'name="key" value="([^"]+)"', page)[0])

    assert ui.db.rows("SELECT content, project FROM memories WHERE id = %s", [id_]) == before
    assert ui.db.value("SELECT importance FROM memory_activation WHERE memory_id = %s", [id_]) == 0.5
    assert ui.db.value("SELECT count(*) FROM memory_tags WHERE memory_id = %s", [id_]) == 0


async def test_to_look_at_a_memory_is_not_to_use_it(manager: MemoryManager, database: Database, tmp_path: Path) -> None:
    look = ViewService(manager, tmp_path)
    stored = await manager.create_memory(NewMemory(content="The old gate has 14 locks."))
    before = database.rows("SELECT access_count, reinforcement, last_accessed_at FROM memory_activation")

    await look.memory(UUID(stored.memory_id))
    assert (await look.search({"q": "locks"})).count == 1
    await manager.accesses.flush()

    assert database.rows("SELECT access_count, reinforcement, last_accessed_at FROM memory_activation") == before


async def test_each_use_of_a_memory_raises_its_line_where_it_happened(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    id_ = (await manager.create_memory(NewMemory(content="The old gate has 14 locks.", importance=0.3))).memory_id
    database.rows("UPDATE memory_activation SET started_at = started_at - interval '90 days' RETURNING 1")
    await manager.get_memories([id_])
    await manager.update_memory(Change(id=id_, content="The old gate has 15 locks."))
    await manager.update_memory(Change(id=id_, confirm=True))
    async with inside(ViewService(manager, tmp_path)) as client:
        page = (await client.get(f"/memory/{id_}")).text

    marks = drawn(page)["marks"]
    assert [mark["what"] for mark in marks] == ["stored", "read", "update", "confirm", "now"]
    assert [mark["use"] for mark in marks] == [False, True, True, True, False]
    assert marks[0]["after"] == pytest.approx(0.3)
    for mark in marks[1:4]:
        assert mark["after"] - mark["before"] == pytest.approx(0.1, abs=1e-4)
        assert f'title="{mark["when"]}"' in page
    assert marks[-1]["after"] == pytest.approx(
        database.value("SELECT pgengram_relevance(relevance_anchor, rate_per_day, now()) FROM memory_activation")
    )
    assert page.count("<strong>read</strong>") == 1


async def test_of_many_uses_the_last_are_kept_and_the_others_stay_in_the_sum(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    id_ = (await manager.create_memory(NewMemory(content="The old gate has 14 locks.", importance=0.1))).memory_id
    assert database.value("SELECT used_at IS NULL AND use_weights IS NULL FROM memory_activation") is True
    for _ in range(35):
        await manager.get_memories([id_])
    made = (await ViewService(manager, tmp_path).memory(UUID(id_)))["fading"]

    marks = [mark for mark in made["marks"] if mark["use"]]
    assert len(marks) == 32
    assert marks[0]["before"] is None
    assert marks[0]["after"] == pytest.approx(0.1 + 4 * 0.1, abs=1e-3)
    assert made["marks"][-1]["after"] == pytest.approx(0.1 + 35 * 0.1, abs=1e-3)
    assert made["above"] is True


async def test_the_graph_around_a_memory_names_its_links(ui: Ui) -> None:
    page = await ui.page("/graph", id=ui.ids["stripe"])
    network = drawn(page)

    assert {"from": ui.ids["stripe"], "to": ui.ids["jonas"], "type": "causes", "strength": 0.9} in network["edges"]
    assert all({"x", "y", "text"} <= node.keys() for node in network["nodes"].values())


async def test_a_cluster_shows_its_members(ui: Ui) -> None:
    assert "Jonas is allergic to peanuts." in shown(await ui.page(f"/cluster/{ui.ids['cluster']}"))


async def test_a_day_shows_what_happened_on_it(ui: Ui) -> None:
    assert shown(await ui.page("/timeline", day="2025-01-01")) == ["Shelf 0 of the archive holds 0 maps."]


async def test_the_map_has_a_place_of_seven_bytes_for_every_memory(ui: Ui) -> None:
    map_ = drawn(await ui.page("/map"))
    [count] = ui.db.rows("SELECT count(*) AS active FROM memories WHERE status = 'active'")
    points = (await ui.client.get("/map/points", params={"key": map_["key"]})).content
    regions, types, clusters = (points[at * count["active"] :][: count["active"]] for at in (4, 5, 6))
    [place, *_] = (await ui.client.get("/map/hits", params={"key": map_["key"], "q": "peanut allergy"})).json()
    memory = await ui.client.get("/map/memory", params={"key": map_["key"], "at": place})

    assert len(points) == 7 * count["active"] > 6.9 * ui.size
    assert {*regions} == {region["number"] for region in map_["regions"]}
    assert sum(region["memories"] for region in map_["regions"]) == count["active"]
    assert map_["type_names"][types[place]] == "semantic"
    assert map_["cluster_names"][clusters[place]] == "People"
    assert memory.json() == {"id": ui.ids["jonas"], "text": "Jonas is allergic to peanuts."}


def test_a_hit_is_shown_without_the_marks_of_markdown() -> None:
    text = "## Plan\n\n- **two** *old* maps\n- `draw(3)` on 3. May\n\n```py\nx = a * b\n```"

    assert excerpt(text) == "Plan two old maps draw(3) on 3. May x = a * b"
    assert excerpt("| Town | Day |\n| --- | :-: |\n| Bern | Monday |\n\n- [x] a | b") == "Town, Day Bern, Monday a | b"
    assert 'disabled checked aria-label="done"> buy' in markdown("- [ ] call\n- [x] buy")


async def test_a_map_that_newer_ones_have_replaced_says_so(ui: Ui) -> None:
    answer = await ui.client.get("/map/points", params={"key": "0" * 16})

    assert answer.status_code == 404
    assert "This map is out of date." in answer.text


async def test_regions_of_the_map_are_named_by_the_words_that_set_them_apart() -> None:
    near = [Counter(bread=9, oven=7, monday=5), Counter(train=8, vienna=8, monday=4)]

    assert [name.partition(",")[0] for name in region_names(near, [9, 8])] == ["bread", "train"]
    assert region_names([Counter()], [0]) == ["other"]


async def test_a_search_lights_up_the_map_and_an_area_becomes_a_list(ui: Ui) -> None:
    key = drawn(await ui.page("/map"))["key"]
    places = (await ui.client.get("/map/hits", params={"key": key, "q": "hostile Jonas peanuts"})).json()

    listed = await ui.send("/map/list", key=key, at=",".join(map(str, places)))

    assert "Jonas is allergic to peanuts." in shown(listed.text)
    assert len(shown(listed.text)) == len(places)
    assert "<script>alert" not in listed.text


async def test_every_memory_that_contains_the_words_is_lit_up_on_the_map(ui: Ui) -> None:
    key = drawn(await ui.page("/map"))["key"]

    places = (await ui.client.get("/map/hits", params={"key": key, "q": "of the archive holds"})).json()

    assert len(places) == PLAIN


async def test_without_links_the_graph_joins_the_most_similar_memories(database: Database, tmp_path: Path) -> None:
    manager = MemoryManager(Settings(database_url=database.url))
    try:
        for content in ("Mara bakes bread on Sundays.", "On Sundays Mara bakes bread.", "The tower clock stopped."):
            await manager.create_memory(NewMemory(content=content, dedup_policy="insert"))
        async with inside(ViewService(manager, tmp_path)) as client:
            page = await Ui("", client, None, {}, None).page("/graph")  # type: ignore[arg-type]
    finally:
        await manager.close()

    assert "Similar memories" in page
    [edge] = drawn(page)["edges"]
    assert edge["type"] == "alike"


async def test_a_page_that_is_being_worked_out_has_a_heading(
    manager: MemoryManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def under_way() -> None:
        return None

    views = ViewService(manager, tmp_path)
    monkeypatch.setattr(views.map, "newest", under_way)
    async with inside(views) as client:
        page = (await client.get("/map")).text

    assert 'class="waiting"' in page
    assert re.findall("<h1[^>]*>(.*?)</h1>", page) == ["Drawing the map"]


async def test_a_search_of_the_page_makes_no_second_one_for_hidden_memories(
    manager: MemoryManager, tmp_path: Path
) -> None:
    made = await manager.create_memory(NewMemory(content="The tower clock stopped at noon."))
    await manager.create_memory(NewMemory(content="The tower clock is wound on Mondays."))
    await manager.forget_memories([made.memory_id])
    views = ViewService(manager, tmp_path)
    try:
        shown = await views.search({"q": "Who winds the tower clock?"})
    finally:
        await views.close()
    told = await manager.search_memories(Question(query="Who winds the tower clock?"))

    assert told.hidden == {"forgotten": 1}
    assert shown.hidden is None
    assert [one["id"] for one in shown.results] == [one["id"] for one in told.results]


async def test_an_empty_store_says_what_to_do(manager: MemoryManager, tmp_path: Path) -> None:
    async with inside(ViewService(manager, tmp_path)) as client:
        said = {
            "/": "Nothing is remembered yet", "/timeline": "Nothing is remembered yet", "/graph": "There are no links yet",
            "/clusters": "There are no clusters yet", "/map": "There is no embedder", "/trash": "No forgotten memories",
            "/review": "Nothing to review",
        }  # fmt: skip
        ui = Ui("", client, None, {}, None)  # type: ignore[arg-type]
        for path, expected in said.items():
            assert expected in await ui.page(path)


@pytest.mark.parametrize(
    ("path", "code", "expected"),
    [
        ("/nowhere", 404, "Choose one from the menu"),
        ("/memory/00000000-0000-7000-8000-000000000000", 404, "No memory has id"),
        ("/?cursor=nonsense", 422, "cursor"),
        ("/?min_importance=7", 422, "min_importance"),
        ("/timeline?day=soon", 422, "must be a date"),
        ("/graph?id=x", 404, "No memory has id"),
        ("/graph?depth=9", 422, "depth must be 1 to 4"),
    ],
)
async def test_what_cannot_be_shown_is_said_with_the_next_step(ui: Ui, path: str, code: int, expected: str) -> None:
    assert expected in await ui.page(path, code=code)


# -- hostile content -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/?sort=created", "/memory/{hostile}", "/graph", "/map", "/timeline"])
async def test_hostile_content_stays_text(ui: Ui, path: str) -> None:
    page = await ui.page(path.format(**ui.ids))

    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert "49 </" not in page
    if path.startswith("/memory"):
        assert HOSTILE in unescape(page)


async def test_what_somebody_types_stays_text(ui: Ui) -> None:
    page = await ui.page("/", q='"><script>alert(1)</script>')

    assert "<script>alert" not in page


async def test_the_browser_is_told_to_run_and_load_nothing_from_elsewhere(ui: Ui) -> None:
    answer = await ui.client.get("/")
    policy = answer.headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", answer.text)
    assert " style=" not in answer.text


def test_the_files_of_others_are_those_that_are_named() -> None:
    vendor = STATIC / "vendor"
    named = dict(re.findall(r"^\| `([^`]+)` .*`([0-9a-f]{64})` \|$", (vendor / "README.md").read_text(), re.MULTILINE))

    assert named.keys() == {file.name for file in vendor.iterdir() if file.suffix in (".js", ".css")}
    for name, digest in named.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest


# -- walls ---------------------------------------------------------------------------------------------------------------


async def test_without_the_cookie_nothing_is_shown(ui: Ui) -> None:
    async with httpx.AsyncClient(base_url=ui.origin) as stranger:
        for path in ("/", f"/memory/{ui.ids['jonas']}", "/export/pgengram.jsonl"):
            answer = await stranger.get(path)
            assert answer.status_code == 403
            assert "Jonas" not in answer.text
            assert not marks(answer.text)


async def test_the_link_opens_the_page_once(ui: Ui) -> None:
    async with httpx.AsyncClient() as stranger:
        assert (await stranger.get(ui.link)).status_code == 403
        assert (await stranger.get(ui.link + "x")).status_code == 403
        assert not stranger.cookies


async def test_another_namespace_is_shown_once_it_is_chosen_and_takes_no_forms_of_the_first(ui: Ui) -> None:
    ui.db.as_login("INSERT INTO namespaces (name) VALUES ('Werkstatt ü') ON CONFLICT DO NOTHING")
    mark = marks(await ui.page("/tokens"))[0]
    assert "Werkstatt ü" in await ui.page("/namespaces")

    try:
        assert (await ui.send("/namespaces", name="nobody's")).status_code == 404
        await ui.send("/namespaces", name="Werkstatt ü")
        assert "Nothing is remembered yet" in await ui.page("/")
        stale = await ui.client.post("/new", data={"mark": mark, "content": "x"}, headers={"origin": ui.origin})
        assert stale.status_code == 403
        assert "another namespace" in stale.text
        assert await ui.page(f"/memory/{ui.ids['jonas']}", code=404)
    finally:
        await ui.send("/namespaces", name="default")
    assert await ui.page(f"/memory/{ui.ids['jonas']}")


async def test_an_open_page_goes_on_with_its_namespace_whatever_another_tab_has_chosen(ui: Ui) -> None:
    ui.db.as_login("INSERT INTO namespaces (name) VALUES ('Werkstatt ü') ON CONFLICT DO NOTHING")
    tab, jonas = {"pgengram-namespace": "default"}, {"id": ui.ids["jonas"]}
    try:
        await ui.send("/namespaces", name="Werkstatt ü")
        assert (await ui.client.get("/live", params=jonas)).json() == {}
        assert ui.ids["jonas"] in (await ui.client.get("/live", params=jonas, headers=tab)).json()
        other = await ui.client.get("/live", headers={"pgengram-namespace": "nobody%27s"})
        assert (other.status_code, other.text) == (404, "This namespace is gone. Load the page again.")
    finally:
        await ui.send("/namespaces", name="default")
    assert (
        await ui.client.get("/live", params=jonas, headers={"pgengram-namespace": "Werkstatt%20%C3%BC"})
    ).json() == {}


async def test_a_stranger_chooses_no_namespace(ui: Ui) -> None:
    before = ui.db.as_login("SELECT count(*) FROM namespaces")
    port = urlsplit(ui.origin).port
    async with httpx.AsyncClient(base_url=ui.origin, cookies={f"pgengram_namespace_{port}": "bmV3"}) as stranger:
        assert (await stranger.get("/")).status_code == 403
    assert ui.db.as_login("SELECT count(*) FROM namespaces") == before


async def test_the_cookie_is_for_this_page_alone(ui: Ui) -> None:
    cookie = ui.entered.headers["set-cookie"].lower()

    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "domain" not in cookie


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:{port}", ""])
async def test_foreign_names_are_turned_away(ui: Ui, host: str) -> None:
    port = urlsplit(ui.origin).port
    answer = await ui.client.get("/", headers={"host": host.format(port=port)})

    assert answer.status_code == 403
    assert "Jonas" not in answer.text


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", None])
async def test_changes_from_other_pages_are_turned_away(ui: Ui, origin: str | None) -> None:
    mark = marks(await ui.page("/tokens"))[0]
    headers = {} if origin is None else {"origin": origin}

    answer = await ui.client.post(f"/memory/{ui.ids['jonas']}/forget", data={"mark": mark}, headers=headers)

    assert answer.status_code == 403
    assert ui.db.value("SELECT status FROM memories WHERE id = %s", [ui.ids["jonas"]]) == "active"


@pytest.mark.parametrize("mark", ["", "x" * 43])
async def test_a_change_without_the_mark_of_the_page_is_turned_away(ui: Ui, mark: str) -> None:
    path = f"/memory/{ui.ids['jonas']}/forget"
    answer = await ui.client.post(path, data={"mark": mark}, headers={"origin": ui.origin})

    assert answer.status_code == 403
    assert ui.db.value("SELECT status FROM memories WHERE id = %s", [ui.ids["jonas"]]) == "active"


async def test_a_change_cannot_be_asked_for_by_a_link(ui: Ui) -> None:
    answer = await ui.client.get(f"/memory/{ui.ids['jonas']}/forget")

    assert answer.status_code == 405


async def test_only_this_machine_can_reach_it(ui: Ui) -> None:
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    port = urlsplit(ui.origin).port or 0

    for address in addresses:
        if str(address).startswith("127."):
            continue
        with pytest.raises(OSError), socket.create_connection((str(address), port), timeout=2):  # noqa: PT011
            pass


# -- changes -------------------------------------------------------------------------------------------------------------


async def test_an_edit_is_kept_with_its_history(ui: Ui) -> None:
    id_ = ui.ids["twelve"]
    version = str(ui.db.value("SELECT version FROM memories WHERE id = %s", [id_]))

    answer = await ui.send(
        f"/memory/{id_}", version=version, content="The office in Bern has 13 desks.", importance="0", tags="Office, bern", pinned="on"
    )  # fmt: skip
    assert answer.status_code == 303
    page = await ui.page(answer.headers["location"])

    assert "Memory changed" in page
    assert "<del>12</del><ins>13</ins>" in page
    assert "Importance 0.00" in page
    assert ">office</a>" in page
    assert "by pgengram ui" in page
    assert "pinned" in page


async def test_a_memory_with_more_tags_than_one_call_gives_is_edited(ui: Ui) -> None:
    id_ = ui.ids["twelve"]
    many = [f"tag-{n}" for n in range(20)]
    for some in (many[:10], many):
        version = str(ui.db.value("SELECT version FROM memories WHERE id = %s", [id_]))
        content = ui.db.value("SELECT content FROM memories WHERE id = %s", [id_])
        fields = {"version": version, "content": content, "importance": "0.5", "tags": ", ".join(some)}
        answer = await ui.send(f"/memory/{id_}", **fields)
        assert answer.status_code == 303

    version = str(int(version) + 1)
    answer = await ui.send(f"/memory/{id_}", **fields | {"version": version, "tags": ", ".join([*many[::-1], "mine"])})

    assert answer.status_code == 303
    assert ">mine</a>" in await ui.page(answer.headers["location"])


async def test_an_edit_of_what_changed_meanwhile_is_refused_and_not_lost(ui: Ui) -> None:
    answer = await ui.send(
        f"/memory/{ui.ids['stripe']}", version="999", content="Typed in vain.", importance="0.5", tags=""
    )

    assert answer.status_code == 409
    assert "changed while you were editing it" in answer.text
    assert "Typed in vain." in answer.text
    assert (
        ui.db.value("SELECT content FROM memories WHERE id = %s", [ui.ids["stripe"]]) == "Mara moved billing to Stripe."
    )


async def test_bad_input_changes_nothing_and_says_why(ui: Ui) -> None:
    secret = "AKIA" + "IOSFODNN7" + "ABCDEFG"
    for fields, code in (
        ({"importance": "7"}, 422),
        ({"content": f"The key is {secret}"}, 422),
        ({"content": " "}, 422),
    ):
        answer = await ui.send(
            f"/memory/{ui.ids['stripe']}", **({"content": "Mara moved.", "importance": "0.5"} | fields)
        )
        assert answer.status_code == code, answer.text

    assert (
        ui.db.value("SELECT content FROM memories WHERE id = %s", [ui.ids["stripe"]]) == "Mara moved billing to Stripe."
    )


async def test_what_is_forgotten_is_in_the_trash_and_can_be_restored(ui: Ui) -> None:
    id_ = ui.ids["fourteen"]
    content = "The office in Bern has 14 desks and a green door."

    await ui.send(f"/memory/{id_}/forget", reason="counted <again>")
    assert content in shown(await ui.page("/trash"))
    assert "counted &lt;again&gt;" in await ui.page(f"/memory/{id_}")
    assert content not in shown(await ui.page("/", q="desks"))

    answer = await ui.send(f"/memory/{id_}/restore")
    assert answer.headers["location"] == f"/memory/{id_}"
    assert content not in shown(await ui.page("/trash"))
    assert content in shown(await ui.page("/", q="desks"))


async def test_a_tag_is_renamed_everywhere_stays_findable_by_its_old_name_and_gets_it_back_by_undo(ui: Ui) -> None:
    tagged = "SELECT count(*) FROM memory_tags WHERE tag = %s"
    many = ui.db.value(tagged, ("archive",))

    await ui.send("/projects/rename-tag", tag="archive", name="shelves")
    page = await ui.page("/projects")

    assert f"Tag renamed in {many} memories" in page
    assert (ui.db.value(tagged, ("archive",)), ui.db.value(tagged, ("shelves",))) == (0, many)
    assert "of the archive holds" in await ui.page("/", tags="archive", sort="created")
    await ui.send("/undo", key=re.findall(r'name="key" value="([^"]+)"', page)[0], back="/projects")
    assert (ui.db.value(tagged, ("archive",)), ui.db.value(tagged, ("shelves",))) == (many, 0)


async def test_a_tag_that_no_memory_has_is_not_renamed(ui: Ui) -> None:
    answer = await ui.send("/projects/rename-tag", tag="no-such-tag", name="other")

    assert answer.status_code == 422
    assert "No memory has the tag no-such-tag." in answer.text
    assert ui.db.value("SELECT count(*) FROM memory_tag_synonyms WHERE alias = 'no-such-tag'") == 0


async def test_near_duplicates_are_merged_by_one_answer_and_come_apart_by_undo(ui: Ui) -> None:
    await ui.client.get("/review?again")
    text, fields, steps = await question(ui, "duplicates", {ui.ids["one"], ui.ids["other"]})
    assert "The harbour gate is opened at dawn by the old supervisor" in text
    assert "checked" not in text
    gates = "SELECT count(*) FROM memories WHERE status = 'active' AND content LIKE 'The harbour gate%%'"

    done = await ui.send("/review/answer", **fields, step=json.dumps(steps["merge"]))
    assert ui.db.value(gates, []) == 1
    page = await ui.page(done.headers["location"])
    assert "2 memories merged" in page
    with pytest.raises(AssertionError, match="nobody asks"):
        await question(ui, "duplicates", {ui.ids["one"], ui.ids["other"]})

    await ui.send("/undo", key=re.findall(r'name="key" value="([^"]+)"', page)[0], back="/review")
    assert ui.db.value(gates, []) == 2
    await question(ui, "duplicates", {ui.ids["one"], ui.ids["other"]})


async def test_an_answer_to_texts_that_changed_meanwhile_changes_nothing(ui: Ui) -> None:
    ids = {ui.ids["one"], ui.ids["other"]}
    _, fields, steps = await question(ui, "duplicates", ids)
    await ui.send(f"/memory/{ui.ids['one']}/pin", pinned="on")
    await ui.send(f"/memory/{ui.ids['one']}/pin")

    assert (await ui.send("/review/answer", **fields, step=json.dumps(steps["merge"]))).status_code == 409
    assert ui.db.value("SELECT array_agg(DISTINCT status) FROM memories WHERE id = ANY(%s)", [[*ids]]) == ["active"]


async def test_a_long_plan_is_looked_through_page_by_page_and_nothing_is_chosen_beforehand(ui: Ui) -> None:
    page = await ui.page("/review", find="plan")
    assert "checked" not in page
    ids = [str(row["id"]) for row in ui.db.rows("SELECT id FROM memories WHERE content LIKE 'Shelf%%' ORDER BY id")]
    preview = await previewed(ui, "/review/preview", step=json.dumps({"action": "archive", "ids": ids}))

    seen = shown(preview)
    assert f"change in {PLAIN} memories" in preview
    while onward := re.search(r'rel="next" href="([^"]+)"', preview):
        preview = await ui.page(unescape(onward[1]))
        seen += shown(preview)
    assert len(seen) == len(set(seen)) == PLAIN


async def test_two_memories_that_disagree_are_compared(ui: Ui) -> None:
    page = await ui.page(f"/compare/{ui.ids['one']}/{ui.ids['other']}")
    assert "<ins>, as always</ins>" in page
    assert "Keep both" in page


async def test_an_export_is_made_and_downloaded(ui: Ui) -> None:
    assert (await ui.client.get("/export/pgengram.jsonl")).status_code == 404
    await ui.send("/export")
    for _ in range(200):
        if "Download" in await ui.page("/export"):
            break
    lines = (await ui.client.get("/export/pgengram.jsonl")).text.splitlines()

    assert json.loads(lines[0])["record"] == "export"
    assert any("Jonas is allergic" in line for line in lines)


# -- in and out ----------------------------------------------------------------------------------------------------------

LINES = [
    {"record": "memory", "content": "The ferry to the island leaves at noon.", "tags": ["ferry"]},
    {"record": "memory", "content": "The ferry costs 4 coins."},
    {"record": "memory", "importance": 0.3},
]


async def test_a_file_is_looked_through_before_it_is_brought_in(ui: Ui) -> None:
    given = "\n".join([*(json.dumps(line) for line in LINES), "{no json"]).encode()

    assert (await ui.give(given)).status_code == 303
    looked = await ui.page("/import")

    assert "Nothing is changed yet" in looked
    assert re.search(r"<th scope=\"row\">memory</th><td>2</td><td>0</td>", looked)
    assert "2 not imported" in looked
    assert re.search(r"<code>line 4</code> it is not valid JSON", looked)
    assert ui.db.value("SELECT count(*) FROM memories WHERE content LIKE 'The ferry%%'", []) == 0

    assert (await ui.send("/import/bring")).status_code == 303
    done = await ui.page("/import")

    assert "was imported" in done
    assert "2 not imported" in done
    assert "The ferry to the island leaves at noon." in shown(await ui.page("/", q="when does the boat go"))
    await ui.send("/import/other")
    assert "Preview" in await ui.page("/import")

    await ui.give(given)  # the same again adds nothing
    assert re.search(r"<th scope=\"row\">memory</th><td>0</td><td>2</td>", await ui.page("/import"))
    await ui.send("/import/other")


async def test_notes_that_are_gone_from_an_export_are_told_and_their_memories_stay(ui: Ui) -> None:
    jonas = ui.db.value("SELECT id::text FROM memories WHERE content LIKE '%%Jonas is allergic%%' LIMIT 1", [])
    given = BytesIO()
    with zipfile.ZipFile(given, "w") as archive:
        archive.writestr("notes/Ferry.md", "The ferry has a bell.")
        archive.writestr("notes/.pgengram-notes.json", json.dumps({jonas: "jonas.md"}))

    await ui.give(given.getvalue(), name="notes.zip", system="markdown")
    looked = await ui.page("/import")
    await ui.send("/import/bring")
    done = await ui.page("/import")
    await ui.send("/import/other")

    for page in (looked, done):
        assert "1 note is gone since the export" in page
        assert re.search(rf'<code>jonas.md</code> <a href="/memory/{jonas}">[^<]*Jonas is allergic', page)
    assert ui.db.value("SELECT status FROM memories WHERE id = %s", [jonas]) == "active"


async def test_the_columns_of_a_table_are_asked_once_with_a_guess_and_an_example(ui: Ui) -> None:
    table = b"when;said;mood\n2024-05-01;The ferry is painted green.;calm\n"

    await ui.give(table, name="notes.csv", system="")
    asked = await ui.page("/import")
    await ui.send("/import/map", content="said", created_at="when")
    looked = await ui.page("/import")
    await ui.send("/import/bring")
    done = await ui.page("/import")
    await ui.send("/import/other")

    assert "said: The ferry is painted green." in unescape(asked)
    assert re.search(r'name="created_at">.*?<option value="when" selected>', asked)
    assert re.search(r"<th scope=\"row\">memory</th><td>1</td><td>0</td>", looked)
    assert "was imported" in done
    sql = "SELECT to_char(created_at, 'YYYY-MM-DD') FROM memories WHERE content = 'The ferry is painted green.'"
    assert ui.db.value(sql, []) == "2024-05-01"


async def test_a_file_of_another_system_is_told_apart(ui: Ui) -> None:
    await ui.give(b'{"type": "entity", "name": "Ada", "entityType": "person", "observations": ["keeps bees"]}',
                  name="../memory.json", system="mcp-memory")  # fmt: skip

    page = await ui.page("/import")
    assert "<strong>memory.json</strong>" in page
    assert re.search(r"<th scope=\"row\">memory</th><td>[12]</td>", page)
    await ui.send("/import/other")


@pytest.mark.parametrize(
    ("content", "name", "system", "code", "expected"),
    [
        (b"[1, 2", "x.json", "ownsona", 422, "x.json is not valid JSON"),
        (b"plain words", "x.db", "crow", 422, "SQLite"),
        (b"{}", "x.jsonl", "unheard-of", 422, "Say which system"),
        (b"", "", "jsonl", 422, "Select a file"),
    ],
)
async def test_a_file_that_cannot_be_read_is_told_with_its_reason(
    ui: Ui, content: bytes, name: str, system: str, code: int, expected: str
) -> None:
    memories = ui.db.value("SELECT count(*) FROM memories")
    answer = await ui.give(content, name=name, system=system)
    page = await ui.page("/import", code=code) if answer.status_code == 303 else answer.text

    assert expected in page
    assert "/tmp" not in page
    assert ui.db.value("SELECT count(*) FROM memories") == memories
    assert "Preview" in await ui.page("/import")


async def test_a_file_without_the_mark_of_the_page_is_turned_away(ui: Ui) -> None:
    answer = await ui.client.post("/import", data={"mark": "x", "system": "jsonl"}, files={"file": ("a", b"{}")},
                                  headers={"origin": ui.origin})  # fmt: skip

    assert answer.status_code == 403
    assert "Preview" in await ui.page("/import")


async def test_an_import_that_is_broken_off_can_be_repeated(ui: Ui) -> None:
    contents = [f"Locker {n} is painted in shade {n * 3}." for n in range(400)]
    await ui.give("\n".join(json.dumps({"content": content}) for content in contents).encode())
    await ui.page("/import")
    await ui.send("/import/bring")
    await until(lambda: _stored(ui, "Locker%"))
    assert '<progress id="bar"' in (await ui.client.get("/import")).text
    await ui.send("/import/end")
    page = await ui.page("/import")
    assert "was cancelled" in page
    assert "Import the file again to add the rest" in page
    came = ui.db.value("SELECT count(*) FROM memories WHERE content LIKE 'Locker%%'", [])
    assert 0 < came < len(contents)

    await ui.send("/import/bring")
    assert "was imported" in await ui.page("/import")
    assert ui.db.value("SELECT count(*) FROM memories WHERE content LIKE 'Locker%%'", []) == len(contents)
    await ui.send("/import/other")


async def _stored(ui: Ui, like: str) -> bool:
    return bool(ui.db.value("SELECT count(*) FROM memories WHERE content LIKE %s", [like]))


# -- tokens --------------------------------------------------------------------------------------------------------------


async def test_a_token_is_shown_once_and_revoked(ui: Ui) -> None:
    answer = await ui.send("/tokens", name="Mara's laptop", scope="read-only", days="7")
    [token] = re.findall(r"pgt_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", answer.text)
    id_ = token.split("_")[1]

    page = await ui.page("/tokens")
    assert token not in page
    assert "Mara&#39;s laptop" in page
    [row] = ui.db.as_login(
        f"SELECT namespace, scope, expires_at < now() + interval '8 days' FROM access_tokens WHERE id = '{id_}'"
    )
    assert row == ("default", "read-only", True)

    assert (await ui.send("/tokens/revoke", id=id_)).status_code == 303
    page = await ui.page("/tokens")
    assert "is revoked" in page
    assert "Revoke Mara" not in page


@pytest.mark.parametrize("fields", [{"name": ""}, {"name": "x", "days": "0.0"}, {"name": "x", "days": "soon"}])
async def test_a_token_that_cannot_be_is_refused(ui: Ui, fields: dict[str, str]) -> None:
    before = ui.db.as_login("SELECT count(*) FROM access_tokens")
    answer = await ui.send("/tokens", **fields)

    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert ui.db.as_login("SELECT count(*) FROM access_tokens") == before


async def test_tokens_of_others_are_neither_shown_nor_revoked(ui: Ui) -> None:
    ui.db.as_login(
        "INSERT INTO namespaces (name) VALUES ('somebody') ON CONFLICT DO NOTHING",
        "INSERT INTO access_tokens (id, secret_hash, name, namespace, scope) VALUES ('abcdefabcdef', '', 'theirs', 'somebody', 'read-only')",
    )

    assert "theirs" not in await ui.page("/tokens")
    assert (await ui.send("/tokens/revoke", id="abcdefabcdef")).status_code == 404
    assert ui.db.as_login("SELECT revoked_at FROM access_tokens WHERE id = 'abcdefabcdef'") == [(None,)]


# -- a review of much ----------------------------------------------------------------------------------------------------


async def test_a_review_goes_on_with_older_memories(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviewing, "COMPARED", 3)
    manager = MemoryManager(Settings(database_url=database.url))
    try:
        for content in (
            "The printer in the office in Bern needs toner 305 and stands beside the green door.",
            "The printer in the office in Bern needs toner 415 and stands beside the green door.",
            "Mara bakes bread on Sundays.",
            "The tower clock stopped at noon.",
            "Jonas is allergic to peanuts.",
        ):
            await manager.create_memory(NewMemory(content=content, dedup_policy="insert"))
        async with inside(ViewService(manager, tmp_path)) as client:
            ui = Ui("", client, None, {}, None)  # type: ignore[arg-type]
            newest = await ui.page("/review", find="contradictions")
            [onward] = re.findall(r'href="(/review[^"]+)">Check older memories', newest)
            older = await ui.page(unescape(onward))
    finally:
        await manager.close()

    assert "3 of 5 memories were compared" in newest
    assert "None found." in newest
    assert "2 of 5 memories were compared with similar ones, after the 3 newest" in older
    assert "toner" in older
    assert "Back to the newest" in older
    assert "Check older memories" not in older


async def test_findings_come_some_at_a_time(ui: Ui) -> None:
    seen: list[str] = []
    path = "/review?find=untagged"
    while path and len(seen) < 60:
        page = await ui.page(path)
        seen += re.findall(r'data-href="/memory/([^"]+)"', page)
        onward = re.search(r'rel="next" href="([^"]+)"', page)
        path = unescape(onward[1]) if onward else ""

    assert len(seen) == len(set(seen)) == 60


async def test_what_is_to_be_kept_is_not_asked_again(ui: Ui) -> None:
    await ui.send(
        f"/memory/{ui.ids['twelve']}", content="The office in Bern has 12 desks and a green door.", importance="0.5"
    )
    await ui.client.get("/review?again")
    both = {ui.ids["twelve"], ui.ids["fourteen"]}
    _, fields, steps = await question(ui, "contradictions", both)

    await ui.send("/review/answer", **fields, step=json.dumps(steps["confirm"]))

    with pytest.raises(AssertionError, match="nobody asks"):
        await question(ui, "contradictions", both)


@pytest.mark.parametrize(
    "path",
    [
        "/review?find=nothing",
        "/review?page=0",
        "/review?offset=-1",
        "/review?page=1.5",
        "/review?page=inf",
        "/review?page=nan",
    ],
)
async def test_a_review_that_cannot_be_is_refused(ui: Ui, path: str) -> None:
    assert 'role="alert"' in await ui.page(path, code=422)


# -- pinning, and what goes wrong ----------------------------------------------------------------------------------------


async def test_a_memory_is_pinned_and_let_go_by_one_button(ui: Ui) -> None:
    id_ = ui.ids["hostile"]
    await ui.send(f"/memory/{id_}/pin", pinned="on")
    assert "it never fades" in await ui.page(f"/memory/{id_}")

    await ui.send(f"/memory/{id_}/pin")
    assert ui.db.value("SELECT pinned FROM memories WHERE id = %s", [id_]) is False


async def test_a_database_that_is_gone_is_told_and_comes_back(postgres: str, template: str) -> None:
    with database_of(postgres, template) as db:
        name = db.name
        async with (
            run_ui(db.url, embedder="none:") as link,
            httpx.AsyncClient(base_url=link.partition("/enter")[0], timeout=PATIENCE_S) as client,
        ):
            await client.get(link)
            with psycopg.connect(postgres, autocommit=True) as login:
                login.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
                login.execute("SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity WHERE datname = %s", [name])
                gone = await _found(client)
                login.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

            assert gone.status_code == 503
            assert 'role="alert"' in gone.text
            assert "Traceback" not in gone.text
            await until(lambda: _answers(client))


async def _found(client: httpx.AsyncClient) -> httpx.Response:
    """Return the search page once it is not looking any more."""
    while "Searching …" in (page := await client.get("/")).text:
        pass  # each waits a little by itself
    return page


async def _answers(client: httpx.AsyncClient) -> bool:
    return (await _found(client)).status_code == 200


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these always have a browser")
@pytest.mark.real_start
def test_without_a_browser_or_a_terminal_the_link_is_printed_and_said_what_to_do(database: Database) -> None:
    surroundings = {name: value for name, value in environment(database_url=database.url, embedder="none:").items()
                    if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}  # fmt: skip
    with subprocess.Popen([sys.executable, "-m", "pgengram", "ui"], env=surroundings, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        assert "/enter?token=" in process.stdout.readline()
        said = process.stderr.readline() + process.stderr.readline()
        process.terminate()

    assert "open the link yourself" in said


# -- conversations and receipts ------------------------------------------------------------------------------------------


async def test_a_conversation_is_read_word_for_word_and_nothing_in_it_runs(ui: Ui) -> None:
    listed = await ui.page("/conversations", project="harbour")
    [address] = re.findall(r'data-href="(/conversation\?[^"]+)"', listed)
    page = await ui.page(unescape(address))

    assert "Who pays for the <strong>harbour</strong>?" in page
    assert [page.index(said) for said in ("Who pays", "The city does.", "Read 3 files")] == sorted(
        page.index(said) for said in ("Who pays", "The city does.", "Read 3 files")
    )
    assert "<script>alert" not in page
    assert "No such conversations" in await ui.page("/conversations", project="nowhere")
    await ui.page("/conversation", code=404, client="claude-code", conversation="c-")


async def test_what_may_be_worth_a_memory_is_offered_with_its_conversation_until_a_memory_has_it(ui: Ui) -> None:
    texts = [
        f"We decided to paint boat number {word} red from now on."
        for word in ("one", "two", "three", "four", "five", "six")
    ]
    ui.db.rows(OFFERED, {"texts": texts, "namespace": 1})

    first = await ui.page("/conversations", client="offering")
    second = await ui.page("/conversations", client="offering", skip="5")
    [form, *_] = re.findall(r'href="(/new\?[^"]+)">Make a memory', second)
    page = await ui.page(form.replace("&amp;", "&"))
    ui.db.rows("DELETE FROM conversations WHERE client = 'offering'")  # the pages of other tests count turns

    assert [len(re.findall(">Make a memory<", one)) for one in (first, second)] == [5, 1]
    assert "Next 1 of 6" in first
    assert "In its conversation" in first
    assert texts[0] in page
    assert "turn:offering/o-1/0" in page


async def test_what_happened_names_what_replaces_a_memory_by_a_link_and_tells_no_time_twice(ui: Ui) -> None:
    other = MemoryManager(Settings(database_url=ui.db.url, embedder="none:"))
    old = await other.create_memory(NewMemory(content="The slipway is closed until Friday."))
    new = await other.create_memory(NewMemory(content="The slipway is open again.", replaces=[old.memory_id]))
    await other.update_memory(Change(id=new.memory_id, confirm=True))
    await other.close()

    page = await ui.page("/news")
    forgotten = page.partition("The slipway is closed until Friday.")[2].partition("</li>")[0]
    confirmed = page.partition("The slipway is open again.")[2].partition("</li>")[0]

    assert f'<a href="/memory/{new.memory_id}">{new.memory_id[-8:]}</a>' in forgotten
    assert "<del>just now" not in re.sub("<time[^>]*>", "", confirmed)


async def test_whoever_never_was_here_before_is_told_of_the_past_day_until_the_first_visit_is_over(ui: Ui) -> None:
    await ui.page("/news")
    [visits] = [one for one in ui.client.cookies.jar if one.name.startswith("pgengram_visits")]
    ui.client.cookies.jar.clear(visits.domain, visits.path, visits.name)
    for _ in range(2):
        assert "<h1>In the past day</h1>" in await ui.page("/news")
        assert "Since you were here" not in (await ui.client.get("/news", headers={"hx-target": "news"})).text

    left = f"{int(time.time()) - 9_000}-{int(time.time()) - 7_300}"
    ui.client.cookies.set(visits.name, left, domain=visits.domain, path=visits.path)
    assert "Since you were here" in await ui.page("/news")


async def test_a_receipt_leads_to_its_memory_and_its_conversation(ui: Ui) -> None:
    page = await ui.page("/receipts", conversation=TALK.id)

    assert f'href="/memory/{ui.ids["stripe"]}"' in page
    assert "about 14 tokens" in page
    assert "/conversation?client=claude-code&amp;conversation=c-1" in page
    assert "No receipts here" in await ui.page("/receipts", conversation="another")


CITED_TURNS = """
WITH talk AS (INSERT INTO conversations (namespace_id, client, conversation) VALUES (%(namespace)s, 'codex', 'cited'))
INSERT INTO conversation_turns (namespace_id, client, conversation, number, role, text, time)
SELECT %(namespace)s, 'codex', 'cited', n, 'user', 'Said.', now() FROM generate_series(0, 1) AS n
"""
OFFERED = """
WITH talk AS (INSERT INTO conversations (namespace_id, client, conversation) VALUES (%(namespace)s, 'offering', 'o-1'))
INSERT INTO conversation_turns (namespace_id, client, conversation, number, role, text, time)
SELECT %(namespace)s, 'offering', 'o-1', place - 1, 'user', said, now() + place * interval '1 second'
FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS t(said, place)
"""
LEFT = "SELECT number FROM conversation_turns WHERE conversation = 'cited' ORDER BY number"


async def test_a_memory_is_erased_with_the_turns_that_it_cites_if_the_box_is_ticked(ui: Ui) -> None:
    [(namespace,)] = ui.db.as_login("SELECT id FROM namespaces WHERE name = 'default'")
    ui.db.rows(CITED_TURNS, {"namespace": namespace})
    manager = MemoryManager(Settings(database_url=ui.db.url, embedder="none:"))
    citing = [NewMemory(content=f"Cited {n}.", sources=[{"ref": f"turn:codex/cited/{n}"}]) for n in range(2)]
    ids = [(await manager.create_memory(one)).memory_id for one in citing]
    await manager.close()

    for id_, box in zip(ids, ({}, {"turns": "on"}), strict=True):
        preview = await previewed(ui, "/selection", action="erase", **{f"id:{id_}": "on"})
        assert "Also erase 1 turn of conversations that they cite" in preview
        await apply(ui, preview, **box)

    assert [row["number"] for row in ui.db.rows(LEFT)] == [0]
    ui.db.rows("DELETE FROM conversations WHERE conversation = 'cited'")  # the pages of other tests count turns


async def test_conversations_are_erased_as_they_were_shown_and_not_otherwise(ui: Ui) -> None:
    turns = "SELECT count(*) FROM conversation_turns"
    fields = {"conversation": TALK.id, "client": TALK.client}
    asked = await ui.page("/conversations/erase", **fields)
    assert "Permanently erase 1 conversation?" in asked
    assert "Who pays for the" in asked
    [expected] = re.findall(r'name="turns" value="(\d+)"', asked)

    manager = MemoryManager(Settings(database_url=ui.db.url))
    await talk(manager, "And the ferry?", first=3)
    await manager.close()
    assert (await ui.send("/conversations/erase", turns=expected, **fields)).status_code == 409
    assert ui.db.value(turns) == 4

    done = await ui.send("/conversations/erase", turns="4", **fields)
    assert "4 turns permanently erased" in await ui.page(done.headers["location"])
    assert ui.db.value(turns) == 0


async def test_the_settings_show_the_machines_that_exchange_the_memories(ui: Ui, tmp_path: Path) -> None:
    assert "on this machine only" in await ui.page("/settings")
    manager = MemoryManager(Settings(database_url=ui.db.url))
    await devices.begin(manager, str(tmp_path), None, "attic")
    await Exchange(manager).run()
    page = await ui.page("/settings")
    assert "attic" in page
    assert "this machine" in page
    shutil.move(tmp_path, tmp_path.with_name("away"))
    await Exchange(manager).run()
    assert "Changes are kept until it succeeds" in await ui.page("/settings")
    await devices.end(manager)
    await manager.close()


async def test_the_keeping_of_conversations_is_set_and_asks_before_it_erases(ui: Ui) -> None:
    keeping = "SELECT keeps, keep_days FROM conversation_settings"
    turns = "SELECT count(*) FROM conversation_turns WHERE conversation = %s"

    await ui.send("/settings/conversations", keep_days="120")
    assert ui.db.rows(keeping) == [{"keeps": False, "keep_days": 120}]
    assert "New conversations are not kept" in await ui.page("/conversations")
    await ui.send("/settings/conversations", keeps="on", keep_days="90")
    assert "for 90 days" in await ui.page("/conversations")

    manager = MemoryManager(Settings(database_url=ui.db.url))
    await talk(manager, "We load at dawn.", "Noted.", first=900)
    await manager.close()
    ui.db.rows(
        "UPDATE conversation_turns SET time = time - interval '10 days' WHERE conversation = %s RETURNING 1", [TALK.id]
    )
    kept = ui.db.value(turns, [TALK.id])
    asked = await ui.send("/settings/conversations", keeps="on", keep_days="5")
    assert f"{kept} turns are older than 5 days" in asked.text
    assert (ui.db.value(turns, [TALK.id]), ui.db.rows(keeping)[0]["keep_days"]) == (kept, 90)
    await ui.send("/settings/conversations", keeps="on", keep_days="5", sure="yes")
    assert ui.db.value(turns, [TALK.id]) == 0
    await ui.send("/settings/conversations", keeps="on", keep_days="90")
