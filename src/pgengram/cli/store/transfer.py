"""`pgengram export` and `import`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, TextIO, cast

import typer
from rich.table import Table

from pgengram.cli.options import AsJson
from pgengram.cli.output import plain_table
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import (
    FAILED,
    answer_of,
    command,
    completing,
    in_space,
    known_word,
    name_value,
    opened_manager,
    print_json,
    print_note,
    say,
    screen,
)
from pgengram.cli.store.import_undo import NAMES, count_in_words, list_imports, undo_import
from pgengram.cli.store.transfer_questions import Fate, Lock, encryption_of, readable_file, settle
from pgengram.cli.store.transfer_questions import forget_command as forget_command
from pgengram.errors import Conflict, InvalidInput
from pgengram.runtime.context import ACTOR, COMMAND_LINE
from pgengram.service.core import Core
from pgengram.settings import Settings
from pgengram.text.shown import counted
from pgengram.transfer import SYSTEMS, TAKERS, export_notes, export_text, export_to, import_from
from pgengram.transfer.input.sources import Source
from pgengram.transfer.opening import shape_of
from pgengram.transfer.report import Imported, LeftOut

Format = Literal["jsonl", "markdown"]
INTERRUPTED: Final = "Interrupted. What was imported so far stays; run the same command again to import the rest."
TURNS: Final = (
    "Turns are kept as conversations until you erase them, not as memories. `pgengram search WORDS --turns` looks "
    "in them, the web app shows them, and `pgengram conversations suggest` offers what may be worth a memory."
)
MOST_SHOWN: Final = 20  # reasons why something was not imported


@command
async def export_(
    path: Annotated[
        str, typer.Argument(help="A file for JSON lines, or - for standard output; a folder for Markdown.")
    ],
    format_: Annotated[
        Format, typer.Option("--format", help="jsonl (everything) or markdown (a note for each memory).")
    ] = "jsonl",
    taker: Annotated[
        str,
        typer.Option(
            "--for",
            help=f"Only what holds now, as one text to paste into {', '.join(TAKERS)}.",
            autocompletion=completing(TAKERS),
        ),
    ] = "",
    encrypt: Annotated[bool, typer.Option("--encrypt", help="Encrypt it with a passphrase, as age does.")] = False,
    recipient: Annotated[
        list[str] | None,
        typer.Option(help="Encrypt it for a key: age1…, ssh-ed25519 …, or a file of them. Repeatable."),
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Of a shared space only what you stored.")] = False,
    as_json: AsJson = False,
) -> None:
    """`pgengram import` reads it back, also notes that you edited.

    Examples: `pgengram export memories.jsonl`, `pgengram export --format markdown notes`,
    `pgengram export --encrypt memories.age`, `pgengram export --for claude memories.txt`
    """
    form = known_word(taker, TAKERS, "assistant") if taker else format_
    _check_export(form, path, encrypted=encrypt or bool(recipient), mine=mine, as_json=as_json)
    lock = encryption_of(recipient or (), encrypt=encrypt)
    async with _opened_core(embedder="none:") as core:  # the one that is set may be gone
        counts = await _exported(core, path, form, lock, quiet=as_json, mine=mine)
    if as_json:
        print_json({"path": path, "format": form, "counts": dict(counts)})
    else:
        print_note(_export_summary(form, counts))


def _check_export(form: str, path: str, *, encrypted: bool, mine: bool, as_json: bool) -> None:
    """Refuse options of an export that exclude each other.

    Raises:
        InvalidInput: they do.
    """
    if as_json and path == "-":
        raise InvalidInput("The export and the --json summary can't both go to standard output.", "Give a file.")
    if form == "markdown" and encrypted:
        raise InvalidInput("A folder of notes can't be encrypted.", "Export a file of JSON lines, or leave it out.")
    if mine and (not in_space.get() or form != "jsonl"):
        raise InvalidInput("--mine is for lines of JSON out of a space.", "pgengram --space SPACE export --mine FILE")


@asynccontextmanager
async def _opened_core(**settings: str) -> AsyncIterator[Core]:
    """Yield what reads and writes the memories, or those of the space that was named."""
    if in_space.get():
        async with opened_manager() as manager:
            yield manager
        return
    core = Core(replace(Settings.from_environment(), **settings))
    try:
        await core.ready()
        yield core
    finally:
        await core.close()


async def _exported(
    core: Core, path: str, form: str, lock: Lock | None, *, quiet: bool, mine: bool = False
) -> Mapping[str, int]:
    """Export into a file or folder, and return how many there are of each kind of record."""
    if form in TAKERS:
        with _open_private(path, lock) as file:
            return {"memory": await export_text(file, core, TAKERS[form])}
    with ProgressBar("Exporting", quiet=quiet) as report:
        if form == "markdown":
            return await export_notes(Path(path), core, report)
        with _open_private(path, lock) as file:
            return await export_to(file, core, report, mine=mine)


def _export_summary(form: str, counts: Mapping[str, int]) -> str:
    if form in TAKERS:
        hold = "holds" if counts["memory"] == 1 else "hold"
        return f"{count_in_words('memory', counts['memory'])} that {hold} now. {TAKERS[form].then}"
    if form == "markdown":
        return ", ".join(f"{count:,} notes {what}" for what, count in counts.items()) + "."
    parts = [count_in_words(record, number) for record, number in counts.items()] or ["nothing"]
    return f"Exported {', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}."


@command
async def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            show_default=False,
            help="A file or folder, or - for standard input; for agi also a postgresql:// URL. With --undo an import's "
            "id or file; the last import by default.",
        ),
    ] = "",
    system: Annotated[
        str,
        typer.Option(
            "--from",
            help=f"{', '.join(SYSTEMS[:-1])} or {SYSTEMS[-1]}; detected by default.",
            autocompletion=completing(SYSTEMS),
        ),
    ] = "",
    mapped: Annotated[
        str, typer.Option("--map", help="Of csv and json: columns of fields, such as content=text,created_at=date.")
    ] = "",
    encoding: Annotated[str, typer.Option(help="Encoding of files that aren't Unicode, such as cp1252.")] = "",
    gone: Annotated[Fate, typer.Option(help="Memories whose exported notes you deleted: ask, forget or keep.")] = "ask",
    identity: Annotated[Path | None, typer.Option(help="File of the secret key of an encrypted export.")] = None,
    restore_erased: Annotated[
        bool, typer.Option("--restore-erased", help="Also import memories that you erased here.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be imported, or undone.")] = False,
    lists: Annotated[bool, typer.Option("--list", help="List the imports, the latest first.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo an import: show what that takes back, and ask.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --undo: skip the prompt.")] = False,
    as_json: AsJson = False,
) -> int:
    """Conversations become turns, everything else memories. Secrets are left out. You can repeat an import: it adds
    nothing twice. The exit code is 1 if anything was not imported.

    Examples: `pgengram import chatgpt-export.zip --dry-run`, `pgengram import ~/.claude/projects`,
    `pgengram export - | ssh ada@box pgengram import -`, `pgengram import --undo`
    """
    if in_space.get():
        raise InvalidInput(
            "Nothing is imported into a shared space.", "Import it as your own, then share what others need."
        )
    ACTOR.set(COMMAND_LINE)
    if undo or lists:
        async with _opened_core(embedder="none:") as core:  # the one that is set may be gone
            if lists:
                return await list_imports(core, as_json=as_json)
            return await undo_import(core, source, dry_run=dry_run, yes=yes, as_json=as_json)
    if not source:
        raise InvalidInput("Nothing to import was named.", "Name a file or folder: pgengram import PATH")
    mapping = _mapping(mapped)
    with readable_file(source, identity) as path:
        if not mapping and source != "-" and "://" not in source:
            system, mapping = await asyncio.to_thread(_system_and_mapping, system, path, encoding)
        core = Core(Settings.from_environment())
        try:
            await core.ready()
            with ProgressBar("Reading" if dry_run else "Importing") as report:
                imported = await import_from(
                    core, system, path, dry_run=dry_run, report=report, mapping=mapping, encoding=encoding,
                    restore_erased=restore_erased,
                )  # fmt: skip
            if not as_json:
                _print_report_of_import(imported)
            forgotten = await settle(core.store, imported, gone, source, as_json=as_json)
        except asyncio.CancelledError:
            print_note(INTERRUPTED)
            raise
        finally:
            await core.close()
    if as_json:
        print_json(imported.as_dict() | _fate(imported, forgotten, gone, source))
    elif forgotten:
        say(f"Forgot {counted(forgotten)}. `pgengram restore` brings one back.")
    return FAILED if imported.left else 0


def _fate(imported: Imported, forgotten: int, gone: Fate, source: str) -> dict[str, Any]:
    """Return what became of memories whose notes are gone, or what forgets them."""
    if not imported.gone:
        return {}
    return {"forgotten": forgotten} if gone != "ask" else {"forgotten": 0, "to_forget": forget_command(source)}


def _system_and_mapping(system: str, source: str, encoding: str) -> tuple[str, dict[str, str]]:
    """Return which system's a source is and, of rows of any shape, which columns are taken as what: in a terminal as
    the user says, to whom a guess is shown.
    """
    if system not in ("", "csv", "json"):
        return system, {}
    system, shape = shape_of(system, Source(Path(source), encoding))
    if shape is None or not sys.stdin.isatty():
        return system, shape.guess if shape else {}
    say("Columns:\n" + "\n".join(f"  {name}: {example}" for name, example in shape.columns.items()))
    shown = ",".join(f"{field}={column}" for field, column in shape.guess.items())
    answer = answer_of(lambda: typer.prompt("Which column goes into which field?", default=shown or "content="))
    return system, _mapping(answer)


def _mapping(written: str) -> dict[str, str]:
    """Return which column goes into which field, of FIELD=COLUMN,FIELD=COLUMN."""
    return dict(name_value(one) for one in written.split(",") if one)


def _print_examples(imported: Imported) -> None:
    if imported.examples:
        say(", ".join(f"{count:,} {kind}" for kind, count in imported.kinds.most_common()))
        say("Examples:\n" + "\n".join(f"  {example}" for example in imported.examples))


def _print_report_of_import(imported: Imported) -> None:
    say(f"Format: {imported.system}.")
    screen.print(_import_table(imported))
    if imported.redacted:
        say(f"Secrets were redacted in {counted(imported.redacted, 'record', 'records')}.")
    if imported.since and imported.until:
        first, last = (f"{at:%Y-%m-%d}" for at in (imported.since, imported.until))
        say(f"All from {first}." if first == last else f"From {first} to {last}.")
    if imported.dry_run:
        _print_examples(imported)
    elif imported.added["turn"]:
        say(TURNS)
    _show_reasons("not imported", imported.reasons)
    _show_reasons("left out", imported.passed)


def _import_table(imported: Imported) -> Table:
    """Return how many of each kind of record were added, changed, or there already."""
    table = plain_table("", "record")
    columns = {"added": imported.added, "changed": imported.updated, "already there": imported.known}
    if not any(imported.updated.values()):
        del columns["changed"]
    for heading in columns:
        would = "would be " if imported.dry_run and heading != "already there" else ""
        table.add_column(would + heading, justify="right")
    for record in dict.fromkeys([*imported.added, *imported.updated, *imported.known]):
        name = NAMES.get(record, ("", f"{record}s"))[1].replace("_", " ")
        table.add_row(name, *(f"{counts[record]:,}" for counts in columns.values()))
    return table


def _show_reasons(what: str, reasons: Mapping[str, LeftOut]) -> None:
    """Print why something was not imported, each reason once."""
    if not reasons:
        return
    say(f"{sum(one.count for one in reasons.values()):,} {what}:")
    shown = sorted(reasons.items(), key=lambda item: -item[1].count)
    for reason, one in shown[:MOST_SHOWN]:
        more = one.count - len(one.first)
        say(f"  {', '.join(one.first)}{f' and {more:,} more' if more else ''}: {reason}")
    if len(shown) > MOST_SHOWN:
        say(f"  … and {len(shown) - MOST_SHOWN:,} more reasons; --json lists all.")


@contextmanager
def _open_private(path: str, lock: Lock | None) -> Iterator[TextIO]:
    """Open a file that only its owner can read, and that takes its name when it is complete."""
    if path != "-":
        with _unfinished(Path(path)) as binary, _text_writer(binary, lock) as file:
            yield file
    elif lock is None:
        yield sys.stdout
        sys.stdout.flush()
    else:
        with _text_writer(sys.stdout.buffer, lock) as file:
            yield file


@contextmanager
def _text_writer(binary: BinaryIO, lock: Lock | None) -> Iterator[TextIO]:
    """Take a text, and write its bytes, or what is encrypted of them."""
    with TextIOWrapper(binary if lock is None else BytesIO(), encoding="utf-8", newline="\n") as file:
        yield file
        file.flush()
        if lock is not None:
            binary.write(lock(cast("BytesIO", file.buffer).getvalue()))
            binary.flush()


@contextmanager
def _unfinished(target: Path) -> Iterator[BinaryIO]:
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise InvalidInput(f"{target} cannot be written.", "Give a file in a folder that exists, or - for stdout.")
    unfinished = target.with_name(target.name + ".unfinished")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield file
        unfinished.replace(target)
    except OSError as error:  # no right to write there, a full disk
        raise Conflict(f"{target} cannot be written: {error.strerror or error}.", "Choose another folder.") from None
    finally:
        with suppress(OSError):  # where nothing could be written there is nothing to remove
            unfinished.unlink(missing_ok=True)
