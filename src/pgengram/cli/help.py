"""How the help of a command and of a group of commands is written."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, CommandFunctionType, OptionInfo

NAME_VALUE: Final = "name=value…"  # of arguments that name what they set
IMPLIED: Final = "implied_values"  # of a command's function: options that may stand alone, and what they mean then
PYTHON_TYPE: Final = re.compile(r" <(?:list\[)?([^>\]]*)\]?>$")  # as typer ends the name of an argument or option
VALUES: Final = {
    "str": "TEXT", "int": "NUMBER", "int range": "NUMBER", "float": "NUMBER", "float range": "NUMBER",
    "dir": "FOLDER", "file": "FILE", "path": "PATH",
}  # fmt: skip


class Command(TyperCommand):
    """A command some of whose options may stand without the value that they mean then."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give such an option its value."""
        if any(one.metavar == NAME_VALUE for one in self.params):
            _refuse_options(ctx, args, {name for one in self.get_params(ctx) for name in one.opts})
        implied = getattr(self.callback, IMPLIED, {})
        return list(super().parse_args(ctx, [f"{one}={implied[one]}" if one in implied else one for one in args]))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Write arguments as manual pages do: QUERY, [CLIENT], ID…"""
        return [self.options_metavar or "", *_arguments(self.get_params(ctx))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Name arguments as the usage does, and values of options in capitals, where typer writes Python's types."""
        for title, kind, named in (("Arguments", "argument", _argument), ("Options", "option", _option_name)):
            records = [one.get_help_record(ctx) for one in self.get_params(ctx) if one.param_type_name == kind]
            if lines := [(named(name), text) for name, text in filter(None, records)]:
                with formatter.section(title):
                    formatter.write_dl(lines)


class Group(TyperGroup):
    """A group whose help says about each command all of its first paragraph."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with its summary, which goes on below itself where the line is too short."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_paragraph(one.help or "")) for name, one in _commands(self, ctx)])


class Commands(typer.Typer):
    """Commands that share a first word, such as `pgengram projects list`."""

    def __init__(self, summary: str) -> None:
        super().__init__(cls=Group, help=summary, no_args_is_help=True, add_completion=False, rich_markup_mode=None)

    def command(self, name: str | None = None, **given: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Register a command."""
        return super().command(name, **{"cls": Command, **given})


def _commands(group: TyperGroup, ctx: Any) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(ctx):
        yield name, group.get_command(ctx, name)


def _arguments(parameters: Sequence[Any]) -> Iterator[str]:
    for one in parameters:
        if one.param_type_name == "argument":
            name = (one.metavar or one.name.upper()).removesuffix("…")
            several = "…" if one.nargs != 1 else ""
            yield f"{name}{several}" if one.required else f"[{name}]{several}"


def _refuse_options(ctx: Any, args: Sequence[str], known: Collection[str]) -> None:
    """Fail at an option that resembles none; a command that takes name=value says how to write that."""
    from difflib import get_close_matches

    for at, one in enumerate(args):
        if one == "--":
            return
        option, equals, value = one.partition("=")
        if option.startswith("--") and option not in known and not get_close_matches(option, known):
            value = value if equals else next(iter(args[at + 1 : at + 2]), "…")
            ctx.fail(f"No such option: {option}. Write {option[2:].replace('-', '_')}={value} instead.")


def _argument(name: str) -> str:
    bare = PYTHON_TYPE.sub("", name).replace("...", "…")
    return bare.upper() if bare.isidentifier() or (bare.endswith("…") and bare[:-1].isidentifier()) else bare


def _option_name(name: str) -> str:
    return PYTHON_TYPE.sub(lambda found: f" {VALUES.get(found[1], found[1])}", name)


def _first_paragraph(text: str) -> str:
    """Return the first paragraph of a help on one line."""
    return " ".join(text.partition("\n\n")[0].split())


ASK_FOR_HELP: Final = "Nothing was changed. Add --help to see what the command accepts."
CALLS: Final = (  # what an assistant would call, and what a person types; the longer ones first
    (r"Correct the argument and call again; nothing was changed\.", ASK_FOR_HELP),
    (r"Find the ids first with search_memories\(.*?\), then call \w+ with them", "`pgengram search` finds ids"),
    (r"to store all of it call create_memories\(.*\), each part in full with the other fields of this call",
     "for all of it, write it into a file and use `pgengram import`"),
    (r"To forget it call forget_memories\(.*?\)", "To forget it, use `pgengram forget ID`"),
    (r"Read the memory again with get_memories and repeat the change on what is there now",
     "`pgengram show ID` shows what is there now; repeat the change on that"),
    (r"The confirm_token is not valid: it is .*", "The preview is no longer valid."),
    (r"The confirmation was given for other ids .*", "The preview was of other memories, or they have changed since."),
    (r"(?:Call again|Repeat the call) without confirm_token to .*", "Run the command again to see what it would do now."),
    (r"with update_memory \(status active\)", "with `pgengram restore ID`"),
    (r"with update_memory", "with `pgengram edit ID`"),
    (r"\bsearch_memories\b", "`pgengram search`"),
    (r"\bget_memories\b", "`pgengram show`"),
    (r"\breview_memories\b", "`pgengram review`"),
    (r"\bcall again\b", "run the command again"),
    (r"\bCall again\b", "Run the command again"),
    (r"The call can be", "The command can be"),
    (r"the call can be", "the command can be"),
)  # fmt: skip
PART: Final = re.compile(r"(?:^|(?<=; ))(\w+)(?:\[\d+\])?(?= (?:must|is|holds|contains|has) )")
NAMES_TOOLS: Final = frozenset({"call"})  # commands at which tools are typed by their own names
SINGULAR: Final = {"tags": "tag", "types": "type", "ids": "id"}  # an option that is repeated has one name


def as_typed(error: Mapping[str, str], command: Callable[..., Any] | None) -> dict[str, str]:
    """Return an error of a tool as it is told to whoever typed a command."""
    names = _parameter_names(command) if command else {}

    def typed(found: re.Match[str]) -> str:
        name = found[1]
        return names.get(name) or names.get(SINGULAR.get(name, "")) or found[0]

    said = str if getattr(command, "__name__", "") in NAMES_TOOLS else in_commands
    return {**error, "message": said(PART.sub(typed, error["message"])), "hint": said(error["hint"])}


def in_commands(text: str) -> str:
    """Return a text with commands where it names calls of an assistant."""
    for call, command in CALLS:
        text = re.sub(call, command, text)
    return text


def _parameter_names(command: Callable[..., Any]) -> dict[str, str]:
    """Return how a command's parameters are typed, by their names."""
    parameters = inspect.signature(command, eval_str=True).parameters
    infos = {name: getattr(one.annotation, "__metadata__", (None,))[0] for name, one in parameters.items()}
    options = {name: _option_of(name, info) for name, info in infos.items() if isinstance(info, OptionInfo)}
    arguments = {name: info.metavar or name.upper() for name, info in infos.items() if isinstance(info, ArgumentInfo)}
    return options | arguments


def _option_of(name: str, info: OptionInfo) -> str:
    long = (one for one in info.param_decls or () if one.startswith("--"))
    return next(long, f"--{name.replace('_', '-')}")
