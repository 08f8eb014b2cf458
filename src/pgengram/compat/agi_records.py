"""What the tools of AGI memory take and give: requests, and rows in camel case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import log
from typing import Annotated, Any, Final, Literal
from uuid import UUID, uuid5

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

from pgengram import fields as f
from pgengram.details import DETAILS
from pgengram.inputs import Request
from pgengram.service.toolsets.tidy_request import Tidied
from pgengram.store import edges
from pgengram.store.connection.database import Row
from pgengram.views import view_of

AnyVector = Annotated[list[float], Field(description="Used where it has this store's length, else made from the text.")]
AnyId = Annotated[str, BeforeValidator(f.bare_id), Field(max_length=64, description="An id.")]  # unknown: nothing
Query = Annotated[str, f.Text, Field(max_length=f.MAX_QUERY)]
Limit = Annotated[int, Field(ge=1, le=f.MAX_LIMIT)]
HOUR_S: Final = 3_600


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk from one memory met; start is None where there is no such memory."""

    start: UUID | None
    paths: dict[UUID, edges.Path]
    edges: list[Row]
    memories: dict[UUID, Row]


class Criteria(Request):
    """What to search for; names in snake or camel case."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    text_query: Query = Field("", validation_alias=AliasChoices("text_query", "textQuery"))
    embedding: AnyVector | None = None
    memory_types: list[f.MemoryType] = Field([], validation_alias=AliasChoices("memory_types", "memoryTypes"))
    importance_range: list[f.Bound] = Field(
        [0.0, 1.0], min_length=2, max_length=2, validation_alias=AliasChoices("importance_range", "importanceRange")
    )
    date_range: dict[str, f.Moment] = Field({}, validation_alias=AliasChoices("date_range", "dateRange"))
    limit: Limit = 10


class Pruning(Request):
    """Which archived memories to remove; names in snake or camel case."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    max_age: int = Field(1_095, ge=0, le=36_500, validation_alias=AliasChoices("max_age", "maxAge"))
    min_importance: f.Bound = Field(0.1, validation_alias=AliasChoices("min_importance", "minImportance"))
    max_access_count: int = Field(2, ge=0, validation_alias=AliasChoices("max_access_count", "maxAccessCount"))
    status: Literal["archived"] = "archived"


class HeldFor(Request):
    """How long a working memory is held, in seconds, and anything else about it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    ttl: Annotated[int, Field(ge=1, le=604_800)] = HOUR_S


def camel(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its names in camel case; nested values stay as they are."""
    return {re.sub(r"_(\w)", lambda match: match[1].upper(), name): value for name, value in row.items()}


def camel_columns(row: Mapping[str, Any], names: Iterable[str], **renamed: str) -> dict[str, Any]:
    """Return columns of a row in camel case, null where the row has none; `renamed` gives our name for theirs."""
    return {**camel({name: row.get(name) for name in names}), **{new: row.get(old) for new, old in renamed.items()}}


def short_row(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a memory as the searches list it."""
    names = ("id", "type", "content", "importance", "created_at")
    counted = {"accessCount": memory.get("access_count", 0), "relevanceScore": memory.get("relevance", 0.0)}
    return camel_columns(memory, names) | counted


def agi_row(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a memory as a row of the memories table, without its vector."""
    half_life = memory.get("half_life_days")
    return {
        **short_row(memory),
        "status": memory["status"],
        "lastAccessed": memory.get("last_accessed_at"),
        "updatedAt": memory.get("updated_at", memory["created_at"]),
        "decayRate": round(log(2) / half_life, 4) if half_life else 0.0,
        **({"metadata": memory["metadata"]} if memory.get("metadata") else {}),
    }


def detail_of(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return the detail of a memory as the row of its type's own table."""
    counted = ("success_rate",) if memory["type"] == "procedural" else ()
    return {
        "memoryId": memory["id"],
        **camel_columns(memory["detail"], (*DETAILS[memory["type"]].model_fields, *counted)),
    }


def agi_hit(hit: Mapping[str, Any], *parts: str) -> dict[str, Any]:
    """Return a search hit as a row, with these parts of its score; 0 where a part was not looked at."""
    why = hit.get("why") or {}
    names = {"similarity": "similarity", "similarityScore": "similarity", "textRank": "words"}
    return short_row(hit) | {part: why.get(names[part]) or 0 for part in parts}


def edge_of(edge: Mapping[str, Any], start: UUID) -> dict[str, Any]:
    """Return an edge as seen from one of its ends."""
    outgoing = edge["from_id"] == start
    row = view_of({**edge, "id": uuid5(edge["from_id"], f"{edge['to_id']} {edge['type']}")}, ("strength", "created_at"))
    return {
        **camel(row),
        "fromMemoryId": str(edge["from_id"]),
        "toMemoryId": str(edge["to_id"]),
        "relatedMemoryId": str(edge["to_id"] if outgoing else edge["from_id"]),
        "direction": "outgoing" if outgoing else "incoming",
        "relationshipType": edge["type"],
        "properties": edge["properties"],
    }


CLUSTER: Final = ("id", "name", "description", "emotional_signature", "activation_count", "created_at", "updated_at")


def cluster_of(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cluster as a row, with its members; what is not known here is null."""
    renamed = {"clusterType": "type", "importanceScore": "importance", "lastActivated": "last_activated_at"}
    nowhere = dict.fromkeys(("coherenceScore", "worldviewAlignment"))
    members = {"memoryCount": cluster.get("memory_count", 0), "memoryIds": cluster.get("memory_ids", [])}
    return camel_columns(cluster, CLUSTER, **renamed) | {"keywords": cluster.get("keywords", [])} | nowhere | members


def insights_of(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cluster with numbers about its members."""
    seen = cluster["insights"]
    averages = {"avgImportance": "average_importance", "avgMembershipStrength": "average_strength"}
    numbers = camel_columns(
        seen, ("total_memories", "recent_memories"), lastMemoryAccess="last_accessed_at", **averages
    )
    return cluster_of(cluster) | numbers | {"memoryTypes": list(seen["types"])}


def snake(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in camel case with its names in snake case."""
    return {re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), name): value for name, value in row.items()}


def theme_of(theme: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cluster that was called up lately as a theme."""
    together = [other["id"] for other in theme["associated_themes"]] or None
    found = camel_columns(theme, ("emotional_signature", "recent_activations"), theme="name")
    return found | {"keywords": theme.get("keywords", []), "associatedThemes": together}


def agi_change(change: Mapping[str, Any], memory_id: str) -> dict[str, Any]:
    """Return an entry of a history as a row of memory_changes."""
    values = {name: pair for name, pair in change.get("changes", {}).items() if len(pair) == 2}
    words = {"consolidate": "consolidation", "archive": "archival", "erase": "deletion"}
    return {
        "changeId": str(uuid5(UUID(memory_id), str(change["version"]))),
        "memoryId": memory_id,
        "changedAt": change["at"],
        "changeType": words.get(change["operation"], change["operation"]),
        "oldValue": {name: pair[0] for name, pair in values.items()} or None,
        "newValue": {name: pair[1] for name, pair in values.items()} or None,
    }


BELIEF: Final = (
    "connected_beliefs", "activation_patterns", "memory_filter_rules", "influence_patterns", "preferred_clusters",
)  # fmt: skip


def belief_of(belief: Mapping[str, Any]) -> dict[str, Any]:
    """Return a belief as a row of worldview_primitives; what is kept in its details has its columns again."""
    own = camel_columns(
        belief, ("id", "category", "belief", "confidence", "emotional_valence"), stabilityScore="stability"
    )
    return own | camel_columns(belief.get("details", {}), BELIEF)


def tidied_of(tidied: Tidied) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the memories that were archived or removed, or what a yes is needed for."""
    if tidied.confirm_token:
        return tidied.model_dump(mode="json", exclude_none=True)
    return [{**camel_columns(row, ("content", "type")), "id": str(row["id"])} for row in tidied.before]


def may_be_id(given: str) -> bool:
    """Whether a text can be the id of something, or the end of one."""
    return re.fullmatch(r"[0-9a-f]{8,32}", given.replace("-", "").lower()) is not None


def held_of(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a working memory as a row."""
    return camel_columns(memory, ("id", "content", "created_at"), expiry="expires_at")
