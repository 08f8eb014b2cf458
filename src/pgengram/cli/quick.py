"""`pgengram search`, `list`, `show` and `add`, plainly typed, in a fraction of the full command's time.

A running server of the store answers them. Where none runs, PostgreSQL starts while the rest is imported, and nothing
is that reads options; and whoever types gets a server for the moment, which answers what is typed next and ends a
minute after the last. An option or value that is not as it should be is left to the full command, which explains it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from pgengram.cli.waiting import sign_of_life
from pgengram.errors import InvalidInput
from pgengram.runtime import local_socket
from pgengram.settings import Settings

Options = dict[str, Any]
Request = dict[str, Any]  # the tool that is called, and with which arguments

ANSWER_S: Final = 30.0  # for a server to answer; a call that takes longer is made again, which stores nothing twice
TEXT, LIST, FLAG, NUMBER = "text", "list", "flag", "number"
WORDS: Final = "words"  # what is no option
_JSON: Final = {"--json": ("json", FLAG)}
_PAGE: Final = {"--limit": ("limit", NUMBER), "-n": ("limit", NUMBER), **_JSON}
_ABOUT: Final = {"--project": ("project", TEXT), "--user": ("user", TEXT), "--tag": ("tags", LIST)}
_FILTERS: Final = {
    **_ABOUT, "--type": ("type", LIST), "--kind": ("kind", LIST), "--since": ("since", TEXT), "--until": ("until", TEXT),
}  # fmt: skip
OPTIONS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "search": {
        **_FILTERS, **_PAGE, "--as-of": ("as_of", TEXT), "--mode": ("mode", TEXT), "--why": ("why", FLAG),
        "--turns": ("turns", FLAG), "--all": ("everything", FLAG),
    },
    "list": {
        **_FILTERS, **_PAGE, "--forgotten": ("forgotten", FLAG), "--archived": ("archived", FLAG),
        "--sort": ("sort", TEXT), "--offset": ("offset", NUMBER),
    },
    "show": {**_JSON, "--history": ("history", FLAG)},
    "add": {
        **_ABOUT, **_JSON, "--type": ("type", TEXT), "--kind": ("kind", TEXT), "--importance": ("importance", NUMBER),
        "--occurred-at": ("occurred_at", TEXT), "--expires-at": ("expires_at", TEXT),
        "--related-to": ("related_to", LIST), "--replaces": ("replaces", LIST), "--pin": ("pin", FLAG),
    },
}  # fmt: skip
ORIGIN: Final = {"capture_mode": "explicit", "source_provider": "command line"}


def searching(
    query: list[str], *, why: bool = False, everything: bool = False, turns: bool = False, limit: int = 10, **asked: Any
) -> Options:
    """Return the arguments of search_memories for `search`."""
    del why, everything  # these two only change what is shown
    return {"mode": "auto", **asked, "query": query, "limit": limit, "include": ["turns"] if turns else []}


def listing(*, forgotten: bool = False, archived: bool = False, **asked: Any) -> Options:
    """Return the arguments of search_memories for `list`.

    Raises:
        InvalidInput: both sorts of memories are asked for.
    """
    if forgotten and archived:
        raise InvalidInput("--forgotten and --archived can't be combined.", "Use one of them.")
    status = "invalidated" if forgotten else "archived" if archived else None
    return {"sort": "created", "limit": 20, **asked, "status": status, "offset": asked.get("offset") or None}


def reading(ids: list[str], *, history: bool = False) -> Options:
    """Return the arguments of get_memories for `show`."""
    return {"ids": ids, "include": ["relations", "clusters", *(["history"] if history else [])]}


def add_arguments(content: str, *, pin: bool = False, **described: Any) -> Options:
    """Return the arguments of create_memory for `add`."""
    return {"content": content, **described, "pinned": pin or None, **ORIGIN}


CALLS: Final[Mapping[str, tuple[str, Callable[..., Options]]]] = {
    "search": ("search_memories", searching),
    "list": ("search_memories", listing),
    "show": ("get_memories", reading),
    "add": ("create_memory", add_arguments),
}


def quick(arguments: list[str]) -> int | None:
    """Run a command if it is one of these and plainly typed.

    Returns:
        The exit code; None where the full command has to do it.
    """
    name, *words = arguments
    options = _parse_options(OPTIONS[name], words) if name in OPTIONS else None
    try:
        called = _request(name, options) if options is not None else None
        if options is None or called is None:
            return None
        settings = Settings.from_environment()
        answer = _server_answer(called) if local_socket.SUPPORTED else None
    except (InvalidInput, local_socket.Unanswered):
        return None
    if answer is None:
        return _without_server(name, options, called, settings)
    text = answer.get("answer")
    if not isinstance(text, str):  # an error, which changed nothing: the full command says it in its own words
        return None
    found = json.loads(text)
    if "read" in found:
        from pgengram.cli import runtime

        runtime.note_readings(found)
    return _print_found(name, options, found, text)


def _server_answer(called: Request) -> dict[str, object] | None:
    """Return what a running server answers, None where there is none."""
    with sign_of_life():
        return local_socket.ask_server(local_socket.Endpoints(os.environ), called, ANSWER_S)


def _without_server(name: str, options: Options, called: Request, settings: Settings) -> int | None:
    """Run a command without a server; return None for what the full command has to explain."""
    import atexit
    import gc

    ended: list[int] = []
    atexit.register(_end_at_once, ended)  # before anything that registers more, so that it comes after that
    gc.disable()  # the process is over before there is much to collect
    embeds = name == "add" or bool(called["arguments"].get("query"))
    if settings.data_path.exists():  # a command that is wrong makes no store
        from pgengram.store import ahead

        ahead.start_ahead(settings, embeds=embeds)
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True  # a command uses few of the models
    from pgengram.cli import runtime

    async def work() -> int | None:
        async with runtime.opened_manager() as manager:
            if manager.models.configured is not None and embeds:
                manager.models.configured.load_ahead()  # beside PostgreSQL's start
            try:
                answer = await runtime.call_tool(manager, called["call"], called["arguments"])
            except InvalidInput:
                return None
            shown = _print_found(
                name, options, answer.model_dump(), answer.model_dump_json(indent=2, exclude_none=True)
            )
            _answer_the_next()
            return shown

    code = runtime.finished(work())
    ended.extend([] if code is None else [code])
    return code


def _answer_the_next() -> None:
    """Start a server for the moment where a person types, who may go on; what a program runs leaves nothing behind."""
    if not local_socket.SUPPORTED or not sys.stdin.isatty() or not sys.stdout.isatty():
        return
    with suppress(OSError):  # no room, or a folder of somebody else: the next command takes as long as this one
        local_socket.start_server(local_socket.Endpoints(os.environ))


def _end_at_once(codes: list[int]) -> None:
    """End with the code of a command that was run; taking apart what was imported would take as long as a search."""
    if codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0])


def _request(name: str, options: Options) -> Request | None:
    """Return the request that a command makes; None for what is typed otherwise than it should be."""
    tool, arguments_of = CALLS[name]
    words = options[WORDS]
    if bool(words) == (name == "list") or (name == "add" and (len(words) > 1 or words == ["-"])):
        return None
    first = words if name == "add" else filter(None, [words])
    given = arguments_of(*first, **{key: value for key, value in options.items() if key not in (WORDS, "json")})
    return {"call": tool, "arguments": {key: value for key, value in given.items() if value is not None}}


def _print_found(name: str, options: Options, found: Mapping[str, Any], text: str) -> int:
    """Print an answer, and its text as JSON, as the full command does; return the exit code."""
    if options.get("json"):
        print(text)  # noqa: T201 - as it is
        return 1 if found.get("missing") else 0
    from pgengram.cli import output

    if name == "search":
        output.print_search(found, why=options.get("why", False), everything=options.get("everything", False))
    elif name == "list":
        output.print_list(found, options.get("offset", 0) + options.get("limit", 20))
    elif name == "show":
        output.print_read(found)
    else:
        output.print_stored(found)
    sys.stdout.flush()  # here, where it is told that nobody reads
    return 1 if found.get("missing") else 0


def _parse_options(known: Mapping[str, tuple[str, str]], words: list[str]) -> Options | None:
    """Return options by their names and the other words; None for anything that is not plain."""
    found: Options = {WORDS: []}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            found[WORDS].append(word)
            continue
        flag, equals, value = word.partition("=")
        name, sort = known.get(flag, ("", ""))
        if equals and (sort == FLAG or not flag.startswith("--")):
            return None
        if sort != FLAG and not equals:
            value = next(rest, "-")
        if not _is_plain(name, value) or not _took(found, name, sort, value):
            return None
    return found


def _is_plain(name: str, value: str) -> bool:
    """Whether an option is known, and its value is not one that only the full command reads."""
    return bool(name) and not value.startswith("-") and (name, value) != ("project", ".")


def _took(found: Options, name: str, sort: str, value: str) -> bool:
    """Note an option; whether its value can be one."""
    if sort == LIST:
        found.setdefault(name, []).append(value)
    elif sort == NUMBER:
        try:
            found[name] = int(value) if name in ("limit", "offset") else float(value)
        except ValueError:
            return False
    else:
        found[name] = True if sort == FLAG else value
    return True
