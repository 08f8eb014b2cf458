"""`pgengram stats`, `review`, `tidy` and `tags`: the tools of the group `maintenance`, for people and for programs."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Annotated, Any, Final, cast

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pgengram import fields as f
from pgengram.cli.asking import ReadsFirst
from pgengram.cli.options import AsJson, OfProject, Yes
from pgengram.cli.output import ago, is_count, plain, plain_table, rows_table
from pgengram.cli.runtime import (
    FAILED,
    call_tool,
    command,
    completing,
    confirmed,
    known,
    name_value,
    opened_manager,
    print_json,
    say,
    screen,
)
from pgengram.ids import short
from pgengram.runtime.context import ASKER
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.maintenance import Maintenance, Reviewed
from pgengram.service.toolsets.reviewing import FINDINGS
from pgengram.service.toolsets.tidy_request import Action, Tidied
from pgengram.text.counting import counted
from pgengram.text.fencing import one_line
from pgengram.views import cut

ACTIONS: Final = ("apply", "archive", "prune", "merge")
FACTS: Final = ("totals", "vectors", "conversations", "database")  # not parts of one whole
WIDEST: Final = 24  # characters of the longest bar
MOST_SHOWN: Final = f.MAX_GET  # changes of a plan
EXCERPT: Final = 200  # characters of a memory that would be changed
TOLD: Final = frozenset({"content", "tags", "kind", "importance", "project", "user", "reason"})  # of a change


@command
async def stats(
    project: OfProject = None,
    tags: Annotated[int, typer.Option(help="How many tags to show, most used first.", min=0, max=500)] = 20,
    as_json: AsJson = False,
) -> None:
    """Counts by type, kind, project, tag, age, length and importance.

    Examples: `pgengram stats`, `pgengram stats --project ark --tags 50 --json`
    """
    async with opened_manager() as manager:
        found = (await Maintenance(manager).memory_stats(project=project, tags=tags)).model_dump(
            mode="json", exclude={"ok"}
        )
    if as_json:
        print_json(found)
        return
    for title, rows in found.items():
        if rows:
            screen.print(_table(title, rows))


@command
async def review(
    find: Annotated[
        list[str] | None, typer.Option(help="duplicates, contradictions, expired, stale, … Repeatable; all by default.")
    ] = None,
    project: OfProject = None,
    as_json: AsJson = False,
) -> None:
    """Says what to do about each finding, and changes nothing.

    Examples: `pgengram review`, `pgengram review --find duplicates --find stale`
    """
    async with opened_manager() as manager:
        reviewed = await _reviewed(manager, find or [], project)
    if as_json:
        print_json(reviewed, exclude={"confirm_token"})
        return
    for name, number in reviewed.found.items():
        if findings := [finding for finding in reviewed.findings if finding["finding"] == name]:
            _print_findings(f"{name.replace('_', ' ')}: {number}", findings)
    seen, plan = reviewed.looked_at, reviewed.plan
    compared = f", compared {seen['compared']:,}" if seen else ""
    looked = f"Looked at {seen['memories']:,} memories{compared}." if seen else "Looked at each memory on its own."
    safe = f"{len(plan)} actions are safe: `pgengram tidy apply`." if plan else "No action is safe without review."
    say(f"{looked} {safe}")


@command
async def tidy(
    action: Annotated[
        str,
        typer.Argument(
            help="apply (what a review proposes), archive, prune or merge.", autocompletion=completing(ACTIONS)
        ),
    ],
    project: OfProject = None,
    older_than_days: Annotated[
        int | None, typer.Option(help="For archive and prune: stored more than this many days ago.", min=0, max=36_500)
    ] = None,
    below_importance: Annotated[
        float | None, typer.Option(help="For archive and prune: less important than this.", min=0, max=1)
    ] = None,
    max_accesses: Annotated[
        int | None, typer.Option(help="For archive and prune: read at most this often.", min=0)
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Shows what would change, asks, and does all of it or nothing.

    Example: `pgengram tidy archive --older-than-days 500`
    """
    chosen = cast("Action", known(action, ACTIONS, "action"))
    bounds = {"older_than_days": older_than_days, "below_importance": below_importance, "max_accesses": max_accesses}
    ASKER.set(ReadsFirst())
    async with opened_manager() as manager:
        findings = Maintenance(manager)
        tidied = await _preview(findings, chosen, project, bounds)
        if token := tidied.confirm_token:
            if not as_json:
                await _print_changes(manager, tidied)
                if not confirmed(f"{_operations(tidied)}?", yes=yes):
                    return FAILED
            if yes or not as_json:
                tidied = await findings.tidy_memories(chosen, confirm_token=token)
    if as_json:
        print_json(tidied, exclude={"confirm_token"})
    else:
        say(f"Done: {_operations(tidied).lower()}." if tidied.done else "Nothing to do.")
        if tidied.done and any(change["operation"] != "erase" for change in tidied.changes):
            say("Undo: `pgengram restore` with the id of a memory.")
    return 0


@command
async def tags(
    synonym: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ALIAS=TAG", help="Use TAG wherever ALIAS is given; ALIAS= removes the synonym. Repeatable."
        ),
    ] = None,
    broader: Annotated[
        bool | None,
        typer.Option("--broader/--no-broader", help="Add the broader tags that come with pgengram, or remove them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Example: `pgengram tags --synonym k8s=kubernetes --synonym prefs=`"""
    from pgengram.store.maintenance import findings
    from pgengram.store.reading import synonyms
    from pgengram.text.tags import BROADER

    wanted: dict[str, str | None] = {} if broader is None else dict(BROADER) if broader else dict.fromkeys(BROADER)
    wanted |= {alias: tag or None for alias, tag in map(name_value, synonym or [])}
    async with opened_manager() as manager:
        await manager.ready()
        async with manager.store.transaction() as tx:
            meant = await synonyms.set_synonyms(tx, wanted) if wanted else await synonyms.synonyms(tx)
            used = await findings.tag_counts(tx, limit=1_000)
    if as_json:
        print_json({"tags": used, "synonyms": meant})
        return
    screen.print(rows_table("tags", used))
    screen.print(rows_table("synonyms", meant))


def _operations(tidied: Tidied) -> str:
    """Return how many memories what would be done to, such as "Archive 3 memories, merge 1 memory"."""
    operations = Counter(change["operation"] for change in tidied.changes)
    return ", ".join(f"{name} {counted(number)}" for name, number in operations.items()).capitalize()


async def _reviewed(manager: MemoryManager, find: list[str], project: str | None) -> Reviewed:
    wanted = {known(name, FINDINGS, "finding") for name in find}
    return await Maintenance(manager).review_memories(
        find=[name for name in FINDINGS if name in wanted] or None, project=project
    )


async def _preview(findings: Maintenance, action: Action, project: str | None, bounds: dict[str, Any]) -> Tidied:
    if action != "apply":
        return await findings.tidy_memories(action, project=project, **bounds)
    plan = (await findings.review_memories(project=project)).plan
    return (
        await findings.tidy_memories(action, plan) if plan else Tidied(done=False, changes=[], message="Nothing to do.")
    )


def _table(title: str, rows: Any) -> Table:
    """Return a list of like things as a table, counts with a bar each, or single facts by their names."""
    heading = title.replace("_", " ")
    if isinstance(rows, list):
        table = plain_table(heading)
        for name, value in rows[0].items():
            table.add_column(
                name.replace("_", " "), no_wrap=name == "id", justify="right" if is_count(value) else "left",
                ratio=1 if name == "excerpt" else None,
            )  # fmt: skip
        for row in rows:
            table.add_row(*(Text(_cell(name, value)) for name, value in row.items()))
        return table
    if title in FACTS:
        return rows_table(heading, {str(name).replace("_", " "): value for name, value in rows.items()})
    table = plain_table(heading, header=False)
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify)
    for name, count in rows.items():
        table.add_row(Text(str(name)), f"{count:,}", Text(_bar(count, max(rows.values())), style="cyan"))
    return table


def _bar(count: int, most: int) -> str:
    """Return a bar as long as its share of the longest; whatever is there is seen."""
    eighths = max(round(WIDEST * 8 * count / most), 1) if count else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _cell(name: str, value: Any) -> str:
    if name == "id":
        return short(str(value))
    if name.endswith("_at"):
        return ago(datetime.fromisoformat(value))
    return plain(value)


def _print_findings(title: str, findings: list[dict[str, Any]]) -> None:
    screen.print(Text(f"\n{title}", style="bold"))
    for finding in findings:
        screen.print(Text(f"  {finding['why']} Suggested: {finding['propose']['action']}", style="dim"))
        for id_, excerpt in zip(finding["ids"], finding["excerpts"], strict=False):
            screen.print(Padding(Text.assemble((short(id_), "cyan"), f"  {one_line(excerpt)}"), (0, 0, 0, 4)))


async def _print_changes(manager: MemoryManager, tidied: Tidied) -> None:
    """Print what a plan would do to which memories, each with its text."""
    shown = tidied.changes[:MOST_SHOWN]
    read = await call_tool(manager, "get_memories", {"ids": [change["id"] for change in shown], "touch": False})
    texts = {memory["id"]: memory["content"] for memory in read.memories}
    for change in shown:
        text = cut(one_line(texts.get(change["id"], "")), EXCERPT)
        screen.print(Text.assemble((f"{change['operation']} ", "bold"), (short(change["id"]), "cyan"), f"  {text}"))
        for name, (old, new) in change["changes"].items():
            if name in TOLD:
                screen.print(Padding(Text(f"{name}: {plain(old)} → {plain(new)}", style="dim"), (0, 0, 0, 4)))
    if len(tidied.changes) > MOST_SHOWN:
        say(f"… and {len(tidied.changes) - MOST_SHOWN:,} more; --json lists all.")
