"""Counts and durations of calls as OpenTelemetry metrics, where a process was set up to send any.

The SDK of MCP makes a span of each request by itself. Both are sent by whatever set OpenTelemetry up before, as
`opentelemetry-instrument pgengram` does from the usual OTEL_ variables; nothing is imported or measured otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

Measure = Callable[[str, str, float], None]


@cache
def measure() -> Measure:
    """Return what notes a call: the tool's name, how it ended ("ok" or "error"), and how many seconds it took."""
    if os.environ.get("OTEL_METRICS_EXPORTER", "none") == "none" and not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return lambda _tool, _outcome, _seconds: None
    from opentelemetry.metrics import get_meter

    durations = get_meter("pgengram").create_histogram(
        "pgengram.call.duration",
        unit="s",
        description="How long calls of tools took; its count is how many there were.",
    )

    def note(tool: str, outcome: str, seconds: float) -> None:
        durations.record(seconds, {"gen_ai.tool.name": tool, "outcome": outcome})

    return note
