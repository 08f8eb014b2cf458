"""link_memories and explore_memories: edges between memories, and what lies along them."""

from __future__ import annotations

import asyncio
import secrets
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from mcp import Client

from helpers import NAMESPACE, Answer, Database, Served, call, connected, read, refused, remember
from pgengram.ids import uuid7
from pgengram.store import edges
from pgengram.store.connection.begin import begin_sql


async def link(client: Client, from_id: str, *to_ids: str, **how: Any) -> list[Answer]:
    """Link one memory to others and return the results."""
    answer = await call(client, "link_memories", from_id=from_id, to_ids=list(to_ids), **how)
    return list(answer["results"])


async def explore(client: Client, *ids: str, **how: Any) -> Answer:
    """Walk from memories along their links only."""
    return await call(client, "explore_memories", ids=list(ids), **{"include_similar": False, **how})


def reached(answer: Answer) -> dict[str, float]:
    """Return the strength of each memory that was reached, in the order of the answer."""
    return {node["id"]: node["strength"] for node in answer["nodes"] if node["depth"] > 0}


def stored(db: Database) -> list[tuple[str, str, str, float, Any]]:
    rows = db.rows(
        "SELECT from_id::text, to_id::text, type, strength, properties FROM memory_relationships ORDER BY 1, 2, 3"
    )
    return [tuple(row.values()) for row in rows]  # type: ignore[misc]


async def several(client: Client, *texts: str) -> list[str]:
    """Store memories that have nothing in common, and return their ids."""
    return [await remember(client, text) for text in texts]


# -- linking -------------------------------------------------------------------------------------------------------


@pytest.mark.shows(30)
async def test_a_link_has_a_type_a_strength_and_properties(client: Client, db: Database) -> None:
    outage, cause = await several(client, "The shop was down on 3 March.", "A certificate ran out.")

    [result] = await link(client, cause, outage, type="causes", strength=0.8, properties={"seen by": "Mara"})

    assert result == {"to_id": outage, "ok": True, "created": True}
    assert stored(db) == [(cause, outage, "causes", 0.8, {"seen by": "Mara"})]


@pytest.mark.shows(30)
async def test_linking_again_replaces_strength_and_properties(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")
    await link(client, one, other, type="supports", strength=0.4, properties={"old": 1})

    [again] = await link(client, one, other, type="supports", strength=0.9)

    assert again["created"] is False
    assert stored(db) == [(one, other, "supports", 0.9, {})]


async def test_two_memories_may_be_linked_in_several_ways_and_both_directions(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")

    for from_id, to_id, type_ in ((one, other, "causes"), (one, other, "contradicts"), (other, one, "causes")):
        await link(client, from_id, to_id, type=type_)

    assert {row[:3] for row in stored(db)} == {
        (one, other, "causes"),
        (one, other, "contradicts"),
        (other, one, "causes"),
    }


@pytest.mark.parametrize("word", ["depends-on", "Depends On", " depends_on ", "DEPENDS  -  ON"])
async def test_a_type_is_any_word_however_it_is_written(client: Client, db: Database, word: str) -> None:
    one, other = await several(client, "One.", "Other.")
    await link(client, one, other, type="depends_on", strength=0.1)

    [again] = await link(client, one, other, type=word, strength=0.2)

    assert again["created"] is False
    assert stored(db) == [(one, other, "depends_on", 0.2, {})]


async def test_types_of_any_script_are_kept(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")

    await link(client, one, other, type="원인 이다")

    assert stored(db)[0][2] == "원인_이다"


async def test_without_a_type_memories_are_related_and_the_link_is_strong(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")

    await link(client, one, other)

    assert stored(db) == [(one, other, "related_to", 1.0, {})]


async def test_a_strength_of_zero_stays_zero(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")

    await link(client, one, other, strength=0)

    assert stored(db)[0][3] == 0
    assert reached(await explore(client, one, min_strength=0)) == {other: 0.0}
    assert reached(await explore(client, one)) == {}


async def test_ids_may_be_shortened(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")

    [result] = await link(client, one[-8:], other[-12:])

    assert result["to_id"] == other
    assert reached(await explore(client, one[-8:])) == {other: 1.0}


async def test_a_bad_target_spares_the_others(client: Client, db: Database) -> None:
    one, two, three = await several(client, "One.", "Two.", "Three.")
    lost = str(uuid4())

    results = await link(client, one, two, lost, one, three)

    assert [result["ok"] for result in results] == [True, False, False, True]
    assert [results[n]["error"]["code"] for n in (1, 2)] == ["NOT_FOUND", "INVALID_INPUT"]
    assert lost in results[1]["error"]["message"]
    assert [row[1] for row in stored(db)] == sorted([two, three])


@pytest.mark.shows(30)
@pytest.mark.parametrize("lost", ["from", "to"])
async def test_both_ends_must_be_there(client: Client, db: Database, lost: str) -> None:
    one, missing = await remember(client, "One."), str(uuid4())
    ends = {"from_id": missing, "to_ids": [one]} if lost == "from" else {"from_id": one, "to_ids": [missing]}

    error = await refused(client, "link_memories", **ends)

    assert error["code"] == "NOT_FOUND"
    assert missing in error["message"]
    assert stored(db) == []


@pytest.mark.shows(30)
async def test_a_memory_is_not_linked_to_itself(client: Client, db: Database) -> None:
    one = await remember(client, "One.")

    error = await refused(client, "link_memories", from_id=one, to_ids=[one[-8:]])

    assert error["code"] == "INVALID_INPUT"
    assert stored(db) == []


async def test_a_forgotten_memory_is_not_linked(client: Client, db: Database) -> None:
    one, gone = await several(client, "One.", "Gone.")
    await call(client, "forget_memories", ids=[gone])

    assert (await refused(client, "link_memories", from_id=one, to_ids=[gone]))["code"] == "CONFLICT"
    assert (await refused(client, "link_memories", from_id=gone, to_ids=[one]))["code"] == "CONFLICT"
    assert stored(db) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"strength": 1.5},
        {"strength": -0.1},
        {"type": "  "},
        {"type": "-"},
        {"type": "x" * 65},
        {"properties": ["no object"]},
        {"properties": {"deep": [[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]}},
        {"unknown": 1},
        {"to_ids": []},
    ],
)
async def test_what_is_wrong_is_refused_and_nothing_is_linked(client: Client, db: Database, bad: Answer) -> None:
    one, other = await several(client, "One.", "Other.")

    error = await refused(client, "link_memories", **{"from_id": one, "to_ids": [other], **bad})

    assert error["code"] == "INVALID_INPUT"
    assert stored(db) == []
    assert (await read(client, one))["version"] == 1


async def test_a_secret_in_the_properties_is_refused(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")
    secret = "ghp_" + secrets.token_hex(18)

    error = await refused(client, "link_memories", from_id=one, to_ids=[other], properties={"note": [secret]})

    assert error["code"] == "SECRET_REJECTED"
    assert secret not in str(error)
    assert stored(db) == []


async def test_linking_is_told_in_the_history_of_the_memory_it_begins_at(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")
    edge = {"to_id": other, "type": "causes", "strength": 0.5, "properties": {}}

    await link(client, one, other, type="causes", strength=0.5)
    await link(client, one, other, type="causes", strength=0.7, properties={"why": "seen again"})
    await link(client, one, other, type="causes", strength=0.7, properties={"why": "seen again"})
    await link(client, one, other, remove=True)

    stronger = {**edge, "strength": 0.7, "properties": {"why": "seen again"}}
    assert [(row["operation"], row["version"], row["changes"]) for row in db.history(one)[1:]] == [
        ("link", 2, {"relationship": [None, edge]}),
        ("link", 3, {"relationship": [edge, stronger]}),
        ("unlink", 4, {"relationship": [stronger, None]}),
    ]
    assert all(row["session_id"] for row in db.history(one))
    assert (await read(client, one))["version"] == 4
    assert [row["operation"] for row in db.history(other)] == ["create"]


async def test_one_link_is_removed_by_its_type_and_all_without_one(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")
    for type_ in ("causes", "supports", "extends"):
        await link(client, one, other, type=type_)
    await link(client, other, one, type="causes")

    [first] = await link(client, one, other, type="Causes", remove=True)
    [rest] = await link(client, one, other, remove=True)
    [nothing] = await link(client, one, other, remove=True)

    assert [result["removed"] for result in (first, rest, nothing)] == [["causes"], ["extends", "supports"], []]
    assert [row[:3] for row in stored(db)] == [(other, one, "causes")]
    assert [row["version"] for row in db.history(one)] == [1, 2, 3, 4, 5, 6, 7]


async def test_linking_each_other_at_once_gives_each_link_once(client: Client, db: Database) -> None:
    ids = await several(client, "One.", "Two.", "Three.", "Four.")

    await asyncio.gather(
        *(link(client, one, *[other for other in ids if other != one]) for one in ids for _ in range(4))
    )

    assert len(stored(db)) == 12
    for id_ in ids:
        assert [row["version"] for row in db.history(id_)] == [1, 2, 3, 4]


async def test_the_history_of_a_link_that_many_change_at_once_has_no_gap(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")

    await asyncio.gather(*(link(client, one, other, strength=n / 20) for n in range(16)))

    outcome = [row["changes"]["relationship"] for row in db.history(one)[1:]]
    assert outcome[0][0] is None
    assert all(before[1] == after[0] for before, after in pairwise(outcome))
    assert outcome[-1][1]["strength"] == stored(db)[0][3]


async def test_links_go_with_a_memory_that_is_erased(client: Client, db: Database) -> None:
    one, other = await several(client, "One.", "Other.")
    await link(client, one, other)
    await link(client, other, one)

    db.rows("DELETE FROM memories WHERE id = %s", [other])

    assert stored(db) == []


# -- exploring -----------------------------------------------------------------------------------------------------


async def chain(client: Client, *strengths: float) -> list[str]:
    """Store memories linked one after the other, and return their ids."""
    ids = await several(client, *[f"Link number {n}." for n in range(len(strengths) + 1)])
    for n, strength in enumerate(strengths):
        await link(client, ids[n], ids[n + 1], strength=strength, type="causes")
    return ids


@pytest.mark.shows(31)
async def test_the_strength_of_a_path_is_the_product_of_its_links(client: Client) -> None:
    a, b, c, d = await chain(client, 0.9, 0.8, 0.7)

    answer = await explore(client, a, depth=3)

    assert reached(answer) == {b: 0.9, c: pytest.approx(0.72), d: pytest.approx(0.504)}
    assert [node["depth"] for node in answer["nodes"]] == [0, 1, 2, 3]
    assert answer["nodes"][3]["path"] == [a, b, c, d]
    assert answer["nodes"][2]["excerpt"] == "Link number 2."
    assert [(edge["from_id"], edge["to_id"], edge["type"], edge["strength"]) for edge in answer["edges"]] == [
        (a, b, "causes", 0.9),
        (b, c, "causes", 0.8),
        (c, d, "causes", 0.7),
    ]
    assert answer["cut"] is False


async def test_the_walk_ends_at_the_depth_asked_for_and_at_two_by_itself(client: Client) -> None:
    ids = await chain(client, 1, 1, 1, 1, 1)

    for depth in (1, 2, 3, 4):
        assert list(reached(await explore(client, ids[0], depth=depth))) == ids[1 : depth + 1]
    assert list(reached(await explore(client, ids[0]))) == ids[1:3]
    assert list(reached(await explore(client, ids[0], depth=5))) == ids[1:5]
    error = await refused(client, "explore_memories", ids=[ids[0]], depth=0)
    assert error["code"] == "INVALID_INPUT"


async def test_the_walk_ends_where_the_product_is_too_weak(client: Client) -> None:
    a, b, c, d = await chain(client, 0.6, 0.5, 0.9)

    assert list(reached(await explore(client, a, depth=4))) == [b, c]
    assert list(reached(await explore(client, a, depth=4, min_strength=0.31))) == [b]
    assert list(reached(await explore(client, a, depth=4, min_strength=0))) == [b, c, d]


@pytest.mark.parametrize(("direction", "expected"), [("out", "b"), ("in", "z"), ("both", "bz")])
async def test_the_walk_goes_with_the_links_against_them_or_both(client: Client, direction: str, expected: str) -> None:
    z, a, b = await chain(client, 1, 1)
    names = {z: "z", b: "b"}

    answer = await explore(client, a, direction=direction)

    assert "".join(sorted(names[id_] for id_ in reached(answer))) == expected


async def test_only_links_of_the_types_asked_for_are_walked(client: Client) -> None:
    a, b, c = await several(client, "A.", "B.", "C.")
    await link(client, a, b, type="causes")
    await link(client, a, c, type="contradicts")

    assert list(reached(await explore(client, a, types=["Contradicts"]))) == [c]
    assert set(reached(await explore(client, a, types="causes,contradicts"))) == {b, c}
    assert reached(await explore(client, a, types=["solves"])) == {}


async def test_a_memory_is_shown_by_its_shortest_path_and_of_those_the_strongest(client: Client) -> None:
    a, weak, strong, end = await several(client, "A.", "Weak.", "Strong.", "End.")
    for from_id, to_id, strength in (
        (a, weak, 0.6),
        (weak, end, 1),
        (a, strong, 0.9),
        (strong, end, 0.9),
        (a, end, 0.5),
    ):
        await link(client, from_id, to_id, strength=strength)

    direct = {node["id"]: node for node in (await explore(client, a, depth=4))["nodes"]}
    await link(client, a, end, remove=True)
    around = {node["id"]: node for node in (await explore(client, a, depth=4))["nodes"]}

    assert (direct[end]["path"], direct[end]["strength"]) == ([a, end], 0.5)
    assert (around[end]["path"], around[end]["strength"]) == ([a, strong, end], pytest.approx(0.81))


async def test_a_longer_but_stronger_path_leads_on_where_the_shortest_is_too_weak(client: Client) -> None:
    a, between, middle, end = await several(client, "A.", "Between.", "Middle.", "End.")
    for from_id, to_id, strength in ((a, middle, 0.4), (a, between, 1), (between, middle, 1), (middle, end, 0.5)):
        await link(client, from_id, to_id, strength=strength)

    nodes = {node["id"]: node for node in (await explore(client, a, depth=3))["nodes"]}

    assert nodes[middle]["path"] == [a, middle]
    assert nodes[end]["path"] == [a, between, middle, end]
    assert nodes[end]["strength"] == 0.5


@pytest.mark.shows(31)
async def test_a_cycle_is_walked_once(client: Client) -> None:
    a, b, c = await chain(client, 1, 1)
    await link(client, c, a, strength=1)
    await link(client, b, a, strength=1)

    answer = await explore(client, a, depth=4, direction="out")

    assert reached(answer) == {b: 1.0, c: 1.0}
    assert len(answer["edges"]) == 4


async def test_several_memories_are_explored_together(client: Client) -> None:
    a, b, c = await several(client, "A.", "B.", "C.")
    await link(client, a, c, strength=0.5)
    await link(client, b, c, strength=0.7)

    answer = await explore(client, a, b)

    assert [node["id"] for node in answer["nodes"]] == [a, b, c]
    assert answer["nodes"][2]["path"] == [b, c]
    assert len(answer["edges"]) == 2


async def test_forgotten_archived_and_expired_memories_are_no_way_through(client: Client, db: Database) -> None:
    a, b, c = await chain(client, 1, 1)
    hidden: list[tuple[str, str]] = [
        ("UPDATE memories SET expires_at = now() - interval '1 day' WHERE id = %s", "UPDATE memories SET expires_at = NULL WHERE id = %s"),
        ("UPDATE memories SET status = 'archived' WHERE id = %s", "UPDATE memories SET status = 'active' WHERE id = %s"),
        ("UPDATE memories SET status = 'invalidated' WHERE id = %s", "UPDATE memories SET status = 'active' WHERE id = %s"),
    ]  # fmt: skip

    for hide, show in hidden:
        db.rows(hide, [b])
        answer = await explore(client, a)
        assert (reached(answer), answer["edges"]) == ({}, [])
        db.rows(show, [b])
        assert list(reached(await explore(client, a))) == [b, c]


async def test_it_is_told_which_memory_to_start_from_is_not_there(client: Client) -> None:
    a, gone, lost = await remember(client, "A."), await remember(client, "Gone."), str(uuid4())
    await call(client, "forget_memories", ids=[gone])

    error = await refused(client, "explore_memories", ids=[a, lost])
    forgotten = await refused(client, "explore_memories", ids=[gone])

    assert (error["code"], lost in error["message"]) == ("NOT_FOUND", True)
    assert (forgotten["code"], gone in forgotten["message"]) == ("CONFLICT", True)


@pytest.mark.shows(31)
async def test_the_nearest_and_strongest_are_shown_when_there_are_more_than_the_limit(client: Client) -> None:
    hub, *spokes = await several(client, "Hub.", *[f"Spoke {n}." for n in range(6)])
    for n, spoke in enumerate(spokes):
        await link(client, hub, spoke, strength=0.4 + n / 10)
    beyond = await remember(client, "Beyond.")
    await link(client, spokes[5], beyond)

    answer = await explore(client, hub, limit=3, depth=4)
    whole = await explore(client, hub, limit=7, depth=4)

    assert list(reached(answer)) == [spokes[5], spokes[4], spokes[3]]
    assert answer["cut"] is True
    assert list(reached(whole)) == [*reversed(spokes), beyond]
    assert whole["cut"] is False


@pytest.mark.shows(31)
async def test_memories_that_mean_nearly_the_same_are_shown_beside_the_linked_ones(client: Client) -> None:
    dog = await remember(client, "Mara's dog is called Mochi.")
    alike = await remember(client, "The name of Mara's dog is Mochi, a small terrier.")
    linked = await remember(client, "Mochi, the dog of Mara, is four years old.")
    await remember(client, "The invoice of the plumber is due in May.")
    await link(client, dog, linked)

    answer = await call(client, "explore_memories", ids=[dog])

    assert list(reached(answer)) == [linked]
    [neighbour] = answer["similar"]
    assert (neighbour["id"], neighbour["similar_to"]) == (alike, dog)
    assert 0.5 < neighbour["similarity"] < 1
    assert (await explore(client, dog))["similar"] == []
    await call(client, "forget_memories", ids=[alike])
    assert (await call(client, "explore_memories", ids=[dog]))["similar"] == []


async def test_at_most_ten_memories_are_shown_for_their_meaning_alone(client: Client) -> None:
    dog = await remember(client, "Mara's dog is called Mochi.")
    for n in range(12):
        await remember(client, f"Mara's dog is called Mochi, she said on day {n}.")

    similar = (await call(client, "explore_memories", ids=[dog]))["similar"]

    assert len(similar) == 10
    assert [one["similarity"] for one in similar] == sorted((one["similarity"] for one in similar), reverse=True)


async def test_without_an_embedder_links_alone_are_walked(wordless: Served) -> None:
    a, b = await several(wordless.client, "Mara's dog is Mochi.", "Mara's dog is called Mochi.")
    await link(wordless.client, a, b)

    answer = await call(wordless.client, "explore_memories", ids=[a])

    assert (list(reached(answer)), answer["similar"]) == ([b], [])


async def test_long_memories_are_cut_and_no_vector_is_shown(client: Client) -> None:
    a, b = await several(client, "A.", "word " * 400)
    await link(client, a, b)

    answer = await call(client, "explore_memories", ids=[a])

    assert len(answer["nodes"][1]["excerpt"]) <= 161
    assert "embedding" not in str(answer)


async def test_links_of_another_namespace_are_not_seen(served: Served) -> None:
    async with connected(database_url=served.db.url, embedder="none:", namespace="somebody else") as other:
        a, b = await several(other, "A.", "B.")
        await link(other, a, b)

        assert (await refused(served.client, "explore_memories", ids=[a]))["code"] == "NOT_FOUND"
        mine = await remember(served.client, "Mine.")
        assert (await refused(served.client, "link_memories", from_id=mine, to_ids=[a]))["code"] == "NOT_FOUND"


# -- many edges ----------------------------------------------------------------------------------------------------

HUB_EDGES = 3_000


def fill_hub(db: Database) -> tuple[int, str, str]:
    """Store a hub with thousands of edges, each neighbour with one more; return the namespace, the hub and its nearest."""
    ids = [uuid7() for _ in range(HUB_EDGES + 1)]
    hub, *spokes = ids
    with psycopg.connect(db.url) as connection:
        key = connection.execute("SELECT id FROM namespaces WHERE name = %s", [NAMESPACE]).fetchone()
        assert key is not None
        connection.execute("SELECT set_config('pgengram.namespace_id', %s, true)", [str(key[0])])
        given = {"namespace_id": key[0], "ids": ids, "hub": hub, "spokes": spokes, "others": spokes[1:] + spokes[:1]}
        connection.execute(
            """INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
            SELECT %(namespace_id)s, i, 'semantic', 'Memory ' || i, decode(md5(i::text), 'hex'), now() FROM unnest(%(ids)s::uuid[]) AS i""",
            given,
        )
        connection.execute(
            """INSERT INTO memory_activation (namespace_id, memory_id, importance, rate_per_day, started_at)
            SELECT %(namespace_id)s, i, 0.5, 0.003, now() FROM unnest(%(ids)s::uuid[]) AS i""",
            given,
        )
        connection.execute(
            """INSERT INTO memory_relationships (namespace_id, from_id, to_id, type, strength)
            SELECT %(namespace_id)s, %(hub)s, s, 'related_to', 0.5 + 0.5 * row_number() OVER () / 10000 FROM unnest(%(spokes)s::uuid[]) AS s
            UNION ALL SELECT %(namespace_id)s, s, o, 'related_to', 0.9 FROM unnest(%(spokes)s::uuid[], %(others)s::uuid[]) AS p(s, o)""",
            given,
        )
        connection.execute("ANALYZE memories, memory_activation, memory_relationships")  # before autovacuum would
    return key[0], str(hub), str(spokes[-1])


async def test_of_a_hub_only_as_much_is_read_as_is_shown(client: Client, db: Database) -> None:
    _, hub, strongest = fill_hub(db)

    answer = await explore(client, hub, depth=4, limit=20)
    from_the_rim = await explore(client, strongest, depth=4, limit=50)
    more = await explore(client, strongest, depth=4, limit=500)

    assert len(answer["nodes"]) == 21
    assert answer["nodes"][1]["id"] == strongest
    assert answer["cut"] is True
    assert len(from_the_rim["nodes"]) == 51
    assert len(more["nodes"]) + more["left_out"]["nodes"] == 501
    assert len(more["nodes"]) > 51


def test_each_step_is_walked_by_the_indexes(client: Client, db: Database) -> None:
    namespace_id, hub, _ = fill_hub(db)
    parameters = {
        "namespace_id": namespace_id,
        "ids": [UUID(hub)], "strengths": [1.0], "known_ids": [UUID(hub)], "known_strengths": [1.0],
        "types": ["related_to"], "min_strength": 0.3, "out": True, "into": True, "limit": 20,
    }  # fmt: skip

    with psycopg.connect(db.url, autocommit=True) as connection:
        connection.execute(begin_sql("pgengram_app", namespace_id))
        plan = "\n".join(row[0] for row in connection.execute("EXPLAIN (ANALYZE, COSTS OFF) " + edges.STEP, parameters))

    assert "memory_relationships_pkey" in plan
    assert "memory_relationships_to" in plan
    assert "memories_pkey" in plan
    assert "Seq Scan" not in plan
    [looked_at] = [line for line in plan.splitlines() if "memories_pkey" in line]
    assert "loops=20)" in looked_at
