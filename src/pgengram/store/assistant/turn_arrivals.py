"""Turns on their way in: what tells whether each is there already, and the statements that store them.

A turn is known by a key that its source gives it (`source_key`), and its conversation. What an event told has no key
until the client's own file names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import md5
from typing import Any, Final

from psycopg.types.json import Jsonb

from pgengram.store.assistant.conversations import Conversation, Turn
from pgengram.store.connection.database import Transaction

Name = tuple[str, str]  # a client, and a conversation as it calls it
Said = tuple[Conversation, Turn]

# Whoever brings turns of one conversation at the same moment waits here. Uses conversations_pkey.
LOCK: Final = """
INSERT INTO conversations AS c (namespace_id, client, conversation, project, title, imported, forked_from, at)
SELECT %(namespace_id)s, s.client, s.conversation, s.project, s.title, %(imported)s, s.forked_from, s.at
FROM jsonb_to_recordset(%(conversations)s)
  AS s(client text, conversation text, project text, title text, forked_from text, at timestamptz)
ORDER BY s.client, s.conversation
ON CONFLICT (namespace_id, client, conversation) DO UPDATE SET
  imported = c.imported OR excluded.imported, project = coalesce(c.project, excluded.project),
  title = coalesce(excluded.title, c.title), forked_from = coalesce(c.forked_from, excluded.forked_from),
  at = greatest(c.at, excluded.at)
"""
# Uses conversations_pkey.
FIND_STATES: Final = """
SELECT c.client, c.conversation, c.withdrawn, c.as_of FROM jsonb_to_recordset(%(conversations)s) AS s(client text, conversation text)
JOIN conversations c ON c.namespace_id = %(namespace_id)s AND c.client = s.client AND c.conversation = s.conversation
"""
# Uses conversation_turns_by_source.
FIND_BY_KEY: Final = """
SELECT s.place, t.conversation, t.number, t.role, t.time, md5(t.text) AS digest
FROM jsonb_to_recordset(%(turns)s) AS s(place integer, client text, key bigint)
JOIN conversation_turns t ON t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.source_key = s.key
ORDER BY s.place, t.conversation, t.number
"""
# Turns that an event told, or that an earlier version read: those that say the same, the nearest in time first. Uses
# conversation_turns_pkey.
FIND_KEYLESS: Final = """
SELECT s.place, t.number FROM jsonb_to_recordset(%(turns)s)
  AS s(place integer, client text, conversation text, number integer, role text, digest text, time timestamptz)
JOIN conversation_turns t ON t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation
  AND t.source_key IS NULL AND t.role = s.role AND (md5(t.text) = s.digest OR (t.number = s.number AND t.time = s.time))
ORDER BY md5(t.text) = s.digest DESC, abs(extract(epoch FROM t.time - s.time)), s.place, t.number
"""
# Uses conversation_turns_pkey.
FIND_TEXT: Final = """
SELECT text FROM conversation_turns WHERE namespace_id = %(namespace_id)s AND client = %(client)s
  AND conversation = %(conversation)s AND number = %(number)s
"""
# Numbers that are taken, and the last of each conversation. Uses conversation_turns_pkey.
FIND_NUMBERS: Final = """
SELECT s.client, s.conversation, max(t.number) AS last, array_agg(t.number) FILTER (WHERE t.number = ANY(s.numbers)) AS taken
FROM jsonb_to_recordset(%(conversations)s) AS s(client text, conversation text, numbers integer[])
JOIN conversation_turns t ON t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation
GROUP BY 1, 2
"""
ADD: Final = """
INSERT INTO conversation_turns (namespace_id, client, conversation, number, role, text, project, time, source_key)
SELECT %(namespace_id)s, s.client, s.conversation, s.number, s.role, s.text, s.project, s.time, s.key
FROM jsonb_to_recordset(%(turns)s) AS s(client text, conversation text, number integer, role text, text text, project text,
  time timestamptz, key bigint)
"""
# Each of the three uses conversation_turns_pkey.
NAME_TURNS: Final = """
UPDATE conversation_turns t SET source_key = s.key
FROM jsonb_to_recordset(%(turns)s) AS s(client text, conversation text, number integer, key bigint)
WHERE t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation AND t.number = s.number
"""
GROW: Final = """
UPDATE conversation_turns t SET text = s.text
FROM jsonb_to_recordset(%(turns)s) AS s(client text, conversation text, number integer, text text)
WHERE t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation AND t.number = s.number
"""
REMOVE: Final = """
DELETE FROM conversation_turns t USING jsonb_to_recordset(%(turns)s) AS s(client text, conversation text, number integer)
WHERE t.namespace_id = %(namespace_id)s AND t.client = s.client AND t.conversation = s.conversation AND t.number = s.number
"""
# Uses conversations_pkey.
SET_STATES: Final = """
UPDATE conversations c SET withdrawn = s.withdrawn, as_of = greatest(c.as_of, s.as_of)
FROM jsonb_to_recordset(%(states)s) AS s(client text, conversation text, withdrawn bigint[], as_of timestamptz)
WHERE c.namespace_id = %(namespace_id)s AND c.client = s.client AND c.conversation = s.conversation
"""
# Reads the conversations of the namespace.
FIND_FORKS: Final = """
SELECT c.client, c.conversation FROM jsonb_to_recordset(%(conversations)s) AS s(client text, conversation text)
JOIN conversations c ON c.namespace_id = %(namespace_id)s AND c.client = s.client AND c.forked_from = s.conversation
"""
# What was said in the conversations that one was forked from. Uses conversations_pkey and conversation_turns_pkey.
FIND_BEFORE_FORK: Final = """
WITH RECURSIVE before AS (
  SELECT %(forked_from)s::text AS conversation, 1 AS steps
  UNION
  SELECT c.forked_from, steps + 1 FROM conversations c JOIN before ON c.conversation = before.conversation
  WHERE c.namespace_id = %(namespace_id)s AND c.client = %(client)s AND c.forked_from IS NOT NULL AND steps < 50)
SELECT role, md5(text) AS digest, count(*) AS times FROM conversation_turns
WHERE namespace_id = %(namespace_id)s AND client = %(client)s AND conversation IN (SELECT conversation FROM before)
GROUP BY 1, 2
"""
# Uses conversation_turns_pkey.
FIND_OF_FORK: Final = """
SELECT c.forked_from, t.number, t.role, md5(t.text) AS digest FROM conversations c
JOIN conversation_turns t ON t.namespace_id = %(namespace_id)s AND t.client = c.client AND t.conversation = c.conversation
WHERE c.namespace_id = %(namespace_id)s AND c.client = %(client)s AND c.conversation = %(conversation)s ORDER BY t.time, t.number
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """A turn that is there: of which conversation, under which number; the MD5 of its text."""

    conversation: str
    number: int
    role: str
    time: datetime | None
    digest: str


@dataclass(slots=True)
class State:
    """Which turns of a conversation were taken back, by their keys, as of when."""

    withdrawn: set[int] = field(default_factory=set)
    as_of: datetime | None = None


def name_of(conversation: Conversation) -> Name:
    """Return what tells a conversation apart within a namespace."""
    return conversation.client, conversation.id


def digest_of(text: str) -> str:
    """Return the MD5 of a text as PostgreSQL has it."""
    return md5(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


async def lock(tx: Transaction, said: Iterable[Said], *, imported: bool) -> None:
    """Note the conversations, and wait for whoever brings turns of one of them.

    Args:
        tx: of the namespace.
        said: turns of them.
        imported: whether their turns stay until they are erased.
    """
    rows: dict[Name, dict[str, Any]] = {}
    for one, turn in said:
        row = rows.setdefault(name_of(one), {**one.key, "at": turn.time})
        row |= {name: row.get(name) or getattr(one, name) for name in ("project", "title", "forked_from")}
        row["at"] = max(row["at"], turn.time)
    listed = [{**row, "at": row["at"].isoformat()} for row in rows.values()]
    await tx.run(LOCK, {"conversations": Jsonb(listed), "imported": imported})


async def states(tx: Transaction, names: Iterable[Name]) -> dict[Name, State]:
    """Return the state of each conversation."""
    found = {name: State() for name in names}
    for row in await tx.rows(FIND_STATES, {"conversations": _named(found)}):
        found[row["client"], row["conversation"]] = State(set(row["withdrawn"]), row["as_of"])
    return found


async def by_key(tx: Transaction, said: Sequence[Said]) -> dict[int, list[Stored]]:
    """Return the turns with the key of each, by its place; also those of other conversations of the client."""
    rows = [{"place": place, "client": one.client, "key": turn.key} for place, (one, turn) in enumerate(said)]
    found: dict[int, list[Stored]] = {}
    for row in await tx.rows(FIND_BY_KEY, {"turns": Jsonb(rows)}):
        stored = Stored(row["conversation"], row["number"], row["role"], row["time"], row["digest"])
        found.setdefault(row["place"], []).append(stored)
    return found


async def keyless(tx: Transaction, said: Sequence[tuple[int, Said]]) -> list[tuple[int, int]]:
    """Return the places of turns that say what one without a key says, each with the number of that one, the likeliest
    first; the texts are as they are kept.
    """
    rows = [
        {**one.key, "place": place, "number": turn.number, "role": turn.role, "time": turn.time.isoformat(),
         "digest": digest_of(turn.text)}
        for place, (one, turn) in said
    ]  # fmt: skip
    return [(row["place"], row["number"]) for row in await tx.rows(FIND_KEYLESS, {"turns": Jsonb(rows)})]


async def text_of(tx: Transaction, conversation: Conversation, number: int) -> str:
    """Return the text of a turn."""
    row = await tx.row(FIND_TEXT, {**conversation.key, "number": number})
    return str(row["text"]) if row else ""


async def add(tx: Transaction, said: Sequence[Said]) -> None:
    """Store new turns, each under its own number, or where another has that, behind the last one."""
    wanted: dict[Name, list[int]] = {}
    for one, turn in said:
        wanted.setdefault(name_of(one), []).append(turn.number)
    named = [{"client": client, "conversation": id_, "numbers": numbers} for (client, id_), numbers in wanted.items()]
    found = await tx.rows(FIND_NUMBERS, {"conversations": Jsonb(named)})
    taken = {(row["client"], row["conversation"]): set(row["taken"] or ()) for row in found}
    last = {(row["client"], row["conversation"]): row["last"] for row in found}
    rows = []
    for one, turn in said:
        name = name_of(one)
        mine = taken.setdefault(name, set())
        number = turn.number
        if number in mine:
            number = last[name] = max(last.get(name, 0), max(mine), *wanted[name]) + 1
        mine.add(number)
        rows.append({**one.key, "number": number, "role": turn.role, "text": turn.text, "project": one.project,
                     "time": turn.time.isoformat(), "key": turn.key})  # fmt: skip
    await tx.run(ADD, {"turns": Jsonb(rows)})


async def name_turns(tx: Transaction, said: Sequence[tuple[Said, int]]) -> None:
    """Give turns that are there under a number the key that their source has for them."""
    await _of_numbers(tx, NAME_TURNS, [{**one.key, "number": number, "key": turn.key} for (one, turn), number in said])


async def grow(tx: Transaction, said: Sequence[tuple[Said, int]]) -> None:
    """Let turns that are there under a number say all that was said."""
    await _of_numbers(tx, GROW, [{**one.key, "number": number, "text": turn.text} for (one, turn), number in said])


async def remove(tx: Transaction, numbers: Iterable[tuple[Name, int]]) -> None:
    """Take turns away."""
    rows = [{"client": client, "conversation": id_, "number": number} for (client, id_), number in numbers]
    await _of_numbers(tx, REMOVE, rows)


async def set_states(tx: Transaction, states: dict[Name, State]) -> None:
    """Note which turns were taken back, as of when."""
    rows = [
        {"client": client, "conversation": id_, "withdrawn": sorted(state.withdrawn),
         "as_of": state.as_of and state.as_of.isoformat()}
        for (client, id_), state in states.items()
    ]  # fmt: skip
    if rows:
        await tx.run(SET_STATES, {"states": Jsonb(rows)})


async def before_fork(tx: Transaction, client: str, forked_from: str) -> Counter[tuple[str, str]]:
    """Return what was said in the conversations that one was forked from: how often each role said each text."""
    rows = await tx.rows(FIND_BEFORE_FORK, {"client": client, "forked_from": forked_from})
    return Counter({(row["role"], row["digest"]): row["times"] for row in rows})


async def drop_copies(tx: Transaction, names: Iterable[Name]) -> None:
    """Take from the forks of conversations the beginning that is a copy of what is there now."""
    for fork in await tx.rows(FIND_FORKS, {"conversations": _named(names)}):
        name = fork["client"], fork["conversation"]
        rows = await tx.rows(FIND_OF_FORK, dict(zip(("client", "conversation"), name, strict=True)))
        if rows:
            before = await before_fork(tx, fork["client"], rows[0]["forked_from"])
            copies = copied([(row["role"], row["digest"]) for row in rows], before)
            await remove(tx, [(name, row["number"]) for row in rows[:copies]])


def copied(turns: Sequence[tuple[str, str]], before: Counter[tuple[str, str]]) -> int:
    """Return how many turns at the beginning of a fork are copies, and count those off.

    A fork goes on with what a user says, so what differs in an answer was asked anew, even if in the same words.

    Args:
        turns: role and MD5 of each.
        before: how often each was said before the fork.
    """
    copies = 0
    for turn in turns:
        if not before[turn]:
            break
        before[turn] -= 1
        copies += 1
    else:
        return copies
    if turns[copies][0] != "user":
        asked = [place for place, (role, _) in enumerate(turns[:copies]) if role == "user"]
        copies = asked[-1] if asked else copies
    before.clear()
    return copies


async def _of_numbers(tx: Transaction, statement: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        await tx.run(statement, {"turns": Jsonb(rows)})


def _named(names: Iterable[Name]) -> Jsonb:
    return Jsonb([{"client": client, "conversation": id_} for client, id_ in names])
