"""What is known of a person, a project or a topic, in an order that reads as a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pgengram.views import Shown

SUBJECTS: Final = {
    "project": "project",
    "tags": "topic",
    "name": "name",
}  # what an address may ask about, and how it is called
# In this order, with the kinds of each; what has no kind is told by its type.
SECTIONS: Final[dict[str, frozenset[str]]] = {
    "In short": frozenset({"person", "project", "fact", "general", "connection", "semantic"}),
    "Decisions": frozenset({"decision", "strategic"}),
    "Preferences": frozenset({"preference"}),
    "Goals": frozenset({"goal"}),
    "How it is done": frozenset({"process", "procedural"}),
    "What was learned": frozenset({"learning", "insight", "pattern", "error"}),
    "What happened": frozenset({"observation", "episodic"}),
}
MOST_CHANGED: Final = 5


def stated_at(one: Mapping[str, str]) -> str:
    """Return when something happened, or else was stored."""
    return one.get("occurred_at") or one["created_at"]


def sections(memories: Sequence[Shown]) -> dict[str, list[Shown]]:
    """Return memories by section, each what matters most first; what happened from the latest back."""
    found: dict[str, list[Shown]] = {}
    for title, kinds in SECTIONS.items():
        mine = [one for one in memories if (one.get("kind") or one["type"]) in kinds]
        newest = sorted(mine, key=stated_at, reverse=True)
        if mine:
            found[title] = newest if title == "What happened" else sorted(newest, key=lambda one: -one["importance"])
    return found


def changed_lately(memories: Sequence[Shown]) -> list[Shown]:
    """Return the memories that were changed last."""
    changed = [one for one in memories if one["version"] > 1 and one["updated_at"] > one["created_at"]]
    return sorted(changed, key=lambda one: one["updated_at"], reverse=True)[:MOST_CHANGED]
