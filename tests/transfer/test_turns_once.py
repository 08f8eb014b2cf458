"""A turn is kept once, whichever file, fork, copy or hook brings it, and only if it was not taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_histories import zipped
from transcript_lines import at, chain, claude, codex, codex_event, codex_meta, gemini, imported, passed, said, written

from helpers import Database
from pgengram.local.events import read_transcript
from pgengram.service.conversations import Conversations
from pgengram.service.manager import MemoryManager
from pgengram.store.conversations import Conversation

PARENT, FORK = "1111" * 8, "2222" * 8
EDITED = "it was edited or generated again later"


def rollout(folder: Path, id_: str, *lines: dict[str, Any], name: str = "") -> Path:
    return written(folder / "sessions" / "2026" / "09" / f"rollout-2026-09-01T10-00-00-{name or id_}.jsonl", *lines)


def forked(folder: Path, *, fork_first: bool = False) -> list[Path]:
    """Write a session of Codex, and a fork of it, and return their files in the order in which they are read."""
    before = [("user", "use blue for the header"), ("assistant", "Blue it is."), ("user", "and round corners")]
    after = [("user", "no, use green"), ("assistant", "Green then.")]
    parent = rollout(
        folder, PARENT, codex_meta(PARENT, cwd="/w/parent"), *(codex(*one, n) for n, one in enumerate(before, 1)),
        name=f"{'b' if fork_first else 'a'}-{PARENT}",
    )  # fmt: skip
    fork = rollout(
        folder, FORK, codex_meta(FORK, 100, "/w/child", forked_from_id=PARENT), codex_meta(PARENT, 100, "/w/parent"),
        *(codex(*one, n) for n, one in enumerate([*before, *after], 101)), name=f"{'a' if fork_first else 'b'}-{FORK}",
    )  # fmt: skip
    return [fork, parent] if fork_first else [parent, fork]


@pytest.mark.parametrize("fork_first", [False, True])
@pytest.mark.parametrize("whole", [False, True], ids=["file by file", "the folder"])
async def test_a_fork_of_codex_has_what_was_said_after_it_alone_in_any_order(
    manager: MemoryManager, database: Database, tmp_path: Path, *, fork_first: bool, whole: bool
) -> None:
    files = forked(tmp_path, fork_first=fork_first)

    for path in [tmp_path / "sessions"] if whole else files:
        await imported(manager, path)
    again = await imported(manager, tmp_path / "sessions")

    assert said(database) == {
        PARENT: ["use blue for the header", "Blue it is.", "and round corners"], FORK: ["no, use green", "Green then."],
    }  # fmt: skip
    assert database.rows("SELECT project FROM conversations ORDER BY conversation") == [
        {"project": "parent"},
        {"project": "child"},
    ]
    assert dict(again.added) == {} or not any(again.added.values())


async def test_a_fork_whose_parent_is_missing_is_kept_whole_and_one_without_its_beginning_is_told(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    whole = forked(tmp_path)[1]
    refers = rollout(
        tmp_path / "other",
        "3",
        codex_meta("3" * 32, forked_from_id=PARENT, history_base={"x": 1}),
        codex("user", "go on", 5),
    )

    first = await imported(manager, whole)
    second = await imported(manager, refers)

    assert len(said(database)[FORK]) == 5
    assert said(database)["3" * 32] == ["go on"]
    assert list(first.reasons) == []
    assert list(second.reasons) == ["it is a fork of a session that is not among these files; import that, too"]


async def test_what_is_asked_again_in_a_fork_in_the_same_words_is_kept(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    before = [codex("user", "shall we?", 1), codex("assistant", "Say the word.", 2)]
    rollout(tmp_path, PARENT, codex_meta(PARENT), *before, codex("user", "yes", 3), codex("assistant", "Oak.", 4))
    rollout(
        tmp_path, FORK, codex_meta(FORK, 9, forked_from_id=PARENT), codex_meta(PARENT, 9), *before, codex("user", "yes", 10),
        codex("assistant", "Pine.", 11),
    )  # fmt: skip

    await imported(manager, tmp_path / "sessions")

    assert said(database)[FORK] == ["yes", "Pine."]


async def test_a_fork_that_only_refers_to_what_was_said_before_keeps_all_that_it_says(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    words = [codex("user", "yes", 1), codex("assistant", "Oak.", 2)]
    rollout(tmp_path, PARENT, codex_meta(PARENT), *words)
    rollout(tmp_path, FORK, codex_meta(FORK, 9, forked_from_id=PARENT) | {"ordinal": 24}, *words)

    report = await imported(manager, tmp_path / "sessions")

    assert said(database) == {PARENT: ["yes", "Oak."], FORK: ["yes", "Oak."]}
    assert report.reasons == {}


async def test_a_gemini_session_that_is_written_anew_keeps_what_comes_later(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / ".gemini" / "tmp" / "ark" / "chats" / "session-2026-09-03T10-00-abc.json"
    head = [gemini("a", "user", "name the boat", 1), gemini("b", "gemini", "Heron", 2)]
    red = [gemini("c", "user", "paint it red", 3), gemini("d", "gemini", "red", 4)]
    blue = [gemini("e", "user", "paint it blue", 5), gemini("f", "gemini", "blue", 6)]
    for tail in (red, blue):
        written(path, {"sessionId": "gj1", "projectHash": "h", "messages": [*head, *tail]})
        await imported(manager, path)

    assert {"paint it blue", "blue"} <= set(said(database)["gj1"])


async def test_a_gemini_message_that_grows_is_there_once_and_whole(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "chats" / "session-1.jsonl"
    head = {"sessionId": "g1", "projectHash": "h"}
    for text in ("The Rh", "The Rhône.", "The Rh"):
        written(path, head, gemini("a", "user", "Name a river.", 1), gemini("b", "gemini", text, 2))
        await imported(manager, path)

    assert said(database) == {"g1": ["Name a river.", "The Rhône."]}


async def test_two_transcripts_with_one_session_id_are_both_kept_and_lines_that_are_the_same_once(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "projects"
    alpha = chain("alpha question", "alpha answer", name="a")
    beta = chain("beta question", "beta answer", name="b")
    written(folder / "-w-ark" / "s1.jsonl", *alpha)
    written(folder / "-w-ark--worktree" / "s1.jsonl", alpha[0], *beta)
    written(folder / "-w-ark--third" / "s1.jsonl", *chain("gamma question", "gamma answer", name="a"))

    await imported(manager, folder)

    assert sorted(said(database)["s1"]) == [
        "alpha answer", "alpha question", "beta answer", "beta question", "gamma answer", "gamma question",
    ]  # fmt: skip


@pytest.mark.parametrize("stamped", [True, False], ids=["with the name of the first", "as older versions"])
async def test_a_fork_of_claude_code_repeats_nothing(
    manager: MemoryManager, database: Database, tmp_path: Path, *, stamped: bool
) -> None:
    folder = tmp_path / "projects" / "-w-ark"
    first = chain("plan the hull", "In oak.", "and the mast?", "Pine.")
    written(folder / "s1.jsonl", *first)
    copies = [
        {
            **line,
            "sessionId": "s2",
            **({"forkedFrom": {"sessionId": "s1", "messageUuid": line["uuid"]}} if stamped else {}),
        }
        for line in first[:2]
    ]
    again = [{**line, "sessionId": "s2", "parentUuid": None} for line in first[:2]]  # as large forks have them
    written(folder / "s2.jsonl", *copies, *again, claude("user", "no mast", "n1", "m1", 9, sessionId="s2"))

    await imported(manager, tmp_path / "projects")

    assert said(database) == {"s1": ["plan the hull", "In oak.", "and the mast?", "Pine."], "s2": ["no mast"]}


async def test_going_back_in_a_fork_of_claude_code_takes_nothing_from_the_session_before_it(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "projects" / "-w-ark"
    first = chain("plan the hull", "In oak.", "and the mast?", "Pine.")
    copies = [
        {**line, "sessionId": "s2", "forkedFrom": {"sessionId": "s1", "messageUuid": line["uuid"]}} for line in first
    ]
    files = [
        written(folder / "s1.jsonl", *first),
        written(folder / "s2.jsonl", *copies, claude("user", "no mast", "n1", "m1", 9, sessionId="s2")),
    ]

    for order in (files, files[::-1]):
        database.rows("DELETE FROM conversations")
        for path in order:
            await imported(manager, path)
        assert said(database) == {"s1": ["plan the hull", "In oak.", "and the mast?", "Pine."], "s2": ["no mast"]}


def rewound(*, compacted: bool = False) -> list[dict[str, Any]]:
    """Return a session of Claude Code in which the second question was asked anew."""
    tools = [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"n": n}} for n in (1, 2)]
    lines = [
        claude("user", "plan the store", "u1", None, 0),
        claude("assistant", "Which database?", "a1", "u1", 1),
        claude("user", "use Redis", "b1u", "a1", 2),
        claude("assistant", "Redis it is.", "b1a", "b1u", 3),
        claude("user", "use PostgreSQL", "b2u", "a1", 4),
        claude("assistant", tools[:1], "b2t1", "b2u", 5),
        claude("assistant", tools[1:], "b2t2", "b2t1", 6),
        claude("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "one"}], "b2r1", "b2t1", 7),
        claude("user", [{"type": "tool_result", "tool_use_id": "t2", "content": "two"}], "b2r2", "b2t2", 8),
        claude("assistant", "PostgreSQL, then.", "b2a", "b2r2", 9),
    ]
    if compacted:
        lines += [
            {"type": "system", "subtype": "compact_boundary", "uuid": "cb", "parentUuid": None, "logicalParentUuid": "b2a",
             "timestamp": at(10), "sessionId": "s1", "content": "Conversation compacted"},
            claude("user", "This session is being continued.", "cs", "cb", 11, isCompactSummary=True),
            claude("user", "and a cache?", "c1", "cs", 12),
            claude("assistant", "No cache.", "c2", "c1", 13),
        ]  # fmt: skip
    return lines


@pytest.mark.parametrize("compacted", [False, True])
async def test_a_question_of_claude_code_that_was_rewound_is_left_out_and_parallel_tools_stay(
    manager: MemoryManager, database: Database, tmp_path: Path, *, compacted: bool
) -> None:
    path = written(tmp_path / "projects" / "-w-ark" / "s1.jsonl", *rewound(compacted=compacted))

    report = await imported(manager, path)

    kept = ["plan the store", "Which database?", "use PostgreSQL", "PostgreSQL, then."]
    assert said(database) == {"s1": [*kept, *(["and a cache?", "No cache."] if compacted else [])]}
    assert len(said(database, roles=["tool"])["s1"]) == 4
    assert passed(report)[EDITED] == 2


async def test_a_remark_beside_the_answer_of_a_tool_that_ran_at_the_same_time_is_kept(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    tools = [{"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"n": n}} for n in (1, 2)]
    answers = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "ok"} for n in (1, 2)]
    path = written(
        tmp_path / "p" / "s1.jsonl", claude("user", "start the server", "u1", None, 0),
        claude("assistant", tools[:1], "a1", "u1", 1), claude("assistant", tools[1:], "b1", "a1", 2),
        claude("user", answers[:1], "r1", "a1", 3),
        claude("user", [answers[1], {"type": "text", "text": "use port 9000"}], "r2", "b1", 4),
        claude("assistant", "Started.", "a2", "r1", 5),
    )  # fmt: skip

    await imported(manager, path)

    assert said(database) == {"s1": ["start the server", "use port 9000", "Started."]}


@pytest.mark.parametrize(
    "prompt",
    [
        [{"type": "image", "source": {}}],
        "<command-message>init</command-message>\n<command-name>/init</command-name>",
    ],
    ids=["an image", "a command"],
)
async def test_what_followed_a_prompt_without_a_word_goes_with_it(
    manager: MemoryManager, database: Database, tmp_path: Path, prompt: Any
) -> None:
    path = written(
        tmp_path / "p" / "s1.jsonl", *chain("look", "Where?"), claude("user", prompt, "b1", "m1", 3),
        claude("assistant", "A heron.", "b2", "b1", 4), claude("user", "here", "c1", "m1", 5),
    )  # fmt: skip

    await imported(manager, path)

    assert said(database) == {"s1": ["look", "Where?", "here"]}


async def test_hooks_and_an_import_keep_the_same_and_a_rewind_takes_back_what_hooks_had_kept(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    lines = rewound(compacted=True)
    path = tmp_path / "projects" / "-w-ark" / "s1.jsonl"
    hooks = Conversations(manager)
    await hooks.set_keeping(keep_days=3_650)
    for end in (4, 5, len(lines)):
        written(path, *lines[:end])
        await hooks.keep(Conversation("claude-code", "s1", transcript=str(path)), read_transcript)
    by_hooks = database.rows("SELECT number, role, text, source_key FROM conversation_turns ORDER BY number")

    report = await imported(manager, path)

    assert dict(report.added) == {} or not any(report.added.values())
    assert "use Redis" not in said(database)["s1"]
    assert database.rows("SELECT number, role, text, source_key FROM conversation_turns ORDER BY number") == by_hooks
    database.rows("DELETE FROM conversations")
    await imported(manager, path)
    assert database.rows("SELECT number, role, text, source_key FROM conversation_turns ORDER BY number") == by_hooks


async def test_an_older_copy_of_a_rewound_session_does_not_bring_back_what_was_taken_back(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    lines = rewound()
    old = written(tmp_path / "old" / "s1.jsonl", *lines[:4])
    new = written(tmp_path / "new" / "s1.jsonl", *lines)
    results = []
    for order in ((old, new), (new, old)):
        for path in order:
            await imported(manager, path)
        results.append(said(database))
        database.rows("DELETE FROM conversations")

    assert results[0] == results[1]
    assert "use Redis" not in results[0]["s1"]


async def test_codex_going_back_takes_the_last_prompts_with_their_answers(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    path = rollout(
        tmp_path, PARENT, codex_meta(PARENT), codex("user", "pick a wood", 1), codex("assistant", "Oak.", 2),
        codex("user", "no, pine", 3), codex_event("user_message", 3, message="no, pine"), codex("assistant", "Pine.", 4),
        codex_event("thread_rolled_back", 5, num_turns=1), codex("user", "and tar?", 6), codex("assistant", "Three coats.", 7),
    )  # fmt: skip

    report = await imported(manager, path)

    assert said(database) == {PARENT: ["pick a wood", "Oak.", "and tar?", "Three coats."]}
    assert passed(report)[EDITED] == 2


@pytest.mark.parametrize("doors", ["both", "item", "event"])
async def test_codex_going_back_counts_a_prompt_that_is_an_image_alone(
    manager: MemoryManager, database: Database, tmp_path: Path, doors: str
) -> None:
    content = [{"type": "input_text", "text": "<image>"}, {"type": "input_image", "image_url": "data:,"}]
    item = {**codex("user", "", 3), "payload": {"type": "message", "role": "user", "content": content}}
    event = codex_event("user_message", 3, message="", images=["data:,"])
    path = rollout(
        tmp_path, PARENT, codex_meta(PARENT), codex("user", "pick a wood", 1), codex("assistant", "Oak.", 2),
        *([item] if doors != "event" else []), *([event] if doors != "item" else []), codex("assistant", "A heron.", 4),
        codex_event("thread_rolled_back", 5, num_turns=1), codex("user", "and tar?", 6),
    )  # fmt: skip

    await imported(manager, path)

    assert said(database) == {PARENT: ["pick a wood", "Oak.", "and tar?"]}


async def test_gemini_going_back_takes_a_message_and_all_after_it_and_a_set_brings_several(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    path = written(
        tmp_path / "tmp" / "ark" / "chats" / "session-1.jsonl",
        {"sessionId": "g1", "projectHash": "h"},
        gemini("m1", "user", "hello", 1),
        {"$set": {"messages": [gemini("m1", "user", "hello", 1), gemini("m2", "user", "we deploy on Thursdays", 2), gemini("m3", "gemini", "Noted.", 3)]}},
        gemini("m4", "user", "deploy tomorrow", 4), gemini("m5", "gemini", "Done.", 5),
        {"$rewindTo": "m4"}, {"$rewindTo": "nowhere"},
        gemini("m6", "user", "deploy on Thursday", 6),
    )  # fmt: skip

    report = await imported(manager, path)

    assert said(database) == {"g1": ["hello", "we deploy on Thursdays", "Noted.", "deploy on Thursday"]}
    assert passed(report)[EDITED] == 2
    assert list(report.reasons) == ["it goes back to a message that is missing"]


def claude_ai(*messages: tuple[str, str, str, str], **more: Any) -> list[dict[str, Any]]:
    return [{
        "uuid": "c-1", "name": "Trip", "created_at": at(0), "chat_messages": [
            {"uuid": uuid, "sender": sender, "text": text, "created_at": at(n), "parent_message_uuid": parent}
            for n, (uuid, sender, parent, text) in enumerate(messages)
        ], **more,
    }]  # fmt: skip


ROOT = "00000000-0000-4000-8000-000000000000"
TRIP = (
    ("m1", "human", ROOT, "Plan a trip to Oslo"), ("m2", "assistant", "m1", "by train"), ("m3", "assistant", "m1", "by ferry"),
    ("m4", "human", "m3", "good"),
)  # fmt: skip


async def test_of_answers_that_claude_ai_generated_again_the_one_that_led_on_is_kept(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    report = await imported(manager, zipped(tmp_path / "data.zip", conversations__json=claude_ai(*TRIP)))

    assert said(database) == {"c-1": ["Plan a trip to Oslo", "by ferry", "good"]}
    assert passed(report)[EDITED] == 1


async def test_an_export_of_claude_ai_that_begins_with_the_newest_message_keeps_all(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    linked = claude_ai(*TRIP)[0]
    linked["chat_messages"].reverse()
    plain = claude_ai(*((f"plain {uuid}", sender, "", text) for uuid, sender, _, text in TRIP))[0]
    plain["uuid"] = "c-2"
    plain["chat_messages"].reverse()

    await imported(manager, zipped(tmp_path / "data.zip", conversations__json=[linked, plain]))

    assert said(database) == {
        "c-1": ["Plan a trip to Oslo", "by ferry", "good"], "c-2": [text for *_, text in TRIP],
    }  # fmt: skip


async def test_an_answer_to_which_the_user_has_gone_back_is_kept_and_the_other_is_not_in_any_order(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    first = zipped(
        tmp_path / "1.zip", conversations__json=claude_ai(*TRIP[:3], updated_at=at(50), current_leaf_message_uuid="m3")
    )
    second = zipped(
        tmp_path / "2.zip", conversations__json=claude_ai(*TRIP[:3], updated_at=at(60), current_leaf_message_uuid="m2")
    )
    for order in ((first, second), (second, first)):
        for path in order:
            await imported(manager, path)
        assert said(database) == {"c-1": ["Plan a trip to Oslo", "by train"]}, order
        database.rows("DELETE FROM conversations")


async def test_a_request_of_vs_code_that_was_taken_out_of_its_log_is_told(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    def request(id_: str, text: str, second: int) -> dict[str, Any]:
        return {
            "requestId": id_,
            "message": {"text": text},
            "timestamp": 1_788_343_200_000 + second * 1000,
            "response": [{"value": f"{text}!"}],
        }

    path = written(
        tmp_path / "chatSessions" / "22222222-2222-4222-8222-222222222222.jsonl",
        {"kind": 0, "v": {"responderUsername": "Copilot", "sessionId": "v1", "creationDate": 1_788_343_200_000, "requests": []}},
        {"kind": 2, "k": ["requests"], "v": [request("r1", "one", 1)]},
        {"kind": 2, "k": ["requests"], "v": [request("r2", "two", 2)]},
        {"kind": 2, "k": ["requests"], "i": 1, "v": [request("r3", "three", 3)]},
    )  # fmt: skip

    report = await imported(manager, path)

    assert said(database) == {"v1": ["one", "one!", "three", "three!"]}
    assert passed(report)[EDITED] == 2


async def test_what_a_session_without_names_of_lines_says_is_known_by_its_place_and_text(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "gate.jsonl"
    lines = [
        {"type": "user", "timestamp": at(0), "message": {"content": "the gate opens at six"}, "cwd": "/w/ark"},
        {"type": "assistant", "timestamp": at(1), "message": {"content": "Six."}},
    ]
    written(path, *lines)

    first = await imported(manager, path)
    path.write_text(
        path.read_text(encoding="utf-8") + json.dumps(lines[0] | {"timestamp": at(2)}) + "\n", encoding="utf-8"
    )
    await imported(manager, path)

    assert first.system == "claude-code"
    assert said(database) == {"gate": ["the gate opens at six", "Six.", "the gate opens at six"]}


@pytest.mark.parametrize("hooked", [False, True], ids=["plain", "with a line of a hook before the prompt"])
async def test_a_session_of_claude_code_that_was_begun_anew_has_its_last_beginning_alone(
    manager: MemoryManager, database: Database, tmp_path: Path, *, hooked: bool
) -> None:
    hooks = [
        {"type": "attachment", "uuid": f"h{n}", "parentUuid": None, "timestamp": at(10 * n), "sessionId": "s1",
         "attachment": {"type": "hook_additional_context", "content": "the date"}} for n in (0, 1)
    ]  # fmt: skip
    lines = [
        claude("user", "build a raft", "u1", "h0" if hooked else None, 1), claude("assistant", "Of logs.", "a1", "u1", 2),
        claude("user", "build an ark", "u2", "h1" if hooked else None, 11), claude("assistant", "Of oak.", "a2", "u2", 12),
    ]  # fmt: skip
    if hooked:
        lines = [hooks[0], *lines[:2], hooks[1], *lines[2:]]

    report = await imported(manager, written(tmp_path / "p" / "s1.jsonl", *lines))

    assert said(database) == {"s1": ["build an ark", "Of oak."]}
    assert passed(report)[EDITED] == 2


async def test_prompts_whose_lines_name_no_line_before_them_were_not_taken_back(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    lines = [
        claude("user", "build a raft", "u1", None, 1), claude("assistant", "Of logs.", "a1", "u1", 2),
        claude("user", "and a mast", "u2", None, 3), claude("user", "and a sail", "u3", None, 4),
    ]  # fmt: skip

    await imported(manager, written(tmp_path / "p" / "s1.jsonl", *lines))

    assert said(database) == {"s1": ["build a raft", "Of logs.", "and a mast", "and a sail"]}


async def test_going_back_to_a_prompt_that_had_waited_takes_it_back(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    queued = {
        "type": "attachment", "uuid": "q1", "parentUuid": "a1", "timestamp": at(3), "sessionId": "s1",
        "attachment": {"type": "queued_command", "commandMode": "prompt", "prompt": "use pine"},
    }  # fmt: skip
    lines = [
        *chain("build a raft", "Of which wood?", name="a"), queued, claude("assistant", "Pine.", "p1", "q1", 4),
        claude("user", "use oak", "o1", "a1", 5), claude("assistant", "Oak.", "o2", "o1", 6),
    ]  # fmt: skip

    await imported(manager, written(tmp_path / "p" / "s1.jsonl", *lines))

    assert said(database) == {"s1": ["build a raft", "Of which wood?", "use oak", "Oak."]}


@pytest.mark.parametrize("backwards", [False, True])
async def test_two_texts_of_one_line_are_both_kept_in_the_same_order_whichever_came_first(
    manager: MemoryManager, tmp_path: Path, *, backwards: bool
) -> None:
    files = [
        written(tmp_path / name / "s1.jsonl", *chain(text, "Sails it is.", "and a keel"))
        for name, text in (("a", "use sails"), ("b", "no, use oars"))
    ]

    for path in reversed(files) if backwards else files:
        await imported(manager, path)

    shown = await Conversations(manager).turns("s1")
    assert [turn["text"] for turn in shown] == ["no, use oars", "use sails", "Sails it is.", "and a keel"]
