"""Batches of new memories: each item checked alone, and stored part by part."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pgengram.errors import InvalidInput, PgengramError, SecretRejected
from pgengram.inputs import Change, NewMemory
from pgengram.runtime.context import here, report_progress
from pgengram.search.dates import KEPT, TimeRead, times
from pgengram.service.calls.arguments import reader
from pgengram.service.tools import without_secrets_in
from pgengram.store.memory import memories
from pgengram.store.memory.upsert import WriteResult

if TYPE_CHECKING:
    from pgengram.service.core import Core


Written = TypeVar("Written", NewMemory, Change)
LONGEST: Final = 1_000  # characters; a longer text is a log or a letter, with dates of its own
A_WEEK: Final = timedelta(days=7)  # what is longer has no day on which it happens
LATER: Final = timedelta(days=3 * 366)  # a time that counts from now is another one then


def with_dates(given: Written) -> tuple[Written, dict[str, str]]:
    """Return a memory or a change with the dates that its text counts from now, and how each was read.

    One day or week is `occurred_at`, where the caller named none; anything else is in `metadata`.
    """
    text = given.content
    if not text or given.occurred_at is not None or len(text) > LONGEST:
        return given, {}
    now = here()
    if not (found := _counted_from(text, now)):
        return given, {}
    read = {text[one.start : one.end].strip(" .,;:!?"): str(one.period) for one in found}
    [first, *others] = found
    update: dict[str, Any]
    if others or first.period.end - first.period.start > A_WEEK:
        update, where = {"metadata": {**(given.metadata or {}), KEPT: read}}, f"metadata.{KEPT}"
    else:
        start = first.period.start
        update, where = {"occurred_at": start}, "occurred_at"
    return given.model_copy(update=update), {word: f"{_as_day(dates)}, kept in {where}" for word, dates in read.items()}


def _counted_from(text: str, now: datetime) -> list[TimeRead]:
    """Return the times in a text that are sure, but others when it is told later."""
    found = [one for one in times(text, now) if one.period.sure]
    if not found:
        return []
    later = {(one.start, str(one.period)) for one in times(text, now + LATER)}
    return [one for one in found if (one.start, str(one.period)) not in later]


def days_kept(metadata: Mapping[str, Any]) -> Iterator[datetime]:
    """Yield the first day of each time that `with_dates` kept in metadata; what else stands there is passed over."""
    kept = metadata.get(KEPT)
    for period in kept.values() if isinstance(kept, dict) else ():
        with contextlib.suppress(ValueError, TypeError):
            yield datetime.combine(date.fromisoformat(period[:10]), time(), UTC)


def _as_day(period: str) -> str:
    first, _, last = period.partition("..")
    return first if first == last else period


PART: Final = 32_000  # characters that are embedded and stored before the next: a few seconds' work


async def drafts_of(
    core: Core, items: Sequence[Any], *, screen: bool = True
) -> tuple[dict[int, memories.Draft], dict[int, dict[str, str]], dict[int, dict[str, str]]]:
    """Return by place items as drafts, what is wrong with the others, and how fields were read.

    Each is screened for secrets unless that was done.
    """
    drafts: dict[int, memories.Draft] = {}
    refused: dict[int, dict[str, str]] = {}
    coerced: dict[int, dict[str, str]] = {}
    for index, item in enumerate(items):
        try:
            new, coerced[index] = reader(NewMemory, "create_memory").read(item)
            new, dates = with_dates(new)
            coerced[index] |= dates
            clean, redacted = without_secrets_in(new, redact=core.settings.secrets == "redact") if screen else (new, [])
            drafts[index] = await core.draft(clean, place=index + 1)
            drafts[index].redacted = redacted
        except (InvalidInput, SecretRejected) as error:
            refused[index] = error.as_dict()
    for index, missing in zip([*drafts], await core.relate(list(drafts.values())), strict=True):
        if missing is not None:
            refused[index] = missing.as_dict()
            del drafts[index]
    return drafts, dict(sorted(refused.items())), coerced


async def store(
    core: Core, drafts: dict[int, memories.Draft], refused: dict[int, dict[str, str]], *, whole: bool
) -> list[WriteResult]:
    """Store drafts part by part and report after each: what was stored stays, also when the client gives the call up.

    A part that fails, and those after it, go from `drafts` to `refused`; but if it is the first, the call fails. What
    is to be stored as a `whole` is one part.
    """
    parts = [list(drafts)] if whole else _parts_of(drafts)
    outcomes: list[WriteResult] = []
    for part in parts:
        try:
            outcomes += await core.store_drafts([drafts[place] for place in part])
        except PgengramError as error:
            if not outcomes:
                raise
            for place in list(drafts)[len(outcomes) :]:
                refused[place] = error.as_dict()
                del drafts[place]
            break
        if len(parts) > 1:
            await report_progress(f"{len(outcomes)} of {len(drafts)} memories are stored.")
    return outcomes


def _parts_of(drafts: Mapping[int, memories.Draft]) -> list[list[int]]:
    """Return the places of drafts in parts that take a few seconds each; most batches are one."""
    parts: list[list[int]] = []
    room = 0
    for place, draft in drafts.items():
        length = len(draft.row["content"])
        if length > room:
            parts.append([])
            room = PART
        parts[-1].append(place)
        room -= length
    return parts
