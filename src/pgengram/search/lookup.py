"""What the memories know of a question: how rare its words are, which are names, and which memories its ids mean."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final
from uuid import UUID

from pgengram.fields import ID_DIGITS
from pgengram.ids import short
from pgengram.search.filters import Asked, AskedWord, Parsed
from pgengram.search.question import Vocabularies, meaning
from pgengram.search.vector_index import MEMORIES_TO_TELL
from pgengram.store.connection.database import Row, Transaction
from pgengram.text.languages import language_data
from pgengram.text.words import beginning, foreign_stems, term_hash, words

COMMON_SHARE: Final = 0.2  # of the memories that have a name: then most are about its bearer, and it tells nothing
MAX_TYPED: Final = 8  # words of a question in which a word that no memory has may be a beginning or a slip

DEAR: Final = 2_000  # rows whose counting is worth remembering
LARGE: Final = 500  # memories from which on a few more don't change how rare a word is
GOOD_FOR_S: Final = 60.0
MAX_KNOWN: Final = 10_000

# How many memories have each of the terms `words`: those that wait, looked at once for all terms, and those in posting
# lists. Uses memory_words_waiting and memory_posting_lists_pkey.
WAITING: Final = """named AS MATERIALIZED (
  SELECT coalesce(array_agg(term), '{}') AS terms FROM (SELECT term FROM words UNION SELECT name FROM words) AS t WHERE term IS NOT NULL
), waiting AS MATERIALIZED (
  SELECT t.term, count(*) AS memories FROM memory_words w CROSS JOIN LATERAL unnest(w.terms) AS t(term)
  WHERE w.namespace_id = %(namespace_id)s AND w.segment IS NULL AND w.terms && (SELECT terms FROM named)
    AND t.term = ANY((SELECT terms FROM named)::integer[]) GROUP BY t.term
)"""
COUNTED: Final = """coalesce((SELECT memories FROM waiting WHERE waiting.term = words.term), 0)
  + (SELECT coalesce(sum(cardinality(l.measures)), 0) FROM memory_posting_lists l
     WHERE l.namespace_id = %(namespace_id)s AND l.term = words.term)::bigint"""
# The same two tell which words are somebody's name. A LIMIT each, as EXISTS might be answered by reading all lists of
# the namespace.
LOOK_UP_WORDS: Final = """
WITH words AS MATERIALIZED (
  SELECT w.position, t.term, k.term AS name
  FROM unnest(%(words)s::text[], %(lowered)s::text[]) WITH ORDINALITY AS w(word, lowered, position)
  LEFT JOIN LATERAL pgengram_terms(w.word, '{}') AS t ON true
  LEFT JOIN LATERAL pgengram_terms('', ARRAY['speaker:' || w.lowered]) AS k ON true
  UNION ALL
  SELECT 0, t.term, NULL FROM pgengram_terms('', %(extra)s::text[]) AS t
), [waiting]
SELECT position, term,
  coalesce(
    (SELECT true FROM waiting WHERE waiting.term = words.name LIMIT 1),
    (SELECT true FROM memory_posting_lists l WHERE l.namespace_id = %(namespace_id)s AND l.term = words.name LIMIT 1), false) AS is_name,
  CASE WHEN term IS NOT NULL AND term <> ALL(%(known)s::integer[]) THEN [counted] END AS memories
FROM words
""".replace("[waiting]", WAITING).replace("[counted]", COUNTED)
HASH_TERMS: Final = "SELECT term FROM pgengram_terms(%(words)s, '{}')"
# Only the words of active memories are found, so only they are the whole that a share is of. They are counted in an
# index; for their mean length rows have to be read, and some thousands tell it well enough. Uses memory_words_waiting
# and memory_words_by_segment.
COUNT_MEMORIES: Final = """
SELECT waiting.memories + compacted.memories AS memories, mean.length AS mean_length
FROM (SELECT count(*) AS memories FROM memory_words WHERE namespace_id = %(namespace_id)s AND segment IS NULL) AS waiting
CROSS JOIN (SELECT count(*) AS memories FROM memory_words WHERE namespace_id = %(namespace_id)s AND segment > 0) AS compacted
CROSS JOIN (
  SELECT coalesce(avg(length), 0)::double precision AS length FROM (
    SELECT length FROM memory_words WHERE namespace_id = %(namespace_id)s AND segment IS DISTINCT FROM 0
    LIMIT 20000) AS some_of_them) AS mean
"""


@dataclass(slots=True)
class Frequencies:
    """How many memories there are and how many have a term, remembered where counting is dear.

    A count that was small is made again each time; a large one is close enough for a minute. Which words were names of
    speakers at their last look-up is only a guess of which are now.
    """

    _known: dict[tuple[int, int], tuple[float, int]] = field(default_factory=dict)
    _sizes: dict[int, tuple[float, int, float]] = field(default_factory=dict)
    _terms: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    vocabularies: Vocabularies = field(default_factory=Vocabularies)

    async def size(self, tx: Transaction) -> tuple[int, float]:
        """Return the number of memories with words, and their mean number of terms."""
        known = self._sizes.get(tx.namespace_id)
        if known is not None and time.monotonic() < known[0]:
            return known[1], known[2]
        row = await tx.row(COUNT_MEMORIES)
        size = (row["memories"], row["mean_length"]) if row else (0, 0.0)
        if size[0] > LARGE:
            self._sizes[tx.namespace_id] = (time.monotonic() + GOOD_FOR_S, *size)
        return size

    def known(self, namespace_id: int, asked: Sequence[str]) -> dict[int, int]:
        """Return in how many memories the terms of these words are, where that is remembered."""
        now = time.monotonic()
        terms = {term for word in asked for term in self._terms.get(word, ())}
        found = {term: self._known.get((namespace_id, term), (0.0, 0)) for term in terms}
        return {term: memories for term, (until, memories) in found.items() if until > now}

    def note(self, namespace_id: int, asked: Sequence[str], rows: Sequence[Row]) -> dict[int, int]:
        """Return the counts that a look-up has brought, and remember the large ones and the words' terms."""
        until, counted = time.monotonic() + GOOD_FOR_S, {row["term"]: row["memories"] for row in rows}
        for known in (self._known, self._terms, self._names):
            if len(known) > MAX_KNOWN:
                known.clear()
        self._known |= {(namespace_id, term): (until, n) for term, n in counted.items() if n is not None and n > DEAR}
        self._terms |= _terms_by_word(asked, rows)
        return {term: n for term, n in counted.items() if n is not None}

    def note_names(self, asked: Sequence[str], names: set[str]) -> None:
        """Remember which of the words asked are names of speakers."""
        self._names.difference_update(asked)
        self._names |= names

    def likely_meaning(self, parsed: Parsed) -> str:
        """Return what `understand` will most likely give as the meaning, to embed it before the look-up."""
        return meaning(parsed, self._names)


def _terms_by_word(asked: Sequence[str], rows: Sequence[Row]) -> dict[str, tuple[int, ...]]:
    terms: dict[str, tuple[int, ...]] = {}
    for row in rows:
        if row["position"] and row["term"] is not None:
            word = asked[row["position"] - 1]
            terms[word] = (*terms.get(word, ()), row["term"])
    return terms


# Ids that are given whole, by their ends or by their beginnings. Uses memories_pkey and memories_by_short_id.
LOOK_UP_IDS: Final = """
SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND id = ANY(%(whole)s::uuid[])
UNION
SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND short_id = ANY(%(ends)s::text[])
UNION
SELECT m.id FROM unnest(%(lows)s::uuid[], %(highs)s::uuid[]) AS b(low, high) CROSS JOIN LATERAL (
  SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND id BETWEEN b.low AND b.high ORDER BY id LIMIT 2) AS m
"""


async def understand(tx: Transaction, parsed: Parsed, frequencies: Frequencies) -> Asked:
    """Look the words of a question up in this namespace's memories."""
    total, mean_length, rows, counts = await _look_up(tx, parsed, frequencies)
    word_rows = [row for row in rows if 0 < row["position"] <= len(parsed.words)]
    asked_words = _asked_words(parsed, rows, counts, total)
    near = await _near_terms(tx, parsed, asked_words, frequencies.vocabularies, total)
    finding = {**near, **_finding_terms(parsed, word_rows, counts)}
    speakers = [row["position"] - 1 for row in word_rows if row["is_name"]]
    common = _common(parsed, word_rows, counts, total)
    names = {parsed.words[place] for place in speakers} | {word.text for word in asked_words if word.is_name} & common
    frequencies.note_names(parsed.words, names)
    return Asked(
        parsed,
        terms=list(finding),
        weights=[inverse_document_frequency(count, total) for count in finding.values()],
        counts=list(finding.values()),
        meaning=meaning(parsed, names),
        speakers=sorted({parsed.names[place] for place in speakers}),
        mean_length=mean_length,
        full=_full(parsed, rows, counts, total),
        unwanted=await _terms_of(tx, parsed.unwanted),
        words=asked_words,
        name_terms=_name_terms(parsed, asked_words, word_rows, counts),
        ids=await _memories_of(tx, parsed.ids),
    )


async def _look_up(
    tx: Transaction, parsed: Parsed, frequencies: Frequencies
) -> tuple[int, float, list[Row], dict[int, int]]:
    """Return how many memories there are and their mean length, and rows and counts of the question's words."""
    looked_up = parsed.looked_up
    if not looked_up and not parsed.extra:
        return 0, 1.0, [], {}
    total, mean_length = await frequencies.size(tx)
    counts = frequencies.known(tx.namespace_id, looked_up)
    lowered = [*parsed.names, *[None] * (len(looked_up) - len(parsed.names))]
    given = {"words": looked_up, "lowered": lowered, "extra": parsed.extra, "known": list(counts)}
    rows = await tx.rows(LOOK_UP_WORDS, given)
    counts |= frequencies.note(tx.namespace_id, looked_up, rows)
    return max([total, *counts.values()]), mean_length, rows, counts


def _common(parsed: Parsed, word_rows: Sequence[Row], counts: Mapping[int, int], total: int) -> set[str]:
    """Return the words of the question that more than `COMMON_SHARE` of the memories have."""
    if total < MEMORIES_TO_TELL:
        return set()
    return {parsed.words[row["position"] - 1] for row in word_rows if counts.get(row["term"], 0) > COMMON_SHARE * total}


async def _near_terms(
    tx: Transaction, parsed: Parsed, asked: Sequence[AskedWord], vocabularies: Vocabularies, total: int
) -> dict[int, int]:
    """Return the terms, with counts, of what a short question may mean by words that no memory has."""
    unknown = [word.text for word in asked if not word.known and word.text not in parsed.light]
    if not unknown or parsed.question.mode == "text" or len(parsed.words) > MAX_TYPED:
        return {}
    near = await vocabularies.near(tx, unknown, total)
    meant = list(dict.fromkeys(chain(*near.values())))
    given = {"words": meant, "lowered": [None] * len(meant), "extra": [], "known": []}
    return (
        {row["term"]: row["memories"] for row in await tx.rows(LOOK_UP_WORDS, given) if row["memories"]}
        if meant
        else {}
    )


def _finding_terms(parsed: Parsed, word_rows: Sequence[Row], counts: Mapping[int, int]) -> dict[int, int]:
    """Return the counts of the terms that find memories; of what words sound like only those that some memory has."""
    sounds = _sound_terms(parsed)
    found = _without_light(parsed, word_rows, counts)
    return {term: count for term, count in found.items() if count or term not in sounds}


def _sound_terms(parsed: Parsed) -> set[int]:
    return {term_hash(sound) for sound in chain(*parsed.sounds.values())}


def _without_light(parsed: Parsed, rows: Sequence[Row], counts: Mapping[int, int]) -> Mapping[int, int]:
    """Return the counts of the terms that find memories, without those of light words if there are others."""
    if not parsed.light and not parsed.light_extra:
        return counts
    others = [word for word in parsed.words if word not in parsed.light]
    of_light, of_others = {*map(term_hash, parsed.light_extra)}, {*map(term_hash, foreign_stems(parsed.text, others))}
    for row in rows:
        is_light = parsed.words[row["position"] - 1] in parsed.light
        (of_light if is_light else of_others).add(row["term"])
    left_out = of_light - of_others
    return {term: count for term, count in counts.items() if term not in left_out} or counts


def _full(parsed: Parsed, rows: Sequence[Row], counts: Mapping[int, int], total: int) -> float:
    """Return what a match of all words weighs."""
    own = {row["term"] for row in rows if row["position"] <= len(parsed.words)} - _sound_terms(parsed)
    return sum(inverse_document_frequency(counts[term], total) for term in own if term in counts)


def _asked_words(parsed: Parsed, rows: Sequence[Row], counts: Mapping[int, int], total: int) -> list[AskedWord]:
    found = _words_found(parsed.looked_up, rows, counts, total)
    asked = [found[text] for text in parsed.words if text in found]
    translated = [_translated(word, parsed.english.get(word.text, ()), found) for word in asked]
    heard = [_heard(word, parsed.sounds.get(word.text, ()), counts) for word in translated]
    first = next(iter(words(parsed.text)), "")
    return [replace(word, is_name=word.text != first and _written_as_name(word, parsed.language)) for word in heard]


def _words_found(
    looked_up: Sequence[str], rows: Sequence[Row], counts: Mapping[int, int], total: int
) -> dict[str, AskedWord]:
    """Return the words that have terms, with what all terms of each weigh together."""
    found: dict[str, AskedWord] = {}
    for row in rows:
        if row["position"] and row["term"] is not None:
            text, memories = looked_up[row["position"] - 1], counts.get(row["term"], 0)
            word = found.get(text, AskedWord(text, 0.0, known=False, is_speaker=row["is_name"]))
            weight = word.weight + inverse_document_frequency(memories, total)
            found[text] = replace(word, weight=weight, known=word.known or memories > 0)
    return found


def _written_as_name(word: AskedWord, language: str | None) -> bool:
    """Whether a word has a capital; in German, where nouns have one, only if no lexicon has an English word for it that
    is written otherwise: Jonas is Jonah.
    """
    alike = not language_data(language).nouns_have_capitals or all(
        beginning(one) == beginning(word.text.casefold()) for one in word.english
    )
    return word.text[0].isupper() and alike


def _name_terms(
    parsed: Parsed, asked: Sequence[AskedWord], rows: Sequence[Row], counts: Mapping[int, int]
) -> list[set[int]]:
    """Return the terms of each name in the question that some memory has."""
    places = {word: place for place, word in enumerate(parsed.words, start=1)}
    written = {word.text for word in asked if word.is_name and not word.text.isupper()}  # a code is no name
    names = written | {name for name in parsed.sounds if name not in places}
    found = [_terms_of_name(parsed, name, rows, places.get(name)) for name in names]
    return [known for terms in found if (known := {term for term in terms if counts.get(term)})]


def _terms_of_name(parsed: Parsed, name: str, rows: Sequence[Row], position: int | None) -> set[int]:
    terms = {row["term"] for row in rows if row["position"] == position}
    return terms | {*map(term_hash, (*foreign_stems(parsed.text, [name]), *parsed.sounds.get(name, ())))}


def _translated(word: AskedWord, english: Sequence[str], found: Mapping[str, AskedWord]) -> AskedWord:
    """Return a word with its English forms; an unknown one weighs as much as the rarest of these."""
    known = [found[one].weight for one in english if one in found and found[one].known]
    if word.known or not known:
        return replace(word, english=english)
    return replace(word, english=english, weight=max(known), known=True)


def _heard(word: AskedWord, sounds: Sequence[str], counts: Mapping[int, int]) -> AskedWord:
    """Return a word with what it sounds like as a name; it is known if a memory has such a name."""
    return replace(word, sounds=sounds, known=word.known or any(counts.get(term_hash(one)) for one in sounds))


async def _terms_of(tx: Transaction, words: Sequence[str]) -> list[int]:
    return [row["term"] for row in await tx.rows(HASH_TERMS, {"words": " ".join(words)})] if words else []


async def _memories_of(tx: Transaction, given: Sequence[str]) -> list[UUID]:
    """Return the memories that some digits of ids mean, by their ends or else beginnings, where only one has them."""
    if not given:
        return []
    found = [row["id"] for row in await tx.rows(LOOK_UP_IDS, _id_parameters(given))]
    meant = [_ending_or_beginning(found, digits) for digits in given]
    return [ids[0] for ids in meant if len(ids) == 1]


def _id_parameters(given: Sequence[str]) -> dict[str, Any]:
    parts = [digits for digits in given if len(digits) < ID_DIGITS]
    return {
        "whole": [UUID(digits) for digits in given if len(digits) == ID_DIGITS],
        "ends": [short(digits) for digits in parts],
        "lows": [UUID(digits.ljust(ID_DIGITS, "0")) for digits in parts],
        "highs": [UUID(digits.ljust(ID_DIGITS, "f")) for digits in parts],
    }


def _ending_or_beginning(ids: Sequence[UUID], digits: str) -> list[UUID]:
    return [id_ for id_ in ids if id_.hex.endswith(digits)] or [id_ for id_ in ids if id_.hex.startswith(digits)]


def inverse_document_frequency(memories_with_term: int, memories: int) -> float:
    """Return ln(1 + (N − df + ½) / (df + ½)): never negative (Lucene's form of Robertson and Spärck Jones)."""
    return math.log1p((memories - memories_with_term + 0.5) / (memories_with_term + 0.5))
