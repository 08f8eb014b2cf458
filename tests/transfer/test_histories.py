"""Histories from elsewhere: conversations become turns, notes become memories, each once and with its time."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from transcript_lines import chain, codex, codex_meta, written

from helpers import Database
from machine import answered
from pgengram.errors import InvalidInput
from pgengram.service.conversations import Conversations
from pgengram.service.manager import MemoryManager
from pgengram.store.conversations import Conversation, Turn
from pgengram.transfer.importers import FORMATS, SYSTEMS, recognised
from pgengram.transfer.importing import import_from
from pgengram.transfer.input.sources import Source
from pgengram.transfer.report import Imported

MAY = 1714557600.0  # 2024-05-01 10:00 UTC
NOW = datetime.now(UTC)
FOLDER = Path(__file__).parents[2] / "docs" / "how-to"


async def brought_in(manager: MemoryManager, path: Path, system: str = "", **options: Any) -> Imported:
    """Import, see that doing it again adds nothing, and return what the first time told."""
    first = await import_from(manager, system, str(path), dry_run=False, report=lambda *_: None, **options)
    again = await import_from(manager, system, str(path), dry_run=False, report=lambda *_: None, **options)
    assert sum(again.added.values()) == 0
    assert again.known == first.added + first.known
    return first


def turns(database: Database) -> list[tuple[Any, ...]]:
    rows = database.rows(
        """SELECT client, conversation, role, text, to_char(time AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS time
           FROM conversation_turns ORDER BY client, conversation, number"""
    )
    return [tuple(row.values()) for row in rows]


def memories(database: Database) -> list[str]:
    return sorted(row["content"] for row in database.rows("SELECT content FROM memories"))  # whatever the collation


def reasons(report: Imported) -> dict[str, int]:
    return {reason: one.count for reason, one in report.reasons.items()}


def zipped(path: Path, **files: Any) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in files.items():
            archive.writestr(name.replace("__", "."), value if isinstance(value, str) else json.dumps(value))
    return path


def lines(path: Path, *entries: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def node(name: str, parent: str | None, role: str = "", text: str = "", at: float | None = None, **more: Any) -> dict:
    content = {"content_type": "text", "parts": [text]}
    message = {"id": name, "author": {"role": role}, "create_time": at, "content": content, "recipient": "all", **more}
    return {"id": name, "parent": parent, "children": [], "message": message if role else None}


def chat(*more: dict[str, Any], current: str = "a2") -> dict[str, Any]:
    nodes = [
        node("root", None),
        node("s", "root", "system", "You are a model.", MAY),
        node("u1", "s", "user", "Where do we keep the boat?", MAY),
        node("a1", "u1", "assistant", "In Lyon, I guess.", MAY + 60),
        node("a2", "u1", "assistant", "In Brest.", MAY + 120),
        *more,
    ]
    return {
        "title": "The \"boat\"", "create_time": MAY, "mapping": {one["id"]: one for one in nodes},
        "current_node": current, "conversation_id": "c-1", "id": "c-1",
    }  # fmt: skip


async def test_what_a_user_said_to_chatgpt_in_an_unknown_form_is_told(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    odd = node("u2", "a2", "user", "", MAY + 180, content={"content_type": "gesture", "body": "waves"})
    part = node(
        "u3", "u2", "user", "", MAY + 190, content={"content_type": "multimodal_text", "parts": [{"text": "And so?"}]}
    )

    report = await brought_in(manager, zipped(tmp_path / "1.zip", conversations__json=[chat(odd, part, current="u3")]))

    assert reasons(report) == {"what was said is in a form that this version doesn't know": 1}
    assert turns(database)[-1][3] == "And so?"


async def test_a_chatgpt_export_keeps_what_is_shown_at_the_end_and_grows_by_what_was_said_later(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    picture = {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, "And this?"]}
    first = zipped(tmp_path / "export.zip", conversations__json=[chat()], user__json={"id": "u"}, chat__html="<html>")
    later = zipped(
        tmp_path / "later.zip",
        conversations__json=[chat(node("u2", "a2", "user", "", MAY + 180, content=picture), current="u2")],
    )

    report = await brought_in(manager, first)
    again = await import_from(manager, "", str(later), dry_run=False, report=lambda *_: None)

    assert report.system == "chatgpt"
    assert (dict(report.added), dict(again.added)) == ({"turn": 2}, {"turn": 1})
    assert (reasons(report), {name: one.count for name, one in report.passed.items()}) == (
        {},
        {"nobody said it": 1, "it was edited or generated again later": 1, "a file of another kind": 2},
    )
    assert [row[2:] for row in turns(database)] == [
        ("user", "Where do we keep the boat?", "2024-05-01 10:00"),
        ("assistant", "In Brest.", "2024-05-01 10:02"),
        ("user", "[image]\n\nAnd this?", "2024-05-01 10:03"),
    ]
    assert database.rows("SELECT title FROM conversations") == [{"title": 'The "boat"'}]


async def test_a_claude_ai_export_keeps_conversations_projects_documents_and_what_claude_remembers(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    def message(sender: str, at: str, **more: Any) -> dict[str, Any]:
        return {"uuid": sender, "text": "", "sender": sender, "created_at": at, "attachments": [], "files": [], **more}

    call = {"type": "tool_use", "name": "web_search", "input": {"query": "ferry"}}
    export = zipped(
        tmp_path / "data.zip",
        users__json=[{"uuid": "u", "full_name": "Ada"}],
        conversations__json=[
            {
                "uuid": "c-1", "name": "Ferry", "created_at": "2024-05-01T10:00:00Z", "account": {"uuid": "u"},
                "chat_messages": [
                    message("human", "2024-05-01T10:00:00.5Z", text="When does the ferry leave?",
                            attachments=[{"file_name": "plan.txt", "extracted_content": "At nine."}]),
                    message("assistant", "2024-05-01T10:01:00Z", content=[call]),
                    message("assistant", "2024-05-01T10:02:00Z", content=[{"type": "text", "text": "At nine."}]),
                ],
            }
        ],
        projects__json=[
            {"uuid": "p", "name": "Ark", "description": "Building a boat.", "prompt_template": "", "created_at": "2024-04-01T00:00:00Z",
             "docs": [{"uuid": "d", "filename": "wood.md", "content": "Use oak.", "created_at": "2024-04-02T00:00:00Z"}]}
        ],
        memories__json=[{"conversations_memory": "**Work**\n\nAda builds boats.", "account_uuid": "u"}],
    )  # fmt: skip

    report = await brought_in(manager, export)

    assert (report.system, dict(report.added), reasons(report)) == ("claude-ai", {"turn": 3, "memory": 4}, {})
    assert [row[2:4] for row in turns(database)] == [
        ("user", "When does the ferry leave?\n\n[plan.txt]\nAt nine."),
        ("tool", 'web_search {"query": "ferry"}'),
        ("assistant", "At nine."),
    ]
    assert memories(database) == ["# wood.md\n\nUse oak.", "**Work**", "Ada builds boats.", "Ark: Building a boat."]
    assert database.rows("SELECT project FROM memories WHERE content LIKE '%oak%'") == [{"project": "Ark"}]


async def test_claude_codes_folder_keeps_what_hooks_would_keep_under_the_same_numbers(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
        return {"type": role, "message": {"role": role, "content": content}, "timestamp": "2024-05-01T10:00:00Z",
                "sessionId": "s-1", "cwd": "/nowhere/ark", **more}  # fmt: skip

    folder = tmp_path / "projects"
    lines(
        folder / "-nowhere-ark" / "s-1.jsonl",
        {"type": "summary", "summary": "The ark"},
        said("user", "We deploy from Lyon."),
        said("assistant", [{"type": "text", "text": "Noted."}]),
        said("assistant", "By a helper.", isSidechain=True),
    )
    (folder / "-nowhere-ark" / "memory").mkdir()
    (folder / "-nowhere-ark" / "memory" / "MEMORY.md").write_text("# Rules\n\n- Run the linter.\n- Never push.\n")
    await Conversations(manager).bring(
        [(Conversation("claude-code", "s-1"), Turn(1, "user", "We deploy from Lyon.", NOW))]
    )

    report = await brought_in(manager, folder)

    assert (report.system, dict(report.added), dict(report.known)) == (
        "claude-code",
        {"turn": 1, "memory": 2},
        {"turn": 1, "memory": 0},
    )
    assert [row[:4] for row in turns(database)] == [
        ("claude-code", "s-1", "user", "We deploy from Lyon."), ("claude-code", "s-1", "assistant", "Noted."),
    ]  # fmt: skip
    assert database.rows("SELECT project FROM conversations") == [{"project": "ark"}]
    assert memories(database) == ["Rules: Never push.", "Rules: Run the linter."]


async def test_codex_and_gemini_sessions_become_turns(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    def item(**payload: Any) -> dict[str, Any]:
        return {"timestamp": "2024-05-01T10:00:00Z", "type": "response_item", "payload": payload}

    codex = lines(
        tmp_path / "sessions" / "2024" / "05" / "01" / "rollout-2024-05-01T10-00-00-x.jsonl",
        {"timestamp": "2024-05-01T10:00:00Z", "type": "session_meta", "payload": {"id": "x-1", "cwd": "/nowhere/ark"}},
        item(type="message", role="user", content=[{"type": "input_text", "text": "<environment_context>…"}]),
        item(type="message", role="user", content=[{"type": "input_text", "text": "Mend the test."}]),
        {
            "timestamp": "2024-05-01T10:00:00Z",
            "type": "event_msg",
            "payload": {"type": "user_message", "message": "Mend the test."},
        },
        item(type="function_call", name="shell", arguments='{"command": ["ls"]}', call_id="1"),
        item(type="function_call_output", call_id="1", output='{"output": "a.py", "metadata": {}}'),
        item(type="message", role="assistant", content=[{"type": "output_text", "text": "Mended."}]),
    )
    session = {
        "sessionId": "g-1", "projectHash": "0" * 64, "startTime": "2024-05-02T10:00:00Z",
        "messages": [
            {"id": "1", "timestamp": "2024-05-02T10:00:00Z", "type": "user", "content": [{"text": "Name a river."}]},
            {"id": "2", "timestamp": "2024-05-02T10:01:00Z", "type": "gemini", "content": "The Rhône."},
            {"id": "3", "timestamp": "2024-05-02T10:01:00Z", "type": "info", "content": "Updated."},
        ],
    }  # fmt: skip
    gemini = tmp_path / "tmp" / "ark" / "chats" / "session-2024-05-02T10-00-g.json"
    lines(gemini, session)

    assert (await brought_in(manager, codex.parents[3])).system == "codex"
    assert (await brought_in(manager, tmp_path / "tmp")).system == "gemini-cli"

    assert [row[:4] for row in turns(database)] == [
        ("codex", "x-1", "user", "Mend the test."),
        ("codex", "x-1", "tool", 'shell {"command": ["ls"]}'),
        ("codex", "x-1", "tool", "a.py"),
        ("codex", "x-1", "assistant", "Mended."),
        ("gemini-cli", "g-1", "user", "Name a river."),
        ("gemini-cli", "g-1", "assistant", "The Rhône."),
    ]
    assert [row["project"] for row in database.rows("SELECT project FROM conversations ORDER BY client")] == [
        "ark",
        "ark",
    ]


EXPORTS: dict[str, tuple[Any, list[str]]] = {
    "mem0": (
        {"results": [{"id": "1", "memory": "Ada rows.", "hash": "h", "user_id": "ada", "categories": ["sport"],
                      "metadata": {"mood": "calm"}, "created_at": "2024-05-01T10:00:00-07:00", "updated_at": None}]},
        ["Ada rows."],
    ),
    "hindsight": (
        {"items": [{"id": "1", "text": "Ada moved to Lyon.", "context": "home", "fact_type": "world", "entities": "Ada, Lyon",
                    "mentioned_at": "2024-05-01T10:00:00Z", "occurred_start": "2024-04-01T00:00:00Z"}], "total": 1},
        ["Ada moved to Lyon."],
    ),
    "claude-mem": (
        {"exportedAt": "2024-06-01", "totalObservations": 1,
         "observations": [{"id": 1, "project": "ark", "type": "bugfix", "title": "Leak mended", "narrative": "The hull leaked.",
                           "facts": '["Tar helps."]', "created_at_epoch": 1714557600000}],
         "summaries": [{"id": 1, "request": "Mend it", "learned": "Tar helps.", "project": "ark", "created_at_epoch": 1714557600000}],
         "prompts": [{"id": 1, "content_session_id": "s", "prompt_number": 1, "prompt_text": "Mend the hull.", "created_at_epoch": 1714557600000}]},
        ["Leak mended\nThe hull leaked.\n- Tar helps.", "Request: Mend it\nLearned: Tar helps."],
    ),
    "engram": (
        {"version": "0.1.0", "exported_at": "2024-06-01", "sessions": [{"id": "s", "project": "ark"}],
         "observations": [{"id": 1, "session_id": "s", "type": "decision", "title": "Oak", "content": "We build in oak.", "project": "ark",
                           "scope": "project", "created_at": "2024-05-01 10:00:00", "updated_at": "2024-05-01 10:00:00"}],
         "prompts": [{"id": 1, "session_id": "s", "content": "Which wood?", "created_at": "2024-05-01 10:00:00"}]},
        ["Oak\nWe build in oak."],
    ),
    "graphiti": (
        {"edges": [{"uuid": "e", "fact": "Ada builds the ark.", "name": "BUILDS", "source_node_uuid": "a", "target_node_uuid": "b",
                    "created_at": "2024-05-01T10:00:00Z", "valid_at": "2024-04-01T00:00:00Z", "invalid_at": None, "group_id": "g"}],
         "nodes": [{"uuid": "a", "name": "Ada", "summary": "", "labels": ["Entity", "Person"], "created_at": "2024-05-01T10:00:00Z"},
                   {"uuid": "b", "name": "The ark", "summary": "A boat.", "labels": [], "created_at": "2024-05-01T10:00:00Z"}]},
        ["Ada", "Ada builds the ark.", "The ark: A boat."],
    ),
    "letta": (
        {"agents": [{"id": "agent-0", "name": "Noah", "block_ids": ["block-0"], "in_context_message_ids": [],
                     "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello."}], "created_at": "2024-05-01T10:00:00Z"}]}],
         "blocks": [{"id": "block-0", "label": "human", "value": "Ada likes oak.", "limit": 5000}], "tools": [{"name": "t", "x": 1}]},
        ["human: Ada likes oak."],
    ),
}  # fmt: skip


@pytest.mark.parametrize("system", EXPORTS)
async def test_an_export_of_records_is_recognised_and_kept(
    manager: MemoryManager, database: Database, tmp_path: Path, system: str
) -> None:
    export, expected = EXPORTS[system]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(export), encoding="utf-8")

    report = await brought_in(manager, path)

    assert (report.system, reasons(report)) == (system, {})
    assert memories(database) == expected
    assert report.since is not None or system == "letta"
    assert report.since is None or report.since.year == 2024 or system == "letta"
    assert database.rows("SELECT count(*) AS n FROM memory_relationships") == [{"n": 2 if system == "graphiti" else 0}]
    assert len(turns(database)) == (1 if system in ("claude-mem", "engram", "letta") else 0)


@pytest.mark.parametrize("is_first_form", [False, True])
async def test_of_a_letta_agent_what_was_said_is_kept_and_neither_its_wrapping_nor_what_it_thought(
    manager: MemoryManager, database: Database, tmp_path: Path, *, is_first_form: bool
) -> None:
    asked = {"type": "user_message", "message": "What lasts?", "time": "2024-05-01 10:00:00 AM UTC+0000"}
    call = {"id": "c", "type": "function", "function": {"name": "send_message", "arguments": '{"message": "Oak."}'}}
    told: list[tuple[str, str, dict[str, Any]]] = [
        ("user", json.dumps({"type": "login", "last_login": "Never"}), {}), ("user", json.dumps(asked), {}),
        ("assistant", "I should answer.", {"tool_calls": [call]}), ("tool", json.dumps({"status": "OK", "message": None}), {}),
        ("tool", json.dumps({"status": "OK", "message": "3 results"}), {}), ("assistant", "And tar.", {}),
    ]  # fmt: skip
    messages = [
        {"role": role, "content": [{"type": "text", "text": text}], "created_at": f"2024-05-01T10:00:0{place}Z", **more}
        for place, (role, text, more) in enumerate(told)
    ]
    path = tmp_path / "agent.af"
    agent = {"id": "agent-0", "block_ids": [], "core_memory": [], "messages": messages}
    path.write_text(json.dumps(agent if is_first_form else {"agents": [agent]}), encoding="utf-8")

    report = await brought_in(manager, path)

    assert (report.system, reasons(report)) == ("letta", {})
    said = database.rows("SELECT role, text FROM conversation_turns ORDER BY time, number")
    wanted = [("user", "What lasts?"), ("assistant", "Oak."), ("tool", "3 results"), ("assistant", "And tar.")]
    assert [(one["role"], one["text"]) for one in said] == wanted


async def test_claude_mems_database_is_recognised_and_kept(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "claude-mem.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(
            """CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, text TEXT, type TEXT, title TEXT,
                 facts TEXT, narrative TEXT, created_at TEXT, created_at_epoch INTEGER);
               CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, project TEXT, request TEXT, learned TEXT, created_at_epoch INTEGER);
               INSERT INTO observations (project, type, title, narrative, created_at_epoch) VALUES ('ark', 'decision', 'Oak', 'It lasts.', 1714557600000);
               INSERT INTO session_summaries (project, request, learned, created_at_epoch) VALUES ('ark', 'Wood', 'Oak lasts.', 1714557600000);"""
        )

    report = await brought_in(manager, path)

    assert (report.system, memories(database)) == (
        "claude-mem",
        ["Oak\nIt lasts.", "Request: Wood\nLearned: Oak lasts."],
    )


async def test_csv_and_json_of_any_shape_come_in_by_a_mapping_that_is_guessed_or_told(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    table = tmp_path / "notes.csv"
    table.write_text('date;text;labels;mood\n2024-05-01;"Oak; not pine";"wood;boat";calm\n', encoding="utf-8")
    nested = lines(
        tmp_path / "notes.jsonl", {"when": MAY, "message": {"said": "Tar helps."}, "by": "Ada"}, {"when": MAY}
    )

    by_guess = await brought_in(manager, table)
    by_word = await brought_in(manager, nested, "json", mapping={"content": "message.said", "created_at": "when"})

    assert (by_guess.system, reasons(by_guess), reasons(by_word)) == ("csv", {}, {"it has no text": 1})
    rows = database.rows(
        """SELECT content, to_char(created_at, 'YYYY-MM-DD') AS day, metadata - 'imported' AS rest,
             ARRAY(SELECT tag FROM memory_tags t WHERE t.memory_id = m.id ORDER BY 1) AS tags FROM memories m ORDER BY content"""
    )
    assert rows == [
        {"content": "Oak; not pine", "day": "2024-05-01", "rest": {"mood": "calm"}, "tags": ["boat", "wood"]},
        {"content": "Tar helps.", "day": "2024-05-01", "rest": {"by": "Ada"}, "tags": []},
    ]


async def test_imported_conversations_stay_when_old_ones_are_forgotten(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    await brought_in(manager, zipped(tmp_path / "export.zip", conversations__json=[chat()]))

    await Conversations(manager).set_keeping(keep_days=1)

    assert len(turns(database)) == 2


def test_a_dry_run_tells_counts_the_period_examples_and_what_is_left_out_and_changes_nothing(
    database: Database, tmp_path: Path
) -> None:
    broken = json.dumps([chat(), "x", chat()]).replace('"x"', '{"title": "nothing", "create_time": 1}')
    path = tmp_path / "conversations.json"
    path.write_text(broken, encoding="utf-8")

    told = answered("import", str(path), "--dry-run", "--json", expect=1, database_url=database.url, embedder="none:")

    assert (told["from"], told["added"], told["kinds"]) == (
        "chatgpt",
        {"turn": 2},
        {"user's turn": 1, "assistant's turn": 1},
    )
    assert (told["known"], told["since"], told["until"]) == (
        {"turn": 2},
        "2024-05-01T10:00:00Z",
        "2024-05-01T10:02:00Z",
    )
    assert told["examples"] == ["2024-05-01 user's turn: Where do we keep the boat?"]
    [reason] = told["reasons"]
    assert (reason["reason"], reason["count"]) == ("it is not a conversation of ChatGPT", 1)
    assert reason["first"][0].startswith("conversations.json, byte ")
    assert turns(database) == []


MEMORIES = "CREATE TABLE memories (id INTEGER PRIMARY KEY, content TEXT, tags TEXT, importance INTEGER, {})"
RECOGNISED = {
    "crow": MEMORIES.format("category TEXT, accessed_at TEXT, access_count INTEGER"),
    "session-continuity": MEMORIES.format("memory_type TEXT, accessed_at DATETIME, access_count INTEGER"),
    "mcp-memory-service": MEMORIES.format("content_hash TEXT, memory_type TEXT, metadata TEXT"),
    "skynet": {"ids": ["1"], "documents": ["Tea."], "metadatas": [{}]},
    "ownsona": {"memories": [{"id": 1, "text": "Tea.", "source_provider": "openai"}]},
    "ownsona without a provider": {
        "memories": [{"id": 1, "tags": ["tea"], "created_at": "2024-05-01", "text": "Tea."}]
    },
    "mcp-memory": {"type": "entity", "name": "Ada", "entityType": "person", "observations": []},
    "agi": {"memories": [], "semantic_memories": []},
    "jsonl": {"record": "export", "format": 1},
}


@pytest.mark.parametrize("system", RECOGNISED)
def test_the_store_of_another_system_is_recognised(tmp_path: Path, system: str) -> None:
    made = RECOGNISED[system]
    path = tmp_path / "store"
    if isinstance(made, str):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(made)
    else:
        path.write_text(json.dumps(made), encoding="utf-8")

    assert recognised(Source(path)) == system.split()[0]


def test_every_format_is_in_the_table_of_the_documentation() -> None:
    page = (FOLDER / "bring-your-memories.md").read_text(encoding="utf-8")

    assert [name for name in SYSTEMS if f"| `{name}` |" not in page] == []
    assert len({one.name for one in FORMATS}) == len(FORMATS)


async def test_files_that_another_importer_reads_are_told_and_the_exit_code_is_1(
    manager: MemoryManager, tmp_path: Path
) -> None:
    both = tmp_path / "both"
    written(both / "projects" / "ark" / "s1.jsonl", *chain("Ahoy.", "Hi."))
    written(both / "sessions" / "rollout-1.jsonl", codex_meta("k1"), codex("user", "use blue", 1))
    (both / "sessions" / "rollout-2.jsonl.br").write_bytes(b"\x8b\x01\x80")
    zipped(both / "sessions" / "old.zip", rollout_3__jsonl=[])
    (both / "notes.txt").write_text("of nobody")

    for system, other in (("codex", "claude-code"), ("claude-code", "codex")):
        report = await import_from(manager, system, str(both), dry_run=False, report=lambda *_: None)

        assert sum(report.added.values()) == {"codex": 1, "claude-code": 2}[system]
        left = {one.place.rpartition("/")[2]: one.reason for one in report.left}
        assert left.keys() >= {"old.zip", {"codex": "s1.jsonl", "claude-code": "rollout-1.jsonl"}[system]}
        assert f"--from {other}" in "".join(left.values())
        assert "brotli" in left["rollout-2.jsonl.br"]
        assert report.passed["a file of another kind"].first == ["notes.txt"]


async def test_a_zip_whose_end_is_missing_is_called_broken(manager: MemoryManager, tmp_path: Path) -> None:
    torn = zipped(tmp_path / "x.zip", conversations__json=[chat()])
    torn.write_bytes(torn.read_bytes()[:-30])

    with pytest.raises(InvalidInput, match="broken zip"):
        await import_from(manager, "", str(torn), dry_run=False, report=lambda *_: None)
