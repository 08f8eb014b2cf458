"""One entry of a mapping in a YAML file: put in or taken out as text, so that everything else stays byte for byte."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pgengram.errors import InvalidInput

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
