"""Whatever one record holds, it costs that record alone: every importer, with one value replaced by a hostile one."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from helpers import Database, examples
from pgengram.errors import InvalidInput
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.transfer.importing import import_from

AT = "2025-09-01T08:30:00Z"
U1, U2 = "0199d0a1-0000-7000-8000-000000000001", "0199d0a1-0000-7000-8000-000000000002"
HOSTILE: list[Any] = [
    None, True, 0, -1, 10**400, 1e308, float("nan"), float("inf"), "", " ", "\ud800", "a\0b", "x" * 70_000, "9" * 3_000,
    "0001-01-01T00:00:00+14:00", "9999-99-99", "²", [], [[]], ["\ud800", None, 5], {}, {"a": None}, {"content": {"x": [1]}},
    json.loads("[" * 150 + "]" * 150), [{"type": "text", "text": 5}, None],
]  # fmt: skip
# For each system what a record of it looks like, and the file around two records.
RECORDS: dict[str, dict[str, Any]] = {
    "jsonl": {"record": "memory", "id": U1, "content": "T", "type": "episodic", "kind": "event", "tags": ["a"], "importance": 0.5, "metadata": {"room": "x"},
              "created_at": AT, "updated_at": AT, "sources": [{"kind": "web", "ref": "https://x.org"}], "replaced_by": [U2], "detail": {"event_time": AT},
              "activation": {"importance": 0.5, "rate_per_day": 0.05, "started_at": AT, "access_count": 1, "used_at": [AT], "use_weights": [1.0]},
              "history": [{"version": 1, "operation": "create", "at": AT, "actor": "x", "changes": {"content": ["a", "b"]}}]},
    "mem0": {"id": "a", "memory": "T", "user_id": "ada", "categories": ["a"], "metadata": {"x": 1}, "created_at": AT, "updated_at": AT, "expiration_date": "2030-01-31"},
    "hindsight": {"id": "a", "text": "T", "fact_type": "world", "context": "c", "entities": ["E"], "tags": ["a"], "mentioned_at": AT, "occurred_start": AT},
    "claude-mem": {"id": 1, "title": "T", "narrative": "n", "facts": '["f"]', "concepts": '["c"]', "type": "decision", "files_read": '["a.py"]', "project": "p", "created_at": AT},
    "engram": {"id": 1, "title": "T", "content": "c", "type": "decision", "project": "p", "session_id": "s", "created_at": AT, "updated_at": AT, "deleted_at": None},
    "graphiti": {"uuid": "a", "name": "T", "summary": "s", "labels": ["Entity", "L"], "attributes": {"a": 1}, "group_id": "g", "created_at": AT},
    "letta": {"id": "a", "text": "T", "tags": ["a"], "metadata": {"a": 1}, "created_at": AT},
    "mcp-memory": {"type": "entity", "name": "T", "entityType": "person", "observations": ["o", {"content": "p", "timestamp": AT}], "createdAt": AT, "tags": ["a"]},
    "mcp-memory-service": {"content": "T", "content_hash": "h", "tags": ["a"], "memory_type": "note", "metadata": {"x": 1}, "created_at": 1_714_557_600.5, "updated_at_iso": AT},
    "ownsona": {"id": "a", "text": "T", "tags": ["a"], "importance": 0.5, "source_provider": "x", "created_at": AT, "metadata": {"x": 1}, "deleted_at": None, "expires_at": None},
    "agi": {"id": U1, "type": "semantic", "content": "T", "importance": 0.5, "created_at": AT, "status": "active"},
    "json": {"text": "T", "date": AT, "tags": ["a"], "importance": 0.5, "user": "u", "more": {"x": 1}},
}  # fmt: skip
WHOLE: dict[str, Any] = {
    "claude-mem": lambda rows: {"totalObservations": 2, "observations": rows},
    "engram": lambda rows: {"exported_at": AT, "observations": rows},
    "graphiti": lambda rows: {"nodes": rows},
    "letta": lambda rows: {"passages": rows},
    "mcp-memory-service": lambda rows: {"memories": rows},
    "ownsona": lambda rows: {"memories": rows},
    "agi": lambda rows: {"memories": rows, "semantic_memories": []},
}
IN_LINES = ("jsonl", "mcp-memory")
TEXT: dict[str, str] = {"mem0": "memory", "hindsight": "text", "claude-mem": "title", "engram": "title", "graphiti": "name", "letta": "text", "mcp-memory": "name",
        "ownsona": "text", "json": "text"}  # fmt: skip
KEYS = ("id", "uuid", "content_hash")


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where there are values in a record, the record itself among them."""
    yield above
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*above, key))


def replaced(record: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    made = copy.deepcopy(record)
    inner = made
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return made


def chosen(record: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Return some of the values that could be replaced, each with what replaces it; in the thorough run more."""
    every = [(place, value) for place in places(record) for value in HOSTILE]
    return random.Random(len(every)).sample(every, min(len(every), examples(10)))


def good(system: str, text: str, number: int) -> dict[str, Any]:
    record = copy.deepcopy(RECORDS[system]) | {TEXT.get(system, "content"): text}
    return record | {key: str(uuid4()) for key in KEYS if key in record} | ({"name": text} if "name" in record else {})


@pytest_asyncio.fixture
async def store(database: Database) -> AsyncIterator[MemoryManager]:
    manager = MemoryManager(Settings(database_url=database.url, embedder="none:", secrets="redact"))
    yield manager
    await manager.close()


@pytest.mark.parametrize("system", RECORDS)
async def test_a_record_of_any_form_costs_itself_alone(
    store: MemoryManager, database: Database, tmp_path: Path, system: str
) -> None:
    for number, (place, value) in enumerate(chosen(RECORDS[system])):
        texts = [f"Before {system} {number}.", f"After {system} {number}."]
        rows = [good(system, texts[0], 0), replaced(RECORDS[system], place, value), good(system, texts[1], 1)]
        lines = [json.dumps(row) for row in rows]
        text = "\n".join(lines) if system in IN_LINES else json.dumps(WHOLE.get(system, list)(rows))
        path = tmp_path / f"{number}.json"
        path.write_text(text, encoding="utf-8")
        options = {"mapping": {"content": "text", "created_at": "date"}} if system == "json" else {}

        report = await import_from(store, system, str(path), dry_run=False, report=lambda *_: None, **options)

        found = database.value(
            "SELECT count(*) FROM memories WHERE content LIKE %s OR content LIKE %s", [f"%{one}%" for one in texts]
        )
        assert found >= 2, (system, place, repr(value)[:60], report.left)


CHATS: dict[str, Any] = {
    "chatgpt": [{"id": "c", "title": "t", "create_time": 1.0, "current_node": "b", "mapping": {
        "a": {"id": "a", "parent": None, "message": {"author": {"role": "user"}, "create_time": 1.0, "content": {"content_type": "text", "parts": ["hi"]}}},
        "b": {"id": "b", "parent": "a", "message": {"author": {"role": "assistant"}, "create_time": 2.0, "content": {"content_type": "text", "parts": ["ho"]}}}}}],
    "claude-ai": [{"uuid": "c", "name": "t", "created_at": AT, "chat_messages": [{"uuid": "m", "sender": "human", "text": "hi", "created_at": AT,
        "content": [{"type": "text", "text": "hi"}], "attachments": [{"file_name": "a", "extracted_content": "x"}]}]}],
    "gemini-cli": {"sessionId": "s", "projectHash": "h", "messages": [{"id": "m", "type": "user", "timestamp": AT, "content": "hi"}]},
    "claude-code": {"type": "user", "uuid": "u", "timestamp": AT, "sessionId": "s", "cwd": "/w", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}},
    "codex": {"type": "response_item", "timestamp": AT, "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}},
}  # fmt: skip


@pytest.mark.parametrize("system", CHATS)
async def test_a_conversation_of_any_form_ends_no_import(store: MemoryManager, tmp_path: Path, system: str) -> None:
    for number, (place, value) in enumerate(chosen(CHATS[system])):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps(replaced(CHATS[system], place, value)), encoding="utf-8")
        with suppress(InvalidInput):
            await import_from(store, system, str(path), dry_run=False, report=lambda *_: None)
