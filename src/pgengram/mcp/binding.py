"""One tool as clients see it in tools/list.

The high-level server of the SDK guesses at arguments, quotes rejected values and runs on after an unknown one; this
does none of that.
"""

from __future__ import annotations

import inspect
import re
from functools import cache, cached_property
from typing import Any, Final

from pydantic import BaseModel, RootModel

from pgengram.inputs import NewMemory
from pgengram.json_schema import FlatJsonSchema, Schema, portable
from pgengram.service.calls.arguments import Arguments
from pgengram.service.tools import Tool

# Of tools with many arguments those that are told whole, in this order.
USUAL: Final[dict[str, tuple[str, ...]]] = {
    "create_memory": (
        "content", "kind", "type", "importance", "tags", "user", "project", "occurred_at", "expires_at",
        "metadata", "replaces",
    ),
    "search_memories": (
        "query", "limit", "detail", "kind", "tags", "user", "project", "since", "until", "mode", "sort",
    ),
    "update_memory": (
        "id", "content", "kind", "importance", "tags", "metadata", "status", "confirm", "clear", "outcome",
    ),
    "forget_memories": ("ids", "reason", "replaced_by_ids", "hard", "confirm_token"),
    "link_memories": ("from_id", "to_ids", "type", "remove"),
    "explore_memories": ("ids", "depth", "direction"),
    "memory_stats": ("project",),
    "review_memories": ("find", "project", "offset"),
    "tidy_memories": ("action", "plan", "confirm_token", "synonyms"),
}  # fmt: skip
# What is told of arguments that are not listed, where their own description says too much or nothing.
MEANING: Final = {
    "as_of": "what held true then",
    "below_importance": "what has faded",
    "collection": "a grouping of yours",
    "cursor": "next_cursor of the page before",
    "dedup_policy": "ask, skip_if_near, merge or insert",
    "embedding": "a vector of your own",
    "emotion": "one word",
    "include": "turns of conversations",
    "last_confirmed_at": "when it was last true",
    "now": "the time to count from",
    "related_to": "ids to link it to",
    "replacements": "new memories that hold instead",
    "sources": "{kind, ref, author, trust, …}",
    "status": "archived, invalidated or working",
    "tags_match": "any or all",
}
# Take fields that create_memory describes.
DESCRIBED_THERE: Final = {
    "search_memories": "by the fields of create_memory {}",
    "update_memory": "the other fields of create_memory",
}
LIKE_CREATING: Final = DESCRIBED_THERE.keys()
DESCRIBED_ONCE: Final = frozenset({"content", "kind", "importance", "tags", "metadata"})
LEFT_OUT: Final = frozenset(
    {"additionalProperties", "format", "maxItems", "maxLength", "minItems", "minLength", "minimum"}
)  # a refusal tells them


def listed_arguments(tool: str, schema: Schema, essential: tuple[str, ...] = ()) -> tuple[Schema, str]:
    """Return the schema of a tool's arguments as a model reads it, and a sentence that names those left out; with
    `essential` only these arguments, and no such sentence.
    """
    properties: Schema = schema["properties"]
    names = essential or USUAL.get(tool, tuple(properties))
    left_out = LEFT_OUT | {"maximum"} if essential else LEFT_OUT
    shown = {name: _without_keywords(left_out, properties[name]) for name in names}
    if "content" in shown:  # the one limit that a caller should know before it writes
        shown["content"]["maxLength"] = properties["content"]["maxLength"]
    if tool in LIKE_CREATING:
        shown |= {name: _type_alone(shown[name]) for name in DESCRIBED_ONCE & shown.keys()}
    return {**_without_keywords(left_out, schema), "properties": shown}, "" if essential else _also(
        tool, properties, shown
    )


def listed_answer(schema: Schema) -> Schema:
    """Return the schema of an answer without what helps no caller."""
    shown = {key: value for key, value in schema.items() if key not in ("description", "required")}
    shown["properties"] = {
        name: {key: value for key, value in one.items() if (key, value) != ("items", {"type": "object"})}
        for name, one in schema["properties"].items()
    }
    return shown


def _also(tool: str, properties: Schema, shown: Schema) -> str:
    """Name the arguments that are not listed, each with what it means where create_memory does not tell that."""
    others = [name for name in properties if name not in shown]
    told: list[str] = []
    if tool in LIKE_CREATING:
        alike = [name for name in others if name in NewMemory.model_fields]
        others = [name for name in others if name not in alike]
        told = [DESCRIBED_THERE[tool].format(", ".join(alike))]
    told += [f"{name} ({_meaning(name, properties[name])})" for name in others]
    return f"Also: {', '.join(told)}." if told else ""


def _meaning(name: str, schema: Schema) -> str:
    """Return what an argument means in a few words: its own description, or which values it takes."""
    said: str = MEANING.get(name) or schema.get("description") or " or ".join(schema.get("enum", ()))
    return said[:1].lower() + said[1:].removesuffix(".")


def _type_alone(schema: Schema) -> Schema:
    return {
        key: _type_alone(schema[key]) if key == "items" else schema[key]
        for key in ("type", "items", "description")
        if key in schema
    }


def _without_keywords(keywords: frozenset[str], schema: Schema) -> dict[str, Any]:
    return {
        key: _without_keywords(keywords, value) if key == "items" and isinstance(value, dict) else value
        for key, value in schema.items()
        if key not in keywords
    }


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
            **({"_meta": meta} if (meta := self._meta()) else {}),
        }

    def _meta(self) -> dict[str, Any]:
        """What only some hosts read: the card, and what ChatGPT asks before it calls."""
        scopes = [{"type": "oauth2", "scopes": [*self.tool.scopes]}]
        return {
            **({"ui": {"resourceUri": CARD}} if self.tool.has_card else {}),
            **({"securitySchemes": scopes} if self.tool.scopes else {}),
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
