"""A corpus of weeks with an assistant: its sessions stored in order through a real MCP client, and its questions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgengram.cli.clients.mcp_client import connected
from pgengram.settings import Settings

CORPUS = Path(__file__).parent / "data" / "assistant_corpus.json"
OURS = {"key", "language", "contradicts"}  # fields of the corpus that no tool takes
AHEAD = ("expires_at", "occurred_at")  # moments that the caller chose
MOMENTS = """
SELECT table_name, array_agg(column_name::text) AS columns FROM information_schema.columns
WHERE table_schema = current_schema() AND data_type = 'timestamp with time zone' AND is_generated = 'NEVER'
  AND column_name <> ALL (%s)
GROUP BY table_name
"""
HEX = re.compile(r"[0-9a-f]{8}(?:[0-9a-f-]{0,28})")


@dataclass(slots=True)
class Written:
    """What one call that writes was answered: the memory's key, the answer, its size and the keys that it hints at."""

    tool: str
    key: str
    contradicts: str | None
    answer: dict[str, Any]
    size: int
    hinted: list[str]


@dataclass(slots=True)
class Stored:
    """A corpus in a store: which id is which memory, what each says at the end, and what was answered on the way."""

    corpus: dict[str, Any]
    ids: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    written: list[Written] = field(default_factory=list)

    def key_of(self, id_: str) -> str | None:
        """Return the key of the one memory that a whole or short id means, None when it means none or several."""
        short = bare(id_)
        for matches in (str.endswith, str.startswith):
            meant = [key for key, known in self.ids.items() if matches(bare(known), short)]
            if meant:
                return meant[0] if len(meant) == 1 else None
        return None

    def keys_in(self, text: str) -> list[str]:
        """Return the keys of the memories whose ids stand in a text, in its order."""
        found = (self.key_of(id_) for id_ in HEX.findall(text))
        return list(dict.fromkeys(key for key in found if key))

    @property
    def contradictions(self) -> dict[str, str]:
        """For each memory that was stored beside what it changes: the key of what it changes."""
        return {one.key: one.contradicts for one in self.written if one.contradicts}


def bare(id_: str) -> str:
    """Return an id without hyphens, marks and address."""
    return id_.lower().rpartition("/")[2].replace("-", "").strip("…. ")


def id_of(item: dict[str, Any]) -> str:
    """Return the id in an answer or a hit."""
    return str(item.get("memory_id") or item["id"])


def hints(answer: dict[str, Any]) -> Iterable[str]:
    """Return the ids of memories that a new one may change, as its answer names them."""
    return [one["id"] if isinstance(one, dict) else one for one in answer.get("may_replace") or ()]


def read(path: Path = CORPUS) -> dict[str, Any]:
    """Read a corpus."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


async def live_through(corpus: dict[str, Any], settings: Settings, *, batch: bool = False) -> Stored:
    """Store the sessions in order, each by a client and a server process of its own, and date each as it says.

    Args:
        corpus: as `read` returns it.
        settings: the store; its login must own the tables.
        batch: store what is new in a session by one create_memories, else each by create_memory.
    """
    stored = Stored(corpus)
    for session in corpus["sessions"]:
        with psycopg.connect(settings.database_url) as connection:
            [began] = connection.execute("SELECT now()").fetchone() or ()
        async with connected(settings) as client:
            await _session(client, session["memories"], stored, batch=batch)
        shift(settings.database_url, began, datetime.fromisoformat(session["date"]))
    return stored


async def _session(client: Any, memories: list[dict[str, Any]], stored: Stored, *, batch: bool) -> None:
    new = [one for one in memories if "key" in one]
    arguments = [{name: value for name, value in one.items() if name not in OURS} for one in new]
    if batch:
        answer, size = await asked(client, "create_memories", {"items": arguments})
        remarkable = {result["index"]: result for result in answer.get("results", ())}
        for index, (one, id_) in enumerate(zip(new, answer["ids"], strict=True)):
            _note(stored, "create_memories", one, {"id": id_, **remarkable.get(index, {})}, size // len(new))
    else:
        for one, its in zip(new, arguments, strict=True):
            _note(stored, "create_memory", one, *await asked(client, "create_memory", its))
    for one in memories:
        if key := one.get("update"):
            answer, size = await asked(client, "update_memory", {"id": stored.ids[key], "content": one["content"]})
            stored.said[key] = one["content"]
            stored.written.append(Written("update_memory", key, None, answer, size, []))


def _note(stored: Stored, tool: str, one: dict[str, Any], answer: dict[str, Any], size: int) -> None:
    key = one["key"]
    hinted = [stored.key_of(id_) or id_ for id_ in hints(answer)]
    stored.ids[key] = id_of(answer)
    stored.said[key] = one["content"]
    stored.written.append(Written(tool, key, one.get("contradicts"), answer, size, hinted))


async def asked(client: Any, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Call a tool and return its structured answer and the bytes of the text that a model reads.

    Raises:
        ValueError: the tool refused.
    """
    answer = await client.call_tool(tool, arguments)
    text = answer.content[0].text
    if answer.is_error:
        raise ValueError(f"{tool}: {text}")
    return dict(answer.structured_content), len(text.encode())


def shift(url: str, began: datetime, date: datetime) -> None:
    """Move every moment that was written since `began`, so that `began` becomes `date`."""
    with psycopg.connect(url) as connection:
        for table, columns in connection.execute(MOMENTS, [list(AHEAD)]).fetchall():
            moved = sql.SQL(", ").join(
                sql.SQL("{0} = CASE WHEN {0} >= %(began)s THEN {0} + (%(date)s - %(began)s) ELSE {0} END").format(
                    sql.Identifier(column)
                )
                for column in columns
            )
            since = sql.SQL(" OR ").join(
                sql.SQL("{} >= %(began)s").format(sql.Identifier(column)) for column in columns
            )
            statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(sql.Identifier(table), moved, since)
            connection.execute(statement, {"began": began, "date": date})
