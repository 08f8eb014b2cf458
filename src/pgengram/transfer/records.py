"""What readers of other systems give: records as in an export, and what they could not make one of."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from pgengram import fields as f
from pgengram.store.conversations import Conversation, Turn, source_key

NOBODY: Final = "nobody said it"
EDITED: Final = "it was edited or generated again later"
MILLISECONDS: Final = 100_000_000_000  # a larger time is in milliseconds: as seconds it would be the year 5138

MOST_NUMBER: Final = 1e24  # a larger one is no time, in whatever unit
EXPIRES: Final = ("expires_at", "expiresAt", "expiration_date")  # in the metadata of other systems
_COUNTED: Final = re.compile(r"\d{1,15}")  # an id that other stores give to something else
_NUMBER: Final = re.compile(r"-?[0-9]{1,25}(?:\.[0-9]{1,25})?")


@dataclass(frozen=True, slots=True)
class Item:
    """One record, and where it comes from.

    foreign: its words are another system's, so its tags are spelled again; edits: it was exported from here, so a
    memory that is there takes over what it says now; last: whatever it leads to came before it, so that it need not
    wait; by_file_time: its updated_at is when its file was changed, which may be when the file was copied; by_place: it
    is known by where it is, where another folder of that name may have another.
    """

    place: str
    record: dict[str, Any]
    foreign: bool = True
    edits: bool = False
    last: bool = False
    by_file_time: bool = False
    by_place: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of a conversation, and where it comes from."""

    place: str
    conversation: Conversation
    turn: Turn


@dataclass(frozen=True, slots=True)
class Left:
    """Something that was not taken, where it is, and why.

    by_design: nobody would miss it, such as what a client told its model.
    """

    place: str
    reason: str
    by_design: bool = False


Read = Iterator[Item | Said | Left]
Reader = Callable[..., Read]
One = TypeVar("One")


# What code meets in a value of another form than it expects.
OTHER_FORMS: Final = (TypeError, ValueError, AttributeError, LookupError, OverflowError, RecursionError)


def of_another_form(place: str) -> Left:
    """Return that a record has values that nothing can be made of."""
    return Left(place, "it has a form that can't be read")


def made_of(place: str, make: Callable[..., One], *given: Any) -> One | Left:
    """Return what is made of a record, or that it has another form: that costs this record alone."""
    try:
        return make(*given)
    except OTHER_FORMS:
        return of_another_form(place)


def said_or_left(
    place: str, conversation: Conversation, number: int, role: str, text: str, time: datetime | None,
    *, why: str = NOBODY, id_: object = "", withdrawn: bool = False,
    copied_from: tuple[str, datetime | None] | None = None,
) -> Said | Left:  # fmt: skip
    """Return a turn, or why it is none: nobody said it, or nobody knows when.

    Args:
        place: where it is.
        conversation: of which it is one.
        number: its place there.
        role: who said it.
        text: what.
        time: when.
        why: it is none, where nobody said it.
        id_: how its source calls it; otherwise it is known by its place, role and text.
        withdrawn: whether it was taken back later.
        copied_from: see `Turn`.
    """
    if not role or not text:
        return Left(place, why, by_design=True)
    if time is None:
        return Left(place, "it has no time that can be read")
    key = source_key(id_, role) if id_ else source_key(conversation.id, number, role, text)
    return Said(place, conversation, Turn(number, role, text, time, key, withdrawn, copied_from))


def id_of(system: str, key: object, content: str, at: datetime | None) -> UUID:
    """Return the id of what another system calls `key`: the same each time it is imported, and sorted by `at`.

    A UUIDv7 whose random bits are a hash of the system, the key and the text.
    """
    name = f"{system}\0{key}\0{content}".encode("utf-8", "surrogatepass")
    digest = int.from_bytes(hashlib.sha256(name).digest()[:10])
    milliseconds = 0 if at is None else max(0, int(at.timestamp() * 1000)) & (1 << 48) - 1
    return UUID(int=milliseconds << 80 | 7 << 76 | (digest >> 62 & 0xFFF) << 64 | 0b10 << 62 | digest & (1 << 62) - 1)


def uuid_of(value: Any) -> UUID | None:
    """Return a value as an id, or None when it is none."""
    try:
        return UUID(str(value))
    except ValueError:
        return None


def memory(system: str, key: object, content: Any, **fields: Any) -> dict[str, Any]:
    """Return the record of a memory of another system; what is None or empty is left out.

    Args:
        system: which; kept in the metadata with `key`. key: what the other system calls it. content: its text. fields:
        those of a memory's record; kind, tags and moments in any form that other systems have. A system that tells
            when a memory was changed keeps its key, so whatever it says, it is the same memory; but a key such as 1,
            which another file has, too, tells it only together with when it was created.
    """
    metadata = {**(fields.pop("metadata", None) or {}), "imported": {"from": system, "id": key}}
    fields.setdefault("expires_at", _first_named(metadata, EXPIRES))
    given = {name: READERS.get(name, lambda value: value)(value) for name, value in fields.items()}
    text = content if isinstance(content, str) else ""
    return {
        "record": "memory",
        "id": str(id_of(system, key, "" if _is_named(key, fields, given) else text, given.get("created_at"))),
        "content": content,
        "metadata": metadata,
        **{name: _as_utc_text(value) for name, value in given.items() if value not in (None, [], "")},
    }


def _is_named(key: object, fields: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a key tells a memory, whatever that says."""
    is_unique = given.get("created_at") is not None or not _COUNTED.fullmatch(str(key))
    return "updated_at" in fields and key not in (None, "") and is_unique


def _first_named(values: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((values[name] for name in names if values.get(name)), None)


def _as_utc_text(value: Any) -> Any:
    return f.as_utc(value) if isinstance(value, datetime) else value


def picked_fields(row: Mapping[str, Any], *names: str, **renamed: str) -> dict[str, Any]:
    """Return fields of a row by our names: `names` are the same there, `renamed` are called otherwise."""
    return {ours: row.get(theirs) for ours, theirs in {**dict(zip(names, names, strict=True)), **renamed}.items()}


def edge(from_id: str, to_id: str, type_: Any, strength: Any = 1.0, **fields: Any) -> dict[str, Any]:
    """Return the record of an edge between two memories."""
    return {
        "record": "relationship",
        "from_id": from_id,
        "to_id": to_id,
        "type": str(type_),
        "strength": share(strength) if strength is not None else 1.0,
        "properties": fields.get("properties") or {},
        "created_at": moment(fields.get("created_at")),
    }


def linked(
    place: str, ids: Mapping[Any, str], ends: tuple[Any, Any], type_: Any, strength: Any, **fields: Any
) -> Item | Left:
    """Return the edge between two memories by what the other system calls them, or that one of them is not there."""
    start, end = (ids.get(one) if isinstance(one, str | int) else None for one in ends)
    if start is None or end is None:
        return Left(place, "one of its memories is missing")
    return Item(place, edge(start, end, type_, strength, **fields))


def other_tables(names: Iterable[str], rows_of: Callable[[str], Sequence[Any]]) -> Iterator[Left]:
    """Yield how many rows there are in tables that hold no memories."""
    for name in names:
        if rows := rows_of(name):
            yield Left(f"table {name}", f"{len(rows)} rows that are not memories")


def known_kind(word: Any) -> str | None:
    """Return a word for a kind of memory if it is one here."""
    return word.lower() if isinstance(word, str) and word.lower() in f.KINDS else None


def share(value: Any, scale: float = 1.0) -> Any:
    """Return a number on a scale as 0 to 1, cut, as some systems let importance grow beyond.

    What is not a number is returned as it is: it is refused with the memory that has it.
    """
    try:
        return min(1.0, max(0.0, float(value) / scale))
    except (TypeError, ValueError, OverflowError):
        return value


def of_ten(value: Any) -> Any:
    """Return importance from a scale of 1 to 10."""
    return None if value is None else share(value, 10)


def tag_words(value: Any) -> list[str]:
    """Return tags from a list, a JSON list in a text, or a comma-separated text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = as_json(value)
    if isinstance(value, str):
        value = value.split(",")
    words = (str(word).strip() for word in value if word is not None) if isinstance(value, list) else ()
    return [word for word in words if word]


def as_json(value: Any) -> Any:
    """Return what a text holds as JSON, else None; anything but a text is returned as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def mapping(value: Any) -> dict[str, Any]:
    """Return a JSON object, also when it comes as a text; anything else is none."""
    found = as_json(value)
    return dict(found) if isinstance(found, Mapping) else {}


def moment(value: Any) -> datetime | None:
    """Return a moment from a datetime, ISO 8601 text, a date as mail has it, or seconds, milliseconds, microseconds or
    nanoseconds since 1970; without a zone it is UTC. Nothing where it is none, or beyond every calendar.
    """
    if isinstance(value, str):
        value = _number_or_date(value.strip())
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = _of_number(value)
    if not isinstance(value, datetime):
        return None
    at = value if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        at.astimezone(UTC)
    except (OverflowError, ValueError):
        return None
    return at


def end_of_day(value: Any) -> datetime | None:
    """Return when a day that is told as a date has ended, in UTC; a moment is that moment."""
    at = moment(value)
    is_day = isinstance(value, str) and len(value.strip()) == len("2026-01-31")
    try:
        return at + timedelta(days=1) if at and is_day else at
    except OverflowError:
        return None


def _of_number(value: float) -> datetime | None:
    if not abs(value) < MOST_NUMBER:  # nan, too
        return None
    while abs(value) > MILLISECONDS:
        value /= 1000
    with suppress(OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(value, UTC)
    return None


def _number_or_date(text: str) -> datetime | float | None:
    if _NUMBER.fullmatch(text):
        return float(text)
    try:
        return datetime.fromisoformat(text.removesuffix(" UTC"))
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(text)
    except (ValueError, TypeError, LookupError, OverflowError):
        return None


def _expiry(value: Any) -> datetime | None:
    """Return when something expires, a day with its end; what does so in another lifetime never does."""
    at = end_of_day(value)
    return at if at and at < datetime.now(UTC) + f.LONGEST_LIFE else None


READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "kind": known_kind,
    "tags": tag_words,
    **dict.fromkeys(("created_at", "updated_at", "last_accessed_at", "last_confirmed_at", "occurred_at"), moment),
    "expires_at": _expiry,
}
