from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from threading import Event
from typing import Any

import numpy as np
import pytest

from listener import Reply, listening
from pgengram.embedders import embedder_from
from pgengram.embedders.openai import BATCH_CHARACTERS, BATCH_TEXTS, PART_CHARACTERS, TRIES, OpenAIEmbedder
from pgengram.errors import EmbeddingFailed, InvalidInput

KEY = "sk-secret-7f3a"
TEXT = "a very private sentence"


def numbers(text: str) -> list[float]:
    return [float(len(text)), float(sum(map(ord, text)) % 97), 1.0]


def embeddings(inputs: list[str]) -> dict[str, Any]:
    data = [{"index": index, "embedding": numbers(text)} for index, text in enumerate(inputs)]
    return {"data": data[::-1]}  # out of order, as the API allows


def good(inputs: list[str]) -> Reply:
    return 200, {}, embeddings(inputs)


@dataclass
class Server:
    """A real HTTP server; `answers` are used up first, then every request is answered well."""

    url: str = ""
    answers: list[Callable[[list[str]], Reply]] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)
    stop: Event = field(default_factory=Event)

    def will(self, status: int, body: object = b"", **headers: str) -> None:
        self.answers.append(lambda _: (status, {name.replace("_", "-"): text for name, text in headers.items()}, body))


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    def answer(asked: BaseHTTPRequestHandler, request: Any) -> Reply:
        state.seen.append(
            {"path": asked.path, "key": asked.headers.get("Authorization"), "at": time.monotonic()} | request
        )
        return (state.answers.pop(0) if state.answers else good)(request["input"])

    with listening(answer) as address:
        state.url = f"{address}/v1#some/model"
        yield state
        state.stop.set()


@pytest.fixture
async def embedder(server: Server) -> AsyncIterator[OpenAIEmbedder]:
    embedder = OpenAIEmbedder(server.url, KEY, pause_s=0.001)
    yield embedder
    await embedder.close()


async def failure(embedder: OpenAIEmbedder, text: str = TEXT) -> EmbeddingFailed:
    """Return the error that embedding ends with, after checking that it keeps secrets and helps."""
    with pytest.raises(EmbeddingFailed) as failed:
        await embedder.query(text)
    shown = json.dumps(failed.value.as_dict()) + repr(failed.value.__cause__)
    assert KEY not in shown
    assert text not in shown
    assert failed.value.hint
    return failed.value


async def test_a_question_is_sent_to_the_endpoint_and_comes_back_at_unit_length(
    server: Server, embedder: OpenAIEmbedder
) -> None:
    vector = await embedder.query("tea")

    expected = np.array(numbers("tea"))
    np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)
    assert vector.dtype == np.float32
    [request] = server.seen
    assert (request["path"], request["model"], request["input"]) == ("/v1/embeddings", "some/model", ["tea"])
    assert request["key"] == f"Bearer {KEY}"


async def test_without_a_key_none_is_sent(server: Server) -> None:
    embedder = OpenAIEmbedder(server.url)
    await embedder.query("tea")
    await embedder.close()

    assert server.seen[0]["key"] is None


async def test_many_texts_go_in_bounded_batches_and_come_back_in_order(
    server: Server, embedder: OpenAIEmbedder
) -> None:
    texts = [f"text {number} " + "x" * (number * 37 % 1_900) for number in range(3 * BATCH_TEXTS)]

    found = await embedder.passages(texts)

    for text, [row] in zip(texts, found, strict=True):
        np.testing.assert_allclose(row, np.array(numbers(text)) / np.linalg.norm(numbers(text)), atol=1e-6)
    assert len(server.seen) >= 3
    assert all(len(request["input"]) <= BATCH_TEXTS for request in server.seen)
    assert all(sum(map(len, request["input"])) <= BATCH_CHARACTERS for request in server.seen)


async def test_a_long_text_has_overlapping_parts(server: Server, embedder: OpenAIEmbedder) -> None:
    text = "".join(f"{number:04d} " for number in range(1_500))

    [short, long, last] = await embedder.passages(["tea", text, "milk"])
    question = await embedder.query(text)

    sent = server.seen[0]["input"]
    assert [len(each) for each in (short, long, last)] == [1, len(sent) - 2, 1]
    assert len(long) > 2
    assert all(len(part) <= PART_CHARACTERS for part in sent)
    assert all(after[:100] in before for before, after in pairwise(sent[1:-1]))
    assert np.linalg.norm(question) == pytest.approx(1, abs=1e-5)


async def test_no_texts_make_no_request(server: Server, embedder: OpenAIEmbedder) -> None:
    assert await embedder.passages([]) == []
    assert server.seen == []


async def test_dimensions_are_asked_for_once(server: Server, embedder: OpenAIEmbedder) -> None:
    assert embedder.describe()["dimensions"] is None
    assert [await embedder.dimensions(), await embedder.dimensions()] == [3, 3]
    assert len(server.seen) == 1


async def test_a_busy_server_gets_the_pause_it_asks_for(server: Server, embedder: OpenAIEmbedder) -> None:
    server.will(429, Retry_After="1")

    await embedder.query("tea")

    first, second = (request["at"] for request in server.seen)
    assert second - first >= 1


async def test_a_pause_can_be_asked_for_by_date(server: Server, embedder: OpenAIEmbedder) -> None:
    named = (datetime.now(UTC) + timedelta(seconds=2)).replace(microsecond=0)
    until = time.monotonic() + (named - datetime.now(UTC)).total_seconds()
    server.will(503, Retry_After=format_datetime(named))

    await embedder.query("tea")

    assert server.seen[1]["at"] >= until - 0.01, "not before the moment that the server named"


async def test_a_pause_that_nobody_waits_for_ends_it(server: Server, embedder: OpenAIEmbedder) -> None:
    server.will(429, Retry_After="3600")

    assert "429" in (await failure(embedder)).message
    assert len(server.seen) == 1


@pytest.mark.parametrize("header", ["soon", "-1", ""])
async def test_a_retry_after_that_says_nothing_is_ignored(
    server: Server, embedder: OpenAIEmbedder, header: str
) -> None:
    server.will(429, Retry_After=header)

    assert (await embedder.query("tea")).shape == (3,)


async def test_a_server_that_keeps_failing_is_given_up(server: Server, embedder: OpenAIEmbedder) -> None:
    for _ in range(TRIES):
        server.will(500, {"error": f"{TEXT} {KEY}"})

    assert "500" in (await failure(embedder)).message
    assert len(server.seen) == TRIES


async def test_a_server_that_is_not_there_is_named(server: Server) -> None:
    embedder = OpenAIEmbedder("http://127.0.0.1:9/v1#model", KEY, pause_s=0.001)

    assert "127.0.0.1" in (await failure(embedder)).message
    await embedder.close()


async def test_a_server_that_does_not_answer_in_time_is_given_up(server: Server) -> None:
    def silent(inputs: list[str]) -> Reply:
        server.stop.wait(30)
        return good(inputs)

    server.answers += [silent] * TRIES
    embedder = OpenAIEmbedder(server.url, KEY, timeout_s=0.05, pause_s=0.001)

    assert "Timeout" in (await failure(embedder)).message
    await embedder.close()


async def test_a_slow_try_is_followed_by_a_good_one(server: Server) -> None:
    def silent(inputs: list[str]) -> Reply:
        server.stop.wait(30)
        return good(inputs)

    server.answers.append(silent)
    embedder = OpenAIEmbedder(server.url, KEY, timeout_s=2, pause_s=0.001)

    assert (await embedder.query("tea")).shape == (3,)
    await embedder.close()


@pytest.mark.parametrize(
    ("status", "said"), [(401, "API_KEY"), (403, "API_KEY"), (404, "model"), (400, "server"), (307, "server")]
)
async def test_a_refusal_is_final_and_says_what_to_check(
    server: Server, embedder: OpenAIEmbedder, status: int, said: str
) -> None:
    server.will(status, {"error": f"{TEXT} {KEY}"}, Location="/elsewhere")

    failed = await failure(embedder)

    assert str(status) in failed.message
    assert said in failed.hint
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"data": []},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]},
        {"data": [{"index": 1, "embedding": [1.0]}]},
        {"data": [{"embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": []}]},
        {"data": [{"index": 0, "embedding": 1.0}]},
        {"data": [{"index": 0, "embedding": "AACAPw=="}]},
        {"data": [{"index": 0, "embedding": [[1.0]]}]},
        {"data": None},
        {"embedding": [1.0]},
        [],
        b"<html>welcome</html>",
        b"\xff",
        b"",
    ],
)
async def test_an_answer_that_is_not_one_vector_for_each_text_is_refused(
    server: Server, embedder: OpenAIEmbedder, body: object
) -> None:
    server.will(200, body)

    await failure(embedder)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "null", "0"])
async def test_a_vector_without_direction_is_refused(server: Server, embedder: OpenAIEmbedder, number: str) -> None:
    server.will(200, b'{"data": [{"index": 0, "embedding": [%s, 0]}]}' % number.encode())

    assert "zero or not finite" in (await failure(embedder)).message


async def test_vectors_of_different_length_in_one_answer_are_refused(server: Server, embedder: OpenAIEmbedder) -> None:
    server.will(200, {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]})

    with pytest.raises(EmbeddingFailed):
        await embedder.passages(["tea", "milk"])


async def test_dimensions_that_change_are_refused(server: Server, embedder: OpenAIEmbedder) -> None:
    await embedder.query("tea")
    server.will(200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]})

    assert "2 dimensions" in (await failure(embedder)).message


async def test_texts_at_the_same_time_share_the_client(server: Server, embedder: OpenAIEmbedder) -> None:
    found = await asyncio.gather(*(embedder.query("x" * length) for length in range(1, 9)))

    assert [vector.shape for vector in found] == [(3,)] * 8


def test_the_name_is_host_and_model_without_the_key() -> None:
    embedder = embedder_from("openai+https://api.example.com:8443/v1/#text-embedding-3-small", KEY)

    assert embedder is not None
    assert embedder.name == "openai:api.example.com/text-embedding-3-small"
    assert embedder.describe()["endpoint"] == "https://api.example.com:8443/v1/embeddings"
    assert KEY not in str(embedder.describe())


def test_none_is_no_embedder() -> None:
    assert embedder_from("none:") is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "builtin",
        "builtin:large",
        "none:x",
        "onnx:",
        "openai:text-embedding-3-small",
        "openai+ftp://host/v1#m",
        "openai+http://host/v1",
        "openai+http:///v1#m",
        "openai+http://host:port/v1#m",
        "openai+http://[::1/v1#m",
        "openai+http://me:hidden@host/v1#m",
        "openai+http://host/v1?key=hidden#m",
        "https://host/v1#m",
    ],
)
def test_a_url_that_names_no_embedder_is_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        embedder_from(url)

    assert "openai+http" in refused.value.hint
    assert "hidden" not in str(refused.value.as_dict())


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        embedder_from("openai+http://host/v1#m", key)

    assert key not in str(refused.value.as_dict())
