"""JSON schemas in the flat form that every client accepts, and what they allow in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import CoreSchema

Schema = dict[str, Any]

_REFUSED_KEYWORDS = frozenset({"$ref", "oneOf", "anyOf", "allOf", "not", "if", "patternProperties"})
_NULL = {"type": "null"}


class FlatJsonSchema(GenerateJsonSchema):
    """Generates schemas in the flat form that every client accepts; for `schema_generator` of `model_json_schema`.

    References are replaced by what they name, titles dropped, and null is expressed by absence: an optional field has
    its plain type, is not required, and has no default of null. Schemas for serialization lose defaults too, as an
    answer has none.

    Raises:
        TypeError: the type needs a choice between schemas, or refers to itself.
    """

    def generate(self, schema: CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Generate the schema of a model in the flat form."""
        nested = super().generate(schema, mode)
        self._definitions: Mapping[str, Schema] = nested.get("$defs", {})
        self._answers = mode == "serialization"
        return self._flat(nested, ())

    def _flat(self, schema: Schema, inside: tuple[str, ...]) -> Schema:
        node = {key: value for key, value in schema.items() if key not in ("title", "$defs", "discriminator")}
        if reference := node.pop("$ref", None):
            return {**self._referred(reference.rpartition("/")[2], inside), **self._flat(node, inside)}
        if options := node.pop("anyOf", None):
            return {
                **self._choice([self._flat(one, inside) for one in options if one != _NULL]),
                **self._flat(node, inside),
            }
        if left := _REFUSED_KEYWORDS & node.keys():
            raise TypeError(f"a flat schema has no {', '.join(sorted(left))}")
        if "const" in node:
            node["enum"] = [node.pop("const")]
        self._drop_the_obvious(node)
        self._flatten_inside(node, inside)
        return node

    def _flatten_inside(self, node: Schema, inside: tuple[str, ...]) -> None:
        if "properties" in node:
            self._properties(node, inside)
        for key in ("items", "additionalProperties"):
            if isinstance(node.get(key), dict):
                node[key] = self._element(node[key], inside)

    def _referred(self, name: str, inside: tuple[str, ...]) -> Schema:
        if name in inside:
            raise TypeError(f"{name} contains itself, which a flat schema cannot say")
        return self._flat(self._definitions[name], (*inside, name))

    def _drop_the_obvious(self, node: Schema) -> None:
        """Drop empty defaults and false, any default of an answer, and what JSON Schema assumes anyway."""
        default = node.get("default")
        if "default" in node and (self._answers or default is False or default in (None, "", [], {})):
            del node["default"]
        if node.get("additionalProperties") is True:
            del node["additionalProperties"]

    def _properties(self, node: Schema, inside: tuple[str, ...]) -> None:
        properties: dict[str, Schema] = node["properties"]
        required = [name for name in node.pop("required", []) if not (self._answers and _may_be_null(properties[name]))]
        node["properties"] = {name: self._flat(one, inside) for name, one in properties.items()}
        if required:
            node["required"] = required

    def _element(self, schema: Schema, inside: tuple[str, ...]) -> Schema:
        """Flatten what is inside a list or a mapping, where null is a value like others."""
        flat = self._flat(schema, inside)
        if schema and _may_be_null(schema) and "type" in flat:
            flat["type"] = [*([flat["type"]] if isinstance(flat["type"], str) else flat["type"]), "null"]
        return flat

    @staticmethod
    def _choice(options: list[Schema]) -> Schema:
        """Merge what an optional or a union allows into one schema."""
        if len(options) == 1:
            return options[0]
        if all(one.keys() == {"type"} for one in options):
            return {"type": [one["type"] for one in options]}
        raise TypeError("a flat schema has no choice between types with conditions")


def _may_be_null(schema: Schema) -> bool:
    return not (schema.keys() - {"title", "description"}) or _NULL in schema.get("anyOf", ()) or schema == _NULL


# What every schema dialect of function calling has; Gemini's, a part of OpenAPI 3.0, refuses all tools of a server with
# one that it does not know.
_PORTABLE: Final = frozenset(
    {"type", "description", "enum", "default", "format", "items", "properties", "required", "pattern", "minimum", "maximum",
     "minItems", "maxItems", "minLength", "maxLength"}
)  # fmt: skip


def portable(schema: Schema) -> Schema:
    """Return a schema as every client can pass it on: each place has one type, the usual one of several.

    More than it says is accepted, such as several questions in a list.
    """
    kind = schema.get("type", "object")
    made = {key: value for key, value in schema.items() if key in _PORTABLE}
    made["type"] = kind = kind[0] if isinstance(kind, list) else kind
    if kind == "array":
        made["items"] = portable(schema.get("items", {}))
    else:
        made.pop("items", None)
    if "properties" in made:
        made["properties"] = {name: portable(one) for name, one in schema["properties"].items()}
    return made


def allowed(schema: Schema) -> str:
    """Say in words what a flat schema accepts."""
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(allowed({"type": one}) for one in kind)
    if kind in ("integer", "number"):
        return ("a whole number" if kind == "integer" else "a number") + _bounds(schema)
    if kind == "string":
        return _described_string(schema)
    if kind == "array":
        content = allowed(schema["items"]) if schema.get("items") else ""
        return f"a list{_counted_bounds(schema, 'Items', 'items')}" + (f", each {content}" if content else "")
    return {"boolean": "true or false", "object": "an object"}.get(str(kind), "of another type")


def _described_string(schema: Schema) -> str:
    if schema.get("format") == "date-time":
        return "a date or a time, such as 2026-01-31, 2026-01-31T12:00:00Z or yesterday"
    pattern = f" matching {schema['pattern']}" if "pattern" in schema else ""
    return f"text{_counted_bounds(schema, 'Length', 'characters')}{pattern}"


def _bounds(schema: Schema) -> str:
    words = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    said = [f"{word} {schema[key]:,g}" for key, word in words.items() if key in schema]
    return f" of {' and '.join(said)}" if said else ""


def _counted_bounds(schema: Schema, what: str, unit: str) -> str:
    least, most = schema.get(f"min{what}"), schema.get(f"max{what}")
    if least is None and most is None:
        return ""
    if most is None:
        return f" of at least {least:,} {unit}"
    return f" of {least:,} to {most:,} {unit}" if least else f" of at most {most:,} {unit}"
