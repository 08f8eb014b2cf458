"""What is drawn is what the database said at each moment, whatever happened to a memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import exp, log, log1p
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgengram import fields as f
from pgengram.ui.view_data import drawing

BEGAN = datetime(2026, 1, 5, tzinfo=UTC)
DAYS_THEN = (BEGAN - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1) - 20_000
WEIGHT = 0.1


class Stored:
    """One memory as the statements of the store keep it: importance, rate, and the logarithm of its faded uses."""

    def __init__(self, importance: float) -> None:
        self.row: dict[str, Any] = {"type": "semantic", "kind": None, "pinned": False}
        self.importance, self.reinforcement = importance, None
        self.rate = f.rate_per_day("semantic", None, pinned=False)
        self.used: list[datetime] = []
        self.history: list[dict[str, Any]] = []

    def use(self, at: datetime) -> None:
        weight = log(WEIGHT) + self.rate * days(at)
        old = self.reinforcement
        self.reinforcement = weight if old is None else max(old, weight) + log1p(exp(-abs(old - weight)))
        self.used.append(at)

    def change(self, at: datetime, name: str, value: Any) -> None:
        old = self.importance if name == "importance" else self.row[name]
        if name == "importance":
            self.importance = value
        else:
            self.row[name] = value
        rate = f.rate_per_day("semantic", self.row["kind"], pinned=self.row["pinned"])
        if self.reinforcement is not None:
            self.reinforcement += (rate - self.rate) * days(at)
        self.rate = rate
        self.history.insert(0, {"at": at, "operation": "update", "changes": {name: [old, value]}})
        self.use(at)

    def relevance(self, at: datetime) -> float:
        uses = 0.0 if self.reinforcement is None else exp(self.reinforcement - self.rate * days(at))
        return self.importance * exp(-self.rate * (at - BEGAN) / timedelta(days=1)) + uses

    def drawn(self, now: datetime) -> dict[str, Any]:
        used = self.used[:-33:-1]
        activation = {
            "started_at": BEGAN, "importance": self.importance, "rate_per_day": self.rate, "reinforcement": self.reinforcement,
            "last_accessed_at": self.used[-1] if self.used else None, "used_at": used or None,
            "use_weights": [WEIGHT] * len(used) or None,
        }  # fmt: skip
        return drawing.fading(self.row, activation, self.history, now)


def days(at: datetime) -> float:
    return DAYS_THEN + (at - BEGAN) / timedelta(days=1)


events = st.one_of(
    st.just(("use", None)),
    st.tuples(st.just("kind"), st.sampled_from(["fact", "observation", "decision"])),
    st.tuples(st.just("pinned"), st.booleans()),
    st.tuples(st.just("importance"), st.floats(0, 1)),
)


@given(st.floats(0, 1), st.lists(st.tuples(st.floats(0.01, 60), events), max_size=45))
def test_the_line_goes_through_what_the_relevance_was_after_each_thing_that_happened(
    importance: float, life: list[tuple[float, tuple[str, Any]]]
) -> None:
    memory, at, after = Stored(importance), BEGAN, {}
    for pause, (what, value) in life:
        at += timedelta(days=pause)
        if what == "use":
            memory.use(at)
        else:
            memory.change(at, what, value)
        after[at.timestamp()] = memory.relevance(at)
    now = at + timedelta(days=3)
    made = memory.drawn(now)

    line = dict(zip(made["at"], made["used"], strict=True))
    known = {moment: value for moment, value in line.items() if value is not None}
    assert line[now.timestamp()] == pytest.approx(memory.relevance(now), rel=1e-4, abs=1e-9)
    for moment in {mark["at"] for mark in made["marks"]} & after.keys() & known.keys():
        assert known[moment] == pytest.approx(after[moment], rel=1e-4, abs=2e-4)
    if len(memory.used) < 32:
        assert known.keys() == line.keys()
    assert made["at"] == sorted(set(made["at"]))


def test_what_was_used_before_uses_were_kept_is_drawn_from_its_last_use_on() -> None:
    memory = Stored(0.2)
    for day in (10, 20):
        memory.use(BEGAN + timedelta(days=day))
    last = memory.used[-1]
    activation = {"started_at": BEGAN, "importance": 0.2, "rate_per_day": memory.rate, "reinforcement": memory.reinforcement,
                  "last_accessed_at": last, "used_at": None, "use_weights": None}  # fmt: skip
    made = drawing.fading(memory.row, activation, [], BEGAN + timedelta(days=30))

    line = dict(zip(made["at"], made["used"], strict=True))
    assert line[BEGAN.timestamp()] is None
    assert line[last.timestamp()] == pytest.approx(memory.relevance(last))
