"""Of what clients write down, what a person said is kept as theirs, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from transcript_lines import at, claude, codex, codex_event, codex_meta, gemini, imported, passed, said, written

from helpers import Database, examples
from pgengram.local.events import read_transcript
from pgengram.service.conversations import Conversations
from pgengram.service.manager import MemoryManager
from pgengram.store.conversations import Conversation
from pgengram.transfer.wrappers import COMMAND, INSIDE, PERSON, said_by_person

BY_CLIENT = "the client added it to what was said"
BY_PROGRAM = "another program or agent said it"


def queued(uuid: str, parent: str, prompt: Any, second: int, **more: Any) -> dict[str, Any]:
    attachment = {"type": "queued_command", "commandMode": "prompt", "prompt": prompt, **more}
    return {
        "type": "attachment",
        "uuid": uuid,
        "parentUuid": parent,
        "timestamp": at(second),
        "sessionId": "s1",
        "attachment": attachment,
    }


def queue(operation: str, second: int, **more: Any) -> dict[str, Any]:
    return {"type": "queue-operation", "operation": operation, "timestamp": at(second), "sessionId": "s1", **more}


async def test_prompts_that_were_typed_while_claude_code_was_busy_are_kept_once_and_in_their_place(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    wish = "write the tests first, and never touch schema.sql"
    lines = [
        claude("user", "begin", "u1", None, 0),
        claude("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}], "a1", "u1", 1),
        queue("enqueue", 2, content=wish),
        claude("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}], "r1", "a1", 3),
        queued("at1", "r1", wish, 4),
        claude("assistant", "Tests first, then.", "a2", "at1", 5),
        queue("enqueue", 6, content="then rest"), queue("dequeue", 7),
        claude("user", "then rest", "u2", "a2", 8),
        queue("enqueue", 9, content="no, forget it"), queue("popAll", 10),
        queued("at2", "u2", "<task-notification>job 1 done</task-notification>", 11),
        queued("at3", "at2", "job 2 done", 12, commandMode="task-notification"),
        queued("at4", "at3", [{"type": "text", "text": "and tidy up"}], 13),
        queued("at5", "at4", "a hook says so", 14, origin={"kind": "hook"}),
        queue("enqueue", 15, content="and never on Friday"),
    ]  # fmt: skip
    path = written(tmp_path / "projects" / "-w-ark" / "s1.jsonl", *lines)
    hooks = Conversations(manager)
    await hooks.set_keeping(keep_days=3_650)
    await hooks.keep(Conversation("claude-code", "s1", transcript=str(path)), read_transcript)
    by_hooks = said(database)["s1"]

    report = await imported(manager, path)

    assert "and never on Friday" not in by_hooks  # it may still be sent
    assert said(database) == {
        "s1": ["begin", wish, "Tests first, then.", "then rest", "and tidy up", "and never on Friday"]
    }
    assert passed(report)[BY_PROGRAM] == 3


async def test_prompts_that_were_sent_together_and_one_that_an_import_saw_waiting_are_kept_once(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "projects" / "-w-ark" / "s1.jsonl"
    lines = [claude("user", "begin", "u1", None, 0), *(queue("enqueue", n, content=f"Q{n}") for n in (1, 2, 3))]
    written(path, *lines)
    await imported(manager, path)
    waiting = said(database)["s1"]
    lines += [queue("dequeue", 4), queue("dequeue", 5), claude("user", "Q1\nQ2", "u2", "u1", 6)]
    written(path, *lines)
    await imported(manager, path)
    some = said(database)["s1"]
    hooks = Conversations(manager)
    await hooks.set_keeping(keep_days=3_650)
    written(path, *lines, queued("at1", "u2", "Q3", 7), claude("user", "Q4", "u3", "at1", 8))
    await hooks.keep(Conversation("claude-code", "s1", transcript=str(path)), read_transcript)

    assert waiting == ["begin", "Q1", "Q2", "Q3"]
    assert sorted(some) == ["Q1\nQ2", "Q3", "begin"]
    assert said(database)["s1"] == ["begin", "Q1\nQ2", "Q3", "Q4"]
    await imported(manager, path)
    assert said(database)["s1"] == ["begin", "Q1\nQ2", "Q3", "Q4"]


async def test_of_a_codex_session_with_events_and_items_each_text_is_kept_once(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "sessions"
    code, kept = "the bridge code is 7714", "Bridge code kept."
    written(
        folder / "rollout-1.jsonl", codex_meta("only-events"), codex_event("user_message", 1, message=code),
        codex_event("agent_message", 2, message=kept),
    )  # fmt: skip
    written(
        folder / "rollout-2.jsonl", codex_meta("both"), codex("user", code, 1), codex_event("user_message", 1, message=code),
        codex_event("agent_message", 2, message=kept), codex("assistant", kept, 2), codex("user", code, 3),
        codex_event("user_message", 3, message=code),
    )  # fmt: skip
    item = {"type": "UserMessage", "id": "i", "content": [{"type": "text", "text": code}]}
    written(folder / "rollout-3.jsonl", codex_meta("newer"), codex_event("item_completed", 1, item=item))
    by_agent = {"subagent": {"thread_spawn": {"parent_thread_id": "both"}}}
    written(folder / "rollout-4.jsonl", codex_meta("agent", source=by_agent), codex("user", "Find the keel.", 1))

    report = await imported(manager, folder)

    assert said(database) == {"only-events": [code, kept], "both": [code, kept, code], "newer": [code]}
    assert passed(report)["it repeats what was said"] == 3
    assert passed(report)["a sub-agent said it to itself"] == 1


async def test_a_prompt_of_codex_of_two_texts_is_kept_once_and_so_is_what_the_user_answered_to_a_question(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    texts = [{"type": "input_text", "text": text} for text in ("part one", "part two")]
    asked = {"type": "function_call", "name": "request_user_input", "call_id": "c1", "arguments": "{}"}
    given = json.dumps({"answers": {"db": {"answers": ["PostgreSQL", "user_note: the newest"]}}})
    answer = {"type": "function_call_output", "call_id": "c1", "output": given}
    lines = [
        codex("user", "begin", 1), codex("user", "keep me", 2), {**codex("user", "", 3), "payload": asked},
        {**codex("user", "", 4), "payload": answer}, codex_event("thread_rolled_back", 5, num_turns=1),
        {**codex("user", "", 6), "payload": asked}, {**codex("user", "", 7), "payload": answer},
        {**codex("user", "", 8), "payload": {"type": "message", "role": "user", "content": texts}},
        codex_event("user_message", 8, message="part onepart two"),
    ]  # fmt: skip

    await imported(manager, written(tmp_path / "rollout-1.jsonl", codex_meta("c1"), *lines))

    assert said(database) == {"c1": ["begin", "PostgreSQL\nthe newest", "part one\n\npart two"]}


async def test_what_a_tool_of_codex_answers_as_json_is_kept(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    answers = [
        json.dumps({"status": {"x": {"completed": {"message": "The keel is oak."}}}}), '{"output": "a.py"}', "plain", "{torn",
        [{"type": "input_text", "text": "from a list"}], {"content": [{"type": "text", "text": "inside"}]}, {"rows": 3},
    ]  # fmt: skip
    lines = [
        {
            "type": "response_item",
            "timestamp": at(n),
            "payload": {"type": "function_call_output", "call_id": "c", "output": answer},
        }
        for n, answer in enumerate(answers)
    ]
    await imported(manager, written(tmp_path / "rollout-1.jsonl", codex_meta("c1"), *lines))

    [kept] = said(database, roles=["tool"]).values()
    assert kept == [answers[0], "a.py", "plain", "{torn", "from a list", "inside", '{"rows": 3}']


async def test_sub_agents_and_saved_chats_of_gemini_cli_are_what_they_are(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    ark = tmp_path / "tmp" / "ark"
    written(ark / "chats" / "session-1.jsonl", {"sessionId": "g1", "projectHash": "h"}, gemini("a", "user", "Ahoy.", 1))
    written(
        ark / "chats" / "g1" / "x.jsonl", {"sessionId": "x", "projectHash": "h", "kind": "subagent"},
        gemini("a", "user", "Look for the keel.", 1),
    )  # fmt: skip
    written(ark / "checkpoint-plan.json")
    (ark / "checkpoint-plan.json").write_text(json.dumps([
        {"role": "user", "parts": [{"text": "This is the Gemini CLI. We are setting up the context for our chat."}]},
        {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
        {"role": "user", "parts": [{"text": "keep the plan"}]},
        {"role": "model", "parts": [{"text": "Kept."}]},
    ]), encoding="utf-8")  # fmt: skip

    report = await imported(manager, tmp_path / "tmp")
    alone = await imported(manager, ark / "checkpoint-plan.json")

    assert (report.system, alone.system) == ("gemini-cli", "gemini-cli")
    assert sorted(said(database).values()) == [["Ahoy."], ["keep the plan", "Kept."]]
    assert passed(report)["a sub-agent said it to itself"] == 1
    assert database.rows("SELECT title FROM conversations WHERE title IS NOT NULL") == [{"title": "plan"}]


RAN = "I ran the following shell command:\n```sh\n{}\n```\n\nThis produced the following result:\n```\n{}\n```"
STEER = "Internal instruction: Re-evaluate the active plan using this user steering update."


async def test_what_gemini_cli_adds_to_a_prompt_is_left_out(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    typed = "sum up @log.txt"
    files = [{"text": typed}, {"text": "\n--- Content from referenced files ---"}, {"text": "\nContent from @log.txt:\n"},
             {"text": "line"}, {"text": "\n--- End of content ---"}]  # fmt: skip
    await imported(
        manager,
        written(
            tmp_path / "chats" / "session-1.jsonl", {"sessionId": "g1", "projectHash": "h"},
            gemini("a", "user", files, 1, displayContent=[{"text": typed}]),
            gemini("b", "user", "".join(one["text"] for one in files).replace("sum", "add"), 2),
            gemini("c", "user", [{"text": "<hook_context>&lt;x&gt;</hook_context>"}, {"text": "name a river"}], 3),
            gemini("d", "user", "<session_context>\nToday is Monday.\n</session_context>", 4),
            gemini("e", "user", RAN.format("git log", "two commits"), 5),
            gemini("f", "user", f"User steering update:\n<user_input>\nby the left bank\n</user_input>\n{STEER}", 6),
            gemini("g", "user", f"User hints:\n<user_input>\n- no bridges\n</user_input>\n\n{STEER}", 7),
            gemini("h", "user", "User hints: are they kept?\nInternal instruction: what is that?", 8),
        ),
    )  # fmt: skip

    mine = "User hints: are they kept?\nInternal instruction: what is that?"
    assert said(database) == {
        "g1": [typed, "add up @log.txt", "name a river", "by the left bank", "- no bridges", mine]
    }
    assert said(database, roles=["tool"]) == {"g1": ["git log\ntwo commits"]}


REMINDER = "<system-reminder>todo list is empty</system-reminder>"
OF_CLAUDE_CODE: list[tuple[Any, str]] = [
    ([{"type": "text", "text": REMINDER}, {"type": "text", "text": "never deploy on Friday"}], "never deploy on Friday"),
    (f"{REMINDER}\nring me at noon", "ring me at noon"),
    (f"ring me at one\n\n{REMINDER}", "ring me at one"),
    ("<command-name>/review</command-name>\n<command-message>review</command-message>\n<command-args>only the parser, please</command-args>",
     "/review only the parser, please"),
    ("<command-message>model</command-message>\n<command-name>/model</command-name>\n<command-args></command-args>", ""),
    ("<local-command-stdout>Set model</local-command-stdout>", ""),
    ([{"type": "text", "text": "<ide_opened_file>The user opened /w/ark/intro.md</ide_opened_file>"}, {"type": "text", "text": "shorten the intro"}],
     "shorten the intro"),
    ("<ide_selection>The user selected lines 1 to 2 from /w/a.py:\nfoo = 1\n</ide_selection>\nrename foo to bar", "rename foo to bar"),
    ("<bash-input>ls</bash-input>", ""),
    ("<bash-stdout>a b</bash-stdout><bash-stderr></bash-stderr>", ""),
    ("Please review the change.\n<system-reminder>\ncwd changed\n</system-reminder>\nThe tail is mine.",
     "Please review the change.\nThe tail is mine."),
    ("[Request interrupted by user for tool use]", ""),
    ("<user-memory-input>always use tabs</user-memory-input>", "always use tabs"),
    ('<teammate-message teammate_id="b">done</teammate-message>', ""),
    ("Why does `<system-reminder>x</system-reminder>` come up?", "Why does `<system-reminder>x</system-reminder>` come up?"),
    ("My log ends with <system-reminder> and no more", "My log ends with <system-reminder> and no more"),
    ("See:\n```\n<system-reminder>\nx\n</system-reminder>\n```\nWhy?", "See:\n```\n<system-reminder>\nx\n</system-reminder>\n```\nWhy?"),
    ("<div>\n<p>Ahoy</p>\n</div>", "<div>\n<p>Ahoy</p>\n</div>"),
    *((text, text) for text in (
        "This session is being continued from a previous conversation that ran out of context. Why do I always see this?",
        "What is this?\n<command-name>foo</command-name>\nIt is in my log.", "<terminal>dark theme please</terminal>",
        "<command-name>foo</command-name>\nWhy do I see this?",
    )),
    ("This session is being continued from a previous conversation that ran out of context. The summary below covers the "
     "earlier portion.\n\nSummary: oak", ""),
    ("<task-notification>\n<task-id>b1</task-id>\n</task-notification>\nRead the output file to retrieve the result: /tmp/b1\n"
     "and go on", "and go on"),
    ("Another Claude session sent a message:\n<agent-message from=\"b\">\ndone\n</agent-message>\n\nIt was not typed by your user.",
     ""),
    ("Another Claude session sent a message: what does that mean?", "Another Claude session sent a message: what does that mean?"),
    ("<ide_selection>lines 1 to 2 from /w/a.py:\na = '</ide_selection>'\nb = 2\n</ide_selection>\nrename b", "rename b"),
    ("<ide_selection>a = '</ide_selection>'\nThis may or may not be related to the current task.</ide_selection>\n"
     "what is </ide_selection>?", "what is </ide_selection>?"),
]  # fmt: skip


async def test_what_claude_code_writes_around_a_prompt_is_cut_out_and_the_prompt_stays(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    lines = [claude("user", content, f"u{n}", None, n) for n, (content, _) in enumerate(OF_CLAUDE_CODE)]
    lines += [
        claude("user", "hook said: lint failed", "h1", None, 90, origin={"kind": "hook"}),
        claude("user", "I said this", "h2", None, 91, origin={"kind": "human"}),
        claude("user", "for the model only", "h3", None, 92, isMeta=True),
        claude("assistant", "API Error: overloaded", "h4", None, 93, isApiErrorMessage=True),
    ]
    report = await imported(manager, written(tmp_path / "p" / "s1.jsonl", *lines))

    assert said(database)["s1"] == [*(text for _, text in OF_CLAUDE_CODE if text), "I said this"]
    assert said(database, roles=["tool"])["s1"] == ["ls", "a b"]
    assert passed(report)["it is a command of the client"] == 1
    assert passed(report)[BY_PROGRAM] == 5
    assert passed(report)[BY_CLIENT] == 13


REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string "
    "was NOT written to the file). To tell you how to proceed, the user said:\n"
)
HAS_ANSWERED = 'User has answered your questions: "Which db?"="PostgreSQL", "Port?"="the "old" one"'
TO_TOOLS: list[tuple[str, Any, str]] = [
    (f"{REFUSED}use port 9000 instead", None, "use port 9000 instead"),
    (f"{REFUSED}in two\n\nparts\n\nNote: The user's next message may contain a correction.", None, "in two\n\nparts"),
    (HAS_ANSWERED, None, 'PostgreSQL\n\nthe "old" one'),
    (f"{HAS_ANSWERED}. You can now continue with the user's answers in mind.", None, 'PostgreSQL\n\nthe "old" one'),
    (HAS_ANSWERED, {"answers": {"Which db?": "Oracle"}, "annotations": {"Which db?": {"notes": "no other"}}}, "Oracle\nno other"),
    ("1: the user said:\nnothing", None, ""),
]  # fmt: skip


async def test_what_a_person_types_when_a_tool_of_claude_code_asks_is_theirs(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    lines = [
        claude("user", [{"type": "tool_result", "tool_use_id": "t", "content": text}], f"u{n}", None, n, toolUseResult=given)
        for n, (text, given, _) in enumerate(TO_TOOLS)
    ]  # fmt: skip

    await imported(manager, written(tmp_path / "p" / "s1.jsonl", *lines))

    assert said(database, roles=["user"])["s1"] == [words for *_, words in TO_TOOLS if words]
    assert said(database, roles=["tool"])["s1"] == ["1: the user said:\nnothing"]


OF_CODEX = [
    ("<environment_context>\n  <cwd>/w</cwd>\n</environment_context>", ""),
    ("# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nUse tabs.\n</INSTRUCTIONS>", ""),
    ("# AGENTS.md instructions are too long, shorten them", "# AGENTS.md instructions are too long, shorten them"),
    ("# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nfix a.py", "fix a.py"),
    ("<turn_aborted>\nThe user interrupted.\n</turn_aborted>", ""),
    ("<image>", ""),
    ("<user_shell_command>\n<command>ls</command>\n</user_shell_command>", ""),
    ("<system-reminder>mine</system-reminder>", "<system-reminder>mine</system-reminder>"),
    ("<ENVIRONMENT_CONTEXT>\n<cwd>/w</cwd>\n</environment_context>", ""),
    ("<goal_context>\nGo on with the goal.\n</goal_context>", ""),
    ('<external_context source="app">\nwind: west\n</external_context>\nset sail', "set sail"),
    ("Warning: The maximum number of unified exec processes you can keep open is 60.", ""),
    ("Another language model started to solve this problem, I think", "Another language model started to solve this problem, I think"),
]  # fmt: skip


async def test_what_codex_writes_around_a_prompt_is_cut_out(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    lines = [codex("user", text, n) for n, (text, _) in enumerate(OF_CODEX)]
    parts = codex("user", "no tag shows that nobody typed this", 90)
    parts["payload"]["content"].append({"type": "input_text", "text": "this was typed"})
    kinds = ["hooks.additional_context", "user.text"]
    parts["payload"]["internal_chat_message_metadata_passthrough"] = {"content_item_kinds": kinds}
    asked = codex_event("entered_review_mode", 91, target={"type": "custom", "instructions": "only mind the rudder"})
    against = codex_event("entered_review_mode", 92, target={"type": "baseBranch", "branch": "main"})
    lines += [parts, asked, against]

    await imported(manager, written(tmp_path / "rollout-1.jsonl", codex_meta("c1"), *lines))

    mine = [text for _, text in OF_CODEX if text]
    assert said(database)["c1"] == [*mine, "this was typed", "only mind the rudder"]


words = st.text(alphabet="abc äß<>/&`~ \n", max_size=60)


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(INSIDE)), words)
def test_what_a_person_writes_without_a_clients_tags_is_theirs_whole(client: str, text: str) -> None:
    assert said_by_person(client, [text]).text == text.strip()


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(
        [
            (client, tag)
            for client in INSIDE
            for tag, reason in INSIDE[client].items()
            if reason not in (PERSON, COMMAND)
        ]
    ),
    st.lists(st.from_regex(r"[a-z]{1,9}( [a-z]{1,9}){0,3}", fullmatch=True), min_size=1, max_size=4),
    st.from_regex(r"[a-z<>/\n ]{0,30}", fullmatch=True),
    st.integers(0, 4),
)
def test_a_wrapper_on_lines_of_its_own_is_cut_out_and_all_else_stays(
    wrapper: tuple[str, str], mine: list[str], inner: str, place: int
) -> None:
    client, tag = wrapper
    lines = [*mine[:place], f"<{tag}>{inner}</{tag}>", *mine[place:]]

    assert said_by_person(client, ["\n".join(lines)]).text == "\n".join(mine)
    assert said_by_person(client, [f"I saw `<{tag}>{inner.replace('`', '')}</{tag}>` there"]).text.startswith(
        "I saw `<"
    )


async def test_of_gemini_cli_files_of_a_prompt_thoughts_and_answers_of_tools_are_told_apart(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    files = ["explain @a.py", "\n--- Content from referenced files ---", "\nContent from @a.py:\n",
             "print(2)\n--- End of content ---\nprint(3)", "\n--- End of content ---"]  # fmt: skip
    got = [{"functionResponse": {"response": {"output": "nine rivers"}}}]
    call = {"name": "read_file", "args": {"path": "r"}, "result": got}
    await imported(
        manager,
        written(
            tmp_path / "session-1.jsonl", {"sessionId": "g1", "projectHash": "h"},
            gemini("a", "user", [{"text": one} for one in files], 1),
            gemini("b", "gemini", [{"text": "Do they want it short?", "thought": True}, {"text": "It prints."}], 2),
            gemini("c", "gemini", "", 3, toolCalls=[call]),
            gemini("d", "gemini", "Nine.", 4, toolCalls=[call]),
        ),
    )  # fmt: skip

    assert said(database) == {"g1": ["explain @a.py", "It prints.", "Nine."]}
    assert said(database, roles=["tool"]) == {"g1": ['read_file {"path": "r"}\nnine rivers'] * 2}


async def test_what_was_pasted_or_spoken_to_claude_ai_is_kept(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    pasted = [{"file_name": name, "extracted_content": f"pasted {name}"} for name in ("", None, "paste.txt")]
    said_so: list[dict[str, Any]] = [
        {"attachments": pasted, "text": ""},
        {"content": [{"type": "thinking", "text": "hm"}, {"type": "voice_note", "text": "spoken"}]},
        {"content": [{"type": "text", "text": "see"}], "attachments": pasted[:1]},
        {"content": [{"type": "text", "text": ""}], "text": "in the other field"},
    ]
    messages = [{"uuid": f"m{n}", "sender": "human", "created_at": at(n), **one} for n, one in enumerate(said_so)]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"uuid": "c-1", "created_at": at(0), "chat_messages": messages}]), encoding="utf-8")

    await imported(manager, path)

    assert said(database)["c-1"] == [
        "pasted\n\npasted None\n\n[paste.txt]\npasted paste.txt",
        "spoken",
        "see\n\npasted",
        "in the other field",
    ]
