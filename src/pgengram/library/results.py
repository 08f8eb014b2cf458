"""What a program gets: answers with attributes, and memories as dictionaries whose keys a type checker knows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Required, TypeVar

from pydantic import BaseModel
from typing_extensions import TypedDict

from pgengram import fields as f

Answer = TypeVar("Answer")


class ErrorShown(TypedDict):
    """What is wrong with one of several things."""

    code: str
    message: str
    hint: str


class MemoryShown(TypedDict, total=False):
    """A memory. Times are text (ISO 8601, UTC); empty fields are left out."""

    id: Required[str]
    type: Required[f.MemoryType]
    status: Required[f.Status]
    content: Required[str]
    importance: Required[float]
    relevance: Required[float]
    created_at: Required[str]
    kind: f.Kind
    confidence: float
    trust: float
    sources: list[dict[str, Any]]
    emotion: f.Emotion
    tags: list[str]
    metadata: dict[str, Any]
    pinned: bool
    source: str
    source_provider: str
    capture_mode: f.CaptureMode
    session_id: str
    session_sequence: int
    speaker: str
    user: str
    project: str
    collection: str
    occurred_at: str
    expires_at: str
    last_confirmed_at: str
    valid_from: str
    valid_to: str
    reason: str
    replaced_by: list[str]
    superseded_by: list[str]
    version: int
    updated_at: str
    access_count: int
    last_accessed_at: str
    changed_since: list[str]
    conflicts_with: list[dict[str, Any]]
    older: list[str]
    language: str


class WholeMemory(MemoryShown, total=False):
    """A whole memory; `detail` is what its type keeps besides. The last six are there if you asked for them."""

    detail: Required[dict[str, Any]]
    half_life_days: Required[float | None]
    embedded: Required[bool]
    history: list[dict[str, Any]]
    relations: list[dict[str, Any]]
    clusters: list[dict[str, Any]]
    history_in_all: int
    relations_in_all: int
    clusters_in_all: int


class Why(TypedDict, total=False):
    """The main parts of a score; `similarity` and `distance` are None for a memory without a vector."""

    similarity: Required[float | None]
    distance: Required[float | None]
    words: Required[float]
    relevance: Required[float]
    found_by: Required[str]


class Hit(MemoryShown, total=False):
    """A memory that was found; without a query it has no `score` and `why`."""

    score: float
    why: Why
    truncated: bool
    unlikely: bool
    author: str


class NearDuplicate(TypedDict, total=False):
    """A memory that says nearly the same."""

    id: Required[str]
    excerpt: Required[str]
    similarity: Required[float]
    possible_conflict: Required[bool]
    differs_in: list[str]


class Corrected(TypedDict):
    """A forgotten memory that said nearly the same."""

    id: str
    text: str
    reason: str | None
    replaced_by_ids: list[str]
    score: float


class Replaceable(TypedDict):
    """A memory that may no longer hold."""

    id: str
    date: str
    text: str


class Node(TypedDict, total=False):
    """A memory that links lead to."""

    id: Required[str]
    excerpt: Required[str]
    type: Required[f.MemoryType]
    kind: f.Kind
    depth: Required[int]
    strength: Required[float]
    path: Required[list[str]]


class Edge(TypedDict, total=False):
    """A link between two memories."""

    from_id: Required[str]
    to_id: Required[str]
    type: Required[str]
    strength: Required[float]
    properties: dict[str, Any]


class Outcome(TypedDict, total=False):
    """What became of one of several things: `ok`, and an `error` where it is not."""

    ok: Required[bool]
    index: int
    id: str
    memory_id: str
    created: bool
    error: ErrorShown
    already_forgotten: bool
    merged: bool
    taken_over: list[str]
    kept_as_stored: list[str]
    near_duplicates: list[NearDuplicate]
    previously_corrected: list[Corrected]
    may_replace: list[Replaceable]
    redacted: list[str]


@dataclass(frozen=True)
class Stored:
    """What became of a memory to store; `created` is false if it was known already."""

    memory_id: str
    message: str
    created: bool
    memory: WholeMemory
    extra_metadata: list[str]
    near_duplicates: list[NearDuplicate]
    previously_corrected: list[Corrected]
    may_replace: list[Replaceable]
    kept_as_stored: list[str]
    redacted: list[str]
    merged: bool


@dataclass(frozen=True)
class StoredMany:
    """What became of each of many memories, in their order."""

    results: list[Outcome]
    created: int
    failed: int
    message: str


@dataclass(frozen=True)
class Found:
    """Hits, best first.

    `evidence` says how well they fit; `total` is known for lists and counts; `next_cursor` leads to the next page;
    `degraded` if there is no embedder; `turns` are turns of conversations, if you asked for them.
    """

    results: list[Hit]
    count: int
    evidence: f.Evidence | None
    answered: float | None
    search: str
    total: int | None
    next_cursor: str | None
    hidden: dict[str, Any]
    period: str | None
    note: str | None
    turns: list[dict[str, Any]]
    turns_match: int | None
    degraded: bool


@dataclass(frozen=True)
class Recalled:
    """What is remembered about a task, as one text."""

    context: str
    count: int
    evidence: f.Evidence | None
    memory_ids: list[str]
    note: str | None


@dataclass(frozen=True)
class Updated:
    """A memory after a change, and which fields were changed."""

    memory_id: str
    changed_fields: list[str]
    message: str
    version: int
    memory: WholeMemory
    extra_metadata: list[str]


@dataclass(frozen=True)
class Forgotten:
    """How many memories were forgotten, and what became of each."""

    forgotten: int
    message: str
    results: list[Outcome]


@dataclass(frozen=True)
class Linked:
    """What became of each link."""

    message: str
    results: list[dict[str, Any]]


@dataclass(frozen=True)
class Explored:
    """What is linked to memories, and what means nearly the same; `cut` if there was more than `limit`."""

    nodes: list[Node]
    edges: list[Edge]
    similar: list[dict[str, Any]]
    cut: bool


EMPTY_OF = {"list": list, "dict": dict, "bool": bool}  # what stands for nothing, by how a field's type begins


def of_answer(kind: type[Answer], view: BaseModel) -> Answer:
    """Return a tool's answer as a program gets it: a list, dictionary or flag that it lacks is an empty one."""
    given = {}
    for field in fields(kind):  # type: ignore[arg-type]
        value = getattr(view, field.name)
        empty = EMPTY_OF.get(str(field.type).partition("[")[0])
        given[field.name] = empty() if value is None and empty is not None else value
    return kind(**given)
