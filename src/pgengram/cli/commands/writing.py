"""`pgengram add`, `edit`, `forget` and `restore`."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pgengram import fields as f
from pgengram.cli.help import NAME_VALUE
from pgengram.cli.options import KIND_HELP, TYPES, AsJson, Ids, Yes, project_named
from pgengram.cli.output import as_line, print_errors, print_stored, say_undo
from pgengram.cli.quick import add_arguments
from pgengram.cli.runtime import (
    FAILED,
    call_tool,
    command,
    completing,
    known_word,
    name_value,
    opened_manager,
    print_answer,
    print_json,
    print_note,
    say,
)
from pgengram.errors import Conflict, InvalidInput, NotFound, PgengramError
from pgengram.text.shown import counted

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager

EDITABLE: Final = ("kind", "importance", "tags", "project", "user", "pinned", "occurred_at", "expires_at")
RULE: Final = "---"
HINT: Final = "# Save and close to keep the changes; empty the file to change nothing.\n"
UNDONE: Final = (*EDITABLE, "content", "type", "metadata", "confidence", "emotion", "speaker", "collection")
CLEARABLE: Final = ("kind", "tags", "project", "user", "occurred_at", "expires_at")


@command
async def add(
    content: Annotated[str, typer.Argument(help="The text to remember; - reads standard input.")],
    type: Annotated[
        str | None, typer.Option(help=f"{TYPES}.", autocompletion=completing(f.TYPES), show_default=False)
    ] = None,
    kind: Annotated[str | None, typer.Option(help=KIND_HELP, autocompletion=completing(f.KINDS))] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag. Repeatable.")] = None,
    importance: Annotated[float | None, typer.Option(help="From 0 (trivia) to 1 (never forget).", min=0, max=1)] = None,
    project: Annotated[
        str | None, typer.Option(help="The project it belongs to; `.` is this folder's.", callback=project_named)
    ] = None,
    user: Annotated[str | None, typer.Option(help="The person it is about or for.")] = None,
    occurred_at: Annotated[str | None, typer.Option(help="When it happened.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="When to hide it.")] = None,
    related_to: Annotated[list[str] | None, typer.Option(help="Id of a memory to link to. Repeatable.")] = None,
    replaces: Annotated[list[str] | None, typer.Option(help="Id of a memory that no longer holds. Repeatable.")] = None,
    pin: Annotated[bool, typer.Option("--pin", help="Never let it fade.")] = False,
    as_json: AsJson = False,
) -> None:
    """Examples: `pgengram add "Mara prefers tea." --kind preference --tag drinks`, `git log -1 --format=%B | pgengram
    add -`
    """
    described = {"type": type, "kind": kind, "tags": tag, "importance": importance}
    described |= {"related_to": related_to, "replaces": replaces}
    placed = {"project": project, "user": user, "occurred_at": occurred_at, "expires_at": expires_at}
    given = add_arguments(_from_stdin() if content == "-" else content, pin=pin, **described, **placed)
    async with opened_manager() as manager:
        stored = await call_tool(manager, "create_memory", given)
    if as_json:
        print_json(stored)
        return
    print_stored(stored.model_dump())


@command
async def edit(
    id: Annotated[str, typer.Argument(metavar="ID", help="An id, or its last 8 or more digits.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar=NAME_VALUE, help="What to change. Without it your editor opens.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Undo the last change.")] = False,
    as_json: AsJson = False,
) -> None:
    """Uses the editor in `$VISUAL` or `$EDITOR`.

    Examples: `pgengram edit e8d03e19`, `pgengram edit e8d03e19 importance=0.9 tags=billing,sepa`,
    `pgengram edit e8d03e19 --undo`
    """
    async with opened_manager() as manager:
        if undo:
            given: Mapping[str, Any] = await _before_the_last_change(manager, id)
        elif changes:
            given = {"id": id, **dict(name_value(one) for one in changes)}
        else:
            given = _edited_by_person(await _read_one(manager, id))
            if len(given) == 1:
                say("Nothing was changed.")
                return
        try:
            updated = await call_tool(manager, "update_memory", given)
        except PgengramError:
            if not changes and "content" in given:
                print_note(f"Your text:\n{given['content']}")
            raise
    print_answer(updated.message, updated, as_json=as_json)
    if updated.changed_fields and not as_json:
        say_undo("edit", updated.memory_id, option="--undo")


async def _before_the_last_change(manager: MemoryManager, id_: str) -> dict[str, Any]:
    """Return the arguments of update_memory that undo the last change of a memory's fields.

    Raises:
        NotFound: there is no such memory.
        Conflict: its last change was not a change of fields.
    """
    memory = await _read_one(manager, id_, include=["history"])
    last = memory["history"][0]
    old = {name: pair[0] for name, pair in (last.get("changes") or {}).items() if name in UNDONE}
    if last["operation"] != "update" or not old:
        raise Conflict(
            f"The last change was not an edit ({last['operation']}).", "`pgengram show ID --history` shows all."
        )
    emptied = [name for name, value in old.items() if value in (None, [])]
    for name in emptied:
        del old[name]
    return {"id": memory["id"], "expected_version": memory["version"], "clear": emptied or None, **old}


async def _read_one(manager: MemoryManager, id_: str, **more: Any) -> dict[str, Any]:
    found = await call_tool(manager, "get_memories", {"ids": [id_], **more})
    if not found.memories:
        raise NotFound("memory", id_, "Use `pgengram search` to find the right id.")
    memory: dict[str, Any] = found.memories[0]
    return memory


@command
async def forget(
    ids: Ids,
    reason: Annotated[str, typer.Option(help="Why; kept in the history.")] = "",
    replaced_by: Annotated[
        list[str] | None, typer.Option(help="Id of the memory that replaces it. Repeatable.")
    ] = None,
    hard: Annotated[bool, typer.Option("--hard", help="Erase permanently; asks first.")] = False,
    turns: Annotated[bool, typer.Option("--turns", help="With --hard, also erase the turns that they cite.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Forgotten memories don't appear in search. Erased ones can't be restored.

    Examples: `pgengram forget e8d03e19 --reason "moved to another bank"`, `pgengram forget e8d03e19 --hard`
    """
    from pgengram.cli.options import TerminalAsker
    from pgengram.runtime.context import ASKER
    from pgengram.service.confirming import Declined

    ASKER.set(TerminalAsker(yes=yes))
    async with opened_manager() as manager:
        given = {"ids": ids, "reason": reason, "replaced_by_ids": replaced_by, "hard": hard, "turns": turns}
        try:
            done = await call_tool(manager, "forget_memories", given)
        except Declined:
            return FAILED
    if as_json or done.ok:
        print_answer(done.message, done, as_json=as_json)
    if not as_json:
        _print_forgotten(done.results, hard=hard)
    return 0 if all(result["ok"] for result in done.results) else 1


def _print_forgotten(results: list[dict[str, Any]], *, hard: bool) -> None:
    """Print how to restore what was forgotten, the receipt of what was erased, and what could not be."""
    made = [one for one in results if one["ok"]]
    if hard and made:
        say("\n".join(map(_receipt, made)))
    elif fresh := [one["id"] for one in made if not one["already_forgotten"]]:
        say_undo("restore", *fresh)
    print_errors(results)


def _receipt(erased: dict[str, Any]) -> str:
    removed = [f"{name.replace('_', ' ')} {number:,}" for name, number in erased["removed"].items() if number]
    return f"Receipt: {erased['id']}, {erased['erased_at']}, with its {', '.join(removed)}"


def _from_stdin() -> str:
    """Return what is in standard input.

    Raises:
        InvalidInput: it is not in UTF-8.
    """
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise InvalidInput("Standard input is not in UTF-8.", "Convert it; nothing was stored.") from None


@command
async def restore(
    what: Annotated[
        list[str], typer.Argument(metavar="FILE|ID…", help="A file written by `pgengram backup`, or ids of memories.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Restore a backup without asking.")] = False,
    without_copy: Annotated[bool, typer.Option("--without-copy", help="Don't back up the store as it was.")] = False,
    as_json: AsJson = False,
) -> int:
    """A backup replaces the whole store; the store as it was stays in a backup of its own.

    Examples: `pgengram restore e8d03e19`, `pgengram restore /media/usb/memories.backup`
    """
    if _are_ids(what):
        return await _restore_memories(what, as_json=as_json)
    if len(what) > 1:
        raise InvalidInput("Give the file of one backup, or ids of memories.")
    from pgengram.cli.store.backups import restore_backup

    return await restore_backup(Path(what[0]), yes=yes, without_copy=without_copy, as_json=as_json)


def _are_ids(words: list[str]) -> bool:
    """Whether all words look like memories' ids, and none is a file."""
    return all(f.is_id(word) and not Path(word).exists() for word in words)


async def _restore_memories(ids: list[str], *, as_json: bool) -> int:
    """Restore forgotten or archived memories; return 1 when an id matches none."""
    results: list[dict[str, Any]] = []
    async with opened_manager() as manager:
        for id_ in ids:
            try:
                done = await call_tool(manager, "update_memory", {"id": id_, "status": "active"})
                results.append({"id": done.memory_id, "ok": True, "restored": bool(done.changed_fields)})
            except (NotFound, Conflict) as error:
                results.append({"id": id_, "ok": False, "error": error.as_dict()})
    print_answer(_restored_line(results), {"results": results}, as_json=as_json)
    if not as_json:
        print_errors(results)
    return 0 if all(result["ok"] for result in results) else 1


def _restored_line(results: list[dict[str, Any]]) -> str:
    back = sum(result.get("restored", False) for result in results)
    there = sum(result["ok"] for result in results) - back
    if not there:
        return f"{counted(back)} restored."
    unchanged = f"{counted(there)} {'was' if there == 1 else 'were'} not forgotten."
    return f"{counted(back)} restored. {unchanged}" if back else unchanged


def _edited_by_person(memory: dict[str, Any]) -> dict[str, Any]:
    """Have a person edit a memory, and return the change that this makes; its id alone when it makes none.

    Raises:
        InvalidInput: there is no editor, it failed, or what was saved cannot be read.
    """
    said = {name: as_line(memory.get(name)) for name in EDITABLE}
    head = "".join(f"{name}: {value}\n" for name, value in said.items())
    saved = _from_editor(f"{HINT}{head}{RULE}\n{memory['content']}\n")
    if not saved.strip():
        return {"id": memory["id"]}
    top, rule, body = saved.partition(f"{RULE}\n")
    if not rule:
        raise InvalidInput(f"The line {RULE} between the fields and the text is missing.", "Nothing was changed.")
    change = _changed_fields(top, said)
    if body.rstrip("\n") != memory["content"].rstrip("\n"):
        change["content"] = body.rstrip("\n")
    return {"id": memory["id"], **change, **({"expected_version": memory["version"]} if change else {})}


def _changed_fields(text: str, said: Mapping[str, str]) -> dict[str, Any]:
    """Return the lines `name: value` that say something else than `said`, as arguments of update_memory."""
    change: dict[str, Any] = {}
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, value = (part.strip() for part in line.partition(":"))
        if value == said[known_word(name, EDITABLE, "field")]:
            continue
        if value or name not in CLEARABLE:
            change[name] = value
        else:
            change.setdefault("clear", []).append(name)
    return change


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
        except subprocess.CalledProcessError as error:
            raise InvalidInput(
                f"The editor {words!r} exited with code {error.returncode}.", "Nothing was changed."
            ) from None
        except (OSError, ValueError) as error:
            raise InvalidInput(f"The editor {words!r} cannot be run: {error}.", "Set EDITOR to another.") from None
        return path.read_text(encoding="utf-8")
