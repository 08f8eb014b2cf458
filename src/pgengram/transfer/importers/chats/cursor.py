"""Cursor's chats: its User folder, or one of its databases state.vscdb.

The one in globalStorage has the chats, each with the list of its messages; those in workspaceStorage say which folder a
chat is about, and have the chats of earlier versions. Nobody documents this; it is what others have found.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pgengram.store.conversations import FROM_FILE, Conversation
from pgengram.transfer.input.containers import SQLITE, read_only
from pgengram.transfer.input.reading import Projects, files_of, project_folders
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import Left, Read, as_json, mapping, moment
from pgengram.transfer.transcripts import Line, Uttered, by_person, called

CLIENT: Final = "cursor"
ROLES: Final = {1: "user", 2: "assistant", "user": "user", "ai": "assistant"}
PLANS: Final = "create_plan"  # the tool that lays a plan before the user
CHATS: Final = "SELECT key, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY key"
MESSAGE: Final = "SELECT value FROM cursorDiskKV WHERE key = ?"
ITEM: Final = "SELECT value FROM ItemTable WHERE key = ?"
OF_A_FOLDER: Final = "composer.composerData"
EARLIER: Final = "workbench.panel.aichat.view.aichat.chatdata"


def read(source: Source) -> Read:
    """Read the turns of every chat, a message at a time."""
    databases: list[tuple[PurePosixPath, Path]] = []
    for file in files_of(source, "state.vscdb"):
        path = None if isinstance(file, Left) else source.on_disk(file)
        if isinstance(file, Left):
            yield file
        elif path is None or not next(source.chunks(file), b"").startswith(SQLITE):
            yield Left(file.place, "it isn't a SQLite database, or it is in a zip; unpack it")
        else:
            databases.append((file.path, path))
    projects = _projects(source, databases)
    for place, path in databases:
        try:
            with closing(read_only(path)) as database:
                yield from _chats(database, str(place), projects)
        except sqlite3.DatabaseError as error:
            yield Left(str(place), f"it can't be read to its end: {error}")


def _projects(source: Source, databases: list[tuple[PurePosixPath, Path]]) -> dict[str, str | None]:
    """Return the projects of chats, as far as the database of a folder names them."""
    folders, projects = project_folders(source), Projects()
    found: dict[str, str | None] = {}
    for place, path in databases:
        if folder := folders.get(place.parent):
            try:
                with closing(read_only(path)) as database:
                    chats = mapping(_stored_text(database, ITEM, OF_A_FOLDER)).get("allComposers")
            except sqlite3.DatabaseError:
                continue  # told when its chats are read
            for chat in chats if isinstance(chats, list) else ():
                found[str(mapping(chat).get("composerId"))] = projects.named(folder)
    return found


def _stored_text(database: sqlite3.Connection, statement: str, key: str) -> str | None:
    """Return the text of a key; None where it, or its table, is not there."""
    try:
        row = database.execute(statement, (key,)).fetchone()
    except sqlite3.OperationalError:  # no such table
        return None
    return _lexical_text(row[0]) if row else None


def _lexical_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _chats(database: sqlite3.Connection, place: str, projects: Mapping[str, str | None]) -> Read:
    tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for key, value in database.execute(CHATS) if "cursorDiskKV" in tables else ():
        chat = mapping(_lexical_text(value))
        if not chat:
            yield Left(f"{place}, {key}", "it is not valid JSON")
            continue
        id_ = str(chat.get("composerId") or key.partition(":")[2])
        conversation = Conversation(CLIENT, id_, projects.get(id_), title=chat.get("name") or None)
        yield from _bubble_turns(
            f"{place}, {key}", conversation, moment(chat.get("createdAt")), _messages(database, id_, chat)
        )
    yield from _earlier(database, place)


def _earlier(database: sqlite3.Connection, place: str) -> Read:
    """Read the chats that earlier versions kept in the database of a folder."""
    tabs = mapping(_stored_text(database, ITEM, EARLIER)).get("tabs")
    for tab in map(mapping, tabs if isinstance(tabs, list) else ()):
        conversation = Conversation(CLIENT, str(tab.get("tabId")), title=tab.get("chatTitle") or None)
        bubbles = tab.get("bubbles")
        raw = ((number, mapping(one)) for number, one in enumerate(bubbles if isinstance(bubbles, list) else ()))
        yield from _bubble_turns(f"{place}, {tab.get('tabId')}", conversation, moment(tab.get("lastSendTime")), raw)


def _messages(
    database: sqlite3.Connection, id_: str, chat: Mapping[str, Any]
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the messages of a chat, each by itself or within the chat; None for one that is not there."""
    inside = mapping(chat.get("conversationMap"))
    listed = chat.get("fullConversationHeadersOnly") or chat.get("conversation")
    for number, header in enumerate(map(mapping, listed if isinstance(listed, list) else ())):
        name = str(header.get("bubbleId"))
        raw = mapping(_stored_text(database, MESSAGE, f"bubbleId:{id_}:{name}")) or mapping(inside.get(name))
        message = raw or (header if "text" in header else None)
        yield number, message and {**message, "bubbleId": header.get("bubbleId")}


def _bubble_turns(
    place: str, conversation: Conversation, time: datetime | None, messages: Iterator[tuple[int, dict[str, Any] | None]]
) -> Read:
    for number, message in messages:
        where = f"{place}, message {number + 1}"
        if message is None:
            yield Left(where, "it is listed but missing")
            continue
        time = _message_time(message) or time
        id_ = str(message.get("bubbleId") or "")
        yield from Line(FROM_FILE + number, _bubble_uttered(message), time, conversation.id, id_).as_turns(
            where, conversation
        )


def _rich_text(value: Any) -> str:
    """Return the words of a message as its editor has them: a tree, with a line for each paragraph."""
    lines = mapping(mapping(value).get("root")).get("children")
    return (
        "\n".join(_words_of_node(line) for line in lines if isinstance(line, Mapping))
        if isinstance(lines, list)
        else ""
    )


def _words_of_node(node: Mapping[str, Any]) -> str:
    if isinstance(node.get("text"), str):
        return str(node["text"])
    below = node.get("children")
    return "".join(_words_of_node(one) for one in below if isinstance(one, Mapping)) if isinstance(below, list) else ""


def _message_time(message: Mapping[str, Any]) -> datetime | None:
    timing = mapping(message.get("timingInfo"))
    return moment(message.get("createdAt")) or moment(timing.get("clientRpcSendTime") or timing.get("clientStartTime"))


def _bubble_uttered(message: Mapping[str, Any]) -> Uttered:
    role = ROLES.get(message.get("type") or "", "")
    text = message.get("text") or message.get("rawText") or _rich_text(message.get("richText"))
    if isinstance(text, str) and text.strip():
        return by_person(CLIENT, text) if role == "user" else Uttered(role, text.strip())
    tool = mapping(message.get("toolFormerData"))
    if not role or not tool.get("name"):
        return Uttered()
    return _tool_uttered(tool)


def _tool_uttered(tool: Mapping[str, Any]) -> Uttered:
    plan = mapping(tool.get("rawArgs")).get("plan")
    if tool["name"] == PLANS and isinstance(plan, str):
        return Uttered("assistant", plan.strip())
    result = as_json(tool.get("result"))
    printed = result if isinstance(result, str) else mapping(result).get("output") or mapping(result).get("contents")
    return Uttered("tool", "\n".join(filter(None, [called(tool["name"], tool.get("rawArgs")), str(printed or "")])))
