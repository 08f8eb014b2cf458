"""Turns on their way in: what is known of each, and the statements that store them.

What a conversation has of a turn is a fact with the moment of the state that told it: that the turn stands there, or
that it was taken back. A turn is known by a key that its source gives it (`source_key`), and its conversation. What an
event told has no key until the client's own file names it.

A turn that is stored has an id, which it keeps whatever becomes known of it, and which nothing else ever gets: made
from its key and text, so that machines that take in the same file agree, or at random where it has no key, or one with
that id was removed before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import md5, sha256
from secrets import randbits
from typing import Any, Final

from psycopg.types.json import Jsonb

from pgengram.store.connection.database import Transaction
from pgengram.store.conversations import FROM_FILE, Conversation, Turn

ID_BITS: Final = 63
Name = tuple[str, str]  # a client, and a conversation as it calls it
Said = tuple[Conversation, Turn]

# Whoever brings turns of one conversation at the same moment waits here. What the newest state says of it counts. Uses
# conversations_pkey.
LOCK: Final = """
INSERT INTO conversations AS c (namespace_id, client, conversation, project, title, imported, forked_from, at, began_at, as_of)
SELECT %(namespace_id)s, s.client, s.conversation, s.project, s.title, %(imported)s, s.forked_from, s.at, s.began_at, s.as_of
FROM jsonb_to_recordset(%(conversations)s) AS s(client text, conversation text, project text, title text, forked_from text,
  at timestamptz, began_at timestamptz, as_of timestamptz)
ORDER BY s.client, s.conversation
ON CONFLICT (namespace_id, client, conversation) DO UPDATE SET
  imported = c.imported OR excluded.imported,
  project = CASE WHEN excluded.as_of > c.as_of THEN coalesce(excluded.project, c.project) ELSE coalesce(c.project, excluded.project) END,
  title = CASE WHEN excluded.as_of < c.as_of THEN coalesce(c.title, excluded.title) ELSE coalesce(excluded.title, c.title) END,
  forked_from = coalesce(c.forked_from, excluded.forked_from),
  at = greatest(c.at, excluded.at), began_at = least(c.began_at, excluded.began_at), as_of = greatest(c.as_of, excluded.as_of)
"""
# Uses conversations_pkey.
FIND_CONVERSATIONS: Final = """
SELECT c.client, c.conversation, c.began_at, c.kept_from
FROM jsonb_to_recordset(%(conversations)s) AS s(client text, conversation text)
JOIN conversations c ON c.namespace_id = %(namespace_id)s AND c.client = s.client AND c.conversation = s.conversation
"""
STORED: Final = """
SELECT t.client, t.conversation, t.source_key, md5(t.text) AS digest, t.role, t.number, t.time, t.as_of, false AS withdrawn,
  t.copy_of, true AS stored, t.id"""
HIDDEN: Final = """
SELECT t.client, t.conversation, t.source_key, t.digest, t.role, t.number, t.time, t.as_of, t.withdrawn, t.copy_of, false AS stored,
  NULL::bigint AS id"""
BY_KEY: Final = """
JOIN asked s ON t.client = s.client AND t.source_key = s.key WHERE t.namespace_id = %(namespace_id)s"""
# Uses conversation_turns_by_source and hidden_turns_by_source.
FIND_BY_KEY: Final = f"""
WITH asked AS MATERIALIZED (SELECT DISTINCT client, key FROM jsonb_to_recordset(%(turns)s) AS s(client text, key bigint))
{STORED} FROM conversation_turns t {BY_KEY}
UNION ALL {HIDDEN} FROM hidden_turns t {BY_KEY}
"""
OF_NAME: Final = """
JOIN asked s ON t.client = s.client AND t.conversation = s.conversation
WHERE t.namespace_id = %(namespace_id)s AND t.source_key IS NOT NULL"""
# Uses conversation_turns_pkey and hidden_turns_pkey.
FIND_OF_CONVERSATIONS: Final = f"""
WITH asked AS MATERIALIZED (
  SELECT client, conversation FROM jsonb_to_recordset(%(conversations)s) AS s(client text, conversation text))
{STORED} FROM conversation_turns t {OF_NAME}
UNION ALL {HIDDEN} FROM hidden_turns t {OF_NAME}
"""
# The conversations that some were forked from, and their forks, each with what it was forked from. Reads the
# conversations of the namespace.
FIND_FAMILY: Final = """
WITH RECURSIVE asked AS (
  SELECT client, conversation FROM jsonb_to_recordset(%(conversations)s) AS s(client text, conversation text)
), forks AS MATERIALIZED (
  SELECT client, conversation, forked_from FROM conversations
  WHERE namespace_id = %(namespace_id)s AND forked_from IS NOT NULL AND forked_from <> conversation
), family AS (
  SELECT client, conversation FROM asked
  UNION
  SELECT f.client, CASE WHEN f.conversation = m.conversation THEN f.forked_from ELSE f.conversation END
  FROM family m JOIN forks f ON f.client = m.client AND m.conversation IN (f.conversation, f.forked_from)
)
SELECT f.client, f.conversation, f.forked_from FROM forks f JOIN family USING (client, conversation)
"""
# Uses hidden_turns_pkey.
FIND_TAKEN_BACK: Final = """
SELECT source_key FROM hidden_turns WHERE namespace_id = %(namespace_id)s AND client = %(client)s
  AND conversation = %(conversation)s AND withdrawn
"""
# Turns that an event told, or that an earlier version read: those that say the same, the nearest in time first. Uses
# conversation_turns_pkey.
FIND_KEYLESS: Final = """
SELECT s.place, t.number, t.id FROM jsonb_to_recordset(%(turns)s)
  AS s(place integer, client text, conversation text, number integer, role text, digest text, time timestamptz)
JOIN conversation_turns t ON t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation
  AND t.source_key IS NULL AND t.role = s.role AND (md5(t.text) = s.digest OR (t.number = s.number AND t.time = s.time))
ORDER BY md5(t.text) = s.digest DESC, abs(extract(epoch FROM t.time - s.time)), s.place, t.number
"""
# Uses conversation_turns_pkey.
FIND_TEXT: Final = """
SELECT text, project FROM conversation_turns WHERE namespace_id = %(namespace_id)s AND client = %(client)s
  AND conversation = %(conversation)s AND id = %(id)s
"""
# Of what histories of prompts tell: what is kept already, or is of a conversation of which a file of its own or an
# event tells. Uses conversation_turns_pkey and hidden_turns_pkey.
FIND_PROMPTS: Final = f"""
SELECT s.place FROM jsonb_to_recordset(%(turns)s)
  AS s(place integer, client text, conversation text, role text, digest text, time timestamptz)
WHERE EXISTS (
    SELECT 1 FROM conversation_turns t WHERE t.namespace_id = %(namespace_id)s AND t.client = s.client
      AND t.conversation = s.conversation
      AND (t.source_key IS NOT NULL OR t.number < {FROM_FILE}
        OR (t.role = s.role AND t.time = s.time AND md5(t.text) = s.digest)))
  OR EXISTS (
    SELECT 1 FROM hidden_turns t WHERE t.namespace_id = %(namespace_id)s AND t.client = s.client
      AND t.conversation = s.conversation)
"""
# Numbers that are taken, and the last of each conversation. Uses conversation_turns_pkey.
FIND_NUMBERS: Final = """
SELECT s.client, s.conversation, max(t.number) AS last, array_agg(t.number) FILTER (WHERE t.number = ANY(s.numbers)) AS taken
FROM jsonb_to_recordset(%(conversations)s) AS s(client text, conversation text, numbers integer[])
JOIN conversation_turns t ON t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation
GROUP BY 1, 2
"""
ADD: Final = """
INSERT INTO conversation_turns (namespace_id, client, conversation, number, role, text, project, time, source_key, as_of, copy_of, id)
SELECT %(namespace_id)s, s.client, s.conversation, s.number, s.role, s.text, s.project, s.time, s.source_key, s.as_of, s.copy_of, s.id
FROM jsonb_to_recordset(%(turns)s) AS s(client text, conversation text, number integer, role text, text text, project text,
  time timestamptz, source_key bigint, as_of timestamptz, copy_of bigint, id bigint)
RETURNING number
"""
# Each uses conversation_turns_pkey.
RENEW: Final = """
UPDATE conversation_turns t SET source_key = s.source_key, time = s.time, as_of = s.as_of, copy_of = s.copy_of
FROM jsonb_to_recordset(%(turns)s) AS s(client text, conversation text, id bigint, source_key bigint, time timestamptz,
  as_of timestamptz, copy_of bigint)
WHERE t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation AND t.id = s.id
"""
GROW: Final = """
UPDATE conversation_turns t SET text = s.text
FROM jsonb_to_recordset(%(turns)s) AS s(client text, conversation text, id bigint, text text)
WHERE t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation AND t.id = s.id
"""
REMOVE: Final = """
DELETE FROM conversation_turns t USING jsonb_to_recordset(%(turns)s) AS s(client text, conversation text, id bigint)
WHERE t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation AND t.id = s.id
"""
# Those that synchronisation knows as removed. Uses sync_documents_pkey.
FIND_REMOVED: Final = """
SELECT s.id FROM jsonb_to_recordset(%(turns)s) AS s(client text, conversation text, id bigint)
JOIN sync_documents d ON d.namespace_id = %(namespace_id)s AND d.kind = 'turn'
  AND d.key = jsonb_build_array(s.client, s.conversation, s.id::text)::text AND jsonb_exists(d.state, 'gone')
"""
# Each uses hidden_turns_pkey.
REVEAL: Final = """
DELETE FROM hidden_turns t USING jsonb_to_recordset(%(turns)s)
  AS s(client text, conversation text, source_key bigint, withdrawn boolean, digest text)
WHERE t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation
  AND t.source_key = s.source_key AND t.withdrawn = s.withdrawn AND t.digest = s.digest
"""
HIDE: Final = """
INSERT INTO hidden_turns (namespace_id, client, conversation, source_key, withdrawn, digest, role, number, time, as_of, copy_of)
SELECT %(namespace_id)s, s.client, s.conversation, s.source_key, s.withdrawn, s.digest, s.role, s.number, s.time, s.as_of, s.copy_of
FROM jsonb_to_recordset(%(turns)s) AS s(client text, conversation text, source_key bigint, withdrawn boolean, digest text,
  role text, number integer, time timestamptz, as_of timestamptz, copy_of bigint)
ON CONFLICT (namespace_id, client, conversation, source_key, withdrawn, digest) DO UPDATE SET
  role = excluded.role, number = excluded.number, time = excluded.time, as_of = excluded.as_of, copy_of = excluded.copy_of
"""


@dataclass(slots=True)
class Fact:
    """That a conversation has a turn, or that it was taken back there.

    Args:
        name: of the conversation.
        key: what the turn is known by.
        digest: the MD5 of its text.
        role: who said it.
        number: its place in the conversation.
        time: when it was said.
        as_of: the newest state that tells it.
        withdrawn: whether it was taken back.
        copy_of: the key of the turn that it is a copy of, where that has another.
        stored: whether its text is stored there.
        id: of the turn that is stored there.
    """

    name: Name
    key: int
    digest: str
    role: str
    number: int
    time: datetime
    as_of: datetime | None
    withdrawn: bool = False
    copy_of: int | None = None
    stored: bool = False
    id: int | None = None

    @property
    def origin(self) -> int:
        """The key of the turn of which this and others are copies."""
        return self.key if self.copy_of is None else self.copy_of

    @property
    def row(self) -> dict[str, Any]:
        """As a row of `hidden_turns`."""
        client, conversation = self.name
        return {
            "client": client, "conversation": conversation, "source_key": self.key, "withdrawn": self.withdrawn,
            "digest": self.digest, "role": self.role, "number": self.number, "time": self.time.isoformat(),
            "as_of": self.as_of and self.as_of.isoformat(), "copy_of": self.copy_of,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a conversation besides its turns: when it began, and up to when nothing of it is kept."""

    began_at: datetime | None = None
    kept_from: datetime | None = None


def conversation_name(conversation: Conversation) -> Name:
    """Return what tells a conversation apart within a namespace."""
    return conversation.client, conversation.id


def clean(text: str) -> str:
    """Return a text without what PostgreSQL refuses."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def text_digest(text: str) -> str:
    """Return the MD5 of a text as PostgreSQL has it."""
    return md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


def about_conversations(said: Iterable[Said]) -> dict[Name, dict[str, Any]]:
    """Return what turns say of their conversations: when each began, at the latest, and when it goes on, at least."""
    rows: dict[Name, dict[str, Any]] = {}
    for one, turn in said:
        row = rows.setdefault(
            conversation_name(one), {**one.key, "at": turn.time, "as_of": one.as_of, "began_at": one.began_at}
        )
        row |= {name: row.get(name) or getattr(one, name) for name in ("project", "title", "forked_from")}
        row["at"] = max(row["at"], turn.time)
        row["as_of"] = max(filter(None, (row["as_of"], one.as_of)), default=None)
        if one.began_at is None and turn.copied_from is None:
            row["began_at"] = min(filter(None, (row["began_at"], turn.time)))
    return rows


async def lock_conversations(tx: Transaction, said: Iterable[Said], *, imported: bool) -> None:
    """Note the conversations, and wait for whoever brings turns of one of them.

    Args:
        tx: of the namespace.
        said: turns of them.
        imported: whether their turns stay until they are erased.
    """
    rows = [
        {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
        for row in about_conversations(said).values()
    ]
    await tx.run(LOCK, {"conversations": Jsonb(rows), "imported": imported})


async def known_conversations(tx: Transaction, names: Iterable[Name]) -> dict[Name, Known]:
    """Return what is known of conversations."""
    rows = await tx.rows(FIND_CONVERSATIONS, {"conversations": _names_json(names)})
    return {(row["client"], row["conversation"]): Known(row["began_at"], row["kept_from"]) for row in rows}


async def by_key(tx: Transaction, keys: Iterable[tuple[str, int]]) -> list[Fact]:
    """Return what every conversation of a client has of the turns with these keys."""
    rows = [{"client": client, "key": key} for client, key in keys]
    return [_turn_fact(row) for row in await tx.rows(FIND_BY_KEY, {"turns": Jsonb(rows)})]


async def of_conversations(tx: Transaction, names: Iterable[Name]) -> list[Fact]:
    """Return all that conversations have."""
    return [_turn_fact(row) for row in await tx.rows(FIND_OF_CONVERSATIONS, {"conversations": _names_json(names)})]


async def family(tx: Transaction, names: Iterable[Name]) -> dict[Name, Name]:
    """Return each fork that is related to these conversations, with what it was forked from."""
    rows = await tx.rows(FIND_FAMILY, {"conversations": _names_json(names)})
    return {(row["client"], row["conversation"]): (row["client"], row["forked_from"]) for row in rows}


async def taken_back(tx: Transaction, conversation: Conversation) -> set[int]:
    """Return the keys of turns that a conversation ever took back."""
    return {row["source_key"] for row in await tx.rows(FIND_TAKEN_BACK, conversation.key)}


async def keyless(tx: Transaction, said: Sequence[tuple[int, Said]]) -> list[tuple[int, int, int]]:
    """Return the places of turns that say what one without a key says, each with the number and id of that one, the
    likeliest first; the texts are as they are kept.
    """
    rows = [_described(place, *one) for place, one in said]
    found = await tx.rows(FIND_KEYLESS, {"turns": Jsonb(rows)}) if rows else []
    return [(row["place"], row["number"], row["id"]) for row in found]


async def known_prompts(tx: Transaction, said: Sequence[tuple[int, Said]]) -> set[int]:
    """Return the places of turns of which a history of prompts tells nothing new."""
    rows = [_described(place, *one) for place, one in said]
    return {row["place"] for row in await tx.rows(FIND_PROMPTS, {"turns": Jsonb(rows)})}


def _described(place: int, one: Conversation, turn: Turn) -> dict[str, Any]:
    return {**one.key, "place": place, "number": turn.number, "role": turn.role, "time": turn.time.isoformat(),
            "digest": text_digest(turn.text)}  # fmt: skip


async def turn_text(tx: Transaction, fact: Fact) -> tuple[str, str | None]:
    """Return the text of a turn that is stored, and its project."""
    row = await tx.row(FIND_TEXT, {"client": fact.name[0], "conversation": fact.name[1], "id": fact.id})
    return (str(row["text"]), row["project"]) if row else ("", None)


async def add_turns(tx: Transaction, turns: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Store new turns, each under its own number or, where another has that, behind the last; return numbers and ids.

    Args:
        tx: of the namespace.
        turns: a row for each, in which all but the key, the moment of the state and what it is a copy of must be there.
    """
    wanted: dict[Name, list[int]] = {}
    for turn in turns:
        wanted.setdefault((turn["client"], turn["conversation"]), []).append(turn["number"])
    named = [{"client": client, "conversation": id_, "numbers": numbers} for (client, id_), numbers in wanted.items()]
    found = await tx.rows(FIND_NUMBERS, {"conversations": Jsonb(named)})
    taken = {(row["client"], row["conversation"]): set(row["taken"] or ()) for row in found}
    last = {(row["client"], row["conversation"]): row["last"] for row in found}
    rows = []
    for turn, id_ in zip(turns, await _ids(tx, turns), strict=True):
        name = turn["client"], turn["conversation"]
        mine = taken.setdefault(name, set())
        number = turn["number"]
        if number in mine:
            number = last[name] = max(last.get(name, 0), max(mine), *wanted[name]) + 1
        mine.add(number)
        rows.append({**turn, "number": number, "id": id_})
    await _each(tx, ADD, rows)
    return [(row["number"], row["id"]) for row in rows]


async def _ids(tx: Transaction, turns: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return what tells each new turn from all others, also from one that was the same and was removed."""
    ids = [turn.get("id") or turn_id(turn["source_key"], turn["text"]) for turn in turns]
    known = [{**turn, "id": id_} for turn, id_ in zip(turns, ids, strict=True) if turn["source_key"] is not None]
    gone = await removed(tx, known)
    return [turn_id(None, "") if id_ in gone else id_ for id_ in ids]


async def removed(tx: Transaction, turns: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the ids of those of these turns that were removed here or on another machine."""
    given = [{name: turn.get(name) for name in ("client", "conversation", "id")} for turn in turns]
    return {row["id"] for row in await tx.rows(FIND_REMOVED, {"turns": Jsonb(given)})} if given else set()


def turn_id(key: int | None, text: str) -> int:
    """Return a new turn's id: the same wherever a turn with this key and text is taken in, or a random one."""
    if key is None:
        return randbits(ID_BITS)
    return int.from_bytes(sha256(f"{key}\0{text}".encode("utf-8", "replace")).digest()[:8]) >> (64 - ID_BITS)


def turn_row(conversation: Conversation, turn: Turn) -> dict[str, Any]:
    """Return a turn as a row."""
    return {**conversation.key, "number": turn.number, "role": turn.role, "text": turn.text, "project": conversation.project,
            "time": turn.time.isoformat(), "source_key": turn.key}  # fmt: skip


async def renew_turns(tx: Transaction, facts: Iterable[Fact]) -> None:
    """Let turns that are stored have what is known of them now."""
    await _each(tx, RENEW, [{**fact.row, "id": fact.id} for fact in facts])


async def grow(tx: Transaction, texts: Iterable[tuple[Fact, str]]) -> None:
    """Let turns that are stored say all that was said."""
    await _each(tx, GROW, [{**fact.row, "id": fact.id, "text": text} for fact, text in texts])


async def remove_turns(tx: Transaction, ids: Iterable[tuple[Name, int | None]]) -> None:
    """Take turns away."""
    await _each(tx, REMOVE, [{"client": client, "conversation": name, "id": id_} for (client, name), id_ in ids])


async def set_hidden(tx: Transaction, gone: Collection[Mapping[str, Any]], hidden: Iterable[Fact]) -> None:
    """Note what conversations have of turns that are not stored there.

    Args:
        tx: of the namespace.
        gone: rows that are not so any more.
        hidden: what is so now.
    """
    await _each(tx, REVEAL, list(gone))
    await _each(tx, HIDE, [fact.row for fact in hidden])


async def _each(tx: Transaction, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        await tx.run(statement, {"turns": Jsonb(list(rows))})


def _turn_fact(row: Mapping[str, Any]) -> Fact:
    return Fact(
        (row["client"], row["conversation"]), row["source_key"], row["digest"], row["role"], row["number"], row["time"],
        row["as_of"], row["withdrawn"], row["copy_of"], row["stored"], row["id"],
    )  # fmt: skip


def _names_json(names: Iterable[Name]) -> Jsonb:
    return Jsonb([{"client": client, "conversation": id_} for client, id_ in names])
