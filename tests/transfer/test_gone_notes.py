"""Notes that were deleted from the folder of an export: asked about, never forgotten without a word."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import Result
from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from typer.testing import CliRunner

from helpers import Database, environment, examples
from machine import answered, has_terminals, pgengram, typed_in_a_terminal
from pgengram.cli.app import app
from pgengram.text.sameness import folded
from pgengram.transfer.report import LIST

WORDS = {"embedder": "none:"}
TEXTS = ["We chose Vitest.", "The bakery opens at nine.", "Ada moved to Graz."]


@pytest.fixture
def notes(database: Database, tmp_path: Path) -> Path:
    """A folder to which three memories were exported."""
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n".join(json.dumps({"content": text}) for text in TEXTS))
    pgengram("import", str(lines), database_url=database.url, **WORDS)
    exported(database, tmp_path / "notes")
    return tmp_path / "notes"


def exported(db: Database, folder: Path) -> None:
    pgengram("export", "--format", "markdown", str(folder), database_url=db.url, **WORDS)


def brought_in(db: Database, source: Path, *options: str, expect: int = 0) -> dict[str, Any]:
    words = ("import", "--from", "markdown", str(source), "--json", *options)
    return dict(answered(*words, expect=expect, database_url=db.url, **WORDS))


def note_of(folder: Path, word: str) -> Path:
    [path] = [path for path in folder.rglob("*.md") if word in path.read_text(encoding="utf-8")]
    return path


def statuses(db: Database) -> dict[str, str]:
    return {row["content"]: row["status"] for row in db.rows("SELECT content, status FROM memories")}


def test_without_a_terminal_a_deleted_note_is_only_told_with_the_line_that_forgets_its_memory(
    database: Database, notes: Path
) -> None:
    deleted = note_of(notes, "Vitest")
    deleted.unlink()

    told = brought_in(database, notes)
    said = pgengram("import", str(notes), database_url=database.url, **WORDS).stdout
    dry = brought_in(database, notes, "--dry-run", "--gone", "forget")

    assert [(one["place"], one["content"]) for one in told["gone"]] == [(deleted.name, "We chose Vitest.")]
    assert (told["forgotten"], dry["forgotten"]) == (0, 0)
    line = f"pgengram import --from markdown {notes} --gone forget"
    assert told["to_forget"] == line
    assert f"{deleted.name}: We chose Vitest." in said
    assert line in said
    assert set(statuses(database).values()) == {"active"}


def test_what_was_agreed_to_ahead_is_forgotten_or_kept(database: Database, notes: Path) -> None:
    note_of(notes, "Vitest").unlink()

    kept = brought_in(database, notes, "--gone", "keep")
    assert (len(kept["gone"]), kept["forgotten"]) == (1, 0)
    assert set(statuses(database).values()) == {"active"}

    forgotten = brought_in(database, notes, "--gone", "forget")
    assert forgotten["forgotten"] == 1
    assert [text for text, status in statuses(database).items() if status == "invalidated"] == ["We chose Vitest."]
    [last] = database.rows("SELECT actor, changes FROM memory_history WHERE operation = 'forget'")
    assert (last["actor"], last["changes"]["reason"][1]) == ("command line", "its note was deleted")

    assert brought_in(database, notes)["gone"] == []
    exported(database, notes)
    assert len(list(notes.glob("*.md"))) == 2, "the note of a forgotten memory must not come back"


@has_terminals
def test_in_a_terminal_the_texts_are_shown_and_only_a_yes_forgets(database: Database, notes: Path) -> None:
    note_of(notes, "Vitest").unlink()
    note_of(notes, "Graz").unlink()

    refused = typed_in_a_terminal("\n", "import", str(notes), database_url=database.url, **WORDS)
    assert set(statuses(database).values()) == {"active"}
    agreed = typed_in_a_terminal("y\n", "import", str(notes), database_url=database.url, **WORDS)

    for shown in (refused, agreed):
        assert "We chose Vitest." in shown
        assert "Forget 2 memories? [y/N]" in shown
    assert "They stay." in refused
    assert "Forgot 2 memories." in agreed
    assert [text for text, status in statuses(database).items() if status == "active"] == ["The bakery opens at nine."]


@has_terminals
def test_a_yes_is_for_the_texts_that_were_shown(database: Database, notes: Path) -> None:
    note_of(notes, "Vitest").unlink()
    [row] = database.rows("SELECT id FROM memories WHERE content = 'We chose Vitest.'")

    def change() -> None:
        pgengram("edit", str(row["id"]), "content=We chose Jest.", database_url=database.url, **WORDS)

    said = typed_in_a_terminal(
        "y\n", "import", str(notes), expect=1, meanwhile=change, database_url=database.url, **WORDS
    )

    assert "was changed" in said
    assert statuses(database)["We chose Jest."] == "active"


def test_a_note_that_was_moved_or_renamed_is_not_gone_and_keeps_its_new_place(database: Database, notes: Path) -> None:
    moved, renamed = note_of(notes, "Vitest"), note_of(notes, "Graz")
    (notes / "tools").mkdir()
    moved.rename(notes / "tools" / moved.name)
    (notes / "people").mkdir()
    renamed.rename(notes / "people" / "Ada.md")
    changed = (notes / "people" / "Ada.md").read_text(encoding="utf-8").replace("Graz", "Linz")
    (notes / "people" / "Ada.md").write_text(changed, encoding="utf-8")

    answer = brought_in(database, notes)
    exported(database, notes)

    assert (answer["gone"], answer["updated"], answer["added"].get("memory", 0)) == ([], {"memory": 1}, 0)
    assert sorted(path.relative_to(notes).as_posix() for path in notes.rglob("*.md")) == sorted(
        ["people/Ada.md", f"tools/{moved.name}", note_of(notes, "bakery").name]
    )
    assert brought_in(database, notes)["gone"] == []


def test_a_note_that_was_written_anew_or_cannot_be_taken_is_not_gone(database: Database, notes: Path) -> None:
    anew, emptied = note_of(notes, "Vitest"), note_of(notes, "Graz")
    anew.unlink()
    (notes / "tools.md").write_text("---\ntitle: We chose\n---\nWe chose Vitest.", encoding="utf-8")
    emptied.write_text("", encoding="utf-8")

    answer = brought_in(database, notes, "--gone", "forget", expect=1)

    assert [one["place"] for one in answer["left"]] == [emptied.name]
    assert (answer["gone"], set(statuses(database).values())) == ([], {"active"})


def test_only_the_folder_that_was_exported_to_tells_what_is_gone(
    database: Database, notes: Path, tmp_path: Path, blank: Database
) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "Shopping.md").write_text("Buy bread.", encoding="utf-8")
    exported(database, tmp_path / "second")
    note_of(notes, "Vitest").unlink()

    assert "gone" not in brought_in(database, vault, "--gone", "forget")
    assert brought_in(database, tmp_path / "second", "--gone", "forget")["gone"] == []
    assert "gone" not in brought_in(database, note_of(notes, "Graz"))
    assert brought_in(blank, notes, "--gone", "forget")["gone"] == [], "a memory that never was here"
    assert set(statuses(database).values()) == {"active"}


def test_a_list_that_is_broken_costs_nothing_and_is_told(database: Database, notes: Path) -> None:
    note_of(notes, "Vitest").unlink()
    (notes / LIST).write_text("<<<<<<< HEAD\n{}\n", encoding="utf-8")

    answer = brought_in(database, notes, "--gone", "forget", expect=1)

    assert answer["left"] == [{"place": LIST, "reason": "it can't be read, so deleted notes are not noticed"}]
    assert set(statuses(database).values()) == {"active"}


def test_a_zip_of_the_folder_tells_the_same(database: Database, notes: Path, tmp_path: Path) -> None:
    note_of(notes, "Vitest").unlink()
    packed = tmp_path / "notes.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for path in notes.iterdir():
            archive.write(path, f"notes/{path.name}")

    assert [one["content"] for one in brought_in(database, packed)["gone"]] == ["We chose Vitest."]


# -- a law -------------------------------------------------------------------------------------------------------------

PROSE = st.text(
    st.sampled_from("abcdef ABC äöß 漢字 😀\n\r\t\u2028\x85\x0b#-*[]:\"'|>`.,!?0123456789"), min_size=1, max_size=200
).filter(lambda text: text.strip())
MEMORIES = st.lists(
    st.fixed_dictionaries(
        {"content": PROSE},
        optional={
            "kind": st.sampled_from(["decision", "preference", "person", "error"]),
            "importance": st.sampled_from([0.0, 0.25, 0.7, 1.0]),
            "tags": st.lists(st.sampled_from(["js", "cooking", "work"]), unique=True),
            "project": st.sampled_from(["web", "garden shed"]),
            "user": st.sampled_from(["ada", "ben"]),
            "pinned": st.booleans(),
            "metadata": st.dictionaries(st.sampled_from(["why", "room"]), PROSE, max_size=2),
            "created_at": st.sampled_from(["2024-02-29T23:59:59Z", "2025-09-01T08:30:00+02:00"]),
        },
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda one: folded(one["content"]),  # no two are the same to the store, as "A" and "a" are
)


def typed(db: Database, namespace: str, *words: str) -> Result:
    settings = environment(database_url=db.url, namespace=namespace, **WORDS)
    return CliRunner().invoke(app, [*words], env=settings)


def kept(db: Database, namespace: str) -> list[str]:
    """Return the lines of an export, but for the first, which has the time."""
    return typed(db, namespace, "export", "-").stdout.rstrip("\n").split("\n")[1:]


@effort(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(memories=MEMORIES)
def test_exporting_to_notes_and_importing_them_changes_nothing(
    database: Database, tmp_path: Path, memories: list[dict[str, Any]]
) -> None:
    namespace = f"law-{uuid4().hex[:8]}"
    folder, lines = tmp_path / namespace, tmp_path / f"{namespace}.jsonl"
    lines.write_text("\n".join(map(json.dumps, memories)), encoding="utf-8")
    typed(database, namespace, "import", "--from", "jsonl", str(lines))
    before = kept(database, namespace)

    typed(database, namespace, "export", "--format", "markdown", str(folder))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    answer = json.loads(typed(database, namespace, "import", "--from", "markdown", str(folder), "--json").stdout)

    assert len(before) == len(memories)
    assert (answer["added"].get("memory", 0), answer["updated"], answer["gone"]) == (0, {}, [])
    assert kept(database, namespace) == before
    typed(database, namespace, "export", "--format", "markdown", str(folder))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    shutil.rmtree(folder)
