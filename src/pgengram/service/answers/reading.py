"""What is read: the hits of a search, their number, what is recalled for a task, and memories whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pgengram import fields as f
from pgengram.inputs import Question
from pgengram.runtime.context import ROOM, here
from pgengram.search import listing
from pgengram.search.question import in_time
from pgengram.search.results import Cursor, Hit, Hits, budget, next_cursor, parse_cursor, query_fingerprint
from pgengram.search.results.budget import question_parts
from pgengram.service.answers import names_asked, said
from pgengram.store.connection.replica import STALE
from pgengram.store.memory import changes, memories
from pgengram.store.memory import statements as s
from pgengram.store.reading import history
from pgengram.text.language import clear_language
from pgengram.text.vocabulary import asks_for_all, is_small_talk
from pgengram.text.words import damaged, words
from pgengram.views import Found, Page, Read, Recalled, around_view, memory_view, problems_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgengram.service.core import Beside, Core
    from pgengram.store.connection.database import Transaction

RECALLED: Final = 30  # memories looked at for a context
BUDGET_TOO_SMALL: Final = "Nothing fits into max_chars; raise it."
MAX_BUDGET: Final = 50_000  # characters of a recalled context
MAX_COUNTED: Final = 10_000
NOTHING: Final = Hits([], "list")


async def found_answer(core: Core, question: Question, spaces: Sequence[Beside] = ()) -> Found:
    """Return a page of hits of one's own memories and those of `spaces`, or their number if that is asked for."""
    mark = query_fingerprint(question)
    place = Cursor(question.now or here(), question.offset)
    if question.cursor:
        place = parse_cursor(question.cursor, mark)
    question, period = in_time(question, place.now)
    if question.count_only:
        return await _count_answer(core, question, place, spaces)
    return await _found_page(core, question, place, mark, period, spaces)


async def _found_page(
    core: Core, question: Question, place: Cursor, mark: str, period: str | None, spaces: Sequence[Beside]
) -> Found:
    """Return a page of hits.

    Args:
        core: whose memories.
        question: with the times that it names read.
        place: where the page begins.
        mark: the question's fingerprint, for the cursor of the next page.
        period: the times that it names, as they are shown.
        spaces: that are searched, too.
    """
    hits, further = await _hits(core, question, place, spaces)
    note = f"{further} more match; raise limit." if further else None
    if not hits.found:
        question, hits, note = await _again(core, question, place, hits, spaces)
    names_asked.keep_needed(question, hits.found)
    fitting = budget.fit_budget(hits.found, question.max_chars, whole=question.detail)
    full = len(hits.found) == question.limit or further > 0

    def after(count: int) -> dict[str, Any]:
        more = count > 0 and (count < len(hits.found) or full)
        return {
            "next_cursor": next_cursor(place, mark, fitting[:count], more=more),
            "next_offset": place.offset + count if more and hits.how != "list" else None,
        }

    if ROOM.get() is None:  # else whoever makes it fit says how many of them are shown
        core.note_shown(fitting, spaces)
    return Found(
        query="\n".join(question.queries),
        count=len(fitting),
        evidence=_answer_evidence(question, hits),
        answered=hits.answered and round(hits.answered, 3),
        results=[budget.hit_view(hit, detail=question.detail) for hit in fitting],
        in_detail=question.detail,
        search=hits.how,
        **after(len(fitting)),
        hidden=hits.hidden_by_reason or None,
        period=period,
        note=note,
        read=await _names_read(core, question),
        language=clear_language(question.query),
        **await said.beside(core, question, hits.evidence),
        degraded=_degraded(core, hits),
        stale=STALE.get() or None,
        page=Page(after, lambda count: core.note_shown(fitting[:count], spaces)),
    )


async def _hits(core: Core, question: Question, place: Cursor, spaces: Sequence[Beside]) -> tuple[Hits, int]:
    """Return the hits; of a question for all of something more of them, spread, and how many match besides."""
    ranked = not question.lists and question.mode == "auto"
    if not ranked or not any(asks_for_all(question_parts(text)[0][1]) for text in question.queries):
        return await core.search(question, place, spaces), 0
    most = budget.LIST_LIMIT if question.limit == f.USUAL_LIMIT else question.limit
    begin = 0 if place.offset < budget.LIST_REACH else place.offset  # these are spread together, whatever the page
    reach = min(max(place.offset + most - begin, budget.LIST_REACH), f.MAX_LIMIT)
    hits = await core.search(question.model_copy(update={"limit": reach}), replace(place, offset=begin), spaces)
    found = budget.matching(hits.found)
    found = (found if begin else budget.diversified(found))[place.offset - begin :]
    return hits._replace(found=found[:most]), len(found[most:])


async def _again(
    core: Core, question: Question, place: Cursor, hits: Hits, spaces: Sequence[Beside] = ()
) -> tuple[Question, Hits, str | None]:
    """Repeat a search that found nothing with names as they are stored, or say why there is nothing."""
    for one in (core, *(space.core for space in spaces)):
        if not hits.found and (meant := await names_asked.retold(one.store, question)):
            question, hits = meant, await core.search(meant, place, spaces)
    if hits.found or place.is_further:
        return question, hits, None

    async def find(other: Question) -> list[Hit]:
        return (await core.search(other, place, spaces)).found

    return question, hits, await names_asked.reason(core.store, question, find)


async def _names_read(core: Core, question: Question) -> dict[str, str] | None:
    """Say which stored names a filter was read as, where they are not the one given."""
    spellings = (await core.as_stored(question)).spellings
    given = {what: getattr(question, what) for what in spellings}
    return {
        what: f"{given[what]} → {', '.join(names)}"
        for what, names in spellings.items()
        if names and names != [given[what]]
    } or None


def _degraded(core: Core, hits: Hits) -> bool | None:
    return core.degraded or hits.how == "words" or damaged() or None


async def _count_answer(core: Core, question: Question, place: Cursor, spaces: Sequence[Beside]) -> Found:
    """Count what the pages of the answer would hold together."""
    total, note = await _total(core, question, spaces), None
    if not total:
        question, _, note = await _again(core, question, place, NOTHING, spaces)
        total = await _total(core, question, spaces)
    return Found(
        query="\n".join(question.queries),
        count=0,
        total=total,
        results=[],
        search="count",
        note=note,
        read=await _names_read(core, question),
        degraded=core.degraded,
    )


async def _total(core: Core, question: Question, spaces: Sequence[Beside]) -> int:
    if question.lists:
        return sum([await _listed_in(one, question) for one in (core, *(space.core for space in spaces))])
    all_of_them = question.model_copy(update={"limit": MAX_COUNTED})
    return len((await core.search(all_of_them, Cursor(question.now or here()), spaces)).found)


async def _listed_in(core: Core, question: Question) -> int:
    mapped = await core.as_stored(question)
    return await core.store.read_transaction(lambda tx: listing.count_matches(tx, mapped))


async def recall_context(
    core: Core, context: str, max_chars: int, *, user: str | None, project: str | None
) -> Recalled:
    """Return what is remembered about a task or a message, as one text within `max_chars`."""
    question, _ = in_time(Question(query=context, limit=RECALLED, project=project, user=user), here())
    question, hits, note = await _recallable(core, question)
    recallable = budget.worth_recalling(hits.found)
    chosen = budget.select_for_context(recallable, max_chars)
    if chosen:
        also = await names_asked.left_out(core, context, chosen, user=user, project=project)
        chosen = budget.select_for_context([*chosen, *also], max_chars)
    elif recallable:
        note = note or BUDGET_TOO_SMALL
    core.accesses.note([hit.id for hit in chosen])
    return Recalled(
        count=len(chosen),
        evidence=_answer_evidence(question, hits) or (None if chosen else "none"),
        context=budget.recall_text(chosen),
        memory_ids=[str(hit.id) for hit in chosen],
        note=note,
        read=await _names_read(core, question),
        degraded=_degraded(core, hits),
        stale=STALE.get() or None,
    )


async def _recallable(core: Core, question: Question) -> tuple[Question, Hits, str | None]:
    """Return the hits for a task or message, with the question as it was read for them; none for small talk."""
    if not words(question.query) or is_small_talk(question.query):
        return question, NOTHING, None
    place = Cursor(here())
    hits = await core.search(question, place)
    if hits.found or question.lists:
        return question, hits, None
    return await _again(core, question, place, hits)


def _answer_evidence(question: Question, hits: Hits) -> f.Evidence | None:
    """Return how sure the answer is; what happened in the time that was all a question asked for answers it."""
    if question.query and question.sort == "occurred" and question.since is not None:
        return "strong" if hits.found else "none"
    return hits.evidence


async def read_whole(core: Core, tx: Transaction, ids: Sequence[str], include: Sequence[str], *, touch: bool) -> Read:
    """Return memories whole, with what was asked for around them; `touch` counts it as a use."""
    there = await memories.resolve_ids(tx, ids)
    missing = problems_view(there.problems)
    if touch:
        await tx.run(s.REINFORCE, {"ids": there.ids, "weight": changes.USE_WEIGHT})
    rows = await memories.read_memories(tx, there.ids, core.model_key)
    await history.rows_as_of(tx, list(rows.values()), None)
    around = await history.around(tx, list(rows), include)
    if "history" in include:
        await _add_history_of_erased(tx, missing)
    found = [id_ for id_ in there.ids if id_ in rows]
    return Read(
        ok=bool(rows),
        memories=[memory_view(rows[id_]) | around_view(around[id_]) for id_ in found],
        missing=missing,
        error=missing[0]["error"] if missing and not rows else None,
    )


async def _add_history_of_erased(tx: Transaction, missing: list[dict[str, Any]]) -> None:
    """Add to whole ids without a memory the history of what was there."""
    erased = {UUID(one["id"]): one for one in missing if len(one["id"].replace("-", "")) == f.ID_DIGITS}
    for id_, around in (await history.around(tx, list(erased), ["history"])).items():
        if around["history"]:
            erased[id_] |= around_view(around)
