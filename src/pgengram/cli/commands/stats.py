"""`pgengram stats`: what the store holds, as a summary that fits a screen, and in full."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import psycopg
import typer
from rich.table import Table
from rich.text import Text

from pgengram.cli.options import AsJson, OfProject
from pgengram.cli.output import in_cell, in_lines, is_count, plain_table, rows_table
from pgengram.cli.runtime import command, opened_manager, print_json, say, screen
from pgengram.errors import NotReady
from pgengram.ids import short
from pgengram.postgres import binaries
from pgengram.service.toolsets.maintenance import Maintenance
from pgengram.settings import Settings
from pgengram.store.connection.database import Database
from pgengram.store.recovery import backup, backup_schedule, restoring
from pgengram.store.schema import place
from pgengram.store.schema.rights import reach
from pgengram.text.markdown import one_line
from pgengram.text.shown import ago, counted
from pgengram.views import cut

Row = tuple[str, bool, str, str]  # what, whether it is well, what was seen, how to repair it


async def rights_row(database: Database) -> Row:
    """Say who reaches the tables besides those who must."""
    from pgengram.store.schema.tables import VIEWS, metadata

    found = await reach(database, (*metadata.tables, *VIEWS))
    return ("Rights", found.is_closed, str(found), found.repair)


async def backups_row(settings: Settings, url: str) -> Row:
    """Say whether backups are made, and whether one can be made and restored."""
    return await asyncio.to_thread(_backups, settings, url)


def _backups(settings: Settings, url: str) -> Row:
    now = backup_schedule.backup_status(settings)
    try:
        limits = _limits(url)
    except NotReady as error:
        return ("Backups", not now.kept, f"none can be made: {error.message}", error.hint)
    except psycopg.Error as error:
        return ("Backups", not now.kept, f"none can be made: {type(error).__name__}", "")
    repair = ""
    if now.damage:
        repair = f"Move {now.newest} away and run `pgengram backup --if-due`."
    elif now.is_overdue:
        repair = "Run `pgengram backup --if-due` and see what it says."
    elif not now.copied:
        repair = (
            "Connect its disk or make room; the next backup is tried there again, `pgengram backup --if-due` at once."
        )
    return ("Backups", not (now.kept and repair), f"{backups_said(now)}{limits}", repair if now.kept else "")


def backups_said(now: backup_schedule.Status) -> str:
    """Return in a sentence what is known of the daily backups."""
    if not now.kept:
        return "`pgengram backup` makes one; PGENGRAM_BACKUP_DAYS=7 makes one each day and keeps seven"
    if now.made_at is None:
        return "none yet; a running server makes the first one"
    if now.damage:
        return f"the last one cannot be read: {now.damage}"
    said = f"daily; the last {ago(now.made_at)} with {counted(now.memories)}"
    if now.second is None:
        return f"{said}, on this disk only: `pgengram backup --also-in FOLDER` adds a second place"
    return f"{said}, also in {now.second}" if now.copied else f"{said}; the copy in {now.second} is missing"


def _limits(url: str) -> str:
    """Return what a restore would lack; see that a backup can be made.

    Raises:
        NotReady: it cannot.
    """
    with backup.reached(url) as (connection, _):
        backup.sight(connection)
        binaries.programs_for(connection.info.server_version // 10_000)
        try:
            restoring.expect_restorable(connection, place.look(connection))
        except NotReady as error:
            return f". To restore one: {error.message} {error.hint}"
    return ""


FACTS: Final = ("totals", "vectors", "conversations", "database")  # not parts of one whole
WIDEST: Final = 24  # characters of the longest bar
MOST_NAMED: Final = 6  # values of a summary's line
LABEL_WIDTH: Final = 15  # characters of "conversations" and the space after it
LONGEST_NAME: Final = 24  # characters of a value there
EXCERPT: Final = 60  # characters
STATES: Final = ("active", "expired", "archived", "working", "forgotten", "pinned", "untagged")
LINES: Final = {"kinds": "by_kind", "types": "by_type", "projects": "by_project", "tags": "tags", "age": "age"}


@command
async def stats(
    project: OfProject = None,
    tags: Annotated[int, typer.Option(help="How many tags to show, most used first.", min=0, max=500)] = 20,
    every: Annotated[
        bool, typer.Option("--all", help="Show all counts, histograms, and the newest and most read memories.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Examples: `pgengram stats`, `pgengram stats --project ark --all --tags 50`"""
    async with opened_manager() as manager:
        found = (await Maintenance(manager).memory_stats(project=project, tags=tags)).model_dump(
            mode="json", exclude={"ok"}
        )
    if as_json:
        print_json(found)
    elif every:
        for title, rows in found.items():
            if rows:
                screen.print(_table(title, rows))
    else:
        _print_summary(found, backups_said(backup_schedule.backup_status(Settings.from_environment())))


def _print_summary(found: Mapping[str, Any], backups: str) -> None:
    totals, vectors = found["totals"], found["vectors"]
    screen.print(
        Text.assemble((counted(totals["memories"]), "bold"), f" in the namespace {found['database']['namespace']}\n")
    )
    table = plain_table(header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(ratio=1)
    table.add_row("status", _names_with_counts({name: totals[name] for name in STATES if totals.get(name)}))
    for title, name in LINES.items():
        if counts := {one: number for one, number in found[name].items() if number}:
            table.add_row(title, _names_with_counts(counts, in_all=totals["tags"] if name == "tags" else len(counts)))
    for one in found["recent"][:1]:
        table.add_row("newest", Text.assemble((short(one["id"]), "cyan"), f" {cut(one_line(one['excerpt']), EXCERPT)}"))
    table.add_row("vectors", Text("; ".join(_vector_lines(totals, vectors))))
    table.add_row("embedder", Text(str(vectors.get("embedder") or "none").partition("@")[0]))
    table.add_row("conversations", Text(_conversations(found["conversations"])))
    table.add_row("backups", Text(backups))
    table.add_row("size", Text(f"{found['database']['bytes'] / 1_000_000:,.1f} MB"))
    screen.print(table)
    say("\nMore: pgengram stats --all")


def _names_with_counts(counts: Mapping[str, int], *, in_all: int = 0) -> Text:
    """Return names with their counts, the most frequent first, and how many names are left out."""
    most = sorted(counts.items(), key=lambda one: -one[1])[:MOST_NAMED]
    shown = [Text.assemble(f"{cut(name, LONGEST_NAME)} ", (f"{number:,}", "bold")) for name, number in most]
    if in_all > MOST_NAMED:
        shown.append(Text(f"{in_all - MOST_NAMED:,} more", style="dim"))
    return in_lines(shown, screen.width - LABEL_WIDTH)


def _vector_lines(totals: Mapping[str, Any], vectors: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a summary says about vectors: how many memories have one, the index, and a move to another model."""
    yield f"{totals['embedded']:,} of {totals['memories']:,}"
    yield from (str(vectors[name]) for name in ("index", "move") if vectors.get(name))


def _conversations(state: Mapping[str, Any]) -> str:
    if not state["kept"]:
        return "not kept"
    kept = f"those of hooks kept for {state['keep_days']} days, imported ones until you erase them"
    return f"{kept}; {state['conversations']:,} so far"


def _table(title: str, rows: Any) -> Table:
    """Return a list of like things as a table, counts with a bar each, or single facts by their names."""
    heading = title.replace("_", " ")
    if isinstance(rows, list):
        return _table_of_rows(heading, rows)
    if title in FACTS:
        return rows_table(heading, {str(name).replace("_", " "): value for name, value in rows.items()})
    table = plain_table(heading, header=False)
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify)
    for name, count in rows.items():
        table.add_row(Text(str(name)), f"{count:,}", Text(_bar(count, max(rows.values())), style="cyan"))
    return table


def _table_of_rows(heading: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    table = plain_table(heading)
    for name, value in rows[0].items():
        table.add_column(
            name.replace("_", " "), no_wrap=name == "id", justify="right" if is_count(value) else "left",
            ratio=1 if name == "excerpt" else None,
        )  # fmt: skip
    for row in rows:
        table.add_row(*(Text(_cell(name, value)) for name, value in row.items()))
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
    return in_cell(value)
