"""What a tool or a request takes: its schema, and arguments read and checked against it.

Refusals say where and what is allowed, from the schema alone; the rejected value is not a part of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from typing import Any, Final, Generic, Literal, TypeVar, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import ErrorDetails

from pgengram.errors import InvalidInput, LimitExceeded
from pgengram.json_schema import FlatJsonSchema, Schema, allowed
from pgengram.service.calls.coercion import Coercion
from pgengram.service.calls.vocabulary import (
    MAX_ARGUMENTS,
    MAX_PARTS,
    NAMES,
    NAMES_OF_ID,
    TARGETS,
    clipped,
    meaningless,
    name_words,
    of_the_client,
    too_many_parts,
)
from pgengram.service.tools import Tool
from pgengram.views import Answer

Model = TypeVar("Model", bound=BaseModel)
MAX_PROBLEMS: Final = 5  # named in one error
SOUGHT: Final = frozenset({"query", "context"})  # arguments that say what a tool looks for
IGNORED: Final = "ignored: no such argument"
Ignores = Literal["none", "client", "any"]
SMALLEST_BATCH: Final = 20  # a list that may hold as many is a batch


class Reader(Generic[Model]):
    """Reads requests of one model.

    Args:
        model: the request. tool: the name of the tool that takes it, for what to do next. liberal: whether words, names
        and values are read as they are meant. ignores: whether arguments that are not known are left out, and told:
        "none", those of the "client", or "any" that
            is like none of the known.
    """

    def __init__(self, model: type[Model], tool: str = "", *, liberal: bool = True, ignores: Ignores = "none") -> None:
        self._model = model
        self._tool = tool
        self._liberal = liberal
        self._ignores = ignores

    @cached_property
    def schema(self) -> Schema:
        """What is accepted, flat."""
        found = self._model.model_json_schema(schema_generator=FlatJsonSchema)
        return {key: value for key, value in found.items() if key != "description"}

    @cached_property
    def _coercion(self) -> Coercion:
        return Coercion(self.schema, frozenset(self._model.model_fields), liberal=self._liberal, tool=self._tool)

    def read(self, given: Any) -> tuple[Model, dict[str, str]]:
        """Return a request, and how those of its fields were read that were given otherwise.

        Raises:
            InvalidInput: some are unknown, missing or out of bounds; the message says what is allowed.
            LimitExceeded: a list holds more than one call may bring.
        """
        if not isinstance(given, Mapping):
            raise InvalidInput(f"must be an object with {', '.join(self.schema.get('required', ()))}.")
        self._refuse_too_many(given)
        clients = [] if self._ignores == "none" else of_the_client(given, self._names)
        meant, coerced = self._coercion.read({name: given[name] for name in given if name not in clients})
        self._refuse_too_many(meant)
        others = self._meaningless(meant)
        try:
            made = self._model.model_validate({name: meant[name] for name in meant if name not in others})
        except ValidationError:
            self._refuse(meant)
            raise
        return made, {**coerced, **dict.fromkeys(map(clipped, clients + others), IGNORED)}

    def _refuse_too_many(self, given: Mapping[str, Any]) -> None:
        if len(given) > MAX_ARGUMENTS:
            raise InvalidInput(f"{len(given):,} arguments at once; {self._tool or 'this'} has {len(self._names)}.")

    def _meaningless(self, meant: Mapping[str, Any]) -> list[str]:
        """Return the arguments that no tool has and that are left out; none where all may be what to look for."""
        unknown = {name: value for name, value in meant.items() if name not in self._names}
        other_tools = [name for name in unknown if _snake_case(name) in NAMES or _snake_case(name) in TARGETS]
        understood = len(unknown) < len(meant) or not (other_tools or SOUGHT.intersection(self._names))
        return meaningless(unknown, self._names) if self._ignores == "any" and understood else []

    @property
    def _names(self) -> Collection[str]:
        return self._model.model_fields.keys()

    def _refuse(self, meant: Mapping[str, Any]) -> None:
        """Say what is wrong with a call, with all that is not known in it."""
        try:
            self._model.model_validate(meant)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
            message = "; ".join(_schema_problem(one, self.schema) for one in problems[:MAX_PROBLEMS])
            if all(_is_too_much(one, self.schema) for one in problems):
                raise LimitExceeded(message) from None
            raise InvalidInput(message, next_step(self._tool, problems, meant)) from None


_READERS: Final[dict[tuple[type[BaseModel], str], Reader[Any]]] = {}


def reader(model: type[Model], tool: str = "") -> Reader[Model]:
    """Return the reader of a request that is not a tool's own, such as one element of its list."""
    if (model, tool) not in _READERS:
        _READERS[model, tool] = Reader(model, tool)
    return _READERS[model, tool]


@dataclass(frozen=True, slots=True)
class Call:
    """A call that may be made: its arguments, and how they were read."""

    tool: Tool
    arguments: dict[str, Any]
    coerced: dict[str, str]

    async def run(self) -> Any:
        """Make the call; the answer says how its arguments were read."""
        return self.noted(await self.tool.method(**self.arguments))

    def noted(self, answer: Any) -> Any:
        """Return an answer that says how the call's arguments were read."""
        if self.coerced and isinstance(answer, Answer):
            return answer.model_copy(update={"read": {**self.coerced, **(answer.read or {})}})
        return answer


class Arguments:
    """What a tool takes, made from the method's signature and docstring.

    A method whose only parameter is a pydantic model takes that model's fields as its arguments. Unless `liberal`, they
    are not read as they are meant, only as they stand there.

    Raises:
        TypeError: a parameter is not annotated or too intricate for a flat schema, or no view is returned.
    """

    def __init__(self, tool: Tool, *, liberal: bool = True) -> None:
        self.tool = tool
        function = getattr(tool.method, "__func__", tool.method)
        self.view, self._whole, self._reader = _signature_of(
            function, tool.name, bound=function is not tool.method, destructive=tool.hints.destructive, liberal=liberal
        )

    @property
    def input_schema(self) -> Schema:
        """What the tool accepts."""
        return self._reader.schema

    def read(self, given: Mapping[str, Any]) -> Call:
        """Return the call with the arguments that are meant; those left out, or null where allowed, keep their default.

        Raises:
            InvalidInput: some are unknown, missing or out of bounds; the message says what is allowed.
            LimitExceeded: a list holds more than one call may bring.
        """
        if too_many_parts(given):
            raise LimitExceeded(f"A call holds at most {MAX_PARTS:,} fields and elements of lists.")
        checked, coerced = self._reader.read(given)
        if self._whole is not None:
            return Call(self.tool, {self._whole: checked}, coerced)
        return Call(self.tool, {name: getattr(checked, name) for name in checked.model_fields_set}, coerced)


@cache
def _signature_of(
    function: Callable[..., Any], name: str, *, bound: bool, destructive: bool, liberal: bool
) -> tuple[type[BaseModel], str | None, Reader[BaseModel]]:
    """Return the view that a tool answers with, the parameter that takes all its arguments, and their reader.

    It is the same for every manager, so it is worked out once in a process.
    """
    hints = get_type_hints(function, include_extras=True)
    view = hints.pop("return", None)
    if not (isinstance(view, type) and issubclass(view, BaseModel)):
        raise TypeError(f"{name} must return a pydantic model")
    parameters = dict([*inspect.signature(function).parameters.items()][bound:])
    first = next(iter(parameters), "")
    whole = first if len(parameters) == 1 and _is_request(hints[first]) else None
    model: type[BaseModel] = hints[first] if whole else _model_of(name, hints, parameters)
    tells = liberal and issubclass(view, Answer)  # only such an answer can say what was ignored
    ignores: Ignores = "any" if tells and not destructive else "client" if liberal else "none"
    return view, whole, Reader(model, name, liberal=tells, ignores=ignores)


def _model_of(name: str, hints: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]) -> type[BaseModel]:
    fields = {one: (hints[one], ... if p.default is p.empty else p.default) for one, p in parameters.items()}
    config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())
    return create_model(f"{name}_arguments", __config__=config, **cast("dict[str, Any]", fields))


def _is_request(hint: object) -> bool:
    """Whether a parameter is a model whose fields are the tool's arguments."""
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def _schema_problem(error: ErrorDetails, schema: Schema) -> str:
    """Say what is wrong and what is allowed, from the schema alone: the rejected value is never part of it."""
    where, node, known = _schema_at(error["loc"], schema)
    if error["type"] == "extra_forbidden":
        word = clipped(error["loc"][-1])
        kind = f"field {word!r} in {where}" if where else f"argument {word!r}"
        if _snake_case(word) in NAMES_OF_ID:  # the next step says what takes it
            return f"unknown {kind}"
        near = get_close_matches(word, known, 1)
        return f"unknown {kind}" + (f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}")
    if error["type"] in ("value_error", "assertion_error"):  # the words of our own validators
        return f"{where} {error.get('ctx', {}).get('error', 'is not allowed')}".strip()
    verb = "is required:" if error["type"] == "missing" else "must be"
    return f"{where or 'arguments'} {verb} {allowed(node)}"


def _is_too_much(error: ErrorDetails, schema: Schema) -> bool:
    """Whether a call brings more things at once than it may, rather than one that is too large."""
    if error["type"] != "too_long" or len(error["loc"]) != 1:
        return False
    argument = schema.get("properties", {}).get(error["loc"][0], {})
    return bool(argument.get("maxItems", 0) >= SMALLEST_BATCH)


def _schema_at(path: Sequence[int | str], schema: Schema) -> tuple[str, Schema, list[str]]:
    """Follow an error's path as far as the schema knows it.

    Returns how to call the place, its schema, and the names known at the last object met. Keys of free mappings are
    the caller's content, so they are left out.
    """
    where, node, known = "", schema, list(schema.get("properties", ()))
    for step in path:
        if isinstance(step, int) and "items" in node:
            where, node = f"{where}[{step}]", node["items"]
        elif step in node.get("properties", ()):
            where, node = f"{where}.{step}".lstrip("."), node["properties"][step]
        else:
            break
        known = list(node.get("properties", known))
    return where, node, known


DESTROYS: Final = {"permanent": "hard", "permanently": "hard", "erase": "hard", "purge": "hard", "force": "hard"}
CONFIRMS: Final = frozenset({"confirm", "confirmed", "confirmation", "yes", "sure", "approved", "approve"})
CONFIRMED: Final = frozenset({"forget_memories", "tidy_memories"})  # take a confirm_token
FORGOTTEN: Final = frozenset({"forgotten", "deleted", "removed", "invalidated"})
NAMES_OF_IDS: Final = frozenset({"id", "ids", "from_id", "to_ids"})
USUAL_STEP: Final = InvalidInput.default_hint
FIND_IDS: Final = "Find the ids first with search_memories(query=…), then call {} with them; nothing was changed."


def next_step(tool: str, problems: Sequence[ErrorDetails], given: Mapping[str, Any]) -> str:
    """Return the call that leads on from what is wrong with one."""
    unknown = {_snake_case(str(one["loc"][-1])) for one in problems if one["type"] == "extra_forbidden"}
    wrong = {str(one["loc"][0]) for one in problems if one["loc"]}
    if _lacks_ids(unknown, wrong):
        return FIND_IDS.format(tool or "this")
    if unknown & NAMES_OF_ID:
        return _step_with_id(tool, given)
    if tool in CONFIRMED:
        return _step_of_confirmed(tool, unknown)
    return _step_of_update(unknown, wrong, given) if tool == "update_memory" else USUAL_STEP


def _step_of_confirmed(tool: str, unknown: set[str]) -> str:
    """Return the call that leads on for a tool that takes a confirm_token."""
    if unknown & CONFIRMS:
        return (
            "Leave it out: the first call is a preview and gives a confirm_token; if the user agrees, repeat the call "
            "with that. Nothing was changed."
        )
    if tool == "forget_memories" and (hard := unknown & DESTROYS.keys()):
        return f"To erase permanently say hard=true instead of {', '.join(sorted(hard))}; nothing was changed."
    return USUAL_STEP


def _lacks_ids(unknown: set[str], wrong: set[str]) -> bool:
    return bool(wrong & NAMES_OF_IDS) and not any(get_close_matches(one, NAMES_OF_IDS, 1) for one in unknown)


def _step_with_id(tool: str, given: Mapping[str, Any]) -> str:
    """Return what takes the id that a tool without one was given."""
    id_ = next(clipped(value) for name, value in given.items() if _snake_case(name) in NAMES_OF_ID)
    if tool == "create_memory":
        return (
            f'A new memory gets an id by itself. To change that one call update_memory(id="{id_}", content=…); to '
            f"store "
            f'another instead of it add replaces=["{id_}"]. Nothing was stored.'
        )
    return f'To read it call get_memories(ids=["{id_}"]); else leave it out. Nothing was changed.'


def _snake_case(name: str) -> str:
    return "_".join(name_words(name))


def _step_of_update(unknown: set[str], wrong: set[str], given: Mapping[str, Any]) -> str:
    if str(given.get("status", "")).lower() in FORGOTTEN or "content" in wrong:
        return f'To forget it call forget_memories(ids=["{clipped(given.get("id", "…"))}"]); nothing was changed.'
    if "type" in unknown:
        return "The type of a memory stays; kind, such as kind=decision, can be changed. Nothing was changed."
    return USUAL_STEP
