"""`pgengram review`, `tidy` and `tags`: what keeps a store in order, for people and for programs."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Final, cast

import typer
from rich.padding import Padding
from rich.text import Text

from pgengram import fields as f
from pgengram.cli.options import AsJson, OfProject, ReadsFirst, Yes
from pgengram.cli.output import in_cell, in_lines, rows_table
from pgengram.cli.runtime import (
    FAILED,
    call_tool,
    command,
    completing,
    confirm,
    known_word,
    name_value,
    opened_manager,
    print_json,
    say,
    screen,
)
from pgengram.cli.waiting import sign_of_life
from pgengram.ids import short
from pgengram.runtime.context import ASKER
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets.maintenance import Maintenance, Reviewed
from pgengram.service.toolsets.reviewing import FINDINGS
from pgengram.service.toolsets.tidy_request import Action, Tidied
from pgengram.text.markdown import one_line
from pgengram.text.shown import counted
from pgengram.views import cut

ACTIONS: Final = ("apply", "archive", "prune", "merge")
MOST_SHOWN: Final = f.MAX_GET  # changes of a plan
EXCERPT: Final = 200  # characters of a memory that would be changed
SUGGESTED: Final = {"archive": "Suggested: archive.", "merge": "Suggested: merge."}  # what a reason leaves unsaid
VERBS: Final = {"update": "change"}  # operations that a person calls otherwise
MOST_TAGS: Final = 100
TOLD: Final = frozenset({"content", "tags", "kind", "importance", "project", "user", "reason"})  # of a change


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
        int | None,
        typer.Option(help="Archive or prune what was stored more than this many days ago.", min=0, max=36_500),
    ] = None,
    below_importance: Annotated[
        float | None, typer.Option(help="Archive or prune what is less important.", min=0, max=1)
    ] = None,
    max_accesses: Annotated[
        int | None, typer.Option(help="Archive or prune what was read at most this often.", min=0)
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Shows what would change, asks, and does all of it or nothing.

    Example: `pgengram tidy archive --older-than-days 500`
    """
    chosen = cast("Action", known_word(action, ACTIONS, "action"))
    bounds = {"older_than_days": older_than_days, "below_importance": below_importance, "max_accesses": max_accesses}
    ASKER.set(ReadsFirst())
    async with opened_manager() as manager:
        findings = Maintenance(manager)
        tidied = await _tidy_preview(findings, chosen, project, bounds)
        left = tidied.left or 0
        if token := tidied.confirm_token:
            if not as_json:
                await _print_changes(manager, tidied)
                if not confirm(f"{_operations(tidied)}?", yes=yes):
                    return FAILED
            if yes or not as_json:
                with sign_of_life():
                    tidied = await findings.tidy_memories(chosen, confirm_token=token)
    if as_json:
        print_json(tidied, exclude={"confirm_token"})
    elif tidied.done:
        _print_done(tidied, left)
    else:
        say("Nothing to do.")
    return 0


def _print_done(tidied: Tidied, left: int) -> None:
    say(f"Done: {_operations(tidied).lower()}.")
    if left:
        say(f"{counted(left)} of the same kind {'is' if left == 1 else 'are'} left: run the command again.")
    if any(change["operation"] != "erase" for change in tidied.changes):
        say("Undo: `pgengram restore` with the id of a memory.")


@command
async def tags(
    synonym: Annotated[
        list[str] | None,
        typer.Option(metavar="ALIAS=TAG", help="Use TAG wherever ALIAS is given; ALIAS= ends that. Repeatable."),
    ] = None,
    broader: Annotated[
        bool | None,
        typer.Option("--broader/--no-broader", help="Add the broader tags that come with pgengram, or remove them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Example: `pgengram tags --synonym k8s=kubernetes --synonym prefs=`"""
    from pgengram.store.maintenance import findings
    from pgengram.store.reading import names
    from pgengram.text.tags import BROADER

    wanted: dict[str, str | None] = {} if broader is None else dict(BROADER) if broader else dict.fromkeys(BROADER)
    wanted |= {alias: tag or None for alias, tag in map(name_value, synonym or [])}
    async with opened_manager() as manager:
        await manager.ready()
        async with manager.store.transaction() as tx:
            meant = await names.set_synonyms(tx, wanted) if wanted else await names.synonyms(tx)
            used = await findings.tag_counts(tx, limit=1_000)
    if as_json:
        print_json({"tags": used, "synonyms": meant})
        return
    if not wanted:
        _print_tags(used)
    screen.print(rows_table("synonyms", meant))


def _print_tags(used: dict[str, int]) -> None:
    """Print tags one after another, the most used first."""
    shown = [Text.assemble(f"{tag} ", (f"{number:,}", "dim")) for tag, number in [*used.items()][:MOST_TAGS]]
    screen.print(Text("tags", style="bold"))
    screen.print(in_lines(shown, screen.width) if shown else "No memory has a tag yet.")
    if len(used) > MOST_TAGS:
        say(f"… and {len(used) - MOST_TAGS:,} more; --json lists all.")


def _operations(tidied: Tidied) -> str:
    """Return how many memories what would be done to, such as "Archive 3 memories, merge 1 memory"."""
    operations = Counter(_verb(change) for change in tidied.changes)
    return ", ".join(f"{name} {counted(number)}" for name, number in operations.items()).capitalize()


def _verb(change: dict[str, Any]) -> str:
    operation = str(change["operation"])
    return VERBS.get(operation, operation)


async def _reviewed(manager: MemoryManager, find: list[str], project: str | None) -> Reviewed:
    wanted = {known_word(name, FINDINGS, "finding") for name in find}
    return await Maintenance(manager).review_memories(
        find=[name for name in FINDINGS if name in wanted] or None, project=project
    )


async def _tidy_preview(findings: Maintenance, action: Action, project: str | None, bounds: dict[str, Any]) -> Tidied:
    if action != "apply":
        return await findings.tidy_memories(action, project=project, **bounds)
    plan = (await findings.review_memories(project=project)).plan
    return (
        await findings.tidy_memories(action, plan) if plan else Tidied(done=False, changes=[], message="Nothing to do.")
    )


def _print_findings(title: str, findings: list[dict[str, Any]]) -> None:
    screen.print(Text(f"\n{title}", style="bold"))
    for reason in dict.fromkeys(map(_finding_reason, findings)):  # said once for all that have it
        screen.print(Padding(Text(reason, style="dim"), (0, 0, 0, 2)))
        for number, finding in enumerate(one for one in findings if _finding_reason(one) == reason):
            if number and len(finding["ids"]) > 1:
                screen.print()  # between pairs
            for id_, excerpt in zip(finding["ids"], finding["excerpts"], strict=False):
                screen.print(Padding(Text.assemble((short(id_), "cyan"), f"  {one_line(excerpt)}"), (0, 0, 0, 4)))


def _finding_reason(finding: dict[str, Any]) -> str:
    """Return why something was found, and what is suggested where that does not say it."""
    proposed = finding["propose"]
    tags = ", ".join(proposed.get("tags") or ())
    suggestion = f"Suggested tags: {tags}." if tags else SUGGESTED.get(str(proposed["action"]), "")
    return f"{finding['why']} {suggestion}".rstrip()


async def _print_changes(manager: MemoryManager, tidied: Tidied) -> None:
    """Print what a plan would do to which memories, each with its text."""
    shown = tidied.changes[:MOST_SHOWN]
    read = await call_tool(manager, "get_memories", {"ids": [change["id"] for change in shown], "touch": False})
    texts = {memory["id"]: memory["content"] for memory in read.memories}
    for change in shown:
        text = cut(one_line(texts.get(change["id"], "")), EXCERPT)
        screen.print(Text.assemble((f"{_verb(change)} ", "bold"), (short(change["id"]), "cyan"), f"  {text}"))
        for name, (old, new) in change["changes"].items():
            if name in TOLD:
                screen.print(Padding(Text(f"{name}: {in_cell(old)} → {in_cell(new)}", style="dim"), (0, 0, 0, 4)))
    if len(tidied.changes) > MOST_SHOWN:
        say(f"… and {len(tidied.changes) - MOST_SHOWN:,} more; --json lists all.")
