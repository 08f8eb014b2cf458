"""`pgengram erase-namespace`, `erase-source` and `scrub`: everything of one namespace or source, and what files keep of erased rows."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table

from pgengram.cli import agreed, answer_of
from pgengram.cli.progress import Told
from pgengram.errors import ConfirmRequired, InvalidInput
from pgengram.settings import Settings
from pgengram.store.connection.database import Transaction
from pgengram.store.maintenance import namespaces
from pgengram.store.memory import confirmations, deletion
from pgengram.store.store import Store

ACTION: Final = "erase source"
SHOWN: Final = 20  # memories of a preview, and how many letters of each
SHOWN_LETTERS: Final = 100

screen = Console()


async def run_erase_namespace(settings: Settings, name: str, *, yes: bool, as_json: bool) -> int:
    """Show what a namespace has, have the name typed, erase all of it and clear the files; 1 when the answer was no."""
    store = Store(settings)
    try:
        await store.open()
        held = await namespaces.holdings(store.database, name)
        if not yes:
            if as_json:
                screen.print_json(json.dumps({"namespace": name, "would_remove": held}))
                return 1
            _show(f"namespace {name}", held)
            question = "Type the namespace's name to erase all of it for good"
            if answer_of(lambda: typer.prompt(question, default="", show_default=False)) != name:
                screen.print("Nothing was changed.")
                return 1
        removed = await namespaces.erase_namespace(store.database, name)
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


async def run_erase_source(settings: Settings, source: str, *, yes: bool, confirm_token: str, as_json: bool) -> int:
    """Show what comes from a source, ask, and erase all of it in one transaction; 1 when nobody has agreed yet.

    Where nobody can be asked the preview has a token, which confirms these memories once and for a minute.
    """
    store = Store(settings)
    try:
        await store.open()
        async with store.transaction() as tx:
            found, would_remove = await _from_source(tx, source)
            if not (yes or confirm_token):
                asked = {"source": source, "memories": len(found), "would_remove": would_remove}
                if as_json or not sys.stdin.isatty():
                    token = await confirmations.ask(tx, ACTION, _named(source, found))
                    _tell_source(asked | {"confirm_token": token}, found, as_json=as_json)
                    return 1
        if not (yes or confirm_token):
            _tell_source(asked, found, as_json=False)
            if not agreed("Erase all of them for good?"):
                screen.print("Nothing was changed.")
                return 1
        async with store.transaction() as tx:
            again, _ = await _from_source(tx, source)
            if confirm_token:
                await confirmations.redeem(tx, confirm_token, ACTION, _named(source, again))
            elif again.keys() != found.keys():
                raise ConfirmRequired("The memories were changed meanwhile.")
            receipts = await deletion.erase(tx, list(again), session_id=None)
    finally:
        await store.close()
    told = {"source": source, "erased_at": _iso(receipts[0]["erased_at"]), "ids": [str(id_) for id_ in again]}
    if as_json:
        screen.print_json(json.dumps(told))
    else:
        screen.print(
            f"{len(again):,} memories were erased. `pgengram scrub` clears the files of them.", highlight=False
        )
    return 0


async def _from_source(tx: Transaction, source: str) -> tuple[dict[UUID, str], dict[str, int]]:
    """Return the memories of a source, and how much there is of all of them in each table."""
    found = await deletion.from_source(tx, source)
    if not found:
        raise InvalidInput(
            f"No memory comes from {source!r}.",
            "Sources are compared letter by letter: with `source`, the `ref` or `label` in `sources`, or a system imported from.",
        )
    counted: Counter[str] = Counter()
    for belongings in (await deletion.belongings(tx, list(found))).values():
        counted.update(belongings)
    return found, dict(counted)


def _named(source: str, found: dict[UUID, str]) -> dict[str, Any]:
    return {"source": source, "ids": sorted(map(str, found))}


def _tell_source(told: dict[str, Any], found: dict[UUID, str], *, as_json: bool) -> None:
    if as_json:
        contents = [{"id": str(id_), "content": text[:SHOWN_LETTERS]} for id_, text in list(found.items())[:SHOWN]]
        screen.print_json(json.dumps(told | {"first": contents}))
        return
    _show(f"from {told['source']}", {"memories": told["memories"], **told["would_remove"]})
    for text in list(found.values())[:SHOWN]:
        screen.print("-", " ".join(text[:SHOWN_LETTERS].split()), markup=False, highlight=False)
    if "confirm_token" in told:
        screen.print(
            f"Nothing is done yet. Repeat with --confirm-token {told['confirm_token']} within {confirmations.SECONDS} s.",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip


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


async def _scrubbed(store: Store) -> namespaces.Scrubbed:
    with Told("Clearing the files") as told:

        async def report(message: str) -> None:
            told.step(message)

        return await namespaces.scrub(store.database, report)


def _told(cleared: namespaces.Scrubbed) -> dict[str, Any]:
    facts = asdict(cleared)
    return {"scrubbed_at": _iso(facts.pop("at")), **facts}


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _show(title: str, counts: dict[str, int]) -> None:
    table = Table("table", title=title, title_justify="left")
    table.add_column("rows", justify="right")
    for name, rows in counts.items():
        table.add_row(name, f"{rows:,}")
    screen.print(table)


def _print_cleared(cleared: namespaces.Scrubbed) -> None:
    screen.print(
        f"{cleared.tables} tables written anew, {cleared.log_files} files of the write-ahead log given up.",
        highlight=False,
    )
    for one in cleared.left:
        screen.print(f"Not reached: {one}", highlight=False, markup=False, soft_wrap=True)
