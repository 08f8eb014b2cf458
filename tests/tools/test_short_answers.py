"""What a language model is answered: ids of eight digits, one message, and nothing that is empty or said twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest_asyncio
from mcp import Client

from helpers import Answer, Served, call, connected, read, remember


@pytest_asyncio.fixture
async def model(wordless: Served) -> AsyncIterator[Client]:
    """A client that is answered as a model is, of a server that remembers nothing yet."""
    async with connected(database_url=wordless.db.url, embedder="none:", answers="short") as client:
        yield client


async def only_hit(model: Client, query: str, **filters: object) -> Answer:
    [hit] = (await call(model, "search_memories", query=query, **filters))["results"]
    return dict(hit)


async def test_storing_is_answered_by_a_short_id_and_one_message(model: Client) -> None:
    answer = await call(model, "create_memory", content="Mira lives in Porto.", tags=["home"], importance=0.7)

    assert answer == {"ok": True, "memory_id": answer["memory_id"], "message": "Remembered.", "degraded": True}
    assert (await read(model, answer["memory_id"]))["id"].endswith(answer["memory_id"])
    assert len(answer["memory_id"]) == 8


async def test_a_hit_has_id_text_and_date_and_what_the_text_does_not_say(model: Client) -> None:
    id_ = await remember(
        model, "Mira decided on the blue tiles.", kind="goal", user="Mira", project="kitchen", occurred_at="2026-03-01"
    )

    hit = await only_hit(model, "blue tiles")

    assert hit == {
        "id": id_, "text": "Mira decided on the blue tiles.", "kind": "goal", "project": "kitchen",
        "stated": f"{datetime.now(UTC):%Y-%m-%d}", "when": "2026-03-01",
    }  # fmt: skip


async def test_a_search_says_how_to_see_more_only_where_there_is_more(model: Client) -> None:
    for n in range(3):
        await remember(model, f"The well is {n} metres deep.")

    some = await call(model, "search_memories", query="well", limit=2)
    rest = await call(model, "search_memories", query="well", limit=2, cursor=some["next_cursor"])
    listed = await call(model, "search_memories", limit=2)

    assert some.keys() == {"ok", "evidence", "results", "next_cursor", "degraded"}
    assert rest.keys() == {"ok", "evidence", "results", "degraded"}
    assert len({hit["id"] for hit in [*some["results"], *rest["results"]]}) == 3
    assert len((await call(model, "search_memories", limit=2, cursor=listed["next_cursor"]))["results"]) == 1


async def test_what_is_hidden_is_told_only_where_it_would_have_been_a_hit(model: Client) -> None:
    gone = await remember(model, "The ferry leaves at nine.")
    await call(model, "forget_memories", ids=[gone])
    await remember(model, "Mira planted three quince trees.")

    sure = await call(model, "search_memories", query="Mira quince trees")
    unsure = await call(model, "search_memories", query="When does the ferry leave?")

    assert sure["evidence"] == "strong"
    assert "hidden" not in sure
    assert not any("evidence" in hit for hit in sure["results"])
    assert unsure["hidden"] == {"forgotten": 1}


async def test_what_all_hits_share_is_said_once(model: Client) -> None:
    for n in range(2):
        await remember(model, f"The well is {n} metres deep.", user="Mira", project=f"garden {n}")

    answer = await call(model, "search_memories", query="well")

    assert answer["user"] == "Mira"
    assert [hit.keys() & {"user", "project"} for hit in answer["results"]] == [{"project"}, {"project"}]


async def test_an_unlikely_hit_says_that_it_is_no_evidence_and_offers_no_next_page(model: Client) -> None:
    await remember(model, "Mira planted three quince trees.", kind="decision")
    for n in range(2):
        await remember(model, f"Lamp {n} has trees on it.", kind="decision")

    answer = await call(model, "search_memories", query="Mira quince trees", limit=2)

    assert [hit.get("evidence", "some") for hit in answer["results"][:2]] == ["some", "none"]
    assert [hit.get("kind") for hit in answer["results"]] == ["decision", None]
    assert "next_cursor" not in answer


async def test_a_hit_in_detail_has_every_field(model: Client) -> None:
    await remember(model, "The well is deep.", tags=["garden"])

    hit = await only_hit(model, "well", detail=True)

    assert len(hit["id"]) == 36
    assert hit["tags"] == ["garden"]
    assert {"content", "importance", "score", "why", "created_at"} <= hit.keys()


async def test_a_changed_memory_shows_when_it_was_changed(model: Client, wordless: Served) -> None:
    id_ = await remember(model, "The demo is on Friday.")
    wordless.db.as_login("UPDATE memories SET created_at = created_at - interval '9 days', last_confirmed_at = NULL")
    before = await only_hit(model, "demo")

    answer = await call(model, "update_memory", id=id_, content="The demo is on Monday.")

    assert answer == {"ok": True, "memory_id": id_, "message": "Changed content.", "version": 2}
    after = await only_hit(model, "demo")
    assert before["stated"] < after["stated"]
    assert not {"when", "date"} & {*before, *after}  # it says so itself


async def test_of_two_hits_that_disagree_each_says_to_the_minute_when_it_was_stated(model: Client) -> None:
    one, other = [await remember(model, f"The shop's database listens on port {port}.") for port in (5432, 6432)]
    await call(model, "link_memories", from_id=one, to_id=other, relation="contradicts")

    found = (await call(model, "search_memories", query="shop database port"))["results"]

    assert [datetime.strptime(hit["stated"], "%Y-%m-%dT%H:%MZ") for hit in found if "conflicts_with" in hit] != []
    recalled = (await call(model, "recall_context", context="shop database port"))["context"]
    assert recalled.count(f"stated {found[0]['stated'][:14]}") == 2


async def test_a_batch_is_answered_by_ids_in_order_and_by_what_went_wrong(model: Client) -> None:
    answer = await call(model, "create_memories", items=["One.", {"content": ""}, {"content": "Two.", "kind": "bug"}])

    assert [None if id_ is None else len(id_) for id_ in answer["ids"]] == [8, None, 8]
    refused, read_ = answer["results"]
    assert (refused["index"], refused["error"]["code"]) == (1, "INVALID_INPUT")
    assert read_ == {"index": 2, "read": {"kind": "bug → error"}}
    assert answer["message"] == "2 remembered, 0 already known, 1 refused."


async def test_forgetting_is_one_message_and_a_preview_shows_what_would_go(model: Client) -> None:
    id_ = await remember(model, "The door code is 4711.")

    shown = await call(model, "forget_memories", ids=[id_], hard=True)
    gone = await call(model, "forget_memories", ids=[id_, "00000000"])

    assert shown["confirm_token"]
    assert shown["results"][0] | {"would_remove": {}} == {
        "id": id_, "ok": True, "already_forgotten": False, "content": "The door code is 4711.", "would_remove": {},
    }  # fmt: skip
    assert [one["id"] for one in gone["results"]] == ["00000000"]
    assert gone["message"] == "1 memory forgotten, 1 not found."


async def test_linking_is_one_message_and_what_could_not_be_linked(model: Client) -> None:
    well, pump = [await remember(model, text) for text in ("The well.", "The pump.")]

    made = await call(model, "link_memories", from_id=well, to_ids=[pump], type="feeds")
    partly = await call(model, "link_memories", from_id=well, to_ids=[pump, "00000000"], type="feeds")
    removed = await call(model, "link_memories", from_id=well, to_ids=[pump], remove=True)

    assert made == {"ok": True, "message": "1 link made."}
    assert partly["message"] == "0 links made, 1 there already, 1 not found."
    assert [one["to_id"] for one in partly["results"]] == ["00000000"]
    assert removed == {"ok": True, "message": "1 link removed."}


async def test_recalling_is_answered_by_lines_alone(model: Client) -> None:
    await remember(model, "The well is deep.")

    assert (await call(model, "recall_context", context="well")).keys() == {"ok", "evidence", "context", "degraded"}
