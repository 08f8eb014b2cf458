"""How the help of a command and of a group of commands is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType

IMPLIED: Final = "implied_values"  # of a command's function: options that may stand alone, and what they mean then


class Command(TyperCommand):
    """A command some of whose options may stand without the value that they mean then."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give such an option its value."""
        implied = getattr(self.callback, IMPLIED, {})
        return list(super().parse_args(ctx, [f"{one}={implied[one]}" if one in implied else one for one in args]))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Write arguments as manual pages do: QUERY, [CLIENT], ID…"""
        return [self.options_metavar or "", *_arguments(self.get_params(ctx))]


class Group(TyperGroup):
    """A group whose help says about each command all of its first paragraph."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with its summary, which goes on below itself where the line is too short."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(one.help or "")) for name, one in _commands(self, ctx)])


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


def _summary(text: str) -> str:
    """Return the first paragraph of a help on one line."""
    return " ".join(text.partition("\n\n")[0].split())
