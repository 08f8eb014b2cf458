"""What was said and is likely to last is offered a few at a time, by a command, and stored only where a person picks it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers import Database, environment
from machine import answered, exit_code, has_terminals, pgengram, what_comes

LASTING = [
    "Please remember that I am left-handed and need the other scissors.",
    "We decided to keep the mill ledger in PostgreSQL from now on.",
    "I always want the invoices of the mill in French.",
    "From now on call me Ines instead of Inês in every letter.",
    "I prefer trains to planes whenever the trip takes less than a day.",
    "We agreed that Tomasz waters the cress on Fridays from now on.",
    "I never want the ferry at night again, please remember that.",
]
PASSING = ["What is the capital of Mongolia?", "Thanks, that works!", "Rename this variable to count."]


@pytest.fixture
def store(database: Database, tmp_path: Path) -> dict[str, str]:
    """A store with an imported conversation."""
    settings = {"database_url": database.url, "embedder": "none:"}
    said = [{"type": "user", "uuid": f"u-{n}", "sessionId": "s-1", "cwd": "/home/ines/mill", "isSidechain": False,
             "timestamp": f"2026-02-{n + 1:02}T10:00:00Z", "message": {"role": "user", "content": text}}
            for n, text in enumerate([*LASTING, *PASSING])]  # fmt: skip
    path = tmp_path / "s-1.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in said), encoding="utf-8")
    pgengram("import", str(path), "--from", "claude-code", **settings)
    return settings


def suggested(store: dict[str, str], *more: str) -> dict[str, Any]:
    found: dict[str, Any] = answered("conversations", "suggest", "--json", *more, **store)
    return found


def test_five_at_a_time_and_nothing_that_a_memory_has(store: dict[str, str]) -> None:
    first = suggested(store)
    rest = suggested(store, "--skip", "5")
    pgengram("add", "Ines is left-handed and needs the other scissors; please remember that I am.", **store)
    shown = pgengram("conversations", "suggest", **store).stdout

    assert (len(first["turns"]), len(rest["turns"]), first["in_all"]) == (5, 2, 7)
    assert {one["text"] for one in first["turns"] + rest["turns"]} == {*LASTING}
    assert suggested(store)["in_all"] == 6
    assert "left-handed" not in shown
    assert "conversations suggest --skip 5" in shown
    assert len(answered("list", "--json", **store)["results"]) == 1


def test_a_search_that_finds_what_was_said_alone_does_not_say_that_nothing_was_found(store: dict[str, str]) -> None:
    found = pgengram("search", "ledger", "--turns", **store).stdout
    nothing = pgengram("search", "walrus", "--turns", **store).stdout

    assert found.startswith("No memory fits, but this was said:\n")
    assert "mill ledger" in found
    assert nothing.startswith("Nothing found.")


@has_terminals
def test_what_a_person_picks_becomes_a_memory_with_its_source_and_its_day(store: dict[str, str]) -> None:
    import pty

    offered = suggested(store)["turns"]
    pid, terminal = pty.fork()
    if pid == 0:
        words = [sys.executable, "-m", "pgengram", "conversations", "suggest"]
        os.execve(sys.executable, words, environment(**store))
    shown = b""
    for part in what_comes(terminal):
        shown += part
        if shown.endswith(b"none): "):
            os.write(terminal, b"2\n")
    os.close(terminal)

    assert exit_code(pid) == 0, shown.decode()
    [memory] = answered("list", "--json", **store)["results"]
    [whole] = answered("show", memory["id"], "--json", **store)["memories"]
    assert whole["content"] == offered[1]["text"]
    assert whole["occurred_at"] == offered[1]["time"]
    assert [source["ref"] for source in whole["sources"]] == [offered[1]["cite"]]
    assert offered[1]["text"] not in [one["text"] for one in suggested(store)["turns"]]
