"""update_memory: any field of one memory, and nothing else."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from mcp import Client

from helpers import Answer, Database, Served, call, examples, found, hits, read, refused, remember, said, until
from pgengram.inputs import CLEARABLE
from pgengram.store.memory.changes import merge_patch

NEW_VALUES: dict[str, Any] = {
    "content": "A new text.",
    "kind": "preference",
    "importance": 0.0,
    "tags": ["beta", "gamma"],
    "metadata": {"colour": "red"},
    "confidence": 0.0,
    "emotion": "concern",
    "occurred_at": "2020-02-02T02:02:02Z",
    "expires_at": "2090-01-01T00:00:00Z",
    "pinned": True,
    "status": "archived",
    "source": "a book",
    "source_provider": "another client",
    "capture_mode": "inferred",
    "session_id": "talk-2",
    "speaker": "Ines",
    "user": "Ines Roca",
    "project": "garden",
    "collection": "plants",
}
EVERYTHING: dict[str, Any] = {
    "content": "The old text.",
    "kind": "fact",
    "importance": 0.5,
    "tags": ["alpha", "beta"],
    "metadata": {"shape": "round"},
    "confidence": 0.9,
    "emotion": "neutral",
    "occurred_at": "2021-01-01T00:00:00Z",
    "expires_at": "2091-01-01T00:00:00Z",
    "sources": [{"label": "Mira", "trust": 0.5}],
    "source": "mail",
    "source_provider": "one client",
    "capture_mode": "explicit",
    "session_id": "talk-1",
    "speaker": "Mira",
    "user": "Mira Holt",
    "project": "harbour",
    "collection": "moves",
}
FOLLOWING = {
    "occurred_at": ("valid_from",), "content": ("last_confirmed_at",), "confidence": ("detail", "trust"), "sources": ("trust",), "metadata": ("detail",),
}  # fmt: skip
USED = {"relevance", "access_count", "last_accessed_at", "version", "updated_at", "half_life_days"}


def but(memory: Answer, *names: str) -> Answer:
    return {name: value for name, value in memory.items() if name not in USED | set(names)}


def vectors(db: Database, id_: str) -> list[Answer]:
    return db.rows(
        "SELECT part, embedding::text, xmin::text FROM memory_vectors WHERE memory_id = %s ORDER BY part", [id_]
    )


@pytest.mark.parametrize(("name", "value"), NEW_VALUES.items())
async def test_each_field_can_be_changed_alone(client: Client, name: str, value: Any) -> None:
    id_ = await remember(client, **EVERYTHING)
    before = await read(client, id_)

    answer = await call(client, "update_memory", id=id_, **{name: value})

    after = await read(client, id_)
    expected = {"shape": "round", "colour": "red"} if name == "metadata" else value
    assert answer["changed_fields"] == [name]
    assert answer["version"] == after["version"] == 2
    assert after[name] == expected
    assert but(after, name, *FOLLOWING.get(name, ())) == but(before, name, *FOLLOWING.get(name, ()))
    assert answer["memory"][name] == expected


@pytest.mark.shows(25)
async def test_any_subset_can_be_changed_at_once(client: Client) -> None:
    id_ = await remember(client, **EVERYTHING)

    answer = await call(client, "update_memory", id=id_, **NEW_VALUES)

    after = await read(client, id_)
    assert set(answer["changed_fields"]) == NEW_VALUES.keys()
    assert {name: after[name] for name in NEW_VALUES if name != "metadata"} == {
        name: value for name, value in NEW_VALUES.items() if name != "metadata"
    }


@pytest.mark.parametrize("name", CLEARABLE)
async def test_each_field_that_may_be_empty_can_be_cleared(client: Client, name: str) -> None:
    id_ = await remember(client, **EVERYTHING)
    before = await read(client, id_)

    answer = await call(client, "update_memory", id=id_, clear=[name])

    after = await read(client, id_)
    assert answer["changed_fields"] == [name]
    assert name not in after
    assert but(after, name, *FOLLOWING.get(name, ())) == but(before, name, *FOLLOWING.get(name, ()))


@pytest.mark.parametrize("name", ["content", "importance", "pinned", "status", "id", "nonsense"])
async def test_what_cannot_be_empty_cannot_be_cleared(client: Client, name: str) -> None:
    id_ = await remember(client, **EVERYTHING)

    error = await refused(client, "update_memory", id=id_, clear=[name])

    assert error["code"] == "INVALID_INPUT"
    assert "collection" in error["message"]


async def test_setting_and_clearing_the_same_field_is_refused(client: Client) -> None:
    id_ = await remember(client, **EVERYTHING)

    error = await refused(client, "update_memory", id=id_, user="Ines", clear=["user"])

    assert error["code"] == "INVALID_INPUT"
    assert (await read(client, id_))["user"] == "Mira Holt"


async def test_a_change_of_nothing_is_refused(client: Client) -> None:
    error = await refused(client, "update_memory", id=await remember(client, "Stays."))

    assert error["code"] == "INVALID_INPUT"


async def test_a_change_to_what_is_there_already_changes_nothing(client: Client, db: Database) -> None:
    id_ = await remember(client, **EVERYTHING)

    answer = await call(client, "update_memory", id=id_, **EVERYTHING)

    assert answer["changed_fields"] == []
    assert answer["version"] == 1
    assert len(db.history(id_)) == 1


async def test_the_text_is_embedded_again_only_when_it_changes(client: Client, db: Database) -> None:
    id_ = await remember(client, **EVERYTHING)
    first = vectors(db, id_)

    rest = {name: value for name, value in NEW_VALUES.items() if name != "content"}
    await call(client, "update_memory", id=id_, **rest)
    unchanged = vectors(db, id_)
    await call(client, "update_memory", id=id_, content="Something quite different.")
    changed = vectors(db, id_)

    assert first == unchanged
    assert len(changed) == 1
    assert changed[0]["embedding"] != first[0]["embedding"]


async def test_a_changed_memory_is_found_by_its_new_words_and_meaning_and_not_by_the_old(client: Client) -> None:
    id_ = await remember(client, "Mira keeps a hamster.")
    for n in range(15):
        await remember(client, f"Invoice {n} was paid in March.")

    await call(client, "update_memory", id=id_, content="Mira plays the accordion.")

    [meant, *_] = await hits(client, "musical instrument", limit=1)
    assert meant["id"] == id_
    assert meant["content"] == "Mira plays the accordion."
    assert all(hit["why"]["words"] == 0 for hit in await hits(client, "hamster"))
    [worded, *_] = await hits(client, "accordion")
    assert worded["why"]["words"] == 1


@pytest.mark.parametrize(
    ("change", "query"),
    [({"tags": ["quokka"]}, "quokka"), ({"metadata": {"category": ["quokka"]}}, "quokka"), ({"speaker": "Quokka"}, "quokka")],
)  # fmt: skip
async def test_a_changed_memory_is_found_by_all_that_it_is_searched_by(
    client: Client, change: dict[str, Any], query: str
) -> None:
    id_ = await remember(client, "It eats leaves.")
    await remember(client, "Another thing altogether.")

    await call(client, "update_memory", id=id_, **change)

    assert any(hit["id"] == id_ and hit["why"]["words"] == 1 for hit in await hits(client, query))


@pytest.mark.shows(25)
async def test_someone_elses_change_is_not_overwritten(client: Client) -> None:
    id_ = await remember(client, "Shared.")
    await call(client, "update_memory", id=id_, expected_version=1, importance=0.9)

    error = await refused(client, "update_memory", id=id_, expected_version=1, importance=0.1)

    assert error["code"] == "CONFLICT"
    assert "2" in error["message"]
    assert "get_memories" in error["hint"]
    assert (await read(client, id_))["importance"] == 0.9


async def test_a_text_that_someone_else_changes_meanwhile_never_keeps_the_vector_of_theirs(served: Served) -> None:
    client, db = served.client, served.db
    id_ = await remember(client, "The text that stays.")
    change = {"id": id_, "content": "The text that stays.", "importance": 0.9}
    with psycopg.connect(db.url) as other:
        other.execute("SELECT set_config('pgengram.namespace_id', (SELECT id::text FROM namespaces), true)")
        other.execute("UPDATE memories SET content = 'Theirs.', version = version + 1")
        changing = asyncio.create_task(client.call_tool("update_memory", change))
        await until(lambda: _waits_for_a_lock(db))
        other.commit()

    answer = await changing

    assert answer.is_error
    assert "CONFLICT" in said(answer)
    assert (await read(client, id_))["content"] == "Theirs."


async def _waits_for_a_lock(db: Database) -> bool:
    return bool(
        db.as_login("SELECT true FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
    )


@pytest.mark.shows(25)
async def test_a_dry_run_says_what_would_change_and_changes_nothing(client: Client, db: Database) -> None:
    id_ = await remember(client, **EVERYTHING)
    before, vector = await read(client, id_), vectors(db, id_)

    answer = await call(client, "update_memory", id=id_, dry_run=True, **NEW_VALUES)

    assert answer["dry_run"] is True
    assert set(answer["changed_fields"]) == NEW_VALUES.keys()
    assert answer["message"].startswith("Would change")
    assert but(await read(client, id_)) == but(before)
    assert vectors(db, id_) == vector
    assert len(db.history(id_)) == 1


async def test_metadata_is_merged_and_null_removes_a_key(client: Client) -> None:
    id_ = await remember(client, "Merged.", metadata={"a": 1, "b": {"c": 1, "d": 2}, "e": [1, 2]})

    await call(client, "update_memory", id=id_, metadata={"a": None, "b": {"c": None, "f": 3}, "e": [3], "g": 0})

    assert (await read(client, id_))["metadata"] == {"b": {"d": 2, "f": 3}, "e": [3], "g": 0}


@pytest.mark.parametrize(("old", "new"), [(1, True), (0, False), (True, 1), (False, 0)])
@pytest.mark.parametrize("key", ["flag", "result"])
async def test_true_is_not_one_and_false_is_not_zero(client: Client, key: str, old: object, new: object) -> None:
    id_ = await remember(client, "A flag.", type="episodic", metadata={key: {"value": old}})

    await call(client, "update_memory", id=id_, metadata={key: {"value": new}})

    memory = await read(client, id_)
    assert repr({**memory.get("metadata", {}), **memory["detail"]}[key]) == repr({"value": new})


async def test_detail_is_changed_key_by_key_under_either_name(client: Client) -> None:
    outcome = {"steps": ["one"], "success_count": 1, "total_attempts": 2, "average_duration": "PT90S"}
    id_ = await remember(client, "How to do it.", type="procedural", metadata=outcome)

    answer = await call(
        client, "update_memory", id=id_, metadata={"totalAttempts": 4, "steps": {"first": False}, "note": "x"}
    )

    detail = (await read(client, id_))["detail"]
    assert set(answer["changed_fields"]) == {"detail.total_attempts", "detail.steps", "metadata"}
    assert answer["extra_metadata"] == ["note"]
    assert detail["steps"] == {"first": False}
    assert (detail["success_count"], detail["total_attempts"], detail["success_rate"]) == (1, 4, 0.25)


async def test_a_detail_told_as_it_is_changes_nothing(client: Client) -> None:
    outcome = {"average_duration": "P1DT2H", "success_count": 0, "total_attempts": 1, "steps": [0, False]}
    id_ = await remember(client, "How to do it.", type="procedural", metadata=outcome)

    assert (await call(client, "update_memory", id=id_, metadata=outcome))["changed_fields"] == []


async def test_a_detail_set_to_null_has_its_default_again(client: Client) -> None:
    outcome = {"emotional_valence": 0.5, "context": {"a": 1}, "verification_status": True}
    id_ = await remember(client, "It happened.", type="episodic", metadata=outcome)

    await call(client, "update_memory", id=id_, metadata=dict.fromkeys(outcome))

    detail = (await read(client, id_))["detail"]
    detail.pop("event_time")
    assert detail == {"emotional_valence": 0.0}


async def test_success_cannot_overtake_the_attempts_that_are_stored(client: Client) -> None:
    id_ = await remember(client, "How to do it.", type="procedural", metadata={"success_count": 1, "total_attempts": 2})

    error = await refused(client, "update_memory", id=id_, metadata={"success_count": 3})
    await call(client, "update_memory", id=id_, metadata={"success_count": 2})

    assert error["code"] == "INVALID_INPUT"
    assert (await read(client, id_))["detail"]["success_rate"] == 1


async def test_metadata_cannot_grow_beyond_its_limit_by_small_changes(client: Client) -> None:
    id_ = await remember(client, "Grows.")
    await call(client, "update_memory", id=id_, metadata={"a": "x" * 40_000})

    error = await refused(client, "update_memory", id=id_, metadata={"b": "x" * 40_000})

    assert error["code"] == "INVALID_INPUT"
    assert "65536" in error["message"]


async def test_the_confidence_can_be_changed_under_the_name_of_the_type(client: Client) -> None:
    id_ = await remember(client, "Perhaps.", type="strategic")

    await call(client, "update_memory", id=id_, metadata={"confidenceScore": 0})

    memory = await read(client, id_)
    assert (memory["confidence"], memory["detail"]["confidence_score"]) == (0, 0)


@pytest.mark.shows(14)
async def test_confirming_changes_the_day_of_confirmation_only(client: Client, db: Database) -> None:
    id_ = await remember(client, **EVERYTHING)
    before = await read(client, id_)

    answer = await call(client, "update_memory", id=id_, confirm=True)

    after = await read(client, id_)
    assert answer["changed_fields"] == ["last_confirmed_at"]
    assert after["last_confirmed_at"] > before["last_confirmed_at"]
    assert but(after, "last_confirmed_at") == but(before, "last_confirmed_at")
    assert [row["operation"] for row in db.history(id_)] == ["create", "confirm"]


@pytest.mark.shows(27)
async def test_a_forgotten_memory_is_restored_and_found_again(client: Client) -> None:
    id_ = await remember(client, "The spare key hangs in the shed.")
    await call(client, "forget_memories", ids=[id_], reason="It was moved.")

    await call(client, "update_memory", id=id_, status="active")

    memory = await read(client, id_)
    assert memory["status"] == "active"
    assert not {"reason", "valid_to", "replaced_by"} & memory.keys()
    assert await found(client, "spare key") == [id_]
    assert (await hits(client, "spare key"))[0]["why"]["words"] == 1


@pytest.mark.parametrize("hidden", ["forgotten", "archived"])
async def test_whoever_changes_what_search_leaves_out_is_told_so(client: Client, hidden: str) -> None:
    id_ = await remember(client, "Ines wears size 38.")
    if hidden == "archived":
        await call(client, "update_memory", id=id_, status="archived")
    else:
        await call(client, "forget_memories", ids=[id_])

    changed = await call(client, "update_memory", id=id_, content="Ines wears size 39.")
    restored = await call(client, "update_memory", id=id_, status="active")

    assert changed["message"] == f"Changed content. It is {hidden}, so search leaves it out; status active restores it."
    assert "leaves it out" not in restored["message"]


async def test_a_restored_memory_cannot_say_what_another_says_meanwhile(client: Client) -> None:
    id_ = await remember(client, "The office is in Lisbon.")
    await call(client, "forget_memories", ids=[id_])
    again = await remember(client, "The office is in Lisbon.")

    error = await refused(client, "update_memory", id=id_, status="active")

    assert again != id_
    assert error["code"] == "CONFLICT"
    assert again in error["message"]
    assert (await read(client, id_))["status"] == "invalidated"


async def test_a_memory_cannot_be_changed_to_say_what_another_says(client: Client) -> None:
    blue = await remember(client, "The sky is blue.")
    id_ = await remember(client, "The sky is green.", dedup_policy="insert")

    error = await refused(client, "update_memory", id=id_, content="the sky  is blue.")
    tried = await refused(client, "update_memory", id=id_, content="the sky  is blue.", dry_run=True)

    assert error["code"] == "CONFLICT"
    assert blue in error["message"]
    assert tried == error
    assert (await read(client, id_))["content"] == "The sky is green."


async def test_an_archived_memory_is_out_of_the_search_until_it_is_asked_for(client: Client) -> None:
    id_ = await remember(client, "The old router stood in the hall.")

    await call(client, "update_memory", id=id_, status="archived")

    assert await found(client, "router") == []
    assert await found(client, "router", status="archived") == [id_]


async def test_an_archived_memory_is_active_again_when_asked_for(client: Client, db: Database) -> None:
    id_ = await remember(client, "The old router stood in the hall.")
    await call(client, "update_memory", id=id_, status="archived")

    await call(client, "update_memory", id=id_, status="active")

    assert await found(client, "router") == [id_]
    assert [row["operation"] for row in db.history(id_)] == ["create", "archive", "restore"]


async def test_a_forgotten_memory_cannot_be_archived(client: Client) -> None:
    id_ = await remember(client, "The old router stood in the hall.")
    await call(client, "forget_memories", ids=[id_], reason="It is gone.")

    error = await refused(client, "update_memory", id=id_, status="archived")

    assert error["code"] == "CONFLICT"
    assert "active" in error["hint"]
    assert (await read(client, id_))["status"] == "invalidated"


@pytest.mark.parametrize("status", ["active", "archived"])
async def test_a_working_memory_is_kept_by_promotion_alone(client: Client, db: Database, status: str) -> None:
    id_ = await remember(client, "Held for the task.")
    db.rows("UPDATE memories SET status = 'working' WHERE id = %s", [id_])

    error = await refused(client, "update_memory", id=id_, status=status)

    assert error["code"] == "CONFLICT"
    assert (await read(client, id_))["status"] == "working"


async def test_a_memory_holds_from_when_it_happened_even_when_that_is_corrected(client: Client) -> None:
    id_ = await remember(client, "The bridge was opened.", occurred_at="2020-05-01T00:00:00Z")
    assert await found(client, "bridge", as_of="2019-01-01T00:00:00Z") == []

    await call(client, "update_memory", id=id_, occurred_at="2018-05-01T00:00:00Z")
    assert (await read(client, id_))["valid_from"] == "2018-05-01T00:00:00Z"
    assert await found(client, "bridge", as_of="2019-01-01T00:00:00Z") == [id_]

    await call(client, "update_memory", id=id_, clear=["occurred_at"])
    memory = await read(client, id_)
    assert memory["valid_from"] == memory["created_at"]


async def test_an_event_holds_from_its_time_when_that_is_told_as_detail(client: Client) -> None:
    id_ = await remember(client, "The bridge was opened.", type="episodic")

    await call(client, "update_memory", id=id_, metadata={"event_time": "2018-05-01T00:00:00Z"})

    memory = await read(client, id_)
    assert memory["valid_from"] == memory["occurred_at"] == "2018-05-01T00:00:00Z"


async def test_a_memory_that_is_not_there_cannot_be_changed(client: Client) -> None:
    error = await refused(client, "update_memory", id=str(uuid4()), importance=1)

    assert error["code"] == "NOT_FOUND"
    assert "search_memories" in error["hint"]


@pytest.mark.parametrize(
    "change",
    [{"content": " "}, {"content": "x" * 16_001}, {"importance": 2}, {"status": "invalidated"}, {"bogus": 1},
     {"metadata": {"category": 5}}, {"type": "episodic"}, {"expected_version": "x"}, {"occurred_at": "0001-01-01T00:00:00+05:00"}],
    ids=str,
)  # fmt: skip
async def test_a_change_that_does_not_fit_is_refused(client: Client, db: Database, change: dict[str, Any]) -> None:
    id_ = await remember(client, "Stays.")

    error = await refused(client, "update_memory", id=id_, **change)

    assert error["code"] == "INVALID_INPUT"
    assert len(db.history(id_)) == 1


async def test_each_change_leaves_its_old_and_new_values_in_the_history(client: Client, db: Database) -> None:
    id_ = await remember(client, "First.", tags=["alpha"], metadata={"k": 1}, source_provider="a client")

    await call(client, "update_memory", id=id_, content="Second.", importance=0, tags=["beta"], metadata={"k": 2})
    await call(client, "update_memory", id=id_, clear=["tags"], metadata={"category": ["c"]})

    made, first, second = db.history(id_)
    session = (await read(client, id_))["session_id"]
    assert (made["operation"], made["version"], made["actor"], made["session_id"]) == ("create", 1, "mcp", session)
    assert (first["operation"], first["version"], first["session_id"]) == ("update", 2, session)
    told, confirmed = first["changes"]["last_confirmed_at"]
    assert datetime.fromisoformat(told) < datetime.fromisoformat(confirmed)
    assert first["changes"] == {
        "content": ["First.", "Second."], "importance": [0.5, 0.0], "tags": [["alpha"], ["beta"]], "metadata": [{"k": 1}, {"k": 2}],
        "last_confirmed_at": [told, confirmed],
    }  # fmt: skip
    assert second["changes"] == {"tags": [["beta"], []], "detail.category": [[], ["c"]]}
    assert made["at"] < first["at"] < second["at"]


async def test_a_change_that_cannot_be_written_whole_is_not_written_at_all(served: Served) -> None:
    client, db = served.client, served.db
    id_ = await remember(client, "Whole.", tags=["alpha"])
    db.as_login(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$",
        "CREATE TRIGGER broken BEFORE INSERT ON memory_history FOR EACH ROW EXECUTE FUNCTION broken()",
    )
    try:
        error = await refused(client, "update_memory", id=id_, content="Half.", tags=["beta"])
    finally:
        db.as_login("DROP FUNCTION broken CASCADE")

    memory = await read(client, id_)
    assert error["code"] == "DATABASE_ERROR"
    assert (memory["content"], memory["tags"], memory["version"]) == ("Whole.", ["alpha"], 1)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(), VALUES)


@effort(max_examples=examples(30))
@given(OBJECTS, OBJECTS)
def test_merging_the_same_patch_twice_is_merging_it_once(target: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(target, patch)

    assert merge_patch(once, patch) == once
    assert not {key for key, value in patch.items() if value is None} & once.keys()
    assert {key: value for key, value in once.items() if key not in patch} == {
        key: value for key, value in target.items() if key not in patch
    }


# The examples of RFC 7396, appendix A, as far as target and patch are objects.
@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_standard_are_merged_as_it_says(
    target: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]
) -> None:
    assert merge_patch(target, patch) == result
