"""What a question asks: its terms with their weight, and the text worth embedding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pgengram.store.database import Transaction
from pgengram.text.words import extra_terms, words

# A word in more than a fifth of all memories (a name, mostly) says nothing about meaning: left in the text that is
# embedded it pulls every memory of that person nearer. It stays in the search by words.
COMMON_SHARE: Final = 0.2
FEW_MEMORIES: Final = 30  # below this a share says nothing
MAX_WORDS: Final = 64

# Uses memory_postings_pkey, once for each stem of each word.
LOOK_UP_WORDS: Final = """
SELECT w.position, t.term, s.term IS NOT NULL AS is_name,
  (SELECT count(*) FROM memory_postings p WHERE p.namespace_id = %(namespace_id)s AND p.term = t.term) AS memories
FROM unnest(%(words)s::text[]) WITH ORDINALITY AS w(word, position)
LEFT JOIN LATERAL pgengram_terms(w.word, '{}') AS t ON true
LEFT JOIN LATERAL (
  SELECT k.term FROM pgengram_terms('', ARRAY['speaker:' || lower(w.word)]) AS k
  WHERE EXISTS (SELECT FROM memory_postings p WHERE p.namespace_id = %(namespace_id)s AND p.term = k.term)) AS s ON true
UNION ALL
SELECT 0, t.term, false,
  (SELECT count(*) FROM memory_postings p WHERE p.namespace_id = %(namespace_id)s AND p.term = t.term)
FROM pgengram_terms('', %(extra)s::text[]) AS t
"""
# Uses memory_words_pkey.
COUNT_MEMORIES: Final = """
SELECT count(*) AS memories, coalesce(avg(length), 0)::double precision AS mean_length
FROM memory_words WHERE namespace_id = %(namespace_id)s
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the ranking needs it.

    terms: hashed stems; weights: their inverse document frequency, one for each term.
    meaning: the question without names and without words that most memories have; names: those taken out, lower case.
    mean_length: mean number of terms of a memory, for BM25.
    """

    terms: list[int]
    weights: list[float]
    meaning: str
    names: list[str]
    mean_length: float


async def understand(tx: Transaction, query: str) -> Asked:
    """Look the words of `query` up in this owner's memories."""
    asked_words = list(dict.fromkeys(words(query)))[:MAX_WORDS]
    size = await tx.row(COUNT_MEMORIES)
    rows = await tx.rows(LOOK_UP_WORDS, {"words": asked_words, "extra": extra_terms(query)})
    total = max([size["memories"] if size else 0, *(row["memories"] for row in rows)])
    frequency = {row["term"]: row["memories"] for row in rows if row["term"] is not None}
    common = {
        asked_words[row["position"] - 1]
        for row in rows
        if row["position"] and (row["is_name"] or (total >= FEW_MEMORIES and row["memories"] > COMMON_SHARE * total))
    }
    return Asked(
        terms=list(frequency),
        weights=[inverse_document_frequency(count, total) for count in frequency.values()],
        meaning=without(query, common) or query,
        names=[word.lower() for word in asked_words if word in common],
        mean_length=size["mean_length"] if size else 0.0,
    )


def inverse_document_frequency(memories_with_term: int, memories: int) -> float:
    """Return ln(1 + (N − df + ½) / (df + ½)): never negative (Lucene's form of Robertson and Spärck Jones)."""
    return math.log1p((memories - memories_with_term + 0.5) / (memories_with_term + 0.5))


def without(query: str, unwanted: set[str]) -> str:
    """Return `query` without the `unwanted` words, and without the possessive that follows one."""
    import re

    if not unwanted:
        return query.strip()
    pattern = r"\b(?:" + "|".join(map(re.escape, sorted(unwanted, key=len, reverse=True))) + r")\b(?:['’]s\b)?"
    return " ".join(re.sub(pattern, " ", query).split())
