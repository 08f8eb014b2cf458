"""Markdown notes: the fields at their beginning, the text, its tags and links."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final
from urllib.parse import unquote

from pgengram.text.markdown import Prose, prose

RULE: Final = "---"
LINKS_TO: Final = "links_to"
MOST_FIELDS: Final = 64 << 10  # characters of fields that are read as YAML
BLANK: Final = " \t\r\n"
_FIELD: Final = re.compile(r"([^\s:#\-\[{\"'][^:]*?)\s*:(?:\s+(.*))?")
_PROPERTY: Final = re.compile(r"([\w-]+)::(?:\s+(.*))?")  # as Logseq has fields
_OF_FIELDS: Final = re.compile(r"\s*(?:#.*)?|\s*-\s.*|\s*-|\s+\S.*|[}\]].*")  # lines beside those that begin a field
# `- causes [[The flood]]`: words before a link at the beginning of an item say how the notes relate.
_RELATION: Final = re.compile(r"((?:[\w-]+ ?){1,4}?)\s*!?\[\[([^\[\]\n]+)\]\]\s*(?:$|\(|\n)")
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY: Final = re.compile(r"(\d{4})[-_](\d\d)[-_](\d\d)")
_LINK: Final = re.compile(r"(?<!#)\[\[([^\[\]\n]+)\]\]")
_IS_LINK: Final = re.compile(r"\s*!?\[\[[^\[\]]+\]\]\s*")
EMPTY: Final = (None, "", "~", "null", "Null", "NULL")  # what an item of YAML may be that says nothing
_TAG: Final = re.compile(
    r"(?:^|(?<=\s))[*_~=]{0,3}#(?:\[\[([^\[\]\n]+)\]\]|([^\s#\0.,;:!?()\[\]{}\"'`’“”<>|*=+&%$^~\\@]+))", re.MULTILINE
)


@dataclass(frozen=True)
class Note:
    """A note: its fields, and its text without them."""

    fields: dict[str, Any] = field(default_factory=dict)
    body: str = ""

    @classmethod
    def parsed(cls, text: str) -> Note:
        """Return the note that a text is; fields that are never closed are text, and so is what has not their form."""
        text = text.removeprefix("\ufeff")
        if (
            "\r\n" in text.partition("\n")[0] + "\n"
        ):  # of a file that was written so, not of a text that has it somewhere
            text = text.replace("\r\n", "\n")
        first, *lines = text.split("\n")
        closing = next((place for place, line in enumerate(lines) if line.rstrip() in (RULE, "...")), None)
        if first.rstrip() != RULE or closing is None or not _are_fields(lines[:closing]):
            return cls(*_properties(text.strip(BLANK)))
        return cls(_read_fields(lines[:closing]), "\n".join(lines[closing + 1 :]).strip(BLANK))

    def rendered(self) -> str:
        """Return the note as a file has it; parsing that gives the same note."""
        head = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in self.fields.items()]
        return "\n".join([RULE, *head, RULE, "", self.body, ""])

    @cached_property
    def _prose(self) -> list[Prose]:
        return list(prose(self.body)) if "[[" in self.body or "#" in self.body else []

    @property
    def links(self) -> list[tuple[str, str]]:
        """How it relates to which notes, by their names, each once."""
        found: dict[str, str] = {}
        for type_, name in (*self._links_of_fields(), *self._links_of_body()):
            if name and found.get(name, LINKS_TO) == LINKS_TO:
                found[name] = type_
        return [(type_, name) for name, type_ in found.items()]

    def _links_of_fields(self) -> Iterator[tuple[str, str]]:
        for key, value in self.fields.items():
            for one in value if isinstance(value, list) else [value]:
                if key == "links" and isinstance(one, str):
                    yield from _links_of_item(one)
                elif isinstance(one, str) and _IS_LINK.fullmatch(one):
                    yield from ((key, name) for _, name in _links_of_item(one))

    def _links_of_body(self) -> Iterator[tuple[str, str]]:
        for one in self._prose:
            if one.in_item:
                yield from _links_of_item(one.text)
            else:
                yield from ((LINKS_TO, target(name)) for name in _LINK.findall(one.text))

    @property
    def tags(self) -> list[str]:
        """Its tags, each once: those of its fields, then those in its text."""
        found = [word for name in ("tags", "tag") for word in _tags_of(self.fields.get(name))]
        for one in self._prose:
            found += [page or word.rstrip("/-") for page, word in _TAG.findall(one.text)]
        return [word for word in dict.fromkeys(found) if word and not word.isdigit()]


def target(written: str) -> str:
    """Return the note that a link leads to, without the heading or block in it and the words that are shown; empty
    where it stays in its own.
    """
    return re.split(r"[|#^]|\\\|", written, maxsplit=1)[0].strip()


def _links_of_item(text: str) -> list[tuple[str, str]]:
    """Return the links of an item; the words before the first say how it relates."""
    first = _RELATION.match(text)
    typed = {target(first[2]): first[1].strip()} if first and first[1].strip() else {}
    return [(typed.get(name, LINKS_TO), name) for name in map(target, _LINK.findall(text))]


def _tags_of(value: Any) -> list[str]:
    """Return tags from a list, or from a text with commas or spaces between them, without the # before them."""
    if isinstance(value, str):
        value = value.split(",") if "," in value else value.split()
    items = [one for one in value if one not in EMPTY] if isinstance(value, list) else []
    words = [str(one).strip().lstrip("#").strip() for one in items]
    return [word for word in words if word]


def _are_fields(lines: list[str]) -> bool:
    """Whether lines have the form of fields."""
    starts = [line for line in lines if _FIELD.fullmatch(line)]
    return (bool(starts) or not any(map(str.strip, lines))) and all(
        _FIELD.fullmatch(line) or _OF_FIELDS.fullmatch(line) for line in lines
    )


def _read_fields(lines: list[str]) -> dict[str, Any]:
    """Read fields: on one line as JSON or plain words, on several as YAML."""
    found: dict[str, Any] = {}
    starts = [place for place, line in enumerate(lines) if _FIELD.fullmatch(line)]
    for place, end in pairwise([*starts, len(lines)]):
        match = _FIELD.fullmatch(lines[place])
        assert match is not None  # noqa: S101 - it is one of the starts
        written, more = (match[2] or "").strip(), [line for line in lines[place + 1 : end] if line.strip()]
        found[match[1].strip("'\"")] = _of_yaml(lines[place:end]) if more else _field_value(written)
    return {name: value for name, value in found.items() if value not in (None, "")}


def _of_yaml(lines: list[str]) -> Any:
    """Return the value of a field of several lines; as it is written where that is not YAML."""
    import yaml

    text = "\n".join(lines)
    try:
        if len(text) > MOST_FIELDS or any(isinstance(one, yaml.AliasToken) for one in yaml.scan(text)):
            return text.partition(":")[2].strip()
        [value] = yaml.load(text, yaml.BaseLoader).values()  # noqa: S506 - makes texts, lists and objects only
    except (yaml.YAMLError, RecursionError, ValueError, AttributeError):
        return text.partition(":")[2].strip()
    return [_scalar(one) for one in value] if isinstance(value, list) else _scalar(value)


def _scalar(value: Any) -> Any:
    return _field_value(value) if isinstance(value, str) else value


def _field_value(written: str) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        pass
    if written.startswith("[") and written.endswith("]") and not _IS_LINK.fullmatch(written):
        return [one.strip().strip("'\"") for one in written[1:-1].split(",") if one.strip()]
    if len(written) > 1 and written[0] == written[-1] and written[0] in "'\"":
        return written[1:-1]
    return written


def _properties(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields with which a page of Logseq begins, and the text below."""
    lines = text.split("\n")
    count = next((place for place, line in enumerate(lines) if not _PROPERTY.fullmatch(line)), len(lines))
    found = [_PROPERTY.fullmatch(line) for line in lines[:count]]
    fields = {match[1]: (match[2] or "").strip() for match in found if match}
    if "alias" in fields:
        fields["aliases"] = [one.strip() for one in fields.pop("alias").split(",")]
    return {name: value for name, value in fields.items() if value}, "\n".join(lines[count:]).strip(BLANK)


def slug(text: str, words: int = 6) -> str:
    """Return the first words of a text as part of a file's name."""
    kept = re.findall(r"\w+", text.lower())[:words]
    return "-".join(kept)[:60].strip("-") or "memory"


def named(fields: Mapping[str, Any], stem: str) -> set[str]:
    """Return the names under which other notes link to one: its file's, as it is and as Logseq writes it, its title and
    its aliases, in small letters.
    """
    aliases = fields.get("aliases") or fields.get("alias")
    names = [
        *_names_of_day(stem),
        stem,
        stem.replace("___", "/"),
        unquote(stem),
        fields.get("title"),
        fields.get("permalink"),
    ]
    names += aliases if isinstance(aliases, list) else [aliases, *map(str.strip, str(aliases or "").split(","))]
    return {str(name).lower() for name in names if name}


def _names_of_day(stem: str) -> list[str]:
    """Return what links to the note of a day call it: the date, and as Logseq writes it, `Jan 2nd, 2026`."""
    found = _DAY.fullmatch(stem)
    if found is None or not 1 <= int(found[2]) <= 12:
        return []
    day = int(found[3])
    ordinal = {1: "st", 2: "nd", 3: "rd"}.get(day % 10 if day // 10 != 1 else 0, "th")
    return ["-".join(found.groups()), f"{MONTHS[int(found[2]) - 1]} {day}{ordinal}, {found[1]}"]
