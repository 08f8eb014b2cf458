"""One tool as clients see it in tools/list.

The high-level server of the SDK guesses at arguments, quotes rejected values and runs on after an unknown one; this
does none of that.
"""

from __future__ import annotations

import inspect
import re
from functools import cache, cached_property
from typing import Any

from pydantic import BaseModel, RootModel

from pgengram.json_schema import FlatJsonSchema, Schema, portable
from pgengram.mcp.listing import listed_answer, listed_arguments
from pgengram.service.calls.arguments import Arguments
from pgengram.service.tools import Tool

CARD = "ui://pgengram/card.html"  # of the extension io.modelcontextprotocol/ui


def paragraphs(docstring: str) -> str:
    """Return a docstring with each paragraph on one line; lines of a list stay apart."""
    return re.sub(r"(?<!\n)\n(?![\n\- ])", " ", docstring)


class ToolBinding(Arguments):
    """A tool as clients see it, made from the method's signature, docstring and returned view.

    Args:
        tool: the tool.
        more: schemas of arguments that whoever calls it reads, besides the method's own.
    """

    def __init__(self, tool: Tool, more: Schema | None = None) -> None:
        super().__init__(tool)
        self._more = more or {}

    @cached_property
    def listed(self) -> dict[str, Any]:
        """The tool's entry in tools/list."""
        hints = self.tool.hints
        schema, also = self.input_schema, ""
        if not self.is_foreign:
            schema, also = listed_arguments(self.tool.name, schema, self.tool.essential)
        schema = {**schema, "properties": {**schema["properties"], **self._more}}
        answer = self._output_schema()
        annotations = {"readOnlyHint": hints.read_only, "openWorldHint": False}
        if not hints.read_only:  # of what only reads they say nothing
            annotations |= {"destructiveHint": hints.destructive, "idempotentHint": hints.idempotent}
        return {
            "name": self.tool.name,
            "title": self.tool.title,
            "description": f"{paragraphs(inspect.getdoc(self.tool.method) or '')} {also}".strip(),
            "inputSchema": portable(schema),
            **({} if answer is None else {"outputSchema": answer}),
            "annotations": annotations,
            **({"_meta": {"ui": {"resourceUri": CARD}}} if self.tool.has_card else {}),
        }

    @property
    def is_foreign(self) -> bool:
        """Whether it is another system's tool, which may bear the name of one of ours."""
        return issubclass(self.view, RootModel)

    def _output_schema(self) -> Schema | None:
        """What the tool answers, unless it has no fixed shape."""
        if self.is_foreign:
            return None
        return _schema_of(self.view)


@cache
def _schema_of(view: type[BaseModel]) -> Schema:
    return listed_answer(view.model_json_schema(schema_generator=FlatJsonSchema, mode="serialization"))
