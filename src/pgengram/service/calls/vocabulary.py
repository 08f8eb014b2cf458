"""What callers say for the names and values of arguments: the words of other memory servers, of people and of
models.
"""

from __future__ import annotations

from typing import Final

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
