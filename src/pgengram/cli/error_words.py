"""Errors of the tools in the words of the command line: options for arguments, commands for calls."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from typer.models import ArgumentInfo, OptionInfo

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
