"""`pgengram add`, `edit`, `forget`, and `restore` of memories: what is remembered, changed by typing."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from pgengram import fields as f
from pgengram.cli import AsJson, agreed, app, command, completing, notes, screen
from pgengram.cli import _pair as pair
from pgengram.cli.showing import as_line, print_json, short, tell_errors
from pgengram.cli.typed import Ids, called, memories, moment
from pgengram.errors import Conflict, InvalidInput, NotFound, PgengramError
from pgengram.text.fencing import one_line

EDITABLE: Final = ("kind", "importance", "tags", "project", "user", "pinned", "occurred_at", "expires_at")
RULE: Final = "---"
HINT: Final = "# Save and close to keep the changes; empty the file to leave all as it is.\n"
CLEARABLE: Final = ("kind", "tags", "project", "user", "occurred_at", "expires_at")


@app.command()
@command
async def add(
    content: Annotated[str, typer.Argument(help="What to remember; - reads it from standard input.")],
    type: Annotated[
        str | None, typer.Option(help=f"{', '.join(f.TYPES)}.", autocompletion=completing(f.TYPES), show_default=False)
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="decision, preference, fact, …", autocompletion=completing(f.KINDS))
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag. Repeatable.")] = None,
    importance: Annotated[float | None, typer.Option(help="0 is trivia, 1 never to forget.", min=0, max=1)] = None,
    project: Annotated[str | None, typer.Option(help="The project it belongs to.")] = None,
    user: Annotated[str | None, typer.Option(help="Whom it is about or for.")] = None,
    occurred_at: Annotated[str | None, typer.Option(help="When it happened.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="Hidden after this.")] = None,
    related_to: Annotated[list[str] | None, typer.Option(help="Id of a memory to link to. Repeatable.")] = None,
    pin: Annotated[bool, typer.Option("--pin", help="Never fades.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remember something.

    Examples: `pgengram add "Mara prefers tea." --kind preference --tag drinks`, `git log -1 --format=%B | pgengram add -`
    """
    given = {
        "content": _read() if content == "-" else content,
        "type": type, "kind": kind, "tags": tag, "importance": importance, "project": project, "user": user,
        "occurred_at": moment(occurred_at), "expires_at": moment(expires_at), "related_to": related_to,
        "pinned": pin or None, "capture_mode": "explicit", "source_provider": "command line",
    }  # fmt: skip
    async with memories() as manager:
        stored = await called(manager, "create_memory", given)
    if as_json:
        print_json(stored)
        return
    screen.print(f"{stored.message} [cyan]{short(stored.memory_id)}[/cyan]", highlight=False)
    for near in stored.near_duplicates or []:
        screen.print(f"  nearly the same: {short(near['id'])} {escape(one_line(near['excerpt']))}", highlight=False)


@app.command()
@command
async def edit(
    id: Annotated[str, typer.Argument(metavar="ID", help="An id, or its last 8 or more digits.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="name=value…", help="What to change; left out: your editor opens.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change a memory in your editor, or the named fields at once.

    The editor is that of `$VISUAL` or `$EDITOR`.

    Examples: `pgengram edit e8d03e19`, `pgengram edit e8d03e19 importance=0.9 tags=billing,sepa`
    """
    async with memories() as manager:
        if changes:
            given: Mapping[str, Any] = {"id": id, **dict(pair(one) for one in changes)}
        else:
            found = await called(manager, "get_memories", {"ids": [id]})
            if not found.memories:
                raise NotFound("memory", id, "Use `pgengram search` to find the right id.")
            given = _edited(found.memories[0])
            if len(given) == 1:
                screen.print("Nothing was changed.")
                return
        try:
            updated = await called(manager, "update_memory", given)
        except PgengramError:
            if not changes and "content" in given:
                notes.print("Your text:", highlight=False)
                notes.print(given["content"], markup=False, highlight=False, soft_wrap=True)
            raise
    if as_json:
        print_json(updated)
    else:
        screen.print(updated.message, highlight=False, markup=False)


@app.command()
@command
async def forget(
    ids: Ids,
    reason: Annotated[str, typer.Option(help="Why, for whoever looks later.")] = "",
    replaced_by: Annotated[
        list[str] | None, typer.Option(help="Id of a memory that holds instead. Repeatable.")
    ] = None,
    hard: Annotated[bool, typer.Option("--hard", help="Erase for good, after a question.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> int:
    """Take memories out of every search.

    `pgengram restore` brings them back. With --hard nothing does.

    Examples: `pgengram forget e8d03e19 --reason "moved to another bank"`, `pgengram forget e8d03e19 --hard`
    """
    from pgengram.runtime.context import ASKER

    async def ask(question: str) -> bool | None:
        if not yes and sys.stdin.isatty():
            notes.print(question, markup=False, highlight=False)
        return agreed("Do it?", yes=yes)

    ASKER.set(ask)
    async with memories() as manager:
        given = {"ids": ids, "reason": reason, "replaced_by_ids": replaced_by, "hard": hard}
        done = await called(manager, "forget_memories", given)
    if as_json:
        print_json(done)
    else:
        screen.print(done.message, highlight=False, markup=False)
        tell_errors(done.results)
    return 0 if all(result["ok"] for result in done.results) else 1


def _read() -> str:
    """Return what stands in standard input.

    Raises:
        InvalidInput: it is not in UTF-8.
    """
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise InvalidInput("Standard input is not in UTF-8.", "Convert it; nothing was stored.") from None


def are_ids(words: list[str]) -> bool:
    """Whether all words look like memories' ids, and none is a file."""
    return all(re.fullmatch(r"[0-9A-Fa-f-]{8,36}", word) and not Path(word).exists() for word in words)


async def restore_memories(ids: list[str], *, as_json: bool) -> int:
    """Bring forgotten or archived memories back; 1 when an id means none."""
    results: list[dict[str, Any]] = []
    async with memories() as manager:
        for id_ in ids:
            try:
                done = await called(manager, "update_memory", {"id": id_, "status": "active"})
                results.append({"id": done.memory_id, "ok": True, "restored": bool(done.changed_fields)})
            except (NotFound, Conflict) as error:
                results.append({"id": id_, "ok": False, "error": error.as_dict()})
    if as_json:
        screen.print_json(json.dumps({"results": results}))
    else:
        back = sum(result.get("restored", False) for result in results)
        screen.print(f"{back} restored, {sum(r['ok'] for r in results) - back} were there already.", highlight=False)
        tell_errors(results)
    return 0 if all(result["ok"] for result in results) else 1


def _edited(memory: dict[str, Any]) -> dict[str, Any]:
    """Have a person edit a memory, and return the change that this makes; only id and version when it makes none.

    Raises:
        InvalidInput: there is no editor, it failed, or what was saved cannot be read.
    """
    said = {name: as_line(memory.get(name)) for name in EDITABLE}
    head = "".join(f"{name}: {value}\n" for name, value in said.items())
    saved = _from_editor(f"{HINT}{head}{RULE}\n{memory['content']}\n")
    change: dict[str, Any] = {"id": memory["id"]}
    if not saved.strip():
        return change
    top, rule, body = saved.partition(f"{RULE}\n")
    if not rule:
        raise InvalidInput(f"The line {RULE} between the fields and the text is gone.", "Nothing was changed.")
    for line in top.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or name not in EDITABLE:
            raise InvalidInput(f"{name!r} is no field of these.", f"Known are {', '.join(EDITABLE)}.")
        if value == said[name]:
            continue
        if value or name not in CLEARABLE:
            change[name] = moment(value) if name.endswith("_at") else value
        else:
            change.setdefault("clear", []).append(name)
    if body.rstrip("\n") != memory["content"].rstrip("\n"):
        change["content"] = body.rstrip("\n")
    return change if len(change) == 1 else {**change, "expected_version": memory["version"]}


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
                f"The editor {words!r} ended with code {error.returncode}.", "Nothing was changed."
            ) from None
        except (OSError, ValueError) as error:
            raise InvalidInput(f"The editor {words!r} cannot be run: {error}.", "Set EDITOR to another.") from None
        return path.read_text(encoding="utf-8")
