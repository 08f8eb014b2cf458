"""Which hits of a search a person is shown as answers.

Whoever types a part of a word wants what contains it, although no whole word fits; and whoever asks for what nobody
said is told so, although something is always nearest.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

LIKELIER_THAN_NOT: Final = 0.5  # probability of an answer, from which a person isn't told that there may be none
ALONE: Final = 0.25  # or the probability from which the best alone is worth showing as an answer
LEAST_PART: Final = 3  # letters of a part of a word
ACCENTS: Final = re.compile(r"[\u0300-\u036f]")
NEAREST: Final = 3  # hits that are shown where none may answer


class Fit(NamedTuple):
    """The hits that fit, those that don't, both best first, and whether a word that was asked for is in any."""

    hits: list[dict[str, Any]]
    others: list[dict[str, Any]]
    in_words: bool


def fit_of(question: str, hits: Sequence[dict[str, Any]], answered: float | None) -> Fit:
    """Return what fits a question: what is likely to answer it, and what contains all that was typed.

    Args:
        question: as it was typed.
        hits: best first, with `content`, and with `score`, `unlikely` and `why` if they have those.
        answered: the probability that one of them answers; None where nothing is claimed.
    """
    part, sure = _plain(question), _is_answered(hits, answered)
    fitting: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for hit in hits:
        contains = len(part) >= LEAST_PART and part in _plain(hit["content"])
        (fitting if contains or (sure and not hit.get("unlikely")) else others).append(hit)
    return Fit(fitting, others, any(hit.get("why", {}).get("words") for hit in hits))


def _is_answered(hits: Sequence[dict[str, Any]], answered: float | None) -> bool:
    """Whether the hits are worth showing as answers."""
    best = max((hit.get("score") or 0.0 for hit in hits), default=0.0)
    return answered is None or answered >= LIKELIER_THAN_NOT or best >= ALONE


def _plain(text: str) -> str:
    """Return a text in small letters without accents, as it may be typed in a hurry."""
    folded = text.casefold()
    if not folded.isascii():
        folded = ACCENTS.sub("", unicodedata.normalize("NFKD", folded))
    return " ".join(folded.split())
