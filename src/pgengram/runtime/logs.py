"""What a server says on stderr: lines for people, or JSON for programs; never a text that was stored or sent."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime

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
    """The usual line; what would begin another line or steer a terminal is written as an escape, but for our own
    traces.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text."""
        return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in super().format(record))


def log_to_stderr(entry: str) -> None:
    """Log to stderr, where clients keep it; the SDK and the driver only warn, as at finer levels they quote what is
    sent.

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
