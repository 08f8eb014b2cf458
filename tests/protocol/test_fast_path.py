"""What is answered without the SDK, is answered as by the SDK; and whatever else is said, the SDK answers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from protocol_peer import ENVELOPE, HELLO
from toy import Manager, Said

from pgengram.mcp import speaking
from pgengram.mcp.conversation import Conversation
from pgengram.mcp.fast_path import FastPath
from pgengram.mcp.tool_registry import ToolRegistry
from pgengram.runtime.context import ACTOR, ASKER
from pgengram.service.tools import READS, tool, tools_of

Frame = dict[str, Any]
YES = {"action": "accept", "content": {"confirm": True}}


class Asking(Manager):
    """The toy, which can also say who calls, and put a question."""

    @tool(READS, title="Who am I")
    async def who_am_i(self) -> Said:
        """Say who calls."""
        return Said(message=str(ACTOR.get()))

    @tool(READS, title="Ask")
    async def ask(self) -> Said:
        """Ask the client's user."""
        asker = ASKER.get()
        if asker is None:
            return Said(message="nobody can be asked")
        return Said(message=f"{asker.answer}" if asker.answer else f"{await asker.ask('Sure?', 'a token')}")


class Told:
    """A client that says its lines one by one, each when the last was answered, and answers questions with yes."""

    def __init__(self, lines: list[bytes], reply: Frame) -> None:
        self.lines = deque(lines)
        self.heard: list[Frame] = []
        self.reply = reply
        self.talk: Conversation

    async def line(self) -> bytes | None:
        while not self.lines and not self.talk.is_settled:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        while self.lines and b'"method"' in self.lines[0] and not self.talk.is_settled:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return self.lines.popleft() if self.lines else None

    def write(self, data: bytes) -> None:
        frame = json.loads(data)
        if frame.get("method") == "elicitation/create":
            self.lines.appendleft(json.dumps({"jsonrpc": "2.0", "id": frame.pop("id"), **self.reply}).encode())
        self.heard.append(frame)

    async def drain(self) -> None:
        return


async def heard(
    lines: list[Frame | bytes], serve: Callable[..., Any] | None = None, reply: Frame | None = None
) -> list[Frame]:
    """Return what a client hears that says these lines."""
    channel = Told(
        [line if isinstance(line, bytes) else json.dumps({"jsonrpc": "2.0", **line}).encode() for line in lines],
        reply or {"result": YES},
    )
    manager = Asking()
    channel.talk = Conversation(channel)
    registry = ToolRegistry(tools_of(manager), ready=manager.ready)
    await (serve or speaking._served)(registry, channel.talk, None)
    return channel.heard


def greeting(version: str = "2025-11-25", **capabilities: Any) -> list[Frame]:
    hello = {**HELLO, "protocolVersion": version, "capabilities": capabilities}
    return [{"id": "hello", "method": "initialize", "params": hello}, {"method": "notifications/initialized"}]


def call(id: int | str, tool: str, arguments: Any = None, **more: Any) -> Frame:
    return {"id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments, **more}}


def modern(frame: Frame, **meta: Any) -> Frame:
    return {**frame, "params": {**frame.get("params", {}), "_meta": {**ENVELOPE, **meta}}}


CALLS = [
    call(1, "keep", {"text": "a", "words": ["x"]}),
    call("two", "keep", {"text": ""}),
    call(3, "keep", {"text": "a", "nope": 1}),
    *(call(how, "fail", {"how": how}) for how in ("foreseen", "unforeseen", "partly", "unwritable")),
    call(9, "who_am_i"),
    call(10, "ask", {}),
    call(11, "wait", {"seconds": 0}, _meta={"progressToken": "t"}),
]
CAN_ASK = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}

PLAIN: dict[str, list[Frame | bytes]] = {
    "handshake of 2025-06-18": [*greeting("2025-06-18"), {"id": 1, "method": "ping"}, *CALLS],
    "handshake of 2025-11-25": [*greeting(), {"id": 1, "method": "tools/list"}, *CALLS],
    "a client that can ask": [*greeting(elicitation={}), call(1, "ask")],
    "a client that can open pages only": [*greeting(elicitation={"url": {}}), call(1, "ask")],
    "notifications": [
        *greeting(),
        {"method": "notifications/cancelled", "params": {"requestId": 77}},
        {"method": "notifications/roots/list_changed"},
        {"id": 1, "method": "ping"},
    ],
    "an answer that nobody waits for": [*greeting(), {"id": 5, "result": {}}, {"id": 1, "method": "ping"}],
    "each request for itself": [
        *(modern({"id": 1, "method": method}) for method in ("server/discover", "tools/list")),
        *(modern(one) for one in CALLS[:-1]),
    ],
    "a question as a result": [
        modern(call(1, "ask"), **CAN_ASK),
        modern(call(2, "ask", inputResponses={"confirm": YES}, requestState="a token"), **CAN_ASK),
        modern(call(3, "ask", inputResponses={"confirm": {"action": "decline"}}, requestState="b"), **CAN_ASK),
    ],
}
LEFT: dict[str, list[Frame | bytes]] = {
    "an older version": [*greeting("2024-11-05"), {"id": 1, "method": "tools/list"}, *CALLS[:3]],
    "nothing before the handshake": [call(1, "keep", {"text": "a"}), *greeting(), {"id": 2, "method": "ping"}],
    "a tool that is not there": [*greeting(), call(1, "nope"), *CALLS[:3]],
    "what this server cannot do": [*greeting(), {"id": 1, "method": "resources/list"}, CALLS[0]],
    "arguments of another kind": [*greeting(), call(1, "keep", ["a"]), CALLS[0]],
    "a second handshake": [*greeting(), *greeting("2025-06-18"), CALLS[0]],
    "no JSON": [*greeting(), b"{", b"[]", b'{"jsonrpc":"1.0","id":1,"method":"ping"}', CALLS[0]],
    "NaN": [*greeting(), b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', CALLS[0]],
    "a request of the newer era after a handshake": [*greeting(), modern(CALLS[0]), CALLS[0]],
    "a handshake in the newer era": [modern({"id": 1, "method": "server/discover"}), *greeting(), modern(CALLS[0])],
    "a ping in the newer era": [modern({"id": 1, "method": "server/discover"}), modern({"id": 2, "method": "ping"})],
    "no capabilities": [modern(CALLS[0], **{"io.modelcontextprotocol/clientCapabilities": 3}), modern(CALLS[0])],
    "a page of the list": [*greeting(), {"id": 1, "method": "tools/list", "params": {"cursor": "x"}}, CALLS[0]],
}


async def by_the_sdk(registry: ToolRegistry, conversation: Conversation, more: Any) -> None:
    await speaking._by_the_sdk(registry, conversation, more)


@pytest.mark.parametrize("talk", [*PLAIN, *LEFT])
async def test_a_client_hears_what_the_sdk_would_say(talk: str) -> None:
    lines = {**PLAIN, **LEFT}[talk]

    assert await heard(lines) == await heard(lines, by_the_sdk)


@pytest.mark.parametrize("talk", PLAIN)
async def test_what_most_clients_say_is_understood_without_the_sdk(talk: str) -> None:
    understood = []

    async def plainly(registry: ToolRegistry, conversation: Conversation, more: Any) -> None:
        del more
        understood.append(await FastPath(registry, conversation).serve())

    await heard(PLAIN[talk], plainly)

    assert understood == [True]


async def test_progress_is_told_who_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_READY_S", "0.1")
    lines = [*greeting(), call(1, "wait", {"seconds": 0}, _meta={"progressToken": 7})]

    said = await heard(lines)

    assert said == await heard(lines, by_the_sdk)
    assert said[1]["params"] == {"progressToken": 7, "progress": 1, "message": "starting the database"}


@pytest.mark.parametrize("reply", [{"error": {"code": -1, "message": "cannot"}}, {"result": {"action": "decline"}}])
async def test_a_question_that_is_not_answered_with_yes_is_none(reply: Frame) -> None:
    lines = [*greeting(elicitation={}), call(1, "ask")]

    assert await heard(lines, reply=reply) == await heard(lines, by_the_sdk, reply=reply)


async def test_a_call_goes_on_while_the_sdk_takes_over() -> None:
    lines = [*greeting(elicitation={}), call(1, "ask"), b"[]", call(2, "keep", {"text": "a"})]

    answers = {frame.get("id"): frame for frame in await heard(lines)}

    assert answers[1]["result"]["structuredContent"]["message"] == "True"
    assert answers[2]["result"]["structuredContent"]["text"] == "a"


def test_an_ordinary_conversation_does_not_import_the_sdk() -> None:
    lines = [*greeting(), call(1, "keep", {"text": "a"}), {"id": 2, "method": "tools/list"}]
    text = "\n".join(json.dumps({"jsonrpc": "2.0", **line}) for line in lines)
    program = (
        "import asyncio, sys; sys.path.insert(0, sys.argv[1]);"
        "import toy; from pgengram.mcp.stdio.watchdog import ParentWatchdog as W; finish = W.finish;"
        "W.finish = lambda *a: (sys.stderr.write(str('mcp_types' in sys.modules)), sys.stderr.flush(), finish(*a));"
        "asyncio.run(toy.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, __file__.rpartition("/")[0]],
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == "False"
