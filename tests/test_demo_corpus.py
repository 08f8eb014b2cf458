"""The demo corpus: complete, consistent, recent, and asked about in other words."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgengram.demo import Corpus, DemoQuestion, load_corpus
from pgengram.details import DETAILS, split_metadata
from pgengram.fields import TYPE_OF_KIND, TYPES
from pgengram.inputs import NewMemory

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEVEN_WEEKS = timedelta(days=50)  # the oldest day is 49 days back, and it begins at midnight
CHANGED = [
    ("office-old", "office-new"),
    ("staging-port-old", "staging-port-new"),
    ("bramble-vans-old", "bramble-vans-new"),
    ("lucia-dinosaurs", "lucia-octopus"),
    ("ayo-cello", "ayo-trombone"),
    ("tomas-coffee", "tomas-tea"),
    ("launch-old", "launch-new"),
]
GRAMMAR = frozenset(
    re.findall(
        r"\w+",
        """a an and are at be been before did do does for has have he her his how in is it just most of on or our out
        she so that the their they to us was we were what when which who whose why will with""",
    )
)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus(NOON)


def word_stems(text: str) -> set[str]:
    """Words that carry meaning, cut to five letters so that a word and its inflections count as one."""
    return {word[:5] for word in re.findall(r"\d+(?:\.\d+)?|[^\W\d_]+", text.lower()) if word not in GRAMMAR}


def people_and_products(question: str) -> set[str]:
    """Capitalised words after the first one."""
    return word_stems(" ".join(re.findall(r"(?<=\s)[^\W\d_a-z]\w+", question)))


def shared_words(corpus: Corpus, question: DemoQuestion) -> set[str]:
    """What a keyword search could use, names aside: they are in many memories."""
    answer = word_stems(corpus.memory(question.expects).content)
    return (word_stems(question.question) & answer) - people_and_products(question.question)


def test_there_are_at_least_ninety_memories_and_twelve_of_each_type(corpus: Corpus) -> None:
    per_type = Counter(memory.type for memory in corpus.memories)

    assert per_type.total() >= 90
    assert set(per_type) == set(TYPES)
    assert min(per_type.values()) >= 12


def test_every_key_is_used_once(corpus: Corpus) -> None:
    keys = [memory.key for memory in corpus.memories]

    assert len(keys) == len(set(keys))


def test_every_content_is_one_short_statement_of_its_own(corpus: Corpus) -> None:
    contents = [memory.content for memory in corpus.memories]

    assert len(contents) == len(set(contents))
    assert all(40 <= len(content) <= 400 for content in contents)
    assert not any("{" in content for content in contents)


def test_a_kind_always_belongs_to_the_type_it_stands_beside(corpus: Corpus) -> None:
    assert all(TYPE_OF_KIND[memory.kind] == memory.type for memory in corpus.memories if memory.kind)


def test_the_server_accepts_every_memory_as_it_is(corpus: Corpus) -> None:
    for memory in corpus.memories:
        accepted = NewMemory.model_validate(memory.arguments())

        assert accepted.content == memory.content
        assert accepted.occurred_at == memory.occurred_at


def test_all_metadata_is_detail_of_the_memory_s_type(corpus: Corpus) -> None:
    for memory in corpus.memories:
        known, unknown = split_metadata(memory.type, dict(memory.metadata or {}))

        assert not unknown, memory.key
        DETAILS[memory.type].model_validate(known)


def test_nothing_is_sent_for_what_a_memory_does_not_have(corpus: Corpus) -> None:
    sent = corpus.memory("company").arguments()

    assert sent["occurred_at"] == "2026-01-11T09:10:00+00:00"
    assert "session_id" not in sent
    assert "speaker" not in sent


@given(st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2090, 1, 1), timezones=st.just(UTC)))
def test_at_any_time_all_memories_lie_in_the_last_seven_weeks(now: datetime) -> None:
    moments = [memory.occurred_at for memory in load_corpus(now).memories]

    assert moments == sorted(moments)
    assert now - moments[0] < SEVEN_WEEKS + timedelta(days=1)
    assert moments[-1] < now


def test_today_is_the_one_of_utc_wherever_the_caller_is() -> None:
    in_tokyo = datetime(2026, 3, 2, 1, tzinfo=timezone(timedelta(hours=9)))

    assert load_corpus(in_tokyo) == load_corpus(datetime(2026, 3, 1, 16, tzinfo=UTC))


def test_dates_inside_the_texts_move_with_the_present(corpus: Corpus) -> None:
    month_later = load_corpus(NOON + timedelta(days=30))

    assert "25 March 2026" in corpus.memory("launch-new").content
    assert "24 April 2026" in month_later.memory("launch-new").content


@pytest.mark.parametrize(("before", "after"), CHANGED)
def test_what_changed_is_told_later_than_what_it_replaces(corpus: Corpus, before: str, after: str) -> None:
    assert corpus.memory(before).occurred_at < corpus.memory(after).occurred_at


def test_two_conversations_are_told_turn_by_turn(corpus: Corpus) -> None:
    turns = [memory for memory in corpus.memories if memory.session_id]

    assert len({turn.session_id for turn in turns}) == 2
    for session in {turn.session_id for turn in turns}:
        speakers = [turn.speaker for turn in turns if turn.session_id == session]
        assert len(speakers) >= 6
        assert all(one != next_ for one, next_ in pairwise(speakers))


def test_questions_expect_memories_of_all_types_and_the_newer_of_two_facts(corpus: Corpus) -> None:
    expected = [question.expects for question in corpus.questions]

    assert len(expected) == len(set(expected)) >= 16
    assert {corpus.memory(key).type for key in expected} == set(TYPES)
    assert len(set(expected) & {after for _, after in CHANGED}) >= 4
    assert not set(expected) & {before for before, _ in CHANGED}


def test_questions_ask_in_other_words_than_their_memories_use(corpus: Corpus) -> None:
    shared = [shared_words(corpus, question) for question in corpus.questions]

    assert max(len(words) for words in shared) <= 2
    assert sum(not words for words in shared) >= 0.9 * len(shared)


def test_an_unknown_key_is_refused(corpus: Corpus) -> None:
    with pytest.raises(KeyError):
        corpus.memory("no-such-memory")
