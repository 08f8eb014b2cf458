"""Which messages of a conversation that is a tree lead to its end, and which were taken back."""

from __future__ import annotations

from collections.abc import Collection, Mapping

ON, BESIDE, TAKEN_BACK, APART = range(4)  # of what leads to the end, not, left, or in another tree


def withdrawn(parents: Mapping[str, str | None], leaf: str, starts: Collection[str] | None = None) -> set[str]:
    """Return the messages of branches that were left.

    Args:
        parents: of each message, the one before it; None for a beginning.
        leaf: where the conversation ends; one of them.
        starts: the messages with which a branch can begin; by default any. What branches off otherwise, such as the
            answer of a second tool, belongs to the conversation.
    """
    chain = _up(parents, leaf, ())
    before_all = parents[chain[-1]]
    verdicts = dict.fromkeys(chain, ON)
    for name in parents:
        for one in reversed(_up(parents, name, verdicts)):
            above = parents[one]
            below = ON if above is not None and above == before_all else APART
            verdict = verdicts.get(above, below) if above is not None else below
            if verdict in (ON, BESIDE):
                verdict = TAKEN_BACK if starts is None or one in starts else BESIDE
            verdicts[one] = verdict
    return {name for name, verdict in verdicts.items() if verdict == TAKEN_BACK}


def trees(parents: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return the messages of each tree by its first one, in their order."""
    roots: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for name in parents:
        path = _up(parents, name, roots)
        above = parents.get(path[-1]) if path else None
        root = roots[name] if not path else roots.get(above or "", path[-1])
        roots |= dict.fromkeys(path, root)
        found.setdefault(root, []).append(name)
    return found


def _up(parents: Mapping[str, str | None], name: str, known: Collection[str]) -> list[str]:
    """Return a message and those above it, as far as none of them is known; a circle ends."""
    path: dict[str, None] = {}
    at: str | None = name
    while at is not None and at in parents and at not in known and at not in path:
        path[at] = None
        at = parents[at]
    return list(path)
