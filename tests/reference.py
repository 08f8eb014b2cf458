"""The reference, written from the code: `python tests/reference.py` writes docs/reference/*.md anew.

`test_reference.py` fails while a page is another than what the code says.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from pgengram import errors
from pgengram import library as of_programs
from pgengram.cli.app import app
from pgengram.cli.clients import client_configs as c
from pgengram.cli.clients import config_edits, connecting
from pgengram.library import given, results
from pgengram.mcp.binding import ToolBinding, paragraphs
from pgengram.mcp.resources import PROMPTS, RESOURCES, SCHEME, TEMPLATE
from pgengram.service.manager import MemoryManager
from pgengram.service.sharing import Sharing
from pgengram.service.spaces import SpaceManagers, Spaces
from pgengram.service.tools import tools_of
from pgengram.settings import PREFIX, TOOLSETS, Settings
from pgengram.transfer.importers import SYSTEMS

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
COMMON = "Common arguments"  # of several tools or commands, each described once
ANCHOR = f"#{COMMON.lower().replace(' ', '-')}"
MADE = "<!-- made by tests/reference.py -->"
SHORT = {"type", "description", "default", "anyOf", "items", "enum", "title", "const", "$ref"}
BOUNDS = (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems"))


# -- tools -------------------------------------------------------------------------------------------------------------


def typed(schema: dict[str, Any]) -> str:
    """Return the type of a JSON schema in words, with its bounds."""
    if "enum" in schema:
        return "|".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(typed(one) for one in schema["anyOf"] if one.get("type") != "null")
    kinds = schema.get("type", "any")
    if isinstance(kinds, list):
        return " or ".join(typed({**schema, "type": one}) for one in kinds)
    words = str(kinds)
    if words == "array":
        words = f"list of {typed({**schema.get('items', {}), 'maxLength': None})}"
    said = [
        between(schema.get(low), schema.get(high))
        for low, high in BOUNDS
        if schema.get(low) is not None or schema.get(high) is not None
    ]
    said += [schema["format"]] if "format" in schema else []
    return f"{words}, {', '.join(said)}" if said else words


def between(low: float | None, high: float | None) -> str:
    """Return the bounds of a number or of a length."""
    if low is None or high is None:
        return f"at most {high:,}" if low is None else f"at least {low:,}"
    return f"{low:,} to {high:,}"


def default(name: str, schema: dict[str, Any], required: list[str]) -> str:
    if name in required:
        return "**required**"
    value = schema.get("default")
    return (
        "" if value in (None, "", [], {}) else f"default `{str(value).lower() if isinstance(value, bool) else value}`"
    )


def effects(binding: ToolBinding) -> str:
    """Return what a call may do, in the words that stand above the list of tools."""
    hints = binding.tool.hints
    if hints.read_only:
        return "*Reads.*"
    return f"*{'Changes' if hints.destructive else 'Adds'}{', idempotent' if hints.idempotent else ''}.*"


SPACES = "With shared spaces"
OF_SPACES = (
    "Where a client may use [shared spaces](../how-to/share-with-a-team.md), all of these take `space`, and there are "
    "[two more](#with-shared-spaces)."
)


def overview() -> Iterator[str]:
    """Yield a row for each toolset: the tools in it."""
    for group in TOOLSETS:
        made = MemoryManager(Settings(embedder="none:", toolsets=group)).tools
        yield f"| `{group}` | {', '.join(f'[`{tool.name}`](#{tool.name})' for tool in made)} |"


def arguments(binding: ToolBinding) -> dict[str, str]:
    """Return what a list says of each argument of a tool, by its name."""
    schema = binding.input_schema
    return {
        name: item(
            f"`{name}`",
            (typed(one).removeprefix("string").removeprefix(", "), default(name, one, schema.get("required", []))),
            one.get("description", ""),
        )
        for name, one in schema.get("properties", {}).items()
    }


def tools() -> Iterator[str]:
    bound = {
        group: [ToolBinding(tool) for tool in MemoryManager(Settings(embedder="none:", toolsets=group)).tools]
        for group in TOOLSETS
    }
    common = said_often(row for group in bound.values() for one in group for row in arguments(one).values())
    yield "Unknown arguments are refused. Lists and objects may be sent as JSON text. An argument without a type is text."
    yield f"The toolsets {', '.join(f'`{one}`' for one in TOOLSETS if one in Settings().toolset_names)} are listed by default; `PGENGRAM_TOOLSETS` names others."
    yield (
        "*Reads*: changes nothing. *Adds*: removes and replaces nothing. *Changes*: may remove or replace. *Idempotent*: "
        f"repeating a call changes nothing more. Arguments after *Also* are among the [{COMMON.lower()}]({ANCHOR})."
    )
    yield "\n".join(["| toolset | tools |", "| --- | --- |", *overview()])
    yield OF_SPACES
    home = MemoryManager(Settings(embedder="none:"))
    sharing = [ToolBinding(tool) for tool in tools_of(Sharing(Spaces(SpaceManagers(home), None)))]
    for title, bindings in [*((f"Toolset `{group}`", found) for group, found in bound.items()), (SPACES, sharing)]:
        yield f"## {title}"
        for binding in bindings:
            yield f"### `{binding.tool.name}`"
            yield paragraphs(inspect.getdoc(binding.tool.method) or "")
            yield effects(binding)
            yield from listed(arguments(binding), common)
    yield f"## {COMMON}"
    yield from listed({row: row for row in common}, ())


def said_often(items: Iterable[str]) -> list[str]:
    """Return the items that would stand in several lists, each once, in the order of the alphabet."""
    counted = Counter(items)
    return sorted(item for item, count in counted.items() if count > 1)


def item(name: str, kind: Iterable[str], about: str) -> str:
    """Return what a list says of an argument or an option: its name, what may stand there, and what it means."""
    said = ", ".join(filter(None, kind))
    return " ".join(f"- {name}{f' ({said})' if said else ''}{f': {about}' if about else ''}".split())


def listed(items: Mapping[str, str], common: Collection[str]) -> Iterator[str]:
    """Yield a list of what is said here alone, and the names of the rest, which is said once for all."""
    here = [item for item in items.values() if item not in common]
    if here:
        yield "\n".join(here)
    if elsewhere := [name for name, item in items.items() if item in common]:
        yield f"Also {', '.join(f'`{name}`' for name in elsewhere)}."


# -- the command line --------------------------------------------------------------------------------------------------


def commands(group: Any = None, path: tuple[str, ...] = ("pgengram",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with the words it is called by."""
    for name, one in (group or typer.main.get_command(app)).commands.items():  # type: ignore[attr-defined]
        if hasattr(one, "commands"):
            yield from commands(one, (*path, name))
        else:
            yield (*path, name), one


def called(one: Any) -> str:
    """Return what an argument or an option is called, in short."""
    return str(one.metavar or one.name.upper()) if one.param_type_name == "argument" else str(one.opts[0])


def parameter(one: Any) -> str:
    """Return what a list says of an argument or an option; typer keeps the bounds of a number beside it."""
    is_argument = one.param_type_name == "argument"
    name = (
        one.metavar or one.name.upper()
        if is_argument
        else ", ".join(f"`{word}`" for word in [*one.opts, *one.secondary_opts])
    )
    value = one.default() if callable(one.default) else one.default
    required = "" if is_argument else "**required**"  # the usage shows it of an argument
    answer = required if one.required else "" if value in (None, False, "", (), []) else f"default `{value}`"
    ends = getattr(one, "min", None), getattr(one, "max", None)
    bounds = "" if ends == (None, None) else between(*ends)
    said = (one.help or "").replace(connecting.LISTED, "a name of [Clients](clients.md)")
    said = said.replace(f"{', '.join(SYSTEMS[:-1])} or {SYSTEMS[-1]}", "[a system](../how-to/bring-your-memories.md)")
    return item(f"`{name}`" if is_argument else name, (answer, bounds), said)


def usage(words: Iterable[str], one: Any) -> str:
    """Return how a command is called, with its arguments: those in brackets may be left out."""
    named = [(called(each), each.required) for each in one.params if each.param_type_name == "argument"]
    return " ".join([*words, *(name if required else f"[{name}]" for name, required in named)])


def about(words: Iterable[str], one: Any) -> str:
    """Return a command's help, with its examples where several say more than the usage does."""
    usual = f"`{' '.join(words)}`, "
    said = inspect.cleandoc(one.help or "").replace(f"Examples: {usual}", "Examples: ")
    return re.sub(r"\n+Examples?: `[^`=|\"]+`(?:, `[^`=|\"]+`)?$", "", re.sub(r"\n+Examples?: `[^`]+`$", "", said))


def command_line() -> Iterator[str]:
    found = [*commands()]
    as_text = ", ".join(f"`{' '.join(words[1:])}`" for words, one in found if "--json" not in map(called, one.params))
    yield (
        "`pgengram` without a command serves MCP over stdin and stdout. `pgengram --version` prints the version, `--install-completion` "
        "sets up completion in your shell, and `--help` after a command shows an example.\n\n"
        f"`--json` makes every command print JSON, except {as_text}. Exit codes: 0 success, 1 failure, 2 invalid argument or setting, "
        "130 Ctrl+C. Results go to standard output, all else to standard error. `NO_COLOR` switches colours off.\n\n"
        f"Arguments in brackets may be left out; those after *Also* are among the [{COMMON.lower()}]({ANCHOR})."
    )
    shown = [
        (words, one, {called(each): parameter(each) for each in one.params if each.name != "help"})
        for words, one in found
    ]
    for _, _, items in shown:
        items.pop("--json", None)
    meanings: dict[str, set[str]] = defaultdict(set)
    often = said_often(item for _, _, items in shown for item in items.values())
    for item in often:
        meanings[item.partition("`")[2].partition("`")[0]].add(item.partition(": ")[2])
    common = [item for item in often if len(meanings[item.partition("`")[2].partition("`")[0]]) == 1]
    for words, one, items in shown:
        yield f"## `{usage(words, one)}`"
        yield about(words, one)
        yield from listed(
            {name: row for name, row in items.items() if name.startswith("-") or row not in common}, common
        )
    yield f"## {COMMON}"
    yield from listed({row: row for row in common}, ())


# -- clients -----------------------------------------------------------------------------------------------------------

FOLDERS = {
    "Linux": {"{apps}": "~/.config", "{config}": "~/.config"},
    "macOS": {"{apps}": "~/Library/Application Support", "{config}": "~/.config"},
    "Windows": {"{apps}": "%APPDATA%", "{config}": "%USERPROFILE%/.config", "~": "%USERPROFILE%"},
}


def files(client: c.Client) -> str:
    """Return where a client's file is, once for the systems on which it is in the same place."""
    said: dict[str, list[str]] = {}
    for system, folders in FOLDERS.items():
        where = client.windows if system == "Windows" and client.windows else client.file
        root, _, rest = where.partition("/")
        path = f"{folders.get(root, root)}/{rest}"
        said.setdefault(path.replace("/", "\\") if system == "Windows" else path, []).append(system)
    return "; ".join(f"`{path}` ({', '.join(systems)})" for path, systems in said.items())


def clients() -> Iterator[str]:
    yield (
        "The assistants that `pgengram connect` knows, with the name that it takes. To connect one by hand, add the block to its file (the "
        "first block, unless it has one of its own), with the absolute path of `pgengram` (`which pgengram`, on Windows "
        "`where pgengram`; in JSON write each backslash twice). Settings go into the entry's variables, for example "
        '`"env": {"PGENGRAM_NAMESPACE": "work"}`.'
    )
    usual = next(iter(c.CLIENTS.values())).title
    first: dict[str, str] = {}
    for client in c.CLIENTS.values():
        yield f"## {client.title}: `{client.name}`"
        lines = [f"- File: {files(client)}"]
        if client.packaged:
            path = client.packaged.replace("/", "\\")
            lines.append(f"- Windows, the build in a package (MSIX): `%LOCALAPPDATA%\\{path}`")
        if client.moved_by:
            lines.append(f"- `{client.moved_by}` names another folder for it.")
        if client.instead:
            lines.append(f"- If `{client.instead}` exists instead, that file is used.")
        if client.shared:
            lines.append(f"- One project: `{client.shared}` (`--folder`)")
        snippet = config_edits.snippet(client, c.NAME, {"command": "/absolute/path/to/pgengram"})
        block = f"```{client.form}\n{snippet}\n```"
        if first.get(block, usual) != usual:
            lines.append(f"- Block: that of {first[block]}.")
        yield "\n".join([*lines, f"- Then: {client.then}"])
        if first.setdefault(block, client.title) == client.title:
            yield block


# -- settings, errors, resources, library ------------------------------------------------------------------------------


def settings_table() -> str:
    """Return the settings as a Markdown table."""
    rows = ["| variable | default | meaning |", "| --- | --- | --- |"]
    rows += [
        f"| `{PREFIX}{f.name.upper()}` | {f'`{f.default}`' if f.default else 'empty'} | {f.metadata['about']} |"
        for f in fields(Settings)
    ]
    return "\n".join(rows)


def settings() -> Iterator[str]:
    yield (
        "All are environment variables, read once at the start. All are optional; an empty one is at its default, and an unknown "
        'name that begins with `PGENGRAM_` is refused. In a client\'s entry they are in `"env"`.'
    )
    yield settings_table()
    yield (
        "The usual data folder is `~/.local/share/pgengram` on Linux, `~/Library/Application Support/pgengram` on macOS, "
        "`%LOCALAPPDATA%\\pgengram` on Windows, and `/var/lib/pgengram` for root."
    )


def failures() -> Iterator[str]:
    yield (
        "A tool that can't do what it is asked returns `ok: false` and an `error` with `code`, `message` and `hint`: what is wrong, "
        "and what to do next. None quotes what was sent or stored. The command line says the same, and exits with 2 for "
        "`INVALID_INPUT` and with 1 for the others. In Python they are exceptions of `pgengram.errors`, named after the code."
    )
    rows = []
    for name, one in vars(errors).items():
        if isinstance(one, type) and issubclass(one, errors.PgengramError) and one is not errors.PgengramError:
            code = "the item's own" if one is errors.ItemRefused else f"`{one.code}`"
            doc = (inspect.getdoc(one) or "").splitlines()[0]
            rows.append(f"- {code}, `{name}`: {doc}")
    yield "\n".join(rows)
    yield (
        "Protocol errors follow the specification: frames that aren't JSON-RPC messages, unknown tools and methods "
        "and missing resources are JSON-RPC errors; over HTTP, a refused request gets a status and a sentence."
    )


def resources() -> Iterator[str]:
    yield "## Resources"
    rows = [f"| `{SCHEME}{name}` | {title} | {about} | `{kind}` |" for name, (title, about, kind) in RESOURCES.items()]
    rows.append(
        f"| `{TEMPLATE}` | One memory | A memory whole, by its id, which clients may have completed. | `application/json` |"
    )
    yield "\n".join(["| address | title | what it holds | |", "| --- | --- | --- | --- |", *rows])
    yield "## Prompts"
    for name, wording in PROMPTS.items():
        yield f"### `{name}`"
        yield f"{wording.title}. {wording.description}"
        yield "\n".join(
            item(f"`{one.rstrip('*')}`", ["**required**"] if one.endswith("*") else (), about)
            for one, about in wording.arguments.items()
        )


def signature(name: str, method: Callable[..., Any]) -> str:
    """Return a method's line as Python has it, without `self`."""
    shown = str(inspect.signature(method)).replace("(self, ", "(").replace("(self)", "()")
    shown = re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)  # annotations are strings
    shown = re.sub(r"\b[gr]\.(?=[A-Z])", "", shown)  # as the library calls its modules
    return f"{'async ' if inspect.iscoroutinefunction(method) else ''}{name}{shown}"


def as_markdown(docstring: str) -> str:
    """Return a docstring with its arguments and errors as a list."""
    said, *sections = re.split(r"^(?:(Args|Raises):)$", docstring, flags=re.MULTILINE)
    items = [
        f"- {'raises ' if section == 'Raises' else ''}{', '.join(f'`{one}`' for one in name.split(', '))}: {' '.join(about.split())}"
        for section, rows in zip(sections[::2], sections[1::2], strict=True)
        for name, about in re.findall(r"^    ([\w, ]+): (.*(?:\n {5,}.*)*)", rows, re.MULTILINE)
    ]
    return "\n\n".join(filter(None, [said.strip(), "\n".join(items)]))


def methods(kind: type) -> Iterator[str]:
    """Yield a class with what a program calls."""
    yield f"## `{kind.__name__}`"
    yield as_markdown(inspect.getdoc(kind) or "")
    for name, method in vars(kind).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            yield f"### `{name}`"
            yield f"```python\n{signature(name, method)}\n```"
            yield as_markdown(inspect.getdoc(method) or "")


def names(kinds: Iterable[type]) -> Iterator[str]:
    """Yield a line for each class: what it is, and its fields; those of another class by its name."""
    for one in kinds:
        about = (inspect.getdoc(one) or "").replace("\n", " ")
        bases = [base for base in getattr(one, "__orig_bases__", ()) if getattr(base, "__annotations__", None)]
        inherited = {name for base in bases for name in base.__annotations__}
        fields = [f"`{name}`" for name in one.__annotations__ if name not in inherited]
        yield (
            f"`{one.__name__}`: {about} " + ", ".join([*(f"All of `{base.__name__}`" for base in bases), *fields]) + "."
        )


def library() -> Iterator[str]:
    yield inspect.getdoc(of_programs) or ""
    yield from methods(of_programs.Memory)
    yield from methods(of_programs.Pgengram)
    yield "## What the keyword arguments are"
    of = (
        "StoreSettings",
        "SettingNames",
        "Described",
        "DetailGiven",
        "SourceGiven",
        "New",
        "Changed",
        "Filtered",
        "Chosen",
        "Narrowed",
    )
    yield from names(getattr(given, name) for name in of)
    yield "## What the answers are"
    yield "Import them from `pgengram.library.results` to annotate your own functions."
    yield from names(
        one for one in vars(results).values() if isinstance(one, type) and one.__module__ == results.__name__
    )


PAGES: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "tools.md": ("Tools", tools),
    "command-line.md": ("Command line", command_line),
    "clients.md": ("Clients", clients),
    "settings.md": ("Settings", settings),
    "errors.md": ("Errors", failures),
    "resources-and-prompts.md": ("Resources and prompts", resources),
    "library.md": ("Library", library),
}


def page(name: str) -> str:
    """Return a page of the reference as the code has it."""
    title, parts = PAGES[name]
    return "\n\n".join([f"# {title}", MADE, *parts()]) + "\n"


if __name__ == "__main__":
    for name in PAGES:
        (FOLDER / name).write_text(page(name), encoding="utf-8")
