"""Passphrases and keys of encrypted exports, and where what is imported is read from."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Literal

import typer

from pgengram.cli.runtime import answer_of, print_note, say
from pgengram.cli.waiting import end_waiting
from pgengram.errors import InvalidInput
from pgengram.runtime.context import ACTOR, ASKER, COMMAND_LINE
from pgengram.service import confirming
from pgengram.store.connection.database import Transaction
from pgengram.store.memory.plans import ChangePlan
from pgengram.store.store import Store
from pgengram.text.shown import counted
from pgengram.transfer import encryption
from pgengram.transfer.report import Gone, Imported, forgetting
from pgengram.views import Answer

Lock = Callable[[bytes], bytes]  # encrypts
WITHOUT_TERMINAL: Final = "A passphrase is needed, but there is no terminal to type it at."


def encryption_of(recipients: Sequence[str], *, encrypt: bool) -> Lock | None:
    """Return how an export is encrypted: for keys, or with a passphrase that is asked for; None if it is not."""
    if recipients:
        return partial(encryption.for_recipients, recipients=encryption.recipients_of(recipients))
    if not encrypt:
        return None
    passphrase = _typed_passphrase("--recipient encrypts for a key instead.", confirms=True)
    return partial(encryption.with_passphrase, passphrase=passphrase)


@contextmanager
def readable_file(source: str, identity: Path | None) -> Iterator[str]:
    """Yield the path of what is to be read.

    Standard input, `-`, is kept in a file meanwhile, as it is read twice; and so is what was encrypted.
    """
    if source != "-" and not _is_encrypted(Path(source)):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="pgengram-") as folder:
        path = Path(folder) / ("stdin" if source == "-" else Path(source).name)
        if source == "-":
            with path.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            source = str(path)
        if _is_encrypted(Path(source)):
            opened = _decrypted(Path(source).read_bytes(), identity)
            path = path.with_suffix("") if path.suffix == encryption.ENDING else path
            path.write_bytes(opened)
        yield str(path)


def _is_encrypted(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return encryption.is_encrypted(file.read(encryption.HEAD))
    except (OSError, ValueError):  # a folder, a link, nothing at all: the import says so
        return False


def _decrypted(content: bytes, identity: Path | None) -> bytes:
    """Return what was encrypted, opened with a key or with a passphrase that is asked for."""
    if identity is not None:
        return encryption.opened_with_key(content, identity)
    if not encryption.takes_passphrase(content):
        raise InvalidInput("The file is encrypted for a key.", "Give the file of the secret one with --identity.")
    return encryption.opened_with_passphrase(content, _typed_passphrase("Run the command in one.", confirms=False))


def _typed_passphrase(otherwise: str, *, confirms: bool) -> str:
    """Return the passphrase that a person types, twice where it is a new one."""
    if not sys.stdin.isatty():
        raise InvalidInput(WITHOUT_TERMINAL, otherwise)
    return answer_of(lambda: str(typer.prompt("Passphrase", hide_input=True, confirmation_prompt=confirms, err=True)))


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


STAY: Final = "These memories stay."


async def settle(store: Store, imported: Imported, fate: Fate, source: str, *, as_json: bool) -> int:
    """Tell which memories' notes are gone, and forget them if whoever runs the command agrees; return how many.

    Raises:
        ConfirmRequired: one of them was changed since it was shown; nothing was forgotten.
    """
    if not imported.gone:
        if imported.gone is None and fate != "ask":
            print_note(NO_LIST)
        return 0
    if not as_json:
        _list_deleted(imported.gone)
    asks = fate == "ask" and sys.stdin.isatty() and not as_json
    if not imported.dry_run and (asks or fate == "forget"):
        return await _forget(store, imported.gone, ask=asks)
    if not as_json:
        say(STAY if fate == "keep" else f"{STAY} To forget them: {forget_command(source)}")
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
