"""Two texts word by word: what stayed, went and came, for whoever reads a change or compares two memories."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgengram.text.differences import word_changes

TEXTS = st.lists(
    st.sampled_from(["the", "gate", "has", "12", "locks,", "Ines", "oils", "them.", "São", "門", "-5"]), max_size=14
).map(" ".join)


@given(TEXTS, TEXTS)
def test_what_stayed_and_went_is_the_old_text_and_what_stayed_and_came_the_new_one(old: str, new: str) -> None:
    pieces = word_changes(old, new)
    assert "".join(text for verb, text in pieces if verb != "new") == old
    assert "".join(text for verb, text in pieces if verb != "gone") == new


@given(TEXTS, TEXTS)
def test_texts_that_share_less_than_half_of_their_words_are_shown_whole(old: str, new: str) -> None:
    pieces = word_changes(old, new)
    words = [[word for word in text.replace("-", " ").split() if any(map(str.isalnum, word))] for text in (old, new)]
    shared = sum(min(words[0].count(one), words[1].count(one)) for one in {*words[0]} & {*words[1]})
    if 4 * shared < sum(map(len, words)):
        assert [verb for verb, _ in pieces] in (["gone", "new"], ["gone"], ["new"], [])


def test_one_word_that_was_edited_is_marked_alone() -> None:
    assert word_changes("The gate has 12 locks.", "The gate has 14 locks.") == [
        ("same", "The gate has "), ("gone", "12"), ("new", "14"), ("same", " locks."),
    ]  # fmt: skip
