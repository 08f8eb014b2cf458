"""Lines of JSON-RPC: read into messages, or answered with the error that they deserve."""

from __future__ import annotations

import contextlib
import json
from typing import Final

from mcp_types import (
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from pgengram.mcp.stdio.lines import (
    INVALID_REQUEST,
    MAX_LINE,
    PARSE_ERROR,
    Id,
    Line,
    Oversized,
    recovered_id,
    refusal,
)

MAX_CONTAINERS: Final = 250_000  # lists and objects in a frame; 8 MiB of [] would take a gigabyte
MAX_VALUES: Final = 1_000_000  # told by the commas; 8 MiB of vectors have fewer


class Refused(Exception):
    """A line that is no frame; `answer` is the answer to it, as a line."""

    def __init__(self, id_: Id, code: int, message: str) -> None:
        super().__init__(message)
        self.answer = refusal(id_, code, message)


def frame(line: Line) -> JSONRPCMessage:
    """Return the JSON-RPC message that a line holds.

    Raises:
        Refused: the line must be answered with an error.
    """
    if isinstance(line, Oversized):
        raise Refused(recovered_id(line), INVALID_REQUEST, f"Longer than {MAX_LINE:,} bytes; send less at once.")
    if line.count(b"[") + line.count(b"{") > MAX_CONTAINERS or line.count(b",") > MAX_VALUES:
        raise Refused(recovered_id(line), INVALID_REQUEST, "Too many lists, objects or values; send less at once.")
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        raise _refused(line) from None
    if isinstance(message, JSONRPCNotification) and "id" in from_json(line):
        raise Refused(None, INVALID_REQUEST, "The id of a request must be a text or a whole number.")
    if b"NaN" in line or b"Infinity" in line:
        _refuse_what_is_not_json(line)
    return message


def _refused(line: bytes) -> Refused:
    try:
        value = from_json(line)
    except ValueError as error:  # its text names the fault and its place, not what stands there
        return Refused(recovered_id(line), PARSE_ERROR, f"Not valid JSON in UTF-8: {error}.")
    if isinstance(value, list):
        return Refused(None, INVALID_REQUEST, "MCP has no batches: send one message per line.")
    id_ = value.get("id") if isinstance(value, dict) else None
    usable = isinstance(id_, int | str) and not isinstance(id_, bool)
    return Refused(id_ if usable else None, INVALID_REQUEST, 'Not a JSON-RPC 2.0 message ("jsonrpc":"2.0", method, …).')


def _refuse_what_is_not_json(line: bytes) -> None:
    def refuse(name: str) -> None:
        raise Refused(recovered_id(line), PARSE_ERROR, f"Not valid JSON: {name} is not a JSON number.")

    with contextlib.suppress(RecursionError):
        json.loads(line, parse_constant=refuse)
