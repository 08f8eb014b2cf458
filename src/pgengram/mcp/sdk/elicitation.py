"""Asking the user of a client yes or no, in both protocol eras."""

from __future__ import annotations

import logging
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pgengram.mcp.tool_registry import FORM, QUESTION, Unanswered, agreed
from pgengram.runtime.context import Asker

log = logging.getLogger(__name__)

Context = ServerRequestContext[Any]


def input_required(question: Unanswered) -> InputRequiredResult:
    """Return the answer that has the client put the question."""
    form = ElicitRequestFormParams(message=question.question, requested_schema=FORM)
    return InputRequiredResult(input_requests={QUESTION: ElicitRequest(params=form)}, request_state=question.token)


class _Elicitation:
    """Asks the user of one call's client, in the way of its protocol's era.

    The newer one takes the question along as a result and brings the answer with the same call made again: the token
    goes with it as the request's state.
    """

    def __init__(self, context: Context, params: CallToolRequestParams) -> None:
        self._context = context
        self._params = params

    @property
    def answer(self) -> tuple[str, bool] | None:
        answer = (self._params.input_responses or {}).get(QUESTION)
        token = self._params.request_state
        return (token, agreed(answer.action, answer.content)) if token and isinstance(answer, ElicitResult) else None

    async def ask(self, question: str, token: str) -> bool | None:
        if self._context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise Unanswered(question, token)
        try:
            answer = await self._context.session.elicit_form(question, FORM, self._context.request_id)
        except MCPError as error:  # it said that it can ask, and cannot: there is still the token
            log.warning("the client could not ask its user: error %s", error.error.code)
            return None
        return agreed(answer.action, answer.content)


def asker_of(context: Context, params: CallToolRequestParams) -> Asker | None:
    """Return a way to ask this client's user yes or no; None for a client that cannot ask.

    A client that names no way of asking means forms.
    """
    ways = None if context.session.client_capabilities is None else context.session.client_capabilities.elicitation
    can_ask = ways is not None and (ways.form is not None or ways.url is None)
    return _Elicitation(context, params) if can_ask else None
