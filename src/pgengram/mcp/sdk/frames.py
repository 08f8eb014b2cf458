"""Lines of JSON-RPC: read into messages, or answered with the error that they deserve."""

from __future__ import annotations

import contextlib
import json

from mcp_types import (
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from pgengram.mcp.stdio.lines import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Id,
    Line,
    Oversized,
    has_too_much,
    recovered_id,
    refusal,
    too_long,
)


class Refused(Exception):
    """A line that is no frame; `answer` is the answer to it, as a line."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.answer = answer


def _refusal(id_: Id, code: int, message: str) -> Refused:
    return Refused(refusal(id_, code, message))


def frame(line: Line) -> JSONRPCMessage:
    """Return the JSON-RPC message that a line holds.

    Raises:
        Refused: the line must be answered with an error.
    """
    if isinstance(line, Oversized):
        raise Refused(too_long(line))
    if has_too_much(line):
        raise _refusal(recovered_id(line), INVALID_REQUEST, "Too many lists, objects or values; send less at once.")
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        raise _refused(line) from None
    if isinstance(message, JSONRPCNotification) and "id" in from_json(line):
        raise _refusal(None, INVALID_REQUEST, "The id of a request must be a string or an integer.")
    if b"NaN" in line or b"Infinity" in line:
        _refuse_what_is_not_json(line)
    return message


def _refused(line: bytes) -> Refused:
    try:
        value = from_json(line)
    except ValueError as error:  # its text names the fault and its place, not what stands there
        return _refusal(recovered_id(line), PARSE_ERROR, f"Not valid JSON in UTF-8: {error}.")
    if isinstance(value, list):
        return _refusal(None, INVALID_REQUEST, "MCP has no batches: send one message per line.")
    id_ = value.get("id") if isinstance(value, dict) else None
    usable = isinstance(id_, int | str) and not isinstance(id_, bool)
    return _refusal(
        id_ if usable else None, INVALID_REQUEST, 'Not a JSON-RPC 2.0 message ("jsonrpc":"2.0", method, …).'
    )


def _refuse_what_is_not_json(line: bytes) -> None:
    def refuse(name: str) -> None:
        raise _refusal(recovered_id(line), PARSE_ERROR, f"Not valid JSON: {name} is not a JSON number.")

    with contextlib.suppress(RecursionError):
        json.loads(line, parse_constant=refuse)
