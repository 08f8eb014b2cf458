"""The command `pgengram`: alone it serves MCP over stdio; with arguments it is a command line for people."""

from __future__ import annotations

import os
import sys

from pgengram.runtime.consoles import use_utf8

TYPE_CHECKING = False  # typing's own; a hook starts with this module, and importing typing would take longer
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, Final

    from pgengram.service.manager import MemoryManager

REQUESTS: Final = (
    "list_resources", "list_resource_templates", "read_resource", "list_prompts", "get_prompt", "completion",
)  # fmt: skip
FIRST_STEPS: Final = """\
pgengram gives AI assistants a long-term memory. An assistant starts it; you don't have to.

  pgengram demo      see it in action, in a minute
  pgengram connect   connect the assistants on this machine
  pgengram ui        search and edit memories in your browser
  pgengram --help    list all commands
"""
COMPLETING: Final = "_PGENGRAM_COMPLETE"  # a shell sets it when it asks what a word may become


def main() -> None:
    """Serve, or run the command line."""
    use_utf8()
    if (
        sys.argv[1:2] == ["hook"] and "--help" not in sys.argv and len(sys.argv) > 2
    ):  # an assistant waits for it: nothing else is imported
        from pgengram.runtime import hook_client

        raise SystemExit(hook_client.main(sys.argv[2:]))
    from pgengram.runtime.platforms import refuse_unsupported

    refuse_unsupported()
    if len(sys.argv) == 1 and COMPLETING not in os.environ:
        serve()
    else:
        try:
            from pgengram.cli.quick import quick

            code = None if COMPLETING in os.environ else quick(sys.argv[1:])
            if code is not None:
                raise SystemExit(code)
            from pgengram.cli.app import app

            app()
        except KeyboardInterrupt:  # while it was still being imported
            raise SystemExit(130) from None


def answering(request: str, manager: MemoryManager) -> Callable[..., Awaitable[Any]]:
    """Return what answers a request for resources or prompts; it is imported when the first one comes."""

    async def answer(context: Any, params: Any) -> Any:
        from pgengram.mcp.resources import Handlers

        return await getattr(Handlers(manager), request)(context, params)

    return answer


def instructions_here(manager: MemoryManager) -> str:
    """Return the instructions, with the project of the folder that the client has started the server in, if it is one."""
    from pgengram.mcp.server import INSTRUCTIONS
    from pgengram.service.projects import told

    manager.here = manager.projects.worked_on()
    return f"{INSTRUCTIONS}\n\n{told(manager.here)}" if manager.here else INSTRUCTIONS


def serve() -> None:
    """Serve the memory tools over stdin and stdout until the client leaves."""
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(FIRST_STEPS)
        raise SystemExit(2)
    from pgengram.mcp.stdio.fds import claim_stdio

    claim_stdio()  # first of all: nothing but the protocol may reach the client, whatever is printed from here on
    import gc

    gc.disable()  # until everything is imported: the server freezes what is there and enables it again
    import asyncio

    from pgengram.errors import PgengramError
    from pgengram.mcp.serving import serve_stdio
    from pgengram.runtime import telemetry
    from pgengram.runtime.loop import event_loop
    from pgengram.service.manager import MemoryManager
    from pgengram.settings import Settings

    async def run() -> None:
        settings = Settings.from_environment()
        telemetry.start()
        manager = MemoryManager(settings)
        more = {f"on_{request}": answering(request, manager) for request in REQUESTS}
        if settings.compat:
            from pgengram.compat import adapter_for

            speaker = adapter_for(settings.compat, manager)
            await serve_stdio(speaker, settings, instructions=speaker.instructions, more=more, behind=manager)
        else:
            await serve_stdio(manager, settings, instructions=instructions_here(manager), more=more, behind=manager)

    try:
        with asyncio.Runner(loop_factory=event_loop) as runner:
            runner.run(run())
    except PgengramError as error:
        sys.stderr.write(f"pgengram: {error.message} {error.hint}\n")
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
