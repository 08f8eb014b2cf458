"""JSON as people write it in settings, with comments and trailing commas, edited in one place and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pgengram.errors import InvalidInput

_GAP: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=[ \t\r\n]*[}\]])')
_SAME_LINE: Final = re.compile(r"(?:[ \t]+|/\*[^\n]*?\*/)*(?://[^\r\n]*)?")
_BOM: Final = "\ufeff"


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it is; of an object also its members."""

    start: int
    end: int
    value: Any
    members: list[Member]


@dataclass(frozen=True, slots=True)
class Member:
    """A name and its value in an object, and where the comma after it is, if there is one."""

    name: str
    start: int
    node: Node
    comma: int | None


def parse_jsonc(text: str) -> Any:
    """Return the value of a text; an empty one is an empty object.

    Raises:
        InvalidInput: it is not valid JSON, comments and trailing commas aside; the message names the line and column.
    """
    return {} if _is_blank(text) else _Document(text).read().value


def with_entry(text: str, path: Sequence[str], value: Any) -> str:
    """Return `text` with the member at `path` set to `value`; every other byte stays as it is, but for a comma.

    Raises:
        InvalidInput: the text is not valid JSON, or something on the path is not an object.
    """
    if _is_blank(text):
        nested = value
        for name in reversed(path):
            nested = {name: nested}
        return json.dumps(nested, indent=2, ensure_ascii=False) + "\n"
    node, rest = _descend(_Document(text).read(), path)
    style = _Style.of(text)
    if not rest:
        return text[: node.start] + style.rendered(value, _indentation(text, node.start)) + text[node.end :]
    for name in reversed(rest[1:]):
        value = {name: value}
    return _inserted(text, node, rest[0], value, style)


def without_entry(text: str, path: Sequence[str]) -> str:
    """Return `text` without the member at `path`, however often it is there; as it is when there is none.

    Raises:
        InvalidInput: the text is not valid JSON, or something on the path is not an object.
    """
    while not _is_blank(text):
        holder, rest = _descend(_Document(text).read(), path[:-1])
        named = [] if rest else [i for i, one in enumerate(holder.members) if one.name == path[-1]]
        if not named:
            break
        text = _without_member(text, holder, named[-1])
    return text


# --------------------------------------------------------------------------------------------------------- the reading


class _Document:
    """A text beside itself as strict JSON: spaces take the place of comments and trailing commas, so places agree."""

    def __init__(self, text: str) -> None:
        self._bare = _COMMENT.sub(_spaces, text.replace(_BOM, " ", 1) if text.startswith(_BOM) else text)
        self._strict = _TRAILING_COMMA.sub(_spaces, self._bare)
        self._decoder = json.JSONDecoder(parse_constant=_refuse_constant)

    def read(self) -> Node:
        try:
            self._decoder.decode(self._strict)
            return self._node(0)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"line {error.lineno}, column {error.colno}: {error.msg}", "") from None
        except RecursionError:
            raise InvalidInput("it is nested too deeply", "") from None

    def _node(self, at: int) -> Node:
        start = self._skip(at)
        value, end = self._decoder.raw_decode(self._strict, start)
        return Node(start, end, value, self._members(start) if isinstance(value, dict) else [])

    def _members(self, at: int) -> list[Member]:
        found: list[Member] = []
        at = self._skip(at + 1)
        while self._bare[at] != "}":
            name, end = self._decoder.raw_decode(self._strict, at)
            node = self._node(self._skip(end) + 1)  # past the colon
            after = self._skip(node.end)
            comma = after if self._bare[after] == "," else None
            found.append(Member(name, at, node, comma))
            at = self._skip(after if comma is None else after + 1)
        return found

    def _skip(self, at: int) -> int:
        found = _GAP.match(self._bare, at)
        return found.end() if found else at


def _spaces(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else re.sub(r"[^\r\n]", " ", found[0])


def _refuse_constant(word: str) -> None:
    raise InvalidInput(f"{word} is not JSON", "")


def _is_blank(text: str) -> bool:
    return not text.removeprefix(_BOM).strip()


def _descend(node: Node, path: Sequence[str]) -> tuple[Node, list[str]]:
    """Return the deepest value on the path that is there, and the names that are not."""
    for place, name in enumerate(path):
        if not isinstance(node.value, dict):
            raise InvalidInput(f"expected an object {'.'.join(path[:place]) or 'at the top level'}", "")
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
    """Return `text` with a member added at the end of an object."""
    key = json.dumps(name, ensure_ascii=False)
    if not holder.members:
        outer = _indentation(text, holder.start) or ""
        below = outer + style.unit
        body = text[holder.start + 1 : holder.end - 1]
        kept = body.rstrip()
        tail = body[len(kept) :] if "\n" in body[len(kept) :] else style.newline + outer
        member = f"{style.newline}{below}{key}: {style.rendered(value, below)}"
        return text[: holder.start + 1] + kept + member + tail + text[holder.end - 1 :]
    last = holder.members[-1]
    in_lines = "\n" in text[holder.start : last.start]
    inner = _indentation(text, last.start) if in_lines else None
    after, lead, trail = (last.node.end, ",", "") if last.comma is None else (last.comma + 1, "", ",")
    shown = f"{key}: {style.rendered(value, inner)}{trail}"
    if not in_lines:
        return f"{text[:after]}{lead} {shown}{text[after:]}"
    line_end = _line_end(text, after)
    return (
        f"{text[: last.node.end]}{lead}{text[last.node.end : line_end]}{style.newline}{inner}{shown}{text[line_end:]}"
    )


def _line_end(text: str, at: int) -> int:
    """Return where the line of a member ends; `at` when something else follows."""
    found = _SAME_LINE.match(text, at)
    end = found.end() if found else at
    return end if text[end : end + 1] in ("\n", "\r") else at


def _without_member(text: str, holder: Node, place: int) -> str:
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


_BELOW: Final = re.compile(r"(?:[ \t]*(?:#.*)?\r?\n)*([ ]+)[^\s#]")  # the first entry of a mapping, after its head


def parse_yaml(text: str) -> Any:
    """Return the value of a text; an empty one is an empty mapping.

    Raises:
        InvalidInput: it is not valid YAML; the message names the line and column.
    """
    import yaml

    try:
        return yaml.safe_load(text) or {}
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark
        where = f"line {at.line + 1}, column {at.column + 1}: " if at else ""
        raise InvalidInput(f"{where}{error.problem}", "") from None


def with_yaml_entry(text: str, holder: str, name: str, value: dict[str, Any]) -> str:
    """Return `text` with an entry as the first one below `holder`, in one line of JSON, which is YAML too.

    Raises:
        InvalidInput: what is below `holder` is not written in lines of its own.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    entry = f"{name}: {json.dumps(value, ensure_ascii=False)}{end}"
    head = _holder_line(text, holder)
    if head is None:
        if holder in parse_yaml(text):
            raise InvalidInput(f"{holder} is written on one line", "")
        return f"{text}{'' if text.endswith(end) or not text else end}{holder}:{end}  {entry}"
    below = _BELOW.match(text, head.end())
    first = (
        text[: head.end()]
        if head["empty"] is None
        else text[: head.start("empty")] + text[head.end("empty") : head.end()]
    )
    return f"{first}{below[1] if below else '  '}{entry}{text[head.end() :]}"


def without_yaml_entry(text: str, holder: str, name: str) -> str:
    """Return `text` without an entry below `holder`, in as many lines as it has; as it is when there is none."""
    head = _holder_line(text, holder)
    if head is None:
        return text
    found = re.compile(
        rf"^([ ]+)(['\"]?){re.escape(name)}\2:.*(?:\r?\n|\Z)(?:\1[ ]+.*(?:\r?\n|\Z))*", re.MULTILINE
    ).search(text, head.end())
    if found is None:
        return text
    rest = text[: found.start()] + text[found.end() :]
    return (
        rest
        if _BELOW.match(rest, head.end())
        else f"{rest[: head.start()]}{holder}: {{}}{rest[head.start() + len(holder) + 1 :]}"
    )


def _holder_line(text: str, holder: str) -> re.Match[str] | None:
    return re.search(rf"^{re.escape(holder)}:(?P<empty> {{}})?[ \t]*(?:#.*)?\r?\n", text, re.MULTILINE)
