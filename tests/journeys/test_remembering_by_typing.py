"""Remembering, finding and forgetting by typing, on one store that a story fills."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from helpers import PATIENCE_S, Database, database_of, owned_tables
from machine import COMMAND, by_its_command
from pgengram.cli.app import app
from pgengram.text.shown import ago

WORDS = {"embedder": "none:"}


@pytest.fixture(scope="module")
def shared(postgres: str, template: str) -> Iterator[Database]:
    with database_of(postgres, template) as made:
        yield made


@pytest.fixture
def store(shared: Database) -> dict[str, str]:
    shared.empty(owned_tables())
    return {"database_url": shared.url, **WORDS}


def typed(store: dict[str, str], *words: str, expect: int = 0, given: str = "", **more: str) -> Result:
    settings = {f"PGENGRAM_{name.upper()}": value for name, value in store.items()}
    result = CliRunner().invoke(app, [*words], env=settings | {"COLUMNS": "200"} | more, input=given)
    assert result.exit_code == expect, (result.output, result.exception)
    return result


def answered(store: dict[str, str], *words: str) -> Any:
    return json.loads(typed(store, *words, "--json").stdout)


def added(store: dict[str, str], content: str, *more: str) -> str:
    return str(answered(store, "add", content, *more)["memory_id"])


def test_a_memory_is_added_found_listed_and_shown(store: dict[str, str], shared: Database) -> None:
    id_ = added(
        store, "Mara prefers green tea.", "--kind", "preference", "--tag", "drinks", "--project", "ark",
        "--importance", "0", "--occurred-at", "2026-03-01", "--pin",
    )  # fmt: skip

    found = typed(store, "search", "green tea").stdout
    listed = answered(store, "list", "--tag", "drinks", "--project", "ark")
    shown = typed(store, "show", id_[-8:], "--history").stdout

    assert id_[-8:] in found
    assert "Mara prefers green tea." in found
    assert "\x1b" not in found
    assert [hit["id"] for hit in listed["results"]] == [id_]
    assert listed["results"][0]["importance"] == 0
    assert shown.index("Mara prefers green tea.") < shown.index("importance") < shown.index(id_)
    assert all(word in shown for word in ("preference", "#drinks", "1 Mar 2026", "create · just now"))
    assert shared.value("SELECT pinned AND occurred_at < '2026-03-02' FROM memories") is True


def test_a_text_comes_from_standard_input_and_may_be_long(store: dict[str, str]) -> None:
    made = typed(store, "add", "-", "--json", given="One line.\nAnother line.\n")

    shown = answered(store, "show", json.loads(made.stdout)["memory_id"])
    assert shown["memories"][0]["content"] == "One line.\nAnother line."


def test_a_memory_that_holds_instead_of_others_retires_them_and_says_how_to_undo_that(store: dict[str, str]) -> None:
    old = added(store, "The office is in Lyon.")
    said = typed(store, "add", "The office is in Nantes.", "--replaces", old[-8:]).stdout
    refused = typed(store, "add", "The office is in Brest.", "--replaces", "00000000", expect=1)

    assert f"Forgotten, as this holds instead: {old[-8:]}" in said
    assert f"Undo: pgengram restore {old[-8:]}" in said.splitlines()
    assert [hit["content"] for hit in answered(store, "list")["results"]] == ["The office is in Nantes."]
    assert "00000000" in refused.stderr


def test_a_memory_is_forgotten_and_restored(store: dict[str, str]) -> None:
    id_ = added(store, "The office is in Lyon.")

    forgotten = typed(store, "forget", id_[-8:], "--reason", "moved").stdout
    assert forgotten.splitlines() == ["1 memory forgotten.", f"Undo: pgengram restore {id_[-8:]}"]
    assert "Nothing" in typed(store, "list").stdout
    assert "Lyon" in typed(store, "list", "--forgotten").stdout
    assert "1 memory restored" in typed(store, "restore", id_[-8:]).stdout
    assert "Lyon" in typed(store, "list").stdout
    assert "No memory" in typed(store, "restore", "0123456789abcdef", expect=1).stderr


def test_a_person_is_told_what_to_type_and_never_to_call_a_tool(store: dict[str, str]) -> None:
    older = added(store, "The standup is at 9 on Mondays.", "--project", "ark")

    said = typed(store, "add", "The standup is at 10 on Mondays.", "--project", "ark").stdout
    again = typed(store, "add", "The standup is at 10 on Mondays.", "--project", "ark", "--kind", "decision").stdout

    newer = answered(store, "list", "--limit", "1")["results"][0]["id"]
    assert f"This may replace: {older[-8:]} The standup is at 9 on Mondays." in said
    [command] = [line.removeprefix("If so: pgengram ") for line in said.splitlines() if line.startswith("If so: ")]
    assert f"To change it: pgengram edit {newer[-8:]}" in again
    assert not any(word in said + again for word in ("forget_memories", "update_memory", "may_replace", "_by_ids"))
    typed(store, *command.split())
    assert [hit["id"] for hit in answered(store, "list")["results"]] == [newer]


def test_what_hardly_fits_is_folded_away_and_said_to_be_no_answer(store: dict[str, str]) -> None:
    for number in range(5):
        added(store, f"Note {number} on the garden fence.")

    nothing = typed(store, "search", "zebra crossing on the moon").stdout
    everything = typed(store, "search", "zebra crossing on the moon", "--all").stdout

    assert "Nothing f" in nothing
    assert nothing.count("garden fence") <= 3 <= everything.count("garden fence") + 3
    assert ("--all" in nothing) == (everything.count("garden fence") > nothing.count("garden fence"))


def test_a_part_of_a_word_finds_what_contains_it_and_a_question_of_other_things_is_not_answered(
    store: dict[str, str],
) -> None:
    for text in ("Die Betriebshaftpflichtversicherung kostet 512 Euro.", "The office is in Hamburg.", "A lamp."):
        added(store, text)

    for part, text in (("Versicherung", "Betriebshaft"), ("hamb", "Hamburg")):
        found = typed(store, "search", part).stdout
        assert text in found.partition("hardly")[0]
        assert "Nothing fits" not in found


def test_a_search_for_nothing_lists_the_newest_and_explains_no_argument(store: dict[str, str]) -> None:
    added(store, "A lamp.")

    found = typed(store, "search", "")

    assert found.stdout.startswith("Nothing was asked. The newest:")
    assert "A lamp." in found.stdout
    assert "score" not in found.stdout
    assert "blank" not in found.stderr


def test_a_search_says_as_much_of_its_evidence_as_the_tools_do(store: dict[str, str]) -> None:
    for text in (
        "Mara moved billing to Stripe on 3 March 2026, because only Stripe handles SEPA direct debit.",
        "Jonas is allergic to peanuts and carries an adrenaline pen.",
        "The staging server is restarted every Sunday at four in the morning.",
    ):
        added(store, text)
    heads = {"strong": "id ", "weak": "Perhaps:", "none": "Nothing fits for certain."}
    met = set()

    asked = (
        "when is the staging server restarted",
        "what handles the debit of Jonas",
        "which restarted engine carries zebras over frozen lakes",
    )
    for question in asked:
        evidence = answered(store, "search", question)["evidence"]
        met.add(evidence)
        said = typed(store, "search", question).stdout
        assert said.startswith(heads[evidence]), question

    assert met == {*heads}


def test_what_holds_now_is_written_as_a_text_for_another_assistant(store: dict[str, str], tmp_path: Path) -> None:
    added(store, "Answer in English.\nBe brief.", "--kind", "preference", "--occurred-at", "2026-03-01")
    added(store, "The release is on Friday.", "--project", "ark", "--kind", "decision")
    gone = added(store, "The release is on Monday.", "--project", "ark", "--kind", "decision")
    typed(store, "forget", gone[-8:])

    for assistant in ("claude", "chatgpt", "gemini"):
        said = typed(store, "export", "--for", assistant, str(tmp_path / assistant)).stderr
        text = (tmp_path / assistant).read_text(encoding="utf-8")
        assert "2 memories that hold now." in said
        assert "[2026-03-01] - Answer in English.\n  Be brief.\n" in text
        assert "] - ark: The release is on Friday." in text
        assert "Monday" not in text
    assert "Use one of claude, chatgpt, gemini" in typed(store, "export", "--for", "alexa", "x", expect=2).stderr


def test_erasing_asks_first_and_gives_a_receipt(store: dict[str, str], shared: Database) -> None:
    other, id_ = added(store, "The office is in Bonn."), added(store, "The office is in Lyon.")

    said = typed(store, "forget", other[-8:], "--hard", "--yes").stdout
    assert re.search(rf"Receipt: {other}, \S+Z, with its .*words \d", said)

    assert "--yes" in typed(store, "forget", id_, "--hard", expect=2).stderr
    assert shared.value("SELECT count(*) FROM memories") == 1
    assert answered(store, "forget", id_, "--hard", "--yes")["erased"] == 1
    assert shared.value("SELECT count(*) FROM memories") == 0


@pytest.mark.skipif(sys.platform == "win32", reason="the editor of this test is a shell command")
def test_a_memory_is_changed_in_the_editor(store: dict[str, str]) -> None:
    id_ = added(store, "The office is in Lyon.", "--tag", "office")
    change = "sed -i.old -e s/Lyon/Nice/ -e 's/^importance:.*/importance: 0/' -e 's/^tags:.*/tags:/'"

    typed(store, "edit", id_[-8:], EDITOR=change)
    same = typed(store, "edit", id_[-8:], EDITOR="true")
    bad = typed(
        store, "edit", id_[-8:], EDITOR="sed -i.old -e s/Nice/Rome/ -e 's/^importance:.*/importance: -7/'", expect=2
    )
    none = typed(store, "edit", id_[-8:], EDITOR="no-such-editor", expect=2)

    memory: dict[str, Any] = answered(store, "show", id_)["memories"][0]
    assert "Nothing was changed." in same.stdout
    assert (memory["content"], memory["importance"], memory.get("tags")) == ("The office is in Nice.", 0, None)
    assert "The office is in Rome." in bad.stderr  # what was typed is not lost
    assert "no-such-editor" in none.stderr


def test_named_fields_are_changed_at_once(store: dict[str, str]) -> None:
    id_ = added(store, "The office is in Lyon.")

    assert answered(store, "edit", id_, "importance=0.9", "tags=a-team,paris")["version"] == 2
    assert answered(store, "show", id_)["memories"][0]["tags"] == ["a-team", "paris"]


def test_a_change_is_shown_word_by_word_and_undone_by_the_command_it_names(store: dict[str, str]) -> None:
    id_ = added(store, "The office is in Lyon.", "--tag", "office")

    changed = typed(store, "edit", id_, "content=The office is in Nice.", "importance=0.9", "tags=").stdout
    history = typed(store, "show", id_, "--history").stdout
    [undo] = [line.removeprefix("Undo: pgengram ") for line in changed.splitlines() if line.startswith("Undo")]
    typed(store, *undo.split())

    memory = answered(store, "show", id_)["memories"][0]
    assert "content: The office is in [-Lyon-]{+Nice+}." in history
    assert "importance: 0.5 → 0.9" in history
    assert (memory["content"], memory["importance"], memory["tags"]) == ("The office is in Lyon.", 0.5, ["office"])
    assert "not an edit" in typed(store, "edit", added(store, "New."), "--undo", expect=1).stderr


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(5, "just now"), (60, "1 minute ago"), (7_300, "2 hours ago"), (86_400 * 3, "3 days ago"), (86_400 * 15, "2 weeks ago"),
     (86_400 * 90, "3 Mar 2026"), (-7_300, "in 2 hours"), (86_400, "yesterday"), (-86_400, "tomorrow"), (43_200, "today")],
)  # fmt: skip
def test_days_are_told_as_people_say_them(seconds: int, said: str) -> None:
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)

    assert ago(now - timedelta(seconds=seconds), now) == said


@pytest.mark.parametrize("since", ["7d", "24h", "yesterday", "last week", "3 days ago", "2 weeks ago"])
def test_moments_are_understood_as_people_say_them(store: dict[str, str], since: str) -> None:
    id_ = added(store, "The office is in Lyon.")
    added(store, "The office was in Nice.", "--occurred-at", "2020-03-01")

    assert [hit["id"] for hit in answered(store, "list", "--since", since)["results"]] == [id_]


def test_links_are_drawn_as_a_tree_and_days_as_a_timeline(store: dict[str, str]) -> None:
    cause = added(store, "The bridge closed.", "--occurred-at", "2026-03-01")
    effect = added(store, "The bus is late.", "--occurred-at", "2026-03-02", "--related-to", cause)

    tree = typed(store, "graph", cause[-8:]).stdout
    days = typed(store, "timeline", "--days", "20000").stdout

    assert tree.index(cause[-8:]) < tree.index(effect[-8:])
    assert "related_to" in tree
    assert days.index("2026-03-02") < days.index("The bus is late.") < days.index("2026-03-01")
    assert {node["id"] for node in answered(store, "graph", cause)["nodes"]} == {cause, effect}


def test_what_is_recalled_is_one_text_between_marks(store: dict[str, str]) -> None:
    added(store, "The office is in Lyon.")

    assert "The office is in Lyon." in typed(store, "recall", "where is the office").stdout
    assert "\n<memories-" in typed(store, "recall").stdout
    assert answered(store, "recall", "nothing of that sort")["evidence"] == "none"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", " "], "white space"),
        (["add", "x", "--type", "colour"], "type"),
        (["search", "x", "--since", "soon"], "2026-01-31"),
        (["list", "--sort", "beauty"], "sort"),
        (["list", "--forgotten", "--archived"], "combined"),
        (["show", "xyz"], "last 8 digits"),
        (["graph", "0123456789abcdef", "--direction", "up"], "direction"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_with_a_hint(store: dict[str, str], words: list[str], said: str) -> None:
    ended = typed(store, *words, expect=2)

    assert said in ended.stderr
    assert ended.stdout == ""


@by_its_command
def test_a_shell_completes_commands_and_words() -> None:
    surroundings = {**os.environ, "_PGENGRAM_COMPLETE": "complete_bash"}

    def completed(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
        return subprocess.run(
            [str(COMMAND)], env=surroundings | words, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        ).stdout.split()

    assert completed("pgengram reca") == ["recall"]
    assert completed("pgengram connect c") == ["claude-desktop", "claude-code", "cursor", "codex", "cline", "continue"]
    assert completed("pgengram add x --kind pre") == ["preference"]
