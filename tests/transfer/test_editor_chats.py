"""The chats of Cursor and VS Code, and what hooks kept of a conversation before its client's own file came in."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from test_histories import brought_in, lines, reasons, turns

from helpers import Database
from pgengram.service.conversations import Conversations
from pgengram.service.manager import MemoryManager
from pgengram.store.conversations import Conversation

MAY = 1714557600_000  # 2024-05-01 10:00 UTC, in milliseconds


def stored(path: Path, table: str, **values: Any) -> None:
    """Add values to a database of keys and values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in ("ItemTable", "cursorDiskKV"):
            connection.execute(f"CREATE TABLE IF NOT EXISTS {name} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        rows = [(key.replace("__", ":").replace("_ITEM", ""), json.dumps(value)) for key, value in values.items()]
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)


def workspace(user: Path, folder: str) -> Path:
    place = user / "workspaceStorage" / "0a1b"
    place.mkdir(parents=True)
    (place / "workspace.json").write_text(json.dumps({"folder": f"file://{folder}"}), encoding="utf-8")
    return place


PLAN = "1. Lay the keel." * 60


async def test_cursors_user_folder_keeps_the_messages_of_each_chat_in_their_order(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    user = tmp_path / "Cursor" / "User"
    tool = {"name": "read_file", "rawArgs": '{"path": "hull.py"}', "result": '{"contents": "tar = 3"}'}
    stored(
        user / "globalStorage" / "state.vscdb", "cursorDiskKV",
        composerData__c1={"composerId": "c1", "name": "The hull", "createdAt": MAY, "fullConversationHeadersOnly": [
            {"bubbleId": name, "type": 1 + (name != "b1")} for name in ("b1", "b2", "b3", "b4", "b5", "b6", "gone")]},
        bubbleId__c1__b1={"type": 1, "text": "How thick is the tar?", "createdAt": "2024-05-01T10:01:00.000Z"},
        bubbleId__c1__b2={"type": 2, "text": "", "thinking": {"text": "Hm."}},
        bubbleId__c1__b3={"type": 2, "text": "", "toolFormerData": tool},
        bubbleId__c1__b4={"type": 2, "text": "Three layers.", "timingInfo": {"clientRpcSendTime": MAY + 120_000}},
        bubbleId__c1__b5={"type": 1, "text": "", "richText": json.dumps({"root": {"children": [
            {"children": [{"text": "Lay "}, {"text": "a keel."}]}, {"children": [{"text": "Of oak."}]}]}})},
        bubbleId__c1__b6={"type": 2, "text": "", "toolFormerData": {"name": "create_plan", "rawArgs": json.dumps({"plan": PLAN})}},
        composerData__c2={"composerId": "c2", "createdAt": MAY, "conversation": [{"bubbleId": "x", "type": 1, "text": "Inline."}]},
        somethingElse={"text": "Not a chat."},
    )  # fmt: skip
    place = workspace(user, "/nowhere/a%20big/ark")
    chats = {
        "tabs": [
            {
                "tabId": "t1",
                "chatTitle": "Old",
                "lastSendTime": MAY,
                "bubbles": [{"type": "ai", "rawText": "Long ago."}],
            }
        ]
    }
    with_dots = {
        "composer.composerData": {"allComposers": [{"composerId": "c1"}]},
        "workbench.panel.aichat.view.aichat.chatdata": chats,
    }
    stored(place / "state.vscdb", "ItemTable", **with_dots)

    report = await brought_in(manager, user)

    assert (report.system, dict(report.added), reasons(report)) == (
        "cursor",
        {"turn": 7},
        {"it is listed but missing": 1},
    )
    assert [row[1:] for row in turns(database)] == [
        ("c1", "user", "How thick is the tar?", "2024-05-01 10:01"),
        ("c1", "tool", 'read_file {"path": "hull.py"}\ntar = 3', "2024-05-01 10:01"),
        ("c1", "assistant", "Three layers.", "2024-05-01 10:02"),
        ("c1", "user", "Lay a keel.\nOf oak.", "2024-05-01 10:02"),
        ("c1", "assistant", PLAN, "2024-05-01 10:02"),
        ("c2", "user", "Inline.", "2024-05-01 10:00"),
        ("t1", "assistant", "Long ago.", "2024-05-01 10:00"),
    ]
    assert database.rows("SELECT project, title FROM conversations WHERE conversation = 'c1'") == [
        {"project": "ark", "title": "The hull"}
    ]


async def test_cursors_database_alone_is_recognised(manager: MemoryManager, tmp_path: Path) -> None:
    stored(
        tmp_path / "copy.db",
        "cursorDiskKV",
        composerData__c={"createdAt": MAY, "conversation": [{"type": 1, "text": "Ahoy."}]},
    )

    report = await brought_in(manager, tmp_path / "copy.db")

    assert (report.system, dict(report.added)) == ("cursor", {"turn": 1})


def request(text: str, at: int, *response: Any, **more: Any) -> dict[str, Any]:
    return {
        "requestId": f"r-{at}",
        "message": {"text": text, "parts": []},
        "timestamp": at,
        "response": list(response),
        **more,
    }


async def test_vs_codes_chats_are_read_from_json_and_from_the_log_of_changes(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    user = tmp_path / "Code" / "User"
    place = workspace(user, "/nowhere/ark")
    tool = {
        "kind": "toolInvocationSerialized",
        "invocationMessage": {"value": "Reading"},
        "pastTenseMessage": {"value": "Read hull.py"},
    }
    reference = {"kind": "inlineReference", "inlineReference": {"path": "/nowhere/ark/hull.py"}}
    whole = {
        "version": 3, "responderUsername": "GitHub Copilot", "sessionId": "j-1", "creationDate": MAY, "customTitle": "Tar",
        "requests": [
            request("Where is the tar?", MAY, {"kind": "thinking", "value": "Hm."}, {"value": "In "}, reference, tool, {"value": "There."},
                    result={"timings": {"totalElapsed": 60_000}, "metadata": {"big": "x"}}),
            request("Undone.", MAY + 1, {"value": "Gone."}, isHidden=True),
        ],
    }  # fmt: skip
    lines(place / "chatSessions" / "11111111-1111-4111-8111-111111111111.json", whole)
    log = place / "chatSessions" / "22222222-2222-4222-8222-222222222222.jsonl"
    lines(
        log,
        {"kind": 0, "v": {"version": 3, "responderUsername": "GitHub Copilot", "sessionId": "l-1", "creationDate": MAY, "requests": []}},
        {"kind": 1, "k": ["inputState", "inputText"], "v": "typing"},
        {"kind": 2, "k": ["requests"], "v": [request("Which wood?", MAY)]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "Pine."}]},
        {"kind": 2, "k": ["requests", 0, "response"], "i": 0, "v": [{"value": "Oak."}]},
        {"kind": 1, "k": ["requests", 0, "modelState"], "v": {"value": 1, "completedAt": MAY + 60_000}},
        {"kind": 1, "k": ["requests", 7, "response"], "v": []},
        {"kind": 3, "k": ["customTitle"]} | {"kind": 1, "v": "Wood"},
    )  # fmt: skip
    empty = user / "globalStorage" / "emptyWindowChatSessions" / "33333333-3333-4333-8333-333333333333.json"
    lines(empty, {"requesterUsername": "ada", "requests": [], "sessionId": "e-1"})

    report = await brought_in(manager, user)

    assert (report.system, dict(report.added)) == ("vscode", {"turn": 5})
    assert reasons(report) == {"it changes something that is missing": 1}
    assert [row[1:] for row in turns(database)] == [
        ("j-1", "user", "Where is the tar?", "2024-05-01 10:00"),
        ("j-1", "tool", "Read hull.py", "2024-05-01 10:01"),
        ("j-1", "assistant", "In hull.py\n\nThere.", "2024-05-01 10:01"),
        ("l-1", "user", "Which wood?", "2024-05-01 10:00"),
        ("l-1", "assistant", "Oak.", "2024-05-01 10:01"),
    ]
    assert database.rows("SELECT project, title FROM conversations ORDER BY conversation") == [
        {"project": "ark", "title": "Tar"}, {"project": "ark", "title": "Wood"},
    ]  # fmt: skip


async def test_what_hooks_kept_of_a_gemini_session_is_there_once_and_in_order_after_its_file_came_in(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    began = datetime(2026, 11, 1, 10, tzinfo=UTC)
    said = [
        ("user", "Name a river."),
        ("gemini", "The Rhône."),
        ("user", "Yes."),
        ("info", "Updated."),
        ("gemini", "The Loire."),
        ("user", "Yes."),
    ]
    messages = [
        {"id": str(number), "timestamp": (began + timedelta(minutes=number)).isoformat(), "type": type_, "content": text}
        for number, (type_, text) in enumerate(said)
    ]  # fmt: skip
    path = tmp_path / "tmp" / "ark" / "chats" / "session-1.json"
    lines(path, {"sessionId": "g-1", "projectHash": "0" * 64, "messages": messages})
    kept = Conversations(manager)
    await kept.set_keeping(keep_days=3_650)
    for number in (4, 5):  # hooks came in late, and their moments are a little later
        role = "user" if said[number][0] == "user" else "assistant"
        at = began + timedelta(minutes=number, seconds=2)
        await kept.keep_told(Conversation("gemini-cli", "g-1", "ark"), (role, said[number][1]), at)

    first = await brought_in(manager, path)
    later = began + timedelta(minutes=9)
    await kept.keep_told(Conversation("gemini-cli", "g-1", "ark"), ("assistant", "The Seine."), later)
    told = await kept.turns("g-1")

    assert (dict(first.added), dict(first.known)) == ({"turn": 3}, {"turn": 2})
    assert [turn["text"] for turn in told] == [
        "Name a river.", "The Rhône.", "Yes.", "The Loire.", "Yes.", "The Seine.",
    ]  # fmt: skip
    page = await kept.turns("g-1", client="gemini-cli", after=told[2]["id"], limit=2)
    assert [turn["text"] for turn in page] == ["The Loire.", "Yes."]
