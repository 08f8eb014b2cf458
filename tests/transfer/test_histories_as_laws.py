"""Laws over histories with forks, rewinds, compactions, copies and older states of files, in every client that has them:
nothing is lost or doubled, the same comes of them in each order, by hooks as by imports, and a second time changes nothing.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from hypothesis import HealthCheck, example, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from transcript_lines import DAY, at, claude, codex, codex_event, codex_meta, gemini, written

from helpers import Database, examples
from pgengram.local import events
from pgengram.service.conversations import Conversations
from pgengram.service.manager import MemoryManager
from pgengram.store.conversations import Conversation
from pgengram.transfer.importing import import_from

ASKED = ("yes", "go on", "no, use oak", "why?")


@dataclass(eq=False)
class Round:
    """A prompt and its answer."""

    asked: str
    second: int
    name: str
    session: str
    left_before: int = 0  # rounds that the user went back by, before it
    compacts: bool = False

    @property
    def said(self) -> list[tuple[str, str]]:
        return [("user", self.asked), ("assistant", f"answer {self.name}")]


@dataclass(eq=False)
class Session:
    name: str
    second: int = 0
    parent: Session | None = None
    copied: list[Round] = field(default_factory=list)  # what stood when it was forked
    rounds: list[Round] = field(default_factory=list)  # all that came then
    path: list[Round] = field(default_factory=list)  # what stands


@dataclass
class History:
    """What somebody did with a client, and the files that it left."""

    sessions: list[Session]
    files: list[tuple[Session, int]] = field(default_factory=list)  # each with how many rounds of its own are in it
    rounds: int = 0

    def do(self, step: tuple[str, int]) -> None:
        kind, number = step
        session = self.sessions[number % len(self.sessions)]
        self.rounds += 1
        second = 10 * self.rounds
        if kind == "fork" and session.path:
            name = f"session-{len(self.sessions):02}"
            self.sessions.append(Session(name, second, session, list(session.path), path=list(session.path)))
        elif kind == "copy" and session.rounds:
            self.files.append((session, len(session.rounds)))
        else:
            left = min(number, len(session.path)) if kind == "rewind" else 0
            del session.path[len(session.path) - left :]
            name, asked = f"{session.name}.{len(session.rounds)}", ASKED[(number + self.rounds) % len(ASKED)]
            one = Round(asked, second, name, session.name, left, kind == "compact" and bool(session.path))
            session.rounds.append(one)
            session.path.append(one)

    @property
    def expected(self) -> dict[str, Counter[tuple[str, str]]]:
        """Each round that stands anywhere, in the first session in which it does."""
        found: dict[str, Counter[tuple[str, str]]] = {}
        seen: set[Round] = set()
        for session in self.sessions:
            for one in session.path:
                if one not in seen:
                    seen.add(one)
                    found.setdefault(session.name, Counter()).update(one.said)
        return found


def history(steps: list[tuple[str, int]]) -> History:
    made = History([Session("session-00")])
    for step in steps:
        made.do(step)
    made.files += [(session, len(session.rounds)) for session in made.sessions if session.path]
    return made


STEPS = st.lists(
    st.tuples(st.sampled_from(["say", "say", "rewind", "rewind", "compact", "fork", "copy"]), st.integers(0, 5)),
    min_size=1,
    max_size=14,
).map(history)
PARENT_GOES_BACK = history([("say", 0), ("say", 0), ("fork", 0), ("say", 1), ("rewind", 2), ("copy", 0), ("say", 0)])

FORK_OF_A_FORK = history([
    ("say", 5), ("say", 4), ("rewind", 1), ("fork", 0), ("fork", 1), ("rewind", 1), ("say", 2), ("rewind", 1), ("say", 1),
])  # fmt: skip


def marked(session: Session, length: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session as Claude Code has them."""
    path: list[str] = []
    for place, one in enumerate([*session.copied, *session.rounds[:length]]):
        own = place >= len(session.copied)
        if own:
            del path[len(path) - one.left_before :]
        above = path[-1] if path else None
        if one.compacts:
            boundary = {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "logicalParentUuid": above}
            yield {**boundary, "uuid": f"{one.name}c", "timestamp": at(one.second), "sessionId": session.name}
            above = f"{one.name}c"
        for role, text, parent, second in (
            ("user", one.asked, above, 1),
            ("assistant", one.said[1][1], f"{one.name}u", 2),
        ):
            uuid = f"{one.name}{role[0]}"
            mark = {} if own else {"forkedFrom": {"sessionId": one.session, "messageUuid": uuid}}
            yield claude(role, text, uuid, parent, one.second + second, sessionId=session.name, **mark)
        path.append(f"{one.name}a")


def unmarked(session: Session, length: int) -> Iterator[dict[str, Any]]:
    """Yield them as versions have them that don't mark a copy."""
    for line in marked(session, length):
        yield {name: value for name, value in line.items() if name != "forkedFrom"}


def of_codex(session: Session, length: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session as Codex has them: what was copied with the time of the fork."""
    yield codex_meta(
        session.name, session.second, **({"forked_from_id": session.parent.name} if session.parent else {})
    )
    if session.parent:
        yield codex_meta(session.parent.name, session.second)
    for place, one in enumerate([*session.copied, *session.rounds[:length]]):
        own = place >= len(session.copied)
        second = one.second if own else session.second
        yield {"type": "turn_context", "timestamp": at(second), "payload": {"cwd": "/w/ark"}}
        if own and one.left_before:
            yield codex_event("thread_rolled_back", second, num_turns=one.left_before)
        yield codex("user", one.asked, second + 1)
        yield codex_event("user_message", second + 1, message=one.asked)
        yield codex("assistant", one.said[1][1], second + 2)
        yield codex_event("agent_message", second + 2, message=one.said[1][1])


def of_gemini(session: Session, length: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session as Gemini CLI has them: one that was resumed has the messages of the one before."""
    yield {"sessionId": session.name, "projectHash": "h", "startTime": at(session.second)}
    path: list[Round] = []
    for place, one in enumerate([*session.copied, *session.rounds[:length]]):
        if one.left_before and place >= len(session.copied):
            yield {"$rewindTo": f"{path[len(path) - one.left_before].name}u"}
            del path[len(path) - one.left_before :]
        path.append(one)
        yield gemini(f"{one.name}u", "user", one.asked, one.second + 1)
        yield gemini(f"{one.name}a", "gemini", one.said[1][1], one.second + 2)


def tree(session: Session, length: int) -> Iterator[tuple[Round, str, str, str, str | None]]:
    """Yield the messages of a session that keeps all branches: a round, a name, a role, a text, and the one before."""
    path: list[str] = []
    for place, one in enumerate([*session.copied, *session.rounds[:length]]):
        if place >= len(session.copied):
            del path[len(path) - one.left_before :]
        above = path[-1] if path else None
        for role, text in one.said:
            yield one, f"{one.name}{role[0]}", role, text, above
            above = f"{one.name}{role[0]}"
        path.append(f"{one.name}a")


def of_chatgpt(session: Session, length: int) -> dict[str, Any]:
    """Return a conversation of ChatGPT; a branch in a new chat has the messages of the one before."""
    began = DAY.timestamp()
    nodes: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    for one, name, role, text, above in tree(session, length):
        second = one.second + (1 if role == "user" else 2)
        message = {"id": name, "author": {"role": role}, "create_time": began + second,
                   "content": {"content_type": "text", "parts": [text]}}  # fmt: skip
        nodes[name] = {"id": name, "message": message, "parent": above or "root", "children": []}
    last = next(reversed(nodes))
    return {"title": "t", "conversation_id": session.name, "create_time": began + session.second, "current_node": last,
            "update_time": began + session.second + 10_000 * length, "mapping": nodes}  # fmt: skip


def of_claude_ai(session: Session, length: int) -> dict[str, Any]:
    """Return a conversation of Claude.ai."""
    messages = [
        {"uuid": name, "sender": "human" if role == "user" else role, "text": text, "parent_message_uuid": above or "root",
         "created_at": at(one.second + (1 if role == "user" else 2))}
        for one, name, role, text, above in tree(session, length)
    ]  # fmt: skip
    return {"uuid": session.name, "name": "t", "created_at": at(session.second), "chat_messages": messages,
            "updated_at": at(session.second + 1_000 * length), "current_leaf_message_uuid": messages[-1]["uuid"]}  # fmt: skip


LINES: dict[str, tuple[str, str, Callable[[Session, int], Iterator[dict[str, Any]]]]] = {
    "Claude Code": ("claude-code", "{}.jsonl", marked),
    "Claude Code without marks": ("claude-code", "{}.jsonl", unmarked),
    "Codex": ("codex", "rollout-{}.jsonl", of_codex),
    "Gemini CLI": ("gemini-cli", "session-{}.jsonl", of_gemini),
}
TREES = {"ChatGPT": ("chatgpt", of_chatgpt), "Claude.ai": ("claude-ai", of_claude_ai)}


def kept(database: Database) -> dict[str, Counter[tuple[str, str]]]:
    found: dict[str, Counter[tuple[str, str]]] = {}
    for row in database.rows("SELECT conversation, role, text FROM conversation_turns"):
        found.setdefault(row["conversation"], Counter())[row["role"], row["text"]] += 1
    return found


def order_of(database: Database) -> list[dict[str, Any]]:
    return database.rows("SELECT conversation, text, time FROM conversation_turns ORDER BY conversation, time, number")


async def brought(manager: MemoryManager, system: str, path: Path) -> int:
    report = await import_from(manager, system, str(path), dry_run=False, report=lambda *_: None)
    return sum(report.added.values())


def files_of(made: History, client: str, folder: Path) -> tuple[str, list[Path]]:
    paths = []
    for place, (session, length) in enumerate(made.files):
        under = folder / f"copy-{place}"
        if client in LINES:
            system, name, lines = LINES[client]
            paths.append(written(under / name.format(session.name), *lines(session, length)))
        else:
            system, conversation = TREES[client]
            under.mkdir(parents=True)
            (under / "conversations.json").write_text(json.dumps([conversation(session, length)]), encoding="utf-8")
            paths.append(under)
    return system, paths


@effort(max_examples=examples(16), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(made=PARENT_GOES_BACK, client="Claude Code", order=None)
@example(made=PARENT_GOES_BACK, client="Claude Code without marks", order=None)
@example(made=PARENT_GOES_BACK, client="Codex", order=None)
@example(made=FORK_OF_A_FORK, client="Codex", order=None)
@example(made=PARENT_GOES_BACK, client="Gemini CLI", order=None)
@example(made=PARENT_GOES_BACK, client="ChatGPT", order=None)
@given(made=STEPS, client=st.sampled_from([*LINES, *TREES]), order=st.randoms(use_true_random=False))
async def test_what_stands_at_the_end_is_there_once_in_whatever_order_its_files_come(
    manager: MemoryManager, database: Database, tmp_path: Path, made: History, client: str, order: Any
) -> None:
    database.rows("DELETE FROM conversations")
    folder = tmp_path / uuid4().hex
    system, paths = files_of(made, client, folder)
    if order:
        order.shuffle(paths)
    for path in paths:
        await brought(manager, system, path)
    found = order_of(database)

    assert kept(database) == made.expected
    for path in reversed(paths):
        assert await brought(manager, system, path) == 0
    assert order_of(database) == found
    database.rows("DELETE FROM conversations")
    for path in reversed(paths):
        await brought(manager, system, path)
    assert order_of(database) == found
    shutil.rmtree(folder)


@effort(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(made=PARENT_GOES_BACK, client="Claude Code", context=3)
@given(
    made=STEPS,
    client=st.sampled_from(["Claude Code", "Claude Code without marks", "Codex"]),
    context=st.sampled_from([2, 5, events.CONTEXT]),
)
async def test_hooks_that_ran_after_each_round_keep_what_an_import_does(
    manager: MemoryManager, database: Database, tmp_path: Path, made: History, client: str, context: int
) -> None:
    database.rows("DELETE FROM conversations")
    hooks = Conversations(manager)
    await hooks.set_keeping(keep_days=3_650)
    folder = tmp_path / uuid4().hex
    system, name, lines = LINES[client]
    with patch.object(events, "CONTEXT", context):
        for session in made.sessions:
            for length in range(min(1, len(session.rounds)), len(session.rounds) + 1):
                path = written(folder / name.format(session.name), *lines(session, length))
                talk = Conversation(system, session.name, transcript=str(path))
                await hooks.keep(talk, events.read_transcript)

    by_hooks = kept(database)

    assert by_hooks == made.expected
    assert await brought(manager, system, folder) == 0
    assert kept(database) == made.expected
    shutil.rmtree(folder)
