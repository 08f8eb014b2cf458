"""What the tools of AGI memory take and give: requests, and rows in camel case."""

from __future__ import annotations

import re
from math import log
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, ConfigDict, Field

from pgengram import fields as f
from pgengram.inputs import Request

AnyVector = Annotated[list[float], Field(description="Used where it has this store's length, else made from the text.")]
Query = Annotated[str, f.Text, Field(max_length=f.MAX_QUERY)]
Limit = Annotated[int, Field(ge=1, le=f.MAX_LIMIT)]
HOUR_S: Final = 3_600


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
    """How long a working memory is held, in seconds."""

    ttl: Annotated[int, Field(ge=1, le=604_800)] = HOUR_S


def camel(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its names in camel case; nested values stay as they are."""
    return {re.sub(r"_(\w)", lambda match: match[1].upper(), name): value for name, value in row.items()}


def row_of(memory: dict[str, Any]) -> dict[str, Any]:
    """Return a memory as a row of the memories table, without its vector."""
    half_life = memory.get("half_life_days")
    return {
        "id": memory["id"],
        "type": memory["type"],
        "status": memory["status"],
        "content": memory["content"],
        "importance": memory["importance"],
        "accessCount": memory.get("access_count", 0),
        "lastAccessed": memory.get("last_accessed_at"),
        "createdAt": memory["created_at"],
        "updatedAt": memory.get("updated_at", memory["created_at"]),
        "relevanceScore": memory.get("relevance", 0.0),
        **({"metadata": memory["metadata"]} if memory.get("metadata") else {}),
        **({"decayRate": round(log(2) / half_life, 4) if half_life else 0.0} if "half_life_days" in memory else {}),
    }


def hit_of(hit: dict[str, Any]) -> dict[str, Any]:
    """Return a search hit as a row with the parts of its score."""
    why = hit.get("why")
    if why is None:
        return row_of(hit)
    similarity = why["similarity"]
    return row_of(hit) | {"similarity": similarity, "similarityScore": similarity, "textRank": why["words"]}


def edge_of(edge: dict[str, Any], start: str) -> dict[str, Any]:
    """Return an edge as seen from one of its ends."""
    outgoing = edge["from_id"] == start
    return {
        "fromMemoryId": edge["from_id"],
        "toMemoryId": edge["to_id"],
        "relatedMemoryId": edge["to_id"] if outgoing else edge["from_id"],
        "direction": "outgoing" if outgoing else "incoming",
        "relationshipType": edge["type"],
        "strength": edge["strength"],
        "properties": edge.get("properties", {}),
    }


def node_of(node: dict[str, Any]) -> dict[str, Any]:
    """Return a memory met along relationships as a row."""
    place = {name: node[name] for name in ("depth", "strength", "path")}
    return {"id": node["id"], "content": node["excerpt"], "type": node["type"], **place}


def cluster_of(cluster: dict[str, Any]) -> dict[str, Any]:
    """Return a cluster as a row, with its members."""
    names = {"type": "clusterType", "memory_ids": "memoryIds", "memory_count": "memoryCount"}
    row = camel({name: value for name, value in cluster.items() if name not in names})
    return {**row, **{theirs: cluster[ours] for ours, theirs in names.items() if ours in cluster}}


def held_of(memory: dict[str, Any]) -> dict[str, Any]:
    """Return a working memory as a row."""
    return {
        "id": memory["id"],
        "content": memory["content"],
        "createdAt": memory["created_at"],
        "expiry": memory["expires_at"],
    }
