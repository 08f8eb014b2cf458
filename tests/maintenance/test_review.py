"""Reviewing: what needs care is found and a plan proposed, and nothing is changed by looking."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from mcp import Client

from helpers import PATIENCE_S, Answer, Database, Served, call, refused, remember
from pgengram.search.question import Question
from pgengram.service.manager import MemoryManager
from pgengram.service.toolsets import reviewing
from pgengram.service.toolsets.maintenance import Maintenance
from pgengram.service.toolsets.reviewing import Review
from pgengram.store.maintenance import findings


async def review(client: Client, *find: str, **arguments: Any) -> Answer:
    return await call(client, "review_memories", **({"find": list(find)} if find else {}), **arguments)


def backdate(db: Database, id_: str, days: int) -> None:
    """Let a memory have been stored, and last confirmed, so many days ago."""
    db.rows(
        """UPDATE memories SET created_at = created_at - make_interval(days => %(days)s), updated_at = created_at - make_interval(days => %(days)s),
             last_confirmed_at = created_at - make_interval(days => %(days)s) WHERE id = %(id)s""",
        {"days": days, "id": id_},
    )
    db.rows(
        "UPDATE memory_activation SET started_at = started_at - make_interval(days => %(days)s) WHERE memory_id = %(id)s",
        {"days": days, "id": id_},
    )


def everything(db: Database) -> list[dict[str, Any]]:
    return db.rows("SELECT * FROM memories m JOIN memory_activation a ON a.memory_id = m.id ORDER BY m.id")


@pytest.mark.shows(36)
async def test_near_duplicates_are_grouped_and_the_fullest_is_to_stay(client: Client) -> None:
    short = await remember(client, "Mara prefers green tea in the morning.")
    full = await remember(client, "Mara prefers green tea in the morning. She always does.")
    await remember(client, "The harbour freezes over in hard winters.")

    answer = await review(client, "duplicates", threshold=0.9)

    [finding] = answer["findings"]
    assert set(finding["ids"]) == {short, full}
    assert finding["excerpts"][0] == "Mara prefers green tea in the morning. She always does."
    assert finding["propose"] == {"action": "merge", "into": full}
    assert "similarity" in finding["why"]
    assert answer["found"] == {"duplicates": 1}
    assert [(step["action"], step["ids"], step["into"]) for step in answer["plan"]] == [("merge", [short], full)]
    assert answer["confirm_token"]
    assert answer["looked_at"] == {"memories": 3, "compared": 3}


@pytest.mark.shows(36)
async def test_what_may_no_longer_hold_is_shown_until_both_are_confirmed(client: Client, db: Database) -> None:
    older = await remember(client, "The choir of Esther rehearses on Wednesdays in the parish hall.")
    for content in ("Esther is allergic to wasps.", "Esther's brother Otto mends clocks."):
        await remember(client, content)
    db.as_login("UPDATE memories SET last_confirmed_at = last_confirmed_at - interval '9 days'")
    newer = await remember(client, "The choir of Esther now meets on Mondays in the library.")

    answer = await review(client, "outdated")

    [finding] = answer["findings"]
    assert finding["ids"] == [older, newer]
    assert finding["propose"] == {"action": "forget", "ids": [older], "replaced_by": [newer]}
    assert answer["plan"] == []

    for id_ in (older, newer):
        await call(client, "update_memory", id=id_, confirm=True)
    assert (await review(client, "outdated"))["found"] == {"outdated": 0}


@pytest.mark.shows(36)
@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ("The database listens on port 5432.", "The database listens on port 5433.", "numbers"),
        ("We decided to move to Kubernetes.", "We decided not to move to Kubernetes.", "negation"),
        (
            "The release is planned for the first week of March.",
            "The release is planned for the first week of April.",
            "dates",
        ),
        ("Anna looks after the green house plants.", "Anna looks after the plants of Berta.", None),
    ],
)
async def test_what_may_contradict_is_shown_and_never_merged(
    client: Client, one: str, other: str, what: str | None
) -> None:
    older, newer = await remember(client, one), await remember(client, other)

    answer = await review(client, "duplicates", "contradictions", threshold=0.7)

    assert answer["plan"] == []
    assert "confirm_token" not in answer
    assert answer["found"]["duplicates"] == 0
    if what is not None:
        [finding] = answer["findings"]
        assert finding["finding"] == "contradictions"
        assert what in finding["why"]
        assert finding["propose"] == {"action": "forget", "ids": [older], "replaced_by": [newer]}


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("On 3 May I took the night train to Porto.", "On 12 June I took the night train to Lisbon.", 0),
        ("2025-05-03: the night train to Porto was late.", "2025-06-12: the night train to Lisbon was late.", 0),
        ("Am 3. Mai nahm ich den Nachtzug nach Porto.", "Am 12. Juni nahm ich den Nachtzug nach Lissabon.", 0),
        ("The night train to Porto leaves on 3 May.", "The night train to Porto leaves on 5 May.", 1),
        ("In May I took the night train to Porto.", "In June I took the night train to Lisbon.", 1),
    ],
)
async def test_what_happened_on_different_days_is_no_contradiction(
    client: Client, one: str, other: str, found: int
) -> None:
    for text in (one, other):
        await remember(client, text)

    answer = await review(client, "contradictions", threshold=0.6)

    assert answer["found"] == {"contradictions": found}


async def test_what_was_linked_as_contradicting_is_shown(client: Client) -> None:
    older = await remember(client, "The meeting room is upstairs.")
    newer = await remember(client, "Lena works from the garden.")
    await call(client, "link_memories", from_id=newer, to_ids=[older], type="contradicts")

    [finding] = (await review(client, "contradictions"))["findings"]

    assert set(finding["ids"]) == {older, newer}
    assert "linked" in finding["why"].lower()


async def test_what_several_memories_connect_is_one_group(client: Client) -> None:
    texts = ["Mara prefers green tea in the morning.", "Mara prefers the green tea in the morning.",
             "In the morning Mara prefers green tea.", "Mara prefers green tea in the morning. She always does."]  # fmt: skip
    ids = {await remember(client, text) for text in texts}

    answer = await review(client, "duplicates", threshold=0.85)

    assert len(answer["plan"]) == 1
    assert {*answer["plan"][0]["ids"], answer["plan"][0]["into"]} == ids


async def test_memories_about_something_else_are_no_duplicates(client: Client) -> None:
    for project in ("ark", "shed"):
        await remember(client, "Deployments happen on Monday mornings.", project=project)

    assert (await review(client, "duplicates"))["findings"] == []


async def test_what_was_forgotten_or_is_pinned_is_not_merged_away(client: Client) -> None:
    gone = await remember(client, "Mara prefers green tea in the morning.")
    await call(client, "forget_memories", ids=[gone])
    pinned = [
        await remember(client, text, pinned=True)
        for text in ("Mara prefers the green tea in the morning.", "In the morning Mara prefers green tea.")
    ]

    answer = await review(client, "duplicates", threshold=0.85)

    assert answer["plan"] == []
    assert pinned


@pytest.mark.shows(36)
async def test_each_memory_that_needs_care_is_found_with_a_proposal_and_a_reason(client: Client, db: Database) -> None:
    kept = await remember(client, "Jonas is allergic to peanuts.", kind="person", tags=["health"])
    pinned = await remember(client, "The old lighthouse supervisor was called Ansgar.", pinned=True, tags=["island"])
    expired = await remember(client, "The bridge is closed this week for repairs.", tags=["traffic"])
    stale = await remember(client, "The canteen serves soup on rainy days.", kind="observation", tags=["canteen"])
    fragment = await remember(client, "She likes it.", tags=["x-files"])
    untagged = await remember(client, "The health of the canteen cook has improved.")
    bare = await remember(client, "Nobody knows the colour of that door.")
    many = await remember(client, " ".join(f"The {n}th room of the museum shows paintings of the {n}th century and of the years around it, some from far away." for n in range(10, 20)), tags=["museum"])  # fmt: skip
    weak = await remember(client, "Ruben may want to move to Lisbon.", capture_mode="inferred", tags=["plans"])
    db.rows("UPDATE memories SET expires_at = now() - interval '1 hour' WHERE id = %s", [expired])
    db.rows("UPDATE memories SET last_confirmed_at = created_at WHERE id = %s", [weak])
    for id_ in (stale, pinned):
        backdate(db, id_, 300)
    before = everything(db)

    answer = await review(client)

    found = {finding["finding"]: finding for finding in answer["findings"]}
    assert {name: [f["ids"] for f in answer["findings"] if f["finding"] == name] for name in found} == {
        "expired": [[expired]], "stale": [[stale]], "fragments": [[fragment]], "untagged": [[untagged], [bare]],
        "multi_fact": [[many]], "unsourced": [[weak]],
    }  # fmt: skip
    assert {name: finding["propose"]["action"] for name, finding in found.items()} == {
        "expired": "archive", "stale": "archive", "fragments": "forget", "untagged": "tag", "multi_fact": "keep",
        "unsourced": "confirm",
    }  # fmt: skip
    assert all(finding["why"] for finding in answer["findings"])
    assert {(step["action"], *step["ids"]) for step in answer["plan"]} == {
        ("archive", expired), ("archive", stale), ("tag", untagged),
    }  # fmt: skip
    assert next(step["tags"] for step in answer["plan"] if step["action"] == "tag") == ["canteen", "health"]
    assert answer["found"]["untagged"] == 2
    assert everything(db) == before
    assert kept


async def test_a_memory_that_was_read_or_confirmed_lately_is_not_stale(client: Client, db: Database) -> None:
    read, confirmed, neither = [
        await remember(client, f"The {word} boat leaks a little.", kind="observation")
        for word in ("red", "blue", "green")
    ]
    for id_ in (read, confirmed, neither):
        backdate(db, id_, 200)
    db.rows("UPDATE memory_activation SET last_accessed_at = now() WHERE memory_id = %s", [read])
    db.rows("UPDATE memories SET last_confirmed_at = now() WHERE id = %s", [confirmed])

    assert [f["ids"] for f in (await review(client, "stale"))["findings"]] == [[neither]]
    assert (await review(client, "stale", stale_days=250))["findings"] == []


@pytest.mark.parametrize(
    ("content", "alone"),
    [
        ("ok", False),
        ("He said so.", False),
        ("They moved there last year with all of their things.", False),
        ("They moved to Lisbon last year.", True),
        ("Tea at four.", False),
        ("The tide table hangs in the hall.", True),
        ("나는 채식주의자입니다", True),
        ("我不吃花生。", True),
    ],
)
async def test_what_says_nothing_alone_is_a_fragment(client: Client, content: str, alone: bool) -> None:
    await remember(client, content)

    assert ((await review(client, "fragments"))["findings"] == []) is alone


async def test_a_review_of_one_project_looks_at_no_other(client: Client) -> None:
    mine = await remember(client, "The ark leaks.", project="ark")
    await remember(client, "The shed leaks.", project="shed")

    answer = await review(client, project="ark")

    assert {id_ for finding in answer["findings"] for id_ in finding["ids"]} == {mine}
    assert answer["looked_at"]["memories"] == 1


async def test_no_more_of_each_finding_is_told_than_was_asked_for_but_all_are_counted(client: Client) -> None:
    for n in range(5):
        await remember(client, f"Number {n} of the untagged ones is here.")

    answer = await review(client, "untagged", max_groups=2)

    assert len(answer["findings"]) == 2
    assert answer["found"] == {"untagged": 5}
    assert "1 and 500" in (await refused(client, "review_memories", max_groups=0))["message"]
    assert "0.5 and 1" in (await refused(client, "review_memories", threshold=0.4))["message"]


async def test_without_an_embedder_the_rest_is_reviewed_and_the_answer_says_so(wordless: Served) -> None:
    await remember(wordless.client, "It is so.")

    answer = await review(wordless.client)

    assert {finding["finding"] for finding in answer["findings"]} == {"fragments", "untagged"}
    assert answer["degraded"] is True
    assert answer["looked_at"]["compared"] == 0


FILL = """
WITH made AS (
  INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
  SELECT current_setting('pgengram.namespace_id')::integer, lpad(to_hex(n), 32, '0')::uuid, 'semantic',
    'Barge ' || chr(97 + n / 100 %% 26) || chr(97 + n %% 26) || ' carries gravel upstream in ' || md5((n / 2)::text), decode(md5('m' || n), 'hex'), now()
  FROM generate_series(1, %(rows)s) AS n RETURNING namespace_id, id
), active AS (
  INSERT INTO memory_activation (namespace_id, memory_id, importance, rate_per_day, started_at)
  SELECT namespace_id, id, 0.5, 0.003, now() FROM made
)
INSERT INTO memory_vectors (namespace_id, memory_id, model_id, part, embedding)
SELECT namespace_id, id, %(model)s, 0, l2_normalize(ARRAY(
  SELECT ('x' || left(md5(id::text || '/' || k), 8))::bit(32)::integer / 2147483648.0 FROM generate_series(1, 384) AS k
)::real[]::vector::halfvec) FROM made
"""


@pytest.mark.shows(36)
@pytest.mark.nightly
async def test_thousands_are_reviewed_in_pieces_and_each_answer_says_how_far_it_got(
    client: Client, db: Database
) -> None:
    await remember(client, "One to have a model.", tags=["first"])
    [(model,)] = db.as_login("SELECT id FROM embedding_models WHERE state = 'active'")
    db.rows(FILL, {"rows": 2_050, "model": model})
    twins = [await remember(client, text) for text in ("Mara prefers green tea in the morning.", "Mara prefers the green tea in the morning.")]  # fmt: skip

    first = await review(client, threshold=0.85, max_groups=10)
    pieces = [first]
    while offset := pieces[-1]["looked_at"].get("next_offset"):
        pieces.append(await review(client, "duplicates", threshold=0.85, offset=offset))

    counted = [piece["looked_at"]["compared"] for piece in pieces]
    assert 0 < counted[0] <= 2_000, "a slow machine looks at fewer"
    assert sum(counted) == 2_053
    assert {piece["looked_at"]["memories"] for piece in pieces} == {2_053}
    assert first["found"]["untagged"] == 2_052
    assert sum(finding["finding"] == "untagged" for finding in first["findings"]) == 10
    assert [{*step["ids"], step["into"]} for step in first["plan"] if step["action"] == "merge"] == [{*twins}]
    assert all(piece["findings"] == [] for piece in pieces[1:])


def test_union_find_joins_what_is_connected_and_nothing_else() -> None:
    from uuid import UUID

    a, b, c, d, e = [UUID(int=n) for n in range(1, 6)]

    assert findings.groups([(d, e), (b, a), (c, b)]) == [[a, b, c], [d, e]]
    assert findings.groups([]) == []


async def test_without_a_threshold_the_models_own_decides(client: Client) -> None:
    await remember(client, "Mara drinks tea.")
    await remember(client, "Mara enjoys a hot beverage.")

    assert (await review(client, "duplicates"))["findings"] == []
    assert len((await review(client, "duplicates", threshold=0.5))["findings"]) == 1


async def test_a_review_may_judge_its_pairs_for_as_long_as_a_busy_machine_takes(manager: MemoryManager) -> None:
    async with manager.store.snapshot() as tx:
        await Review(tx, None, 5).inspect(["duplicates"], None, threshold=0.9, offset=0, stale=timedelta(days=1))

        allowed = await tx.rows("SELECT current_setting('idle_in_transaction_session_timeout') AS silence")
    assert allowed == [{"silence": "0"}]


async def test_other_calls_are_answered_while_a_review_compares_texts(
    manager: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, compares, is_answered = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    sorted_out = reviewing.sorted_out

    def goes_on_after_the_other_call(*given: Any) -> Any:
        assert threading.current_thread() is not threading.main_thread(), "nothing else is answered meanwhile"
        loop.call_soon_threadsafe(compares.set)
        assert is_answered.wait(PATIENCE_S)
        return sorted_out(*given)

    async def answers_a_search() -> int:
        await compares.wait()
        return (await manager.search_memories(Question(query="tea"))).count

    monkeypatch.setattr(reviewing, "sorted_out", goes_on_after_the_other_call)
    async with asyncio.TaskGroup() as calls:
        reviewed = calls.create_task(Maintenance(manager).review_memories(["contradictions"]))
        searched = calls.create_task(answers_a_search())
        searched.add_done_callback(lambda _: is_answered.set())

    assert searched.result() == 0
    assert reviewed.result().found == {"contradictions": 0}
