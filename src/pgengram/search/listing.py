"""Lists: the memories that pass the filters, in an order that does not depend on any question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pgengram.inputs import Question, Sort
from pgengram.search.candidates import by_meaning, set_for_index, sized, with_vector_search
from pgengram.search.dates import KEPT
from pgengram.search.filters import OCCURRED, WITH_ACTIVATION, Scope, scope_of
from pgengram.search.results import HIT_COLUMNS, Cursor, Hit, Hits, hits_of
from pgengram.search.vector_index import VectorIndex
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.schema import HIDDEN_IDS, VISIBLE

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


# Where a memory lies: the mean of its parts. Uses memory_vectors_pkey.
PLACES: Final = """
SELECT memory_id AS id, avg(embedding) AS vector FROM memory_vectors
WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s) AND model_id = %(model_id)s GROUP BY memory_id
"""
# Uses what by_meaning uses.
NEAREST: Final = """
WITH {hidden}, {sized}, near AS MATERIALIZED ({by_meaning}) SELECT * FROM near WHERE similarity > %(above)s
"""


async def neighbours(
    tx: Transaction, model: VectorIndex, ids: Sequence[UUID], *, above: float, limit: int
) -> dict[UUID, tuple[float, UUID]]:
    """Return the active memories most like the given ones: for each its cosine and which one it is like, best first.

    Args:
        tx: the namespace's transaction.
        model: whose vectors are compared.
        ids: the memories to stand beside; a memory without a vector has no neighbours.
        above: a cosine that all of them exceed.
        limit: how many at most.
    """
    places = await tx.rows(PLACES, {"ids": list(ids), "model_id": model.id})
    scope = with_vector_search(scope_of(Question()), model, tx.namespace_id)
    await set_for_index(tx, scope)
    nearest = NEAREST.format(hidden=HIDDEN_IDS, sized=sized(model, scope), by_meaning=by_meaning(model, scope))
    found: dict[UUID, tuple[float, UUID]] = {}
    for place in places:
        given: dict[str, Any] = {**scope.parameters, "vector": place["vector"], "above": above}
        for row in await tx.rows(nearest, given):
            known = found.get(row["memory_id"])
            if row["memory_id"] not in ids and (known is None or known[0] < row["similarity"]):
                found[row["memory_id"]] = (row["similarity"], place["id"])
    best = sorted(found.items(), key=lambda one: (-one[1][0], one[0]))
    return dict(best[:limit])


# The least that any search by meaning does: the nearest vectors, whatever they are of. Uses the model's index, or none
# where something is added to the distance.
ALONE: Final = """
SELECT memory_id FROM memory_vectors WHERE namespace_id = %(namespace_id)s AND model_id = {model}
ORDER BY (embedding::halfvec({dimensions}) <=> %(vector)b::halfvec({dimensions})) {exactly} LIMIT 10
"""


async def vectors_alone(tx: Transaction, model: VectorIndex, vector: Any, *, exact: bool) -> list[UUID]:
    """Return the memories of the ten nearest vectors; a measure's floor, which is what no search can be faster than.

    Args:
        tx: the namespace's transaction.
        model: whose vectors are compared.
        vector: as `vectors_parameter` gives it.
        exact: look at every vector; else the index answers where there is one.
    """
    statement = ALONE.format(model=int(model.id), dimensions=int(model.dimensions), exactly="+ 0" if exact else "")
    return [row["memory_id"] for row in await tx.rows(statement, {"vector": vector})]


LOOKED_AT: Final = 5_000  # of the newest memories, whose texts are read for dates
MOST: Final = 50
NEIGHBOURS: Final = 5  # of each memory that are told

# Those that happen or end in a time, or whose text or the times kept beside it have one of its days. Uses
# memories_by_time and memories_pkey.
SOON: Final = f"""
WITH soon AS MATERIALIZED (SELECT id FROM (
  SELECT m.id, m.content, m.metadata ->> '{KEPT}' AS times, m.occurred_at, m.expires_at FROM memories m
  WHERE m.namespace_id = %(namespace_id)s AND {VISIBLE} ORDER BY m.created_at DESC, m.id DESC LIMIT {LOOKED_AT}) AS newest
WHERE occurred_at >= %(start)s AND occurred_at < %(end)s OR expires_at < %(end)s
  OR content ~* %(written)s OR times ~* %(written)s
LIMIT {MOST})
SELECT {HIT_COLUMNS} FROM soon JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = soon.id {WITH_ACTIVATION}
"""
# By the first parts of two texts, each with its nearest among those asked for. Uses memory_vectors_pkey.
NEAR: Final = f"""
WITH chosen AS MATERIALIZED (
  SELECT h.id AS memory_id, v.embedding FROM unnest(%(ids)s::uuid[]) AS h(id)
  CROSS JOIN LATERAL (SELECT v.embedding FROM memory_vectors v
    WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = h.id AND v.model_id = %(model_id)s AND v.part = 0 OFFSET 0) AS v
)
SELECT one.memory_id AS one, near.memory_id AS other, near.cosine FROM chosen AS one CROSS JOIN LATERAL (
  SELECT other.memory_id, 1 - (one.embedding <=> other.embedding) AS cosine FROM chosen AS other
  WHERE other.memory_id <> one.memory_id ORDER BY one.embedding <=> other.embedding LIMIT {NEIGHBOURS}) AS near
"""


async def soon(tx: Transaction, start: datetime, end: datetime, written: str) -> list[Hit]:
    """Return memories that happen from `start` to before `end`, end before that, or name one of its days.

    Args:
        tx: the namespace's transaction.
        start: of the time.
        end: of the time.
        written: a regular expression of PostgreSQL for its days as texts have them.
    """
    return hits_of(await tx.rows(SOON, {"start": start, "end": end, "written": written}))


async def near(tx: Transaction, ids: Sequence[UUID], model_id: int) -> list[Row]:
    """Return `one`, `other` and `cosine` for each of some memories and its nearest among them."""
    return await tx.rows(NEAR, {"ids": list(ids), "model_id": model_id})
