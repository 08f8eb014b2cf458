"""Arguments read as they are meant: other names, words for numbers, dates in words, one thing where a list is wanted.

What can only mean one thing is taken, and `read` says how. What may mean two things, or would destroy, stays as it is
for the check that follows, or is refused with the call to make. An argument that is right costs a look at its type.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import NoneType
from typing import Any, Final

from pgengram import fields as f
from pgengram.errors import InvalidInput
from pgengram.inputs import NewMemory
from pgengram.json_schema import Schema
from pgengram.runtime.context import here
from pgengram.service.calls.moments import (
    LONGEST_MOMENT,
    day_before,
    exact_moment,
    in_order,
    moment_of,
    tell_of_past_end,
)
from pgengram.service.calls.vocabulary import (
    EVERYTHING,
    TARGETS,
    WORDS,
    clamped,
    clipped,
    content_too_long,
    from_text,
    read_share,
    unwrapped,
)

STORES: Final = "create_memory"  # by a caller, who may have mistaken a date; what is imported was so
NOTHING: Final = frozenset({"", "null", "undefined"})
PYTHONS_NOTHING: Final = "None"  # in small letters it may be a word
NOTHING_IN_A_LIST: Final = NOTHING | {"none", "nil", "n/a", "nan"}
OF_ANYTHING: Final = frozenset({"note", "message", "body", "statement", "fact"})
MAY_BE_BLANK: Final = frozenset({"query", "context", "reason", "cursor", "confirm_token"})
NEVER_DROPPED: Final = frozenset({"content", "id", "ids", "from_id", "to_ids"})
CUT: Final = frozenset({"query", "context"})  # too long, their beginning and end say enough
UNBOUNDED_SHARES: Final = frozenset({"threshold", "below_importance"})  # between 0 and 1, though their schema is silent
OF_TEXT: Final = {"items": "content", "replacements": "content", "sources": "ref"}  # what a text is as one of these
BATCHES: Final = frozenset({"items", "replacements"})  # each place of them has an answer of its own
CHARACTERS_PER_TOKEN: Final = 4
_HUMP: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_ORDERED: Final = re.compile(r"[\s:_]+(desc|descending)$", re.IGNORECASE)
_TEXT: Final = (str, int, float)


class Coercion:
    """How the arguments of one request are read.

    Args:
        schema: of the request, flat.
        known: names of its arguments, those that the schema leaves out too.
        tool: whose arguments they are.
        liberal: whether to read words, names and values as they are meant; else only what clients do to any argument is
            undone: JSON as text, null for "left out", names in camel case.
    """

    def __init__(self, schema: Schema, known: frozenset[str], *, liberal: bool, tool: str = "") -> None:
        self._schema = schema
        self._known = known
        self._liberal = liberal
        self._tool = tool
        self._searches = "query" in known or "min_importance" in known

    def read(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the arguments as they are meant, and how those were read that were given otherwise.

        Raises:
            InvalidInput: one may mean two things; the error says how to write either.
        """
        coerced: dict[str, str] = {}
        return self._object(dict(given), self._schema, self._known, coerced), coerced

    # -- names -----------------------------------------------------------------------------------------------------

    def _object(
        self, given: dict[str, Any], schema: Schema, known: frozenset[str], coerced: dict[str, str]
    ) -> dict[str, Any]:
        properties: Schema = schema["properties"]
        required = schema.get("required", ())
        if not given.keys() <= known:
            given = self._named(given, known, required, coerced)
        if self._liberal and {"since", "until"} <= given.keys():
            given = in_order(given, coerced)
        made = self._fields(given, properties, required, known, coerced)
        if self._liberal and "type" in made and "kind" in known:
            _kind_as_type(made, coerced)
        if self._liberal and "expires_at" in made:
            tell_of_past_end(made, coerced, refuses=self._tool == STORES)
        return made

    def _fields(
        self,
        given: dict[str, Any],
        properties: Schema,
        required: Collection[str],
        known: frozenset[str],
        coerced: dict[str, str],
    ) -> dict[str, Any]:
        """Return the values as they are meant, without those that say nothing."""
        made: dict[str, Any] = {}
        for name, value in given.items():
            needed = name in required
            if value is None and (needed or name not in known):
                made[name] = value
            elif value is None:
                if "clear" in known:
                    coerced[name] = "null → left as it is; clear empties it"
            elif (read := self._value(name, value, properties.get(name, {}), needed, coerced)) is not None:
                made[name] = read
        return made

    def _named(
        self, given: dict[str, Any], known: frozenset[str], required: Collection[str], coerced: dict[str, str]
    ) -> dict[str, Any]:
        """Return arguments under the names they have here."""
        if self._liberal:
            given = unwrapped(given, known, coerced)
        made = self._renamed(given, known, coerced)
        if self._liberal:
            self._rearrange(made, known, required, coerced)
        return made

    def _renamed(self, given: dict[str, Any], known: frozenset[str], coerced: dict[str, str]) -> dict[str, Any]:
        made = {name: value for name, value in given.items() if name in known}
        for name, value in given.items():
            if name in known:
                continue
            snake = _HUMP.sub(r"_\1", name).lower()
            if snake in known and snake not in made:
                made[snake] = value
            elif self._liberal and (target := self._target(snake, value, known, made)):
                coerced[name] = target
                made[target] = day_before(value) if snake == "before" else value
            else:
                made[name] = value
        return made

    def _target(self, name: str, value: Any, known: frozenset[str], made: Mapping[str, Any]) -> str | None:
        """Return the argument that is meant by another name for it."""
        if name == "type" and "kind" in known:  # of a memory that has one already
            return "kind" if isinstance(value, str) and _word("kind", value) in f.KINDS else None
        if _may_mean_another(name, value, known):
            return None
        targets = (one for one in TARGETS.get(name, ()) if one in known and one not in made)
        return next(targets, None)

    def _rearrange(
        self, made: dict[str, Any], known: frozenset[str], required: Collection[str], coerced: dict[str, str]
    ) -> None:
        """Undo what is more than another name."""
        if "max_chars" in known and isinstance(tokens := made.get("max_tokens"), int) and "max_chars" not in made:
            made["max_chars"] = made.pop("max_tokens") * CHARACTERS_PER_TOKEN
            coerced["max_tokens"] = f"{tokens} → max_chars {made['max_chars']}"
        if "items" in required:
            _into_items(made, known, coerced)
        if "status" in known and "restore" in made and made["restore"] in (True, "true") and "status" not in made:
            del made["restore"]
            made["status"] = coerced["restore"] = "active"

    # -- values ----------------------------------------------------------------------------------------------------

    def _value(self, name: str, value: Any, node: Schema, needed: bool, coerced: dict[str, str]) -> Any:
        """Return a value as it is meant; None for one that says nothing."""
        wanted = node.get("type")
        if isinstance(wanted, list):  # one text or several
            wanted = _one_or_several(value)
            node = {**node, "type": wanted}
        value = from_text(value, wanted)
        if not node and self._liberal and isinstance(value, list):  # tools/list leaves it out
            return _without_blanks(name, value, coerced) or None
        if not needed and self._says_nothing(name, value, wanted):
            coerced[name] = f"{clipped(value).strip() or 'blank'} → left out"
            return None
        if wanted == "array":
            return self._list(name, value, node, needed, coerced)
        if wanted == "object":
            return self._nested(value, node, coerced)
        return self._single(name, value, node, coerced) if self._liberal else value

    def _nested(self, value: Any, node: Schema, coerced: dict[str, str]) -> Any:
        if not isinstance(value, dict) or "properties" not in node:
            return value
        return self._object(value, node, frozenset(node["properties"]), coerced)

    def _says_nothing(self, name: str, value: Any, wanted: Any) -> bool:
        """Whether a text stands for an argument that is left out, except a link's type."""
        if not (self._liberal and wanted and isinstance(value, str)):
            return False
        if value.strip().lower() not in NOTHING and value.strip() != PYTHONS_NOTHING:
            return False
        return name not in MAY_BE_BLANK | NEVER_DROPPED and not (name == "type" and "from_id" in self._known)

    def _list(self, name: str, value: Any, node: Schema, needed: bool, coerced: dict[str, str]) -> Any:
        items = node.get("items") or {}
        if self._liberal:
            value = self._as_list(name, value, items)
        if not isinstance(value, list) or _is_vector(value, items):
            return value
        if self._liberal and items.get("type") == "string":
            kept = _without_blanks(name, value, coerced)
            if not kept and not needed and (value or name in MAY_BE_BLANK):
                return None
            value = self._meant(name, kept, items, coerced)
        return [self._element(name, one, items, coerced) for one in value]

    def _as_list(self, name: str, value: Any, items: Schema) -> Any:
        """Return one thing as a list of one, and texts among objects as what they say."""
        if isinstance(value, str) and items.get("type") == "string":
            value = f.comma_separated(value)
        elif isinstance(value, dict) or (isinstance(value, str) and name in OF_TEXT):
            value = [value]
        return _with_texts_as_objects(name, value) if isinstance(value, list) and name in OF_TEXT else value

    def _meant(self, name: str, value: list[Any], items: Schema, coerced: dict[str, str]) -> list[Any]:
        """Return all words of an enumeration where one says so, and no more questions than may be asked at once."""
        if "enum" in items and any(isinstance(one, str) and one.lower() in EVERYTHING for one in value):
            coerced[name] = "all of them"
            return list(items["enum"])
        if name == "query" and len(value) > f.MAX_QUERIES:
            coerced[name] = f"{len(value)} questions → the first {f.MAX_QUERIES}"
            return value[: f.MAX_QUERIES]
        return value

    def _element(self, name: str, value: Any, items: Schema, coerced: dict[str, str]) -> Any:
        if isinstance(value, dict) and items.get("type") == "string":
            return value.get("id") or value.get("memory_id") or value
        return value if value is None else self._value(name, value, items, True, coerced)

    def _single(self, name: str, value: Any, node: Schema, coerced: dict[str, str]) -> Any:
        """Return a word, text, number or moment as it is meant."""
        wanted = node.get("type")
        if isinstance(value, list) and wanted in ("string", "integer", "number", "boolean"):
            value = self._only(name, value, coerced)
        if wanted == "string":
            return self._text(name, value, node, coerced)
        if isinstance(value, bool) and wanted in ("integer", "number"):
            return str(value)  # pydantic would take it for 1 or 0
        if wanted == "number" and (node.get("maximum") == 1 or name in UNBOUNDED_SHARES):
            return self._changed(name, value, read_share(value), coerced)
        if wanted == "integer":
            return self._changed(name, value, clamped(name, value, node), coerced)
        return value

    def _only(self, name: str, value: list[Any], coerced: dict[str, str]) -> Any:
        if len(value) == 1:
            return value[0]
        if name in CUT and value and all(isinstance(one, str) for one in value):
            coerced[name] = f"{len(value)} texts → one"
            return " ".join(value)
        if name == "content" and len(value) > 1:
            raise InvalidInput(
                "content must be one statement.",
                'For several, call create_memories(items=[{"content": "…"}, {"content": "…"}]).',
            )
        return value

    def _text(self, name: str, value: Any, node: Schema, coerced: dict[str, str]) -> Any:
        if "enum" in node:
            return value if value in node["enum"] else self._of_enum(name, value, node["enum"], coerced)
        if node.get("format") == "date-time":
            return self._moment(name, value, coerced)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and name != "content":
            return str(value)
        most = node.get("maxLength")
        if isinstance(value, str) and most and len(value) > most:
            return self._cut(name, value, most, coerced)
        return value

    @staticmethod
    def _cut(name: str, value: str, most: int, coerced: dict[str, str]) -> str:
        """Return the beginning and the end of a text that is too long, where they say enough."""
        if name == "content":
            raise content_too_long(value, most)
        if name not in CUT:
            return value
        half = most // 2 - 2
        coerced[name] = f"{len(value)} characters → its beginning and end"
        return f"{value[:half]} … {value[-half:]}"

    def _of_enum(self, name: str, value: Any, enum: list[Any], coerced: dict[str, str]) -> Any:
        if not isinstance(value, str):
            return value
        word = _word(name, value)
        if name in ("sort", "mode") and word not in enum:
            word = _word(name, _ORDERED.sub("", value.strip().removeprefix("-")))
        singular = (word.removesuffix("s"), word.removesuffix("es"))
        meant = next((one for one in (word, f"{word}s", *singular) if one in enum), None)
        if meant is None and name == "kind" and not self._searches and "clear" not in self._known:
            meant = "general"
        return self._changed(name, value, meant, coerced)

    def _moment(self, name: str, value: Any, coerced: dict[str, str]) -> Any:
        if isinstance(value, bool) or not isinstance(value, _TEXT) or len(str(value)) > LONGEST_MOMENT:
            return value
        exact = exact_moment(value)
        try:
            moment = exact or moment_of(name, value, here())
        except InvalidInput as error:
            raise InvalidInput(f"{name}: {error.message}", error.hint) from None
        if moment is None:  # pydantic would take a small number for a moment in 1970
            return "no moment" if isinstance(value, (int, float)) or value.strip().isdigit() else value
        return value if exact else self._read_as(name, value, f.as_utc(moment), coerced)

    def _read_as(self, name: str, value: Any, meant: str | None, coerced: dict[str, str]) -> Any:
        """Return a moment as it was read, and tell it unless it is the day that was given."""
        return meant if meant == f"{value}T00:00:00Z" else self._changed(name, value, meant, coerced)

    @staticmethod
    def _changed(name: str, given: Any, meant: Any, coerced: dict[str, str]) -> Any:
        """Return what is meant, and tell it where it is not what was given; what means nothing stays."""
        if meant is None:
            return given
        if meant != given and str(meant) != str(given).strip():
            coerced[name] = f"{clipped(given)} → {meant}"
        return meant


def _into_items(made: dict[str, Any], known: frozenset[str], coerced: dict[str, str]) -> None:
    """Put fields of a memory that stand beside the items into each of them, or make them the only item."""
    shared = {name: made[name] for name in made.keys() - known if name in NewMemory.model_fields}
    items = from_text(made.get("items"), "array")
    if not shared or ("content" in shared) != ("items" not in made) or not isinstance(items, (list, NoneType)):
        return
    for name in shared:
        del made[name]
        coerced[name] = "for every item"
    made["items"] = [_with_shared(one, shared) for one in items or [{}]]


def _with_shared(item: Any, shared: dict[str, Any]) -> Any:
    """Return an item with the fields of all, where it has none of its own."""
    fields = {"content": item} if isinstance(item, str) else item
    return {**shared, **fields} if isinstance(fields, dict) else fields


def _may_mean_another(name: str, value: Any, known: frozenset[str]) -> bool:
    """Whether a name that resembles one of ours may as well mean something else."""
    of_five = name == "priority" and isinstance(value, int)  # where one may be the highest
    return of_five or (name in OF_ANYTHING and "clear" in known)  # a note about a change is not its content


def _with_texts_as_objects(name: str, value: list[Any]) -> list[Any]:
    """Return objects, with one for each text among them; a blank text is None in a batch and else left out."""
    read = [_as_said(one, OF_TEXT[name]) if isinstance(one, str) else one for one in value]
    return read if name in BATCHES else [one for one in read if one is not None]


def _as_said(text: str, said: str) -> dict[str, str] | None:
    return None if text.strip().lower() in NOTHING_IN_A_LIST else {said: text}


def _is_vector(value: list[Any], items: Schema) -> bool:
    """Whether a list has numbers alone, as it should have."""
    return items.get("type") == "number" and set(map(type, value)) == {float}


def _without_blanks(name: str, value: list[Any], coerced: dict[str, str]) -> list[Any]:
    """Return a list without elements that say nothing; "null" may be asked for."""
    nothing = {""} if name in MAY_BE_BLANK else NOTHING_IN_A_LIST
    if blanks := [one for one in value if _says_nothing_in_list(one, nothing)]:
        blank_words = dict.fromkeys(clipped(one).strip() for one in blanks if one is not None)
        coerced[name] = f"{', '.join(filter(None, blank_words)) or 'blank'} → left out"
    return [one for one in value if not _says_nothing_in_list(one, nothing)]


def _says_nothing_in_list(value: Any, nothing: Collection[str]) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in nothing)


def _one_or_several(value: Any) -> str:
    """Return whether a value is one text or a list of them, as the type of a schema."""
    several = isinstance(value, list) or (isinstance(value, str) and value.lstrip().startswith('["'))
    return "array" if several else "string"


def _kind_as_type(made: dict[str, Any], coerced: dict[str, str]) -> None:
    """Take what was given as type for a kind where it is one, unless that is given otherwise."""
    given = made["type"]
    kinds = [_word("kind", one) for one in (given if isinstance(given, list) else [given]) if isinstance(one, str)]
    if kinds and all(kind in f.KINDS for kind in kinds) and made.get("kind") in (None, kinds[0], kinds):
        del made["type"]
        made["kind"] = kinds if isinstance(given, list) else kinds[0]
        coerced["type"] = f"kind {', '.join(kinds)}"


def _word(name: str, value: str) -> str:
    """Return a word in the spelling it has here, synonyms replaced."""
    word = re.sub(r"[\s-]+", "_", value.strip().lower())
    return WORDS.get(name, {}).get(word, word)
