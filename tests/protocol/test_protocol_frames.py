"""Every line gets its answer, and nothing but JSON-RPC ever leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protocol_peer import Peer, toy

from helpers import examples

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
DEEP = b"[" * 250 + b"]" * 250


@pytest.mark.parametrize(
    ("line", "code", "id_"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\\ud800"}}', PARSE_ERROR, 7),
        (b'{"jsonrpc":"2.0","method":"ping","params":{"id":4,"a":"\\ud800"},"id":"x"}', PARSE_ERROR, "x"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":' + DEEP + b"}}", PARSE_ERROR, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{', PARSE_ERROR, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":NaN}}', PARSE_ERROR, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":-Infinity}}', PARSE_ERROR, 7),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":7,"method":"ping"}', PARSE_ERROR, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\xff"}}', PARSE_ERROR, 7),
        (b'{"params":{"id":3,"b":{"id":4}},"broken', PARSE_ERROR, None),
        (b'"id":3', PARSE_ERROR, None),
        (b"", PARSE_ERROR, None),
        (b"   ", PARSE_ERROR, None),
        (b'{"id":7,"method":"ping"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST, None),
        (b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]', INVALID_REQUEST, None),
        (b"17", INVALID_REQUEST, None),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_line_that_is_no_frame_is_answered_with_its_id_when_it_can_be_told(
    shared: Peer, line: bytes, code: int, id_: object
) -> None:
    answer = shared.answer_to(line)

    assert (answer["error"]["code"], answer["id"]) == (code, id_)


def test_the_answer_to_a_broken_frame_does_not_quote_it(shared: Peer) -> None:
    answer = shared.answer_to(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"hunter2\\ud800"}}')

    assert "hunter2" not in json.dumps(answer)


def test_invalid_utf8_is_refused_and_never_replaced(shared: Peer) -> None:
    frame = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"keep","arguments":{"text":"caf\xe9"}}}'

    answer = shared.answer_to(frame)

    assert answer["error"]["code"] == PARSE_ERROR
    assert "UTF-8" in answer["error"]["message"]


@pytest.mark.parametrize(
    "text", ["café ∀ 😀", "a\u2028b\u2029c", "NaN and Infinity", "tab\tline\r\nnul\0", "e\u0301", "\ufeffx"]
)
def test_text_comes_back_as_it_was_sent(shared: Peer, text: str) -> None:
    result = shared.call("keep", {"text": text})

    assert result["structuredContent"]["text"] == text


def test_a_line_with_a_carriage_return_is_a_frame(shared: Peer) -> None:
    shared.raw(b'{"jsonrpc":"2.0","id":8,"method":"ping"}\r\n')

    assert shared.receive() == {"jsonrpc": "2.0", "id": 8, "result": {}}


def test_a_frame_may_come_in_pieces_and_several_in_one(shared: Peer) -> None:
    frame = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
    shared.raw((frame % 1)[:9])
    shared.raw((frame % 1)[9:] + frame % 2 + frame % 3)

    assert [shared.receive()["id"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("id_first", [True, False])
def test_a_line_over_eight_mebibytes_is_refused_and_the_next_is_served(shared: Peer, *, id_first: bool) -> None:
    big = b'"method":"ping","params":{"id":5,"text":"' + b"x" * 9 * 2**20 + b'"}'
    answer = shared.answer_to(b'{"id":9,' + big + b"}" if id_first else b"{" + big + b',"id":9}')

    assert (answer["error"]["code"], answer["id"]) == (INVALID_REQUEST, 9)
    assert "8,388,608" in answer["error"]["message"]


def test_an_endless_line_takes_no_memory(server: Peer) -> None:
    server.ask("ping")
    before = memory_kb(server.process.pid)
    for _ in range(100):
        server.raw(b"x" * 2**20)

    server.answer_to(b"")

    assert memory_kb(server.process.pid) - before < 40_000


@pytest.mark.parametrize(
    "element", [b"[]", b"{}", b"0", b"[" * 150 + b"]" * 150], ids=["list", "object", "number", "deep"]
)
def test_a_line_that_would_unfold_into_a_gigabyte_is_refused(server: Peer, element: bytes) -> None:
    before = memory_kb(server.process.pid)
    many = (element + b",") * (8 * 2**20 // (len(element) + 1) - 100)

    answer = server.answer_to(b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":[' + many + element + b"]}}")

    assert (answer["error"]["code"], answer["id"]) == (INVALID_REQUEST, 3)
    assert memory_kb(server.process.pid) - before < 60_000


def memory_kb(pid: int) -> int:
    """Return the most memory that a process has had."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))


@pytest.mark.shows(45)
def test_nothing_but_frames_reaches_the_client_however_loud_the_process_is(tmp_path: Path) -> None:
    with toy(tmp_path / "journal", TOY_LOUD="1", PYTHONWARNINGS="default") as peer:
        peer.hello()
        peer.call("make_noise")
        peer.stdin.close()
        assert peer.rest() == []
        assert peer.end() == 0

        for words in (b"a print before", b"bytes before", b"a print while", b"bytes while", b"a child"):
            assert words in peer.log


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
frames = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "id": st.integers() | st.text(max_size=5) | json_values,
        "method": st.sampled_from(["ping", "tools/call", "tools/list", "notifications/cancelled", "x"]) | json_values,
        "params": st.fixed_dictionaries({}, optional={"name": st.just("keep"), "arguments": json_values}) | json_values,
        "result": json_values,
    },
)
lines = st.binary(max_size=200).map(lambda b: b.replace(b"\n", b"")) | frames.map(lambda f: json.dumps(f).encode())


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(lines, max_size=8))
def test_no_lines_whatever_kill_the_server_or_make_it_say_anything_but_json_rpc(
    shared: Peer, sent: list[bytes]
) -> None:
    for line in sent:
        shared.raw(line + b"\n")
    shared.send(id="the end", method="ping")

    answer: dict[str, object] = {}
    while answer.get("id") != "the end":
        answer = shared.receive()
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) != ("error" in answer)
