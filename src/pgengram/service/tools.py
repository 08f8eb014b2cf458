"""How a method of the manager becomes a tool: one decorator, read by the server.

The method's name is the tool's name, its docstring the description, its annotated parameters the input schema and its
returned view the output schema. Nothing here knows MCP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from pgengram.errors import SecretRejected
from pgengram.inputs import as_invalid_input, validated
from pgengram.runtime.context import Method, retrying
from pgengram.text.secrets import without_secrets

Model = TypeVar("Model", bound=BaseModel)
VECTORS = {"embedding"}  # thousands of numbers, which hold no text


def without_secrets_in(model: Model, *, redact: bool) -> tuple[Model, list[str]]:
    """Return a request without secrets, and what was redacted; without any, the request itself.

    Raises:
        SecretRejected: it holds one, and `redact` is not chosen.
        InvalidInput: with the secret redacted it is longer than allowed.
    """
    given = model.model_dump(exclude_unset=True, exclude=VECTORS)
    clean, names = filter_fields(given, redact=redact)
    if not names:
        return model, []
    kept = {name: getattr(model, name) for name in VECTORS & model.model_fields_set}
    return validated(type(model), clean | kept), names


def filter_arguments(
    method: Callable[..., Any], given: Mapping[str, Any], *, redact: bool
) -> tuple[Mapping[str, Any], list[str]]:
    """Return the arguments of a tool without secrets, and what was redacted.

    Raises:
        SecretRejected: they hold one, and `redact` is not chosen.
        InvalidInput: with the secret redacted one is longer than allowed.
    """
    if len(given) == 1 and isinstance(model := next(iter(given.values())), BaseModel):
        made, names = without_secrets_in(model, redact=redact)
        return dict.fromkeys(given, made), names
    clean, names = filter_fields(given, redact=redact)
    if names:
        hints = get_type_hints(method, include_extras=True)
        for name in [name for name in clean if clean[name] is not given[name]]:
            try:
                clean[name] = TypeAdapter(hints[name]).validate_python(clean[name])
            except ValidationError as error:
                raise as_invalid_input(error, name) from None
    return clean, names


def filter_fields(given: Mapping[str, Any], *, redact: bool) -> tuple[dict[str, Any], list[str]]:
    """Return fields without secrets, and what was redacted; their names are ours, so no value is judged by its field's.

    Raises:
        SecretRejected: they hold one, and `redact` is not chosen.
    """
    clean: dict[str, Any] = {}
    names: list[str] = []
    for where, value in given.items():
        clean[where], found = without_secrets(value)
        if found and not redact:
            raise SecretRejected(where, found[0])
        names += found
    return clean, names


MARK = "__tool__"


@dataclass(frozen=True, slots=True)
class Hints:
    """What calling a tool does to the store, told to the client before it asks its user."""

    read_only: bool
    destructive: bool
    idempotent: bool


READS = Hints(read_only=True, destructive=False, idempotent=True)
# Also where `replaces` retires others: those are kept whole and come back with one call. Clients that ask their user
# before what is destructive would otherwise ask for each memory, and store none where nobody is there.
ADDS = Hints(read_only=False, destructive=False, idempotent=True)
CHANGES = Hints(read_only=False, destructive=True, idempotent=False)
REMOVES = Hints(read_only=False, destructive=True, idempotent=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """One method that clients may call."""

    name: str
    title: str
    hints: Hints
    method: Callable[..., Awaitable[Any]]
    essential: tuple[str, ...] = ()  # the only arguments to list, where clients pay for each
    has_card: bool = False  # whether a host may show its answer in our card
    scopes: tuple[str, ...] = ()  # that a program's token must have, where it signed in to get one


def tool(hints: Hints, *, title: str, screens: bool = True) -> Callable[[Method], Method]:
    """Mark a method as a tool.

    Whoever calls it, a call is repeated when the store moved under it. What writes is called only with arguments that
    hold no secret; with `screens` off the method sees to that by itself.
    """

    def mark(method: Method) -> Method:
        made = retrying(method)
        if screens and not hints.read_only:
            made = _filter_secrets(made)
        setattr(made, MARK, (hints, title))
        return made

    return mark


def _filter_secrets(method: Method) -> Method:
    names = [*signature(method).parameters][1:]

    @wraps(method)
    async def filtered(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        clean, redacted = filter_arguments(method, given, redact=_redacts(self))
        answer = await method(self, **clean)
        if redacted and isinstance(answer, BaseModel) and "redacted" in type(answer).model_fields:
            return answer.model_copy(update={"redacted": redacted})
        return answer

    return cast("Method", filtered)


def _redacts(toolset: Any) -> bool:
    """Whether the owner of a tool, or the core it stands on, was set to redact secrets instead of refusing them."""
    core = getattr(toolset, "core", getattr(toolset, "memory", toolset))
    return bool(getattr(getattr(core, "settings", None), "secrets", "") == "redact")


def tools_of(toolset: object) -> list[Tool]:
    """Return the marked methods of `namespace` in the order of their definition."""
    found: list[Tool] = []
    for name in dict.fromkeys(name for kind in reversed(type(toolset).__mro__) for name in vars(kind)):
        mark = getattr(getattr(type(toolset), name, None), MARK, None)
        if mark is not None:
            found.append(Tool(name, mark[1], mark[0], getattr(toolset, name)))
    return found
