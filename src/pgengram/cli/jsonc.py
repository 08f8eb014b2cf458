"""JSON as people write it into their settings: with comments and trailing commas, edited in one place and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pgengram.errors import InvalidInput

DEEPEST: Final = 100  # levels; a client's file has four
_GAP: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SAME_LINE: Final = re.compile(r"(?:[ \t]+|/\*[^\n]*?\*/)*(?://[^\r\n]*)?")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_BOM: Final = "\ufeff"


@dataclass(slots=True)
class Node:
    """A value and where it stands; of an object also its members."""

    start: int
    end: int
    value: Any
    members: list[Member] = field(default_factory=list)


@dataclass(slots=True)
class Member:
    """A name and its value in an object; `comma` is where the comma after it stands, if there is one."""

    name: str
    start: int
    node: Node
    comma: int | None = None


def parsed(text: str) -> Any:
    """Return the value of a text; an empty one is an empty object.

    Raises:
        InvalidInput: it is no JSON, comments and trailing commas aside; the message names the line and column.
    """
    return {} if _is_blank(text) else _Reader(text).read().value


def with_entry(text: str, path: Sequence[str], value: Any) -> str:
    """Return `text` with the member at `path` set to `value`; every other byte stays as it is, but for a comma.

    Raises:
        InvalidInput: the text is no JSON, or something on the path is no object.
    """
    if _is_blank(text):
        nested = value
        for name in reversed(path):
            nested = {name: nested}
        return json.dumps(nested, indent=2, ensure_ascii=False) + "\n"
    node, rest = _descend(_Reader(text).read(), path)
    style = _Style.of(text)
    if not rest:
        return text[: node.start] + style.rendered(value, _indentation(text, node.start)) + text[node.end :]
    for name in reversed(rest[1:]):
        value = {name: value}
    return _inserted(text, node, rest[0], value, style)


def without_entry(text: str, path: Sequence[str]) -> str:
    """Return `text` without the member at `path`, however often it is there; as it is when there is none.

    Raises:
        InvalidInput: the text is no JSON, or something on the path is no object.
    """
    while not _is_blank(text):
        holder, rest = _descend(_Reader(text).read(), path[:-1])
        named = [] if rest else [i for i, one in enumerate(holder.members) if one.name == path[-1]]
        if not named:
            break
        text = _removed(text, holder, named[-1])
    return text


# --------------------------------------------------------------------------------------------------------- the reading


class _Reader:
    """Reads a text once, from the beginning to the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith(_BOM) else 0

    def read(self) -> Node:
        self._skip()
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._wrong("something stands after the end")
        return node

    def _value(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise self._wrong("it is nested too deep")
        character = self._text[self._at : self._at + 1]
        if character == "{":
            return self._object(depth)
        if character == "[":
            return self._array(depth)
        start = self._at
        found = (_STRING if character == '"' else _SCALAR).match(self._text, start)
        if found is None:
            raise self._wrong("a value is missing or not closed")
        self._at = found.end()
        try:
            return Node(start, self._at, json.loads(found[0]))
        except ValueError:
            self._at = start
            raise self._wrong("this is no value") from None

    def _object(self, depth: int) -> Node:
        node = Node(self._at, 0, {})
        self._at += 1
        while not self._closes("}"):
            if node.members and node.members[-1].comma is None:
                raise self._wrong("a comma or } is missing")
            start = self._at
            if self._text[start : start + 1] != '"':
                raise self._wrong("a name in double quotes is missing")
            name = self._value(depth + 1).value
            self._skip()
            if self._text[self._at : self._at + 1] != ":":
                raise self._wrong("a colon is missing")
            self._at += 1
            self._skip()
            member = Member(name, start, self._value(depth + 1))
            node.members.append(member)
            node.value[name] = member.node.value
            member.comma = self._comma()
        node.end = self._at
        return node

    def _array(self, depth: int) -> Node:
        node = Node(self._at, 0, [])
        self._at += 1
        more: int | None = 0
        while not self._closes("]"):
            if more is None:
                raise self._wrong("a comma or ] is missing")
            node.value.append(self._value(depth + 1).value)
            more = self._comma()
        node.end = self._at
        return node

    def _closes(self, mark: str) -> bool:
        self._skip()
        if self._text[self._at : self._at + 1] != mark:
            return False
        self._at += 1
        return True

    def _comma(self) -> int | None:
        self._skip()
        if self._text[self._at : self._at + 1] != ",":
            return None
        self._at += 1
        return self._at - 1

    def _skip(self) -> None:
        found = _GAP.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _wrong(self, what: str) -> InvalidInput:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        return InvalidInput(f"line {line}, column {column}: {what}", "")


def _is_blank(text: str) -> bool:
    return not text.removeprefix(_BOM).strip()


def _descend(node: Node, path: Sequence[str]) -> tuple[Node, list[str]]:
    """Return the deepest value on the path that is there, and the names that are not."""
    for place, name in enumerate(path):
        if not isinstance(node.value, dict):
            where = ".".join(path[:place]) or "the whole"
            raise InvalidInput(f"{where} is no object", "")
        below = [member.node for member in node.members if member.name == name]
        if not below:
            return node, list(path[place:])
        node = below[-1]  # of two with one name the later one counts, as for every reader
    return node, []


# --------------------------------------------------------------------------------------------------------- the writing


@dataclass(frozen=True, slots=True)
class _Style:
    """How a file is laid out: its line ends and what one level is indented by."""

    newline: str
    unit: str

    @classmethod
    def of(cls, text: str) -> _Style:
        first = re.search(r'\n([ \t]+)"', text)
        return cls("\r\n" if "\r\n" in text else "\n", first[1] if first else "  ")

    def rendered(self, value: Any, indentation: str | None) -> str:
        """Return a value as text below `indentation`; in one line where that is None."""
        if indentation is None:
            return json.dumps(value, ensure_ascii=False)
        return json.dumps(value, ensure_ascii=False, indent=self.unit).replace("\n", self.newline + indentation)


def _indentation(text: str, position: int) -> str | None:
    """Return what the line of `position` begins with; None in the first line of a text that has only one."""
    if "\n" not in text.strip():
        return None
    line = text[text.rfind("\n", 0, position) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _inserted(text: str, holder: Node, name: str, value: Any, style: _Style) -> str:
    outer = _indentation(text, holder.start) or ""
    if not holder.members:
        below = outer + style.unit
        member = f"{style.newline}{below}{json.dumps(name, ensure_ascii=False)}: {style.rendered(value, below)}"
        body = text[holder.start + 1 : holder.end - 1]
        kept = body.rstrip()
        tail = body[len(kept) :] if "\n" in body[len(kept) :] else style.newline + outer
        return text[: holder.start + 1] + kept + member + tail + text[holder.end - 1 :]
    last = holder.members[-1]
    in_lines = "\n" in text[holder.start : last.start]
    inner = _indentation(text, last.start) if in_lines else None
    shown = f"{json.dumps(name, ensure_ascii=False)}: {style.rendered(value, inner)}"
    trailing = last.comma is not None
    after = last.node.end if last.comma is None else last.comma + 1
    lead = "" if trailing else ","
    if not in_lines:
        return f"{text[:after]}{lead} {shown}{',' if trailing else ''}{text[after:]}"
    found = _SAME_LINE.match(text, after)
    line_end = found.end() if found else after
    if text[line_end : line_end + 1] not in ("\n", "\r"):
        line_end = after  # something else stands on this line, such as the closing brace or a longer comment
    rest = f"{style.newline}{inner}{shown}{',' if trailing else ''}"
    return f"{text[: last.node.end]}{lead}{text[last.node.end : line_end]}{rest}{text[line_end:]}"


def _removed(text: str, holder: Node, place: int) -> str:
    """Return `text` without one member of an object, its comma, and the line that would be left blank."""
    member = holder.members[place]
    start, end = member.start, member.node.end
    before = text[:start].rstrip(" \t")
    if member.comma is not None:
        between = text[end : member.comma]
        end = member.comma + 1
        if between.strip():  # a comment; it stays
            return text[:start] + between.lstrip() + text[end:]
    elif place > 0:
        comma = holder.members[place - 1].comma
        if comma is not None:
            text = text[:comma] + text[comma + 1 :]
            start, end, before = start - 1, end - 1, text[: start - 1].rstrip(" \t")
    if before.endswith("\n") and not text[end:].lstrip(" \t").startswith(("//", "/*")):
        rest_of_line = text[end:].lstrip(" \t")
        if rest_of_line.startswith(("\n", "\r\n")):
            before = before[:-2] if before.endswith("\r\n") else before[:-1]
            return before + rest_of_line
        return text[:start] + rest_of_line
    if member.comma is None:
        return before + text[end:]
    return text[:start] + text[end:].lstrip(" \t")
