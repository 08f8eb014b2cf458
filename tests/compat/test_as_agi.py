"""The clients of AGI memory go on as they were: its 24 tools, with rows in camel case, doing what they promise."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from mcp import Client

from compat.conftest import refuses, says
from helpers import Database, call, connected

SYSTEM = "agi"
TOOLS = {
    "create_memory", "search_memories_similarity", "search_memories_text", "search_memories_advanced", "get_memory",
    "get_memory_clusters", "create_memory_cluster", "activate_cluster", "get_cluster_insights", "find_similar_clusters",
    "get_active_themes", "get_identity_core", "get_worldview", "get_memory_health", "create_memory_relationship",
    "get_memory_relationships", "find_related_memories", "create_working_memory", "get_working_memories",
    "cleanup_expired_working_memory", "consolidate_working_memory", "archive_old_memories", "prune_memories",
    "get_memory_history",
}  # fmt: skip
FOREIGN_VECTOR = [0.1] * 1536


async def created(client: Client, content: str, type_: str = "semantic", **more: Any) -> str:
    return str((await says(client, "create_memory", type=type_, content=content, **more))["id"])


async def test_it_has_these_24_tools(client: Client) -> None:
    assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS


@pytest.mark.shows(1, 43)
async def test_a_memory_comes_back_as_its_row_without_the_vector(client: Client) -> None:
    row = await says(client, "create_memory", type="episodic", content="The release went out.", embedding=FOREIGN_VECTOR,
                     importance=0.4, metadata={"action_taken": {"did": "deploy"}, "emotional_valence": 0.0,
                                               "verification_status": False})  # fmt: skip

    assert (row["type"], row["status"], row["importance"], row["accessCount"]) == ("episodic", "active", 0.4, 0)
    assert row["relevanceScore"] == pytest.approx(0.4)
    assert "embedding" not in row
    detail = row["typeSpecificData"]
    assert (detail["actionTaken"], detail["emotionalValence"]) == ({"did": "deploy"}, 0.0)
    assert detail["verificationStatus"] is False


@pytest.mark.parametrize(
    ("type_", "metadata", "expected"),
    [
        ("episodic", {}, {"emotionalValence": 0.0}),
        ("semantic", {}, {"confidence": 0.8, "category": [], "relatedConcepts": []}),
        ("semantic", {"confidence": 0}, {"confidence": 0}),
        ("procedural", {}, {"steps": {}, "successCount": 0, "totalAttempts": 0, "successRate": 0}),
        ("strategic", {}, {"confidenceScore": 0.7, "patternDescription": "Said so."}),
    ],
)
@pytest.mark.shows(1, 26)
async def test_detail_has_the_documented_defaults_and_zero_stays_zero(
    client: Client, type_: str, metadata: dict[str, Any], expected: dict[str, Any]
) -> None:
    row = await says(client, "create_memory", type=type_, content="Said so.", metadata=metadata)

    assert row["importance"] == 0
    assert {name: row["typeSpecificData"].get(name) for name in expected} == expected


@pytest.mark.shows(16)
async def test_reading_counts_and_leaves_importance_alone(client: Client) -> None:
    id_ = await created(client, "Water boils at 100 degrees.", importance=0.8)

    for _ in range(30):
        row = await says(client, "get_memory", memory_id=id_)

    assert row["accessCount"] == 30
    assert row["importance"] == 0.8
    assert row["type_specific_data"]["confidence"] == 0.8


@pytest.mark.parametrize("unknown", ["00000000-0000-7000-8000-000000000000", "invalid-id"])
@pytest.mark.shows(22)
async def test_of_what_is_not_there_null_or_nothing_is_told(client: Client, unknown: str) -> None:
    assert await says(client, "get_memory", memory_id=unknown) is None
    assert await says(client, "get_cluster_insights", cluster_id=unknown) is None
    for tool in ("get_memory_history", "get_memory_relationships", "find_related_memories"):
        assert await says(client, tool, memory_id=unknown) == []
    assert await says(client, "find_similar_clusters", cluster_id=unknown) == []


async def test_rows_have_the_columns_of_their_tables_null_where_nothing_is_known(client: Client, db: Database) -> None:
    id_ = await created(client, "Bees dance.", "episodic")
    similar, empty = [
        (await says(client, "create_memory_cluster", name=name, cluster_type="theme"))["id"] for name in ("One", "Two")
    ]
    vector = "(SELECT embedding FROM memory_vectors WHERE memory_id = %s LIMIT 1)"
    model = "(SELECT id FROM embedding_models WHERE state = 'active')"
    db.rows(f"UPDATE memory_clusters SET centroid = {vector}, model_id = {model}", [id_])

    read = await says(client, "get_memory", memory_id=id_)
    assert read["type_specific_data"] | {
        "memoryId": id_, "actionTaken": None, "context": None, "result": None, "verificationStatus": None,
    } == read["type_specific_data"]  # fmt: skip
    assert {"lastAccessed", "decayRate", "relevanceScore", "updatedAt"} <= read.keys()
    [found] = await says(client, "search_memories_text", query="bees")
    assert found.keys() == {
        "id", "type", "content", "importance", "accessCount", "createdAt", "relevanceScore", "textRank",
    }  # fmt: skip
    listed = (await says(client, "get_memory_clusters"))[0]
    assert (listed["importanceScore"], listed["lastActivated"], listed["description"]) == (0.5, None, None)
    [other] = await says(client, "find_similar_clusters", cluster_id=similar)
    assert (other["id"], other["cluster_type"], other["last_activated"], other["similarity"]) == (
        empty,
        "theme",
        None,
        1,
    )


@pytest.mark.shows(38)
async def test_who_the_assistant_is_and_what_it_believes_are_rows(client: Client, db: Database) -> None:
    async with connected(database_url=db.url, toolsets="identity") as usual:
        await call(usual, "record_identity", self_concept={"role": "helper"})
        details = {"activation_patterns": ["doubt"]}
        await call(usual, "record_belief", belief="People are kind.", stability=0.9, details=details)

    who = await says(client, "get_identity_core")
    assert (who["selfConcept"], who["agencyBeliefs"], who["coreMemoryClusters"]) == ({"role": "helper"}, None, None)
    [belief] = await says(client, "get_worldview")
    assert (belief["belief"], belief["stabilityScore"], belief["activationPatterns"]) == (
        "People are kind.",
        0.9,
        ["doubt"],
    )
    assert belief["preferredClusters"] is None


@pytest.mark.shows(17)
async def test_searching_by_meaning_takes_words_and_says_when_a_vector_is_of_another_model(client: Client) -> None:
    id_ = await created(client, "My dog is called Mochi.")

    [hit] = await says(client, "search_memories_similarity", query="a pet's name", threshold=0.0, limit=1)
    error = await refuses(client, "search_memories_similarity", embedding=FOREIGN_VECTOR)

    assert hit["id"] == id_
    assert 0 < hit["similarity"] < 1
    assert "query" in error["hint"]


@pytest.mark.shows(18)
async def test_searching_by_words_finds_what_a_question_means(client: Client) -> None:
    id_ = await created(client, "my dog is Mochi")

    assert [hit["id"] for hit in await says(client, "search_memories_text", query="What is the name of my dog?")] == [
        id_
    ]


@pytest.mark.parametrize("names", [("text_query", "memory_types", "importance_range", "date_range"),
                                   ("textQuery", "memoryTypes", "importanceRange", "dateRange")])  # fmt: skip
@pytest.mark.shows(20)
async def test_every_advanced_criterion_is_heeded_under_both_names(client: Client, names: tuple[str, ...]) -> None:
    wanted = await created(client, "Tea is brewed for four minutes.", "procedural", importance=0.6)
    await created(client, "Tea comes from China.", "semantic", importance=0.6)
    await created(client, "Tea is poured first.", "procedural", importance=0.1)
    text, types, importance, dates = names
    today = datetime.now(UTC).date()
    criteria = {text: "tea", types: ["procedural"], importance: [0.5, 1.0],
                dates: {"start": f"{today}T00:00:00Z", "end": f"{today}T23:59:59Z"}}  # fmt: skip

    assert [hit["id"] for hit in await says(client, "search_memories_advanced", criteria=criteria)] == [wanted]
    past = {**criteria, dates: {"end": "2020-01-01T00:00:00Z"}}
    assert await says(client, "search_memories_advanced", criteria=past) == []


@pytest.mark.shows(35)
async def test_a_history_is_told_newest_first(client: Client) -> None:
    one, other = await created(client, "One."), await created(client, "Other.")
    await says(client, "create_memory_relationship", from_memory_id=one, to_memory_id=other, relationship_type="causal")

    history = await says(client, "get_memory_history", memory_id=one)

    assert [change["changeType"] for change in history] == ["link", "create"]
    assert history[0].keys() == {"changeId", "memoryId", "changedAt", "changeType", "oldValue", "newValue"}
    assert {change["memoryId"] for change in history} == {one}


@pytest.mark.shows(30, 31)
async def test_relationships_keep_their_strength_and_are_seen_from_both_ends(client: Client) -> None:
    one, two, three = [await created(client, text) for text in ("Rain.", "Flood.", "Damage.")]
    made = await says(client, "create_memory_relationship", from_memory_id=one, to_memory_id=two,
                      relationship_type="causal", properties={"strength": 0.8, "note": "$q$"})  # fmt: skip
    plain = await says(
        client, "create_memory_relationship", from_memory_id=two, to_memory_id=three, relationship_type="temporal"
    )

    assert (made["strength"], made["properties"], plain["strength"]) == (0.8, {"note": "$q$"}, 0.5)
    [seen] = await says(client, "get_memory_relationships", memory_id=two, direction="incoming")
    assert (seen["relatedMemoryId"], seen["direction"], seen["relationshipType"]) == (one, "incoming", "causal")
    assert len(await says(client, "get_memory_relationships", memory_id=two)) == 2
    related = await says(client, "find_related_memories", memory_id=one)
    assert [(node["memory_id"], node["strength"]) for node in related] == [(two, 0.8), (three, 0.4)]
    assert [(node["relationship_type"], node["path"]) for node in related] == [
        ("causal", [one]),
        ("temporal", [one, two]),
    ]
    assert related[1] | {"content": "Damage.", "type": "semantic", "importance": 0, "depth": 2} == related[1]
    strong = await says(client, "find_related_memories", memory_id=one, min_strength=0.5)
    assert [node["memory_id"] for node in strong] == [two]
    assert (seen["id"], seen["createdAt"]) == (made["id"], made["createdAt"])


@pytest.mark.shows(32)
async def test_an_empty_cluster_is_like_nothing_and_activation_counts_once(client: Client) -> None:
    await created(client, "The garden has roses.")
    cluster = await says(client, "create_memory_cluster", name="Garden", cluster_type="theme", keywords=["plants"])
    await says(client, "create_memory_cluster", name="Empty", cluster_type="mixed")

    assert cluster["clusterType"] == "theme"
    assert await says(client, "find_similar_clusters", cluster_id=cluster["id"]) == []
    assert await says(client, "activate_cluster", cluster_id=cluster["id"], context="spring") == []
    listed = {one["name"]: one for one in await says(client, "get_memory_clusters")}
    assert (listed["Garden"]["activationCount"], listed["Empty"]["activationCount"]) == (1, 0)
    [theme] = await says(client, "get_active_themes")
    assert (theme["theme"], theme["recentActivations"], theme["keywords"]) == ("Garden", 1, ["plants"])
    insights = await says(client, "get_cluster_insights", cluster_id=cluster["id"])
    assert (insights["name"], insights["activationCount"], insights["totalMemories"]) == ("Garden", 1, 0)
    assert (insights["avgImportance"], insights["memoryTypes"]) == (None, [])


@pytest.mark.shows(32)
async def test_a_cluster_that_is_called_up_gives_its_memories_as_rows(client: Client, db: Database) -> None:
    cluster = await says(client, "create_memory_cluster", name="Garden", cluster_type="theme")
    id_ = await created(client, "Tulips need cold winters.")
    db.rows(
        """INSERT INTO memory_cluster_members (namespace_id, cluster_id, memory_id)
        SELECT namespace_id, %s, id FROM memories WHERE id = %s""",
        [cluster["id"], id_],
    )

    [memory] = await says(client, "activate_cluster", cluster_id=cluster["id"])

    assert (memory["id"], memory["status"], memory["content"]) == (id_, "active", "Tulips need cold winters.")
    shown = await says(client, "get_memory", memory_id=id_)
    lately = ("lastAccessed", "accessCount", "relevanceScore")
    assert memory == {name: shown.get(name) for name in memory} | {name: memory[name] for name in lately} | {
        "membershipStrength": 1
    }
    insights = await says(client, "get_cluster_insights", cluster_id=cluster["id"])
    assert (insights["totalMemories"], insights["avgMembershipStrength"], insights["memoryTypes"]) == (
        1,
        1,
        ["semantic"],
    )


@pytest.mark.shows(13, 33)
async def test_working_memory_is_held_consolidated_and_cleared(client: Client, db: Database) -> None:
    one = await says(client, "create_working_memory", content="The user likes tea.", context={"ttl": 60})
    two = await says(
        client, "create_working_memory", content="The user drinks it without sugar.", embedding=FOREIGN_VECTOR
    )
    over = await says(client, "create_working_memory", content="A thought.", context={"ttl": 1, "why": "to test"})
    db.rows("UPDATE memories SET expires_at = now() - interval '1 minute' WHERE id = %s", [over["id"]])

    assert over["id"] not in [held["id"] for held in await says(client, "get_working_memories")]
    assert next(held["id"] for held in await says(client, "get_working_memories", include_expired=True)) == over["id"]
    assert [gone["id"] for gone in await says(client, "cleanup_expired_working_memory")] == [over["id"]]
    made = await says(client, "consolidate_working_memory", working_memory_ids=[one["id"], two["id"]],
                      consolidated_content="The user likes tea without sugar.")  # fmt: skip
    assert (made["type"], made["importance"]) == ("semantic", 0.8)
    edges = await says(client, "get_memory_relationships", memory_id=made["id"], relationship_type="consolidation")
    assert {edge["relatedMemoryId"] for edge in edges} == {one["id"], two["id"]}
    assert await says(client, "get_working_memories") == []


@pytest.mark.shows(37, 38)
async def test_identity_worldview_and_health_answer_before_anything_is_recorded(client: Client) -> None:
    await created(client, "Water is wet.")

    assert await says(client, "get_identity_core") is None
    assert await says(client, "get_worldview") == []
    [health] = await says(client, "get_memory_health")
    assert health == {
        "type": "semantic", "totalMemories": 1, "avgImportance": 0.0, "avgAccessCount": 0.0, "accessedLastDay": 0, "avgRelevance": 0.0,
    }  # fmt: skip


@pytest.mark.shows(34)
async def test_archiving_and_pruning_act_after_a_preview(client: Client, db: Database) -> None:
    old = await created(client, "Long ago.", importance=0.05)
    kept = await created(client, "Long ago but important.", importance=0.9)
    db.rows("UPDATE memories SET created_at = now() - interval '1200 days', updated_at = now() - interval '1200 days'")

    preview = await says(client, "archive_old_memories")
    assert db.value("SELECT count(*) FROM memories WHERE status = 'active'") == 2
    archived = await says(client, "archive_old_memories", confirm_token=preview["confirm_token"])
    assert archived == [{"id": old, "content": "Long ago.", "type": "semantic"}]
    assert await says(client, "archive_old_memories") == []
    assert [row["id"] for row in await says(client, "search_memories_text", query="long ago")] == [kept]
    preview = await says(client, "prune_memories", criteria={"max_age": 0, "maxAccessCount": 2})
    assert await says(client, "prune_memories", confirm_token=preview["confirm_token"]) == archived
    assert await says(client, "get_memory", memory_id=old) is None


@pytest.mark.shows(15)
async def test_a_decay_rate_of_zero_never_fades_and_any_other_is_kept(client: Client) -> None:
    still = await says(client, "create_memory", type="semantic", content="Water is wet.", metadata={"decayRate": 0})
    slow = await says(client, "create_memory", type="semantic", content="Fire is hot.", metadata={"decayRate": 0.002})

    assert still["decayRate"] == 0
    assert slow["decayRate"] > 0
    assert slow["metadata"] == {"decayRate": 0.002}


async def test_an_error_names_tools_that_there_are(client: Client) -> None:
    id_ = await created(client, "Water is wet.")

    error = await refuses(
        client,
        "create_memory_relationship",
        from_memory_id=id_,
        to_memory_id="deadbeefdeadbeef",
        relationship_type="causal",
    )

    assert error["hint"] == "Use search_memories_text to find the right id."


async def test_arguments_may_be_left_out_altogether(client: Client) -> None:
    for tool in ("get_memory_clusters", "get_active_themes", "get_identity_core", "get_worldview", "get_memory_health",
                 "get_working_memories", "cleanup_expired_working_memory"):  # fmt: skip
        assert not (await client.call_tool(tool)).is_error
