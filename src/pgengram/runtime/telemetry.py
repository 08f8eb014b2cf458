"""Traces and metrics by OpenTelemetry, where somebody has set a place to send them to; nothing is imported otherwise.

The SDK of MCP makes a span of each request by itself; counts and durations of calls are ours. Whatever set
OpenTelemetry up before, as `opentelemetry-instrument pgengram` does, is left as it is.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import cache
from typing import Final

log = logging.getLogger(__name__)

Measure = Callable[[str, str, float], None]

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
PATIENCE_S: Final = 2.0  # for the collector; what it has not taken when the server ends is lost


def start_telemetry() -> None:
    """Send traces and metrics to OTEL_EXPORTER_OTLP_ENDPOINT by HTTP, as long as the process runs.

    Does nothing where that is not set, where OpenTelemetry is switched off or set up already. The usual OTEL_ variables
    hold.
    """
    if not os.environ.get(ENDPOINT) or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        from opentelemetry import metrics, trace
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("%s is set, but nothing is sent: install 'pgengram[otel]'.", ENDPOINT)
        return
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "pgengram")})
    if _is_wanted("TRACES") and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        tracers = TracerProvider(resource=resource)
        tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=PATIENCE_S)))
        trace.set_tracer_provider(tracers)
    if _is_wanted("METRICS") and not isinstance(metrics.get_meter_provider(), MeterProvider):
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(timeout=PATIENCE_S), export_timeout_millis=PATIENCE_S * 1_000
        )
        metrics.set_meter_provider(MeterProvider([reader], resource=resource))


def _is_wanted(what: str) -> bool:
    return os.environ.get(f"OTEL_{what}_EXPORTER", "otlp") != "none"


@cache
def measure() -> Measure:
    """Return what notes a call: the tool's name, how it ended ("ok" or "error"), and how many seconds it took."""
    if os.environ.get("OTEL_METRICS_EXPORTER", "none") == "none" and not os.environ.get(ENDPOINT):
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
