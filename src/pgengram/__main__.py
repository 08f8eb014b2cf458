"""The command `pgengram`: alone it serves MCP over stdio; with arguments it is a command line for people."""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False  # typing's own; a hook starts with this module, and importing typing would take longer
if TYPE_CHECKING:
    from typing import Final

    from pgengram.mcp.stdio.lines import ReplayState

FIRST_STEPS: Final = """\
pgengram gives AI assistants a long-term memory. An assistant starts it; you don't have to.

  pgengram demo      see it in action, in a minute
  pgengram connect   connect the assistants on this machine
  pgengram ui        search and edit memories in your browser
  pgengram --help    list all commands
"""
COMPLETING: Final = "_PGENGRAM_COMPLETE"  # a shell sets it when it asks what a word may become
# Where a part cannot be had, and what to use instead.
INSTEAD: Final = {
    ("win32", "ARM64"): "pgengram does not run on Python for Windows on Arm, which psycopg lacks. "
    "Install the 64-bit (x86-64) Python from python.org, which Windows 11 on Arm runs too, and install pgengram with "
    "it.",
    ("darwin", "x86_64"): "pgengram does not run on Python 3.14 on Intel Macs, which onnxruntime lacks. "
    "Install it with Python 3.13.",
}


def main() -> None:
    """Serve, or run the command line."""
    use_utf8()
    if (
        sys.argv[1:2] == ["hook"] and "--help" not in sys.argv and len(sys.argv) > 2
    ):  # an assistant waits for it: nothing else is imported
        from pgengram.runtime import hook_client

        raise SystemExit(hook_client.main(sys.argv[2:]))

    refuse_unsupported()
    if len(sys.argv) == 1 and COMPLETING not in os.environ:
        serve_over_stdio()
    else:
        try:
            from pgengram.cli.quick import quick

            code = None if COMPLETING in os.environ else quick(sys.argv[1:])
            if code is not None:
                raise SystemExit(code)
            from pgengram.cli.app import app

            app(prog_name="pgengram")  # whatever its file is called: completion asks by this name
        except KeyboardInterrupt:  # while it was still being imported
            raise SystemExit(130) from None


def refuse_unsupported() -> None:
    """End the program with a sentence where it cannot run."""
    import platform

    here = (sys.platform, platform.machine())
    if here in INSTEAD and (sys.platform != "darwin" or sys.version_info >= (3, 14)):
        sys.stderr.write(f"pgengram: {INSTEAD[here]}\n")
        raise SystemExit(2)


def use_utf8() -> None:
    """Read and write UTF-8 on the standard streams, also where Windows would use its code page: in pipes and files."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def serve_over_stdio() -> None:
    """Serve the memory tools over stdin and stdout until the client leaves."""
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(FIRST_STEPS)
        raise SystemExit(2)
    from pgengram.mcp.stdio.watchdog import claim_stdio

    fds = claim_stdio()  # first of all: nothing but the protocol may reach the client, whatever is printed from here on
    from pgengram.mcp.stdio.relay import relayed

    replay = relayed(fds, os.environ)
    if replay is None:
        return
    from pgengram.errors import PgengramError

    try:
        _serve(replay)
    except PgengramError as error:
        if replay.first is not None:
            replay.first.give_up()
        sys.stderr.write(f"pgengram: {error.message} {error.hint}\n")
        raise SystemExit(2) from None


def _serve(replay: ReplayState) -> None:
    """Serve until the client leaves.

    Raises:
        PgengramError: a setting is not allowed.
    """
    from pgengram.runtime import process_setup
    from pgengram.settings import Settings
    from pgengram.store import ahead

    settings = Settings.from_environment()
    process_setup.share_one_arena()  # before there are other threads
    ahead.start_ahead(settings, embeds=False)  # a server may never be asked
    # What the SDK takes for HTTP, if it is there.
    sys.modules.setdefault("uvicorn.main", None)  # type: ignore[arg-type]
    import gc

    gc.disable()  # until everything is imported
    import asyncio

    from pydantic import BaseModel

    # Of the SDK's models a session uses few; to make the validators of all of them takes a quarter of the imports.
    BaseModel.model_config["defer_build"] = True
    from pgengram.mcp.relayed_clients import ClientSession
    from pgengram.mcp.serving import serve_stdio
    from pgengram.runtime import logs
    from pgengram.runtime.local_socket import working_folder
    from pgengram.runtime.process_setup import event_loop

    async def run() -> None:
        logs.start_telemetry()
        session = ClientSession(settings, working_folder())
        await serve_stdio(
            session.manager,
            settings,
            instructions=session.instructions,
            more=session.more,
            local_api=session.memories,
            replay=replay,
            spaces=session.spaces,
        )

    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(run())


if __name__ == "__main__":
    main()
