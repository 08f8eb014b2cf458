"""`pgengram search`, `list`, `timeline`, `show` and `graph`: what is remembered, for people and for their scripts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text
from rich.tree import Tree

from pgengram import fields as f
from pgengram.cli.options import AsJson, Asked, Ids, Limit, OfProject, with_filters
from pgengram.cli.output import kind_of, print_graph, print_list, print_read, print_search, when
from pgengram.cli.quick import listing, reading, searching
from pgengram.cli.runtime import call_tool, command, completing, opened_manager, print_json, say, screen
from pgengram.ids import short
from pgengram.text.markdown import one_line

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager


MODES: Final = ("auto", "semantic", "text", "substring")
SORTS: Final = ("created", "updated", "occurred", "importance", "relevance", "accessed")


async def _search_answer(asked: Mapping[str, Any]) -> Any:
    """Return what search_memories answers."""
    async with opened_manager() as manager:
        return await call_tool(manager, "search_memories", asked)


@command
@with_filters
async def search(
    query: Annotated[list[str], typer.Argument(help="What to look for. Several questions are searched together.")],
    asked: Asked,
    as_of: Annotated[str | None, typer.Option(help="What was true at that time.")] = None,
    mode: Annotated[str, typer.Option(help=f"{', '.join(MODES)}.", autocompletion=completing(MODES))] = "auto",
    why: Annotated[bool, typer.Option("--why", help="Show the parts of each score.")] = False,
    turns: Annotated[bool, typer.Option("--turns", help="Also search conversation turns.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also show hits that hardly fit.")] = False,
    limit: Limit = 10,
    as_json: AsJson = False,
) -> None:
    """The score is the probability that a memory answers the question now.

    Examples: `pgengram search "where do we deploy?"`, `pgengram search tea --kind preference --since "last week"`
    """
    found = await _search_answer(searching(query, **asked, mode=mode, as_of=as_of, turns=turns, limit=limit))
    if as_json:
        print_json(found)
        return
    print_search(found.model_dump(), why=why, everything=everything)


@command
@with_filters
async def list_memories(
    asked: Asked,
    forgotten: Annotated[bool, typer.Option("--forgotten", help="Only forgotten memories.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Only archived memories.")] = False,
    sort: Annotated[
        str, typer.Option(help=f"{', '.join(SORTS)}, the highest first.", autocompletion=completing(SORTS))
    ] = "created",
    limit: Limit = 20,
    offset: Annotated[int, typer.Option(help="How many to skip.", min=0, max=10_000)] = 0,
    as_json: AsJson = False,
) -> None:
    """Examples: `pgengram list --tag billing`, `pgengram list --forgotten`, `pgengram list --sort importance`"""
    paged = {"sort": sort, "limit": limit, "offset": offset}
    found = await _search_answer(listing(**asked, forgotten=forgotten, archived=archived, **paged))
    if as_json:
        print_json(found)
        return
    print_list(found.model_dump(), offset + limit)


@command
@with_filters
async def timeline(
    asked: Asked,
    days: Annotated[
        int, typer.Option(help="How many days to go back, unless --since is given.", min=1, max=36_500)
    ] = 30,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Examples: `pgengram timeline --days 7 --kind decision`, `pgengram timeline --since 2026-03-01`"""
    since = asked["since"] or (datetime.now(UTC) - timedelta(days=days)).isoformat()
    found = await _search_answer({**asked, "since": since, "sort": "occurred", "limit": limit})
    if as_json:
        print_json(found)
        return
    for day, hits in groupby(found.results, key=lambda hit: when(hit).date()):
        tree = Tree(f"[bold]{day}[/bold]", guide_style="dim")
        for hit in hits:
            tree.add(Text.assemble((short(hit["id"]), "cyan"), f" {one_line(hit['content'])} ", (kind_of(hit), "dim")))
        screen.print(tree)
    if not found.results:
        say(f"No memories since {since[:10]}.")
    elif found.next_cursor:
        say("There may be more: raise --limit, or choose a shorter period.")


@command
async def show(
    ids: Ids,
    history: Annotated[bool, typer.Option("--history", help="Show all changes.")] = False,
    as_json: AsJson = False,
) -> int:
    """This also shows forgotten memories.

    Example: `pgengram show e8d03e19 --history`
    """
    async with opened_manager() as manager:
        found = await call_tool(manager, "get_memories", reading(ids, history=history))
    if as_json:
        print_json(found)
    else:
        print_read(found.model_dump())
    return 1 if found.missing else 0


@command
async def graph(
    ids: Ids,
    depth: Annotated[int, typer.Option(help="How many links to follow.", min=1, max=4)] = 2,
    type: Annotated[list[str] | None, typer.Option(help="Only follow links of this type. Repeatable.")] = None,
    direction: Annotated[
        str, typer.Option(help="both, out or in.", autocompletion=completing(("both", "out", "in")))
    ] = "both",
    limit: Annotated[int, typer.Option(help="How many memories to show.", min=1, max=f.MAX_NODES)] = 50,
    as_json: AsJson = False,
) -> None:
    """Example: `pgengram graph e8d03e19 --depth 3 --type causes`"""
    from pgengram.service.toolsets.graph import Graph

    given = {"ids": ids, "depth": depth, "direction": direction, "types": type}
    async with opened_manager() as manager:
        found = await call_tool(Graph(manager), "explore_memories", {**given, "limit": limit})
        whole = found
        if found.cut and limit < f.MAX_NODES and not as_json:
            counting = {**given, "limit": f.MAX_NODES, "include_similar": False}
            whole = await call_tool(Graph(manager), "explore_memories", counting)
    if as_json:
        print_json(found)
        return
    print_graph(found.nodes, found.edges)
    for one in found.similar:
        screen.print(
            Text.assemble((f"≈ {one['similarity']:.2f} ", "dim"), (short(one["id"]), "cyan"), f" {one['excerpt']}")
        )
    if found.cut:
        say(_left_out(len(whole.nodes) - len(found.nodes), depth, more=whole.cut))


def _left_out(number: int, depth: int, *, more: bool) -> str:
    """Return how many memories within reach are not shown, and how to see them."""
    if more:
        least = f"At least {number:,} more" if number else f"More than the {f.MAX_NODES} that can be shown"
        narrower = "--type, " + ("a smaller --depth, " if depth > 1 else "")
        return f"{least} are within reach: name {narrower}or the ids of some of these to go on from."
    if not number:
        return "All memories within reach are shown, but not every link between them."
    return f"{number:,} more are within reach: --limit {f.MAX_NODES} shows them."


@command
async def recall(
    context: Annotated[str, typer.Argument(help="The task or topic. Without it: what matters now.")] = "",
    project: OfProject = None,
    max_chars: Annotated[int, typer.Option(help="Length of the text, in characters.", min=200, max=50_000)] = 4_000,
    as_json: AsJson = False,
) -> int:
    """The text is marked as data, and no memory in it can close the marks.

    Examples: `pgengram recall "the billing migration"`, `pgengram recall --project ark`
    """
    async with opened_manager() as manager:
        recalled = await _recalled(manager, context, project, max_chars)
    if as_json:
        print_json(recalled)
    else:
        print(recalled["context"] or "Nothing is remembered about that.")  # noqa: T201 - as it is, whatever the width
    return 0


async def _recalled(manager: MemoryManager, context: str, project: str | None, max_chars: int) -> dict[str, Any]:
    from pgengram.mcp.resources import Library
    from pgengram.runtime.local_socket import working_folder

    if not context.strip():
        manager.here = manager.projects.worked_on(working_folder())
        return {"context": await Library(manager).context(project=project)}
    given = {"context": context, "max_chars": max_chars, "project": project}
    recalled: dict[str, Any] = (await call_tool(manager, "recall_context", given)).model_dump(exclude_none=True)
    return recalled
