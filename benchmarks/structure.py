"""How the code is built: complexity, sizes, cycles, long lines, and names that say too little. Fails above a limit.

    python benchmarks/structure.py [--json PATH] [FOLDER]

The limits are in pyproject.toml, under `tool.pgengram.structure`. A module's length leaves out its constants (tables of data and SQL
text). A long line has more than 120 columns and is part neither of SQL text nor of a table of data (`# fmt: skip`). A cycle is a group
of modules that import each other, wherever in a file the import stands. A repeated function is a name that functions of several modules
have outside of classes, such as `_rows`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
SOURCE = PROJECT / "src"
LONGEST_MODULE = 400  # lines
LONGEST_LINE = 120  # columns
SHOWN, SHOWN_COLUMNS = 12, 100  # of what is within its limit
SQL = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER|JOIN|WHERE|EXISTS|CASE WHEN)\b")
# Identifiers for which there is a standard term; see docs/reference/glossary.md.
RETIRED = frozenset([
    "telling", "Telling", "Told", "_told", "told", "Door", "Turned", "Lifeline", "Wire", "Offer", "tend",
    "IndexKeeper", "WordKeeper", "BackupKeeper", "WorkingKeeper", "upkeep", "tidying", "Going", "_go", "past",
    "browsing", "catalogue", "erasing", "erasures", "greeting", "presence", "carrier", "entrance", "_taken",
    "_hang_up", "Speaker", "speaking_as", "Place", "question_mark", "worth_recalling", "within", "screening",
    "traits", "voice", "later", "guard", "look", "Look", "keeper", "wall", "folding",
])  # fmt: skip


class Module:
    """A parsed file."""

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        self.lines = self.text.splitlines()
        self.tree = ast.parse(self.text)
        parts = path.relative_to(root).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def code_lines(self) -> int:
        """Lines without module-level constants."""
        constants = [node for node in self.tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
        return len(self.lines) - sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in constants)

    @property
    def long_lines(self) -> list[int]:
        """The lines that are too long, and no part of SQL text or of a table that the formatter leaves as it is."""
        long = {number for number, line in enumerate(self.lines, 1) if len(line) > LONGEST_LINE}
        for node in self.tree.body:
            if self.lines[(node.end_lineno or node.lineno) - 1].endswith("# fmt: skip"):
                long -= _lines(node)
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Constant | ast.JoinedStr)
                and long & _lines(node)
                and SQL.search(self._source(node))
            ):
                long -= _lines(node)
        return sorted(long)

    def _source(self, node: ast.expr) -> str:
        return "\n".join(self.lines[number - 1] for number in sorted(_lines(node)))

    def imports(self, known: Mapping[str, Module]) -> Iterator[str]:
        """Yield the modules of the same tree that are imported while the program runs."""
        ignored = {
            id(inner)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for inner in ast.walk(node)
        }
        for node in ast.walk(self.tree):
            if id(node) in ignored:
                continue
            if isinstance(node, ast.Import):
                yield from (one.name for one in node.names if one.name in known)
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{one.name}" for one in node.names]
                yield from (name for name in inner if name in known)
                if node.module in known and not all(name in known for name in inner):
                    yield node.module


def _lines(node: ast.stmt | ast.expr) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def complexity(modules: list[Module]) -> tuple[int, int, int, str]:
    """Return how many blocks there are, how many are of grade C or worse, and the worst with its place."""
    from radon.complexity import cc_visit

    found = [(block.complexity, f"{m.name}.{block.name}") for m in modules for block in cc_visit(m.text)]
    worst, place = max(found)
    return len(found), sum(one > 10 for one, _ in found), worst, place


def cycles(modules: list[Module]) -> list[list[str]]:
    """Return the groups of modules that import each other (Tarjan 1972)."""
    known = {module.name: module for module in modules}
    edges = {name: sorted(set(module.imports(known)) - {name}) for name, module in known.items()}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in edges[name]:
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            place = stack.index(name)
            if len(stack) - place > 1:
                groups.append(sorted(stack[place:]))
            del stack[place:]

    for name in edges:
        if name not in index:
            visit(name)
    return groups


def identifiers(tree: ast.Module) -> Iterator[str]:
    """Yield every name that the code gives or uses, also inside of f-strings; words of sentences are none."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname", "rest"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                yield from word.split(".")


def retired(modules: list[Module]) -> dict[str, int]:
    """Return how often each retired name is an identifier, a module's name or a folder's."""
    found: dict[str, int] = {}
    for module in modules:
        for word in [*identifiers(module.tree), *module.name.split(".")]:
            if word in RETIRED:
                found[word] = found.get(word, 0) + 1
    return found


def repeated(modules: list[Module]) -> dict[str, int]:
    """Return the names of functions that stand in several modules, outside of classes, with how many."""
    named: Counter[str] = Counter()
    for module in modules:
        functions = (node for node in module.tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        named.update({node.name for node in functions})
    return {name: count for name, count in named.items() if count > 1}


def measured(root: Path) -> dict[str, tuple[float, str]]:
    """Return every figure by its name in pyproject.toml, with what stands behind it."""
    modules = [Module(root, path) for path in sorted(root.rglob("*.py"))]
    blocks, complex_blocks, worst, place = complexity(modules)
    folders = Counter(str(m.path.parent.relative_to(root)) for m in modules if m.path.stem != "__init__")
    [(largest, files)] = folders.most_common(1)
    groups = cycles(modules)
    long_modules = sorted(((m.code_lines, m.name) for m in modules if m.code_lines > LONGEST_MODULE), reverse=True)
    long_lines = [f"{m.name}:{number}" for m in modules for number in m.long_lines]
    return {
        "complex_blocks_percent": (round(100 * complex_blocks / blocks, 1), f"{complex_blocks} of {blocks}"),
        "worst_block": (worst, place),
        "long_modules": (len(long_modules), ", ".join(f"{name} {lines}" for lines, name in long_modules)),
        "files_in_a_folder": (files, largest),
        "import_cycles": (len(groups), "; ".join(f"{len(group)} from {group[0]}" for group in groups)),
        "long_lines": (len(long_lines), ", ".join(long_lines)),
        "retired_names": _counted(retired(modules)),
        "repeated_functions": _counted(repeated(modules), each_once=True),
        "modules": (len(modules), ""),
        "lines": (sum(len(module.lines) for module in modules), ""),
    }


def _counted(names: Mapping[str, int], *, each_once: bool = False) -> tuple[int, str]:
    commonest = ", ".join(f"{name} {count}" for name, count in Counter(names).most_common(SHOWN))
    return len(names) if each_once else sum(names.values()), commonest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=SOURCE, help="where the packages are")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    limits = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pgengram"]["structure"]
    found = measured(given.folder)
    too_much = [name for name, (figure, _) in found.items() if figure > limits[name]]
    for name, (figure, behind) in found.items():
        print(f"{name:24}{figure:>8}  ≤ {limits[name]:<8}{behind if name in too_much else behind[:SHOWN_COLUMNS]}")
    if given.json:
        given.json.write_text(json.dumps({name: figure for name, (figure, _) in found.items()}, indent=2) + "\n")
    if too_much:
        sys.exit(f"Over the limit in pyproject.toml: {', '.join(too_much)}.")


if __name__ == "__main__":
    main()
