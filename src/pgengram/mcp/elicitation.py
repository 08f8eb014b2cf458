"""Asking the user of a client yes or no, in both protocol eras."""

from __future__ import annotations

import hashlib
import logging
from typing import Any, Final

from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pgengram.mcp.schema import Schema
from pgengram.runtime.context import Asker

Context = ServerRequestContext[Any]

QUESTION: Final = "confirm"  # the name of our only question, and of the only field of its form
FORM: Final[Schema] = {
    "type": "object",
    "properties": {QUESTION: {"type": "boolean", "title": "Yes, do it", "default": True}},
}


class Unanswered(Exception):
    """A question that the client takes to its user and answers by repeating the call (from protocol 2026-07-28 on)."""

    def __init__(self, question: ElicitRequestFormParams, mark: str) -> None:
        super().__init__()
        self._question = question
        self._mark = mark

    def as_result(self) -> InputRequiredResult:
        """Return the answer that has the client put the question."""
        return InputRequiredResult(
            input_requests={QUESTION: ElicitRequest(params=self._question)}, request_state=self._mark
        )


def asker_of(context: Context, params: CallToolRequestParams) -> Asker:
    """Return a way to ask this client's user yes or no; it gives None for a client that cannot ask."""

    async def ask(text: str) -> bool | None:
        if not _can_ask(context):
            return None
        question = ElicitRequestFormParams(message=text, requested_schema=FORM)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()  # a yes is good for these very words
            answer = (params.input_responses or {}).get(QUESTION)
            if not isinstance(answer, ElicitResult) or params.request_state != mark:
                raise Unanswered(question, mark)
            return _agreed(answer)
        try:
            return _agreed(await context.session.elicit_form(text, FORM, context.request_id))
        except MCPError as error:  # it said that it can ask, and cannot: there is still the token
            logging.getLogger(__name__).warning("the client could not ask its user: error %s", error.error.code)
            return None

    return ask


def _can_ask(context: Context) -> bool:
    """Whether the client shows forms to its user; one that names no way of asking means forms."""
    ways = None if context.session.client_capabilities is None else context.session.client_capabilities.elicitation
    return ways is not None and (ways.form is not None or ways.url is None)


def _agreed(answer: ElicitResult) -> bool:
    return answer.action == "accept" and (answer.content or {}).get(QUESTION, True) is True
