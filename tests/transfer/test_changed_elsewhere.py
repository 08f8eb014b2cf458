"""What was changed in another system is the newer state of the memory that it was imported as."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from transcript_lines import at

from helpers import Database, diagonal
from pgengram.service.manager import MemoryManager
from pgengram.transfer.importing import import_from
from pgengram.transfer.report import Imported

OLD, NEW = "The bus to the mill leaves at 8:10.", "The bus to the mill leaves at 8:40."


def mem0(path: Path, text: str, changed: str | None) -> Path:
    row = {"id": "m1", "memory": text, "hash": "h", "user_id": "mara", "created_at": at(0), "updated_at": changed}
    path.write_text(json.dumps({"results": [row]}), encoding="utf-8")
    return path


def service(path: Path, text: str, changed: str | None) -> Path:
    row = {"content": text, "content_hash": "c1", "tags": ["bus"], "memory_type": "note", "metadata": {},
           "created_at_iso": at(0), "updated_at_iso": changed}  # fmt: skip
    path.write_text(json.dumps({"memories": [row], "export_metadata": {"total_memories": 1}}), encoding="utf-8")
    return path


def note(path: Path, text: str, changed: str | None) -> Path:
    folder = path.parent / path.stem / "vault"
    folder.mkdir(parents=True)
    dates = f"created: {at(0)}\n" + (f"modified: {changed}\n" if changed else "")
    (folder / "bus.md").write_text(f"---\n{dates}---\n{text}\n", encoding="utf-8")
    os.utime(folder / "bus.md", (1_780_000_000, 1_780_000_000))
    return folder


def bare_note(path: Path, text: str, changed: str | None) -> Path:
    folder = path.parent / path.stem / "vault"
    folder.mkdir(parents=True)
    (folder / "bus.md").write_text(f"{text}\n", encoding="utf-8")
    second = 1_780_000_000 + (len(changed) and int(changed[17:19]) if changed else 0)
    os.utime(folder / "bus.md", (second, second))
    return folder


SYSTEMS = {"mem0": mem0, "mcp-memory-service": service, "a note": note, "a note without dates": bare_note}


async def brought(manager: MemoryManager, path: Path) -> Imported:
    return await import_from(manager, "", str(path), dry_run=False, report=lambda *_: None)


def texts(database: Database) -> list[str]:
    return [row["content"].splitlines()[-1] for row in database.rows("SELECT content FROM memories ORDER BY content")]


@pytest.mark.parametrize(("system", "newer_first"), diagonal(SYSTEMS, [False, True]))
async def test_the_newer_state_of_a_memory_of_another_system_wins_in_either_order(
    manager: MemoryManager, database: Database, tmp_path: Path, system: str, *, newer_first: bool
) -> None:
    make: Any = SYSTEMS[system]
    files = [make(tmp_path / "1.json", OLD, at(1)), make(tmp_path / "2.json", NEW, at(9))]

    reports = [await brought(manager, path) for path in (files[::-1] if newer_first else files)]
    again = [await brought(manager, path) for path in files]

    assert texts(database) == [NEW]
    assert [report.added["memory"] for report in (*reports, *again)] == [1, 0, 0, 0]
    assert reports[1].updated["memory"] == (0 if newer_first else 1)


async def test_a_copy_of_a_note_is_no_newer_than_what_was_changed_here(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    vault = bare_note(tmp_path / "1.json", OLD, None)
    await brought(manager, vault)
    change(database)
    os.utime(vault / "bus.md")

    report = await brought(manager, vault)

    assert texts(database) == ["The bus is gone."]
    assert (report.added["memory"], report.updated["memory"]) == (0, 0)


def change(database: Database) -> None:
    """Change the only memory, some time ago."""
    database.rows(
        "INSERT INTO memory_history (namespace_id, memory_id, version, operation, changes) SELECT namespace_id, id, 2, 'update',"
        " jsonb_build_object('content', jsonb_build_array(content, 'The bus is gone.')) FROM memories"
    )
    database.rows(
        "UPDATE memories SET content = 'The bus is gone.', updated_at = now() - interval '1 hour', version = 2"
    )


async def test_what_was_changed_here_since_stays_and_what_no_time_orders_is_kept_twice(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    await brought(manager, mem0(tmp_path / "1.json", OLD, None))
    change(database)

    again = await brought(manager, mem0(tmp_path / "1.json", OLD, None))
    first = await brought(manager, mem0(tmp_path / "2.json", NEW, None))
    second = await brought(manager, mem0(tmp_path / "2.json", NEW, None))

    assert texts(database) == ["The bus is gone.", NEW]
    assert [report.added["memory"] for report in (again, first, second)] == [0, 1, 0]


def a_note(folder: Path, text: str, second: int) -> Path:
    folder.mkdir(parents=True)
    (folder / "README.md").write_text(text, encoding="utf-8")
    os.utime(folder / "README.md", (1_780_000_000 + second,) * 2)
    return folder


@pytest.mark.parametrize(
    ("folders", "newer_first", "alone"),
    diagonal([("boats", "cats"), ("1/docs", "2/docs")], [False, True], [True, False]),
)
async def test_notes_of_one_name_in_two_folders_are_two(
    manager: MemoryManager,
    database: Database,
    tmp_path: Path,
    folders: tuple[str, str],
    *,
    newer_first: bool,
    alone: bool,
) -> None:
    notes = [
        a_note(tmp_path / folders[0], "The boat is red.\n", 1),
        a_note(tmp_path / folders[1], "The cat is grey.\n", 9),
    ]

    for note_ in (notes[::-1] if newer_first else notes) * 2:
        await brought(manager, note_ / "README.md" if alone else note_)

    assert texts(database) == ["The boat is red.", "The cat is grey."]


@pytest.mark.parametrize("newer_first", [False, True])
async def test_rows_of_one_number_in_two_files_are_two(
    manager: MemoryManager, database: Database, tmp_path: Path, *, newer_first: bool
) -> None:
    (tmp_path / "1.csv").write_text("id,content,updated_at\n1,The boat is red.,2026-01-01\n")
    (tmp_path / "2.csv").write_text("id,content,updated_at\n1,The cat is grey.,2026-02-01\n")

    for name in ("21" if newer_first else "12") * 2:
        await brought(manager, tmp_path / f"{name}.csv")

    assert texts(database) == ["The boat is red.", "The cat is grey."]
