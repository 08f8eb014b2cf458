"""What the lines of the transcripts of coding assistants have in common: blocks of text, calls of tools, and what each
line comes to, for an import as for hooks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from pgengram.store.assistant.conversations import Conversation
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.records import NOBODY, Left, Said, mapping, moment, said_or_left
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
