"""`pgengram hook`: what an assistant runs at its events. `__main__` goes past this module, which would take too long."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgengram.runtime import hook_client

Settings = Annotated[Path | None, typer.Option(help="File with the store's settings, which `connect` writes.")]


def hook(
    client: Annotated[str, typer.Argument(help="The assistant, such as claude-code.")],
    recall: Annotated[bool, typer.Option("--recall", help="Bring memories, and keep no conversation.")] = False,
    settings: Settings = None,
) -> None:
    """An event is read from standard input as JSON; what is printed is for the assistant. Whatever fails, the exit code
    is 0, so that the session goes on; `hooks.log` in the data folder says why.

    Example: `pgengram hook claude-code`
    """
    chosen = [*(["--recall"] if recall else []), *(["--settings", str(settings)] if settings else [])]
    raise typer.Exit(hook_client.main([client, *chosen]))
