"""Which of the memories found tells what holds, and which what held: the first stands before the second. And which of
them disagree, as somebody linked them so, or as they say nearly the same and differ in what counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise, permutations
from typing import Final
from uuid import UUID

from pgengram.search.filters import Asked
from pgengram.search.results import FITS_STILL, Hit
from pgengram.search.succession import (
    BEFORE,
    NAMED,
    Succession,
    comparable,
    crowding,
    may_have_changed,
    succeeds,
    surest,
)
from pgengram.search.vector_index import VectorIndex, centred
from pgengram.store.connection.database import Transaction
from pgengram.store.schema import VISIBLE
from pgengram.text.differences import ALIKE, differences, new_names, other_subjects, overlap
from pgengram.text.words import POSSESSIVE, words

TOGETHER: Final = 20  # places that are put in order together; pairs grow with the square

# By the first parts of two texts. Uses memory_vectors_pkey.
COSINES: Final = """
WITH asked AS MATERIALIZED (
  SELECT h.part_of, v.memory_id, v.embedding FROM unnest(%(ids)s::uuid[], %(parts)s::integer[]) AS h(id, part_of)
  CROSS JOIN LATERAL (SELECT v.memory_id, v.embedding FROM memory_vectors v
    WHERE v.namespace_id = %(namespace_id)s AND v.memory_id = h.id AND v.model_id = %(model_id)s AND v.part = 0 OFFSET 0) AS v
)
SELECT one.memory_id AS one, other.memory_id AS other, 1 - (one.embedding <=> other.embedding) AS cosine
FROM asked AS one JOIN asked AS other USING (part_of) WHERE one.memory_id <> other.memory_id
"""
Cosines = dict[UUID, dict[UUID, float]]
Meant = Callable[[Hit, Hit], bool]


def whole_parts(offset: int, limit: int) -> tuple[int, int]:
    """Return the places from and to which hits are put in order, so that pages of any size agree."""
    first = offset - offset % TOGETHER
    return first, first - (first - offset - limit) // TOGETHER * TOGETHER


async def current_first(tx: Transaction, hits: Sequence[Hit], model: VectorIndex, asked: Asked) -> list[Hit]:
    """Return hits so that what tells what holds now stands no later than what told of it before.

    The match of such a hit says which it `succeeds`, and the best fit of these. It gets `older`, those that it surely
    succeeds. A correction in other words may hardly fit the question: then the hit that it succeeds stays where it is
    and gets `newer`.

    Args:
        tx: the namespace's transaction.
        hits: best first, beginning at a place that `whole_parts` gives.
        model: whose vectors are compared.
        asked: the question, which may be after an older one.
    """
    parts = [hits[start : start + TOGETHER] for start in range(0, len(hits), TOGETHER)]
    worth_it = [part for part in parts if any(_successions(part))]
    if not worth_it:
        return [*hits]
    cosines, older_is_meant = await _cosines(tx, worth_it, model), asks_for_older(asked)
    return [hit for part in parts for hit in _newer_first(part, cosines, older_is_meant)]


async def _cosines(tx: Transaction, parts: Sequence[Sequence[Hit]], model: VectorIndex) -> Cosines:
    """Return how near the hits of each part are to each other."""
    given = {
        "ids": [hit.id for part in parts for hit in part],
        "parts": [number for number, part in enumerate(parts) for _ in part],
        "model_id": model.id,
    }
    mean_cosine = await model.mean_cosine(tx)
    cosines: Cosines = defaultdict(dict)
    for pair in await tx.rows(COSINES, given):
        cosines[pair["one"]][pair["other"]] = centred(pair["cosine"], mean_cosine)
    return cosines


def _successions(hits: Sequence[Hit]) -> Iterator[tuple[Hit, Hit]]:
    """Yield each newer hit with an older one that it may succeed."""
    for newer, older in permutations((hit for hit in hits if hit.status == "active"), 2):
        if newer.statement.type == "episodic" or newer.statement.scope[1:] != older.statement.scope[1:]:
            continue  # whose it is need not be said
        if comparable(newer.statement, older.statement) and may_have_changed(newer.statement, older.statement):
            yield newer, older


def _newer_first(hits: Sequence[Hit], cosines: Cosines, older_is_meant: Meant) -> list[Hit]:
    by_id = {hit.id: hit for hit in hits}
    stands_behind: dict[UUID, list[Hit]] = defaultdict(list)
    for (newer_id, older_id), evidence in surest(_judged(hits, cosines), BEFORE):
        newer, older = by_id[newer_id], by_id[older_id]
        if older_is_meant(newer, older):  # both may be so at once, and one of them is asked for
            stands_behind[newer_id].append(older)
        elif newer.fit < FITS_STILL * older.fit:
            older.newer.append(str(newer_id))
        else:
            stands_behind[older_id].append(newer)
            _note_succession(newer, older, surely=evidence >= NAMED)
    placed: dict[UUID, Hit] = {}
    waiting: set[UUID] = set()

    def place(hit: Hit) -> None:
        """Place a hit behind those that stand before it, whatever these wait for."""
        if hit.id not in waiting:
            waiting.add(hit.id)
            for other in stands_behind[hit.id]:
                place(other)
            placed[hit.id] = hit

    for hit in hits:
        place(hit)
    return [*placed.values()]


def _note_succession(newer: Hit, older: Hit, *, surely: bool) -> None:
    """Note that one hit stands before another as it succeeds it."""
    if newer.match is not None:
        newer.match.succeeds.add(older.id)
        newer.match.stands_for = max(newer.match.stands_for or newer.fit, older.fit)
    if surely:
        newer.older.append(str(older.id))


def _judged(hits: Sequence[Hit], cosines: Cosines) -> Iterator[tuple[Succession, float]]:
    """Yield each newer hit with an older one that it may succeed, and the evidence, which has to be good where only one
    of them says whose it is.
    """
    for newer, older in _successions(hits):
        evidence = _succession_evidence(newer, older, cosines)
        if evidence >= NAMED or newer.statement.scope == older.statement.scope:
            yield (newer.id, older.id), evidence


def _succession_evidence(newer: Hit, older: Hit, cosines: Cosines) -> float:
    cosine = cosines[newer.id].get(older.id, 0.0)
    pair = (newer.id, older.id)
    crowded = [crowding(value for id_, value in cosines[one].items() if id_ not in pair) for one in pair]
    return succeeds(newer.statement, older.statement, cosine, sum(crowded) / 2)


def asks_for_older(asked: Asked) -> Callable[[Hit, Hit], bool]:
    """Return whether a question is after an older memory rather than a newer one that seems to succeed it.

    So it is where it names the time of the older one, a name that this one has and the newer one has others for, or
    something with a number ("invoice 1001") of which the newer one tells another.
    """
    said = words(asked.parsed.text)
    nouns = {word.text for word in asked.words if not word.is_name}
    names = {POSSESSIVE.sub("", word) for word in said[1:] if word[0].isupper() and word not in nouns} - {"I"}
    numbered = set(_numbers_with_words(asked.parsed.text))

    def is_of_another(newer: str, older: str) -> bool:
        its, held = ({POSSESSIVE.sub("", word) for word in words(text)} for text in (newer, older))
        if names & held - its and new_names(newer, older):
            return True
        of_newer = dict(_numbers_with_words(newer))
        return any(
            of_newer.get(what, number) != number for what, number in numbered.intersection(_numbers_with_words(older))
        )

    def older_is_meant(newer: Hit, older: Hit) -> bool:
        outside = _is_of_period(older) and not _is_of_period(newer)
        return outside or is_of_another(newer.content, older.content)

    return older_is_meant


def _is_of_period(hit: Hit) -> bool:
    return hit.match is not None and "period" in hit.match.why


def _numbers_with_words(text: str) -> list[tuple[str, str]]:
    """Return each number with the word before it."""
    said = [word.casefold() for word in words(text)]
    return [(before, word) for before, word in pairwise(said) if word[0].isdigit() and before.isalpha()]


COMPARED: Final = 10  # of the best hits: pairs grow with the square
LONGEST: Final = 1_000  # characters; of longer texts a share of words tells little, and it costs more
SERIES: Final = 3  # a text that is like more others than this is one of a series, such as the entries of a log
LINKED: Final = "linked as contradicting"

# Uses memory_relationships_pkey for the edges that go out, memory_relationships_to for the others, and memories_pkey.
CONTRADICTED: Final = f"""
SELECT e.one, e.other FROM (
  SELECT r.from_id AS one, r.to_id AS other FROM memory_relationships r
  WHERE r.namespace_id = %(namespace_id)s AND r.from_id = ANY(%(ids)s) AND r.type = 'contradicts'
  UNION
  SELECT r.to_id, r.from_id FROM memory_relationships r
  WHERE r.namespace_id = %(namespace_id)s AND r.to_id = ANY(%(ids)s) AND r.type = 'contradicts') AS e
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = e.other
WHERE {VISIBLE}
"""


async def note_linked(tx: Transaction, hits: Sequence[Hit]) -> None:
    """Add `conflicts_with` to each active hit that was linked with the type `contradicts`, wherever the other is."""
    linked = {hit.id: hit for hit in hits if hit.status == "active" and hit.contradicted}
    for edge in await tx.rows(CONTRADICTED, {"ids": list(linked)}) if linked else ():
        linked[edge["one"]].conflicts_with.append({"id": str(edge["other"]), "why": LINKED})


def note_differing(hits: Sequence[Hit]) -> None:
    """Add `conflicts_with` to each of two active hits that look as if they disagree, and in what they differ."""
    active = {hit.id: hit for hit in hits if hit.status == "active"}
    for one, other, differing in _disagreeing([*active.values()][:COMPARED]):
        for mine, its in ((one, other), (other, one)):
            known = active[mine].conflicts_with
            if all(conflict["id"] != str(its) for conflict in known):
                known.append({"id": str(its), "why": f"differs in {' and '.join(differing)}"})


def _differing(one: Hit, other: Hit) -> list[str]:
    """Return in what two hits differ that say nearly the same of the same; nothing for any others."""
    same = one.statement.scope == other.statement.scope and one.speaker == other.speaker
    texts = one.content, other.content
    if not same or one.occurred_at != other.occurred_at or overlap(*texts) < ALIKE or other_subjects(*texts):
        return []
    return differences(*texts)


def _disagreeing(hits: Sequence[Hit]) -> list[tuple[UUID, UUID, list[str]]]:
    """Return the pairs that say nearly the same of the same, and in what they differ."""
    short = [hit for hit in hits if len(hit.content) <= LONGEST]
    found = [
        (one.id, other.id, differing) for one, other in combinations(short, 2) if (differing := _differing(one, other))
    ]
    alike = Counter(id_ for one, other, _ in found for id_ in (one, other))
    return [pair for pair in found if alike[pair[0]] <= SERIES and alike[pair[1]] <= SERIES]
