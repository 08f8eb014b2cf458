"""What a program may say: the keyword arguments of `Memory`, checked at run time exactly as they stand here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import cache, wraps
from typing import Annotated, Any, Final, Literal, Required, TypeVar, cast, get_args, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, validate_call, with_config
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from pgengram import fields as f
from pgengram.errors import InvalidInput
from pgengram.inputs import DedupPolicy, Mode, Sort
from pgengram.runtime.context import here
from pgengram.service.calls.moments import moment_of

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


Method = TypeVar("Method", bound=Callable[..., Any])
UNKNOWN: Final = ("extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument")
MISSING: Final = ("missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument")


def checked_method(method: Method) -> Method:
    """Let a method, asynchronous or a generator, be called with what its annotations say only.

    Raises:
        InvalidInput: by the method that is returned; the message names the argument.
    """

    @cache
    def check() -> Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]:
        @wraps(method)
        def given(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
            return args, kwargs

        return validate_call(config=ConfigDict(strict=True))(given)

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            return check()(*args, **kwargs)
        except ValidationError as error:
            raise InvalidInput(_message(error, _argument_names(method), _positional(method))) from None

    if inspect.isasyncgenfunction(method):

        @wraps(method)
        def go_through(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = arguments(args, kwargs)
            return method(*args, **kwargs)

        return cast("Method", go_through)

    @wraps(method)
    async def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = arguments(args, kwargs)
        return await method(*args, **kwargs)

    return cast("Method", call)


@cache
def _item_adapter() -> TypeAdapter[NewItem]:
    return TypeAdapter(NewItem)


def item_of(given: Mapping[str, Any]) -> NewItem:
    """Return one of many memories to store, as its typed dictionary wants it.

    Raises:
        InvalidInput: it is something else.
    """
    try:
        return _item_adapter().validate_python(dict(given))
    except ValidationError as error:
        raise InvalidInput(_message(error, [*NewItem.__annotations__])) from None


def given_moment(name: str, value: Any) -> Any:
    """Return a moment that was given as text, with its zone; anything else as it is.

    Raises:
        InvalidInput: the text names none.
    """
    if not isinstance(value, str):
        return value
    read = moment_of(name, value, here())
    if read is None:
        raise InvalidInput(f"{name} must be a moment, such as 2026-03-03 or 2026-03-03T10:00:00Z.")
    return read


def _message(error: ValidationError, names: Sequence[str], positional: Sequence[str] = ()) -> str:
    """Say of each argument what it must be; of a choice of types all of them."""
    wrong: dict[str, list[str]] = {}
    for one in error.errors(include_url=False, include_input=False):
        where = _error_path(one, names, positional)
        wrong.setdefault(where, []).append(_error_sentence(one, where, names))
    return "; ".join(" or ".join(dict.fromkeys(problems)) for problems in wrong.values())


def _error_sentence(error: ErrorDetails, where: str, names: Sequence[str]) -> str:
    if error["type"] == "unexpected_positional_argument":
        return "too many arguments without a name; name those after the first"
    if error["type"] in UNKNOWN:
        near = get_close_matches(where.rpartition(".")[2], names, 1)
        known = f"; did you mean {near[0]!r}?" if near else "" if "." in where else f"; known are {', '.join(names)}"
        return f"unknown argument {where!r}{known}"
    if error["type"] in MISSING:
        return f"{where} is required"
    wanted = error["msg"].removeprefix("Input should be ")
    return f"{where} must be {wanted}" if wanted != error["msg"] else f"{where}: {wanted}"


def _error_path(error: ErrorDetails, names: Sequence[str], positional: Sequence[str]) -> str:
    """Return the path to what is wrong, without the branches of a choice of types."""
    first, *rest = error["loc"]
    where = positional[min(first, len(positional) - 1)] if isinstance(first, int) else first
    for step in rest:
        if isinstance(step, int):
            where += f"[{step}]"
        elif step in names or step in SourceGiven.__annotations__ or error["type"] in UNKNOWN:
            where += f".{step}"
    return where


def _positional(method: Callable[..., Any]) -> list[str]:
    """Return the names of what needs none; the last may stand for any number of arguments."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [name for name, parameter in inspect.signature(method).parameters.items() if parameter.kind in kinds]


@cache
def _argument_names(method: Callable[..., Any]) -> list[str]:
    """Return the names of all arguments of a method, those of its typed dictionary of keyword arguments, too."""
    names = []
    hints = get_type_hints(method)
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            names.append(name)
        else:
            names += get_args(hints[name])[0].__annotations__
    return [name for name in names if name != "self"]
