"""What a member may do in a space: add, correct what anybody stored, take back only what is one's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pgengram.errors import Conflict, NotAllowed
from pgengram.store.connection.database import Role
from pgengram.store.connection.translation import ONLY_READS

if TYPE_CHECKING:
    from pgengram.store.connection.database import Row, Transaction

NOT_ONES_OWN: Final = (
    "Memory {} is another member's: you may correct it, but only its author or an admin may remove it."
)
CORRECT_IT: Final = "To correct it: update_memory, or create_memory with replaces."
WHICH_VERSION: Final = "In a space a change names the version that it was made from; memory {} is at version {}."
LOOK_FIRST: Final = "Read it with get_memories, then call again with expected_version={}."


def refuse_reader(role: Role) -> None:
    """Refuse whoever may only read.

    Raises:
        NotAllowed: that is so.
    """
    if role is Role.READ:
        raise NotAllowed(*ONLY_READS)


def refuse_removal(tx: Transaction, rows: Iterable[Row]) -> None:
    """Refuse to forget, archive, merge away or erase what others have stored.

    Raises:
        NotAllowed: whoever asks is neither its author nor an admin.
    """
    if tx.member is None:
        return
    refuse_reader(tx.role)
    foreign = (row for row in rows if tx.role < Role.ADMIN and row["person_id"] != tx.member.person_id)
    for row in foreign:
        raise NotAllowed(NOT_ONES_OWN.format(row["id"]), CORRECT_IT)


def refuse_change(tx: Transaction, row: Row, change: Any) -> None:
    """Refuse a change of a shared memory by whoever may not make it, or has not seen what they change.

    Args:
        tx: the transaction.
        row: the memory.
        change: what is asked for.

    Raises:
        NotAllowed: whoever asks may only read, or would remove another's memory.
        Conflict: the change doesn't say which version it was made from.
    """
    if tx.member is None:
        return
    refuse_reader(tx.role)
    if change.status is not None and change.status != "active":
        refuse_removal(tx, [row])
    if change.expected_version is None:
        raise Conflict(WHICH_VERSION.format(row["id"], row["version"]), LOOK_FIRST.format(row["version"]))
