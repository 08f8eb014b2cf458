"""The detail of each memory type: the keys callers put into `metadata`, in snake_case or camelCase."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final

from pydantic import AliasGenerator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from pgengram import fields as f


def _as_list(value: object) -> object:
    """One word is a list of one."""
    return [value] if isinstance(value, str) else value


Words = Annotated[list[Annotated[str, f.Text]], BeforeValidator(_as_list)]


class Detail(BaseModel):
    """Detail of one type; every key may be given in snake_case or camelCase, and null is told like nothing."""

    model_config = ConfigDict(
        extra="forbid",
        populate_by_name=True,
        alias_generator=AliasGenerator(validation_alias=to_camel),
        defer_build=True,
    )
    judged_together: ClassVar[tuple[str, ...]] = ()  # a change of one is checked with what the others are

    @model_validator(mode="before")
    @classmethod
    def _null_is_nothing(cls, given: Any) -> Any:
        return {key: value for key, value in given.items() if value is not None} if isinstance(given, dict) else given


class Episodic(Detail):
    """What happened: the action, its surroundings and outcome."""

    action_taken: Any = None
    context: Any = None
    result: Any = None
    emotional_valence: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] = 0.0
    event_time: f.Moment | None = None
    verification_status: bool | None = None


class Semantic(Detail):
    """What is known, and where it comes from."""

    confidence: f.Confidence | None = None
    category: Words = Field(default_factory=list)
    related_concepts: Words = Field(default_factory=list)
    source_references: Any = None
    contradictions: Any = None
    last_validated: f.Moment | None = None


class Procedural(Detail):
    """How something is done, and how often it worked."""

    steps: Any = {}
    prerequisites: Any = {}
    success_count: Annotated[int, Field(ge=0, le=2_000_000_000)] = 0
    total_attempts: Annotated[int, Field(ge=0, le=2_000_000_000)] = 0
    failure_points: Any = None
    average_duration: timedelta | None = None

    judged_together = ("success_count", "total_attempts")

    @model_validator(mode="after")
    def _no_more_successes_than_attempts(self) -> Procedural:
        if self.success_count > self.total_attempts:
            raise ValueError("success_count must not be above total_attempts")
        return self


class Strategic(Detail):
    """A pattern, and why it is believed."""

    pattern_description: Annotated[str | None, f.Text, Field(max_length=f.MAX_CONTENT)] = None
    confidence_score: f.Confidence | None = None
    supporting_evidence: Any = None
    success_metrics: Any = None
    adaptation_history: Any = None
    context_applicability: Any = None


DETAILS: Final[dict[str, type[Detail]]] = {
    "episodic": Episodic,
    "semantic": Semantic,
    "procedural": Procedural,
    "strategic": Strategic,
}
NAMES: Final[dict[str, dict[str, str]]] = {  # of each type's keys both spellings lead to the one in snake_case
    type_: {alias: name for name in detail.model_fields for alias in (name, to_camel(name))}
    for type_, detail in DETAILS.items()
}
# Detail of procedures that their outcomes count.
COUNTED: Final = frozenset({"success_count", "total_attempts", "failure_points", "average_duration"})
CONFIDENCE_NAME: Final[dict[str, str]] = {"semantic": "confidence", "strategic": "confidence_score"}


def split_metadata(type_: str, metadata: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keys of `metadata` that are detail of `type_`, in snake_case, and all the others as they were.

    Of a key given under both of its names, the one in camelCase is one of the others.
    """
    if not metadata:
        return {}, {}
    names = NAMES[type_]
    detail = {key for key in metadata if key in names and (key == names[key] or names[key] not in metadata)}
    known = {names[key]: value for key, value in metadata.items() if key in detail}
    return known, {key: value for key, value in metadata.items() if key not in detail}
