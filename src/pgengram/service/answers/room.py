"""How much of an answer a language model has room for; programs and people get all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_json

from pgengram.views import Found, Read, Shown

# Bytes of one answer as JSON: about 12,000 tokens of English. Clients get it as text and again as an object, and the
# stricter of them refuse what has more than 25,000 together.
MOST: Final = 48_000
CLIPPED: Final = (2_000, 500, 200)  # characters that are left of each text, until the answer fits
LEAST: Final = 300  # bytes that each field keeps beside a memory that is longer alone
AROUND: Final = ("history", "relations", "clusters")  # of a memory, beside what it says
# One memory, and what a caller repeats.
WHOLE: Final = frozenset({"memory", "text", "next_cursor", "not_shown", "confirm_token"})
TURNS: Final = "turns"
LEFT_OUT: Final = (
    "Not everything fits into one answer: texts that end in … are cut, what stands beside an element may be missing, "
    "and left_out says how many elements are. Ask for less at once."
)
CUT: Final = "The text is cut. Ask for less at once."
NOT_SHOWN: Final = "These memories don't fit into one answer; read those in not_shown with another call."
LONGER: Final = "One memory alone is longer than an answer should be."


def within_room(view: BaseModel, as_shown: Callable[[BaseModel], Shown]) -> Shown:
    """Return an answer as JSON of at most `MOST` bytes; only where one memory alone has more is it longer, and says so.

    Memories stay whole: what does not fit follows with the cursor, or is named. Of everything else the texts are cut,
    and then the ends of its longest lists.

    Args:
        view: what a tool answered.
        as_shown: returns what the client gets of an answer.
    """
    answer = as_shown(view)
    if not isinstance(view, Found | Read):
        return _or_said_longer(bounded(answer, MOST))
    count = len(view.results if isinstance(view, Found) else view.memories)
    if size_of(answer) > MOST:
        answer, count = _with_first(view, count, as_shown, MOST - min(size_of(answer.get(TURNS, [])), MOST // 2))
    if isinstance(view, Found) and view.page:
        view.page.note(count)
    return _or_said_longer(answer)


def bounded(answer: Shown, room: int, names: Sequence[str] | None = None) -> Shown:
    """Return an answer that fits: its texts cut, then what stands beside each element, then the ends of its longest
    lists, objects and texts.

    Args:
        answer: as JSON.
        room: in bytes.
        names: the fields to shorten; all if none are named.
    """
    if size_of(answer) <= room:
        return answer
    among = list(answer if names is None else names)
    names = [name for name in among if name not in WHOLE and isinstance(answer.get(name), list | dict | str)]
    for shorter in _ever_shorter(answer, names, room):
        answer = shorter
        if size_of(answer) <= room:
            break
    return answer


def bounded_as_it_is(answer: Any) -> tuple[Any, str]:
    """Return another system's answer, whose elements stay whole, with as many of them as fit, at least one; and a
    sentence on what is left out, empty where nothing is. Both together have at most `MOST` bytes, unless one element
    alone has more.
    """
    if isinstance(answer, str):
        text = _cut_text(answer, MOST - len(CUT), lambda text: len(text.encode()))
        return text, CUT if text != answer else ""
    if size_of(answer) <= MOST:
        return answer, ""
    given = answer if isinstance(answer, dict) else {"": answer}
    lists = {name: value for name, value in given.items() if isinstance(value, list)}
    shown: Shown = _with_beginnings(given, [*lists], MOST - len(_note_on_missing(lists, {})))
    if lists and not any(shown[name] for name in lists):
        longest = max(lists, key=lambda name: len(lists[name]))
        shown |= {longest: lists[longest][:1]}
    return shown if given is answer else shown[""], _note_on_missing(lists, shown)


def size_of(value: Any) -> int:
    """Return how many bytes a value has as the JSON that is sent."""
    return len(to_json(value))


def _with_first(view: Found | Read, count: int, as_shown: Callable[[BaseModel], Shown], room: int) -> tuple[Shown, int]:
    """Return an answer with as many of the first of its memories as have room, and how many these are."""
    count = _how_many(count, lambda n: size_of({**as_shown(_first(view, n)), TURNS: []}) <= room)
    answer = as_shown(_first(view, count))
    answer = _with_short_history(answer) if count == 1 and isinstance(view, Read) else answer
    return bounded(answer, MOST, [name for name in answer if name not in ("results", "memories")]), count


def _first(view: Found | Read, count: int) -> Found | Read:
    """Return an answer with the first hits alone and the cursor to the others, or the first memories and their ids."""
    if isinstance(view, Read):
        left = [one["id"] for one in view.memories[count:]]
        note = " ".join(filter(None, (view.note, NOT_SHOWN))) if left else view.note
        return view.model_copy(update={"memories": view.memories[:count], "not_shown": left or None, "note": note})
    how = view.page.after(count) if view.page else {}
    return view.model_copy(update={"results": view.results[:count], "count": count, "is_cut": True, **how})


def _or_said_longer(answer: Shown) -> Shown:
    """Return an answer with a note where one memory alone made it longer than it should be."""
    if size_of(answer) <= MOST:
        return answer
    return {**answer, "note": " ".join(filter(None, (answer.get("note"), LONGER)))}


def _how_many(count: int, fits: Callable[[int], bool]) -> int:
    """Return how many of `count` elements, which do not all fit, do; at least one."""
    least = 1
    while count - least > 1:
        middle = (least + count) // 2
        least, count = (middle, count) if fits(middle) else (least, middle)
    return least


def _with_short_history(answer: Shown) -> Shown:
    """Return an answer with one memory of which what surrounds it is cut where the memory would not fit otherwise."""
    room = MOST - size_of({**answer, "memories": []})
    return {**answer, "memories": [bounded(memory, room, AROUND) for memory in answer["memories"]]}


def _ever_shorter(answer: Shown, names: Sequence[str], room: int) -> Iterator[Shown]:
    lists = [name for name in names if not isinstance(answer[name], str)]
    for most in CLIPPED:
        answer = answer | {name: _clipped(answer[name], most) for name in lists}
        yield answer
    answer = answer | {"note": " ".join(filter(None, (answer.get("note"), LEFT_OUT)))}
    names = [name for name in names if name != "note"]
    for most in (1, 0):
        answer = answer | {name: _with_few_beside(answer[name], most) for name in lists}
        yield answer
    yield _with_fewer(answer, names, room)


def _with_fewer(answer: Shown, names: Sequence[str], room: int) -> Shown:
    """Return an answer with the beginnings of its longest fields, and how many elements of each are left out."""
    lengths = {name: len(answer[name]) for name in names if not isinstance(answer[name], str)}
    kept = _with_beginnings({**answer, "left_out": lengths}, names, room)
    return {**kept, "left_out": {name: n for name in lengths if (n := lengths[name] - len(kept[name]))}}


def _with_beginnings(answer: Shown, names: Sequence[str], room: int) -> Shown:
    """Return an answer with the beginnings of its longest lists, objects and texts: the short ones stay whole."""
    room -= size_of({**answer, **{name: type(answer[name])() for name in names}})
    kept = {**answer}
    for place, name in enumerate(sorted(names, key=lambda name: size_of(answer[name]))):
        kept[name] = _beginning(answer[name], max(LEAST, room // (len(names) - place)))
        room -= size_of(kept[name]) - 2
    return kept


def _beginning(value: Any, room: int) -> Any:
    """Return as much of the beginning of a list, an object or a text as has so many bytes between its marks."""
    if isinstance(value, str):
        return _cut_text(value, room, lambda text: size_of(text) - 2)
    if isinstance(value, Mapping):
        pairs = _beginning([{name: one} for name, one in value.items()], room)
        return {name: one for pair in pairs for name, one in pair.items()}
    for place, one in enumerate(value):
        room -= size_of(one) + (place > 0)  # and a comma
        if room < 0:
            return value[:place]
    return value


def _cut_text(text: str, room: int, size: Callable[[str], int]) -> str:
    """Return the beginning of a text that is too long, and its last line, which may close what the first opens."""
    if size(text) <= room:
        return text
    _, line, last = text.rpartition("\n")
    count = _how_many(len(text), lambda n: size(f"{text[:n]}…{line}{last * bool(line)}") <= room)
    return f"{text[:count]}…{line}{last * bool(line)}"


def _note_on_missing(lists: Mapping[str, list[Any]], shown: Shown) -> str:
    """Return a sentence on how many elements of which lists are not shown; empty where all are."""
    counts = {name: (len(value) - len(shown.get(name, ())), len(value)) for name, value in lists.items()}
    last = ", ".join(f"{n:,} of {of:,} {name}".strip() for name, (n, of) in counts.items() if n)
    return f"Not everything fits into one answer: the last {last} are left out. Ask for less at once." if last else ""


def _with_few_beside(values: Any, most: int) -> Any:
    """Return elements with at most so many objects in each list: what was stored goes before what is near it."""
    if not isinstance(values, list):
        return values
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
