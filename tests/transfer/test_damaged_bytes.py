"""Compressed files, other encodings and damaged bytes: what can be read is read, and the rest is told with its place."""

from __future__ import annotations

import bz2
import gzip
import importlib
import json
import lzma
import os
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import Database
from machine import answered, pgengram
from pgengram.errors import InvalidInput
from pgengram.local.events import read_transcript
from pgengram.store.conversations import Conversation
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.sources import Source
from pgengram.transfer.opening import Opened
from pgengram.transfer.records import Item, Left, Said, moment

WORDS = {"embedder": "none:"}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd").compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}
ID = "0199d0a1-0000-7000-8000-000000000001"


def codex(text: str) -> bytes:
    lines = [
        {"type": "session_meta", "timestamp": "2026-09-01T10:00:00Z", "payload": {"id": ID, "cwd": "/w/ark"}},
        {"type": "response_item", "timestamp": "2026-09-01T10:00:01Z", "payload": {
            "type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}},
    ]  # fmt: skip
    return "\n".join(map(json.dumps, lines)).encode()


def read(path: Path, system: str = "") -> tuple[list[str], list[Left]]:
    """Return the texts and what was left out of a file, without a store."""
    opened = Opened(system, str(path), None, "", "")
    items: list[Any] = []
    while batch := opened.batch():
        items += batch
    texts = [one.turn.text for one in items if isinstance(one, Said)]
    texts += [one.record["content"] for one in items if isinstance(one, Item) and one.record["record"] == "memory"]
    return texts, [one for one in items if isinstance(one, Left) and not one.by_design]


@pytest.mark.parametrize("ending", PACKERS)
def test_a_compressed_file_is_read_as_what_it_was(tmp_path: Path, ending: str) -> None:
    pack = PACKERS[ending]
    name = "rollout-2026-09-01T10-00-00-" + ID + ".jsonl"
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / f"{name}{ending}").write_bytes(pack(codex("use blue")))
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / f"Ada.md{ending}").write_bytes(pack(b"Ada likes tea."))
    (tmp_path / f"memory.jsonl{ending}").write_bytes(pack(b'{"type":"entity","name":"Ada","observations":["bakes"]}'))
    (tmp_path / f"rows.csv{ending}").write_bytes(pack("text,date\nZoë rows.,2024-05-01\n".encode("utf-16")))
    with sqlite3.connect(tmp_path / "crow.db") as made:
        made.execute("CREATE TABLE memories (id INTEGER PRIMARY KEY, content TEXT, category TEXT, accessed_at TEXT)")
        made.execute("INSERT INTO memories VALUES (1, 'The gate opens at six.', 'fact', NULL)")
    made.close()
    (tmp_path / f"crow.db{ending}").write_bytes(pack((tmp_path / "crow.db").read_bytes()))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(folder / f"{name}{ending}", f"sessions/{name}{ending}")

    assert read(folder) == (["use blue"], [])
    assert read(folder / f"{name}{ending}") == (["use blue"], [])
    assert read(tmp_path / "all.zip") == (["use blue"], [])
    assert read(notes) == (["Ada likes tea."], [])
    assert read(tmp_path / f"memory.jsonl{ending}") == (["Ada", "Ada: bakes"], [])
    assert read(tmp_path / f"rows.csv{ending}") == (["Zoë rows."], [])
    assert read(tmp_path / f"crow.db{ending}") == (["The gate opens at six."], [])


def test_what_is_torn_a_bomb_or_compressed_in_another_way_is_named_and_the_exit_code_is_1(
    database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "rollout-plain.jsonl").write_bytes(codex("use blue"))
    torn = PACKERS[".zst"](b"\n".join([codex("use green"), *(os.urandom(400).hex().encode() for _ in range(4_000))]))
    (folder / "rollout-torn.jsonl.zst").write_bytes(torn[: len(torn) // 2])
    (folder / "rollout-broken.jsonl.gz").write_bytes(gzip.compress(codex("use red"))[:20] + bytes(40))
    (folder / "rollout-bomb.jsonl.gz").write_bytes(gzip.compress(bytes(66 << 20), 9))
    (folder / "rollout-other.jsonl.lz4").write_bytes(b"\x04\x22\x4d\x18" + bytes(40))
    (folder / "photo.png.gz").write_bytes(gzip.compress(b"\x89PNG"))

    ended = pgengram("import", str(folder), expect=1, database_url=database.url, **WORDS)
    reasons = {one.place.partition(",")[0]: one.reason for one in read(folder)[1]}

    assert reasons.keys() >= {
        "rollout-torn.jsonl.zst", "rollout-broken.jsonl.gz", "rollout-bomb.jsonl.gz", "rollout-other.jsonl.lz4",
    }  # fmt: skip
    assert "lz4" in reasons["rollout-other.jsonl.lz4"]
    assert "200 times" in reasons["rollout-bomb.jsonl.gz"]
    assert "photo.png.gz: a file of another kind" in ended.stdout
    assert "nothing worth keeping" not in ended.stdout
    assert all(name in ended.stdout for name in reasons)
    assert database.value("SELECT count(*) FROM conversation_turns WHERE text = 'use blue'") == 1


# -- damaged bytes -----------------------------------------------------------------------------------------------------

GRAPH = [
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["likes tea\u2028and \u0085cake\x0b\x0c\x1c"]},
    {"type": "entity", "name": "Mill", "entityType": "place", "observations": []},
    {"type": "relation", "from": "Ada", "to": "Mill", "relationType": "works_at"},
]  # fmt: skip
MARKED = {
    "utf-8-sig": lambda text: text.encode("utf-8-sig"),
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16-be": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "a mark in each line": lambda text: "\n".join("\ufeff" + line for line in text.split("\n")).encode(),
    "carriage returns": lambda text: text.replace("\n", "\r\n").encode() + b"\r\n",
}


@pytest.mark.parametrize("how", MARKED)
def test_a_knowledge_graph_is_read_whatever_marks_its_bytes_and_its_lines_have(tmp_path: Path, how: str) -> None:
    text = "\n".join(json.dumps(one, ensure_ascii=False) for one in GRAPH)
    (tmp_path / "memory.jsonl").write_bytes(MARKED[how](text))

    texts, left = read(tmp_path / "memory.jsonl")

    assert texts == ["Ada (person)", "Ada: likes tea\u2028and \u0085cake\x0b\x0c\x1c", "Mill (place)"]
    assert left == []
    (tmp_path / "graph.json").write_bytes(MARKED[how](json.dumps({"entities": GRAPH[:2], "relations": GRAPH[2:]})))
    assert read(tmp_path / "graph.json", "mcp-memory") == (texts, [])


def test_every_reader_of_lines_ends_them_at_a_line_feed_only(tmp_path: Path) -> None:
    odd = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\x1dh\x1ei"
    ours = {"content": odd}
    claude = {
        "type": "user",
        "uuid": "u1",
        "timestamp": "2026-09-02T10:00:00Z",
        "sessionId": "s1",
        "message": {"role": "user", "content": odd},
    }
    gemini = {"id": "m1", "timestamp": "2026-09-03T10:02:00Z", "type": "user", "content": odd}
    head = {"sessionId": "g1", "projectHash": "h"}
    files = {
        "notes.jsonl": (json.dumps(ours, ensure_ascii=False), "jsonl"),
        "rows.jsonl": (json.dumps({"text": odd}, ensure_ascii=False), "json"),
        "s1.jsonl": (json.dumps(claude, ensure_ascii=False), "claude-code"),
        "session-1.jsonl": (f"{json.dumps(head)}\n{json.dumps(gemini, ensure_ascii=False)}", "gemini-cli"),
        "rollout-1.jsonl": (codex(odd).decode(), "codex"),
        "rows.csv": (f'text,date\n"{odd}",2024-05-01', "csv"),
        "odd.md": (odd, "markdown"),
    }
    for name, (text, system) in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
        texts, left = read(tmp_path / name, system)
        assert (len(texts), left) == (1, []), name
        assert odd in texts[0], name


ARCHIVES = {"a.zip": "imported by itself", "b.tar.gz": "unpack it", "c.7z": "unpack it", "d.rar": "unpack it"}


@pytest.mark.parametrize("archive", ARCHIVES)
def test_an_archive_in_a_folder_is_named_with_what_to_do_whatever_lies_beside_it(tmp_path: Path, archive: str) -> None:
    (tmp_path / archive).write_bytes(b"not looked into")
    with pytest.raises(InvalidInput) as alone:
        read(tmp_path)
    (tmp_path / "note.md").write_text("A fine note.\n")

    _, left = read(tmp_path)

    [told] = left
    assert archive in alone.value.hint
    assert ARCHIVES[archive] in alone.value.hint
    assert (told.place, told.by_design) == (archive, False)
    assert ARCHIVES[archive] in told.reason


def test_a_torn_last_line_costs_itself_alone(tmp_path: Path) -> None:
    lines = "\n".join(map(json.dumps, GRAPH[:2]))
    for torn in ('\n{"type":"entity","name":"Wren","obs', "\n{}", "\n[1]", "\n\x00\x00"):
        (tmp_path / "memory.jsonl").write_text(lines + torn)
        texts, [left] = read(tmp_path / "memory.jsonl")
        assert len(texts) == 3
        assert left.place == "line 3"


GLUED = {
    "zero bytes": b"\0" * 40,
    "the one before, without its end": json.dumps(GRAPH[1]).encode(),
    "a piece of it": json.dumps(GRAPH[1])[:40].encode(),
    "a mark": "\ufeff".encode(),
}


@pytest.mark.parametrize("piece", GLUED)
def test_what_stands_before_an_object_on_its_line_costs_it_nothing(tmp_path: Path, piece: str) -> None:
    lines = [json.dumps(one).encode() for one in GRAPH]
    (tmp_path / "memory.jsonl").write_bytes(b"\n".join([lines[0], GLUED[piece] + lines[1], lines[2]]))

    texts, left = read(tmp_path / "memory.jsonl")

    assert "Mill (place)" in texts
    assert sum(text.startswith("Ada") for text in texts) == 2
    assert [one.place for one in left] == (["line 2"] if piece == "a piece of it" else [])


@pytest.mark.parametrize("piece", GLUED)
def test_hooks_read_what_stands_behind_it_too(tmp_path: Path, piece: str) -> None:
    said = {"type": "user", "uuid": "u1", "timestamp": "2026-09-02T10:00:00Z", "sessionId": "s1",
            "message": {"role": "user", "content": "row on"}}  # fmt: skip
    path = tmp_path / "s1.jsonl"
    path.write_bytes(GLUED[piece] + json.dumps(said).encode() + b"\n")

    _, turns = read_transcript(Conversation("claude-code", "s1", transcript=str(path)))

    assert [turn.text for turn in turns if turn.text] == ["row on"]


def sayings(*texts: str) -> list[dict[str, Any]]:
    """Return what lines of Claude Code say, with what a tool answered in each."""
    told = [{"type": "tool_result", "content": {"rows": [1, {"type": "user", "message": {"content": "not me"}}]}}]
    return [
        {"parentUuid": None, "isSidechain": False, "type": "user", "uuid": f"u{number}", "sessionId": "s1",
         "timestamp": "2026-09-02T10:00:00Z", "message": {"role": "user", "content": [{"type": "text", "text": text}, *told]}}
        for number, text in enumerate(texts)
    ]  # fmt: skip


RECORDS = {
    "claude code": sayings("row on", 'tea, "please": [all', "never on Friday"),
    "codex": [
        {"timestamp": "2026-09-02T10:00:00Z", "type": "response_item",
         "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}}
        for text in ("row on", "tea, please", "never on Friday")
    ],
    "server-memory": [
        {"type": "entity", "name": name, "observations": [{"text": "a"}, {"text": "{b"}], "more": {"text": "c"}}
        for name in ("Wren", "Heron", "Swift")
    ],
}  # fmt: skip


@pytest.mark.parametrize("client", RECORDS)
def test_wherever_a_record_is_torn_the_one_behind_it_on_its_line_is_read(tmp_path: Path, client: str) -> None:
    first, torn, last = [json.dumps(one, separators=(",", ":")) for one in RECORDS[client]]
    pieces = [torn[:end] for end in range(1, len(torn))]
    path = tmp_path / "memory.jsonl"
    path.write_text("\n".join([first, *(piece + last for piece in pieces)]))
    source = Source(path)

    found = list(source.objects(source.files[0]))

    assert [one for _, one in found if isinstance(one, dict)] == [json.loads(first), *[json.loads(last)] * len(pieces)]
    assert [number for number, one in found if isinstance(one, Broken)] == list(range(1, len(pieces) + 1))


@pytest.mark.parametrize("client", RECORDS)
def test_of_a_torn_line_nothing_is_taken_for_a_whole_one(tmp_path: Path, client: str) -> None:
    first, torn, _ = [json.dumps(one) for one in RECORDS[client]]
    path = tmp_path / "memory.jsonl"
    path.write_text("\n".join([first, *(torn[:end] for end in range(1, len(torn)))]))
    source = Source(path)

    assert [one for _, one in source.objects(source.files[0]) if isinstance(one, dict)] == [json.loads(first)]


def test_hooks_read_what_stands_behind_a_record_that_was_torn_where_another_object_could_stand(tmp_path: Path) -> None:
    first, torn, last = map(json.dumps, sayings("row on", "tea, please", "never on Friday"))
    path = tmp_path / "s1.jsonl"
    path.write_text(f"{first}\n{torn[: torn.index('[')]}{last}\n")

    _, turns = read_transcript(Conversation("claude-code", "s1", transcript=str(path)))

    assert [turn.text for turn in turns if turn.role == "user"] == ["row on", "never on Friday"]


def test_an_observation_that_is_a_text_is_one_and_a_tab_within_a_text_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "memory.jsonl").write_text('{"type":"entity","name":"Ada","observations":"likes\ttea"}')

    assert read(tmp_path / "memory.jsonl", "mcp-memory") == (["Ada", "Ada: likes\ttea"], [])


def test_the_times_and_fields_of_forks_come_along(database: Database, tmp_path: Path) -> None:
    entity = {"type": "entity", "name": "Ada", "entityType": "person", "createdAt": "2024-05-01T10:00:00.000Z", "version": 3,
              "lastModified": "2024-06-01T10:00:00.000Z", "tags": ["Friend"], "importance": 8, "aliases": ["A."],
              "observations": ["likes tea", {"content": "bakes", "timestamp": "2024-07-01T10:00:00Z", "durability": "permanent"},
                               {"content": "lived in Graz", "createdAt": 1714557600000, "validTo": "2025-01-01T00:00:00Z"}]}  # fmt: skip
    mill = {
        "type": "entity",
        "name": "Mill",
        "entity_type": "place",
        "observations": [],
        "metadata": {"createdAt": 1714557600000},
    }
    relation = {
        "type": "relation",
        "from": "Ada",
        "to": "Mill",
        "relation_type": "works_at",
        "createdAt": "2024-05-02T10:00:00Z",
        "strength": 0.5,
    }
    path = tmp_path / "memory.jsonl"
    path.write_text("\n".join(map(json.dumps, (entity, mill, relation))))

    answered("import", str(path), "--json", database_url=database.url, **WORDS)

    rows = database.rows("SELECT content, created_at::date::text AS day, status, kind, metadata FROM memories")
    assert {row["content"]: (row["day"], row["status"]) for row in rows} == {
        "Ada (person)": ("2024-05-01", "active"), "Ada: likes tea": ("2024-05-01", "active"),
        "Ada: bakes": ("2024-07-01", "active"), "Ada: lived in Graz": ("2024-05-01", "invalidated"),
        "Mill (place)": ("2024-05-01", "active"),
    }  # fmt: skip
    assert next(row["metadata"]["aliases"] for row in rows if row["content"] == "Ada (person)") == ["A."]
    [edge] = database.rows(
        "SELECT created_at::date::text AS day, strength FROM memory_relationships WHERE type = 'works_at'"
    )
    assert (edge["day"], edge["strength"]) == ("2024-05-02", 0.5)


# -- what one record or file holds costs that alone --------------------------------------------------------------------


def test_links_to_themselves_and_folders_without_a_right_cost_themselves_alone(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / "inner").mkdir(parents=True)
    (folder / "One.md").write_text("First note.")
    (folder / "loop.md").symlink_to(folder / "loop.md")
    (folder / "nowhere.md").symlink_to(folder / "not there.md")
    (folder / "inner" / "up").symlink_to(folder)
    os.mkfifo(folder / "pipe.md")
    (folder / os.fsdecode(b"gr\xfcn.md")).write_text("Grün.", encoding="utf-8")

    texts, left = read(folder)

    assert sorted(texts) == ["# One\n\nFirst note.", "# gr?n\n\nGrün."]
    assert sorted(one.place for one in left) == ["loop.md", "nowhere.md"]


def test_a_damaged_database_gives_what_can_be_read_and_tells_the_rest(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "crow.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE memories (id INTEGER PRIMARY KEY, content TEXT, category TEXT, accessed_at TEXT)")
        rows = [(number, f"Fact {number}: {'x' * 2_000}") for number in range(60)]
        made.executemany("INSERT INTO memories VALUES (?, ?, 'fact', NULL)", rows)
    made.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] + b"\xff" * 8_192 + whole[len(whole) // 2 + 8_192 :])

    texts, left = read(path, "crow")

    assert 0 < len(texts) < 60
    assert [one.place for one in left] == ["crow.db, table memories"]

    path.write_bytes(whole[: len(whole) * 2 // 3])
    ended = pgengram("import", "--from", "crow", str(path), expect=2, database_url=database.url, **WORDS)
    assert ".recover" in ended.stderr


@pytest.mark.parametrize(
    "value",
    [int("9" * 3_000), "9" * 3_000, float("nan"), float("inf"), -1e300, "²", "0001-01-01T00:00:00+14:00", "Mon, 99 Foo", True, [], {}],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_what_is_no_time_is_none(value: Any) -> None:
    assert moment(value) is None


def test_a_source_closes_and_forgets_what_it_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.db.gz"
    path.write_bytes(gzip.compress(b"SQLite format 3\0" + bytes(100)))
    source = Source(path)
    unpacked = source.on_disk(source.files[0])
    assert unpacked is not None
    assert unpacked.read_bytes().startswith(b"SQLite")
    del source
    assert not unpacked.exists()
