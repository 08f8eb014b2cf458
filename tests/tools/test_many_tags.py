"""A memory with more tags than one call gives: from several calls, from files, and from memories that became one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helpers import Database, Served, call, found, read, refused, remember
from machine import pgengram
from pgengram.fields import MAX_TAGS

WORDS = {"embedder": "none:"}
FIRST, SECOND = ([f"{word}-{n}" for n in range(10)] for word in ("first", "second"))
ALL = [*FIRST, *SECOND]
FOREIGN = '[{"content": "Shelf nine is for paint.", "tags": %s}]'


async def well_tagged(client: Any, content: str = "Shelf nine is for paint.") -> str:
    """Remember something with more tags than one call gives."""
    id_ = await remember(client, content, tags=FIRST)
    await remember(client, content, tags=SECOND)
    return id_


def tags_in(database: Database) -> list[str]:
    return list(database.value("SELECT array_agg(tag ORDER BY position) FROM memory_tags"))


async def tidied(client: Any, **given: Any) -> None:
    shown = await call(client, "tidy_memories", **given)
    await call(client, "tidy_memories", **given, confirm_token=shown["confirm_token"])


async def test_it_is_found_by_each_of_them_and_shows_all(wordless: Served) -> None:
    id_ = await well_tagged(wordless.client)

    assert (await read(wordless.client, id_))["tags"] == ALL
    assert len(await found(wordless.client, tags=["second-9"])) == 1


async def test_it_can_be_changed(wordless: Served) -> None:
    id_ = await well_tagged(wordless.client)

    await call(wordless.client, "update_memory", id=id_, importance=0.9)
    await call(wordless.client, "update_memory", id=id_, add_tags=["third"], remove_tags=["first-0"])
    assert (await read(wordless.client, id_))["tags"] == [*ALL[1:], "third"]

    await call(wordless.client, "update_memory", id=id_, tags=[*ALL[::-1], "fourth"])
    assert (await read(wordless.client, id_))["tags"] == [*ALL[::-1], "fourth"]

    more = [f"more-{n}" for n in range(MAX_TAGS + 1)]
    answer = await refused(wordless.client, "update_memory", id=id_, tags=[*ALL, *more])
    assert (answer["code"], str(MAX_TAGS) in answer["message"]) == ("INVALID_INPUT", True)


async def test_a_plan_tags_it_and_another_word_for_a_tag_takes_its_place(wordless: Served) -> None:
    id_ = await well_tagged(wordless.client)

    plan = [{"action": "tag", "ids": [id_], "tags": ["third"]}]
    await tidied(wordless.client, action="apply", plan=plan)
    await tidied(wordless.client, action="synonyms", synonyms={"first-0": "begun"})

    assert (await read(wordless.client, id_))["tags"] == ["begun", *ALL[1:], "third"]


async def test_merging_keeps_the_tags_of_all(wordless: Served) -> None:
    ids = [await remember(wordless.client, f"Shelf {tags[0]} is for paint.", tags=tags) for tags in (FIRST, SECOND)]

    await tidied(wordless.client, action="apply", plan=[{"action": "merge", "ids": ids[1:], "into": ids[0]}])

    assert (await read(wordless.client, ids[0]))["tags"] == ALL


def test_an_export_of_it_is_imported_again(database: Database, blank: Database, tmp_path: Path) -> None:
    for tags in (FIRST, SECOND):
        options = [word for tag in tags for word in ("--tag", tag)]
        pgengram("add", "Shelf nine is for paint.", *options, database_url=database.url, **WORDS)
    file, notes = tmp_path / "export.jsonl", tmp_path / "notes"
    pgengram("export", str(file), database_url=database.url, **WORDS)
    pgengram("export", "--format", "markdown", str(notes), database_url=database.url, **WORDS)

    pgengram("import", str(file), database_url=blank.url, **WORDS)

    assert tags_in(blank) == ALL
    [note] = notes.glob("*.md")
    note.write_text(note.read_text("utf-8").replace('"first-0"', '"third"').replace("paint", "oil"), "utf-8")
    pgengram("import", str(notes), database_url=database.url, **WORDS)
    assert tags_in(database) == ["third", *ALL[1:]]


def test_a_file_of_another_system_keeps_all_of_its_tags(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "memories.json"
    file.write_text(FOREIGN % json.dumps(ALL), "utf-8")

    pgengram("import", str(file), database_url=database.url, **WORDS)

    assert tags_in(database) == ALL
