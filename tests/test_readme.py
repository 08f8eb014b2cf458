"""What the README and the documents promise is so."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from machine import copied, kept_running
from pgengram.cli.app import app
from pgengram.store.schema.tables import VIEWS, metadata
from reference import settings_table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCHEMA = (ROOT / "docs" / "reference" / "schema.md").read_text(encoding="utf-8")
EXCHANGE = (ROOT / "docs" / "explanation" / "what-an-assistant-sees.md").read_text(encoding="utf-8")
FIRST_SCREEN = 40  # lines
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
SHAPED_BY_THE_MOMENT = {"id", "memory_id", "created_at"}
TOLERANCE = 0.02  # onnxruntime differs a little between processors
CALL_S = 120
LARGEST_PICTURE = 500_000  # bytes


@dataclass(frozen=True)
class Call:
    """A command that a page shows, and what it says the server answers."""

    command: str
    answer: dict[str, Any]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def code(page: Path) -> Iterator[str]:
    """Yield each block and each span of code."""
    text = page.read_text(encoding="utf-8")
    yield from re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def commands_named(page: Path) -> Iterator[list[str]]:
    """Yield the words after `pgengram`, up to the first that is no command or option."""
    for piece in code(page):
        piece = re.sub(r"^Description=.*$", "", piece, flags=re.MULTILINE)  # of a service: words, no command
        piece = re.sub(r"--only [\w -]+", "", piece)  # of a benchmark: names of servers
        for rest in re.findall(r"(?<![\w/.-])pgengram((?: +[a-z-]+(?=[\s`]|$))+)", piece):
            if rest.split()[0] != "--":  # then it is the name of a user or a service
                yield rest.split()


def exchange() -> list[Call]:
    lines = EXCHANGE.partition("<!-- exchange -->\n```console\n")[2].partition("```")[0]
    found = []
    for piece in re.split(r"^\$ ", lines, flags=re.MULTILINE)[1:]:
        command, _, answer = piece.partition("\n")
        found.append(Call(command, json.loads(answer)))
    return found


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def shown_in(shown: Any, real: Any) -> None:
    """Assert that everything shown is in the real answer; what depends on the moment only has to be there."""
    if isinstance(shown, dict):
        for name, value in shown.items():
            assert name in real, f"the answer has no {name}"
            if name not in SHAPED_BY_THE_MOMENT:
                shown_in(value, real[name])
    elif isinstance(shown, list):
        assert len(shown) == len(real)
        for one, other in zip(shown, real, strict=True):
            shown_in(one, other)
    elif isinstance(shown, float):
        assert real == pytest.approx(shown, abs=TOLERANCE)
    else:
        assert real == shown


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory, prepared: Path
) -> list[tuple[Call, subprocess.CompletedProcess[str]]]:
    """What a real server answers to the calls that are shown, made one after the other on an empty store."""
    folder = tmp_path_factory.mktemp("readme")
    copied(prepared, folder)
    surroundings = {**os.environ, "PGENGRAM_DATA_DIR": str(folder)}
    if sys.platform == "win32":
        surroundings["PYTHONUTF8"] = "1"
    made = []
    with kept_running(folder):
        for call in exchange():
            program, *arguments = shlex.split(call.command)
            assert program == "pgengram"
            command = [sys.executable, "-m", "pgengram", *arguments]
            done = subprocess.run(
                command, env=surroundings, capture_output=True, encoding="utf-8", timeout=CALL_S, check=False
            )
            made.append((call, done))
    return made


@pytest.mark.parametrize(
    "command", ["uv tool install .", "pip install . && pgengram demo", "pip install '.[dev]' && pytest"]
)
def test_what_a_newcomer_types_stands_on_a_line_of_its_own(command: str) -> None:
    lines = [line for block in blocks(ROOT / "README.md", "sh") for line in block.splitlines()]

    assert command in lines


def test_the_first_screen_has_a_picture_the_line_that_installs_and_the_one_that_connects() -> None:
    screen = README.splitlines()[:FIRST_SCREEN]
    [picture] = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", "\n".join(screen))

    assert {"uv tool install .", "pgengram connect"} <= set(screen)
    assert 0 < (ROOT / picture).stat().st_size < LARGEST_PICTURE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_named_exists(page: Path) -> None:
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    general = {"--help", "--version", "--install-completion"}

    for words in commands_named(page):
        if words[0] == "--space":  # comes before any command
            words = words[2:]
        if not words:  # the command stands behind a name in capitals
            continue
        name = words[0]
        assert name in known or name in general, f"there is no `pgengram {name}`"
        options = options_of(known.get(name), words[1:])
        assert {word for word in words[1:] if word.startswith("-") and word != "-"} <= options | general


def options_of(command: Any, words: list[str]) -> set[str]:
    """Return the options of a command, or of the one in its group that the words name."""
    group = getattr(command, "commands", {})
    if words and words[0] in group:
        return options_of(group[words[0]], words[1:])
    return {option for parameter in getattr(command, "params", []) for option in parameter.opts}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_that_is_named_exists(page: Path) -> None:
    known = set(re.findall(r"PGENGRAM_[A-Z_]*[A-Z]", settings_table()))
    named = set(re.findall(r"PGENGRAM_[A-Z_]*[A-Z]", page.read_text(encoding="utf-8")))

    assert {name for name in named if not name.startswith("PGENGRAM_TEST_")} <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_json_block_can_be_copied(page: Path) -> None:
    for block in blocks(page, "json"):
        json.loads(block)


def slug(heading: str) -> str:
    """Return the anchor that a heading has on the project's page."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{target} leads nowhere"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", place.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in map(slug, headings), f"{target} names no heading"


def test_the_schema_reference_names_every_table_and_column() -> None:
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", SCHEMA, re.MULTILINE | re.DOTALL))
    keys = {"namespace_id", "memory_id"}  # of every table that belongs to a memory; said once

    assert set(sections) == {*metadata.tables, *VIEWS}
    for name, table in metadata.tables.items():
        columns = {column.name for column in table.columns}
        assert columns - keys <= set(re.findall(r"`(\w+)`", sections[name]))


def test_the_exchange_asks_in_words_that_the_memory_does_not_contain() -> None:
    search = exchange()[-1]
    [question] = re.findall(r'query="([^"]+)"', search.command)

    assert not words(question) & words(search.answer["results"][0]["content"])


def test_the_exchange_is_what_a_server_answers(
    answers: list[tuple[Call, subprocess.CompletedProcess[str]]],
) -> None:
    assert len(answers) == 3
    for call, done in answers:
        assert done.returncode == 0, done.stderr
        shown_in(call.answer, json.loads(done.stdout))
