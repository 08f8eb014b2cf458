"""What tools/list tells of a tool's arguments: the usual ones whole, the others by name, so that a model reads less.

Every argument is taken, listed or not; docs/reference/tools.md describes them all.
"""

from __future__ import annotations

from typing import Any, Final

from pgengram.inputs import NewMemory
from pgengram.json_schema import Schema

# Of tools with many arguments those that are told whole, in this order.
USUAL: Final[dict[str, tuple[str, ...]]] = {
    "create_memory": (
        "content", "kind", "type", "importance", "tags", "user", "project", "occurred_at", "expires_at", "pinned",
        "metadata",
    ),
    "search_memories": (
        "query", "limit", "offset", "detail", "kind", "tags", "user", "project", "since", "until", "status", "mode",
        "sort",
    ),
    "update_memory": (
        "id", "content", "kind", "importance", "tags", "metadata", "status", "confirm", "clear", "outcome", "dry_run",
    ),
    "explore_memories": ("ids", "depth", "direction", "limit"),
    "review_memories": ("find", "project", "offset"),
}  # fmt: skip
# The same where every tool is paid for: the others are not even named.
ESSENTIAL: Final[dict[str, tuple[str, ...]]] = {
    "create_memory": ("content", "kind", "tags", "user", "project", "occurred_at", "expires_at"),
    "search_memories": ("query", "limit", "tags", "user", "project", "since", "until", "detail"),
    "recall_context": ("context", "project", "user"),
    "update_memory": ("id", "content", "kind", "tags", "status", "confirm"),
    "forget_memories": ("ids", "reason", "replaced_by_ids", "hard", "confirm_token"),
}
# Names that a model would not understand by themselves.
MEANING: Final = {
    "as_of": "what held true then",
    "collection": "a grouping of yours",
    "count_only": "how many match",
    "duration": "seconds",
    "cursor": "of the page before",
    "dedup_policy": "ask, skip_if_near, merge or insert",
    "expected_version": "refuse if changed since",
    "idempotency_key": "same key, same memory",
    "related_to": "ids",
    "speaker": "who said it",
    "tags_match": "any or all",
}
LIKE_CREATING: Final = frozenset({"search_memories", "update_memory"})  # take fields that create_memory describes
TOLD_ONCE: Final = frozenset({"content", "kind", "importance", "tags", "metadata"})
UNTOLD: Final = frozenset(
    {"additionalProperties", "format", "minItems", "minLength", "minimum"}
)  # a refusal tells them
BOUNDS: Final = frozenset({"maxItems", "maxLength", "maximum"})


def listed(tool: str, schema: Schema, *, essential: bool = False) -> tuple[Schema, str]:
    """Return the schema of a tool's arguments as a model reads it, and a sentence that names those left out."""
    properties: Schema = schema["properties"]
    names = (ESSENTIAL if essential else USUAL).get(tool, tuple(properties))
    left_out = UNTOLD | BOUNDS if essential else UNTOLD
    told = {name: _without(left_out, properties[name]) for name in names}
    if tool in LIKE_CREATING:
        told |= {name: _type_alone(told[name]) for name in TOLD_ONCE & told.keys()}
    return {**_without(left_out, schema), "properties": told}, "" if essential else _also(tool, properties, told)


def _also(tool: str, properties: Schema, told: Schema) -> str:
    """Name the arguments that are not listed."""
    others = [name for name in properties if name not in told]
    if tool == "update_memory":
        others = ["the other fields of create_memory", *(name for name in others if name not in NewMemory.model_fields)]
    named = (f"{name} ({MEANING[name]})" if name in MEANING else name for name in others)
    return f"Also: {', '.join(named)}." if others else ""


def _type_alone(schema: Schema) -> Schema:
    return {
        key: _type_alone(schema[key]) if key == "items" else schema[key] for key in ("type", "items") if key in schema
    }


def _without(keywords: frozenset[str], schema: Schema) -> dict[str, Any]:
    return {
        key: _without(keywords, value) if key == "items" and isinstance(value, dict) else value
        for key, value in schema.items()
        if key not in keywords
    }
