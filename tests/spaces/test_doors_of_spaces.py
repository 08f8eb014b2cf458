"""The other doors to a space: tokens, the command line, hooks, exports and the page."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sharing_team import Team

from helpers import PATIENCE_S, call, connected, environment, refused
from pgengram.errors import NotAllowed, NotFound
from pgengram.library import Pgengram
from pgengram.local import session_hooks
from pgengram.store import membership
from pgengram.store.clients.connections import Asked, Connections
from pgengram.store.clients.sign_in_requests import SignInRequests, open_pairing
from pgengram.store.connection.database import Role

OVEN = "The oven in the shared kitchen runs ten degrees hot."


def typed(team: Team, person: str, *words: str) -> subprocess.CompletedProcess[str]:
    settings = environment(database_url=team.database.url, namespace=person, embedder="none:")
    command = [sys.executable, "-m", "pgengram", *words]
    return subprocess.run(command, env=settings, capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False)


async def test_an_assistant_on_this_machine_uses_the_spaces_that_its_settings_name(team: Team) -> None:
    await team.mara.remember(OVEN, space="Kitchen")
    settings = {"database_url": team.database.url, "embedder": "none:", "answers": "short"}

    async with connected(**settings, namespace="ben", spaces="Kitchen:read") as ben:
        [hit] = (await call(ben, "search_memories", query="oven"))["results"]
        assert (hit["text"], hit["space"], hit["author"]) == (OVEN, "Kitchen", "Mara")
        assert (await refused(ben, "create_memory", content="Buy flour.", space="Kitchen"))["code"] == "NOT_ALLOWED"
        told = await refused(ben, "update_memory", id=hit["id"], importance=1)
        assert (told["message"], told["hint"]) == (
            f"Memory {hit['id']} is in the shared space 'Kitchen'.", "Call again with space='Kitchen'.",
        )  # fmt: skip
    async with connected(**settings, namespace="ben") as ben:
        assert "space" not in str([tool.input_schema for tool in (await ben.list_tools()).tools])


async def test_the_command_line_works_in_a_space_and_says_who_shared_what(team: Team) -> None:
    await team.mara.remember(OVEN, space="Kitchen")

    listed = typed(team, "ben", "--space", "kitchen", "list")
    assert OVEN[:20] in listed.stdout
    assert "by Mara" in listed.stdout
    assert typed(team, "ben", "--space", "Kitchen", "add", "Flour is on the top shelf.").returncode == 0
    exported = typed(team, "ben", "--space", "Kitchen", "export", "--mine", "-")
    records = [json.loads(line) for line in exported.stdout.splitlines()]
    assert [one["content"] for one in records if one["record"] == "memory"] == ["Flour is on the top shelf."]
    assert "person_id" not in exported.stdout
    outside = typed(team, "dora", "--space", "Kitchen", "list")
    assert (outside.returncode, outside.stderr.splitlines()[0]) == (
        1, "Error: There is no space called 'Kitchen' that you may use. (NOT_FOUND)",
    )  # fmt: skip
    for words in (["import", "x.jsonl"], ["sync", "status"], ["stats"], ["erase-namespace", "mara"]):
        done = typed(team, "cleo", "--space", "Kitchen", *words)
        assert (done.returncode == 0) == (words == ["stats"]), (words, done.stderr)


async def test_a_file_cannot_say_who_stored_something(team: Team, tmp_path: Path) -> None:
    await team.mara.remember(OVEN)
    file = tmp_path / "mine.jsonl"
    assert typed(team, "mara", "export", str(file)).returncode == 0
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line |= {"person_id": team.people["ben"].id} if line["record"] == "memory" else {}
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    assert typed(team, "dora", "import", str(file)).returncode == 0

    assert team.database.value("SELECT person_id FROM memories", namespace="dora") is None


@pytest.mark.parametrize("is_bound", [True, False])
async def test_hooks_keep_a_conversation_in_a_space_only_where_a_person_bound_its_project(
    team: Team, tmp_path: Path, is_bound: bool
) -> None:
    (tmp_path / ".git").mkdir()
    await team.mara.remember(OVEN, space="Kitchen", pinned=True)
    manager = team.ben.spaces.home
    project = manager.projects.of(str(tmp_path))
    assert project is not None
    if is_bound:
        async with manager.store.transaction() as tx:
            await membership.bind_project(tx, project.name, team.kitchen.id)
    asked = session_hooks.Asked(keeps=True, at=datetime.now(UTC), until=float("inf"))

    async def hook(name: str, **more: str) -> str:
        event = {"hook_event_name": name, "session_id": "s1", "cwd": str(tmp_path), **more}
        return await session_hooks.answer_event(manager, "claude-code", event, asked, set())

    begun = await hook("SessionStart", source="startup")
    await hook("UserPromptSubmit", prompt="Please write down that the fuse box is behind the fridge.")

    async with team.mara.spaces.manager(team.kitchen) as kitchen, kitchen.store.transaction() as tx:
        turns = await tx.rows("SELECT text FROM conversation_turns")
    assert len(turns) == int(is_bound)
    assert ("The shared space Kitchen knows:" in begun) == (OVEN in begun) == is_bound
    own = team.database.rows("SELECT text FROM conversation_turns", namespace="ben")
    assert len(own) == 1 - int(is_bound)


async def test_a_bound_project_stays_ones_own_once_one_has_left_the_space(team: Team, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    manager, ben = team.ben.spaces.home, team.people["ben"]
    project = manager.projects.of(str(tmp_path))
    assert project is not None
    async with manager.store.transaction() as tx:
        await membership.bind_project(tx, project.name, team.kitchen.id)
    await membership.remove(team.home.store, team.kitchen.id, ben, by=ben)
    asked = session_hooks.Asked(keeps=True, at=datetime.now(UTC), until=float("inf"))

    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": str(tmp_path), "prompt": "Hello there."}
    await session_hooks.answer_event(manager, "claude-code", event, asked, set())

    assert len(team.database.rows("SELECT text FROM conversation_turns", namespace="ben")) == 1
    assert team.database.rows("SELECT 1 FROM conversation_turns", namespace="space:Kitchen") == []


async def test_a_guest_of_a_bound_project_keeps_the_conversation_as_their_own_and_nothing_in_the_space(
    team: Team, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    manager = team.cleo.spaces.home
    project = manager.projects.of(str(tmp_path))
    assert project is not None
    assert (await team.cleo.spaces.named("Kitchen")).role is Role.READ
    async with manager.store.transaction() as tx:
        await membership.bind_project(tx, project.name, team.kitchen.id)
    asked = session_hooks.Asked(keeps=True, at=datetime.now(UTC), until=float("inf"))

    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": str(tmp_path), "prompt": "Hello there."}
    await session_hooks.answer_event(manager, "claude-code", event, asked, set())

    async with team.mara.spaces.manager(team.kitchen) as kitchen, kitchen.store.transaction() as tx:
        assert await tx.rows("SELECT 1 FROM conversation_turns") == []
    [own] = team.database.rows("SELECT text FROM conversation_turns", namespace="cleo")
    assert own["text"] == "Hello there."


async def test_a_program_works_in_a_space_as_one_of_its_people(team: Team) -> None:
    await team.mara.remember(OVEN, space="Kitchen")
    async with Pgengram(database_url=team.database.url, embedder="none:") as store:
        kitchen = store.namespace("ben").in_space("Kitchen")
        await kitchen.add("Flour is on the top shelf.")
        [hit] = (await kitchen.search("oven")).results
        assert (hit["content"], hit["author"]) == (OVEN, "Mara")
        assert (await store.namespace("ben").search("oven")).results == []
        with pytest.raises(NotFound):
            await store.namespace("dora").in_space("Kitchen").search("oven")
        with pytest.raises(NotAllowed):
            await store.namespace("cleo").in_space("Kitchen").add("Buy flour.")


async def test_a_program_that_signs_in_has_the_spaces_that_its_code_was_made_for(team: Team) -> None:
    store = team.home.store
    requests = SignInRequests(Connections(store))
    code = await open_pairing(store, "ben", may_write=True, spaces={team.kitchen.id: "read"})
    asked = Asked(
        client_id="c", client_name="Phone", client_host="", redirect_uri="https://example.org/", redirect_host="example.org",
        challenge="", resource="https://memory.example.org/mcp", state=None, may_write=True,
    )  # fmt: skip
    async with store.as_login() as connection:
        await requests.answering(connection, "a" * 32, asked)
        proof = await requests.proven_by_code(connection, "a" * 32, asked, code)
        assert proof is not None
        assert proof.spaces
        await requests.allow(connection, "a" * 32, asked, proof.namespace, may_write=True, spaces=proof.spaces)

    assert team.database.as_login("SELECT spaces FROM oauth_grants") == [({str(team.kitchen.id): "read"},)]
