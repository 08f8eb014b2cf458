"""Conversations word for word, apart from the memories: what was said, by whom, how far each was read, and
what was put before a model unasked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram import fields as f
from pgengram.store.connection.database import Row, Transaction

# Turns that an import numbers by a client's own file begin here, where hooks number the same conversation by its
# events.
FROM_FILE: Final = 1_000_000
LAST: Final = 0x7FFFFFFF  # number that a turn can have
# A client, a conversation or a project by all its names in small letters, or any.
Chosen = Mapping[str, str | Sequence[str] | None]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation with a client.

    Args:
        client: which, such as claude-code.
        id: as the client calls it.
        project: what it is about, if that is known.
        transcript: path of the client's own file, if it keeps one.
        title: as the client calls it, if it does.
        aliases: of the project.
        forked_from: the conversation that it begins with a copy of.
        as_of: the moment of the state that its source tells, by which a later state is known.
        began_at: when it began, where its source tells that; otherwise with its first turn.
    """

    client: str
    id: str
    project: str | None = None
    transcript: str | None = None
    title: str | None = None
    aliases: tuple[str, ...] = ()
    forked_from: str | None = None
    as_of: datetime | None = None
    began_at: datetime | None = None

    @property
    def about(self) -> dict[str, list[str] | None]:
        """All names of what it is about."""
        return {"projects": [self.project, *self.aliases] if self.project else None}

    @property
    def key(self) -> dict[str, str]:
        """What tells it apart within a namespace."""
        return {"client": self.client, "conversation": self.id}


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said at once.

    Args:
        number: its place in the conversation, as the client counts; see `FROM_FILE`. Turns are ordered by time, then
            this.
        role: one of `fields.ROLES`.
        key: what it is known by, a hash of how its source calls it; None if an event told it.
        withdrawn: whether it was taken back: rewound, edited or generated again.
        copied_from: the conversation that it was copied from, and the moment of the state that is known of that, where
            its source tells it.
        from_history: whether a history of prompts tells it, which counts only where nothing else tells of the
            conversation.
        id: that it has in another store; see `turn_arrivals`.
    """

    number: int
    role: str
    text: str
    time: datetime
    key: int | None = None
    withdrawn: bool = False
    copied_from: tuple[str, datetime | None] | None = None
    from_history: bool = False
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Keeping:
    """Whether conversations are kept, and how long."""

    keeps: bool = True
    keep_days: int = f.KEEP_DAYS


def source_key(*names: object) -> int:
    """Return what a turn is known by: the first 64 bits of a hash of how its source calls it."""
    digest = sha256("\0".join(map(str, names)).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], signed=True)


MOST_WORDS: Final = 0.6  # of those asked, which a turn has that matches
# Each uses the primary key of its table unless said otherwise.
FIND_KEEPING: Final = "SELECT keeps, keep_days FROM conversation_settings WHERE namespace_id = %(namespace_id)s"
ANY_TURN: Final = "SELECT 1 AS one FROM conversation_turns WHERE namespace_id = %(namespace_id)s LIMIT 1"
SET_KEEPING: Final = """
INSERT INTO conversation_settings (namespace_id, keeps, keep_days) VALUES (%(namespace_id)s, %(keeps)s, %(keep_days)s)
ON CONFLICT (namespace_id) DO UPDATE SET keeps = excluded.keeps, keep_days = excluded.keep_days
"""
# Whoever keeps turns of one conversation at the same moment waits here.
BEGIN: Final = """
INSERT INTO conversations (namespace_id, client, conversation, project, transcript)
VALUES (%(namespace_id)s, %(client)s, %(conversation)s, %(project)s, %(transcript)s)
ON CONFLICT (namespace_id, client, conversation) DO UPDATE SET
  project = coalesce(excluded.project, conversations.project), transcript = coalesce(excluded.transcript, conversations.transcript),
  read_to = CASE WHEN excluded.transcript <> coalesce(conversations.transcript, '') THEN -1 ELSE conversations.read_to END
RETURNING read_to, kept_from
"""
READ_TO: Final = """
UPDATE conversations SET read_to = %(number)s, at = coalesce(%(at)s::timestamptz, at),
  kept_from = CASE WHEN %(kept)s THEN kept_from ELSE greatest(kept_from, %(at)s::timestamptz) END
WHERE namespace_id = %(namespace_id)s AND client = %(client)s AND conversation = %(conversation)s
"""
# Uses conversation_turns_by_time, and conversations_pkey for each.
IS_KEPT: Final = """
SELECT number FROM conversation_turns
WHERE namespace_id = %(namespace_id)s AND client = %(client)s AND conversation = %(conversation)s
  AND role = %(role)s AND text = %(text)s
  AND (time = %(time)s OR (%(again)s AND number = %(number)s - 1 AND time BETWEEN %(time)s - interval '1 minute' AND %(time)s)) LIMIT 1
"""
# Uses conversation_turns_by_time.
OLD: Final = """FROM {table} t
WHERE t.namespace_id = %(namespace_id)s AND time <= now() - make_interval(days => %(keep_days)s) AND NOT EXISTS (
  SELECT 1 FROM conversations c WHERE c.namespace_id = %(namespace_id)s AND c.client = t.client
    AND c.conversation = t.conversation AND c.imported)
"""
FORGET_OLD: Final = f"DELETE {OLD}"
# That they are gone is no change for other machines, which keep them for as long as their own settings say.
FORGET_NOTES: Final = f"""
DELETE FROM sync_changes n USING (SELECT jsonb_build_array({{key}})::text AS key {OLD}) AS gone
WHERE n.namespace_id = %(namespace_id)s AND n.kind = '{{kind}}' AND n.key = gone.key
"""
OLD_ROWS: Final = (
    ("hidden_turn", "hidden_turns", "t.client, t.conversation, t.source_key::text, t.withdrawn::text, t.digest"),
    ("turn", "conversation_turns", "t.client, t.conversation, t.id::text"),
)
COUNT_OLD: Final = f"SELECT count(*) AS turns {OLD.format(table='conversation_turns')}"
CHOSEN: Final = """namespace_id = %(namespace_id)s
  AND (%(client)s::text IS NULL OR client = %(client)s) AND (%(conversation)s::text IS NULL
    OR conversation = %(conversation)s)
  AND (%(projects)s::text[] IS NULL OR lower(project) = ANY(%(projects)s))"""
ERASE: Final = f"DELETE FROM conversation_turns WHERE {CHOSEN}"
# So that what was copied elsewhere does not come back. Uses conversations_pkey.
ERASE_COPIES: Final = f"""
DELETE FROM hidden_turns t WHERE t.namespace_id = %(namespace_id)s AND NOT withdrawn AND EXISTS (
  SELECT 1 FROM conversations c WHERE c.{CHOSEN} AND c.client = t.client AND c.conversation = t.conversation)
"""
# So that a hook that reads them in another file doesn't bring them again.
KEEP_ERASED: Final = f"UPDATE conversations SET kept_from = greatest(kept_from, at) WHERE {CHOSEN}"
# Uses conversations_by_time.
LIST: Final = f"""
SELECT c.client, c.conversation, c.project, c.at, t.turns, t.began_at, left(coalesce(c.title, t.first_words), %(chars)s) AS begins
FROM conversations c CROSS JOIN LATERAL (
  SELECT count(*) AS turns, min(time) AS began_at, (array_agg(text ORDER BY time, number) FILTER (WHERE role = 'user'))[1] AS first_words
  FROM conversation_turns t
  WHERE t.namespace_id = %(namespace_id)s AND t.client = c.client AND t.conversation = c.conversation) AS t
WHERE c.{CHOSEN} AND t.turns > 0
ORDER BY c.at DESC, c.client, c.conversation LIMIT %(limit)s OFFSET %(offset)s
"""
# Of the conversation with this id, or of the latest one with this beginning if no client is given. Two texts of one
# turn stand in an order that doesn't depend on which came first. Uses conversations_by_time and
# conversation_turns_pkey.
TURNS: Final = """
WITH chosen AS (
  SELECT *, row_number() OVER (ORDER BY time, first, text COLLATE "C", number, id) AS place FROM (
    SELECT id, number, role, text, time, min(number) OVER (PARTITION BY coalesce(source_key, -number), time) AS first
    FROM conversation_turns WHERE namespace_id = %(namespace_id)s AND (client, conversation) = (
      SELECT client, conversation FROM conversations
      WHERE namespace_id = %(namespace_id)s AND CASE WHEN %(client)s::text IS NULL THEN starts_with(conversation, %(beginning)s)
        ELSE client = %(client)s AND conversation = %(beginning)s END ORDER BY at DESC LIMIT 1)) AS t)
SELECT id, number, role, text, time FROM chosen
WHERE place > coalesce((SELECT place FROM chosen WHERE id = %(after)s), 0) ORDER BY place LIMIT %(limit)s
"""
# Those whose client may have said more than was read, the latest first. Uses conversations_by_time.
UNFINISHED: Final = """
SELECT client, conversation, project, transcript FROM conversations
WHERE namespace_id = %(namespace_id)s AND client = %(client)s AND conversation <> %(conversation)s AND transcript IS NOT NULL
ORDER BY at DESC LIMIT %(limit)s
"""
# The latest other conversation about the same project. Uses conversations_by_time.
LAST_OTHER: Final = """(
  SELECT client, conversation, at FROM conversations
  WHERE namespace_id = %(namespace_id)s AND conversation <> %(conversation)s
    AND CASE WHEN %(projects)s::text[] IS NULL THEN project IS NULL ELSE project = ANY(%(projects)s) END
  ORDER BY at DESC LIMIT 1)"""
# Uses conversation_turns_pkey.
LAST_WORDS: Final = f"""
SELECT c.conversation, c.at, said.role, said.text FROM {LAST_OTHER} AS c
CROSS JOIN LATERAL (
  SELECT DISTINCT ON (role) role, text FROM conversation_turns t
  WHERE t.namespace_id = %(namespace_id)s AND t.client = c.client AND t.conversation = c.conversation AND t.role <> 'tool'
  ORDER BY role, time DESC, number DESC) AS said
"""
# Turns that have most of the words asked, those with more of them first, then the latest. Reads the latest turns of the
# namespace or all of them, as row-level security lets no index of arrays be used.
FIND: Final = """
WITH asked AS MATERIALIZED (SELECT pgengram_turn_terms(%(words)s) AS terms), found AS (
  SELECT t.client, t.conversation, t.number, t.role, t.text, t.time, t.project,
    (SELECT count(*) FROM unnest(asked.terms) AS one(term) WHERE one.term = ANY(t.terms)) AS share
  FROM asked, (
    SELECT * FROM conversation_turns
    WHERE namespace_id = %(namespace_id)s AND (%(projects)s::text[] IS NULL OR lower(project) = ANY(%(projects)s))
      AND (%(since)s::timestamptz IS NULL OR time >= %(since)s) AND (%(until)s::timestamptz IS NULL OR time <= %(until)s)
    ORDER BY time DESC LIMIT %(latest)s
  ) AS t
  WHERE t.terms && asked.terms
)
SELECT found.*, count(*) OVER () AS matching FROM found, asked WHERE share >= %(least)s * cardinality(asked.terms)
ORDER BY share DESC, time DESC, number DESC LIMIT %(limit)s
"""
# Uses conversation_turns_pkey.
LAST_SAID: Final = f"""
SELECT t.client, t.conversation, t.number, t.role, t.text, t.project, t.time FROM {LAST_OTHER} AS c
JOIN conversation_turns t ON t.namespace_id = %(namespace_id)s AND t.client = c.client AND t.conversation = c.conversation
WHERE t.role = 'user' ORDER BY t.time DESC, t.number DESC LIMIT %(limit)s
"""
# Uses conversation_turns_by_time.
SAID_BY_USERS: Final = f"""
SELECT client, conversation, number, role, text, project, time FROM conversation_turns
WHERE {CHOSEN} AND role = 'user' ORDER BY time DESC, number DESC LIMIT %(limit)s
"""
# Uses memories_by_time, and memories_by_project for those that were only changed.
STORED_SINCE: Final = """
SELECT content, sources, true AS is_new FROM memories
WHERE namespace_id = %(namespace_id)s AND created_at >= %(since)s AND status <> 'working'
UNION ALL
SELECT content, sources, false FROM memories
WHERE namespace_id = %(namespace_id)s AND project = ANY(%(projects)s::text[]) AND updated_at >= %(since)s AND created_at < %(since)s
LIMIT 1000
"""
# Uses conversation_turns_pkey.
BEGAN: Final = """
SELECT count(*) AS turns, min(time) AS at FROM conversation_turns
WHERE namespace_id = %(namespace_id)s AND client = %(client)s AND conversation = %(conversation)s
"""
# Uses conversation_turns_pkey alone, and for the oldest conversation_turns_by_time: the texts of a long history are
# many pages.
COUNT: Final = f"""
SELECT coalesce(sum(turns), 0)::bigint AS turns, count(*) AS conversations,
  (SELECT min(time) FROM conversation_turns WHERE {CHOSEN}) AS oldest
FROM (SELECT count(*) AS turns FROM conversation_turns WHERE {CHOSEN} GROUP BY client, conversation) AS each
"""
ALL: Final[Chosen] = {"client": None, "conversation": None, "projects": None}


async def keeping(tx: Transaction) -> Keeping:
    """Return whether conversations are kept, and how long."""
    row = await tx.row(FIND_KEEPING)
    return Keeping(**row) if row else Keeping()


async def older(tx: Transaction, keep_days: int) -> int:
    """Return how many turns are kept that would be forgotten if they were kept for so many days."""
    row = await tx.row(COUNT_OLD, {"keep_days": keep_days})
    return int(row["turns"]) if row else 0


async def set_keeping(tx: Transaction, wanted: Keeping) -> None:
    """Say whether conversations are kept from now on, and how long; what is older is forgotten at once."""
    await tx.run(SET_KEEPING, {"keeps": wanted.keeps, "keep_days": wanted.keep_days})
    await remove_old_turns(tx, wanted)


async def begin_conversation(tx: Transaction, conversation: Conversation) -> tuple[int, datetime | None]:
    """Note that a conversation goes on; return the number of the last turn that was read of its transcript, -1 for
    none, and the moment up to which nothing is kept of what was said.
    """
    given = {**conversation.key, "project": conversation.project, "transcript": conversation.transcript}
    row = await tx.row(BEGIN, given)
    return (int(row["read_to"]), row["kept_from"]) if row else (-1, None)


async def is_kept(tx: Transaction, conversation: Conversation, turn: Turn, *, again: bool) -> bool:
    """Whether a turn that would come next was kept with the same moment, or where it may be told `again` is the last
    one, said within a minute.
    """
    given = {"number": turn.number, "role": turn.role, "text": turn.text, "time": turn.time, "again": again}
    return await tx.row(IS_KEPT, {**conversation.key, **given}) is not None


async def read_to(
    tx: Transaction, conversation: Conversation, number: int, at: datetime | None, *, kept: bool = True
) -> None:
    """Note how far a conversation was read, when something was said last, and whether that was kept."""
    await tx.run(READ_TO, {**conversation.key, "number": number, "at": at, "kept": kept})


async def remove_old_turns(tx: Transaction, keeping: Keeping) -> int:
    """Take away the turns and receipts that were kept long enough; return how many turns these were."""
    await remove_old_receipts(tx, keeping.keep_days)
    await tx.set_local({"pgengram.syncing": "on"})  # each machine keeps them for as long as its own settings say
    turns = 0
    for kind, table, key in OLD_ROWS:
        await tx.run(FORGET_NOTES.format(kind=kind, table=table, key=key), {"keep_days": keeping.keep_days})
        turns = await tx.run(FORGET_OLD.format(table=table), {"keep_days": keeping.keep_days})
    await tx.set_local({"pgengram.syncing": ""})
    return turns


async def erase_turns(tx: Transaction, where: Chosen) -> int:
    """Take away the turns of one client, conversation or project, or all; return how many there were."""
    await tx.run(KEEP_ERASED, {**ALL, **where})
    await tx.run(ERASE_COPIES, {**ALL, **where})
    return await tx.run(ERASE, {**ALL, **where})


async def list_kept(tx: Transaction, where: Chosen, *, limit: int, offset: int = 0, chars: int) -> list[Row]:
    """Return the conversations of which turns are kept, the latest first, each with how it begins."""
    return await tx.rows(LIST, {**ALL, **where, "limit": limit, "offset": offset, "chars": chars})


async def turns(
    tx: Transaction, beginning: str, *, client: str | None = None, after: int = -1, limit: int | None = None
) -> list[Row]:
    """Return the turns of the latest conversation whose id begins so, in their order, from the one after an id on.

    With a client the id is whole.
    """
    return await tx.rows(TURNS, {"beginning": beginning, "client": client, "after": after, "limit": limit})


async def unfinished_conversations(tx: Transaction, current: Conversation, limit: int) -> list[Conversation]:
    """Return other conversations of the same client with a transcript, the latest first."""
    rows = await tx.rows(UNFINISHED, {**current.key, "limit": limit})
    return [Conversation(row["client"], row["conversation"], row["project"], row["transcript"]) for row in rows]


async def last_words(tx: Transaction, current: Conversation) -> list[Row]:
    """Return what each side said last in the latest other conversation about the same project."""
    return await tx.rows(LAST_WORDS, {**current.key, **current.about})


async def count_kept(tx: Transaction, where: Chosen = ALL) -> Row:
    """Return how many turns and conversations are kept, and the moment of the oldest."""
    return await tx.row(COUNT, {**ALL, **where}) or {}


async def has_any(tx: Transaction) -> bool:
    """Whether any turn is kept."""
    return await tx.row(ANY_TURN) is not None


async def last_said(tx: Transaction, current: Conversation, limit: int) -> list[Row]:
    """Return what the user said in the latest other conversation about the same project, the latest first."""
    return await tx.rows(LAST_SAID, {**current.key, **current.about, "limit": limit})


async def said_by_users(tx: Transaction, where: Chosen, limit: int) -> list[Row]:
    """Return what users said in conversations, the latest first."""
    return await tx.rows(SAID_BY_USERS, {**ALL, **where, "limit": limit})


async def stored_since(tx: Transaction, since: datetime, conversation: Conversation | None = None) -> list[Row]:
    """Return what was stored since a moment, and what of the conversation's project was changed; see `is_new`."""
    about = conversation.about if conversation else {"projects": None}
    return await tx.rows(STORED_SINCE, {"since": since, **about})


async def began(tx: Transaction, conversation: Conversation) -> Row:
    """Return how many turns of a conversation are kept, and when it began; None for `at` without any."""
    return await tx.row(BEGAN, conversation.key) or {"turns": 0, "at": None}


def turn_reference(row: Row) -> str:
    """Return how a memory names a turn among its `sources`: `turn:client/conversation/number`; what a tool printed is
    `tool:…`, so that it is known where such a memory comes from.
    """
    return f"{'tool' if row['role'] == 'tool' else 'turn'}:{row['client']}/{row['conversation']}/{row['number']}"


async def find_turns(tx: Transaction, words: str, *, limit: int, latest: int | None, **where: Any) -> list[Row]:
    """Return turns with most of the words, best first; each row tells how many match in all, as `matching`.

    Args:
        tx: of the namespace.
        words: what is looked for.
        limit: how many at most.
        latest: how many turns are looked at, the latest; None for all.
        where: projects (all names of one in small letters), since and until; None for any.
    """
    return await tx.rows(FIND, {"words": words, "least": MOST_WORDS, "limit": limit, "latest": latest, **where})


MOST_RECEIPTS: Final = 20_000  # receipts of a namespace: over two hundred a day for ninety days


@dataclass(frozen=True, slots=True)
class Receipt:
    """That a version of a memory was put before a model.

    Args:
        score: of the search that found it; None where nothing was asked.
        tokens: about how many it took.
    """

    memory_id: UUID
    version: int
    score: float | None
    tokens: int


# Uses recall_receipts_by_conversation.
RECEIPTS_OF: Final = """
SELECT memory_id, version FROM recall_receipts
WHERE namespace_id = %(namespace_id)s AND client = %(client)s AND conversation = %(conversation)s
"""
# Uses recall_receipts_pkey.
ADD_RECEIPTS: Final = """
INSERT INTO recall_receipts (namespace_id, memory_id, client, conversation, version, event, project, score, evidence, tokens,
  milliseconds)
SELECT %(namespace_id)s, r.memory_id, %(client)s, %(conversation)s, r.version, %(event)s, %(project)s, r.score, %(evidence)s,
  r.tokens, %(milliseconds)s
FROM jsonb_to_recordset(%(receipts)s) AS r(memory_id uuid, version integer, score real, tokens integer)
ON CONFLICT DO NOTHING
"""
# Read, changed or linked to since, by whomever. There are few beside the memories; uses memories_pkey,
# memory_activation_pkey and memory_relationships_to.
LIST_RECEIPTS: Final = """
SELECT r.at, r.client, r.conversation, r.event, r.project, r.memory_id, r.score, r.evidence, r.tokens, r.milliseconds,
  left(m.content, %(chars)s) AS content, coalesce(a.last_accessed_at > r.at, false) OR m.updated_at > r.at OR EXISTS (
    SELECT 1 FROM memory_relationships e
    WHERE e.namespace_id = %(namespace_id)s AND e.to_id = m.id AND e.created_at > r.at) AS used
FROM recall_receipts r
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = r.memory_id
JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = r.memory_id
WHERE r.namespace_id = %(namespace_id)s AND (%(conversation)s::text IS NULL OR r.conversation = %(conversation)s)
ORDER BY r.at DESC, r.memory_id LIMIT %(limit)s OFFSET %(offset)s
"""
# Uses recall_receipts_by_conversation; there are a few for each conversation.
FORGET_RECEIPTS: Final = """
DELETE FROM recall_receipts WHERE namespace_id = %(namespace_id)s AND (at <= now() - make_interval(days => %(keep_days)s)
  OR at < (SELECT at FROM recall_receipts WHERE namespace_id = %(namespace_id)s ORDER BY at DESC OFFSET %(most)s LIMIT 1))
"""


async def receipts_given(tx: Transaction, client: str, conversation: str) -> set[tuple[UUID, int]]:
    """Return which memories were put before the model in a conversation, each with its version."""
    rows = await tx.rows(RECEIPTS_OF, {"client": client, "conversation": conversation})
    return {(row["memory_id"], row["version"]) for row in rows}


async def add_receipts(tx: Transaction, receipts: Sequence[Receipt], **about: Any) -> None:
    """Log what is put before the model at one moment.

    Args:
        tx: the namespace's transaction.
        receipts: one for each memory.
        about: client, conversation, event, project, evidence and milliseconds.
    """
    rows = [
        {"memory_id": str(r.memory_id), "version": r.version, "score": r.score, "tokens": r.tokens} for r in receipts
    ]
    await tx.run(ADD_RECEIPTS, {**about, "receipts": Jsonb(rows)})


async def list_receipts(
    tx: Transaction, *, conversation: str | None, limit: int, offset: int = 0, chars: int
) -> list[Row]:
    """Return receipts, the latest first, each with the memory's text and whether it was read or changed since."""
    return await tx.rows(
        LIST_RECEIPTS, {"conversation": conversation, "limit": limit, "offset": offset, "chars": chars}
    )


async def remove_old_receipts(tx: Transaction, keep_days: int) -> None:
    """Take away receipts that were kept as long as turns are, and the oldest of more than `MOST`."""
    await tx.run(FORGET_RECEIPTS, {"keep_days": keep_days, "most": MOST_RECEIPTS - 1})
