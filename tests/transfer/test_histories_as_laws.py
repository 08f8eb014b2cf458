"""Laws over histories with forks, rewinds, compactions, copies and older states of files: nothing is lost or doubled, the
same comes of them in each order, by hooks as by imports, and a second time changes nothing.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from transcript_lines import at, claude, codex, codex_event, codex_meta, written

from helpers import Database, examples
from pgengram.local.transcripts import read_transcript
from pgengram.service.conversations import Conversations
from pgengram.service.manager import MemoryManager
from pgengram.store.assistant.conversations import Conversation
from pgengram.transfer.importing import import_from

ASKED = ("yes", "go on", "no, use oak", "why?")


@dataclass
class Round:
    """A prompt and its answer, how many rounds were left before it, and whether it was taken back itself."""

    asked: str
    second: int
    name: str
    left_before: int = 0
    standing: bool = True
    compacts: bool = False

    @property
    def said(self) -> list[tuple[str, str]]:
        return [("user", self.asked), ("assistant", f"answer {self.name}")]


@dataclass
class Session:
    name: str
    rounds: list[Round] = field(default_factory=list)
    copied: list[Round] = field(default_factory=list)  # the standing rounds that it was forked with
    parent: Session | None = None
    forked: int = 0  # rounds that a fork has copied, which stay


@dataclass
class History:
    """What somebody did with a client, and the files that it left."""

    sessions: list[Session]
    files: list[tuple[Session, int]] = field(
        default_factory=list
    )  # a session, and how many of its rounds are in the file
    rounds: int = 0

    def do(self, step: tuple[str, int]) -> None:
        kind, number = step
        session = self.sessions[number % len(self.sessions)]
        standing = [one for one in session.rounds if one.standing]
        self.rounds += 1
        if kind == "fork" and standing:
            session.forked = len(standing)
            copied = [*session.copied, *standing]
            self.sessions.append(Session(f"session-{len(self.sessions)}", copied=copied, parent=session))
        elif kind == "copy" and session.rounds:
            self.files.append((session, len(session.rounds)))
        else:
            # What goes back to the very beginning cannot be told from a session whose lines don't name each other.
            first = max(session.forked, 0 if session.parent else 1)
            left = min(number, len(standing) - first) if kind == "rewind" else 0
            for one in standing[len(standing) - left :] if left > 0 else ():
                one.standing = False
            name = f"{session.name}.{len(session.rounds)}"
            asked = ASKED[(number + self.rounds) % len(ASKED)]
            session.rounds.append(Round(asked, 10 * self.rounds, name, max(left, 0), compacts=kind == "compact"))

    @property
    def expected(self) -> dict[str, Counter[tuple[str, str]]]:
        return {
            one.name: Counter(said for this in one.rounds if this.standing for said in this.said)
            for one in self.sessions if any(this.standing for this in one.rounds)
        }  # fmt: skip


def history(steps: list[tuple[str, int]]) -> History:
    made = History([Session("session-0")])
    for step in steps:
        made.do(step)
    made.files += [(session, len(session.rounds)) for session in made.sessions]
    return made


STEPS = st.lists(
    st.tuples(st.sampled_from(["say", "say", "say", "rewind", "compact", "fork", "copy"]), st.integers(0, 5)),
    min_size=1,
    max_size=14,
).map(history)


def of_claude_code(session: Session, length: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session as Claude Code has them."""
    last: list[str] = []
    for place, one in enumerate([*session.copied, *session.rounds[:length]]):
        own = place >= len(session.copied)
        stamp = {} if own else {"forkedFrom": {"sessionId": one.name.rpartition(".")[0], "messageUuid": ""}}
        if one.left_before and own:
            del last[len(last) - one.left_before :]
        above = last[-1] if last else None
        if one.compacts and own:
            boundary = {"type": "system", "subtype": "compact_boundary", "parentUuid": None, "logicalParentUuid": above}
            yield {**boundary, "uuid": f"{one.name}c", "timestamp": at(one.second), "sessionId": session.name}
            above = f"{one.name}c"
        for role, text, parent, second in (
            ("user", one.asked, above, 1),
            ("assistant", one.said[1][1], f"{one.name}u", 2),
        ):
            uuid = f"{one.name}{role[0]}"
            mark = {"forkedFrom": {**stamp["forkedFrom"], "messageUuid": uuid}} if stamp else {}
            yield claude(role, text, uuid, parent, one.second + second, sessionId=session.name, **mark)
        last.append(f"{one.name}a")


def of_codex(session: Session, length: int) -> Iterator[dict[str, Any]]:
    """Yield the lines of a session as Codex has them."""
    copied = session.copied
    if session.parent:
        began = session.rounds[0].second if session.rounds else 0
        yield codex_meta(session.name, began, forked_from_id=session.parent.name)
        yield codex_meta(session.parent.name, began)
        copied = [replace(one, second=began - 5) for one in copied]
    else:
        yield codex_meta(session.name)
    for one in [*copied, *session.rounds[:length]]:
        if one.left_before and one not in copied:
            yield codex_event("thread_rolled_back", one.second, num_turns=one.left_before)
        yield codex("user", one.asked, one.second + 1)
        yield codex_event("user_message", one.second + 1, message=one.asked)
        yield codex("assistant", one.said[1][1], one.second + 2)
        yield codex_event("agent_message", one.second + 2, message=one.said[1][1])


WRITERS = {"claude-code": of_claude_code, "codex": of_codex}


def kept(database: Database) -> dict[str, Counter[tuple[str, str]]]:
    found: dict[str, Counter[tuple[str, str]]] = {}
    for row in database.rows("SELECT conversation, role, text FROM conversation_turns"):
        found.setdefault(row["conversation"], Counter())[row["role"], row["text"]] += 1
    return found


async def brought(manager: MemoryManager, client: str, path: Path) -> int:
    report = await import_from(manager, client, str(path), dry_run=False, report=lambda *_: None)
    return sum(report.added.values())


def files_of(made: History, client: str, folder: Path) -> list[Path]:
    return [
        written(folder / f"copy-{place}" / f"rollout-{session.name}.jsonl", *WRITERS[client](session, length))
        for place, (session, length) in enumerate(made.files)
    ]


@effort(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=STEPS, client=st.sampled_from(sorted(WRITERS)), order=st.randoms(use_true_random=False))
async def test_what_stands_at_the_end_is_there_once_in_whatever_order_its_files_come(
    manager: MemoryManager, database: Database, tmp_path: Path, made: History, client: str, order: Any
) -> None:
    database.rows("DELETE FROM conversations")
    folder = tmp_path / uuid4().hex
    paths = files_of(made, client, folder)
    order.shuffle(paths)
    for path in paths:
        await brought(manager, client, path)

    assert kept(database) == made.expected
    assert await brought(manager, client, folder) == 0
    assert kept(database) == made.expected
    shutil.rmtree(folder)


@effort(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=STEPS, client=st.sampled_from(sorted(WRITERS)))
async def test_hooks_that_ran_after_each_round_keep_what_an_import_does(
    manager: MemoryManager, database: Database, tmp_path: Path, made: History, client: str
) -> None:
    database.rows("DELETE FROM conversations")
    hooks = Conversations(manager)
    await hooks.set_keeping(keep_days=3_650)
    folder = tmp_path / uuid4().hex
    for session in made.sessions:
        for length in range(1, len(session.rounds) + 1):
            path = written(folder / f"rollout-{session.name}.jsonl", *WRITERS[client](session, length))
            await hooks.keep(Conversation(client, session.name, transcript=str(path)), read_transcript)

    by_hooks = kept(database)

    assert by_hooks == made.expected
    assert await brought(manager, client, folder) == 0
    assert kept(database) == made.expected
    shutil.rmtree(folder)
