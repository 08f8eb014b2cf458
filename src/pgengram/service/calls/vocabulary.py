"""What callers say for names and values of arguments: words of other servers, people and models."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic_core import from_json

from pgengram.errors import InvalidInput
from pgengram.json_schema import Schema
from pgengram.text.secrets import redacted, secrets_in

# The argument that is meant, and other names for it; a name counts only where a tool has the argument and not the name.
NAMES: Final[dict[str, str]] = {
    "content": "text memory fact note statement message body new_content new_text updated_content "
    "memory_content memory_text",
    "query": "q question search search_query text context topic message prompt keywords",
    "context": "query topic message text task q question prompt input user_message",
    "items": "memories facts entries notes records list",
    "id": "memory_id ids memory_ids uuid",
    "ids": "id memory_id memory_ids uuid uuids memories",
    "from_id": "from source_id source from_memory_id id memory_id",
    "to_ids": "to to_id target_id target_ids target targets to_memory_id ids",
    "type": "memory_type relation relation_type relationship relationship_type link_type edge_type",
    "types": "type relation relations relation_types link_types",
    "kind": "category memory_kind subtype",
    "tags": "tag labels label",
    "importance": "priority importance_score salience",
    "strength": "weight",
    "confidence": "certainty confidence_score",
    "occurred_at": "timestamp date time when happened_at event_time event_date datetime",
    "expires_at": "expires expiry expiration expiration_date valid_until",
    "user": "user_id user_name username person",
    "project": "project_name project_id",
    "session_id": "session conversation_id conversation thread_id",
    "speaker": "said_by",
    "metadata": "meta",
    "pinned": "pin",
    "sources": "references",
    "related_to": "related related_ids relates_to",
    "limit": "top_k k n max_results num_results count size page_size",
    "max_groups": "limit",
    "max_chars": "max_characters char_limit budget",
    "since": "after from from_date start start_date date_from",
    "until": "before to to_date end end_date date_to",
    "offset": "skip",
    "cursor": "next_cursor next_offset page_token next_page_token",
    "min_similarity": "min_score threshold score_threshold similarity_threshold",
    "sort": "sort_by order_by order",
    "mode": "search_mode search_type",
    "status": "state",
    "replaced_by_ids": "replaced_by superseded_by",
    "replaces": "replace supersedes supersede replaces_id replaces_ids replaced_ids",
    "reason": "why",
    "dry_run": "preview",
    "depth": "max_depth hops",
    "outcome": "result",
    "expected_version": "version",
    "find": "findings checks",
}
TARGETS: Final[dict[str, list[str]]] = {}
for _target, _names in NAMES.items():
    for _name in _names.split():
        TARGETS.setdefault(_name, []).append(_target)

NAMES_OF_ID: Final = frozenset(f"id ids {NAMES['id']} {NAMES['ids']}".split()) - {"memories"}

# An object in which callers put all arguments, or some of them.
_WRAPPERS: Final = (
    "arguments args params parameters input request memory item filters filter changes fields updates data options"
)
WRAPPERS: Final = frozenset(_WRAPPERS.split())

# What a word means as the value of an argument.
WORDS: Final[dict[str, dict[str, str]]] = {
    name: {word: meant for meant, words in meanings.items() for word in words.split()}
    for name, meanings in {
        "kind": {
            "error": "bug issue failure incident", "general": "note other misc info information memory",
            "goal": "todo task plan objective intention", "process": "procedure howto how_to workflow instruction rule",
            "learning": "lesson tip", "insight": "idea", "observation": "event episode", "person": "people contact",
            "preference": "like dislike style", "connection": "relationship relation", "fact": "knowledge",
        },
        "type": {
            "episodic": "event episode experience", "semantic": "knowledge info information note",
            "procedural": "procedure howto how_to workflow skill instruction", "strategic": "strategy principle plan",
        },
        "status": {"invalidated": "forgotten deleted removed", "archived": "archive",
        "active": "restored current live"},
        "mode": {
            "text": "keyword keywords words bm25 fulltext full_text lexical", "auto": "hybrid default smart combined",
            "semantic": "vector embedding similarity meaning dense", "substring": "exact literal contains",
        },
        "sort": {
            "created": "newest latest recent recency date time created_at", "updated": "updated_at modified",
            "occurred": "occurred_at happened", "accessed": "last_accessed accessed_at last_accessed_at",
        },
        "direction": {
            "out": "outgoing outbound from", "in": "incoming inbound to", "both": "any all either undirected",
        },
        "emotion": {
            "satisfaction": "happy joy glad pleased satisfied", "excitement": "excited enthusiastic",
            "concern": "worried anxious concerned", "curiosity": "curious interested", "neutral": "calm",
        },
        "capture_mode": {"explicit": "manual user stated told", "inferred": "automatic auto derived"},
        "outcome": {
            "success": "worked succeeded successful ok passed done", "failure": "failed fail error broken",
        },
        "find": {"contradictions": "conflict conflicts", "stale": "old outdated", "duplicates": "dupes"},
        "include": {"relations": "links link edges", "history": "versions changes"},
        "tags_match": {"any": "or", "all": "and"},
        "dedup_policy": {"skip_if_near": "skip", "insert": "always allow"},
    }.items()
}  # fmt: skip

# How much, in words, for what is between 0 and 1.
LEVELS: Final[dict[str, float]] = {
    "critical": 0.95, "vital": 0.95, "essential": 0.95, "highest": 0.95, "maximum": 1.0, "max": 1.0, "very_high": 0.9,
    "high": 0.8, "important": 0.8, "strong": 0.8, "medium": 0.5, "normal": 0.5, "moderate": 0.5, "average": 0.5,
    "low": 0.25, "minor": 0.25, "weak": 0.25, "very_low": 0.1, "lowest": 0.1, "trivial": 0.1, "certain": 1.0,
    "sure": 0.95,
}  # fmt: skip
EVERYTHING: Final = frozenset({"all", "everything", "*"})


MAX_ARGUMENTS: Final = 100  # named in one object that is a request; the largest has 42
MAX_PARTS: Final = (
    50_000  # keys, and elements of lists that are no numbers, in one call; the largest batch has a tenth of it
)
# Words that tell of a call and not what it is about, as in toolCallId, chatInput, security_risk and
# waitForPreviousTools; what may stand beside them; and names that are a client's own beside such a one only, as n8n's
# sessionId and action.
_TELLING: Final = frozenset([
    "call", "chat", "execution", "explanation", "progress", "security", "span", "thinking", "thought", "trace", "wait",
    "workflow",
])  # fmt: skip
_BESIDE: Final = frozenset(
    ["tool", "task", "input", "message", "id", "name", "index", "risk", "for", "previous", "tools", "step", "trigger"]
)
_ALONE: Final = frozenset(["explanation", "thinking", "thought"])
_COMPANIONS: Final = frozenset(["action", "sessionId", "conversationId", "threadId", "runId", "messageId", "requestId"])
_NARROWS: Final = frozenset([
    "except", "exclude", "excluding", "filter", "filters", "only", "where", "without", "not", "no", "dry", "simulate",
    "preview",
])  # fmt: skip
_SHORT: Final = 4  # letters; a shorter word is part of too many names
_PART: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


def too_many_parts(given: object) -> bool:
    """Whether a call holds more than `MAX_PARTS`, so that reading it would keep everybody waiting."""
    left, parts = [given] if isinstance(given, Mapping | list) else [], 0
    while left and parts <= MAX_PARTS:
        one = left.pop()
        inside = one.values() if isinstance(one, Mapping) else [v for v in one if not isinstance(v, int | float)]
        parts += len(inside)
        left += [value for value in inside if isinstance(value, Mapping | list)]
    return parts > MAX_PARTS


def name_words(name: str) -> list[str]:
    """Return the words of a name: of toolCallId and tool_call_id tool, call and id."""
    return [part.lower() for part in _PART.findall(name)]


def of_the_client(given: Collection[str], known: Collection[str]) -> list[str]:
    """Return the names in a call that tell of the call itself; the client adds them, whatever the tool is."""
    about_it = [name for name in given if name not in known and _tells_of_a_call(name_words(name))]
    return about_it + [name for name in given if about_it and name not in known and name in _COMPANIONS]


def _tells_of_a_call(parts: Collection[str]) -> bool:
    told = _TELLING.intersection(parts)
    return bool(told) and (len(parts) > 1 or told <= _ALONE) and {*parts} <= _TELLING | _BESIDE


def meaningless(unknown: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """Return those of the unknown arguments that are not another name of a known one and don't narrow what is meant.

    A call that only reads or adds does the same without them; one that changes what is there might have been meant not
    to.
    """
    return [
        name
        for name, value in unknown.items()
        if not (
            _is_near_name(name, known)
            or name.lower() in NAMES_OF_ID
            or (name.lower() in WRAPPERS and isinstance(value, dict | list))
            or secrets_in(name)
        )
    ]


def _is_near_name(name: str, known: Collection[str]) -> bool:
    """Whether a name is near to that of an argument, by its letters or its words, or narrows what is meant."""
    parts = name_words(name)
    plain = "_".join(parts)
    if not _NARROWS.isdisjoint(parts) or any(target in known for target in TARGETS.get(plain, ())):
        return True
    words = {part for part in parts if len(part) >= _SHORT}
    return any(
        _differs_little(plain, other, 1 + len(other) // 8)
        or any(_is_same(word, part) for word in words for part in other.split("_"))
        for other in known
        if len(other) >= _SHORT
    )


def _is_same(word: str, part: str) -> bool:
    """Whether a word is another but for its end: tag and tags, reason and reasoning."""
    return len(part) >= _SHORT - 1 and (word.startswith(part) or part.startswith(word))


def _differs_little(one: str, other: str, most: int) -> bool:
    """Whether at most `most` letters differ, are missing or have changed places (Damerau 1964)."""
    if abs(len(one) - len(other)) > most:
        return False
    last: list[int] = []
    before: list[int] = []
    row: list[int] = [*range(len(other) + 1)]
    for i, letter in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, there in enumerate(other, 1):
            least = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != there))
            if i > 1 and j > 1 and (letter, one[i - 2]) == (other[j - 2], there):
                least = min(least, last[j - 2] + 1)
            row.append(least)
    return row[-1] <= most


MAX_ECHO: Final = 64  # characters of a caller's own word in an answer
PART: Final = 4_000  # characters of a content that is offered in parts


def clipped(value: object) -> str:
    """Return a caller's own word, fit for an answer: short, and without secrets."""
    return redacted(str(value))[0][:MAX_ECHO].encode("utf-8", "replace").decode()


def content_too_long(content: str, most: int) -> InvalidInput:
    """Return the refusal of a content that is too long, with the call that stores it in parts."""
    parts = [f"{clipped(part[:30]).strip()} … {clipped(part[-30:]).strip()}" for part in split(content, PART)]
    items = json.dumps([{"content": part} for part in parts], ensure_ascii=False)
    return InvalidInput(
        f"content has {len(content):,} characters; one memory holds {most:,}.",
        f"Nothing was stored. Better store each fact alone; to store all of it call create_memories(items={items}), "
        "each part in full with the other fields of this call.",
    )


def split(text: str, most: int) -> list[str]:
    """Return a text in parts of at most `most` characters, which end with a paragraph, a sentence or a word."""
    parts = []
    while len(text) > most:
        head = text[:most]
        end = max(head.rfind("\n\n"), head.rfind(". ") + 1, 0) or max(head.rfind(" "), 0) or most
        parts.append(text[:end])
        text = text[end:].lstrip()
    return [*parts, text]


OF_TEN: Final = 3  # from here on a number is one of ten; below it may as well be one of three or a slip
_SHARE: Final = re.compile(r"(\d+(?:[.,]\d+)?)\s*(%|(?:/|of|out of)\s*(\d+))?")


def read_share(value: Any) -> float | None:
    """Return what a number between 0 and 1 means: of ten, of a hundred, or in a word; None when unsure."""
    if isinstance(value, str):
        return _share_in_words(value.strip())
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return _share_of(value)


def _share_in_words(value: str) -> float | None:
    word = re.sub(r"[\s-]+", "_", value.lower())
    if word in LEVELS:
        return LEVELS[word]
    if not (match := _SHARE.fullmatch(value)):
        return None
    number = float(match[1].replace(",", "."))
    if not match[2]:
        return _share_of(number)
    whole = 100 if match[2] == "%" else int(match[3])
    return round(number / whole, 6) if whole and whole >= number else None


def _share_of(number: float) -> float | None:
    if 0 <= number <= 1:
        return number
    if OF_TEN <= number <= 10:
        return round(number / 10, 6)
    return round(number / 100, 6) if 10 < number <= 100 else None


def clamped(name: str, value: Any, node: Schema) -> int | None:
    """Return a whole number within its bounds; what is below the least only where the least says nearly the same."""
    if isinstance(value, str):
        if "maximum" in node and value.strip().lower() in EVERYTHING | {"max"}:
            return int(node["maximum"])
        if not re.fullmatch(r"-?\d{1,12}", value.strip()):
            return None
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or name == "expected_version":
        return None
    if value < node.get("minimum", value):
        return int(node["minimum"]) if name in ("offset", "max_chars") else None
    return min(value, int(node.get("maximum", value)))


def from_text(value: Any, wanted: Any) -> Any:
    """Return a list or an object that a client gave as JSON text; anything else as it is."""
    if isinstance(value, str) and (wanted, value.lstrip()[:1]) in (("array", "["), ("object", "{")):
        with contextlib.suppress(ValueError):
            return from_json(value, allow_inf_nan=False)
    return value


def unwrapped(given: dict[str, Any], known: frozenset[str], coerced: dict[str, str]) -> dict[str, Any]:
    """Return arguments without the object, or its JSON text, in which they were put."""
    made: dict[str, Any] = {}
    for name, value in given.items():
        inner = None if name in known else from_text(value, "object")
        named = name.lower() in WRAPPERS or (len(given) == 1 and _holds_arguments(inner, known))
        if isinstance(inner, dict) and named and not given.keys() & inner.keys():
            made |= inner
            coerced[name] = "its fields"
        else:
            made[name] = value
    return made


def _holds_arguments(value: Any, known: frozenset[str]) -> bool:
    """Whether an object holds arguments, whatever it is called: of a tool that changes nothing that is there, where
    it might say what not to change.
    """
    harmless = "id" not in known and not known.isdisjoint({"query", "context", "content"})
    return harmless and isinstance(value, dict) and all(known & {one, *TARGETS.get(one, ())} for one in value)
