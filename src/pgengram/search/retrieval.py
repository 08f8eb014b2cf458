"""From a question to its hits: embedded while its words are looked up, and ranked."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

from pgengram.errors import EmbeddingFailed
from pgengram.inputs import Question
from pgengram.runtime.context import EMBEDDED_BY
from pgengram.search.filters import Asked, Parsed
from pgengram.search.lookup import Frequencies, understand
from pgengram.search.question import parse
from pgengram.search.ranking import ranked
from pgengram.search.results.budget import REACH, fused, question_parts
from pgengram.search.results.hits import Cursor, Hits
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


class Retrieval:
    """Finds the memories that answer a question, best first."""

    def __init__(self, embedder: QuestionEmbedder) -> None:
        self._embedder = embedder
        self._frequencies = Frequencies()

    async def hits(self, begin: Begin, question: Question, place: Cursor) -> Hits:
        """Return the hits of a question from `place` on.

        Args:
            begin: begins a transaction.
            question: with the names of its filters as they are stored.
            place: where the page begins.
        """
        if question.mode == "text":  # whose signs hold for the whole of a text
            asked = [(1.0, query) for query in question.queries]
        else:
            asked = [part for query in question.queries for part in question_parts(query)]
        if len(asked) == 1:
            return await self._found(begin, question, place)
        return await self._found_together(begin, question, asked, place)

    async def _found_together(
        self, begin: Begin, question: Question, asked: Sequence[tuple[float, str]], place: Cursor
    ) -> Hits:
        """Ask several texts one after the other, and rank what they find as one by their weights."""
        reach = {"further_queries": [], "limit": max(REACH, place.offset + question.limit)}
        start = replace(place, offset=0)
        answers = [
            (weight, await self._found(begin, question.model_copy(update={"query": text, **reach}), start))
            for weight, text in asked
        ]
        return fused(answers, place.offset, question.limit)

    async def _found(self, begin: Begin, question: Question, place: Cursor) -> Hits:
        """Embed what the question likely means while its words are looked up, and again if it means another."""
        parsed = parse(question, place.now)
        async with _under_way(self._vector(parsed)) as embedding:
            async with begin() as tx:
                asked = await understand(tx, parsed, self._frequencies)
                await asyncio.wait([embedding], timeout=HELD_S)
                if embedding.done() and _is_its_vector(asked, embedding.result()):
                    return await ranked(tx, asked, embedding.result(), place.offset)
            embedded = await embedding
        if not _is_its_vector(asked, embedded):
            embedded = await self._embedded(asked.meaning, question.mode)
        async with begin() as tx:
            return await ranked(tx, asked, embedded, place.offset)

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
