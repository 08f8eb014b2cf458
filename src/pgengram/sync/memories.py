"""A memory as a document: its fields, tags, history and counts by name, and back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from pgengram import fields as f
from pgengram.sync.merging import ONCE, TAG, Document, Entry, digest_of

# What a record has that each machine makes or numbers for itself, and what is put under other names below.
OWN: Final = frozenset({"id", "record", "version", "idempotency_key", "speaker_key", "turn_features", "working"})
PARTS: Final = frozenset({"tags", "detail", "activation", "history"})
DETAIL, HISTORY = "detail.", ONCE + "history:"
COUNTED: Final = ("success_count", "total_attempts")  # of a procedure
# Before the name of a machine. A client may be called "Claude on Mac"; none has the no-break space.
ON: Final = " on\N{NO-BREAK SPACE}"
NEVER: Final = -1e9  # a logarithm of nothing, as JSON has no infinity


def fields_of(record: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a memory says by name, from its record as an export has it, and what was shown of its document."""
    fields = {name: value for name, value in record.items() if name not in OWN | PARTS}
    fields |= {DETAIL + name: value for name, value in record["detail"].items() if name not in COUNTED}
    fields |= {name: record["activation"][name] for name in ("importance", "started_at")}
    fields |= _tag_places(record["tags"], {name: known[name] for name in known if name.startswith(TAG)})
    return fields | {name: _event(row) for name, row in history_of(record).items()}


def _tag_places(tags: Sequence[str], known: Mapping[str, int | None]) -> dict[str, int]:
    """Return places of a row's tags by name, which say their order: the known ones, and new tags after them, if so."""
    names = [TAG + tag for tag in tags]
    there = {name: place for name in names if (place := known.get(name)) is not None}
    after = max(there.values(), default=-1) + 1
    places = there | {name: after + number for number, name in enumerate(name for name in names if name not in there)}
    # Else the order of tags that two machines gave one place would be a change of whoever reads it.
    return places if _tags_in_order(places) == names else {name: place for place, name in enumerate(names)}


def _tags_in_order(places: Mapping[str, int]) -> list[str]:
    """Return the names of tags as a row has them: those of one place by code points."""
    return sorted(places, key=lambda name: (places[name], name))


def history_of(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a history by names that are the same on each machine, whatever an entry's number there.

    Entries of one moment become the same when what they told apart is erased; then the second has a name of its own.
    """
    times: Counter[str] = Counter()
    found = {}
    for row in record["history"]:
        identity = [row.get(name) for name in ("operation", "at", "session_id", "changes")]
        digest = digest_of(identity)
        times[digest] += 1
        found[HISTORY + (digest if times[digest] == 1 else digest_of([*identity, times[digest]]))] = row
    return found


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "version" and value is not None}


def record_of(id_: str, shown: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Return the record of a memory, as an export has it, from what is shown of its document; its history apart."""
    columns = {name: value for name, value in shown.items() if not name.startswith((DETAIL, TAG, HISTORY))}
    activation = {
        "importance": columns.pop("importance"),
        "started_at": columns.pop("started_at"),
        "rate_per_day": f.rate_per_day(columns["type"], columns.get("kind"), pinned=columns.get("pinned", False)),
        "access_count": 0,
    }
    places = {name: value for name, value in shown.items() if name.startswith(TAG)}
    return {
        "record": "memory",
        "id": id_,
        "version": version,
        **columns,
        "tags": [name.removeprefix(TAG) for name in _tags_in_order(places)],
        "detail": {name.removeprefix(DETAIL): value for name, value in shown.items() if name.startswith(DETAIL)},
        "activation": activation,
        "history": [],
    }


def without_history(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of a document, without what happened to it."""
    return {name: value for name, value in shown.items() if not name.startswith(HISTORY)}


def events(shown: Mapping[str, Any], without: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the entries of a history, oldest first, without those of some names."""
    names = (name for name in shown if name.startswith(HISTORY) and name not in without)
    return sorted((shown[name] for name in names), key=lambda row: str(row["at"]))


def told_by(document: Document, device: str, writers: Collection[str]) -> Document:
    """Return a document in whose history stands what was done on this device, of which these are the writers."""
    entries = {
        name: tuple(_on(one, device) if one.writer in writers else one for one in all_)
        if name.startswith(HISTORY)
        else all_
        for name, all_ in document.entries.items()
    }
    return replace(document, entries=entries)


def _on(entry: Entry, device: str) -> Entry:
    """Return an entry of a history with the machine on which it was done: another's one, if only its text went here."""
    actor = entry.value.get("actor") or "somebody"
    return entry if ON in actor else replace(entry, value={**entry.value, "actor": f"{actor}{ON}{device}"})


# -- counts ------------------------------------------------------------------------------------------------------------


def counts_of(record: Mapping[str, Any]) -> list[float]:
    """Return what was counted of a memory: uses, successes, attempts, the logarithm of its reinforcement, the second
    of its last use.
    """
    activation, detail = record["activation"], record["detail"]
    strength, used = activation["reinforcement"], activation["last_accessed_at"]
    return [
        float(activation["access_count"]),
        *(float(detail.get(name) or 0) for name in COUNTED),
        NEVER if strength is None else float(strength),
        0.0 if used is None else _seconds(used),
    ]


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def totals(document: Document) -> list[float]:
    """Return what all devices counted together."""
    rows = list(document.counts.values()) or [[0.0, 0.0, 0.0, NEVER, 0.0]]
    uses, successes, attempts, strengths, used = zip(*rows, strict=True)
    return [sum(uses), sum(successes), sum(attempts), _log_sum(strengths), max(used)]


def with_counts(known: Document, device: str, now: list[float]) -> dict[str, list[float]]:
    """Return the counts by device, with what this one counted since they were written down."""
    before = totals(known)
    if now == before:
        return dict(known.counts)
    own = known.counts.get(device, [0.0, 0.0, 0.0, NEVER, 0.0])
    more = [max(0.0, new - old) for new, old in zip(now[:3], before[:3], strict=True)]
    counted = [one + further for one, further in zip(own[:3], more, strict=True)]
    strength = own[3] if now[3] <= before[3] else _log_sum((own[3], _log_difference(now[3], before[3])))
    return {**known.counts, device: [*counted, strength, max(own[4], now[4])]}


def _log_sum(logarithms: Iterable[float]) -> float:
    there = [one for one in logarithms if one > NEVER]
    if not there:
        return NEVER
    largest = max(there)
    return largest + math.log(sum(math.exp(one - largest) for one in there))


def _log_difference(larger: float, smaller: float) -> float:
    return larger if smaller <= NEVER else larger + math.log(-math.expm1(smaller - larger))
