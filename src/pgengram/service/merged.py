"""One answer out of several: one's own memories and those of each space, asked one by one and merged by their scores.

Nobody searches two namespaces in one statement, so plans, indexes and lists of words stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from pgengram.errors import NoSuchSpace, NotFound, PgengramError
from pgengram.fields import Evidence
from pgengram.runtime.context import ATTEMPTS
from pgengram.service.answers import reading
from pgengram.service.answers.contexts import MAX_CHARS
from pgengram.views import Found, Read, Recalled

if TYPE_CHECKING:
    from pgengram.inputs import Question
    from pgengram.service.spaces import Spaces
    from pgengram.store.membership import Space

Around = Literal["history", "relations", "clusters"]
LEVELS: Final = ("none", "weak", "strong")
OWN_SHARE: Final = 0.6  # of the room of a recalled text that one's own memories may have where spaces have some, too
LEAST: Final = 200  # characters of a recalled text
TODAY: Final = "Today is "


async def searched(spaces: Spaces, question: Question) -> Found:
    """Return the hits of one's own memories and of each space, best first; each of a space names it and its author.

    Raises:
        InvalidInput: the cursor is none of ours, or belongs to another question.
    """
    for attempt in range(ATTEMPTS):
        try:
            async with spaces.beside() as beside:
                return await reading.found_answer(spaces.home, question, beside)
        except NoSuchSpace:  # left meanwhile, so it is not among them the next time
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _best_evidence(answers: Sequence[Recalled]) -> Evidence | None:
    return max((one.evidence for one in answers if one.evidence), key=LEVELS.index, default=None)


async def recalled(spaces: Spaces, context: str, given: dict[str, Any]) -> Recalled:
    """Return what is remembered about a task, one's own first, then what each space has, under its name."""
    mine = await spaces.to_read()
    if not mine:
        return await spaces.home.recall_context(context, **given)
    max_chars = given.get("max_chars", MAX_CHARS)
    room = max(LEAST, int((1 - OWN_SHARE) * max_chars / len(mine)))

    async def of(space: Space) -> tuple[Space, Recalled] | None:
        try:
            async with spaces.manager(space) as manager:
                return space, await manager.recall_context(context, **given | {"max_chars": room})
        except NoSuchSpace:
            return None

    others = [one for one in await asyncio.gather(*(of(space) for space in mine)) if one and one[1].count]
    room = int(max_chars * OWN_SHARE) if others else max_chars
    own = await spaces.home.recall_context(context, **given | {"max_chars": max(LEAST, room)})
    return _as_one(own, others) if others else own


def _as_one(own: Recalled, others: Sequence[tuple[Space, Recalled]]) -> Recalled:
    """Return what one's own memories and those of spaces recall as one answer."""
    texts = [own.context, *(f"Shared in {space.shown}:\n{_without_date(found.context)}" for space, found in others)]
    return own.model_copy(
        update={
            "count": own.count + sum(found.count for _, found in others),
            "context": "\n\n".join(filter(None, texts)),
            "memory_ids": [*own.memory_ids, *(id_ for _, found in others for id_ in found.memory_ids)],
            "evidence": _best_evidence([own, *(found for _, found in others)]),
            "note": None,
        }
    )


def _without_date(text: str) -> str:
    first, _, rest = text.partition("\n")
    return rest if first.startswith(TODAY) else text


async def read(spaces: Spaces, ids: Sequence[str], include: list[Around]) -> Read:
    """Return memories whole: one's own, and those that are in a space instead."""
    own = await spaces.home.get_memories(list(ids), include)
    left = [one["id"] for one in own.missing if one["error"]["code"] == NotFound.code]
    found, left = await _read_in_spaces(spaces, left, include)
    memories = [*own.memories, *found]
    missing = [one for one in own.missing if one["id"] in left or one["error"]["code"] != NotFound.code]
    return own.model_copy(
        update={
            "ok": bool(memories),
            "memories": memories,
            "missing": missing,
            "error": missing[0]["error"] if missing and not memories else None,
        }
    )


async def _read_in_spaces(
    spaces: Spaces, ids: list[str], include: list[Around]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the memories that are in a space, with its name, and the ids of those that are in none."""
    memories: list[dict[str, Any]] = []
    for space in await spaces.to_read() if ids else []:
        try:
            async with spaces.manager(space) as manager:
                found = await manager.get_memories(ids, include)
        except NoSuchSpace:
            continue
        memories += [{**one, "space": space.shown} for one in found.memories]
        there = {one["id"] for one in found.missing}
        ids = [id_ for id_ in ids if id_ in there]
    return memories, ids


async def whereabouts(spaces: Spaces, ids: Sequence[str]) -> str | None:
    """Return the name of the space in which the first of these memories is, for whoever named none."""
    for space in await spaces.listed():
        try:
            async with spaces.manager(space) as manager:
                if (await manager.get_memories(list(ids)[:1], touch=False)).ok:
                    return space.shown
        except PgengramError:
            continue
    return None
