"""What a question asks: its terms with their weight, and the text worth embedding."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from pgengram.fields import FIRST_MOMENT
from pgengram.inputs import Question
from pgengram.search.asked import Asked, AskedWord, Parsed
from pgengram.search.filters import scope_of
from pgengram.search.near_words import Vocabularies
from pgengram.search.times.dates import TimeRead, asks_for_time, by_clock, times, without_times
from pgengram.search.times.time_words import is_empty
from pgengram.store.connection.database import Row, Transaction
from pgengram.text.lexical.language import NOUNS_HAVE_CAPITALS, UNSPACED, function_words, light_words, spoken
from pgengram.text.lexical.sounds import asked_sounds
from pgengram.text.lexical.stems import foreign_stems
from pgengram.text.lexical.translations import CUT, in_english
from pgengram.text.lexical.words import extra_terms, hashed, words

COMMON_SHARE: Final = 0.2  # of the memories that have a name: then most are about its bearer, and it tells nothing
FEW_MEMORIES: Final = 30  # below this a share says nothing
MAX_WORDS: Final = 64
MAX_TYPED: Final = 8  # words of a question in which a word that no memory has may be a beginning or a slip
WEIGHT_NEAR: Final = 0.6  # of a word that may be meant, beside 1 of one that was typed
ALIKE: Final = 3  # first letters

DEAR: Final = 2_000  # rows whose counting is worth remembering
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

    A count that was small is made anew each time; a large one is close enough for a minute. Which words were names of
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
        if size[0] > DEAR:
            self._sizes[tx.namespace_id] = (time.monotonic() + GOOD_FOR_S, *size)
        return size

    def known(self, namespace_id: int, asked: Sequence[str]) -> dict[int, int]:
        """Return in how many memories the terms of these words are, where that is remembered."""
        now = time.monotonic()
        terms = {term for word in asked for term in self._terms.get(word, ())}
        found = {term: self._known.get((namespace_id, term), (0.0, 0)) for term in terms}
        return {term: memories for term, (until, memories) in found.items() if until > now}

    def note(self, namespace_id: int, asked: Sequence[str], rows: Sequence[Row]) -> dict[int, int]:
        """Return the counts that a look-up of words has brought, and remember the large ones and the terms of the
        words.
        """
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
        """Return what `understand` will most likely give as the meaning; a question is embedded before it is looked
        up.
        """
        return _meaning(parsed, self._names)


def _terms_by_word(asked: Sequence[str], rows: Sequence[Row]) -> dict[str, tuple[int, ...]]:
    terms: dict[str, tuple[int, ...]] = {}
    for row in rows:
        if row["position"] and row["term"] is not None:
            word = asked[row["position"] - 1]
            terms[word] = (*terms.get(word, ()), row["term"])
    return terms


def parse(question: Question, now: datetime) -> Parsed:
    """Read a question's words, the times it names as seen from `now`, and in mode text its signs."""
    plain: tuple[str, list[str], list[str], list[str]] = (question.query, [], [], [])
    text, phrases, unwanted, unwanted_phrases = websearch(question.query) if question.mode == "text" else plain
    found = times(text, now)
    sought = without_times(text, [one for one in found if one.relative and question.mode != "text"])
    language = spoken(sought or text)
    asked = list(dict.fromkeys(_content_words(sought, language)))[:MAX_WORDS]
    sounds = asked_sounds(sought, asked)
    characters = extra_terms(sought)
    may_find_nothing = None if question.mode == "text" else language
    light = _light(asked, may_find_nothing)
    return Parsed(
        question,
        scope_of(question),
        text=sought or text,
        language=language,
        words=asked,
        light=light,
        light_extra=foreign_stems(sought, light) + _light_characters(characters, may_find_nothing),
        names=[_as_speaker(word) for word in asked],
        extra=characters + foreign_stems(sought, asked) + list(dict.fromkeys(chain(*sounds.values()))),
        periods=[one.period for one in found],
        utc_offset=_offset(now),
        wants_time=asks_for_time(text),
        phrases=phrases,
        unwanted=unwanted,
        unwanted_phrases=unwanted_phrases,
        english={} if question.mode == "text" else in_english(sought),
        sounds=sounds,
    )


def in_time(question: Question, now: datetime) -> tuple[Question, str | None]:
    """Return a search that asks for nothing but a time as the list of what happened then, latest first; any other as it
    is. And the times that it names, seen from `now`, such as `2026-11-09..2026-11-15`.
    """
    found = [one for query in question.queries for one in times(query, now)]
    if not found:
        return question, None
    period = found[0].period
    if period.start <= by_clock(now) and _asks_for_time_alone(question, found):
        question = question.within(max(period.start, FIRST_MOMENT), period.end, _offset(now))
    return question, ", ".join(dict.fromkeys(str(one.period) for one in found))


def _offset(now: datetime) -> timedelta:
    return now.utcoffset() or timedelta()


def _asks_for_time_alone(question: Question, found: Sequence[TimeRead]) -> bool:
    """Whether a question consists of one time, and no filter says another."""
    free = not question.lists and question.mode == "auto" and question.since is None and question.until is None
    single = len(found) == 1 and len(question.queries) == 1
    return free and single and is_empty(without_times(question.query, found))


async def understand(tx: Transaction, parsed: Parsed, frequencies: Frequencies) -> Asked:
    """Look the words of a question up in this namespace's memories."""
    total, mean_length = 0, 1.0
    rows: list[Row] = []
    counts: dict[int, int] = {}
    looked_up = parsed.looked_up
    if looked_up or parsed.extra:
        total, mean_length = await frequencies.size(tx)
        counts = frequencies.known(tx.namespace_id, looked_up)
        lowered = [*parsed.names, *[None] * (len(looked_up) - len(parsed.names))]
        given = {"words": looked_up, "lowered": lowered, "extra": parsed.extra, "known": list(counts)}
        rows = await tx.rows(LOOK_UP_WORDS, given)
        counts |= frequencies.note(tx.namespace_id, looked_up, rows)
    total = max([total, *counts.values()])
    word_rows = [row for row in rows if 0 < row["position"] <= len(parsed.words)]
    sounds = {hashed(sound) for sound in chain(*parsed.sounds.values())}
    own = {row["term"] for row in rows if row["position"] <= len(parsed.words)} - sounds
    asked_words = _asked_words(parsed, rows, counts, total)
    finding = {
        term: count for term, count in _without_light(parsed, word_rows, counts).items() if count or term not in sounds
    }
    near = await _near_terms(tx, parsed, asked_words, frequencies.vocabularies, total)
    finding = {**near, **finding}
    named = [row["position"] - 1 for row in word_rows if row["is_name"]]
    common = {
        parsed.words[row["position"] - 1] for row in word_rows if counts.get(row["term"], 0) > COMMON_SHARE * total
    }
    common = common if total >= FEW_MEMORIES else set()
    names = {parsed.words[place] for place in named} | {word.text for word in asked_words if word.is_name} & common
    frequencies.note_names(parsed.words, names)
    return Asked(
        parsed,
        terms=list(finding),
        weights=[
            inverse_document_frequency(count, total) * (WEIGHT_NEAR if term in near else 1)
            for term, count in finding.items()
        ],
        counts=list(finding.values()),
        meaning=_meaning(parsed, names),
        speakers=sorted({parsed.names[place] for place in named}),
        mean_length=mean_length,
        full=_full(parsed, counts, own, total),
        unwanted=await _terms_of(tx, parsed.unwanted),
        words=asked_words,
        name_terms=_name_terms(parsed, asked_words, word_rows, counts),
    )


async def _near_terms(
    tx: Transaction, parsed: Parsed, asked: Sequence[AskedWord], vocabularies: Vocabularies, total: int
) -> dict[int, int]:
    """Return the terms, with their counts, of what may be meant by words that no memory has, of a question as people type
    it; a long text has many such words that mean nothing else.
    """
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


def _light(asked: Sequence[str], language: str | None) -> list[str]:
    light = light_words(language) if language else frozenset()  # a longer list of English than PostgreSQL's was no gain
    return [word for word in asked if word.lower() in light]


def _light_characters(terms: Sequence[str], language: str | None) -> list[str]:
    """Return the characters and pairs of Chinese and Japanese that say little: 我, 的, 我的, した."""
    empty = function_words(language) if language in UNSPACED else frozenset()
    return [term for term in terms if term in empty or empty.issuperset(term)]


def _without_light(parsed: Parsed, rows: Sequence[Row], counts: Mapping[int, int]) -> Mapping[int, int]:
    """Return the counts of the terms that find memories: all but those of light words alone, unless there are no
    others.
    """
    if not parsed.light and not parsed.light_extra:
        return counts
    light = {parsed.words.index(word) + 1 for word in parsed.light}
    others = [word for word in parsed.words if word not in parsed.light]
    kept = {row["term"] for row in rows if row["position"] not in light}
    kept.update(map(hashed, foreign_stems(parsed.text, others)))
    left_out = {row["term"] for row in rows if row["position"] in light} | {*map(hashed, parsed.light_extra)}
    return {term: count for term, count in counts.items() if term in kept or term not in left_out} or counts


def _full(parsed: Parsed, counts: Mapping[int, int], own: set[int], total: int) -> float:
    """Return what a match of all words weighs.

    Without spaces between them each is in two pairs of characters: too much for memories that are found in English.
    """
    found_in_english = parsed.language in CUT and any(counts[term] for term in counts if term not in own)
    weight = sum(inverse_document_frequency(counts[term], total) for term in own if term in counts)
    return weight * (0.5 if found_in_english else 1)


def _content_words(query: str, language: str | None) -> list[str]:
    """Return the words of a question without those of its language that nearly every text has: they would count as
    rare.

    The stemmer leaves out those of English.
    """
    empty = function_words(language) if language else frozenset()
    found = words(query)
    return [word for word in found if word.lower() not in empty] or found


def _asked_words(parsed: Parsed, rows: Sequence[Row], counts: Mapping[int, int], total: int) -> list[AskedWord]:
    looked_up = parsed.looked_up
    found: dict[str, AskedWord] = {}
    for row in rows:
        if row["position"] and row["term"] is not None:
            text, memories = looked_up[row["position"] - 1], counts.get(row["term"], 0)
            word = found.get(text, AskedWord(text, 0.0, known=False, is_speaker=row["is_name"]))
            weight = word.weight + inverse_document_frequency(memories, total)
            found[text] = replace(word, weight=weight, known=word.known or memories > 0)
    asked = [found[text] for text in parsed.words if text in found]
    translated = [_translated(word, parsed.english.get(word.text, ()), found) for word in asked]
    heard = [_heard(word, parsed.sounds.get(word.text, ()), counts) for word in translated]
    first = next(iter(words(parsed.text)), "")
    return [replace(word, is_name=word.text != first and _written_as_name(word, parsed.language)) for word in heard]


def _written_as_name(word: AskedWord, language: str | None) -> bool:
    """Whether a word has a capital; in German, where nouns have one, only if no lexicon has an English word for it that
    is written otherwise: Jonas is Jonah.
    """
    alike = language not in NOUNS_HAVE_CAPITALS or all(
        one[:ALIKE] == word.text[:ALIKE].casefold() for one in word.english
    )
    return word.text[0].isupper() and alike


def _name_terms(
    parsed: Parsed, asked: Sequence[AskedWord], rows: Sequence[Row], counts: Mapping[int, int]
) -> list[set[int]]:
    """Return the terms of each name in the question that some memory has."""
    places = {word: place for place, word in enumerate(parsed.words, start=1)}
    written = {word.text for word in asked if word.is_name and not word.text.isupper()}  # a code is no name
    names = written | {name for name in parsed.sounds if name not in places}
    found = []
    for name in names:
        terms = {row["term"] for row in rows if row["position"] == places.get(name)}
        terms |= {*map(hashed, (*foreign_stems(parsed.text, [name]), *parsed.sounds.get(name, ())))}
        found.append({term for term in terms if counts.get(term)})
    return [terms for terms in found if terms]


def _translated(word: AskedWord, english: Sequence[str], found: Mapping[str, AskedWord]) -> AskedWord:
    """Return a word with what it may be in English; if no memory has it, it weighs as much as the rarest of those that
    some have.
    """
    known = [found[one].weight for one in english if one in found and found[one].known]
    if word.known or not known:
        return replace(word, english=english)
    return replace(word, english=english, weight=max(known), known=True)


def _heard(word: AskedWord, sounds: Sequence[str], counts: Mapping[int, int]) -> AskedWord:
    """Return a word with what it sounds like as a name; it is known if a memory has such a name."""
    return replace(word, sounds=sounds, known=word.known or any(counts.get(hashed(one)) for one in sounds))


async def _terms_of(tx: Transaction, words: Sequence[str]) -> list[int]:
    return [row["term"] for row in await tx.rows(HASH_TERMS, {"words": " ".join(words)})] if words else []


def _meaning(parsed: Parsed, names: set[str]) -> str:
    """Return the question without the names of speakers: in the text that is embedded they would pull every memory of
    that person nearer. They stay in the search by words.
    """
    return without(parsed.text, names.intersection(parsed.words)) or parsed.text


_POSSESSIVE: Final = re.compile(r"['’]s$")


def _as_speaker(word: str) -> str:
    """Return a word as speakers' names are stored: PostgreSQL's own lower() would depend on its locale."""
    return _POSSESSIVE.sub("", word.lower())


_UNWANTED: Final = re.compile(r'(?:^|(?<=\s))-(?:"([^"]*)"|(\S+))')
_PHRASE: Final = re.compile(r'"([^"]*)"')


_AT_THE_END: Final = ".,;:!?"


def websearch(query: str) -> tuple[str, list[str], list[str], list[str]]:
    """Return the words to look for, the "phrases" that must be there, and the words and phrases after a minus that must
    not.

    Any text is fine: a quote that is not closed, or a lone minus, is read as nothing. What stemming would cut to pieces
    (-std::vector, -烏龍茶) is unwanted as a whole, like a phrase.
    """
    unwanted = _unwanted_in(query)
    plain = [text for text in unwanted if len(words(text)) == 1 and not extra_terms(text)]
    whole = [text.strip(_AT_THE_END) for text in unwanted if words(text) and text not in plain]
    rest = _UNWANTED.sub(" ", query)
    phrases = [" ".join(phrase.split()) for phrase in _PHRASE.findall(rest) if phrase.strip()]
    return rest.replace('"', " "), phrases, plain, whole


def _unwanted_in(query: str) -> list[str]:
    return [" ".join((first or second).split()) for first, second in _UNWANTED.findall(query)]


def inverse_document_frequency(memories_with_term: int, memories: int) -> float:
    """Return ln(1 + (N − df + ½) / (df + ½)): never negative (Lucene's form of Robertson and Spärck Jones)."""
    return math.log1p((memories - memories_with_term + 0.5) / (memories_with_term + 0.5))


def without(query: str, unwanted: set[str]) -> str:
    """Return `query` without the `unwanted` words, and without the possessive that follows one."""
    if not unwanted:
        return query.strip()
    pattern = r"\b(?:" + "|".join(map(re.escape, sorted(unwanted, key=len, reverse=True))) + r")\b(?:['’]s\b)?"
    return " ".join(re.sub(pattern, " ", query).split())
