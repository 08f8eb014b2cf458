"""Whole sessions of real assistants with hooks, before a stand-in for their model: what came before the model, and what was kept.

    python benchmarks/real_clients.py claude-code PATH-OF-CLAUDE

The assistant is the program itself, as its maker publishes it; its home folder, its project and the store are temporary. The stand-in
answers on the loopback, calls a tool when asked to, and writes down what it is sent. Exit code 1 when anything is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pgengram.inputs import NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

OFFICE = "The Ark project deploys from the office in Lyon, every Thursday at nine."
PROMPTS = ("Please use a tool to say hello.", "From which office do we deploy the Ark project?")
ANSWER = "Understood; the stand-in says so."
TOOL = {"id": "toolu_1", "name": "Bash", "input": {"command": "echo hello-from-the-tool", "description": "Say hello"}}
USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
PATIENCE_S = 120


class StandIn(BaseHTTPRequestHandler):
    """A model that calls a tool when the last thing said asks for one, and else gives one answer."""

    protocol_version = "HTTP/1.1"
    asked: list[str] = []  # noqa: RUF012 - of all requests, as their texts

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send("application/json", "")

    def do_GET(self) -> None:
        self.do_HEAD()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if not self.path.startswith("/v1/messages"):
            self._send("application/json", "{}")
        elif "count_tokens" in self.path:
            self._send("application/json", '{"input_tokens": 10}')
        else:
            StandIn.asked.append(json.dumps([request.get("system"), request.get("messages")], ensure_ascii=False))
            self._answer(request)

    def _answer(self, request: Mapping[str, Any]) -> None:
        calls = bool(request.get("tools")) and _asks_for_a_tool(request["messages"])
        block = {"type": "tool_use", **TOOL} if calls else {"type": "text", "text": ANSWER}
        message = {
            "id": f"msg_{len(StandIn.asked)}", "type": "message", "role": "assistant", "model": request.get("model"), "content": [block],
            "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None, "usage": USAGE,
        }  # fmt: skip
        if request.get("stream"):
            self._send("text/event-stream", "".join(_events(message)))
        else:
            self._send("application/json", json.dumps(message))

    def _send(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _asks_for_a_tool(messages: list[Mapping[str, Any]]) -> bool:
    said = [one for one in messages if one["role"] == "user"]
    last = said[-1]["content"] if said else ""
    blocks = [{"type": "text", "text": last}] if isinstance(last, str) else last
    texts = [block.get("text", "") for block in blocks if block.get("type") == "text"]
    return any(PROMPTS[0] in text for text in texts) and all(block.get("type") != "tool_result" for block in blocks)


def _events(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message as the events that a stream brings."""
    [block] = message["content"]
    if block["type"] == "text":
        empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    begun = {**message, "content": [], "stop_reason": None}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    for name, more in (
        ("message_start", {"message": begun}),
        ("content_block_start", {"index": 0, "content_block": empty}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": ended, "usage": {"output_tokens": 5}}),
        ("message_stop", {}),
    ):
        yield f"event: {name}\ndata: {json.dumps({'type': name, **more})}\n\n"


@contextmanager
def standing_in() -> Iterator[str]:
    """Serve the stand-in and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def claude_code(program: str, folder: Path, home: Path, model: str) -> Callable[..., None]:
    """Return what runs Claude Code for one prompt."""
    environment = {
        **_environment(home), "ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "none", "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }  # fmt: skip

    def say(prompt: str, *options: str) -> None:
        command = [program, "-p", prompt, "--allowedTools", "Bash", *options]
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S
        )
        print(f"> {prompt}\n{ended.stdout.strip()}")

    return say


CLIENTS = {"claude-code": claude_code}


def _environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PGENGRAM_", "ANTHROPIC_"))}
    return {**kept, "HOME": str(home), "PGENGRAM_DATA_DIR": str(home / "memories")}


def pgengram(home: Path, *words: str) -> Any:
    """Run a command of pgengram for the assistant's user and return what it answers as JSON."""
    command = [sys.executable, "-m", "pgengram", *words]
    ended = subprocess.run(command, env=_environment(home), capture_output=True, text=True, check=True)
    return json.loads(ended.stdout) if ended.stdout.startswith(("{", "[")) else ended.stdout


def warm(home: Path, client: str) -> bool:
    """Whether a hook is answered at once."""
    command = [sys.executable, "-m", "pgengram", "hook", client]
    given = json.dumps({"hook_event_name": "SessionStart", "session_id": "warm", "source": "startup"})
    ended = subprocess.run(command, env=_environment(home), input=given, capture_output=True, text=True, check=True)
    return bool(ended.stdout)


async def remember(settings: Settings, *contents: str) -> None:
    """Store memories of the project ark."""
    manager = MemoryManager(settings)
    for content in contents:
        await manager.create_memory(NewMemory.model_validate({"content": content, "project": "ark"}))
    await manager.close()


def sessions(client: str, program: str, home: Path) -> dict[str, bool]:
    """Have an assistant work in two sessions, and return what held."""
    folder = home / "work" / "ark"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    asyncio.run(remember(Settings(data_dir=str(home / "memories")), OFFICE))
    pgengram(home, "connect", client, "--hooks", "--yes")
    while not pgengram(home, "search", "office", "--json")["count"] or not warm(home, client):
        time.sleep(0.1)  # until a server for the moment is up: what is cold is measured by hooks.py
    with standing_in() as model:
        say = CLIENTS[client](program, folder, home, model)
        say(PROMPTS[0])
        first = len(StandIn.asked)
        say(PROMPTS[1], "--continue")
        for step in range(4):  # it compacts no conversation that is short
            say(f"Go on with step {step}.", "--continue")
        say("/compact", "--continue")
        resumed = len(StandIn.asked)
        say("What is next?")
    kept = pgengram(home, "conversations", "list", "--json")["conversations"]
    turns = [pgengram(home, "conversations", "show", one["conversation"], "--json")["turns"] for one in kept]
    texts = [(turn["role"], turn["text"]) for one in turns for turn in one]
    receipts = pgengram(home, "receipts", "--json")["receipts"]
    begun, compacted, second = (
        "\n".join(StandIn.asked[:first]), "\n".join(StandIn.asked[first:resumed]), "\n".join(StandIn.asked[resumed:]),
    )  # fmt: skip
    log = home / "memories" / "hooks.log"
    print(json.dumps({"turns": texts, "receipts": receipts, "log": log.read_text() if log.exists() else ""}, indent=1))
    return {
        "the first session began with what is known of its project": OFFICE in begun,
        "the prompts were kept": {("user", prompt) for prompt in PROMPTS} <= set(texts),
        "the answers were kept": ("assistant", ANSWER) in texts,
        "what the tool printed was kept": any(role == "tool" and "hello-from-the-tool" in text for role, text in texts),
        "no turn was kept twice": all(len({turn["number"] for turn in one}) == len(one) for one in turns),
        "the summary was asked for what is lasting": "To remember" in compacted,
        "the second session began with how the first one ended": "The last conversation" in second,
        "no memory came twice in a conversation": len({(r["memory_id"], r["conversation"]) for r in receipts})
        == len(receipts),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("program", help="path of the assistant's program")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as home:
        held = sessions(given.client, str(Path(given.program).resolve()), Path(home))
    for words, true in held.items():
        print(f"{'yes' if true else 'NO '}  {words}")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
