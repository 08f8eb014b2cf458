"""Arguments and options that several commands have, each declared once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Final

import typer

from pgengram import fields as f
from pgengram.cli.runtime import completing, confirm, print_note
from pgengram.cli.waiting import end_waiting
from pgengram.settings import Settings


def _ids(given: list[str]) -> list[str]:
    for one in given:
        if not f.is_id(str(f.bare_id(one))):
            raise typer.BadParameter(f"{one!r} is not an id. `pgengram list` shows ids; the last 8 digits are enough.")
    return given


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the prompt.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="Ids, or their last 8 or more digits.", callback=_ids)]


def project_named(given: str | None) -> str | None:
    """Return a project as it was typed; for `.` that of the folder where the command runs."""
    if given != ".":
        return given
    from pgengram.service.projects import Projects

    found = Projects(Settings.from_environment()).of(os.getcwd())
    if found is None:
        raise typer.BadParameter("This folder belongs to no project. `pgengram projects list` shows the projects.")
    return found.name


OfProject = Annotated[str | None, typer.Option(help="Only this project; `.` is this folder's.", callback=project_named)]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=f.MAX_LIMIT, help="How many to show.")]
TYPES: Final = ", ".join(f.TYPES)
KIND_HELP: Final = f"{', '.join(f.KINDS)}."
FILTERS: Final[dict[str, Any]] = {
    "type": Annotated[list[str] | None, typer.Option("--type", help=f"{TYPES}.", autocompletion=completing(f.TYPES))],
    "kind": Annotated[list[str] | None, typer.Option("--kind", help=KIND_HELP, autocompletion=completing(f.KINDS))],
    "tag": Annotated[list[str] | None, typer.Option("--tag", help="Only with this tag. Repeatable.")],
    "project": OfProject,
    "user": Annotated[str | None, typer.Option(help="Only about or for this person.")],
    "since": Annotated[str | None, typer.Option(help="Only since then: a date, a time, or words such as yesterday.")],
    "until": Annotated[str | None, typer.Option(help="Only until then.")],
}
Asked = dict[str, Any]  # arguments of search_memories


def with_filters(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Give a command the options that say which memories are meant; it gets them as `asked`, for search_memories."""

    @wraps(function)
    async def run(*args: Any, **given: Any) -> None:
        asked = {name: given.pop(name) for name in FILTERS}
        asked["tags"] = asked.pop("tag")
        await function(*args, asked=asked, **given)

    own = signature(function, eval_str=True)
    parameters = list(own.parameters.values())
    place = list(own.parameters).index("asked")
    parameters[place : place + 1] = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=option)
        for name, option in FILTERS.items()
    ]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


class ReadsFirst:
    """Says that a person reads the preview first, so that what it shows may be agreed to for longer than a model's."""

    answer: Final = None

    async def ask(self, question: str, token: str) -> bool | None:  # noqa: ARG002 - asked by the command itself
        """Leave the question to the command."""
        return None


class TerminalAsker:
    """Puts questions to the person at the terminal; with `yes` they have agreed to everything before."""

    answer: Final = None

    def __init__(self, *, yes: bool = False, prompt: str = "Apply?") -> None:
        self._yes = yes
        self._prompt = prompt

    async def ask(self, question: str, token: str) -> bool | None:  # noqa: ARG002 - the process itself holds the token
        """Show what would be done, and wait for yes or no."""
        if not self._yes and sys.stdin.isatty():
            end_waiting()
            print_note(question)
        return confirm(self._prompt, yes=self._yes)
