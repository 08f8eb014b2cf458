"""What an import is given, opened: its items a batch at a time, and how many there may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, cast
from uuid import UUID

from pgengram.errors import InvalidInput, PgengramError
from pgengram.transfer.importers import LOOKED_AT, format_of, reader_of, recognised
from pgengram.transfer.importers.rows import columns, guessed
from pgengram.transfer.input.reading import NOTHING_IN_IT
from pgengram.transfer.input.sources import File, Source, is_one_of
from pgengram.transfer.records import Item, Left, Said
from pgengram.transfer.report import LIST, deleted_notes

MOST_ITEMS: Final = 1_000  # read at once
OF_ANOTHER: Final = "it is one of {system}'s files, which were not read; import them with --from {system}"
NO_LIST: Final = "it can't be read, so deleted notes are not noticed"
NOT_FURTHER: Final = "what comes after it can't be read: it has a form that this version doesn't know"
MOST_CHARS: Final = 2_000_000  # of turns that are read at once


@dataclass(frozen=True, slots=True)
class Shape:
    """Rows of a shape that nobody has told yet.

    Args:
        columns: each with how a value of it begins.
        guess: our fields, each with the column that it may be in.
    """

    columns: dict[str, str]
    guess: dict[str, str]


def shape_of(system: str, source: Source) -> tuple[str, Shape | None]:
    """Return which system's a source is, and of rows of any shape what they look like.

    Raises:
        InvalidInput: it looks like no system's, or can't be read.
    """
    system = system or _recognised(source)
    return system, Shape(columns(source), guessed(source)) if system in ("csv", "json") else None


def _recognised(source: Source) -> str:
    """Return which system's a source is.

    Raises:
        InvalidInput: it looks like no system's; or why it can't be read, if that is the reason.
    """
    faults = [(file, source.fault_of(file)) for file in source.files[:LOOKED_AT]]
    if faults and all(reason for _, reason in faults):
        file, reason = faults[0]
        raise InvalidInput(f"{file.place}: {reason}.", "Nothing was imported.")
    return recognised(source)


class Opened:
    """What is read, a batch at a time."""

    def __init__(self, system: str, source: str, mapping: Mapping[str, str] | None, encoding: str, name: str) -> None:
        self._source = None if "://" in source else Source(Path(source), encoding, name)
        self.system = system or (_recognised(self._source) if self._source else "agi")
        format_ = format_of(self.system)
        if mapping and format_.module != "rows":
            raise InvalidInput(f"--map doesn't apply to {self.system}.", "It is for csv and json.")
        reader = partial(format_.reader(), **({"mapping": mapping} if mapping else {}))
        self._items = iter(reader(self._source or source))
        self._place = ""
        self._files: dict[str, File] = {}
        self._read_for_nothing = self._others(format_.files.split() if format_.sign else ())

    def gone(self) -> tuple[dict[UUID, str] | None, Left | None]:
        """Return the notes that an export listed and that no file is called like, by the ids of their memories; None
        where there is no list, with why it can't be read if so.
        """
        content = self._source.beside(LIST) if self._source and self.system == "markdown" else None
        if self._source is None or content is None:
            return None, None
        found = deleted_notes(self._source, content)
        return found, None if found is not None else Left(LIST, NO_LIST)

    def batch(self) -> list[Item | Said | Left]:
        """Return the next items, no more than memory has room for."""
        items: list[Item | Said | Left] = []
        chars = 0
        while len(items) < MOST_ITEMS and chars <= MOST_CHARS and (item := self._next()):
            items.append(item)
            chars += len(item.turn.text) if isinstance(item, Said) else 0
        return items

    def _next(self) -> Item | Said | Left | None:
        """Return the next item; None at the end, after what of the source could not be read."""
        try:
            for item in self._items:
                self._place = item.place
                return self._for_another(item) if isinstance(item, Left) and item.reason == NOTHING_IN_IT else item
        except PgengramError:
            raise
        except Exception as error:  # noqa: BLE001 - a reader met a form that it does not know; what was read stays
            self._items = iter(())
            return Left(
                self._place or str(self._source and self._source.path), f"{NOT_FURTHER} ({type(error).__name__})"
            )
        if self._source and self._source.faults:
            fault = self._source.faults.pop(0)
            return Left(fault.place, fault.reason)
        return next(self._read_for_nothing, None)

    def _for_another(self, left: Left) -> Left:
        """Return a file that was passed over; with whose it is, if another importer reads it."""
        if self._source is None:
            return left
        self._files = self._files or {file.place: file for file in self._source.files}
        system = reader_of(self._source, self._files[left.place], self.system)
        return Left(left.place, OF_ANOTHER.format(system=system)) if system else left

    def _others(self, patterns: Sequence[str]) -> Iterator[Left]:
        """Yield the files that are called like those of the system and are another's."""
        files = self._source.files if self._source else []
        for file in files if len(files) > 1 else ():
            if is_one_of(file, patterns) and (system := reader_of(cast("Source", self._source), file, self.system)):
                yield Left(file.place, OF_ANOTHER.format(system=system))

    def estimated(self, done: int) -> int:
        """Return how many items there are in all, by how much of the bytes is read."""
        if self._source is None or not self._source.done:
            return 0
        return round(done * self._source.total / self._source.done)
