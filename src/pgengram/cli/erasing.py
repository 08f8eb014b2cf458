"""`pgengram erase-owner` and `pgengram scrub`: everything of one owner, and what files keep of erased rows."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from pgengram.settings import Settings
from pgengram.store import owners
from pgengram.store.store import Store

screen = Console()
notes = Console(stderr=True)


async def run_erase_owner(settings: Settings, name: str, *, yes: bool, as_json: bool) -> int:
    """Show what an owner has, have the name typed, erase all of it and clear the files; 1 when the answer was no."""
    store = Store(settings)
    try:
        await store.open()
        held = await owners.holdings(store.database, name)
        if not yes:
            if as_json:
                screen.print_json(json.dumps({"namespace": name, "would_remove": held}))
                return 1
            _show(f"namespace {name}", held)
            if (
                typer.prompt("Type the namespace's name to erase all of it for good", default="", show_default=False)
                != name
            ):
                screen.print("Nothing was changed.")
                return 1
        removed = await owners.erase_owner(store.database, name)
        erased_at = datetime.now(UTC)
        cleared = await _scrubbed(store)
    finally:
        await store.close()
    receipt = {"namespace": name, "erased_at": _iso(erased_at), "removed": removed, **_told(cleared)}
    if as_json:
        screen.print_json(json.dumps(receipt))
        return 0
    _show(f"erased at {receipt['erased_at']}", removed)
    _print_cleared(cleared)
    return 0


async def run_scrub(settings: Settings, *, as_json: bool) -> int:
    """Clear the files of what was erased before."""
    store = Store(settings)
    try:
        await store.open()
        cleared = await _scrubbed(store)
    finally:
        await store.close()
    if as_json:
        screen.print_json(json.dumps(_told(cleared)))
    else:
        _print_cleared(cleared)
    return 0


async def _scrubbed(store: Store) -> owners.Scrubbed:
    with notes.status("Clearing the files") as status:

        async def report(message: str) -> None:
            status.update(message)

        return await owners.scrub(store.database, report)


def _told(cleared: owners.Scrubbed) -> dict[str, Any]:
    facts = asdict(cleared)
    return {"scrubbed_at": _iso(facts.pop("at")), **facts}


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _show(title: str, counts: dict[str, int]) -> None:
    table = Table("table", "rows", title=title, title_justify="left")
    for name, rows in counts.items():
        table.add_row(name, f"{rows:,}")
    screen.print(table)


def _print_cleared(cleared: owners.Scrubbed) -> None:
    screen.print(
        f"{cleared.tables} tables written anew, {cleared.log_files} files of the write-ahead log given up.",
        highlight=False,
    )
    for one in cleared.left:
        screen.print(f"Not reached: {one}", highlight=False, markup=False, soft_wrap=True)
