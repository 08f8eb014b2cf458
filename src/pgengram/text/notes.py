"""Markdown notes: the fields between two lines of --- at the beginning, the text below, and links to other notes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

RULE: Final = "---"
_FIELD: Final = re.compile(r"^([\w-]+):\s*(.*)$")
_ITEM: Final = re.compile(r"^\s*-\s+(.*)$")
# `- causes [[The flood]]`: a word before a link at the beginning of an item says how the notes relate.
_RELATION: Final = re.compile(r"^\s*[-*]\s+([\w ]{1,64}?)\s*\[\[([^\[\]|#]+)[^\[\]]*\]\]", re.MULTILINE)
_LINK: Final = re.compile(r"(?<!!)\[\[([^\[\]|#]+)[^\[\]]*\]\]")
LINKS_TO: Final = "links_to"


@dataclass(frozen=True, slots=True)
class Note:
    """A note: its fields, and its text without them."""

    fields: dict[str, Any] = field(default_factory=dict)
    body: str = ""

    @classmethod
    def parsed(cls, text: str) -> Note:
        """Return the note that a text is; fields that are never closed are text."""
        lines = text.replace("\r\n", "\n").split("\n")
        if lines[0].strip() != RULE or RULE not in (line.strip() for line in lines[1:]):
            return cls({}, "\n".join(lines).strip())
        end = next(place for place, line in enumerate(lines[1:], 1) if line.strip() == RULE)
        return cls(_fields(lines[1:end]), "\n".join(lines[end + 1 :]).strip())

    def rendered(self) -> str:
        """Return the note as a file has it; parsing that gives the same note."""
        head = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in self.fields.items()]
        return "\n".join([RULE, *head, RULE, "", self.body, ""])

    @property
    def links(self) -> list[tuple[str, str]]:
        """How it relates to which notes, by their names, each once."""
        links = self.fields.get("links")
        text = "\n".join(f"- {one}" for one in links if isinstance(one, str)) if isinstance(links, list) else ""
        text = f"{text}\n{self.body}"
        typed = {name.strip(): type_.strip() or LINKS_TO for type_, name in _RELATION.findall(text)}
        return [(typed.get(name.strip(), LINKS_TO), name.strip()) for name in dict.fromkeys(_LINK.findall(text))]


def _fields(lines: list[str]) -> dict[str, Any]:
    """Read `name: value`, and lists as JSON, in brackets or one item a line; deeper structures are left out."""
    found: dict[str, Any] = {}
    name = ""
    for line in lines:
        if match := _FIELD.match(line):
            name, written = match[1], match[2].strip()
            found[name] = _value(written)
        elif (item := _ITEM.match(line)) and name:
            before = found[name] if isinstance(found[name], list) else []
            found[name] = [*before, _value(item[1].strip())]
    return {name: value for name, value in found.items() if value not in (None, "")}


def _value(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:
        pass
    if written.startswith("[") and written.endswith("]"):
        return [one.strip().strip("'\"") for one in written[1:-1].split(",") if one.strip()]
    return written.strip("'\"")


def slug(text: str, words: int = 6) -> str:
    """Return the first words of a text as part of a file's name."""
    kept = re.findall(r"\w+", text.lower())[:words]
    return "-".join(kept)[:60].strip("-") or "memory"


def named(fields: Mapping[str, Any], stem: str) -> set[str]:
    """Return the names under which other notes link to one: its file's, its title and its aliases, in small letters."""
    aliases = fields.get("aliases")
    names = [stem, fields.get("title"), fields.get("permalink"), *(aliases if isinstance(aliases, list) else [aliases])]
    return {str(name).lower() for name in names if name}
