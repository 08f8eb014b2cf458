"""The SQL that reads and writes memories, each statement with the index it uses.

Every table of a namespace is asked with `namespace_id = %(namespace_id)s` of its own, never by way of another table's:
so Citus sends the whole statement to the one worker that has the namespace. Three more habits keep it able to: an
INSERT from a SELECT returns something (it would be sent as COPY otherwise, which row-level security refuses), no
subquery is without a column, and a change takes the time from a subquery with OFFSET 0 (what is not immutable may not
be in an expression over columns).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import AwareDatetime

from pgengram.details import CONFIDENCE_NAME, DETAILS
from pgengram.embedders import Passage
from pgengram.errors import ModelSwitched
from pgengram.fields import TYPES
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.connection.pool import vectors_of
from pgengram.text.derived import TURN, derived
from pgengram.text.sounds import MARK

# Of the columns that keep what a memory's detail has.
SQL_TYPES: Final = {
    str: "text", bool: "boolean", int: "integer", float: "double precision", AwareDatetime: "timestamptz", timedelta: "interval",
}  # fmt: skip
# What names sound like adds no length to a text: a memory with names is found by its words as if it had no sounds.
SOUNDS: Final = f"(SELECT count(*) FROM unnest(extra) AS e WHERE starts_with(e, '{MARK}'))::integer"
# One statement writes everything of up to 200 memories, so there is no moment in which half of one exists. Rows are
# inserted in the order of their hashes: two batches that share memories cannot wait for each other in a circle. Uses
# memories_active_content and memories_by_idempotency_key to leave out what is there already, and memories_by_session to
# go on counting the turns of a conversation: neighbours are told by their numbers. Only the words of active memories
# wait to be found. Vectors of a model that is not the active one (any more) are left out, and the answer tells: the
# switch to another model waits for the statements that hold memory_vectors, and this one sees what has been committed
# when it got hold of it.
_CREATE: Final = """
WITH given AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(%(memories)s) AS g(
    id uuid, type text, kind text, status text, content text, content_hash text, metadata jsonb, detail jsonb, tags text[],
    importance double precision, rate_per_day double precision, confidence double precision, emotion text, pinned boolean,
    source text, source_provider text, capture_mode text, session_id text, session_sequence bigint, place integer, speaker text,
    speaker_key text, turn_features smallint,
    "user" text, project text, collection text, occurred_at timestamptz, expires_at timestamptz,
    last_confirmed_at timestamptz,
    sources jsonb, idempotency_key text, searched text, extra text[], actor text)
), before AS MATERIALIZED (
  SELECT session_id, (SELECT coalesce(max(m.session_sequence), 0) FROM memories m
    WHERE m.namespace_id = %(namespace_id)s AND m.session_id = named.session_id) AS last
  FROM (SELECT DISTINCT session_id FROM given WHERE session_id IS NOT NULL AND session_sequence IS NULL) AS named
), active_model AS MATERIALIZED (
  SELECT id FROM embedding_models WHERE state = 'active'
), stored AS (
  INSERT INTO memories (namespace_id, id, type, kind, status, content, content_hash, metadata, source, source_provider, capture_mode,
    session_id, session_sequence, speaker, speaker_key, turn_features, "user", project, collection, confidence, emotion, pinned, occurred_at,
    expires_at, sources, idempotency_key, last_confirmed_at, valid_from)
  SELECT %(namespace_id)s, id, type, kind, status, content, decode(content_hash, 'hex'), metadata, source, source_provider,
    capture_mode, session_id, coalesce(session_sequence, before.last + place), speaker, speaker_key, turn_features, "user", project,
    collection, confidence, emotion, pinned, occurred_at, expires_at, nullif(sources, 'null'), idempotency_key,
    coalesce(last_confirmed_at, now()),
    coalesce(occurred_at, now())
  FROM given LEFT JOIN before USING (session_id) ORDER BY content_hash
  ON CONFLICT DO NOTHING
  RETURNING [memory]
), fresh AS MATERIALIZED (
  SELECT g.* FROM given g JOIN stored USING (id)
), activation AS (
  INSERT INTO memory_activation (namespace_id, memory_id, importance, rate_per_day, started_at)
  SELECT %(namespace_id)s, id, importance, rate_per_day, now() FROM fresh RETURNING [activation]
), [details], tagged AS (
  INSERT INTO memory_tags (namespace_id, memory_id, tag, position)
  SELECT %(namespace_id)s, fresh.id, t.tag, t.position FROM fresh, unnest(tags) WITH ORDINALITY AS t(tag, position)
  RETURNING 1
), vectors AS (
  INSERT INTO memory_vectors (namespace_id, memory_id, model_id, part, embedding)
  SELECT %(namespace_id)s, v.id, %(model_id)s, v.part, v.embedding
  FROM unnest(%(vector_ids)s::uuid[], %(vector_parts)s::smallint[], %(vectors)b::halfvec[]) AS v(id, part, embedding)
  JOIN fresh USING (id) WHERE %(model_id)s = (SELECT id FROM active_model) RETURNING [vector]
), terms AS MATERIALIZED (
  SELECT id, t.term, t.count FROM fresh, pgengram_terms(searched, extra) AS t
), lengths AS MATERIALIZED (
  SELECT id, array_agg(term ORDER BY term) AS terms, array_agg(count ORDER BY term) AS counts, sum(count)::integer AS length
  FROM terms GROUP BY id
), worded AS (
  INSERT INTO memory_words (namespace_id, memory_id, terms, counts, length, segment)
  SELECT %(namespace_id)s, id, terms, counts, greatest(1, length - [sounds]), CASE WHEN status <> 'active' THEN 0 END
  FROM lengths JOIN fresh USING (id) RETURNING 1
), history AS (
  INSERT INTO memory_history (namespace_id, memory_id, version, operation, actor, session_id)
  SELECT %(namespace_id)s, id, 1, 'create', coalesce(nullif(current_setting('pgengram.actor', true), ''), actor), session_id
  FROM fresh RETURNING 1
)
SELECT [shown], (SELECT id FROM active_model) AS active_model_id,
  EXISTS (SELECT 1 FROM memory_clusters WHERE namespace_id = %(namespace_id)s AND centroid IS NOT NULL) AS clustered
FROM [stored]
"""
_SHOWN_WHOLE: Final = """stored.*, activation.importance, activation.rate_per_day, activation.access_count,
  activation.last_accessed_at, pgengram_relevance(activation.relevance_anchor, activation.rate_per_day, now()) AS relevance,
  fresh.tags, coalesce([detail]) AS detail,
  (SELECT count(*) FROM vectors WHERE memory_id = stored.id) AS vectors"""

DEFAULTS: Final = {"event_time": "occurred_at, now()"}  # of a detail that is not given


def _insert_detail(type_: str, *, whole: bool) -> str:
    """Return the part of the statement that stores the detail of a type, each key in the column of its name."""
    names = [name for name in DETAILS[type_].model_fields if name != CONFIDENCE_NAME.get(type_)]
    values = [_detail_value(type_, name) for name in names]
    detail = f"memory_id, to_jsonb({type_}_memories) - 'namespace_id' - 'memory_id' AS detail"
    return f"""{type_} AS (
  INSERT INTO {type_}_memories (namespace_id, memory_id, {", ".join(names)})
  SELECT %(namespace_id)s, id, {", ".join(values)} FROM fresh WHERE type = '{type_}' RETURNING {detail if whole else "1"})"""


def _detail_value(type_: str, name: str) -> str:
    """Return the expression that takes one key out of the detail of a memory."""
    kind = _bare_type(DETAILS[type_].model_fields[name].annotation)
    if kind is Any:
        return f"nullif(detail -> '{name}', 'null')"
    if kind is list:
        return f"ARRAY(SELECT jsonb_array_elements_text(detail -> '{name}'))"
    value = f"(detail ->> '{name}')::{SQL_TYPES[kind]}"
    return f"coalesce({value}, {DEFAULTS[name]})" if name in DEFAULTS else value


def _bare_type(annotation: Any) -> Any:
    """Return the type of a value without its bounds, and without None."""
    if get_origin(annotation) not in (Annotated, Union, UnionType):
        return get_origin(annotation) or annotation
    return _bare_type(next(one for one in get_args(annotation) if one is not NoneType))


def _create_statement(*, whole: bool) -> str:
    """Return the statement that stores memories; it gives their ids, or them `whole` as `READ` does."""
    made = {
        "[sounds]": SOUNDS,
        "[memory]": "*" if whole else "id",
        "[activation]": "memory_id, importance, rate_per_day, access_count, last_accessed_at, relevance_anchor"
        if whole
        else "1",
        "[vector]": "memory_id" if whole else "1",
        "[shown]": _SHOWN_WHOLE if whole else "id",
        "[stored]": "stored JOIN fresh USING (id) JOIN activation ON activation.memory_id = stored.id"
        if whole
        else "stored",
    }
    made["[details]"] = ", ".join(_insert_detail(type_, whole=whole) for type_ in TYPES)
    made["[detail]"] = ", ".join(f"(SELECT detail FROM {type_} WHERE memory_id = stored.id)" for type_ in TYPES)
    statement = _CREATE
    for place, text in made.items():
        statement = statement.replace(place, text)
    return statement


CREATE: Final = _create_statement(whole=False)
CREATE_WHOLE: Final = _create_statement(whole=True)

# Uses memories_active_content.
FIND_TWINS: Final = """
SELECT id, content_hash, expires_at <= now() AS expired FROM memories
WHERE namespace_id = %(namespace_id)s AND status = 'active' AND content_hash = ANY(%(hashes)s)
"""
# Uses memories_by_idempotency_key.
FIND_BY_KEY: Final = """
SELECT id, idempotency_key FROM memories WHERE namespace_id = %(namespace_id)s AND idempotency_key = ANY(%(keys)s)
"""
# Uses memories_pkey; a memory has the key of the first call that led to it.
SET_KEY: Final = """
UPDATE memories SET idempotency_key = %(key)s WHERE namespace_id = %(namespace_id)s AND id = %(id)s AND idempotency_key IS NULL
"""

# Telling a memory again confirms it; an expired one lives again. At most once a minute, so that a storm of identical
# calls is not a storm of writes. All that changes is locked at once, in the order of its ids. A cluster takes no now()
# inside a CASE. Uses memories_pkey.
LOCK_TWINS: Final = """
SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s) AND (id = ANY(%(changed)s)
  OR last_confirmed_at IS NULL OR last_confirmed_at < now() - interval '1 minute' OR expires_at <= now())
ORDER BY id FOR UPDATE
"""
CONFIRM_TWINS: Final = """
UPDATE memories SET last_confirmed_at = moment.at,
  expires_at = CASE WHEN expires_at <= moment.at THEN confirmed.until ELSE expires_at END
FROM unnest(%(ids)s::uuid[], %(untils)s::timestamptz[]) AS confirmed(id, until), (SELECT now() AS at OFFSET 0) AS moment
WHERE namespace_id = %(namespace_id)s AND memories.id = confirmed.id RETURNING memories.id, expires_at
"""

# After those that it has. Uses memory_tags_pkey.
ADD_TAGS: Final = """
INSERT INTO memory_tags (namespace_id, memory_id, tag, position)
SELECT %(namespace_id)s, %(id)s, t.tag, last.position + t.position
FROM unnest(%(tags)s::text[]) WITH ORDINALITY AS t(tag, position), (
  SELECT coalesce(max(position), 0) AS position FROM memory_tags WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s) AS last
RETURNING tag
"""

_DETAILS_OF_ONE: Final = "\n".join(
    f"LEFT JOIN {type_}_memories {type_} ON {type_}.namespace_id = %(namespace_id)s AND {type_}.memory_id = m.id"
    for type_ in TYPES
)
# Uses the primary key of each table.
READ: Final = f"""
SELECT m.*, a.importance, a.rate_per_day, a.access_count, a.last_accessed_at,
  pgengram_relevance(a.relevance_anchor, a.rate_per_day, now()) AS relevance,
  ARRAY(SELECT tag FROM memory_tags t WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id ORDER BY position, tag) AS tags,
  coalesce({", ".join(f"to_jsonb({type_})" for type_ in TYPES)}) - 'namespace_id' - 'memory_id' AS detail,
  (SELECT count(*) FROM memory_vectors v
   WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = m.id AND v.model_id = %(model_id)s) AS vectors
FROM memories m
JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
{_DETAILS_OF_ONE}
WHERE m.namespace_id = %(namespace_id)s AND m.id = ANY(%(ids)s)
"""

# Uses memories_pkey. Rows are locked in the order of their ids, so that two bulk changes cannot wait in a circle.
LOCK: Final = """
SELECT id, version FROM memories WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s) ORDER BY id FOR UPDATE
"""

# Uses memories_pkey and memories_by_short_id.
FIND_BY_ID: Final = """
SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s)
UNION
SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND short_id = ANY(%(short_ids)s)
"""

# Uses memories_pkey; one more than are named.
FIND_BY_BEGINNING: Final = """
SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND id BETWEEN %(low)s AND %(high)s ORDER BY id LIMIT 6
"""

# A use adds its weight to the forward-decayed sum; importance itself never changes by use. The last 32 are kept one by
# one, for whoever wants to see how a memory faded. Here and below rows are locked in the order of their ids first, so
# that uses and hits that are counted at once cannot wait in a circle. Uses memory_activation_pkey.
REINFORCE: Final = """
UPDATE memory_activation a SET access_count = a.access_count + 1, last_accessed_at = now(),
  used_at = trim_array(array_prepend(used.at, a.used_at), greatest(coalesce(cardinality(a.used_at), 0) - 31, 0)),
  use_weights = trim_array(array_prepend(%(weight)s::double precision::real, a.use_weights),
    greatest(coalesce(cardinality(a.use_weights), 0) - 31, 0)), reinforcement = CASE
    WHEN a.reinforcement IS NULL THEN used.log_weight
    ELSE greatest(a.reinforcement, used.log_weight) + ln(1 + exp(greatest(-abs(a.reinforcement - used.log_weight), -700)))
  END
FROM (SELECT u.memory_id, moment.at, ln(%(weight)s::double precision) + u.rate_per_day * moment.days AS log_weight
      FROM memory_activation u CROSS JOIN (SELECT now() AS at,
        extract(epoch FROM now() AT TIME ZONE 'UTC')::double precision / 86400 - 20000 AS days OFFSET 0) AS moment
      WHERE u.namespace_id = %(namespace_id)s AND u.memory_id = ANY(%(ids)s) ORDER BY u.memory_id FOR UPDATE OF u) AS used
WHERE a.namespace_id = %(namespace_id)s AND a.memory_id = used.memory_id
"""
# A hit is counted and no more. Uses memory_activation_pkey.
COUNT_HITS: Final = """
UPDATE memory_activation a SET access_count = a.access_count + hit.times
FROM (SELECT u.memory_id, found.times
      FROM memory_activation u JOIN unnest(%(ids)s::uuid[], %(times)s::integer[]) AS found(id, times) ON found.id = u.memory_id
      WHERE u.namespace_id = %(namespace_id)s ORDER BY u.memory_id FOR UPDATE OF u) AS hit
WHERE a.namespace_id = %(namespace_id)s AND a.memory_id = hit.memory_id
"""
COMMIT_WITHOUT_WAITING: Final = "SET LOCAL synchronous_commit = off"

# A change of the rate keeps what use has earned until now: the line is turned around this moment.
SET_ACTIVATION: Final = """
UPDATE memory_activation SET importance = %(importance)s, rate_per_day = %(rate_per_day)s,
  reinforcement = reinforcement + (%(rate_per_day)s - rate_per_day)
    * (extract(epoch FROM now() AT TIME ZONE 'UTC')::double precision / 86400 - 20000)
WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s
"""

SET_TAGS: Final = """
WITH gone AS (DELETE FROM memory_tags WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s AND tag <> ALL(%(tags)s::text[]))
INSERT INTO memory_tags (namespace_id, memory_id, tag, position)
SELECT %(namespace_id)s, %(id)s, t.tag, t.position FROM unnest(%(tags)s::text[]) WITH ORDINALITY AS t(tag, position)
ON CONFLICT (namespace_id, memory_id, tag) DO UPDATE SET position = excluded.position
"""

# A new text leaves no vector of the old one behind, of any model.
DROP_VECTORS: Final = "DELETE FROM memory_vectors WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s"
ADD_VECTORS: Final = """
INSERT INTO memory_vectors (namespace_id, memory_id, model_id, part, embedding)
SELECT %(namespace_id)s, v.id, %(model_id)s, v.part, v.embedding
FROM unnest(%(vector_ids)s::uuid[], %(vector_parts)s::smallint[], %(vectors)b::halfvec[]) AS v(id, part, embedding)
WHERE %(model_id)s = (SELECT id FROM embedding_models WHERE state = 'active') RETURNING 1
"""

# A search by words finds what waits (no segment) by looking at each, and the rest by posting lists; only active
# memories are in either, so that it needs no look at the memory itself. These take some out: after the memories their
# words are locked in one order, then, in another, the lists that hold them, so that two who take out the same words
# cannot wait in a circle. Use memory_words_pkey and memory_posting_lists_pkey.
LOCK_WORDS: Final = """
SELECT segment, terms FROM memory_words WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s)
ORDER BY memory_id FOR UPDATE
"""
LOCK_LISTS: Final = """
SELECT l.term FROM memory_posting_lists l
JOIN unnest(%(segments)s::integer[], %(terms)s::integer[]) AS place(segment, term)
  ON l.segment = place.segment AND l.term = place.term
WHERE l.namespace_id = %(namespace_id)s ORDER BY l.segment, l.term FOR UPDATE OF l
"""
DROP_FROM_LISTS: Final = """
UPDATE memory_posting_lists l SET (memory_ids, measures) = (
  SELECT coalesce(array_agg(e.id ORDER BY e.place), '{}'), coalesce(array_agg(e.measure ORDER BY e.place), '{}')
  FROM unnest(l.memory_ids, l.measures) WITH ORDINALITY AS e(id, measure, place) WHERE e.id <> ALL(%(ids)s))
FROM unnest(%(segments)s::integer[], %(terms)s::integer[]) AS place(segment, term)
WHERE l.namespace_id = %(namespace_id)s AND l.segment = place.segment AND l.term = place.term
"""
DROP_EMPTY_LISTS: Final = """
DELETE FROM memory_posting_lists l USING unnest(%(segments)s::integer[], %(terms)s::integer[]) AS place(segment, term)
WHERE l.namespace_id = %(namespace_id)s AND l.segment = place.segment AND l.term = place.term AND l.memory_ids = '{}'
"""
HIDE_WORDS: Final = """
UPDATE memory_words SET segment = 0
WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s) AND segment IS DISTINCT FROM 0
"""
DROP_WORDS: Final = "DELETE FROM memory_words WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s)"
ADD_WORDS: Final = """
WITH given AS MATERIALIZED (
  SELECT *, [sounds] AS sounds FROM jsonb_to_recordset(%(rows)s) AS g(id uuid, active boolean, searched text, extra text[])
), terms AS MATERIALIZED (
  SELECT given.id, given.active, given.sounds, t.term, t.count FROM given, pgengram_terms(given.searched, given.extra) AS t
)
INSERT INTO memory_words (namespace_id, memory_id, terms, counts, length, segment)
SELECT %(namespace_id)s, id, array_agg(term ORDER BY term), array_agg(count ORDER BY term),
  greatest(1, sum(count)::integer - sounds), CASE WHEN NOT active THEN 0 END
FROM terms GROUP BY id, active, sounds RETURNING 1
""".replace("[sounds]", SOUNDS)

ADD_HISTORY: Final = """
INSERT INTO memory_history (namespace_id, memory_id, version, operation, session_id, changes)
VALUES (%(namespace_id)s, %(id)s, %(version)s, %(operation)s, %(session_id)s, %(changes)s)
"""

# What replaces a memory ends its validity where its own begins, else it ends now. LEAST passes over null. Uses
# memories_pkey.
FORGET: Final = """
UPDATE memories SET status = 'invalidated', reason = coalesce(%(reason)s, reason),
  valid_to = least(coalesce(valid_to, %(replaced_from)s::timestamptz, moment.at), %(replaced_from)s::timestamptz),
  replaced_by = coalesce(%(replaced_by)s::uuid[], replaced_by), version = version + 1, updated_at = moment.at
FROM (SELECT now() AS at OFFSET 0) AS moment
WHERE namespace_id = %(namespace_id)s AND id = %(id)s
RETURNING version, valid_to
"""

# Which memories a replacement ended, and would still end after its own beginning has moved. Uses memories_hidden.
ENDED_BY: Final = """
SELECT id, version, valid_to FROM memories
WHERE namespace_id = %(namespace_id)s AND status <> 'active' AND %(id)s = ANY(replaced_by)
  AND valid_to = %(ended)s AND valid_from < %(begins)s
ORDER BY id FOR UPDATE
"""

# Erasing leaves no text, vector or word behind; detail, tags, vectors and words go by their foreign keys, posting lists
# and history have none. Uses memory_history_pkey and memories_pkey.
ERASE_HISTORY: Final = "DELETE FROM memory_history WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s)"
ERASE: Final = "DELETE FROM memories WHERE namespace_id = %(namespace_id)s AND id = ANY(%(ids)s)"


async def set_vectors(tx: Transaction, id_: UUID, parts: Passage, model_id: int | None) -> None:
    """Replace every vector of a memory, of whatever model, by those of its new text.

    Raises:
        ModelSwitched: the vectors are not of the active model.
    """
    await tx.run(DROP_VECTORS, {"id": id_})
    await add_vectors(tx, [(id_, parts)], model_id)


async def add_vectors(tx: Transaction, parts_of: Sequence[tuple[UUID, Passage]], model_id: int | None) -> None:
    """Store the vectors of memories that have none.

    Raises:
        ModelSwitched: the vectors are not of the active model.
    """
    given = vectors_of(parts_of)
    if given["vectors"] and not await tx.run(ADD_VECTORS, {"model_id": model_id, **given}):
        raise ModelSwitched


async def hold_words(tx: Transaction, ids: Sequence[UUID]) -> dict[str, list[Any]]:
    """Lock the words of locked memories and the lists that hold them; whoever changes several does so before the first.

    Returns the places of the lists, `segments` and `terms`, pair by pair.
    """
    found = await tx.rows(LOCK_WORDS, {"ids": list(ids)})
    places = {(row["segment"], term) for row in found if row["segment"] for term in row["terms"]}
    where = {"segments": [segment for segment, _ in places], "terms": [term for _, term in places]}
    if places:
        await tx.rows(LOCK_LISTS, where)
    return where


async def _take_out(tx: Transaction, ids: Sequence[UUID]) -> None:
    where = await hold_words(tx, ids)
    if where["terms"]:
        await tx.run(DROP_FROM_LISTS, {**where, "ids": list(ids)})
        await tx.run(DROP_EMPTY_LISTS, where)


async def unpost(tx: Transaction, ids: Sequence[UUID]) -> None:
    """Let no search by words find locked memories any more; their own lists of words stay."""
    await _take_out(tx, ids)
    await tx.run(HIDE_WORDS, {"ids": list(ids)})


async def set_words(tx: Transaction, rows: Sequence[Row]) -> None:
    """Make locked memories found by the words they have now, those that are active."""
    ids = [row["id"] for row in rows]
    await _take_out(tx, ids)
    await tx.run(DROP_WORDS, {"ids": ids})
    await tx.run(ADD_WORDS, {"rows": Jsonb([_searched(row) for row in rows])})


def _searched(row: Row) -> dict[str, Any]:
    follows = derived(row, tags=row["tags"], detail=row["detail"], in_conversation=bool(row["turn_features"] & TURN))
    words = {"searched": follows.searched, "extra": follows.extra}
    return {"id": str(row["id"]), "active": row["status"] == "active", **words}
