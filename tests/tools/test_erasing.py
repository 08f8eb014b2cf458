"""forget_memories with hard: nothing of a memory is left but when it was erased, and nobody is erased by mistake."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import ElicitRequestParams, ElicitResult

from helpers import (
    Answer,
    Database,
    Served,
    call,
    connected,
    environment,
    found,
    owned_tables,
    read,
    refused,
    remember,
    said,
)

CANARY = "xylophonquince"
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
DETAIL: dict[str, dict[str, Any]] = {
    "episodic": {"action_taken": CANARY, "context": {CANARY: 1}, "result": [CANARY]},
    "semantic": {"category": [CANARY], "related_concepts": [CANARY], "contradictions": CANARY},
    "procedural": {"steps": [CANARY], "prerequisites": {CANARY: 1}, "failure_points": [CANARY]},
    "strategic": {"pattern_description": CANARY, "supporting_evidence": CANARY},
}
CLUSTER = "11111111-1111-7111-8111-111111111111"
BELIEF = "22222222-2222-7222-8222-222222222222"


async def erase(client: Client, *ids: str) -> Answer:
    """Erase memories as a client does that cannot ask its user."""
    shown = await call(client, "forget_memories", ids=list(ids), hard=True)
    return await call(client, "forget_memories", ids=list(ids), hard=True, confirm_token=shown["confirm_token"])


def holding(db: Database, text: str) -> dict[str, int]:
    """Return how many rows of each table hold `text` in any of their columns; tables without any are left out."""
    counts = {
        table: db.value(f"SELECT count(*) FROM {table} AS t WHERE position(%s IN lower(t::text)) > 0", [text.lower()])
        for table in owned_tables()
    }
    return {table: count for table, count in counts.items() if count}


def rows_of(db: Database, id_: str) -> dict[str, int]:
    """Return how many rows of each table name a memory."""
    return holding(db, id_)


async def with_everything(client: Client, db: Database, type_: str) -> tuple[str, str]:
    """Store a memory whose every text field holds the canary, change, link, cluster and forget it; and a neighbour."""
    id_ = await remember(
        client,
        f"The {CANARY} stands in the hall.",
        type=type_,
        tags=[CANARY, "hall"],
        metadata=DETAIL[type_] | {"note": CANARY},
        source=CANARY,
        source_provider=CANARY,
        session_id=CANARY,
        speaker=CANARY,
        user=CANARY,
        project=CANARY,
        collection=CANARY,
        sources=[{"label": CANARY}],
        idempotency_key=CANARY,
    )
    other = await remember(client, "A piano stands in the hall.")
    await call(client, "update_memory", id=id_, content=f"The red {CANARY} stands in the hall.", tags=[f"{CANARY}s"])
    await call(client, "update_memory", id=id_, metadata={"note": f"another {CANARY}"})
    db.rows(
        f"""INSERT INTO memory_relationships (namespace_id, from_id, to_id, type, properties)
        SELECT namespace_id, '{id_}'::uuid, '{other}'::uuid, 'stands_near', '{{"why": "{CANARY}"}}' FROM memories LIMIT 1"""
    )
    db.rows(
        f"""INSERT INTO memory_relationships (namespace_id, from_id, to_id, type)
        SELECT namespace_id, '{other}'::uuid, '{id_}'::uuid, 'stands_near' FROM memories LIMIT 1"""
    )
    db.rows(
        f"""INSERT INTO memory_clusters (namespace_id, id, type, name, model_id, centroid)
        SELECT v.namespace_id, '{CLUSTER}', 'theme', 'Instruments', v.model_id, v.embedding FROM memory_vectors v
        WHERE v.memory_id = '{id_}'"""
    )
    db.rows(
        f"""INSERT INTO memory_cluster_members (namespace_id, cluster_id, memory_id)
        SELECT namespace_id, '{CLUSTER}', '{id_}'::uuid FROM memory_clusters"""
    )
    db.rows(
        f"""INSERT INTO memory_beliefs (namespace_id, id, category, belief, belief_hash)
        SELECT namespace_id, '{BELIEF}', 'house', 'The house has music.', '\\x00' FROM memory_clusters"""
    )
    db.rows(
        f"""INSERT INTO memory_belief_evidence (namespace_id, belief_id, memory_id)
        SELECT namespace_id, '{BELIEF}', '{id_}'::uuid FROM memory_clusters"""
    )
    await call(client, "forget_memories", ids=[id_], reason=f"The {CANARY} was sold.")
    return id_, other


@pytest.mark.shows(27)
@pytest.mark.parametrize("type_", DETAIL)
async def test_nothing_of_an_erased_memory_is_left_in_any_column_of_any_table(
    client: Client, db: Database, type_: str
) -> None:
    id_, other = await with_everything(client, db, type_)
    assert {"memories", "memory_history", "memory_tags", "memory_relationships"} <= holding(db, CANARY).keys()

    answer = await erase(client, id_)

    assert holding(db, CANARY) == {}
    assert rows_of(db, id_) == {"memory_history": len(db.history(id_))}
    assert db.value("SELECT centroid FROM memory_clusters") is None
    [receipt] = answer["results"]
    assert (receipt["id"], receipt["ok"]) == (id_, True)
    assert receipt["erased_at"]
    assert receipt["removed"] == {
        "vectors": 1, "words": receipt["removed"]["words"], "tags": 1, "history": 3, "relationships": 2, "clusters": 1,
        "evidence": 1,
    }  # fmt: skip
    assert await found(client, f"{CANARY} hall") == [other]


async def test_no_word_of_an_erased_memory_leads_anywhere(client: Client, db: Database) -> None:
    kept = await remember(client, "A piano stands in the hall.")
    terms = db.value("SELECT terms FROM memory_words WHERE memory_id = %s", [kept])
    id_ = await remember(client, f"The {CANARY} rests.")

    await erase(client, id_)

    assert db.value("SELECT count(*) FROM memory_words WHERE terms <> %s", [terms]) == 0
    assert db.value("SELECT count(*) FROM memory_posting_lists WHERE %s = ANY(memory_ids)", [id_]) == 0
    assert db.value("SELECT count(*) FROM memory_vectors WHERE memory_id = %s", [id_]) == 0


@pytest.mark.shows(35)
async def test_the_history_outlives_the_memory_with_names_of_fields_alone(client: Client, db: Database) -> None:
    id_ = await remember(client, f"The {CANARY}.")
    await call(client, "update_memory", id=id_, content=f"The red {CANARY}.", importance=1)
    await erase(client, id_)

    answer = await client.call_tool("get_memories", {"ids": [id_], "include": ["history"]})

    made, changed, erased = db.history(id_)
    assert (made["operation"], made["changes"]) == ("create", None)
    assert (changed["operation"], changed["changes"]) == (
        "update", {"content": [], "importance": [], "last_confirmed_at": []},
    )  # fmt: skip
    assert (erased["operation"], erased["version"], erased["changes"]) == ("erase", 3, None)
    assert erased["at"] > changed["at"] > made["at"]
    assert answer.is_error
    assert '"operation":"erase"' in said(answer)
    assert CANARY not in said(answer)


async def test_what_was_replaced_by_an_erased_memory_no_longer_says_so(client: Client, db: Database) -> None:
    old, new, also = [await remember(client, f"The harbour light number {n}.") for n in ("one", "two", "three")]
    await call(client, "forget_memories", ids=[old], replaced_by_ids=[new, also])

    await erase(client, new)
    assert (await read(client, old))["replaced_by"] == [also]
    await erase(client, also)

    assert "replaced_by" not in await read(client, old)
    assert db.history(old)[-1]["changes"] == {"replaced_by": [[also], None]}


async def test_text_on_an_edge_goes_from_the_history_of_the_other_end_too(client: Client, db: Database) -> None:
    one, two = await remember(client, "The well is deep."), await remember(client, "The pump is new.")
    await call(client, "link_memories", from_id=one, to_ids=[two], type="feeds", properties={"why": CANARY})
    assert holding(db, CANARY).keys() == {"memory_relationships", "memory_history"}

    await erase(client, two)

    assert holding(db, CANARY) == {}
    assert [row["operation"] for row in db.history(one)] == ["create", "link"]


async def test_the_centre_of_a_cluster_keeps_nothing_of_an_erased_member(client: Client, db: Database) -> None:
    one, two = await remember(client, "The well is deep."), await remember(client, "Jonas plays the cello.")
    db.rows(
        f"""INSERT INTO memory_clusters (namespace_id, id, type, name, model_id, centroid)
        SELECT v.namespace_id, '{CLUSTER}', 'theme', 'Both', v.model_id, v.embedding FROM memory_vectors v
        WHERE v.memory_id = '{one}'"""
    )
    db.rows(
        f"""INSERT INTO memory_cluster_members (namespace_id, cluster_id, memory_id)
        SELECT namespace_id, '{CLUSTER}', id FROM memories"""
    )

    await erase(client, one)

    assert db.value("SELECT v.embedding <=> c.centroid FROM memory_vectors v, memory_clusters c") < 1e-3
    assert db.value("SELECT memory_id::text FROM memory_cluster_members") == two


async def test_no_plan_that_waits_for_a_yes_keeps_words_about_an_erased_memory(client: Client, db: Database) -> None:
    one, two = await remember(client, "The well is deep."), await remember(client, "Jonas plays the cello.")
    plan = [{"action": "forget", "ids": [one], "reason": f"The {CANARY} is over."}]
    await call(client, "tidy_memories", action="apply", plan=plan)
    waiting = (await call(client, "forget_memories", ids=[two], hard=True))["confirm_token"]

    await erase(client, one)

    assert holding(db, CANARY) == {}
    assert (await call(client, "forget_memories", ids=[two], hard=True, confirm_token=waiting))["erased"] == 1


# -- the gate ------------------------------------------------------------------------------------------------------


@pytest.mark.shows(28)
async def test_erasing_first_shows_what_would_go_and_waits_for_a_yes(client: Client) -> None:
    id_ = await remember(client, "The spare key hangs in the shed.", tags=["key"])
    await call(client, "update_memory", id=id_, importance=1)

    shown = await call(client, "forget_memories", ids=[id_[-8:]], hard=True)

    [would] = shown["results"]
    assert (would["id"], would["content"]) == (id_, "The spare key hangs in the shed.")
    assert would["would_remove"] | {"words": 0} == {"vectors": 1, "words": 0, "tags": 1, "history": 1}
    assert "erased" not in shown
    assert (await read(client, id_))["status"] == "active"

    answer = await call(client, "forget_memories", ids=[id_], hard=True, confirm_token=shown["confirm_token"])

    assert answer["erased"] == 1
    assert (await client.call_tool("get_memories", {"ids": [id_]})).is_error


async def test_a_token_is_good_once(client: Client) -> None:
    ids = [await remember(client, "One."), await remember(client, "Two.")]
    token = (await call(client, "forget_memories", ids=ids[:1], hard=True))["confirm_token"]
    await call(client, "forget_memories", ids=ids[:1], hard=True, confirm_token=token)

    error = await refused(client, "forget_memories", ids=ids[:1], hard=True, confirm_token=token)

    assert error["code"] == "CONFIRM_REQUIRED"


@pytest.mark.parametrize("other", ["ids", "action", "token"])
async def test_a_token_is_good_for_what_was_shown_and_nothing_else(client: Client, other: str) -> None:
    ids = [await remember(client, "One."), await remember(client, "Two.")]
    token = (await call(client, "forget_memories", ids=ids[:1], hard=True))["confirm_token"]
    how: dict[str, dict[str, Any]] = {
        "ids": {"ids": ids, "hard": True, "confirm_token": token},
        "action": {"ids": ids[:1], "confirm_token": token},
        "token": {"ids": ids[:1], "hard": True, "confirm_token": "made-up"},
    }

    error = await refused(client, "forget_memories", **how[other])

    assert error["code"] == "CONFIRM_REQUIRED"
    assert [(await read(client, id_))["status"] for id_ in ids] == ["active", "active"]
    assert (await call(client, "forget_memories", ids=ids[:1], hard=True, confirm_token=token))["erased"] == 1


async def test_a_token_is_not_good_for_what_was_changed_since_it_was_shown(client: Client) -> None:
    id_ = await remember(client, "The safe stands in the cellar.")
    preview = await call(client, "forget_memories", ids=[id_], hard=True)
    await call(client, "update_memory", id=id_, content="The safe stands in the attic.")

    error = await refused(client, "forget_memories", ids=[id_], hard=True, confirm_token=preview["confirm_token"])

    assert error["code"] == "CONFIRM_REQUIRED"
    assert (await read(client, id_))["content"] == "The safe stands in the attic."


async def test_a_token_is_good_for_sixty_seconds(client: Client, db: Database) -> None:
    id_ = await remember(client, "Stays.")
    token = (await call(client, "forget_memories", ids=[id_], hard=True))["confirm_token"]
    assert db.value("SELECT extract(epoch FROM expires_at - created_at)::integer FROM memory_confirmations") == 60
    db.rows("UPDATE memory_confirmations SET expires_at = clock_timestamp()")

    error = await refused(client, "forget_memories", ids=[id_], hard=True, confirm_token=token)

    assert error["code"] == "CONFIRM_REQUIRED"
    assert "confirm_token" in error["hint"]
    assert (await read(client, id_))["status"] == "active"


async def test_tokens_whose_time_is_over_are_swept_away_and_none_can_be_read_from_the_table(
    client: Client, db: Database
) -> None:
    id_ = await remember(client, "Stays.")
    first = (await call(client, "forget_memories", ids=[id_], hard=True))["confirm_token"]
    assert holding(db, first) == {}
    db.rows("UPDATE memory_confirmations SET expires_at = clock_timestamp()")

    await call(client, "forget_memories", ids=[id_], hard=True)

    assert db.value("SELECT count(*) FROM memory_confirmations") == 1


@pytest.mark.shows(28)
async def test_a_token_survives_a_restart_of_the_server(served: Served) -> None:
    id_ = await remember(served.client, "Goes.")
    async with connected(database_url=served.db.url, embedder="none:") as before:
        token = (await call(before, "forget_memories", ids=[id_], hard=True))["confirm_token"]
    async with connected(database_url=served.db.url, embedder="none:") as after:
        answer = await call(after, "forget_memories", ids=[id_], hard=True, confirm_token=token)

    assert answer["erased"] == 1


async def test_of_two_calls_with_one_token_one_erases(client: Client) -> None:
    id_ = await remember(client, "Goes.")
    token = (await call(client, "forget_memories", ids=[id_], hard=True))["confirm_token"]
    wish = {"ids": [id_], "hard": True, "confirm_token": token}

    answers = await asyncio.gather(*(client.call_tool("forget_memories", wish) for _ in range(4)))

    assert sorted(answer.is_error for answer in answers) == [False, True, True, True]


@pytest.mark.parametrize("more", [{"reason": "Wrong."}, {"replaced_by_ids": "other"}], ids=str)
async def test_erasing_takes_no_reason_and_no_replacement(client: Client, more: dict[str, Any]) -> None:
    id_, other = await remember(client, "Stays."), await remember(client, "Holds.")
    more = {name: other if value == "other" else value for name, value in more.items()}

    error = await refused(client, "forget_memories", ids=[id_], hard=True, **more)

    assert error["code"] == "INVALID_INPUT"
    assert (await read(client, id_))["status"] == "active"


@pytest.mark.parametrize("hard", [False, True])
async def test_a_dry_run_shows_what_would_go_and_changes_nothing(client: Client, db: Database, hard: bool) -> None:
    id_ = await remember(client, "Stays.")

    answer = await call(client, "forget_memories", ids=[id_], hard=hard, dry_run=True)

    assert answer["results"][0]["content"] == "Stays."
    assert ("would_remove" in answer["results"][0]) is hard
    assert "confirm_token" not in answer
    assert answer["forgotten"] == 0
    assert len(db.history(id_)) == 1
    assert await found(client) == [id_]


async def test_a_dry_run_with_a_token_changes_nothing_and_keeps_the_token(client: Client) -> None:
    id_ = await remember(client, "Stays for now.")
    token = (await call(client, "forget_memories", ids=[id_], hard=True))["confirm_token"]

    await call(client, "forget_memories", ids=[id_], hard=True, dry_run=True, confirm_token=token)
    assert (await read(client, id_))["status"] == "active"

    assert (await call(client, "forget_memories", ids=[id_], hard=True, confirm_token=token))["erased"] == 1


async def test_erasing_what_is_not_there_is_an_error_and_asks_nothing(client: Client, db: Database) -> None:
    answer = await client.call_tool("forget_memories", {"ids": [str(uuid4())], "hard": True})

    assert answer.is_error
    assert "NOT_FOUND" in said(answer)
    assert db.value("SELECT count(*) FROM memory_confirmations") == 0


async def test_a_missing_one_spares_the_others(client: Client) -> None:
    id_, lost = await remember(client, "Goes."), str(uuid4())

    answer = await erase(client, id_, lost)

    assert answer["erased"] == 1
    assert [(one["id"], one["ok"]) for one in answer["results"]] == [(id_, True), (lost, False)]


async def test_what_was_erased_can_be_told_again(client: Client) -> None:
    first = await remember(client, "The meeting is on Monday.")
    await erase(client, first)

    answer = await call(client, "create_memory", content="The meeting is on Monday.")

    assert answer["created"] is True
    assert answer["memory_id"] != first
    assert "previously_corrected" not in answer


# -- many at once --------------------------------------------------------------------------------------------------


async def many(client: Client, count: int) -> list[str]:
    items = [{"content": f"Note number {n} of the ship's log.", "dedup_policy": "insert"} for n in range(count)]
    return [one["memory_id"] for one in (await call(client, "create_memories", items=items))["results"]]


@pytest.mark.shows(28)
async def test_forgetting_more_than_twenty_at_once_waits_for_a_yes(client: Client, db: Database) -> None:
    ids = await many(client, 41)
    await call(client, "forget_memories", ids=ids[:20], reason="Twenty go freely.")

    shown = await call(client, "forget_memories", ids=ids[20:], reason="Over.")
    assert (shown["forgotten"], len(shown["results"])) == (0, 21)
    assert db.value("SELECT count(*) FROM memories WHERE status = 'active'") == 21

    answer = await call(client, "forget_memories", ids=ids[20:], reason="Over.", confirm_token=shown["confirm_token"])
    assert answer["forgotten"] == 21
    assert db.value("SELECT count(*) FROM memories WHERE status = 'active'") == 0
    assert holding(db, "Over.").keys() == {"memories", "memory_history"}  # never among the tokens


# -- the client asks its user --------------------------------------------------------------------------------------


@asynccontextmanager
async def asking(db: Database, mode: str, *answers: ElicitResult | None) -> AsyncIterator[tuple[Client, list[str]]]:
    """Be a client that can ask its user, who gives `answers`, and what was asked; None: the asking itself fails."""
    left, questions = list(answers), []

    async def ask(_: Any, params: ElicitRequestParams) -> ElicitResult:
        questions.append(params.message)
        answer = left.pop(0)
        if answer is None:
            raise RuntimeError("no screen")
        return answer

    settings = environment(database_url=db.url, embedder="none:")
    server = StdioServerParameters(command=sys.executable, args=["-m", "pgengram"], env=settings)
    async with Client(server, mode=mode, elicitation_callback=ask) as client:
        yield client, questions


YES = ElicitResult(action="accept", content={"confirm": True})


@ERAS
@pytest.mark.shows(28)
async def test_a_client_that_can_ask_its_user_needs_no_token(wordless: Served, mode: str) -> None:
    async with asking(wordless.db, mode, YES) as (client, questions):
        id_ = await remember(client, "The spare key hangs in the shed.")
        answer = await call(client, "forget_memories", ids=[id_], hard=True)

    assert answer["erased"] == 1
    [question] = questions
    assert "Permanently erase 1 memory?" in question
    assert "The spare key hangs in the shed." in question


@ERAS
@pytest.mark.parametrize(
    "no",
    [ElicitResult(action="decline"), ElicitResult(action="cancel"), ElicitResult(action="accept", content={"confirm": False})],
    ids=["declined", "cancelled", "unticked"],
)  # fmt: skip
async def test_a_user_who_does_not_agree_keeps_everything(wordless: Served, mode: str, no: ElicitResult) -> None:
    async with asking(wordless.db, mode, no) as (client, questions):
        id_ = await remember(client, "Stays.")
        error = await refused(client, "forget_memories", ids=[id_], hard=True)
        assert error["code"] == "CONFIRM_REQUIRED"
        assert (await read(client, id_))["status"] == "active"

    assert len(questions) == 1
    assert wordless.db.value("SELECT count(*) FROM memory_confirmations") == 0


@ERAS
async def test_the_user_is_asked_about_many_and_not_about_one(wordless: Served, mode: str) -> None:
    async with asking(wordless.db, mode, YES) as (client, questions):
        ids = await many(client, 22)
        assert (await call(client, "forget_memories", ids=ids[:1]))["forgotten"] == 1
        assert (await call(client, "forget_memories", ids=ids[1:]))["forgotten"] == 21

    assert [question.splitlines()[0] for question in questions] == ["Forget 21 memories?"]
    assert "and 16 more" in questions[0]


async def test_a_client_that_cannot_ask_after_all_gets_a_token(wordless: Served) -> None:
    async with asking(wordless.db, "legacy", None) as (client, _):
        id_ = await remember(client, "Stays for now.")
        shown = await call(client, "forget_memories", ids=[id_], hard=True)

        assert shown["confirm_token"]
        assert (await read(client, id_))["status"] == "active"


async def test_a_yes_is_good_for_the_words_that_were_shown(wordless: Served) -> None:
    async with connected(database_url=wordless.db.url, embedder="none:") as client:
        assert client.protocol_version == "2026-07-28"
        id_ = await remember(client, "Stays.")
        answer = await client.session.call_tool(
            "forget_memories", {"ids": [id_], "hard": True}, input_responses={"confirm": YES}, request_state="made up",
            allow_input_required=True,
        )  # fmt: skip
        assert "confirm_token" in str(answer)  # it never said that it can ask
        assert (await read(client, id_))["status"] == "active"


async def test_a_yes_is_not_good_for_what_was_changed_while_the_user_was_asked(wordless: Served) -> None:
    ids: list[str] = []

    async def change_then_agree(_: Any, __: ElicitRequestParams) -> ElicitResult:
        await call(wordless.client, "update_memory", id=ids[0], content="Now it says something else.")
        return YES

    settings = environment(database_url=wordless.db.url, embedder="none:")
    server = StdioServerParameters(command=sys.executable, args=["-m", "pgengram"], env=settings)
    async with Client(server, mode="legacy", elicitation_callback=change_then_agree) as client:
        ids.append(await remember(client, "The spare key hangs in the shed."))
        error = await refused(client, "forget_memories", ids=ids, hard=True)

        assert error["code"] == "CONFIRM_REQUIRED"
        assert (await read(client, ids[0]))["status"] == "active"
