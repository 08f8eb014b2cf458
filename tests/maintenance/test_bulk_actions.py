"""Tidying: a plan is shown first, then done as a whole or not at all."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import ElicitRequestParams, ElicitResult

from helpers import Answer, Database, Served, call, connected, environment, found, read, refused, remember

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


async def tidy(client: Client, action: str = "apply", **arguments: Any) -> Answer:
    return await call(client, "tidy_memories", action=action, **arguments)


async def applied(client: Client, *plan: dict[str, Any]) -> Answer:
    """Show a plan and then do it."""
    preview = await tidy(client, plan=list(plan))
    return await tidy(client, confirm_token=preview["confirm_token"])


def everything(db: Database) -> list[dict[str, Any]]:
    return db.rows(
        "SELECT m.*, ARRAY(SELECT tag FROM memory_tags WHERE memory_id = m.id ORDER BY tag) AS tags FROM memories m ORDER BY id"
    )


@pytest.mark.shows(28, 36)
async def test_a_reviews_plan_is_done_with_its_token(client: Client) -> None:
    short = await remember(
        client, "Mara prefers green tea in the morning.", tags=["tea"], metadata={"cup": "blue", "from": "Jo"}
    )
    full = await remember(client, "Mara prefers green tea in the morning. She always does.", tags=["mara"], importance=0.3, metadata={"cup": "red"})  # fmt: skip
    await call(client, "update_memory", id=short, importance=0.8)

    outcome = await call(client, "review_memories", find=["duplicates"], threshold=0.9)
    done = await tidy(client, confirm_token=outcome["confirm_token"])

    assert done["done"] is True
    stays, gone = await read(client, full), await read(client, short)
    assert stays["tags"] == ["mara", "tea"]
    assert stays["metadata"] == {"cup": "red", "from": "Jo"}
    assert stays["importance"] == 0.8
    assert (gone["status"], gone["replaced_by"]) == ("invalidated", [full])
    assert gone["content"] == "Mara prefers green tea in the morning."
    assert await found(client, "green tea") == [full]
    assert await found(client, "tea", tags=["tea"]) == [full]


async def test_the_preview_tells_exactly_what_is_done_then(client: Client, db: Database) -> None:
    stays, goes, old, wrong, bare, sure = [
        await remember(client, text, tags=tags)
        for text, tags in (
            ("Lena paints boats in the harbour.", ["art"]), ("Lena paints boats.", ["boats"]), ("The lift was broken.", []),
            ("The shop opens at nine.", []), ("Tulips need cold winters.", []), ("The pier has a crane.", []),
        )
    ]  # fmt: skip
    right = await remember(client, "The shop opens at ten.")
    plan = [
        {"action": "merge", "ids": [goes], "into": stays},
        {"action": "archive", "ids": [old]},
        {"action": "forget", "ids": [wrong[-8:]], "reason": "moved", "replaced_by": [right]},
        {"action": "tag", "ids": [bare], "tags": "Garden, Spring Bulbs"},
        {"action": "confirm", "ids": [sure]},
        {"action": "keep", "ids": [right]},
    ]
    before = everything(db)

    preview = await tidy(client, plan=plan)
    assert everything(db) == before
    done = await tidy(client, plan=plan, confirm_token=preview["confirm_token"])

    assert preview["done"] is False
    changes = {change["id"]: change for change in preview["changes"]}
    assert changes[stays]["changes"]["tags"] == [["art"], ["art", "boats"]]
    assert changes[goes]["changes"]["replaced_by"] == [None, [stays]]
    assert changes[old]["changes"] == {"status": ["active", "archived"]}
    assert changes[wrong]["changes"] == {
        "status": ["active", "invalidated"], "reason": [None, "moved"], "replaced_by": [None, [right]],
    }  # fmt: skip
    assert changes[bare]["changes"] == {"tags": [[], ["garden", "spring-bulbs"]]}
    assert [*changes[sure]["changes"]] == ["last_confirmed_at"]
    assert right not in changes
    after = {str(row["id"]): row for row in everything(db)}
    for id_, change in {one["id"]: one for one in done["changes"]}.items():
        assert change["operation"] == changes[id_]["operation"] == db.history(id_)[-1]["operation"]
        for name in change["changes"].keys() & {"status", "reason"}:
            assert after[id_][name] == changes[id_]["changes"][name][1]
    assert sorted(after[bare]["tags"]) == ["garden", "spring-bulbs"]
    assert [row["version"] for row in before if str(row["id"]) == right] == [after[right]["version"]]


async def test_the_history_tells_who_did_it_and_what_was_united(client: Client, db: Database) -> None:
    stays = await remember(client, "Lena paints boats in the harbour.", tags=["art"])
    goes = await remember(client, "Lena paints boats.", tags=["boats"])

    await applied(client, {"action": "merge", "ids": [goes], "into": stays, "reason": "twice"})

    merged, gone = db.history(stays)[-1], db.history(goes)[-1]
    assert (merged["operation"], merged["changes"]["tags"]) == ("merge", [["art"], ["art", "boats"]])
    assert merged["changes"]["merged"] == [None, [goes]]
    assert (gone["operation"], gone["changes"]["reason"]) == ("forget", [None, "twice"])
    assert merged["session_id"] == gone["session_id"]
    assert merged["session_id"]
    assert merged["actor"] == gone["actor"]
    assert merged["actor"]


async def test_what_is_merged_hands_over_its_links(client: Client) -> None:
    stays = await remember(client, "Lena paints boats in the harbour.")
    goes = await remember(client, "Lena paints boats.")
    brush, sea = await remember(client, "Brushes are in the shed."), await remember(client, "The sea is near.")
    await call(client, "link_memories", from_id=goes, to_ids=[brush, stays], type="depends_on", strength=0.7)
    await call(client, "link_memories", from_id=sea, to_ids=[goes], type="causes")

    await applied(client, {"action": "merge", "ids": [goes], "into": stays})

    edges = (await call(client, "explore_memories", ids=[stays], include_similar=False))["edges"]
    assert {(edge["from_id"], edge["to_id"], edge["type"], edge["strength"]) for edge in edges} == {
        (stays, brush, "depends_on", 0.7), (sea, stays, "causes", 1.0),
    }  # fmt: skip


async def test_what_is_replaced_in_a_plan_held_until_its_replacement_did(client: Client) -> None:
    old = await remember(client, "Mira lives in Porto.", occurred_at="2020-01-01T00:00:00Z")
    new = await remember(client, "Mira lives in Faro.", occurred_at="2022-01-01T00:00:00Z")

    await applied(client, {"action": "forget", "ids": [old], "replaced_by": [new]})

    assert (await read(client, old))["valid_to"] == "2022-01-01T00:00:00Z"
    assert await found(client, "Where does Mira live?", as_of="2023-01-01T00:00:00Z") == [new]
    assert await found(client, "Where does Mira live?", as_of="2021-01-01T00:00:00Z") == [old]


async def test_a_merge_hands_over_sources_confidence_and_what_is_empty(client: Client) -> None:
    page, book = ({"kind": "url", "ref": f"https://example.org/{name}"} for name in ("page", "book"))
    stays = await remember(client, "Lena paints boats in the harbour.", sources=[page], confidence=0.4)
    goes = await remember(
        client,
        "Lena paints boats.",
        sources=[book, page],
        confidence=0.9,
        emotion="concern",
        metadata={"category": ["art"]},
    )

    await applied(client, {"action": "merge", "ids": [goes], "into": stays})

    memory = await read(client, stays)
    assert [source["ref"] for source in memory["sources"]] == [page["ref"], book["ref"]]
    assert (memory["confidence"], memory["emotion"], memory["detail"]["category"]) == (0.9, "concern", ["art"])
    assert memory["content"] == "Lena paints boats in the harbour."


async def test_a_merge_keeps_what_is_to_stay_for_ever(client: Client) -> None:
    soon = await remember(client, "Lena paints boats in the harbour.", expires_at="2090-01-01T00:00:00Z")
    ever = await remember(client, "Lena paints boats.")

    await applied(client, {"action": "merge", "ids": [ever], "into": soon})

    assert "expires_at" not in await read(client, soon)


async def test_a_merge_that_would_hold_too_much_metadata_is_refused(client: Client, db: Database) -> None:
    one, other = [
        await remember(client, f"Lena paints {what}.", metadata={what: "x" * 60_000}) for what in ("boats", "ships")
    ]
    before = everything(db)

    error = await refused(
        client, "tidy_memories", action="apply", plan=[{"action": "merge", "ids": [other], "into": one}]
    )

    assert error["code"] == "INVALID_INPUT"
    assert one in error["message"]
    assert "metadata" in error["message"]
    assert everything(db) == before


async def test_a_memory_changed_since_the_preview_stops_the_whole_plan(client: Client, db: Database) -> None:
    ids = [await remember(client, f"Boat {n} is blue.") for n in range(3)]
    preview = await tidy(client, plan=[{"action": "archive", "ids": ids[:2]}, {"action": "confirm", "ids": [ids[2]]}])
    await call(client, "update_memory", id=ids[2], content="Boat 2 is green.")
    before = everything(db)

    error = await refused(client, "tidy_memories", action="apply", confirm_token=preview["confirm_token"])

    assert error["code"] == "CONFIRM_REQUIRED"
    assert ids[2] in error["message"]
    assert everything(db) == before


async def test_a_token_is_for_its_own_plan_only(client: Client, db: Database) -> None:
    one, other = await remember(client, "Boat one is blue."), await remember(client, "Boat two is blue.")
    preview = await tidy(client, plan=[{"action": "archive", "ids": [one]}])
    before = everything(db)

    error = await refused(
        client, "tidy_memories", action="apply", plan=[{"action": "archive", "ids": [other]}], confirm_token=preview["confirm_token"]
    )  # fmt: skip

    assert error["code"] == "CONFIRM_REQUIRED"
    assert everything(db) == before


async def test_a_token_outlives_the_server_that_gave_it_but_not_its_minute(served: Served) -> None:
    id_ = await remember(served.client, "Boat one is blue.")
    token = (await tidy(served.client, plan=[{"action": "archive", "ids": [id_]}]))["confirm_token"]
    late = (await tidy(served.client, plan=[{"action": "confirm", "ids": [id_]}]))["confirm_token"]
    served.db.rows(
        "UPDATE memory_confirmations SET expires_at = now() - interval '1 second' WHERE arguments #>> '{steps,0,action}' = 'confirm'"
    )

    async with connected(database_url=served.db.url, embedder="none:") as another:
        assert (await refused(another, "tidy_memories", action="apply", confirm_token=late))[
            "code"
        ] == "CONFIRM_REQUIRED"
        assert (await tidy(another, confirm_token=token))["done"] is True


@pytest.mark.parametrize(
    ("plan", "code", "said"),
    [
        ([{"action": "explode", "ids": ["{a}"]}], "INVALID_INPUT", "merge"),
        ([{"action": "archive", "ids": []}], "INVALID_INPUT", "ids"),
        ([{"action": "archive", "ids": ["0123456789abcdef"]}], "NOT_FOUND", "0123456789abcdef"),
        (
            [{"action": "archive", "ids": ["{a}"]}, {"action": "tag", "ids": ["{a}"], "tags": ["x-ray"]}],
            "INVALID_INPUT",
            "two",
        ),
        ([{"action": "merge", "ids": ["{a}"]}], "INVALID_INPUT", "into"),
        ([{"action": "tag", "ids": ["{a}"]}], "INVALID_INPUT", "tags"),
        ([{"action": "merge", "ids": ["{a}"], "into": "{a}"}], "INVALID_INPUT", "itself"),
        ([{"action": "forget", "ids": ["{a}"], "replaced_by": ["{a}"]}], "INVALID_INPUT", "itself"),
        ([{"action": "archive", "ids": ["{pinned}"]}], "INVALID_INPUT", "pinned"),
        ([{"action": "merge", "ids": ["{pinned}"], "into": "{a}"}], "INVALID_INPUT", "pinned"),
        ([{"action": "archive", "ids": ["{gone}"]}], "CONFLICT", "invalidated"),
        ([{"action": "merge", "ids": ["{a}"], "into": "{gone}"}], "CONFLICT", "not active"),
        ([{"action": "forget", "ids": ["{a}"], "replaced_by": ["{gone}"]}], "INVALID_INPUT", "is forgotten"),
        ([{"action": "archive", "ids": ["{a}"], "color": "red"}], "INVALID_INPUT", "color"),
        ([{"action": "keep", "ids": ["{a}"]}] * 201, "LIMIT_EXCEEDED", "200"),
        ([{"action": "forget", "ids": ["{a}"], "reason": TOKEN}], "SECRET_REJECTED", "plan"),
        (["archive"], "INVALID_INPUT", "object"),
    ],
)
async def test_a_plan_that_cannot_be_done_is_refused_whole(
    client: Client, db: Database, plan: list[Any], code: str, said: str
) -> None:
    a = await remember(client, "Boat one is blue.")
    pinned = await remember(client, "Boat two is ours for ever.", pinned=True)
    gone = await remember(client, "Boat three sank.")
    await call(client, "forget_memories", ids=[gone])
    names = {"{a}": a, "{pinned}": pinned, "{gone}": gone}

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(one) for one in value]
        if isinstance(value, dict):
            return {key: named(one) for key, one in value.items()}
        return names.get(value, value)

    before = everything(db)
    error = await refused(client, "tidy_memories", action="apply", plan=named(plan))

    assert error["code"] == code
    assert said in error["message"]
    assert TOKEN not in str(error)
    assert everything(db) == before


async def test_nothing_is_done_without_a_plan_or_with_one_that_belongs_elsewhere(client: Client) -> None:
    id_ = await remember(client, "Boat one is blue.")
    plan = [{"action": "keep", "ids": [id_]}]

    assert (await refused(client, "tidy_memories", action="apply"))["code"] == "INVALID_INPUT"
    assert (await refused(client, "tidy_memories", action="archive", plan=plan))["code"] == "INVALID_INPUT"
    assert (await refused(client, "tidy_memories", action="apply", synonyms={"js": "javascript"}))[
        "code"
    ] == "INVALID_INPUT"
    assert (await tidy(client, plan=plan))["message"] == "There is nothing to do."


async def test_near_duplicates_are_merged_after_a_preview(client: Client) -> None:
    short = await remember(client, "Mara prefers green tea in the morning.")
    full = await remember(client, "Mara prefers green tea in the morning. She always does.")
    await remember(client, "The database listens on port 5432.")
    await remember(client, "The database listens on port 5433.")

    preview = await tidy(client, "merge")
    assert {change["id"] for change in preview["changes"]} == {short, full}
    await tidy(client, "merge", confirm_token=preview["confirm_token"])

    assert (await read(client, short))["replaced_by"] == [full]
    assert (await tidy(client, "merge"))["changes"] == []


@pytest.mark.shows(11)
async def test_tag_synonyms_are_edited_and_old_tags_follow_when_that_is_confirmed(client: Client, db: Database) -> None:
    id_ = await remember(client, "Bicycles stand in the cellar.", tags=["velo", "cellar"])
    both = await remember(client, "A bicycle was stolen.", tags=["velo", "bicycle"])

    preview = await tidy(client, "synonyms", synonyms={"Velo": "bicycle"})

    assert preview["synonyms"]["velo"] == "bicycle"
    assert {change["id"]: change["changes"]["tags"] for change in preview["changes"]} == {
        id_: [["velo", "cellar"], ["bicycle", "cellar"]], both: [["velo", "bicycle"], ["bicycle"]],
    }  # fmt: skip
    assert (await read(client, id_))["tags"] == ["velo", "cellar"]

    await tidy(client, "synonyms", confirm_token=preview["confirm_token"])

    assert (await read(client, id_))["tags"] == ["bicycle", "cellar"]
    assert (await read(client, both))["tags"] == ["bicycle"]
    assert set(await found(client, tags=["velo"])) == {id_, both}
    assert (await tidy(client, "synonyms", synonyms={"velo": None}))["synonyms"].get("velo") is None
    assert (await refused(client, "tidy_memories", action="synonyms", synonyms={"a-b": "a-b"}))[
        "code"
    ] == "INVALID_INPUT"


async def test_who_waits_for_many_changes_is_told_how_far_they_are(wordless: Served) -> None:
    items = [{"content": f"Mooring {number} was let in spring."} for number in range(45)]
    ids = [one["memory_id"] for one in (await call(wordless.client, "create_memories", items=items))["results"]]
    plan = [{"action": "tag", "ids": ids, "tags": ["moorings"]}]
    shown = await tidy(wordless.client, plan=plan)
    said: list[str | None] = []

    async def hear(_: float, __: float | None, message: str | None) -> None:
        said.append(message)

    await wordless.client.call_tool(
        "tidy_memories",
        {"action": "apply", "plan": plan, "confirm_token": shown["confirm_token"]},
        progress_callback=hear,
    )

    assert said == ["20 of 45 memories are changed.", "40 of 45 memories are changed."]


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_client_that_can_ask_its_user_needs_no_token(wordless: Served, agreed: bool) -> None:
    questions: list[str] = []

    async def ask(_: Any, params: ElicitRequestParams) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"confirm": True}) if agreed else ElicitResult(action="decline")

    settings = environment(database_url=wordless.db.url, embedder="none:")
    server = StdioServerParameters(command=sys.executable, args=["-m", "pgengram"], env=settings)
    async with Client(server, elicitation_callback=ask) as client:
        id_ = await remember(client, "The spare key hangs in the shed.")
        answer = await tidy(client, plan=[{"action": "archive", "ids": [id_]}])

        assert answer["done"] is agreed
        assert "confirm_token" not in answer
        assert (await read(client, id_))["status"] == ("archived" if agreed else "active")
    [question] = questions
    assert "archive 1" in question
    assert "The spare key hangs in the shed." in question
