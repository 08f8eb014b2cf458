"""`pgengram import --list` and `--undo`: what was imported, and taking an import back after showing what that does."""

from __future__ import annotations

from typing import Final

from pgengram.cli.output import plain_table
from pgengram.cli.runtime import FAILED, confirm, print_json, print_note, say, screen
from pgengram.errors import ConfirmRequired
from pgengram.ids import short
from pgengram.service.core import Core
from pgengram.store.connection.database import Row
from pgengram.store.recovery import imports
from pgengram.store.recovery.imports import EXAMPLES, Undo
from pgengram.text.shown import counted, exact

NONE: Final = "Nothing was imported here."
SHOWN_LETTERS: Final = 100  # of each text
QUESTION: Final = "Undo this import?"
NAMES: Final = {  # of records, one and several, where a mere s would be wrong
    "memory": ("memory", "memories"),
    "changed_memory": ("changed memory", "changed memories"),
    "relationship": ("link", "links"),
    "identity": ("identity", "identities"),
    "evidence": ("piece of evidence", "pieces of evidence"),
    "history": ("history entry", "history entries"),
}


async def list_imports(core: Core, *, as_json: bool) -> int:
    """Print what was imported, the latest first."""
    async with core.store.transaction() as tx:
        rows = await imports.noted_imports(tx)
    if as_json:
        print_json({"imports": [imports.import_as_json(row) for row in rows]})
    elif not rows:
        say(NONE)
    else:
        table = plain_table("", "id", "imported", "file", "from")
        for heading in ("memories", "turns"):
            table.add_column(heading, justify="right")
        table.add_column("")
        for row in rows:
            counts = (f"{row[name]:,}" for name in ("memories", "turns"))
            undone = f"undone {exact(row['undone_at'])}" if row["undone_at"] else ""
            table.add_row(short(row["id"]), exact(row["began_at"]), row["name"], row["system"], *counts, undone)
        screen.print(table)
        say("`pgengram import --undo ID` takes one back.")
    return 0


async def undo_import(core: Core, given: str, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Show what undoing an import does, and do it once that is confirmed; the last import unless one is named.

    Raises:
        NotFound: there is no such import. InvalidInput: none is left. Conflict: it was undone already.
    """
    async with core.store.transaction() as tx:
        import_id = (await imports.find_import(tx, given))["id"]
    while True:
        async with core.store.transaction() as tx:
            shown = await imports.planned_undo(tx, import_id)
        if not as_json:
            _show_undo(shown)
        if dry_run or (as_json and not yes):
            return _answered(shown, undone=False, as_json=as_json)
        if not confirm(QUESTION, yes=yes):
            return FAILED
        try:
            async with core.store.transaction() as tx:
                return _answered(
                    await imports.undo_as_shown(tx, import_id, shown.fingerprint), undone=True, as_json=as_json
                )
        except ConfirmRequired as error:
            print_note(f"{error.message} This is what it would do now:")


def _answered(undo: Undo, *, undone: bool, as_json: bool) -> int:
    if as_json:
        print_json(undo.as_dict() | {"undone": undone})
    elif undone:
        say(f"Undone: {undo.summary}. Import {undo.row['name']} again to have it back.")
    else:
        say("Nothing was changed.")
    return 0


def _show_undo(undo: Undo) -> None:
    """Print what an undo does: how much, the first of it, and what stays and why."""
    row = undo.row
    by = f" ({row['actor']})" if row["actor"] else ""
    say(f"Import {short(row['id'])}: {row['name']} from {row['system']}, {exact(row['began_at'])}{by}.")
    say(f"To be undone: {undo.summary}.")
    for one in (*undo.taken[:EXAMPLES], *undo.removed[: EXAMPLES - len(undo.taken[:EXAMPLES])]):
        say(f"  - {_beginning(one)}")
    for (record, reason), rows in undo.left.items():
        say(f"{count_in_words(record, len(rows))} {_stay(len(rows))}, {reason}:")
        for one in rows[:EXAMPLES]:
            say(f"  - {short(one['id'])} {_beginning(one)}" if record == "memory" else f"  - {_beginning(one)}")
    if undo.gone:
        say(f"{count_in_words('memory', undo.gone)} of it {'was' if undo.gone == 1 else 'were'} gone before.")
    if others := row["others"]:
        rest = ", ".join(count_in_words(record, count) for record, count in others.items())
        say(f"{rest} {_stay(sum(others.values()))}, as an undo takes back memories and turns only.")


def _stay(count: int) -> str:
    return "stays" if count == 1 else "stay"


def count_in_words(record: str, number: int) -> str:
    """Return a number of records of a kind."""
    return counted(number, *NAMES.get(record, (record, f"{record}s"))).replace("_", " ")


def _beginning(one: Row) -> str:
    return " ".join(str(one.get("text") or one["content"]).split())[:SHOWN_LETTERS]
