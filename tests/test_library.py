"""Memories for Python programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers import PATIENCE_S, Database, environment
from pgengram import Memory
from pgengram.errors import InvalidInput, NotFound, SecretRejected
from pgengram.settings import Settings

EXAMPLE = Path(__file__).parents[1] / "examples" / "remember_and_ask.py"


async def test_a_program_goes_the_whole_way(settings: Settings) -> None:
    async with Memory(settings, namespace="notes") as memory:
        stored = await memory.add("The office is in Lyon.", kind="fact", tags=["office"], importance=0, project="ark")
        other = await memory.add("Mara cycles to work.", related_to=[stored.memory_id])
        hits = (await memory.search("office", project="ark", limit=1)).results
        assert [(hit["id"], hit["importance"]) for hit in hits] == [(stored.memory_id, 0)]
        assert "Lyon" in (await memory.recall("where is the office?")).context
        await memory.link(stored.memory_id, other.memory_id, type="causes", strength=0.5)
        assert {node["id"] for node in (await memory.explore(stored.memory_id)).nodes} == {
            stored.memory_id,
            other.memory_id,
        }

        await memory.update(
            stored.memory_id, content="The office is in Nice.", expected_version=stored.memory["version"] + 1
        )
        assert (await memory.get(stored.memory_id, "history"))["content"] == "The office is in Nice."
        await memory.forget(stored.memory_id, reason="closed")
        assert (await memory.search("office")).count == 0
        await memory.restore(stored.memory_id)
        assert (await memory.search("office")).count == 1
        assert (await memory.add_many([{"content": "One."}, {"content": ""}])).failed == 1
        assert (await memory.stats()).model_dump()["totals"]["active"] == 3
        assert await memory.erase(stored.memory_id, other.memory_id) == 2
        with pytest.raises(NotFound):
            await memory.get(stored.memory_id)

    async with Memory(settings, namespace="somebody-else") as memory:
        assert (await memory.search()).count == 0


async def test_what_is_wrong_raises_and_changes_nothing(settings: Settings) -> None:
    async with Memory(settings) as memory:
        with pytest.raises(InvalidInput, match="emotion"):
            await memory.add("x", emotion="colour")  # type: ignore[typeddict-item, arg-type, unused-ignore]
        with pytest.raises(SecretRejected):
            await memory.add("The password: hunter2-Tr0ub4dor&3")
        assert (await memory.search()).count == 0


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, pgengram; print(sorted({'pydantic', 'psycopg', 'numpy', 'mcp', 'asyncio'} & {*sys.modules}))"

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_example_runs_and_leaves_nothing(database: Database) -> None:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE)], env=environment(database_url=database.url), capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    assert "Stripe" in ended.stdout.splitlines()[1]
    assert "before: The staging server is restarted every Sunday" in ended.stdout
    assert database.as_login("SELECT count(*) FROM memories") == [(0,)]
