"""CSV, and JSON or JSON lines of any shape: each row becomes a memory, by a mapping of its columns to our fields."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from pgengram.errors import InvalidInput
from pgengram.service.calls.vocabulary import NAMES
from pgengram.transfer.input.json_records import NOT_UTF8, Broken
from pgengram.transfer.input.reading import files_of
from pgengram.transfer.input.sources import File, Source
from pgengram.transfer.records import Item, Left, Read, made_of, memory, tag_words

FIELDS: Final = ("content", "created_at", "updated_at", "occurred_at", "tags", "kind", "importance", "user", "project",
                 "speaker", "source", "id")  # fmt: skip # that a column can become
GUESSES: Final = {  # beside the words that callers use for our fields
    "content": "content body description value comment title name", "created_at": "created created_on date timestamp time when",
    "updated_at": "updated modified", "id": "uuid key", "tags": "categories keywords",
}  # fmt: skip
TIMES: Final = ("created_at", "updated_at", "occurred_at")  # as they are told where only words can read them
EXAMPLE: Final = 60  # characters of a value that are shown
SAMPLE: Final = 20  # rows that show which columns there are
NO_OBJECT: Final = "it is not a JSON object"
MOST_OF_A_FIELD: Final = 1 << 20  # characters of one field of CSV
Mapped = Mapping[str, str]  # our field: the column it is in


def read(source: Source, mapping: Mapped | None = None) -> Read:
    """Read the rows of every file; what is mapped to nothing becomes metadata.

    Args:
        source: the files.
        mapping: our fields, each with a column; a part of an object is named like `message.text`. Guessed by default.

    Raises:
        InvalidInput: the mapping names a field or a column that is not there, or none is told and none can be guessed.
    """
    mapping = mapping or guessed(source)
    _check_mapping(source, mapping)
    for place, row in _rows(source):
        if isinstance(row, Left):
            yield row
        else:
            yield made_of(place, _row_item, place, row, mapping)


def guessed(source: Source) -> dict[str, str]:
    """Return the column for each of our fields, as far as their names tell."""
    there = columns(source)
    lowered = {name.lower().replace(" ", "_"): name for name in reversed(there)}
    found: dict[str, str] = {}
    for field in FIELDS:
        for word in (field, *NAMES.get(field, "").split(), *GUESSES.get(field, "").split()):
            if (column := lowered.get(word)) and column not in found.values():
                found[field] = column
                break
    return found


def columns(source: Source) -> dict[str, str]:
    """Return the columns that the first rows have, each with how its first value begins."""
    rows = _first_rows(source)
    found: dict[str, str] = {}
    for row in rows:
        if not isinstance(row, Left):
            found |= {name: found.get(name) or _value_excerpt(value) for name, value in row.items()}
    left = next((row for row in rows if isinstance(row, Left) and not row.by_design), None)
    if left and not found:
        raise InvalidInput(f"{left.place} can't be imported: {left.reason}.", "Nothing was imported.")
    return found


def _first_rows(source: Source) -> list[dict[str, Any] | Left]:
    done = source.done
    rows = [row for _, row in islice(_rows(source), SAMPLE)]
    source.done = done
    return rows


def _value_excerpt(value: Any) -> str:
    return "" if value is None else " ".join(str(value)[:EXAMPLE].split())


def _check_mapping(source: Source, mapping: Mapped) -> None:
    there = columns(source)
    shown = ", ".join(islice(there, 30)) or "none"
    if unknown := mapping.keys() - set(FIELDS):
        raise InvalidInput(f"--map has no field {sorted(unknown)[0]}.", f"Use one of {', '.join(FIELDS)}.")
    if missing := [column for column in mapping.values() if column not in there]:
        raise InvalidInput(f"There is no column {missing[0]}.", f"The columns are: {shown}.")
    if "content" not in mapping:
        raise InvalidInput(
            f"{source.path} has no obvious column for the text.",
            f"Say which with --map, such as --map content={next(iter(there), 'text')}. The columns are: {shown}.",
        )


def _row_item(place: str, row: Mapping[str, Any], mapping: Mapped) -> Item | Left:
    cells = {field: row.get(column) for field, column in mapping.items()}
    text = cells.pop("content")
    if not isinstance(text, str) or not text.strip():
        return Left(place, "it has no text")
    rest = {name: value for name, value in row.items() if name not in mapping.values() and value not in (None, "")}
    tags = cells.pop("tags", None)
    tags = tag_words(tags.replace(";", ",")) if isinstance(tags, str) else tag_words(tags)
    key = cells.pop("id", None)
    record = memory("rows", key, text, tags=tags, metadata=rest, **cells)
    return Item(place, record | {name: cells[name] for name in TIMES if cells.get(name) and name not in record})


def _rows(source: Source) -> Iterator[tuple[str, dict[str, Any] | Left]]:
    for file in files_of(source, "*.csv", "*.tsv", "*.json", "*.jsonl", "*.ndjson"):
        if isinstance(file, Left):
            yield file.place, file
            continue
        begins = source.head(file).lstrip()
        try:
            if begins[:1] == b"[" or (begins[:1] == b"{" and file.path.suffix == ".json"):
                yield from _rows_of_json(source, file)
            elif begins[:1] == b"{":
                yield from _of_lines(source, file)
            else:
                yield from _of_csv(source, file, begins)
        except UnicodeDecodeError:
            yield file.place, Left(file.place, NOT_UTF8)
        except ValueError as error:
            yield file.place, Left(file.place, f"it can't be read to its end: {error}")


def _rows_of_json(source: Source, file: File) -> Iterator[tuple[str, dict[str, Any] | Left]]:
    for found in source.records(file):
        if isinstance(found, Broken):
            yield found.place, Left(found.place, found.reason)
        else:
            yield found.place, _flat(found.value) if isinstance(found.value, dict) else Left(found.place, NO_OBJECT)


def _of_lines(source: Source, file: File) -> Iterator[tuple[str, dict[str, Any] | Left]]:
    for number, found in source.objects(file):
        place = f"{file.place}, line {number + 1}"
        yield place, Left(found.place, found.reason) if isinstance(found, Broken) else _flat(found)


def _of_csv(source: Source, file: File, begins: bytes) -> Iterator[tuple[str, dict[str, Any] | Left]]:
    first = begins.split(b"\n", 1)[0]
    delimiter = max(b",;\t|", key=lambda sign: first.count(bytes([sign])))
    csv.field_size_limit(MOST_OF_A_FIELD)
    lines = io.TextIOWrapper(io.BufferedReader(_Stream(source.chunks(file))), encoding="utf-8", newline="")
    reader = csv.DictReader(lines, delimiter=chr(delimiter))
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield file.place, Left(f"{file.place}, line {reader.line_num}", f"it is not CSV: {error}")
            continue
        place = f"{file.place}, line {reader.line_num}"
        if None in row:
            yield place, Left(place, "it has more columns than the first line")
        else:
            yield place, {str(name): value for name, value in row.items() if name}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the members of its objects beside its own, as `message.text`."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        inner = _flat(value) if isinstance(value, Mapping) else None
        flat |= {name: value} if not inner else {f"{name}.{key}": one for key, one in inner.items()}
    return flat


class _Stream(io.RawIOBase):
    """Chunks of bytes as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        if not self._rest:
            self._rest = next(self._chunks, b"")
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)
