"""What makes the command line a pleasure: help with examples, progress, clean output, and clear words when something is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from helpers import PATIENCE_S, Database, environment, nightly
from machine import COMMAND, by_its_command, what_comes
from pgengram.cli import progress, waiting
from pgengram.cli.app import app
from pgengram.transfer import opening

WORDS = {"embedder": "none:"}
ENDED_BY_CTRL_C = 130
MANY = 3_000
KILLING = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has no such signal
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals of this test are those of POSIX")


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command there is."""
    for name, one in (group or typer.main.get_command(app)).commands.items():  # type: ignore[attr-defined]
        if hasattr(one, "commands"):
            yield from commands(one, (*path, name))
        else:
            yield (*path, name)


def typed(store: dict[str, str], *words: str, expect: int = 0, **more: str) -> Result:
    settings = {f"PGENGRAM_{name.upper()}": value for name, value in store.items()}
    result = CliRunner().invoke(app, [*words], env=settings | {"COLUMNS": "200"} | more)
    assert result.exit_code == expect, (result.output, result.exception)
    return result


def answered(store: dict[str, str], *words: str) -> Any:
    return json.loads(typed(store, *words, "--json").stdout)


def everything(database: Database) -> dict[str, list[Any]]:
    """Return every row of every table, whoever it belongs to, but for the list of namespaces that no backup is to bring back."""
    database.keep()
    names = [
        name
        for (name,) in database.as_login(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace "
            "AND relname <> 'deletion_log'"
        )
    ]
    return {name: sorted(map(repr, database.as_login(f"SELECT * FROM {name}"))) for name in names}


def lines_of(path: Path, number: int) -> Path:
    path.write_text("".join(json.dumps({"content": f"Note {n} about train {n * 7}."}) + "\n" for n in range(number)))
    return path


@pytest.fixture
def store(database: Database) -> dict[str, str]:
    return {"database_url": database.url, **WORDS}


# -- help and completion -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_every_help_has_an_example_that_the_command_line_understands(words: tuple[str, ...]) -> None:
    help_ = typed({}, *words, "--help").stdout
    shown = typer.main.get_command(app)
    for word in words:
        shown = shown.commands[word]  # type: ignore[attr-defined]
    examples = re.findall(r"`((?:\w+=\S+ )*(?:[^`|]*\| )?pgengram [^`]+)`", (shown.help or "").partition("Example")[2])

    assert "Example" in help_
    assert examples
    assert any(f"pgengram {' '.join(words)}" in example for example in examples)


@by_its_command
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_offered_for_a_shell(shell: str) -> None:
    shown = subprocess.run(
        [str(COMMAND), "--show-completion", shell],
        env=environment() | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip

    assert shown.returncode == 0, shown.stderr
    assert "_PGENGRAM_COMPLETE" in shown.stdout


def test_completion_asks_by_the_commands_name_where_its_file_is_an_exe() -> None:
    as_on_windows = "import sys; sys.argv = ['/there/pgengram.exe', '--show-completion', 'bash']\n"
    shown = subprocess.run(
        [sys.executable, "-c", as_on_windows + "from pgengram.__main__ import main; main()"],
        env=environment() | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip

    assert "_PGENGRAM_COMPLETE=complete_bash" in shown.stdout


# -- progress ----------------------------------------------------------------------------------------------------------


def test_without_a_terminal_there_is_no_bar_but_a_plain_line_now_and_then(
    store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    monkeypatch.setattr(opening, "MOST_ITEMS", 128)
    file = lines_of(tmp_path / "notes.jsonl", 200)

    imported = typed(store, "import", str(file), "--json")
    exported = typed(store, "export", "-")

    assert re.search(r"^Importing: 128 of \d+, \d+ s ", imported.stderr, re.MULTILINE)
    assert re.search(r"^Importing: 200 of 200, \d+ s left$", imported.stderr, re.MULTILINE)
    assert json.loads(imported.stdout)["added"] == {"memory": 200}
    assert re.search(r"^Exporting: [\d,]+ of 200", exported.stderr, re.MULTILINE)
    assert len([json.loads(line) for line in exported.stdout.splitlines()]) == 201
    assert "\x1b" not in imported.stderr + exported.stderr


def test_what_takes_no_time_has_no_lines(store: dict[str, str], tmp_path: Path) -> None:
    assert typed(store, "import", str(lines_of(tmp_path / "notes.jsonl", 3)), "--json").stderr == ""


@POSIX
def test_on_a_terminal_there_is_a_bar_with_the_time_left(store: dict[str, str], tmp_path: Path) -> None:
    seen = in_a_terminal(store, "import", str(lines_of(tmp_path / "notes.jsonl", 300)))

    assert "300/300" in seen
    assert "\x1b[" in seen
    assert re.search(r"\d:\d\d:\d\d", seen)


@POSIX
def test_nobody_who_wants_no_colour_gets_any(store: dict[str, str]) -> None:
    coloured = re.compile(r"\x1b\[[0-9;]*3[0-7]m")

    typed(store, "add", "The office is in Lyon.")

    assert coloured.search(in_a_terminal(store, "list"))
    assert not coloured.search(in_a_terminal(store, "list", NO_COLOR="1"))


def in_a_terminal(store: dict[str, str], *words: str, **more: str) -> str:
    """Return what a command shows where a person types it."""
    import pty

    shown, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "pgengram", *words], env=environment(**store) | {"TERM": "xterm-256color"} | more,
        stdin=terminal, stdout=terminal, stderr=terminal,
    ) as process:  # fmt: skip
        os.close(terminal)
        seen = b"".join(what_comes(shown))
        assert process.wait(PATIENCE_S) == 0, seen
    os.close(shown)
    return seen.decode()


# -- measuring one's own store -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("embedder", ["builtin:", *nightly("none:")])
def test_a_bench_measures_beside_floors_and_changes_nothing(database: Database, embedder: str) -> None:
    store = {"database_url": database.url, "embedder": embedder}
    for text in ("The office is in Lyon.", "Mara prefers green tea.", "The train leaves at eight."):
        typed(store, "add", text)
    before = everything(database)

    answer = answered(store, "bench", "--calls", "10")

    marks = {mark["what"]: mark for mark in answer["marks"]}
    assert everything(database) == before
    assert answer["memories"] == 3
    assert {"create", "list the newest"} < set(marks)
    for mark in marks.values():
        assert 0 < mark["p50_ms"] <= mark["p95_ms"] <= mark["p99_ms"]
    assert all(
        mark["times_floor"] == pytest.approx(mark["p50_ms"] / mark["floor_ms"], rel=0.05)
        for mark in marks.values()
        if "floor" in mark
    )
    assert ("search" in marks) is (embedder == "builtin:")


def test_an_empty_store_is_measured_too(store: dict[str, str], database: Database) -> None:
    table = typed(store, "bench", "--calls", "10")

    assert "0 memories in" in table.stdout
    assert "× floor" in table.stdout
    assert "Searching" in table.stderr
    assert database.as_login("SELECT count(*) FROM memories") == [(0,)]


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_what_a_walk_leaves_out_is_counted_with_the_way_to_see_it(store: dict[str, str]) -> None:
    hub = answered(store, "add", "The hub.")["memory_id"]
    for number in range(8):
        typed(store, "add", f"Spoke {number}.", "--related-to", hub)

    cut, whole = typed(store, "graph", hub, "--limit", "3").stdout, typed(store, "graph", hub).stdout

    assert "5 more are within reach: --limit 500" in cut
    assert "within reach" not in whole


def test_links_and_changes_that_a_memory_has_too_many_of_are_counted(
    store: dict[str, str], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pgengram.store.reading import history

    monkeypatch.setitem(history.LIMIT, "relations", 2)
    monkeypatch.setitem(history.LIMIT, "history", 2)
    hub = answered(store, "add", "The hub.")["memory_id"]
    for number in range(5):
        typed(store, "add", f"Spoke {number}.", "--related-to", hub)
        typed(store, "edit", hub, f"importance=0.{number + 1}")

    shown = typed(store, "show", hub, "--history").stdout
    [memory] = answered(store, "show", hub, "--history")["memories"]

    assert (memory["relations_in_all"], len(memory["relations"])) == (5, 2)
    assert "… and 3 more relations: `pgengram graph`" in shown
    assert f"… and {memory['history_in_all'] - 2} more history: `pgengram export`" in shown


def test_statistics_have_a_bar_for_each_count(store: dict[str, str]) -> None:
    for number in range(3):
        typed(store, "add", f"Fact {number}.", "--kind", "fact", "--importance", "0.9")
    typed(store, "add", "A decision.", "--kind", "decision", "--importance", "0.1")

    shown = typed(store, "stats", "--all").stdout

    bars = {line.split("  ")[0]: line.count("█") for line in shown.splitlines() if line}
    assert bars["fact"] == 24
    assert bars["decision"] == 8
    assert bars["0.9–1.0"] > bars["0.1–0.2"] > bars["0.5–0.6"] == 0


def test_statistics_fit_a_screen_and_name_what_is_most_frequent(store: dict[str, str]) -> None:
    tags = [f"tag-{number:02}" for number in range(14)]
    for number in range(3):
        typed(store, "add", f"Fact {number}.", "--kind", "fact", *(word for tag in tags for word in ("--tag", tag)))
    typed(store, "add", "A decision.", "--kind", "decision", "--tag", tags[0])

    shown = typed(store, "stats", COLUMNS="80").stdout

    assert re.search(r"^kinds +fact 3 · decision 1", shown, re.MULTILINE)
    assert re.search(r"^tags +tag-00 4 · tag-01 3 ·", shown, re.MULTILINE)
    assert "8 more" in shown
    assert "True" not in shown
    assert len(shown.splitlines()) <= 24


def test_a_review_says_a_reason_once_for_all_memories_that_have_it(store: dict[str, str]) -> None:
    for number in range(3):
        typed(store, "add", f"The house number {number} has a green door.")

    shown = typed(store, "review", "--find", "untagged").stdout

    assert shown.count("It has no tag.") == 1
    assert shown.count("has a green door") == 3
    assert "Suggested: tag" not in shown


@pytest.mark.parametrize(
    "command", [["list"], ["search", "drinks", "--why"], ["show"], ["stats"], ["review"], ["tags"]], ids=" ".join
)
def test_what_is_shown_fits_a_terminal_of_80_columns(store: dict[str, str], command: list[str]) -> None:
    text = (
        "Mara drinks green tea in the morning, rooibos in the afternoon and nothing that has caffeine in it after six."
    )
    id_ = answered(store, "add", text, "--tag", "drinks-without-caffeine", "--tag", "habits", "--kind", "preference")[
        "memory_id"
    ]
    typed(store, "add", f"{text} Ever.", "--related-to", id_)

    shown = typed(store, *command, *([id_] if command == ["show"] else []), COLUMNS="80").stdout

    assert text in shown if command == ["show"] else "rooibos" in shown or "habits" in shown
    assert max(len(line) for line in shown.replace(text, "").splitlines()) <= 80


def test_the_sign_of_life_is_gone_before_a_question(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "AFTER_S", 0.0)
    monkeypatch.setattr(waiting, "EVERY_S", 0.001)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    with waiting.sign_of_life():
        shown = ""
        while "Working" not in shown:
            shown += capsys.readouterr().err
        waiting.end_waiting()
        shown += capsys.readouterr().err

    assert shown.endswith(waiting.ERASED)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", ["list", "search", "stats", "review", "timeline"])
def test_square_brackets_are_text_and_no_markup(store: dict[str, str], command: str) -> None:
    typed(store, "add", "[/red] [bold]is a text.", "--kind", "fact")

    shown = typed(store, command, *(["is a text"] if command == "search" else [])).stdout

    assert "[/red] [bold]is a text." in shown


def test_an_error_that_quotes_square_brackets_is_told(store: dict[str, str]) -> None:
    assert "[/red]" in typed(store, "call", "search_memories", "[/red]=x", expect=2).stderr


# -- when something is wrong -------------------------------------------------------------------------------------------


@POSIX
def test_who_saves_what_somebody_else_has_changed_meanwhile_is_told_and_loses_no_word(
    store: dict[str, str], tmp_path: Path
) -> None:
    id_ = answered(store, "add", "The office is in Lyon.")["memory_id"]
    program = tmp_path / "editor"
    program.write_text(
        f"#!/bin/sh\n{sys.executable} -m pgengram edit {id_} importance=0.9 >/dev/null && sed -i.old s/Lyon/Rome/ $1\n"
    )
    program.chmod(0o700)

    settings = {f"PGENGRAM_{name.upper()}": value for name, value in store.items()}
    ended = typed(store, "edit", id_, expect=1, EDITOR=str(program), **settings)

    [memory] = answered(store, "show", id_)["memories"]
    assert "CONFLICT" in ended.stderr
    assert "The office is in Rome." in ended.stderr
    assert (memory["content"], memory["importance"]) == ("The office is in Lyon.", 0.9)


@POSIX
@pytest.mark.parametrize("by", [signal.SIGINT, *nightly(signal.SIGTERM, KILLING)], ids=lambda by: by.name)
def test_an_import_that_is_broken_off_leaves_whole_memories_and_takes_the_rest_later(
    store: dict[str, str], database: Database, tmp_path: Path, by: signal.Signals
) -> None:
    file = lines_of(tmp_path / "notes.jsonl", MANY)
    words = [sys.executable, "-m", "pgengram", "import", str(file), "--json"]

    with subprocess.Popen(words, env=environment(**store), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + PATIENCE_S
        while database.as_login("SELECT count(*) FROM memories") == [(0,)]:
            assert time.monotonic() < deadline, "nothing was imported in time"
            time.sleep(0.05)
        process.send_signal(by)
        _, answer = process.communicate(timeout=PATIENCE_S)
    stored = database.as_login(
        "SELECT count(*), count(a.memory_id) FROM memories m LEFT JOIN memory_activation a ON a.memory_id = m.id"
    )[0]
    again = answered(store, "import", str(file))

    assert 0 < stored[0] == stored[1] < MANY
    if by is signal.SIGINT:
        assert process.returncode == ENDED_BY_CTRL_C
        assert b"run the same command again to import the rest" in answer
        assert b"Traceback" not in answer
    assert again["added"]["memory"] + again["known"]["memory"] == MANY
    assert database.as_login("SELECT count(*) FROM memories") == [(MANY,)]


@POSIX
def test_an_export_that_cannot_end_leaves_no_half_of_a_file(
    store: dict[str, str], database: Database, tmp_path: Path
) -> None:
    typed(store, "import", str(lines_of(tmp_path / "notes.jsonl", 50)))
    old = tmp_path / "out.jsonl"
    old.write_text("as it was\n")

    typed(
        {**store, "database_url": "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2"},
        "export",
        str(old),
        expect=1,
    )
    refused = typed(store, "export", str(tmp_path / "no-such-folder" / "out.jsonl"), expect=2)

    assert old.read_text() == "as it was\n"
    assert "a folder that exists" in refused.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"notes.jsonl", "out.jsonl"}


@pytest.mark.parametrize(
    "words", [("serve", "--http", "--no-auth"), ("ui", "--no-browser")], ids=lambda words: words[0]
)
def test_a_port_that_is_in_use_is_named_with_what_to_do(store: dict[str, str], words: tuple[str, ...]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])

        ended = typed(store, *words, "--port", port, expect=2)

    assert port in ended.stderr
    assert "--port" in ended.stderr
