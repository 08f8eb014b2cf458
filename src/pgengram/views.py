"""What leaves: the answers of the tools, and one memory as it is shown. No vector ever leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from math import log
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import to_jsonable_python

from pgengram import fields as f
from pgengram.details import CONFIDENCE_NAME
from pgengram.errors import PgengramError
from pgengram.runtime.context import author_of
from pgengram.text.language import clear_language
from pgengram.text.shown import is_day, is_likely

Shown = dict[str, Any]

BASE_FIELDS = (
    "type", "kind", "status", "content", "importance", "relevance", "confidence", "trust", "sources", "emotion",
    "tags", "metadata", "pinned",
    "source", "source_provider", "capture_mode", "session_id", "session_sequence", "speaker", "user", "project",
    "collection",
    "occurred_at", "expires_at", "last_confirmed_at", "valid_from", "valid_to", "reason", "replaced_by",
    "superseded_by",
    "version", "created_at", "updated_at", "access_count", "last_accessed_at", "changed_since", "conflicts_with", "older", "newer",
)  # fmt: skip
HIT_FIELDS = (
    "type", "kind", "status", "speaker", "user", "project", "tags", "importance", "relevance", "occurred_at",
    "created_at", "last_confirmed_at",
    "superseded_by", "changed_since", "conflicts_with", "older", "newer",
)  # fmt: skip
# Of a field that tools/list leaves out, as it is rare and told of in the description.
Unlisted: Any = SkipJsonSchema()  # type: ignore[type-arg]
RELATED_EXCERPT_CHARS = 200  # characters of a memory beside what was asked for
EMPTY: tuple[Any, ...] = (None, [], {}, "")
CUT = 80
IDS = ("replaced_by", "superseded_by")


class Answer(BaseModel):
    """What every tool answers at least.

    redacted: the sorts of secrets that were taken out of what is stored; read: how arguments were read that were given
    otherwise, by their names.
    """

    model_config = ConfigDict(defer_build=True)

    ok: bool = True
    read: Annotated[dict[str, str] | None, Unlisted] = None
    redacted: Annotated[list[str] | None, Unlisted] = None


class Stored(Answer):
    """Answer of create_memory."""

    memory_id: str
    message: str
    created: Annotated[bool, Unlisted]
    memory: Annotated[Shown, Unlisted]
    extra_metadata: SkipJsonSchema[list[str] | None] = None
    merged: SkipJsonSchema[bool | None] = None
    taken_over: SkipJsonSchema[list[str] | None] = None
    kept_as_stored: SkipJsonSchema[list[str] | None] = None
    near_duplicates: SkipJsonSchema[list[Shown] | None] = None
    previously_corrected: SkipJsonSchema[list[Shown] | None] = None
    may_replace: SkipJsonSchema[list[Shown] | None] = None
    replaced: SkipJsonSchema[list[str] | None] = None
    degraded: Annotated[bool | None, Unlisted] = None


class StoredMany(Answer):
    """Answer of create_memories."""

    results: Annotated[list[Shown], Field(description="What needs attention.")]
    created: Annotated[int, Unlisted]
    failed: Annotated[int, Unlisted]
    message: str
    degraded: Annotated[bool | None, Unlisted] = None


class Page(NamedTuple):
    """What makes a page of hits shorter: `after` returns the fields that say how it goes on after so many, and `note`
    has it counted that so many were shown.
    """

    after: Callable[[int], Shown]
    note: Callable[[int], None]


class Found(Answer):
    """Answer of search_memories.

    answered: the probability that one of the hits answers, of which `evidence` is a coarse form; in_detail: whether the
    caller asked for every field of the hits; is_cut: whether the page has more hits; period: the times that the
    question was read to name; turns: what was said, where the caller asked for it; turns_match: how many turns match,
    unless `turns` has all of them; stale: the newest memories may be missing, as only a replica could be asked.
    """

    query: Annotated[str, Unlisted]
    count: Annotated[int, Unlisted]
    evidence: f.Evidence | None = None
    answered: Annotated[float | None, Unlisted] = None
    results: Annotated[list[Shown], Field(description="{id, text, date, …}")]
    search: Annotated[str, Unlisted]
    total: Annotated[int | None, Unlisted] = None
    next_cursor: Annotated[str | None, Unlisted] = None
    next_offset: Annotated[int | None, Unlisted] = None
    hidden: Annotated[Shown | None, Unlisted] = None
    period: Annotated[str | None, Unlisted] = None
    note: Annotated[str | None, Unlisted] = None
    language: Annotated[str | None, Unlisted] = None
    turns: Annotated[list[Shown] | None, Unlisted] = None
    turns_match: Annotated[int | None, Unlisted] = None
    degraded: Annotated[bool | None, Unlisted] = None
    stale: Annotated[bool | None, Unlisted] = None
    in_detail: Annotated[bool, Unlisted] = Field(default=False, exclude=True)
    is_cut: Annotated[bool, Unlisted] = Field(default=False, exclude=True)
    page: Annotated[Page | None, Unlisted] = Field(default=None, exclude=True)

    def is_likely(self, hit: Shown) -> bool:
        """Whether one of its hits is likely to answer."""
        return is_likely(hit, self.evidence)


class Recalled(Answer):
    """Answer of recall_context."""

    count: Annotated[int, Unlisted]
    evidence: Annotated[f.Evidence | None, Unlisted] = None
    context: str
    memory_ids: Annotated[list[str], Unlisted]
    note: Annotated[str | None, Unlisted] = None
    degraded: Annotated[bool | None, Unlisted] = None
    stale: Annotated[bool | None, Unlisted] = None


class Read(Answer):
    """Answer of get_memories; not ok when none was found, and then with the error of the first.

    not_shown: ids of those that don't fit beside the others.
    """

    memories: list[Shown]
    not_shown: Annotated[list[str] | None, Unlisted] = None
    note: Annotated[str | None, Unlisted] = None
    missing: Annotated[list[Shown], Unlisted]
    error: Annotated[dict[str, str] | None, Unlisted] = None


class Updated(Answer):
    """Answer of update_memory."""

    memory_id: Annotated[str, Unlisted]
    changed_fields: Annotated[list[str], Unlisted]
    message: str
    version: int
    memory: Annotated[Shown, Unlisted]
    dry_run: Annotated[bool | None, Unlisted] = None
    extra_metadata: Annotated[list[str] | None, Unlisted] = None


class Done(Answer):
    """Answer of a tool that does one thing to several memories."""

    results: Annotated[list[Shown], Unlisted]
    message: str


class Forgotten(Done):
    """Answer of forget_memories; not ok when none was found.

    previewed: whether it only says what would be done; turns: how many turns of conversations those that would be
    erased cite.
    """

    forgotten: Annotated[int, Unlisted]
    erased: Annotated[int | None, Unlisted] = None
    replacement_ids: Annotated[list[str] | None, Unlisted] = None
    confirm_token: str | None = None
    previewed: Annotated[bool, Unlisted] = Field(default=False, exclude=True)
    turns: Annotated[int | None, Unlisted] = None


def as_text(value: Any) -> Any:
    """Return datetimes and durations as text, everything else as it is."""
    if isinstance(value, datetime):
        return f.as_utc(value)
    return to_jsonable_python(value) if isinstance(value, timedelta) else value


def view_of(row: dict[str, Any], names: tuple[str, ...]) -> Shown:
    """Return the named fields of a row that hold something, ids and moments as text."""
    if "trust" in names:
        row = {**row, "trust": round(f.trust(row["type"], row["confidence"], row["sources"]), 4)}
    view: Shown = {"id": str(row["id"])}
    for name in names:
        value: Any = row.get(name)
        if value not in EMPTY:
            view[name] = [*map(str, value)] if name in IDS else as_text(value)
    if row.get("space"):
        view["space"] = row["space"]
    if (author := row.get("author") or author_of(row.get("person_id"))) is not None:
        view["author"] = author
    if "relevance" in view:
        view["relevance"] = round(view["relevance"], 9)
    return view


def memory_view(row: dict[str, Any]) -> Shown:
    """Return one memory whole: base fields and `detail`, under the names the type uses."""
    view = view_of(row, BASE_FIELDS)
    detail = {name: value for name, value in (row["detail"] or {}).items() if value is not None}
    if row["type"] in CONFIDENCE_NAME and row["confidence"] is not None:
        detail[CONFIDENCE_NAME[row["type"]]] = row["confidence"]
    if row["type"] == "strategic":
        detail.setdefault("pattern_description", row["content"])
    view["detail"] = detail
    view |= language_view(row["content"])
    view["half_life_days"] = round(log(2) / row["rate_per_day"], 1) if row["rate_per_day"] else None
    view["embedded"] = bool(row["vectors"])
    return view


def language_view(content: str) -> Shown:
    """Return the language of a memory as it is shown: only where it is told, and not English."""
    language = clear_language(content)
    return {} if language is None else {"language": language}


def around_view(found: dict[str, list[dict[str, Any]]]) -> Shown:
    """Return what surrounds a memory: history, relations and clusters; `…_in_all` where a list is cut."""
    around: Shown = {}
    for name, rows in found.items():
        around[name] = [
            {key: _json_value(value) for key, value in _signed(row).items() if value not in EMPTY and key != "in_all"}
            for row in rows
        ]
        in_all = rows[0].get("in_all", 0) if rows else 0
        if in_all > len(rows):
            around[f"{name}_in_all"] = in_all
    return around


def _signed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a history with the name of whoever did that, in a space."""
    return {key: value for key, value in row.items() if key != "person_id"} | {
        "author": author_of(row.get("person_id"))
    }


def problems_view(problems: Mapping[str, PgengramError]) -> list[Shown]:
    """Return what was asked for and is not a memory, each with the error of its own."""
    return [{"id": given, "error": problem.as_dict()} for given, problem in problems.items()]


def receipt_view(receipt: dict[str, Any]) -> Shown:
    """Return what is left of an erased memory: its id, when it was erased, and how much was removed."""
    return {
        "id": str(receipt["id"]),
        "ok": True,
        "erased_at": as_text(receipt["erased_at"]),
        "removed": receipt["removed"],
    }


def cut(content: str, length: int = CUT) -> str:
    """Return a text whole, or its beginning with a mark; usually enough to tell which memory it is."""
    return content if len(content) <= length else content[:length] + "…"


def _json_value(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else as_text(value)


def near_view(id_: UUID, similarity: float, content: str, differs_in: list[str]) -> Shown:
    """Return a memory that says nearly the same as another, and whether it may say something else after all."""
    return {
        "id": str(id_),
        "excerpt": cut(content, RELATED_EXCERPT_CHARS),
        "similarity": round(similarity, 4),
        "possible_conflict": not {*differs_in} <= {"user", "project", "collection", "wording"},
        **({"differs_in": differs_in} if differs_in else {}),
    }


def corrected_view(id_: UUID, similarity: float, row: dict[str, Any]) -> Shown:
    """Return a forgotten memory that said nearly the same as what is told now."""
    return {
        "id": str(id_),
        "text": cut(row["content"], RELATED_EXCERPT_CHARS),
        "reason": row["reason"],
        "replaced_by_ids": [str(one) for one in row["replaced_by"] or []],
        "score": round(similarity, 4),
    }


def replaced_view(row: dict[str, Any]) -> Shown:
    """Return a memory that may no longer hold since what is told now: when it was last told to hold, and its text."""
    return {
        "id": str(row["id"]),
        "stated": stated_text(stated(row)),
        "text": cut(row["content"], RELATED_EXCERPT_CHARS),
    }


def stated(row: Mapping[str, Any]) -> datetime:
    """Return when a memory was stated last: when it was stored, or changed or confirmed since."""
    at: datetime = row["last_confirmed_at"] or row["created_at"]
    return at


def stated_text(at: datetime, *, exactly: bool = False) -> str:
    """Return the day of a statement in UTC; `exactly` of one that disagrees with another, as the later one holds, if
    more than its day is known.
    """
    return f"{at.astimezone(UTC):{'%Y-%m-%dT%H:%MZ' if exactly and not is_day(at) else '%Y-%m-%d'}}"
