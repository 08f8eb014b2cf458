"""Metrics are made only where somebody asked for them, and hold names and durations alone."""

from __future__ import annotations

import importlib.util
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry import metrics

from helpers import Database, call, connected, refused, remember
from machine import pgengram
from pgengram.runtime.logs import measure

CANARY = "xylophonquince"
EXTRA = "opentelemetry.exporter.otlp.proto.http"


def has_extra() -> bool:
    try:
        return importlib.util.find_spec(EXTRA) is not None
    except ModuleNotFoundError:
        return False


with_extra = pytest.mark.skipif(not has_extra(), reason="needs pip install 'pgengram[otel]'")


class FakeHistogram:
    def __init__(self) -> None:
        self.recorded: list[tuple[float, dict[str, str]]] = []

    def create_histogram(self, name: str, **_: Any) -> FakeHistogram:
        assert name == "pgengram.call.duration"
        return self

    def record(self, value: float, attributes: dict[str, str]) -> None:
        self.recorded.append((value, attributes))


@pytest.fixture
def histogram(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHistogram]:
    made = FakeHistogram()
    monkeypatch.setattr(metrics, "get_meter", lambda _: made)
    for name in ("OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    measure.cache_clear()
    yield made
    measure.cache_clear()


def test_without_a_place_to_send_them_nothing_is_measured(histogram: FakeHistogram) -> None:
    measure()("search_memories", "ok", 0.1)

    assert histogram.recorded == []


def test_a_call_is_measured_by_its_name_and_how_it_ended(
    histogram: FakeHistogram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")

    measure()("search_memories", "error", 0.1)

    assert histogram.recorded == [(0.1, {"gen_ai.tool.name": "search_memories", "outcome": "error"})]


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """What a collector was sent, by path; servers that are started meanwhile know its address."""
    got: dict[str, bytes] = {}

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got[self.path] = got.get(self.path, b"") + self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield got
        server.shutdown()


@with_extra
async def test_a_collector_is_sent_what_was_called_and_how_long_it_took_and_no_text(
    database: Database, collected: dict[str, bytes]
) -> None:
    async with connected(database_url=database.url, embedder="none:") as client:
        await remember(client, f"The {CANARY} stands in the hall.", tags=[CANARY], metadata={"note": CANARY})
        await call(client, "search_memories", query=CANARY)
        await refused(client, "forget_memories", ids=[CANARY])
        await refused(client, "update_memory", id="0" * 32, content=CANARY)

    spans, measured = collected["/v1/traces"], collected["/v1/metrics"]
    assert b"tools/call search_memories" in spans
    assert b"pgengram.call.duration" in measured
    assert all(tool in measured for tool in (b"create_memory", b"search_memories", b"update_memory"))
    assert b"pgengram" in spans
    assert CANARY.encode() not in spans + measured


@with_extra
async def test_a_collector_that_never_answers_keeps_no_server_alive(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{mute.getsockname()[1]}")

        pgengram("call", "memory_stats", database_url=database.url, embedder="none:")
        async with connected(database_url=database.url, embedder="none:") as client:
            await remember(client, "Nobody listens.")

    assert database.value("SELECT count(*) FROM memories") == 1


@pytest.mark.skipif(has_extra(), reason="the extra is installed")
async def test_without_the_extra_a_server_goes_on_and_sends_nothing(
    database: Database, collected: dict[str, bytes]
) -> None:
    async with connected(database_url=database.url, embedder="none:") as client:
        await remember(client, "Not sent.")

    assert collected == {}
