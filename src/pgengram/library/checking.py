"""Checks what a program says against the annotations of the method that it calls, exactly: nothing is read as something
else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, wraps
from typing import Any, Final, TypeVar, cast, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError, validate_call
from pydantic_core import ErrorDetails

from pgengram.errors import InvalidInput
from pgengram.library.given import NewItem, SourceGiven
from pgengram.runtime.clock import here
from pgengram.service.calls.coercion import LAST_INSTANT
from pgengram.service.calls.moments import read_moment

Method = TypeVar("Method", bound=Callable[..., Any])
UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument")
MISSING: Final = ("missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument")


def checked_method(method: Method) -> Method:
    """Let a method, asynchronous or a generator, be called with what its annotations say only.

    Raises:
        InvalidInput: by the method that is returned; the message names the argument.
    """

    @cache
    def check() -> Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]:
        @wraps(method)
        def given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
            return args, kwargs

        return validate_call(config=ConfigDict(strict=True))(given)

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            return check()(*args, **kwargs)
        except ValidationError as error:
            raise InvalidInput(_message(error, _argument_names(method), _positional(method))) from None

    if inspect.isasyncgenfunction(method):

        @wraps(method)
        def go_through(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = arguments(args, kwargs)
            return method(*args, **kwargs)

        return cast("Method", go_through)

    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = arguments(args, kwargs)
        return await method(*args, **kwargs)

    return cast("Method", call)


@cache
def _item_adapter() -> TypeAdapter[NewItem]:
    return TypeAdapter(NewItem)


def item_of(given: Mapping[str, Any]) -> NewItem:
    """Return one of many memories to store, as its typed dictionary wants it.

    Raises:
        InvalidInput: it is something else.
    """
    try:
        return _item_adapter().validate_python(dict(given))
    except ValidationError as error:
        raise InvalidInput(_message(error, [*NewItem.__annotations__])) from None


def given_moment(name: str, value: Any) -> Any:
    """Return a moment that was given as text, with its zone; anything else as it is.

    Raises:
        InvalidInput: the text names none.
    """
    if not isinstance(value, str):
        return value
    read = read_moment(value, here(), end=name in LAST_INSTANT, ahead=name == "expires_at")
    if read is None:
        raise InvalidInput(f"{name} must be a moment, such as 2026-03-03 or 2026-03-03T10:00:00Z.")
    return read


def _message(error: ValidationError, names: Sequence[str], positional: Sequence[str] = ()) -> str:
    """Say of each argument what it must be; of a choice of types all of them."""
    wrong: dict[str, list[str]] = {}
    for one in error.errors(include_url=False, include_input=False):
        where = _error_path(one, names, positional)
        wrong.setdefault(where, []).append(_error_sentence(one, where, names))
    return "; ".join(" or ".join(dict.fromkeys(problems)) for problems in wrong.values())


def _error_sentence(error: ErrorDetails, where: str, names: Sequence[str]) -> str:
    if error["type"] == "unexpected_positional_argument":
        return "too many arguments without a name; name those after the first"
    if error["type"] in UNKNOWN:
        near = get_close_matches(where.rpartition(".")[2], names, 1)
        known = f"; did you mean {near[0]!r}?" if near else "" if "." in where else f"; known are {', '.join(names)}"
        return f"unknown argument {where!r}{known}"
    if error["type"] in MISSING:
        return f"{where} is required"
    wanted = error["msg"].removeprefix("Input should be ")
    return f"{where} must be {wanted}" if wanted != error["msg"] else f"{where}: {wanted}"


def _error_path(error: ErrorDetails, names: Sequence[str], positional: Sequence[str]) -> str:
    """Return the path to what is wrong, without the branches of a choice of types."""
    first, *rest = error["loc"]
    where = positional[min(first, len(positional) - 1)] if isinstance(first, int) else first
    for step in rest:
        if isinstance(step, int):
            where += f"[{step}]"
        elif step in names or step in SourceGiven.__annotations__ or error["type"] in UNKNOWN:
            where += f".{step}"
    return where


def _positional(method: Callable[..., Any]) -> list[str]:
    """Return the names of what needs none; the last may stand for any number of arguments."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [name for name, parameter in inspect.signature(method).parameters.items() if parameter.kind in kinds]


@cache
def _argument_names(method: Callable[..., Any]) -> list[str]:
    """Return the names of all arguments of a method, those of its typed dictionary of keyword arguments, too."""
    names = []
    hints = get_type_hints(method)
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            names.append(name)
        else:
            names += get_args(hints[name])[0].__annotations__
    return [name for name in names if name != "self"]
