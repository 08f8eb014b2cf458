"""What all of them share: numbers for ids, a scale of 1 to 10, tags as text, and answers in whatever shape they had."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, wraps
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, RootModel

from pgengram import fields as f
from pgengram.errors import Conflict, NotFound, PgengramError
from pgengram.inputs import NewMemory, Question, validated
from pgengram.service.manager import MemoryManager
from pgengram.service.tools import Tool, tools_of
from pgengram.text.tags import normalised_tag
from pgengram.views import Found

ID_DIGITS: Final = 12  # the last ones of an id, all random: a whole number that every JSON reader keeps exactly
DIRECTIONS: Final[dict[str, Literal["in", "out", "both"]]] = {"incoming": "in", "outgoing": "out", "both": "both"}
# A tool's name in a hint, and an id in a message.
TOOL: Final = re.compile(r"\b(?:search|get|create|update|forget|link|explore|review|tidy|record|consolidate)_[a-z_]+\b")
ID: Final = re.compile(rf"\b(?:[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-)?([0-9a-f]{{{ID_DIGITS}}})\b")


class Raw(RootModel[Any]):
    """An answer in the shape that the other system gives it, lists and null included."""


def number_of(memory_id: str) -> int:
    """Return the number that stands for a memory's id: its last 12 hex digits."""
    return int(memory_id.replace("-", "")[-ID_DIGITS:], 16)


def _id_of_number(value: object) -> object:
    """Accept a number of ours, as a number or as text, and ids as they are."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) or (isinstance(value, str) and value.isdecimal() and len(value) != 36):
        number = int(value)
        return f"{number:0{ID_DIGITS}x}" if 0 <= number < 16**ID_DIGITS else "none such"
    return value


def ten_of(importance: float) -> int:
    """Return an importance of 0 to 1 on the scale from 1 to 10."""
    return max(1, min(10, round(importance * 10)))


NumericId = Annotated[
    f.MemoryId, BeforeValidator(_id_of_number, json_schema_input_type=int | str), Field(description="A memory's id.")
]
OneToTen = Annotated[float, Field(ge=1, le=10, description="1 to 10.")]
TagText = Annotated[
    f.Tags, BeforeValidator(f.comma_separated, json_schema_input_type=str), Field(description="Comma-separated.")
]


def share_of(importance: float | None) -> float | None:
    """Return an importance from 1 to 10 as one from 0 to 1."""
    return None if importance is None else importance / 10


def refuse_missing(results: Iterable[dict[str, Any]], number: Callable[[str], object] = number_of) -> None:
    """Raise the first error that is in an answer in place of a memory; `number` is how its id is written.

    Raises:
        NotFound: there is no such memory.
        Conflict: several end in the same digits.
    """
    for one in results:
        if error := one.get("error"):
            if error["code"] == NotFound.code:
                raise NotFound("memory", number(one["id"]))
            raise Conflict(error["message"], error["hint"])


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are given; None counts as left out."""
    return {name: value for name, value in fields.items() if value is not None}


def answering_hits(found: Found) -> list[dict[str, Any]]:
    """Return the hits of a search without those that have none of the words of the question and hardly answer it."""
    return [hit for hit in found.results if hit["why"]["words"] or found.is_likely(hit)]


def dropped_tags(arguments: Mapping[str, Any]) -> list[str]:
    """Return the tags among a tool's arguments that are not tags here, also those in one of its objects."""
    lost: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, BaseModel):
            lost += dropped_tags(dict(value))
        elif name == "tags" and isinstance(value, list):
            lost += [tag for tag in value if not normalised_tag(tag)]
    return lost


class CompatAdapter:
    """The tools of another system, as methods; everything is done by the manager beneath.

    Args:
        memory: whose memories, and how they are kept.

    Attributes:
        instructions: what its clients read at the beginning.
        names: its tools for ours, where a hint names one.
        numbers: whether its ids are numbers.
        categories: the kinds that it knows, where it has a resource that lists them.
    """

    instructions: ClassVar[str] = ""
    names: ClassVar[Mapping[str, str]] = {}
    numbers: ClassVar[bool] = True
    categories: ClassVar[tuple[str, ...]] = ()

    def __init__(self, memory: MemoryManager) -> None:
        self.memory = memory

    @cached_property
    def tools(self) -> list[Tool]:
        """The methods that clients may call; their errors speak of these tools and ids."""
        return [replace(one, method=self._translating(one.method)) for one in tools_of(self)]

    def _translating(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(method)
        async def translating(**arguments: Any) -> Any:
            try:
                answer = await method(**arguments)
            except PgengramError as error:
                self.translated(error)
                raise
            lost = dropped_tags(arguments)
            if lost and isinstance(answer, Raw) and isinstance(answer.root, dict):
                answer.root.setdefault("dropped_tags", lost)
            return answer

        return translating

    def translated(self, error: PgengramError) -> PgengramError:
        """Let an error name this system's tools and ids; a sentence about a tool that it does not have is left out."""
        own = {tool.name for tool in tools_of(self)}
        hint = TOOL.sub(lambda found: self.names.get(found[0], found[0]), error.hint)
        error.hint = " ".join(said for said in re.split(r"(?<=\.) ", hint) if {*TOOL.findall(said)} <= own)
        if self.numbers:
            error.message = ID.sub(lambda found: str(int(found[1], 16)), error.message)
        return error

    async def ready(self, report: Callable[[str], Awaitable[None]] | None = None, embeds: bool = True) -> None:
        """Return when calls can be answered."""
        await self.memory.ready(report, embeds)

    async def open(self) -> None:
        """Get ready ahead of the first call."""
        await self.memory.open()

    async def close(self) -> None:
        """Let go of everything."""
        await self.memory.close()

    async def store(self, **fields: Any) -> Any:
        """Store a memory; fields that are None count as left out."""
        return await self.memory.create_memory(validated(NewMemory, without_none(fields)))

    async def find(self, **fields: Any) -> Found:
        """Search; fields that are None count as left out."""
        return await self.memory.search_memories(validated(Question, without_none(fields)))

    async def whole(self, ids: Iterable[str]) -> list[dict[str, Any]]:
        """Return the memories with these ids whole, those that exist."""
        wanted = list(ids)
        if not wanted:
            return []
        return [dict(memory) for memory in (await self.memory.get_memories(wanted)).memories]
