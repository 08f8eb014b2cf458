"""What a tool call accepts, refuses and answers."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from protocol_peer import PATIENCE_S, Peer, error_of, said, toy

from helpers import examples


def test_every_parameter_is_described(shared: Peer) -> None:
    for tool in shared.ask("tools/list")["result"]["tools"]:
        assert all(parameter["description"] for parameter in tool["inputSchema"]["properties"].values())


def test_a_parameter_that_may_be_left_out_tells_its_default_unless_that_is_nothing(shared: Peer) -> None:
    keep = shared.ask("tools/list")["result"]["tools"][0]["inputSchema"]

    assert keep["required"] == ["text"]
    assert {name: p["default"] for name, p in keep["properties"].items() if "default" in p} == {"weight": 0.5}


def test_schemas_are_flat_and_carry_no_titles(shared: Peer) -> None:
    def walk(node: Any, *, names: bool = False) -> None:
        if isinstance(node, dict):
            refused = {"$ref", "$defs", "oneOf", "anyOf", "allOf", "not", "title", "const"}
            assert names or not refused & node.keys(), node
            for key, value in node.items():
                walk(value, names=key == "properties")
        elif isinstance(node, list):
            for value in node:
                walk(value)

    for tool in shared.ask("tools/list")["result"]["tools"]:
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            walk(schema)
            assert schema["type"] == "object"
            Draft202012Validator.check_schema(schema)


def test_the_list_is_the_same_each_time_and_small(shared: Peer) -> None:
    first, second = (shared.ask("tools/list")["result"] for _ in range(2))

    assert first == second
    assert [tool["name"] for tool in first["tools"]] == ["keep", "keep_many", "wait", "get_stuck", "fail", "make_noise"]
    assert len(json.dumps(first, separators=(",", ":"))) <= 14_000


def test_a_tool_tells_its_title_and_what_it_does_to_the_store(shared: Peer) -> None:
    tools = {tool["name"]: tool for tool in shared.ask("tools/list")["result"]["tools"]}

    assert tools["keep"]["title"] == "Keep a note"
    assert tools["keep"]["description"] == "Keep one note and say how it was understood."
    hints = [[tools[name]["annotations"].get(hint) for hint in HINTS] for name in ("wait", "keep", "fail")]
    assert hints == [[True, None, None, False], [False, False, True, False], [False, True, True, False]]


HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@pytest.mark.shows(45)
@pytest.mark.parametrize(
    "params", [{"name": "wait"}, *({"name": "wait", "arguments": empty} for empty in (None, {}, [], "", " ", "{}"))]
)
def test_arguments_may_be_left_out(shared: Peer, params: dict[str, Any]) -> None:
    assert shared.ask("tools/call", params)["result"]["structuredContent"] == {"ok": True, "message": "waited"}


def test_arguments_may_be_the_text_of_an_object(shared: Peer) -> None:
    result = shared.call("keep", ' {"text": "x \\u00fc \\"y\\"", "weight": "0.25"} ')

    assert result["structuredContent"] == {"ok": True, "text": 'x ü "y"', "weight": 0.25, "words": [], "detail": {}}


@pytest.mark.parametrize("given", [["tea"], [{}], "tea", '{"text": "x', '{"weight": NaN}', "[1]", 5, True], ids=repr)
def test_other_arguments_than_an_object_are_refused_with_what_to_send(shared: Peer, given: Any) -> None:
    error = shared.ask("tools/call", {"name": "keep", "arguments": given})["error"]

    assert error["code"] == -32602
    assert "must be a JSON object" in error["message"]
    assert "tea" not in error["message"]


def test_null_means_left_out(shared: Peer) -> None:
    result = shared.call("keep", {"text": "x", "weight": None, "words": None, "kind": None})

    assert result["structuredContent"] == {"ok": True, "text": "x", "weight": 0.5, "words": [], "detail": {}}


def test_null_means_left_out_inside_a_list_too(shared: Peer) -> None:
    result = shared.call("keep_many", {"notes": [{"text": "x", "weight": None, "when": None}]})

    assert result["structuredContent"]["first"] == {"text": "x", "weight": 0.5, "words": []}


def test_null_for_what_is_required_is_refused(shared: Peer) -> None:
    assert "text must be text of 1 to 100,000 characters" in error_of(shared.call("keep", {"text": None}))["message"]


def test_null_inside_a_free_object_is_kept(shared: Peer) -> None:
    assert shared.call("keep", {"text": "x", "detail": {"a": None}})["structuredContent"]["detail"] == {"a": None}


def test_an_unknown_argument_is_refused_with_the_nearest_known_name(shared: Peer) -> None:
    error = error_of(shared.call("keep", {"text": "x", "word": ["a"]}))

    assert error["code"] == "INVALID_INPUT"
    assert error["message"] == "unknown argument 'word'; did you mean 'words'?"
    assert error["hint"]


def test_an_unknown_field_inside_a_list_is_refused_with_its_place(shared: Peer) -> None:
    error = error_of(shared.call("keep_many", {"notes": [{"text": "x"}, {"text": "y", "wieght": 1}]}))

    assert error["message"] == "unknown field 'wieght' in notes[1]; did you mean 'weight'?"


@pytest.mark.shows(4, 5)
def test_a_refusal_says_where_and_what_is_allowed_but_not_what_was_sent(shared: Peer) -> None:
    secret = "hunter2-hunter2"
    wrong = {"weight": secret, "words": [secret, 3, secret, secret], "kind": secret, "when": secret, "detail": [secret]}

    result = shared.call("keep", wrong)

    assert error_of(result)["message"].split("; ") == [
        "text is required: text of 1 to 100,000 characters",
        "weight must be a number of at least 0 and at most 1",
        "words must be a list of at most 3 items, each text",
        "detail must be an object",
        "kind must be one of fact, plan",
    ]
    assert "hunter2" not in json.dumps(result)
    assert "pydantic" not in json.dumps(result)


@pytest.mark.parametrize("text", ["null", "true", "17", '{"a":1}', "[1,2]", '"quoted"', " [x"])
def test_text_that_looks_like_json_stays_text(shared: Peer, text: str) -> None:
    kept = shared.call("keep", {"text": text, "label": text})["structuredContent"]

    assert (kept["text"], kept["label"]) == (text, text)


def test_a_list_or_an_object_may_come_as_json_text(shared: Peer) -> None:
    kept = shared.call("keep", {"text": "x", "words": '["a","b"]', "detail": ' {"a":{"b":[1]}}'})["structuredContent"]
    many = shared.call("keep_many", {"notes": '[{"text":"[1]","words":"[\\"a\\"]"}]'})["structuredContent"]

    assert (kept["words"], kept["detail"]) == (["a", "b"], {"a": {"b": [1]}})
    assert (many["first"]["text"], many["first"]["words"]) == ("[1]", ["a"])


def test_a_list_that_comes_as_broken_json_text_is_refused(shared: Peer) -> None:
    assert "words must be a list" in error_of(shared.call("keep", {"text": "x", "words": '["a"'}))["message"]


def test_an_answer_is_structured_and_the_same_as_compact_text(shared: Peer) -> None:
    result = shared.call("keep", {"text": "é", "kind": "plan", "when": "2026-01-31T12:00:00+02:00"})

    assert json.loads(said(result)) == result["structuredContent"]
    assert '": ' not in said(result)
    assert "é" in said(result)
    assert result["isError"] is False


def test_an_answer_that_is_not_ok_is_marked_as_an_error_and_keeps_its_structure(shared: Peer) -> None:
    result = shared.call("fail", {"how": "partly"})

    assert result["isError"]
    assert result["structuredContent"] == {"ok": False, "message": "one of two failed"}


@pytest.mark.shows(5)
def test_a_foreseen_failure_tells_code_message_and_hint_and_claims_no_structure(shared: Peer) -> None:
    result = shared.call("fail", {"how": "foreseen"})

    assert said(result) == (
        '{"ok":false,"error":{"code":"NOT_FOUND","message":"No memory has id m-1.",'
        '"hint":"Use search_memories to find the right id."}}'
    )
    assert result["isError"]
    assert "structuredContent" not in result


def test_an_unforeseen_failure_costs_one_call_and_its_words_stay_inside(server: Peer) -> None:
    result = server.call("fail", {"how": "unforeseen"})

    assert error_of(result)["code"] == "INTERNAL_ERROR"
    assert error_of(result)["hint"]
    assert server.call("keep", {"text": "x"})["isError"] is False
    server.stdin.close()
    server.end()
    assert b"RuntimeError" in server.log
    assert b"in fail" in server.log
    assert b"Error: postgresql" not in server.log
    assert "hunter2" not in json.dumps(result)


def test_an_answer_that_cannot_be_written_costs_one_call(shared: Peer) -> None:
    assert error_of(shared.call("fail", {"how": "unwritable"}))["code"] == "INTERNAL_ERROR"
    assert shared.call("keep", {"text": "x"})["isError"] is False


def test_an_unknown_tool_is_a_protocol_error(shared: Peer) -> None:
    answer = shared.ask("tools/call", {"name": "kept", "arguments": {}})

    assert answer["error"]["code"] == -32602
    assert "keep" in answer["error"]["message"]


def test_calls_run_side_by_side(shared: Peer) -> None:
    shared.start_call("wait", {"seconds": 0.5}, "slow")
    shared.start_call("keep", {"text": "x"}, "fast")

    assert [shared.receive()["id"] for _ in range(2)] == ["fast", "slow"]


def test_more_calls_than_run_at_once_are_all_answered(shared: Peer) -> None:
    for number in range(600):
        shared.start_call("wait", {"seconds": 0.05}, number)

    assert sorted(shared.receive()["id"] for _ in range(600)) == list(range(600))


def test_a_cancelled_call_stops_in_the_manager_and_is_not_answered(server: Peer) -> None:
    server.start_call("wait", {"seconds": 60}, 5)
    server.wait_for("waiting")

    server.send(method="notifications/cancelled", params={"requestId": 5})

    server.wait_for("cancelled")
    assert server.ask("ping", id="next")["id"] == "next"


def test_cancelled_calls_leave_room_for_others(server: Peer) -> None:
    for number in range(300):
        server.start_call("wait", {"seconds": 60}, number)
        server.send(method="notifications/cancelled", params={"requestId": number})

    assert server.call("keep", {"text": "x"}, id="next")["isError"] is False


def test_the_first_call_waits_until_ready_and_reports_progress_to_who_asked(tmp_path: Path) -> None:
    with toy(tmp_path / "journal", TOY_READY_S="0.3") as peer:
        peer.hello()
        peer.start_call("keep", {"text": "x"}, 1, _meta={"progressToken": "p"})
        frames = [peer.receive()]
        while "id" not in frames[-1]:
            frames.append(peer.receive())

    *reports, answer = frames
    assert answer["result"]["isError"] is False
    assert [report["params"]["progress"] for report in reports] == list(range(1, len(reports) + 1))
    assert reports[0]["params"]["message"] == "starting the database"
    assert {report["params"]["progressToken"] for report in reports} == {"p"}


def test_a_wrong_call_is_refused_before_the_server_is_ready(tmp_path: Path) -> None:
    with toy(tmp_path / "journal", TOY_READY_S="600") as peer:
        peer.hello()
        assert error_of(peer.call("keep", {}))["code"] == "INVALID_INPUT"


def test_a_call_may_be_cancelled_while_the_server_gets_ready(tmp_path: Path) -> None:
    with toy(tmp_path / "journal", TOY_READY_S="600") as peer:
        peer.hello()
        peer.start_call("keep", {"text": "x"}, 5, _meta={"progressToken": "p"})
        assert peer.receive()["method"] == "notifications/progress"
        peer.send(method="notifications/cancelled", params={"requestId": 5})
        peer.send(id="next", method="ping")
        while (frame := peer.receive(PATIENCE_S)).get("id") != "next":
            assert frame.get("method") == "notifications/progress"


words = st.lists(st.text(st.characters(codec="utf-8"), max_size=9), max_size=3)
values = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=5), st.integers() | st.none() | words, max_size=3
)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(codec="utf-8"), min_size=1),
    weight=st.floats(0, 1),
    words=words,
    detail=values,
    when=st.none() | st.datetimes(min_value=datetime(1990, 1, 1), timezones=st.timezones()),
)
def test_what_is_sent_comes_back_and_fits_the_promised_schema(
    shared: Peer, text: str, weight: float, words: list[str], detail: dict[str, Any], when: Any
) -> None:
    schema = shared.ask("tools/list")["result"]["tools"][0]["outputSchema"]
    sent = {"text": text, "weight": weight, "words": words, "detail": detail}

    result = shared.call("keep", sent | ({"when": when.isoformat()} if when else {}))

    got = result["structuredContent"]
    assert {name: got[name] for name in sent} == sent
    Draft202012Validator(schema).validate(got)
