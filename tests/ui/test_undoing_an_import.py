"""An import on the page: listed, shown with what an undo takes and leaves, undone after a yes, and named by its memories."""

from __future__ import annotations

import json
import re

import httpx
from ui_process import Ui, run_ui

from helpers import PATIENCE_S
from machine import pgengram

TEXTS = ["The lighthouse has a green lamp.", "The keeper is called Maud.", "The stairs have 214 steps."]


async def imported(ui: Ui, name: str, *texts: str) -> str:
    """Import a file on the page, and return the address of its undo."""
    await ui.give("".join(json.dumps({"content": text}) + "\n" for text in texts).encode(), name=name)
    assert "would add" in await ui.page("/import")
    await ui.send("/import/bring")
    page = await ui.page("/import")
    assert "was imported" in page
    await ui.send("/import/other")
    return re.findall(rf'href="(/import/undo\?id=[^"]+)" aria-label="Undo the import of {name}"', page)[0]


def statuses(ui: Ui, *texts: str) -> list[str]:
    rows = {row["content"]: row["status"] for row in ui.db.rows("SELECT content, status FROM memories")}
    return [rows[text] for text in texts]


def form(page: str) -> dict[str, str]:
    return {name: re.findall(rf'name="{name}" value="([^"]+)"', page)[-1] for name in ("id", "shown")}


async def test_an_import_is_undone_as_shown_and_the_same_file_brings_it_back(ui: Ui) -> None:
    undo = await imported(ui, "tower.jsonl", *TEXTS)
    page = await ui.page(undo)
    assert "Undo the import of tower.jsonl?" in page
    assert "3 memories are forgotten" in page
    assert TEXTS[0] in page
    assert statuses(ui, *TEXTS) == ["active"] * 3, "looking changes nothing"

    done = await ui.send("/import/undo", **form(page))

    assert (done.status_code, done.headers["location"]) == (303, "/import")
    listed = await ui.page("/import")
    assert "The import of tower.jsonl was undone: 3 memories forgotten." in listed
    assert "undone <time" in listed
    assert statuses(ui, *TEXTS) == ["invalidated"] * 3
    [row] = ui.db.rows(
        """SELECT actor FROM memory_history h JOIN memories m ON m.id = h.memory_id
           WHERE content = %s AND operation = 'forget'""",
        [TEXTS[0]],
    )
    assert row["actor"] == "pgengram ui"
    assert (await ui.send("/import/undo", **form(page))).status_code == 409, "an undone import is not undone again"
    await imported(ui, "tower.jsonl", *TEXTS)
    assert statuses(ui, *TEXTS) == ["active"] * 3


async def test_what_changed_since_the_page_was_shown_is_shown_again_before_anything_is_undone(ui: Ui) -> None:
    texts = ["The quay is 90 m long.", "The quay was built in 1901."]
    page = await ui.page(await imported(ui, "quay.jsonl", *texts))
    id_ = str(ui.db.value("SELECT id FROM memories WHERE content = %s", [texts[0]]))
    await ui.send(f"/memory/{id_}/pin", pinned="on")

    again = await ui.send("/import/undo", **form(page))

    assert again.status_code == 409
    assert "Something changed after this was shown" in again.text
    assert "1 memory, changed since the import" in again.text
    assert statuses(ui, *texts) == ["active", "active"]
    assert (await ui.send("/import/undo", **form(again.text))).status_code == 303
    assert statuses(ui, *texts) == ["active", "invalidated"]


async def test_a_memory_names_the_file_it_was_imported_from_and_leads_to_the_undo(ui: Ui) -> None:
    text = "The buoy is <red> & bright."
    undo = await imported(ui, "buoys.jsonl", text)
    id_ = str(ui.db.value("SELECT id FROM memories WHERE content = %s", [text]))

    page = await ui.page(f"/memory/{id_}")

    [row] = re.findall(r"<dt>imported from</dt><dd>(.*?)</dd>", page)
    assert "buoys.jsonl" in row
    assert undo in row
    assert "imported from" not in await ui.page(f"/memory/{ui.ids['jonas']}")
    await ui.send("/import/undo", **form(await ui.page(undo)))
    assert "that import was undone" in await ui.page(f"/memory/{id_}")


async def test_an_unknown_import_or_one_of_another_namespace_is_refused_in_a_sentence(ui: Ui) -> None:
    undo = await imported(ui, "pier.jsonl", "The pier is closed in winter.")

    unknown = await ui.page("/import/undo", code=404, id="0badc0de")
    assert "No import has id 0badc0de" in unknown
    assert "Choose one on the page Import" in unknown
    async with (
        run_ui(ui.db.url, namespace="ben") as link,
        httpx.AsyncClient(base_url=link.partition("/enter")[0], timeout=PATIENCE_S) as client,
    ):
        await client.get(link)
        assert (await client.get(undo)).status_code == 404
        assert "pier.jsonl" not in (await client.get("/import")).text


async def test_what_happened_tells_of_an_undo_by_the_command_line(ui: Ui) -> None:
    await imported(ui, "dock.jsonl", "The dock floats.")
    await ui.send("/news/seen")

    pgengram("import", "--undo", "dock.jsonl", "--yes", database_url=ui.db.url, embedder="none:")

    news = await ui.page("/news")
    assert "The dock floats." in news
    assert "the import of dock.jsonl was undone" in news
