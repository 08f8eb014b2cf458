"""What must be true of a statement for Citus to send the whole of it to the one worker that has the namespace."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pgengram.store.schema.tables import OWNED

NAMES = "|".join(sorted((table.name for table in OWNED), key=len, reverse=True))
VALUE = r"%\(namespace_id\)s"
NO_ALIAS = "where|on|using|set|order|group|limit|left|right|full|inner|cross|join|returning|select|values|union|for|as|tablesample"
NAMED = re.compile(
    rf"\b(?P<verb>INSERT INTO|FROM|JOIN|UPDATE|USING|,)\s+(?P<table>{NAMES})\b(?!\s*\.)"
    rf"(?:\s+AS\b)?(?:\s+(?!(?:{NO_ALIAS})\b)(?P<alias>[a-z_]+))?",
    re.IGNORECASE,
)


def faults(statement: str) -> list[str]:
    """Return what is wrong with a statement; a condition counts only in the query that names the table, by the table's alias."""
    text = re.sub(r"--[^\n]*", "", statement)
    found = []
    for match in NAMED.finditer(text):
        table, alias, around = match["table"], match["alias"] or match["table"], level(text, match.start())
        if match["verb"].upper() == "INSERT INTO":
            if not re.match(r"[^(]*\(\s*namespace_id\b", text[match.end("table") :]):
                found.append(f"{table} is given a row without saying whose")
        elif not any(re.search(wanted, around) for wanted in _conditions(alias, table)):
            found.append(f"{table} ({alias}) is asked without its namespace")
    return found + list(_habits(text))


def _conditions(alias: str, table: str) -> Iterator[str]:
    yield rf"\b{alias}\.namespace_id = {VALUE}"
    if alias == table:
        yield rf"(?<![.\w])namespace_id = {VALUE}"


def _habits(text: str) -> Iterator[str]:
    if re.search(r"\bSELECT FROM\b", text):
        yield "a subquery has no column"
    for match in re.finditer(rf"INSERT INTO (?:{NAMES})\b", text):
        body = text[match.start() : end_of_level(text, match.start())]
        if re.search(r"\bSELECT\b", body) and not re.search(r"\bRETURNING\b|\bON CONFLICT\b", body):
            yield "an INSERT from a SELECT returns nothing, so it would be sent as COPY, which the wall refuses"
    for match in re.finditer(rf"(?:UPDATE|DELETE FROM) (?:{NAMES})\b", text):
        change = text[match.start() : end_of_level(text, match.start())]
        if "clock_timestamp()" in change:
            yield "a change asks a clock that goes on while it runs"
        if match[0].startswith("UPDATE") and re.search(r"\[\s*\w*\s*:(?!:)\s*\w*\s*\]", change):
            yield "a change takes a slice of an array, over which the planner of Citus 13.2 ends the whole server"


def level(text: str, place: int) -> str:
    """Return the query around `place`: what its own parentheses hold, without the queries inside of it."""
    start, depth = place, 0
    while start > 0:
        start -= 1
        depth += (text[start] == ")") - (text[start] == "(")
        if depth < 0:
            start += 1
            break
    body = text[start : end_of_level(text, place)]
    while inner := re.search(r"\(\s*(?:SELECT|WITH|INSERT|UPDATE|DELETE)\b", body):
        body = body[: inner.start()] + " ? " + body[end_of_level(body, inner.start() + 1) + 1 :]
    return body


def end_of_level(text: str, place: int) -> int:
    """Return where the parentheses around `place` close."""
    depth = 0
    for at in range(place, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth < 0:
            return at
    return len(text)
