"""From a question to its hits: embedded while its words are looked up, and ranked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from pgengram.errors import EmbeddingFailed
from pgengram.inputs import Question
from pgengram.runtime.context import EMBEDDED_BY
from pgengram.search.candidates import CANDIDATES, OF_EACH
from pgengram.search.filters import Asked, Parsed, scope_of
from pgengram.search.listing import list_page
from pgengram.search.lookup import Frequencies, understand
from pgengram.search.question import parse
from pgengram.search.ranking import Ranking, joined_lists, judged, ranking_of
from pgengram.search.results import Cursor, Hits
from pgengram.search.results.budget import REACH, fused, question_parts
from pgengram.search.vector_index import Embedded
from pgengram.store.connection.replica import Begin

log = logging.getLogger(__name__)

HELD_S: Final = 0.05  # a transaction waits for a vector; one that takes longer is waited for without any


class QuestionEmbedder(Protocol):
    """What embeds questions with the model in use."""

    async def question(self, text: str) -> Embedded:
        """Embed a text."""

    async def given(self, vector: list[float]) -> Embedded:
        """Take a caller's own vector."""


T = TypeVar("T")


class Reads(Protocol):
    """What reads the memories of one namespace."""

    async def __call__(self, work: Callable[[Begin], Awaitable[T]]) -> T:
        """Return what `work` returns, which is given what begins a transaction and may be called again."""


Asking = tuple[Reads, Question]  # whose memories, and the question with the names of its filters as they store them


class Retrieval:
    """Finds the memories that answer a question, best first."""

    def __init__(self, embedder: QuestionEmbedder) -> None:
        self._embedder = embedder
        self._frequencies = Frequencies()

    async def hits(self, asking: Sequence[Asking], place: Cursor) -> Hits:
        """Return the hits of a question from `place` on, out of one namespace or several.

        Args:
            asking: who is asked, one's own memories first.
            place: where the page begins.
        """
        question = asking[0][1]
        if question.lists:
            return await _listed(asking, place)
        if question.mode == "text":  # whose signs hold for the whole of a text
            asked = [(1.0, query) for query in question.queries]
        else:
            asked = [part for query in question.queries for part in question_parts(query)]
        if len(asked) == 1:
            return await self._found(asking, place)
        return await self._found_together(asking, asked, place)

    async def _found_together(
        self, asking: Sequence[Asking], asked: Sequence[tuple[float, str]], place: Cursor
    ) -> Hits:
        """Ask several texts one after the other, and rank what they find as one by their weights."""
        limit = asking[0][1].limit
        reach = {"further_queries": [], "limit": max(REACH, place.offset + limit)}
        start = replace(place, offset=0)
        answers = [
            (weight, await self._found(_each_with(asking, query=text, **reach), start)) for weight, text in asked
        ]
        return fused(answers, place.offset, limit)

    async def _found(self, asking: Sequence[Asking], place: Cursor) -> Hits:
        """Ask one text; each of several is asked for what may be on the page, and on those before it."""
        limit = asking[0][1].limit
        start = place if len(asking) == 1 else replace(place, offset=0)
        if start is not place:
            asking = _each_with(asking, limit=place.offset + limit)
        parsed = parse(asking[0][1], place.now)

        async def ranking(begin: Begin, question: Question) -> Ranking:
            its = (
                parsed if question is parsed.question else replace(parsed, question=question, scope=scope_of(question))
            )
            return await self._ranking(begin, its, start.offset, CANDIDATES if len(asking) == 1 else OF_EACH)

        rankings = await _asked_each(asking, ranking)
        _note_origins(rankings)
        return judged(rankings, place.offset, limit)

    async def _ranking(self, begin: Begin, parsed: Parsed, offset: int, candidates: int) -> Ranking:
        """Embed what the question likely means while its words are looked up, and again if it means another."""
        async with _under_way(self._vector(parsed)) as embedding:
            async with begin() as tx:
                asked = await understand(tx, parsed, self._frequencies)
                await asyncio.wait([embedding], timeout=HELD_S)
                if embedding.done() and _is_its_vector(asked, embedding.result()):
                    return await ranking_of(tx, asked, embedding.result(), offset, candidates)
            embedded = await embedding
        if not _is_its_vector(asked, embedded):
            embedded = await self._embedded(asked.meaning, parsed.question.mode)
        async with begin() as tx:
            return await ranking_of(tx, asked, embedded, offset, candidates)

    async def _vector(self, parsed: Parsed) -> Embedded:
        """Return the vector that a question brings or most likely needs."""
        question = parsed.question
        if question.mode == "text":
            return Embedded()
        if question.embedding is not None:
            return await self._embedder.given(question.embedding)
        return await self._embedded(self._frequencies.likely_meaning(parsed), question.mode)

    async def _embedded(self, text: str, mode: str) -> Embedded:
        """Embed a question; where the embedder fails, or is still loading when whoever asks can wait no longer, words
        alone are searched, unless meaning alone was asked for.
        """
        until = None if mode == "semantic" else EMBEDDED_BY.get()
        left = None if until is None else max(0.0, until - time.monotonic())
        try:
            return await asyncio.wait_for(self._embedder.question(text), left)
        except TimeoutError:
            log.warning("Searched by words only: the model was not loaded in time.")
        except EmbeddingFailed as error:
            if mode == "semantic":
                raise
            log.warning("Searched by words only: %s %s", error.message, error.hint)
        return Embedded(question=text, failed=True)


def _is_its_vector(asked: Asked, embedded: Embedded) -> bool:
    """Whether a vector is that of the question's meaning, or there will be none."""
    return embedded.failed or embedded.question in (None, asked.meaning)


@asynccontextmanager
async def _under_way(work: Coroutine[Any, Any, Embedded]) -> AsyncIterator[asyncio.Task[Embedded]]:
    """Do something beside a block, and end it with the block."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _listed(asking: Sequence[Asking], place: Cursor) -> Hits:
    """Return a page of the list of one namespace, or of several in one order."""
    question = asking[0][1]
    start = place if len(asking) == 1 else replace(place, offset=0)
    if start is not place:
        asking = _each_with(asking, limit=place.offset + question.limit)

    async def one_list(begin: Begin, its: Question) -> Hits:
        async with begin() as tx:
            return await list_page(tx, its, start)

    lists = await _asked_each(asking, one_list)
    _note_origins(lists)
    return lists[0] if len(asking) == 1 else joined_lists(question, lists, place.offset)


async def _asked_each(asking: Sequence[Asking], work: Callable[[Begin, Question], Awaitable[T]]) -> list[T]:
    """Ask all at once."""

    async def asked(reads: Reads, question: Question) -> T:
        return await reads(lambda begin: work(begin, question))

    if len(asking) == 1:
        return [await asked(*asking[0])]
    others = [asyncio.create_task(asked(*one)) for one in asking[1:]]
    try:
        own = await asked(*asking[0])  # here, as it may say that what it read is stale
        return [own, *(await asyncio.gather(*others))]
    finally:
        for task in others:
            task.cancel()
        await asyncio.wait(others)


def _each_with(asking: Sequence[Asking], **change: Any) -> list[Asking]:
    return [(reads, question.model_copy(update=change)) for reads, question in asking]


def _note_origins(answers: Sequence[Hits | Ranking]) -> None:
    for number, one in enumerate(answers):
        for hit in one.found:
            hit.origin = number
