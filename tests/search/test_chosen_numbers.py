"""The numbers that decide order, label or sameness and that nothing fits: few, and each in the documentation."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pgengram

SOURCE = Path(pgengram.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "how-ranking-works.md"
MODULE = re.compile(r"^- `([a-z_.]+)`: (.*)$", re.MULTILINE)
NUMBER = re.compile(r"`([A-Z][A-Z0-9_]+)` ([\d.]+)")
MOST = 33
# A half that belongs to a formula, what keeps a quotient finite, and how long a vector is waited for.
NO_CHOICES = {("lookup.py", 0.5), ("features.py", 1e-9), ("retrieval.py", 0.05)}


def listed() -> dict[tuple[str, str], float]:
    modules = MODULE.findall(PAGE.read_text(encoding="utf-8"))
    return {(module, name): float(value) for module, numbers in modules for name, value in NUMBER.findall(numbers)}


def fractions() -> Iterator[tuple[str, str, float]]:
    """Yield the fractions in the search and in the comparison of texts: module, constant (or none) and value."""
    comparison = (SOURCE / "text" / "differences.py", SOURCE / "text" / "sameness.py")
    for file in (*sorted((SOURCE / "search").rglob("*.py")), *comparison):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for statement in ast.parse(file.read_text(encoding="utf-8")).body:
            named = isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Constant)
            name = ast.unparse(statement.target) if named and isinstance(statement, ast.AnnAssign) else ""
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value % 1:
                    yield module, name, node.value


def test_each_chosen_number_of_the_search_is_documented_with_the_value_that_it_has() -> None:
    page = listed()

    assert {key: getattr(importlib.import_module(f"pgengram.{key[0]}"), key[1]) for key in page} == page
    assert 20 < len(page) <= MOST


def test_no_other_fraction_decides() -> None:
    others = {(module, name or value) for module, name, value in fractions() if (module, name) not in listed()}

    assert {(module.rpartition(".")[2] + ".py", value) for module, value in others} <= {
        (file, "HELD_S" if file == "retrieval.py" else value) for file, value in NO_CHOICES
    }
