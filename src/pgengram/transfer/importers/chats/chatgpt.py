"""ChatGPT's export: conversations.json, or several numbered ones, in a zip or folder.

A conversation is a tree, as questions can be edited and answers made again; what is shown at the end is taken. A canvas
is kept whole, as it was at the end, in the message that changed it last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pgengram.store.conversations import Conversation
from pgengram.transfer.input.json_records import Record
from pgengram.transfer.input.reading import records_of
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import EDITED, Left, Read, Said, mapping, moment, said_or_left
from pgengram.transfer.transcripts import Works, withdrawn

CLIENT: Final = "chatgpt"
NEW_KIND: Final = "what was said is in a form that this version doesn't know"
THOUGHTS: Final = ("thoughts", "reasoning_recap")
NOT_TEXT: Final = {
    "image_asset_pointer": "[image]",
    "audio_asset_pointer": "[audio]",
    "video_container_asset_pointer": "[video]",
}


def read(source: Source) -> Read:
    """Read the turns of every conversation."""
    for record in records_of(source, "conversations*.json"):
        yield from _conversation_turns(record) if isinstance(record, Record) else (record,)


def _conversation_turns(record: Record) -> Iterator[Said | Left]:
    raw = mapping(record.value)
    nodes, id_ = raw.get("mapping"), raw.get("conversation_id") or raw.get("id")
    if not isinstance(nodes, dict) or not id_:
        yield Left(record.place, "it is not a conversation of ChatGPT")
        return
    messages = _nodes_by_time(nodes)
    shown = _current_branch(nodes, raw.get("current_node"), messages[-1][0] if messages else None)
    times = [moment(message.get("create_time")) for _, message in messages]
    as_of = max(filter(None, (moment(raw.get("update_time")), *times)), default=None)
    time = moment(raw.get("create_time"))
    conversation = Conversation(CLIENT, str(id_), title=raw.get("title") or None, as_of=as_of, began_at=time)
    works = Works()
    for number, (name, message) in enumerate(messages):
        if name in shown:
            works.take_canvas(number, str(message.get("recipient")), _role_and_text(message)[1])
    for number, (name, message) in enumerate(messages):
        time = times[number] or time
        place = f"{record.place}, message {name}"
        role, text, outdated = _as_it_stands(message, number, works, is_shown=name in shown)
        if why := _why_left(message, role, is_shown=name in shown):
            yield Left(place, why, by_design=why == EDITED)
        else:
            yield said_or_left(
                place, conversation, number, role, text, time, id_=name, withdrawn=outdated or name not in shown
            )


def _why_left(message: Mapping[str, Any], role: str, *, is_shown: bool) -> str:
    """Return why nothing can be said of a message; empty where that is not so."""
    if not role and not is_shown:
        return EDITED
    return NEW_KIND if role == "user" and not mapping(message.get("content")).keys() & {"parts", "text"} else ""


def _as_it_stands(message: Mapping[str, Any], number: int, works: Works, *, is_shown: bool) -> tuple[str, str, bool]:
    """Return who said a message, its text or finished canvas, and whether a later state replaced that one."""
    role, text = _role_and_text(message)
    if finished := works.finished_in(number):
        return "assistant", "\n\n".join(finished.values()), False
    outdated = number in works.changed
    left_canvas = not is_shown and str(message.get("recipient")).startswith("canmore.")
    # An earlier export may have had the canvas as it was then.
    return ("assistant" if outdated or left_canvas else role), text, outdated


def _nodes_by_time(nodes: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the messages by their time, so that those of a later export come after those of this one."""
    messages = [
        (name, node["message"])
        for name, node in nodes.items()
        if isinstance(node, dict) and isinstance(node.get("message"), dict)
    ]
    times = [moment(message.get("create_time")) for _, message in messages]
    for place, time in enumerate(times[1:], 1):
        times[place] = time or times[place - 1]
    order = sorted(range(len(messages)), key=lambda place: (at.timestamp() if (at := times[place]) else 0.0, place))
    return [messages[place] for place in order]


def _current_branch(nodes: Mapping[str, Any], current: Any, last: str | None) -> set[str]:
    """Return the names of the messages that lead to the current one, or where none is current, to the last one."""
    leaf = current if isinstance(current, str) and current in nodes else last
    parents = {name: mapping(node).get("parent") for name, node in nodes.items()}
    return set(nodes) - withdrawn(parents, leaf) if leaf else set(nodes)


def _role_and_text(message: Mapping[str, Any]) -> tuple[str, str]:
    """Return who said a message and its text; no role where nobody did."""
    author, content = message.get("author") or {}, message.get("content") or {}
    role, kind = author.get("role"), content.get("content_type")
    hidden = (message.get("metadata") or {}).get("is_visually_hidden_from_conversation")
    if role not in ("user", "assistant", "tool") or hidden or kind in THOUGHTS or kind == "user_editable_context":
        return "", ""
    parts = content.get("parts")
    texts = [content["text"]] if isinstance(content.get("text"), str) else map(_part_text, parts or [])
    by_tool = role == "tool" or (role == "assistant" and (message.get("recipient") or "all") != "all")
    return "tool" if by_tool or kind == "execution_output" else str(role), "\n\n".join(filter(None, texts)).strip()


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    return str(part.get("text") or "") or NOT_TEXT.get(str(part.get("content_type")), "")
