"""Mistakes made by rule instead of one by one: each way to write a name, a value, a date or an id, for each argument that may be
written so, in each tool of the core.

A case has the form of those in mistakes.json, so that one judge is good for both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

Case = dict[str, Any]
TEXT: Final = "Elin plays the nyckelharpa."
NEW: Final = "The boiler of Elin's flat was serviced on 4 October 2026."


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.title() for part in others)


# How else a name may be written, whatever it is.
NAMES: Final[dict[str, Callable[[str], str]]] = {
    "camel case": camel,
    "Pascal case": lambda name: camel(name)[0].upper() + camel(name)[1:],
    "hyphens": lambda name: name.replace("_", "-"),
    "capitals": str.upper,
    "a blank": lambda name: name.replace("_", " "),
    "white space around it": lambda name: f" {name} ",
    "a quote around it": lambda name: f'"{name}"',
}
# How else a value may be written, by its type; what makes nothing of it changes nothing.
VALUES: Final[dict[type, dict[str, Callable[[Any], Any]]]] = {
    str: {
        "in a list": lambda value: [value],
        "with white space": lambda value: f"  {value}\n",
        "with a non-breaking space": lambda value: f"\u00a0{value}\u00a0",
    },
    bool: {
        "as a word": lambda value: str(value),
        "as yes": lambda value: "yes" if value else "no",
        "as on": lambda value: "on" if value else "off",
        "as a number": int,
        "as a number in a text": lambda value: str(int(value)),
        "in a list": lambda value: [value],
    },
    int: {
        "as text": str,
        "as a fraction": float,
        "as text with white space": lambda value: f" {value} ",
        "in a list": lambda value: [value],
        "as a fraction in a text": lambda value: f"{value}.0",
    },
    float: {
        "as text": str,
        "as text with a comma": lambda value: str(value).replace(".", ","),
        "in per cent": lambda value: f"{value * 100:.0f}%",
        "in per cent with a blank": lambda value: f"{value * 100:.0f} %",
        "of ten": lambda value: f"{value * 10:.0f}/10",
        "of ten in words": lambda value: f"{value * 10:.0f} out of 10",
        "in a list": lambda value: [value],
    },
    list: {
        "as JSON text": json.dumps,
        "as one text": ", ".join,
        "as the only one": lambda value: value[0],
        "with a null": lambda value: [*value, None],
        "with a blank": lambda value: [*value, " "],
        "twice": lambda value: [*value, *value],
    },
    dict: {
        "as JSON text": json.dumps,
        "as JSON text with white space": lambda value: f" {json.dumps(value)} ",
        "in a list": lambda value: [value],
    },
}
# How else 7 November 2026 may be written; whatever the hour, the day is that one or, west of UTC, the one before.
DATES: Final = (
    "2026-11-07", "2026-11-07T10:00", "2026-11-07 10:00:00", "2026-11-07T10:00:00+02:00", "2026-11-07T10:00:00+0200",
    "2026-11-07T10:00:00.000Z", "2026/11/07", "20261107", "7 Nov 2026", "Nov 7, 2026", "November 7th, 2026", "7th of November 2026",
    "07.11.2026", "7. November 2026", "7 de noviembre de 2026", "7 novembre 2026", "7 listopada 2026", "7 november 2026",
    "Saturday, 7 November 2026", "Sat, 07 Nov 2026 10:00:00 GMT", 1794045600, "1794045600", 1794045600000,
)  # fmt: skip
THE_DAY: Final = {"matches": "^2026-11-0(7|6T[12])"}
# How else an id may be written.
IDS: Final = (
    "{boiler}", "{boiler:-8}", "{BOILER}", " {boiler}\n", "[{boiler}]", "<{boiler}>", '"{boiler}"', "memory://{boiler}", "id: {boiler}",
    "memory {boiler}", "#{boiler:-8}", "…{boiler:-12}", "...{boiler:-8}", "{boiler:-8},", "({boiler})", "`{boiler}`", "urn:uuid:{boiler}",
)  # fmt: skip
OF_NEW: Final[dict[str, Any]] = {
    "kind": "goal", "importance": 0.7, "confidence": 0.6, "tags": ["music", "folk"], "user": "Elin", "project": "tern-map",
    "occurred_at": "2026-11-07T10:00:00Z", "expires_at": "2031-01-31T10:00:00Z", "pinned": True, "metadata": {"since": "2019"},
}  # fmt: skip
TOLD: Final = frozenset(
    {"kind", "importance", "confidence", "tags", "user", "project", "occurred_at", "expires_at", "pinned", "metadata"}
)


def stored(name: str, value: Any) -> dict[str, Any]:
    """Return what a memory must have of an argument, however it was written."""
    if isinstance(value, float):
        return {name: {"between": [value, value]}}
    return {name: {"has": value} if isinstance(value, list) else value}


def made(tool: str, mistake: str, arguments: dict[str, Any], accepted: dict[str, Any], *names: str) -> Case:
    """Return a case that is accepted as it is meant, or refused with the name of the argument."""
    return {
        "tool": tool,
        "mistake": mistake,
        "arguments": arguments,
        "accepted": accepted,
        "refused": [[*names]] if names else [],
    }


def by_name() -> Iterator[Case]:
    """Yield calls with the name of one argument written otherwise."""
    for name, value in OF_NEW.items():
        for how, write in NAMES.items():
            if write(name) != name:
                arguments = {"content": TEXT, write(name): value}
                yield made(
                    "create_memory",
                    f"{name} with {how}",
                    arguments,
                    {"stored": {"content": TEXT, **stored(name, value)}},
                    name,
                    write(name),
                )
    for name, value in {"min_importance": 0.9, "count_only": True, "min_similarity": 0.1}.items():
        for how, write in NAMES.items():
            if write(name) != name:
                check = {"told": ["total"]} if name == "count_only" else {"found": ["nuts"]}
                yield made(
                    "search_memories",
                    f"{name} with {how}",
                    {"query": "hazelnuts", write(name): value},
                    check,
                    name,
                    write(name),
                )
    for how, write in NAMES.items():
        yield made("get_memories", f"ids with {how}", {write("ids"): ["{boiler}"]}, {"found": ["boiler"]}, "ids")
        yield made(
            "forget_memories",
            f"reason with {how}",
            {"ids": ["{boiler}"], write("reason"): "It moved."},
            {"forgotten": ["boiler"]},
            "reason",
            write("reason"),
        )
        arguments = {"id": "{boiler}", "content": NEW, write("importance"): 0.9}
        yield made(
            "update_memory",
            f"importance with {how}",
            arguments,
            {"of": "boiler", "stored": {"content": NEW, **stored("importance", 0.9)}},
            "importance",
            write("importance"),
        )


def by_value() -> Iterator[Case]:
    """Yield calls with the value of one argument written otherwise."""
    for name, value in OF_NEW.items():
        for how, write in VALUES[type(value)].items():
            if how == "as the only one" and len(value) > 1:
                continue
            arguments = {"content": TEXT, name: write(value)}
            check = {"content": TEXT, **stored(name, value)}
            yield made("create_memory", f"{name} {how}", arguments, {"stored": check}, name)
            yield made("create_memories", f"{name} {how} in an item", {"items": [arguments]}, {"stored": check}, name)
            if name not in ("user", "project"):
                change = {"id": "{boiler}", name: write(value)}
                yield made(
                    "update_memory", f"{name} {how}", change, {"of": "boiler", "stored": stored(name, value)}, name
                )
    searched = {"limit": 3, "detail": True, "min_similarity": 0.1, "tags": ["health"], "user": "Elin"}
    for name, value in searched.items():
        for how, write in VALUES[type(value)].items():
            yield made(
                "search_memories",
                f"{name} {how}",
                {"query": "hazelnuts", name: write(value)},
                {"found": ["nuts"]},
                name,
            )


def by_date() -> Iterator[Case]:
    """Yield calls with a date written otherwise."""
    for date in DATES:
        yield made(
            "create_memory",
            f"occurred_at as {date!r}",
            {"content": TEXT, "occurred_at": date},
            {"stored": {"occurred_at": THE_DAY}},
            "occurred_at",
        )
        yield made(
            "update_memory",
            f"occurred_at as {date!r}",
            {"id": "{boiler}", "occurred_at": date},
            {"of": "boiler", "stored": {"occurred_at": THE_DAY}},
            "occurred_at",
        )
        yield made(
            "search_memories",
            f"until as {date!r}",
            {"query": "", "until": date},
            {"without": ["boiler", "nuts"]},
            "until",
        )


def by_id() -> Iterator[Case]:
    """Yield calls with an id written otherwise."""
    for id_ in IDS:
        yield made("get_memories", f"an id as {id_}", {"ids": [id_]}, {"found": ["boiler"]}, "id")
        yield made(
            "update_memory",
            f"an id as {id_}",
            {"id": id_, "content": NEW},
            {"of": "boiler", "stored": {"content": NEW}},
            "id",
        )
        yield made("forget_memories", f"an id as {id_}", {"ids": id_}, {"forgotten": ["boiler"]}, "id")
        yield made(
            "create_memory",
            f"what it replaces as {id_}",
            {"content": NEW, "replaces": id_},
            {"forgotten": ["boiler"], "stored": {"content": NEW}},
            "replaces",
        )


def cases() -> list[Case]:
    """Return all of them, each mistake once."""
    return [case for family in (by_name, by_value, by_date, by_id) for case in family()]
