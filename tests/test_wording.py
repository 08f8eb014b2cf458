"""What people read is in the words of the glossary: documents, help texts, descriptions, messages, docstrings, the web app."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "pgengram"
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
AVOID = re.compile(r"<!-- avoid -->.*<!-- /avoid -->", re.DOTALL)
[LISTED] = AVOID.findall(CONTRIBUTING.read_text(encoding="utf-8"))
PHRASES = [one for row in re.findall(r"^\| ([^|]+) \| [^|]+ \|$", LISTED, re.MULTILINE)[2:] for one in row.split(", ")]
# "There is no …" and "is no longer" are what anybody writes.
AVOIDED = re.compile(
    rf"(?<!there )(?<![\w-])(?:{'|'.join(map(re.escape, PHRASES))})(?! (?:longer|more|larger|for)\b)(?![\w-])",
    re.IGNORECASE,
)
MADE = {"features.md"}  # of the names of tests
PAGES = sorted(
    page
    for place in ("README.md", "CHANGELOG.md", "docs", "integrations", ".github")
    for page in ([ROOT / place] if place.endswith(".md") else (ROOT / place).rglob("*.md"))
    if page.name not in MADE
)
UNSAID = re.compile(r"\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER)\b")


def prose(text: str) -> str:
    """Return a Markdown page without its code and the words to avoid, line by line."""
    blank = re.sub(r"^```.*?^```$", lambda found: "\n" * found[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    blank = AVOID.sub(lambda found: "\n" * found[0].count("\n"), blank)
    return re.sub(r"`[^`\n]*`", "`…`", blank)


def texts(module: ast.Module) -> Iterator[ast.Constant]:
    """Yield the texts of a module that somebody may read, docstrings among them."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not UNSAID.search(node.value):
            yield node


def found(text: str) -> list[str]:
    small = text.lower()
    if not any(phrase in small for phrase in PHRASES):  # which is quicker than the pattern, and true of nearly all
        return []
    return [f"line {text.count(chr(10), 0, one.start()) + 1}: {one[0]}" for one in AVOIDED.finditer(text)]


def test_the_list_is_read() -> None:
    assert len(PHRASES) > 20
    assert found("It is no memory.") == ["line 1: is no"]
    assert found("There is no memory, and it is no longer valid.") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_the_words_of_the_glossary(page: Path) -> None:
    assert found(prose(page.read_text(encoding="utf-8"))) == []


def test_help_descriptions_messages_and_docstrings_are_in_the_words_of_the_glossary() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{text.lineno}: {text.value[:80]!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if found(text.value) and " " in text.value.strip()
    ]
    wrong += [
        f"{path.relative_to(ROOT)}: {one}"
        for path in sorted((SOURCE / "ui" / "templates").glob("*.html"))
        for one in found(path.read_text(encoding="utf-8"))
    ]

    assert wrong == []
