"""How two states of one thing become one, whatever was exchanged before and in whichever order.

A document is one memory, link or other row. Each of its fields, tags and history entries is an entry with a dot, which
is who wrote it and a number of theirs, and the document has a version vector: the dots that it has seen. An entry that
one side has and the other does not is new there, or was removed there, and the other's vector tells which. This is the
optimized observed-remove set of Bieniusa et al. (arXiv:1210.3368); a field is such a set, too, so that what two people
wrote at the same time is kept until somebody chooses. Merging is commutative, associative and idempotent: files may be
lost and come again, come twice, and come late.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, TypeVar

TOO_FAR_AHEAD_US: Final = 24 * 3600 * 1_000_000  # microseconds that another machine's clock may be ahead
DIGEST_BYTES: Final = 12
ONCE: Final = "once:"  # begins the name of an entry that never changes: the name says all that tells it from others
TAG: Final = "tag:"  # begins the name of a tag, whose value is its place: kept, as a row tells only an order
V = TypeVar("V")
Dot = tuple[str, int]  # who wrote an entry, and the number of that writing


@dataclass(frozen=True, slots=True)
class Entry:
    """One value, and by whom it was written when.

    stamp: microseconds since 1970, and later than those of the entries that it replaced, whatever the clock said.
    writer, number: its dot. digest: of the value; all that is known of it where it was not loaded.
    """

    value: Any
    stamp: int
    writer: str
    number: int
    digest: str = ""

    @property
    def order(self) -> tuple[int, str, int]:
        """Among entries of one field the largest is shown."""
        return self.stamp, self.writer, self.number

    @property
    def dot(self) -> Dot:
        """Who wrote it, and the number of that writing."""
        return self.writer, self.number


@dataclass(slots=True)
class Document:
    """The state of one memory or row: its entries by name, what it has seen of each writer, and what is counted.

    counts: numbers that only grow, for each device its own. gone: whether it was removed for ever.
    """

    seen: dict[str, int] = field(default_factory=dict)
    entries: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    counts: dict[str, list[float]] = field(default_factory=dict)
    gone: bool = False

    def shown(self) -> dict[str, Any]:
        """Return the value of each field: of several, the latest."""
        return {name: latest(entries).value for name, entries in self.entries.items()}

    def latest_stamp(self) -> int:
        """Return when it was last written, as clocks had it: if that is far ahead, it would win over all that comes."""
        return max((one.stamp for entries in self.entries.values() for one in entries), default=0)

    def disputed(self) -> Iterator[tuple[str, list[Entry]]]:
        """Yield fields written in several places at once, with the different values, the shown one first."""
        for name, entries in self.entries.items():
            values = {one.digest: one for one in sorted(entries, key=lambda one: one.order)}
            if len(values) > 1:
                yield name, sorted(values.values(), key=lambda one: one.order, reverse=True)

    def as_json(self, *, whole: bool) -> dict[str, Any]:
        """Return it as JSON has it: `whole` with all values, else the shown ones but for places as digests alone."""
        entries = {}
        for name, all_ in self.entries.items():
            shown = None if whole or name.startswith(TAG) else latest(all_)
            entries[name] = [_entry_as_json(one, bare=one is shown) for one in all_]
        more = {"counts": self.counts, "gone": self.gone}
        return {"seen": self.seen, "entries": entries} | {name: value for name, value in more.items() if value}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Read what `as_json` gave.

        Raises:
            ValueError, TypeError, KeyError: it has another form.
        """
        entries = {
            str(name): tuple(_entry_from_json(str(name), one) for one in all_)
            for name, all_ in given["entries"].items()
            if all_
        }
        seen = {str(writer): int(number) for writer, number in given["seen"].items()}
        counts = {str(device): [float(one) for one in row] for device, row in given.get("counts", {}).items()}
        return cls(gone=True) if given.get("gone") else cls(seen, entries, counts)


GONE: Final = Document(gone=True)


def latest(entries: tuple[Entry, ...]) -> Entry:
    """Return the entry that is shown."""
    return max(entries, key=lambda one: one.order)


def _told_apart(name: str, value: Any) -> str:
    return ONCE if name.startswith(ONCE) else digest_of(value)


def digest_of(value: Any) -> str:
    """Return what tells a value from others; 12 bytes as hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def merged(one: Document, other: Document) -> Document:
    """Return the state that has what either has, less what either removed after having seen it."""
    if one.gone or other.gone:
        return GONE
    entries = {}
    for name in one.entries.keys() | other.entries.keys():
        mine, theirs = one.entries.get(name, ()), other.entries.get(name, ())
        kept = {entry.dot: entry for entry in (*_unseen(theirs, mine, one), *_unseen(mine, theirs, other))}
        if kept:
            entries[name] = _in_order(kept.values())
    return Document(_larger(one.seen, other.seen, max), entries, _larger(one.counts, other.counts, _each_larger))


def _unseen(mine: tuple[Entry, ...], theirs: tuple[Entry, ...], other: Document) -> Iterator[Entry]:
    """Yield those of mine that the other has, too, or has not seen yet."""
    there = {entry.dot for entry in theirs}
    for entry in mine:
        if entry.dot in there or entry.number > other.seen.get(entry.writer, 0):
            yield entry


def _larger(one: Mapping[str, V], other: Mapping[str, V], larger: Callable[[V, V], V]) -> dict[str, V]:
    both = {key: larger(one[key], other[key]) for key in one.keys() & other.keys()}
    return {**one, **other, **both}


def _each_larger(one: list[float], other: list[float]) -> list[float]:
    return [max(pair) for pair in zip(one, other, strict=True)]


def with_changes(known: Document, now: Mapping[str, Any], *, at: int, clock: int, writer: str) -> Document:
    """Return the state after the changes made here, which are the differences between what was known and what is there
    now; the same where there are none.

    Args:
        known: the state when it was last written down or taken in.
        now: fields, tags and history by name; None counts as not there.
        at: when the changes were made, in microseconds.
        clock: what time it is, in microseconds. Entries that this machine's clock once dated far ahead are dated again.
        writer: who writes.
    """
    now = {name: value for name, value in now.items() if value is not None}
    entries: dict[str, tuple[Entry, ...]] = {}
    number = known.seen.get(writer, 0) + 1
    for name, value in now.items():
        written = Entry(value, min(at, clock), writer, number, _told_apart(name, value))
        entries[name] = _with_written(known.entries.get(name, ()), written, latest_stamp=clock + TOO_FAR_AHEAD_US)
    changed = known.entries.keys() - now.keys() or any(
        one.dot == (writer, number) for all_ in entries.values() for one in all_
    )
    seen = {**known.seen, writer: number} if changed else dict(known.seen)
    return Document(seen, entries, dict(known.counts))


def _with_written(there: tuple[Entry, ...], written: Entry, *, latest_stamp: int) -> tuple[Entry, ...]:
    """Return the entries of a field in which a value was written, as they were if that is the one they show.

    Args:
        there: the entries before.
        written: dated with the machine's clock; it is dated later if an entry that it replaces is later.
        latest_stamp: entries with a later one were dated by a clock that was wrong.
    """
    shown = latest(there) if there else None
    if shown is not None and shown.digest == written.digest and shown.stamp <= latest_stamp:
        loaded = replace(shown, value=written.value)
        return tuple(loaded if one is shown else one for one in there)
    before = [one for one in there if one.stamp <= latest_stamp]
    stamp = max(written.stamp, 1 + max((one.stamp for one in before), default=0))
    return _replacing(shown, before, replace(written, stamp=stamp))


def _replacing(shown: Entry | None, before: Iterable[Entry], anew: Entry) -> tuple[Entry, ...]:
    """Return the entries of a field, with a new one instead of the one that was shown.

    Whoever changes a value has chosen among those that were there; whoever dates it again has not.
    """
    stays = shown is not None and shown.digest == anew.digest
    return _in_order([anew, *(one for one in before if stays and one is not shown)])


def _in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda one: one.dot))


def as_one(document: Document, writer: str) -> Document:
    """Return the state in which everything that is shown counts as just written, as old as it was.

    So all of a row that one machine changes stays if another one removes it at the same time, and not the change alone.
    """
    number = document.seen[writer]
    entries = {}
    for name, all_ in document.entries.items():
        shown = latest(all_)
        others = [one for one in all_ if one is not shown]
        entries[name] = _in_order([replace(shown, writer=writer, number=number), *others])
    return Document(dict(document.seen), entries, dict(document.counts))


def _entry_as_json(one: Entry, *, bare: bool) -> list[Any]:
    is_known = one.value is not None
    return [one.stamp, one.writer, one.number, *([None, one.value] if is_known and not bare else [one.digest])]


def _entry_from_json(name: str, given: list[Any]) -> Entry:
    stamp, writer, number, digest, *value = given
    [known] = value or [None]
    return Entry(known, int(stamp), str(writer), int(number), digest or _told_apart(name, known))
