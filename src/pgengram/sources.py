"""The sources of a memory: who or what says it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from pgengram import fields as f


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
        {
            "type": "array",
            "items": {"type": "object"},
            "description": "{kind, ref, label, author, observed_at, trust}",
        }
    ),
]
