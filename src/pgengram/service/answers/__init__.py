"""What is answered: hits, contexts, memories whole, and receipts of what was changed.

Here is how much of an answer a language model has room for; programs and people get all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic_core import to_json

from pgengram.runtime.context import ROOM
from pgengram.views import Shown

# Bytes of one answer as JSON: about 12,000 tokens of English. Clients get it as text and again as an object, and the
# stricter of them refuse what has more than 25,000 together.
MOST: Final = 48_000
BRIEF: Final = 200  # bytes of a hit in brief besides its text
CLIPPED: Final = (2_000, 500, 200)  # characters that are left of each text, until the answer fits
LONGEST_CHANGE: Final = 300  # characters of a text in a history that is too long
LEFT_OUT: Final = (
    "Not everything fits into one answer: texts that end in … are cut, what stands beside an element may be missing, "
    "and "
    "left_out says "
    "how many elements are. Ask for less at once."
)


def fitting_views(views: Sequence[Shown], *, in_brief: bool = False) -> int:
    """Return how many of the first views fit into the answer, at least one.

    Args:
        views: hits or memories.
        in_brief: whether only their texts are shown, and little besides.
    """
    if (room := ROOM.get()) is None:
        return len(views)
    used = 0
    for place, view in enumerate(views):
        used += len(view["content"].encode("utf-8", "replace")) + BRIEF if in_brief else _value_size(view)
        if used > room and place:
            return place
    return len(views)


def with_short_history(view: Shown) -> Shown:
    """Return a memory with its history, whose texts are cut where the memory would not fit otherwise."""
    room = ROOM.get()
    if room is None or "history" not in view or _value_size(view) <= room:
        return view
    return bounded(
        {**view, "history": _clipped(view["history"], LONGEST_CHANGE)}, room, ("history", "relations", "clusters")
    )


def bounded(answer: Shown, room: int, lists: Sequence[str] | None = None) -> Shown:
    """Return an answer that fits: its texts cut, then what stands beside elements, then the ends of its longest lists.

    Args:
        answer: as JSON.
        room: in bytes.
        lists: the fields to shorten; all if none are named.
    """
    if _value_size(answer) <= room:
        return answer
    names = [name for name in lists or answer if isinstance(answer.get(name), list)]
    answer = {**answer}
    for most in CLIPPED:
        answer |= {name: _clipped(answer[name], most) for name in names}
        if _value_size(answer) <= room:
            return answer
    answer |= {"note": " ".join(filter(None, (answer.get("note"), LEFT_OUT)))}
    for most in (1, 0):
        answer |= {name: _with_few_beside(answer[name], most) for name in names}
        if _value_size(answer) <= room:
            return answer
    answer, left_out = _with_fewer(answer, names, room)
    return {**answer, "left_out": left_out}


def bounded_as_it_is(answer: Any, room: int) -> tuple[Any, str]:
    """Return another system's answer, whose elements stay whole, with as many of them as fit, at least one of each
    list; and a sentence on what is left out, empty where nothing is.
    """
    if _value_size(answer) <= room:
        return answer, ""
    if isinstance(answer, str):
        return answer[
            :room
        ], f"The text is cut: {room:,} of {len(answer):,} characters are shown. Ask for less at once."
    given = answer if isinstance(answer, dict) else {"": answer}
    names = [name for name, value in given.items() if isinstance(value, list) and len(value) > 1]
    kept, left_out = _with_fewer(given, names, room)
    told = ", ".join(f"{missing:,} of {len(given[name]):,} {name}".strip() for name, missing in left_out.items())
    note = f"Not everything fits into one answer: the last {told} are left out. Ask for less at once." if told else ""
    return kept if given is answer else kept[""], note


def _with_fewer(answer: Shown, names: Sequence[str], room: int) -> tuple[Shown, dict[str, int]]:
    """Return an answer with the first elements of its lists as far as they fit, and how many of each are left out."""
    sizes = {name: _value_size(answer[name]) for name in names}
    # Of each list the same share, so that none goes.
    share = (room - _value_size(answer) + sum(sizes.values())) / max(1, sum(sizes.values()))
    kept = {name: _first_fitting(answer[name], int(size * share)) for name, size in sizes.items()}
    return {**answer, **kept}, {name: n for name in names if (n := len(answer[name]) - len(kept[name]))}


def _first_fitting(values: Sequence[Any], room: int) -> list[Any]:
    """Return as many of the first values as fit, at least one."""
    kept: list[Any] = []
    for value in values:
        room -= _value_size(value) + 1
        if room < 0 and kept:
            break
        kept.append(value)
    return kept


def _with_few_beside(values: Sequence[Any], most: int) -> list[Any]:
    """Return elements with at most so many objects in each list: what was stored goes before what is near it."""
    return [
        {key: _fewer(one, most) for key, one in value.items()} if isinstance(value, dict) else value for value in values
    ]


def _fewer(value: Any, most: int) -> Any:
    return value[:most] if isinstance(value, list) and value and isinstance(value[0], dict) else value


def _clipped(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else value[:most] + "…"
    if isinstance(value, Mapping):
        return {key: _clipped(one, most) for key, one in value.items()}
    return [_clipped(one, most) for one in value] if isinstance(value, list) else value


def _value_size(value: Any) -> int:
    return len(to_json(value))
