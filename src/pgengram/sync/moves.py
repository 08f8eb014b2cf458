"""Turns that made room for another in the same place, and are erased with what they were there.

A turn that is moved is a new entry in another document, which whoever erases the old one may not know. So the new
document names the dot that the turn had before, and one in which something is erased names the dots that it had. These
marks stand among the counts of a document, which only grow.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pgengram.sync.merging import Document, Dot, Entry

ERASED: Final = "erased:"
MOVED: Final = "moved:"


def erased_marks(texts: Iterable[Entry]) -> dict[str, list[float]]:
    """Return the marks of turns that are erased in their place."""
    return {ERASED + json.dumps(text.dot): [1.0] for text in texts}


def moved_mark(key: str, before: Dot, now: Dot) -> dict[str, list[float]]:
    """Return the mark of a turn that had this key and dot before, and has another now."""
    return {MOVED + json.dumps([key, *before, *now]): [1.0]}


def erased_there(marks: Mapping[str, Iterable[str]]) -> dict[str, set[Dot]]:
    """Return the dots of turns that were erased where they were before, by the keys that they have now, if they are not
    marked as erased there yet; given the marks of all turns by their keys.
    """
    gone, moved = set(), []
    for key, all_ in marks.items():
        for mark in all_:
            if mark.startswith(ERASED):
                writer, number = json.loads(mark.removeprefix(ERASED))
                gone.add((key, writer, number))
            elif mark.startswith(MOVED):
                before, writer, number, *now = json.loads(mark.removeprefix(MOVED))
                moved.append(((before, writer, number), (key, *now)))
    known = set(gone)
    while fresh := {now for before, now in moved if before in gone} - gone:
        gone |= fresh
    found: dict[str, set[Dot]] = {}
    for key, writer, number in gone - known:
        found.setdefault(key, set()).add((writer, number))
    return found


def without(document: Document, dots: Collection[Dot]) -> Document:
    """Return a document in which turns with these dots are erased."""
    kept = {name: tuple(one for one in all_ if one.dot not in dots) for name, all_ in document.entries.items()}
    entries = {name: all_ for name, all_ in kept.items() if all_}
    marks = {ERASED + json.dumps(dot): [1.0] for dot in dots}
    return Document(dict(document.seen), entries if "text" in entries else {}, document.counts | marks)
