"""Each error that a call can cause says what to do next, and doing that succeeds."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from mcp import Client

from helpers import Answer, Served, call, connected, read, remember, said
from pgengram import errors

UNFORESEEN = "INTERNAL_ERROR"  # tests/protocol makes one, and calls again


@pytest.fixture
def client(wordless: Served) -> Client:
    return wordless.client


async def refused(client: Client, tool: str, **arguments: Any) -> dict[str, str]:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    return dict(json.loads(said(answer))["error"])


def told(error: dict[str, str]) -> str:
    return f"{error['message']} {error['hint']}"


async def exchanged(client: Client) -> dict[str, str]:
    error = await refused(client, "search_memories", since="03/04/2026")
    [moment] = re.findall(r"such as (\S+Z)", told(error))
    await call(client, "search_memories", since=moment)
    return error


async def searched(client: Client) -> dict[str, str]:
    id_ = await remember(client, "The well is deep.")
    error = await refused(client, "get_memories", ids=["00000000"])
    assert "search_memories" in told(error)
    [hit] = (await call(client, "search_memories", query="well"))["results"]
    assert (await read(client, hit["id"]))["id"] == id_
    return error


async def read_again(client: Client) -> dict[str, str]:
    id_ = await remember(client, "The well is deep.")
    change = {"id": id_, "content": "The well is dry."}
    error = await refused(client, "update_memory", **change, expected_version=9)
    assert "get_memories" in told(error)
    await call(client, "update_memory", **change, expected_version=(await read(client, id_))["version"])
    return error


async def sent_less(client: Client) -> dict[str, str]:
    ids = [await remember(client, f"The well is {n} metres deep.") for n in range(21)]
    instead = [{"content": "The wells are deep."}]
    error = await refused(client, "forget_memories", ids=ids, replacements=instead)
    [most] = re.findall(r"at most (\d+)", told(error))
    await call(client, "forget_memories", ids=ids[: int(most)], replacements=instead)
    return error


async def confirmed(client: Client) -> dict[str, str]:
    what: Answer = {"ids": [await remember(client, "The well is deep.")], "hard": True}
    error = await refused(client, "forget_memories", **what, confirm_token="made up")
    assert "without confirm_token" in told(error)
    shown = await call(client, "forget_memories", **what)
    await call(client, "forget_memories", **what, confirm_token=shown["confirm_token"])
    return error


async def left_out(client: Client) -> dict[str, str]:
    secret = "ghp_" + "x7Kq2LmP9vRt4WzB8nYc5JdH3sFg6AeU1oQi"
    error = await refused(client, "create_memory", content=f"The deploy token is {secret}.")
    assert "where it is kept" in told(error)
    await call(client, "create_memory", content="The deploy token is kept in the vault.")
    return error


FOLLOWED = {
    "INVALID_INPUT": exchanged, "NOT_FOUND": searched, "CONFLICT": read_again, "LIMIT_EXCEEDED": sent_less,
    "CONFIRM_REQUIRED": confirmed, "SECRET_REJECTED": left_out,
}  # fmt: skip


@pytest.mark.parametrize("code", FOLLOWED)
async def test_following_the_hint_of_an_error_succeeds(client: Client, code: str) -> None:
    assert (await FOLLOWED[code](client))["code"] == code


async def test_a_call_that_the_database_failed_can_be_repeated_as_the_error_says(wordless: Served) -> None:
    memory = {"content": "The well is deep."}
    wordless.db.as_login(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$",
        "CREATE TRIGGER broken BEFORE INSERT ON memories FOR EACH ROW EXECUTE FUNCTION broken()",
    )
    try:
        error = await refused(wordless.client, "create_memory", **memory)
    finally:
        wordless.db.as_login("DROP FUNCTION broken CASCADE")

    assert error["code"] == "DATABASE_ERROR"
    assert "can be retried" in error["hint"]
    assert (await call(wordless.client, "create_memory", **memory))["created"]


async def test_another_embedder_stores_what_one_out_of_reach_refused_as_the_error_says(wordless: Served) -> None:
    memory = {"content": "The well is deep."}
    async with connected(database_url=wordless.db.url, embedder="openai+http://127.0.0.1:1/v1#model") as cut_off:
        error = await refused(cut_off, "create_memory", **memory)

    assert error["code"] == "EMBEDDING_ERROR"
    assert "PGENGRAM_EMBEDDER" in error["hint"]
    async with connected(database_url=wordless.db.url, embedder="none:") as other:
        assert (await call(other, "create_memory", **memory))["created"]


OF_PROGRAMS = {"MISUSED", "TIMED_OUT"}  # met in the library only; tests/test_library.py
OF_SPACES = {"NOT_ALLOWED"}  # met in a shared space only; tests/spaces/test_rules_of_spaces.py


def test_every_documented_code_is_followed() -> None:
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.PgengramError)]

    assert {kind.code for kind in kinds} == {
        *FOLLOWED,
        "DATABASE_ERROR",
        "EMBEDDING_ERROR",
        UNFORESEEN,
    } | OF_PROGRAMS | OF_SPACES
