"""Markdown: a folder of notes (Obsidian, basic-memory, or our own export), a zip of one, or a single file.

CLAUDE.md, MEMORY.md and AGENTS.md hold many facts, so each of their items and paragraphs is a memory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

from pgengram import fields as f
from pgengram.errors import PgengramError
from pgengram.inputs import NewMemory
from pgengram.service.calls.arguments import reader
from pgengram.text.markdown import markdown_blocks
from pgengram.text.notes import Note, named
from pgengram.transfer.arrivals import MOMENTS
from pgengram.transfer.input.reading import files_of
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.records import Item, Left, Read, edge, known_kind, memory, moment, tag_words, uuid_of

SYSTEM = "markdown"
MOST_BYTES: Final = 1_000_000  # of one note
OF_MANY_FACTS: Final = frozenset({"claude", "memory", "agents"})
OURS: Final = (
    "type", "kind", "importance", "confidence", "pinned", "status", "user", "project", "collection", "source",
    "speaker", "occurred_at", "expires_at", "last_confirmed_at", "emotion", "reason", "valid_to",
)  # fmt: skip
TIMES: Final = {
    "created_at": ("created_at", "created", "date created", "date", "creation-date"),
    "updated_at": ("updated_at", "updated", "date modified", "modified", "last-modified"),
}  # fmt: skip
KNOWN: Final = {*OURS, "id", "tags", "tag", "links", "metadata", *(name for names in TIMES.values() for name in names)}
NO_NOTE: Final = "there is no note with this name"
ATTACHED: Final = "it leads to a file that is not a note"
_OF_A_DAY: Final = re.compile(r"(\d{4})[-_](\d\d)[-_](\d\d)\b")
_ATTACHMENT: Final = re.compile(r".+\.(?!md$)[a-z][a-z0-9]{1,4}", re.IGNORECASE)


def read(source: Source) -> Read:
    """Read each note as a memory, and the links between notes as relationships."""
    leads: list[tuple[str, str, list[tuple[str, str]], set[str]]] = []  # no texts, as there may be many notes
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
        record = _note_record(source.folder, file, note)
        for name in (*named(note.fields, stem), *_paths(file)):
            ids.setdefault(name, record["id"])
        is_ours = uuid_of(note.fields.get("id")) is not None
        if links := note.links:
            in_text = {name for _, name in links} - {name for _, name in Note(note.fields).links} if is_ours else set()
            leads.append((place, record["id"], links, in_text))
        told = is_ours or _first_field(note, TIMES["updated_at"]) is not None
        yield Item(place, record, edits=is_ours, by_file_time=not told, by_place=_is_by_place(note))
    for place, id_, links, in_text in leads:
        yield from _links(place, id_, links, ids, in_text)


def _links(
    place: str, id_: str, links: list[tuple[str, str]], ids: Mapping[str, str], in_text: Collection[str]
) -> Read:
    """Yield where a note leads; what the text of one of our memories says in double brackets need not be a note."""
    for type_, name in links:
        target = _linked_note(name.lower().removesuffix(".md").strip("/"), ids)
        where = f"{place}: [[{name}]]"
        if target is None:
            attached = _ATTACHMENT.fullmatch(name) is not None
            yield Left(where, ATTACHED if attached else NO_NOTE, by_design=attached or name in in_text)
        elif target != id_:
            yield Item(where, edge(id_, target, type_), last=True)


def _linked_note(name: str, ids: Mapping[str, str]) -> str | None:
    """Return the memory of the note that a link names, by its path too; one that climbs names it by its end."""
    parts = [part for part in name.split("/") if part not in (".", "..")]
    ends = range(len(parts)) if len(parts) < len(name.split("/")) else range(1)
    return next((ids[end] for begin in ends if (end := "/".join(parts[begin:])) in ids), ids.get(name))


def _paths(file: File) -> Iterator[str]:
    """Yield the paths by which a link may name a note: the whole one, and each end of it."""
    parts = file.path.with_suffix("").parts
    for begin in range(len(parts)):
        yield "/".join(parts[begin:]).lower()


def _notes(source: Source) -> Iterator[tuple[File, Note | Left]]:
    for file in files_of(source, "*.md", "*.markdown"):
        if isinstance(file, Left):
            yield File(PurePosixPath(file.place), 0), file
        else:
            yield file, document(source, file)


def _note_record(folder: str, file: File, note: Note) -> dict[str, Any]:
    title = str(note.fields.get("title") or file.path.stem)
    own = uuid_of(note.fields.get("id"))
    kept = {name: value for name, value in note.fields.items() if name not in KNOWN}
    known = _memory_fields(note, kept)
    if own is None:
        others = {name: known.pop(name) for name in OURS if name in known and not _is_ours(name, known[name])}
        kept |= {name: note.fields.get(name, value) for name, value in others.items()}
        place = str(note.fields.get("permalink") or file.place)
        known["tags"] = note.tags
        made = memory(SYSTEM, f"{folder}/{place}", _titled(note.body, title), metadata={"title": title} | kept, **known)
        made["metadata"]["imported"]["id"] = place
        return _with_file_times(made, file)
    metadata = note.fields.get("metadata")
    kept |= metadata if isinstance(metadata, dict) else {}
    made = memory(SYSTEM, str(own), note.body, metadata=kept, **known)
    return {**made, "id": str(own), "metadata": kept, "status": note.fields.get("status") or "active"}


def _is_by_place(note: Note) -> bool:
    """Whether nothing but its place tells a note from others."""
    return uuid_of(note.fields.get("id")) is None and _first_field(note, TIMES["created_at"]) is None


def _is_ours(name: str, value: Any) -> bool:
    """Whether a field of another program's note means what a memory's does: `status: done` does not."""
    if name == "status":
        return value in f.STATUSES and value != "working"
    if name == "kind":
        return known_kind(value) is not None
    if name in MOMENTS:
        return moment(value) is not None
    if name not in NewMemory.model_fields:
        return isinstance(value, str)
    try:
        reader(NewMemory).read({"content": "-", name: value})
    except PgengramError:
        return False
    return True


def _with_file_times(made: dict[str, Any], file: File) -> dict[str, Any]:
    """Return a memory with the times that its note does not tell: that of the file's name, or of its last change, and
    which of both; it keeps its id, whenever the file is copied.
    """
    modified = file.modified if file.modified and file.modified <= datetime.now(UTC) else None
    changed = {"updated_at": f.as_utc(modified)} if modified else {}
    if "created_at" in made:
        return {**changed, **made}
    day = _OF_A_DAY.match(file.path.stem)
    at = moment("-".join(day.groups())) if day else None
    at, by = (at, "file name") if at else (modified, "file time")
    if at is None or at > datetime.now(UTC):
        return made
    metadata = {**made["metadata"], "imported": {**made["metadata"]["imported"], "dated_by": by}}
    return {**changed, **made, "created_at": f.as_utc(at), "metadata": metadata}


def _titled(body: str, title: str) -> str:
    """Return a text with its title, which often says alone what it is about."""
    return body if title.lower() in body.lower()[: 2 * len(title) + 20] else f"# {title}\n\n{body}"


def _memory_fields(note: Note, kept: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a memory has here; a type that is none here is a kind, or is kept as `note_type`."""
    known: dict[str, Any] = {name: note.fields[name] for name in OURS if name in note.fields}
    known |= {name: _first_field(note, names) for name, names in TIMES.items()}
    type_ = known.get("type")
    if type_ not in f.TYPES:
        known.pop("type", None)
        kept |= {"note_type": type_} if type_ and known_kind(type_) is None else {}
        known |= {"kind": type_} if type_ and "kind" not in known else {}
    return known | {"tags": note.fields.get("tags")}


def _first_field(note: Note, names: tuple[str, ...]) -> Any:
    return next((found for name in names if (found := moment(note.fields.get(name)))), None)


def facts(system: str, place: str, note: Note) -> Iterator[Item | Left]:
    """Yield each block and each item of a list with the heading above it; code and tables are whole."""
    for number, block in enumerate(markdown_blocks(note.body), 1):
        where = f"{place}, part {number}"
        if block.is_unseen:
            yield Left(where, "it is a comment or markup without text", by_design=True)
        elif text := block.text.strip():
            said = f"{block.heading}: {text}" if block.heading else text
            record = memory(system, f"{place}\0{text}", said, tags=tag_words(note.fields.get("tags")), source=place)
            record["metadata"]["imported"]["id"] = place
            yield Item(where, record)


def document(source: Source, file: File) -> Note | Left:
    """Return a file as a note, or why it is none."""
    try:
        return Note.parsed(_decoded(source.content(file, MOST_BYTES)))
    except ValueError as error:
        return Left(file.place, str(error))


def _decoded(content: bytes) -> str:
    """Return a text from UTF-8, else from Windows' Western encoding."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")
