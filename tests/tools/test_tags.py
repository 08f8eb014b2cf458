"""Tags: one spelling for each, and one word where several mean the same."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import Served, call, connected, found, read, refused, remember, until
from pgengram.errors import InvalidInput
from pgengram.fields import MAX_TAG
from pgengram.inputs import NewMemory, Question
from pgengram.service.manager import MemoryManager
from pgengram.store.reading.names import set_synonyms, synonyms
from pgengram.text.tags import BROADER, SYNONYMS, flattened, mapped_tags, normalised_tag, tag_groups

SPELLINGS = {
    " Home Office ": "home-office", "tea_time": "tea-time", "snake__case - x": "snake-case-x", "URGENT!!": "urgent",
    "#hash": "hash", "@home": "home", "C++": "c++", "C#": "c#", ".NET": ".net", "Node.js": "node.js", "v1.2": "v1.2",
    "lang:Python": "lang:python", "a/b": "a/b", "R&D": "r&d", "Straße": "strasse", "ＰＹＴＨＯＮ": "python",
    "C": "c", "R": "r", "猫": "猫", "한": "한", "हिन्दी": "हिन्दी", "日々の": "日々の",
    "a": "a", "7": "7", "--x--": "x", "!!!": "", "🙂": "", "...": "",
}  # fmt: skip


@pytest.mark.parametrize(("given_tag", "spelled"), SPELLINGS.items())
def test_a_tag_has_one_spelling(given_tag: str, spelled: str) -> None:
    assert normalised_tag(given_tag) == spelled


@given(st.text(max_size=100))
def test_spelling_a_tag_again_changes_nothing(text: str) -> None:
    tag = normalised_tag(text)

    assert normalised_tag(tag) == tag
    assert len(tag) <= MAX_TAG
    assert not any(c.isspace() for c in tag)


@given(
    st.lists(st.text(max_size=8)),
    st.dictionaries(st.sampled_from(["ab", "bc", "cd"]), st.sampled_from(["bc", "cd", "de"])),
)
def test_mapped_tags_are_each_once(tags: list[str], edited: dict[str, str]) -> None:
    made = mapped_tags(tags, flattened(edited))

    assert len(made) == len(set(made))


def test_tags_stay_in_order_and_are_told_once_after_mapping() -> None:
    assert mapped_tags(["Zebra", "prefs", "ant", "preference", "ZEBRA"], SYNONYMS) == ["zebra", "preferences", "ant"]


def test_a_broader_tag_swallows_nothing_by_itself() -> None:
    assert not set(BROADER) & set(flattened({}))
    assert mapped_tags(["code", "religion", "author"], flattened({})) == ["code", "religion", "author"]


def test_what_can_be_no_tag_is_an_empty_group() -> None:
    assert tag_groups(["!!!"], {}) == [[]]


# -- through a client --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tags", [["Home Office", "home_office", "PREFS", "!"], "Home Office, home_office, PREFS, !", '["Home Office","home_office","PREFS","!"]'],
    ids=["list", "commas", "JSON as text"],
)  # fmt: skip
@pytest.mark.shows(11)
async def test_tags_are_stored_in_one_spelling_and_mapped(wordless: Served, tags: Any) -> None:
    id_ = await remember(wordless.client, "The desk faces the window.", tags=tags)

    assert (await read(wordless.client, id_))["tags"] == ["home-office", "preferences"]


@pytest.mark.parametrize(
    "filters",
    [{"tags": ["HOME OFFICE"]}, {"tags": "home_office"}, {"tags": ["pref"]}, {"tags": ["Home_Office", "prefs"], "tags_match": "all"},
     {"tags": ["home-office", "preferences", "PREFERENCE"], "tags_match": "all"}, {"tags": ["nowhere", "prefs"]}],
)  # fmt: skip
@pytest.mark.shows(11)
async def test_a_filter_is_spelled_and_mapped_as_what_is_stored(wordless: Served, filters: dict[str, Any]) -> None:
    id_ = await remember(wordless.client, "The desk faces the window.", tags=["home office", "prefs"])
    await remember(wordless.client, "The desk is of oak.", tags=["furniture"])

    assert await found(wordless.client, **filters) == [id_]
    assert await found(wordless.client, "desk", **filters) == [id_]
    assert (await call(wordless.client, "search_memories", count_only=True, **filters))["total"] == 1


@pytest.mark.parametrize("filters", [{"tags": ["!!!"]}, {"tags": ["office", "!"], "tags_match": "all"}])
async def test_a_filter_never_widens_because_a_tag_of_it_is_none(wordless: Served, filters: dict[str, Any]) -> None:
    await remember(wordless.client, "The desk faces the window.", tags=["office"])

    assert await found(wordless.client, **filters) == []


async def test_an_update_spells_and_maps_tags(wordless: Served) -> None:
    id_ = await remember(wordless.client, "The desk faces the window.", tags=["old"])

    await call(wordless.client, "update_memory", id=id_, tags="Home Office, prefs")
    again = await call(wordless.client, "update_memory", id=id_, tags=["HOME_OFFICE", "preference"])

    assert (await read(wordless.client, id_))["tags"] == ["home-office", "preferences"]
    assert again["changed_fields"] == []


async def test_an_update_with_nothing_but_impossible_tags_takes_none_away(wordless: Served) -> None:
    id_ = await remember(wordless.client, "The desk faces the window.", tags=["old"])

    error = await refused(wordless.client, "update_memory", id=id_, tags=["!!!"])

    assert error["code"] == "INVALID_INPUT"
    assert (await read(wordless.client, id_))["tags"] == ["old"]


async def test_items_of_a_batch_are_spelled_and_mapped(wordless: Served) -> None:
    await call(wordless.client, "create_memories", items=[{"content": f"Fact {n}.", "tags": "Prefs"} for n in range(3)])

    assert len(await found(wordless.client, tags=["preferences"])) == 3


# -- editing -----------------------------------------------------------------------------------------------------------


async def edit(manager: MemoryManager, wanted: dict[str, str | None]) -> dict[str, str]:
    async with manager.store.transaction() as tx:
        return await set_synonyms(tx, wanted)


async def tags_of(manager: MemoryManager, *tags: str) -> list[str]:
    """Store a memory with tags, and return those it has then."""
    stored = await manager.create_memory(NewMemory(content=f"About {tags}.", tags=list(tags)))
    return list(stored.memory["tags"])


async def ids(manager: MemoryManager, *tags: str, **more: Any) -> int:
    return len((await manager.search_memories(Question(tags=list(tags), **more))).results)


@pytest.mark.shows(11)
async def test_an_edited_synonym_holds_from_the_next_call_on(manager: MemoryManager) -> None:
    assert await tags_of(manager, "k8s") == ["k8s"]

    meant = await edit(manager, {"K8S": "Kubernetes", "kube": "k8s"})

    assert (meant["k8s"], meant["kube"]) == ("kubernetes", "kubernetes")
    assert await tags_of(manager, "k8s", "kube", "other") == ["kubernetes", "other"]


async def test_a_memory_with_the_old_word_is_found_by_either(manager: MemoryManager) -> None:
    await tags_of(manager, "k8s", "cluster")
    await edit(manager, {"k8s": "kubernetes"})
    await tags_of(manager, "kubernetes", "cloud")

    assert await ids(manager, "k8s") == await ids(manager, "kubernetes") == 2
    assert await ids(manager, "k8s", "cluster", tags_match="all") == 1


async def test_a_synonym_can_be_taken_back_a_shipped_one_too(manager: MemoryManager) -> None:
    await edit(manager, {"k8s": "kubernetes"})

    meant = await edit(manager, {"k8s": None, "prefs": None})

    assert "k8s" not in meant
    assert await tags_of(manager, "k8s", "prefs", "pref") == ["k8s", "prefs", "preferences"]
    assert "prefs" in await edit(manager, {"prefs": "preferences"})


@pytest.mark.parametrize(
    "wanted", [{"work": "job"}, {"aa": "bb", "bb": "aa"}, {"aa": "AA"}, {"aa": "!"}, {"!": "aa"}, {"a" * 65: "bb"}]
)
async def test_an_edit_that_makes_no_sense_changes_nothing(
    manager: MemoryManager, wanted: dict[str, str | None]
) -> None:
    with pytest.raises(InvalidInput):
        await edit(manager, {"fine": "good", **wanted})

    async with manager.store.transaction() as tx:
        assert await synonyms(tx) == SYNONYMS


async def test_two_edits_at_once_cannot_close_a_circle(manager: MemoryManager) -> None:
    answers = await asyncio.gather(edit(manager, {"aa": "bb"}), edit(manager, {"bb": "aa"}), return_exceptions=True)

    assert sorted(type(answer).__name__ for answer in answers) == ["InvalidInput", "dict"]


async def test_another_process_sees_an_edit_within_moments(manager: MemoryManager) -> None:
    async with connected(database_url=manager.settings.database_url, embedder="none:") as other:
        await remember(other, "Before.", tags=["k8s"])
        await edit(manager, {"k8s": "kubernetes"})
        numbers = count()

        async def seen() -> bool:
            id_ = await remember(other, f"After, {next(numbers)}.", tags=["k8s"])
            return bool((await read(other, id_))["tags"] == ["kubernetes"])

        await until(seen)


async def test_each_namespace_has_synonyms_of_its_own(manager: MemoryManager) -> None:
    await edit(manager, {"k8s": "kubernetes"})

    async with connected(database_url=manager.settings.database_url, embedder="none:", namespace="other") as other:
        id_ = await remember(other, "One.", tags=["k8s"])
        assert (await read(other, id_))["tags"] == ["k8s"]


async def test_the_shipped_broader_tags_can_be_taken_over_and_dropped(manager: MemoryManager) -> None:
    await edit(manager, dict(BROADER))
    assert await tags_of(manager, "code", "dev", "dislikes") == ["software", "preferences"]

    await edit(manager, dict.fromkeys(BROADER))
    assert await tags_of(manager, "code", "dev") == ["code", "dev"]


def test_a_synonym_is_edited_by_typing(database: Any) -> None:
    from machine import answered

    url = {"database_url": database.url, "embedder": "none:"}
    answered("call", "create_memory", "content=The cluster runs in Graz.", "tags=K8S", **url)

    outcome = answered("tags", "--synonym", "k8s=kubernetes", "--synonym", "prefs=", "--json", **url)

    assert outcome["tags"] == {"k8s": 1}
    assert outcome["synonyms"]["k8s"] == "kubernetes"
    assert "prefs" not in outcome["synonyms"]
    found_ones = answered("call", "search_memories", "tags=kubernetes", **url)
    assert json.dumps(found_ones["results"]).count("Graz") == 1
