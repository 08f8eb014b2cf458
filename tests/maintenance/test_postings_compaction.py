"""Compaction: the words of memories move from lists of their own into lists by word, and no search can tell."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from helpers import Database, database_of, nightly, until
from pgengram.inputs import Change, NewMemory, Question
from pgengram.search.lookup import COUNTED, WAITING, Frequencies
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.connection import locks
from pgengram.store.connection.database import Transaction
from pgengram.store.maintenance import namespaces, postings_compaction
from pgengram.store.maintenance.postings_compaction import COMPACT_AT, SEGMENT, PostingsCompactor, to_merge
from pgengram.store.memory import plans, statements

WORDS = [
    "tea",
    "coffee",
    "harbour",
    "cake",
    "night",
    "green",
    "quiet",
    "Mira",
    "v1.2.3",
    "std::vector",
    "烏龍茶",
    "C++",
]
POSTED = """
SELECT w.memory_id::text AS id, t.term, t.count, w.length FROM memory_words w, unnest(w.terms, w.counts) AS t(term, count)
WHERE w.segment IS NULL
UNION ALL
SELECT e.id::text, l.term, e.measure >> 16, e.measure & 65535
FROM memory_posting_lists l, unnest(l.memory_ids, l.measures) AS e(id, measure)
"""
LOCK_WORDS = "SELECT FROM memory_words WHERE namespace_id = %(namespace_id)s AND memory_id = %(id)s FOR UPDATE"
TRUE = """
SELECT m.id::text AS id, t.term, t.count, w.length FROM memories m
JOIN memory_words w ON w.memory_id = m.id, unnest(w.terms, w.counts) AS t(term, count) WHERE m.status = 'active'
"""
WAIT = "SELECT count(*) FROM memory_words WHERE segment IS NULL"
SEGMENTS = "SELECT count(DISTINCT segment) FROM memory_posting_lists"
ASTRAY = """
SELECT count(*) FROM (
  SELECT l.segment, unnest(l.memory_ids) AS id FROM memory_posting_lists l) AS listed
JOIN memory_words w ON w.memory_id = listed.id WHERE w.segment IS DISTINCT FROM listed.segment
"""
EMPTY_LISTS = "SELECT count(*) FROM memory_posting_lists WHERE memory_ids = '{}' OR cardinality(memory_ids) <> cardinality(measures)"


def posted(db: Database, statement: str = POSTED) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in db.rows(statement))


def assert_each_word_once(db: Database) -> None:
    """Every word of an active memory waits or is in the lists of its segment exactly once, and no other word is."""
    assert posted(db) == posted(db, TRUE)
    assert db.value(EMPTY_LISTS) == 0
    assert db.value(ASTRAY) == 0


@pytest.fixture
async def low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction that pays for few memories, in small segments."""
    monkeypatch.setattr(postings_compaction, "COMPACT_AT", 4)
    monkeypatch.setattr(postings_compaction, "SEGMENT", 7)


@asynccontextmanager
async def managed(url: str, namespace: str = "default") -> AsyncIterator[MemoryManager]:
    manager = MemoryManager(Settings(database_url=url, embedder="none:", namespace=namespace))
    manager._words.notice = lambda _: None  # type: ignore[method-assign]  # here compaction happens when a test says so
    await manager.ready()
    yield manager
    await manager.close()


async def compact(manager: MemoryManager) -> int:
    return await PostingsCompactor(manager.store)._compact()


async def until_none_waits(db: Database) -> None:
    async def compacted() -> bool:
        return bool(db.value(WAIT) == 0)

    await until(compacted)


class Twins:
    """Two stores that are told the same; only the first one compacts."""

    def __init__(self, compacted: MemoryManager, plain: MemoryManager, dice: random.Random) -> None:
        self.both = (compacted, plain)
        self.dice = dice
        self.ids: list[tuple[str, str]] = []
        self.answer = 0

    def text(self) -> str:
        self.answer += 1
        return f"{' '.join(self.dice.choices(WORDS, k=self.dice.randint(1, 6)))} number{self.answer}"

    async def create(self) -> None:
        items = [{"content": self.text(), "tags": self.dice.sample(WORDS, 1)} for _ in range(self.dice.randint(1, 6))]
        one, two = [(await manager.create_memories(items)).results for manager in self.both]
        self.ids += [(a["memory_id"], b["memory_id"]) for a, b in zip(one, two, strict=True)]

    async def tell_again(self) -> None:
        """A memory that is known, with one more tag."""
        ids = self.dice.choice(self.ids)
        [[memory], _] = [
            (await manager.get_memories([id_])).memories for manager, id_ in zip(self.both, ids, strict=True)
        ]
        if memory["status"] == "active":
            for manager in self.both:
                await manager.create_memory(NewMemory(content=memory["content"], tags=["again"]))

    async def change(self, **more: Any) -> None:
        ids = self.dice.choice(self.ids)
        for manager, id_ in zip(self.both, ids, strict=True):
            await manager.update_memory(Change.model_validate({"id": id_, **more}))

    async def forget(self) -> None:
        chosen = self.dice.sample(self.ids, min(len(self.ids), self.dice.randint(1, 3)))
        for place, manager in enumerate(self.both):
            await manager.forget_memories([ids[place] for ids in chosen])

    async def archive(self) -> None:
        ids = self.dice.choice(self.ids)
        for manager, id_ in zip(self.both, ids, strict=True):
            [memory] = (await manager.get_memories([id_])).memories
            if memory["status"] != "invalidated":  # what was forgotten has to be restored first
                await manager.update_memory(Change(id=id_, status="archived"))

    async def erase(self) -> None:
        ids = self.ids.pop(self.dice.randrange(len(self.ids)))
        for manager, id_ in zip(self.both, ids, strict=True):
            assert await manager.erase([id_]) == 1

    async def step(self) -> None:
        match self.dice.choices(
            ["create", "again", "content", "tags", "forget", "restore", "archive", "erase", "compact"], [5, 2, 4, 2, 3, 3, 1, 2, 4]
        )[0] if self.ids else "create":  # fmt: skip
            case "create":
                await self.create()
            case "again":
                await self.tell_again()
            case "content":
                await self.change(content=self.text())
            case "tags":
                await self.change(tags=self.dice.sample(WORDS, 2))
            case "forget":
                await self.forget()
            case "restore":
                await self.change(status="active")
            case "archive":
                await self.archive()
            case "erase":
                await self.erase()
            case "compact":
                await compact(self.both[0])

    async def answers(self) -> list[dict[tuple[str, str, str], float]]:
        """The scores that both give, by question, mode and content."""
        found = []
        for manager in self.both:
            scores = {}
            for query in [*WORDS, "green tea", "quiet night harbour", "number3 again"]:
                for mode in ("auto", "text"):
                    question = Question.model_validate({"query": query, "mode": mode, "limit": 100})
                    answer = await manager.search_memories(question)
                    scores |= {(query, mode, hit["content"]): hit["score"] for hit in answer.results}
            found.append(scores)
        return found


@pytest.mark.parametrize("seed", [1, *nightly(2, 3)])
async def test_whatever_happens_between_compactions_a_compacted_store_answers_like_one_that_never_compacts(
    database: Database, low: None, seed: int
) -> None:
    async with managed(database.url) as compacted, managed(database.url, "plain") as plain:
        twins = Twins(compacted, plain, random.Random(seed))
        for n in range(60):
            await twins.step()
            if n % 10 == 9:
                assert_each_word_once(database)
        await compact(compacted)

        assert_each_word_once(database)
        assert database.value("SELECT count(*) FROM memory_posting_lists") > 0
        one, two = await twins.answers()
        assert one == pytest.approx(two, abs=1e-3)


async def test_words_are_compacted_once_enough_memories_wait(database: Database) -> None:
    async with managed(database.url) as manager:
        for drink in ("Tea", "Coffee", "Milk"):
            await manager.create_memories([{"content": f"{drink} {n}."} for n in range(COMPACT_AT - 1)])
            assert await compact(manager) == 0

            await manager.create_memory(NewMemory(content=f"{drink} once more."))

            assert await compact(manager) == COMPACT_AT
            assert database.value(WAIT) == 0
            assert_each_word_once(database)


async def test_small_segments_are_merged_so_that_few_are_left(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings_compaction, "SEGMENT", 16)
    async with managed(database.url) as manager:
        segments = []
        for n in range(0, 24, 4):
            await manager.create_memories([{"content": f"Tea {n + k}."} for k in range(4)])
            assert await compact(manager) == 4
            segments.append(database.value(SEGMENTS))
            assert_each_word_once(database)

        assert segments == [1, 1, 2, 1, 2, 2]
        assert database.value("SELECT max(cardinality(memory_ids)) FROM memory_posting_lists") == 16


@pytest.mark.parametrize(
    ("waiting", "newest", "merged"),
    [
        (256, [], []),
        (256, [(1, 256)], [1]),
        (256, [(2, 512)], []),
        (256, [(3, 256), (2, 512), (1, 2_048)], [3, 2]),
        (300, [(9, 10), (8, 310), (7, 600)], [9, 8, 7]),
        (SEGMENT, [(4, 256)], []),
        (2_048, [(4, 2_048), (3, 4_096)], [4]),
    ],
)
def test_a_segment_is_merged_when_that_at_least_doubles_it(
    waiting: int, newest: list[tuple[int, int]], merged: list[int]
) -> None:
    assert to_merge(waiting, newest) == merged


async def test_a_segment_with_a_memory_that_is_being_changed_is_not_merged(database: Database, low: None) -> None:
    async with managed(database.url) as manager:
        first = await manager.create_memories([{"content": f"Tea {n}."} for n in range(4)])
        await compact(manager)
        await manager.create_memories([{"content": f"Coffee {n}."} for n in range(4)])
        async with manager.store.transaction() as tx:
            await tx.rows(LOCK_WORDS, {"id": first.results[1]["memory_id"]})

            assert await compact(manager) == 4

        assert database.value(SEGMENTS) == 2
        assert_each_word_once(database)


async def test_two_processes_do_not_compact_the_words_of_a_namespace_at_once(database: Database, low: None) -> None:
    async with managed(database.url) as manager, managed(database.url) as other:
        await manager.create_memories([{"content": f"Tea {n}."} for n in range(10)])
        async with manager.store.transaction() as tx:
            await tx.row(locks.TRY_IN_NAMESPACE, {"key": locks.POSTINGS})

            assert await compact(other) == 0

        assert await compact(other) == 10
        assert_each_word_once(database)


async def test_many_segments_are_made_until_few_are_left(database: Database, low: None) -> None:
    async with managed(database.url) as manager:
        await manager.create_memories([{"content": f"Tea {n}."} for n in range(40)])

        compacted = await compact(manager)

        assert compacted == 40
        assert database.value(WAIT) == 0
        assert database.value(SEGMENTS) == -(-40 // 7)
        assert_each_word_once(database)


async def test_forgotten_memories_do_not_make_compaction_pay(database: Database, low: None) -> None:
    """They keep their words, so as to be restored, and would else be counted for ever."""
    async with managed(database.url) as manager:
        answer = await manager.create_memories([{"content": f"Tea {n}."} for n in range(20)])
        await manager.forget_memories([result["memory_id"] for result in answer.results])
        await manager.create_memory(NewMemory(content="New tea."))

        assert await compact(manager) == 0
        assert_each_word_once(database)


async def test_compaction_leaves_the_words_of_another_namespace_alone(database: Database, low: None) -> None:
    async with managed(database.url) as mine, managed(database.url, "other") as theirs:
        for manager in (mine, theirs):
            await manager.create_memories([{"content": f"Tea {n}."} for n in range(10)])

        await compact(mine)

        assert database.value(WAIT) == 0
        assert database.value(WAIT, namespace="other") == 10
        assert database.value("SELECT count(*) FROM memory_posting_lists", namespace="other") == 0


async def test_a_memory_that_is_being_changed_is_left_for_the_next_time(database: Database, low: None) -> None:
    async with managed(database.url) as manager:
        answer = await manager.create_memories([{"content": f"Tea {n}."} for n in range(10)])
        busy = answer.results[2]["memory_id"]
        async with manager.store.transaction() as tx:
            await tx.rows(LOCK_WORDS, {"id": busy})

            await compact(manager)

            assert database.value("SELECT segment IS NULL FROM memory_words WHERE memory_id = %s", [busy])
        assert_each_word_once(database)


async def test_a_change_during_compaction_waits_and_loses_nothing(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with managed(database.url) as manager:
        answer = await manager.create_memories([{"content": f"Tea {n}."} for n in range(10)])
        ids = [result["memory_id"] for result in answer.results]
        compacted, go_on = asyncio.Event(), asyncio.Event()
        row = Transaction.row

        async def slowly(tx: Transaction, statement: Any, parameters: Any = None) -> Any:
            found = await row(tx, statement, parameters)
            if "INSERT INTO memory_posting_lists" in str(statement):
                compacted.set()
                await go_on.wait()  # done, and not committed
            return found

        monkeypatch.setattr(Transaction, "row", slowly)
        compacting_now = asyncio.create_task(compact(manager))
        await compacted.wait()
        changes = [
            asyncio.create_task(manager.update_memory(Change(id=ids[0], content="Coffee now."))),
            asyncio.create_task(manager.forget_memories([ids[1]])),
            asyncio.create_task(manager.erase([ids[2]])),
            asyncio.create_task(manager.create_memory(NewMemory(content="Tea 3.", tags=["gingerbread"]))),
        ]

        async def waiting() -> bool:
            return bool(database.as_login("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                                          "AND datname = current_database()")[0][0] >= 4)  # fmt: skip

        await until(waiting)
        assert posted(database) == posted(database, TRUE)  # a search meanwhile sees the rows
        go_on.set()
        await asyncio.gather(compacting_now, *changes)

        assert_each_word_once(database)
        for query, count in (("coffee", 1), ("tea", 7), ("gingerbread", 1)):
            assert (await manager.search_memories(Question(query=query, mode="text"))).count == count


async def test_changes_and_compactions_at_the_same_time_lose_nothing(database: Database, low: None) -> None:
    async with managed(database.url) as manager:
        answer = await manager.create_memories([{"content": f"Tea {n}."} for n in range(40)])
        ids = [result["memory_id"] for result in answer.results]

        async def change(start: int) -> None:
            for n in range(start, 40, 3):
                await manager.update_memory(Change(id=ids[n], content=f"Coffee {n}."))

        async def compact_often() -> None:
            for _ in range(8):
                await compact(manager)

        await asyncio.gather(change(0), change(1), compact_often())

        assert_each_word_once(database)
        coffee = await manager.search_memories(Question(query="coffee", mode="text", limit=100))
        tea = await manager.search_memories(Question(query="tea", mode="text", limit=100))
        assert (coffee.count, tea.count) == (27, 13)


async def overlapping(manager: MemoryManager) -> list[list[str]]:
    """Memories whose words are in lists and partly the same, by the batch in which they are changed."""
    dice = random.Random(3)
    items = [{"content": " ".join(dice.sample(WORDS, 4)) + f" {n}"} for n in range(80)]
    ids = [result["memory_id"] for result in (await manager.create_memories(items)).results]
    await compact(manager)
    dice.shuffle(ids)
    return [ids[start : start + 10] for start in range(0, 80, 10)]


@pytest.mark.parametrize("what", ["erase", "tell again", *nightly("forget", "tag")])
async def test_batches_that_change_memories_with_the_same_words_at_once_never_wait_in_a_circle(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async with managed(database.url) as manager:
        monkeypatch.setattr(postings_compaction, "SEGMENT", 100)
        batches = await overlapping(manager)
        texts = {row["id"]: row["content"] for row in database.rows("SELECT id::text, content FROM memories")}

        async def change(ids: list[str]) -> None:
            if what == "forget":
                await manager.forget_memories(ids)
            elif what == "erase":
                await manager.erase(ids)
            elif what == "tell again":
                await manager.create_memories([{"content": texts[id_], "tags": ["again"]} for id_ in ids])
            else:
                step = plans.Step("tag", [UUID(id_) for id_ in ids], tags=["cocoa"])
                async with manager.store.transaction() as tx:
                    await (await plans.ChangePlan.read(tx, [step])).execute(tx, session_id=None)

        await asyncio.gather(*(change(ids) for ids in batches))

        assert_each_word_once(database)


async def test_a_namespace_erased_during_compaction_leaves_no_list_behind(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with managed(database.url, "leaving") as manager:
        await manager.create_memories([{"content": f"Tea {n}."} for n in range(6)])
        compacted, go_on = asyncio.Event(), asyncio.Event()
        rows = Transaction.rows

        async def slowly(tx: Transaction, statement: Any, parameters: Any = None) -> Any:
            found = await rows(tx, statement, parameters)
            if statement == postings_compaction.TAKE:
                compacted.set()
                await go_on.wait()  # the lists are not written yet
            return found

        monkeypatch.setattr(Transaction, "rows", slowly)
        compacting_now = asyncio.create_task(compact(manager))
        await compacted.wait()
        erasing_now = asyncio.create_task(namespaces.take_away_namespace(manager.store.database, "leaving"))

        async def waiting() -> bool:
            return bool(database.as_login("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                                          "AND datname = current_database()")[0][0])  # fmt: skip

        await until(waiting)
        go_on.set()
        await asyncio.gather(compacting_now, erasing_now)

    assert database.as_login("SELECT count(*) FROM memory_posting_lists") == [(0,)]


async def test_what_is_told_again_while_it_is_erased_is_stored_anew(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with managed(database.url) as manager, managed(database.url) as other:
        known = (await manager.create_memory(NewMemory(content="Tea at four."))).memory_id
        rows = Transaction.rows

        async def erased_meanwhile(tx: Transaction, statement: Any, parameters: Any = None) -> Any:
            found = await rows(tx, statement, parameters)
            if statement == statements.FIND_TWINS and found:
                await other.erase([known])
            return found

        monkeypatch.setattr(Transaction, "rows", erased_meanwhile)
        again = await manager.create_memory(NewMemory(content="Tea at four.", tags=["daily"]))
        monkeypatch.undo()

        assert again.created
        assert again.memory_id != known
        assert (await manager.search_memories(Question(query="daily tea", mode="text"))).count == 1
        assert_each_word_once(database)


async def test_looking_for_words_to_compact_opens_no_connection_of_its_own(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with managed(database.url) as manager:
        await manager.create_memory(NewMemory(content="Tea."))
        monkeypatch.setattr(postings_compaction.pooler, "connect", None)

        assert await compact(manager) == 0


COUNT_TERMS = f"""WITH words AS (SELECT term, NULL::integer AS name FROM unnest(%(terms)s::integer[]) AS t(term)), {WAITING}
SELECT words.term, {COUNTED} AS memories FROM words"""


async def test_counts_of_words_are_true_compacted_or_not(database: Database, low: None) -> None:
    async with managed(database.url) as manager:
        dice = random.Random(5)
        items = [{"content": " ".join(dice.sample(WORDS, 3)) + f" {n}"} for n in range(40)]
        ids = [result["memory_id"] for result in (await manager.create_memories(items)).results]
        for compacts in (False, True):
            if compacts:
                await compact(manager)
                await manager.create_memories([{"content": f"Late tea {n}."} for n in range(3)])
                await manager.forget_memories(ids[:5])
                await manager.erase(ids[5:7])
            truth = Counter(term for _, term, _, _ in posted(database, TRUE).elements())
            lengths = {id_: length for id_, _, _, length in posted(database, TRUE)}
            async with manager.store.transaction() as tx:
                rows = await tx.rows(COUNT_TERMS, {"terms": [*truth, 12345]})
                counted = {row["term"]: row["memories"] for row in rows}
                size = await Frequencies().size(tx)

            assert counted == {**truth, 12345: 0}
            assert size == (len(lengths), pytest.approx(sum(lengths.values()) / len(lengths)))


async def test_enough_new_memories_are_compacted_by_themselves_once_nobody_writes(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings_compaction, "QUIET_S", 0.05)
    manager = MemoryManager(Settings(database_url=database.url, embedder="none:"))
    await manager.create_memories([{"content": f"Tea {n}."} for n in range(20)])

    await until_none_waits(database)

    async def idle() -> bool:
        return manager._words._task is None

    await until(idle)
    await manager.close()
    assert_each_word_once(database)


async def test_what_an_earlier_process_left_waiting_is_compacted_at_the_start_of_the_next(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings_compaction, "QUIET_S", 0.05)
    async with managed(database.url) as manager:
        await manager.create_memories([{"content": f"Tea {n}."} for n in range(20)])
    assert database.value(WAIT) == 20
    later = MemoryManager(Settings(database_url=database.url, embedder="none:"))

    await later.open()

    await until_none_waits(database)
    await later.close()


@pytest.mark.parametrize(("name", "value"), [("FULL", 20), ("LATEST_S", 0.1)])
async def test_compaction_begins_in_the_midst_of_writing_when_much_waits_or_for_long(
    database: Database, monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(postings_compaction, "COMPACT_AT", 4)
    monkeypatch.setattr(postings_compaction, "QUIET_S", 3_600)
    monkeypatch.setattr(postings_compaction, name, value)
    manager = MemoryManager(Settings(database_url=database.url, embedder="none:"))

    async def compacted() -> bool:
        await manager.create_memory(NewMemory(content=f"Tea {random.random()}."))
        return bool(database.value(SEGMENTS) > 0)

    await until(compacted)
    await manager.close()
    assert_each_word_once(database)


async def test_what_is_stored_while_others_are_compacted_is_compacted_next(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings_compaction, "QUIET_S", 0.05)
    begun, go_on = asyncio.Event(), asyncio.Event()
    whole = PostingsCompactor._compact

    async def slowly(supervisor: PostingsCompactor) -> int:
        compacted = await whole(supervisor)
        begun.set()
        await go_on.wait()
        return compacted

    monkeypatch.setattr(PostingsCompactor, "_compact", slowly)
    manager = MemoryManager(Settings(database_url=database.url, embedder="none:"))
    await manager.create_memories([{"content": f"Tea {n}."} for n in range(5)])
    await begun.wait()
    await manager.create_memories([{"content": f"Coffee {n}."} for n in range(5)])

    go_on.set()

    await until_none_waits(database)
    await manager.close()


@pytest.mark.nightly
async def test_the_index_of_the_lists_is_built_anew_when_it_is_half_empty(
    postgres: str, template: str, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = "SELECT pg_relation_size('memory_posting_lists_pkey')"
    dice = random.Random(1)
    with database_of(postgres, template) as database:
        async with managed(database.url) as manager:
            for large in (10**9, 0):  # at first it is not worth it
                monkeypatch.setattr(postings_compaction, "LARGE_BYTES", large)
                await manager.create_memories(
                    [{"content": " ".join(f"w{dice.random()}" for _ in range(40))} for _ in range(60)]
                )
                await compact(manager)
                lists = database.value("SELECT count(*) FROM memory_posting_lists")
                sparse = database.as_login(size)[0][0] > postings_compaction.SPARSE_BYTES * lists
                assert sparse == (large > 0)
            assert_each_word_once(database)


async def test_compaction_leaves_no_dead_words_behind(postgres: str, template: str, low: None) -> None:
    with database_of(postgres, template) as database:
        async with managed(database.url) as manager:
            await manager.create_memories([{"content": f"Tea {n}."} for n in range(100)])

            await compact(manager)

            async def swept() -> bool:
                return bool(
                    database.as_login("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'memory_words'")[0][0]
                    == 0
                )

            await until(swept)
            assert_each_word_once(database)
