"""Batches of new memories: each item checked alone, and stored part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pgengram.errors import InvalidInput, PgengramError, SecretRejected
from pgengram.inputs import NewMemory
from pgengram.runtime.context import report_progress
from pgengram.service.calls.arguments import reader
from pgengram.service.relative_times import with_dates
from pgengram.service.secret_filter import without_secrets_in
from pgengram.store.memory import memories
from pgengram.store.memory.upsert import WriteResult

if TYPE_CHECKING:
    from pgengram.service.core import Core

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
