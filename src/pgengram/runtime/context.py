"""What belongs to the call that is being answered: who calls, and how to ask them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

Asker = Callable[[str], Awaitable[bool | None]]
ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)  # set by whoever carries a call here
ACTOR: ContextVar[str | None] = ContextVar("actor", default=None)  # who calls: the client's own name


async def asked(question: str) -> bool | None:
    """Put a yes-or-no question to the user through the client; None when this client cannot ask.

    Waits for a person: never call it inside a transaction.
    """
    asker = ASKER.get()
    return None if asker is None else await asker(question)
