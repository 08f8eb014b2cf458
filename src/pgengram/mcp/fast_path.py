"""What most clients say, answered without the SDK: the handshake, pings, the list of tools, calls and their ends.

Importing the SDK takes half of the time of a start, and 19 MB. It is there for everything else: a client that says what is not
understood here, be it resources, an older version or an invalid message, is left to it from then on, with the
handshake gone through once more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping
from itertools import count
from typing import Any, Final, TypeGuard

import anyio
from pydantic_core import from_json, to_json

from pgengram.mcp.conversation import MAX_IN_FLIGHT, Conversation, Id
from pgengram.mcp.stdio.lines import Line, has_too_much
from pgengram.mcp.tool_registry import (
    FORM,
    FRESH_MS,
    NAME,
    QUESTION,
    TITLE,
    Answer,
    Progress,
    ToolRegistry,
    Unanswered,
    agreed,
)

log = logging.getLogger(__name__)

Object = dict[str, Any]

VERSIONS: Final = ("2025-06-18", "2025-11-25")  # with a handshake; the older ones have other answers
MODERN: Final = "2026-07-28"  # each request says what the handshake says elsewhere
PREFIX: Final = "io.modelcontextprotocol/"
VERSION, CLIENT, CAPABILITIES = f"{PREFIX}protocolVersion", f"{PREFIX}clientInfo", f"{PREFIX}clientCapabilities"
CONNECTION_CLOSED: Final = -32000
# What a server can do that answers such requests, besides its tools.
CAN: Final[Mapping[str, tuple[str, Object]]] = {
    "on_completion": ("completions", {}),
    "on_list_prompts": ("prompts", {"listChanged": False}),
    "on_list_resources": ("resources", {"listChanged": False, "subscribe": False}),
}
ACTIONS: Final = ("accept", "decline", "cancel")


class FastPath:
    """Answers one conversation for as long as it understands it.

    Args:
        registry: the tools.
        conversation: with the client.
        more: which other requests the SDK would answer, by the names of its parameters.
    """

    def __init__(self, registry: ToolRegistry, conversation: Conversation, more: Collection[str] = ()) -> None:
        self._registry = registry
        self._conversation = conversation
        self._can = dict(CAN[name] for name in CAN if name in more) | {"tools": {"listChanged": False}}
        self._begun: list[bytes] = []
        self._version = ""
        self._client: Object = {}
        self._running: dict[Id, anyio.CancelScope] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[str, asyncio.Future[Object]] = {}
        self._numbers = count(1)
        self._closing = False

    async def serve(self) -> bool:
        """Answer until nothing more is read; return False where something was said that is not understood."""
        while (line := await self._conversation.line()) is not None:
            message = _message(line)
            if message is None or not await self._take(message, line):
                self._conversation.leave_to_another(self._begun, line, self._overhear)
                return False
        return True

    async def close(self) -> None:
        """End the calls that are still under way."""
        self._closing = True
        for scope in self._running.values():
            scope.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _take(self, message: Object, line: Line) -> bool:
        method, params = message.get("method"), message.get("params", {})
        if method is None:
            return self._hear(message)
        if "id" not in message:
            return self._note(method, params, line)
        id_ = message["id"]
        if method == "initialize":
            answer = self._greeting(params, line)
        elif self._is_understood(method, params):
            if method == "tools/call":
                await self._conversation.below(MAX_IN_FLIGHT)
                self._begin(id_, self._call_tool(id_, params))
                return True
            answer = self._listing(method, line)
        else:
            answer = None
        if answer is not None:
            self._conversation.begin(id_)
            await self._conversation.reply(id_, {"result": answer})
        return answer is not None

    def _hear(self, message: Object) -> bool:
        """Take an answer of the client; one that nobody waits for is passed over."""
        waiting = self._asked.get(str(message.get("id")))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        return "result" in message or "error" in message

    def _note(self, method: str, params: Object, line: Line) -> bool:
        if method == "notifications/cancelled":
            scope = self._running.get(_key(params.get("requestId")))
            if scope is not None:
                scope.cancel()
        elif method == "notifications/initialized" and self._version and isinstance(line, bytes):
            self._begun[1:] = [line]
        return method.startswith("notifications/")

    def _overhear(self, line: Line) -> None:
        """Take what concerns calls of ours while the SDK answers."""
        message = _message(line) if self._running else None
        if message is None:
            return
        if "method" not in message:
            self._hear(message)
        elif message["method"] == "notifications/cancelled":
            self._note(message["method"], message.get("params", {}), line)

    def _greeting(self, params: Object, line: Line) -> Object | None:
        version, client, can = (params.get(name) for name in ("protocolVersion", "clientInfo", "capabilities"))
        if self._begun or version not in VERSIONS or not _is_client(client) or not _are_capabilities(can):
            return None
        if not isinstance(line, bytes) or "_meta" in params:
            return None
        self._begun, self._version, self._client = [line], version, params
        return {
            "capabilities": self._can,
            "instructions": self._registry.instructions,
            "protocolVersion": version,
            "serverInfo": self._server,
        }

    def _is_understood(self, method: str, params: Object) -> bool:
        """Whether a request belongs to the client's era, and has no part that is not known here."""
        meta = params.get("_meta", {})
        if not isinstance(meta, dict) or not self._is_of_its_era(method, meta):
            return False
        if method == "tools/call":
            return self._is_call(params)
        return method in ("ping", "tools/list", "server/discover") and params.keys() <= {"_meta"}

    def _is_of_its_era(self, method: str, meta: Object) -> bool:
        ours = {name for name in meta if name.startswith(PREFIX)}
        if self._version:
            return method != "server/discover" and not ours
        return (
            method != "ping"
            and meta.get(VERSION) == MODERN
            and ours <= {VERSION, CLIENT, CAPABILITIES}
            and _are_capabilities(meta.get(CAPABILITIES))
            and (CLIENT not in meta or _is_client(meta[CLIENT]))
        )

    def _is_call(self, params: Object) -> bool:
        also = set() if self._version else {"inputResponses", "requestState"}
        answers = params.get("inputResponses", {})
        return (
            params.keys() <= {"name", "arguments", "_meta"} | also
            and params.get("name") in self._registry.bindings
            and isinstance(params.get("arguments") or {}, dict)
            and isinstance(params.get("requestState", ""), str)
            and (isinstance(answers, dict) and all(map(_is_answer, answers.values())))
        )

    def _listing(self, method: str, line: Line) -> Object:
        if method == "server/discover":
            if not self._begun and isinstance(line, bytes):
                self._begun = [line]
            listing: Object = {
                "capabilities": self._can,
                "instructions": self._registry.instructions,
                "supportedVersions": [MODERN],
            }
        elif method == "tools/list":
            listing = {"tools": [one.listed for one in self._registry.bindings.values()]}
        else:
            return {}
        return listing if self._version else self._stamped({**listing, "cacheScope": "public", "ttlMs": FRESH_MS})

    def _stamped(self, answer: Object) -> Object:
        """Return a result with what the newer era wants in each."""
        return {"resultType": "complete", **answer, "_meta": {f"{PREFIX}serverInfo": self._server}}

    @property
    def _server(self) -> Object:
        return {"name": NAME, "title": TITLE, "version": self._registry.version}

    def _begin(self, id_: Id, call: Coroutine[Any, Any, Answer]) -> None:
        """Run a call in a task of its own, which the client may cancel."""
        scope = anyio.CancelScope()
        self._conversation.begin(id_)
        self._running[_key(id_)] = scope
        task = asyncio.create_task(self._run(id_, scope, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, id_: Id, scope: anyio.CancelScope, call: Coroutine[Any, Any, Answer]) -> None:
        answer: Object = {"error": {"code": CONNECTION_CLOSED, "message": "Connection closed"}}
        with scope:
            answer = {"result": await call}
        if self._running.get(_key(id_)) is scope:
            del self._running[_key(id_)]
        if scope.cancel_called and not self._closing:  # by the client, which waits for no answer
            self._conversation.settle(id_)
        else:
            await self._conversation.reply(id_, answer)

    async def _call_tool(self, id_: Id, params: Object) -> Answer:
        meta = params.get("_meta", {})
        client = self._client.get("clientInfo") if self._version else meta.get(CLIENT)
        can = self._client["capabilities"] if self._version else meta[CAPABILITIES]
        try:
            answer = await self._registry.call(
                params["name"],
                params.get("arguments") or {},
                id_=id_,
                caller=client["name"] if client else "",
                asker=_Asking(self, params) if _can_ask(can) else None,
                report=self._reporter(meta.get("progressToken")),
            )
        except Unanswered as question:
            request = {"method": "elicitation/create", "params": _form(question.question)}
            return self._stamped(
                {
                    "resultType": "input_required",
                    "inputRequests": {QUESTION: request},
                    "requestState": question.token,
                }
            )
        return answer if self._version else self._stamped(answer)

    def _reporter(self, token: object) -> Progress:
        """Return a way to tell the client how far a call is; it says nothing to one that did not ask."""
        steps = count(1)

        async def report(message: str) -> None:
            if isinstance(token, int | str) and not isinstance(token, bool):
                params = {"progressToken": token, "progress": next(steps), "message": message}
                await self._say({"method": "notifications/progress", "params": params})

        return report

    async def ask(self, question: str) -> bool | None:
        """Have the client put a question to its user, and return whether that agrees; None where it cannot."""
        id_ = f"{self._conversation.mark}:p{next(self._numbers)}"
        waiting = self._asked[id_] = asyncio.get_running_loop().create_future()
        try:
            await self._say({"id": id_, "method": "elicitation/create", "params": _form(question)})
            result = (await waiting).get("result")
        finally:
            del self._asked[id_]
        if not _is_answer(result):  # it said that it can ask, and cannot: there is still the token
            log.warning("the client could not ask its user")
            return None
        return agreed(result["action"], result.get("content"))

    @property
    def is_modern(self) -> bool:
        """Whether questions to the user go along as results."""
        return not self._version

    async def _say(self, message: Object) -> None:
        await self._conversation.send(to_json({"jsonrpc": "2.0", **message}) + b"\n")


class _Asking:
    """Asks the user of one call's client, in the way of its protocol's era."""

    def __init__(self, path: FastPath, params: Object) -> None:
        self._path = path
        self._params = params

    @property
    def answer(self) -> tuple[str, bool] | None:
        found, token = self._params.get("inputResponses", {}).get(QUESTION), self._params.get("requestState")
        return (token, agreed(found["action"], found.get("content"))) if token and found else None

    async def ask(self, question: str, token: str) -> bool | None:
        if self._path.is_modern:
            raise Unanswered(question, token)
        return await self._path.ask(question)


def _form(question: str) -> Object:
    return {"mode": "form", "message": question, "requestedSchema": FORM}


def _message(line: Line) -> Object | None:
    """Return a line as a message; None for one that must be refused, or looked at more closely."""
    if not isinstance(line, bytes) or has_too_much(line):
        return None
    try:
        message = from_json(line, allow_inf_nan=False)
    except ValueError:
        return None
    if (
        not isinstance(message, dict)
        or message.get("jsonrpc") != "2.0"
        or not isinstance(message.get("params", {}), dict)
    ):
        return None
    method, id_ = message.get("method", ""), message.get("id", 0)
    known = {"jsonrpc", "id"} | ({"method", "params"} if "method" in message else {"result", "error"})
    is_sound = isinstance(method, str) and isinstance(id_, int | str) and not isinstance(id_, bool)
    return message if is_sound and message.keys() <= known else None


def _key(id_: Any) -> Id:
    """Return a request's id as one that was sent back as text is compared."""
    text = isinstance(id_, str) and id_.removeprefix("-").isdecimal()
    return int(id_) if text else id_ if isinstance(id_, int | str) else ""


def _is_client(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in ("name", "version"))


def _are_capabilities(value: object) -> bool:
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        return False
    return all(isinstance(way, dict) for way in value.get("elicitation", {}).values())


def _can_ask(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client can put a form to its user: one that names no way of asking means forms."""
    ways = capabilities.get("elicitation")
    return ways is not None and ("form" in ways or "url" not in ways)


def _is_answer(value: object) -> TypeGuard[Object]:
    """Whether a value is what a client's user answered."""
    return isinstance(value, dict) and value.get("action") in ACTIONS and isinstance(value.get("content", {}), dict)
