"""What the driver raises, as errors of ours."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from typing import Final

import psycopg
from psycopg_pool import PoolTimeout

from pgengram.errors import (
    Conflict,
    ConnectionLost,
    DatabaseFailed,
    NotAllowed,
    NotReady,
    PgengramError,
    ShardMoved,
    WritesRefused,
)

log = logging.getLogger(__name__)


class our_errors:  # noqa: N801  # reads as a word at its only use: `with our_errors():`
    """The one place where the driver's errors become ours; nothing of a statement's values leaves with them."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        ours = None if error is None else translated(error)
        if ours is not None:
            raise ours from error


BY_POLICY: Final = re.compile(r"row-level security policy")
ONLY_READS: Final = (
    "You may read this space, but not change it.",
    "Nothing was changed. An admin of the space can let you write.",
)
ERASED_NAMESPACE: Final = re.compile(r"_namespace_id_fkey$")
RULE_IN_MESSAGE: Final = re.compile(r'constraint "(\w+)"')
NUMBER_OF_SHARD: Final = re.compile(r"_\d{6,}$")
SHARD_GONE: Final = re.compile(r'could not find valid entry for shard|relation "(public\.)?\w+_\d{6,}" does not exist')
# Our error for a state of SQL; what needs a look at the message besides is in `_refused`.
REFUSALS: Final[dict[str, Callable[[], PgengramError]]] = {
    **dict.fromkeys(
        ("40001", "40P01", "55P03", "57014"),
        partial(
            DatabaseFailed,
            "The database is busy with another change, or the call took too long.",
            "Nothing was changed; call again.",
        ),
    ),
    **dict.fromkeys(
        ("53100", "53200", "53300", "53400"),
        partial(
            DatabaseFailed,
            "The database has no room left (disk, memory or connections).",
            "Free some room, then call again; reading still works.",
        ),
    ),
    **dict.fromkeys(
        ("25P03", "25P04", "57P05"),  # as the machine slept, or the network held back what was said
        partial(ConnectionLost, "PostgreSQL ended the connection, which had been silent for too long."),
    ),
    "25006": partial(WritesRefused, "The database accepts no writes now."),
    **dict.fromkeys(
        ("42P01", "42703", "42883"),
        partial(NotReady, "The database's schema does not fit this version.", "Run `pgengram migrate`."),
    ),
}


def translated(error: BaseException) -> PgengramError | None:
    """Return our error for one of the driver's, or None for any other."""
    if isinstance(error, PoolTimeout):
        return DatabaseFailed("All database connections are busy.", "Nothing was changed; call again in a moment.")
    return _refused(error) if isinstance(error, psycopg.Error) else None


def broken_rule(error: psycopg.Error) -> str | None:
    """Return the name of the constraint that a statement broke; a shard's has a number, and only the message names
    it.
    """
    named = RULE_IN_MESSAGE.search(error.diag.message_primary or "")
    name = error.diag.constraint_name or (named[1] if named else None)
    return NUMBER_OF_SHARD.sub("", name) if name else None


# What a unique constraint says when it is broken; every other one is broken only by two calls of the same moment.
CHANGED_AT_ONCE: Final = ("Another call changed the same at this very moment.", "Nothing was changed; call again.")
TAKEN: Final = {
    "memories_active_content": ("Another active memory already says exactly this.",),
    "memories_by_idempotency_key": (
        "Another memory was stored with this idempotency_key.",
        "Nothing was changed; call again to get that memory, or take another key.",
    ),
    "memory_beliefs_namespace_id_belief_hash_key": (
        "Another belief already says exactly this.",
        "Change that one, or remove one of the two.",
    ),
}


def _refused(error: psycopg.Error) -> PgengramError:
    state = error.sqlstate or ""
    log.info("PostgreSQL refused a statement: SQLSTATE %s %s", state or "none", type(error).__name__)
    ours = _by_message(state, error)
    if ours is not None:
        return ours
    if state in REFUSALS:
        return REFUSALS[state]()
    if isinstance(error, psycopg.OperationalError):
        return ConnectionLost("The connection to the database was lost.")
    return DatabaseFailed(f"PostgreSQL refused the statement (SQLSTATE {state or 'unknown'}).")


def _by_message(state: str, error: psycopg.Error) -> PgengramError | None:
    """Return our error where the constraint or the relation that the message names decides."""
    rule, message = broken_rule(error) or "", error.diag.message_primary or ""
    if state == "23503" and ERASED_NAMESPACE.search(rule):
        return NotReady(
            "This namespace was erased while the server ran; nothing was stored.", "Start the server again."
        )
    if state == "42501" and BY_POLICY.search(message):
        return NotAllowed(*ONLY_READS)
    if state == "23505":
        return Conflict(*TAKEN.get(rule, CHANGED_AT_ONCE))
    if state in ("42P01", "XX000") and SHARD_GONE.search(message):
        return ShardMoved()
    return None
