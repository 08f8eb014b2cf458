"""Three sessions of an assistant as a page, lived through by a real client: `python tests/transcript.py` writes it anew.

`test_transcript.py` fails while the page is another than what happens. Ids are random, so the page gives each one of its
own; between two sessions the store is aged by the days between them, as a call cannot choose when it is made.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from mcp import Client

from helpers import Database, connected, said

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "three-sessions.md"
ID = re.compile(r"(?<![0-9a-f])(?<![0-9a-f]-)[0-9a-f]{8}(?![0-9a-f-])")
DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")
AGED = """UPDATE memories SET created_at = created_at - {gap}, updated_at = updated_at - {gap}, valid_from = valid_from - {gap},
  last_confirmed_at = last_confirmed_at - {gap}"""

INTRODUCTION = """\
# Three sessions

Every call (`→`) and answer (`←`) of an assistant in three sessions within a month, from a real server and client; only ids and dates are
replaced.
"""


@dataclass(frozen=True)
class Session:
    """One session: its day, what happens in words, and the calls; `{name}` stands for the id that a call named so gave."""

    day: date
    title: str
    story: str
    calls: list[tuple[str, str, dict[str, Any]]]


SESSIONS = [
    Session(
        date(2026, 11, 2),
        "Nora starts a project",
        "Nora opens her editor. Nothing is remembered yet, so the assistant is told nothing, and stores what it learns.",
        [
            ("", "recall_context", {"context": "Set up the Tidewater dashboard", "user": "Nora"}),
            ("demo", "create_memory", {
                "content": "The Tidewater demo for the harbour office is on 20 November 2026.", "kind": "project",
                "project": "tidewater",
            }),
            ("", "create_memories", {"items": [
                {"content": "Nora prefers answers in British English, without emoji.", "kind": "preference", "user": "Nora"},
                {"content": "Nora is allergic to penicillin.", "user": "Nora", "importance": "9/10"},
                "Tidewater reads the tide gauges every ten minutes, because the harbour office bills by that interval.",
            ]}),
        ],
    ),
    Session(
        date(2026, 11, 9),
        "the plan changes",
        "A week later the demo moves. The assistant stores the new date and names the memory that no longer holds, all in one call; that one is "
        "forgotten and can be restored.",
        [
            ("", "recall_context", {"user": "Nora"}),
            ("", "search_memories", {"query": "When is the demo for the harbour office?", "project": "Tide-Water", "limit": 3}),
            ("demo", "create_memory", {
                "content": "The Tidewater demo for the harbour office was moved to 27 November 2026.", "kind": "project",
                "project": "tidewater", "replaces": ["{demo}"],
            }),
        ],
    ),
    Session(
        date(2026, 11, 30),
        "mistakes that cost one call",
        "The assistant misremembers a tool's arguments. What is plain is read as it is meant; what would destroy is refused, with the "
        "call to make.",
        [
            ("", "search_memories", {"q": "why every ten minutes?", "top_k": 2}),
            ("", "create_memory", {"id": "{demo}", "content": "The Tidewater demo is over.", "project": "tidewater"}),
            ("", "forget_memories", {"query": "everything about the demo"}),
            ("", "forget_memories", {"ids": ["{demo}"], "reason": "The demo is over."}),
        ],
    ),
]  # fmt: skip


@dataclass
class Names:
    """The ids of a run and those of the page."""

    of_page: dict[str, str] = field(default_factory=dict)

    def shown(self, text: str) -> str:
        """Return an answer with the page's ids, given in the order in which they are first seen."""
        return ID.sub(lambda found: self.of_page.setdefault(found[0], _page_id(len(self.of_page))), text)

    def real(self, text: str) -> str:
        """Return a call with the ids of the run."""
        for real, shown in self.of_page.items():
            text = text.replace(shown, real)
        return text


def _page_id(number: int) -> str:
    return f"{(number * 0x9E3779B1 + 0x7F4A7C15) & 0xFFFFFFFF:08x}"


async def lived(client: Client, db: Database) -> str:
    """Live through the sessions in an empty store, and return the page."""
    names, given, page = Names(), {}, [INTRODUCTION]
    for session, following in zip(SESSIONS, [*SESSIONS[1:], None], strict=True):
        page += [f"## {session.day:%-d %B}: {session.title}", session.story]
        lines = []
        for name, tool, arguments in session.calls:
            written = json.dumps(arguments, ensure_ascii=False)
            for known, id_ in given.items():
                written = written.replace(f"{{{known}}}", id_)
            answer = said(await client.call_tool(tool, json.loads(names.real(written))))
            answer = names.shown(_dated(answer, session.day))
            if name:
                given[name] = json.loads(answer)["memory_id"]
            lines += [f"→ {tool} {written}", f"← {answer}", ""]
        page.append("\n".join(["```text", *lines[:-1], "```"]))
        if following is not None:
            db.as_login(AGED.format(gap=f"interval '{(following.day - session.day).days} days'"))
    return "\n\n".join(page) + "\n"


def _dated(answer: str, day: date) -> str:
    """Return an answer as it is on the session's day: every date as far from it as it is from today."""
    away = day - datetime.now(UTC).date()
    answer = re.sub(r"Today is \w+,", f"Today is {day:%A},", answer)
    return DAY.sub(lambda found: str(date.fromisoformat(found[0]) + away), answer)


async def made() -> str:
    """Return the page, from a server with a database of its own."""
    from pgengram.postgres import start_embedded

    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    os.chmod(folder.name, 0o755)  # for root the embedded PostgreSQL runs as another user
    with folder:
        server = start_embedded(Path(folder.name) / "data")
        try:
            async with connected(database_url=server.url, answers="short") as client:
                return await lived(client, Database(server.url))
        finally:
            server.stop()


if __name__ == "__main__":
    PAGE.write_text(asyncio.run(made()), encoding="utf-8")
