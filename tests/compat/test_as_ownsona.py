"""Ownsona's clients go on as they were: the calls of its document, with the answers it documents."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from mcp import Client

from compat.conftest import refuses, says
from helpers import Database
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.transfer.importing import import_from

SYSTEM = "ownsona"


@pytest.mark.shows(12, 22)
async def test_the_documented_example_is_remembered(client: Client, db: Database) -> None:
    answer = await says(
        client, "remember", text="My son Colby lives in Los Angeles.", tags=["family"], capture_mode="explicit"
    )

    assert (answer["ok"], answer["message"]) == (True, "Ok")
    assert isinstance(answer["memory_id"], int)
    stored = (await says(client, "get_memory", id=answer["memory_id"]))["memory"]
    assert (stored["text"], stored["tags"]) == ("My son Colby lives in Los Angeles.", ["family"])
    assert (stored["importance"], stored["capture_mode"]) == (0.5, "explicit")


@pytest.mark.shows(7)
async def test_the_same_again_is_already_remembered(client: Client) -> None:
    first = await says(client, "remember", text="The router stands in the hall.")
    second = await says(client, "remember", text="  the router stands  in the hall. ")

    assert second["message"] == "Already remembered"
    assert second["memory_id"] == first["memory_id"]


@pytest.mark.parametrize(("policy", "stored"), [("ask", 2), ("skip_if_near", 1), ("insert", 2)])
@pytest.mark.shows(8)
async def test_a_near_duplicate_is_handled_as_the_policy_says(client: Client, policy: str, stored: int) -> None:
    first = await says(client, "remember", text="The cat likes to sleep on the red sofa in the living room.")

    second = await says(
        client, "remember", text="In the living room the cat likes to sleep on the red sofa.", dedup_policy=policy
    )

    assert (await says(client, "count_memories"))["count"] == stored
    if policy == "insert":
        assert "near_duplicates" not in second
    else:
        assert [one["id"] for one in second["near_duplicates"]] == [first["memory_id"]]
    if policy == "skip_if_near":
        assert (second["memory_id"], second["message"]) == (first["memory_id"], "Already remembered")


@pytest.mark.shows(10)
async def test_what_was_corrected_is_told_when_it_is_said_again(client: Client) -> None:
    wrong = await says(client, "remember", text="Lena's birthday is on the third of May.")
    right = await says(client, "remember", text="Lena's birthday is on the ninth of October.")
    await says(client, "forget", id=wrong["memory_id"], reason="misheard", replaced_by_id=right["memory_id"])

    again = await says(client, "remember", text="Lena's birthday is on the third of May.")

    [corrected] = again["previously_corrected"]
    assert (corrected["id"], corrected["forget_reason"]) == (wrong["memory_id"], "misheard")
    assert (corrected["replaced_by_id"], corrected["text"]) == (
        right["memory_id"],
        "Lena's birthday is on the third of May.",
    )
    assert corrected["score"] > 0.9
    assert corrected["deleted_at"]


@pytest.mark.shows(5, 6)
async def test_a_secret_is_rejected_with_its_code(client: Client) -> None:
    error = await refuses(client, "remember", text="The key is sk-proj-Zx8Kq2mN4vB7cL1pR9tY6wE3uH5jF0aS.")

    assert error["code"] == "SECRET_REJECTED"
    assert (await says(client, "count_memories"))["count"] == 0


@pytest.mark.shows(4, 13)
async def test_an_expired_fact_is_not_recalled_and_one_more_than_a_century_ahead_is_refused(client: Client) -> None:
    past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    await says(client, "remember", text="The parcel arrives today.", expires_at=past)

    assert (await says(client, "recall", query="parcel"))["matches"] == []
    far = (datetime.now(UTC) + timedelta(days=365 * 101)).isoformat()
    assert (await refuses(client, "remember", text="Forever.", expires_at=far))["code"] == "INVALID_INPUT"


@pytest.mark.shows(14)
async def test_when_it_was_last_confirmed_is_kept_and_now_by_default(client: Client) -> None:
    then = "2024-05-01T10:00:00Z"
    outcome = await says(client, "remember", text="The lease ends in 2030.", last_confirmed_at=then)
    plain = await says(client, "remember", text="The lease was signed by both.")

    assert (await says(client, "get_memory", id=outcome["memory_id"]))["memory"]["last_confirmed_at"] == then
    now = (await says(client, "get_memory", id=plain["memory_id"]))["memory"]["last_confirmed_at"]
    assert datetime.now(UTC) - datetime.fromisoformat(now) < timedelta(minutes=5)
    await says(client, "confirm", id=outcome["memory_id"])
    assert (await says(client, "get_memory", id=outcome["memory_id"]))["memory"]["last_confirmed_at"] > then


@pytest.mark.shows(29)
async def test_a_batch_answers_item_by_item(client: Client) -> None:
    answer = await says(client, "remember_batch", items=[{"text": "One."}, {"text": ""}, {"text": "Three."}])

    assert [(one["input_index"], one["ok"]) for one in answer["results"]] == [(0, True), (1, False), (2, True)]
    assert answer["results"][1]["error"]["code"] == "INVALID_INPUT"
    counts = {"total": 3, "succeeded": 2, "failed": 1, "inserted": 2, "duplicates": 0, "errors": 1}
    assert answer["summary"] == counts


@pytest.mark.shows(17, 20)
async def test_recall_and_its_other_name_give_the_same_matches(client: Client) -> None:
    outcome = await says(client, "remember", text="My dog is called Mochi.", tags=["pets"])
    await says(client, "remember", text="The car needs new tyres.")

    recalled = await says(client, "recall", query="What is the name of my dog?")
    searched = await says(client, "search_memory", query="What is the name of my dog?")

    assert recalled == searched
    assert recalled["matches"][0]["id"] == outcome["memory_id"]
    assert 0 < recalled["matches"][0]["score"] <= 1
    tagged = await says(client, "recall", query="tyres", tags=["pets"])
    assert [one["id"] for one in tagged["matches"]] == [outcome["memory_id"]]


@pytest.mark.shows(5, 25)
async def test_an_update_names_the_changed_fields_and_refuses_to_be_empty(client: Client) -> None:
    outcome = await says(client, "remember", text="The office is in Graz.")

    changed = await says(
        client, "update_memory", id=outcome["memory_id"], text="The office is in Linz.", importance=0.9
    )

    assert sorted(changed["changed_fields"]) == ["importance", "text"]
    assert (await says(client, "text_search", text="in linz"))["matches"][0]["id"] == outcome["memory_id"]
    assert (await refuses(client, "update_memory", id=outcome["memory_id"]))["code"] == "INVALID_INPUT"


@pytest.mark.shows(27)
async def test_forgetting_keeps_a_tombstone_and_twice_is_no_error(client: Client) -> None:
    outcome = await says(client, "remember", text="The office is in Graz.")

    once = await says(client, "forget", id=outcome["memory_id"], reason="moved")
    twice = await says(client, "forget", id=outcome["memory_id"])

    assert (once["already_deleted"], twice["already_deleted"]) == (False, True)
    assert (await says(client, "list_memories"))["memories"] == []
    [gone] = (await says(client, "list_memories", include_deleted=True))["memories"]
    assert (bool(gone["deleted_at"]), gone["forget_reason"]) == (True, "moved")


@pytest.mark.shows(27)
async def test_a_hard_delete_asks_first_and_leaves_nothing(client: Client) -> None:
    outcome = await says(client, "remember", text="The pin is in the drawer.")

    preview = await says(client, "forget", id=outcome["memory_id"], hard_delete=True)
    assert preview["text"] == "The pin is in the drawer."
    assert (await says(client, "count_memories"))["count"] == 1
    await says(client, "forget", id=outcome["memory_id"], hard_delete=True, confirm_token=preview["confirm_token"])

    assert (await refuses(client, "get_memory", id=outcome["memory_id"]))["code"] == "NOT_FOUND"
    assert (await says(client, "count_memories", include_deleted=True))["count"] == 0


@pytest.mark.shows(24)
async def test_a_context_is_built_around_the_prompt_within_its_budget(client: Client) -> None:
    for number in range(5):
        await says(client, "remember", text=f"Fact {number} about the garden: " + "roses " * 30)

    built = await says(client, "build_context_prompt", user_prompt="What grows in the garden?", max_chars=500)

    assert 1 <= built["facts_used"] <= 2
    assert built["prompt"].endswith("What grows in the garden?")


async def test_the_siblings_of_remember_are_all_there(client: Client) -> None:
    listed = {tool.name for tool in (await client.list_tools()).tools}

    assert listed == {
        "remember", "remember_batch", "recall", "search_memory", "text_search", "build_context_prompt", "list_memories",
        "count_memories", "get_memory", "update_memory", "update_memory_batch", "confirm", "forget", "forget_batch",
        "find_near_duplicates", "memory_stats", "list_tags", "export_memories",
    }  # fmt: skip


@pytest.mark.shows(6)
async def test_a_secret_in_a_batch_is_refused_in_its_place(client: Client) -> None:
    items = [{"text": "The key is sk-proj-Zx8Kq2mN4vB7cL1pR9tY6wE3uH5jF0aS."}, {"text": "The key is in the safe."}]

    stored = await says(client, "remember_batch", items=items)
    ids = [stored["results"][1]["memory_id"]] * 2
    changed = await says(
        client, "update_memory_batch", items=[{"id": id_, "text": one["text"]} for id_, one in zip(ids, items, strict=True)]
    )  # fmt: skip

    for answer in (stored, changed):
        assert [one["ok"] for one in answer["results"]] == [False, True]
        assert answer["results"][0]["error"]["code"] == "SECRET_REJECTED"
    assert (await says(client, "count_memories"))["count"] == 1


@pytest.mark.shows(29)
async def test_many_facts_are_changed_at_once_and_a_dry_run_changes_none(client: Client) -> None:
    ids = [(await says(client, "remember", text=text))["memory_id"] for text in ("Tea is at four.", "Lunch is at one.")]
    items = [
        {"id": ids[0], "text": "Tea is at five."},
        {"id": 12345, "tags": ["meals"]},
        {"id": ids[1], "tags": ["meals"]},
    ]

    would = await says(client, "update_memory_batch", items=items, dry_run=True)
    assert (await says(client, "get_memory", id=ids[0]))["memory"]["text"] == "Tea is at four."
    done = await says(client, "update_memory_batch", items=items)

    for answer in (would, done):
        assert [one.get("changed_fields") for one in answer["results"]] == [["text"], None, ["tags"]]
        assert answer["summary"] == {"total": 3, "succeeded": 2, "failed": 1, "updated": 2, "errors": 1}
        assert [(one["input_index"], one["id"]) for one in answer["results"]] == [(0, ids[0]), (1, 12345), (2, ids[1])]
    assert [(one["dry_run"], one["results"][0]["message"]) for one in (would, done)] == [
        (True, "Would update"),
        (False, "Ok"),
    ]
    missing = done["results"][1]["error"]
    assert (missing["message"], missing["hint"]) == ("No memory has id 12345.", "Use recall to find the right id.")
    assert (await says(client, "get_memory", id=ids[0]))["memory"]["text"] == "Tea is at five."


@pytest.mark.shows(23)
async def test_facts_are_listed_and_counted_by_what_they_lack_and_who_told_them(client: Client) -> None:
    tagged = await says(client, "remember", text="Short and tagged.", tags=["x-ray"], source_provider="mail")
    bare = await says(client, "remember", text="A longer fact without any tag at all.")

    async def listed(**filters: object) -> list[int]:
        return [one["id"] for one in (await says(client, "list_memories", **filters))["memories"]]

    assert await listed() == [bare["memory_id"], tagged["memory_id"]]
    assert await listed(untagged_only=True) == await listed(min_chars=20) == [bare["memory_id"]]
    assert await listed(max_chars=20) == [tagged["memory_id"]]
    assert await listed(not_confirmed_since="2020-01-01T00:00:00Z") == []
    assert [one["score"] for one in (await says(client, "list_memories"))["memories"] if "score" in one] == []
    assert (await says(client, "count_memories", source_provider="mail"))["count"] == 1
    assert (await says(client, "count_memories", untagged_only=True))["count"] == 1


@pytest.mark.shows(36)
async def test_near_duplicates_are_grouped_and_what_differs_is_told_apart(client: Client) -> None:
    cats = [
        (await says(client, "remember", text=text))["memory_id"]
        for text in (
            "The cat likes to sleep on the red sofa in the living room.",
            "In the living room the cat likes to sleep on the red sofa.",
        )
    ]
    ports = [
        (await says(client, "remember", text=f"The database listens on port {n}."))["memory_id"] for n in (5432, 5433)
    ]

    found = await says(client, "find_near_duplicates")

    [group] = found["groups"]
    assert {one["id"] for one in group["memories"]} == {*group["ids"]} == {*cats}
    assert (group["pair_count"], found["threshold"], found["summary"]) == (1, 0.92, {"groups": 1, "pairs": 1})
    assert 0.92 <= group["max_similarity"] <= 1
    assert all(one["created_at"] and one["tags"] == [] for one in group["memories"])
    [pair] = found["possible_conflicts"]
    assert {one["id"] for one in pair["memories"]} == {*ports}
    assert (await says(client, "find_near_duplicates", threshold=1))["groups"] == []
    assert (await refuses(client, "find_near_duplicates", threshold=0.4))["code"] == "INVALID_INPUT"


@pytest.mark.shows(37)
async def test_facts_and_tags_are_counted(client: Client) -> None:
    for text, tags in [("One.", ["a1", "b2"]), ("Two.", ["a1"]), ("Three.", ["b2"])]:
        outcome = await says(
            client, "remember", text=text, tags=tags, source_provider="mail" if text == "One." else " "
        )
    await says(client, "forget", id=outcome["memory_id"])

    stats = await says(client, "memory_stats")

    assert (stats["total"], stats["active"], stats["soft_deleted"], stats["expired"]) == (3, 2, 1, 0)
    assert stats["avg_importance"] == 0.5
    assert stats["oldest_created_at"] < stats["newest_created_at"]
    assert stats["top_tags"] == [{"tag": "a1", "count": 2}, {"tag": "b2", "count": 1}]
    assert stats["by_provider"] == [{"provider": "mail", "count": 1}, {"provider": "(none)", "count": 1}]
    assert (await says(client, "list_tags"))["tags"] == stats["top_tags"]
    everything = await says(client, "list_tags", include_deleted=True)
    assert everything["tags"] == [{"tag": "a1", "count": 2}, {"tag": "b2", "count": 2}]


async def test_a_forgotten_fact_is_not_found_by_what_would_change_it(client: Client) -> None:
    id_ = (await says(client, "remember", text="The office is in Graz."))["memory_id"]
    await says(client, "forget", id=id_)

    for tool, change in (("update_memory", {"text": "It moved."}), ("confirm", {})):
        assert (await refuses(client, tool, id=id_, **change))["code"] == "NOT_FOUND"
    [told] = (await says(client, "update_memory_batch", items=[{"id": id_, "tags": ["x-ray"]}]))["results"]
    assert told["error"]["code"] == "NOT_FOUND"
    kept = (await says(client, "get_memory", id=id_))["memory"]
    assert (kept["text"], kept["replaced_by_id"], kept["expires_at"]) == ("The office is in Graz.", None, None)
    assert kept["deleted_at"]


async def test_expired_facts_are_listed_counted_and_exported_with_the_deleted_ones(client: Client) -> None:
    past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    over = (await says(client, "remember", text="The parcel arrives today.", expires_at=past))["memory_id"]
    gone = (await says(client, "remember", text="The office is in Graz."))["memory_id"]
    kept = (await says(client, "remember", text="Tea is at four."))["memory_id"]
    await says(client, "forget", id=gone)

    listed = await says(client, "list_memories", include_deleted=True)
    assert [one["id"] for one in listed["memories"]] == [kept, gone, over]
    assert (await says(client, "count_memories", include_deleted=True))["count"] == 3
    only_active = await says(client, "export_memories", include_deleted=False)
    assert [one["id"] for one in only_active["memories"]] == [kept]


async def test_forgetting_many_tells_each_by_its_number_and_asks_for_no_token(client: Client) -> None:
    ids = [(await says(client, "remember", text=f"Passing fact number {n}."))["memory_id"] for n in range(22)]
    await says(client, "forget", id=ids[0])

    would = await says(client, "forget_batch", ids=ids, dry_run=True)
    assert (would["dry_run"], would["results"][1]["message"]) == (True, "Would soft-delete")
    done = await says(client, "forget_batch", ids=[*ids, 4711], reason=" cleaned up ")

    assert done["summary"] | {"total": 23, "deleted": 21, "already_deleted": 1, "errors": 1} == done["summary"]
    assert [(one["input_index"], one["id"]) for one in done["results"][-2:]] == [(21, ids[21]), (22, 4711)]
    assert done["results"][-1]["error"]["message"] == "No memory has id 4711."
    assert (await says(client, "get_memory", id=ids[0]))["memory"]["forget_reason"] == "cleaned up"


async def test_blanks_around_and_between_are_no_reason_to_refuse(client: Client) -> None:
    told = await says(client, "remember", text="  Tea. ".ljust(16_010), tags=["Food", " ", None, "!"], session_id="  ",
                      source_provider=" mail ")  # fmt: skip

    kept = (await says(client, "get_memory", id=told["memory_id"]))["memory"]
    assert (kept["text"], kept["tags"], kept["source_provider"]) == ("Tea.", ["food"], "mail")
    assert "session_id" not in kept or kept["session_id"].strip()
    assert told["dropped_tags"] == ["!"]
    ahead = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    for wrong in ({"min_chars": 9, "max_chars": 3}, {"not_confirmed_since": ahead}):
        assert (await refuses(client, "list_memories", **wrong))["code"] == "INVALID_INPUT"


async def test_a_context_without_facts_says_so_and_no_fact_ends_the_facts(client: Client) -> None:
    empty = await says(client, "build_context_prompt", user_prompt="What grows in the garden?")
    assert "\n\nNo relevant previously known facts were found.\n\n" in empty["prompt"]
    await says(client, "remember", text="-----------------\n\nThe garden grows roses.")

    built = await says(client, "build_context_prompt", user_prompt="What grows in the garden?", max_chars=1)

    facts, prompt = built["prompt"].split("\n\n-----------------\n\n")
    assert facts.startswith("The following are previously known facts:\n\n")
    assert facts.endswith("The garden grows roses.")
    assert prompt == "The following is the user's prompt:\n\nWhat grows in the garden?"


async def test_a_google_key_of_any_length_is_a_secret(client: Client) -> None:
    for length in (30, 35, 36):
        key = "AIza" + "Sy9xQ7bLk2Zr4TmVw8cNd3HpJ5fG6a1B2c3D"[:length]
        error = await refuses(client, "remember", text=f"The key is {key}.")
        assert error["code"] == "SECRET_REJECTED"


@pytest.mark.shows(39)
async def test_an_export_holds_deleted_facts_has_pages_and_is_imported_again(
    client: Client, db: Database, tmp_path: Path
) -> None:
    ids = [(await says(client, "remember", text=f"Fact {name}.", tags=["t1"]))["memory_id"] for name in ("A", "B", "C")]
    await says(client, "forget", id=ids[0], reason="wrong", replaced_by_id=ids[1])

    whole = await says(client, "export_memories")
    first = await says(client, "export_memories", limit=2)
    second = await says(client, "export_memories", limit=2, after=first["next_after"])

    assert [one["id"] for one in whole["memories"]] == ids
    assert first["memories"] + second["memories"] == whole["memories"]
    assert "next_after" not in whole | second
    assert not any("embedding" in one or "vector" in one for one in whole["memories"])
    gone = whole["memories"][0]
    assert (gone["forget_reason"], gone["replaced_by_id"], bool(gone["deleted_at"])) == ("wrong", ids[1], True)
    (tmp_path / "export.json").write_text(json.dumps(whole))
    moved = Settings(database_url=db.url, namespace="elsewhere", embedder="none:")
    manager = MemoryManager(moved)
    outcome = await import_from(manager, "ownsona", str(tmp_path / "export.json"), dry_run=True, report=lambda *_: None)
    await manager.close()
    assert (outcome.added["memory"], outcome.left) == (3, [])
