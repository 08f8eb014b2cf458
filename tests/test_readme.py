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

from pgengram.cli.app import app
from pgengram.service.manager import MemoryManager
from pgengram.settings import TOOLSETS, Settings, settings_table
from pgengram.store.schema.tables import metadata

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SCHEMA = (ROOT / "docs" / "reference" / "schema.md").read_text(encoding="utf-8")
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
SHAPED_BY_THE_MOMENT = {"id", "memory_id", "created_at"}
TOLERANCE = 0.02  # onnxruntime differs a little between processors
CALL_S = 120


@dataclass(frozen=True)
class Call:
    """A command that the README shows, and what it says the server answers."""

    command: str
    answer: dict[str, Any]


def marked(name: str) -> str:
    """Return what stands in the README between the markers `name`."""
    return README.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0].strip()


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
        for rest in re.findall(r"(?<![\w/.-])pgengram((?: +[a-z-]+(?=[\s`]|$))+)", piece):
            if rest.split()[0] != "--":  # then it is the name of a user or a service
                yield rest.split()


def table_column(heading: str) -> list[str]:
    """Return the first column of the table below a heading of the README, without its code marks."""
    section = README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def exchange() -> list[Call]:
    lines = marked("exchange").removeprefix("```console\n").removesuffix("```")
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
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Call, subprocess.CompletedProcess[str]]]:
    """What a real server answers to the calls in the README, made one after the other on an empty store."""
    surroundings = {**os.environ, "PGENGRAM_DATA_DIR": str(tmp_path_factory.mktemp("readme")), "PYTHONUTF8": "1"}
    made = []
    for call in exchange():
        program, *arguments = shlex.split(call.command)
        assert program == "pgengram"
        command = [sys.executable, "-m", "pgengram", *arguments]
        done = subprocess.run(
            command, env=surroundings, capture_output=True, encoding="utf-8", timeout=CALL_S, check=False
        )
        made.append((call, done))
    return made


def test_the_settings_table_is_the_generated_one() -> None:
    assert marked("settings") == settings_table()


@pytest.mark.parametrize("command", ["pip install . && pgengram demo", "pip install '.[dev]' && pytest"])
def test_the_two_commands_stand_on_lines_of_their_own(command: str) -> None:
    lines = [line for block in blocks(ROOT / "README.md", "sh") for line in block.splitlines()]

    assert command in lines


def test_the_tools_in_the_table_are_those_of_the_manager_in_their_order() -> None:
    manager = MemoryManager(Settings(embedder="none:"))

    assert table_column("Tools") == [tool.name for tool in manager.tools]


def test_the_table_of_more_tools_names_those_of_every_other_group() -> None:
    usual = Settings(embedder="none:").toolset_names
    section = README.partition("\n## More tools\n")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `(\w+)` \| `(\w+)` \|", section, re.MULTILINE) == [
        (group, tool.name)
        for group in TOOLSETS
        if group not in usual
        for tool in MemoryManager(Settings(embedder="none:", toolsets=group)).tools
    ]


def test_every_command_is_in_the_table_of_commands() -> None:
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]

    assert table_column("Command line") == ["pgengram", *(f"pgengram {name}" for name in known)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_named_exists(page: Path) -> None:
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    general = {"--help", "--version", "--install-completion"}

    for words in commands_named(page):
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


def test_every_option_in_the_table_of_commands_exists() -> None:
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    rows = re.findall(r"^\| `pgengram (\w+)` \| (.*) \|$", README, re.MULTILINE)

    assert rows
    for name, text in rows:
        assert set(re.findall(r"--[a-z-]+", text)) <= {option for p in known[name].params for option in p.opts}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_that_is_named_exists(page: Path) -> None:
    known = set(re.findall(r"PGENGRAM_[A-Z_]*[A-Z]", settings_table()))
    named = set(re.findall(r"PGENGRAM_[A-Z_]*[A-Z]", page.read_text(encoding="utf-8")))

    assert {name for name in named if not name.startswith("PGENGRAM_TEST_")} <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_json_block_can_be_copied(page: Path) -> None:
    for block in blocks(page, "json"):
        json.loads(block)


def test_the_readme_has_the_entry_of_a_client() -> None:
    entries = [json.loads(block) for block in blocks(ROOT / "README.md", "json")]

    assert entries[0] == {"mcpServers": {"memory": {"command": "/absolute/path/to/pgengram"}}}


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

    assert set(sections) == set(metadata.tables)
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
