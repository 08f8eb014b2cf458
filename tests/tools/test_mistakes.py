"""Calls as models get them wrong: each is read as it was meant, or refused with the next step."""

from __future__ import annotations

from typing import Any

import pytest
from generated_mistakes import cases
from mistakes import CASES, RECOVERABLE, Store, judged_in, only_reads

from helpers import Served, owned_tables

BY_RULE = cases()
BY_DAY = 12  # of those made by rule one in so many; the nightly run takes all


@pytest.fixture(scope="module")
def stores() -> list[Store]:
    """The store that holds the memories of the table; none once a call may have changed it."""
    return []


def named(case: dict[str, Any], *marks: Any) -> Any:
    return pytest.param(case, id=f"{case['tool']}: {case['mistake']}", marks=marks)


@pytest.mark.parametrize(
    "case",
    [
        *map(named, CASES),
        *(named(one, *[pytest.mark.nightly] * bool(place % BY_DAY)) for place, one in enumerate(BY_RULE)),
    ],
)
async def test_a_mistake_is_read_as_meant_or_refused_with_the_next_step(
    serving: Served, stores: list[Store], case: dict[str, Any]
) -> None:
    if not stores:
        serving.db.empty(owned_tables())
        stores.append(Store(serving.client))
        await stores[0].fill()

    verdict = await judged_in(stores[0], case)

    refused_at_once = verdict.word == RECOVERABLE and "then" not in case  # and shown to have changed nothing
    if not (refused_at_once or only_reads(case)):
        stores.clear()
    assert verdict.good, f"{verdict.word}: {verdict.why}"
