"""`pgengram stats`, `review` and `tidy`: what the tools of the group `maintenance` answer, for people and for programs."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pgengram.cli import agreed
from pgengram.cli.showing import SHOWN_ID
from pgengram.errors import InvalidInput
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.maintenance import Action, Maintenance, Reviewed, Tidied
from pgengram.service.toolsets.reviewing import FINDINGS
from pgengram.settings import Settings

screen = Console()
ACTIONS: Final = ("apply", "archive", "prune", "merge")
FACTS: Final = ("totals", "vectors", "database")  # of statistics: numbers of which none is a part of another's whole
WIDEST: Final = 24  # characters of the longest bar
SHOWN: Final = 20  # changes of a plan that are listed


async def show_statistics(settings: Settings, *, project: str | None, tags: int, as_json: bool) -> None:
    """Print what memory_stats answers."""
    manager = MemoryManager(settings)
    try:
        found = (await Maintenance(manager).memory_stats(project=project, tags=tags)).model_dump(
            mode="json", exclude={"ok"}
        )
    finally:
        await manager.close()
    if as_json:
        screen.print_json(json.dumps(found))
        return
    for title, rows in found.items():
        if rows:
            _print_table(title, rows)


async def show_review(settings: Settings, *, find: list[str], project: str | None, as_json: bool) -> None:
    """Print what review_memories answers."""
    manager = MemoryManager(settings)
    try:
        told = await _reviewed(manager, find, project)
    finally:
        await manager.close()
    if as_json:
        screen.print_json(told.model_dump_json(exclude_none=True, exclude={"confirm_token"}))
        return
    for name, number in told.found.items():
        findings = [finding for finding in told.findings if finding["finding"] == name]
        if findings:
            _print_findings(f"{name.replace('_', ' ')}: {number}", findings)
    seen = told.looked_at
    looked = (
        f"Looked at {seen['memories']:,} memories, compared {seen['compared']:,}."
        if seen
        else "Looked at each memory alone."
    )
    safe = (
        f"{len(told.plan)} actions are safe: `pgengram tidy apply`."
        if told.plan
        else "Nothing is safe to be done unseen."
    )
    screen.print(f"{looked} {safe}", highlight=False, markup=False)


async def tidy_up(
    settings: Settings, action: str, *, project: str | None, bounds: dict[str, Any], yes: bool, as_json: bool
) -> int:
    """Show what an action would do, ask, and do it; return the exit code, 1 when the answer was no."""
    if action not in ACTIONS:
        raise InvalidInput(f"There is no action {action!r}.", f"Known are {', '.join(ACTIONS)}.")
    manager = MemoryManager(settings)
    try:
        upkeep, chosen = Maintenance(manager), cast("Action", action)
        if action == "apply":
            plan = (await _reviewed(manager, [], project)).plan
            told = await upkeep.tidy_memories(chosen, plan) if plan else _nothing()
        else:
            told = await upkeep.tidy_memories(chosen, project=project, **bounds)
        if told.confirm_token and not as_json:
            _print_changes(told)
        if told.confirm_token and (yes or (not as_json and agreed("Do it?"))):
            told = await upkeep.tidy_memories(chosen, confirm_token=told.confirm_token)
    finally:
        await manager.close()
    if as_json:
        screen.print_json(told.model_dump_json(exclude_none=True, exclude={"confirm_token"}))
    else:
        screen.print(told.message if told.done or not told.confirm_token else "Nothing was changed.")
    return 0 if told.done or not told.confirm_token or as_json else 1


async def _reviewed(manager: MemoryManager, find: list[str], project: str | None) -> Reviewed:
    if unknown := set(find) - set(FINDINGS):
        raise InvalidInput(f"There is no finding {min(unknown)!r}.", f"Known are {', '.join(FINDINGS)}.")
    wanted = [name for name in FINDINGS if name in find] or None
    return await Maintenance(manager).review_memories(find=wanted, project=project)


def _nothing() -> Tidied:
    return Tidied(done=False, changes=[], message="There is nothing to do.")


def _print_table(title: str, rows: Any) -> None:
    """Print a list of like things as a table, counts with a bar each, and single facts by their names."""
    table = Table(title=title.replace("_", " "), title_justify="left", show_header=isinstance(rows, list))
    if isinstance(rows, list):
        for name in rows[0]:
            table.add_column(name.replace("_", " "), no_wrap=name == "id")
        for row in rows:
            table.add_row(*(Text(_cell(name, value)) for name, value in row.items()))
    elif title in FACTS:
        for name, value in rows.items():
            right = isinstance(value, int) and not isinstance(value, bool)
            table.add_row(str(name).replace("_", " "), Text(_text(value), justify="right" if right else "left"))
    else:
        table.add_column(justify="left")
        table.add_column(justify="right")
        most = max(rows.values())
        for name, count in rows.items():
            table.add_row(Text(str(name)), f"{count:,}", Text(_bar(count, most), style="cyan"))
    screen.print(table)


def _bar(count: int, most: int) -> str:
    """Return a bar as long as its share of the longest; whatever is there is seen."""
    eighths = max(round(WIDEST * 8 * count / most), 1) if count else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _cell(name: str, value: Any) -> str:
    if name == "id":
        return str(value)[-SHOWN_ID:]
    if name.endswith("_at"):
        return datetime.fromisoformat(value).astimezone().strftime("%Y-%m-%d %H:%M")
    return _text(value)


def _print_findings(title: str, findings: list[dict[str, Any]]) -> None:
    table = Table("memory", "says", "why", "propose", title=title, title_justify="left", show_lines=True)
    for finding in findings:
        ids = "\n".join(id_[-SHOWN_ID:] for id_ in finding["ids"])
        table.add_row(*map(Text, (ids, "\n".join(finding["excerpts"]), finding["why"], finding["propose"]["action"])))
    screen.print(table)


def _print_changes(told: Tidied) -> None:
    table = Table("memory", "operation", "changes", title=told.message, title_justify="left")
    for change in told.changes[:SHOWN]:
        texts = [f"{name}: {_text(old)} → {_text(new)}" for name, (old, new) in change["changes"].items()]
        table.add_row(change["id"][-SHOWN_ID:], change["operation"], Text("\n".join(texts)))
    screen.print(table)
    if len(told.changes) > SHOWN:
        screen.print(f"and {len(told.changes) - SHOWN} more")


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
