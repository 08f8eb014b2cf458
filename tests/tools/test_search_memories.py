"""search_memories: what was meant, by meaning and words, among what the filters leave."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from helpers import Answer, Database, Served, call, found, hits, read, refused, remember, remember_expired

FACTS = [
    "Mira's dog is called Mochi.",
    "The staging database listens on port 5433.",
    "Use std::vector, not raw arrays, in the tracker.",
    "Discounts of 15% end on 1 May 2026.",
    "The config key is MAX_RETRY_COUNT.",
    'Ines said "never on Fridays".',
    "민준은 부산에 삽니다.",
    "小美喜歡喝烏龍茶。",
    "The greenhouse needs water every second day.",
    "Tomas flew to Oslo in January.",
]


@pytest.fixture
async def facts(client: Client) -> dict[str, str]:
    answer = await call(client, "create_memories", items=[{"content": fact} for fact in FACTS])
    return {result["memory_id"]: fact for fact, result in zip(FACTS, answer["results"], strict=True)}


@pytest.mark.shows(19)
@pytest.mark.parametrize(
    ("query", "fact"),
    [
        ("What is the name of my dog?", 0),
        ("pet animal", 0),
        ("On which port does staging run?", 1),
        ("std::vector", 2),
        ("15%", 3),
        ("MAX_RETRY_COUNT", 4),
        ("max_retry_count", 4),
        ('"never on fridays"', 5),
        ("부산", 6),
        ("烏龍茶", 7),
        ("watering plants", 8),
        ("Who travelled to Norway?", 9),
    ],
)
async def test_the_memory_that_answers_comes_first(
    client: Client, facts: dict[str, str], query: str, fact: int
) -> None:
    [first, *_] = await found(client, query)

    assert facts[first] == FACTS[fact]


ODD_QUERIES = ["%", "_", '"', "'", "\\", "& | ! ( ) :*", "-", "the of and", "🐙", "a:b <-> c", "x" * 8_000, "$1 %s {0}"]


@pytest.mark.shows(18)
@pytest.mark.parametrize("query", ODD_QUERIES, ids=lambda query: query[:20])
async def test_no_query_is_an_error_because_of_its_signs(client: Client, facts: dict[str, str], query: str) -> None:
    assert len(await hits(client, query, limit=3)) <= 3


async def test_an_answer_has_the_promised_shape(client: Client, facts: dict[str, str]) -> None:
    answer = await call(client, "search_memories", query="Mira's dog", limit=3)

    assert answer["ok"] is True
    assert answer["query"] == "Mira's dog"
    assert answer["count"] == len(answer["results"]) == 3
    assert answer["search"] == "exact"
    assert "degraded" not in answer
    for hit in answer["results"]:
        assert facts[hit["id"]] == hit["content"]
        assert {"type", "status", "importance", "relevance", "created_at"} <= hit.keys()
        assert hit["why"].keys() >= {"similarity", "distance", "words"}
        assert hit["why"]["distance"] == pytest.approx(1 - hit["why"]["similarity"], abs=2e-4)
    scores = [hit["score"] for hit in answer["results"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.shows(21)
@pytest.mark.parametrize("length", [299, 300, 301, 5_000])
async def test_content_is_whole_up_to_three_hundred_characters_and_then_cut_with_a_mark(
    client: Client, length: int
) -> None:
    content = ("word " * 3_000)[: length - 1] + "."
    await remember(client, content)

    [hit] = await hits(client, "word")
    [whole] = await hits(client, "word", detail=True)

    assert whole["content"] == content
    assert "truncated" not in whole
    if length <= 300:
        assert hit["content"] == content
        assert "truncated" not in hit
    else:
        assert hit["content"] == content[:300] + "…"
        assert hit["truncated"] is True


async def test_detail_shows_all_fields(client: Client) -> None:
    await remember(client, "With more to it.", source="mail", metadata={"colour": "red"}, tags=["alpha"])

    [hit] = await hits(client, "more", detail=True)

    assert (hit["source"], hit["metadata"], hit["tags"], hit["version"]) == ("mail", {"colour": "red"}, ["alpha"], 1)


async def test_an_empty_query_lists_the_newest_first(client: Client) -> None:
    ids = [await remember(client, f"Note {n}.") for n in range(5)]

    answer = await call(client, "search_memories", limit=3)
    rest = await call(client, "search_memories", query="  ", limit=3, offset=3)

    assert [hit["id"] for hit in answer["results"]] == ids[:1:-1]
    assert [hit["id"] for hit in rest["results"]] == ids[1::-1]
    assert answer["search"] == "list"


async def test_pages_of_an_answer_follow_each_other(client: Client) -> None:
    await call(client, "create_memories", items=[{"content": f"Tea of sort {n} is green."} for n in range(30)])

    whole = await found(client, "green tea", limit=30)
    pages = [id_ for offset in range(0, 30, 10) for id_ in await found(client, "green tea", limit=10, offset=offset)]

    assert len(set(whole)) == 30
    assert pages == whole


async def test_nothing_found_is_no_error(client: Client) -> None:
    answer = await call(client, "search_memories", query="anything")

    assert (answer["ok"], answer["count"], answer["results"]) == (True, 0, [])


@pytest.mark.shows(17)
async def test_hits_below_the_wanted_similarity_are_cut(client: Client, facts: dict[str, str]) -> None:
    all_ = await hits(client, "a dog's name", limit=10)
    similar = [hit["id"] for hit in all_ if hit["why"]["similarity"] >= 0.2]

    cut = await found(client, "a dog's name", limit=10, min_similarity=0.2)

    assert 0 < len(similar) < len(all_)
    assert cut == similar


async def test_asking_changes_neither_a_memory_nor_the_next_answer(
    client: Client, db: Database, facts: dict[str, str]
) -> None:
    """That it was shown may be counted, but the count weighs nothing."""
    unmoved = {
        "memories": "*, xmin::text", "memory_history": "*, xmin::text", "memory_vectors": "*, xmin::text",
        "memory_activation": "memory_id, importance, rate_per_day, started_at, reinforcement, relevance_anchor",
    }  # fmt: skip

    def state() -> dict[str, list[Answer]]:
        return {table: db.rows(f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3") for table, columns in unmoved.items()}

    before, first = state(), await hits(client, "Mira's dog")
    for _ in range(5):
        await hits(client, "Mira's dog")

    assert [hit["id"] for hit in await hits(client, "Mira's dog")] == [hit["id"] for hit in first]
    assert state() == before


PROBE: dict[str, Any] = {
    "type": "episodic",
    "kind": "error",
    "tags": ["rare", "odd"],
    "importance": 0.75,
    "occurred_at": "2025-06-15T12:00:00Z",
    "user": "Ines",
    "project": "garden",
    "collection": "plants",
    "session_id": "talk-9",
    "speaker": "Tomas",
    "source": "a letter",
    "emotion": "concern",
    "capture_mode": "inferred",
}
OTHER: dict[str, Any] = {
    "type": "semantic",
    "kind": "fact",
    "tags": ["usual", "odd"],
    "importance": 0.25,
    "occurred_at": "2025-01-01T00:00:00Z",
    "user": "Mira",
    "project": "harbour",
    "collection": "moves",
    "session_id": "talk-1",
    "speaker": "Mira",
    "source": "mail",
    "emotion": "neutral",
    "capture_mode": "explicit",
}
FILTERS: dict[str, dict[str, Any]] = {
    "type": {"type": ["episodic"]},
    "types": {"type": ["episodic", "procedural"]},
    "types as text": {"type": "episodic,procedural"},
    "kind": {"kind": ["error"]},
    "kinds as text": {"kind": "error, goal"},
    "tag": {"tags": ["rare"]},
    "any tag": {"tags": ["rare", "nowhere"]},
    "all tags": {"tags": ["rare", "odd"], "tags_match": "all"},
    "tags as text": {"tags": " rare , nowhere"},
    "tag with spaces": {"tags": [" rare "]},
    "at least": {"min_importance": 0.75},
    "between": {"min_importance": 0.5, "max_importance": 0.75},
    "since": {"since": "2025-06-15T12:00:00Z"},
    "since and until": {"since": "2025-06-15T14:00:00+02:00", "until": "2025-06-15T12:00:00Z"},
    "user": {"user": "Ines"},
    "project": {"project": "garden"},
    "collection": {"collection": "plants"},
    "session": {"session_id": "talk-9"},
    "speaker": {"speaker": "Tomas"},
    "source": {"source": "a letter"},
    "emotion": {"emotion": "concern"},
    "mode": {"capture_mode": "inferred"},
    "several": {"user": "Ines", "project": "garden", "type": ["episodic"], "tags": ["odd"]},
}
NARROW = 4
MANY = 100 * NARROW  # four times what a search looks at before it chooses


@pytest.fixture(scope="module")
async def hundreds(serving: Served) -> set[str]:
    """Memories of which one in a hundred is another; returns the ids of these."""
    from helpers import owned_tables

    serving.db.empty(owned_tables())
    rare: set[str] = set()
    for start in range(0, MANY, 200):
        items = [
            # The many say what is asked for more plainly than the few.
            {"content": f"The parcel {n} about the delivery of parcels was delivered.", **OTHER}
            if n % 100
            else {"content": f"Bell {n}.", **PROBE}
            for n in range(start, start + 200)
        ]
        results = (await call(serving.client, "create_memories", items=items))["results"]
        rare |= {result["memory_id"] for item, result in zip(items, results, strict=True) if item["user"] == "Ines"}
    return rare


@pytest.mark.shows(17, 20)
@pytest.mark.parametrize("filters", FILTERS.values(), ids=FILTERS.keys())
async def test_a_filter_that_one_in_a_hundred_passes_still_gives_a_full_answer(
    serving: Served, hundreds: set[str], filters: dict[str, Any]
) -> None:
    for query in ("delivery of parcels", ""):
        assert set(await found(serving.client, query, limit=NARROW, **filters)) == hundreds


@pytest.mark.parametrize(
    "filters",
    [{"tags": ["rare", "usual"], "tags_match": "all"}, {"min_importance": 0.9}, {"until": "2024-12-31T00:00:00Z"},
     {"user": "ina"}, {"kind": ["goal"]}, {"status": "archived"}, {"tags": ["rar"]}, {"max_importance": 0}],
    ids=str,
)  # fmt: skip
async def test_a_filter_that_nothing_passes_gives_an_empty_answer(
    serving: Served, hundreds: set[str], filters: dict[str, Any]
) -> None:
    assert await found(serving.client, "delivery of parcels", **filters) == []
    assert await found(serving.client, **filters) == []


async def test_a_filter_on_the_day_of_storing_holds_for_what_has_no_other_day(client: Client) -> None:
    id_ = await remember(client, "Stored today, happened whenever.")

    assert await found(client, "stored", since="2026-01-01T00:00:00Z") == [id_]
    assert await found(client, "stored", until="2026-01-01T00:00:00Z") == []


@pytest.mark.shows(20)
async def test_zero_is_a_bound_like_any_other(client: Client) -> None:
    zero = await remember(client, "Of no importance.", importance=0)
    await remember(client, "Of some importance.", importance=0.1)

    assert await found(client, "importance", max_importance=0) == [zero]
    assert len(await found(client, "importance", min_importance=0)) == 2


@pytest.mark.shows(13)
async def test_an_expired_memory_is_not_found_and_still_read_by_id(client: Client) -> None:
    id_ = await remember_expired(client, "The offer ends today.")
    later = await remember(client, "The other offer ends later.", expires_at="2099-01-01T00:00:00Z")

    assert await found(client, "offer") == [later]
    assert await found(client) == [later]
    assert (await read(client, id_))["expires_at"] == "2020-01-01T00:00:00Z"


UNFIT = [
    {"limit": 0}, {"limit": "many"}, {"query": "a\0"}, {"type": ["odd"]},
    {"status": "lost"}, {"since": "once"}, {"since": "03/04/2026"}, {"min_importance": 2}, {"tags_match": "none"}, {"bogus": 1},
    {"min_similarity": 2}, {"until": "9999-12-31T23:59:59-05:00"},
]  # fmt: skip


@pytest.mark.parametrize("arguments", UNFIT, ids=lambda arguments: str(arguments)[:30])
async def test_a_question_that_does_not_fit_is_refused_by_name(client: Client, arguments: dict[str, Any]) -> None:
    error = await refused(client, "search_memories", **arguments)

    assert error["code"] == "INVALID_INPUT"
    assert next(iter(arguments)) in error["message"]


@pytest.mark.shows(45)
async def test_the_arguments_may_be_left_out_altogether(client: Client) -> None:
    answer = await client.call_tool("search_memories")

    assert not answer.is_error


def numbers_in(value: Any) -> int:
    """Return the length of the longest list of numbers anywhere in an answer."""
    if isinstance(value, dict):
        return max(map(numbers_in, value.values()), default=0)
    if isinstance(value, list):
        own = sum(isinstance(one, float) for one in value)
        return max([own, *map(numbers_in, value)])
    return 0


@pytest.mark.shows(21)
async def test_no_answer_holds_a_vector(client: Client) -> None:
    vector = [0.1] * 384
    made = await call(client, "create_memory", content="With a vector.", embedding=vector)
    id_ = made["memory_id"]
    answers: list[Answer] = [
        made,
        await call(client, "create_memories", items=[{"content": "Another.", "embedding": vector}]),
        await call(client, "search_memories", query="vector", detail=True),
        await call(client, "search_memories", embedding=vector, detail=True),
        await call(client, "search_memories", detail=True),
        await call(client, "get_memories", ids=[id_]),
        await call(client, "update_memory", id=id_, content="Changed.", dry_run=True),
        await call(client, "update_memory", id=id_, content="Changed."),
        await call(client, "forget_memories", ids=[id_]),
    ]

    assert [numbers_in(answer) for answer in answers] == [0] * len(answers)
    assert all("embedding" not in str(answer) for answer in answers)
