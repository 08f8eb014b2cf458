"""The stores of other systems, built here as those systems build them, brought in by the command."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from helpers import Database, connected, in_database, said
from machine import answered
from pgengram.transfer.importers import recognised
from pgengram.transfer.input.sources import Source

WORDS = {"embedder": "none:"}
SEPTEMBER = datetime(2025, 9, 1, 8, 30, tzinfo=UTC)


def brought_in(db: Database, system: str, source: Path | str, *, expect: int = 0) -> dict[str, Any]:
    """Import, see that doing it again adds nothing, and return what the first time told."""
    first = answered("import", "--from", system, str(source), "--json", expect=expect, database_url=db.url, **WORDS)
    again = answered("import", "--from", system, str(source), "--json", expect=expect, database_url=db.url, **WORDS)
    assert sum(again["added"].values()) == 0
    assert again["known"] == first["added"]
    return dict(first)


def memories(db: Database) -> list[dict[str, Any]]:
    rows = db.rows(
        """SELECT m.*, a.importance, a.access_count, a.last_accessed_at, a.started_at,
             ARRAY(SELECT tag FROM memory_tags t WHERE t.memory_id = m.id ORDER BY position) AS tags
           FROM memories m JOIN memory_activation a ON a.memory_id = m.id ORDER BY m.id"""
    )
    return [{**row, "at": row["created_at"].astimezone(UTC)} for row in rows]


def edges(db: Database) -> list[tuple[str, str, str, float]]:
    rows = db.rows(
        """SELECT a.content AS one, r.type, b.content AS other, r.strength FROM memory_relationships r
           JOIN memories a ON a.id = r.from_id JOIN memories b ON b.id = r.to_id ORDER BY a.content, b.content"""
    )
    return [(row["one"], row["type"], row["other"], row["strength"]) for row in rows]


def database_file(path: Path, schema: str, **tables: Sequence[dict[str, Any]]) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(schema)
        for table, rows in tables.items():
            for row in rows:
                marks = ", ".join(f":{name}" for name in row)
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", row)
    return path


def test_session_continuity_keeps_kinds_projects_relations_and_times(database: Database, tmp_path: Path) -> None:
    schema = """
    CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL, memory_type TEXT NOT NULL DEFAULT 'observation',
      tags TEXT, project TEXT, importance INTEGER DEFAULT 5, created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
      accessed_at DATETIME DEFAULT CURRENT_TIMESTAMP, access_count INTEGER DEFAULT 0, metadata TEXT);
    CREATE TABLE memory_relations (id INTEGER PRIMARY KEY AUTOINCREMENT, source_id INTEGER NOT NULL, target_id INTEGER NOT NULL,
      relation_type TEXT NOT NULL, strength REAL DEFAULT 1.0, created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE user_directives (id INTEGER PRIMARY KEY, project TEXT NOT NULL, directive TEXT NOT NULL, context TEXT, source TEXT,
      priority TEXT DEFAULT 'normal', created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
    CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT);
    """
    file = database_file(
        tmp_path / "sessions.db", schema,
        memories=[
            {"content": "We chose Vitest.", "memory_type": "decision", "tags": '["Test Runner", "js"]', "project": "web", "importance": 9,
             "created_at": "2025-09-01 08:30:00", "access_count": 7, "metadata": '{"why": "speed"}'},
            {"content": "The build failed on Node 18.", "memory_type": "error", "tags": "build,node", "importance": 1},
            {"content": "Somebody saw a new logo.", "memory_type": "rumour"},
        ],
        memory_relations=[
            {"source_id": 1, "target_id": 2, "relation_type": "solves", "strength": 0.5},
            {"source_id": 1, "target_id": 99, "relation_type": "solves"},
        ],
        tasks=[{"title": "Write more tests"}],
        user_directives=[{"project": "web", "directive": "Always run the linter.", "priority": "high"}],
    )  # fmt: skip

    answer = brought_in(database, "session-continuity", file, expect=1)

    assert answer["added"] == {"memory": 4, "relationship": 1}
    assert [one["place"] for one in answer["left"]] == ["memory_relations 2", "table tasks"]
    directive, other, second, first = sorted(memories(database), key=lambda row: row["content"])
    assert (directive["kind"], directive["project"], directive["tags"]) == ("preference", "web", ["directive"])
    assert (directive["importance"], other["kind"], other["metadata"]["memory_type"]) == (0.9, None, "rumour")
    assert (first["kind"], first["type"], first["project"], first["importance"], first["access_count"]) == (
        "decision",
        "strategic",
        "web",
        0.9,
        7,
    )
    assert (first["at"], first["started_at"]) == (SEPTEMBER, SEPTEMBER)
    assert first["tags"] == ["test-runner", "js"]
    assert first["metadata"] == {"why": "speed", "imported": {"from": "session-continuity", "id": 1}}
    assert (second["kind"], second["type"], second["importance"], second["tags"]) == (
        "error",
        "episodic",
        0.1,
        ["build", "node"],
    )
    assert edges(database) == [("We chose Vitest.", "solves", "The build failed on Node 18.", 0.5)]


def test_crow_keeps_category_context_and_source(database: Database, tmp_path: Path) -> None:
    schema = """CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, category TEXT NOT NULL DEFAULT 'general', content TEXT NOT NULL,
      context TEXT, tags TEXT, source TEXT, importance INTEGER DEFAULT 5, created_at TEXT DEFAULT (datetime('now')),
      updated_at TEXT DEFAULT (datetime('now')), accessed_at TEXT DEFAULT (datetime('now')), access_count INTEGER DEFAULT 0);"""
    file = database_file(tmp_path / "crow.db", schema, memories=[
        {"category": "person", "content": "Ada runs the bakery.", "context": "said at lunch", "tags": "Ada, bakery", "source": "chat",
         "importance": 10, "created_at": "2025-09-01 08:30:00", "updated_at": "2025-09-02 08:30:00"},
        {"category": "recipes", "content": "Bread needs salt."},
    ])  # fmt: skip

    assert brought_in(database, "crow", file)["added"] == {"memory": 2}

    first, second = memories(database)
    assert (first["kind"], first["source"], first["importance"], first["tags"]) == (
        "person",
        "chat",
        1.0,
        ["ada", "bakery"],
    )
    assert (first["at"], first["updated_at"].day) == (SEPTEMBER, 2)
    assert first["metadata"]["context"] == "said at lunch"
    assert second["kind"] is None
    assert database.value("SELECT collection FROM memories WHERE id = %s", [second["id"]]) == "recipes"


def test_ownsona_keeps_what_was_deleted_forgotten(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(json.dumps({"ok": True, "count": 3, "memories": [
        {"id": 1, "text": "My son lives in Boston.", "score": 0.0, "created_at": "2025-09-01T08:30:00Z", "updated_at": "2025-09-01T08:30:00Z",
         "tags": ["family"], "deleted_at": "2025-10-01T00:00:00Z", "forget_reason": "He moved.", "replaced_by_id": 2},
        {"id": 2, "text": "My son lives in Los Angeles.", "created_at": "2025-10-01T00:00:00Z", "updated_at": "2025-10-01T00:00:00Z",
         "tags": ["Relatives"], "capture_mode": "explicit", "session_id": "c-1", "source_provider": "claude", "importance": 0.0,
         "expires_at": "2030-01-01T00:00:00Z", "last_confirmed_at": "2025-11-01T00:00:00Z"},
        {"id": 3},
    ]}))  # fmt: skip

    answer = brought_in(database, "ownsona", file, expect=1)

    assert answer["added"] == {"memory": 2}
    assert answer["left"] == [{"place": "memories[2]", "reason": "it is not a memory with a text"}]
    old, new = memories(database)
    assert (old["status"], old["reason"], old["replaced_by"], old["valid_to"].month) == (
        "invalidated",
        "He moved.",
        [new["id"]],
        10,
    )
    assert (new["status"], new["importance"], new["capture_mode"], new["session_id"]) == (
        "active",
        0.0,
        "explicit",
        "c-1",
    )
    assert (new["source_provider"], new["tags"], new["last_confirmed_at"].month) == ("claude", ["family"], 11)


SKYNET = {
    "ids": ["mem_1", "mem_2", "mem_3"],
    "documents": ["User prefers concise responses.", "Asks about authentication on Mondays.", None],
    "metadatas": [
        {"type": "preference", "user": "alice", "importance": 0.9, "confidence": 0.95, "tags": "communication,style", "timestamp": 1756715400000},
        {"type": "pattern", "user": "alice", "importance": 0, "emotion": "curiosity", "timestamp": "2025-09-01T08:30:00.000Z", "mood": 3},
        {},
    ],
}  # fmt: skip


def chroma(path: Path) -> Path:
    schema = """
    CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT NOT NULL);
    CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT, scope TEXT, collection TEXT);
    CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT, embedding_id TEXT, seq_id BLOB, created_at TIMESTAMP);
    CREATE TABLE embedding_metadata (id INTEGER, key TEXT, string_value TEXT, int_value INTEGER, float_value REAL, bool_value INTEGER);
    """
    answer: list[dict[str, Any]] = []
    for number, (document, metadata) in enumerate(zip(SKYNET["documents"], SKYNET["metadatas"], strict=True), 1):
        pairs = {**metadata, "chroma:document": document}  # type: ignore[dict-item]
        for key, value in pairs.items():
            sort = {str: "string_value", int: "int_value", float: "float_value"}.get(type(value))
            if sort:
                answer.append({"id": number, "key": key, sort: value})
    return database_file(
        path, schema, collections=[{"id": "c", "name": "skynet_memories"}], segments=[{"id": "s", "collection": "c"}],
        embeddings=[{"id": number, "segment_id": "s", "embedding_id": id_} for number, id_ in enumerate(SKYNET["ids"], 1)],
        embedding_metadata=answer,
    )  # fmt: skip


async def test_skynet_memories_of_no_named_collection_are_where_its_tools_look(
    database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "chroma.json"
    file.write_text(json.dumps({"ids": ["mem_1"], "documents": ["Tea is brewed for four minutes."]}))

    brought_in(database, "skynet", file)

    async with connected(database_url=database.url, compat="skynet", **WORDS) as client:
        assert json.loads(said(await client.call_tool("memory_search", {"query": "tea"})))["count"] == 1


@pytest.mark.parametrize("of", ["json", "sqlite"])
def test_skynet_is_read_from_what_chroma_gives_and_from_its_file(database: Database, tmp_path: Path, of: str) -> None:
    if of == "sqlite":
        file = chroma(tmp_path / "chroma.sqlite3")
    else:
        file = tmp_path / "chroma.json"
        file.write_text(json.dumps(SKYNET | {"name": "skynet_memories"}))

    answer = brought_in(database, "skynet", file, expect=1)

    assert answer["added"] == {"memory": 2}
    assert answer["left"] == [{"place": "id mem_3", "reason": "it has no document"}]
    one, other = sorted(memories(database), key=lambda row: -row["importance"])
    assert (one["kind"], one["user"], one["importance"], one["confidence"]) == ("preference", "alice", 0.9, 0.95)
    assert (one["tags"], one["at"], one["collection"]) == (["communication", "style"], SEPTEMBER, "skynet_memories")
    assert (other["type"], other["importance"], other["emotion"], other["metadata"]["mood"]) == (
        "strategic",
        0,
        "curiosity",
        3,
    )
    assert other["at"] == SEPTEMBER


def test_the_knowledge_graph_of_mcp_memory_becomes_memories_and_edges(database: Database, tmp_path: Path) -> None:
    lines = [
        {"type": "relation", "from": "Ada", "to": "Corner Bakery", "relationType": "runs daily"},
        {
            "type": "entity",
            "name": "Ada",
            "entityType": "person",
            "observations": ["bakes rye bread", "is up at four", ""],
        },
        {"type": "entity", "name": "Corner Bakery", "entityType": "Shop", "observations": []},
        {"type": "relation", "from": "Ada", "to": "Nobody", "relationType": "knows"},
    ]
    file = tmp_path / "memory.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines))

    dry = answered(
        "import", "--from", "mcp-memory", str(file), "--dry-run", "--json", expect=1, database_url=database.url, **WORDS
    )
    assert memories(database) == []
    answer = brought_in(database, "mcp-memory", file, expect=1)
    assert dry == {**answer, "dry_run": True}

    assert answer["added"] == {"memory": 4, "relationship": 3}
    assert [one["place"] for one in answer["left"]] == ["line 2, observation 3", "line 4"]
    assert {row["content"] for row in memories(database)} == {
        "Ada (person)", "Ada: bakes rye bread", "Ada: is up at four", "Corner Bakery (Shop)",
    }  # fmt: skip
    assert {row["kind"] for row in memories(database)} == {"person", None}
    assert ("Ada (person)", "runs_daily", "Corner Bakery (Shop)", 1.0) in edges(database)
    assert ("Ada: is up at four", "about", "Ada (person)", 1.0) in edges(database)


def test_the_graph_that_mcp_memory_answers_is_recognised_without_types(database: Database, tmp_path: Path) -> None:
    ada = {"name": "Ada", "entityType": "person", "observations": ["bakes rye bread"]}
    file = tmp_path / "graph.json"
    for graph in ({"relations": [], "entities": [ada]}, {"entities": [ada], "relations": []}):
        file.write_text(json.dumps(graph))
        assert recognised(Source(file)) == "mcp-memory"
    brought_in(database, "", file)
    assert {row["content"] for row in memories(database)} == {"Ada (person)", "Ada: bakes rye bread"}


SERVICE = """
CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, content_hash TEXT UNIQUE NOT NULL, content TEXT NOT NULL, tags TEXT,
  memory_type TEXT, metadata TEXT, created_at REAL, updated_at REAL, created_at_iso TEXT, updated_at_iso TEXT, deleted_at REAL DEFAULT NULL);
CREATE TABLE memory_graph (source_hash TEXT NOT NULL, target_hash TEXT NOT NULL, similarity REAL NOT NULL, connection_types TEXT NOT NULL,
  metadata TEXT, created_at REAL NOT NULL, relationship_type TEXT DEFAULT 'related', PRIMARY KEY (source_hash, target_hash));
"""


def test_mcp_memory_service_is_read_from_its_database(database: Database, tmp_path: Path) -> None:
    file = database_file(
        tmp_path / "sqlite_vec.db", SERVICE,
        memories=[
            {"content_hash": "a", "content": "Deploys happen on Tuesdays.", "tags": "ops,Deploy", "memory_type": "decision",
             "metadata": '{"author": "Ada"}', "created_at": SEPTEMBER.timestamp(), "updated_at": SEPTEMBER.timestamp() + 60},
            {"content_hash": "b", "content": "The canary waits an hour.", "tags": "", "memory_type": "note", "created_at": 1756715401.5},
            {"content_hash": "c", "content": "An old habit.", "created_at": 1756715402.0, "deleted_at": 1756715500.0},
        ],
        memory_graph=[
            {"source_hash": "a", "target_hash": "b", "similarity": 0.62, "connection_types": '["semantic"]', "created_at": 1756715403.0},
        ],
    )  # fmt: skip

    assert brought_in(database, "mcp-memory-service", file)["added"] == {"memory": 3, "relationship": 1}

    first, second, third = memories(database)
    assert (first["kind"], first["tags"], first["metadata"]["author"], first["at"]) == (
        "decision",
        ["ops", "deploy"],
        "Ada",
        SEPTEMBER,
    )
    assert (second["kind"], second["metadata"]["memory_type"], third["status"]) == (None, "note", "invalidated")
    assert edges(database) == [("Deploys happen on Tuesdays.", "related", "The canary waits an hour.", 0.62)]


def test_what_mcp_memory_service_superseded_stays_so_and_leads_to_what_holds(
    database: Database, tmp_path: Path
) -> None:
    evolved = """ALTER TABLE memories ADD COLUMN parent_id TEXT; ALTER TABLE memories ADD COLUMN version INTEGER DEFAULT 1;
    ALTER TABLE memories ADD COLUMN confidence REAL DEFAULT 1.0; ALTER TABLE memories ADD COLUMN last_accessed INTEGER;
    ALTER TABLE memories ADD COLUMN superseded_by TEXT;"""
    stamp = SEPTEMBER.timestamp()
    file = database_file(
        tmp_path / "sqlite_vec.db", SERVICE + evolved,
        memories=[
            {"content_hash": "a", "content": "Deploys happen on Mondays.", "created_at": stamp, "updated_at": stamp + 60,
             "superseded_by": "b"},
            {"content_hash": "b", "content": "Deploys happen on Tuesdays.", "created_at": stamp + 60, "parent_id": "a", "version": 2,
             "confidence": 0.6, "last_accessed": int(stamp) + 90},
        ],
    )  # fmt: skip

    assert brought_in(database, "mcp-memory-service", file)["added"] == {"memory": 2, "relationship": 1}

    old, new = memories(database)
    assert (old["status"], old["replaced_by"], new["status"]) == ("invalidated", [new["id"]], "active")
    assert (new["confidence"], new["metadata"]["version"], int(new["last_accessed_at"].timestamp() - stamp)) == (
        0.6,
        2,
        90,
    )
    assert edges(database) == [("Deploys happen on Tuesdays.", "revises", "Deploys happen on Mondays.", 1.0)]


def test_mcp_memory_service_is_read_from_its_export(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "backup.json"
    row = {"content": "Deploys happen on Tuesdays.", "content_hash": "a", "tags": ["ops"], "created_at": SEPTEMBER.timestamp(),
           "updated_at": None, "memory_type": None, "metadata": {}, "store": "work"}  # fmt: skip
    file.write_text(json.dumps({"export_metadata": {"total_memories": 1}, "memories": [row]}))

    assert brought_in(database, "mcp-memory-service", file)["added"] == {"memory": 1}

    [memory] = memories(database)
    assert (memory["tags"], memory["collection"], memory["at"]) == (["ops"], "work", SEPTEMBER)


AGI = """
CREATE TYPE memory_type AS ENUM ('episodic', 'semantic', 'procedural', 'strategic');
CREATE TABLE memories (id uuid PRIMARY KEY, created_at timestamptz, updated_at timestamptz, type memory_type, status text, content text,
  embedding float[], importance float, access_count integer, last_accessed timestamptz, decay_rate float, relevance_score float);
CREATE TABLE episodic_memories (memory_id uuid, action_taken jsonb, context jsonb, result jsonb, emotional_valence float,
  event_time timestamptz, verification_status boolean);
CREATE TABLE semantic_memories (memory_id uuid, confidence float, last_validated timestamptz, source_references jsonb,
  contradictions jsonb, category text[], related_concepts text[]);
CREATE TABLE procedural_memories (memory_id uuid, steps jsonb, prerequisites jsonb, success_count integer, total_attempts integer,
  success_rate float, average_duration interval, failure_points jsonb);
CREATE TABLE strategic_memories (memory_id uuid, pattern_description text, supporting_evidence jsonb, confidence_score float,
  success_metrics jsonb, adaptation_history jsonb, context_applicability jsonb);
CREATE TABLE memory_clusters (id uuid, created_at timestamptz, updated_at timestamptz, cluster_type text, name text, description text,
  centroid_embedding float[], emotional_signature jsonb, keywords text[], importance_score float, last_activated timestamptz, activation_count integer);
CREATE TABLE memory_cluster_members (cluster_id uuid, memory_id uuid, membership_strength float, added_at timestamptz);
CREATE TABLE memory_relationships (from_memory_id uuid, to_memory_id uuid, relationship_type text, strength float, properties jsonb, created_at timestamptz);
CREATE TABLE working_memory (id uuid, content text);
CREATE TABLE worldview_primitives (id uuid, category text, belief text, confidence float, emotional_valence float, stability_score float,
  connected_beliefs uuid[], activation_patterns jsonb, memory_filter_rules jsonb, influence_patterns jsonb, preferred_clusters uuid[]);
CREATE TABLE worldview_memory_influences (id uuid, worldview_id uuid, memory_id uuid, influence_type text, strength float, created_at timestamptz);
CREATE TABLE identity_model (id uuid, self_concept jsonb, agency_beliefs jsonb, purpose_framework jsonb, group_identifications jsonb,
  boundary_definitions jsonb, emotional_baseline jsonb, threat_sensitivity float, change_resistance float, core_memory_clusters uuid[]);
INSERT INTO memories SELECT ('00000000-0000-4000-8000-00000000000' || n)::uuid, '2025-09-01 08:30+00', '2025-09-02 08:30+00', t::memory_type, s,
  c, '{0.1,0.2}', i, n, '2025-09-03 08:30+00', 0.01, 0.5
  FROM (VALUES (1, 'episodic', 'active', E'The build\\tbroke.\\nTwice \\\\ over.', 786.3), (2, 'semantic', 'active', 'Ada bakes.', 0.4),
               (3, 'procedural', 'archived', 'How to bake.', 0.0), (4, 'strategic', 'invalidated', 'Bake early.', 0.7)) AS v(n, t, s, c, i);
INSERT INTO episodic_memories VALUES ('00000000-0000-4000-8000-000000000001', '{"did": "rolled back"}', NULL, '"fine"', -0.5, '2025-08-31 10:00+00', false);
INSERT INTO semantic_memories VALUES ('00000000-0000-4000-8000-000000000002', 0, NULL, NULL, NULL, '{food,"corner shop"}', '{}');
INSERT INTO procedural_memories VALUES ('00000000-0000-4000-8000-000000000003', '["knead", "wait"]', '{}', 2, 3, 0.66, '01:30:00', NULL);
INSERT INTO strategic_memories VALUES ('00000000-0000-4000-8000-000000000004', 'Bake early.', NULL, 0.6, '{"bread": 3}', NULL, NULL);
INSERT INTO memory_clusters VALUES ('00000000-0000-4000-8000-0000000000aa', '2025-09-01 08:30+00', '2025-09-01 08:30+00', 'theme', 'Bread', NULL, '{0,0}', NULL,
  '{flour,"rye bread"}', 0.0, NULL, 4);
INSERT INTO memory_cluster_members VALUES ('00000000-0000-4000-8000-0000000000aa', '00000000-0000-4000-8000-000000000002', 0.8, '2025-09-01 08:30+00');
INSERT INTO memory_relationships VALUES ('00000000-0000-4000-8000-000000000002', '00000000-0000-4000-8000-000000000003', 'causal', 0.5, '{"why": 1}', '2025-09-01 08:30+00');
INSERT INTO worldview_primitives VALUES ('00000000-0000-4000-8000-0000000000cc', 'People', 'People are kind.', 0.9, -0.25, 1.5, NULL,
  '["doubt"]', NULL, NULL, '{00000000-0000-4000-8000-0000000000aa}');
INSERT INTO worldview_memory_influences VALUES ('00000000-0000-4000-8000-0000000000dd', '00000000-0000-4000-8000-0000000000cc',
  '00000000-0000-4000-8000-000000000002', 'shown', 0.7, '2025-09-01 08:30+00');
INSERT INTO identity_model VALUES ('00000000-0000-4000-8000-0000000000ee', '{"role": "helper"}', NULL, NULL, NULL, NULL, NULL, 0.2, NULL, NULL);
INSERT INTO working_memory VALUES ('00000000-0000-4000-8000-0000000000bb', 'held');
"""
AGI_TABLES = (
    "memories", "episodic_memories", "semantic_memories", "procedural_memories", "strategic_memories", "memory_clusters",
    "memory_cluster_members", "memory_relationships", "working_memory", "worldview_primitives",
    "worldview_memory_influences", "identity_model",
)  # fmt: skip


def agi_source(of: str, url: str, folder: Path) -> str:
    """The same store as a URL, as pg_dump writes it, and as JSON with the names that its tools answer."""
    if of == "url":
        return url
    with psycopg.connect(url) as connection:
        if of == "json":
            tables = {
                name: [row for (row,) in connection.execute(f"SELECT to_jsonb(t) FROM {name} t")] for name in AGI_TABLES
            }
            for row in tables["memories"]:
                row["accessCount"], row["lastAccessed"] = row.pop("access_count"), row.pop("last_accessed")
            text = json.dumps(tables)
        else:
            pieces = ["-- PostgreSQL database dump"]
            for name in AGI_TABLES:
                with connection.cursor() as cursor:
                    cursor.execute(f"SELECT * FROM {name} LIMIT 0")
                    columns = ", ".join(column.name for column in cursor.description or [])
                    with cursor.copy(f"COPY {name} ({columns}) TO STDOUT") as copy:
                        rows = b"".join(bytes(piece) for piece in copy).decode()
                pieces.append(f"COPY public.{name} ({columns}) FROM stdin;\n{rows}\\.\n")
            text = "\n\n".join(pieces)
    file = folder / f"agi.{of}"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize("of", ["url", "sql", "json"])
def test_agi_memory_keeps_types_details_clusters_and_edges(
    database: Database, blank: Database, tmp_path: Path, of: str
) -> None:
    blank.as_login(AGI)

    answer = brought_in(database, "agi", agi_source(of, blank.url, tmp_path), expect=1)

    links = {"relationship": 1, "cluster": 1, "cluster_member": 1}
    assert answer["added"] == {"memory": 4, **links, "belief": 1, "evidence": 1, "identity": 1}
    assert answer["left"] == [{"place": "table working_memory", "reason": "1 rows that are not memories"}]
    by_type = {row["type"]: row for row in memories(database)}
    assert by_type["episodic"]["content"] == "The build\tbroke.\nTwice \\ over."
    assert (by_type["episodic"]["importance"], by_type["episodic"]["access_count"]) == (1.0, 1)
    assert (by_type["semantic"]["confidence"], by_type["strategic"]["confidence"]) == (0.0, 0.6)
    assert (by_type["procedural"]["status"], by_type["strategic"]["status"]) == ("archived", "invalidated")
    assert {row["at"] for row in by_type.values()} == {SEPTEMBER}
    [event] = database.rows("SELECT * FROM episodic_memories")
    assert (event["action_taken"], event["result"], event["verification_status"]) == (
        {"did": "rolled back"},
        "fine",
        False,
    )
    assert (event["emotional_valence"], event["event_time"].day) == (-0.5, 31)
    assert database.value("SELECT category FROM semantic_memories") == ["food", "corner shop"]
    [way] = database.rows("SELECT * FROM procedural_memories")
    assert (way["steps"], way["success_count"], way["average_duration"].seconds) == (["knead", "wait"], 2, 5_400)
    assert database.value("SELECT success_metrics FROM strategic_memories") == {"bread": 3}
    [cluster] = database.rows("SELECT * FROM memory_clusters")
    assert (cluster["name"], cluster["keywords"], cluster["activation_count"]) == ("Bread", ["flour", "rye bread"], 4)
    assert database.value("SELECT strength FROM memory_cluster_members") == 0.8
    assert edges(database) == [("Ada bakes.", "causal", "How to bake.", 0.5)]
    [belief] = database.rows("SELECT * FROM memory_beliefs")
    assert (belief["category"], belief["belief"], belief["confidence"]) == ("people", "People are kind.", 0.9)
    assert (belief["stability"], belief["emotional_valence"]) == (1, -0.25)
    kept = {"activation_patterns": ["doubt"], "preferred_clusters": ["00000000-0000-4000-8000-0000000000aa"]}
    assert belief["details"] == kept
    [evidence] = database.rows("SELECT * FROM memory_belief_evidence")
    assert (evidence["memory_id"], evidence["supports"]) == (by_type["semantic"]["id"], True)
    [identity] = database.rows("SELECT * FROM memory_identities")
    assert (identity["self_concept"], identity["threat_sensitivity"]) == ({"role": "helper"}, 0.2)


def test_a_database_that_cannot_be_read_is_told_without_its_password(database: Database) -> None:
    nowhere = in_database("postgresql://ada:open-sesame@127.0.0.1:1/x", "nothing")

    ended = told_wrong(database, "agi", nowhere)

    assert "cannot be read" in ended
    assert "open-sesame" not in ended


@pytest.mark.parametrize("system", ["session-continuity", "crow", "skynet", "ownsona", "mcp-memory-service", "agi"])
def test_a_file_of_something_else_is_refused(database: Database, tmp_path: Path, system: str) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear Ada, ...")

    assert "INVALID_INPUT" in told_wrong(database, system, str(file))


def told_wrong(db: Database, system: str, source: str) -> str:
    from machine import pgengram

    return pgengram("import", "--from", system, source, expect=2, database_url=db.url, **WORDS).stderr


def test_a_bad_row_spares_the_others(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    rows = [
        {"id": 1, "text": "Good.", "created_at": "soon", "importance": 0.5},
        {"id": 2, "text": "Bad.", "importance": "very"},
        {"id": 3, "text": "x" * 16_001},
        {"id": 4, "text": "Bad too.", "capture_mode": "guessed"},
        {"id": 5, "text": 7},
    ]
    file.write_text(json.dumps({"memories": rows}))

    answer = brought_in(database, "ownsona", file, expect=1)

    assert answer["added"] == {"memory": 1}
    assert [one["place"] for one in answer["left"]] == [f"memories[{number}]" for number in (1, 2, 3, 4)]


def test_mem0s_expiry_is_the_end_of_its_day_and_the_assistants_rows_have_it_as_their_speaker(
    database: Database, tmp_path: Path
) -> None:
    rows = [
        {"id": "1", "memory": "Parking code 4711.", "user_id": "ada", "hash": "h", "expiration_date": "2026-01-31", "created_at": "2026-01-01T10:00:00Z"},
        {"id": "2", "memory": "The pass holds.", "user_id": "ada", "metadata": {"expiration_date": "2099-12-30"}},
        {"id": "3", "memory": "Try the slow train.", "user_id": "ada", "role": "assistant", "expiration_date": "9999-12-31"},
        {"id": "4", "memory": "Ask Ben.", "user_id": "ada", "role": "user", "actor_id": "Ben", "expiration_date": "someday"},
        {"id": "5", "memory": "Old.", "user_id": "ada", "state": "deleted", "deleted_at": "2026-02-01T10:00:00Z"},
    ]  # fmt: skip
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps({"results": rows}))

    brought_in(database, "mem0", path)

    found = {row["content"]: row for row in memories(database)}
    ends = {text: row["expires_at"] and row["expires_at"].astimezone(UTC).isoformat() for text, row in found.items()}
    assert ends == {
        "Parking code 4711.": "2026-02-01T00:00:00+00:00", "The pass holds.": "2099-12-31T00:00:00+00:00",
        "Try the slow train.": None, "Ask Ben.": None, "Old.": None,
    }  # fmt: skip
    assert found["Ask Ben."]["metadata"]["expiration_date"] == "someday"
    assert [found[text]["speaker"] for text in ("Parking code 4711.", "Try the slow train.", "Ask Ben.")] == [
        None,
        "assistant",
        "Ben",
    ]
    assert found["Old."]["status"] == "invalidated"
    shown = answered("call", "search_memories", "query=parking code", database_url=database.url, **WORDS)["results"]
    assert not any("4711" in one["content"] for one in shown)


@pytest.mark.parametrize("system", ["mcp-memory-service", "mcp-memory"])
def test_what_another_system_says_of_expiry_holds_here_too(database: Database, tmp_path: Path, system: str) -> None:
    path = tmp_path / "export.json"
    row = {"content": "Parking code 4711.", "content_hash": "h", "metadata": {"expires_at": "2026-01-31"}}
    entity = {"name": "Ada", "entityType": "guest", "observations": ["parks at 4711"], "expiresAt": "2026-01-31"}
    kinds = {"mcp-memory-service": {"memories": [row]}, "mcp-memory": {"entities": [entity], "relations": []}}
    path.write_text(json.dumps(kinds[system]))

    brought_in(database, system, path)

    assert {row["expires_at"] for row in memories(database)} == {datetime(2026, 2, 1, tzinfo=UTC)}


def test_what_is_deleted_in_another_system_later_is_forgotten_by_the_next_import(
    database: Database, tmp_path: Path
) -> None:
    rows = [
        {"content": f"Fact {number}.", "content_hash": f"h{number}", "tags": ["untagged"] if number else ["oak", "untagged"],
         "created_at": 1_714_557_600.0, "updated_at": 1_714_557_600.0}
        for number in range(2)
    ]  # fmt: skip
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"memories": rows}))
    brought_in(database, "mcp-memory-service", path)
    assert {row["content"]: row["tags"] for row in memories(database)} == {"Fact 0.": ["oak"], "Fact 1.": []}

    rows[0]["deleted_at"] = 1_724_557_600.0
    path.write_text(json.dumps({"memories": rows}))
    told = answered("import", "--from", "mcp-memory-service", str(path), "--json", database_url=database.url, **WORDS)

    assert told["updated"] == {"memory": 1}
    assert {row["content"]: row["status"] for row in memories(database)} == {
        "Fact 0.": "invalidated",
        "Fact 1.": "active",
    }
