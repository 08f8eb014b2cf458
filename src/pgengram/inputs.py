"""What callers may ask: one model per request, refused as a whole when any field is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from pgengram import fields as f
from pgengram.errors import InvalidInput
from pgengram.text.tags import SYNONYMS, means_anything, tag_groups


class Source(BaseModel):
    """Who or what says it: anything that can be held against what another says."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    kind: f.Name | None = None
    ref: Annotated[str | None, f.Text, Field(max_length=f.MAX_REASON)] = None
    label: f.Name | None = None
    author: f.Name | None = None
    observed_at: f.Moment | None = None
    trust: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5

    @model_validator(mode="after")
    def _says_who(self) -> Source:
        if not any((self.kind, self.ref, self.label, self.author)):
            raise ValueError("needs a kind, ref, label or author")
        return self


def _distinct_sources(sources: list[Source]) -> list[Source]:
    """Leave out a source that stands there already; of two that differ in trust alone the later one counts."""
    return list({source.model_copy(update={"trust": 0.0}).model_dump_json(): source for source in sources}.values())


Sources = Annotated[
    list[Source],
    Field(max_length=f.MAX_SOURCES),
    AfterValidator(_distinct_sources),
    WithJsonSchema(
        {"type": "array", "items": {"type": "object"}, "description": "{kind, ref, label, author, observed_at, trust}"}
    ),
]


class Request(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Provenance(Request):
    """Where a memory comes from and whom it concerns."""

    source: Annotated[f.Name | None, Field(description="Where it comes from.")] = None
    source_provider: Annotated[f.Name | None, Field(description="Who stores it.")] = None
    capture_mode: f.CaptureMode | None = None
    session_id: Annotated[f.Name | None, Field(description="Conversation; default: this one.")] = None
    speaker: Annotated[f.Name | None, Field(description="Who said it.")] = None
    user: Annotated[f.Name | None, Field(description="Whom it is about or for.")] = None
    project: Annotated[f.Name | None, Field(description="What it belongs to.")] = None
    collection: Annotated[f.Name | None, Field(description="Any grouping of yours.")] = None


RelatedTo = Annotated[
    list[f.MemoryId],
    f.AnyOf,
    Field(max_length=f.MAX_GET),
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "description": "Ids."}),
]
Replaces = Annotated[
    RelatedTo,
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string"},
            "description": "Ids of what no longer holds; it is forgotten, restorable.",
        }
    ),
]
DedupPolicy = Literal["ask", "skip_if_near", "insert", "merge"]


class NewMemory(Provenance):
    """A memory to store."""

    content: f.Content
    type: Annotated[f.MemoryType | None, Field(description="Default: the kind's.")] = None
    kind: Annotated[f.Kind | None, Field(description="Finer word; sets how fast it fades.")] = None
    importance: f.Importance = 0.5
    tags: f.Tags = Field(default_factory=list)
    metadata: f.Metadata = Field(default_factory=dict)
    confidence: f.Confidence | None = None
    emotion: f.Emotion | None = None
    occurred_at: Annotated[f.Moment | None, Field(description="When it happened.")] = None
    expires_at: Annotated[f.Expiry | None, Field(description="Hidden after this.")] = None
    last_confirmed_at: Annotated[f.Past | None, Field(description="Default: now.")] = None
    pinned: Annotated[bool, Field(description="Never fades.")] = False
    sources: Sources = Field(default_factory=list)
    related_to: RelatedTo = Field(default_factory=list)
    replaces: Replaces = Field(default_factory=list)
    dedup_policy: DedupPolicy = "ask"
    idempotency_key: Annotated[f.Name | None, Field(description="Same key, same memory.")] = None
    embedding: f.Vector | None = None

    @property
    def memory_type(self) -> f.MemoryType:
        """The type given, else the one its kind belongs to, else semantic."""
        return self.type or (f.TYPE_OF_KIND[self.kind] if self.kind else "semantic")


CLEARABLE: Final = (
    "kind", "tags", "metadata", "confidence", "emotion", "occurred_at", "expires_at", "source", "source_provider",
    "capture_mode", "session_id", "speaker", "user", "project", "collection", "sources",
)  # fmt: skip


def _clearable(names: list[str]) -> list[str]:
    if unknown := set(names) - set(CLEARABLE):
        raise ValueError(
            f"cannot clear {', '.join(sorted(unknown & {'content', 'importance', 'pinned', 'status'})) or 'that'}; it "
            f"can clear {', '.join(CLEARABLE)}"
        )
    return names


class Change(Provenance):
    """A change of one memory; only the fields given are changed."""

    source: f.Name | None = None
    capture_mode: f.CaptureMode | None = None
    session_id: f.Name | None = None
    speaker: f.Name | None = None
    user: f.Name | None = None
    project: f.Name | None = None
    collection: f.Name | None = None
    id: f.MemoryId
    content: Annotated[f.Content | None, Field(description="The new text.")] = None
    kind: Annotated[f.Kind | None, Field(description="Finer word.")] = None
    importance: Annotated[f.Importance | None, Field(description="0 to 1.")] = None
    tags: Annotated[f.AllTags | None, Field(description="Replace all.")] = None
    metadata: Annotated[f.Metadata | None, Field(description="Merged; null removes a key.")] = None
    confidence: f.Confidence | None = None
    emotion: f.Emotion | None = None
    occurred_at: Annotated[f.Moment | None, Field(description="When it happened.")] = None
    expires_at: Annotated[f.Expiry | None, Field(description="Hidden after this.")] = None
    last_confirmed_at: Annotated[f.Past | None, Field(description="When confirmed.")] = None
    pinned: Annotated[bool | None, Field(description="Never fades.")] = None
    sources: Sources | None = None
    status: Annotated[Literal["active", "archived"] | None, Field(description="active restores.")] = None
    confirm: Annotated[bool, Field(description="It still holds, as of now.")] = False
    outcome: Annotated[Literal["success", "failure"] | None, Field(description="A procedure was tried.")] = None
    failure_point: Annotated[f.Reason | None, Field(description="Where it failed.")] = None
    duration: Annotated[float | None, Field(ge=0, le=f.MAX_DURATION_S, description="Seconds it took.")] = None
    clear: Annotated[list[str], AfterValidator(_clearable), Field(description="Fields to clear.")] = []
    expected_version: Annotated[int | None, Field(ge=1, description="Refuse if changed since.")] = None
    dry_run: Annotated[bool, Field(description="Only say what would change.")] = False
    # Many expect these two; tools/list, which every model reads, leaves them out.
    add_tags: SkipJsonSchema[f.Tags] = []
    remove_tags: SkipJsonSchema[f.Tags] = []

    @model_validator(mode="after")
    def _sets_or_clears(self) -> Change:
        both = sorted(set(self.clear) & {name for name in self.model_fields_set if getattr(self, name) is not None})
        if both:
            raise ValueError(f"{', '.join(both)}: either set it or clear it, not both")
        if self.outcome is None and not (self.failure_point is None and self.duration is None):
            raise ValueError("failure_point and duration belong to an outcome")
        if self.outcome == "success" and self.failure_point is not None:
            raise ValueError("failure_point belongs to the outcome failure")
        return self

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        named = self.given or self.clear or self.add_tags or self.remove_tags
        return not named and not self.confirm and self.outcome is None

    @property
    def given(self) -> dict[str, Any]:
        """The fields to set, without those that only steer the call."""
        steering = {
            *("id", "clear", "expected_version", "dry_run", "confirm", "outcome", "failure_point", "duration"),
            *("add_tags", "remove_tags"),
        }
        return {
            name: getattr(self, name)
            for name in type(self).model_fields
            if name in self.model_fields_set and name not in steering and getattr(self, name) is not None
        }


Mode = Literal["auto", "semantic", "text", "substring"]
Sort = Literal["created", "updated", "occurred", "importance", "relevance", "accessed"]


class Filters(Request):
    """Which memories count; all conditions hold together."""

    type: Annotated[list[f.MemoryType] | None, f.AnyOf, Field(description="Any of these.")] = None
    kind: Annotated[list[f.Kind] | None, f.AnyOf, Field(description="Any of these.")] = None
    tags: Annotated[f.Tags | None, Field(description="Any of these.")] = None
    tags_match: Annotated[Literal["any", "all"], Field(description="Any or all of the tags.")] = "any"
    min_importance: Annotated[f.Bound | None, Field(description="At least.")] = None
    max_importance: Annotated[f.Bound | None, Field(description="At most.")] = None
    min_confidence: Annotated[f.Bound | None, Field(description="At least.")] = None
    since: Annotated[f.Moment | None, Field(description="Happened (or stored) from.")] = None
    until: Annotated[f.Moment | None, Field(description="… until.")] = None
    user: Annotated[f.Name | None, Field(description="About or for them.")] = None
    project: Annotated[f.Name | None, Field(description="Only of this one.")] = None
    collection: f.Name | None = None
    session_id: f.Name | None = None
    speaker: f.Name | None = None
    source: f.Name | None = None
    emotion: f.Emotion | None = None
    capture_mode: f.CaptureMode | None = None
    status: Annotated[f.Status, Field(description="invalidated shows forgotten ones.")] = "active"
    # For those who tidy up; tools/list, which every model reads, leaves them out.
    pinned: SkipJsonSchema[bool | None] = None
    untagged: SkipJsonSchema[bool | None] = None
    min_length: SkipJsonSchema[Annotated[int, Field(ge=0, le=f.MAX_CONTENT)] | None] = None
    max_length: SkipJsonSchema[Annotated[int, Field(ge=0, le=f.MAX_CONTENT)] | None] = None
    not_confirmed_since: SkipJsonSchema[f.Moment | None] = None
    source_provider: SkipJsonSchema[f.Name | None] = None
    _tag_groups: list[list[str]] | None = PrivateAttr(None)
    _spellings: dict[str, list[str]] = PrivateAttr(default_factory=dict)
    _shows_hidden: bool = PrivateAttr(default=False)
    _counts_hidden: bool = PrivateAttr(default=True)
    _days: tuple[datetime, datetime, timedelta] | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.since and self.until and self.since > self.until:
            raise ValueError(
                f"since is later than until; swap them: since={f.as_utc(self.until)}, until={f.as_utc(self.since)}"
            )
        return self

    @property
    def tag_groups(self) -> list[list[str]]:
        """For each tag that is asked for all those it may be stored as."""
        return tag_groups(self.tags or [], SYNONYMS) if self._tag_groups is None else self._tag_groups

    @property
    def spellings(self) -> Mapping[str, list[str]]:
        """How the user, project and collection that are asked for are stored, where that is known."""
        return self._spellings

    @property
    def shows_hidden(self) -> bool:
        """Whether expired and forgotten memories count like all others."""
        return self._shows_hidden

    @property
    def counts_hidden(self) -> bool:
        """Whether it is told how many hidden memories match: unless the caller chose a state or a time of memories."""
        chosen = self.status != "active" or getattr(self, "as_of", None) is not None
        return self._counts_hidden and not chosen and not self._shows_hidden

    def without_counting_hidden(self) -> Self:
        """Return these filters for a caller who shows no count of hidden memories."""
        made = self.model_copy()
        made._counts_hidden = False
        return made

    @property
    def days(self) -> tuple[datetime, datetime, timedelta] | None:
        """When it happened, by the clock of who asks: from, to before, and how far that is ahead of UTC."""
        return self._days

    def with_hidden(self) -> Self:
        """Return these filters for expired and forgotten memories too."""
        made = self.model_copy()
        made._shows_hidden = True
        return made

    def as_stored(self, synonyms: Mapping[str, str], spellings: Mapping[str, list[str]]) -> Self:
        """Return these filters with a namespace's synonyms instead of the shipped ones, and its spellings of names."""
        made = self.model_copy()
        made._tag_groups = tag_groups(self.tags or [], synonyms)
        made._spellings = dict(spellings)
        return made


Query = Annotated[str, f.Text, Field(max_length=f.MAX_QUERY)]


class Question(Filters):
    """A search; of several questions at once the first is `query`, the others are `further_queries`."""

    query: Annotated[
        Query,
        WithJsonSchema(
            {
                "type": ["string", "array"],
                "items": {"type": "string"},
                "maxLength": f.MAX_QUERY,
                "description": f"In plain words; up to {f.MAX_QUERIES} questions as a JSON list.",
            }
        ),
    ] = ""
    further_queries: SkipJsonSchema[list[Query]] = []
    mode: Annotated[Mode, Field(description='text: words, "phrases", -without; substring: the exact characters.')] = (
        "auto"
    )
    sort: Annotated[Sort | None, Field(description="Instead of best first.")] = None
    limit: Annotated[int, Field(ge=1, le=f.MAX_LIMIT, description="Most hits.")] = f.USUAL_LIMIT
    offset: Annotated[int, Field(ge=0, le=10_000, description="Hits to pass over.")] = 0
    cursor: Annotated[str, Field(max_length=512, description="From the page before.")] = ""
    min_similarity: Annotated[float | None, Field(ge=-1, le=1, description="Least cosine.")] = None
    max_chars: Annotated[int | None, Field(ge=100, le=200_000, description="Contents together.")] = None
    detail: Annotated[bool, Field(description="Whole contents, scores, all fields.")] = False
    count_only: Annotated[bool, Field(description="Only how many match.")] = False
    as_of: Annotated[f.Moment | None, Field(description="What held true then.")] = None
    now: Annotated[f.Moment | None, Field(description="For 'last week'.")] = None
    embedding: f.Vector | None = None
    include: Annotated[
        list[Literal["turns"]],
        f.AnyOf,
        Field(description="turns: also what was said, word for word, as a list of its own."),
    ] = []

    def narrowed_to(self, start: datetime, end: datetime, utc_offset: timedelta) -> Self:
        """Return this question as the list of what happened in a time, the latest first.

        Args:
            start: by the clock of who asks, as if that were UTC's.
            end: before it.
            utc_offset: how far the clock is ahead of UTC.
        """
        before, after = max(utc_offset, timedelta()), max(-utc_offset, timedelta())
        since = start - min(before, start - f.FIRST_MOMENT)
        until = end - timedelta(microseconds=1) + min(after, f.LAST_MOMENT - end)
        made = self.model_copy(update={"since": since, "until": until, "sort": "occurred"})
        made._days = (start, end, utc_offset) if utc_offset else None
        return made

    @model_validator(mode="before")
    @classmethod
    def _several(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        if str(given.get("cursor", "")).strip().isdecimal():  # of short answers: how many hits stand before the page
            given = {**given, "cursor": "", "offset": given["cursor"]}
        return {**given, **_queries(given["query"], given.get("mode"))} if given.get("query") else given

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if self.as_of is not None and self.status != "active":
            raise ValueError("as_of shows what held then, whatever its status is now: leave out status, or as_of")
        return self

    @property
    def queries(self) -> list[str]:
        """What is asked, each question once."""
        return list(dict.fromkeys(text for text in (self.query, *self.further_queries) if text.strip())) or [""]

    @property
    def lists(self) -> bool:
        """Whether the answer is a list in an order of its own; otherwise hits are ranked."""
        blank = self.queries == [""] and self.embedding is None
        return blank or self.mode == "substring" or self.sort is not None


def _queries(given: Any, mode: Any) -> dict[str, Any]:
    """Return what is asked as a query and further ones, without those that mean anything.

    Raises:
        ValueError: there are too many.
    """
    asked = given if isinstance(given, list) else [given]
    exact = mode == "substring"
    asked = [one for one in asked if not (isinstance(one, str) and means_anything(one, exact=exact))]
    if len(asked) > f.MAX_QUERIES:
        raise ValueError(f"query: at most {f.MAX_QUERIES} questions at once")
    first, *others = asked or [""]
    return {"query": first, **({"further_queries": others} if others else {})}


RequestType = TypeVar("RequestType", bound=BaseModel)


def validated(model: type[RequestType], given: Any) -> RequestType:
    """Return `given` as `model`.

    Raises:
        InvalidInput: it does not fit; the message names the field and what is allowed, never the value.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise as_invalid_input(error) from None


def as_invalid_input(error: ValidationError, *where: str) -> InvalidInput:
    """Return pydantic's findings as our error: each field with what is allowed, never the value that was given."""
    found = []
    for line in error.errors(include_url=False, include_context=False, include_input=False)[:5]:
        path = ".".join(str(step) for step in (*where, *line["loc"])) or "the request"
        message = "must be an object" if line["type"] == "model_type" else line["msg"].removeprefix("Value error, ")
        found.append(f"{path}: {'is not known here' if line['type'] == 'extra_forbidden' else message}")
    return InvalidInput("; ".join(found) + ".")
