"""What a program may say: the keyword arguments of `Memory`, checked at run time exactly as they stand here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Required

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from pgengram import fields as f
from pgengram.inputs import DedupPolicy, Mode, Sort

Around = Literal["history", "relations", "clusters"]
Direction = Literal["both", "out", "in"]
Moment = datetime | str  # with its zone; or as text, such as "2026-03-03", "2026-03-03T10:00:00Z" or "last Tuesday"

as_declared = with_config(ConfigDict(extra="forbid", strict=True))


class StoreSettings(TypedDict, total=False):
    """Settings of a store that a program may set itself; each means what PGENGRAM_ + its name in capitals means."""

    read_url: str
    data_dir: str
    embedder: str
    embedder_api_key: str
    secrets: str


class SettingNames(StoreSettings, total=False):
    """Settings for one namespace."""

    database_url: str
    namespace: str


@as_declared
class SourceGiven(TypedDict, total=False):
    """Who or what says it: at least a kind, ref, label or author; `trust` from 0 to 1."""

    kind: str
    ref: str
    label: str
    author: str
    observed_at: Moment
    trust: Annotated[float, Field(ge=0, le=1)]


class DetailGiven(TypedDict, total=False):
    """What memories of one type keep besides the text. Episodic: what was done, where, how it ended. Semantic: its
    categories. Procedural: steps. Strategic: the pattern, and why it is believed.
    """

    action_taken: Any
    context: Any
    result: Any
    emotional_valence: float
    event_time: Moment
    verification_status: bool
    category: str | Sequence[str]
    related_concepts: str | Sequence[str]
    source_references: Any
    contradictions: Any
    last_validated: Moment
    steps: Any
    prerequisites: Any
    success_count: int
    total_attempts: int
    failure_points: Any
    average_duration: float | str
    pattern_description: str
    confidence_score: float
    supporting_evidence: Any
    success_metrics: Any
    adaptation_history: Any
    context_applicability: Any


class Described(DetailGiven, total=False):
    """Fields of a memory besides its content, for storing and for changing it."""

    kind: f.Kind
    importance: float
    tags: Sequence[str]
    metadata: dict[str, Any]
    confidence: float
    emotion: f.Emotion
    occurred_at: Moment
    expires_at: Moment
    last_confirmed_at: Moment
    pinned: bool
    source: str
    source_provider: str
    sources: Sequence[SourceGiven]
    capture_mode: f.CaptureMode
    session_id: str
    speaker: str
    user: str
    project: str
    collection: str


@as_declared
class New(Described, total=False):
    """Further fields of a new memory; `embedding` is a vector of your own, as long as those of the store's model."""

    type: f.MemoryType
    related_to: Sequence[str]
    replaces: Sequence[str]
    dedup_policy: DedupPolicy
    idempotency_key: str
    embedding: Sequence[float]


@as_declared
class NewItem(New, total=False):
    """One memory of many to store."""

    content: Required[str]


@as_declared
class Changed(Described, total=False):
    """Fields of a memory that can be changed; `clear` names fields to empty."""

    content: str
    status: Literal["active", "archived"]
    confirm: bool
    outcome: Literal["success", "failure"]
    failure_point: str
    duration: float
    clear: Sequence[str]
    add_tags: Sequence[str]
    remove_tags: Sequence[str]
    expected_version: int
    dry_run: bool


class Filtered(TypedDict, total=False):
    """Which memories count; all conditions hold together."""

    type: Sequence[f.MemoryType]
    kind: Sequence[f.Kind]
    tags: Sequence[str]
    tags_match: Literal["any", "all"]
    untagged: bool
    min_importance: float
    max_importance: float
    min_confidence: float
    min_length: int
    max_length: int
    since: Moment
    until: Moment
    not_confirmed_since: Moment
    user: str
    project: str
    collection: str
    session_id: str
    speaker: str
    source: str
    source_provider: str
    emotion: f.Emotion
    capture_mode: f.CaptureMode
    pinned: bool
    status: f.Status
    as_of: Moment


@as_declared
class Chosen(Filtered, total=False):
    """Which memories to go through."""


@as_declared
class Narrowed(Filtered, total=False):
    """Which memories a search may find, in which order, and how many."""

    mode: Mode
    sort: Sort
    limit: int
    offset: int
    cursor: str
    min_similarity: float
    max_chars: int
    detail: bool
    count_only: bool
    now: Moment
    embedding: Sequence[float]
    include: Sequence[Literal["turns"]]
