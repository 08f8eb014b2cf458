"""Which hits of a search are shown as answers: those that are likely to answer, and to a person also what contains all
that was typed, as people type parts of words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

LEAST_PART: Final = 3  # letters of a part of a word
ACCENTS: Final = re.compile(r"[\u0300-\u036f]")
NEAREST: Final = 3  # hits that are shown where none may answer


class Fit(NamedTuple):
    """The hits that fit, those that don't, both best first, and whether it is sure that one of them answers."""

    hits: list[dict[str, Any]]
    others: list[dict[str, Any]]
    sure: bool


def is_likely(hit: Mapping[str, Any], evidence: str | None) -> bool:
    """Whether a hit is likely to answer: none is where there is no evidence, and no hit that is marked."""
    return evidence != "none" and not hit.get("unlikely")


def fit_of(question: str, hits: Sequence[dict[str, Any]], evidence: str | None) -> Fit:
    """Return what a person is shown for a question, as it was typed, of its hits, best first, with their evidence."""
    part = _plain(question)
    containing = [len(part) >= LEAST_PART and part in _plain(hit["content"]) for hit in hits]
    fits = [contains or is_likely(hit, evidence) for hit, contains in zip(hits, containing, strict=True)]
    return Fit(
        [hit for hit, fit in zip(hits, fits, strict=True) if fit],
        [hit for hit, fit in zip(hits, fits, strict=True) if not fit],
        any(containing) or evidence not in ("weak", "none"),
    )


def _plain(text: str) -> str:
    """Return a text in small letters without accents, as it may be typed in a hurry."""
    folded = text.casefold()
    if not folded.isascii():
        folded = ACCENTS.sub("", unicodedata.normalize("NFKD", folded))
    return " ".join(folded.split())
