"""pgengram over HTTP with the tools, resources and prompts that the protocol's official conformance suite calls by name.

Run by hand: `python tests/http/conformance_facade.py --no-auth --port 8911`, then the suite against http://127.0.0.1:8911/mcp.
Requests for its fixtures are answered here, everything else by the real handlers; door, transport and both eras are the real ones.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)

import pgengram.mcp.http.server
from pgengram.mcp.http.namespaces import NamespaceServers

Context = ServerRequestContext[Any]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
SEAL = secrets.token_bytes(32)
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
EMPTY = {"type": "object", "properties": {}}
WITH_HEADER = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def embedded(uri: str, words: str, kind: str = "text/plain") -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": words}}


PLAIN = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": [embedded("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
    "test_logging_tool": [text("Nothing was logged to the client.")],
}


def form(message: str, **properties: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {n: {"type": t} for n, t in properties.items()},
        "required": [*properties],
    }
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sampling(words: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text(words)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}}


ROOTS = {"method": "roots/list", "params": {}}
ASKING: dict[str, list[dict[str, Any]]] = {  # what each round asks
    "test_input_required_result_elicitation": [{"user_name": form("What is your name?", name="string")}],
    "test_streaming_elicitation": [{"user_name": form("What is your name?", name="string")}],
    "test_input_required_result_sampling": [{"capital_question": sampling("What is the capital of France?")}],
    "test_input_required_result_list_roots": [{"client_roots": ROOTS}],
    "test_input_required_result_request_state": [{"confirm": form("Please confirm", ok="boolean")}],
    "test_input_required_result_tampered_state": [{"confirm": form("Please confirm", ok="boolean")}],
    "test_input_required_result_multiple_inputs": [
        {
            "user_name": form("What is your name?", name="string"),
            "greeting": sampling("Generate a greeting"),
            "client_roots": ROOTS,
        }
    ],
    "test_input_required_result_multi_round": [
        {"step1": form("Step 1: What is your name?", name="string")},
        {"step2": form("Step 2: What is your favorite color?", color="string")},
    ],
}
TOOLS = [
    *PLAIN, *ASKING, "test_error_handling", "test_tool_with_progress", "test_missing_capability",
    "test_input_required_result_capabilities",
]  # fmt: skip


def sealed(name: str, round_: int) -> str:
    outcome = f"{name}:{round_}"
    return f"{outcome}:{hmac.new(SEAL, outcome.encode(), hashlib.sha256).hexdigest()}"


def ask(
    name: str, answers: dict[str, Any] | None, state: str | None, rounds: list[dict[str, Any]]
) -> InputRequiredResult | str:
    """Return what to ask next, or the answers as text once every round has its own."""
    if state is not None and state not in {sealed(name, number) for number in range(len(rounds))}:
        raise MCPError(INVALID_PARAMS, "requestState is not ours")
    number = 0 if state is None else int(state.split(":")[1])
    outcome = {key: value for key, value in (answers or {}).items() if key in rounds[number]}
    if outcome.keys() != rounds[number].keys():
        return question(rounds[number], sealed(name, number))
    if number + 1 < len(rounds):
        return question(rounds[number + 1], sealed(name, number + 1))
    return "state-ok " + " ".join(one.model_dump_json(by_alias=True) for one in outcome.values())


def question(requests: dict[str, Any], state: str) -> InputRequiredResult:
    return InputRequiredResult.model_validate({"inputRequests": requests, "requestState": state})


def answer(content: list[dict[str, Any]], *, failed: bool = False) -> CallToolResult:
    return CallToolResult.model_validate({"content": content, "isError": failed})


async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult | None:
    if params.name in PLAIN:
        return answer(PLAIN[params.name])
    if params.name in ASKING:
        asked = ask(params.name, params.input_responses, params.request_state, ASKING[params.name])
        return asked if isinstance(asked, InputRequiredResult) else answer([text(asked)])
    if params.name == "test_error_handling":
        return answer([text("This tool intentionally returns an error for testing")], failed=True)
    if params.name == "test_tool_with_progress":
        for step in (0, 50, 100):
            await context.session.report_progress(step, 100)
            await asyncio.sleep(0.05)
        return answer([text("Done.")])
    able = context.session.client_capabilities
    if params.name == "test_missing_capability" and (able is None or able.sampling is None):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY, "This needs sampling.", {"requiredCapabilities": {"sampling": {}}}
        )
    if params.name == "test_input_required_result_capabilities" and able is not None:
        asked = {"greeting": sampling("Greet")} if able.sampling is not None else {}
        asked |= {"user_name": form("Your name?", name="string")} if able.elicitation is not None else {}
        return question(asked, sealed(params.name, 0))
    return answer([text("Done.")]) if params.name in (*TOOLS, "test_header") else None


READABLE = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
    "test://template/123/data": {
        "mimeType": "application/json",
        "text": '{"id":"123","templateTest":true,"data":"Data for ID: 123"}',
    },
}


async def read_resource(_: Context, params: ReadResourceRequestParams) -> ReadResourceResult | None:
    found = READABLE.get(params.uri)
    return None if found is None else ReadResourceResult.model_validate({"contents": [{"uri": params.uri, **found}]})


PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def get_prompt(_: Context, params: GetPromptRequestParams) -> GetPromptResult | InputRequiredResult | None:
    if params.name not in PROMPTS:
        return None
    given = params.arguments or {}
    contents = [
        text(f"Prompt with arguments: {json.dumps(given)}" if given else "This is a simple prompt for testing.")
    ]
    if params.name == "test_prompt_with_embedded_resource":
        contents.insert(0, embedded(given["resourceUri"], "Embedded resource content for testing."))
    if params.name == "test_prompt_with_image":
        contents.insert(0, IMAGE)
    if params.name == "test_input_required_result_prompt":
        rounds = [{"user_context": form("What context should the prompt use?", context="string")}]
        asked = ask(params.name, params.input_responses, params.request_state, rounds)
        if isinstance(asked, InputRequiredResult):
            return asked
        contents = [text(asked)]
    return GetPromptResult.model_validate({"messages": [{"role": "user", "content": one} for one in contents]})


async def list_tools(listed: ListToolsResult) -> ListToolsResult:
    listed.tools += [Tool(name=name, description="Of the conformance suite.", input_schema=EMPTY) for name in TOOLS]
    listed.tools.append(Tool(name="test_header", description="Of the conformance suite.", input_schema=WITH_HEADER))
    return listed


async def list_resources(listed: ListResourcesResult) -> ListResourcesResult:
    listed.resources += [Resource(uri=uri, name=uri) for uri in READABLE if "template" not in uri]
    return listed


async def list_templates(listed: ListResourceTemplatesResult) -> ListResourceTemplatesResult:
    listed.resource_templates.append(ResourceTemplate(uri_template="test://template/{id}/data", name="template"))
    return listed


async def list_prompts(listed: ListPromptsResult) -> ListPromptsResult:
    for name, arguments in PROMPTS.items():
        outcome = [{"name": argument, "description": "Any.", "required": True} for argument in arguments]
        listed.prompts.append(
            Prompt.model_validate({"name": name, "description": "Of the suite.", "arguments": outcome})
        )
    return listed


Handler = Callable[[Context, Any], Awaitable[Any]]


def before(own: Handler, real: Handler) -> Handler:
    async def handle(context: Context, params: Any) -> Any:
        found = await own(context, params)
        return await real(context, params) if found is None else found

    return handle


def after(real: Handler, own: Callable[[Any], Awaitable[Any]]) -> Handler:
    async def handle(context: Context, params: Any) -> Any:
        return await own(await real(context, params))

    return handle


class Facade(NamespaceServers):
    """The real namespaces, with the suite's fixtures beside theirs."""

    def server(self) -> Server[Any]:
        server = super().server()
        first = {"tools/call": call_tool, "resources/read": read_resource, "prompts/get": get_prompt}
        more = {
            "tools/list": list_tools, "resources/list": list_resources, "resources/templates/list": list_templates,
            "prompts/list": list_prompts,
        }  # fmt: skip
        for method in (*first, *more):
            entry = server.get_request_handler(method)
            assert entry is not None
            own = before(first[method], entry.handler) if method in first else after(entry.handler, more[method])
            server.add_request_handler(method, entry.params_type, own)
        return server


if __name__ == "__main__":
    from pgengram.cli.app import app

    pgengram.mcp.http.server.NamespaceServers = Facade  # type: ignore[misc]
    sys.argv[1:1] = ["serve", "--http"]
    app()
