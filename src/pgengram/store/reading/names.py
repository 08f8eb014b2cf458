"""Which users, projects, collections, speakers and tags there are, and which of them a filter means.

Names compare without case and separators: `Order Flow` finds what is stored under `orderflow`.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from pgengram.store.connection.database import Transaction
from pgengram.store.store import Store

COLUMNS: Final = ("user", "project", "collection")  # with an index by name
FRESH_S: Final = (
    5.0  # how long another spelling by somebody else may go unseen; the one that is asked for is always seen
)
MOST_KNOWN: Final = 1_000  # names of one kind that are compared
MOST_SHOWN: Final = 5  # names in one answer
LONGEST_SHOWN: Final = 32  # characters of a name that is offered though it is not similar
_GAPS: Final = re.compile(r"[\s_./:-]+")

# From name to name, however many memories each has. Uses memories_by_user, memories_by_project and
# memories_by_collection.
_NAMES: Final = """
WITH RECURSIVE seen AS (
  (SELECT m."{column}" AS name FROM memories m
   WHERE m.namespace_id = %(namespace_id)s AND m."{column}" IS NOT NULL ORDER BY m."{column}" LIMIT 1)
  UNION ALL
  SELECT (SELECT m."{column}" FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m."{column}" > seen.name
          ORDER BY m."{column}" LIMIT 1) FROM seen WHERE seen.name IS NOT NULL
)
SELECT name FROM seen WHERE name IS NOT NULL LIMIT %(limit)s
"""
# Asked only when a filter let nothing through. Uses memories_pkey, read whole.
_SPEAKERS: Final = """
SELECT DISTINCT m.speaker AS name FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.speaker IS NOT NULL LIMIT %(limit)s
"""
# Asked only when a filter let nothing through. Uses memory_tags_by_tag.
_TAGS: Final = "SELECT DISTINCT tag AS name FROM memory_tags WHERE namespace_id = %(namespace_id)s LIMIT %(limit)s"


def folded_name(name: str) -> str:
    """Return a name for comparison: small letters, without white space, hyphens, underscores, dots, slashes and
    colons.
    """
    return _GAPS.sub("", unicodedata.normalize("NFKC", name).casefold())


def alike(name: str, known: Iterable[str]) -> list[str]:
    """Return those of the known names that are the same but for case and separators, `name` itself first."""
    folded = folded_name(name)
    return sorted((one for one in known if one == name or folded_name(one) == folded), key=lambda one: one != name)


async def names(tx: Transaction, what: str) -> list[str]:
    """Return the stored users, projects, collections, speakers or tags, at most `MOST_KNOWN`."""
    statement = {"tags": _TAGS, "speaker": _SPEAKERS}.get(what) or _NAMES.format(column=what)
    return [row["name"] for row in await tx.rows(statement, {"limit": MOST_KNOWN})]


def unknown(what: str, name: str, known: list[str]) -> str:
    """Say that nothing has a name, and which names there are instead, the nearest first."""
    by_fold = {folded_name(one): one for one in known}
    near = [by_fold[one] for one in get_close_matches(folded_name(name), by_fold, MOST_SHOWN)]
    short = sorted((one for one in known if len(one) <= LONGEST_SHOWN), key=str.casefold)
    shown = near or short[:MOST_SHOWN]
    kind = "tag" if what == "tags" else what
    if not known:
        return f"No memory has a {kind} yet."
    if not shown:
        return f"No memory has this {kind}."
    which, verb = "the most similar" if near else "there", "is" if len(shown) == 1 else "are"
    return f"No memory has this {kind}; {which} {verb} {', '.join(shown)}."


class NameBook:
    """A namespace's users, projects and collections, read when a filter names one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[float, list[str]]] = {}

    async def spellings(self, what: str, name: str) -> list[str]:
        """Return the stored names that `name` means, itself first; none when there is no such name."""
        return alike(name, await self._current(what))

    def note(self, given: object) -> None:
        """Note the names of what is about to be stored here, so that the next filter finds it at once."""
        for what, (read_at, known) in self._known.items():
            if (name := getattr(given, what, None)) and name not in known:
                self._known[what] = (read_at, [*known, name])

    async def _current(self, what: str) -> list[str]:
        read_at, known = self._known.get(what, (float("-inf"), []))
        if time.monotonic() - read_at > FRESH_S:
            read_at = time.monotonic()
            known = await self._store.read_transaction(lambda tx: names(tx, what))
            self._known[what] = (read_at, known)
        return known
