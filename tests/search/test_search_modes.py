"""The four modes of search_memories: what was meant, what was written, and no text that is an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st
from mcp import Client

from helpers import Database, Served, call, connected, examples, found, hits, owned_tables, refused, remember
from pgengram.errors import InvalidInput
from pgengram.inputs import NewMemory, Question
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

FACTS = {
    "dog": "My dog is Mochi.",
    "tea": "Ines drinks green tea in the morning.",
    "reversed": "The tea house has a green door.",
    "percent": "Discounts of 15% end soon.",
    "fifteen": "Discounts of 150 end soon.",
    "underscore": "The file is called a_b.txt.",
    "letter": "The file is called axb.txt.",
    "backslash": "It lies in D:\\temp\\new.",
    "vector": "Use std::vector in the tracker.",
    "key": "Set PGENGRAM_X to nothing.",
    "version": "Release v1.2.3 is out.",
    "language": "The tracker is written in C++.",
    "mail": "Write to user@host about it.",
    "chinese": "小美喜歡喝烏龍茶。",
    "mixed": "我用Python写代码。",
    "japanese": "東京でコーヒーを飲みました。",
    "korean": "민준은 부산에 삽니다.",
    "thai": "ฉันชอบดื่มกาแฟเย็น",
    "hindi": "मुझे मिठाई में जलेबी पसंद है।",
    "tamil": "எனக்கு இட்லி பிடிக்கும்.",
    "arabic": "ميرا تشرب القهوة صباحا.",
}
MODES = ("auto", "semantic", "text", "substring")


@pytest.fixture(scope="module")
async def facts(serving: Served) -> dict[str, str]:
    """Facts that no test of this module changes; ids by their short name."""
    serving.db.empty(owned_tables())
    answer = await call(serving.client, "create_memories", items=[{"content": fact} for fact in FACTS.values()])
    return {result["memory_id"]: name for name, result in zip(FACTS, answer["results"], strict=True)}


async def names(serving: Served, facts: dict[str, str], query: str, **more: Any) -> list[str]:
    return [facts[id_] for id_ in await found(serving.client, query, **more)]


@pytest.mark.shows(17, 19)
async def test_a_question_finds_its_answer(serving: Served, facts: dict[str, str]) -> None:
    for mode in ("auto", "semantic"):
        assert (await names(serving, facts, "What is the name of my dog?", mode=mode))[0] == "dog"


TEXT = [
    ("dog", ["dog"]), ("DOGS", ["dog"]), ("green tea", ["reversed", "tea"]), ('"green tea"', ["tea"]), ('"GREEN  tea"', ["tea"]),
    ("green -tea", []), ("green -door", ["tea"]), ('green -"green tea"', ["reversed"]), ("dog or tea", ["dog", "reversed", "tea"]),
    ("tea -", ["reversed", "tea"]), ('tea "', ["reversed", "tea"]), ('tea -"', ["reversed", "tea"]), ("std::vector", ["vector"]),
    ("PGENGRAM_X", ["key"]), ("pgengram_x", ["key"]), ("v1.2.3", ["version"]), ("C++", ["language"]), ("user@host", ["mail"]),
    ("tracker -C++", ["vector"]), ("tracker -std::vector", ["language"]), ("烏龍茶", ["chinese"]), ("烏龍", ["chinese"]),
    ("喜歡 -烏龍茶", []), ("Python", ["mixed"]), ("写代码", ["mixed"]), ("東京", ["japanese"]), ("コーヒー", ["japanese"]), ("부산", ["korean"]),
    ("กาแฟ", ["thai"]), ("जलेबी", ["hindi"]), ("இட்லி", ["tamil"]), ("القهوة", ["arabic"]), ("the of and", []), ("", None), ("?!", []), ("zebra", []),
]  # fmt: skip


@pytest.mark.shows(18)
@pytest.mark.parametrize(("query", "expected"), TEXT, ids=[query for query, _ in TEXT])
async def test_mode_text_finds_words_phrases_and_keeps_out_what_is_unwanted(
    serving: Served, facts: dict[str, str], query: str, expected: list[str] | None
) -> None:
    answered = await names(serving, facts, query, mode="text", limit=50)
    counted = await call(serving.client, "search_memories", query=query, mode="text", count_only=True)

    assert sorted(answered) == sorted(FACTS if expected is None else expected)
    assert counted["total"] == len(answered)


SUBSTRING = [
    ("15%", ["percent"]), ("a_b", ["underscore"]), ("A_B.TXT", ["underscore"]), ("\\temp\\", ["backslash"]), ("\\", ["backslash"]),
    ("%", ["percent"]), ("_", ["key", "underscore"]), ("烏龍", ["chinese"]), ("ธ", []), ("og is Mo", ["dog"]), ("%s", []),
    (".txt.", ["letter", "underscore"]), ("'", []), ("++", ["language"]),
]  # fmt: skip


@pytest.mark.shows(18)
@pytest.mark.parametrize(("query", "expected"), SUBSTRING, ids=[query for query, _ in SUBSTRING])
async def test_mode_substring_takes_every_character_for_itself(
    serving: Served, facts: dict[str, str], query: str, expected: list[str]
) -> None:
    answer = await call(serving.client, "search_memories", query=query, mode="substring", limit=50)
    counted = await call(serving.client, "search_memories", query=query, mode="substring", count_only=True)

    assert sorted(facts[hit["id"]] for hit in answer["results"]) == expected
    assert counted["total"] == len(expected)
    assert answer["search"] == "list"


async def test_mode_semantic_looks_at_meaning_alone(serving: Served, facts: dict[str, str]) -> None:
    all_ = await hits(serving.client, "which pet do I own?", mode="semantic", limit=50)

    assert facts[all_[0]["id"]] == "dog"
    similarities = [hit["why"]["similarity"] for hit in all_]
    assert similarities == sorted(similarities, reverse=True)
    assert {hit["why"]["words"] for hit in all_} == {0}
    assert len(all_) == len(FACTS)


@pytest.mark.parametrize("query", ["", "   ", "\t\n"])
@pytest.mark.parametrize("mode", ["auto", "semantic", "text"])
async def test_a_question_without_words_is_a_list(
    serving: Served, facts: dict[str, str], query: str, mode: str
) -> None:
    answer = await call(serving.client, "search_memories", query=query, mode=mode, limit=50)

    assert (answer["search"], answer["count"]) == ("list", len(FACTS))


@pytest.mark.parametrize("query", ["the of and", "?!", "…", "-", '"', "🐙"])
async def test_a_question_of_nothing_but_signs_or_stop_words_finds_no_words(
    serving: Served, facts: dict[str, str], query: str
) -> None:
    for mode in ("auto", "semantic"):
        assert {hit["why"]["words"] for hit in await hits(serving.client, query, mode=mode)} == {0}
    assert await found(serving.client, query, mode="text") == []


@pytest.mark.shows(19)
async def test_every_hit_says_why_it_was_found(serving: Served, facts: dict[str, str]) -> None:
    answer = await call(serving.client, "search_memories", query="green tea", limit=50)

    assert answer["search"] == "exact"
    assert max(hit["why"]["words"] for hit in answer["results"]) == 1
    for hit in answer["results"]:
        why = hit["why"]
        assert why["similarity"] + why["distance"] == pytest.approx(1, abs=2e-4)
        assert 0 <= why["words"] <= 1
        assert 0 <= why["relevance"] <= 1
        assert ("words" in why["found_by"]) == (why["words"] > 0)
    # Outside conversations the order is that of 0.6 meaning + 0.4 words, and small change for time and relevance.
    fits = [0.6 * hit["why"]["similarity"] + 0.4 * hit["why"]["words"] for hit in answer["results"]]
    assert all(fit >= after - 0.15 for fit, after in pairwise(fits))


UNFIT: list[tuple[str, dict[str, Any]]] = [
    ("a zero vector", {"embedding": [0.0] * 384}),
    ("a short vector", {"embedding": [0.1] * 383}),
    ("an empty vector", {"embedding": []}),
    ("a huge vector", {"embedding": [1e308] * 384}),
    ("a vector of words", {"embedding": ["a"] * 384}),
    ("no limit", {"limit": 0}),
    ("the 30th of February", {"since": "2026-02-30T00:00:00Z"}),
    ("the year 0", {"until": "0000-01-01T00:00:00Z"}),
    ("as of never", {"as_of": "9999-12-31T23:59:59Z"}),
    ("an unknown filter", {"colour": "red"}),
    ("an unknown mode", {"mode": "fuzzy"}),
    ("an unknown order", {"sort": "content; DROP TABLE memories"}),
]


@pytest.mark.parametrize("arguments", [arguments for _, arguments in UNFIT], ids=[name for name, _ in UNFIT])
async def test_what_cannot_be_asked_is_refused_by_name(serving: Served, arguments: dict[str, Any]) -> None:
    error = await refused(serving.client, "search_memories", **arguments)

    assert error["code"] == "INVALID_INPUT"
    assert next(iter(arguments)) in error["message"]


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ({"limit": 10**9}, "1000000000 → 100"),
        ({"offset": 10**9}, "1000000000 → 10000"),
        ({"now": "2026-01-01T12:00:00"}, "2026-01-01T12:00:00 → 2026-01-01T12:00:00Z"),
        ({"query": "x" * 8_001}, "8001 characters → its beginning and end"),
        ({"max_chars": 0}, "0 → 100"),
    ],
)
async def test_what_has_a_plain_meaning_is_read_so_and_the_answer_says_how(
    serving: Served, arguments: dict[str, Any], read: str
) -> None:
    answer = await call(serving.client, "search_memories", **arguments)

    assert answer["read"] == {next(iter(arguments)): read}


# -- in this process -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def asked(serving: Served, facts: dict[str, str]) -> AsyncIterator[MemoryManager]:
    """A manager on the same facts, for questions by the hundred."""
    manager = MemoryManager(Settings(database_url=serving.db.url))
    yield manager
    await manager.close()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
async def test_a_vector_of_what_is_no_number_is_refused(asked: MemoryManager, bad: float) -> None:
    with pytest.raises(InvalidInput, match="finite"):
        await asked.search_memories(Question(embedding=[bad] + [0.1] * 383))


SIGNS = st.sampled_from(
    ['"', "'", "-", "--", '-"', "%", "_", "\\", "&", "|", "!", ":*", "<->", "(", ")", " or ", " OR ", " AND ", "\x01", "\x1b[2J",
     "\u202e", "\u200b", "🐙", "👩‍👩‍👧", "\u0301", "茶", "ก", "ſ", "ı", "İ", "C++", "std::", "\n", "\u2028", "$1", "%s", "{0}", "dog",
     "last", "March", "31 February", "a@b", "\U0010ffff"]
)  # fmt: skip
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60) | st.lists(
    SIGNS, max_size=12
).map("".join)


@pytest.mark.parametrize("mode", MODES)
async def test_no_text_is_an_error_in_any_mode(asked: MemoryManager, mode: Any) -> None:
    loop = asyncio.get_running_loop()

    @effort(max_examples=examples(15))
    @given(query=ANY_TEXT)
    def law(query: str) -> None:
        search = asked.search_memories(Question(query=query, mode=mode, limit=3))
        answer = asyncio.run_coroutine_threadsafe(search, loop).result()
        assert answer.count == len(answer.results) <= 3

    await asyncio.to_thread(law)


LONG = ["last ", "x ", "茶", '-"a', *'x"🐙\x01', "a_", "-a ", "1 ", "é" * 3 + " "]


@pytest.mark.parametrize(
    ("mode", "piece"),
    [
        # To embed thousands of pieces takes seconds, whatever the piece is.
        pytest.param(mode, piece, marks=[pytest.mark.nightly] * (place > (3 if mode in ("text", "substring") else 0)))
        for mode in MODES
        for place, piece in enumerate(LONG)
    ],
)
async def test_no_length_is_an_error_in_any_mode(asked: MemoryManager, mode: Any, piece: str) -> None:
    query = (piece * 8_000)[:8_000]

    assert (await asked.search_memories(Question(query=query, mode=mode))).ok


# -- among many ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def many(manager: MemoryManager) -> MemoryManager:
    """A hundred and fifty memories of the same words, and one that has them in another order among many others."""
    await manager.create_memories([{"content": f"tea green {n}"} for n in range(150)])
    far = "Every evening of the long winter in the far north we would drink a cup of green tea and talk of ships."
    await manager.create_memory(NewMemory(content=far))
    return manager


async def test_a_phrase_is_found_behind_any_number_of_better_matches(many: MemoryManager) -> None:
    answer = await many.search_memories(Question(query='"green tea"', mode="text"))

    assert [hit["content"][:13] for hit in answer.results] == ["Every evening"]


async def test_all_that_match_are_counted_and_can_be_paged_through(many: MemoryManager) -> None:
    counted = await many.search_memories(Question(query="green tea -ships", mode="text", count_only=True))
    pages = [
        (await many.search_memories(Question(query="green tea -ships", mode="text", limit=40, offset=offset))).results
        for offset in range(0, 200, 40)
    ]

    assert (counted.total, counted.count, counted.results) == (150, 0, [])
    assert [len(page) for page in pages] == [40, 40, 40, 30, 0]
    assert len({hit["id"] for page in pages for hit in page}) == 150


async def test_a_turn_without_a_vector_is_no_hit_by_meaning(client: Client, db: Database) -> None:
    """Told while no embedder was set, next to a turn that is found."""
    ladder = await remember(client, "Where do you keep the ladder?", session_id="talk", speaker="Ann")
    async with connected(database_url=db.url, embedder="none:") as other:
        shed = await remember(other, "In the shed.", session_id="talk", speaker="Bob")

    assert await found(client, "ladder", mode="semantic") == [ladder]
    assert await found(client, "ladder", mode="text") == [ladder]
    assert sorted(await found(client, "ladder")) == sorted([ladder, shed])
