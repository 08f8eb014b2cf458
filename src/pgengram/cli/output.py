"""Memories as a person reads them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pgengram import fields as f
from pgengram.cli.runtime import note, say, screen
from pgengram.errors import NotFound
from pgengram.text.fencing import one_line

APART: Final = ("id", "history", "history_in_all", "relations", "relations_in_all", "clusters", "embedded")
MORE: Final = {
    "relations": f"`pgengram graph` with the id and --depth 1 --limit {f.MAX_NODES} shows them.",
    "history": "`pgengram export` writes all of them.",
}
EMPTY: Final[tuple[Any, ...]] = (None, [], {})
SHOWN_ID: Final = 8  # hex digits, which every command takes for an id
UNITS: Final = (
    ("month", 30 * 86_400), ("week", 7 * 86_400), ("day", 86_400), ("hour", 3_600), ("minute", 60),
)  # fmt: skip


def as_line(value: object) -> str:
    """Return a value as it stands on one line."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def short(id_: str) -> str:
    """Return the end of an id, which every command takes for it."""
    return id_[-SHOWN_ID:]


def kind(hit: Mapping[str, Any]) -> str:
    """Return what sort of memory a hit is, as finely as it is known."""
    return str(hit.get("kind") or hit["type"])


def when(hit: Mapping[str, Any]) -> datetime:
    """Return when a hit happened, else when it was stored, in this machine's time."""
    return datetime.fromisoformat(hit.get("occurred_at") or hit["created_at"]).astimezone()


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Return how long ago a moment is, or how far ahead; from a month on its date."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    unit, length = next(((unit, length) for unit, length in UNITS if abs(seconds) >= length), ("", 0))
    if not unit:
        return "just now"
    if unit == "month":
        return f"{moment.day} {moment:%b %Y}"
    count = int(abs(seconds) // length)
    words = f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{words} ago" if seconds > 0 else f"in {words}"


def about(hit: Mapping[str, Any]) -> Text:
    """Return the dim line below a memory's text: its kind, when it happened, its tags."""
    tags = [f"#{tag}" for tag in hit.get("tags") or []]
    return Text(" · ".join([kind(hit), ago(when(hit)), *tags]), style="dim")


def print_hits(
    hits: list[dict[str, Any]], measures: Mapping[str, Callable[[dict[str, Any]], object]], *, mark: str = ""
) -> None:
    """Print a list of memories without lines around it, with a column for each measure; `mark` is the id to tick."""
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("id", no_wrap=True, width=SHOWN_ID)
    table.add_column("memory", ratio=1)
    for measure in measures:
        table.add_column(measure, justify="right", no_wrap=True)
    for hit in hits:
        tick = ("✓ ", "green") if hit["id"] == mark else ""
        says = Text.assemble(tick, one_line(hit["content"]), "\n", about(hit))
        values = (of(hit) for of in measures.values())
        shown = ("–" if value is None else f"{value:.2f}" for value in values)
        table.add_row(Text(short(hit["id"]), style="cyan"), says, *shown)
    screen.print(table)


def print_found(
    hits: list[dict[str, Any]], measures: Mapping[str, Callable[[dict[str, Any]], object]], note: str | None = None
) -> None:
    """Print memories, or that none was found, and why."""
    if hits:
        print_hits(hits, measures)
    else:
        say(f"Nothing found. {note or ''}".rstrip())


def print_memory(memory: dict[str, Any]) -> None:
    """Print one whole memory, with what was asked for around it."""
    table = Table(title=f"[cyan]{memory['id']}[/cyan]", title_justify="left", show_header=False)
    for name, value in memory.items():
        if name not in APART and value not in EMPTY:
            table.add_row(name.replace("_", " "), Text(_field(value)))
    screen.print(table)
    for name in ("relations", "clusters", "history"):
        for row in memory.get(name) or []:
            say(f"  {name}: {', '.join(f'{key}: {value}' for key, value in row.items())}")
        if in_all := memory.get(f"{name}_in_all", 0):
            say(f"  … and {in_all - len(memory[name]):,} more {name}: {MORE[name]}")


def _field(value: Any) -> str:
    if not isinstance(value, dict):
        return as_line(value)
    return json.dumps({key: one for key, one in value.items() if one not in EMPTY}, ensure_ascii=False)


def print_graph(nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> None:
    """Print each start with what was reached from it, every memory once, below the one before it on its path."""
    types: dict[frozenset[str], str] = {}
    for edge in edges:
        types.setdefault(frozenset((edge["from_id"], edge["to_id"])), edge["type"])
    trees: dict[str, Tree] = {}
    for node in sorted(nodes, key=lambda node: node["depth"]):
        label = Text.assemble((short(node["id"]), "cyan"), f" {node['excerpt']} ")
        above = node["path"][-2] if len(node["path"]) > 1 else ""
        if above in trees:
            link = types.get(frozenset((above, node["id"])), "linked")
            trees[node["id"]] = trees[above].add(label.append(f"({link}, {node['strength']:.2f})", style="dim"))
        else:
            trees[node["id"]] = Tree(label, guide_style="dim")
    for node in nodes:
        if len(node["path"]) <= 1:
            screen.print(trees[node["id"]])


def rows_table(title: str, rows: Mapping[str, Any], *headings: str) -> Table:
    """Return a table of names and values, counts to the right with commas, under the headings if there are any."""
    table = Table(title=title, title_justify="left", show_header=bool(headings))
    for heading in headings or ("", ""):
        table.add_column(heading)
    for name, value in rows.items():
        table.add_row(name, Text(plain(value), justify="right" if is_count(value) else "left"))
    return table


def is_count(value: object) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def plain(value: Any) -> str:
    """Return a value as it stands in a cell of a table."""
    if is_count(value):
        return f"{value:,}"
    return "–" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def print_errors(results: list[dict[str, Any]]) -> None:
    """Print to standard error what could not be done, and to which memory."""
    for one in results:
        if not one["ok"]:
            note(f"{one['id']}: {one['error']['message']}")
    if any(not one["ok"] and one["error"].get("code") == NotFound.code for one in results):
        note("`pgengram search` and `pgengram list` show the ids.")
