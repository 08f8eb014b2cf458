"""Remembering by typing: what the tools do, for people and for their scripts."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pgengram import fields as f
from pgengram.cli import AsJson, OfProject, app, command, notes, screen
from pgengram.cli import _pair as pair
from pgengram.errors import Conflict, InvalidInput, NotFound, PgengramError
from pgengram.settings import Settings
from pgengram.text.fencing import one_line

if TYPE_CHECKING:
    from pydantic import BaseModel

    from pgengram.manager import MemoryManager

PANEL: Final = "Memories"
SHOWN_ID: Final = 8  # hex digits, which every command takes for an id
EDITABLE: Final = ("kind", "importance", "tags", "project", "user", "pinned", "occurred_at", "expires_at")
RULE: Final = "---"
HINT: Final = "# Save and close to keep the changes; empty the file to leave all as it is.\n"
CLEARABLE: Final = ("kind", "tags", "project", "user", "occurred_at", "expires_at")
# What a session's assistant is told beside its memories, by how the session began.
BEGUN: Final = (
    "Long-term memory is connected (tools search_memories, create_memory and others). Search it for the topic of every task; "
    "store decisions, preferences, corrections and facts as they come up."
)
COMPACTED: Final = (
    "The conversation was just compacted. Store now with create_memories what the summary lists under “To remember”; "
    "search_memories brings back what is missing."
)
COMPACTING: Final = (
    "End the summary with a list “To remember”: each decision with its reason, preference, correction, commitment and lasting "
    "fact of this conversation that was not stored in long-term memory yet, one self-contained sentence each, with names and "
    "absolute dates and without secrets."
)


def _of(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="Ids, or their last 8 or more digits.")]
OfType = Annotated[list[str] | None, typer.Option("--type", help=f"{', '.join(f.TYPES)}.", autocompletion=_of(f.TYPES))]
OfKind = Annotated[
    list[str] | None, typer.Option("--kind", help="decision, preference, fact, …", autocompletion=_of(f.KINDS))
]
Tagged = Annotated[list[str] | None, typer.Option("--tag", help="With this tag. Repeatable.")]
OfUser = Annotated[str | None, typer.Option(help="About or for this person only.")]
Since = Annotated[str | None, typer.Option(help="Happened from: a date, or a moment with its zone.")]
Until = Annotated[str | None, typer.Option(help="… until.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=f.MAX_LIMIT, help="How many.")]


@asynccontextmanager
async def _memories() -> AsyncIterator[MemoryManager]:
    from pgengram.manager import MemoryManager

    manager = MemoryManager(Settings.from_environment())
    try:
        yield manager
    finally:
        await manager.close()


async def _called(owner: object, name: str, given: Mapping[str, Any]) -> Any:
    """Call a tool of the manager, or of a group of tools, just as an assistant does; None stands for what is not said.

    Raises:
        InvalidInput: an argument is wrong; nothing was changed.
    """
    from pgengram.server import Offer
    from pgengram.tools import tools_of

    [offer] = [Offer(tool) for tool in tools_of(owner) if tool.name == name]
    return await offer.tool.run(offer.arguments({key: value for key, value in given.items() if value is not None}))


# ------------------------------------------------------------------------------------------------------------- writing


@app.command(rich_help_panel=PANEL)
@command
async def add(
    content: Annotated[str, typer.Argument(help="What to remember; - reads it from standard input.")],
    type: Annotated[
        str | None, typer.Option(help=f"{', '.join(f.TYPES)}.", autocompletion=_of(f.TYPES), show_default=False)
    ] = None,
    kind: Annotated[str | None, typer.Option(help="decision, preference, fact, …", autocompletion=_of(f.KINDS))] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag. Repeatable.")] = None,
    importance: Annotated[float | None, typer.Option(help="0 is trivia, 1 never to forget.", min=0, max=1)] = None,
    project: Annotated[str | None, typer.Option(help="The project it belongs to.")] = None,
    user: Annotated[str | None, typer.Option(help="Whom it is about or for.")] = None,
    occurred_at: Annotated[str | None, typer.Option(help="When it happened.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="Hidden after this.")] = None,
    related_to: Annotated[list[str] | None, typer.Option(help="Id of a memory to link to. Repeatable.")] = None,
    pin: Annotated[bool, typer.Option("--pin", help="Never fades.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remember something.

    Examples: `pgengram add "Mara prefers tea." --kind preference --tag drinks`, `git log -1 --format=%B | pgengram add -`
    """
    given = {
        "content": sys.stdin.read().strip() if content == "-" else content,
        "type": type, "kind": kind, "tags": tag, "importance": importance, "project": project, "user": user,
        "occurred_at": _moment(occurred_at), "expires_at": _moment(expires_at), "related_to": related_to,
        "pinned": pin or None, "capture_mode": "explicit", "source_provider": "command line",
    }  # fmt: skip
    async with _memories() as manager:
        stored = await _called(manager, "create_memory", given)
    if as_json:
        _print_json(stored)
        return
    screen.print(f"{stored.message} [cyan]{_short(stored.memory_id)}[/cyan]", highlight=False)
    for near in stored.near_duplicates or []:
        screen.print(f"  nearly the same: {_short(near['id'])} {escape(one_line(near['excerpt']))}", highlight=False)


@app.command(rich_help_panel=PANEL)
@command
async def edit(
    id: Annotated[str, typer.Argument(metavar="ID", help="An id, or its last 8 or more digits.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="name=value…", help="What to change; left out: your editor opens.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change a memory in your editor (`$VISUAL` or `$EDITOR`), or the named fields at once.

    Examples: `pgengram edit e8d03e19`, `pgengram edit e8d03e19 importance=0.9 tags=billing,sepa`
    """
    async with _memories() as manager:
        if changes:
            given: Mapping[str, Any] = {"id": id, **dict(pair(one) for one in changes)}
        else:
            found = await _called(manager, "get_memories", {"ids": [id]})
            if not found.memories:
                raise NotFound("memory", id, "Use `pgengram search` to find the right id.")
            given = _edited(found.memories[0])
            if len(given) == 1:
                screen.print("Nothing was changed.")
                return
        try:
            updated = await _called(manager, "update_memory", given)
        except PgengramError:
            if not changes and "content" in given:
                notes.print("Your text:", highlight=False)
                notes.print(given["content"], markup=False, highlight=False, soft_wrap=True)
            raise
    if as_json:
        _print_json(updated)
    else:
        screen.print(updated.message, highlight=False, markup=False)


@app.command(rich_help_panel=PANEL)
@command
async def forget(
    ids: Ids,
    reason: Annotated[str, typer.Option(help="Why, for whoever looks later.")] = "",
    replaced_by: Annotated[
        list[str] | None, typer.Option(help="Id of a memory that holds instead. Repeatable.")
    ] = None,
    hard: Annotated[bool, typer.Option("--hard", help="Erase for good, after a question.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> int:
    """Take memories out of every search; `pgengram restore` brings them back. With --hard nothing does.

    Examples: `pgengram forget e8d03e19 --reason "moved to another bank"`, `pgengram forget e8d03e19 --hard`
    """
    from pgengram.tools import ASKER

    async def ask(question: str) -> bool | None:
        if yes:
            return True
        if not sys.stdin.isatty():
            raise InvalidInput("Nobody is here to be asked.", "Nothing was changed. Say --yes to have it done unasked.")
        notes.print(question, markup=False, highlight=False)
        return typer.confirm("Do it?", err=True)

    ASKER.set(ask)
    async with _memories() as manager:
        given = {"ids": ids, "reason": reason, "replaced_by_ids": replaced_by, "hard": hard}
        done = await _called(manager, "forget_memories", given)
    if as_json:
        _print_json(done)
    else:
        screen.print(done.message, highlight=False)
        _tell_errors(done.results)
    return 0 if all(result["ok"] for result in done.results) else 1


def are_ids(words: list[str]) -> bool:
    """Whether all words look like memories' ids, and none is a file."""
    return all(re.fullmatch(r"[0-9A-Fa-f-]{8,36}", word) and not Path(word).exists() for word in words)


async def restore_memories(ids: list[str], *, as_json: bool) -> int:
    """Bring forgotten or archived memories back; 1 when an id means none."""
    results: list[dict[str, Any]] = []
    async with _memories() as manager:
        for id_ in ids:
            try:
                done = await _called(manager, "update_memory", {"id": id_, "status": "active"})
                results.append({"id": done.memory_id, "ok": True, "restored": bool(done.changed_fields)})
            except (NotFound, Conflict) as error:
                results.append({"id": id_, "ok": False, "error": error.as_dict()})
    if as_json:
        screen.print_json(json.dumps({"results": results}))
    else:
        back = sum(result.get("restored", False) for result in results)
        screen.print(f"{back} restored, {sum(r['ok'] for r in results) - back} were there already.", highlight=False)
        _tell_errors(results)
    return 0 if all(result["ok"] for result in results) else 1


# ------------------------------------------------------------------------------------------------------------- finding


@app.command(rich_help_panel=PANEL)
@command
async def search(
    query: Annotated[str, typer.Argument(help="In plain words.")],
    type: OfType = None,
    kind: OfKind = None,
    tag: Tagged = None,
    project: OfProject = None,
    user: OfUser = None,
    since: Since = None,
    until: Until = None,
    as_of: Annotated[str | None, typer.Option(help="What held true then.")] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="auto, semantic, text or substring.", autocompletion=_of(("auto", "semantic", "text", "substring"))
        ),
    ] = "auto",
    limit: Limit = 10,
    as_json: AsJson = False,
) -> None:
    """Find memories by meaning and words, best first, with the parts of each score.

    Examples: `pgengram search "where do we deploy?"`, `pgengram search tea --kind preference --json`
    """
    asked = {
        "query": query, "type": type, "kind": kind, "tags": tag, "project": project, "user": user, "mode": mode,
        "since": _moment(since), "until": _moment(until), "as_of": _moment(as_of), "limit": limit,
    }  # fmt: skip
    found = await _found(asked)
    if as_json:
        _print_json(found)
        return
    table = Table("memory", "says", "kind", "when")
    for name in ("score", "meaning", "words", "relevance"):
        table.add_column(name, justify="right")
    for hit in found.results:
        why = hit.get("why", {})
        parts = (hit.get("score"), why.get("similarity"), why.get("words"), hit.get("relevance"))
        table.add_row(*_cells(hit), *("–" if part is None else f"{part:.2f}" for part in parts))
    _print_found(table, found.results)


@app.command(name="list", rich_help_panel=PANEL)
@command
async def list_(
    type: OfType = None,
    kind: OfKind = None,
    tag: Tagged = None,
    project: OfProject = None,
    user: OfUser = None,
    since: Since = None,
    until: Until = None,
    forgotten: Annotated[bool, typer.Option("--forgotten", help="Those that were forgotten.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Those that were put away.")] = False,
    sort: Annotated[
        str, typer.Option(help="created, updated, occurred, importance, relevance or accessed, the highest first.")
    ] = "created",
    limit: Limit = 20,
    offset: Annotated[int, typer.Option(help="How many to pass over.", min=0, max=10_000)] = 0,
    as_json: AsJson = False,
) -> None:
    """List memories, the newest first.

    Examples: `pgengram list --tag billing`, `pgengram list --forgotten`, `pgengram list --sort importance --limit 5`
    """
    if forgotten and archived:
        raise InvalidInput("--forgotten and --archived exclude each other.")
    asked = {
        "type": type, "kind": kind, "tags": tag, "project": project, "user": user, "since": _moment(since),
        "until": _moment(until), "sort": sort, "limit": limit, "offset": offset or None,
        "status": "invalidated" if forgotten else "archived" if archived else None,
    }  # fmt: skip
    found = await _found(asked)
    if as_json:
        _print_json(found)
        return
    table = Table("memory", "says", "kind", "when", "importance", "relevance")
    for hit in found.results:
        table.add_row(*_cells(hit), f"{hit['importance']:.2f}", f"{hit['relevance']:.2f}")
    _print_found(table, found.results)
    if found.next_cursor:
        screen.print(f"There may be more: --offset {offset + limit}", highlight=False)


@app.command(rich_help_panel=PANEL)
@command
async def timeline(
    days: Annotated[int, typer.Option(help="How many days back.", min=1, max=36_500)] = 30,
    type: OfType = None,
    kind: OfKind = None,
    tag: Tagged = None,
    project: OfProject = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show what happened day by day, the latest first.

    Example: `pgengram timeline --days 7 --kind decision`
    """
    asked = {
        "type": type, "kind": kind, "tags": tag, "project": project, "sort": "occurred", "limit": limit,
        "since": (datetime.now(UTC) - timedelta(days=days)).isoformat(),
    }  # fmt: skip
    found = await _found(asked)
    if as_json:
        _print_json(found)
        return
    for day, hits in groupby(found.results, key=lambda hit: _when(hit)[:10]):
        tree = Tree(f"[bold]{day}[/bold]", guide_style="dim")
        for hit in hits:
            tree.add(Text.assemble((_short(hit["id"]), "cyan"), f" {one_line(hit['content'])} ", (_kind(hit), "dim")))
        screen.print(tree)
    if not found.results:
        screen.print(f"Nothing is remembered of the last {days} days.", highlight=False)
    elif found.next_cursor:
        screen.print("There may be more: raise --limit, or lower --days.", highlight=False)


@app.command(rich_help_panel=PANEL)
@command
async def show(
    ids: Ids,
    history: Annotated[bool, typer.Option("--history", help="With everything that was changed.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show memories whole, forgotten ones too, with their links and clusters.

    Example: `pgengram show e8d03e19 --history`
    """
    async with _memories() as manager:
        around = ["relations", "clusters", *(["history"] if history else [])]
        found = await _called(manager, "get_memories", {"ids": ids, "include": around})
    if as_json:
        _print_json(found)
    else:
        for memory in found.memories:
            _print_memory(memory)
        _tell_errors([{**one, "ok": False} for one in found.missing])
    return 1 if found.missing else 0


@app.command(rich_help_panel=PANEL)
@command
async def graph(
    ids: Ids,
    depth: Annotated[int, typer.Option(help="How many steps.", min=1, max=4)] = 2,
    type: Annotated[list[str] | None, typer.Option(help="Along links of this type only. Repeatable.")] = None,
    direction: Annotated[str, typer.Option(help="both, out or in.")] = "both",
    limit: Annotated[int, typer.Option(help="Memories at most.", min=1, max=500)] = 50,
    as_json: AsJson = False,
) -> None:
    """Show what is linked to memories, as a tree, and what means nearly the same.

    Example: `pgengram graph e8d03e19 --depth 3 --type causes`
    """
    from pgengram.toolsets.graph import Graph

    given = {"ids": ids, "depth": depth, "direction": direction, "limit": limit, "types": type}
    async with _memories() as manager:
        found = await _called(Graph(manager), "explore_memories", given)
    if as_json:
        _print_json(found)
        return
    _print_graph(found.nodes, found.edges)
    for one in found.similar:
        screen.print(
            f"[dim]≈ {one['similarity']:.2f}[/dim] [cyan]{_short(one['id'])}[/cyan] {escape(one['excerpt'])}",
            highlight=False,
        )
    if found.cut:
        screen.print("There is more: raise --limit.", highlight=False)


@app.command(rich_help_panel=PANEL)
@command
async def recall(
    context: Annotated[str, typer.Argument(help="The task or topic; left out: what matters now.")] = "",
    project: OfProject = None,
    max_chars: Annotated[int, typer.Option(help="Budget for the text.", min=200, max=50_000)] = 4_000,
    hook: Annotated[
        bool, typer.Option("--hook", help="For a hook of an assistant: its event is read from standard input as JSON.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Print what is remembered about a task as one text for an assistant; recalled text cannot close the marks around it.

    Examples: `pgengram recall "the billing migration"`, `pgengram recall --project ark`
    """
    if hook:
        return await _answer_hook(sys.stdin.read())
    async with _memories() as manager:
        recalled = await _recalled(manager, context, project, max_chars)
    if as_json:
        screen.print_json(json.dumps(recalled))
    else:
        print(recalled["context"] or "Nothing is remembered about that.")  # noqa: T201 - as it is, whatever the width
    return 0


async def _recalled(manager: MemoryManager, context: str, project: str | None, max_chars: int) -> dict[str, Any]:
    from pgengram.resources import Library

    if not context.strip():
        return {"context": await Library(manager).context(project=project)}
    given = {"context": context, "max_chars": max_chars, "project": project}
    told: dict[str, Any] = (await _called(manager, "recall_context", given)).model_dump(exclude_none=True)
    return told


async def _answer_hook(event: str) -> int:
    """Print what an assistant is to read at this event; whatever fails, the session goes on (code 2 would stop it)."""
    try:
        told = json.loads(event or "{}")
        if not isinstance(told, dict):
            raise InvalidInput("The event is no object.")
        if told.get("hook_event_name") == "PreCompact":
            print(COMPACTING)  # noqa: T201
            return 0
        async with _memories() as manager:
            known = (await _recalled(manager, "", None, 0))["context"]
    except (PgengramError, ValueError) as error:
        notes.print(f"pgengram: {error}", highlight=False, markup=False)
        return 1
    begun = COMPACTED if told.get("source") == "compact" else BEGUN
    print(f"{begun}\n\n{known}" if known else begun)  # noqa: T201
    return 0


# -------------------------------------------------------------------------------------------------------------- typing


def _moment(given: str | None) -> str | None:
    """Return a date or a moment that a person typed, in ISO 8601 with a zone: this machine's, where none is named.

    Raises:
        InvalidInput: it is none.
    """
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidInput(f"{given!r} is no date.", "Write 2026-03-01, or 2026-03-01T14:30+01:00.") from None
    return (moment if moment.tzinfo else moment.astimezone()).isoformat()


def _edited(memory: dict[str, Any]) -> dict[str, Any]:
    """Have a person edit a memory, and return the change that this makes; only id and version when it makes none.

    Raises:
        InvalidInput: there is no editor, it failed, or what was saved cannot be read.
    """
    said = {name: _as_line(memory.get(name)) for name in EDITABLE}
    head = "".join(f"{name}: {value}\n" for name, value in said.items())
    saved = _from_editor(f"{HINT}{head}{RULE}\n{memory['content']}\n")
    change: dict[str, Any] = {"id": memory["id"]}
    if not saved.strip():
        return change
    top, rule, body = saved.partition(f"{RULE}\n")
    if not rule:
        raise InvalidInput(f"The line {RULE} between the fields and the text is gone.", "Nothing was changed.")
    for line in top.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or name not in EDITABLE:
            raise InvalidInput(f"{name!r} is no field of these.", f"Known are {', '.join(EDITABLE)}.")
        if value == said[name]:
            continue
        if value or name not in CLEARABLE:
            change[name] = _moment(value) if name.endswith("_at") else value
        else:
            change.setdefault("clear", []).append(name)
    if body.rstrip("\n") != memory["content"].rstrip("\n"):
        change["content"] = body.rstrip("\n")
    return change if len(change) == 1 else {**change, "expected_version": memory["version"]}


def _as_line(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _from_editor(text: str) -> str:
    import subprocess

    words = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not words:
        raise InvalidInput("No editor is set.", "Set EDITOR, or name the change: pgengram edit ID importance=0.9.")
    with tempfile.TemporaryDirectory(prefix="pgengram-") as folder:
        path = Path(folder) / "memory.md"
        path.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(words), str(path)], check=True)  # noqa: S603 - the person's own editor
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            raise InvalidInput(f"The editor {words!r} failed: {error}.", "Nothing was changed.") from None
        return path.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------- showing


async def _found(asked: Mapping[str, Any]) -> Any:
    async with _memories() as manager:
        return await _called(manager, "search_memories", asked)


def _short(id_: str) -> str:
    return id_[-SHOWN_ID:]


def _kind(hit: Mapping[str, Any]) -> str:
    return str(hit.get("kind") or hit["type"])


def _when(hit: Mapping[str, Any]) -> str:
    moment = datetime.fromisoformat(hit.get("occurred_at") or hit["created_at"])
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _cells(hit: Mapping[str, Any]) -> tuple[Text, ...]:
    says = Text(one_line(hit["content"]))
    if hit.get("tags"):
        says.append(f"  {' '.join(f'#{tag}' for tag in hit['tags'])}", style="dim")
    return Text(_short(hit["id"]), style="cyan"), says, Text(_kind(hit)), Text(_when(hit)[:10])


def _print_found(table: Table, results: list[dict[str, Any]]) -> None:
    if results:
        screen.print(table)
    else:
        screen.print("Nothing is remembered that fits.")


def _print_memory(memory: dict[str, Any]) -> None:
    table = Table(title=f"[cyan]{memory['id']}[/cyan]", title_justify="left", show_header=False)
    for name, value in memory.items():
        if name in ("id", "history", "relations", "clusters", "embedded") or value in (None, [], {}):
            continue
        if isinstance(value, dict):
            value = {key: one for key, one in value.items() if one not in (None, [], {})}
        text = _as_line(value) if not isinstance(value, dict) else json.dumps(value, ensure_ascii=False)
        table.add_row(name.replace("_", " "), Text(text))
    screen.print(table)
    for name in ("relations", "clusters", "history"):
        for row in memory.get(name) or []:
            told = ", ".join(f"{key}: {value}" for key, value in row.items())
            screen.print(f"  {name}: {told}", markup=False, highlight=False, soft_wrap=True)


def _print_graph(nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> None:
    """Print each start with what was reached from it, every memory once, below the one before it on its path."""
    types: dict[frozenset[str], str] = {}
    for edge in edges:
        types.setdefault(frozenset((edge["from_id"], edge["to_id"])), edge["type"])
    trees: dict[str, Tree] = {}
    for node in sorted(nodes, key=lambda node: node["depth"]):
        label = Text.assemble((_short(node["id"]), "cyan"), f" {node['excerpt']} ")
        above = node["path"][-2] if len(node["path"]) > 1 else None
        if above is not None and above in trees:
            label.append(
                f"({types.get(frozenset((above, node['id'])), 'linked')}, {node['strength']:.2f})", style="dim"
            )
            trees[node["id"]] = trees[above].add(label)
        else:
            trees[node["id"]] = Tree(label, guide_style="dim")
    for node in nodes:
        if len(node["path"]) <= 1:
            screen.print(trees[node["id"]])


def _tell_errors(results: list[dict[str, Any]]) -> None:
    for one in results:
        if not one["ok"]:
            notes.print(f"{one['id']}: {one['error']['message']}", markup=False, highlight=False)


def _print_json(answer: BaseModel) -> None:
    print(answer.model_dump_json(exclude_none=True, indent=2))  # noqa: T201 - for programs: not one line broken
