"""The list of tests that are skipped in some shapes of the store names tests that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from shapes import NOT_THERE

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("shape", NOT_THERE)
def test_each_test_that_is_skipped_somewhere_is_there(shape: str) -> None:
    for names in NOT_THERE[shape].values():
        for name in names:
            file, _, test = name.partition("::")
            assert (ROOT / file).is_file(), name
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8") or not test, name
