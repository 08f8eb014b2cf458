"""The reference is what the code says."""

from __future__ import annotations

import re

import pytest

from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from reference import FOLDER, PAGES, page

OF_SPACES = ("list_spaces", "share_memories")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_reference_is_the_generated_one(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == page(name), "run python tests/reference.py"


def test_every_tool_and_every_argument_is_in_the_reference() -> None:
    text = page("tools.md")
    tools = MemoryManager(Settings(embedder="none:", toolsets="all")).tools

    assert re.findall(r"^### `(\w+)`$", text, re.MULTILINE) == [
        *(tool.name for tool in tools),
        *OF_SPACES,
    ]
    assert "- `content` (" in text
