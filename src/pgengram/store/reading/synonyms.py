"""Which words mean the same tag, for one namespace: the shipped ones, and those that were edited on top of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from pgengram.errors import InvalidInput
from pgengram.fields import MAX_TAG
from pgengram.store.connection import locks
from pgengram.store.connection.database import Transaction
from pgengram.store.store import Store
from pgengram.text.tags import SYNONYMS, flattened, normalised_tag

FRESH_S: Final = 1.0  # how long another process's edit may go unseen; it saves a batch a question for each item
MAX_SYNONYMS: Final = 1_000  # of one namespace; the whole map is read at once

# Uses memory_tag_synonyms_pkey.
OWN: Final = "SELECT alias, tag FROM memory_tag_synonyms WHERE namespace_id = %(namespace_id)s ORDER BY alias"

# Uses memory_tag_synonyms_pkey.
SET: Final = """
INSERT INTO memory_tag_synonyms (namespace_id, alias, tag)
SELECT %(namespace_id)s, alias, tag FROM unnest(%(aliases)s::text[], %(tags)s::text[]) AS new(alias, tag)
ON CONFLICT (namespace_id, alias) DO UPDATE SET tag = excluded.tag
"""

# Uses memory_tag_synonyms_pkey.
DROP: Final = """
DELETE FROM memory_tag_synonyms WHERE namespace_id = %(namespace_id)s AND alias = ANY(%(aliases)s::text[])
"""

_edits = 0  # of this process; every cache of it asks anew after one


async def synonyms(tx: Transaction) -> dict[str, str]:
    """Return what every alias of the namespace means, shipped and edited ones, aliases of aliases followed."""
    return flattened(await _own_synonyms(tx))


async def set_synonyms(tx: Transaction, wanted: Mapping[str, str | None]) -> dict[str, str]:
    """Let each alias mean a tag, or itself again where the tag is None; return what every alias means then.

    Memories keep the tags they have; a search for either word finds them.

    Raises:
        InvalidInput: an alias or a tag can be no tag, an alias means itself, a circle would close, or there are too
        many.
    """
    global _edits
    meant = _meant(wanted)
    await tx.row(locks.WAIT_IN_NAMESPACE, {"key": locks.SYNONYMS})
    dropped = [alias for alias, tag in meant.items() if tag is None and alias not in SYNONYMS]
    kept = {alias: alias if tag is None else tag for alias, tag in meant.items() if alias not in dropped}
    own = await _own_synonyms(tx)
    final = _flattened({alias: tag for alias, tag in (own | kept).items() if alias not in dropped}, kept)
    await tx.run(DROP, {"aliases": dropped})
    await tx.run(SET, {"aliases": list(kept), "tags": list(kept.values())})
    _edits += 1
    return final


def _meant(wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    meant = {_tag(alias): None if tag is None else _tag(tag) for alias, tag in wanted.items()}
    if own := [alias for alias, tag in meant.items() if alias == tag]:
        raise InvalidInput(f"{own[0]} cannot be a synonym of itself.")
    return meant


def _flattened(overrides: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
    """Return what every alias means; refuse too many synonyms, and a circle that one of those just set would close."""
    if len(overrides) > MAX_SYNONYMS:
        raise InvalidInput(f"There can be at most {MAX_SYNONYMS} synonyms.")
    final = flattened(overrides)
    if circular := [alias for alias, tag in kept.items() if alias != tag and alias not in final]:
        raise InvalidInput(
            f"{circular[0]} would become a synonym of itself.", "Remove the synonym that leads back to it."
        )
    return final


def _tag(word: str) -> str:
    if not 0 < len(word) <= MAX_TAG or not (tag := normalised_tag(word)):
        raise InvalidInput(f"A tag and its aliases must have 2 to {MAX_TAG} characters.")
    return tag


async def _own_synonyms(tx: Transaction) -> dict[str, str]:
    return {row["alias"]: row["tag"] for row in await tx.rows(OWN)}


class SynonymBook:
    """The namespace's synonyms, read when tags come up.

    Tags are mapped before the transaction that stores them, as they belong to the words a memory is found by. An edit
    in this process is seen at once, one of another process within `FRESH_S`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, str] = {}
        self._edits = -1
        self._read_at = 0.0

    async def current(self) -> dict[str, str]:
        """Return what every alias means."""
        if self._edits != _edits or time.monotonic() - self._read_at > FRESH_S:
            edits, read_at = _edits, time.monotonic()
            async with self._store.transaction() as tx:
                self._known = await synonyms(tx)
            self._edits, self._read_at = edits, read_at
        return self._known
