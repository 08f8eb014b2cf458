"""Which memories count, as SQL conditions on `memories m` (and `memory_activation a`), applied before any cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final
from uuid import UUID

from pgengram.inputs import Question
from pgengram.search.dates import Period
from pgengram.search.vector_index import Way
from pgengram.store.schema import HIDDEN, UNEXPIRED

WITH_ACTIVATION: Final = "JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id"
OF_ACTIVATION: Final = {"min_importance", "max_importance"}  # what needs it

# When it happened, or else when it was stored. Behind row-level security an index over a CASE is used for a range, one
# over coalesce() is not: PostgreSQL holds that coalesce() might tell what it sees. Uses memories_by_occurrence.
OCCURRED: Final = "CASE WHEN m.occurred_at IS NULL THEN m.created_at ELSE m.occurred_at END"
# The same by the clock of who asks. A day without a time of day is kept as UTC's midnight and is that day everywhere.
BY_CLOCK: Final = """CASE WHEN m.occurred_at = date_trunc('day', m.occurred_at, 'UTC') THEN m.occurred_at
    ELSE coalesce(m.occurred_at, m.created_at) + %(utc_offset)s::interval END"""
WITHIN: Final = f"({BY_CLOCK}) >= %(within_start)s AND ({BY_CLOCK}) < %(within_end)s"
CONDITIONS: Final[dict[str, str]] = {
    "type": "m.type = ANY(%(type)s)",
    "kind": "m.kind = ANY(%(kind)s)",
    "min_importance": "a.importance >= %(min_importance)s",
    "max_importance": "a.importance <= %(max_importance)s",
    "min_confidence": "coalesce(m.confidence, 1) >= %(min_confidence)s",  # where nobody doubts, it is sure
    "since": f"{OCCURRED} >= %(since)s",
    "until": f"{OCCURRED} <= %(until)s",
    "user": 'm."user" = %(user)s',
    "project": "m.project = %(project)s",
    "collection": "m.collection = %(collection)s",
    "session_id": "m.session_id = %(session_id)s",
    "speaker": "m.speaker = %(speaker)s",
    "source": "m.source = %(source)s",
    "source_provider": "m.source_provider = %(source_provider)s",
    "emotion": "m.emotion = %(emotion)s",
    "capture_mode": "m.capture_mode = %(capture_mode)s",
    "pinned": "m.pinned = %(pinned)s",
    "untagged": """NOT EXISTS (SELECT 1 FROM memory_tags t WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id)
      = %(untagged)s""",
    "min_length": "length(m.content) >= %(min_length)s",
    "max_length": "length(m.content) <= %(max_length)s",
    "not_confirmed_since": "coalesce(m.last_confirmed_at, m.created_at) < %(not_confirmed_since)s",
}
ANY_NAME: Final = 'm."{name}" = ANY(%({name})s)'
ONE_OF: Final = """EXISTS (SELECT 1 FROM memory_tags t WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id
  AND t.tag = ANY(%({name})s))"""
SUBSTRING: Final = "position(lower(%({name})s::text) IN lower(m.content)) > 0"  # a third quicker than ILIKE
VISIBLE: Final = f"m.status = %(status)s AND {UNEXPIRED}"
WITH_HIDDEN: Final = "m.status IN ('active', 'invalidated')"
HIDDEN_ALONE: Final = f"{HIDDEN} AND status <> 'working'"
OTHERS: Final = f"m.status <> 'active' AND {VISIBLE}"  # says so in the text, and memories_hidden can be used


# What was held true at a moment, whatever has become of it since; what is only held for a task is no part of that.
HELD_THEN: Final = """m.valid_from <= %(as_of)s AND (m.valid_to IS NULL OR m.valid_to > %(as_of)s)
  AND m.status <> 'working' AND (m.expires_at IS NULL OR m.expires_at > %(as_of)s)"""


def _visible(filters: Question) -> tuple[str, dict[str, Any]]:
    """Return the condition that every hit meets whatever is asked, with its parameters."""
    if filters.as_of is not None:
        return HELD_THEN, {"status": "held then", "as_of": filters.as_of}
    if filters.shows_hidden:
        return WITH_HIDDEN, {"status": "any"}
    return VISIBLE if filters.status == "active" else OTHERS, {"status": filters.status}


def _narrowing(filters: Question) -> tuple[list[str], dict[str, Any]]:
    """Return the conditions the caller set, with their parameters; none when the whole store is asked."""
    given = {name: getattr(filters, name) for name in CONDITIONS if getattr(filters, name) is not None}
    conditions = [CONDITIONS[name] for name in given]
    for name, stored in filters.spellings.items():
        if stored and stored != [given[name]]:
            conditions[conditions.index(CONDITIONS[name])] = ANY_NAME.format(name=name)
            given[name] = [*stored, given[name]]  # which may be stored by now
    for name, tags in _tags_wanted(filters).items():
        conditions.append(ONE_OF.format(name=name))
        given[name] = tags
    if filters.days is not None:
        conditions.append(WITHIN)
        given |= dict(zip(("within_start", "within_end", "utc_offset"), filters.days, strict=True))
    if filters.mode == "substring" and filters.queries != [""]:
        wanted = {f"substring_{number}": text for number, text in enumerate(filters.queries)}
        conditions.append(f"({' OR '.join(SUBSTRING.format(name=name) for name in wanted)})")
        given |= wanted
    return conditions, given


def _tags_wanted(filters: Question) -> dict[str, list[str]]:
    """Return by parameter the lists of tags of each of which a memory must have one."""
    if not filters.tags:
        return {}
    groups = filters.tag_groups
    wanted = groups if filters.tags_match == "all" else [[*chain.from_iterable(groups)]]
    return {f"tags_{number}": tags for number, tags in enumerate(wanted)}


@dataclass(frozen=True, slots=True)
class Scope:
    """Which memories a question ranges over: conditions on `memories m` and `memory_activation a`, with parameters.

    narrowed: the caller set conditions, or asks for memories that are not active; activation: the join that makes `a`
    known, nothing where no condition asks for it; hidden: the conditions on the memories that are left out because they
    expired or were archived or forgotten, None where these don't count; way: how vectors are searched.
    """

    conditions: str
    activation: str
    narrowed: bool
    parameters: dict[str, Any]
    hidden: str | None = None
    way: Way = "each"


def scope_of(filters: Question) -> Scope:
    """Return which memories a question ranges over."""
    base, parameters = _visible(filters)
    extra, more = _narrowing(filters)
    hidden = " AND ".join([HIDDEN_ALONE, *extra]) if filters.counts_hidden else None
    narrowed = bool(extra) or filters.shows_hidden or filters.status != "active" or filters.as_of is not None
    activation = WITH_ACTIVATION if OF_ACTIVATION & more.keys() else ""
    return Scope(" AND ".join([base, *extra]), activation, narrowed, parameters | more, hidden)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A question as its words alone say it.

    question: with its filters; scope: the memories that these let through; text: what is looked for; language: its own,
        None for English; words: its first words, each once; light, light_extra: those words and other terms that
        weigh, but find nothing; english: words of another language in English, where a lexicon has them; sounds: of
        those that may be names in another script; ids: the digits of what may be ids of memories; names: the words as
        the speakers of memories are stored; extra: its
        terms that aren't words; periods: the times it names, by a clock that is `utc_offset` ahead of UTC; wants_time:
        whether it asks when; ahead: the beginning of today, where a time that it surely names goes on after today.
    phrases: exact words that a hit must hold; unwanted and unwanted_phrases: words and exact words that it must not;
        only
    for searches of mode text.
    """

    question: Question
    scope: Scope
    text: str
    language: str | None
    words: list[str]
    light: list[str]
    light_extra: list[str]
    names: list[str]
    extra: list[str]
    periods: list[Period]
    utc_offset: timedelta
    wants_time: bool
    ahead: datetime | None
    phrases: list[str]
    unwanted: list[str]
    unwanted_phrases: list[str]
    english: Mapping[str, Sequence[str]]
    sounds: Mapping[str, Sequence[str]]
    ids: list[str]

    @property
    def looked_up(self) -> list[str]:
        """The words to look up in the memories: its own, then what they are in English."""
        return list(dict.fromkeys(chain(self.words, *self.english.values())))


@dataclass(frozen=True, slots=True)
class AskedWord:
    """A word of the question that is not left out as a common one of its language.

    weight: the inverse document frequency of its stems; known: whether a memory has one of them, or a name of its
        sound; is_speaker: whether a speaker is called so; sounds: of a word that may be a name, in other scripts;
        english: what it may be in English; is_name: whether it is written as a name is.
    """

    text: str
    weight: float
    known: bool
    is_speaker: bool
    sounds: Sequence[str] = ()
    english: Sequence[str] = ()
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the ranking needs it, after a look at the memories.

    terms: hashed stems; weights: their inverse document frequency, one for each term; counts: in how many memories each
        is.
    meaning: the question without the names of speakers.
    unwanted: the terms of the unwanted words; speakers: those it names, in lower case.
    mean_length: mean number of terms of a memory, for BM25; full: the weight of the terms it would share with a memory
        in its own words.
    words: its words, each with what the memories know of it; name_terms: the terms of each name that a memory has;
    ids: the memories whose ids it holds.
    """

    parsed: Parsed
    terms: list[int]
    weights: list[float]
    counts: list[int]
    meaning: str
    speakers: list[str]
    mean_length: float
    full: float
    unwanted: list[int]
    words: list[AskedWord]
    name_terms: list[set[int]]
    ids: list[UUID]

    @property
    def speaker_key(self) -> str | None:
        """The one speaker it names, in lower case; None where it names several or none."""
        return self.speakers[0] if len(self.speakers) == 1 else None
