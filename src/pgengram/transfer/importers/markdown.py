"""Markdown: a folder of notes (Obsidian, basic-memory, or our own export), a zip of one, or a single file.

CLAUDE.md, MEMORY.md and AGENTS.md hold many facts, so each of their items and paragraphs is a memory.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pgengram import fields as f
from pgengram.errors import InvalidInput
from pgengram.text.notes import Note, named
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


@dataclass(frozen=True, slots=True)
class Document:
    """One file: where it is below the folder, and its bytes, or why it has none."""

    path: PurePosixPath
    content: bytes | None
    reason: str = ""


def read(source: str) -> Read:
    """Read each note as a memory, and the links between notes as relationships."""
    notes: list[tuple[str, str, Note]] = []
    ids: dict[str, str] = {}
    for document in _documents(Path(source)):
        place = str(document.path)
        if document.content is None:
            yield Left(place, document.reason)
            continue
        note = Note.parsed(_decoded(document.content))
        stem = document.path.stem
        if stem.lower() in OF_MANY_FACTS:
            yield from _facts(place, note)
            continue
        if not note.body:
            yield Left(place, "it is empty")
            continue
        record = _record(place, stem, note)
        ids |= dict.fromkeys((*named(note.fields, stem), place.lower().removesuffix(".md")), record["id"])
        notes.append((place, record["id"], note))
        yield Item(place, record, edits=uuid_of(note.fields.get("id")) is not None)
    for place, id_, note in notes:
        for type_, name in note.links:
            target = ids.get(name.lower().removesuffix(".md"))
            if target is None:
                yield Left(f"{place}: [[{name}]]", "there is no note of this name")
            elif target != id_:
                yield Item(f"{place}: [[{name}]]", edge(id_, target, type_))


def _record(place: str, stem: str, note: Note) -> dict[str, Any]:
    title = str(note.fields.get("title") or stem)
    own = uuid_of(note.fields.get("id"))
    told = {name: note.fields[name] for name in OURS if name in note.fields}
    kept = {name: value for name, value in note.fields.items() if name not in KNOWN}
    times = {name: _first(note, names) for name, names in TIMES.items()}
    body = note.body
    if own is None and title.lower() not in body.lower()[: 2 * len(title) + 20]:
        body = f"# {title}\n\n{body}"  # what a note is about, its name often says alone
    if (type_ := told.get("type")) not in f.TYPES:
        told.pop("type", None)
        kept |= {"note_type": type_} if type_ and kind(type_) is None else {}
        told |= {"kind": type_} if type_ and "kind" not in told else {}
    if own is None:
        kept = {"title": title} | kept
    if own is not None and isinstance(note.fields.get("metadata"), dict):
        kept |= note.fields["metadata"]
    key = str(own or note.fields.get("permalink") or place)
    record = memory(SYSTEM, key, body, tags=note.fields.get("tags"), metadata=kept, **told, **times)
    if own is None:
        return record
    return {**record, "id": str(own), "metadata": kept}


def _first(note: Note, names: tuple[str, ...]) -> Any:
    return next((found for name in names if (found := moment(note.fields.get(name)))), None)


def _facts(place: str, note: Note) -> Iterator[Item]:
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
            record = memory(SYSTEM, f"{place}\0{text}", said, tags=words(note.fields.get("tags")), source=place)
            record["metadata"]["imported"]["id"] = place
            yield Item(f"{place}, part {number}", record)


def _documents(source: Path) -> Iterator[Document]:
    if source.is_dir():
        yield from _of_folder(source)
    elif source.is_file() and zipfile.is_zipfile(source):
        yield from _of_zip(source)
    elif source.is_file():
        yield Document(PurePosixPath(source.name), *_bounded(source.read_bytes(), source.stat().st_size))
    else:
        raise InvalidInput(
            f"There is no folder or file {source}.", "Give the folder of the notes, a zip of it, or a file."
        )


def _of_folder(folder: Path) -> Iterator[Document]:
    root = folder.resolve()
    for path in sorted(folder.rglob("*.md")):
        below = PurePosixPath(path.relative_to(folder).as_posix())
        if any(part.startswith(".") for part in below.parts):
            continue
        if not path.resolve().is_relative_to(root):
            yield Document(below, None, "it leads out of the folder")
        elif path.is_file():
            size = path.stat().st_size
            yield Document(below, *_bounded(path.read_bytes() if size <= MOST_BYTES else b"", size))


def _of_zip(path: Path) -> Iterator[Document]:
    with zipfile.ZipFile(path) as archive:
        for entry in sorted(archive.infolist(), key=lambda one: one.filename):
            below = PurePosixPath(entry.filename)
            if below.suffix != ".md" or any(part.startswith(".") and part != ".." for part in below.parts):
                continue
            if below.is_absolute() or ".." in below.parts:
                yield Document(below, None, "it leads out of the folder")
                continue
            with archive.open(entry) as opened:  # what an entry says of its size may be a lie
                content = opened.read(MOST_BYTES + 1)
            yield Document(below, *_bounded(content, len(content)))


def _bounded(content: bytes, size: int) -> tuple[bytes | None, str]:
    return (None, f"it is larger than {MOST_BYTES:,} bytes") if size > MOST_BYTES else (content, "")


def _decoded(content: bytes) -> str:
    """Return a text from UTF-8 or UTF-16, else from Windows' Western encoding."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")
