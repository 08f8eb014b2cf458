"""Columns that only ever grow or only ever shrink: of two machines' values the one that went further holds.

The moment up to which a conversation was erased never goes back because another machine wrote something else of the
conversation later. These columns stand among the counts of a document, which become the larger ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

Counts = dict[str, list[float]]

# For each kind of row moments, with 1 where the later one holds and -1 where the earlier one does.
GROWING: Final[Mapping[str, Mapping[str, int]]] = {
    "conversation": {"at": 1, "as_of": 1, "kept_from": 1, "began_at": -1}
}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


def split_row(kind: str, row: Mapping[str, Any]) -> tuple[dict[str, Any], Counts]:
    """Return the columns of a row that anybody may set to anything, and the others as counts."""
    signs = GROWING.get(kind, {})
    counts = {
        name: [float(sign * ((datetime.fromisoformat(row[name]) - EPOCH) // MICROSECOND))]
        for name, sign in signs.items()
        if row.get(name) is not None
    }
    return {name: value for name, value in row.items() if name not in signs}, counts


def grown_columns(kind: str, counts: Mapping[str, list[float]]) -> dict[str, str]:
    """Return what counts say as columns of a row."""
    return {
        name: (EPOCH + sign * int(counts[name][0]) * MICROSECOND).isoformat()
        for name, sign in GROWING.get(kind, {}).items()
        if name in counts
    }
