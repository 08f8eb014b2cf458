"""What a person types, and what they get."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers import PATIENCE_S, Database
from machine import answered, closed_in_the_end, exit_code, has_terminals, is_over, pgengram, what_comes
from pgengram import __version__
from pgengram.cli.app import PANELS, app
from pgengram.cli.runtime import shell_line
from pgengram.runtime import process_setup
from reference import commands

WORDS = {"embedder": "none:"}


def test_the_version_is_told() -> None:
    assert pgengram("--version").stdout.strip() == f"pgengram {__version__}"


def test_the_help_names_every_command() -> None:
    outcome = pgengram("--help").stdout

    assert all(command in outcome for command in ("demo", "doctor", "migrate", "call", "stats"))


def test_a_memory_is_stored_found_and_read_by_typing(database: Database) -> None:
    url = {"database_url": database.url}

    made = answered(
        "call", "create_memory", "content=Mira's dog is called Mochi.", "importance=0", "tags=dogs,names", **url
    )
    found = answered("call", "search_memories", "query=what is the pet's name?", "limit=3", **url)
    read = answered("call", "get_memories", f'ids=["{made["memory_id"]}"]', **url)

    assert made["memory"]["importance"] == 0
    assert made["memory"]["tags"] == ["dogs", "names"]
    assert [hit["id"] for hit in found["results"]] == [made["memory_id"]]
    assert read["memories"][0]["content"] == "Mira's dog is called Mochi."
    assert read["memories"][0]["embedded"] is True


@pytest.mark.real_start
def test_lists_and_objects_are_typed_as_json(database: Database) -> None:
    items = json.dumps([{"content": "One."}, {"content": ""}])

    answer = answered("call", "create_memories", f"items={items}", database_url=database.url, **WORDS)

    assert [result["ok"] for result in answer["results"]] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["call", "create_memory", "content="], 2, "INVALID_INPUT"),
        (["call", "create_memory", "content=x", "tagz=red"], 2, "did you mean 'tags'"),
        (["call", "create_memory", "x"], 2, "name=value"),
        (["call", "no_such_tool"], 2, "create_memory"),
        (["call", "update_memory", "id=0123456789abcdef", "importance=1"], 1, "NOT_FOUND"),
        (["show", "nope"], 2, "'nope' is not an id. `pgengram list` shows ids"),
        (["no-such-command"], 2, "no-such-command"),
    ],
)
def test_what_cannot_be_done_has_an_exit_code_and_a_reason(
    database: Database, arguments: list[str], code: int, said: str
) -> None:
    ended = pgengram(*arguments, expect=code, database_url=database.url, **WORDS)

    assert said in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "--since", "nonsense"], "--since must be a date"),
        (["search", "tea", "--type", "nonsense"], "--type must be one of"),
        (["search", "tea", "--as-of", "nonsense"], "--as-of must be a date"),
        (["timeline", "--until", "nonsense"], "--until must be a date"),
        (["add", "tea", "--kind", "nonsense", "--occurred-at", "nonsense"], "--occurred-at must be a date"),
        (["add", " "], "CONTENT must contain more than white space"),
        (["add", "tea " * 5_000], "write it into a file and use `pgengram import`"),
        (["add", "tea", "--related-to", "nonsense"], "`pgengram search` finds"),
        (["edit", "0123456789abcdef", "content="], "To forget it, use `pgengram forget ID`"),
        (["edit", "0123456789abcdef", "importance=1"], "Use `pgengram search` to find the right id"),
        (["edit", "nonsense", "importance=1"], "`pgengram search` finds"),
        (["graph", "0123456789abcdef"], "Use `pgengram search` to find the right id"),
    ],
)
def test_an_error_speaks_of_commands_and_options_and_not_of_an_assistants_calls(
    database: Database, arguments: list[str], said: str
) -> None:
    missing = "0123456789abcdef" in arguments and "content=" not in arguments
    ended = pgengram(*arguments, expect=1 if missing else 2, database_url=database.url, **WORDS)

    assert said in ended.stderr
    assert not re.search(r"_memor|confirm_token|\bcall", ended.stderr)


def test_every_command_prints_json_for_programs() -> None:
    without = {
        " ".join(words[1:]) for words, one in commands() if not any("--json" in option.opts for option in one.params)
    }

    assert without == {"call", "hook", "psql"}  # what they print is JSON already, or what psql says


def test_asking_for_what_is_not_there_prints_the_answer_and_fails(database: Database) -> None:
    answer = answered("call", "get_memories", 'ids=["0123456789abcdef"]', expect=1, database_url=database.url, **WORDS)

    assert answer["ok"] is False
    assert answer["missing"][0]["error"]["code"] == "NOT_FOUND"


def test_statistics_count_what_is_there(database: Database) -> None:
    url = {"database_url": database.url, **WORDS}
    pgengram("call", "create_memory", "content=A fact.", "kind=fact", **url)
    pgengram("call", "create_memory", "content=An error.", "kind=error", **url)

    found = answered("stats", "--json", **url)

    assert found["totals"]["active"] == 2
    assert found["by_type"] == {"episodic": 1, "semantic": 1}
    assert found["by_kind"] == {"error": 1, "fact": 1}
    outcome = pgengram("stats", "--all", **url).stdout
    assert "episodic" in outcome
    assert re.search(r"^keep days +90$", outcome, re.MULTILINE)  # a setting, without a bar
    assert re.search(r"^kept +yes$", outcome, re.MULTILINE)
    assert "\x1b" not in outcome


def test_a_tool_that_does_not_exist_is_answered_with_the_names_of_the_tools(database: Database) -> None:
    outcome = pgengram("call", "create_memry", database_url=database.url, expect=2, **WORDS)

    assert "Did you mean create_memory?" in outcome.stderr
    assert "forget_memories" in outcome.stderr


@pytest.mark.parametrize("group", ["conversations", "projects", "model", "citus", "token"])
def test_the_help_of_a_group_cuts_no_sentence(group: str) -> None:
    outcome = pgengram(group, "--help", COLUMNS="80").stdout

    assert "..." not in outcome.partition("Commands:")[2]
    assert max(map(len, outcome.splitlines())) <= 80


def test_migrating_is_done_once_and_may_be_asked_again(blank: Database) -> None:
    for _ in range(2):
        assert "up to date" in pgengram("migrate", database_url=blank.url, **WORDS).stdout

    assert blank.as_login("SELECT count(*) FROM pgengram_version") == [(1,)]


def test_the_doctor_finds_everything_well(database: Database, tmp_path: Path) -> None:
    # a folder of its own, as other tests connect clients at the same time
    findings = answered("doctor", "--json", database_url=database.url, data_dir=str(tmp_path))

    assert all(finding["ok"] for finding in findings)
    assert {"Settings", "Database", "Row-level security", "Embedder", "Memory", "Index"} <= {
        finding["what"] for finding in findings
    }
    assert database.as_login("SELECT count(*) FROM memories") == [(0,)]
    assert database.as_login("SELECT name FROM namespaces WHERE name LIKE 'doctor%'") == []


def test_what_is_piped_is_utf8_whatever_the_code_page(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")

    assert "✓ Database" in pgengram("doctor", database_url=database.url, **WORDS).stdout


def test_the_doctor_names_the_missing_libraries_of_microsoft_and_what_installs_them(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_setup, "NEEDED", ("missing140.dll",))
    monkeypatch.setenv("PGENGRAM_DATABASE_URL", database.url)

    examined = CliRunner().invoke(app, ["doctor", "--json"])

    found = {one["what"]: one for one in json.loads(examined.stdout)}
    assert examined.exit_code == 1
    assert found["Visual C++ runtime"]["seen"] == "missing140.dll cannot be loaded"
    assert "winget install" in found["Visual C++ runtime"]["repair"]
    assert "missing140.dll" in found["Embedder"]["seen"]
    assert "winget install" in found["Embedder"]["repair"]


def test_the_doctor_says_what_is_wrong_and_how_to_repair_it(tmp_path: Path) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2"

    findings = answered("doctor", "--json", expect=1, database_url=nowhere, data_dir=str(tmp_path), **WORDS)

    [bad] = [finding for finding in findings if not finding["ok"]]
    assert bad["what"] == "Database"
    assert bad["repair"]


def test_a_database_that_cannot_be_reached_is_one_line_and_an_exit_code() -> None:
    nowhere = "postgresql://nobody:secret-word@127.0.0.1:1/nothing?connect_timeout=2"

    for command in (["stats"], ["migrate"], ["call", "search_memories", "query=x"]):
        ended = pgengram(*command, expect=1, database_url=nowhere, **WORDS)
        assert "DATABASE_ERROR" in ended.stderr
        assert "secret-word" not in ended.stderr + ended.stdout


@pytest.fixture(scope="module")
def shown() -> Any:
    """What a demo shows."""
    return answered("demo", "--json")


@pytest.mark.nightly
def test_the_demo_finds_nine_in_ten_among_the_first_three(shown: Any) -> None:
    assert shown["asked"] >= 10
    assert shown["in_first_three"] >= 0.9 * shown["asked"]
    assert len(shown["questions"]) == shown["asked"]
    assert all(question.keys() == {"question", "expected_id", "rank", "score"} for question in shown["questions"])


@pytest.mark.nightly
def test_without_an_embedder_the_demo_ranks_visibly_worse(shown: Any) -> None:
    worded = answered("demo", "--json", expect=1, **WORDS)

    assert [one["question"] for one in shown["questions"]] == [one["question"] for one in worded["questions"]]
    assert [one["rank"] for one in shown["questions"]] != [one["rank"] for one in worded["questions"]]
    assert worded["in_first_three"] < 0.9 * worded["asked"]


def test_a_demo_whose_database_cannot_start_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    ended = pgengram("demo", "--keep", str(tmp_path / "file" / "kept"), expect=1)

    assert "Error: create_memories: The data folder" in ended.stderr
    assert "Set PGENGRAM_DATA_DIR" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.nightly
def test_a_demo_asks_three_questions_and_ends_in_the_lines_to_type_next() -> None:
    shown = pgengram("demo").stdout

    assert shown.count("?\n") == 3
    assert "3 of 3 expected memories" in shown
    assert "score" not in shown
    assert "\n  pgengram demo --keep pgengram-demo\n" in shown
    assert len(shown.splitlines()) < 40


@pytest.mark.nightly
def test_a_demo_asks_three_questions_and_what_is_kept_can_be_looked_at_by_the_line_it_prints(tmp_path: Path) -> None:
    kept = tmp_path / "kept memories"
    with closed_in_the_end(kept):
        outcome = pgengram("demo", "--keep", str(kept)).stdout
        assert outcome.count("?\n") == 3
        assert "3 of 3 expected memories" in outcome
        [line] = re.findall(r"^  (.*) pgengram ui$", outcome, re.MULTILINE)
        if sys.platform == "win32":
            named = dict(re.findall(r"\$env:(\w+) = '(.*?)';", line))
        else:
            named = dict(word.split("=", 1) for word in shlex.split(line))
        settings = {name.removeprefix("PGENGRAM_").lower(): value for name, value in named.items()}
        found = answered("list", "--limit", "100", "--json", **settings)

        assert len(found["results"]) == 100
        assert settings["data_dir"] == str(kept)
        assert is_over(kept)


def test_a_line_to_paste_sets_its_variables_in_either_shell() -> None:
    variables = {"PGENGRAM_DATA_DIR": "/home/o'neil/my demo"}

    assert shlex.split(shell_line("pgengram ui", variables, windows=False)) == [
        "PGENGRAM_DATA_DIR=/home/o'neil/my demo", "pgengram", "ui",
    ]  # fmt: skip
    assert shell_line("pgengram ui", variables, windows=True) == (
        "$env:PGENGRAM_DATA_DIR = '/home/o''neil/my demo'; pgengram ui"
    )


@has_terminals
def test_typing_the_command_alone_explains_itself_instead_of_waiting() -> None:
    import os
    import pty
    import subprocess

    from helpers import environment

    terminal, theirs = pty.openpty()
    ended = subprocess.run(
        [sys.executable, "-m", "pgengram"], stdin=theirs, capture_output=True, text=True, env=environment(), timeout=PATIENCE_S, check=False
    )  # fmt: skip
    os.close(terminal)
    os.close(theirs)

    assert ended.returncode == 2
    assert "pgengram demo" in ended.stderr
    assert ended.stdout == ""


def test_the_help_has_one_line_for_each_command_and_imports_none_of_them() -> None:
    program = [sys.executable, "-X", "importtime", "-m", "pgengram", "--help"]
    ended = subprocess.run(program, capture_output=True, text=True, check=True)
    shown, imported = ended.stdout, {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}

    names = re.findall(r"^  ([a-z-]+)  ", shown.partition("Get started:")[2], re.MULTILINE)

    assert names == [name for panel in PANELS.values() for name in panel]
    assert not {"rich", "pydantic", "psycopg", "numpy", "mcp", "sqlalchemy", "asyncio"} & imported
    light = {"pgengram.cli.app", "pgengram.cli.quick", "pgengram.cli.waiting"}  # what tells a quick command, and waits
    assert {name for name in imported if name.startswith("pgengram.cli.")} <= light


@has_terminals
def test_ctrl_c_at_a_question_ends_the_command_at_once(tmp_path: Path) -> None:
    import os
    import pty
    import select

    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["HOME"] = str(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "pgengram", "connect", "cursor"])
    shown, coming, deadline = b"", what_comes(terminal), time.monotonic() + PATIENCE_S
    while b"[y/N]" not in shown:
        shown += next(coming)
    with suppress(OSError):  # on Linux the end of a terminal
        while time.monotonic() < deadline:
            os.write(terminal, b"\x03")  # again, as Python loses one that comes between the question and the reading
            while select.select([terminal], [], [], 2)[0] and (more := os.read(terminal, 4_096)):
                shown += more
    os.close(terminal)

    assert exit_code(pid) == 130
    assert b"Ended by Ctrl+C" in shown
    assert not (tmp_path / ".cursor").exists()


@pytest.mark.parametrize("command", [("add",), ("search",), ("token", "create"), ("reindex",)])
def test_help_names_arguments_and_values_and_no_types_of_python(command: tuple[str, ...]) -> None:
    outcome = pgengram(*command, "--help").stdout

    assert " TEXT  " in outcome
    assert not re.search(r"<[a-z]+", outcome)


def test_an_option_where_arguments_name_what_they_set_is_answered_with_how_to_write_it() -> None:
    assert (
        "Write min_importance=.9 instead."
        in pgengram("call", "search_memories", "--min-importance", ".9", expect=2).stderr
    )
    assert "Write importance=0.9 instead." in pgengram("edit", "e8d03e19", "--importance=0.9", expect=2).stderr
    assert "Possible options: --undo" in pgengram("edit", "e8d03e19", "--undoo", expect=2).stderr
