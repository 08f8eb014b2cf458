"""Exports that are plain records: for each system its lists or tables, and what a row of each becomes.

To add a system, add its line to `LAYOUTS`: the member of its JSON object (`""` for an array) or the table of its SQLite
file, with a function from a row to what it becomes, a text that says why it is left out, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from zlib import crc32

from pgengram.store.conversations import FROM_FILE, LAST, Conversation
from pgengram.transfer.input.reading import is_sqlite, records_of, tables_of
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import (
    Item,
    Left,
    Read,
    Said,
    as_json,
    edge,
    end_of_day,
    known_kind,
    made_of,
    mapping,
    memory,
    moment,
    picked_fields,
    said_or_left,
    tag_words,
)
from pgengram.transfer.transcripts import texts_in

Row = dict[str, Any]
Made = dict[str, Any] | Said | Left | list[Said | Left]  # a record, a turn, or why it is neither
Makers = Mapping[str, Callable[[str, Row], Made]]


def read(system: str, source: Source) -> Read:
    """Read the rows of an export of `system`."""
    makers = LAYOUTS[system]
    facts: list[tuple[str, str, Row]] = []  # of a graph: a fact's memory, and the row that names its ends
    nodes: dict[str, str] = {}
    for place, key, row in _rows_of_layout(source, makers):
        if isinstance(row, Left):
            yield row
            continue
        maker = makers.get(key)
        made = (
            made_of(place, maker, place, row)
            if maker
            else Left(place, f"{key or 'a list'} holds no memories", by_design=True)
        )
        if isinstance(made, dict):
            if "source_node_uuid" in row:
                facts.append((place, made["id"], row))
            elif "uuid" in row:
                nodes[str(row["uuid"])] = made["id"]
            yield Item(place, made)
        else:
            yield from made if isinstance(made, list) else (made,)
    for place, id_, row in facts:
        for end in ("source_node_uuid", "target_node_uuid"):
            node = nodes.get(str(row.get(end)))
            yield Item(place, edge(id_, node, "about")) if node else Left(place, "one of its entities is missing")


def _rows_of_layout(source: Source, makers: Makers) -> Iterator[tuple[str, str, Any]]:
    if is_sqlite(source):
        tables = tables_of(source)
        for name in makers:
            for number, row in enumerate(tables.rows(name), 1):
                yield f"{name} {number}", name, row
        return
    for record in records_of(source, "*.json", "*.jsonl", "*.af"):
        value = record if isinstance(record, Left) else record.value
        if not isinstance(value, dict | Left):
            value = Left(record.place, "it is not a JSON object")
        yield record.place, "" if isinstance(record, Left) else record.key, value


def _mem0(_: str, row: Row) -> Made:
    own = mapping(row.get("metadata"))
    written = row.get("expiration_date") or own.get("expiration_date")
    expires = end_of_day(written)
    names = ("agent_id", "app_id", "run_id", "role", "actor_id", *(() if expires else ("expiration_date",)))
    named = {name: row[name] for name in names if row.get(name)}
    made = memory(
        "mem0", row.get("id"), row.get("memory") or row.get("text") or row.get("content"),
        tags=row.get("categories"), metadata={**own, **named}, expires_at=expires,
        speaker=row.get("actor_id") or ("assistant" if (row.get("role") or own.get("role")) == "assistant" else None),
        **picked_fields(row, "created_at", "updated_at", user="user_id"),
    )  # fmt: skip
    return made | _state(row)


def _state(row: Row) -> dict[str, Any]:
    """Return what became of a memory that its program still has, such as OpenMemory."""
    if row.get("state") == "archived" or row.get("archived_at"):
        return {"status": "archived"} | _changed(row, "archived_at")
    if row.get("state") == "deleted" or row.get("deleted_at"):
        return {"status": "invalidated", "valid_to": _text_or_none(row.get("deleted_at"))} | _changed(row, "deleted_at")
    return {}


def _changed(row: Row, name: str) -> dict[str, Any]:
    """Return that a memory was changed when it ended, so that a later import brings that."""
    times = [at for at in (moment(row.get(name)), moment(row.get("updated_at"))) if at]
    return {"updated_at": _text_or_none(max(times))} if times else {}


def _hindsight(_: str, row: Row) -> Made:
    sort = row.get("fact_type") or row.get("type")
    kept = {"entities": row.get("entities"), "context": row.get("context"), "fact_type": sort}
    return memory(
        "hindsight", row.get("id"), row.get("text"),
        created_at=row.get("mentioned_at") or row.get("date") or row.get("created_at"),
        metadata={**mapping(row.get("metadata")), **{name: value for name, value in kept.items() if value}},
        **picked_fields(row, "tags", occurred_at="occurred_start"),
    )  # fmt: skip


def _claude_mem(_: str, row: Row) -> Made:
    facts = as_json(row.get("facts"))
    lines = [f"- {fact}" for fact in facts] if isinstance(facts, list) else []
    body = row.get("narrative") or row.get("text") or row.get("subtitle") or ""
    text = "\n".join(filter(None, [row.get("title"), body, *lines]))
    files = {name: as_json(row.get(name)) for name in ("files_read", "files_modified") if row.get(name)}
    return memory(
        "claude-mem", row.get("id"), text, tags=[*tag_words(row.get("concepts")), *tag_words(row.get("type"))],
        kind=row.get("type"), metadata=files, created_at=row.get("created_at_epoch") or row.get("created_at"),
        **picked_fields(row, "project"),
    )  # fmt: skip


def _summary_item(place: str, row: Row) -> Made:
    names = ("request", "investigated", "learned", "completed", "next_steps", "notes")
    text = "\n".join(f"{name.replace('_', ' ').capitalize()}: {row[name]}" for name in names if row.get(name))
    if not text:
        return Left(place, "it is empty")
    at = row.get("created_at_epoch") or row.get("created_at")
    return memory(
        "claude-mem", f"summary {row.get('id')}", text, tags=["summary"], created_at=at, **picked_fields(row, "project")
    )


def _prompt_item(client: str, place: str, row: Row) -> Made:
    session = next(
        (row[name] for name in ("content_session_id", "claude_session_id", "session_id") if row.get(name)), ""
    )
    text = row.get("prompt_text") or row.get("content") or ""
    own = row.get("prompt_number") or row.get("id")
    number = FROM_FILE + (own if isinstance(own, int) else crc32(str(own).encode()) >> 2)
    time = moment(row.get("created_at_epoch") or row.get("created_at"))
    conversation = Conversation(client, str(session), row.get("project") or None)
    return said_or_left(place, conversation, min(number, LAST), "user", str(text), time)


def _engram(_: str, row: Row) -> Made:
    title, body = row.get("title") or "", row.get("content") or ""
    kept = {name: row[name] for name in ("topic_key", "tool_name", "scope") if row.get(name)}
    made = memory(
        "engram", row.get("sync_id") or f"{row.get('session_id')}/{row.get('id')}",
        body if title in body else f"{title}\n{body}".strip(),
        tags=[row["type"]] if row.get("type") and known_kind(row["type"]) is None else [], metadata=kept,
        **picked_fields(row, "project", "created_at", "updated_at", "session_id", kind="type"),
    )  # fmt: skip
    return made | _state(row)


def _entity_item(place: str, row: Row) -> Made:
    name, summary = row.get("name"), row.get("summary") or ""
    if not name:
        return Left(place, "it has no name")
    labels = [label for label in row.get("labels") or [] if label != "Entity"]
    kept = mapping(row.get("attributes")) | ({"group_id": row["group_id"]} if row.get("group_id") else {})
    text = f"{name}: {summary}" if summary else str(name)
    return memory("graphiti", row.get("uuid"), text, tags=labels, metadata=kept, **picked_fields(row, "created_at"))


def _fact_item(_: str, row: Row) -> Made:
    ended = moment(row.get("invalid_at")) or moment(row.get("expired_at"))
    end: dict[str, Any] = {}
    if ended and ended > datetime.now(UTC):
        end = {"expires_at": _text_or_none(ended)}
    elif ended:
        end = {"status": "invalidated", "valid_to": _text_or_none(ended), "updated_at": _text_or_none(ended)}
    kept = {name: row[name] for name in ("name", "group_id", "episodes") if row.get(name)}
    made = memory(
        "graphiti", row.get("uuid"), row.get("fact"), metadata=kept,
        created_at=row.get("created_at"), occurred_at=row.get("valid_at"),
    )  # fmt: skip
    return made | end


def _episode(_: str, row: Row) -> Made:
    text = row.get("content") or row.get("episode_body")
    kept = {name: row[name] for name in ("name", "source_description", "group_id") if row.get(name)}
    at = row.get("valid_at") or row.get("reference_time")
    return memory(
        "graphiti", row.get("uuid"), text, metadata=kept, created_at=row.get("created_at") or at, occurred_at=at
    )


def _block(place: str, row: Row) -> Made:
    if not row.get("value"):
        return Left(place, "it is empty", by_design=True)
    label = str(row.get("label") or "")
    kept = {"label": label, "description": row.get("description")}
    text = f"{label}: {row['value']}" if label else row["value"]
    return memory(
        "letta", row.get("id"), text, tags=[label], metadata=kept, **picked_fields(row, "created_at", "updated_at")
    )


def _passage(_: str, row: Row) -> Made:
    kept = mapping(row.get("metadata"))
    return memory("letta", row.get("id"), row.get("text"), metadata=kept, **picked_fields(row, "tags", "created_at"))


def _agent(place: str, row: Row) -> Made:
    conversation = Conversation("letta", str(row.get("id") or row.get("name") or place), title=row.get("name"))
    turns = []
    for number, message in enumerate(row.get("messages") or []):
        where = f"{place}, message {number + 1}"
        turns.append(made_of(where, _turn, where, conversation, number, message))
    return turns


def _lone_message(place: str, row: Row) -> Said | Left:
    """Return a message of an agent file of the first version, which is an agent by itself; messages have no names."""
    conversation = Conversation("letta", place.rpartition(", byte")[0])
    role, text = _said_to_letta(row)
    id_ = f"{row.get('created_at')}\0{text}"
    return said_or_left(place, conversation, FROM_FILE, role, text, moment(row.get("created_at")), id_=id_)


def _turn(place: str, conversation: Conversation, number: int, message: Row) -> Said | Left:
    role, text = _said_to_letta(message)
    return said_or_left(place, conversation, number, role, text, moment(message.get("created_at")))


def _said_to_letta(message: Row) -> tuple[str, str]:
    """Return who said a message, and what: what users say is wrapped, and what an agent says may be a call of a
    tool; its text is what it thinks then.
    """
    role = str(message.get("role"))
    text = "\n\n".join(texts_in(message.get("content") or message.get("text"))).strip()
    wrapped = mapping(text) if role in ("user", "tool") else {}
    if role == "user" and wrapped.get("type", "user_message") != "user_message":
        return "", ""  # a heartbeat or an alert
    if "message" in wrapped:
        text = "" if wrapped["message"] in (None, "None") else str(wrapped["message"])
    calls = [mapping(call.get("function")) for call in message.get("tool_calls") or [] if isinstance(call, dict)]
    spoken = [mapping(call.get("arguments")).get("message") for call in calls if call.get("name") == "send_message"]
    return role if role in ("user", "assistant", "tool") else "", "\n\n".join(map(str, filter(None, spoken))) or text


def _text_or_none(value: Any) -> str | None:
    at = moment(value)
    return at.isoformat() if at else None


LAYOUTS: Final[dict[str, Makers]] = {
    "mem0": dict.fromkeys(("", "results", "memories"), _mem0),
    "hindsight": dict.fromkeys(("", "items", "results", "memories", "facts"), _hindsight),
    "claude-mem": {
        "observations": _claude_mem,
        **dict.fromkeys(("summaries", "session_summaries"), _summary_item),
        **dict.fromkeys(("prompts", "user_prompts"), partial(_prompt_item, "claude-code")),
    },
    "engram": {"observations": _engram, **dict.fromkeys(("prompts", "user_prompts"), partial(_prompt_item, "engram"))},
    "graphiti": {
        **dict.fromkeys(("nodes", "entities", "entity_nodes"), _entity_item),
        **dict.fromkeys(("edges", "facts", "entity_edges"), _fact_item),
        **dict.fromkeys(("episodes", "episodic_nodes"), _episode),
    },
    "letta": {
        **dict.fromkeys(("blocks", "core_memory"), _block),
        "agents": _agent,
        "messages": _lone_message,
        **dict.fromkeys(("", "passages", "archival_memory"), _passage),
    },
}
