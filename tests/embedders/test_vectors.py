from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgengram.embedders import spans, unit
from pgengram.errors import EmbeddingFailed


@given(length=st.integers(0, 5_000), window=st.integers(2, 300), data=st.data())
def test_slices_cover_everything_fit_the_window_and_overlap(length: int, window: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, window - 1))

    cuts = spans(length, window, overlap)

    assert cuts[0].start == 0
    assert cuts[-1].stop == length
    assert all(cut.stop - cut.start <= window for cut in cuts)
    for before, after in pairwise(cuts):
        assert before.start < after.start
        assert before.stop - after.start >= overlap
    if length > window:
        assert len(cuts) == -(-(length - overlap) // (window - overlap))


@pytest.mark.parametrize("broken", [[[1.0, 2.0], [0.0, 0.0]], [[np.nan, 1.0]], [[np.inf, 1.0]]])
def test_a_vector_without_direction_is_refused(broken: list[list[float]]) -> None:
    with pytest.raises(EmbeddingFailed, match="zero or not finite"):
        unit(broken)
