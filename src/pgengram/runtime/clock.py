"""What time it is where this process runs."""

from __future__ import annotations

from datetime import datetime


def here() -> datetime:
    """Return this moment in the time zone of the machine: "today" is the day that its user has."""
    return datetime.now().astimezone()
