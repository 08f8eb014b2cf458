"""Long works that an assistant writes beside a conversation and changes later: each is kept whole, as it was at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pgengram.transfer.records import as_json, mapping
from pgengram.transfer.transcripts import message_blocks

ALL_OF_IT: Final = (".*", "^.*$", "[\\s\\S]*", "(?s).*", "(?s)^.*$")  # patterns by which a canvas is written anew
LITERAL: Final = re.compile(
    r"(?:[^\\.^$*+?{}\[\]|()]|\\[^A-Za-z0-9])*"
)  # what a pattern may have that stands for itself


@dataclass(slots=True)
class Work:
    """A work: what it is called, its text so far, and the message that changed it last."""

    title: str = ""
    text: str = ""
    changed_in: int = -1

    def __str__(self) -> str:
        return f"[{self.title}]\n{self.text}" if self.title else self.text


@dataclass(slots=True)
class Works:
    """The works of one conversation.

    Attributes:
        changed: the names of those that each message made or changed.
    """

    changed: dict[int, list[str]] = field(default_factory=dict)
    _by_name: dict[str, Work] = field(default_factory=dict)

    def finished_in(self, number: int) -> dict[str, str]:
        """Return the works that a message changed last, by their names."""
        return {
            name: str(work) for name, work in self._by_name.items() if work.changed_in == number and work.text.strip()
        }

    def outdated_in(self, number: int) -> list[str]:
        """Return the names of works that a message changed and a later one changed again."""
        return [name for name in dict.fromkeys(self.changed.get(number, ())) if name not in self.finished_in(number)]

    def take(self, number: int, content: Any) -> None:
        """Take in what the tools of a message of Claude.ai write: artifacts, files, and code that it ran."""
        for block in message_blocks(content):
            given = mapping(block.get("input"))
            if block.get("type") != "tool_use":
                continue
            match block.get("name"):
                case "artifacts":
                    self._artifact(number, given)
                case "create_file":
                    name = str(given.get("path") or "")
                    self._write(number, name, name.rpartition("/")[2], given.get("file_text"))
                case "repl":
                    self._write(number, f"{number} {block.get('id')}", "repl", given.get("code"))
                case "str_replace" if str(given.get("path")) in self._by_name:
                    self._replace(number, str(given["path"]), given)

    def _artifact(self, number: int, given: Mapping[str, Any]) -> None:
        name = str(given.get("id") or given.get("title") or "")
        if given.get("command") == "update":
            self._replace(number, name, given)
        else:
            self._write(number, name, str(given.get("title") or ""), given.get("content"))

    def take_canvas(self, number: int, recipient: str, text: str) -> None:
        """Take in what a message of ChatGPT writes into its canvas."""
        command = recipient.removeprefix("canmore.")
        given = mapping(as_json(text)) if recipient != command else {}
        if command == "create_textdoc":
            name = str(given.get("name") or "")
            self._write(number, f"{number} {name}", name, given.get("content") or text)
        elif command == "update_textdoc" and self._by_name:
            name = next(reversed(self._by_name))
            for change in message_blocks(given.get("updates")):
                self._change(number, name, change)

    def _write(self, number: int, name: str, title: str, text: Any) -> None:
        if isinstance(text, str) and text:
            work = self._by_name.setdefault(name, Work())
            work.title, work.text, work.changed_in = title or work.title, text, number
            self.changed.setdefault(number, []).append(name)

    def _replace(self, number: int, name: str, given: Mapping[str, Any]) -> None:
        """Put a text in the place of another; where that is not found, behind all, so that nothing is lost."""
        work = self._by_name.setdefault(name, Work(str(given.get("title") or "")))
        old, new = str(given.get("old_str") or ""), str(given.get("new_str") or "")
        times = -1 if given.get("multiple") else 1
        work.text = work.text.replace(old, new, times) if old and old in work.text else f"{work.text}\n{new}".strip()
        work.changed_in = number
        self.changed.setdefault(number, []).append(name)

    def _change(self, number: int, name: str, change: Mapping[str, Any]) -> None:
        """Put a text in the place of what a pattern finds. Of patterns only those that stand for themselves are looked
        for: any other could take for ever.
        """
        pattern, new = str(change.get("pattern") or ""), str(change.get("replacement") or "")
        if pattern in ALL_OF_IT:
            self._write(number, name, "", new)
        else:
            old = re.sub(r"\\(.)", r"\1", pattern) if LITERAL.fullmatch(pattern) else ""
            self._replace(number, name, {"old_str": old, "new_str": new, "multiple": change.get("multiple")})
