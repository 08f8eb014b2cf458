"""docs/features.md is the list of capabilities, and a test shows each."""

from __future__ import annotations

import re

import pytest
import typer

from features import FEATURES, PAGE, page, shown
from pgengram.cli.app import app
from pgengram.mcp.binding import ToolBinding
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from reference import settings_table


@pytest.mark.parametrize("number", FEATURES)
def test_a_test_shows_each_capability(number: int) -> None:
    assert shown()[number], f"no test is marked with shows({number}): {FEATURES[number].words}"


def test_no_test_shows_what_is_no_capability() -> None:
    assert set(shown()) <= set(FEATURES)


def test_the_page_is_the_generated_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/features.py"


def test_every_tool_argument_command_and_setting_that_is_named_exists() -> None:
    offers = [ToolBinding(tool) for tool in MemoryManager(Settings(embedder="none:", toolsets="all")).tools]
    schemas = [binding.input_schema["properties"] for binding in offers]
    tools = {binding.tool.name for binding in offers}
    arguments = {name for schema in schemas for name in schema}
    choices = {choice for schema in schemas for choice in _choices(schema)}
    commands = {f"pgengram {name}" for name in typer.main.get_command(app).commands}  # type: ignore[attr-defined]
    known = (
        tools | arguments | choices | commands | set(re.findall(r"PGENGRAM_[A-Z_]+[A-Z]", settings_table())) | ANSWERED
    )

    for feature in FEATURES.values():
        named = {word for written in re.findall(r"`([^`]+)`", feature.use) for word in written.split(": ")}
        assert named <= known, f"{feature.words}: {', '.join(sorted(named - known))}"


ANSWERED = {
    "ok", "error", "code", "message", "hint", "INVALID_INPUT", "SECRET_REJECTED", "created", "degraded", "hidden", "relevance",
    "half_life_days", "why", "previously_corrected", "emotional_valence", "redact", "none:", "false",
    "share_memories", "space", "memory://categories", "memory://stats", "memory://context",
}  # fmt: skip


def _choices(schema: dict[str, dict[str, object]]) -> set[str]:
    """Return every word that an argument may be."""
    found: set[str] = set()
    for property_ in schema.values():
        inner = property_.get("items")
        for place in (property_, inner if isinstance(inner, dict) else {}):
            words = place.get("enum")
            found |= set(words) if isinstance(words, list) else set()
    return found
