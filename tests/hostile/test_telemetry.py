"""Metrics are made only where somebody asked for them, and hold names and durations alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import metrics

from pgengram.telemetry import measure


class FakeHistogram:
    def __init__(self) -> None:
        self.recorded: list[tuple[float, dict[str, str]]] = []

    def create_histogram(self, name: str, **_: Any) -> FakeHistogram:
        assert name == "pgengram.call.duration"
        return self

    def record(self, value: float, attributes: dict[str, str]) -> None:
        self.recorded.append((value, attributes))


@pytest.fixture
def histogram(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHistogram]:
    made = FakeHistogram()
    monkeypatch.setattr(metrics, "get_meter", lambda _: made)
    for name in ("OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    measure.cache_clear()
    yield made
    measure.cache_clear()


def test_without_a_place_to_send_them_nothing_is_measured(histogram: FakeHistogram) -> None:
    measure()("search_memories", "ok", 0.1)

    assert histogram.recorded == []


def test_a_call_is_measured_by_its_name_and_how_it_ended(
    histogram: FakeHistogram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")

    measure()("search_memories", "error", 0.1)

    assert histogram.recorded == [(0.1, {"gen_ai.tool.name": "search_memories", "outcome": "error"})]
