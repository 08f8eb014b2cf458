"""Which memories count, as SQL conditions on `memories m` (and `memory_activation a`), applied before any cut."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from pgengram.inputs import Question
from pgengram.search.vector_index import Way
from pgengram.store.schema.visibility import HIDDEN, UNEXPIRED

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
    """Which memories a question ranges over: conditions on `memories m` and `memory_activation a`, and their
    parameters.

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
