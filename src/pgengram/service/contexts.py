"""What a session begins with: the memories that matter most, whatever is asked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pgengram.inputs import Question, checked
from pgengram.search import budget, cursors

if TYPE_CHECKING:
    from pgengram.service.core import Core
    from pgengram.store.connection.database import Row

MAX_CHARS: Final = 4_000
LOOKED_AT: Final = 30  # memories, of which as many are taken as fit


async def most_relevant(core: Core, *, project: str | None = None) -> list[Row]:
    """Return the memories that matter most now, as many as fit into the room there is."""
    question = checked(Question, {"sort": "relevance", "limit": LOOKED_AT, "project": project})
    rows, _, _ = await core.search(question, cursors.Cursor(datetime.now(UTC)))
    alike = [{**row, "score": 1.0, "similarity": None, "words_share": 0.0} for row in rows]  # none fits better
    return budget.select_for_context(alike, MAX_CHARS)
