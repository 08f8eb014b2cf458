"""What is told on stderr holds no text that was stored or sent, no token and no password."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from protocol_peer import Peer, said, toy

from helpers import Database
from pgengram.runtime.logs import TEXT, OneLine

CANARY = "xylophonquince"
KEY = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
PASSWORD = "Marimba-Pomelo-77"


def serve(url: str, **settings: str) -> Any:
    outcome = {
        f"PGENGRAM_{name.upper()}": value for name, value in ({"toolsets": "all", "answers": "full"} | settings).items()
    }
    return toy(Path("/dev/null"), command=[sys.executable, "-m", "pgengram"], PGENGRAM_DATABASE_URL=url, **outcome)


def say_everything(peer: Peer) -> list[str]:
    """Call every tool with the canary in every text, rightly and wrongly, and return what was answered."""
    well: set[str] = set()

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        answer = peer.call(tool, arguments)
        well.update(() if answer["isError"] else {tool})
        outcome: dict[str, Any] = json.loads(said(answer))
        return outcome

    first = call("create_memory", content=f"The {CANARY}.", tags=[CANARY], metadata={CANARY: CANARY}, project=CANARY,
                 source=CANARY, session_id=CANARY, idempotency_key=CANARY)["memory_id"]  # fmt: skip
    other = call("create_memories", items=[{"content": f"Another {CANARY}."}, {"content": ""}, {CANARY: 1}])["results"][
        0
    ]["memory_id"]
    call("create_memory", content=f"The {CANARY} has the key {KEY}.")
    call("create_memory", content=f"{CANARY}\0", tags=[CANARY], nobody_knows=CANARY)
    call("create_memory", content=CANARY, importance=CANARY, type=CANARY, occurred_at=CANARY, embedding=[CANARY])
    call("search_memories", query=f"{CANARY} {KEY}", cursor=CANARY)
    call("search_memories", query=CANARY, mode="substring", since=CANARY)
    call("recall_context", context=f"{CANARY} {KEY}")
    call("search_memories", query=f"{CANARY} {KEY}")
    call("get_memories", ids=[first, CANARY])
    call("get_memories", ids=[first], include=["history", "relations", "clusters"])
    call("update_memory", id=first, content=f"The red {CANARY}.", metadata={"note": KEY})
    call("update_memory", id=first, content=f"The red {CANARY}.")
    call("link_memories", from_id=first, to_ids=[other, CANARY])
    call("link_memories", from_id=first, to_ids=[other], type=CANARY, properties={CANARY: CANARY})
    call("explore_memories", ids=[first])
    cluster = call("create_memory_cluster", name=CANARY, description=CANARY, memory_ids=[first])["cluster"]["id"]
    call("update_cluster_members", cluster_id=cluster, name=f"{CANARY} 2", delete=True)
    call("activate_cluster", cluster_id=cluster, context=CANARY)
    call("get_memory_clusters", insights=True)
    note = call("create_working_memory", content=f"Tune the {CANARY}.", context={"for": CANARY})["memory_id"]
    call("get_working_memories", query=CANARY)
    call("consolidate_working_memory", ids=[note], content=f"The {CANARY} is tuned.")
    call("record_identity", self_concept=CANARY)
    call("get_identity_core")
    call("record_belief", belief=f"The {CANARY} is loud.", category=CANARY, supported_by=[first])
    call("get_worldview", category=CANARY)
    call("memory_stats", project=CANARY)
    call("review_memories", project=CANARY)
    call("tidy_memories", action="synonyms", synonyms={CANARY: f"{CANARY}s"})
    call("tidy_memories", action="apply", plan=[{"action": "forget", "ids": [first], "reason": CANARY}])
    token = call("forget_memories", ids=[other], hard=True, reason="")["confirm_token"]
    call("forget_memories", ids=[other], hard=True, confirm_token=token[::-1])
    call("forget_memories", ids=[other], hard=True, confirm_token=token)
    for method, params in (
        ("resources/read", {"uri": f"memory://{CANARY}"}), ("resources/read", {"uri": "memory://context"}),
        ("prompts/get", {"name": "recall", "arguments": {"query": f"{CANARY} {KEY}"}}), ("prompts/get", {"name": CANARY}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "recall"}, "argument": {"name": "tags", "value": CANARY}}),
        ("tools/call", {"name": CANARY, "arguments": {}}), (CANARY, {"x": CANARY}),
    ):  # fmt: skip
        peer.ask(method, params)
    peer.answer_to(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"' + CANARY.encode() + b'\\ud800"}}')
    peer.answer_to(CANARY.encode())
    peer.send(method="notifications/cancelled", params={"requestId": [CANARY], "reason": CANARY})
    peer.send(method=f"notifications/{CANARY}", params={CANARY: CANARY})
    peer.ask("ping")
    assert well == {tool["name"] for tool in peer.ask("tools/list")["result"]["tools"]}
    return [token]


def log_of(peer: Peer) -> str:
    peer.stdin.close()
    peer.end()
    peer.rest()
    return peer.log.decode()


@pytest.mark.parametrize("form", ["", ",json"], ids=["text", "json"])
def test_no_content_no_key_and_no_confirmation_is_logged(database: Database, form: str) -> None:
    with serve(database.url, log_level=f"DEBUG{form}") as peer:
        peer.hello()
        tokens = say_everything(peer)
        # A fault of the database and one of ours, whose own words would quote what was stored:
        database.as_login(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room for %', NEW.content; END $$",
            "CREATE TRIGGER fail BEFORE INSERT ON memories FOR EACH ROW EXECUTE FUNCTION fail()",
        )
        answer = peer.call("create_memory", {"content": f"A third {CANARY}."})
        log = log_of(peer)

    assert "SQLSTATE P0001" in said(answer)
    assert "SQLSTATE P0001" in log
    for secret in (CANARY, KEY, *tokens):
        assert secret not in log
        assert secret not in said(answer)


def test_every_line_is_an_object_when_json_is_asked_for(database: Database) -> None:
    with serve(database.url, log_level="DEBUG,json") as peer:
        peer.hello()
        database.as_login("ALTER TABLE memories RENAME TO gone")
        peer.call("search_memories", {"query": CANARY})
        lines = [json.loads(line) for line in log_of(peer).splitlines()]

    assert lines
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert {"INFO"} <= {line["level"] for line in lines}


@pytest.mark.parametrize("wrong", ["password", "host", "database"])
def test_the_password_of_the_database_is_neither_logged_nor_told(database: Database, wrong: str) -> None:
    parts = urlsplit(psycopg.conninfo.conninfo_to_dict(database.url) and database.url)
    url = {
        "password": f"postgresql://nobody:{PASSWORD}@/{database.url.rpartition('/')[2]}",
        "host": f"postgresql://nobody:{PASSWORD}@127.0.0.1:1/memo",
        "database": f"postgresql://nobody:{PASSWORD}@/there_is_none{'?' + parts.query if parts.query else ''}",
    }[wrong]
    with serve(url, log_level="DEBUG") as peer:
        peer.hello()
        answer = peer.call("search_memories", {"query": "tea"})
        log = log_of(peer)

    assert answer["isError"]
    assert "DATABASE_ERROR" in said(answer)
    assert PASSWORD not in said(answer)
    assert PASSWORD not in log


def test_the_key_of_the_embedder_is_neither_logged_nor_told(database: Database) -> None:
    with serve(
        database.url, log_level="DEBUG", embedder="openai+http://127.0.0.1:1/v1#model", embedder_api_key=PASSWORD
    ) as peer:
        peer.hello()
        answer = peer.call("create_memory", {"content": f"The {CANARY}."})
        log = log_of(peer)

    assert "EMBEDDING_ERROR" in said(answer)
    for secret in (PASSWORD, CANARY):
        assert secret not in said(answer)
        assert secret not in log


def test_what_would_steer_a_terminal_or_forge_a_line_is_escaped(database: Database) -> None:
    with serve(database.url, log_level="DEBUG") as peer:
        peer.hello()
        peer.send(method="notifications/\x1b[2Jx\r\n2026-01-01 ERROR forged", params={})
        peer.ask("tools/call", {"name": "\x1b]0;x\x07", "arguments": {}})
        log = log_of(peer)

    assert "\x1b" not in log
    assert "\r" not in log
    assert "\nforged" not in log


def test_control_characters_in_a_record_are_written_as_escapes() -> None:
    record = logging.makeLogRecord(
        {"name": "pgengram", "levelname": "WARNING", "msg": "a \x1b[2J screen\rover \x9b31m \u202etext"}
    )

    line = OneLine(TEXT).format(record)

    assert line.endswith(r"a \x1b[2J screen\rover \x9b31m \u202etext")
