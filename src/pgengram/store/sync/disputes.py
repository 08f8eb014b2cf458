"""Memories of which two machines changed the same field at the same time: what is not shown of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pgengram.store.connection.database import Transaction
from pgengram.store.sync import state

# What is no statement of anybody: if two machines set it differently, the later one is as good.
BOOKKEEPING: Final = frozenset(
    {
        "updated_at", "created_at", "last_confirmed_at", "valid_from", "valid_to", "started_at", "session_id",
        "session_sequence", "source_provider", "capture_mode", "reason", "replaced_by", "detail.event_time",
    }
)  # fmt: skip


async def found(tx: Transaction, limit: int) -> dict[str, list[tuple[str, Any]]]:
    """Return disputed memories by their ids, each with its fields and the values that are not shown."""
    rows = await tx.rows(state.DISPUTED, {"limit": limit})
    return {row["key"]: list(_not_shown(row["state"])) for row in rows}


async def count(tx: Transaction) -> int:
    """Return how many memories are disputed."""
    row = await tx.row(state.COUNT_DISPUTED)
    return int(row["disputed"]) if row else 0


def _not_shown(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield fields with the values of which a document, as it is kept, has more than their digests."""
    for name, entries in document["entries"].items():
        if name in BOOKKEEPING or ":" in name:
            continue
        for _, _, _, digest, *value in entries:
            if digest is None and value:
                yield name.removeprefix("detail."), value[0]
