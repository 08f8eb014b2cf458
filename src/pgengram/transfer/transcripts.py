"""What the lines of the transcripts of coding assistants have in common: blocks of text, calls of tools, and what each
line comes to, for an import as for hooks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from pgengram.store.conversations import Conversation
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.records import NOBODY, Left, Said, as_json, mapping, moment, said_or_left
from pgengram.transfer.wrappers import COMMAND, SHELL, said_by_person

MAX_INPUT: Final = 500  # characters of what a tool was called with
SUBAGENT: Final = "a sub-agent said it to itself"
REPEATED: Final = "it repeats what was said"

IMAGES: Final = ("image", "input_image", "local_image", "Image", "LocalImage")  # types of blocks

HELD: Final = 16 << 20  # bytes of a file that is held, so that it need not be read and parsed twice
Entries = Callable[
    [], Iterator[tuple[int, dict[str, Any] | Broken]]
]  # the lines of a file, each time from its beginning


@dataclass(frozen=True, slots=True)
class Uttered:
    """Who said something, and what; or why it is left out. `cut` has the reasons for its parts that were left out."""

    role: str = ""
    text: str = ""
    why: str = NOBODY
    cut: tuple[str, ...] = ()

    def if_said(self) -> bool:
        """Whether anybody said it."""
        return bool(self.role and self.text)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a transcript.

    Args:
        number: from 0.
        uttered: what it says.
        time: when, if that is known.
        conversation: of which it is one.
        id: how the client calls it; empty if it has no name.
        withdrawn: whether it was taken back later.
        copied_from: see `Turn`.
    """

    number: int
    uttered: Uttered
    time: datetime | None
    conversation: str
    id: str = ""
    withdrawn: bool = False
    copied_from: tuple[str, datetime | None] | None = None

    def as_turns(self, place: str, conversation: Conversation) -> Iterator[Said | Left]:
        """Yield the turn that it is, and what was left out of it."""
        one = self.uttered
        talk = conversation if self.conversation == conversation.id else replace(conversation, id=self.conversation)
        for reason in one.cut if one.if_said() else one.cut[1:]:
            yield Left(place, reason, by_design=True)
        yield said_or_left(
            place, talk, self.number, one.role, one.text, self.time,
            why=one.why, id_=self.id, withdrawn=self.withdrawn, copied_from=self.copied_from,
        )  # fmt: skip


def entries_of(source: Source, file: File) -> Entries:
    """Return what yields the lines of a file, each time from its beginning."""
    if file.size <= HELD:
        held = list(source.objects(file))
        return lambda: iter(held)

    def again() -> Iterator[tuple[int, dict[str, Any] | Broken]]:
        done = source.done
        yield from source.objects(file)
        source.done = done

    source.done += file.size
    return again


def by_person(client: str, content: Any) -> Uttered:
    """Return what a person said in a message to a client, or what its tools answered. A prompt without a word, an image
    or a bare command, is a turn of the user with no text.
    """
    found = said_by_person(client, texts_in(content))
    cut = tuple(found.left)
    if found.text:
        return Uttered("user", found.text, cut=cut)
    answered = "\n\n".join(filter(None, [found.shell, *done(content)])).strip()
    why = cut[0] if cut else SHELL if found.shell else NOBODY
    if not answered and (COMMAND in cut or any(block.get("type") in IMAGES for block in message_blocks(content))):
        return Uttered("user", "", why, cut)
    return Uttered("tool", answered, why, cut) if answered else Uttered(why=why, cut=cut)


def by_assistant(content: Any) -> Uttered:
    """Return what an assistant said, its plans whole, or which tools it called."""
    text = "\n\n".join([*texts_in(content), *_plans(content)]).strip()
    return Uttered("assistant", text) if text else Uttered("tool", "\n\n".join(done(content)).strip())


def _plans(content: Any) -> Iterator[str]:
    """Yield the plans that an assistant lays before the user."""
    for block in message_blocks(content):
        plan = mapping(block.get("input")).get("plan")
        if block.get("type") == "tool_use" and block.get("name") == "ExitPlanMode" and isinstance(plan, str):
            yield plan


def time_of(entry: Mapping[str, Any]) -> datetime | None:
    """Return when an entry was written."""
    return moment(entry.get("timestamp"))


def texts_in(content: Any) -> Iterator[str]:
    """Yield the texts of a message: of a string, or of blocks."""
    if isinstance(content, str):
        yield content
    for block in message_blocks(content):
        if block.get("type") in (None, "text", "input_text", "output_text", "Text") and isinstance(
            block.get("text"), str
        ):
            yield block["text"]


def done(content: Any) -> Iterator[str]:
    """Yield which tools a message calls, and what they answered."""
    for block in message_blocks(content):
        if block.get("type") == "tool_use":
            yield called(block.get("name"), block.get("input"))
        elif block.get("type") == "tool_result":
            yield answered(block.get("content"))


def called(name: Any, given: Any) -> str:
    """Return which tool was called, and with what."""
    return f"{name} {_short_input(given)}"


def answered(output: object) -> str:
    """Return what a tool answered: its text where it is wrapped in JSON, else all of it."""
    found: Any = output
    if isinstance(found, str) and found.startswith("{"):
        try:
            found = json.loads(found)
        except ValueError:
            return str(found).strip()
    for name in ("output", "content", "content_items"):
        if isinstance(found, Mapping) and found.get(name):
            found = found[name]
            break
    text = "\n".join(texts_in(found)).strip()
    if text or found in (None, "", [], {}):
        return text
    return output.strip() if isinstance(output, str) else str(json.dumps(output, ensure_ascii=False))


def message_blocks(content: Any) -> list[Mapping[str, Any]]:
    """Return the blocks of a message."""
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _short_input(given: Any) -> str:
    return (given if isinstance(given, str) else json.dumps(given, ensure_ascii=False))[:MAX_INPUT]


def strings_in(value: Any) -> Iterator[str]:
    """Yield the texts within a value of JSON, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from strings_in(one)


ON, BESIDE, TAKEN_BACK, APART = range(4)  # of what leads to the end, not, left, or in another tree


def withdrawn(parents: Mapping[str, str | None], leaf: str, starts: Collection[str] | None = None) -> set[str]:
    """Return the messages of branches that were left.

    Args:
        parents: of each message, the one before it; None for a beginning.
        leaf: where the conversation ends; one of them.
        starts: the messages with which a branch can begin; by default any. What branches off otherwise, such as the
            answer of a second tool, belongs to the conversation.
    """
    chain = _up(parents, leaf, ())
    before_all = parents[chain[-1]]
    verdicts = dict.fromkeys(chain, ON)
    for name in parents:
        for one in reversed(_up(parents, name, verdicts)):
            above = parents[one]
            below = ON if above is not None and above == before_all else APART
            verdict = verdicts.get(above, below) if above is not None else below
            if verdict in (ON, BESIDE):
                verdict = TAKEN_BACK if starts is None or one in starts else BESIDE
            verdicts[one] = verdict
    return {name for name, verdict in verdicts.items() if verdict == TAKEN_BACK}


def trees(parents: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return the messages of each tree by its first one, in their order."""
    roots: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for name in parents:
        path = _up(parents, name, roots)
        above = parents.get(path[-1]) if path else None
        root = roots[name] if not path else roots.get(above or "", path[-1])
        roots |= dict.fromkeys(path, root)
        found.setdefault(root, []).append(name)
    return found


def _up(parents: Mapping[str, str | None], name: str, known: Collection[str]) -> list[str]:
    """Return a message and those above it, as far as none of them is known; a circle ends."""
    path: dict[str, None] = {}
    at: str | None = name
    while at is not None and at in parents and at not in known and at not in path:
        path[at] = None
        at = parents[at]
    return list(path)


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
                case name:
                    self._long_texts(number, f"{number} {block.get('id')}", str(name), given)

    def _long_texts(self, number: int, call: str, tool: str, given: Mapping[str, Any]) -> None:
        """Take whatever a tool was given at such a length, such as a message, or a file by way of a shell."""
        for place, text in enumerate(one for one in strings_in(given) if len(one) > MAX_INPUT):
            self._write(number, f"{call} {place}", tool, text)

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
