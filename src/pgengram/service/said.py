"""What was said in conversations, beside the memories that a search finds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pgengram import fields as f
from pgengram.inputs import Question
from pgengram.search.question import parse
from pgengram.store.assistant import conversations
from pgengram.views import Shown

if TYPE_CHECKING:
    from pgengram.store.connection.database import Row
    from pgengram.store.store import Store

BEFORE: Final = 80  # characters of a long turn that are shown before the first of the words
BEGINNING: Final = 4  # letters of a word that tell it, whatever its ending


async def beside(store: Store, question: Question, evidence: f.Evidence | None) -> dict[str, Any]:
    """Return what an answer has of conversations: the turns that match if they are asked for; else how many these are,
    where the memories hold no strong evidence.
    """
    asks = "turns" in question.include
    if question.queries == [""] or question.offset or question.cursor or (evidence == "strong" and not asks):
        return {}
    words = _words(question)
    where = {"project": question.project, "since": question.since, "until": question.until}
    limit = question.limit if asks else 1
    rows = await store.read_transaction(lambda tx: conversations.find(tx, " ".join(words), limit=limit, **where))
    matching = rows[0]["matching"] if rows else 0
    if not asks:
        return {"turns_match": matching or None}
    shown = [turn_view(row, words, whole=question.detail) for row in rows]
    return {"turns": shown, "turns_match": matching if matching > len(rows) else None}


def turn_view(row: Row, words: Sequence[str] = (), *, whole: bool = False) -> Shown:
    """Return a turn: `cite`, which a memory names among its `sources`, who said it and when, and the text or the part of
    it around the words.
    """
    view = {"cite": conversations.cited(row), "role": row["role"], "date": f"{row['time']:%Y-%m-%d}"}
    project = {"project": row["project"]} if row["project"] else {}
    return {**view, **project, "text": row["text"] if whole else _around(row["text"], words)}


def _words(question: Question) -> list[str]:
    """Return the words that are looked for: those of all questions that say something."""
    now = question.now or datetime.now(UTC)
    parts = [parse(question.model_copy(update={"query": query}), now) for query in question.queries]
    return list(dict.fromkeys(word for one in parts for word in one.words))


def _around(text: str, words: Sequence[str]) -> str:
    """Return a text as far as it is shown, from shortly before the first of the words on."""
    if len(text) <= f.WHOLE_CONTENT:
        return text
    lowered = text.lower()
    places = [place for word in words if (place := lowered.find(word.lower()[:BEGINNING])) >= 0]
    start = max(0, min(places, default=0) - BEFORE)
    end = start + f.WHOLE_CONTENT
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
