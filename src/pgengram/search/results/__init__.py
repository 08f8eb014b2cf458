"""What a search finds: a hit, from the row that SQL gives to what is shown of it; how well hits fit, and how many."""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from pydantic import BaseModel

from pgengram.errors import InvalidInput
from pgengram.fields import Evidence
from pgengram.search.succession import Statement
from pgengram.store.connection.database import Row

HIT_COLUMNS: Final = """
  m.id, m.type, m.kind, m.status, m.content, m.metadata, m.speaker, m."user", m.project, m.collection, m.session_id, m.source,
  m.source_provider, m.capture_mode, m.emotion, m.confidence, m.sources, m.occurred_at, m.created_at, m.updated_at, m.last_confirmed_at,
  m.expires_at, m.valid_from, m.valid_to, m.reason, m.replaced_by, m.pinned, m.version, m.turn_features, m.person_id, a.importance, a.access_count,
  pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance,
  ARRAY(SELECT tag FROM memory_tags t WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id ORDER BY position, tag) AS tags
"""
FITS_STILL: Final = (
    0.4  # of how well the best hit fits, that another has to reach in a list, or to stand before an older one
)
HIDDEN_AS: Final = {"active": "expired", "archived": "archived", "invalidated": "forgotten"}  # by status


@dataclass(slots=True)
class Match:
    """Why a memory is a hit, and how well it fits.

    fit: the score of the ranking, which compares the hits of one question; similarity: cosine of the best part, None
    without a vector; words: BM25 as a share; found_by: what found it; why: the features that are shown, where they
    aren't 0; standalone: what it is worth without its surroundings; is_named: the question has its id; is_of_long_talk:
    a turn of a chat of long turns.
    score: the probability that it answers; unlikely: it has little chance; recalled: it is worth its room in a recalled
    text; succeeds: the older hits that it stands before; stands_for: the best fit of these.
    """

    fit: float
    similarity: float | None
    words: float
    found_by: str
    why: dict[str, float]
    standalone: float
    is_named: bool
    is_of_long_talk: bool
    score: float = 0.0
    unlikely: bool = False
    recalled: bool = True
    succeeds: set[UUID] = field(default_factory=set)
    stands_for: float | None = None


@dataclass(kw_only=True)
class Hit:
    """A memory in an answer: its columns, what else is known of it, and in a ranking why it is there.

    contradicted: it may be linked as contradicting another; sort_key: its place in a list; superseded_by: what holds
    instead; changed_since: the fields that said something else at the time that was asked for; older, newer: ids of
    hits
    that it succeeds, and that may have succeeded it. Where several namespaces were asked: origin: which of them it is
    from, 0 is one's own; space, author: the names of any other, and of who stored it there.
    """

    id: UUID
    type: str
    kind: str | None
    status: str
    content: str
    metadata: dict[str, Any]
    speaker: str | None
    user: str | None
    project: str | None
    collection: str | None
    session_id: str | None
    source: str | None
    source_provider: str | None
    capture_mode: str
    emotion: str | None
    confidence: float | None
    sources: list[dict[str, Any]] | None
    occurred_at: datetime | None
    created_at: datetime
    updated_at: datetime
    last_confirmed_at: datetime | None
    expires_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    reason: str | None
    replaced_by: list[UUID] | None
    pinned: bool
    version: int
    turn_features: int
    person_id: int | None
    importance: float
    access_count: int
    relevance: float
    tags: list[str]
    contradicted: bool = True
    sort_key: str | None = None
    superseded_by: list[UUID] = field(default_factory=list)
    changed_since: list[str] = field(default_factory=list)
    conflicts_with: list[dict[str, str]] = field(default_factory=list)
    older: list[str] = field(default_factory=list)
    newer: list[str] = field(default_factory=list)
    match: Match | None = None
    origin: int = 0
    space: str | None = None
    author: str | None = None

    @cached_property
    def statement(self) -> Statement:
        """What is compared of it to tell what holds."""
        return Statement.of(vars(self))

    @property
    def fit(self) -> float:
        """How well it fits the question, to be compared within one answer; 0 in a list."""
        return self.match.fit if self.match else 0.0


How = Literal["list", "exact", "approximate", "words"]


class Hits(NamedTuple):
    """Hits in their order, and how they were found.

    hidden: the status of each memory that would be among them if it weren't expired, archived or forgotten; answered:
    the probability that one of the hits answers; evidence: what that is called. Both are None where nothing was asked.
    """

    found: list[Hit]
    how: How
    hidden: dict[UUID, str] = {}  # noqa: RUF012 - never changed
    answered: float | None = None
    evidence: Evidence | None = None

    @property
    def hidden_by_reason(self) -> dict[str, int]:
        """How many memories are hidden, by reason."""
        return dict(sorted(Counter(HIDDEN_AS[status] for status in self.hidden.values()).items()))


def hits_of(rows: list[Row]) -> list[Hit]:
    """Return rows of `HIT_COLUMNS` as hits."""
    return [Hit(**row) for row in rows]


NOT_OURS: Final = "cursor is not one that an earlier page gave."
BEGIN_AGAIN: Final = "Leave it out to begin again."


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next page begins: after a sort key and id, or at an offset; `now` is the first page's."""

    now: datetime
    offset: int = 0
    after: tuple[str, UUID] | None = None

    @property
    def is_further(self) -> bool:
        """Whether it is not a first page."""
        return bool(self.offset or self.after)


def query_fingerprint(question: BaseModel) -> str:
    """Return a short text that is the same for the same question on every page."""
    same = question.model_dump_json(exclude={"cursor", "offset", "limit", "detail", "max_chars", "now"})
    return sha256(same.encode()).hexdigest()[:12]


def write_cursor(place: Cursor, mark: str) -> str:
    """Return `place` as a cursor that is valid for the question of `mark` only."""
    after = None if place.after is None else [place.after[0], str(place.after[1])]
    where = [place.now.isoformat(), place.offset, after]
    return base64.urlsafe_b64encode(json.dumps([mark, _checksum(mark, where), *where]).encode()).decode()


def _checksum(mark: str, where: list[Any]) -> str:
    """Return a short text that another place does not have, so that a cursor with a changed sort key is known."""
    return sha256(json.dumps([mark, *where]).encode()).hexdigest()[:12]


def parse_cursor(cursor: str, mark: str) -> Cursor:
    """Return the place that a cursor stands for.

    Raises:
        InvalidInput: it is none of ours, or belongs to another question.
    """
    try:
        its_mark, seal, now, offset, after = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        place = Cursor(
            datetime.fromisoformat(now), int(offset), None if after is None else (str(after[0]), UUID(after[1]))
        )
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError):
        raise InvalidInput(NOT_OURS, BEGIN_AGAIN) from None
    if seal != _checksum(its_mark, [now, offset, after]):
        raise InvalidInput(NOT_OURS, BEGIN_AGAIN)
    if its_mark != mark or not 0 <= place.offset <= 100_000:
        raise InvalidInput("cursor belongs to a different query.", "Repeat the query unchanged, or leave cursor out.")
    return place


def next_cursor(place: Cursor, mark: str, shown: list[Hit], *, more: bool) -> str | None:
    """Return where the page after the hits `shown` begins, or None when there may be no more."""
    if not more or not shown:
        return None
    last = shown[-1]
    if last.sort_key is not None:
        return write_cursor(Cursor(place.now, after=(last.sort_key, last.id)), mark)
    return write_cursor(Cursor(place.now, place.offset + len(shown)), mark)
