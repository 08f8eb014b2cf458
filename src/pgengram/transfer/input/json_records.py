"""The records of a stream of JSON, one at a time: what is broken in one costs the others nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

CHUNK: Final = 1 << 20  # bytes read at once
MOST_OF_ONE: Final = 48 << 20  # bytes of one record
MOST_DEEP: Final = 200  # objects in objects
MARKER: Final = 4 << 10  # bytes at most by which the beginning of a record is found again
NOT_UTF8: Final = "it is not UTF-8; say which encoding it has with --encoding"

_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(")?|[{}\[\]]', re.DOTALL)
_BEGINS: Final = re.compile(
    rb'\{\s*+"([^"\\]{1,64}+)"\s*+:\s*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^,"{}\[\]]*+)\s*+,\s*+"([^"\\]{1,64}+)"'
)
# As far as the next bracket outside of strings; nothing where a string has no end yet.
_BRACKET: Final = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+([{}\[\]])', re.DOTALL)
_NEXT: Final = re.compile(rb"\s*+(?:,\s*+[\[{]|\])")


NOT_JSON: Final = "it is not valid JSON"
SPACE: Final = " \t\r\n\ufeff"  # what a line may have around an object
BLANK: Final = f"{SPACE},\0"  # what may be left between objects, also where a machine went down
MOST_TRIES: Final = 200  # beginnings of objects that are looked at in a broken line
_OBJECT: Final = re.compile(r'(?P<within>[:,\[]\s*+)?(?P<begin>\{)\s*+"')
_STANDS_FREE: Final = re.compile(rf"[{SPACE}\0]*+(?:\Z|\{{)")  # behind an object that is within no other
# A line break or tab that stands as it is within a string is taken.
_LIBERAL: Final = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class Broken:
    """A part of a file that can't be taken, and why."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Record:
    """An object of a file of JSON: the member of the file's own object that it is in, if any, and its place."""

    place: str
    key: str
    value: Any


def parsed_record(text: bytes | memoryview, place: str) -> Record | Broken:
    """Return what a text of JSON holds, or why it holds nothing."""
    try:
        return Record(place, "", json.loads(str(text, "utf-8"), strict=False))
    except UnicodeDecodeError:
        return Broken(place, NOT_UTF8)
    except (ValueError, RecursionError):
        return Broken(place, NOT_JSON)


class RecordForms:
    """What the records of a file of JSON lines look like: the two names with which each begins, and for each such
    beginning the names that all have in common.
    """

    def __init__(self, records: Iterable[dict[str, Any]] = ()) -> None:
        self._common: dict[tuple[str, ...], set[str]] = {}
        for record in records:
            self.learn(record)

    def learn(self, record: dict[str, Any]) -> None:
        """Note what a record looks like that has a line of its own."""
        common = self._common.setdefault(tuple(islice(record, 2)), set(record))
        if not common <= record.keys():
            common &= record.keys()

    def fit(self, value: dict[str, Any]) -> bool:
        """Whether an object looks like a record of this file."""
        common = self._common.get(tuple(islice(value, 2)))
        return common is not None and common <= value.keys()


def objects_in_line(line: bytes, place: str, forms: RecordForms) -> Iterator[dict[str, Any] | Broken]:
    """Yield the objects of a line. It should be one; where a program was killed as it wrote, a piece of one, zero bytes
    or a whole one may stand before the last. An empty line has none.
    """
    if not line.strip(SPACE.encode()):
        return
    found = parsed_record(line.strip(BLANK.encode()), place)
    if isinstance(found, Record):
        if isinstance(found.value, dict):
            forms.learn(found.value)
        yield found.value if isinstance(found.value, dict) else Broken(place, "it is not a JSON object")
        return
    objects, rest = ([], "") if found.reason == NOT_UTF8 else _whole_objects(line.decode(), forms)
    if not objects or rest.strip(BLANK):
        yield found
    yield from objects


def _whole_objects(text: str, forms: RecordForms) -> tuple[list[dict[str, Any]], str]:
    """Return the objects that stand whole in a broken line, and what is left of it.

    An object within a piece of another is none. What is within stands behind a colon, a comma or a bracket; but a piece
    may end there, too, and what is then behind it looks like the other records and has nothing behind it.
    """
    objects: list[dict[str, Any]] = []
    left, at = "", 0
    for start, end, value, is_within in _objects_in(text):
        if is_within and not (forms.fit(value) and _STANDS_FREE.match(text, end)):
            continue
        objects.append(value)
        left, at = left + text[at:start], end
    return objects, left + text[at:]


def _objects_in(text: str) -> Iterator[tuple[int, int, dict[str, Any], bool]]:
    """Yield where each object of a text begins and ends that is within none before, what it is, and whether what stands
    before it may be the beginning of another that it is within.
    """
    read, failed = 0, 0
    for candidate in _OBJECT.finditer(text):
        start = candidate.start("begin")
        if start < read or failed == MOST_TRIES:
            continue
        try:
            value, read = _LIBERAL.raw_decode(text, start)
        except (ValueError, RecursionError):
            failed += 1
        else:
            yield start, read, value, bool(candidate["within"])


class Records:
    """The records of one stream of JSON: the objects in its array, or in the arrays that its object has as members.

    A library for streamed JSON ends at the first error. This one only looks for where records begin and end, so what
    is broken stays within one record; records begin with the same two names, which is how the next one is found.
    """

    def __init__(self, place: str, chunks: Iterable[bytes]) -> None:
        self._place = place
        self._chunks = iter(chunks)
        self._buffer = b""
        self._offset = 0  # in the file, of the buffer
        self._start = 0  # in the buffer, of what is still needed
        self._at = 0  # in the buffer, of what is looked at next
        self._begins: re.Pattern[bytes] | None = None
        self._error = ""

    def found(self) -> Iterator[Record | Broken]:
        """Yield the records."""
        outer: list[bytes] = []  # brackets around the records
        key = ""
        while (token := self._token()) is not None:
            text = token.group()
            if text.startswith(b'"'):
                key = text[1:-1].decode("utf-8", "replace") if outer == [b"{"] else key
            elif text in (b"}", b"]"):
                outer = outer[:-1] if len(outer) > 1 else outer  # a stray bracket ends nothing
            elif not outer or (outer == [b"{"] and text == b"["):
                outer.append(text)
            else:
                self._start = token.start()
                yield self._record(key)
            self._start = self._at
        if self._error:
            yield Broken(self._place, f"it can't be read to its end: {self._error}")

    def _record(self, key: str) -> Record | Broken:
        """Return the record whose bracket was just read, and stand behind it."""
        place = f"{self._place}, byte {self._offset + self._start:,}"
        depth = 1
        while depth and depth <= MOST_DEEP and (bracket := self._bracket()):
            depth += 1 if bracket in b"{[" else -1
        read = self._at if depth == 0 else len(self._buffer)
        if read - self._start > MOST_OF_ONE:
            broken = Broken(place, f"it is larger than {MOST_OF_ONE >> 20} MB")
        elif depth == 0:
            found = parsed_record(memoryview(self._buffer)[self._start : self._at], place)
            if isinstance(found, Record):
                self._learn()
                return Record(place, key, found.value)
            broken = found
        elif depth > MOST_DEEP:
            broken = Broken(place, f"it has more than {MOST_DEEP} levels")
        else:
            broken = Broken(place, "it ends in the middle")
        self._go_on(balanced=depth == 0)
        return broken

    def _learn(self) -> None:
        """Note how a record begins."""
        if self._begins is None and (names := _BEGINS.match(self._buffer, self._start)):
            first, second = map(re.escape, names.groups())
            self._begins = re.compile(
                rb'\{\s*+"'
                + first
                + rb'"\s*+:\s*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^,"{}\[\]]*+)\s*+,\s*+"'
                + second
                + rb'"'
            )

    def _go_on(self, *, balanced: bool) -> None:
        """Stand where the next record begins, after one that is broken."""
        swallowed = self._begins and self._begins.search(self._buffer, self._start + 1, self._at)
        if balanced and not swallowed and (self._begins is None or _NEXT.match(self._buffer, self._at)):
            return
        if self._begins is None:
            self._at = self._start = len(self._buffer)
            return
        self._start += 1
        while (next_one := self._begins.search(self._buffer, self._start)) is None:
            self._start = self._at = max(self._start, len(self._buffer) - MARKER)
            if not self._more():
                self._start = self._at = len(self._buffer)
                return
        self._start = self._at = next_one.start()

    def _token(self) -> re.Match[bytes] | None:
        """Return the next string or bracket, with as much more read as that takes; None at the end."""
        while True:
            token = _TOKEN.search(self._buffer, self._at)
            if token is not None and (token.group(1) or token.group()[:1] != b'"'):
                self._at = token.end()
                return token
            self._at = len(self._buffer) if token is None else token.start()
            if len(self._buffer) - self._start > MOST_OF_ONE or not self._more():
                return None

    def _bracket(self) -> bytes:
        """Return the next bracket outside of strings, with as much more read as that takes; empty at the end."""
        while (found := _BRACKET.match(self._buffer, self._at)) is None:
            if len(self._buffer) - self._start > MOST_OF_ONE or not self._more():
                return b""
        self._at = found.end()
        return found[1]

    def _more(self) -> bool:
        """Read on, by as much as is there already, so that long strings are not looked through too often."""
        kept = self._buffer[self._start :]
        self._offset += self._start
        self._at -= self._start
        self._start = 0
        read = []
        try:
            for _ in range(max(1, len(kept) // CHUNK)):
                if not (chunk := next(self._chunks, b"")):
                    break
                read.append(chunk)
        except ValueError as error:
            self._error = str(error)
        self._buffer = b"".join([kept, *read])
        return bool(read)
