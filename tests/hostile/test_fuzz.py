"""Whatever a client sends, the server answers, says nothing of its insides, and lives: short forms of benchmarks/fuzz.py."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fuzz import MOST_MB, one_round
from fuzzing import Fuzzed, fuzzed

from helpers import Database, database_of, examples, nightly

# Signs that mean something to SQL, to a pattern, to a query language, to JSON paths, to a format string, or to a shell.
SIGNS = [
    "'", "''", "';--", "' OR '1'='1", "') UNION SELECT NULL--", '"', '";', "\\", "\\'", "%", "_", "%%", "%s", "%(x)s", "$1", "$$", "$tag$", "{}",
    "{0}", "${x}", "`id`", "|", "&", "!", "<->", ":*", "( (", "a:b", '"a', "-", "--", "/*", "*/", "#", "?", "@?", "$.a[*]", "?(@)",
    "\\x27", "\\u0027", "%27", "E'\\n'", "\x1a", "\t'",
]  # fmt: skip
FORMS = ["{}", "tea {} tea", "{0}{0}", "{}tea", "tea{}"]
CORPUS = [form.replace("{0}", sign).replace("{}", sign) for sign in SIGNS for form in FORMS]
CORPUS = [*dict.fromkeys(CORPUS)][:200]
# Where a caller's text may reach a statement; each string goes through one of them, in the nightly run through five.
PLACES: list[tuple[str, str]] = [
    ("search_memories", '{"query": T}'), ("search_memories", '{"query": T, "mode": "text"}'),
    ("search_memories", '{"query": T, "mode": "substring"}'), ("search_memories", '{"project": T}'),
    ("search_memories", '{"tags": [T]}'), ("search_memories", '{"user": T, "sort": "relevance"}'),
    ("search_memories", '{"cursor": T}'), ("search_memories", '{"session_id": T, "count_only": true}'),
    ("recall_context", '{"context": T}'), ("get_memories", '{"ids": [T]}'), ("explore_memories", '{"ids": [T], "types": [T]}'),
    ("get_working_memories", '{"query": T}'), ("get_worldview", '{"category": T}'), ("memory_stats", '{"project": T}'),
    ("review_memories", '{"project": T}'), ("get_memory_clusters", '{"ids": [T]}'), ("update_memory", '{"id": T, "content": T}'),
    ("forget_memories", '{"ids": [T], "confirm_token": T}'), ("link_memories", '{"from_id": T, "to_ids": [T], "type": T}'),
    ("tidy_memories", '{"action": "merge", "confirm_token": T}'), ("record_belief", '{"id": T, "category": T}'),
    ("activate_cluster", '{"cluster_id": T, "context": T}'), ("consolidate_working_memory", '{"ids": [T], "content": "x"}'),
]  # fmt: skip


@pytest.fixture(scope="module")
def started(postgres: str, template: str) -> Iterator[tuple[Fuzzed, Database]]:
    with database_of(postgres, template) as db, fuzzed(db.url, embedder="none:") as server:
        yield server, db


def assert_unharmed(server: Fuzzed) -> None:
    assert server.faults == {}
    assert server.tracebacks == 0, server.peer.log.decode()[-3_000:]
    assert server.peer.process.poll() is None
    assert server.memory_mb() < MOST_MB


def test_no_call_of_any_tool_and_no_line_brings_a_fault_to_light(started: tuple[Fuzzed, Database]) -> None:
    server, _ = started

    server.call(*((name, {}) for name in server.tools))  # chance may leave one out
    one_round(server, 1)

    assert len(server.well) == len(server.tools)
    assert server.codes["ok"] > 50
    assert_unharmed(server)


@pytest.mark.parametrize("system", ["crow", *nightly("agi", "session-continuity", "skynet", "ownsona")])
def test_no_call_of_another_systems_tools_does_either(postgres: str, template: str, system: str) -> None:
    with database_of(postgres, template) as db, fuzzed(db.url, embedder="none:", compat=system) as server:
        one_round(server, 1, examples(30))

        assert_unharmed(server)


def test_two_hundred_strings_through_every_parameter_are_data(started: tuple[Fuzzed, Database]) -> None:
    server, db = started
    assert len(set(CORPUS)) == 200
    server.call(("create_memory", {"content": "Tea is kept in the tin."}))
    before = db.value("SELECT count(*) FROM memories")

    for number, text in enumerate(CORPUS):
        for step in range(min(5, examples(1))):
            tool, form = PLACES[(5 * number + step) % len(PLACES)]
            server.call((tool, json.loads(form.replace("T", json.dumps(text)))))

    assert db.value("SELECT count(*) FROM memories") == before
    assert_unharmed(server)


@pytest.mark.parametrize("size", [9, 20])
def test_a_line_of_many_megabytes_is_refused_and_costs_no_memory(started: tuple[Fuzzed, Database], size: int) -> None:
    server, _ = started
    before = server.memory_mb()
    text = b"x" * size * 2**20

    answer = server.peer.answer_to(
        b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"create_memory","arguments":{"content":"'
        + text
        + b'"}}}'
    )

    assert (answer["id"], answer["error"]["code"]) == (4, -32600)
    assert server.memory_mb() - before < 40
    assert_unharmed(server)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b'"content":"\\ud800"', "JSON"),
        (b'"content":"\xff\xfe"', "UTF-8"),
        (b'"content":"caf\xe9"', "UTF-8"),
        (b'"content":"x","metadata":{"a":' + b"[" * 250 + b"]" * 250 + b"}", "JSON"),
        (b'"content":"x","importance":NaN', "JSON"),
    ],
    ids=["half a surrogate pair", "no UTF-8", "Latin-1", "deep", "NaN"],
)
def test_a_call_that_is_no_json_in_utf8_is_refused_and_stores_nothing(
    started: tuple[Fuzzed, Database], frame: bytes, said: str
) -> None:
    server, db = started
    before = db.value("SELECT count(*) FROM memories")

    answer = server.peer.answer_to(
        b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"create_memory","arguments":{' + frame + b"}}}"
    )

    assert (answer["id"], answer["error"]["code"]) == (5, -32700)
    assert said in answer["error"]["message"]
    assert db.value("SELECT count(*) FROM memories") == before


def test_more_words_than_a_memory_may_have_are_refused_by_their_limit(started: tuple[Fuzzed, Database]) -> None:
    server, db = started
    before = db.value("SELECT count(*) FROM memories")
    words = " ".join(f"w{number}" for number in range(120_000))

    for arguments in ({"content": words}, {"content": "x", "metadata": {"words": words}}):
        outcome = server.peer.call("create_memory", arguments)
        assert outcome["isError"]
        assert "16,000" in str(outcome) or "65536" in str(outcome)

    assert db.value("SELECT count(*) FROM memories") == before
    most = " ".join(f"w{number:x}" for number in range(3_000))[:16_000]
    assert not server.peer.call("create_memory", {"content": most})["isError"]
    assert_unharmed(server)
