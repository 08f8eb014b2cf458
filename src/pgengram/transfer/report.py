"""What an import came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pgengram import fields as f
from pgengram.text.secrets.redaction import redacted
from pgengram.transfer.gone import Gone
from pgengram.transfer.records import Left

MOST_LEFT: Final = 1_000  # of what was left out that are kept each for itself
PLACES: Final = 3  # that are told for each reason
EXAMPLES: Final = 10
EXAMPLE: Final = 100  # characters of one


@dataclass(slots=True)
class LeftOut:
    """How much was left out for one reason, and where the first were."""

    count: int = 0
    first: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Imported:
    """What an import came to, by the kind of record: added, there already, of those changed; and what was left, with
    its reason.

    left: of what somebody would miss, the first MOST_LEFT; reasons: all of it by reason; passed: what nobody would
        miss.
    gone: memories whose note is gone from the folder that it was exported to; None where no list tells.
    redacted: how many records had secrets taken out of them. since, until: from when to when the added ones are.
    """

    system: str
    dry_run: bool
    added: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    updated: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    left: list[Left] = field(default_factory=list)
    reasons: dict[str, LeftOut] = field(default_factory=dict)
    passed: dict[str, LeftOut] = field(default_factory=dict)
    gone: list[Gone] | None = None
    redacted: int = 0
    since: datetime | None = None
    until: datetime | None = None
    examples: list[str] = field(default_factory=list)
    _last_example: str = ""

    def leave(self, one: Left) -> None:
        """Note that something was not taken."""
        group = (self.passed if one.by_design else self.reasons).setdefault(one.reason, LeftOut())
        group.count += 1
        if len(group.first) < PLACES:
            group.first.append(one.place)
        if not one.by_design and len(self.left) < MOST_LEFT:
            self.left.append(one)

    def add(self, record: str, kind: str, text: str, at: datetime | None, of: str) -> None:
        """Note that something was added; an example is shown of each `of`, such as a conversation."""
        self.added[record] += 1
        self.kinds[kind] += 1
        if at is not None:
            self.since = min(self.since or at, at)
            self.until = max(self.until or at, at)
        if len(self.examples) < EXAMPLES and of != self._last_example:
            self._last_example = of
            date = f"{at:%Y-%m-%d} " if at else ""
            self.examples.append(f"{date}{kind}: {' '.join(redacted(text[: EXAMPLE * 4])[0].split())[:EXAMPLE]}")

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        counts = {
            "added": dict(self.added), "known": dict(self.known), "updated": dict(+self.updated),
            "kinds": dict(self.kinds), "redacted": self.redacted,
        }  # fmt: skip
        period = {"since": f.as_utc(self.since), "until": f.as_utc(self.until)} if self.since and self.until else {}
        groups = {
            name: [{"reason": reason, "count": one.count, "first": one.first} for reason, one in found.items()]
            for name, found in (("reasons", self.reasons), ("passed", self.passed))
        }
        left = [{"place": one.place, "reason": one.reason} for one in self.left]
        common = {"from": self.system, "dry_run": self.dry_run, **counts, **period, "examples": self.examples}
        gone = {} if self.gone is None else {"gone": [one.as_dict() for one in self.gone]}
        return {**common, **groups, **gone, "left": left}
