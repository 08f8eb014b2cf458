"""create_memory: one memory of any type, kept as it was told."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from mcp import Client

from helpers import Database, Served, call, examples, found, hits, read, refused, remember
from pgengram.fields import TYPE_OF_KIND, TYPES
from pgengram.inputs import NewMemory
from pgengram.service.manager import MemoryManager

DETAILS: dict[str, dict[str, Any]] = {
    "episodic": {
        "action_taken": {"ran": "migration 12"},
        "context": {"where": "staging", "tries": 0},
        "result": {"ok": False},
        "emotional_valence": -0.5,
        "verification_status": False,
        "event_time": "2026-03-01T08:30:00Z",
    },
    "semantic": {
        "confidence": 0.25,
        "category": ["travel", "dogs"],
        "related_concepts": ["vet"],
        "source_references": [{"url": "https://example.org/a"}],
        "contradictions": ["an older note"],
        "last_validated": "2026-02-01T00:00:00Z",
    },
    "procedural": {
        "steps": ["stop the queue", {"run": "migrate", "times": 1}],
        "prerequisites": {"backup": True},
        "success_count": 3,
        "total_attempts": 4,
        "failure_points": ["the lock"],
        "average_duration": "PT90S",
    },
    "strategic": {
        "pattern_description": "Short cycles find faults sooner.",
        "confidence_score": 0.0,
        "supporting_evidence": [1, 2.5],
        "success_metrics": {"lead time": "2 days"},
        "adaptation_history": [],
        "context_applicability": {"team": "small"},
    },
}
AS_SHOWN = {
    "episodic": {"event_time": "2026-03-01T08:30:00+00:00"},
    "semantic": {"last_validated": "2026-02-01T00:00:00+00:00"},
    "procedural": {"average_duration": "00:01:30", "success_rate": 0.75},
    "strategic": {},
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "episodic": {"emotional_valence": 0.0},
    "semantic": {"category": [], "related_concepts": [], "confidence": 0.8},
    "procedural": {"steps": {}, "prerequisites": {}, "success_count": 0, "total_attempts": 0, "success_rate": 0.0},
    "strategic": {"pattern_description": "Told without any detail.", "confidence_score": 0.7},
}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@pytest.mark.shows(1)
async def test_one_client_stores_a_memory_of_each_type_and_reads_its_detail_back(client: Client) -> None:
    ids = {
        type_: await remember(client, f"A {type_} memory.", type=type_, metadata=detail)
        for type_, detail in DETAILS.items()
    }

    answer = await call(client, "get_memories", ids=list(ids.values()))

    assert answer["missing"] == []
    assert [memory["type"] for memory in answer["memories"]] == list(TYPES)
    for memory in answer["memories"]:
        assert memory["detail"] == DETAILS[memory["type"]] | AS_SHOWN[memory["type"]]


@pytest.mark.parametrize("type_", TYPES)
async def test_the_detail_may_be_told_in_camel_case(client: Client, type_: str) -> None:
    outcome = {camel(name): value for name, value in DETAILS[type_].items()}

    answer = await call(client, "create_memory", content="Told in camelCase.", type=type_, metadata=outcome)

    assert answer["memory"]["detail"] == DETAILS[type_] | AS_SHOWN[type_]
    assert "extra_metadata" not in answer


@pytest.mark.parametrize("type_", TYPES)
async def test_detail_that_is_not_told_has_the_defaults_of_its_type(client: Client, type_: str) -> None:
    answer = await call(client, "create_memory", content="Told without any detail.", type=type_)

    detail = answer["memory"]["detail"]
    if type_ == "episodic":
        assert detail.pop("event_time")[:16] == answer["memory"]["created_at"][:16]
    assert detail == DEFAULTS[type_]


@pytest.mark.parametrize("type_", TYPES)
async def test_detail_told_as_null_has_the_defaults_of_its_type(client: Client, type_: str) -> None:
    nothing = dict.fromkeys(DETAILS[type_])

    answer = await call(client, "create_memory", content="Told without any detail.", type=type_, metadata=nothing)

    detail = answer["memory"]["detail"]
    detail.pop("event_time", None)
    assert detail == DEFAULTS[type_]


@pytest.mark.shows(1)
@pytest.mark.parametrize("type_", TYPES)
async def test_a_memory_and_its_detail_are_one_row_each(client: Client, db: Database, type_: str) -> None:
    id_ = await remember(client, "Once.", type=type_)

    for table in (f"{one}_memories" for one in TYPES):
        rows = db.rows(f"SELECT memory_id::text FROM {table}")
        assert rows == ([{"memory_id": id_}] if table.startswith(type_) else [])


async def test_the_answer_says_what_was_stored(client: Client) -> None:
    answer = await call(client, "create_memory", content="Mira's dog is called Mochi.", tags=["dogs"])

    assert answer["ok"] is True
    assert answer["created"] is True
    assert answer["message"] == "Remembered."
    assert answer["memory_id"] == answer["memory"]["id"]
    assert answer["memory"]["content"] == "Mira's dog is called Mochi."
    whole = await read(client, answer["memory_id"])
    used = {"relevance", "access_count", "last_accessed_at"}
    assert {k: v for k, v in answer["memory"].items() if k not in used} == {
        k: v for k, v in whole.items() if k not in used
    }


@pytest.mark.shows(12, 43)
async def test_every_field_comes_back_as_it_was_told(client: Client) -> None:
    outcome = {
        "content": "Mira Holt signed the lease of the harbour office.",
        "type": "episodic",
        "kind": "observation",
        "importance": 0.9,
        "tags": ["office", "lease"],
        "confidence": 0.4,
        "emotion": "excitement",
        "occurred_at": "2026-03-01T08:30:00Z",
        "expires_at": "2099-01-01T00:00:00Z",
        "pinned": True,
        "source": "mail",
        "source_provider": "a client",
        "capture_mode": "inferred",
        "session_id": "talk-7",
        "speaker": "Mira",
        "user": "Mira Holt",
        "project": "harbour",
        "collection": "moves",
    }

    memory = await read(client, await remember(client, **outcome))

    assert {name: memory[name] for name in outcome} == outcome


async def test_importance_is_a_half_unless_told(client: Client) -> None:
    assert (await read(client, await remember(client, "No weight given.")))["importance"] == 0.5


@pytest.mark.shows(1)
async def test_zero_and_false_stay_zero_and_false(client: Client) -> None:
    outcome = {"verification_status": False, "count": 0, "flag": False, "nothing": None, "empty": "", "list": []}
    id_ = await remember(
        client, "Zero is a value.", type="episodic", importance=0, confidence=0, pinned=False, metadata=outcome
    )

    memory = await read(client, id_)

    assert memory["importance"] == 0
    assert memory["confidence"] == 0
    assert memory["pinned"] is False
    assert memory["detail"]["verification_status"] is False
    assert memory["metadata"] == {"count": 0, "flag": False, "nothing": None, "empty": "", "list": []}


@pytest.mark.shows(1)
async def test_keys_that_are_no_detail_of_the_type_are_kept_and_reported(client: Client) -> None:
    answer = await call(
        client,
        "create_memory",
        content="A fact with more to it.",
        metadata={"category": ["x"], "steps": ["not of this type"], "colour": {"deep": [None, 1.5]}},
    )

    assert answer["extra_metadata"] == ["colour", "steps"]
    assert answer["memory"]["metadata"] == {"steps": ["not of this type"], "colour": {"deep": [None, 1.5]}}
    assert answer["memory"]["detail"]["category"] == ["x"]


async def test_a_detail_told_under_both_of_its_names_loses_neither(client: Client) -> None:
    answer = await call(
        client,
        "create_memory",
        content="Told twice.",
        type="episodic",
        metadata={"action_taken": "first", "actionTaken": "second"},
    )

    assert answer["memory"]["detail"]["action_taken"] == "first"
    assert answer["memory"]["metadata"] == {"actionTaken": "second"}
    assert answer["extra_metadata"] == ["actionTaken"]


async def test_the_confidence_is_one_number_under_the_name_of_its_type(client: Client) -> None:
    fact = await read(client, await remember(client, "Sure of it.", confidence=0.9))
    plan = await read(client, await remember(client, "A plan.", type="strategic", metadata={"confidenceScore": 0.6}))

    assert (fact["confidence"], fact["detail"]["confidence"]) == (0.9, 0.9)
    assert (plan["confidence"], plan["detail"]["confidence_score"]) == (0.6, 0.6)


@pytest.mark.parametrize(("kind", "type_"), TYPE_OF_KIND.items())
async def test_the_type_follows_from_the_kind_when_it_is_not_told(client: Client, kind: str, type_: str) -> None:
    answer = await call(client, "create_memory", content="Of some kind.", kind=kind)

    assert answer["memory"]["type"] == type_


CONTENTS = {
    "spaces inside": "two  before,   three after",
    "windows lines": "first\r\nsecond",
    "emoji": "👩‍👩‍👧‍👦 and 🏳️‍🌈",
    "composed": unicodedata.normalize("NFC", "Zoë Åström"),
    "decomposed": unicodedata.normalize("NFD", "Zoë Åström"),
    "line separators": "a\u2028b\u2029c\x0bd\x85e",
    "quotes and backslashes": 'she said "it\'s" \\n \\\\ \\u0041 $$ %s {x} ; DROP TABLE memories --',
    "controls": "bell\x07 escape\x1b[31m delete\x7f",
    "byte order mark": "\ufeffmarked",
    "noncharacters": "\ufffe \uffff \U0010ffff",
    "json": '{"ok": false, "list": [1, 2]}',
    "number": "12",
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
async def test_the_content_is_kept_byte_for_byte(client: Client, db: Database, content: str) -> None:
    id_ = await remember(client, content)

    assert (await read(client, id_))["content"] == content
    assert db.value("SELECT convert_to(content, 'UTF8') FROM memories") == content.encode()


async def test_sixteen_thousand_characters_are_kept_whatever_their_size_in_bytes(client: Client) -> None:
    content = "🐙" * 16_000

    assert (await read(client, await remember(client, content)))["content"] == content


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "a character too many": ({"content": "x" * 16_001}, "content"),
    "empty": ({"content": ""}, "content"),
    "blank": ({"content": " \n\t\u2003"}, "content"),
    "a NUL": ({"content": "a\0b"}, "content"),
    "no content": ({"type": "semantic"}, "content"),
    "content of another type": ({"content": 12}, "content"),
    "unknown type": ({"content": "x", "type": "emotional"}, "type"),
    "unknown emotion": ({"content": "x", "emotion": "anger"}, "emotion"),
    "unknown mode": ({"content": "x", "capture_mode": "guessed"}, "capture_mode"),
    "importance above 1": ({"content": "x", "importance": 1.01}, "importance"),
    "importance below 0": ({"content": "x", "importance": -0.1}, "importance"),
    "confidence above 1": ({"content": "x", "confidence": 2}, "confidence"),
    "one of two days": ({"content": "x", "occurred_at": "03/04/2026"}, "2026-04-03"),
    "no moment": ({"content": "x", "occurred_at": "when it rained"}, "occurred_at"),
    "seventeen tags": ({"content": "x", "tags": [f"t{n}" for n in range(17)]}, "tags"),
    "a long tag": ({"content": "x", "tags": ["t" * 65]}, "tags"),
    "a NUL in a tag": ({"content": "x", "tags": ["a\0"]}, "tags"),
    "a long name": ({"content": "x", "user": "u" * 257}, "user"),
    "a NUL in a name": ({"content": "x", "project": "p\0"}, "project"),
    "detail out of bounds": ({"content": "x", "type": "episodic", "metadata": {"emotional_valence": 1.5}}, "valence"),
    "detail of another kind": ({"content": "x", "metadata": {"category": 7}}, "category"),
    "more successes than attempts": (
        {"content": "x", "type": "procedural", "metadata": {"success_count": 5, "total_attempts": 4}},
        "attempts",
    ),
    "successes without attempts": (
        {"content": "x", "type": "procedural", "metadata": {"success_count": 5}},
        "attempts",
    ),
    "detail with a NUL": ({"content": "x", "metadata": {"category": ["a\0"]}}, "NUL"),
    "metadata with a NUL": ({"content": "x", "metadata": {"a": {"b": "\0"}}}, "NUL"),
    "a key with a NUL": ({"content": "x", "metadata": {"\0": 1}}, "NUL"),
    "metadata that is a list": ({"content": "x", "metadata": [1]}, "metadata"),
    "metadata too large": ({"content": "x", "metadata": {"a": "x" * 65_536}}, "65536"),
}
BEYOND_CALENDARS = {"after": "9999-12-31T23:59:59-05:00", "before": "0001-01-01T00:00:00+05:00"}


@pytest.mark.shows(4)
@pytest.mark.parametrize(("arguments", "names"), UNFIT.values(), ids=UNFIT.keys())
async def test_what_does_not_fit_is_refused_by_name_and_nothing_is_stored(
    client: Client, db: Database, arguments: dict[str, Any], names: str
) -> None:
    error = await refused(client, "create_memory", **arguments)

    assert error["code"] == "INVALID_INPUT"
    assert names in error["message"]
    assert error["hint"]
    assert db.rows("SELECT true FROM memories") == []


@pytest.mark.parametrize("field", ["occurred_at", "expires_at"])
@pytest.mark.parametrize("moment", BEYOND_CALENDARS.values(), ids=BEYOND_CALENDARS.keys())
async def test_a_moment_beyond_the_calendar_is_refused(client: Client, field: str, moment: str) -> None:
    error = await refused(client, "create_memory", content="x", **{field: moment})

    assert error["code"] == "INVALID_INPUT"


@pytest.mark.parametrize("moment", ["0001-01-03T00:00:00+14:00", "9999-12-29T00:00:00-12:00", "1600-02-29T12:00:00Z"])
async def test_moments_near_the_ends_of_the_calendar_are_kept(client: Client, moment: str) -> None:
    answer = await call(client, "create_memory", content="Long ago, or far ahead.", occurred_at=moment)

    assert (await read(client, answer["memory_id"]))["occurred_at"][-1] == "Z"


@pytest.mark.shows(13)
async def test_an_end_more_than_a_century_ahead_is_refused(client: Client, db: Database) -> None:
    now = datetime.now(UTC)
    for tool, more in (
        ("create_memory", {"content": "x"}),
        ("update_memory", {"id": await remember(client, "Stays.")}),
    ):
        error = await refused(client, tool, expires_at=(now + timedelta(days=36_526)).isoformat(), **more)

        assert error["code"] == "INVALID_INPUT"
        assert "100 years" in error["message"]
    assert db.value("SELECT count(*) FROM memories WHERE expires_at IS NOT NULL") == 0
    await remember(client, "Nearly a century.", expires_at=(now + timedelta(days=36_524)).isoformat())


async def test_an_unknown_argument_is_refused_with_a_hint(client: Client, db: Database) -> None:
    error = await refused(client, "create_memory", content="x", importence=0.9)

    assert error["code"] == "INVALID_INPUT"
    assert "importence" in error["message"]
    assert "importance" in error["message"]
    assert db.rows("SELECT true FROM memories") == []


@pytest.mark.shows(4)
async def test_a_weight_that_may_be_of_three_or_of_ten_is_refused_with_the_way_to_say_it(client: Client) -> None:
    error = await refused(client, "create_memory", content="x", importance=2)

    assert "divide by 10" in error["message"]


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


async def test_metadata_may_be_twenty_deep_and_no_deeper(client: Client) -> None:
    kept = await call(client, "create_memory", content="Deep.", metadata=nested(20))
    error = await refused(client, "create_memory", content="Deeper.", metadata=nested(21))

    assert kept["memory"]["metadata"] == nested(20)
    assert "20" in error["message"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
async def test_what_json_cannot_hold_is_refused_in_metadata(value: Any) -> None:
    from pgengram.errors import InvalidInput
    from pgengram.inputs import validated

    with pytest.raises(InvalidInput, match="metadata"):
        validated(NewMemory, {"content": "x", "metadata": {"deep": [value]}})


@pytest.mark.parametrize("tags", [["Tea", " green "], "Tea, green", "Tea,green,,Tea", '["Tea","green"]'])
async def test_tags_may_be_a_list_or_a_text_with_commas(client: Client, tags: object) -> None:
    answer = await call(client, "create_memory", content="Tea again.", tags=tags)

    assert answer["memory"]["tags"] == ["tea", "green"]


async def test_the_last_sentence_of_sixteen_thousand_characters_is_found(client: Client) -> None:
    last = "Mira's octopus opens jars of pickles."
    filler = "The tax office moved its counters to the second floor of the annex. "
    long = (filler * 300)[: 16_000 - len(last)] + last
    id_ = await remember(client, long)
    nearer_than_the_filler = ["The aquarium has a shark.", "The pot has a lid of glass.", "Seals live by the sea."]
    await call(client, "create_memories", items=[{"content": content} for content in nearer_than_the_filler])

    [first, *_] = await hits(client, "Which creature with eight arms can open preserved cucumbers?")

    assert first["id"] == id_
    assert first["why"]["similarity"] > 0.15  # of its last part, most of which is filler too; the first has about 0


@pytest.mark.shows(2)
async def test_a_vector_of_ones_own_is_taken_instead_of_the_text(client: Client, db: Database) -> None:
    vector = [0.0] * 384
    vector[7] = 5.0  # any length will do

    own = await remember(client, "Anything at all.", embedding=vector)
    await remember(client, "Something else.")

    assert db.value("SELECT embedding::text FROM memory_vectors WHERE memory_id = %s", [own]).count("1") == 1
    assert (await found(client, embedding=vector, limit=1)) == [own]


WRONG_VECTORS = {"short": [0.1] * 3, "empty": [], "zero": [0.0] * 384, "endless": [1e308] * 384, "text": ["a"] * 384}


@pytest.mark.parametrize("vector", WRONG_VECTORS.values(), ids=WRONG_VECTORS.keys())
async def test_a_vector_that_cannot_be_compared_is_refused(client: Client, db: Database, vector: list[float]) -> None:
    for tool, arguments in (("create_memory", {"content": "x"}), ("search_memories", {"query": "x"})):
        error = await refused(client, tool, **arguments, embedding=vector)
        assert error["code"] == "INVALID_INPUT"
        assert "embedding" in error["message"]
    assert db.rows("SELECT true FROM memories") == []


async def test_a_vector_that_is_no_number_is_refused() -> None:
    from pgengram.errors import InvalidInput
    from pgengram.service.active_model import unit_vector

    with pytest.raises(InvalidInput):
        unit_vector([float("nan")] * 384, 384)


@pytest.mark.shows(1)
@pytest.mark.parametrize("type_", TYPES)
async def test_no_half_of_a_memory_is_stored_when_its_detail_cannot_be(served: Served, type_: str) -> None:
    client, db = served.client, served.db
    db.as_login(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$",
        f"CREATE TRIGGER broken BEFORE INSERT ON {type_}_memories FOR EACH ROW EXECUTE FUNCTION broken()",
    )
    try:
        error = await refused(client, "create_memory", content="Never half.", type=type_)
    finally:
        db.as_login("DROP FUNCTION broken CASCADE")

    assert error["code"] == "DATABASE_ERROR"
    assert "Never half" not in str(error)
    for table in ("memories", "memory_activation", "memory_vectors", "memory_history", f"{type_}_memories"):
        assert db.rows(f"SELECT true FROM {table}") == []
    assert (await call(client, "create_memory", content="Never half.", type=type_))["created"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
CONTENT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=200).filter(
    lambda text: text.strip()
)


@effort(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    type_=st.sampled_from(TYPES),
    content=CONTENT,
    importance=st.floats(0, 1),
    extra=st.dictionaries(st.text("xyz_ é", min_size=1, max_size=8), JSON, max_size=4),
)
async def test_whatever_is_stored_is_read_back(
    manager: MemoryManager, type_: str, content: str, importance: float, extra: dict[str, Any]
) -> None:
    new = NewMemory.model_validate({"type": type_, "content": content, "importance": importance, "metadata": extra})

    stored = await manager.create_memory(new)
    [memory] = (await manager.get_memories([stored.memory_id])).memories

    event(f"created: {stored.created}")
    if stored.created:
        assert memory["content"] == content.strip(" \t\r\n")
        assert memory["importance"] == importance
        assert memory.get("metadata", {}) == extra
