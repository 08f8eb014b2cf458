"""`pgengram erase-namespace`, `erase-source` and `scrub`: everything in a namespace or from a source, and what files keep of it."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from pgengram.cli.options import AsJson
from pgengram.cli.output import rows_table
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import (
    FAILED,
    answer_of,
    command,
    confirmed,
    opened_store,
    print_answer,
    print_json,
    say,
    screen,
)
from pgengram.errors import ConfirmRequired, InvalidInput
from pgengram.store.connection.database import Transaction
from pgengram.store.maintenance import namespaces
from pgengram.store.memory import confirmations, deletion
from pgengram.store.store import Store

ACTION: Final = "erase source"
MOST_SHOWN: Final = 20  # memories of a preview
SHOWN_LETTERS: Final = 100  # of each
AskNot = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@command
async def erase_namespace(
    namespace: Annotated[str, typer.Argument(help="Whose memories; as in PGENGRAM_NAMESPACE.")],
    yes: AskNot = False,
    as_json: AsJson = False,
) -> int:
    """Shows what there is, asks, erases it, and clears the files as `scrub` does. The exit code is 1 without a yes.

    Example: `pgengram erase-namespace ada`
    """
    async with opened_store() as store:
        held = await namespaces.holdings(store.database, namespace)
        if not (yes or _agreed(namespace, held, as_json=as_json)):
            return FAILED
        removed = await namespaces.erase_namespace(store.database, namespace)
        erased_at = _iso(datetime.now(UTC))
        cleared = await _scrubbed(store)
    if as_json:
        print_json({"namespace": namespace, "erased_at": erased_at, "removed": removed, **_as_dict(cleared)})
    else:
        _show(f"erased at {erased_at}", removed)
        say(_cleared(cleared))
    return 0


def _agreed(namespace: str, held: dict[str, int], *, as_json: bool) -> bool:
    """Show what a namespace holds, and have its name typed."""
    if as_json:
        print_json({"namespace": namespace, "would_remove": held})
        return False
    _show(f"namespace {namespace}", held)
    question = "Type the name of the namespace to permanently erase it"
    if answer_of(lambda: typer.prompt(question, default="", show_default=False)) == namespace:
        return True
    say("Cancelled. Nothing was changed.")
    return False


@command
async def erase_source(
    source: Annotated[str, typer.Argument(help="A document, an address, or a system imported from, as it was stored.")],
    yes: AskNot = False,
    confirm_token: Annotated[str, typer.Option(help="From the preview that is shown without a terminal.")] = "",
    as_json: AsJson = False,
) -> int:
    """Shows what there is and asks. Without a terminal the preview has a token, which confirms it once and for a minute.

    Example: `pgengram erase-source https://example.org/rumours.html`
    """
    async with opened_store() as store:
        async with store.transaction() as tx:
            found, would_remove = await _from_source(tx, source)
            preview = {"source": source, "memories": len(found), "would_remove": would_remove}
            asks = not (yes or confirm_token)
            if asks and (as_json or not sys.stdin.isatty()):
                preview["confirm_token"] = await confirmations.ask(tx, ACTION, _named(source, found))
        if asks:
            _show_source(preview, found, as_json=as_json)
            if "confirm_token" in preview or not confirmed("Permanently erase all of them?"):
                return FAILED
        async with store.transaction() as tx:
            erased = await _erase(tx, source, found, confirm_token)
    text = f"{len(erased['ids']):,} memories were erased. `pgengram scrub` clears them out of the files."
    print_answer(text, erased, as_json=as_json)
    return 0


async def _erase(tx: Transaction, source: str, shown: dict[UUID, str], confirm_token: str) -> dict[str, Any]:
    """Erase what comes from a source, if it is what was shown; return the receipt."""
    found, _ = await _from_source(tx, source)
    if confirm_token:
        await confirmations.redeem(tx, confirm_token, ACTION, _named(source, found))
    elif found.keys() != shown.keys():
        raise ConfirmRequired("The memories were changed meanwhile.")
    receipts = await deletion.erase(tx, list(found), session_id=None)
    return {"source": source, "erased_at": _iso(receipts[0]["erased_at"]), "ids": [str(id_) for id_ in found]}


@command
async def scrub(as_json: AsJson = False) -> None:
    """Rewrites tables and indexes, and recycles the write-ahead log.

    Example: `pgengram scrub`
    """
    async with opened_store() as store:
        cleared = await _scrubbed(store)
    print_answer(_cleared(cleared), _as_dict(cleared), as_json=as_json)


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


def _show_source(preview: dict[str, Any], found: dict[UUID, str], *, as_json: bool) -> None:
    first = list(found.items())[:MOST_SHOWN]
    if as_json:
        print_json(preview | {"first": [{"id": str(id_), "content": text[:SHOWN_LETTERS]} for id_, text in first]})
        return
    _show(f"from {preview['source']}", {"memories": preview["memories"], **preview["would_remove"]})
    for _, text in first:
        say(f"- {' '.join(text[:SHOWN_LETTERS].split())}")
    if token := preview.get("confirm_token"):
        say(f"Nothing is done yet. Repeat with --confirm-token {token} within {confirmations.SECONDS} s.")


async def _scrubbed(store: Store) -> namespaces.Scrubbed:
    with ProgressBar("Clearing the files") as bar:

        async def report(message: str) -> None:
            bar.step(message)

        return await namespaces.scrub(store.database, report)


def _as_dict(cleared: namespaces.Scrubbed) -> dict[str, Any]:
    facts = asdict(cleared)
    return {"scrubbed_at": _iso(facts.pop("at")), **facts}


def _cleared(cleared: namespaces.Scrubbed) -> str:
    done = f"{cleared.tables} tables rewritten, {cleared.log_files} files of the write-ahead log recycled."
    return "\n".join([done, *(f"Not reached: {one}" for one in cleared.left)])


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _show(title: str, counts: dict[str, int]) -> None:
    screen.print(rows_table(title, counts, "table", "rows"))
