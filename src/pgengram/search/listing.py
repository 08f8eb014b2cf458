"""Lists: the memories that pass the filters, in an order that does not depend on any question."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pgengram.inputs import Question, Sort
from pgengram.search.filters import OCCURRED, WITH_ACTIVATION, Scope, scope_of
from pgengram.search.results.cursors import Cursor
from pgengram.search.results.hits import HIT_COLUMNS, Hits, hits_of
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.schema.visibility import HIDDEN_IDS

SORT_KEYS: Final[dict[str, str]] = {
    "created": "m.created_at",
    "updated": "m.updated_at",
    "occurred": OCCURRED,
    "importance": "a.importance",
    "relevance": "pgengram_relevance(a.relevance_anchor, a.rate_per_day, %(now)s)",
    "accessed": "coalesce(a.last_accessed_at, '-infinity')",
}
# Which they are is found with few columns; only what is shown is read whole. Uses memories_by_time when sorted by
# creation, memories_by_occurrence when sorted by that, a sort of what matches otherwise.
LIST: Final = f"""
WITH {{listed}}
SELECT {HIT_COLUMNS}, listed.key::text AS sort_key FROM listed
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = listed.id {WITH_ACTIVATION}
ORDER BY listed.key DESC, m.id DESC
"""
FILTERED: Final = """listed AS MATERIALIZED (
  SELECT m.id, {key} AS key FROM memories m {activation}
  WHERE m.namespace_id = %(namespace_id)s AND {conditions}
  ORDER BY {key} DESC, m.id DESC LIMIT %(limit)s OFFSET %(offset)s)"""
# Without filters, an order that memory_activation knows needs no memory that is not shown: reads that small table, and
# sorts no more of it than a page. Uses memories_hidden.
ALL_BY_ACTIVATION: Final = f"""{HIDDEN_IDS}, listed AS MATERIALIZED (
  SELECT a.memory_id AS id, {{key}} AS key FROM memory_activation a
  WHERE a.namespace_id = %(namespace_id)s AND a.memory_id NOT IN (SELECT id FROM hidden){{conditions}}
  ORDER BY {{key}} DESC, a.memory_id DESC LIMIT %(limit)s OFFSET %(offset)s)"""
# Said twice: subject to row-level security only the first is looked up in an index, as comparing ids might tell what it
# sees.
AFTER: Final = " AND {key} <= %(after_key)s::{kind} AND ({key}, {id}) < (%(after_key)s::{kind}, %(after_id)s)"
# Uses memories_hidden.
HIDDEN_ONES: Final = "SELECT m.id, m.status FROM memories m {activation} WHERE m.namespace_id = %(namespace_id)s AND {conditions} LIMIT %(limit)s"
COUNT: Final = (
    "SELECT count(*) AS matches FROM memories m {activation} WHERE m.namespace_id = %(namespace_id)s AND {conditions}"
)


async def list_page(tx: Transaction, question: Question, place: Cursor) -> Hits:
    """Return a page of the memories that pass the filters in the order asked for, newest first unless told otherwise.

    Args:
        tx: the namespace's transaction.
        question: which memories, `sort` and `limit`.
        place: where the page begins; of its `now` is live relevance meant.
    """
    scope = scope_of(question)
    if question.sort == "relevance" and not scope.narrowed:
        limits = {"limit": question.limit, "offset": place.offset}
        rows = await most_relevant(tx, now=place.now, after=place.after, **limits)
    else:
        rows = await _sorted(tx, scope, question.sort or "created", question.limit, place)
    hidden = []
    if scope.hidden is not None and not place.is_further:
        left_out = HIDDEN_ONES.format(activation=scope.activation, conditions=scope.hidden)
        hidden = await tx.rows(left_out, {**scope.parameters, "limit": question.limit})
    return Hits(hits_of(rows), "list", {row["id"]: row["status"] for row in hidden})


async def _sorted(tx: Transaction, scope: Scope, sort: Sort, limit: int, place: Cursor) -> list[Row]:
    key = SORT_KEYS[sort]
    activated = "a." in key
    whole = activated and not scope.narrowed
    given = {**scope.parameters, "now": place.now, "limit": limit, "offset": place.offset}
    after = ""
    if place.after is not None:
        kind = "double precision" if sort in ("importance", "relevance") else "timestamptz"
        after = AFTER.format(key=key, kind=kind, id="a.memory_id" if whole else "m.id")
        given |= {"after_key": place.after[0], "after_id": place.after[1]}
    if whole:
        chosen = ALL_BY_ACTIVATION.format(key=key, conditions=after)
    else:
        activation = WITH_ACTIVATION if activated else scope.activation
        chosen = FILTERED.format(key=key, conditions=scope.conditions + after, activation=activation)
    return await tx.rows(LIST.format(listed=chosen), given)


# The best of each rate of fading are the first of its index, whatever the time is; a page begins near its place in the
# index and there after the last memory of the page before. Uses memory_activation_rank.
MOST_RELEVANT: Final = f"""
WITH {HIDDEN_IDS}, moment AS MATERIALIZED (
  SELECT extract(epoch FROM %(now)s::timestamptz)::double precision / 86400 - 20000 AS days
), best AS MATERIALIZED (
  SELECT top.memory_id, top.line FROM decay_classes c CROSS JOIN moment CROSS JOIN LATERAL (
    SELECT a.memory_id, a.relevance_anchor - a.rate_per_day * moment.days AS line FROM memory_activation a
    WHERE a.namespace_id = %(namespace_id)s AND a.rate_per_day = c.rate_per_day AND a.memory_id NOT IN (SELECT id FROM hidden)
      {{after}}
    ORDER BY a.relevance_anchor DESC, a.memory_id LIMIT %(limit)s + %(offset)s) AS top
  ORDER BY top.line DESC, top.memory_id LIMIT %(limit)s OFFSET %(offset)s
)
SELECT {HIT_COLUMNS}, best.line::text AS sort_key FROM best
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = best.memory_id {WITH_ACTIVATION}
ORDER BY best.line DESC, m.id
"""


AFTER_LINE: Final = """AND a.relevance_anchor <= %(line)s + a.rate_per_day * moment.days + 1e-6
      AND (a.relevance_anchor - a.rate_per_day * moment.days < %(line)s
           OR a.relevance_anchor - a.rate_per_day * moment.days = %(line)s AND a.memory_id > %(after_id)s)"""


async def most_relevant(
    tx: Transaction, *, now: datetime, limit: int, offset: int, after: tuple[str, UUID] | None = None
) -> list[Row]:
    """Return the memories that matter most at `now`: importance faded by time and renewed by use."""
    given: dict[str, Any] = {"now": now, "limit": limit, "offset": offset}
    if after is not None:
        given |= {"line": float(after[0]), "after_id": after[1]}
    return await tx.rows(MOST_RELEVANT.format(after=AFTER_LINE if after else ""), given)


async def count_matches(tx: Transaction, question: Question) -> int:
    """Return how many memories pass the filters."""
    scope = scope_of(question)
    row = await tx.row(COUNT.format(conditions=scope.conditions, activation=scope.activation), scope.parameters)
    return int(row["matches"]) if row else 0


MOST_VALUES: Final = 200  # values of a filter
OF_TAGS: Final = "JOIN memory_tags t ON t.namespace_id = %(namespace_id)s AND t.memory_id = m.id"
# Of each filter its column, and the join that makes it known.
FACETS: Final = {"kind": ("m.kind", ""), "project": ("m.project", ""), "tags": ("t.tag", OF_TAGS)}
# Any of several kinds, and one project, may hold: what is chosen there leaves the others as they are. Of tags all hold.
LIFTED: Final = frozenset({"kind", "project"})
# Uses what `COUNT` uses, and memory_tags_pkey.
COUNT_EACH: Final = """
SELECT {column} AS name, count(*) AS memories FROM memories m {join} {activation}
WHERE m.namespace_id = %(namespace_id)s AND {conditions} AND {column} IS NOT NULL
GROUP BY {column} ORDER BY memories DESC, {column} LIMIT %(limit)s
"""


async def counted_by_value(tx: Transaction, questions: Mapping[str, Question]) -> dict[str, dict[str, int]]:
    """Return for each filter its values, the most frequent first, with how many memories would be left by each.

    Args:
        tx: the namespace's transaction.
        questions: for each of FACETS what the other filters ask for.
    """
    found = {}
    for name, (column, join) in FACETS.items():
        scope = scope_of(questions[name])
        statement = COUNT_EACH.format(
            column=column, join=join, activation=scope.activation, conditions=scope.conditions
        )
        rows = await tx.rows(statement, {**scope.parameters, "limit": MOST_VALUES})
        found[name] = {row["name"]: row["memories"] for row in rows}
    return found
