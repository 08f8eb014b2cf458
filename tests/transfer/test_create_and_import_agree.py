"""What is created and what is imported with the same fields is the same row, and found by the same words."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from helpers import Database, examples
from pgengram.inputs import NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.transfer import import_from

SENTENCES = st.sampled_from(
    [
        "Mara: did you call in March?",
        "I moved to Oslo in 2021.",
        "烏龍茶 is std::vector",
        "Use v1.2.3, ſ and İ.",
        "x" * 300,
    ]
)
WORDS = st.sampled_from(["Mara", "garden", "C++", "茶", "Örebro"])
METADATA = st.dictionaries(st.sampled_from(["colour", "size", "place"]), WORDS | st.integers(-5, 5), max_size=3)
DETAIL: dict[str, dict[str, Any]] = {
    "episodic": {"result": "it worked", "event_time": "2024-05-06T07:08:09Z", "emotionalValence": 0.5},
    "semantic": {"category": ["house", "roof"], "confidence": 0.4, "last_validated": "2024-01-01T00:00:00Z"},
    "procedural": {"steps": ["open it", "close it"], "total_attempts": 3, "success_count": 1},
    "strategic": {"pattern_description": "He asks twice.", "confidence_score": 0.7},
}
FIELDS = st.fixed_dictionaries(
    {"content": st.lists(SENTENCES, min_size=1, max_size=3).map(" ".join), "type": st.sampled_from([*DETAIL])},
    optional={
        "speaker": WORDS, "user": WORDS, "project": WORDS, "collection": WORDS, "session_id": WORDS, "metadata": METADATA,
        "tags": st.lists(st.sampled_from(["roof", "garden", "tea"]), unique=True, max_size=3),
        "importance": st.sampled_from([0, 0.25, 1]), "confidence": st.sampled_from([0, 0.5]),
        "occurred_at": st.just("2023-02-03T04:05:06Z"), "pinned": st.booleans(), "source": WORDS,
    },
)  # fmt: skip
BASE = """
SELECT type, kind, status, content, content_hash, metadata, speaker, "user", project, collection, speaker_key, turn_features, confidence,
  pinned, source, occurred_at, occurred_at IS NULL OR valid_from = occurred_at AS valid_from, version, sources, emotion
FROM memories
"""
OTHERS = (
    "SELECT importance, rate_per_day, access_count FROM memory_activation",
    "SELECT tag, position FROM memory_tags ORDER BY position",
    "SELECT terms, counts, length FROM memory_words",
    "SELECT action_taken, context, result, emotional_valence, verification_status FROM episodic_memories",
    "SELECT to_jsonb(t) - 'namespace_id' - 'memory_id' AS row FROM semantic_memories t",
    "SELECT to_jsonb(t) - 'namespace_id' - 'memory_id' AS row FROM procedural_memories t",
    "SELECT to_jsonb(t) - 'namespace_id' - 'memory_id' AS row FROM strategic_memories t",
)


async def test_create_and_import_give_the_same_row(manager: MemoryManager, database: Database, tmp_path: Path) -> None:
    loop, lines = asyncio.get_running_loop(), tmp_path / "one.jsonl"
    database.keep()

    def rows() -> list[Any]:
        found = [database.rows(statement) for statement in (BASE, *OTHERS)]
        database.as_login("DELETE FROM memories", "DELETE FROM memory_history")
        return found

    async def imported(fields: dict[str, Any]) -> None:
        lines.write_text(json.dumps(fields))
        answer = await import_from(manager, "jsonl", str(lines), dry_run=False, report=lambda *_: None)
        assert answer.left == []

    @effort(max_examples=examples(10))
    @given(fields=FIELDS, detailed=st.booleans())
    def law(fields: dict[str, Any], detailed: bool) -> None:
        if detailed:
            fields |= {"metadata": {**fields.get("metadata", {}), **DETAIL[fields["type"]]}}
        asyncio.run_coroutine_threadsafe(manager.create_memory(NewMemory(**fields)), loop).result()
        created = rows()
        asyncio.run_coroutine_threadsafe(imported(fields), loop).result()
        assert rows() == created

    await asyncio.to_thread(law)
