"""What holds now as one text, for a person to paste where another assistant takes in memories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TextIO

from pgengram.service.core import Core
from pgengram.store.reading import transferring

HEADINGS: Final = {  # in the order in which they are pasted
    "How to work with me": ("preference",),
    "People and facts": ("person", "fact", "general", "connection"),
    "Projects, goals and decisions": ("project", "goal", "decision"),
    "How things are done, and what was learnt": ("process", "learning", "error", "insight", "pattern"),
    "What happened": ("observation",),
}


@dataclass(frozen=True, slots=True)
class Taker:
    """An assistant that takes memories as a text: what stands above them, and where the text is to be pasted."""

    opening: str
    then: str


# To add one: a line here.
TAKERS: Final = {
    "claude": Taker(
        "These are memories about me from another assistant.",
        "Paste it at claude.com/import-memory, or in Claude's settings under its memory.",
    ),
    "chatgpt": Taker(
        "Please remember the following about me. Ask me before you leave anything out.",
        "ChatGPT has no page for it: paste it into a new chat, and see under Settings → Personalization what it kept.",
    ),
    "gemini": Taker(
        "These are memories about me from another assistant.", "Paste it where Gemini's settings import memories."
    ),
}


async def export_text(file: TextIO, core: Core, taker: Taker) -> int:
    """Write what holds now as a text: under a few headings one line `[day] - text` a memory; return how many.

    Forgotten, archived and expired memories are left out. The form of a line is the one that Claude's own prompt for
    moving memories asks for.
    """
    async with core.store.snapshot() as tx:
        rows = await transferring.current(tx)
    file.write(f"{taker.opening}\n")
    for heading, kinds in HEADINGS.items():
        chosen = [row for row in rows if row["kind"] in kinds]
        if chosen:
            file.write(f"\n## {heading}\n\n")
        for row in chosen:
            about = f"{row['project']}: " if row["project"] else ""
            text = row["content"].replace("\n", "\n  ")
            file.write(f"[{row['at']:%Y-%m-%d}] - {about}{text}\n")
    return len(rows)
