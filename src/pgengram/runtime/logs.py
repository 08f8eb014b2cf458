"""What a server says on stderr: lines for people, or JSON for programs; never a text that was stored or sent."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Final

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One JSON object on one line for each record: `time`, `level`, `logger`, `message`, and `trace` after a fault."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry)


class OneLine(logging.Formatter):
    """The usual line; what would begin another or steer a terminal is escaped, but for our own traces."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text."""
        return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in super().format(record))


def log_to_stderr(entry: str) -> None:
    """Log to stderr, which clients keep; the SDK and the driver only warn, as finer levels quote what is sent.

    Args:
        told: from which level on our own loggers speak, such as INFO; with `,json` behind it in JSON.
    """
    level, _, form = entry.upper().partition(",")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form else OneLine(TEXT))
    logging.basicConfig(handlers=[handler])
    logging.getLogger("pgengram").setLevel(level)
    for name in ("mcp", "psycopg"):
        logging.getLogger(name).setLevel(logging.WARNING)


def trace(error: BaseException) -> str:
    """Return where an error came from without its message, as messages of libraries quote what they were given."""
    parts = []
    for one in _causes(error):
        frames = "".join(traceback.format_tb(one.__traceback__))
        parts.append(f"{type(one).__module__}.{type(one).__qualname__}\n{frames}")
    return "caused by ".join(parts)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


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
