"""How a method of the manager becomes a tool: one decorator, read by the server.

The method's name is the tool's name, its docstring the description, its annotated parameters the input schema and its
returned view the output schema. Nothing here knows MCP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Awaitable[Any]])
MARK = "__tool__"


@dataclass(frozen=True, slots=True)
class Hints:
    """What calling a tool does to the store, told to the client before it asks its user."""

    read_only: bool
    destructive: bool
    idempotent: bool


READS = Hints(read_only=True, destructive=False, idempotent=True)
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


def tool(hints: Hints, *, title: str) -> Callable[[Method], Method]:
    """Mark a method as a tool."""

    def mark(method: Method) -> Method:
        setattr(method, MARK, (hints, title))
        return method

    return mark


def tools_of(owner: object) -> list[Tool]:
    """Return the marked methods of `owner` in the order of their definition."""
    found: list[Tool] = []
    for name in dict.fromkeys(name for kind in reversed(type(owner).__mro__) for name in vars(kind)):
        mark = getattr(getattr(type(owner), name, None), MARK, None)
        if mark is not None:
            found.append(Tool(name, mark[1], mark[0], getattr(owner, name)))
    return found
