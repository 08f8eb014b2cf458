"""What a conversation begins with where no topic is named: all that holds where it fits, else what matters first.

What is due in the next two weeks, by day; then by person and project what always matters, what was said lately, and
what matters most. Each memory stands there once, with the day on which it was stated last, and what another may have
replaced only beside that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pgengram import fields as f
from pgengram.inputs import Question, validated
from pgengram.runtime.context import here
from pgengram.search import listing
from pgengram.search.dates import Period, TimeRead, date_pattern, times
from pgengram.search.results import Cursor
from pgengram.search.results.budget import recalled_line
from pgengram.search.succession import HINTED, NAMED, crowding, may_have_changed, succeeds, surest
from pgengram.service.answers import contexts
from pgengram.service.batches import days_kept
from pgengram.store.reading.names import folded_name
from pgengram.text.differences import same_subject
from pgengram.text.markdown import fenced, one_line
from pgengram.text.sameness import folded
from pgengram.views import cut, stated

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from pgengram.search.results import Hit
    from pgengram.service.core import Core


AHEAD: Final = timedelta(days=14)
A_DAY: Final = timedelta(days=1)
LONGEST: Final = 1_000  # characters; a longer text is a log or a letter
COMES_ROUND: Final = timedelta(days=366)  # a day that was so long past when it was told comes round, as birthdays do


def window(now: datetime) -> Period:
    """Return the days that are soon: today and the `AHEAD` after it, by the clock of who asks."""
    start = now.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    return Period(start, start + AHEAD + A_DAY)


def due(hit: Hit, now: datetime) -> date | None:
    """Return the first day within the window on which what a memory tells happens or ends, if any."""
    soon = window(now)
    days = [day for day in _days_of(hit, now, soon) if soon.start <= day < soon.end]
    return min(days).date() if days else None


def _days_of(hit: Hit, now: datetime, soon: Period) -> Iterator[datetime]:
    for name in ("occurred_at", "expires_at"):
        if getattr(hit, name) is not None:
            yield getattr(hit, name).astimezone(UTC)
    yield from days_kept(hit.metadata)
    if len(hit.content) <= LONGEST:
        yield from _days_told(hit, now, soon)


def _days_told(hit: Hit, now: datetime, soon: Period) -> Iterator[datetime]:
    """Yield the days on which something happens as the text tells it: not since when it is so, nor when it was said."""
    later = {str(one.period) for one in times(hit.content, now + 3 * COMES_ROUND)}
    for one in times(hit.content, now):
        if one.period.end == f.LAST_MOMENT or one.period.start.date() == hit.created_at.date():
            continue
        absolute = one.period.sure and str(one.period) in later  # what counts from now is kept in a field
        if absolute or not one.period.sure:
            yield from _days_meant(hit, one, soon)


def _days_meant(hit: Hit, one: TimeRead, soon: Period) -> Iterator[datetime]:
    """Yield the first day of a period, and of a single day when it comes round next."""
    start = one.period.start
    if one.period.sure:
        yield start
    single = one.period.end - start <= A_DAY
    past = hit.created_at - start > COMES_ROUND and hit.type != "episodic"
    if single and (past or not one.period.sure):
        for year in {soon.start.year, soon.end.year}:
            if (start.month, start.day) != (2, 29):
                yield start.replace(year=year)


UNNAMED: Final = 0.0  # the evidence for what is only near enough to be shown beside an older memory
Successors = dict[UUID, dict[UUID, float]]  # of each older memory those that may hold instead, with the evidence


async def successors(core: Core, hits: Sequence[Hit]) -> Successors:
    """Return for each of some memories those among them that may tell what holds instead, with the evidence, `UNNAMED`
    where they share no words; nothing without an embedder.
    """
    model_id = core.model_key
    if model_id is None or len(hits) < 2:
        return {}
    by_id = {hit.id: hit for hit in hits}
    pairs = await core.store.read_transaction(lambda tx: listing.near(tx, list(by_id), model_id))
    cosines: dict[UUID, dict[UUID, float]] = defaultdict(dict)
    for pair in pairs:
        cosines[pair["one"]][pair["other"]] = cosines[pair["other"]][pair["one"]] = pair["cosine"]
    found: Successors = defaultdict(dict)
    judged = []
    for one, near in cosines.items():
        for other, cosine in near.items():
            newer, older = by_id[one], by_id[other]
            if may_have_changed(newer.statement, older.statement):
                judged.append(
                    ((one, other), succeeds(newer.statement, older.statement, cosine, _crowding(cosines, one, other)))
                )
    for (new, old), evidence in surest(judged, HINTED):
        found[old][new] = evidence if _same_subject(by_id[new], by_id[old]) else UNNAMED
    return found


def _same_subject(newer: Hit, older: Hit) -> bool:
    return same_subject(newer.content, older.content, " ".join(filter(None, newer.statement.scope)))


def _crowding(cosines: Mapping[UUID, Mapping[UUID, float]], one: UUID, other: UUID) -> float:
    """Return how near others are to the two."""
    return (
        sum(crowding(value for id_, value in cosines[a].items() if id_ != b) for a, b in ((one, other), (other, one)))
        / 2
    )


EXCERPT: Final = 220  # characters of a memory; get_memories reads it whole
NEWEST: Final = 2 * f.MAX_LIMIT  # memories, of which a small store has no more
DUE_SHARE: Final = 0.4  # of the room at most, so that a full calendar leaves some for the rest
ALWAYS_SHARE: Final = 0.75  # of the room, that what is due and what always matters may have
LATELY_SHARE: Final = 0.9
SOON: Final = "Next two weeks:"
OF_NOBODY: Final = "Of nobody in particular"


@dataclass(slots=True)
class Line:
    """A memory in the digest: the hit, the day on which it is due, its text as a line, under which heading it stands,
    and in which share of the room it was taken: what always matters comes before the rest.
    """

    hit: Hit
    day: date | None
    text: str
    group: str = ""
    tier: float = 1.0


async def digest(
    core: Core, always: Sequence[Hit], max_chars: int, *, user: str | None, project: str | None
) -> list[Line]:
    """Return the memories of a digest as they are read; none where nothing fits.

    Args:
        core: whose memories.
        always: what always matters, best first.
        max_chars: of the text as it is fenced.
        user: whose memories; None for everybody's.
        project: of which project; None for all.
    """
    now = here()
    hits = await _pool(core, always, now, user=user, project=project)
    after = await successors(core, [*hits.values()])
    days = {id_: day for id_, hit in hits.items() if (day := due(hit, now))}
    room = _Room(hits, after, days, max_chars - len(fenced([])), of_project=bool(project))
    order = _best_first(hits, always, days)
    shares = (DUE_SHARE, ALWAYS_SHARE, LATELY_SHARE, 1.0)
    for share, ids in zip(shares, order, strict=True):
        for id_ in ids:
            room.take(id_, share)
    return room.lines


async def _listed_hits(core: Core, asked: dict[str, Any], now: datetime) -> AsyncIterator[Hit]:
    """Yield the first `NEWEST` memories of a list."""
    question = validated(Question, {**asked, "limit": f.MAX_LIMIT}).without_counting_hidden()
    for offset in range(0, NEWEST, f.MAX_LIMIT):
        page = (await core.search(question, Cursor(now, offset))).found
        for hit in page:
            yield hit
        if len(page) < f.MAX_LIMIT:
            return


async def _pool(
    core: Core, always: Sequence[Hit], now: datetime, *, user: str | None, project: str | None
) -> dict[UUID, Hit]:
    """Return the memories that may be in a digest, the best known first."""
    found = _by_id(always)
    relevant = {"sort": "relevance", **({"project": project} if project else {})}
    for asked in ({"sort": "created"}, relevant):
        found = _by_id([hit async for hit in _listed_hits(core, asked, now)]) | found
    soon = window(now)
    days = date_pattern(soon) or ""
    ahead = await core.store.read_transaction(lambda tx: listing.soon(tx, soon.start, soon.end, days))
    found = _by_id(ahead) | found
    fit = [hit for hit in found.values() if contexts.concerns(core, hit, user=user, project=project)]
    if project and user is None:
        fit = _of_project_members(fit)
    return _by_id(await contexts.trusted(core, fit))


def _by_id(hits: Iterable[Hit]) -> dict[UUID, Hit]:
    return {hit.id: hit for hit in hits}


def _of_project_members(hits: Sequence[Hit]) -> list[Hit]:
    """Return hits without the own matters of people who have nothing in the project."""
    members = {hit.user for hit in hits if hit.project} - {None}
    return [hit for hit in hits if not members or hit.user in {None, *members}]


def _best_first(hits: dict[UUID, Hit], always: Sequence[Hit], days: dict[UUID, date]) -> tuple[list[UUID], ...]:
    """Return what is due, what always matters, what was said lately and the rest, each best first."""
    due_first = sorted(days, key=lambda id_: (days[id_], str(id_)))
    standing = [hit.id for hit in always if hit.id in hits]
    lately = sorted(hits, key=lambda id_: stated(vars(hits[id_])), reverse=True)
    rest = sorted(hits, key=lambda id_: -hits[id_].importance)
    latest = lately[: len(lately) // 2]
    return due_first, *([*_in_turn(ids, hits)] for ids in (standing, latest, rest))


def _in_turn(ids: Sequence[UUID], hits: dict[UUID, Hit]) -> Iterable[UUID]:
    """Yield memories so that each person, and each project of nobody's, has the first before any has its second."""
    of_each: dict[str | None, list[UUID]] = {}
    for id_ in ids:
        of_each.setdefault(hits[id_].user or hits[id_].project, []).append(id_)
    for place in zip_longest(*of_each.values()):
        yield from (id_ for id_ in place if id_ is not None)


class _Room:
    """The room of a digest: takes memories as long as they fit, each text once."""

    def __init__(
        self, hits: dict[UUID, Hit], after: Successors, days: dict[UUID, date], room: int, *, of_project: bool
    ) -> None:
        self.taken: dict[UUID, Line] = {}
        self._hits, self._after, self._days, self._of_project = hits, after, days, of_project
        self._room, self._used = room, 0
        self._said: set[str] = set()
        self._names: dict[str, str] = {}
        self._headings: set[str] = set()

    def take(self, id_: UUID, share: float) -> None:
        """Take a memory, and before it what may hold instead; only together, and in this share of the room."""
        if id_ in self.taken or self._is_outdated(id_):
            return
        lines = [self._line(one) for one in self._together(id_) if one not in self.taken]
        length = self._length(lines)
        said = folded(self._hits[id_].content)
        if self._used + length > share * self._room or said in self._said:
            return
        self._used += length
        self._headings |= {line.group for line in lines}
        self._said.add(said)
        self.taken |= {line.hit.id: replace(line, tier=share) for line in lines}

    def _length(self, lines: Sequence[Line]) -> int:
        """Return what lines take, with those headings that are not there yet."""
        headings = {line.group for line in lines} - self._headings
        return sum(_line_size(line.text) for line in lines) + sum(_line_size(one or OF_NOBODY) + 1 for one in headings)

    def _is_outdated(self, id_: UUID) -> bool:
        """Whether another surely tells what holds instead; that is shown where it fits."""
        return any(evidence >= NAMED for evidence in self._after.get(id_, {}).values())

    def _together(self, id_: UUID) -> list[UUID]:
        """Return a memory with what may hold instead of it, and instead of that."""
        chain_of: dict[UUID, None] = {id_: None}
        for one in (waiting := [id_]):
            for other in self._after.get(one, {}):
                if other in self._hits and other not in chain_of:
                    chain_of[other] = None
                    waiting.append(other)
        return [*chain_of]

    def _line(self, id_: UUID) -> Line:
        hit, day = self._hits[id_], self._days.get(id_)
        newer = [str(one) for one, evidence in self._after.get(id_, {}).items() if evidence > UNNAMED]
        text = cut(one_line(hit.content), EXCERPT)
        return Line(hit, day, recalled_line(replace(hit, content=text, newer=newer), day), self._group(hit, day))

    def _group(self, hit: Hit, day: date | None) -> str:
        """Return the heading of a memory: whose it is, in the spelling that came first."""
        named = [self._names.setdefault(folded_name(name), name) for name in (hit.user, hit.project) if name]
        return SOON if day else " · ".join(named)

    @property
    def lines(self) -> list[Line]:
        """What was taken, as it is read: what is due by day, then what is of the project that was asked for, of nobody
        and of the others, of each what was stated last.
        """
        order = {"": 0}
        for line in self.taken.values():
            first = self._of_project and line.hit.project
            order.setdefault(line.group, -len(order) if first else len(order))
        order[SOON] = -len(order) - 1

        def key(line: Line) -> tuple[int, str, bool, float]:
            return order[line.group], str(line.day or ""), line.tier > ALWAYS_SHARE, -stated(vars(line.hit)).timestamp()

        return sorted(self.taken.values(), key=key)


def _line_size(line: str) -> int:
    """Return what a line takes: bytes, as a letter beyond ASCII costs a model more than one."""
    return len(line.encode("utf-8", "replace")) + 1


def grouped(lines: Sequence[Line]) -> Iterable[str]:
    """Yield the lines with the heading of each group before its first."""
    last = ""
    for line in lines:
        if line.group != last:
            last = line.group
            yield last if last == SOON else f"{one_line(last) or OF_NOBODY}:"
        yield line.text
