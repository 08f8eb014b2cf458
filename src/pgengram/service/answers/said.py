"""What was said in conversations, beside the memories that a search finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pgengram import fields as f
from pgengram.inputs import Question
from pgengram.runtime.context import here
from pgengram.search.question import parse
from pgengram.store import conversations
from pgengram.text.shown import counted
from pgengram.text.vocabulary import lasting
from pgengram.text.words import FIRST_LETTERS, beginning, words
from pgengram.views import Shown

if TYPE_CHECKING:
    from pgengram.service.core import Core
    from pgengram.store.connection.database import Row, Transaction
    from pgengram.store.store import Store

BEFORE: Final = 80  # characters of a long turn that are shown before the first of the words
LOOKED_AT: Final = 200  # turns of the last conversation
LATEST: Final = 2_000  # turns that are looked at where nobody asked for any, so that no search waits for old ones
TOLD: Final = 5  # of them at most, as not stored yet
COVERED: Final = 0.6  # of a turn's words are in one memory: it says the same, in whatever words besides
LEAST_WORDS: Final = 4  # of a turn that can be stored


async def beside(core: Core, question: Question, evidence: f.Evidence | None) -> dict[str, Any]:
    """Return what an answer has of conversations: the turns that match if they are asked for; else how many of the
    latest match, where the memories hold no strong evidence.
    """
    if not _looks_for_turns(core, question, evidence):
        return {}
    asks = "turns" in question.include
    asked = _query_words(question)
    projects = core.projects.names().in_small_letters(question.project)
    where = {"projects": projects, "since": question.since, "until": question.until}
    limit, latest = (question.limit, None) if asks else (1, LATEST)

    async def read(tx: Transaction) -> list[Row]:
        rows = await conversations.find_turns(tx, " ".join(asked), limit=limit, latest=latest, **where)
        core.silence.note(spoken=bool(rows) or await conversations.has_any(tx))
        return rows

    rows = await core.store.read_transaction(read)
    matching = rows[0]["matching"] if rows else 0
    if not asks:
        return {"turns_match": matching or None}
    shown = [turn_view(row, asked, whole=question.detail) for row in rows]
    return {"turns": shown, "turns_match": matching if matching > len(rows) else None}


def _looks_for_turns(core: Core, question: Question, evidence: f.Evidence | None) -> bool:
    if question.queries == [""] or question.offset or question.cursor:
        return False
    return "turns" in question.include or not (evidence == "strong" or core.silence.lasts)


def turn_view(row: Row, asked: Sequence[str] = (), *, whole: bool = False) -> Shown:
    """Return a turn: `cite`, which a memory names among its `sources`, who said it and when, and the text or the part
    of it around the words.
    """
    view = {"cite": conversations.turn_reference(row), "role": row["role"], "date": f"{row['time']:%Y-%m-%d}"}
    project = {"project": row["project"]} if row["project"] else {}
    return {**view, **project, "text": row["text"] if whole else _around(row["text"], asked)}


async def not_stored(store: Store, current: conversations.Conversation) -> list[Row]:
    """Return what the user said last time about this project that is likely to last and that no memory has yet, the
    likeliest first: none cites it, and none that was stored or changed since has most of its words.
    """

    async def read(tx: Transaction) -> list[Row]:
        return await _not_in_memories(tx, await conversations.last_said(tx, current, LOOKED_AT), current)

    return (await store.read_transaction(read))[:TOLD]


async def worth_remembering(core: Core, where: Mapping[str, str | None], *, skip: int = 0) -> tuple[list[Shown], int]:
    """Return a few turns of the latest in some conversations in which users said something that is likely to last and
    that no memory has yet, the likeliest first, each with how a memory cites it; and how many there are in all. Nothing
    is made of them here.

    Args:
        core: whose conversations.
        where: of which client, conversation or project.
        skip: how many were shown before.
    """
    names = core.projects.names()
    chosen: conversations.Chosen = {
        "client": where.get("client"),
        "conversation": where.get("conversation"),
        "projects": names.in_small_letters(where.get("project")),
    }

    async def read(tx: Transaction) -> list[Row]:
        return await _not_in_memories(tx, await conversations.said_by_users(tx, chosen, LATEST))

    found = await core.store.read_transaction(read)
    shown = [
        {**row, "time": f.as_utc(row["time"]), "cite": conversations.turn_reference(row)}
        for row in found[skip : skip + TOLD]
    ]
    return [{**row, "project": row["project"] and names.meant(row["project"])} for row in shown], len(found)


async def _not_in_memories(
    tx: Transaction, said: Sequence[Row], about: conversations.Conversation | None = None
) -> list[Row]:
    """Return what of some turns is likely to last and is in no memory that was stored or changed since."""
    said = [row for row in said if lasting(row["text"]) and len(words(row["text"])) >= LEAST_WORDS]
    since = min((row["time"] for row in said), default=None)
    stored = await conversations.stored_since(tx, since, about) if since else []
    fresh = _without_stored(said, stored)
    return sorted(fresh, key=lambda row: (-lasting(row["text"]), -row["time"].timestamp(), -row["number"]))


def _without_stored(said: Sequence[Row], stored: Sequence[Row]) -> list[Row]:
    """Return the turns that no memory cites or says."""
    cites = {source.get("ref") for row in stored for source in row["sources"] or ()}
    known = [_stems(row["content"]) for row in stored]
    fresh = [row for row in said if conversations.turn_reference(row) not in cites]
    return [row for row in fresh if not _is_in(_stems(row["text"]), known)]


async def what_became(store: Store, conversation: conversations.Conversation) -> str:
    """Say what was stored since a conversation began, and how much of it is kept; empty for an unknown one."""

    async def read(tx: Transaction) -> tuple[Row, list[Row]]:
        began = await conversations.began(tx, conversation)
        return began, await conversations.stored_since(tx, began["at"], conversation) if began["at"] else []

    began, stored = await store.read_transaction(read)
    if not began["turns"]:
        return ""
    fresh = sum(row["is_new"] for row in stored)
    turns = "1 turn" if began["turns"] == 1 else f"{began['turns']} turns"
    return f"{counted(fresh)} stored, {len(stored) - fresh} changed, {turns} kept."


def _stems(text: str) -> set[str]:
    """Return the words of a text that tell what it is about, as far as their endings don't matter."""
    return {beginning(word.lower()) for word in words(text) if len(word) >= FIRST_LETTERS} or {*words(text.lower())}


def _is_in(said: set[str], known: Sequence[set[str]]) -> bool:
    return any(len(said & one) >= COVERED * len(said) for one in known)


def _query_words(question: Question) -> list[str]:
    """Return the words that are looked for: those of all questions that say something."""
    now = question.now or here()
    parts = [parse(question.model_copy(update={"query": query}), now) for query in question.queries]
    return list(dict.fromkeys(word for one in parts for word in one.words))


def _around(text: str, asked: Sequence[str]) -> str:
    """Return a text as far as it is shown, from shortly before the first of the words on."""
    if len(text) <= f.WHOLE_CONTENT:
        return text
    lowered = text.lower()
    places = [place for word in asked if (place := lowered.find(beginning(word.lower()))) >= 0]
    start = max(0, min(places, default=0) - BEFORE)
    end = start + f.WHOLE_CONTENT
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
