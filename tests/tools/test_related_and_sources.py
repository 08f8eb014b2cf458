"""What a memory is told together with: the memories it leads to, and who says so."""

from __future__ import annotations

from math import exp
from typing import Any

import pytest
from mcp import Client

from helpers import Database, call, hits, read, refused, remember

UNKNOWN = "00000000-0000-7000-8000-000000000000"


@pytest.mark.shows(30)
async def test_a_memory_leads_to_those_it_is_related_to(client: Client, db: Database) -> None:
    one, two = await remember(client, "The boiler leaks."), await remember(client, "Jonas repairs boilers.")

    id_ = await remember(client, "The boiler was repaired.", related_to=[one, two[-8:]])

    edges = db.rows("SELECT * FROM memory_relationships ORDER BY to_id")
    assert [(str(edge["from_id"]), str(edge["to_id"])) for edge in edges] == [(id_, one), (id_, two)]
    assert {(edge["type"], edge["strength"]) for edge in edges} == {("related_to", 1.0)}


async def test_one_id_may_stand_alone(client: Client, db: Database) -> None:
    one = await remember(client, "The boiler leaks.")

    await remember(client, "The boiler was repaired.", related_to=one)

    assert str(db.value("SELECT to_id FROM memory_relationships")) == one


async def test_an_unknown_memory_to_lead_to_is_an_error_and_nothing_is_stored(client: Client, db: Database) -> None:
    one = await remember(client, "The boiler leaks.")

    error = await refused(client, "create_memory", content="Repaired.", related_to=[one, UNKNOWN])

    assert error["code"] == "NOT_FOUND"
    assert UNKNOWN in error["message"]
    assert db.value("SELECT count(*) FROM memories") == 1
    assert db.rows("SELECT true FROM memory_relationships") == []


async def test_what_is_told_again_leads_where_it_is_told_to(client: Client, db: Database) -> None:
    one, two = await remember(client, "The boiler leaks."), await remember(client, "The boiler was repaired.")

    for _ in range(2):  # and never to itself
        assert await remember(client, "The boiler was repaired.", related_to=[one, two]) == two

    assert db.value("SELECT count(*) FROM memory_relationships") == 1


SOURCES: list[dict[str, Any]] = [
    {"kind": "letter", "ref": "L-7", "label": "Lease", "author": "Mira", "observed_at": "2026-01-02T03:04:05Z", "trust": 0.9},
    {"kind": "call", "trust": 0},
]  # fmt: skip


def accumulated(*trusts: float) -> float:
    return 0.15 + 0.85 * (1 - exp(-0.8 * sum(trusts)))


@pytest.mark.shows(12)
async def test_sources_are_kept_and_shown_and_decide_how_far_a_memory_is_trusted(client: Client) -> None:
    id_ = await remember(client, "The lease ends in May.", sources=[*SOURCES, SOURCES[0]], confidence=1)

    memory = await read(client, id_)
    [hit] = await hits(client, "When does the lease end?", detail=True)

    assert memory["sources"] == hit["sources"] == SOURCES
    assert memory["trust"] == hit["trust"] == pytest.approx(accumulated(0.9, 0), abs=1e-4)


@pytest.mark.shows(43)
@pytest.mark.parametrize(
    ("type_", "confidence", "expected"),
    [("episodic", None, 0.95), ("semantic", None, 0.2), ("procedural", None, 0.7), ("strategic", None, 0.7),
     ("semantic", 0.1, 0.1), ("episodic", 0, 0)],
)  # fmt: skip
async def test_without_sources_the_type_says_how_far_and_confidence_is_the_most(
    client: Client, type_: str, confidence: float | None, expected: float
) -> None:
    given = {} if confidence is None else {"confidence": confidence}

    memory = await read(client, await remember(client, "The lease ends in May.", type=type_, **given))

    assert memory["trust"] == pytest.approx(expected)


async def test_more_sources_are_trusted_more_and_never_above_confidence(client: Client) -> None:
    many = [{"kind": f"witness {n}", "trust": 0.5} for n in range(16)]
    trusts = []
    for n in (1, 2, 16):
        id_ = await remember(client, f"Seen {n} times.", sources=many[:n], confidence=0.9)
        trusts.append((await read(client, id_))["trust"])

    assert trusts == [pytest.approx(accumulated(0.5), abs=1e-4), pytest.approx(accumulated(0.5, 0.5), abs=1e-4), 0.9]


async def test_sources_are_changed_and_cleared(client: Client) -> None:
    id_ = await remember(client, "The lease ends in May.", sources=SOURCES)

    answer = await call(client, "update_memory", id=id_, sources=[SOURCES[1]])
    assert answer["changed_fields"] == ["sources"]
    assert (await read(client, id_))["sources"] == [SOURCES[1]]

    await call(client, "update_memory", id=id_, clear=["sources"])
    assert "sources" not in await read(client, id_)


@pytest.mark.parametrize(
    "sources",
    [[{}], [{"trust": 2, "kind": "x"}], [{"kind": "x", "colour": "red"}], 7, [{"kind": "x"}] * 17,
     [{"kind": "x", "observed_at": "yesterday"}]],
)  # fmt: skip
async def test_a_bad_source_is_refused(client: Client, db: Database, sources: Any) -> None:
    error = await refused(client, "create_memory", content="x", sources=sources)

    assert error["code"] in ("INVALID_INPUT", "LIMIT_EXCEEDED")
    assert db.rows("SELECT true FROM memories") == []


@pytest.mark.shows(43)
async def test_memories_can_be_narrowed_to_those_that_are_sure_enough(client: Client) -> None:
    ids = {sure: await remember(client, f"The lease ends, {sure}.", confidence=sure) for sure in (0, 0.5, 1)}
    undoubted = await remember(client, "The lease was signed.", type="episodic")

    for least, expected in ((0, {0, 0.5, 1}), (0.5, {0.5, 1}), (0.6, {1})):
        found = {hit["id"] for hit in await hits(client, "lease", min_confidence=least)}
        assert found == {ids[sure] for sure in expected} | {undoubted}
