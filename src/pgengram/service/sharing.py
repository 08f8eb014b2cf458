"""Sharing a memory with a space, and taking it back: a person agrees to the exact text and to who will see it.

What is shared is a copy. The personal memory knows it; nothing in the space leads back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import UUID

from pydantic import Field

from pgengram import fields as f
from pgengram.errors import InvalidInput
from pgengram.inputs import NewMemory
from pgengram.service import confirming
from pgengram.service.spaces import Spaces
from pgengram.service.tools import ADDS, READS, tool, without_secrets_in
from pgengram.store import membership
from pgengram.store.memory import memories
from pgengram.store.memory import statements as s
from pgengram.store.memory.confirmations import row_versions
from pgengram.text.languages import languages
from pgengram.text.markdown import one_line
from pgengram.text.words import words
from pgengram.views import Answer, Shown

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager
    from pgengram.store.connection.database import Row, Transaction
    from pgengram.store.membership import Member, Space
    from pgengram.store.persons import Person

ACTION: Final = "share"
TOPICS: Final = ("health", "family", "money")
MOST: Final = 20  # memories that a person can read before they agree
# What goes into the copy. Not whose it is, who said it, which project, conversation or source it is from: those lead
# back.
COPIED: Final = ("content", "type", "kind", "importance", "tags", "confidence", "occurred_at", "expires_at")
COPIED_OF_DETAIL: Final = ("steps", "prerequisites", "failure_points", "category", "related_concepts")
BY_COMMAND: Final = "The user can agree at a terminal: pgengram space share {} --space '{}'"
NOTE_COPY: Final = """
INSERT INTO shared_copies (namespace_id, memory_id, space_id, copy_id)
VALUES (%(namespace_id)s, %(memory_id)s, %(space_id)s, %(copy_id)s)
ON CONFLICT (namespace_id, memory_id, space_id) DO UPDATE SET copy_id = excluded.copy_id, at = excluded.at
"""
# Uses shared_copies_pkey.
COPIES: Final = """
SELECT memory_id, copy_id FROM shared_copies
WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s) AND space_id = %(space_id)s
"""
FORGET_COPY: Final = """
DELETE FROM shared_copies
WHERE namespace_id = %(namespace_id)s AND memory_id = ANY(%(ids)s) AND space_id = %(space_id)s
"""
# Whether nobody but its author has had a hand in a copy. Uses memory_history_pkey.
OTHERS_CHANGED: Final = """
SELECT 1 FROM memory_history
WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s AND person_id IS DISTINCT FROM %(person_id)s LIMIT 1
"""


class Shared(Answer):
    """Answer of share_memories."""

    message: str
    results: list[Shown]


class SpacesListed(Answer):
    """Answer of list_spaces."""

    spaces: list[Shown]
    person: str


@dataclass(frozen=True, slots=True)
class SharePlan:
    """What would be shared, as it stands now, and who would see it."""

    rows: Sequence[Row]
    space: Space
    people: Sequence[Member]

    @property
    def kept(self) -> dict[str, Any]:
        """What a yes is valid for."""
        return {
            "space": self.space.id,
            "people": sorted(one.id for one in self.people),
            "versions": row_versions(self.rows),
        }

    @property
    def question(self) -> str:
        """The exact texts, and who will see them."""
        names = ", ".join(one.shown for one in self.people)
        lines = [f"Share with {self.space.shown!r}? {len(self.people)} people will see it: {names}."]
        for row in self.rows:
            lines.append(f"- {one_line(row['content'])}{_beside(row)}")
            if topics := personal_topics(row["content"]):
                lines.append(f"  This looks personal ({', '.join(topics)}).")
        return "\n".join(lines)


def _beside(row: Row) -> str:
    """Return what of a memory is shared besides its text, as it is shown."""
    parts = [f"{name} {value}" for name, value in _copy_of(row).items() if name != "content" and value]
    return f" [{'; '.join(parts)}]" if parts else ""


def _copy_of(row: Row) -> dict[str, Any]:
    made = {name: row[name] for name in COPIED if row[name] not in (None, [], "")}
    detail = {name: value for name, value in (row["detail"] or {}).items() if name in COPIED_OF_DETAIL and value}
    return made | ({"metadata": detail} if detail else {})


class Sharing:
    """The tools of whoever is in a space.

    Args:
        spaces: that the client may use.
    """

    def __init__(self, spaces: Spaces) -> None:
        self.spaces = spaces
        self.core = spaces.home

    @tool(READS, title="List shared spaces")
    async def list_spaces(self) -> SpacesListed:
        """List the spaces that the user shares with others, who is in each, and what may be done there.

        Use to find the name for `space`, or who will see what is shared.
        """
        person = await self.spaces.person()
        shown = []
        for one in await self.spaces.listed():
            people = await membership.current_members(self.core.store, one.id)
            shown.append({"name": one.shown, "may": one.role.name.lower(), "people": [m.shown for m in people]})
        return SpacesListed(spaces=shown, person=person.name)

    @tool(ADDS, title="Share memories")
    async def share_memories(
        self,
        ids: Annotated[
            list[f.BareId], f.AnyOf, Field(min_length=1, max_length=MOST, description="Of the user's own memories.")
        ],
        space: Annotated[str, Field(min_length=1, max_length=128, description="From list_spaces.")],
        withdraw: Annotated[bool, Field(description="Take back what was shared.")] = False,
    ) -> Shared:
        """Copy memories of the user into a shared space, or take such copies back.

        Use only when the user asks to share. The user is shown the exact texts and who will see them, and must agree.
        To store something new for all: create_memory with space. Errors: NOT_FOUND, CONFIRM_REQUIRED, NOT_ALLOWED.
        """
        chosen = await self.spaces.named(space)
        if withdraw:
            return await withdrawn(self.spaces, ids, chosen)
        made = await confirming.agreed_by_person(
            self.core.store,
            ACTION,
            plan=lambda tx: planned(self.spaces, tx, ids, chosen),
            elsewhere=BY_COMMAND.format(" ".join(ids), chosen.name),
        )
        return await shared(self.spaces, made)


async def planned(spaces: Spaces, tx: Transaction, ids: Sequence[str], space: Space) -> SharePlan:
    """Return what sharing would do now.

    Raises:
        NotAllowed: the person may only read the space.
        NotFound: one is not a memory of theirs.
        SecretRejected: one holds a secret.
    """
    membership.refuse_reader(space.role)
    there = await memories.resolve_ids(tx, ids)
    there.refuse_problems()
    found = await memories.read_memories(tx, there.ids, tx.model_id)
    rows = [found[id_] for id_ in there.ids]
    for row in rows:
        if row["status"] != "active":
            raise InvalidInput(f"Memory {row['id']} is {row['status']}.", "Share only what holds.")
        without_secrets_in(_write_request(row), redact=False)
    return SharePlan(rows, space, await membership.current_members(spaces.home.store, space.id))


def _write_request(row: Row) -> NewMemory:
    return NewMemory.model_validate(_copy_of(row))


async def shared(spaces: Spaces, made: SharePlan) -> Shared:
    """Copy what was agreed to into the space, all or nothing."""
    async with spaces.manager(made.space) as manager:
        drafts = [await manager.draft(_write_request(row), place) for place, row in enumerate(made.rows, 1)]
        written = await manager.store_drafts(drafts)
    results: list[Shown] = []
    async with spaces.home.store.transaction() as tx:
        for row, result in zip(made.rows, written, strict=True):
            if result.created:
                copy = {"memory_id": row["id"], "space_id": made.space.id, "copy_id": result.id}
                await tx.run(NOTE_COPY, copy)
            results.append({"id": str(row["id"]), "copy_id": str(result.id), "created": result.created})
    new = sum(bool(result["created"]) for result in results)
    known = f", {len(results) - new} were there already" if new < len(results) else ""
    return Shared(message=f"{new} shared with {made.space.shown}{known}. Your own stay as they are.", results=results)


async def withdrawn(spaces: Spaces, ids: Sequence[str], space: Space) -> Shared:
    """Erase copies that nobody else has changed; the others stay, and the author is told."""
    home, person = spaces.home, await spaces.person()
    async with home.store.transaction() as tx:
        there = await memories.resolve_ids(tx, ids)
        there.refuse_problems()
        copies = {row["memory_id"]: row["copy_id"] for row in await tx.rows(COPIES, _in(space, there.ids))}
    if not copies:
        raise InvalidInput(f"None of these was shared with {space.shown!r}.", "list_spaces shows the spaces.")
    back, kept = list[UUID](), list[UUID]()
    async with spaces.manager(space) as manager:
        for id_, copy_id in copies.items():
            erased = await _erase_copy(manager, person, copy_id)
            (back if erased else kept).append(id_)
    async with home.store.transaction() as tx:
        await tx.run(FORGET_COPY, _in(space, back))
    message = [f"{len(back)} taken back."] if back else []
    message += [f"{len(kept)} stay, as others have changed them since: {', '.join(map(str, kept))}."] if kept else []
    results = [{"id": str(id_), "withdrawn": id_ in back} for id_ in copies]
    return Shared(message=" ".join(message), results=results)


async def _erase_copy(manager: MemoryManager, person: Person, copy_id: UUID) -> bool:
    """Erase a copy with its history unless somebody else has changed it; whether it is gone."""
    async with manager.store.transaction() as tx:
        await tx.rows(s.LOCK, {"ids": [copy_id]})
        if await tx.row(OTHERS_CHANGED, {"id": copy_id, "person_id": person.id}) is not None:
            return False
        await manager.erase_within(tx, [str(copy_id)], trace=False)
    return True


def _in(space: Space, ids: Sequence[UUID]) -> Mapping[str, Any]:
    return {"space_id": space.id, "ids": list(ids)}


def personal_topics(text: str) -> list[str]:
    """Return what of health, family and money a text seems to be about, in any language whose words are known."""
    said = {word.casefold() for word in words(text)}
    return [
        topic
        for topic in TOPICS
        if any(_has_any_word_of(said, getattr(one, topic).split()) for one in languages().values())
    ]


def _has_any_word_of(said: set[str], beginnings: list[str]) -> bool:
    begins = tuple(beginnings)
    return bool(begins) and any(word.startswith(begins) for word in said)
