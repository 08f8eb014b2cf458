"""`pgengram ui`: the web app on this machine."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from typing import Annotated, Final

import typer

from pgengram.cli.options import AsJson
from pgengram.cli.runtime import command, print_line, print_note, say
from pgengram.settings import Settings

# Where windows can be; without one of them a browser would be one that takes the terminal.
WINDOWS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@command
async def ui(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.", min=0, max=65_535)] = 8822,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the link.")] = False,
    as_json: AsJson = False,
) -> None:
    """Opens in your browser, which stays signed in while the server runs, for 30 days at most. If it runs already, you
    get a new link to it.

    Other machines can't reach it. Other users and servers of this machine can, but see nothing without a link; whoever
    opens the printed link first is signed in. `Sign-ins` in its settings shows and ends every sign-in.

    Example: `pgengram ui --no-browser --port 8823`
    """
    from pgengram.ui.serving import serve_ui

    opening: set[asyncio.Task[None]] = set()

    async def open_(link: str) -> None:
        windows = sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in WINDOWS)
        if not windows or not await asyncio.to_thread(webbrowser.open, link):
            print_note("No browser could be opened: open the link yourself.")

    def announce(link: str, ran_before: bool) -> None:
        if as_json:
            print_line({"url": link})
        else:
            say(link)
        end = "The server runs already." if ran_before else "Stop the server with Ctrl+C."
        print_note(f"This link works once; the browser that opens it stays signed in. {end}")
        if not no_browser:
            opening.add(asyncio.create_task(open_(link)))

    await serve_ui(Settings.from_environment(), port, announce)
    await asyncio.gather(*opening)
