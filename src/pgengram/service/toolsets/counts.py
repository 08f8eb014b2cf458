"""The counts of memory_stats, as they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import Any, Final

from pgengram.service.toolsets.reviewing import FINDING_EXCERPT_CHARS
from pgengram.store.connection.database import Row
from pgengram.store.maintenance import findings
from pgengram.text.fencing import one_line
from pgengram.views import Shown, as_text, cut

NAMED: Final = 50  # projects, providers and collections that are counted by name
NONE_GIVEN: Final = "none given"


def totals_view(counted: findings.Counted) -> Shown:
    """Return how many memories there are in each state, and how much else."""
    state = counted.by["state"]
    return {
        "memories": counted.sums["memories"],
        **{name: state.get(name, 0) for name in ("active", "expired", "archived", "working")},
        "forgotten": state.get("invalidated", 0),
        **{name: counted.sums[name] for name in ("pinned", "embedded", "untagged", "accesses")},
        "tags": counted.all_tags,
        "relationships": counted.relationships,
    }


def counts(counted: findings.Counted, meant: Callable[[str], str]) -> Shown:
    """Return the counts of active memories, by what callers know; histograms have all their bins.

    Args:
        counted: what was counted.
        meant: returns the project that a name stands for.
    """
    by = counted.by | {"project": _alias_counts(counted.by["project"], meant)}
    tenths = range(findings.IMPORTANCE_BINS)
    return {
        "by_type": dict(sorted(by["type"].items())),
        "by_kind": dict(sorted(by["kind"].items())),
        **{f"by_{name}": _most(by[name]) for name in ("project", "source_provider", "collection")},
        "tags": counted.tags,
        "importance": {f"{n / 10:.1f}–{(n + 1) / 10:.1f}": by["importance_bin"].get(n, 0) for n in tenths},
        "age": _binned(by["age_bin"], [*findings.AGES.values(), findings.OLDEST]),
        "length": _binned(by["length_bin"], [*findings.LENGTHS.values(), findings.LONGEST]),
        "half_lives": [
            {
                "rate_per_day": rate,
                "half_life_days": round(log(2) / rate, 1) if rate else None,
                "memories": number,
            }
            for rate, number in sorted(counted.rates.items())
        ],
    }


def _alias_counts(numbers: Mapping[Any, int], meant: Callable[[str], str]) -> dict[Any, int]:
    """Return the counts of projects, those of their aliases among them."""
    joined: dict[Any, int] = {}
    for name, number in numbers.items():
        one = name if name is None else meant(name)
        joined[one] = joined.get(one, 0) + number
    return joined


def _most(numbers: Mapping[Any, int]) -> dict[str, int]:
    """Return the largest counts, those without a value last."""
    named = sorted(((name, n) for name, n in numbers.items() if name is not None), key=lambda one: (-one[1], one[0]))
    return dict(named[:NAMED]) | ({NONE_GIVEN: numbers[None]} if None in numbers else {})


def _binned(numbers: Mapping[int, int], names: Sequence[str]) -> dict[str, int]:
    return {name: numbers.get(place, 0) for place, name in enumerate(names)}


def example_of(row: Row, name: str) -> Shown:
    """Return a memory as an example of what is counted, with the value it is one for."""
    return {
        "id": str(row["id"]),
        "excerpt": cut(one_line(row["excerpt"]), FINDING_EXCERPT_CHARS),
        name: as_text(row[name]),
    }


def percent(part: int, whole: int) -> float | None:
    """Return a share in percent; None of nothing."""
    return round(100 * part / whole, 1) if whole else None
