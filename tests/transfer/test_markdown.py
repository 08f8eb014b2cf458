"""Markdown both ways: folders of notes come in, memories go out as notes, and what is edited there comes back."""

from __future__ import annotations

import json
import os
import re
import tracemalloc
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from helpers import Database
from machine import answered, pgengram
from pgengram.text.notes import Note
from pgengram.transfer.importers.markdown import read
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import Item, Left

WORDS = {"embedder": "none:"}


def brought_in(db: Database, source: Path, *options: str, expect: int = 0) -> dict[str, Any]:
    answer = answered(
        "import", "--from", "markdown", str(source), "--json", *options, expect=expect, database_url=db.url, **WORDS
    )
    return dict(answer)


def written(folder: Path, **notes: str) -> Path:
    for name, text in notes.items():
        path = folder / f"{name.replace('__', '/').replace('_', ' ')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def stored(db: Database) -> dict[str, dict[str, Any]]:
    rows = db.rows(
        """SELECT m.*, a.importance, ARRAY(SELECT tag FROM memory_tags t WHERE t.memory_id = m.id ORDER BY position) AS tags
           FROM memories m JOIN memory_activation a ON a.memory_id = m.id ORDER BY m.content"""
    )
    return {row["content"]: row for row in rows}


def edges(db: Database) -> list[tuple[str, str, str]]:
    rows = db.rows(
        """SELECT left(a.content, 9) AS one, r.type, left(b.content, 9) AS other FROM memory_relationships r
           JOIN memories a ON a.id = r.from_id JOIN memories b ON b.id = r.to_id ORDER BY 1, 3"""
    )
    return [(row["one"], row["type"], row["other"]) for row in rows]


def test_a_vault_keeps_fields_dates_and_links_and_leaves_out_what_leads_nowhere(
    database: Database, tmp_path: Path
) -> None:
    vault = written(
        tmp_path / "vault",
        people__Ada="---\ntags: [Friend, null, ~, baker]\ncreated: 2025-09-01\ntype: person\nmood: calm\n---\n"
        "# Ada\nRuns the [[Corner Bakery|shop]].\n- employs [[Ben]]\n[[Nobody]]",
        Corner_Bakery="---\ntags:\n  - shop\naliases:\n  - The Bakery\n---\nOpens at nine.",
        Ben="Ben works at [[the bakery]].",
        Empty="---\ntags: [x1]\n---\n",
    )
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian" / "hidden.md").write_text("Settings.")

    dry = brought_in(database, vault, "--dry-run", expect=1)
    answer = brought_in(database, vault, expect=1)

    assert dry == {**answer, "dry_run": True}
    assert answer["added"] == {"memory": 3, "relationship": 3}
    assert {one["place"] for one in answer["left"]} == {"Empty.md", "people/Ada.md: [[Nobody]]"}
    ada = next(row for content, row in stored(database).items() if content.startswith("# Ada"))
    assert (ada["kind"], ada["tags"], ada["created_at"].date().isoformat()) == (
        "person",
        ["friend", "baker"],
        "2025-09-01",
    )
    assert ada["metadata"]["mood"] == "calm"
    assert "# Corner Bakery\n\nOpens at nine." in stored(database)
    assert ("# Ada\nRun", "employs", "Ben works") in edges(database)
    assert {(type_, other) for _, type_, other in edges(database)} >= {("links_to", "# Corner ")}
    again = brought_in(database, vault, expect=1)
    assert (again["added"].get("memory", 0), again["known"]["memory"]) == (0, 3)


def test_a_file_of_many_facts_becomes_a_memory_for_each(database: Database, tmp_path: Path) -> None:
    folder = written(
        tmp_path, CLAUDE="# Rules\n- Run the linter.\n- Use tabs,\n  never spaces.\n\n## Style\nWrite short lines.\n"
    )

    brought_in(database, folder / "CLAUDE.md")

    assert set(stored(database)) == {
        "Rules: Run the linter.", "Rules: Use tabs,\n  never spaces.", "Style: Write short lines.",
    }  # fmt: skip
    assert {row["source"] for row in stored(database).values()} == {"CLAUDE.md"}


def test_what_memories_become_as_notes_is_stable_and_comes_back_edited(database: Database, tmp_path: Path) -> None:
    lines = [
        {
            "content": "We chose Vitest.",
            "kind": "decision",
            "tags": ["js"],
            "project": "web",
            "metadata": {"why": "speed"},
        },
        {"content": "The build failed: --- is no rule.\n\nIt was [[Node 18]].", "kind": "error", "importance": 0.9},
    ]
    source = tmp_path / "lines.jsonl"
    source.write_text("\n".join(map(json.dumps, lines)))
    pgengram("import", str(source), database_url=database.url, **WORDS)
    notes = tmp_path / "notes"

    def exported() -> dict[str, str]:
        pgengram("export", "--format", "markdown", str(notes), database_url=database.url, **WORDS)
        return {path.name: path.read_text(encoding="utf-8") for path in notes.glob("*.md")}

    first = exported()
    assert exported() == first
    assert len(first) == 2
    untouched = brought_in(database, notes)  # Node 18 is no note, nor was it meant to be one
    assert (untouched["updated"], untouched["known"]["memory"]) == ({}, 2)
    assert exported() == first

    chosen = next(name for name in first if "vitest" in name)
    (notes / chosen).write_text(
        first[chosen].replace("We chose Vitest.", "We chose Jest.").replace('["js"]', '["js", "test"]')
    )
    (notes / "new.md").write_text("Something new.")
    changed = brought_in(database, notes)

    assert (changed["updated"], changed["added"]["memory"]) == ({"memory": 1}, 1)
    jest = stored(database)["We chose Jest."]
    assert (jest["tags"], jest["kind"], jest["metadata"]) == (["js", "test"], "decision", {"why": "speed"})
    after = exported()
    assert set(first) <= set(after)
    assert "We chose Jest." in after[chosen]

    undated = re.sub(r"(?m)^updated_at:.*\n", "", first[chosen])
    (notes / chosen).write_text(undated)
    conflict = brought_in(database, notes, expect=1)
    assert conflict["updated"] == {}
    [told] = [one["reason"] for one in conflict["left"] if one["place"] == chosen]
    assert "We chose Vitest." in told
    assert "We chose Jest." in told
    assert "We chose Jest." in stored(database)


def test_what_notes_say_may_change_places(database: Database, tmp_path: Path) -> None:
    texts = ["The key is under the mat.", "The key is with Ada.", "Nobody has the key."]
    source, notes = tmp_path / "lines.jsonl", tmp_path / "notes"
    source.write_text("\n".join(json.dumps({"content": text}) for text in texts))
    pgengram("import", str(source), database_url=database.url, **WORDS)
    pgengram("export", "--format", "markdown", str(notes), database_url=database.url, **WORDS)
    paths = {text: path for path in notes.glob("*.md") for text in texts if text in path.read_text(encoding="utf-8")}
    ids = {row["content"]: row["id"] for row in database.rows("SELECT id, content FROM memories")}
    turned = dict(zip(texts, [*texts[1:], texts[0]], strict=True))
    for text, path in paths.items():
        path.write_text(path.read_text(encoding="utf-8").replace(text, turned[text]), encoding="utf-8")

    answer = brought_in(database, notes)
    again = brought_in(database, notes)

    assert (answer["updated"], again["updated"]) == ({"memory": 3}, {})
    assert {row["content"]: row["id"] for row in database.rows("SELECT id, content FROM memories")} == {
        turned[text]: id_ for text, id_ in ids.items()
    }
    hashes = database.rows("SELECT content_hash FROM memories WHERE content = %s", [texts[0]])
    pgengram("import", str(source), database_url=database.url, **WORDS)
    assert database.rows("SELECT content_hash FROM memories WHERE content = %s", [texts[0]]) == hashes
    assert database.rows("SELECT count(*) AS memories FROM memories") == [{"memories": 3}]


def test_a_store_is_made_anew_from_its_notes(database: Database, blank: Database, tmp_path: Path) -> None:
    record = {"content": "We chose Vitest.", "kind": "decision", "importance": 0.7, "tags": ["js"], "project": "web",
              "created_at": "2025-09-01T08:30:00Z"}  # fmt: skip
    (tmp_path / "lines.jsonl").write_text(json.dumps(record))
    pgengram("import", str(tmp_path / "lines.jsonl"), database_url=database.url, **WORDS)
    notes = tmp_path / "notes"
    pgengram("export", "--format", "markdown", str(notes), database_url=database.url, **WORDS)

    brought_in(blank, notes)

    names = ("id", "kind", "importance", "tags", "project", "created_at", "status")
    [there], [anew] = stored(database).values(), stored(blank).values()
    assert {name: anew[name] for name in names} == {name: there[name] for name in names}


def test_a_zip_is_read_within_bounds_and_nothing_that_climbs_out(database: Database, tmp_path: Path) -> None:
    outside = written(tmp_path / "outside", secret="Not yours.")
    vault = written(tmp_path / "vault", One="First note.")
    (vault / "Two.md").write_bytes("Zweite Notiz für später.".encode("utf-16"))
    (vault / "Three.md").write_bytes("Drei für alle.".encode("cp1252"))
    (vault / "linked.md").symlink_to(outside / "secret.md")
    with zipfile.ZipFile(tmp_path / "vault.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes/One.md", "First note.")
        archive.writestr("../climbs.md", "Out of here.")
        archive.writestr("notes/bomb.md", "0" * 50_000_000)

    of_zip = brought_in(database, tmp_path / "vault.zip", expect=1)
    of_folder = brought_in(database, vault, expect=1)

    assert {one["place"]: one["reason"] for one in of_zip["left"]} == {
        "../climbs.md": "it leads out of the folder", "notes/bomb.md": "it is larger than 1,000,000 bytes",
    }  # fmt: skip
    assert [one["place"] for one in of_folder["left"]] == ["linked.md"]
    assert set(stored(database)) == {
        "# One\n\nFirst note.", "# Two\n\nZweite Notiz für später.", "# Three\n\nDrei für alle.",
    }  # fmt: skip


@pytest.mark.nightly
def test_a_large_folder_of_notes_is_read_a_note_at_a_time(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number}.md").write_text(
            f"Note {number} [[{(number + 1) % 60}]] {'x' * 300_000}", encoding="utf-8"
        )
    source = Source(tmp_path)

    tracemalloc.start()
    kinds = Counter(str(item.record["record"]) for item in read(source) if isinstance(item, Item))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert kinds == {"memory": 60, "relationship": 60}
    assert most < 6_000_000  # of 18 MB


# -- as the parser sees it ---------------------------------------------------------------------------------------------


def test_code_tables_and_lists_of_a_file_of_many_facts_stay_whole(tmp_path: Path) -> None:
    code = "```bash\nnpm ci\n\n# Run one test\nnpm test -- foo\n\n- not a bullet\n```"
    table = "| host | port |\n| --- | --- |\n| heron | 8080 |"
    nested = "Deploy on Thursdays:\n  1. tag\n  2. announce"
    text = f"---\npaths: [src]\n---\n# Rules\n\n## Commands\n\n{code}\n\n- Use tabs\n* {nested}\n\n{table}\n\nStyle\n-----\nShort lines.\nStill short.\n\n<!-- seen by nobody -->\n\n    indented = code\n\n[ref]: https://example.org\n"
    (tmp_path / "CLAUDE.md").write_text(text.replace("\n", "\r\n"), newline="")
    long = "\n".join(["- The harbour:", *(f"  - berth {number} is {'x' * 80}" for number in range(30))])
    (tmp_path / "AGENTS.md").write_text(long)

    items = list(read(Source(tmp_path)))
    found = [item.record["content"] for item in items if isinstance(item, Item)]

    assert f"Commands: {code}" in found
    assert "Commands: Use tabs" in found
    assert f"Commands: {nested}" in found
    assert f"Commands: {table}" in found
    assert "Style: Short lines.\nStill short." in found
    assert "Style:     indented = code" in found or "Style: indented = code" in found
    assert "Style: [ref]: https://example.org" in found
    assert "The harbour: berth 7 is " + "x" * 80 in found
    assert not any("nobody" in text for text in found)
    assert [item.reason for item in items if isinstance(item, Left)] == ["it is a comment or markup without text"]


def test_tags_are_those_of_the_front_matter_and_of_the_prose(tmp_path: Path) -> None:
    heads = {
        'tags: "#a, b"': ["a", "b"], "tags: a b": ["a", "b"], "tags: [a, '#b/c']": ["a", "b/c"], "tags:\n  - a\n  - '#b'": ["a", "b"],
        "tags:\n- a\n- b": ["a", "b"], "tag: a": ["a"], "title: x": [],
    }  # fmt: skip
    for head, tags in heads.items():
        note = Note.parsed(
            f"---\n{head}\n---\nText with #project/ark and **#bold**, (#no) a#b #1 \\#esc `#code` http://x.org/#y <i id='#z'>.\n\n# Heading\n#überschrift\n\n```\n#fenced\n```\n\n    #indented\n"
        )
        assert note.tags == [*tags, "project/ark", "bold", "überschrift"], head
    assert Note.parsed("tags:: x, y\nalias:: The Bakery\n\n- #[[two words]] and #z").tags == [
        "x",
        "y",
        "two words",
        "z",
    ]


def test_links_are_those_of_the_prose_and_lead_to_notes(tmp_path: Path) -> None:
    vault = written(
        tmp_path / "vault",
        Hub="`[[Code]]` [[Note#^id|shown]] [[Note^id]] [[#Here]] ![[Note#Part]] ![[photo.png]] [[paper.pdf|p]] [[a/Deep]] [[b\\|x]]\n\n"
        "```dataview\nLIST FROM [[Query]]\n```\n\n~~~\n[[Fence]]\n~~~\n\n    [[Indented]]\n\n{{query (and [[Q]])}}\n\n%% [[Hidden]] %%\n\n"
        "#+BEGIN_QUERY\n{:query [[X]]}\n#+END_QUERY\n\n> [!note] [[Note]]\n\n| a | b |\n| - | - |\n| [[Table\\|t]] | `[[No]]` |\n\n"
        "- part-of [[Whole]]\n  - causes [[Inner one]]\n- [ ] call [[Task]]\n",
        Note="One.", sub__a__Deep="Two.", b="Three.", Table="Four.", Whole="Five.", Inner_one="Six.", Task="Seven.",
        Props="---\nup: \"[[Hub]]\"\nrelated:\n  - \"[[Note]]\"\nseen: [[Task]]\n---\nEight.",
        Logseq="[[space/page]]",
    )  # fmt: skip

    (vault / "space___page.md").write_text("Nine.")
    items = list(read(Source(vault)))
    names = {
        item.record["id"]: item.record["metadata"]["title"]
        for item in items
        if isinstance(item, Item) and item.record["record"] == "memory"
    }
    edges = {
        (names[item.record["from_id"]], item.record["type"], names[item.record["to_id"]])
        for item in items if isinstance(item, Item) and item.record["record"] == "relationship"
    }  # fmt: skip

    assert edges == {
        ("Hub", "links_to", "Note"), ("Hub", "links_to", "Deep"), ("Hub", "links_to", "b"), ("Hub", "links_to", "Table"),
        ("Hub", "part-of", "Whole"), ("Hub", "causes", "Inner one"), ("Hub", "links_to", "Task"),
        ("Props", "up", "Hub"), ("Props", "related", "Note"), ("Props", "seen", "Task"), ("Logseq", "links_to", "space___page"),
    }  # fmt: skip
    left = {item.place: item.by_design for item in items if isinstance(item, Left)}
    assert left == {"Hub.md: [[photo.png]]": True, "Hub.md: [[paper.pdf]]": True}


def test_fields_of_several_lines_and_rules_that_are_no_fields_are_kept(tmp_path: Path) -> None:
    note = Note.parsed(
        "---\ntitle: 'Ada: a life'\ndate created: 2024-05-01\nsummary: |\n  Two\n  lines.\nplaces:\n  home: Graz\n  work: [Linz, Wels]\ncount: 3\nurl: https://x.org/a:b\n---\nText."
    )
    assert note.fields == {
        "title": "Ada: a life", "date created": "2024-05-01", "summary": "Two\nlines.",
        "places": {"home": "Graz", "work": ["Linz", "Wels"]}, "count": 3, "url": "https://x.org/a:b",
    }  # fmt: skip
    assert Note.parsed("---\nA first thought.\n---\nAnd a second.").body == "---\nA first thought.\n---\nAnd a second."
    bomb = "---\na: &a [x, x]\nb:\n  - &b [*a, *a]\n  - *b\n---\nText."
    assert Note.parsed(bomb).body == "Text."


def test_a_note_without_a_date_has_that_of_its_file_and_says_so(database: Database, tmp_path: Path) -> None:
    vault = written(tmp_path / "vault", Plain="Tea at four.", Dated="---\ncreated: 2025-09-01\n---\nCake at five.")
    (vault / "2024-02-29.md").write_text("A leap day.")
    for path in vault.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))

    brought_in(database, vault)
    for path in vault.iterdir():
        os.utime(path, (1_710_000_000, 1_710_000_000))
    again = brought_in(database, vault)

    rows = database.rows(
        "SELECT left(content, 4) AS text, created_at::date::text AS day, metadata #>> '{imported,dated_by}' AS by FROM memories"
    )
    assert {row["text"]: (row["day"], row["by"]) for row in rows} == {
        "# Pl": ("2023-11-14", "file time"), "# Da": ("2025-09-01", None), "# 20": ("2024-02-29", "file name"),
    }  # fmt: skip
    assert (again["added"].get("memory", 0), again["updated"]) == (0, {})


def test_fields_that_mean_something_else_in_another_program_cost_no_note(database: Database, tmp_path: Path) -> None:
    head = "status: done\nimportance: high\nconfidence: 80\nproject: [a, b]\nkind: recipe\nexpires_at: soon\npinned: maybe\nuser: Ada"
    vault = written(tmp_path / "vault", Soup=f"---\n{head}\n---\nBoil the leeks.", Empty_head="---\n---\nSalt it.")
    written(vault, Alias="---\naliases: One, Two words\n---\nStir.", Links="[[one]] and [[Two words]]")

    told = brought_in(database, vault)

    assert (told["added"], told["left"]) == ({"memory": 4, "relationship": 1}, [])
    soup = next(row for text, row in stored(database).items() if "leeks" in text)
    assert (soup["status"], soup["user"], soup["project"], soup["kind"]) == ("active", "Ada", None, None)
    assert soup["importance"] > 0.5
    kept = {"status": "done", "project": ["a", "b"], "kind": "recipe", "expires_at": "soon", "pinned": "maybe"}
    assert {name: soup["metadata"][name] for name in kept} == kept
