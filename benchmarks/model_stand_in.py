"""A stand-in of the models' APIs on the loopback: Anthropic's Messages, OpenAI's Responses and Google's generateContent.

It says what it is told to: a tool call where the user asks for one, else one sentence. What it is given is kept, so that
a run can tell what came before the model.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

SAYS: Final = "Understood: the office in Lyon."
ASKED: Final = "run the tool"  # of a prompt whose answer begins with a tool call
COMMAND: Final = "echo from-the-tool"
FULL: Final = 900_000  # tokens: a context that has to be compacted
SHELLS: Final = ("exec_command", "shell_command", "shell", "local_shell", "container.exec")
Json = dict[str, Any]


class StandIn:
    """A model that is asked over HTTP.

    Attributes:
        url: where it listens.
        asked: the bodies of the requests, in their order.
        is_full: whether the next answer says that the context is full.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[Json] = []
        self.is_full = False

    def given(self, since: int = 0) -> str:
        """Return all that came before the model from a request on."""
        return json.dumps(self.asked[since:], ensure_ascii=False)

    def answer(self, path: str, body: Json) -> tuple[str, str]:
        """Return the content type and the text of an answer."""
        self.asked.append(body)
        tokens, self.is_full = (FULL if self.is_full else 100), False
        if "count_tokens" in path or "countTokens" in path:
            return _json({"input_tokens": tokens, "totalTokens": tokens})
        if "/messages" in path:
            return _messages(body, tokens)
        if "/responses" in path:
            return _responses(body, tokens)
        if "enerateContent" in path:
            return _generated(path, body, tokens)
        return _json({"data": [], "models": []})


@contextmanager
def running() -> Iterator[StandIn]:
    """Serve a stand-in on a free port of the loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(*_json({"data": [], "models": []}))

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            raw = gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw
            try:
                body = json.loads(raw)
            except ValueError:  # telemetry of a client
                body = {}
            self._send(*stand_in.answer(self.path, body))

        def log_message(self, *_: Any) -> None:
            pass

        def _send(self, kind: str, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in = StandIn(server.server_port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield stand_in
    finally:
        server.shutdown()


def _json(value: Any) -> tuple[str, str]:
    return "application/json", json.dumps(value)


def _events(events: list[Json]) -> tuple[str, str]:
    return "text/event-stream", "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)


def _since_user(said: list[Json]) -> list[Json]:
    """Return what was said last by the user, and all after it."""
    users = [place for place, one in enumerate(said) if one.get("role") == "user"]
    return said[users[-1] :] if users else []


def _messages(body: Json, tokens: int) -> tuple[str, str]:
    """Answer as Anthropic's Messages."""
    last = json.dumps(_since_user(body.get("messages", [])))
    has_shell = any(tool.get("name") == "Bash" for tool in body.get("tools", ()))
    calls = has_shell and ASKED in last and "tool_result" not in last
    block: Json = {"type": "text", "text": SAYS}
    if calls:
        given = {"command": COMMAND, "description": "Say something"}
        block = {"type": "tool_use", "id": f"toolu_{len(last)}", "name": "Bash", "input": given}
    stop = "tool_use" if calls else "end_turn"
    usage = {"input_tokens": tokens, "output_tokens": 10}
    number = f"msg_{len(body.get('messages', []))}"  # of one number Claude Code makes one message
    message = {"id": number, "type": "message", "role": "assistant", "model": body.get("model", ""), "usage": usage}
    if not body.get("stream"):
        return _json({**message, "content": [block], "stop_reason": stop, "stop_sequence": None})
    begun = {**block, "input": {}} if calls else {**block, "text": ""}
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        if calls
        else {"type": "text_delta", "text": SAYS}
    )
    return _events([
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    ])  # fmt: skip


def _responses(body: Json, tokens: int) -> tuple[str, str]:
    """Answer as OpenAI's Responses."""
    said = body.get("input", [])
    since = json.dumps(_since_user(said))
    item: Json = {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": SAYS}]}
    if ASKED in since and "_call_output" not in since:
        item = _shell_call(body.get("tools", [])) or item
    usage = {
        "input_tokens": tokens, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None,
        "total_tokens": tokens + 1,
    }  # fmt: skip
    return _events([
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "output": [item], "usage": usage}},
    ])  # fmt: skip


def _shell_call(tools: list[Json]) -> Json | None:
    """Return a call of the shell that the client offers, in the form that its own schema asks for."""
    for tool in tools:
        if tool.get("type") == "custom" and tool.get("name") == "exec":  # a program in JavaScript
            program = f"text(JSON.stringify(await tools.exec_command({json.dumps({'cmd': COMMAND})})))"
            return {"type": "custom_tool_call", "call_id": "call_1", "name": "exec", "input": program}
        if tool.get("name") in SHELLS:
            fields = tool.get("parameters", {}).get("properties", {})
            name = "cmd" if "cmd" in fields else "command"
            value: Any = ["sh", "-c", COMMAND] if fields.get(name, {}).get("type") == "array" else COMMAND
            given = json.dumps({name: value})
            return {"type": "function_call", "call_id": "call_1", "name": tool["name"], "arguments": given}
    return None


def _generated(path: str, body: Json, tokens: int) -> tuple[str, str]:
    """Answer as Google's generateContent."""
    said = body.get("contents", [])
    last = json.dumps(said[-1:])
    parts: list[Json] = [{"text": SAYS}]
    if body.get("generationConfig", {}).get("responseMimeType") == "application/json":  # which model is to be asked
        parts = [{"text": json.dumps({"reasoning": "simple", "model_choice": "flash", "complexity_score": 1})}]
    elif ASKED in last and "functionResponse" not in last:
        parts = [{"functionCall": {"name": "list_directory", "args": {"dir_path": "."}}}]
    answer = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 1, "totalTokenCount": tokens + 1},
    }
    if "stream" in path:
        return "text/event-stream", f"data: {json.dumps(answer)}\r\n\r\n"
    return _json(answer)
