"""Short answers: what a language model needs of an answer; nothing empty, nothing said twice.

Programs that want every field set PGENGRAM_ANSWERS=full, or use the library.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import singledispatch
from typing import Any, Final

from pydantic import BaseModel

from pgengram.ids import short
from pgengram.text.words import beginning
from pgengram.views import Done, Found, Recalled, Shown, Stored, StoredMany, Updated, cut, stated_text

IDS: Final = frozenset({
    "id", "memory_id", "superseded_by", "replaced", "replaced_by", "replaced_by_ids", "replacement_ids", "older",
    "newer",
})  # fmt: skip
UNLIKELY_CHARS: Final = 150  # of a hit that hardly fits; enough to tell whether to read it whole
# Kinds that say how to take a memory; the others say no more than the text does.
KINDS_TO_SHOW: Final = frozenset({"preference", "decision", "goal"})
OF_SPACE: Final = ("author", "space")  # said even where the text names them
WHOSE: Final = ("project", "user", "speaker", *OF_SPACE)
SAID_IN_MESSAGE: Final = ("merged", "taken_over", "kept_as_stored", "replaced")
AS_THEY_ARE: Final = ("older", "newer", "superseded_by", "changed_since")


def in_full(view: BaseModel, *without: str) -> Shown:
    """Return an answer with all its fields that hold something, but for those named."""
    answer: Shown = view.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={*without})
    return answer


@singledispatch
def in_brief(view: BaseModel) -> Shown:
    """Return an answer as an object, as short as it is useful; what has no short form comes whole."""
    return in_full(view)


@in_brief.register
def _(view: Found) -> Shown:
    answer = in_full(view, "query", "count", "search", "language", "answered")
    if (offset := answer.pop("next_offset", None)) is not None:  # a cursor as good, and shorter
        answer["next_cursor"] = str(offset)
    if view.total is not None:
        answer.pop("results")
    elif not view.in_detail:
        answer |= _hits_in_brief(view)
        if not view.is_cut and (view.note or any(hit.get("unlikely") for hit in view.results)):
            # what follows is no likelier, or told of
            answer.pop("next_cursor", None)
    return answer


def _hits_in_brief(view: Found) -> Shown:
    """Return the hits, those that hardly fit last, and what all of them share once; the first of these has `evidence`
    "none" where others fit.
    """
    likely = [hit for hit in view.results if "unlikely" not in hit]
    hits = [*map(hit_in_brief, likely), *(hit_in_brief(hit) for hit in view.results if "unlikely" in hit)]
    if len(likely) < len(hits) and view.evidence != "none":
        hits[len(likely)]["evidence"] = "none"
    shared = {name: hits[0][name] for name in WHOSE if _is_shared(name, hits)}
    return {"results": [_without_fields(hit, shared) for hit in hits], **shared}


def _without_fields(hit: Shown, names: Collection[str]) -> Shown:
    return {name: value for name, value in hit.items() if name not in names}


def _is_shared(name: str, hits: Sequence[Shown]) -> bool:
    return len(hits) > 1 and bool(hits[0].get(name)) and all(hit.get(name) == hits[0][name] for hit in hits)


@in_brief.register
def _(view: Recalled) -> Shown:
    return in_full(view, "count", "memory_ids")


@in_brief.register
def _(view: Stored) -> Shown:
    answer = in_full(view, "memory_id", "created", "memory", "extra_metadata", *SAID_IN_MESSAGE)
    return {"ok": view.ok, "memory_id": short(view.memory_id), **_with_short_ids_in(answer)}


@in_brief.register
def _(view: StoredMany) -> Shown:
    answer = in_full(view, "results", "created", "failed")
    answer["ids"] = [short(item["memory_id"]) if item["ok"] else None for item in view.results]
    if remarkable := [remarks for item in view.results if (remarks := _item_in_brief(item))]:
        answer["results"] = remarkable
    return answer


@in_brief.register
def _(view: Updated) -> Shown:
    answer = in_full(view, "changed_fields", "memory", "extra_metadata", "dry_run")
    return {**answer, "memory_id": short(view.memory_id)}


@in_brief.register
def _(view: Done) -> Shown:
    answer = in_full(view, "results", "forgotten", "erased")
    if getattr(view, "confirm_token", None) or getattr(view, "previewed", False) or not view.ok:
        answer["results"] = [_with_short_ids_in(item) for item in view.results]
    elif missing := [item for item in view.results if not item["ok"]]:
        answer["results"] = missing
    return _with_short_ids_in(answer)


def _fields_of(hit: Shown, names: Sequence[str]) -> Shown:
    return {name: hit[name] for name in names if name in hit}


def hit_in_brief(hit: Shown) -> Shown:
    """Return a hit as id, text, date, and what the text does not say: whose it is, and what became of it."""
    unlikely = hit.get("unlikely")
    text = cut(hit["content"], UNLIKELY_CHARS) if unlikely else hit["content"]
    made: Shown = {"id": short(hit["id"]), "text": text}
    said = hit["content"].casefold()
    kind = hit.get("kind", "")
    if kind in KINDS_TO_SHOW and beginning(kind) not in said and not unlikely:
        made["kind"] = kind
    made |= {
        name: value
        for name, value in _fields_of(hit, WHOSE).items()
        if name in OF_SPACE or value.casefold() not in said
    }
    return made | _state_of(hit) | _with_short_ids_in(_fields_of(hit, AS_THEY_ARE))


def _state_of(hit: Shown) -> Shown:
    """Return when a hit was stated last, when it happens where that is another day, and what became of it."""
    at = datetime.fromisoformat(hit.get("last_confirmed_at") or hit["created_at"])
    made: Shown = {"stated": stated_text(at, exactly="conflicts_with" in hit)}
    if (when := hit.get("occurred_at", "")[:10]) and when != made["stated"][:10]:
        made["when"] = when
    if hit["status"] != "active":
        made["status"] = "forgotten" if hit["status"] == "invalidated" else hit["status"]
    if "conflicts_with" in hit:
        made["conflicts_with"] = [short(other["id"]) for other in hit["conflicts_with"]]
    return made


def _item_in_brief(item: Shown) -> Shown:
    """Return what of one item of a batch needs attention, with its place; nothing where all went as expected."""
    remarks = {name: value for name, value in item.items() if name not in ("memory_id", "created", "ok")}
    return _with_short_ids_in(remarks) if len(remarks) > 1 else {}


def _with_short_ids_in(answer: Shown) -> Shown:
    """Return an answer with every id in it shortened, however deep it stands."""
    return {name: value if name == "read" else _value_in_brief(name, value) for name, value in answer.items()}


def _value_in_brief(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_value_in_brief(name, one) for one in value]
    if isinstance(value, dict):
        return _with_short_ids_in(value)
    return short(value) if name in IDS else value
