"""The tools for clusters: made, filled by hand and by likeness, called up, and looked at."""

from __future__ import annotations

import asyncio
import secrets
import sys
from itertools import count
from math import sqrt
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import ElicitRequestParams, ElicitResult

from helpers import (
    Answer,
    Database,
    call,
    connected,
    database_of,
    environment,
    found,
    read,
    refused,
    remember,
    said,
    until,
)

SERVER = {"toolsets": "all"}
DIMENSIONS = 384
TYPES = ["theme", "emotion", "temporal", "person", "pattern", "mixed"]
NOWHERE = count(100)  # an axis that no other memory lies on


def at(axis: int, cosine: float = 1.0) -> list[float]:
    """Return a unit vector with this cosine to an axis, and in the rest unlike any other vector."""
    vector = np.zeros(DIMENSIONS)
    vector[axis], vector[next(NOWHERE) % (DIMENSIONS - 100) + 100] = cosine, sqrt(1 - cosine**2)
    return [float(x) for x in vector]


async def lying(client: Client, axis: int, cosine: float = 1.0, **more: Any) -> str:
    """Store a memory that lies at a cosine to an axis, and return its id."""
    return await remember(client, f"A thing called {secrets.token_hex(6)}.", embedding=at(axis, cosine), **more)


async def cluster(client: Client, name: str, *members: str, **more: Any) -> str:
    """Make a cluster and return its id."""
    answer = await call(client, "create_memory_cluster", name=name, memory_ids=list(members), **more)
    return str(answer["cluster_id"])


async def around(client: Client, name: str, axis: int) -> str:
    """Make a cluster that lies on an axis, and return its id."""
    return await cluster(client, name, await lying(client, axis))


async def looked_at(client: Client, id_: str, **how: Any) -> Answer:
    """Return one cluster as it is listed."""
    [view] = (await call(client, "get_memory_clusters", ids=[id_], **how))["clusters"]
    return dict(view)


async def names(client: Client, **how: Any) -> list[str]:
    """Return the names of the clusters that are listed."""
    return [one["name"] for one in (await call(client, "get_memory_clusters", **how))["clusters"]]


def membership(db: Database, memory: str) -> dict[str, tuple[float, bool]]:
    """Return the clusters that a memory is in: by name how strongly, and whether by itself."""
    rows = db.rows(
        "SELECT c.name, s.strength, s.automatic FROM memory_cluster_members s JOIN memory_clusters c ON c.namespace_id = s.namespace_id AND c.id = s.cluster_id WHERE memory_id = %s",
        [memory],
    )
    return {row["name"]: (round(row["strength"], 2), row["automatic"]) for row in rows}


def centroid(db: Database, id_: str) -> Any:
    """Return where a cluster lies, shape (384,), or None."""
    text = db.value("SELECT centroid::text FROM memory_clusters WHERE id = %s", [id_])
    return None if text is None else np.array([float(x) for x in text.strip("[]").split(",")])


# -- making and changing -------------------------------------------------------------------------------------------


@pytest.mark.shows(32)
@pytest.mark.parametrize("type_", TYPES)
async def test_a_cluster_of_each_type_is_made_and_listed_as_it_was_told(client: Client, type_: str) -> None:
    memory = await remember(client, "Mara runs ten kilometres every morning.")

    answer = await call(
        client, "create_memory_cluster", name="Running", type=type_, description="All about running.",
        keywords=["Run", "marathon"], emotional_signature={"joy": 0.8}, importance=0.9, memory_ids=[memory[-8:]],
    )  # fmt: skip

    view = await looked_at(client, answer["cluster_id"])
    assert view == answer["cluster"]
    outcome = {
        "type": type_, "name": "Running", "description": "All about running.", "keywords": ["Run", "marathon"],
        "emotional_signature": {"joy": 0.8}, "importance": 0.9, "activation_count": 0, "memory_count": 1,
        "memory_ids": [memory], "has_centroid": True,
    }  # fmt: skip
    assert outcome.items() <= view.items()
    assert "centroid" not in view


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "colour"},
        {"name": " "},
        {"importance": 2},
        {"keywords": ["x" * 65]},
        {"emotional_signature": 3},
        {"nmae": "Wrong"},
    ],
)
async def test_a_cluster_that_is_wrong_is_refused(client: Client, db: Database, bad: Answer) -> None:
    error = await refused(client, "create_memory_cluster", **{"name": "Wrong", "type": "theme", **bad})

    assert error["code"] == "INVALID_INPUT"
    assert db.value("SELECT count(*) FROM memory_clusters") == 0


async def test_no_cluster_is_made_for_a_member_that_is_lost_or_forgotten(client: Client, db: Database) -> None:
    there, gone, lost = await remember(client, "There."), await remember(client, "Gone."), str(uuid4())
    await call(client, "forget_memories", ids=[gone])

    error = await refused(client, "create_memory_cluster", name="Some", memory_ids=[there, lost])
    forgotten = await refused(client, "create_memory_cluster", name="Some", memory_ids=[gone])

    assert (error["code"], lost in error["message"]) == ("NOT_FOUND", True)
    assert forgotten["code"] == "CONFLICT"
    assert db.value("SELECT count(*) FROM memory_clusters") == 0


async def test_an_importance_of_zero_stays_zero(client: Client) -> None:
    id_ = await cluster(client, "Trivia", importance=0)

    assert (await looked_at(client, id_))["importance"] == 0


@pytest.mark.parametrize("where", ["name", "description", "keywords", "emotional_signature", "context"])
async def test_a_secret_is_refused_wherever_it_stands(client: Client, db: Database, where: str) -> None:
    secret = "ghp_" + secrets.token_hex(18)
    text: Any = {"keywords": [secret], "emotional_signature": {"feels": secret}}.get(where, f"It is {secret}")
    id_ = await cluster(client, "Plain")

    if where == "context":
        errors = [await refused(client, "activate_cluster", cluster_id=id_, context=text)]
    else:
        errors = [
            await refused(client, "create_memory_cluster", **{"name": "New", where: text}),
            await refused(client, "update_cluster_members", cluster_id=id_, **{where: text}),
        ]

    assert {error["code"] for error in errors} == {"SECRET_REJECTED"}
    assert secret not in str(errors)
    assert db.rows("SELECT name FROM memory_clusters") == [{"name": "Plain"}]
    assert db.value("SELECT count(*) FROM memory_cluster_activations") == 0


@pytest.mark.shows(32)
async def test_memories_are_put_in_taken_out_and_given_another_strength(client: Client, db: Database) -> None:
    one, two, three = [await remember(client, f"Number {n}.") for n in (1, 2, 3)]
    id_ = await cluster(client, "Numbers", one)

    put = await call(client, "update_cluster_members", cluster_id=id_[-8:], add=[two, three[-8:]], strength=0)
    again = await call(
        client, "update_cluster_members", cluster_id=id_, add=[two], strength=0.5, remove=[one, one[-8:]]
    )

    assert [(r["memory_id"], r["added"]) for r in put["results"]] == [(two, True), (three, True)]
    assert [(r.get("added"), r.get("removed")) for r in again["results"]] == [(False, None), (None, True)]
    assert again["cluster"]["memory_ids"] == [two, three]
    assert [membership(db, id_) for id_ in (one, two, three)] == [
        {},
        {"Numbers": (0.5, False)},
        {"Numbers": (0, False)},
    ]


async def test_a_bad_member_spares_the_others(client: Client) -> None:
    id_, one, lost = await cluster(client, "Some"), await remember(client, "One."), str(uuid4())

    answer = await call(client, "update_cluster_members", cluster_id=id_, add=[lost, one])
    alone = await refused(client, "update_cluster_members", cluster_id=id_, add=[lost])

    assert [(r["memory_id"], r["ok"]) for r in answer["results"]] == [(one, True), (lost, False)]
    assert answer["results"][1]["error"]["code"] == alone["code"] == "NOT_FOUND"
    assert answer["cluster"]["memory_ids"] == [one]


async def test_what_is_said_of_a_cluster_can_be_changed(client: Client) -> None:
    id_ = await cluster(client, "Runing", keywords=["run"], importance=0.2)

    await call(client, "update_cluster_members", cluster_id=id_, name="Running", importance=0, keywords=[])

    view = await looked_at(client, id_)
    assert (view["name"], view["importance"], view.get("keywords", [])) == ("Running", 0, [])


async def test_there_must_be_something_to_change_and_a_cluster_to_change(client: Client) -> None:
    id_, lost = await cluster(client, "Some"), str(uuid4())
    one = await remember(client, "One.")

    nothing = await refused(client, "update_cluster_members", cluster_id=id_)
    both = await refused(client, "update_cluster_members", cluster_id=id_, add=[one], remove=[one])
    missing = [
        await refused(client, "update_cluster_members", cluster_id=lost, name="Lost"),
        await refused(client, "activate_cluster", cluster_id=lost),
        await refused(client, "get_memory_clusters", ids=[lost]),
    ]

    assert [error["code"] for error in (nothing, both)] == ["INVALID_INPUT", "INVALID_INPUT"]
    assert {error["code"] for error in missing} == {"NOT_FOUND"}
    assert all("get_memory_clusters" in error["hint"] for error in missing)


async def test_a_cluster_is_deleted_after_a_preview_and_its_memories_stay(client: Client, db: Database) -> None:
    memory = await remember(client, "Stays.")
    id_, other = await cluster(client, "Goes", memory), await cluster(client, "Other")
    await call(client, "activate_cluster", cluster_id=id_)

    preview = await call(client, "update_cluster_members", cluster_id=id_, delete=True)
    wrong = await refused(
        client, "update_cluster_members", cluster_id=other, delete=True, confirm_token=preview["confirm_token"]
    )
    assert await names(client, sort="name") == ["Goes", "Other"]
    done = await call(
        client, "update_cluster_members", cluster_id=id_, delete=True, confirm_token=preview["confirm_token"]
    )

    assert (preview["deleted"], wrong["code"], done["deleted"]) == (False, "CONFIRM_REQUIRED", True)
    assert await names(client) == ["Other"]
    assert await found(client) == [memory]
    assert db.value("SELECT count(*) FROM memory_cluster_activations") == 0


@pytest.mark.parametrize("yes", [True, False])
async def test_a_client_that_can_ask_its_user_is_asked_before_a_cluster_goes(
    client: Client, db: Database, *, yes: bool
) -> None:
    id_ = await cluster(client, "Running")
    questions = []

    async def ask(_: Any, params: ElicitRequestParams) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"confirm": True}) if yes else ElicitResult(action="decline")

    settings = environment(database_url=db.url, embedder="none:", toolsets="clusters")
    server = StdioServerParameters(command=sys.executable, args=["-m", "pgengram"], env=settings)
    async with Client(server, elicitation_callback=ask) as asking:
        answer = await asking.call_tool("update_cluster_members", {"cluster_id": id_, "delete": True})

    assert "Running" in questions[0]
    assert await names(client) == ([] if yes else ["Running"])
    assert ("CONFIRM_REQUIRED" in said(answer)) is not yes


# -- where a cluster lies ------------------------------------------------------------------------------------------


async def test_a_cluster_lies_nowhere_until_a_member_has_a_vector(client: Client, db: Database) -> None:
    id_ = await cluster(client, "Empty")
    before = centroid(db, id_)

    await call(client, "update_cluster_members", cluster_id=id_, add=[await lying(client, 0)])
    after = centroid(db, id_)
    await call(client, "update_cluster_members", cluster_id=id_, remove=(await looked_at(client, id_))["memory_ids"])

    assert before is None
    assert after[0] == pytest.approx(1, abs=1e-3)
    assert centroid(db, id_) is None


@pytest.mark.shows(32)
async def test_an_empty_cluster_is_similar_to_nothing_and_takes_nothing_in(client: Client, db: Database) -> None:
    empty, also_empty = await cluster(client, "Empty"), await cluster(client, "Also empty")
    full = await around(client, "Full", 0)

    memory = await lying(client, 0)

    assert set(membership(db, memory)) == {"Full"}
    for id_ in (empty, also_empty, full):
        assert (await looked_at(client, id_, insights=True, similar_threshold=-1))["similar"] == []


async def test_vectors_that_cancel_each_other_out_leave_no_centroid(client: Client, db: Database) -> None:
    there = await remember(client, "There.", embedding=at(0))
    back = await remember(client, "Back.", embedding=[-x for x in at(0)])

    id_ = await cluster(client, "Both ways", there, back)

    assert centroid(db, id_) is None


async def test_the_centroid_is_the_mean_of_the_members_at_unit_length(client: Client, db: Database) -> None:
    id_ = await cluster(client, "Two", await lying(client, 0), await lying(client, 1))

    place = centroid(db, id_)

    assert np.linalg.norm(place) == pytest.approx(1, abs=1e-3)
    assert place[[0, 1]] == pytest.approx([sqrt(0.5)] * 2, abs=1e-3)


async def test_the_centroid_follows_what_becomes_of_the_members(client: Client, db: Database) -> None:
    stays, goes = await lying(client, 0), await lying(client, 1)
    id_ = await cluster(client, "Moving", stays, goes)

    def on_axis(axis: int) -> bool:
        return bool(centroid(db, id_)[axis] > 0.99)

    await call(client, "forget_memories", ids=[goes])
    assert on_axis(0)
    await call(client, "update_memory", id=goes, status="active")
    assert not on_axis(0)
    await call(client, "update_memory", id=goes, status="archived")
    assert on_axis(0)
    await call(client, "update_memory", id=goes, status="active")
    await call(client, "update_memory", id=goes, content="Mara's dog is called Mochi.")
    told_anew = centroid(db, id_)
    assert abs(told_anew[1]) < 0.3
    preview = await call(client, "forget_memories", ids=[goes], hard=True)
    await call(client, "forget_memories", ids=[goes], hard=True, confirm_token=preview["confirm_token"])
    assert on_axis(0)


# -- joining by likeness -------------------------------------------------------------------------------------------


@pytest.mark.shows(32)
async def test_a_new_memory_joins_by_itself_the_clusters_it_is_like(client: Client, db: Database) -> None:
    near, far = await around(client, "Near", 0), await around(client, "Far", 1)

    inside = await lying(client, 0, 0.8)
    outside = await lying(client, 0, 0.6)

    assert membership(db, inside) == {"Near": (0.8, True)}
    assert membership(db, outside) == {}
    assert (await looked_at(client, near))["memory_count"] == 2
    assert (await looked_at(client, far))["memory_count"] == 1
    assert centroid(db, near)[0] < 0.99


@pytest.mark.shows(32)
async def test_a_new_memory_joins_at_most_three_clusters_the_nearest_ones(client: Client, db: Database) -> None:
    members = [await lying(client, 0, cosine) for cosine in (0.99, 0.75, 0.95, 0.85, 0.9)]
    for n, member in enumerate(members):
        await cluster(client, f"Number {n}", member)

    memory = await remember(client, "Right on the axis.", embedding=[1.0] + [0.0] * (DIMENSIONS - 1))

    assert membership(db, memory) == {"Number 0": (0.99, True), "Number 2": (0.95, True), "Number 4": (0.9, True)}


async def test_each_memory_of_a_batch_joins_for_itself(client: Client, db: Database) -> None:
    await around(client, "First", 0)
    await around(client, "Second", 1)

    answer = await call(
        client, "create_memories",
        items=[{"content": f"Item {n}.", "embedding": at(axis)} for n, axis in enumerate((0, 1, 2))],
    )  # fmt: skip

    assert [set(membership(db, one["memory_id"])) for one in answer["results"]] == [{"First"}, {"Second"}, set()]


async def test_a_text_joins_by_its_meaning_and_leaves_when_it_says_something_else(client: Client, db: Database) -> None:
    dog = await cluster(client, "Mochi", await remember(client, "Mara's dog is called Mochi."))

    memory = await remember(client, "The dog of Mara has the name Mochi.")
    joined = membership(db, memory)
    await call(client, "update_memory", id=memory, content="The invoice of the plumber is due in May.")

    assert set(joined) == {"Mochi"}
    assert membership(db, memory) == {}
    assert (await looked_at(client, dog))["memory_count"] == 1


async def test_who_was_put_in_by_hand_stays_whatever_it_says(client: Client, db: Database) -> None:
    memory = await remember(client, "Mara's dog is called Mochi.")
    await cluster(client, "By hand", memory)

    await call(client, "update_memory", id=memory, content="The invoice of the plumber is due in May.")

    assert membership(db, memory) == {"By hand": (1, False)}


async def test_a_working_memory_joins_when_it_is_kept_and_not_before(client: Client, db: Database) -> None:
    dog = await cluster(client, "Mochi", await remember(client, "Mara's dog is called Mochi."))
    held = await call(client, "create_working_memory", content="The dog of Mara has the name Mochi.")

    assert (await looked_at(client, dog))["memory_count"] == 1
    answer = await call(
        client, "consolidate_working_memory", ids=[held["memory_id"]], content="Mara's dog bears the name Mochi."
    )
    assert set(membership(db, answer["memory_id"])) == {"Mochi"}


async def test_a_working_memory_joins_when_its_time_is_over_and_it_is_kept(client: Client, db: Database) -> None:
    await cluster(client, "Mochi", await remember(client, "Mara's dog is called Mochi."))
    held = await call(
        client, "create_working_memory", content="The dog of Mara has the name Mochi.", ttl_seconds=1, promote=True
    )
    assert membership(db, held["memory_id"]) == {}

    async def joined() -> bool:
        return set(membership(db, held["memory_id"])) == {"Mochi"}

    await until(joined)


async def test_many_that_join_at_once_are_all_in_the_centroid(client: Client, db: Database) -> None:
    id_ = await around(client, "Busy", 0)

    await asyncio.gather(*(lying(client, 0, 0.8) for _ in range(12)))

    view = await looked_at(client, id_, members=200)
    assert view["memory_count"] == 13
    before = centroid(db, id_)
    await call(client, "update_cluster_members", cluster_id=id_, importance=0.6)
    assert before == pytest.approx(centroid(db, id_), abs=1e-3)


# -- calling up ----------------------------------------------------------------------------------------------------


@pytest.mark.shows(32)
async def test_calling_a_cluster_up_counts_exactly_one_and_is_kept_with_its_context(
    client: Client, db: Database
) -> None:
    id_ = await cluster(client, "Running", await remember(client, "Mara runs."))

    first = await call(client, "activate_cluster", cluster_id=id_[-8:], context="Planning a race", strength=0)
    await asyncio.gather(*(call(client, "activate_cluster", cluster_id=id_) for _ in range(9)))

    view = await looked_at(client, id_)
    assert first["activation_count"] == 1
    assert view["activation_count"] == 10
    assert view["importance"] == 0.5
    rows = db.rows("SELECT context, strength, session_id, at FROM memory_cluster_activations ORDER BY id")
    assert len(rows) == 10
    assert (rows[0]["context"], rows[0]["strength"]) == ("Planning a race", 0)
    assert all(row["session_id"] for row in rows)


async def test_a_cluster_brings_its_ten_strongest_memories_and_no_forgotten_one(client: Client) -> None:
    ids = [await remember(client, f"Fact number {n}.") for n in range(12)]
    id_ = await cluster(client, "Facts")
    for n, memory in enumerate(ids):
        await call(client, "update_cluster_members", cluster_id=id_, add=[memory], strength=n / 12)
    await call(client, "forget_memories", ids=[ids[11]])

    brought = (await call(client, "activate_cluster", cluster_id=id_))["memories"]

    assert [memory["id"] for memory in brought] == ids[10:0:-1]
    assert brought[0]["content"] == "Fact number 10."
    assert (await looked_at(client, id_))["memory_count"] == 11


async def test_among_equally_strong_memories_the_more_relevant_come_first(client: Client) -> None:
    dull, grave = await remember(client, "Dull.", importance=0.1), await remember(client, "Grave.", importance=0.9)

    id_ = await cluster(client, "Both", dull, grave)

    brought = (await call(client, "activate_cluster", cluster_id=id_))["memories"]
    assert [memory["id"] for memory in brought] == [grave, dull]


async def test_clusters_called_up_in_one_conversation_or_half_an_hour_go_together(client: Client, db: Database) -> None:
    run, food, tax = [await cluster(client, name) for name in ("Running", "Food", "Tax")]
    for id_ in (food, tax):
        await call(client, "activate_cluster", cluster_id=id_)
    db.rows(
        "UPDATE memory_cluster_activations SET session_id = 'another', at = (at AT TIME ZONE 'UTC' - interval '31 minutes') AT TIME ZONE 'UTC' WHERE cluster_id = %s",
        [tax],
    )
    db.rows(
        "UPDATE memory_cluster_activations SET session_id = 'another', at = (at AT TIME ZONE 'UTC' - interval '29 minutes') AT TIME ZONE 'UTC' WHERE cluster_id = %s",
        [food],
    )

    near = await call(client, "activate_cluster", cluster_id=run)
    db.rows(
        "UPDATE memory_cluster_activations SET at = (at AT TIME ZONE 'UTC' - interval '3 hours') AT TIME ZONE 'UTC' WHERE cluster_id = %s",
        [run],
    )
    later = (await call(client, "activate_cluster", cluster_id=tax))["co_activated"]

    assert [(one["name"], one["times"]) for one in near["co_activated"]] == [("Food", 1)]
    assert {(one["name"], one["times"]) for one in later} == {("Food", 2), ("Running", 1)}


# -- looking at them -----------------------------------------------------------------------------------------------


async def test_clusters_are_sorted_by_importance_or_by_activity(client: Client) -> None:
    for name, importance in (("Dull", 0.1), ("Grave", 0.9), ("Usual", 0.5)):
        id_ = await cluster(client, name, importance=importance)
        if name != "Grave":
            await call(client, "activate_cluster", cluster_id=id_)

    assert await names(client) == ["Grave", "Usual", "Dull"]
    assert await names(client, sort="activity") == ["Usual", "Dull", "Grave"]
    assert await names(client, sort="name") == ["Dull", "Grave", "Usual"]
    assert await names(client, sort="created") == ["Usual", "Grave", "Dull"]
    answer = await call(client, "get_memory_clusters", limit=2)
    assert ([one["name"] for one in answer["clusters"]], answer["count"], answer["total"]) == (["Grave", "Usual"], 2, 3)
    assert (await refused(client, "get_memory_clusters", limit=0))["code"] == "INVALID_INPUT"


async def test_clusters_of_one_type_are_listed_alone(client: Client) -> None:
    await cluster(client, "Mara", type="person")
    await cluster(client, "Running", type="theme")

    assert await names(client, type="person") == ["Mara"]


@pytest.mark.shows(32)
async def test_insights_tell_of_the_members_that_are_not_forgotten(client: Client, db: Database) -> None:
    old = await lying(client, 0, type="episodic", importance=0.2)
    new = await lying(client, 1, type="semantic", importance=0.6)
    gone = await lying(client, 2, importance=1)
    id_ = await cluster(client, "Some", old, gone)
    await call(client, "update_cluster_members", cluster_id=id_, add=[new], strength=0.5)
    db.rows("UPDATE memories SET created_at = now() - interval '8 days' WHERE id = %s", [old])
    await call(client, "forget_memories", ids=[gone])
    await read(client, new)

    insights = (await looked_at(client, id_, insights=True))["insights"]

    assert insights.pop("last_accessed_at")
    assert insights == {
        "total_memories": 2, "automatic_members": 0, "recent_memories": 1,
        "average_importance": 0.4, "average_strength": 0.75, "types": {"episodic": 1, "semantic": 1},
    }  # fmt: skip
    empty = (await looked_at(client, await cluster(client, "Empty"), insights=True))["insights"]
    assert empty["total_memories"] == 0


async def test_similar_clusters_are_told_from_seven_tenths_on(client: Client) -> None:
    members = [await lying(client, 0, cosine) for cosine in (1, 0.8, 0.9, 0.6)]
    here, *_ = [
        await cluster(client, name, member)
        for name, member in zip(("Here", "Near", "Nearer", "Far"), members, strict=True)
    ]

    similar = (await looked_at(client, here, insights=True))["similar"]
    wider = (await looked_at(client, here, insights=True, similar_threshold=0.5))["similar"]

    assert [(one["name"], round(one["similarity"], 2)) for one in similar] == [("Nearer", 0.9), ("Near", 0.8)]
    assert [one["name"] for one in wider] == ["Nearer", "Near", "Far"]


@pytest.mark.shows(38)
async def test_active_themes_honour_the_days(client: Client, db: Database) -> None:
    run = await cluster(client, "Running", keywords=["run"], emotional_signature={"joy": 1})
    tax, food = await cluster(client, "Tax"), await cluster(client, "Food")
    for id_ in (run, tax, run, food):
        await call(client, "activate_cluster", cluster_id=id_)
    db.rows(
        "UPDATE memory_cluster_activations SET at = (at AT TIME ZONE 'UTC' - interval '5 days') AT TIME ZONE 'UTC', session_id = 'then' WHERE cluster_id = %s",
        [tax],
    )

    async def themes(days: int) -> list[Answer]:
        return list((await call(client, "get_memory_clusters", days=days))["themes"])

    week, today = await themes(7), await themes(3)
    assert {theme["name"]: theme["recent_activations"] for theme in week} == {"Running": 2, "Food": 1, "Tax": 1}
    assert {theme["name"]: theme["recent_activations"] for theme in today} == {"Running": 2, "Food": 1}
    assert week[0]["name"] == "Running"
    assert (week[0]["keywords"], week[0]["emotional_signature"]) == (["run"], {"joy": 1})
    assert [(one["name"], one["times"]) for one in week[0]["associated_themes"]] == [("Food", 2)]
    assert (await refused(client, "get_memory_clusters", days=0))["code"] == "INVALID_INPUT"
    assert "themes" not in await call(client, "get_memory_clusters")


async def test_clusters_of_another_namespace_are_not_seen_and_take_nothing_in(client: Client, db: Database) -> None:
    mine = await around(client, "Mine", 0)
    async with connected(database_url=db.url, namespace="somebody else", toolsets="core,clusters") as other:
        memory = await lying(other, 0)

        assert await names(other) == []
        assert (await refused(other, "activate_cluster", cluster_id=mine))["code"] == "NOT_FOUND"
        answer = await call(other, "create_memory_cluster", name="Theirs", memory_ids=[memory])
        assert (await looked_at(other, answer["cluster_id"], insights=True, similar_threshold=-1))["similar"] == []

    assert (await looked_at(client, mine))["memory_count"] == 1


async def test_without_an_embedder_clusters_are_filled_by_hand(postgres: str, template: str) -> None:
    with database_of(postgres, template) as db:
        async with connected(database_url=db.url, embedder="none:", toolsets="core,clusters") as wordless:
            one = await remember(wordless, "Mara's dog is called Mochi.")
            id_ = await cluster(wordless, "Mochi", one)
            await remember(wordless, "Mara's dog has the name Mochi.")

            view = await looked_at(wordless, id_, insights=True)

            assert (view["memory_count"], view["has_centroid"], view["similar"]) == (1, False, [])
