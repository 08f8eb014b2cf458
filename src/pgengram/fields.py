"""Every field once: its bounds, unit and words, for tool parameters, results and tables alike."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from math import exp
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

MAX_CONTENT: Final = 16_000
MAX_TAGS: Final = 16  # that one call gives; a memory may have more, from several calls, machines and files
MAX_TAG: Final = 64
MAX_NAME: Final = 256
MAX_REASON: Final = 1_024
MAX_DURATION_S: Final = 1e9  # of one attempt; thirty years
MAX_BATCH: Final = 200
MAX_SOURCES: Final = 16
MAX_GET: Final = 20
MAX_NODES: Final = 500  # memories that one walk along links shows
LEAST_DIGITS: Final = 8  # of a short id
ID_DIGITS: Final = 32  # of a whole one
MAX_LIMIT: Final = 100
USUAL_LIMIT: Final = 10  # hits of a search that sets no limit
MAX_QUERY: Final = 8_000
MAX_QUERIES: Final = 5  # asked at once
KEEP_DAYS: Final = 90  # that conversations are kept unless told otherwise
MAX_KEEP_DAYS: Final = 3_650
ROLES: Final = ("user", "assistant", "tool")  # of whoever said a turn of a conversation
MAX_METADATA_BYTES: Final = 65_536
MAX_METADATA_DEPTH: Final = 20
FIRST_MOMENT: Final = datetime(1, 1, 2, tzinfo=UTC)
LAST_MOMENT: Final = datetime(9999, 12, 30, tzinfo=UTC)
LONGEST_LIFE: Final = timedelta(days=36_525)
CLOCK_SKEW: Final = timedelta(minutes=5)  # of a caller's clock
SCOPE: Final = (
    "user",
    "project",
    "collection",
)  # what a memory is about; where one differs, it is about something else
WHOLE_CONTENT: Final = 300  # characters of content a search shows before it cuts

MemoryType = Literal["episodic", "semantic", "procedural", "strategic"]
Kind = Literal[
    "observation", "decision", "learning", "error", "pattern", "preference", "insight",
    "fact", "connection", "project", "person", "process", "goal", "general",
]  # fmt: skip
Status = Literal["active", "archived", "invalidated", "working"]
CaptureMode = Literal["explicit", "inferred"]
Evidence = Literal["strong", "weak", "none"]
Emotion = Literal["curiosity", "satisfaction", "concern", "neutral", "excitement"]
ClusterType = Literal["theme", "emotion", "temporal", "person", "pattern", "mixed"]

TYPES: Final[tuple[str, ...]] = get_args(MemoryType)
KINDS: Final[tuple[str, ...]] = get_args(Kind)
STATUSES: Final[tuple[str, ...]] = get_args(Status)
CAPTURE_MODES: Final[tuple[str, ...]] = get_args(CaptureMode)
EMOTIONS: Final[tuple[str, ...]] = get_args(Emotion)
CLUSTER_TYPES: Final[tuple[str, ...]] = get_args(ClusterType)

TYPE_OF_KIND: Final[dict[str, MemoryType]] = {
    "error": "episodic", "observation": "episodic",
    "fact": "semantic", "preference": "semantic", "learning": "semantic", "person": "semantic",
    "project": "semantic", "connection": "semantic", "general": "semantic",
    "process": "procedural",
    "decision": "strategic", "pattern": "strategic", "insight": "strategic", "goal": "strategic",
}  # fmt: skip

# Exponential forgetting per day: what a person decided or is lasts years, what was merely seen lasts weeks.
# Few named classes, because the index for live relevance walks one list per rate.
RATE_PER_DAY_OF_KIND: Final[dict[str, float]] = {
    "person": 0.001, "decision": 0.001,
    "goal": 0.002, "preference": 0.002, "process": 0.002,
    "fact": 0.003, "insight": 0.003, "learning": 0.003, "project": 0.003, "connection": 0.003,
    "pattern": 0.005, "general": 0.005,
    "error": 0.01, "observation": 0.05,
}  # fmt: skip
RATE_PER_DAY_OF_TYPE: Final[dict[str, float]] = {
    "strategic": 0.001, "procedural": 0.002, "semantic": 0.003, "episodic": 0.01,
}  # fmt: skip
PINNED_RATE_PER_DAY: Final = 0.0
DEFAULT_CONFIDENCE: Final[dict[str, float]] = {"semantic": 0.8, "strategic": 0.7}
# Trust of a memory that names no source: what was lived through is trusted, what is merely said needs somebody who says
# so.
TRUST_OF_TYPE: Final[dict[str, float]] = {"episodic": 0.95, "semantic": 0.20, "procedural": 0.70, "strategic": 0.70}
LEAST_TRUST: Final = 0.15  # of sources that nobody trusts
TRUST_GROWTH: Final = 0.8  # how fast further sources add to it


def rate_per_day(type_: str, kind: str | None, *, pinned: bool) -> float:
    """Return how fast a memory fades: 0 when pinned, else by its kind, else by its type."""
    if pinned:
        return PINNED_RATE_PER_DAY
    return RATE_PER_DAY_OF_KIND[kind] if kind else RATE_PER_DAY_OF_TYPE[type_]


def trust(type_: str, confidence: float | None, sources: list[dict[str, Any]] | None) -> float:
    """Return how far a memory can be relied on, 0 to 1; never more than its confidence.

    Without sources the start value of its type. With n of them a noisy accumulation of independent sources:
    0.15 + 0.85 * (1 - exp(-0.8 * n * mean trust)). Each adds to what the others left open, and none makes it certain.
    """
    if sources:
        grown = LEAST_TRUST + (1 - LEAST_TRUST) * (1 - exp(-TRUST_GROWTH * sum(source["trust"] for source in sources)))
    else:
        grown = TRUST_OF_TYPE[type_]
    return min(1.0 if confidence is None else confidence, grown)


_ESCAPED_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def _whole_text(value: object) -> object:
    """Refuse what PostgreSQL cannot keep byte for byte."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("must not contain the NUL character")
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise ValueError("must not contain half of a surrogate pair")
    return value


def _storable(value: Any) -> Any:
    """Refuse JSON that PostgreSQL's jsonb cannot keep, or that is too much."""
    if _nesting(value) > MAX_METADATA_DEPTH:
        raise ValueError(f"must not be nested deeper than {MAX_METADATA_DEPTH}")
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (ValueError, TypeError, RecursionError):
        raise ValueError("must be JSON: finite numbers, whole characters") from None
    if size > MAX_METADATA_BYTES:
        raise ValueError(f"must not be larger than {MAX_METADATA_BYTES} bytes")
    if _ESCAPED_NUL.search(text):
        raise ValueError("must not contain the NUL character")
    return value


def _nesting(value: Any) -> int:
    """Return how deep objects and lists are nested, without recursion."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
        if depth > MAX_METADATA_DEPTH:
            break
    return depth


def _trimmed(value: str) -> str:
    return value.strip(" \t\r\n")


def _trimmed_text(value: object) -> object:
    """Trim a text before its length is judged."""
    return _trimmed(value) if isinstance(value, str) else value


def _not_blank(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("must contain more than white space")
    return value


_HEX: Final = re.compile(r"[0-9A-Fa-f-]+")
_LABEL: Final = re.compile(r"^\W*(?:(?:memory|urn|uuid|id)[\W_]+)+", re.IGNORECASE)  # what says that an id follows


def bare_id(value: object) -> object:
    """Return an id without what stands around it: `memory://`, "Memory ID:", brackets, quotes, "…" at its ends."""
    if not isinstance(value, str):
        return value
    text = _LABEL.sub("", value).strip("[](){}<>\"'`#,;. \t\r\n")
    parts = [part for part in re.split(r"…|\.{2,}", text) if len(part.replace("-", "")) >= LEAST_DIGITS]
    return parts[-1].strip() if parts else text


def is_id(text: str) -> bool:
    """Whether a text is a memory's id, or 8 or more of its hex digits."""
    return bool(_HEX.fullmatch(text)) and LEAST_DIGITS <= len(text.replace("-", "")) <= ID_DIGITS


def _hexadecimal(value: str) -> str:
    if not is_id(value):
        raise ValueError("must be a memory's id, or its last 8 to 32 hex digits; search_memories finds it")
    return value


def _short_text(value: str) -> str:
    if len(value) > MAX_NAME:
        raise ValueError(f"must have at most {MAX_NAME} characters")
    return value


def _below_eleven(value: object) -> object:
    if isinstance(value, (int, float)) and 1 < value <= 10:
        raise ValueError("must be between 0 and 1; on a scale of 1 to 10, divide by 10")
    return value


def _within_calendars(value: datetime) -> datetime:
    """Refuse what no time zone of PostgreSQL or Python could show."""
    if not FIRST_MOMENT <= value <= LAST_MOMENT:
        raise ValueError("must be between the years 1 and 9999")
    return value


def _not_ahead(value: datetime) -> datetime:
    if value > datetime.now(UTC) + CLOCK_SKEW:
        raise ValueError("must not be in the future")
    return value


def _within_a_century(value: datetime) -> datetime:
    """Refuse an end so far away that it was hardly meant; what never ends has none."""
    if value > datetime.now(UTC) + LONGEST_LIFE:
        raise ValueError("must be at most 100 years ahead; leave it out if the memory never expires")
    return value


def comma_separated(value: object) -> object:
    """Return text as a list of what its commas separate, a list without blanks and nulls, all else as it is."""
    words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
    if not isinstance(words, list):
        return words
    return [word for word in words if word is not None and not (isinstance(word, str) and not word.strip())]


Text = BeforeValidator(_whole_text)
Name = Annotated[
    str, Text, BeforeValidator(_not_blank), AfterValidator(str.strip), AfterValidator(_short_text)
]  # its limit would repeat 20 times in tools/list
Moment = Annotated[AwareDatetime, AfterValidator(_within_calendars)]
Expiry = Annotated[Moment, AfterValidator(_within_a_century)]
Past = Annotated[Moment, AfterValidator(_not_ahead)]

Content = Annotated[
    str, Field(max_length=MAX_CONTENT, description="One self-contained statement; names, absolute dates."),
    Text, BeforeValidator(_not_blank), BeforeValidator(_trimmed_text),
]  # fmt: skip
Importance = Annotated[
    float, Field(ge=0, le=1, allow_inf_nan=False, description="0 is trivia, 1 never to forget."),
    BeforeValidator(_below_eleven),
]  # fmt: skip
Bound = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), BeforeValidator(_below_eleven)]
Confidence = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, description="How sure it is.")]
Tag = Annotated[str, Field(max_length=MAX_TAG), Text, BeforeValidator(_not_blank), BeforeValidator(_trimmed_text)]
AllTags = Annotated[list[Tag], BeforeValidator(comma_separated)]
Tags = Annotated[
    list[Tag], Field(max_length=MAX_TAGS, description="Labels."),
    BeforeValidator(comma_separated),
]  # fmt: skip
Metadata = Annotated[
    dict[str, Any], AfterValidator(_storable),
    Field(description="The type's detail: steps, context, category, …"),
]  # fmt: skip
AnyJson = Annotated[Any, AfterValidator(_storable)]
Reason = Annotated[str, Text, Field(max_length=MAX_REASON), BeforeValidator(_trimmed_text)]
BareId = Annotated[
    str, BeforeValidator(bare_id), AfterValidator(_hexadecimal)
]  # where another tool tells what an id looks like
MemoryId = Annotated[BareId, Field(description="8 digits will do.")]
Vector = Annotated[list[float], Field(max_length=4_000, description="Leave out: made from the text.")]
AnyOf = BeforeValidator(comma_separated)


def as_utc(moment: datetime | None) -> str | None:
    """Return `moment` as ISO 8601 in UTC, or None."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
