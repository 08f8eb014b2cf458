"""Everything out as lines of JSON, and back in exactly."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from helpers import Database, call, connected, database_of, found, owned_tables, read, remember, remember_expired
from machine import answered, pgengram
from pgengram.inputs import Change, NewMemory
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.reading import transferring

WORDS = {"embedder": "none:"}


async def a_life(client: Any) -> list[str]:
    """Remember something of everything, and change, forget, link and group some of it."""
    ids = [
        await remember(client, "Mara moved billing to Stripe.", kind="decision", tags=["billing", "Payments"], importance=0.9,
                       metadata={"ticket": 17, "ratio": 0.1, "nested": {"list": [1, None, "x"]}, "success_metrics": {"fee": 1.4}}),
        await remember(client, "Jonas is allergic to peanuts.", kind="person", user="Jonas", confidence=0.0, pinned=True),
        await remember(client, "The release failed at noon.", type="episodic", occurred_at="2026-02-03T12:00:00+02:00",
                       metadata={"action_taken": ["rolled back"], "emotional_valence": -0.5, "verification_status": False}),
        await remember(client, "How to release: tag, wait, announce.", type="procedural",
                       metadata={"steps": ["tag", "wait"], "success_count": 2, "total_attempts": 3, "average_duration": "PT1H30M"}),
        await remember_expired(client, "An old guess.", "2026-01-01T00:00:00Z", speaker="Ada", session_id="s-1"),
        await remember(client, "中文的记忆 with “quotes” and \\ backslash\nand a second line."),
    ]  # fmt: skip
    await call(client, "update_memory", id=ids[0], content="Mara moved billing to Stripe in March.", expected_version=1)
    await call(client, "forget_memories", ids=[ids[4]], reason="It was wrong.", replaced_by_ids=[ids[5]])
    await call(client, "get_memories", ids=ids[:2])
    await call(client, "link_memories", from_id=ids[0], to_ids=[ids[2]], type="caused", strength=0.25)
    await call(client, "create_memory_cluster", name="Money", type="theme", keywords=["stripe"], memory_ids=ids[:2])
    await call(client, "create_working_memory", content="Held for a while.", ttl_seconds=3600)
    await call(client, "record_identity", self_concept={"name": "Ember"})
    await call(client, "record_belief", belief="Small steps win.", category="work", supported_by=[ids[3]])
    return ids


def exported(url: str, path: Path, **settings: str) -> list[dict[str, Any]]:
    pgengram("export", str(path), database_url=url, **settings)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def timeless(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name not in ("exported_at", "namespace")} for line in lines]


@pytest_asyncio.fixture(scope="module")
async def lived(postgres: str, template: str) -> AsyncIterator[str]:
    """The name of a database with a life in it, for copies."""
    with database_of(postgres, template) as database:
        async with connected(database_url=database.url, toolsets="all") as client:
            await a_life(client)
        yield database.as_template()


@pytest.fixture
def filled(postgres: str, lived: str) -> Iterator[Database]:
    with database_of(postgres, lived) as database:
        yield database


@pytest.mark.shows(39)
async def test_an_export_imported_into_an_empty_store_exports_the_same(
    filled: Database, postgres: str, template: str, tmp_path: Path
) -> None:
    first = exported(filled.url, tmp_path / "first.jsonl")
    assert {line["record"] for line in first} >= {
        "export", "memory", "relationship", "cluster", "cluster_member", "identity", "belief", "evidence",
    }  # fmt: skip

    with database_of(postgres, template) as other:
        answer = answered("import", str(tmp_path / "first.jsonl"), "--json", database_url=other.url)
        second = exported(other.url, tmp_path / "second.jsonl")
        assert answer["left"] == []
        assert timeless(second) == timeless(first)

        again = answered("import", str(tmp_path / "first.jsonl"), "--json", database_url=other.url)
        assert sum(again["added"].values()) == 0
        assert again["known"]["memory"] == answer["added"]["memory"]
        assert timeless(exported(other.url, tmp_path / "third.jsonl")) == timeless(first)

        async with connected(database_url=other.url, toolsets="all") as client:
            [hit, *_] = await found(client, "who takes care of payments?", mode="semantic")
            assert (await read(client, hit))["content"] == "Mara moved billing to Stripe in March."
            assert await found(client, "peanuts", mode="text")
            assert await found(client, "guess", mode="text") == []


async def test_what_was_erased_comes_back_only_if_it_is_asked_for_and_can_be_changed_then(
    manager: MemoryManager, tmp_path: Path
) -> None:
    id_ = (await manager.create_memory(NewMemory(content="Tea at four."))).memory_id
    exported(manager.settings.database_url, tmp_path / "all.jsonl", **WORDS)
    await manager.erase([id_])
    words = ("import", str(tmp_path / "all.jsonl"), "--json")
    first = answered(*words, database_url=manager.settings.database_url, **WORDS)
    assert first["added"] == {"memory": 0}
    assert "erased" in first["passed"][0]["reason"]
    answered(*words, "--restore-erased", database_url=manager.settings.database_url, **WORDS)

    await manager.update_memory(Change(id=id_, content="Tea at five."))

    [memory] = (await manager.get_memories([id_], include=["history"])).memories
    assert [answer["operation"] for answer in memory["history"]] == ["update", "erase", "create"]


async def test_the_uses_of_a_memory_come_along(filled: Database, postgres: str, template: str, tmp_path: Path) -> None:
    uses = "SELECT memory_id, reinforcement, used_at, use_weights FROM memory_activation ORDER BY memory_id"
    exported(filled.url, tmp_path / "all.jsonl")
    unlike = tmp_path / "unlike.jsonl"
    activation = {"importance": 0.5, "rate_per_day": 0.001, "started_at": "2026-01-01T00:00:00Z", "access_count": 1}
    lines = [
        {"content": "From before single uses were kept.", "activation": activation},
        {"content": "A use without its weight.", "activation": {**activation, "used_at": ["2026-01-02T00:00:00Z"]}},
    ]
    unlike.write_text("\n".join(json.dumps(line) for line in lines))

    with database_of(postgres, template) as other:
        answered("import", str(tmp_path / "all.jsonl"), "--json", database_url=other.url)
        assert other.rows(uses) == filled.rows(uses)
        assert sorted(len(row["used_at"] or ()) for row in filled.rows(uses))[-2:] == [1, 2]

        answer = answered("import", str(unlike), "--json", expect=1, database_url=other.url, **WORDS)
        assert answer["added"] == {"memory": 1}
        assert [one["place"] for one in answer["left"]] == ["line 2"]


async def test_no_vector_and_no_hash_leaves_with_an_export(filled: Database, tmp_path: Path) -> None:
    lines = exported(filled.url, tmp_path / "all.jsonl")

    assert not any({"embedding", "centroid", "content_hash"} & line.keys() for line in lines)
    assert (tmp_path / "all.jsonl").stat().st_mode & 0o077 == 0
    assert not (tmp_path / "all.jsonl.unfinished").exists()


async def test_an_export_to_standard_output_is_nothing_but_its_lines(filled: Database) -> None:
    ended = pgengram("export", "-", database_url=filled.url, **WORDS)

    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert lines[0]["memories"] == sum(line["record"] == "memory" for line in lines) == 7


def test_every_table_of_a_namespace_is_exported_or_made_anew() -> None:
    named = {
        *transferring.WITH_MEMORY,
        *transferring.MADE_ANEW,
        *transferring.STAYS,
        *(table.name for table in transferring.TABLES),
    }

    assert named == set(owned_tables())


async def test_pages_of_an_export_join_without_a_gap(
    filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = timeless(exported(filled.url, tmp_path / "whole.jsonl"))
    monkeypatch.setattr(transferring, "PAGE", 1)
    from pgengram.transfer import export_to

    core = MemoryManager(Settings(database_url=filled.url, **WORDS))
    with (tmp_path / "pages.jsonl").open("w", encoding="utf-8") as file:
        await export_to(file, core, lambda _, __: None)
    await core.close()

    assert timeless([json.loads(line) for line in (tmp_path / "pages.jsonl").read_text().splitlines()]) == whole


def test_lines_with_a_content_are_enough(database: Database, tmp_path: Path) -> None:
    lines = tmp_path / "notes.jsonl"
    lines.write_text(
        '{"content": "Ada likes tea.", "tags": ["tea"], "importance": 0}\n\n{"content": "Ada likes tea."}\n'
    )

    answer = answered("import", str(lines), "--json", database_url=database.url, **WORDS)
    again = answered("import", str(lines), "--json", database_url=database.url, **WORDS)

    assert (answer["added"]["memory"], answer["known"]["memory"]) == (1, 1)
    assert (again["added"].get("memory", 0), again["known"]["memory"]) == (0, 2)
    [memory] = answered("call", "search_memories", "query=tea", "detail=true", database_url=database.url, **WORDS)[
        "results"
    ]
    assert (memory["importance"], memory["tags"]) == (0, ["tea"])


@pytest.mark.shows(39)
def test_what_cannot_be_taken_is_told_by_place_and_reason_and_spares_the_rest(
    database: Database, tmp_path: Path
) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    bad = [
        {"content": "Good one."},
        {"content": ""},
        {"content": "x", "importance": -7},
        {"content": f"The token is {secret}."},
        {"content": "y", "metadata": {"key": secret}},
        {"content": "z", "status": "gone"},
        {"content": "w", "activation": {"importance": 0.5, "rate_per_day": 0.123, "started_at": "2026-01-01T00:00:00Z", "access_count": 0}},
        {"record": "relationship", "from_id": "018f0000-0000-7000-8000-000000000001", "to_id": "018f0000-0000-7000-8000-000000000002", "type": "x"},
        {"record": "dream", "content": "?"},
        {"content": "Another good one."},
    ]  # fmt: skip
    file = tmp_path / "bad.jsonl"
    file.write_text("\n".join(["not json", *(json.dumps(line) for line in bad)]))

    ended = pgengram("import", str(file), "--json", expect=1, database_url=database.url, **WORDS)

    answer = json.loads(ended.stdout)
    assert answer["added"] == {"memory": 2}
    reasons = {one["place"]: one["reason"] for one in answer["left"]}
    assert reasons.keys() == {f"line {number}" for number in (1, 3, 4, 5, 6, 7, 8, 9, 10)}
    assert "content" in reasons["line 3"]
    assert "importance" in reasons["line 4"]
    assert "secret" in reasons["line 5"]
    assert "metadata" in reasons["line 6"]
    assert "memory_activation" in reasons["line 8"]
    assert secret not in ended.stdout + ended.stderr


def test_a_dry_run_tells_the_same_and_changes_nothing(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text('{"content": "One."}\n{"content": "Two."}\n{"content": ""}\n')

    dry = answered("import", str(file), "--dry-run", "--json", expect=1, database_url=database.url, **WORDS)
    assert database.value("SELECT count(*) FROM memories") == 0
    real = answered("import", str(file), "--json", expect=1, database_url=database.url, **WORDS)

    assert dry == {**real, "dry_run": True}
    assert "not imported" in pgengram("import", str(file), expect=1, database_url=database.url, **WORDS).stdout


def test_what_is_no_export_is_refused(database: Database, tmp_path: Path) -> None:
    newer = tmp_path / "newer.jsonl"
    newer.write_text('{"record": "export", "format": 99}\n')

    for arguments, said in (
        ([str(newer)], "another format"),
        ([str(tmp_path / "nothing")], "no file"),
        (["--from", "elsewhere", str(newer)], "mcp-memory-service"),
    ):
        assert said in pgengram("import", *arguments, expect=2, database_url=database.url, **WORDS).stderr
    assert "cannot be written" in pgengram("export", str(tmp_path), expect=2, database_url=database.url, **WORDS).stderr


@pytest.mark.shows(6)
def test_by_choice_an_import_redacts_secrets_and_takes_the_rest(database: Database, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    file = tmp_path / "notes.jsonl"
    lines = [
        {"content": f"The robot signs in with {secret}."},
        {"content": "y", "session_id": secret, "metadata": {"key": [secret]}},
    ]
    file.write_text("\n".join(json.dumps(line) for line in lines))

    for added in (2, 0):
        answer = answered("import", str(file), "--json", database_url=database.url, secrets="redact", **WORDS)
        assert (answer["added"]["memory"], answer["redacted"], answer["left"]) == (added, 2, [])

    [robot, other] = database.rows("SELECT content, session_id, metadata FROM memories ORDER BY content")
    assert robot["content"] == "The robot signs in with [redacted: github token]."
    assert secret not in json.dumps([robot, other])
