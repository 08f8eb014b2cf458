"""How many of something there are, in words."""

from __future__ import annotations


def counted(number: int, one: str = "memory", several: str = "memories") -> str:
    """Return a number with what is counted, in the singular or the plural."""
    return f"{number:,} {one if number == 1 else several}"
