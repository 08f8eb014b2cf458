"""Moving a store to another embedding model while it is in use."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from helpers import (
    PATIENCE_S,
    Database,
    call,
    connected,
    database_of,
    environment,
    found,
    read,
    refused,
    remember,
    until,
)
from listener import Reply, listening
from machine import answered, pgengram
from pgengram import Memory
from pgengram.embedders import embedder_from
from pgengram.embedders.builtin import ENGLISH, HERE, BuiltinEmbedder
from pgengram.embedders.builtin import NAME as BUILTIN_NAME
from pgengram.settings import Settings
from pgengram.store.connection.database import Database as Opened
from pgengram.store.maintenance import index_state, indexes, reembedding

DIMENSIONS = 96
QUESTIONS = ("Where is the harbour?", "who bakes bread", "What colour is the third door?")
TEXTS = [
    "The harbour lies north of the old town.",
    "Ada bakes the bread for the whole street.",
    *(f"Door number {number} is painted in colour {number * 7}." for number in range(38)),
]


@dataclass
class Embedding:
    """A real HTTP server that embeds by the words of a text; it can be stopped in the middle."""

    url: str = ""
    texts: list[str] = field(default_factory=list)
    open: Event = field(default_factory=Event)
    let_through: int = 0  # requests that are answered although it is not open
    waiting: int = 0  # requests that are not answered yet

    @property
    def setting(self) -> str:
        return f"openai+{self.url}"

    def close_after(self, requests: int) -> None:
        self.let_through = requests
        self.open.clear()

    def answer(self, texts: list[str]) -> dict[str, Any]:
        self.texts += texts
        return {"data": [{"index": place, "embedding": by_words(text)} for place, text in enumerate(texts)]}


def by_words(text: str) -> list[float]:
    numbers = [0.01] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        numbers[hashlib.sha256(word.encode()).digest()[0] % DIMENSIONS] += 1.0
    return numbers


@pytest.fixture
def embedding() -> Iterator[Embedding]:
    state = Embedding()
    state.open.set()

    def answer(_: object, request: Any) -> Reply:
        if not state.open.is_set() and state.let_through > 0 and request["input"] != ["dimensions"]:
            state.let_through -= 1
        elif request["input"] != ["dimensions"]:
            state.waiting += 1
            state.open.wait()
            state.waiting -= 1
        return 200, {}, state.answer(request["input"])

    with listening(answer) as address:
        state.url = f"{address}/v1#words"
        yield state
        state.open.set()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The built-in model's files with another prompt: another model of the same length."""
    made = shutil.copytree(HERE / ENGLISH, tmp_path / "another model")
    (made / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "query: ", "document": "passage: "}})
    )
    return Path(made)


@asynccontextmanager
async def moving(db: Database, *arguments: str) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run `pgengram reembed` beside the test."""
    process = await asyncio.to_thread(
        subprocess.Popen[bytes], [sys.executable, "-m", "pgengram", "reembed", *arguments, "--json"],
        env=environment(database_url=db.url), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


async def ended(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """Wait for a move to end well, and return what it told, line by line."""
    outcome, complaints = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
    assert process.returncode == 0, complaints.decode()
    return [json.loads(line) for line in outcome.splitlines()]


def states(db: Database) -> dict[str, str]:
    return dict(db.as_login("SELECT name, state FROM embedding_models"))


def vectors(db: Database) -> dict[str, int]:
    """How many memories have vectors, by the name of the model."""
    rows = db.as_login(
        "SELECT m.name, count(DISTINCT (v.namespace_id, v.memory_id)) FROM memory_vectors v JOIN embedding_models m ON m.id = v.model_id GROUP BY 1"
    )
    return dict(rows)


def texts_of(db: Database) -> set[str]:
    return {text for (text,) in db.as_login("SELECT content FROM memories")}


async def filled(client: Any) -> None:
    await call(client, "create_memories", items=[{"content": text} for text in TEXTS])


async def answers(client: Any) -> list[list[str]]:
    return [await found(client, question, limit=5) for question in QUESTIONS]


@pytest.mark.shows(3)
async def test_a_store_moves_to_another_model_while_its_searches_answer_as_before(
    database: Database, embedding: Embedding
) -> None:
    new = f"openai:127.0.0.1/{embedding.url.partition('#')[2]}"
    async with connected(database_url=database.url) as client:
        await filled(client)
        before = await answers(client)
        embedding.close_after(1)

        async with moving(database, embedding.setting) as process:
            await until(lambda: asyncio.sleep(0, len(embedding.texts) > 30))
            assert await answers(client) == before
            assert states(database) == {BUILTIN_NAME: "active", new: "filling"}
            written = await remember(client, "The lighthouse supervisor is called Oskar.")
            assert await found(client, "lighthouse supervisor", limit=1) == [written]
            embedding.open.set()
            outcome = await ended(process)

        assert states(database) == {BUILTIN_NAME: "retired", new: "active"}
        assert vectors(database) == {new: len(TEXTS) + 1}
        assert [line["step"] for line in outcome][-1] == "moved"
        assert outcome[-1] == {"step": "moved", "model": new, "embedded": 41, "switched": True, "removed": 41}
        assert {"embedding", "indexing", "switching", "removing"} <= {line["step"] for line in outcome}

        embedding.texts.clear()
        [first, *_] = await found(client, "lighthouse supervisor Oskar", mode="semantic", limit=3)
        assert first == written
        assert embedding.texts[-1] == "lighthouse supervisor Oskar"  # the running server has noticed
        later = await remember(client, "A memory that came after the switch.")
        assert (await read(client, later))["embedded"] is True
        assert vectors(database) == {new: len(TEXTS) + 2}


async def test_no_search_misses_anything_from_the_beginning_to_the_end_of_a_move(
    database: Database, folder: Path
) -> None:
    async with connected(database_url=database.url) as client:
        await filled(client)
        over = asyncio.Event()
        seen: list[tuple[str, list[float | None]]] = []

        async def search() -> None:
            while not over.is_set():
                answer = await call(client, "search_memories", query=QUESTIONS[0], limit=5)
                seen.append(
                    (answer["results"][0]["content"], [hit["why"].get("similarity") for hit in answer["results"]])
                )

        searching = [asyncio.create_task(search()) for _ in range(3)]
        async with moving(database, f"onnx:{folder}") as process:
            await ended(process)
        over.set()
        await asyncio.gather(*searching)

    assert list(vectors(database).values()) == [len(TEXTS)]
    assert BUILTIN_NAME not in vectors(database)
    assert len(seen) > 10
    assert {content for content, _ in seen} == {TEXTS[0]}
    assert all(len(similarities) == 5 and None not in similarities for _, similarities in seen)


async def test_an_ordinary_login_that_owns_its_database_can_move_it(
    postgres: str, template: str, embedding: Embedding
) -> None:
    name = f"pgengram_test_{uuid4().hex[:8]}"
    with database_of(postgres) as db:
        db.as_login(
            "CREATE EXTENSION IF NOT EXISTS vector",
            f"CREATE ROLE {name} LOGIN PASSWORD 'only-for-this-test'",
            f"GRANT pgengram_app TO {name}",
            f"ALTER DATABASE {conninfo_to_dict(db.url)['dbname']} OWNER TO {name}",
            f"ALTER SCHEMA public OWNER TO {name}",
        )
        try:
            url = make_conninfo(db.url, user=name, password="only-for-this-test")
            for namespace in ("default", "other"):
                async with connected(database_url=url, namespace=namespace, toolsets="all") as client:
                    ids = [await remember(client, text) for text in TEXTS[:3]]
                    await call(client, "create_memory_cluster", name="Harbour", type="theme", memory_ids=ids)

            outcome = answered_lines("reembed", embedding.setting, "--json", database_url=url)

            assert (outcome[-1]["embedded"], outcome[-1]["removed"], outcome[-1]["switched"]) == (6, 6, True)
            assert list(vectors(db).values()) == [6]
            assert {dimensions for _, dimensions in clusters_of(db)} == {DIMENSIONS}
        finally:
            db.as_login(f"REASSIGN OWNED BY {name} TO CURRENT_USER", f"DROP OWNED BY {name}", f"DROP ROLE {name}")


async def test_every_namespace_and_every_status_moves(database: Database, folder: Path) -> None:
    for namespace in ("default", "other"):
        async with connected(database_url=database.url, namespace=namespace) as client:
            ids = [await remember(client, f"{text} In {namespace}.") for text in TEXTS[:3]]
            await call(client, "forget_memories", ids=ids[:1])
            await call(client, "update_memory", id=ids[1], status="archived")

    outcome = answered_lines("reembed", f"onnx:{folder}", "--json", database_url=database.url)

    assert outcome[-1]["embedded"] == 6
    assert list(vectors(database).values()) == [6]


def answered_lines(*arguments: str, **settings: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in pgengram(*arguments, **settings).stdout.splitlines()]


@pytest.mark.shows(3)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
async def test_a_move_that_is_killed_goes_on_where_it_was(database: Database, embedding: Embedding) -> None:
    async with connected(database_url=database.url) as client:
        await filled(client)
        before = await answers(client)
        embedding.close_after(1)
        async with moving(database, embedding.setting) as process:
            await until(lambda: asyncio.sleep(0, any(model != BUILTIN_NAME for model in vectors(database))))
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait, PATIENCE_S)
        finished = set(TEXTS) - missing(database)
        done = len(finished)
        assert 0 < done < len(TEXTS)
        assert await answers(client) == before
        assert (
            "of 40 memories have its vectors"
            in answered("stats", "--json", database_url=database.url)["vectors"]["move"]
        )
        seen = [
            finding for finding in answered("doctor", "--json", database_url=database.url) if "Move" in finding["what"]
        ]
        assert f"{done} of" in seen[0]["seen"]

        embedding.texts.clear()
        embedding.open.set()
        async with moving(database) as process:  # the embedder need not be named again
            outcome = await ended(process)

    assert outcome[-1]["embedded"] == len(TEXTS) - done
    assert finished.isdisjoint(embedding.texts)


def missing(db: Database) -> set[str]:
    """The texts that have no vector of the model that is being filled."""
    rows = db.as_login(
        """SELECT content FROM memories m WHERE NOT EXISTS (SELECT FROM memory_vectors v JOIN embedding_models e ON e.id = v.model_id
           WHERE v.memory_id = m.id AND e.state = 'filling')"""
    )
    return {text for (text,) in rows}


@pytest.mark.nightly
async def test_a_text_that_changes_during_the_move_is_found_by_its_new_words_afterwards(
    database: Database, embedding: Embedding
) -> None:
    async with connected(database_url=database.url) as client:
        await filled(client)
        [first, *_] = await found(client, "harbour", limit=1)
        embedding.close_after(0)
        async with moving(database, embedding.setting) as process:
            await until(lambda: asyncio.sleep(0, "filling" in states(database).values()))
            await call(client, "update_memory", id=first, content="A zebra crossing was painted at noon.")
            embedding.open.set()
            await ended(process)

        [hit, *_] = (await call(client, "search_memories", query="zebra crossing painted noon", mode="semantic"))[
            "results"
        ]

    assert hit["id"] == first
    assert hit["why"]["similarity"] > 0.5


async def test_a_call_that_embedded_before_the_switch_and_stores_after_it_embeds_again(
    database: Database, embedding: Embedding
) -> None:
    async with connected(database_url=database.url, embedder=embedding.setting) as client:
        await filled(client)
        embedding.close_after(0)
        storing = asyncio.create_task(remember(client, "Told at the very moment of the switch."))
        await until(lambda: asyncio.sleep(0, embedding.waiting))  # for its vector
        async with moving(database, "builtin:") as process:
            await ended(process)
        embedding.open.set()
        id_ = await storing

        assert vectors(database) == {BUILTIN_NAME: len(TEXTS) + 1}
        assert (await found(client, "exactly when the change took place", mode="semantic"))[0] == id_


async def test_a_program_s_call_that_embedded_before_the_switch_embeds_again(
    database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = embedder_from(f"onnx:{folder}")
    assert other is not None
    embed = BuiltinEmbedder.passages
    async with Memory(Settings(database_url=database.url)) as memory:
        await memory.add("The shed is painted red.")

        async def embed_then_switch(self: BuiltinEmbedder, texts: Sequence[str]) -> Any:
            made = await embed(self, texts)
            monkeypatch.undo()
            await reembedding.reembed_store(
                memory._engine._host.store.database, other, f"onnx:{folder}", lambda _: None
            )
            return made

        monkeypatch.setattr(BuiltinEmbedder, "passages", embed_then_switch)
        await memory.add("Told at the very moment of the switch.")

    assert vectors(database) == {other.name: 2}


async def test_a_write_that_waits_for_the_switch_does_not_slip_in_old_vectors(database: Database, folder: Path) -> None:
    other = embedder_from(f"onnx:{folder}")
    assert other is not None
    async with connected(database_url=database.url) as client:
        changed = await remember(client, "A text that will change.")
        with psycopg.connect(database.url) as switch:
            switch.execute(
                "INSERT INTO embedding_models (name, dimensions, embedder) VALUES (%s, 384, %s)",
                [other.name, f"onnx:{folder}"],
            )
            switch.execute(reembedding.LOCK_VECTORS)
            storing = asyncio.create_task(remember(client, "Told while nobody may write."))
            changing = asyncio.create_task(
                call(client, "update_memory", id=changed, content="Changed while nobody may write.")
            )
            await until(lambda: waiting_for(database, 2))
            switch.execute("UPDATE embedding_models SET state = 'retired' WHERE state = 'active'")
            switch.execute("UPDATE embedding_models SET state = 'active' WHERE name = %s", [other.name])
            switch.execute("REINDEX INDEX embedding_models_active")
        await storing
        await changing
    await other.close()

    assert vectors(database) == {other.name: 2}


async def waiting_for(db: Database, writers: int) -> bool:
    [(count,)] = db.as_login(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'memory_vectors'::regclass"
    )
    return bool(count >= writers)


@pytest.mark.nightly
async def test_old_vectors_that_a_killed_move_left_behind_go_with_the_next(database: Database, folder: Path) -> None:
    async with connected(database_url=database.url) as client:
        await filled(client)
    [(old,)] = database.as_login("SELECT id FROM embedding_models")
    pgengram("reembed", f"onnx:{folder}", database_url=database.url)
    database.as_login(
        f"INSERT INTO memory_vectors SELECT namespace_id, memory_id, {old}, part, embedding FROM memory_vectors LIMIT 7"
    )

    outcome = answered_lines("reembed", f"onnx:{folder}", "--json", database_url=database.url)

    assert (outcome[-1]["embedded"], outcome[-1]["switched"], outcome[-1]["removed"]) == (0, False, 7)
    assert list(vectors(database).values()) == [len(TEXTS)]


async def test_a_move_can_be_given_up(database: Database, embedding: Embedding) -> None:
    async with connected(database_url=database.url) as client:
        await filled(client)
        before = await answers(client)
        embedding.close_after(1)
        async with moving(database, embedding.setting) as process:
            await until(lambda: asyncio.sleep(0, len(vectors(database)) == 2))
            giving_up = asyncio.create_task(
                asyncio.to_thread(pgengram, "reembed", "--cancel", database_url=database.url)
            )
            await until(lambda: asyncio.sleep(0, "filling" not in states(database).values()))
            embedding.open.set()
            await giving_up
            _, complaint = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)

        assert process.returncode == 1
        assert "cancelled" in complaint.decode()
        assert vectors(database) == {BUILTIN_NAME: len(TEXTS)}
        assert await answers(client) == before

    ended = pgengram("reembed", "--cancel", expect=1, database_url=database.url)
    assert "No move" in ended.stderr


async def test_only_one_move_is_made_at_a_time(database: Database, embedding: Embedding, folder: Path) -> None:
    async with connected(database_url=database.url) as client:
        await filled(client)
    embedding.close_after(1)
    async with moving(database, embedding.setting):
        await until(lambda: asyncio.sleep(0, len(vectors(database)) == 2))
        second = await asyncio.to_thread(pgengram, "reembed", embedding.setting, expect=1, database_url=database.url)
        assert "Another process" in second.stderr
    other = pgengram("reembed", f"onnx:{folder}", expect=1, database_url=database.url)
    assert "is being moved to" in other.stderr
    assert "--cancel" in other.stderr


async def test_a_server_that_is_set_to_another_embedder_uses_the_store_s_and_says_so(
    database: Database, folder: Path
) -> None:
    async with connected(database_url=database.url, embedder=f"onnx:{folder}") as client:
        await filled(client)
    before = vectors(database)

    async with connected(database_url=database.url) as client:
        id_ = await remember(client, "Stored by a server that is set to the built-in model.")
        assert (await found(client, "server with another setting", mode="semantic"))[0] == id_

    assert list(vectors(database).values()) == [before.popitem()[1] + 1]
    [seen] = [
        finding["seen"]
        for finding in answered("doctor", "--json", database_url=database.url)
        if finding["what"] == "Embedder"
    ]
    assert f"PGENGRAM_EMBEDDER names {BUILTIN_NAME}" in seen
    assert "PGENGRAM_EMBEDDER" in answered("stats", "--json", database_url=database.url)["vectors"]["setting"]


@pytest.mark.nightly
async def test_none_always_means_none(database: Database) -> None:
    async with connected(database_url=database.url) as client:
        await filled(client)
    async with connected(database_url=database.url, embedder="none:") as client:
        answer = await call(client, "create_memory", content="Stored without a vector.")
        assert answer["memory"]["embedded"] is False
        assert (await call(client, "search_memories", query="harbour"))["degraded"] is True
    assert vectors(database) == {BUILTIN_NAME: len(TEXTS)}

    outcome = answered_lines("reembed", "builtin:", "--json", database_url=database.url)  # what has none gets its own

    assert outcome[-1] == {"step": "moved", "model": BUILTIN_NAME, "embedded": 1, "switched": False, "removed": 0}
    assert vectors(database) == {BUILTIN_NAME: len(TEXTS) + 1}


async def test_an_embedder_that_is_gone_is_named_with_what_to_do(database: Database, folder: Path) -> None:
    async with connected(database_url=database.url, embedder=f"onnx:{folder}") as client:
        await filled(client)
    shutil.rmtree(folder)

    async with connected(database_url=database.url) as client:
        error = await refused(client, "search_memories", query="harbour")
        assert error["code"] == "DATABASE_ERROR"
        assert str(folder) in error["message"]
        assert "pgengram reembed" in error["hint"]
        assert await found(client, "harbour", mode="text")  # words need no vectors

        pgengram("reembed", "builtin:", database_url=database.url)

        assert await answers(client)
    assert vectors(database) == {BUILTIN_NAME: len(TEXTS)}


async def test_a_folder_that_was_moved_is_the_same_model(database: Database, folder: Path, tmp_path: Path) -> None:
    async with connected(database_url=database.url, embedder=f"onnx:{folder}") as client:
        await filled(client)
    elsewhere = Path(shutil.move(folder, tmp_path / "elsewhere"))

    async with connected(database_url=database.url, embedder=f"onnx:{elsewhere}") as client:
        assert await answers(client)

    assert database.as_login("SELECT embedder FROM embedding_models") == [(f"onnx:{elsewhere}",)]


async def test_the_new_model_s_index_is_there_before_searches_need_it(
    database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(database_url=database.url) as client:
        await filled(client)
    for module in (indexes, index_state):
        monkeypatch.setattr(module, "FIRST_BUILD_ROWS", 10)
    [(old,)] = database.as_login("SELECT id FROM embedding_models")
    await indexes.maintain(database.url, old, 384)
    seen: dict[str, list[str]] = {}

    def note(at: reembedding.Progress) -> None:
        seen[at.step] = [name for (name,) in database.as_login(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'memory_vectors'::regclass AND NOT indisprimary"
        )]  # fmt: skip

    embedder = embedder_from(f"onnx:{folder}")
    assert embedder is not None
    opened = Opened(database.url)
    await opened.open()
    await reembedding.reembed_store(opened, embedder, f"onnx:{folder}", note)
    await opened.close()
    await embedder.close()

    [(new,)] = database.as_login("SELECT id FROM embedding_models WHERE state = 'active'")
    assert sorted(seen["switching"]) == sorted([indexes.index_name(old), indexes.index_name(new)])
    assert seen["done"] == [indexes.index_name(new)]


async def test_clusters_move_with_their_members(database: Database, embedding: Embedding) -> None:
    async with connected(database_url=database.url, toolsets="all") as client:
        ids = [await remember(client, text) for text in TEXTS[:3]]
        await call(client, "create_memory_cluster", name="Harbour", type="theme", memory_ids=ids)
        before = clusters_of(database)
        async with moving(database, embedding.setting) as process:
            await ended(process)

    [(model, dimensions)] = clusters_of(database)
    assert (model, dimensions) != before[0]
    assert states(database)[model] == "active"
    assert dimensions == DIMENSIONS


def clusters_of(db: Database) -> list[tuple[str, int]]:
    """The model of each cluster's centroid, and its length."""
    return [
        (name, dimensions)
        for name, dimensions in db.as_login(
            "SELECT m.name, vector_dims(c.centroid) FROM memory_clusters c JOIN embedding_models m ON m.id = c.model_id"
        )
    ]


def test_what_cannot_be_moved_to_is_refused(database: Database) -> None:
    for arguments, said in (
        (["none:"], "makes no vectors"),
        ([], "Name the embedder"),
        (["onnx:/no/such/folder"], "no folder"),
    ):
        assert said in pgengram("reembed", *arguments, expect=2, database_url=database.url).stderr
