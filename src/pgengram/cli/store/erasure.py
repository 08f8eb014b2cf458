"""`pgengram erase-namespace`, `erase-source` and `scrub`: all of a namespace or a source, and what files keep of it."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from pgengram.cli.options import AsJson, TerminalAsker
from pgengram.cli.output import rows_table
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import FAILED, command, opened_store, print_answer, print_json, say, screen, typed_out
from pgengram.errors import InvalidInput
from pgengram.runtime.context import ASKER
from pgengram.runtime.operating_system import remove_tree
from pgengram.service import confirming
from pgengram.service.projects import Projects
from pgengram.settings import Settings
from pgengram.store.connection.database import Transaction
from pgengram.store.maintenance import namespaces
from pgengram.store.memory import confirmations, deletion
from pgengram.store.memory.plans import ChangePlan, Step
from pgengram.store.store import Store
from pgengram.sync import devices
from pgengram.sync.addresses import stored_files
from pgengram.views import Answer, Shown

ACTION: Final = "erase source"
MOST_SHOWN: Final = 20  # memories of a preview
SHOWN_LETTERS: Final = 100  # of each
AskNot = Annotated[bool, typer.Option("--yes", help="Skip the prompt.")]


@command
async def erase_namespace(
    namespace: Annotated[str, typer.Argument(help="The namespace, as in PGENGRAM_NAMESPACE.")],
    yes: AskNot = False,
    as_json: AsJson = False,
) -> int:
    """Shows what is in it, asks, erases it, and cleans the files as `scrub` does.

    Example: `pgengram erase-namespace ada`
    """
    async with opened_store() as store:
        held = await namespaces.holdings(store.database, namespace)
        key = await namespaces.namespace_key(store.database, namespace)
        is_on = await devices.is_on(store.database, key)
        if not (yes or _name_typed(namespace, held, is_on=is_on, as_json=as_json)):
            return FAILED
        data = Settings.from_environment().data_path
        await devices.erase_elsewhere(store.database, key, data)
        removed = await namespaces.take_away_namespace(store.database, namespace)
        remove_tree(stored_files(key, data))
        Projects(replace(Settings.from_environment(), namespace=namespace)).forget()
        erased_at = _iso(datetime.now(UTC))
        cleared = await _scrubbed(store)
    if as_json:
        print_json({"namespace": namespace, "erased_at": erased_at, "removed": removed, **_scrubbed_dict(cleared)})
    else:
        _print_counts(f"erased at {erased_at}", removed)
        say(_scrubbed_line(cleared))
    return 0


def _name_typed(namespace: str, held: dict[str, int], *, is_on: bool, as_json: bool) -> bool:
    """Show what a namespace holds, and have its name typed."""
    if as_json:
        print_json({"namespace": namespace, "would_remove": held, "other_machines": is_on})
        return False
    _print_counts(f"namespace {namespace}", held)
    if is_on:
        say("The machines that it is exchanged with erase it, too. To erase it here only: `pgengram sync leave` first.")
    return typed_out("Type the name of the namespace to permanently erase it", namespace)


@command
async def erase_source(
    source: Annotated[str, typer.Argument(help="A document, an address, or a system imported from.")],
    yes: AskNot = False,
    confirm_token: Annotated[str, typer.Option(help="The token from the preview.")] = "",
    as_json: AsJson = False,
) -> int:
    """Shows what would be erased and asks; without a terminal it prints a token that confirms it within a minute.

    Example: `pgengram erase-source https://example.org/rumours.html`
    """
    interactive = sys.stdin.isatty() and not as_json
    if interactive:
        ASKER.set(TerminalAsker(prompt="Permanently erase all of them?"))

    async def preview(tx: Transaction, plan: ChangePlan) -> ErasedSource:
        shown = await _source_preview(tx, source, plan)
        if not as_json:
            _show_source(shown)
        return shown

    async def execute(tx: Transaction, plan: ChangePlan) -> ErasedSource:
        receipts = await plan.execute(tx, session_id=None)
        erased_at = next(iter(receipts.values()))["erased_at"]
        return ErasedSource(source=source, erased_at=_iso(erased_at), ids=[str(id_) for id_ in receipts])

    async with opened_store() as store:
        try:
            erased = await confirming.when_confirmed(
                store,
                ACTION,
                confirm_token,
                plan=lambda tx, _: _from_source(tx, source),
                needs_confirmation=lambda _: not yes,
                preview=preview,
                execute=execute,
            )
        except confirming.Declined:
            return FAILED
    text = f"{len(erased.ids or ()):,} memories were erased. `pgengram scrub` clears them out of the files."
    if erased.confirm_token:
        again = f"--confirm-token {erased.confirm_token} within {confirmations.SECONDS} s"
        text = f"Nothing was erased yet. To erase them, repeat the command with {again}."
    data = erased.model_dump(mode="json", exclude_none=True, exclude={"ok", "message"})
    print_answer(text, data, as_json=as_json)
    return FAILED if erased.confirm_token else 0


class ErasedSource(Answer):
    """What would be erased, with what confirms it; or what was."""

    source: str
    memories: int | None = None
    would_remove: dict[str, int] | None = None
    confirm_token: str | None = None
    first: list[Shown] | None = None
    erased_at: str | None = None
    ids: list[str] | None = None


async def _source_preview(tx: Transaction, source: str, plan: ChangePlan) -> ErasedSource:
    """Count what belongs to the memories of a source, and quote the first of them."""
    counted: Counter[str] = Counter()
    for belongings in (await deletion.belongings(tx, list(plan.rows))).values():
        counted.update(belongings)
    first = [{"id": str(id_), "content": row["content"][:SHOWN_LETTERS]} for id_, row in plan.rows.items()]
    return ErasedSource(source=source, memories=len(plan.rows), would_remove=dict(counted), first=first[:MOST_SHOWN])


@command
async def scrub(as_json: AsJson = False) -> None:
    """Rewrites tables and indexes and recycles the write-ahead log.

    Example: `pgengram scrub`
    """
    async with opened_store() as store:
        cleared = await _scrubbed(store)
    print_answer(_scrubbed_line(cleared), _scrubbed_dict(cleared), as_json=as_json)


async def _from_source(tx: Transaction, source: str) -> ChangePlan:
    """Return the plan of erasing all memories of a source."""
    found = await deletion.from_source(tx, source)
    if not found:
        raise InvalidInput(
            f"No memory comes from {source!r}.",
            "Names are case-sensitive. A source is what `source` says, a `ref` or `label` in `sources`, or an imported "
            "system.",
        )
    return ChangePlan([Step("erase", list(found))], found)


def _show_source(shown: ErasedSource) -> None:
    _print_counts(f"from {shown.source}", {"memories": shown.memories or 0, **(shown.would_remove or {})})
    for one in shown.first or ():
        say(f"- {' '.join(one['content'].split())}")


async def _scrubbed(store: Store) -> namespaces.Scrubbed:
    with ProgressBar("Clearing the files") as bar:

        async def report(message: str) -> None:
            bar.step(message)

        return await namespaces.scrub_files(store.database, report)


def _scrubbed_dict(cleared: namespaces.Scrubbed) -> dict[str, Any]:
    facts = asdict(cleared)
    return {"scrubbed_at": _iso(facts.pop("at")), **facts}


def _scrubbed_line(cleared: namespaces.Scrubbed) -> str:
    done = f"{cleared.tables} tables rewritten, {cleared.log_files} files of the write-ahead log recycled."
    return "\n".join([done, *(f"Not reached: {one}" for one in cleared.left)])


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _print_counts(title: str, counts: dict[str, int]) -> None:
    screen.print(rows_table(title, counts, "table", "rows"))
