"""Telling the same again: one memory, however it is written and whoever is first."""

from __future__ import annotations

import asyncio
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from mcp import Client

from helpers import Database, Served, call, connected, found, hits, read, remember, remember_expired

SAME = {
    "as it is": ("The café opens at nine.", "The café opens at nine."),
    "its beginning": ("The café opens at nine.", "the café opens at nine."),
    "white space": (
        "The café opens at nine.\nNot on Mondays.",
        "  The  café\topens at nine. \r\nNot on Mondays.\u3000\n",
    ),
    "composition": ("The café opens at nine.", unicodedata.normalize("NFD", "The café opens at nine.")),
    "german": ("Österreich gewinnt.", "österreich  gewinnt."),
    "korean": ("민준은 부산에 삽니다.", unicodedata.normalize("NFD", "민준은  부산에 삽니다.")),
    "chinese": ("小美喜歡喝烏龍茶。", " 小美喜歡喝烏龍茶。 "),
}
DIFFERENT = {
    "capitals": ("The hint to the password is Oak.", "The hint to the password is oak."),
    "a command": ("Before a release run make TEST.", "Before a release run make test."),
    "a variable": ("Its value stands in HOME.", "Its value stands in home."),
    "german": ("Weil sie die Pflege liebt.", "Weil sie die pflege liebt."),
    "indentation": ("if ready:\n    load()\nstart()", "if ready:\n    load()\n    start()"),
    "port": ("The database listens on port 5432.", "The database listens on port 5433."),
    "negation": ("We decided to ship.", "We decided not to ship."),
    "korean": ("민준은 부산에 삽니다.", "민준은 서울에 삽니다."),
    "chinese": ("小美喜歡喝烏龍茶。", "小美喜歡喝普洱茶。"),
    "punctuation": ("Let's eat, Mira.", "Let's eat Mira."),
}
APART = [
    {"user": "Ines"}, {"project": "garden"}, {"collection": "b"}, {"speaker": "Ines"}, {"occurred_at": "2026-01-02T00:00:00Z"},
]  # fmt: skip


@pytest.mark.shows(7)
@pytest.mark.parametrize(("first", "again"), SAME.values(), ids=SAME.keys())
async def test_the_same_told_again_is_the_same_memory(client: Client, db: Database, first: str, again: str) -> None:
    id_ = await remember(client, first)

    answer = await call(client, "create_memory", content=again)

    assert answer["memory_id"] == id_
    assert answer["created"] is False
    assert answer["message"] == "Already remembered."
    assert answer["memory"]["content"] == first
    assert db.value("SELECT count(*) FROM memories") == 1


@pytest.mark.parametrize(("first", "other"), DIFFERENT.values(), ids=DIFFERENT.keys())
async def test_what_differs_in_a_number_a_name_or_a_not_is_another_memory(
    client: Client, first: str, other: str
) -> None:
    assert await remember(client, first) != await remember(client, other)


@pytest.mark.parametrize("about", APART, ids=str)
async def test_the_same_words_about_something_else_are_another_memory(client: Client, about: dict[str, str]) -> None:
    common = {"user": "Mira", "project": "harbour", "collection": "a", "speaker": "Mira", "occurred_at": "2026-01-01T00:00:00Z"}  # fmt: skip
    first = await remember(client, "Likes tea.", **common)

    assert await remember(client, "Likes tea.", **(common | about)) != first
    assert await remember(client, "Likes tea.", **common) == first


@pytest.mark.shows(7)
async def test_the_tags_of_both_tellings_are_united_and_searched(client: Client, db: Database) -> None:
    id_ = await remember(client, "The boat is painted in spring.", tags=["boat", "paint"])
    await remember(client, "Something else.", tags=["other"])

    await remember(client, "the boat is painted in spring.", tags=["spring", "boat", "quokka"])

    assert (await read(client, id_))["tags"] == ["boat", "paint", "spring", "quokka"]
    assert await found(client, tags=["quokka"]) == [id_]
    assert [hit["id"] for hit in await hits(client, "quokka") if hit["why"]["words"]] == [id_]
    *_, outcome = db.history(id_)
    assert outcome["changes"] == {"tags": [["boat", "paint"], ["boat", "paint", "spring", "quokka"]]}


@pytest.mark.shows(7)
async def test_an_expired_memory_lives_again_when_it_is_told_again(client: Client, db: Database) -> None:
    id_ = await remember_expired(client, "The alarm code changes on Friday.")
    assert await found(client, "alarm code") == []

    answer = await call(client, "create_memory", content="The alarm code changes on Friday.")

    assert answer["memory_id"] == id_
    assert "expires_at" not in answer["memory"]
    assert await found(client, "alarm code") == [id_]


async def test_an_expired_memory_may_be_given_a_new_end(client: Client) -> None:
    id_ = await remember_expired(client, "The alarm code changes.")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)

    await remember(client, "The alarm code changes.", expires_at=tomorrow.isoformat())

    assert (await read(client, id_))["expires_at"] == tomorrow.isoformat().replace("+00:00", "Z")


@pytest.mark.shows(14)
async def test_telling_again_confirms(served: Served) -> None:
    client, db = served.client, served.db
    id_ = await remember(client, "Still true.")
    db.rows("UPDATE memories SET last_confirmed_at = now() - interval '3 days'")

    await remember(client, "Still true.")

    confirmed = datetime.fromisoformat((await read(client, id_))["last_confirmed_at"])
    assert datetime.now(UTC) - confirmed < timedelta(days=1)


@pytest.mark.shows(7)
async def test_two_hundred_identical_creates_over_two_servers_are_one_memory(served: Served) -> None:
    async with connected(database_url=served.db.url) as other:
        await call(other, "search_memories")

        answers = await asyncio.gather(
            *(
                call(client, "create_memory", content="Told by everybody.", tags=[f"t{n % 8}"])
                for n in range(100)
                for client in (served.client, other)
            )
        )

    assert len({answer["memory_id"] for answer in answers}) == 1
    assert sum(answer["created"] for answer in answers) == 1
    assert served.db.value("SELECT count(*) FROM memories") == 1
    assert served.db.value("SELECT count(*) FROM semantic_memories") == 1
    assert sorted((await read(served.client, answers[0]["memory_id"]))["tags"]) == [f"t{n}" for n in range(8)]


async def test_two_batches_that_tell_the_same_in_opposite_order_do_not_block_each_other(served: Served) -> None:
    items = [{"content": f"Shelf {n}.", "tags": ["shelf"]} for n in range(150)]
    await call(served.client, "create_memories", items=items)
    served.db.rows("UPDATE memories SET last_confirmed_at = now() - interval '3 days'")
    async with connected(database_url=served.db.url) as other:
        await call(other, "search_memories")
        for round_ in range(3):
            tagged = [{**item, "tags": [f"round {round_}"]} for item in items]

            one, two = await asyncio.gather(
                call(served.client, "create_memories", items=tagged),
                call(other, "create_memories", items=tagged[::-1]),
            )

            assert [result["memory_id"] for result in one["results"]] == [
                result["memory_id"] for result in two["results"][::-1]
            ]
            assert one["created"] == two["created"] == 0


@pytest.mark.shows(7)
async def test_the_answer_says_what_was_taken_over_and_what_stays_as_it_was(client: Client) -> None:
    first = {"importance": 0.9, "kind": "fact", "metadata": {"room": "A", "category": ["house"]}, "tags": ["boiler"]}
    id_ = await remember(client, "The boiler is a Vaillant.", **first)
    before = await read(client, id_)

    answer = await call(
        client, "create_memory", content="the boiler is a Vaillant.", importance=0, kind="general", confidence=0.1,
        metadata={"room": "B", "floor": 2, "category": ["house"]}, tags=["heating"], type="semantic",
    )  # fmt: skip

    assert answer["taken_over"] == ["tags"]
    assert set(answer["kept_as_stored"]) == {"importance", "kind", "confidence", "metadata"}
    assert "importance" in answer["message"]
    after = await read(client, id_)
    assert after["tags"] == ["boiler", "heating"]
    for name in ("content", "importance", "kind", "confidence", "metadata", "detail"):
        assert after[name] == before[name]


async def test_what_is_told_as_it_is_stored_is_not_reported(client: Client) -> None:
    outcome = {
        "importance": 0,
        "kind": "process",
        "metadata": {"steps": ["hold"], "x": None},
        "confidence": 0,
        "pinned": True,
    }
    await remember(client, "To restart the boiler hold the knob.", **outcome)

    answer = await call(client, "create_memory", content="To restart the boiler hold the knob.", **outcome)

    assert answer["message"] == "Already remembered."
    assert not {"taken_over", "kept_as_stored"} & answer.keys()


async def test_another_type_stays_as_it_was_and_is_reported(client: Client) -> None:
    id_ = await remember(client, "The pump failed.", type="episodic")

    answer = await call(client, "create_memory", content="The pump failed.", type="semantic")

    assert (answer["memory_id"], answer["kept_as_stored"]) == (id_, ["type"])


async def test_the_answer_says_that_an_expired_memory_lives_again(client: Client, db: Database) -> None:
    id_ = await remember_expired(client, "The alarm code changes.")

    answer = await call(client, "create_memory", content="The alarm code changes.")

    assert answer["taken_over"] == ["expires_at"]
    assert db.history(id_)[-1]["operation"] == "revive"


async def test_the_end_of_a_memory_that_holds_is_not_moved(client: Client) -> None:
    end = (datetime.now(UTC) + timedelta(days=9)).replace(microsecond=0)
    id_ = await remember(client, "The pool is open.", expires_at=end.isoformat())

    answer = await call(
        client, "create_memory", content="The pool is open.", expires_at=(end + timedelta(days=1)).isoformat()
    )

    assert answer["kept_as_stored"] == ["expires_at"]
    assert datetime.fromisoformat((await read(client, id_))["expires_at"]) == end


async def test_the_sources_of_both_tellings_are_united_each_once(client: Client, db: Database) -> None:
    letter, call_ = {"kind": "letter", "ref": "L-7", "trust": 0.9}, {"kind": "call", "author": "Mira", "trust": 0.4}
    id_ = await remember(client, "The lease ends in May.", sources=[letter])

    answer = await call(client, "create_memory", content="The lease ends in May.", sources=[call_, letter])

    assert answer["taken_over"] == ["sources"]
    assert (await read(client, id_))["sources"] == [letter, call_]
    assert db.history(id_)[-1]["changes"]["sources"] == [[letter], [letter, call_]]
