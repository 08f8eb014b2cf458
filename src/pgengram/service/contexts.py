"""What is put before a model: the memories that matter most, and those that surely answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pgengram.inputs import Question, checked
from pgengram.search import budget, cursors
from pgengram.store.reading.names import alike
from pgengram.store.reading.trust import untrusted
from pgengram.text.words import words

if TYPE_CHECKING:
    from pgengram.service.core import Core
    from pgengram.store.connection.database import Row

MAX_CHARS: Final = 4_000
LOOKED_AT: Final = 30  # memories, of which as many are taken as fit
ABOUT_A_PROMPT_CHARS: Final = 1_500
ABOUT_A_PROMPT: Final = 5  # memories at most
FEW_WORDS: Final = 3  # fewer, such as "go on", are about nothing


async def most_relevant(core: Core, *, project: str | None = None) -> list[Row]:
    """Return the memories that matter most now, as many as fit into the room there is."""
    return budget.select_for_context(await _listed(core, project), MAX_CHARS)


async def most_relevant_for(core: Core, project: str | None) -> list[Row]:
    """Return the memories that matter most for somebody who works on a project: its own, then those of none.

    Nothing of another project is among them, and nothing that strangers may have written.
    """
    own = await _listed(core, project) if project else []
    rows = [*own, *(row for row in await _listed(core, None) if row["project"] is None)]
    return budget.select_for_context(await _trusted(core, rows), MAX_CHARS)


async def sure_about(core: Core, text: str, project: str | None) -> list[Row]:
    """Return the memories that surely have to do with what somebody says, best first; of no other project."""
    if len(words(text)) < FEW_WORDS:
        return []
    question = checked(Question, {"query": text, "limit": LOOKED_AT})
    found = await core.search(question, cursors.Cursor(datetime.now(UTC)))
    if found.evidence != "strong":
        return []
    sure = await _trusted(core, [row for row in found.rows if _belongs(row, project)])
    return budget.select_for_context(sure, ABOUT_A_PROMPT_CHARS)[:ABOUT_A_PROMPT] if sure else []


async def _trusted(core: Core, rows: list[Row]) -> list[Row]:
    """Return what may be put before a model unasked: no stranger's words, unless a person has confirmed them."""
    if not rows:
        return []
    ids = [row["id"] for row in rows]
    strange = await core.store.read_transaction(lambda tx: untrusted(tx, ids))
    return [row for row in rows if row["id"] not in strange]


async def _listed(core: Core, project: str | None) -> list[Row]:
    question = checked(Question, {"sort": "relevance", "limit": LOOKED_AT, "project": project})
    return (await core.search(question, cursors.Cursor(datetime.now(UTC)))).rows


def _belongs(row: Row, project: str | None) -> bool:
    """Whether a memory is about no project, or about this one however it is spelled."""
    return row["project"] is None or bool(project and alike(project, [row["project"]]))
