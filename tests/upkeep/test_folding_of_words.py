"""Folding: the words of memories move from rows into lists, and no search can tell."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from door import Database, database_of, until
from pgengram.inputs import Change, NewMemory, Question
from pgengram.manager import MemoryManager
from pgengram.search.question import COUNTED, Frequencies
from pgengram.settings import Settings
from pgengram.store import folding
from pgengram.store.database import Transaction
from pgengram.store.folding import FOLD_FROM, WordKeeper

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
SELECT memory_id::text AS id, term, count, length FROM memory_postings
UNION ALL
SELECT e.id::text, l.term, e.measure >> 16, e.measure & 65535
FROM memory_posting_lists l, unnest(l.memory_ids, l.measures) AS e(id, measure)
"""
TRUE = """
SELECT m.id::text AS id, t.term, t.count, w.length FROM memories m
JOIN memory_words w ON w.memory_id = m.id, unnest(w.terms, w.counts) AS t(term, count) WHERE m.status = 'active'
"""
IN_ROWS = "SELECT count(*) FROM (SELECT DISTINCT memory_id FROM memory_postings) AS p"
EMPTY_LISTS = "SELECT count(*) FROM memory_posting_lists WHERE memory_ids = '{}' OR cardinality(memory_ids) <> cardinality(measures)"


def posted(db: Database, statement: str = POSTED) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in db.rows(statement))


def assert_each_word_once(db: Database) -> None:
    """Every word of an active memory is in rows or lists exactly once, and no other word is."""
    assert posted(db) == posted(db, TRUE)
    assert db.value(EMPTY_LISTS) == 0
    assert db.value("SELECT count(*) FROM memory_posting_lists l JOIN memory_postings p USING (namespace_id, term) "
                    "WHERE p.memory_id = ANY(l.memory_ids)") == 0  # fmt: skip


@pytest.fixture
async def low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folding that pays for few memories, in small segments."""
    monkeypatch.setattr(folding, "FOLD_AT", 4)
    monkeypatch.setattr(folding, "SEGMENT", 7)


@asynccontextmanager
async def managed(url: str, namespace: str = "default") -> AsyncIterator[MemoryManager]:
    manager = MemoryManager(Settings(database_url=url, embedder="none:", namespace=namespace))
    manager._words.notice = lambda _: None  # type: ignore[method-assign]  # here folding happens when a test says so
    await manager.ready()
    yield manager
    await manager.close()


async def fold(manager: MemoryManager) -> int:
    return await WordKeeper(manager.store)._fold()


class Twins:
    """Two stores that are told the same; only the first one folds."""

    def __init__(self, folded: MemoryManager, plain: MemoryManager, dice: random.Random) -> None:
        self.both = (folded, plain)
        self.dice = dice
        self.ids: list[tuple[str, str]] = []
        self.told = 0

    def text(self) -> str:
        self.told += 1
        return f"{' '.join(self.dice.choices(WORDS, k=self.dice.randint(1, 6)))} number{self.told}"

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
            ["create", "again", "content", "tags", "forget", "restore", "archive", "erase", "fold"], [5, 2, 4, 2, 3, 3, 1, 2, 4]
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
            case "fold":
                await fold(self.both[0])

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


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_happens_between_folds_a_folded_store_answers_like_one_that_never_folds(
    database: Database, low: None, seed: int
) -> None:
    async with managed(database.url) as folded, managed(database.url, "plain") as plain:
        twins = Twins(folded, plain, random.Random(seed))
        for n in range(60):
            await twins.step()
            if n % 10 == 9:
                assert_each_word_once(database)
        await fold(folded)

        assert_each_word_once(database)
        assert database.value("SELECT count(*) FROM memory_posting_lists") > 0
        one, two = await twins.answers()
        assert one == pytest.approx(two, abs=1e-3)


async def test_an_owner_is_folded_once_arrays_take_less_room_and_again_when_it_has_doubled(database: Database) -> None:
    async with managed(database.url) as manager:
        for drink, size in (("Tea", FOLD_FROM), ("Coffee", FOLD_FROM), ("Milk", 2 * FOLD_FROM)):
            await manager.create_memories([{"content": f"{drink} {n}."} for n in range(size - 1)])
            assert await fold(manager) == 0

            await manager.create_memory(NewMemory(content=f"{drink} once more."))

            assert await fold(manager) == size
            assert database.value(IN_ROWS) == 0
            assert_each_word_once(database)


async def test_of_an_owner_with_many_no_more_than_a_thousand_wait(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "FOLD_AT", FOLD_FROM + 10)
    async with managed(database.url) as manager:
        await manager.create_memories([{"content": f"Tea {n}."} for n in range(2 * FOLD_FROM)])
        assert await fold(manager) == 2 * FOLD_FROM

        await manager.create_memories([{"content": f"Coffee {n}."} for n in range(FOLD_FROM + 10)])

        assert await fold(manager) == FOLD_FROM + 10


async def test_many_segments_are_made_until_few_are_left(database: Database, low: None) -> None:
    async with managed(database.url) as manager:
        await manager.create_memories([{"content": f"Tea {n}."} for n in range(40)])

        folded = await fold(manager)

        assert folded > 40 - folding.FOLD_AT
        assert database.value(IN_ROWS) == 40 - folded
        assert database.value("SELECT count(DISTINCT segment) FROM memory_posting_lists") >= 40 // 7
        assert_each_word_once(database)


async def test_forgotten_memories_do_not_make_folding_pay(database: Database, low: None) -> None:
    """They keep their words, so as to be restored, and would else be counted for ever."""
    async with managed(database.url) as manager:
        answer = await manager.create_memories([{"content": f"Tea {n}."} for n in range(20)])
        await manager.forget_memories([result["memory_id"] for result in answer.results])
        await manager.create_memory(NewMemory(content="New tea."))

        assert await fold(manager) == 0
        assert_each_word_once(database)


async def test_folding_leaves_another_owners_words_alone(database: Database, low: None) -> None:
    async with managed(database.url) as mine, managed(database.url, "other") as theirs:
        for manager in (mine, theirs):
            await manager.create_memories([{"content": f"Tea {n}."} for n in range(10)])

        await fold(mine)

        assert database.value(IN_ROWS) < 4
        assert database.value(IN_ROWS, namespace="other") == 10
        assert database.value("SELECT count(*) FROM memory_posting_lists", namespace="other") == 0


async def test_a_memory_that_is_being_changed_is_left_for_the_next_time(database: Database, low: None) -> None:
    async with managed(database.url) as manager:
        answer = await manager.create_memories([{"content": f"Tea {n}."} for n in range(10)])
        busy = answer.results[2]["memory_id"]
        async with manager.store.transaction() as tx:
            await tx.rows(
                "SELECT FROM memories WHERE namespace_id = %(namespace_id)s AND id = %(id)s FOR UPDATE", {"id": busy}
            )

            await fold(manager)

            assert database.value("SELECT segment IS NULL FROM memory_words WHERE memory_id = %s", [busy])
        assert_each_word_once(database)


async def test_a_change_during_a_fold_waits_and_loses_nothing(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with managed(database.url) as manager:
        answer = await manager.create_memories([{"content": f"Tea {n}."} for n in range(10)])
        ids = [result["memory_id"] for result in answer.results]
        folded, go_on = asyncio.Event(), asyncio.Event()
        row = Transaction.row

        async def slowly(tx: Transaction, statement: Any, parameters: Any = None) -> Any:
            found = await row(tx, statement, parameters)
            if "INSERT INTO memory_posting_lists" in str(statement):
                folded.set()
                await go_on.wait()  # done, and not committed
            return found

        monkeypatch.setattr(Transaction, "row", slowly)
        folding_now = asyncio.create_task(fold(manager))
        await folded.wait()
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
        await asyncio.gather(folding_now, *changes)

        assert_each_word_once(database)
        for query, count in (("coffee", 1), ("tea", 7), ("gingerbread", 1)):
            assert (await manager.search_memories(Question(query=query, mode="text"))).count == count


async def test_changes_and_folds_at_the_same_time_lose_nothing(database: Database, low: None) -> None:
    async with managed(database.url) as manager:
        answer = await manager.create_memories([{"content": f"Tea {n}."} for n in range(40)])
        ids = [result["memory_id"] for result in answer.results]

        async def change(start: int) -> None:
            for n in range(start, 40, 3):
                await manager.update_memory(Change(id=ids[n], content=f"Coffee {n}."))

        async def fold_often() -> None:
            for _ in range(8):
                await fold(manager)

        await asyncio.gather(change(0), change(1), fold_often())

        assert_each_word_once(database)
        coffee = await manager.search_memories(Question(query="coffee", mode="text", limit=100))
        tea = await manager.search_memories(Question(query="tea", mode="text", limit=100))
        assert (coffee.count, tea.count) == (27, 13)


COUNT_TERMS = f"SELECT t.term, {COUNTED} AS memories FROM unnest(%(terms)s::integer[]) AS t(term)"


async def test_counts_of_words_are_true_folded_or_not(database: Database, low: None) -> None:
    async with managed(database.url) as manager:
        dice = random.Random(5)
        items = [{"content": " ".join(dice.sample(WORDS, 3)) + f" {n}"} for n in range(40)]
        ids = [result["memory_id"] for result in (await manager.create_memories(items)).results]
        for folds in (False, True):
            if folds:
                await fold(manager)
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


async def test_enough_new_memories_are_folded_by_themselves_once_nobody_writes(
    database: Database, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "QUIET_S", 0.05)
    monkeypatch.setattr(folding, "LARGE_INDEX_BYTES", 0)
    manager = MemoryManager(Settings(database_url=database.url, embedder="none:"))
    await manager.create_memories([{"content": f"Tea {n}."} for n in range(20)])

    async def folded() -> bool:
        return bool(database.value(IN_ROWS) < 4)

    await until(folded)

    async def idle() -> bool:
        return manager._words._task is None

    await until(idle)
    await manager.close()
    assert_each_word_once(database)


async def test_room_of_folded_rows_is_given_back(
    postgres: str, template: str, low: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_of(postgres, template) as database:
        async with managed(database.url) as manager:
            for start in range(0, 600, 200):
                await manager.create_memories(
                    [
                        {"content": f"Tea {n} {' '.join(f'w{n}x{k}' for k in range(40))}"}
                        for n in range(start, start + 200)
                    ]
                )
            await fold(manager)
            size = "SELECT pg_relation_size('memory_postings_pkey')"
            [(before,)] = database.as_login(size)
            monkeypatch.setattr(folding, "LARGE_INDEX_BYTES", before // 2)

            await folding.shrink(database.url)

            [(after,)] = database.as_login(size)
            assert after < before // 10
            assert_each_word_once(database)
