"""One answer out of several: one's own memories and those of each space, asked one by one and merged by their scores.

Nobody searches two namespaces in one statement, so plans, indexes and lists of words stay as they are.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from pgengram.errors import InvalidInput, NoSuchSpace, NotFound, PgengramError
from pgengram.fields import Evidence
from pgengram.runtime.context import here
from pgengram.search.results.hits import BEGIN_AGAIN, NOT_OURS, query_fingerprint
from pgengram.service.answers.contexts import MAX_CHARS
from pgengram.text.similarity.sameness import folded
from pgengram.views import Found, Read, Recalled, Shown

if TYPE_CHECKING:
    from pgengram.inputs import Question
    from pgengram.service.spaces.access import Spaces
    from pgengram.store.spaces.membership import Space

Around = Literal["history", "relations", "clusters"]
MARK: Final = "several."  # begins a cursor over several
LEVELS: Final = ("none", "weak", "strong")
OWN_SHARE: Final = 0.6  # of the room of a recalled text that one's own memories may have where spaces have some, too
LEAST: Final = 200  # characters of a recalled text
TODAY: Final = "Today is "
# What a list is in the order of, as its hits show it.
SORTED_BY: Final = {
    "created": "created_at",
    "updated": "updated_at",
    "occurred": "occurred_at",
    "importance": "importance",
    "relevance": "relevance",
    "accessed": "last_accessed_at",
}


@dataclass(frozen=True, slots=True)
class Part:
    """What one of several has found; without a space it is the person's own."""

    space: Space | None
    found: Found

    @property
    def key(self) -> str:
        """What it is called in a cursor."""
        return _key_of(self.space)


def _key_of(space: Space | None) -> str:
    return "" if space is None else str(space.id)


async def searched(spaces: Spaces, question: Question) -> Found:
    """Return the hits of one's own memories and of each space, best first; each of a space names it.

    Raises:
        InvalidInput: the cursor is none of ours, or belongs to another question.
    """
    mark = query_fingerprint(question)
    now, places = _place_of(question, mark)
    parts = await _asked(spaces, question.model_copy(update={"cursor": "", "now": now}), places)
    if question.count_only:
        return parts[0].found.model_copy(update={"total": sum(part.found.total or 0 for part in parts)})
    shown, taken = _merged(parts, question)
    reached = {part.key: places.get(part.key, question.offset) + taken[part.key] for part in parts}
    more = any(part.found.next_cursor or taken[part.key] < len(part.found.results) for part in parts)
    return parts[0].found.model_copy(
        update={
            "results": [_marked(hit, part.space) for part, hit in shown],
            "in_detail": question.detail,
            "count": len(shown),
            "evidence": _best_evidence([part.found for part in parts]),
            "answered": max((part.found.answered for part in parts if part.found.answered is not None), default=None),
            "hidden": dict(sum((Counter(part.found.hidden) for part in parts), Counter[str]())) or None,
            "next_cursor": _cursor(mark, now, reached) if more and shown else None,
            "next_offset": None,
            "note": None if shown else parts[0].found.note,
        }
    )


async def _asked(spaces: Spaces, question: Question, places: dict[str, int]) -> list[Part]:
    """Ask one's own memories and each space, all at once; a space that somebody has just left has nothing."""

    async def one(space: Space | None) -> Part | None:
        here_ = question.model_copy(update={"offset": places.get(_key_of(space), question.offset)})
        if space is None:
            return Part(None, await spaces.home.search_memories(here_))
        try:
            async with spaces.manager(space) as manager:
                return Part(space, await manager.search_memories(here_))
        except NoSuchSpace:
            return None

    found = await asyncio.gather(*(one(space) for space in (None, *await spaces.listed())))
    return [part for part in found if part is not None]


def _merged(parts: Sequence[Part], question: Question) -> tuple[list[tuple[Part, Shown]], dict[str, int]]:
    """Return the best hits of all, and how many of each were taken; each one's own order stays.

    Of two that are worth the same one's own comes first, and it stands for a copy of it in a space.
    """
    by = SORTED_BY[question.sort or "created"] if question.lists else "score"
    own = {folded(hit["content"]) for part in parts if part.space is None for hit in part.found.results}
    taken, shown = {part.key: 0 for part in parts}, list[tuple[Part, Shown]]()

    def worth(part: Part) -> tuple[Any, bool]:
        hit = part.found.results[taken[part.key]]
        value = hit.get(by) or (hit.get("created_at") if by == "occurred_at" else None)
        return value or ("" if by.endswith("_at") else 0.0), part.space is None

    while len(shown) < question.limit:
        left = [part for part in parts if taken[part.key] < len(part.found.results)]
        if not left:
            break
        best = max(left, key=worth)
        hit = best.found.results[taken[best.key]]
        taken[best.key] += 1
        if best.space is None or folded(hit["content"]) not in own:
            shown.append((best, hit))
    return shown, taken


def _marked(hit: Shown, space: Space | None) -> Shown:
    return hit if space is None else {**hit, "space": space.shown}


def _best_evidence(answers: Sequence[Found | Recalled]) -> Evidence | None:
    return max((one.evidence for one in answers if one.evidence), key=LEVELS.index, default=None)


def _cursor(mark: str, now: datetime, places: dict[str, int]) -> str:
    return MARK + base64.urlsafe_b64encode(json.dumps([mark, now.isoformat(), places]).encode()).decode()


def _place_of(question: Question, mark: str) -> tuple[datetime, dict[str, int]]:
    if not question.cursor:
        return question.now or here(), {}
    try:
        its_mark, now, places = json.loads(base64.urlsafe_b64decode(question.cursor.removeprefix(MARK).encode()))
        at, offsets = datetime.fromisoformat(now), {str(name): int(offset) for name, offset in places.items()}
    except (ValueError, TypeError, AttributeError, LookupError):
        raise InvalidInput(NOT_OURS, BEGIN_AGAIN) from None
    if its_mark != mark or not all(0 <= offset <= 100_000 for offset in offsets.values()):
        raise InvalidInput("cursor belongs to a different query.", "Repeat the query unchanged, or leave cursor out.")
    return at, offsets


async def recalled(spaces: Spaces, context: str, given: dict[str, Any]) -> Recalled:
    """Return what is remembered about a task, one's own first, then what each space has, under its name."""
    mine = await spaces.listed()
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
    texts = [own.context, *(f"Shared in {space.shown}:\n{_without_date(found.context)}" for space, found in others)]
    return own.model_copy(
        update={
            "count": own.count + sum(found.count for _, found in others),
            "context": "\n\n".join(filter(None, texts)),
            "memory_ids": [*own.memory_ids, *(id_ for _, found in others for id_ in found.memory_ids)],
            "evidence": _best_evidence([own, *(found for _, found in others)]),
            "note": None if others else own.note,
        }
    )


def _without_date(text: str) -> str:
    first, _, rest = text.partition("\n")
    return rest if first.startswith(TODAY) else text


async def read(spaces: Spaces, ids: Sequence[str], include: list[Around]) -> Read:
    """Return memories whole: one's own, and those that are in a space instead."""
    own = await spaces.home.get_memories(list(ids), include)
    left = [one["id"] for one in own.missing if one["error"]["code"] == NotFound.code]
    memories = list(own.memories)
    for space in await spaces.listed() if left else []:
        try:
            async with spaces.manager(space) as manager:
                found = await manager.get_memories(left, include)
        except NoSuchSpace:
            continue
        memories += [_marked(one, space) for one in found.memories]
        there = {one["id"] for one in found.missing}
        left = [id_ for id_ in left if id_ in there]
    missing = [one for one in own.missing if one["id"] in left or one["error"]["code"] != NotFound.code]
    return own.model_copy(
        update={
            "ok": bool(memories),
            "memories": memories,
            "missing": missing,
            "error": missing[0]["error"] if missing and not memories else None,
        }
    )


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
