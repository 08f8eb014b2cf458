"""What an assistant writes beside a conversation, artifacts and canvases, is kept whole as it was at the end, and is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from test_histories import MAY, chat, node, zipped
from transcript_lines import at, claude, imported, said, written

from helpers import Database
from pgengram.service.conversations import Conversations
from pgengram.service.manager import MemoryManager

LONG = "A line of the plan that goes on.\n" * 250


def artifact(command: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": "artifacts", "input": {"command": command, "id": "plan", **given}}


def exported(*messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{
        "uuid": "c-1", "name": "Trip", "created_at": at(0), "chat_messages": [
            {"uuid": f"m{n}", "sender": "assistant", "text": "", "content": content, "created_at": at(n)}
            for n, content in enumerate(messages)
        ],
    }]  # fmt: skip


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


async def test_an_artifact_of_claude_ai_is_kept_whole_as_it_was_at_the_end(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    made = [text("by ferry"), artifact("create", title="plan.md", content=f"# Day 1\n{LONG}kittiwake")]
    changed = [text("changed"), artifact("update", old_str="kittiwake", new_str="guillemot")]
    lost = [artifact("update", old_str="never there", new_str="and a puffin")]
    path = tmp_path / "files.zip"
    file = {
        "type": "tool_use",
        "name": "create_file",
        "input": {"path": "/mnt/out/list.md", "file_text": f"{LONG}razorbill"},
    }

    old = zipped(tmp_path / "1.zip", conversations__json=exported(made))
    first = await imported(manager, old)
    whole = said(database)
    ran = [text("counted"), {"type": "tool_use", "name": "repl", "input": {"code": "birds.length"}}]
    shell = [
        text("written"),
        {"type": "tool_use", "name": "bash_tool", "input": {"command": f"cat > a.md <<E\n{LONG}E"}},
    ]
    looked = [text("looked"), {"type": "tool_use", "name": "web_search", "input": {"query": "terns"}}]
    await imported(manager, zipped(path, conversations__json=exported(made, changed, lost, [file], ran, shell, looked)))
    await imported(manager, old)

    assert first.added["turn"] == 2
    assert whole == {"c-1": ["by ferry", f"[plan.md]\n# Day 1\n{LONG}kittiwake"]}
    assert said(database)["c-1"] == [
        "by ferry", "changed", f"[plan.md]\n# Day 1\n{LONG}guillemot\nand a puffin", f"[list.md]\n{LONG}razorbill",
        "counted", "[repl]\nbirds.length", "written", f"[bash_tool]\ncat > a.md <<E\n{LONG}E", "looked",
    ]  # fmt: skip
    for bird in ("guillemot", "razorbill"):
        rows = database.rows(f"SELECT 1 FROM conversation_turns WHERE terms && pgengram_turn_terms('{bird}')")
        assert len(rows) == 1, bird
    assert said(database, roles=["tool"]) == {}
    assert await Conversations(manager).counted({"client": "claude-ai"})


async def test_a_canvas_of_chatgpt_is_kept_whole_as_it_was_at_the_end(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    def canvas(id_: str, parent: str, recipient: str, second: int, **given: Any) -> dict[str, Any]:
        content = {"content_type": "code", "text": json.dumps(given)}
        return node(id_, parent, "assistant", "", MAY + second, content=content, recipient=f"canmore.{recipient}")

    nodes = [
        canvas("w1", "a2", "create_textdoc", 200, name="plan", type="document", content=f"{LONG}quokka"),
        canvas("w2", "w1", "update_textdoc", 210, updates=[{"pattern": "quokka", "multiple": False, "replacement": "wombat"}]),
        canvas("w3", "w2", "create_textdoc", 220, name="code", type="code/python", content="print(1)"),
        canvas("w4", "w3", "update_textdoc", 230, updates=[{"pattern": ".*", "multiple": False, "replacement": f"{LONG}bandicoot"}]),
        canvas("w5", "w4", "update_textdoc", 240, updates=[{"pattern": "(a+)+$", "replacement": "a bilby"}]),
        canvas("w6", "w5", "create_textdoc", 250, name="cats", content="cat cat cat"),
        canvas("w7", "w6", "update_textdoc", 260, updates=[{"pattern": "cat", "multiple": True, "replacement": "dog"}]),
    ]  # fmt: skip

    await imported(manager, zipped(tmp_path / "1.zip", conversations__json=[chat(*nodes[:1], current="w1")]))
    await imported(manager, zipped(tmp_path / "x.zip", conversations__json=[chat(*nodes, current="w7")]))

    assert said(database)["c-1"][2:] == [
        f"[plan]\n{LONG}wombat", f"[code]\n{LONG}bandicoot\na bilby", "[cats]\ndog dog dog",
    ]  # fmt: skip


async def test_a_plan_of_claude_code_is_kept_whole(manager: MemoryManager, database: Database, tmp_path: Path) -> None:
    plan = {"type": "tool_use", "id": "t", "name": "ExitPlanMode", "input": {"plan": f"{LONG}kittiwake"}}

    await imported(manager, written(tmp_path / "p" / "s1.jsonl", claude("assistant", [plan], "a1", None, 1)))

    assert said(database) == {"s1": [f"{LONG}kittiwake"]}


async def test_works_of_an_answer_that_was_generated_again_go_with_it(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    first = exported([text("a plan?")], [artifact("create", title="plan.md", content="by ferry")])
    again = exported([text("a plan?")], [artifact("create", title="plan.md", content="by ferry")],
                     [artifact("create", title="plan.md", content="by train")])  # fmt: skip
    for one in again[0]["chat_messages"][1:]:
        one["parent_message_uuid"] = "m0"
    canvas = {"content_type": "code", "text": json.dumps({"name": "map", "content": "a map"})}
    drawn = node("w1", "a2", "assistant", "", MAY + 200, content=canvas, recipient="canmore.create_textdoc")
    other = node("w2", "a2", "assistant", "no map", MAY + 300)

    await imported(manager, zipped(tmp_path / "1.zip", conversations__json=first))
    await imported(manager, zipped(tmp_path / "2.zip", conversations__json=again))
    claude_ai = said(database)["c-1"]
    database.rows("DELETE FROM conversations")
    await imported(manager, zipped(tmp_path / "3.zip", conversations__json=[chat(drawn, current="w1")]))
    with_map = said(database)["c-1"]
    await imported(manager, zipped(tmp_path / "4.zip", conversations__json=[chat(drawn, other, current="w2")]))

    assert claude_ai == ["a plan?", "[plan.md]\nby train"]
    assert (with_map[-1], said(database)["c-1"][-1]) == ("[map]\na map", "no map")
    assert "[map]\na map" not in said(database)["c-1"]


async def test_of_a_work_in_messages_without_names_the_last_state_alone_is_kept_in_either_order(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    made = [text("by ferry"), artifact("create", title="plan.md", content="# Day 1\nkittiwake")]
    changed = [text("changed"), artifact("update", old_str="kittiwake", new_str="guillemot")]
    files = []
    for number, messages in enumerate([[made], [made, changed]]):
        [conversation] = exported(*messages)
        unnamed = [
            {name: value for name, value in one.items() if name != "uuid"} for one in conversation["chat_messages"]
        ]
        files.append(
            zipped(tmp_path / f"{number}.zip", conversations__json=[{**conversation, "chat_messages": unnamed}])
        )

    for order in (files, files[::-1]):
        database.rows("DELETE FROM conversations")
        for path in order:
            await imported(manager, path)
        assert sorted(said(database)["c-1"]) == sorted(["by ferry", "changed", "[plan.md]\n# Day 1\nguillemot"])
