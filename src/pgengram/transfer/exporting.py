"""Everything a namespace has, as lines of JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

from pgengram.errors import InvalidInput
from pgengram.service.core import Core
from pgengram.store.reading import transferring
from pgengram.text.notes import Note, slug
from pgengram.transfer.records import uuid_of
from pgengram.transfer.report import LIST, parsed_list, write_list

FORMAT: Final = 1
Report = Callable[[int, int], None]  # memories done, memories in all


async def export_to(file: TextIO, core: Core, report: Report, *, mine: bool = False) -> dict[str, int]:
    """Write everything of the namespace as it is at this moment; return how many lines of each kind of record.

    The first line says what this is; each other line is one record. Memories come first, oldest first, in all statuses,
    each with its tags, detail, uses and history; then what leads from one to another. Vectors and words are left out:
    they are made again from the texts.

    Args:
        file: where it is written.
        core: whose memories.
        report: is told how far it is.
        mine: in a space, only the memories that whoever asks has stored.
    """
    counts: dict[str, int] = {}
    async with core.store.snapshot() as tx:
        author = tx.member.person_id if mine and tx.member else None
        total = await transferring.begin_reading(tx)
        header = {
            "record": "export",
            "format": FORMAT,
            "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "namespace": core.settings.namespace,
            "memories": total,
        }
        file.write(json.dumps(header) + "\n")
        report(0, total)
        async for lines in transferring.memory_pages(tx, author=author):
            _write_lines(file, "memory", lines, counts)
            report(counts["memory"], total)
        for table in () if mine else transferring.TABLES:
            async for lines in transferring.row_pages(tx, table):
                _write_lines(file, table.record, lines, counts)
    return counts


def _write_lines(file: TextIO, record: str, lines: list[str], counts: dict[str, int]) -> None:
    file.writelines(line + "\n" for line in lines)
    counts[record] = counts.get(record, 0) + len(lines)


HEADINGS: Final = {  # in the order in which they are pasted
    "How to work with me": ("preference",),
    "People and facts": ("person", "fact", "general", "connection"),
    "Projects, goals and decisions": ("project", "goal", "decision"),
    "How things are done, and what was learnt": ("process", "learning", "error", "insight", "pattern"),
    "What happened": ("observation",),
}


@dataclass(frozen=True, slots=True)
class Taker:
    """An assistant that takes memories as a text: what stands above them, and where the text is to be pasted."""

    opening: str
    then: str


# To add one: a line here.
TAKERS: Final = {
    "claude": Taker(
        "These are memories about me from another assistant.",
        "Paste it at claude.com/import-memory, or in Claude's settings under its memory.",
    ),
    "chatgpt": Taker(
        "Please remember the following about me. Ask me before you leave anything out.",
        "ChatGPT has no page for it: paste it into a new chat, and see under Settings → Personalization what it kept.",
    ),
    "gemini": Taker(
        "These are memories about me from another assistant.", "Paste it where Gemini's settings import memories."
    ),
}


async def export_text(file: TextIO, core: Core, taker: Taker) -> int:
    """Write what holds now as a text: under a few headings one line `[day] - text` a memory; return how many.

    Forgotten, archived and expired memories are left out. The form of a line is the one that Claude's own prompt for
    moving memories asks for.
    """
    async with core.store.snapshot() as tx:
        rows = await transferring.current(tx)
    file.write(f"{taker.opening}\n")
    for heading, kinds in HEADINGS.items():
        chosen = [row for row in rows if row["kind"] in kinds]
        if chosen:
            file.write(f"\n## {heading}\n\n")
        for row in chosen:
            about = f"{row['project']}: " if row["project"] else ""
            text = row["content"].replace("\n", "\n  ")
            file.write(f"[{row['at']:%Y-%m-%d}] - {about}{text}\n")
    return len(rows)


# In this order, where a memory has them.
FIELDS: Final = (
    "type", "kind", "status", "tags", "project", "user", "collection", "source", "speaker", "emotion", "pinned",
    "confidence", "occurred_at", "expires_at", "reason", "valid_to", "created_at", "updated_at",
    "metadata",
)  # fmt: skip
DIGITS: Final = 8  # of an id, at the end of a file's name


async def export_notes(folder: Path, core: Core, report: Report) -> dict[str, int]:
    """Write every memory that is not only held for a task into `folder`; return how many files were written, left as
    they were, and are of memories that are not there.

    A memory keeps its file, whatever its text becomes. No file is removed, and those that are not notes of ours are
    left alone.

    Raises:
        InvalidInput: the folder is a file.
    """
    records, links = await _records_and_links(core, report)
    return await asyncio.to_thread(_write_notes, folder, records, links)


def _write_notes(
    folder: Path, records: Mapping[str, dict[str, Any]], links: Mapping[str, list[tuple[str, str]]]
) -> dict[str, int]:
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file.", "Give a folder for the notes.")
    folder.mkdir(parents=True, exist_ok=True)
    there, listed = _notes_there(folder), _listed_notes(folder)
    # A note that its reader deleted since does not come back once its memory is forgotten.
    paths = {
        id_: there.get(id_) or folder / _file_name(record)
        for id_, record in records.items()
        if id_ in there or id_ not in listed or record["status"] != "invalidated"
    }
    names = {id_: path.stem for id_, path in paths.items()}
    written = sum(_update(path, _note_of(records[id_], _leads(links, id_, names))) for id_, path in paths.items())
    kept = {id_: place for id_, place in listed.items() if id_ in records or (folder / place).exists()}
    write_list(folder, kept | {id_: path.relative_to(folder).as_posix() for id_, path in paths.items()})
    return {
        "written": written,
        "unchanged": len(paths) - written,
        "without a memory": len(there.keys() - records.keys()),
    }


def _leads(links: Mapping[str, list[tuple[str, str]]], id_: str, names: Mapping[str, str]) -> list[str]:
    """Return where a memory's links lead, of those that have a note."""
    return sorted(f"{type_} [[{names[to]}]]" for type_, to in links.get(id_, ()) if to in names)


def _update(path: Path, note: Note) -> bool:
    """Write a note unless its file says the same already; whether it was written."""
    text = note.rendered().encode()
    if path.exists() and path.read_bytes() == text:
        return False
    path.write_bytes(text)
    return True


async def _records_and_links(
    core: Core, report: Report
) -> tuple[dict[str, dict[str, Any]], dict[str, list[tuple[str, str]]]]:
    """Return memories by their ids, and where each leads."""
    records: dict[str, dict[str, Any]] = {}
    links: dict[str, list[tuple[str, str]]] = {}
    async with core.store.snapshot() as tx:
        total = await transferring.begin_reading(tx)
        async for lines in transferring.memory_pages(tx):
            read = map(json.loads, lines)
            records |= {record["id"]: record for record in read if record["status"] != "working"}
            report(len(records), total)
        [table] = [table for table in transferring.TABLES if table.record == "relationship"]
        async for lines in transferring.row_pages(tx, table):
            for row in map(json.loads, lines):
                links.setdefault(row["from_id"], []).append((row["type"].replace("_", " "), row["to_id"]))
    return records, links


def _notes_there(folder: Path) -> dict[str, Path]:
    """Return the notes that an earlier export wrote, by the ids of their memories: also those that were renamed or
    moved within the folder, but not a copy of one that is still called as the export called it.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.md")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts) or not path.is_file():
            continue
        id_ = str(uuid_of(Note.parsed(path.read_bytes().decode("utf-8", "replace")).fields.get("id")))
        if id_ not in found or (_named_by_us(path, id_) and not _named_by_us(found[id_], id_)):
            found[id_] = path
    found.pop("None", None)
    return found


def _named_by_us(path: Path, id_: str) -> bool:
    return id_.replace("-", "").endswith(path.stem[-DIGITS:])


def _listed_notes(folder: Path) -> dict[str, str]:
    """Return the notes of the list that an earlier export left."""
    path = folder / LIST
    return (parsed_list(path.read_bytes()) if path.is_file() else None) or {}


def _file_name(record: Mapping[str, Any]) -> str:
    return f"{record['created_at'][:10]}-{slug(record['content'])}-{record['id'].replace('-', '')[-DIGITS:]}.md"


def _note_of(record: Mapping[str, Any], links: list[str]) -> Note:
    shown = {name: record[name] for name in FIELDS if record.get(name) not in (None, [], {}, False, "active")}
    fields = {"id": record["id"], **shown, "importance": record["activation"]["importance"]}
    return Note(fields | ({"links": links} if links else {}), record["content"])
