"""Changes that wait for a yes: a token for one action on one set of arguments, valid once and for a minute.

Only the token's hash is stored, so whoever reads the table cannot confirm anything; it is stored at all so that a
restart between the preview and the yes loses nothing.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram.errors import ConfirmRequired
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory import statements as s

QUOTED: Final = 5  # memories that a question to the user quotes, and that a refusal names
SECONDS: Final = 60  # how long a token is valid
SECONDS_OF_A_QUESTION: Final = 600  # the same where a person reads the question first
TOKEN_BYTES: Final = 9  # 72 bits: not to be guessed in a minute, and short enough to be copied without a slip

# Tokens whose minute is over go when the next one is made. Uses memory_confirmations_pkey.
SWEEP: Final = (
    "DELETE FROM memory_confirmations WHERE namespace_id = %(namespace_id)s AND expires_at <= statement_timestamp()"
)
ADD: Final = """
INSERT INTO memory_confirmations (namespace_id, token_hash, action, arguments, created_at, expires_at)
VALUES (%(namespace_id)s, %(token_hash)s, %(action)s, %(arguments)s, statement_timestamp(),
  statement_timestamp() + make_interval(secs => %(seconds)s))
"""
# Deleting is what makes it single-use: of two calls with one token the second finds no row. Uses
# memory_confirmations_pkey.
TAKE: Final = """
DELETE FROM memory_confirmations
WHERE namespace_id = %(namespace_id)s AND token_hash = %(token_hash)s AND action = %(action)s
  AND expires_at > statement_timestamp()
RETURNING arguments
"""
# Uses memory_confirmations_pkey.
DROP: Final = "DELETE FROM memory_confirmations WHERE namespace_id = %(namespace_id)s AND token_hash = %(token_hash)s"


async def make_token(tx: Transaction, action: str, arguments: Mapping[str, Any], seconds: int = SECONDS) -> str:
    """Return a single-use token that confirms `action` with `arguments` within the next `seconds`.

    Args:
        tx: the transaction of the preview; the token is there once it commits.
        action: a word for what would be done.
        arguments: what it would be done to, as JSON: ids and settings, never the text of a memory.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    await tx.run(SWEEP)
    await tx.run(
        ADD,
        {"token_hash": _token_hash(token), "action": action, "arguments": Jsonb(dict(arguments)), "seconds": seconds},
    )
    return token


async def redeem(tx: Transaction, token: str, action: str) -> dict[str, Any]:
    """Use up `token` and return the arguments it was given for.

    The token is used up with the transaction: when the action fails and rolls back, the token stays valid.

    Args:
        tx: the transaction that does what was confirmed.
        token: what `ask` returned.
        action: the same word as there.

    Raises:
        ConfirmRequired: the token is unknown, used, out of date, or for another action.
    """
    row = await tx.row(TAKE, {"token_hash": _token_hash(token), "action": action})
    if row is None:
        raise ConfirmRequired(
            "The confirm_token is not valid: it is unknown, used, older than 60 s, or for another action."
        )
    arguments: dict[str, Any] = row["arguments"]
    return arguments


async def discard(tx: Transaction, token: str) -> None:
    """Make `token` worthless."""
    await tx.run(DROP, {"token_hash": _token_hash(token)})


def _token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


# Those that are long stored, matter little and were hardly read; the oldest first. Pinned ones are left alone. Uses
# memories_by_time or memories_hidden, and memory_activation_pkey.
FADED: Final = """
SELECT m.id, count(*) OVER () AS found FROM memories m
JOIN memory_activation a ON a.namespace_id = %(namespace_id)s AND a.memory_id = m.id
WHERE m.namespace_id = %(namespace_id)s AND m.status = %(status)s AND NOT m.pinned
  AND m.created_at < now() - %(age)s AND a.importance < %(importance)s AND a.access_count <= %(accesses)s
  AND (%(projects)s::text[] IS NULL OR m.project = ANY(%(projects)s))
ORDER BY m.created_at, m.id LIMIT %(limit)s
"""

# Uses memory_tags_by_tag and memories_pkey.
TAGGED: Final = """
SELECT m.id, count(*) OVER () AS found, ARRAY(SELECT tag FROM memory_tags t
  WHERE t.namespace_id = %(namespace_id)s AND t.memory_id = m.id AND t.tag = ANY(%(tags)s)) AS tags
FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.status IN ('active', 'archived')
  AND m.id IN (SELECT memory_id FROM memory_tags WHERE namespace_id = %(namespace_id)s AND tag = ANY(%(tags)s))
  AND (%(projects)s::text[] IS NULL OR m.project = ANY(%(projects)s))
ORDER BY m.id LIMIT %(limit)s
"""


async def faded(
    tx: Transaction,
    *,
    status: str,
    age: timedelta,
    importance: float,
    accesses: int,
    projects: Sequence[str] | None,
    limit: int,
) -> tuple[list[UUID], int]:
    """Return memories of `status` that were stored longer ago than `age`, are less important than `importance` and were
    read at most `accesses` times, the oldest first; and how many there are.
    """
    given = {"status": status, "age": age, "importance": importance, "accesses": accesses}
    rows = await tx.rows(FADED, {**given, "projects": projects, "limit": limit})
    return [row["id"] for row in rows], rows[0]["found"] if rows else 0


async def tagged(
    tx: Transaction, tags: Sequence[str], *, projects: Sequence[str] | None, limit: int
) -> tuple[dict[UUID, list[str]], int]:
    """Return memories that have some of `tags`, the oldest first, each with those; and how many memories there are."""
    rows = await tx.rows(TAGGED, {"tags": list(tags), "projects": projects, "limit": limit})
    return {row["id"]: row["tags"] for row in rows}, rows[0]["found"] if rows else 0


def row_versions(rows: Iterable[Row]) -> dict[str, int]:
    """Return the version of each memory, as it is kept for a confirmation."""
    return {str(row["id"]): row["version"] for row in rows}


async def refuse_changed(tx: Transaction, shown: Mapping[str, int]) -> None:
    """Lock memories, and refuse to go on when one isn't what was shown.

    Raises:
        ConfirmRequired: some were changed or erased since; the message names them.
    """
    rows = await tx.rows(s.LOCK, {"ids": sorted(UUID(id_) for id_ in shown)})
    now = row_versions(rows)
    found = [
        f"memory {id_} was {'changed' if id_ in now else 'erased'}"
        for id_, version in shown.items()
        if now.get(id_) != version
    ]
    if found:
        more = [f"and {len(found) - QUOTED} more"] if len(found) > QUOTED else []
        raise ConfirmRequired(
            f"The confirmed preview is out of date: since then, {', '.join([*found[:QUOTED], *more])}.",
            "Nothing was changed. Repeat the call without confirm_token to see what it would do now, and ask the user "
            "again.",
        )
