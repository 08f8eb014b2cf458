"""Which hits a person is shown as answers: laws over any texts."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgengram.text.fit import LEAST_PART, fit_of

TEXT = st.text(st.characters(categories=("L", "N", "Zs"), max_codepoint=0x24F), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("typed", "content"),
    [("INES", "Inês sings."), ("hamb", "The office in\nHamburg."), ("versicherung", "Die Haftpflichtversicherung")],
)
def test_case_and_accents_need_not_be_typed(typed: str, content: str) -> None:
    assert fit_of(typed, [{"content": content, "unlikely": True}], 0.1).hits


@given(TEXT, TEXT, TEXT, st.floats(0, 1))
def test_what_contains_all_that_was_typed_fits_however_unlikely_it_is_to_answer(
    before: str, typed: str, after: str, answered: float
) -> None:
    assume(len(" ".join(typed.split())) >= LEAST_PART)
    hits = [{"content": before + typed + after, "unlikely": True}]

    assert fit_of(typed, hits, answered).hits == hits


@pytest.mark.parametrize(("score", "fitting"), [(0.44, 1), (0.24, 0)])
def test_a_hit_that_alone_may_answer_fits(score: float, fitting: int) -> None:
    assert len(fit_of("why Stripe", [{"content": "It handles SEPA.", "score": score}], score).hits) == fitting


@given(st.lists(st.booleans(), max_size=12), st.floats(0, 0.49))
def test_where_nothing_is_likely_to_answer_nothing_is_shown_as_an_answer(unlikely: list[bool], answered: float) -> None:
    hits = [{"content": "A lamp.", "unlikely": one} for one in unlikely]

    fit = fit_of("who is on the moon", hits, answered)

    assert fit == ([], hits, False)


@given(st.lists(st.booleans(), max_size=12), st.none() | st.floats(0.5, 1))
def test_what_is_likely_to_answer_fits_and_nothing_changes_its_place_among_its_like(
    unlikely: list[bool], answered: float | None
) -> None:
    hits = [{"content": f"Lamp {place}.", "unlikely": one} for place, one in enumerate(unlikely)]

    fit = fit_of("what lights the room", hits, answered)

    assert fit.hits == [hit for hit in hits if not hit["unlikely"]]
    assert fit.others == [hit for hit in hits if hit["unlikely"]]
