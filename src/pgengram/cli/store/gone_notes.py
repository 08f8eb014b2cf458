"""Asking what becomes of memories whose notes are gone from the folder that they were exported to."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import Final, Literal

import typer

from pgengram.cli.runtime import answer_of, print_note, say
from pgengram.cli.waiting import end_waiting
from pgengram.runtime.context import ACTOR, ASKER, COMMAND_LINE
from pgengram.service import confirming
from pgengram.store.connection.database import Transaction
from pgengram.store.memory.bulk_changes.plans import ChangePlan
from pgengram.store.store import Store
from pgengram.text.counting import counted
from pgengram.transfer.gone import Gone, forgetting
from pgengram.transfer.report import Imported
from pgengram.views import Answer

Fate = Literal["ask", "forget", "keep"]
SHOWN_LETTERS: Final = 100  # of each text
ACTION: Final = "forget gone notes"
NO_LIST: Final = "--gone has no effect: there is no list of exported notes in it."


class Forgotten(Answer):
    """What was forgotten; nothing where somebody is still to agree."""

    forgotten: int = 0
    confirm_token: str | None = None


class _Asks:
    """Asks at the terminal, after the memories were shown."""

    answer: Final = None

    async def ask(self, question: str, token: str) -> bool | None:
        del token  # this process holds it
        end_waiting()
        return answer_of(lambda: typer.confirm(question.partition("\n")[0], default=False, err=True))


async def settle(store: Store, imported: Imported, fate: Fate, source: str, *, as_json: bool) -> int:
    """Tell which memories' notes are gone, and forget them if whoever runs the command agrees; return how many.

    Raises:
        ConfirmRequired: one of them was changed since it was shown; nothing was forgotten.
    """
    if imported.gone is None and fate != "ask":
        print_note(NO_LIST)
    if not imported.gone:
        return 0
    if not as_json:
        _list_deleted(imported.gone)
    asks = fate == "ask" and sys.stdin.isatty() and not as_json
    if not imported.dry_run and (asks or fate == "forget"):
        return await _forget(store, imported.gone, ask=asks)
    if not as_json:
        say("These memories stay." + ("" if fate == "keep" else f" To forget them: {forget_command(source)}"))
    return 0


def forget_command(source: str) -> str:
    """Return the line that forgets the memories of notes that are gone, without a question."""
    words = ["pgengram", "import", "--from", "markdown", source, "--gone", "forget"]
    return subprocess.list2cmdline(words) if sys.platform == "win32" else shlex.join(words)


def _list_deleted(gone: list[Gone]) -> None:
    say(f"{counted(len(gone), 'note is', 'notes are')} gone since the export:")
    for one in gone:
        say(f"  {one.place}: {' '.join(one.content.split())[:SHOWN_LETTERS]}")


async def _forget(store: Store, gone: list[Gone], *, ask: bool) -> int:
    """Forget memories, all of them or none, in the versions that were shown."""

    async def plan(tx: Transaction, kept: confirming.Kept | None) -> ChangePlan:
        del kept
        return await forgetting(tx, gone)

    async def preview(tx: Transaction, made: ChangePlan) -> Forgotten:
        del tx, made
        return Forgotten()

    async def execute(tx: Transaction, made: ChangePlan) -> Forgotten:
        await made.execute(tx, session_id=None)
        return Forgotten(forgotten=len(made.effects))

    actor, asker = ACTOR.set(COMMAND_LINE), ASKER.set(_Asks())
    try:
        done = await confirming.when_confirmed(
            store, ACTION, "", plan=plan, needs_confirmation=lambda _: ask, preview=preview, execute=execute
        )
    except confirming.Declined:
        say("They stay.")
        return 0
    finally:
        ACTOR.reset(actor)
        ASKER.reset(asker)
    return done.forgotten
