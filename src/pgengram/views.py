"""What leaves: the answers of the tools, and one memory as it is shown. No vector ever leaves."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import log
from typing import Annotated, Any

from pydantic import BaseModel, Field
from pydantic_core import to_jsonable_python

from pgengram import fields as f
from pgengram.details import CONFIDENCE_NAME
from pgengram.errors import PgengramError
from pgengram.text.fencing import one_line

Shown = dict[str, Any]

BASE_FIELDS = (
    "type", "kind", "status", "content", "importance", "relevance", "confidence", "emotion", "tags", "metadata", "pinned",
    "source", "source_provider", "capture_mode", "session_id", "session_sequence", "speaker", "user", "project", "collection",
    "occurred_at", "expires_at", "last_confirmed_at", "valid_from", "valid_to", "reason", "replaced_by",
    "version", "created_at", "updated_at", "access_count", "last_accessed_at",
)  # fmt: skip
HIT_FIELDS = (
    "type", "kind", "status", "speaker", "user", "project", "tags", "importance", "relevance", "occurred_at", "created_at",
)  # fmt: skip
EXTRA_SIGNALS = {"near_by": "near_by", "voice": "voice_share", "period": "period"}
EMPTY: tuple[Any, ...] = (None, [], {}, "")


class Answer(BaseModel):
    """What every tool answers at least."""

    ok: bool = True


class Stored(Answer):
    """Answer of create_memory."""

    memory_id: str
    message: str
    created: bool
    memory: Shown
    extra_metadata: list[str] | None = None
    degraded: bool | None = None


class StoredMany(Answer):
    """Answer of create_memories."""

    results: Annotated[list[Shown], Field(description="{index, ok, memory_id | error} per item.")]
    created: int
    failed: int
    message: str
    degraded: bool | None = None


class Found(Answer):
    """Answer of search_memories."""

    query: str
    count: int
    results: Annotated[list[Shown], Field(description="{id, content, score, why, …}")]
    search: str
    total: int | None = None
    next_cursor: str | None = None
    hidden: Shown | None = None
    degraded: bool | None = None


class Recalled(Answer):
    """Answer of recall_context."""

    count: int
    context: str
    memory_ids: list[str]
    degraded: bool | None = None


class Read(Answer):
    """Answer of get_memories; not ok when none was found."""

    memories: list[Shown]
    missing: Annotated[list[Shown], Field(description="{id, error} per id without a memory.")]


class Updated(Answer):
    """Answer of update_memory."""

    memory_id: str
    changed_fields: list[str]
    message: str
    version: int
    memory: Shown
    dry_run: bool | None = None
    extra_metadata: list[str] | None = None


class Forgotten(Answer):
    """Answer of forget_memories; not ok when none was found."""

    results: Annotated[list[Shown], Field(description="{id, ok, already_forgotten | error} per id.")]
    forgotten: int
    message: str


def moment(value: Any) -> Any:
    """Return datetimes and durations as text, everything else as it is."""
    if isinstance(value, datetime):
        return f.as_utc(value)
    return to_jsonable_python(value) if isinstance(value, timedelta) else value


def error_view(error: PgengramError) -> dict[str, str]:
    """Return an error inside an answer."""
    return error.as_dict()


def shown(row: dict[str, Any], names: tuple[str, ...]) -> Shown:
    """Return the named fields of a row that hold something, ids and moments as text."""
    view: Shown = {"id": str(row["id"])}
    for name in names:
        value = row.get(name)
        if value not in EMPTY or isinstance(value, bool):
            view[name] = [str(v) for v in value or []] if name == "replaced_by" else moment(value)
    if "relevance" in view:
        view["relevance"] = round(view["relevance"], 9)
    return view


def memory_view(row: dict[str, Any]) -> Shown:
    """Return one memory whole: base fields and `detail`, under the names the type uses."""
    view = shown(row, BASE_FIELDS)
    detail = {name: value for name, value in (row["detail"] or {}).items() if value is not None}
    if row["type"] in CONFIDENCE_NAME and row["confidence"] is not None:
        detail[CONFIDENCE_NAME[row["type"]]] = row["confidence"]
    if row["type"] == "strategic":
        detail.setdefault("pattern_description", row["content"])
    view["detail"] = detail
    view["half_life_days"] = round(log(2) / row["rate_per_day"], 1) if row["rate_per_day"] else None
    view["embedded"] = bool(row["vectors"])
    return view


def hit_view(row: dict[str, Any], *, detail: bool) -> Shown:
    """Return one search hit with the parts of its score."""
    view = shown(row, BASE_FIELDS if detail else HIT_FIELDS)
    content = row["content"]
    cut = not detail and len(content) > f.WHOLE_CONTENT
    view["content"] = content[: f.WHOLE_CONTENT] + "…" if cut else content
    if cut:
        view["truncated"] = True
    if "score" in row:
        view["score"] = round(row["score"], 4)
        similarity = row["similarity"]
        view["why"] = {
            "similarity": None if similarity is None else round(similarity, 4),
            "distance": None if similarity is None else round(1 - similarity, 4),
            "words": round(row["words_share"], 4),
            "relevance": round(row["relevance"], 4),
            "found_by": row["found_by"],
            **{name: round(row[column], 4) for name, column in EXTRA_SIGNALS.items() if row[column]},
        }
    return view


def recalled_line(row: dict[str, Any]) -> str:
    """Return one memory as a line of recalled text: what, when, how it got here, and the end of its id."""
    when = row["occurred_at"] or row["created_at"]
    source = f", {row['speaker']}" if row["speaker"] else ""
    sure = ", inferred" if row["capture_mode"] == "inferred" else ""
    return f"- {one_line(row['content'])} ({when:%Y-%m-%d}{one_line(source)}{sure}; {str(row['id'])[-8:]})"


def statistics_view(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the grouped counts as tables: totals, by type, by kind, and the half-life of each rate of fading."""

    def count(key: str, only: str | None = "active") -> dict[str, int]:
        totals: dict[str, int] = {}
        for row in rows:
            if only is None or row["status"] == only:
                totals[str(row[key])] = totals.get(str(row[key]), 0) + row["memories"]
        return dict(sorted(totals.items()))

    sums = {
        name: int(sum(row[name] or 0 for row in rows))
        for name in ("memories", "embedded", "expired", "pinned", "accesses")
    }
    rates = sorted({row["rate_per_day"] for row in rows})
    return {
        "totals": sums | {f"{status}": number for status, number in count("status", None).items()},
        "by_type": count("type"),
        "by_kind": count("kind"),
        "half_life_days": {f"at {rate:g} a day": round(log(2) / rate, 1) if rate else "never fades" for rate in rates},
    }
