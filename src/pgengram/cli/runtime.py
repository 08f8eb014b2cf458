"""What commands share: how one runs, asks, prints, and reaches the store."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from rich.console import Console
from rich.text import Text

from pgengram.cli.waiting import end_waiting, show_progress, sign_of_life
from pgengram.errors import InvalidInput, PgengramError
from pgengram.runtime.context import ACTOR, COMMAND_LINE, PROGRESS
from pgengram.settings import Settings

if TYPE_CHECKING:
    from pgengram.service.manager import MemoryManager
    from pgengram.service.spaces import Spaces
    from pgengram.store.store import Store

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")
FAILED: Final = 1  # the exit code when something failed, or a question was answered with no
INVALID: Final = 2  # … when an argument or a setting is wrong
INTERRUPTED: Final = 130  # … after Ctrl+C, as shells have it
UNREAD: Final = 141  # … when the reader of a pipe is gone

in_space: ContextVar[str] = ContextVar("in_space", default="")  # the space that a command was given
screen = Console()
notes = Console(stderr=True)


def command(function: Callable[Parameters, Coroutine[Any, Any, int | None]]) -> Callable[Parameters, None]:
    """Run an asynchronous command; our errors become one line on stderr and an exit code."""

    @wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        import typer

        raise typer.Exit(finished(function(*args, **kwargs), function) or 0)

    return run


def finished(work: Coroutine[Any, Any, int | None], typed: Callable[..., Any] | None = None) -> int | None:
    """Return what a command's work comes to: its own answer, or the exit code of what ended it, which is told.

    Args:
        work: the work.
        typed: the command, whose options an error names.
    """
    import asyncio

    from pgengram.runtime.process_setup import event_loop

    try:
        with asyncio.Runner(loop_factory=event_loop) as runner:
            return runner.run(work)
    except PgengramError as error:
        from pgengram.cli.help import as_typed

        return print_error(as_typed(error.as_dict(), typed))
    except KeyboardInterrupt:
        print_note("Ended by Ctrl+C.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD


# -- printing ----------------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    """Print a text as it is: no markup, no highlighting, no line broken."""
    screen.print(text, highlight=False, markup=False, soft_wrap=True)


def print_note(text: str) -> None:
    """Print a text as it is to standard error."""
    notes.print(text, highlight=False, markup=False, soft_wrap=True)


def print_json(answer: Any, **options: Any) -> None:
    """Print a pydantic model (with `options` of its dump) or plain data as JSON."""
    if hasattr(answer, "model_dump_json"):
        text = answer.model_dump_json(indent=2, **{"exclude_none": True, **options})
    else:
        text = json.dumps(answer, indent=2, ensure_ascii=False)
    print(text)  # noqa: T201 - rich would break long lines


def print_line(facts: Mapping[str, Any]) -> None:
    """Print facts as one line of JSON, at once."""
    print(json.dumps(facts, ensure_ascii=False), flush=True)  # noqa: T201


def print_answer(text: str, data: Any, *, as_json: bool) -> None:
    """Print what a command came to: data for programs, or a sentence."""
    if as_json:
        print_json(data)
    else:
        say(text)


def shell_line(line: str, variables: Mapping[str, str], *, windows: bool = sys.platform == "win32") -> str:
    """Return a line that can be pasted into a shell (on Windows PowerShell), which sets variables for a command."""
    if windows:
        quoted = {name: value.replace("'", "''") for name, value in variables.items()}
        return "; ".join([*(f"$env:{name} = '{value}'" for name, value in quoted.items()), line])
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), line])


def print_error(error: Mapping[str, str]) -> int:
    """Print an error as it leaves in an answer, and what to do next, to standard error; return the exit code."""
    end_waiting()
    said = Text.assemble(("Error: ", "bold red"), error["message"], (f" ({error['code']})", "dim"))
    notes.print(said, highlight=False, soft_wrap=True)
    print_note(error["hint"])
    return INVALID if error["code"] == InvalidInput.code else FAILED


NOTHING_GIVEN: Final = "blank → left out"  # how an argument without a text was read, which needs no explaining


def note_readings(answer: Mapping[str, Any]) -> None:
    """Print to standard error how arguments were read that were given otherwise."""
    for argument, reading in (answer.get("read") or {}).items():
        if reading == NOTHING_GIVEN:
            continue
        known_ones = ""
        if argument == "kind":
            from pgengram.fields import KINDS  # here, because it takes long to import

            known_ones = f"; the kinds are {', '.join(KINDS)}"
        notes.print(f"{argument}: {reading}{known_ones}", style="dim", highlight=False, markup=False, soft_wrap=True)


# -- asking ------------------------------------------------------------------------------------------------------------


def confirm(question: str, *, yes: bool = False) -> bool:
    """Whether a person says yes to a question, or said --yes; a no is told.

    Raises:
        InvalidInput: there is no terminal to ask at.
    """
    import typer

    if yes or answer_of(lambda: typer.confirm(question, err=True)):
        return True
    say("Cancelled. Nothing was changed.")
    return False


def typed_out(question: str, name: str) -> bool:
    """Whether a person types the name of what is to be erased; anything else is told as a no.

    Raises:
        InvalidInput: there is no terminal to ask at.
    """
    import typer

    if answer_of(lambda: typer.prompt(question, default="", show_default=False)) == name:
        return True
    say("Cancelled. Nothing was changed.")
    return False


def answer_of(ask: Callable[[], Answer]) -> Answer:
    """Return what a person answers; Ctrl+C ends the command at once, where the loop would wait for the answer first.

    Raises:
        InvalidInput: there is no terminal to ask at.
    """
    if not sys.stdin.isatty():
        raise InvalidInput(
            "Confirmation needed, but there is no terminal.", "Nothing was changed. Use --yes to skip the prompt."
        )
    import typer

    end_waiting()
    loops = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return ask()
    except typer.Abort:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, loops)


# -- arguments ---------------------------------------------------------------------------------------------------------


def completing(words: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that completes the beginning of one of these words for a shell."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def name_value(argument: str) -> tuple[str, str]:
    """Split an argument of the form name=value.

    Raises:
        InvalidInput: it has another form.
    """
    name, equals, value = argument.partition("=")
    if not equals:
        raise InvalidInput(f"{argument!r} is not in the form name=value.")
    return name, value


def known_word(word: str, words: Iterable[str], what: str) -> str:
    """Return a word that must be one of `words`.

    Raises:
        InvalidInput: it is not; the hint lists them, and the most similar one first.
    """
    if word in words:
        return word
    from difflib import get_close_matches

    close = get_close_matches(word.lower(), words, 1)
    meant = f" Did you mean {close[0]}?" if close else ""
    raise InvalidInput(f"Unknown {what}: {word!r}.{meant}", f"Use one of {', '.join(words)}.")


# -- the store ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def opened_manager(*, personal: bool = False) -> AsyncIterator[MemoryManager]:
    """Yield a manager with the settings of the environment, of the space that was named if one was, and close it
    afterwards; `personal` for a command that is about one's own memories alone.

    Raises:
        InvalidInput: a space was named, and the command is about one's own memories.
        NoSuchSpace: the person whose memories the settings name is in no space of that name.
    """
    if personal:
        _expect_no_space()
    with sign_of_life():
        from pgengram.service.manager import MemoryManager

    ACTOR.set(COMMAND_LINE)
    PROGRESS.set(show_progress)
    manager = MemoryManager(Settings.from_environment())
    try:
        if name := in_space.get():
            spaces = await _spaces_of(manager)
            async with spaces.manager(await spaces.named(name)) as shared:
                yield shared
        else:
            yield manager
    finally:
        await manager.close()


def _expect_no_space() -> None:
    if in_space.get():
        raise InvalidInput("This command can't be used in a space.", "Leave out --space.")


@asynccontextmanager
async def opened_spaces() -> AsyncIterator[Spaces]:
    """Yield the spaces of the person whose memories the environment names, with all that the person may do there."""
    async with opened_manager(personal=True) as home:
        yield await _spaces_of(home)


async def _spaces_of(home: MemoryManager) -> Spaces:
    from pgengram.service.spaces import own_spaces

    with sign_of_life():
        await home.ready(embeds=False)
    return own_spaces(home)


@asynccontextmanager
async def opened_store(settings: Settings | None = None) -> AsyncIterator[Store]:
    """Yield a store with the settings of the environment, its schema up to date, and close it afterwards.

    Raises:
        InvalidInput: a space was named, and this is about no memories or those of others, too.
    """
    _expect_no_space()
    from pgengram.store.store import Store

    store = Store(settings or Settings.from_environment())
    try:
        with sign_of_life():
            await store.open()
        yield store
    finally:
        await store.close()


async def call_tool(namespace: object, name: str, given: Mapping[str, Any]) -> Any:
    """Call a tool of the manager, or of a group of tools, as an assistant does; an argument of None is left out.

    Raises:
        InvalidInput: an argument is wrong; nothing was changed.
    """
    from pgengram.service.calls.arguments import Arguments
    from pgengram.service.tools import tools_of

    [taken] = [Arguments(tool) for tool in tools_of(namespace) if tool.name == name]
    with sign_of_life():
        answer = await taken.read({key: value for key, value in given.items() if value is not None}).run()
    note_readings({"read": answer.read})
    return answer
