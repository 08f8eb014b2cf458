"""What commands about memories share: how they call a tool, and what a person types for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pgengram import fields as f
from pgengram.cli import OfProject, completing
from pgengram.errors import InvalidInput
from pgengram.settings import Settings

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager


Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="Ids, or their last 8 or more digits.")]
OfType = Annotated[
    list[str] | None, typer.Option("--type", help=f"{', '.join(f.TYPES)}.", autocompletion=completing(f.TYPES))
]
OfKind = Annotated[
    list[str] | None,
    typer.Option("--kind", help="decision, preference, fact, …", autocompletion=completing(f.KINDS)),
]
Tagged = Annotated[list[str] | None, typer.Option("--tag", help="With this tag. Repeatable.")]
OfUser = Annotated[str | None, typer.Option(help="About or for this person only.")]
Since = Annotated[str | None, typer.Option(help="Happened from: a date, or a moment with its zone.")]
Until = Annotated[str | None, typer.Option(help="… until.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=f.MAX_LIMIT, help="How many.")]
FILTERS: Final = {
    "type": OfType, "kind": OfKind, "tag": Tagged, "project": OfProject, "user": OfUser, "since": Since, "until": Until,
}  # fmt: skip
Asked = dict[str, Any]  # arguments of search_memories


def narrowed(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Give a command the options that say which memories are meant; it gets them as `asked`, for search_memories."""

    @wraps(function)
    async def run(*args: Any, **given: Any) -> None:
        asked = {name: given.pop(name) for name in FILTERS}
        asked["tags"] = asked.pop("tag")
        asked |= {name: moment(asked[name]) for name in ("since", "until")}
        since, until = (asked[name] and datetime.fromisoformat(asked[name]) for name in ("since", "until"))
        if since and until and since > until:
            raise InvalidInput("--since is later than --until.", "Exchange them.")
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


@asynccontextmanager
async def memories() -> AsyncIterator[MemoryManager]:
    """Yield the manager of whoever the environment names, and close it afterwards."""
    from pgengram.service.manager import MemoryManager

    manager = MemoryManager(Settings.from_environment())
    try:
        yield manager
    finally:
        await manager.close()


async def called(namespace: object, name: str, given: Mapping[str, Any]) -> Any:
    """Call a tool of the manager, or of a group of tools, just as an assistant does; None stands for what is not said.

    Raises:
        InvalidInput: an argument is wrong; nothing was changed.
    """
    from pgengram.mcp.binding import ToolBinding
    from pgengram.service.tools import tools_of

    [binding] = [ToolBinding(tool) for tool in tools_of(namespace) if tool.name == name]
    return await binding.tool.run(binding.arguments({key: value for key, value in given.items() if value is not None}))


def moment(given: str | None) -> str | None:
    """Return a date or a moment that a person typed, in ISO 8601 with a zone: this machine's, where none is named.

    Raises:
        InvalidInput: it is none.
    """
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidInput(f"{given!r} is no date.", "Write 2026-03-01, or 2026-03-01T14:30+01:00.") from None
    return (moment if moment.tzinfo else moment.astimezone()).isoformat()
