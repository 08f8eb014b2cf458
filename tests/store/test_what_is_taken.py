"""Each unique constraint that is broken has words of its own."""

from __future__ import annotations

import pytest

from helpers import Database
from pgengram.errors import Conflict
from pgengram.inputs import NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.store.connection.translation import TAKEN

SAME_KEY = "UPDATE memories SET idempotency_key = 'note 1' WHERE namespace_id = %(namespace_id)s"
SAME_HISTORY = "INSERT INTO memory_history SELECT * FROM memory_history WHERE namespace_id = %(namespace_id)s"
SAME_HASH = """
UPDATE memories SET content_hash =
  (SELECT content_hash FROM memories WHERE namespace_id = %(namespace_id)s ORDER BY content_hash LIMIT 1)
WHERE namespace_id = %(namespace_id)s
"""
# By the name of each unique index that is no primary key.
UNIQUE = """
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indisunique AND NOT i.indisprimary AND i.indrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
"""


@pytest.mark.parametrize(
    ("statement", "says"),
    [(SAME_KEY, "idempotency_key"), (SAME_HISTORY, "at this very moment"), (SAME_HASH, "already says exactly this")],
)
async def test_the_error_says_what_is_taken(manager: MemoryManager, statement: str, says: str) -> None:
    for content in ("The shed is red.", "The garage is green."):
        await manager.create_memory(NewMemory(content=content))

    with pytest.raises(Conflict, match=says):
        async with manager.store.transaction() as tx:
            await tx.run(statement)


def test_the_constraints_with_words_of_their_own_are_there(database: Database) -> None:
    assert TAKEN.keys() <= {name for (name,) in database.as_login(UNIQUE)}
