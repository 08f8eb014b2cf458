"""Claude.ai's export: conversations.json, projects.json and memories.json, in a zip or folder.

A conversation is a tree, as questions can be edited and answers made again; what leads to its end is taken. A work that
was written in it (an artifact, a file) is kept whole, as it was at the end, beside the message that finished it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from pgengram.store.conversations import Conversation
from pgengram.text.notes import Note
from pgengram.transfer.importers.markdown import facts
from pgengram.transfer.input.json_records import Record
from pgengram.transfer.input.reading import records_of
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import Item, Left, Read, Said, mapping, memory, moment, said_or_left
from pgengram.transfer.transcripts import Works, done, message_blocks, withdrawn

SYSTEM: Final = "claude-ai"
ROLES: Final = {"human": "user", "assistant": "assistant"}
NOT_SAID: Final = ("thinking", "redacted_thinking", "tool_use", "tool_result")


def read(source: Source) -> Read:
    """Read conversations as turns; the projects with their documents, and what Claude remembers, as memories."""
    for record in records_of(source, "conversations*.json", "projects*.json", "memories*.json", "projects/*.json"):
        raw = record.value if isinstance(record, Record) else None
        if isinstance(record, Left):
            yield record
        elif not isinstance(raw, dict):
            yield Left(record.place, "it is not a JSON object")
        elif isinstance(raw.get("chat_messages"), list):
            yield from _chat_turns(record)
        elif "docs" in raw or "prompt_template" in raw:
            yield from _project_items(record)
        elif "conversations_memory" in raw or "project_memories" in raw:
            yield from _remembered(record)
        else:
            yield Left(record.place, "it is neither a conversation, a project nor what Claude remembers")


def _chat_turns(record: Record) -> Iterator[Said | Left]:
    raw = record.value
    order = _places_by_time([moment(mapping(one).get("created_at")) for one in raw["chat_messages"]])
    messages = [mapping(raw["chat_messages"][at]) for at in order]
    tree = _tree(record, messages)
    time = tree.conversation.began_at
    for number, message in enumerate(messages):
        place = f"{record.place}, message {order[number] + 1}"
        time = moment(message.get("created_at")) or time
        yield from tree.turns_of(number, message, place, time) if message else [Left(place, "it is not a JSON object")]


@dataclass(frozen=True, slots=True)
class _Tree:
    """One conversation with all its branches.

    has_names: whether each message has a name of its own, so that branches can be told apart.
    withdrawn: the positions of the messages that were edited, or answered again, later.
    works: what was written on the branch that stands; of_all_branches: on any branch.
    """

    conversation: Conversation
    has_names: bool
    withdrawn: set[int]
    works: Works
    of_all_branches: Works

    def turns_of(
        self, number: int, message: Mapping[str, Any], place: str, time: datetime | None
    ) -> Iterator[Said | Left]:
        """Yield what a message says, the works that it finished, and those of which it was once the last state."""
        make = partial(said_or_left, place, self.conversation, number)
        is_withdrawn = number in self.withdrawn
        id_ = message["uuid"] if self.has_names else ""
        work_id = id_ or f"{self.conversation.id} {number}"
        role, text = _role_and_content(message)
        if role != "tool" or number not in self.works.changed:
            yield make(role, text, time, id_=id_, withdrawn=is_withdrawn)
        for name, work in self.works.finished_in(number).items():
            yield make("assistant", work, time, id_=f"{work_id} {name}")
        changed = self.of_all_branches.changed
        outdated = changed.get(number, []) if is_withdrawn else self.works.outdated_in(number)
        for name in dict.fromkeys(outdated):  # an earlier export may have had it as it was then
            yield make("assistant", name, time, id_=f"{work_id} {name}", withdrawn=True)


def _tree(record: Record, messages: Sequence[Mapping[str, Any]]) -> _Tree:
    raw = record.value
    times = (moment(one.get("created_at")) for one in messages)
    as_of = max(filter(None, (moment(raw.get("updated_at")), *times)), default=None)
    conversation = Conversation(
        SYSTEM, str(raw.get("uuid") or record.place), mapping(raw.get("project")).get("name") or None,
        title=raw.get("name") or None, as_of=as_of, began_at=moment(raw.get("created_at")),
    )  # fmt: skip
    has_names = len({one.get("uuid") for one in messages} - {None, ""}) == len(messages)
    left = _left(raw, messages) if has_names else set()
    works, of_all_branches = Works(), Works()
    for number, message in enumerate(messages):
        of_all_branches.take(number, message.get("content"))
        if number not in left:
            works.take(number, message.get("content"))
    return _Tree(conversation, has_names, left, works, of_all_branches)


def _places_by_time(times: Sequence[datetime | None]) -> list[int]:
    """Return the places of messages by their times; an export may begin with the newest."""
    known = [at for at in times if at]
    places = list(range(len(times)))
    if known and known[0] > known[-1]:
        places.reverse()
    sure: dict[int, float] = {}
    before = 0.0
    for place in places:
        before = sure[place] = at.timestamp() if (at := times[place]) else before
    return sorted(places, key=sure.__getitem__)


def _left(raw: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the places of messages that were edited, or answered again, later."""
    numbers = {str(one["uuid"]): number for number, one in enumerate(messages)}
    parents: dict[str, str | None] = {}
    before: str | None = None
    for name, number in numbers.items():
        parents[name] = str(messages[number].get("parent_message_uuid") or before or "") or None
        before = name
    leaf = str(raw.get("current_leaf_message_uuid"))
    above = set(parents.values())
    leaf = leaf if leaf in parents else next((one for one in reversed(parents) if one not in above), before or "")
    return {numbers[name] for name in withdrawn(parents, leaf)} if leaf else set()


def _role_and_content(message: Mapping[str, Any]) -> tuple[str, str]:
    """Return who said a message, and what: its texts, and what is attached to it; else what tools did."""
    role, content = ROLES.get(str(message.get("sender")), ""), message.get("content")
    texts = [*_written_texts(content)] or [str(message.get("text") or "")]
    attached = [one for name in ("attachments", "files") for one in message.get(name) or [] if isinstance(one, dict)]
    for one in attached:
        name = f"[{one['file_name']}]" if one.get("file_name") else ""
        texts.append(f"{name}\n{one.get('extracted_content') or ''}".strip())
    text = "\n\n".join(filter(None, texts)).strip()
    return (role, text) if text else ("tool", "\n\n".join(done(content)).strip())


def _written_texts(content: Any) -> Iterator[str]:
    """Yield what was written or spoken in the blocks of a message, but neither thoughts nor what tools did."""
    blocks = [block for block in message_blocks(content) if block.get("type") not in NOT_SAID]
    for text in (content, *(block.get("text") for block in blocks)):
        if isinstance(text, str) and text.strip():
            yield text


def _project_items(record: Record) -> Iterator[Item | Left]:
    raw, place = record.value, record.place
    name = str(raw.get("name") or "")
    about = "\n\n".join(str(raw[one]) for one in ("description", "prompt_template") if raw.get(one))
    common = {"project": name or None, "created_at": raw.get("created_at"), "updated_at": raw.get("updated_at")}
    if about:
        yield Item(place, memory(SYSTEM, raw.get("uuid"), f"{name}: {about}" if name else about, **common))
    for number, document in enumerate(raw.get("docs") or []):
        where = f"{place}, document {number + 1}"
        if not isinstance(document, dict) or not document.get("content"):
            yield Left(where, "it is empty")
            continue
        title = document.get("filename")
        text = f"# {title}\n\n{document['content']}" if title else document["content"]
        times = {"created_at": document.get("created_at") or raw.get("created_at")}
        metadata = {"title": title} if title else {}
        yield Item(where, memory(SYSTEM, document.get("uuid"), text, **{**common, **times}, metadata=metadata))


def _remembered(record: Record) -> Iterator[Item | Left]:
    raw = record.value
    texts = {"": raw.get("conversations_memory"), **(raw.get("project_memories") or {})}
    for key, text in texts.items():
        if isinstance(text, str) and text.strip():
            place = f"{record.place}, {key or 'conversations_memory'}"
            yield from facts(SYSTEM, place, Note({}, text))
