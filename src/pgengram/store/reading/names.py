"""Which users, projects, collections, speakers and tags there are, and which of them a filter means.

Names compare without case and separators: `Order Flow` finds what is stored under `orderflow`.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final
from uuid import UUID

from pgengram.errors import InvalidInput
from pgengram.fields import MAX_TAG
from pgengram.runtime.context import PEOPLE
from pgengram.store.connection import locks
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.schema import VISIBLE
from pgengram.store.store import Store
from pgengram.text.tags import SYNONYMS, flattened, normalised_tag

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
    """Return a name for comparison: small letters, without white space and - _ . / :."""
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
    kind = "tag" if what == "tags" else what
    if not known:
        return f"No memory has a {kind} yet."
    near = _most_similar(name, known)
    short = sorted((one for one in known if len(one) <= LONGEST_SHOWN), key=str.casefold)
    shown = near or short[:MOST_SHOWN]
    if not shown:
        return f"No memory has this {kind}."
    which, verb = "the most similar" if near else "there", "is" if len(shown) == 1 else "are"
    return f"No memory has this {kind}; {which} {verb} {', '.join(shown)}."


def _most_similar(name: str, known: list[str]) -> list[str]:
    by_fold = {folded_name(one): one for one in known}
    return [by_fold[one] for one in get_close_matches(folded_name(name), by_fold, MOST_SHOWN)]


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


# Uses memories_by_project and conversations_pkey.
COUNTED: Final = """
SELECT name, sum(memories)::int AS memories, sum(conversations)::int AS conversations FROM (
  SELECT m.project AS name, count(*) AS memories, 0 AS conversations FROM memories m
  WHERE m.namespace_id = %(namespace_id)s AND m.project IS NOT NULL AND m.status = 'active' GROUP BY m.project
  UNION ALL
  SELECT c.project, 0, count(*) FROM conversations c
  WHERE c.namespace_id = %(namespace_id)s AND c.project IS NOT NULL GROUP BY c.project
) AS each GROUP BY name ORDER BY 2 DESC, 3 DESC, 1
"""
# Uses memories_by_project.
MEMORIES: Final = """
SELECT m.id FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.project = ANY(%(names)s::text[]) AND m.project <> %(new)s
  AND m.status IN ('active', 'archived')
ORDER BY m.id
"""
# Uses conversations_pkey and conversation_turns_pkey.
MOVE_CONVERSATIONS: Final = """
WITH turns AS (
  UPDATE conversation_turns SET project = %(new)s
  WHERE namespace_id = %(namespace_id)s AND project = ANY(%(names)s::text[])
)
UPDATE conversations SET project = %(new)s
WHERE namespace_id = %(namespace_id)s AND project = ANY(%(names)s::text[]) AND project <> %(new)s
"""


async def stored_projects(tx: Transaction) -> list[Row]:
    """Return the stored projects, each with how many memories and conversations it has, the largest first."""
    return await tx.rows(COUNTED)


async def memories_of(tx: Transaction, names: Sequence[str], new: str) -> list[UUID]:
    """Return the memories of a project by its names that don't have its new name."""
    return [row["id"] for row in await tx.rows(MEMORIES, {"names": [*names], "new": new})]


async def move_conversations(tx: Transaction, names: Sequence[str], new: str) -> int:
    """Give the conversations of a project its new name; return how many there were."""
    return await tx.run(MOVE_CONVERSATIONS, {"names": [*names], "new": new})


# Kinds of sources that say what strangers wrote; any with a web address is one, too, and a turn that a tool printed.
STRANGERS: Final = (
    "web", "webpage", "web page", "website", "page", "url", "link", "search", "tool", "tool output", "tool_output",
    "mcp", "api", "email", "mail", "message", "issue", "comment", "document", "file", "pdf", "download", "rss", "feed",
)  # fmt: skip
# A memory is trusted as little as the least trusted of those that it replaces or was merged from, unless a person
# confirmed or wrote what it says now. Uses memories_hidden,
# memories_pkey and memory_history_pkey.
UNTRUSTED: Final = """
WITH RECURSIVE made_of AS (
  SELECT id AS shown, id FROM unnest(%(ids)s::uuid[]) AS id
  UNION
  SELECT made_of.shown, m.id FROM made_of JOIN memories m
  ON m.namespace_id = %(namespace_id)s AND m.status <> 'active' AND made_of.id = ANY(m.replaced_by)
)
SELECT DISTINCT made_of.shown AS id FROM made_of
JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = made_of.id
CROSS JOIN LATERAL jsonb_array_elements(coalesce(m.sources, '[]'::jsonb)) AS s
WHERE (lower(s ->> 'kind') = ANY(%(strangers)s) OR s ->> 'ref' ~* '^(https?://|tool:)' OR s ->> 'label' ~* '^https?://')
  AND NOT coalesce((
    SELECT h.actor = ANY(%(people)s) FROM memory_history h
    WHERE h.namespace_id = %(namespace_id)s AND h.memory_id = made_of.shown
      AND (h.operation = 'confirm' AND h.actor = ANY(%(people)s) OR h.changes ? 'content')
    ORDER BY h.version DESC LIMIT 1), false)
"""


async def untrusted(tx: Transaction, ids: Sequence[UUID]) -> set[UUID]:
    """Return those of the memories that strangers may have written, and that no person has confirmed."""
    given = {"ids": list(ids), "strangers": list(STRANGERS), "people": list(PEOPLE)}
    return {row["id"] for row in await tx.rows(UNTRUSTED, given)}


# Uses memories_pkey, from its end: the newest ids first.
IDS_BY_BEGINNING: Final = f"""
SELECT m.id FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.id BETWEEN %(first)s AND %(last)s AND {VISIBLE}
ORDER BY m.id DESC LIMIT %(limit)s
"""

# Uses memories_by_short_id.
IDS_BY_END: Final = f"""
SELECT m.id FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.short_id >= %(begun)s AND m.short_id < %(begun)s || 'g' AND {VISIBLE}
ORDER BY m.id DESC LIMIT %(limit)s
"""

# Uses memory_tags_by_tag and memories_pkey; all tags are read, as those that are used most come first.
TAGS: Final = f"""
SELECT t.tag AS word FROM memory_tags t JOIN memories m ON m.namespace_id = %(namespace_id)s AND m.id = t.memory_id
WHERE t.namespace_id = %(namespace_id)s AND starts_with(t.tag, %(begun)s) AND {VISIBLE}
GROUP BY t.tag ORDER BY count(*) DESC, t.tag LIMIT %(limit)s
"""

# Uses memories_by_project.
PROJECTS: Final = f"""
SELECT m.project AS word FROM memories m
WHERE m.namespace_id = %(namespace_id)s AND m.project IS NOT NULL AND starts_with(lower(m.project), lower(%(begun)s)) AND {VISIBLE}
GROUP BY m.project ORDER BY count(*) DESC, m.project LIMIT %(limit)s
"""


async def ids(tx: Transaction, begun: str, limit: int) -> list[str]:
    """Return whole ids whose first digits, or the first of their last eight, are `begun`; the newest first."""
    digits = begun.strip().lower().replace("-", "")
    if not re.fullmatch(r"[0-9a-f]{0,32}", digits):
        return []
    bounds = {"first": UUID(digits.ljust(32, "0")), "last": UUID(digits.ljust(32, "f")), "limit": limit}
    rows = await tx.rows(IDS_BY_BEGINNING, bounds)
    if 0 < len(digits) <= 8:
        rows += await tx.rows(IDS_BY_END, {"begun": digits, "limit": limit})
    return list(dict.fromkeys(str(row["id"]) for row in rows))[:limit]


async def tags_beginning(tx: Transaction, begun: str, limit: int) -> list[str]:
    """Return the tags of visible memories that begin with `begun`, the most used first."""
    return [row["word"] for row in await tx.rows(TAGS, {"begun": begun, "limit": limit})]


async def projects(tx: Transaction, begun: str, limit: int) -> list[str]:
    """Return the projects of visible memories that begin with `begun`, the most used first."""
    return [row["word"] for row in await tx.rows(PROJECTS, {"begun": begun, "limit": limit})]


SYNONYMS_FRESH_S: Final = (
    1.0  # how long another process's edit may go unseen; it saves a batch a question for each item
)
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
    in this process is seen at once, one of another process within `SYNONYMS_FRESH_S`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, str] = {}
        self._edits = -1
        self._read_at = 0.0

    async def current(self) -> dict[str, str]:
        """Return what every alias means."""
        if self._edits != _edits or time.monotonic() - self._read_at > SYNONYMS_FRESH_S:
            edits, read_at = _edits, time.monotonic()
            async with self._store.transaction() as tx:
                self._known = await synonyms(tx)
            self._edits, self._read_at = edits, read_at
        return self._known
