"""`search`, `list`, `show` and `add` ask a server of the store that runs, and say the same as without one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hooked_assistant import Assistant
from mcp import Client
from typer.testing import CliRunner

from helpers import PATIENCE_S, Database, connected, environment, nightly, remember
from machine import copied, exit_code, has_terminals, is_over, what_comes
from pgengram.cli.app import app
from pgengram.postgres import server_status
from pgengram.runtime.context import COMMAND_LINE

# Runs the command, then says which of the libraries were imported that only a whole server needs.
WATCHED = """
import sys
from pgengram.__main__ import main
try:
    main()
finally:
    print(*{"psycopg", "pydantic", "typer", "alembic"} & set(sys.modules), file=sys.stderr)
"""
LYON = "The Ark project deploys from the office in Lyon."


@pytest_asyncio.fixture
async def client(assistant: Assistant) -> AsyncIterator[Client]:
    """A server of the assistant's store with two memories."""
    async with connected(**assistant.settings) as made:
        await remember(made, LYON, kind="decision", tags=["deploy"], project="ark")
        await remember(made, "Mara prefers short answers — 短い答え.", importance=0.9)
        yield made


@pytest.fixture
def own(prepared: Path, tmp_path: Path) -> Assistant:
    """An assistant with an embedded server of its own, which does not run."""
    copied(prepared, tmp_path)
    return Assistant({"data_dir": str(tmp_path)})


def quickly(assistant: Assistant, *words: str, **settings: str) -> tuple[int, str, str]:
    """Run a command in a process of its own; return its exit code, what it prints, and heavy imports or errors."""
    ended = subprocess.run(
        [sys.executable, "-c", WATCHED, *words], env=environment(**assistant.settings | settings), capture_output=True,
        text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


async def fully(assistant: Assistant, *words: str) -> tuple[int, str]:
    """Run the full command, which asks no server."""
    settings = {f"PGENGRAM_{name.upper()}": value for name, value in assistant.settings.items()}
    result = await asyncio.to_thread(CliRunner().invoke, app, [*words], env=settings)
    return result.exit_code, result.stdout


def steady(printed: str) -> str:
    """Return JSON without what changes from moment to moment."""
    return re.sub(r'"(relevance|score|next_cursor)": \S+', "", printed)


@pytest.mark.parametrize("line", [
    "search Lyon office --project ark --why", "list -n 1",
    *nightly("search nothing-like-it --mode text", "list --forgotten", "search Lyon", "list", "list --sort importance --offset=1", "list --tag deploy --kind decision"),
])  # fmt: skip
async def test_a_running_server_answers_as_the_full_command_does(
    assistant: Assistant, client: Client, line: str
) -> None:
    code, printed, imported = quickly(assistant, *line.split())
    as_json = quickly(assistant, *line.split(), "--json")

    assert (code, printed) == await fully(assistant, *line.split())
    assert steady(as_json[1]) == steady((await fully(assistant, *line.split(), "--json"))[1])
    assert (imported.split(), as_json[2].split()) == ([], [])


async def test_what_is_added_through_a_server_is_shown_as_what_a_person_said(
    assistant: Assistant, client: Client
) -> None:
    code, printed, imported = quickly(assistant, "add", "Ravi drinks tea.", "--tag", "drinks", "--pin", "--json")
    id_ = json.loads(printed)["memory_id"]
    shown = quickly(assistant, "show", id_[-8:], "--history")

    assert (code, imported.split()) == (0, [])
    assert shown[:2] == await fully(assistant, "show", id_[-8:], "--history")
    assert "Ravi drinks tea." in shown[1]
    [memory] = json.loads((await fully(assistant, "show", id_, "--history", "--json"))[1])["memories"]
    assert (memory["pinned"], memory["tags"], memory["capture_mode"]) == (True, ["drinks"], "explicit")
    assert memory["history"][0]["actor"] == COMMAND_LINE


@pytest.mark.parametrize("words", [
    ("add", "The password: hunter2-Zx9!kQ is new."), ("list", "--limit", "0"),
    *nightly(("show", "00000000"), ("add", "a", "b"), ("list", "--wrong"), ("search", "tea", "--mode", "odd"), ("list", "--forgotten", "--archived"), ("search",)),
])  # fmt: skip
async def test_what_is_refused_is_refused_in_the_same_words(
    assistant: Assistant, client: Client, words: tuple[str, ...]
) -> None:
    settings = {f"PGENGRAM_{name.upper()}": value for name, value in assistant.settings.items()}
    full = await asyncio.to_thread(CliRunner().invoke, app, [*words], env=settings)
    code, printed, said = quickly(assistant, *words)

    assert full.exit_code != 0
    assert (code, printed) == (full.exit_code, full.stdout)
    assert full.stderr.splitlines()[-2:] == said.splitlines()[:-1][-2:]


@pytest.mark.parametrize("line", [
    "add Mara-takes-tea.", *nightly("search tea", "list --limit 0", "list --json", "show 00000000", "search tea --mode odd"),
])  # fmt: skip
async def test_without_a_server_a_command_says_what_the_full_one_does_and_reads_no_options_first(
    own: Assistant, line: str
) -> None:
    await fully(own, "add", "Ravi drinks tea in the garden.")
    code, printed, said = quickly(own, *line.split())
    full = await fully(own, *line.split())

    assert code == full[0]
    if not line.startswith("add"):  # it stores the same text again
        assert steady(printed) == steady(full[1])
    assert ("typer" in said.split()) == (code == 2)
    assert not server_status(own.folder).running


@has_terminals
def test_whoever_types_is_answered_by_a_server_that_stays_for_the_next_commands(own: Assistant) -> None:
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable, [sys.executable, "-m", "pgengram", "add", "Ravi drinks tea."], environment(**own.settings)
        )
    shown = b"".join(what_comes(terminal))
    os.close(terminal)
    code = exit_code(pid)
    own.wait()
    [server] = own.momentary()

    code_of_next, printed, imported = quickly(own, "list")
    server.terminate()
    server.wait(PATIENCE_S)

    assert (code, code_of_next) == (0, 0), shown
    assert "Ravi drinks tea." in printed
    assert imported.split() == []  # it was answered before anything heavy was imported
    assert is_over(own.folder)


async def test_a_wrong_command_makes_no_store(tmp_path: Path) -> None:
    own = Assistant({"data_dir": str(tmp_path / "none")})

    assert quickly(own, "list", "--since", "nonsense")[0] == 2
    assert not own.folder.exists()


async def test_a_server_answers_of_the_namespace_that_is_asked_for(assistant: Assistant, client: Client) -> None:
    code, printed, imported = quickly(assistant, "list", namespace="other")

    assert (code, printed.split(".")[0]) == (0, "Nothing found")
    assert imported.split() == []


async def test_a_server_of_another_database_is_not_asked(assistant: Assistant, client: Client, blank: Database) -> None:
    code, printed, imported = quickly(assistant, "list", database_url=blank.url)

    assert (code, printed.split(".")[0]) == (0, "Nothing found")
    assert "psycopg" in imported
