"""Which hits a person is shown as answers: laws over any texts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgengram.text.shown import LEAST_PART, fit_of

TEXT = st.text(st.characters(categories=("L", "N", "Zs"), max_codepoint=0x24F), min_size=1, max_size=40)
UNLIKELY = st.lists(st.booleans(), max_size=12)
EVIDENCE = st.sampled_from(["strong", "weak", "none", None])


def lamps(unlikely: list[bool]) -> list[dict[str, Any]]:
    return [{"content": f"Lamp {place}."} | ({"unlikely": True} if one else {}) for place, one in enumerate(unlikely)]


@pytest.mark.parametrize(
    ("typed", "content"),
    [("INES", "Inês sings."), ("hamb", "The office in\nHamburg."), ("versicherung", "Die Haftpflichtversicherung")],
)
def test_case_and_accents_need_not_be_typed(typed: str, content: str) -> None:
    assert fit_of(typed, [{"content": content, "unlikely": True}], "none").hits


@given(TEXT, TEXT, TEXT, EVIDENCE)
def test_what_contains_all_that_was_typed_fits_however_unlikely_it_is_to_answer(
    before: str, typed: str, after: str, evidence: str | None
) -> None:
    assume(len(" ".join(typed.split())) >= LEAST_PART)
    hits = [{"content": before + typed + after, "unlikely": True}]

    assert fit_of(typed, hits, evidence) == (hits, [], True)


@given(UNLIKELY)
def test_without_evidence_nothing_is_shown_as_an_answer(unlikely: list[bool]) -> None:
    hits = lamps(unlikely)

    assert fit_of("who is on the moon", hits, "none") == ([], hits, False)


@given(UNLIKELY, st.sampled_from(["strong", "weak", None]))
def test_else_what_is_not_marked_fits_in_its_order_and_is_sure_unless_the_evidence_is_weak(
    unlikely: list[bool], evidence: str | None
) -> None:
    hits = lamps(unlikely)

    fit = fit_of("what lights the room", hits, evidence)

    assert fit.hits == [hit for hit in hits if "unlikely" not in hit]
    assert fit.others == [hit for hit in hits if "unlikely" in hit]
    assert fit.sure == (evidence != "weak")
