"""Markdown: a folder of notes (Obsidian, basic-memory, or our own export), a zip of one, or a single file.

CLAUDE.md, MEMORY.md and AGENTS.md hold many facts, so each of their items and paragraphs is a memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from pgengram import fields as f
from pgengram.text.notes import Note, named
from pgengram.transfer.input.reading import files_of
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.records import Item, Left, Read, edge, kind, memory, moment, uuid_of, words

SYSTEM = "markdown"
MOST_BYTES: Final = 1_000_000  # of one note
OF_MANY_FACTS: Final = frozenset({"claude", "memory", "agents"})
OURS: Final = (
    "type", "kind", "importance", "confidence", "pinned", "status", "user", "project", "collection", "source",
    "speaker", "occurred_at", "expires_at", "last_confirmed_at", "emotion", "reason", "valid_to",
)  # fmt: skip
TIMES: Final = {"created_at": ("created_at", "created", "date"), "updated_at": ("updated_at", "updated", "modified")}
KNOWN: Final = {*OURS, "id", "tags", "links", "metadata", *(name for names in TIMES.values() for name in names)}
_PARAGRAPH: Final = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)")


def read(source: Source) -> Read:
    """Read each note as a memory, and the links between notes as relationships."""
    leads: list[tuple[str, str, list[tuple[str, str]]]] = []  # no texts, as there may be many notes
    ids: dict[str, str] = {}
    for file, note in _notes(source):
        if isinstance(note, Left):
            yield note
            continue
        place, stem = file.place, file.path.stem
        if stem.lower() in OF_MANY_FACTS:
            yield from facts(SYSTEM, place, note)
            continue
        if not note.body:
            yield Left(place, "it is empty")
            continue
        record = _record(place, stem, note)
        ids |= dict.fromkeys((*named(note.fields, stem), place.lower().removesuffix(".md")), record["id"])
        if links := note.links:
            leads.append((place, record["id"], links))
        yield Item(place, record, edits=uuid_of(note.fields.get("id")) is not None)
    for place, id_, links in leads:
        for type_, name in links:
            target = ids.get(name.lower().removesuffix(".md"))
            if target is None:
                yield Left(f"{place}: [[{name}]]", "there is no note with this name")
            elif target != id_:
                yield Item(f"{place}: [[{name}]]", edge(id_, target, type_), last=True)


def _notes(source: Source) -> Iterator[tuple[File, Note | Left]]:
    for file in files_of(source, "*.md"):
        if isinstance(file, Left):
            yield File(PurePosixPath(file.place), 0), file
        else:
            yield file, document(source, file)


def _record(place: str, stem: str, note: Note) -> dict[str, Any]:
    title = str(note.fields.get("title") or stem)
    own = uuid_of(note.fields.get("id"))
    kept = {name: value for name, value in note.fields.items() if name not in KNOWN}
    known = _fields(note, kept)
    if own is None:
        key = str(note.fields.get("permalink") or place)
        return memory(SYSTEM, key, _titled(note.body, title), metadata={"title": title} | kept, **known)
    metadata = note.fields.get("metadata")
    kept |= metadata if isinstance(metadata, dict) else {}
    return {**memory(SYSTEM, str(own), note.body, metadata=kept, **known), "id": str(own), "metadata": kept}


def _titled(body: str, title: str) -> str:
    """Return a text with its title, which often says alone what it is about."""
    return body if title.lower() in body.lower()[: 2 * len(title) + 20] else f"# {title}\n\n{body}"


def _fields(note: Note, kept: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a memory has here; a type that is none here is a kind, or is kept as `note_type`."""
    known: dict[str, Any] = {name: note.fields[name] for name in OURS if name in note.fields}
    known |= {name: _first(note, names) for name, names in TIMES.items()}
    type_ = known.get("type")
    if type_ not in f.TYPES:
        known.pop("type", None)
        kept |= {"note_type": type_} if type_ and kind(type_) is None else {}
        known |= {"kind": type_} if type_ and "kind" not in known else {}
    return known | {"tags": note.fields.get("tags")}


def _first(note: Note, names: tuple[str, ...]) -> Any:
    return next((found for name in names if (found := moment(note.fields.get(name)))), None)


def facts(system: str, place: str, note: Note) -> Iterator[Item]:
    """Yield each item and paragraph with the heading above it."""
    heading = ""
    for number, part in enumerate(_PARAGRAPH.split(note.body), 1):
        text = part.strip()
        if text.startswith("#"):
            first, _, text = text.partition("\n")
            heading = first.lstrip("# ").strip()
        text = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", text).strip()
        if text:
            said = f"{heading}: {text}" if heading else text
            record = memory(system, f"{place}\0{text}", said, tags=words(note.fields.get("tags")), source=place)
            record["metadata"]["imported"]["id"] = place
            yield Item(f"{place}, part {number}", record)


def document(source: Source, file: File) -> Note | Left:
    """Return a file as a note, or why it is none."""
    if file.size > MOST_BYTES:
        return Left(file.place, f"it is larger than {MOST_BYTES:,} bytes")
    try:
        return Note.parsed(_decoded(b"".join(source.chunks(file))))
    except ValueError as error:
        return Left(file.place, f"it can't be read: {error}")


def _decoded(content: bytes) -> str:
    """Return a text from UTF-8, else from Windows' Western encoding."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")
