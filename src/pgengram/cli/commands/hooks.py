"""`pgengram hook`: what an assistant runs at its events. `__main__` goes past this module, which would take too
long.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pgengram.runtime import hook_client

Settings = Annotated[Path | None, typer.Option(help="File with the store's settings, written by `connect`.")]


def hook(
    client: Annotated[str, typer.Argument(help="The assistant, such as claude-code.")],
    recall: Annotated[bool, typer.Option("--recall", help="Recall memories, but don't keep the conversation.")] = False,
    settings: Settings = None,
) -> None:
    """Reads an event as JSON from standard input and prints the answer for the assistant. The exit code is always 0, so
    that the session continues; `hooks.log` in the data folder has the errors.

    Example: `pgengram hook claude-code`
    """
    chosen = [*(["--recall"] if recall else []), *(["--settings", str(settings)] if settings else [])]
    raise typer.Exit(hook_client.main([client, *chosen]))
