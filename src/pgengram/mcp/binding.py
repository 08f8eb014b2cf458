"""One tool as clients see it: its schemas, and arguments checked against them.

The high-level server of the SDK guesses at arguments, quotes rejected values and runs on after an unknown one; this does none of that.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError, create_model
from pydantic_core import ErrorDetails, from_json

from pgengram.errors import InvalidInput, LimitExceeded
from pgengram.inputs import spelled_as_here
from pgengram.mcp.schema import FlatJsonSchema, Schema, allowed
from pgengram.service.tools import Tool
from pgengram.text.secrets import redacted

if TYPE_CHECKING:
    from mcp_types import Tool as ListedTool


class ToolBinding:
    """A tool as clients see it, made from the method's signature, docstring and returned view.

    A method whose only parameter is a pydantic model takes that model's fields as its arguments.

    Raises:
        TypeError: a parameter is not annotated or too intricate for a flat schema, or no view is returned.
    """

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        hints = get_type_hints(tool.method, include_extras=True)
        view = hints.pop("return", None)
        if not (isinstance(view, type) and issubclass(view, BaseModel)):
            raise TypeError(f"{tool.name} must return a pydantic model")
        parameters = inspect.signature(tool.method).parameters
        self._view = view
        self._whole = None
        if len(parameters) == 1 and _is_request(hints[next(iter(parameters))]):
            self._whole = next(iter(parameters))
            self._model: type[BaseModel] = hints[self._whole]
            return
        fields = {name: (hints[name], ... if p.default is p.empty else p.default) for name, p in parameters.items()}
        config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())
        self._model = create_model(f"{tool.name}_arguments", __config__=config, **cast("dict[str, Any]", fields))

    @cached_property
    def input_schema(self) -> Schema:
        """What the tool accepts."""
        return {
            key: value
            for key, value in self._model.model_json_schema(schema_generator=FlatJsonSchema).items()
            if key != "description"
        }

    @cached_property
    def listed(self) -> ListedTool:
        """The tool's entry in tools/list."""
        from mcp_types import Tool as ListedTool  # here, as commands that only call a tool need none of it
        from mcp_types import ToolAnnotations

        hints = self.tool.hints
        return ListedTool(
            name=self.tool.name,
            title=self.tool.title,
            description=inspect.getdoc(self.tool.method),
            input_schema=self.input_schema,
            output_schema=self._output_schema(),
            annotations=ToolAnnotations(
                read_only_hint=hints.read_only,
                destructive_hint=hints.destructive,
                idempotent_hint=hints.idempotent,
                open_world_hint=False,
            ),
        )

    def _output_schema(self) -> Schema | None:
        """What the tool answers, unless it has no fixed shape; the list of what is always there is left out, as it helps no caller and costs them room."""
        if issubclass(self._view, RootModel):
            return None
        schema = self._view.model_json_schema(schema_generator=FlatJsonSchema, mode="serialization")
        return {key: value for key, value in schema.items() if key not in ("description", "required")}

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for the method; those left out, or null where that is allowed, keep their default.

        Raises:
            InvalidInput: some are unknown, missing or out of bounds; the message says what is allowed.
            LimitExceeded: a list holds more than one call may bring.
        """
        try:
            checked = self._model.model_validate(_meant(dict(given), self.input_schema))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
            message = "; ".join(_problem(one, self.input_schema) for one in problems[:MAX_PROBLEMS])
            too_much = all(_is_too_much(one, self.input_schema) for one in problems)
            raise (LimitExceeded(message) if too_much else InvalidInput(message)) from None
        if self._whole is not None:
            return {self._whole: checked}
        return {name: getattr(checked, name) for name in checked.model_fields_set}


def _is_request(hint: object) -> bool:
    """Whether a parameter is a model whose fields are the tool's arguments."""
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _meant(value: Any, schema: Schema) -> Any:
    """Undo what clients do to arguments: lists and objects sent as JSON text, null for "left out", names in camel case.

    Text stays text: only where the schema wants nothing but a list or an object is a string read as JSON.
    """
    wanted = schema.get("type")
    if isinstance(value, str) and (wanted, value.lstrip()[:1]) in (("array", "["), ("object", "{")):
        with contextlib.suppress(ValueError):
            value = from_json(value, allow_inf_nan=False)
    if wanted == "array" and isinstance(value, list):
        return [_meant(one, schema.get("items") or {}) for one in value]
    if wanted == "object" and isinstance(value, dict) and "properties" in schema:
        value = spelled_as_here(value, schema["properties"])
        required = schema.get("required", ())
        return {
            name: _meant(one, schema["properties"].get(name, {}))
            for name, one in value.items()
            if one is not None or name in required or name not in schema["properties"]
        }
    return value


MAX_PROBLEMS: Final = 5  # named in one error
SMALLEST_BATCH: Final = 20  # a list that may hold as many is a batch
MAX_ECHO: Final = 64  # characters of a client's own word in an error


def _problem(error: ErrorDetails, schema: Schema) -> str:
    """Say what is wrong and what is allowed, from the schema alone: the rejected value is never part of it."""
    where, node, known = _place(error["loc"], schema)
    if error["type"] == "extra_forbidden":
        word = _clipped(error["loc"][-1])
        near = get_close_matches(word, known, 1)
        kind = f"field {word!r} in {where}" if where else f"argument {word!r}"
        return f"unknown {kind}" + (f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}")
    if error["type"] in ("value_error", "assertion_error"):  # the words of our own validators
        return f"{where} {error.get('ctx', {}).get('error', 'is not allowed')}".strip()
    verb = "is required:" if error["type"] == "missing" else "must be"
    return f"{where or 'arguments'} {verb} {allowed(node)}"


def _is_too_much(error: ErrorDetails, schema: Schema) -> bool:
    """Whether a call brings more things at once than it may, rather than one that is too large."""
    if error["type"] != "too_long" or len(error["loc"]) != 1:
        return False
    argument = schema.get("properties", {}).get(error["loc"][0], {})
    return bool(argument.get("maxItems", 0) >= SMALLEST_BATCH)


def _place(path: Sequence[int | str], schema: Schema) -> tuple[str, Schema, list[str]]:
    """Follow an error's path as far as the schema knows it.

    Returns how to call the place, its schema, and the names known at the last object met. Keys of free mappings are
    the caller's content, so they are left out.
    """
    where, node, known = "", schema, list(schema.get("properties", ()))
    for step in path:
        if isinstance(step, int) and "items" in node:
            where, node = f"{where}[{step}]", node["items"]
        elif step in node.get("properties", ()):
            where, node = f"{where}.{step}".lstrip("."), node["properties"][step]
        else:
            break
        known = list(node.get("properties", known))
    return where, node, known


def _clipped(word: object) -> str:
    return redacted(str(word))[0][:MAX_ECHO].encode("utf-8", "replace").decode()
