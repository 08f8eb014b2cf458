"""What projects are called: each keeps its name, no other gets it, and a person may give it others."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hooked_assistant import Assistant
from test_projects import ORIGIN, git, home, repository
from typer.testing import CliRunner

from helpers import PATIENCE_S, call, connected, environment, hits, remember
from pgengram.cli.app import app
from pgengram.runtime import local_socket
from pgengram.runtime.projects import Project
from pgengram.service.projects import FILE, Projects
from pgengram.settings import Settings

__all__ = ["home"]  # a fixture
SAID = "We decided to print the pages of the website on Fridays."


@pytest.fixture
def projects(home: Path) -> Projects:
    return Projects(Settings(data_dir=str(home / "data")))


def named(projects: Projects, folder: Path) -> str | None:
    found = projects.of(str(folder))
    return found.name if found else None


def test_projects_of_one_name_are_told_apart(home: Path, projects: Projects) -> None:
    first = repository(home / "one" / "api", "https://git.example.org/mara/api.git")
    second = repository(home / "two" / "api", "https://git.example.org/jonas/api.git")
    (home / "three" / "api").mkdir(parents=True)

    for _ in range(2):
        assert [named(projects, one) for one in (first, second, home / "three" / "api")] == [
            "api", "jonas/api", "three/api",
        ]  # fmt: skip


@pytest.mark.parametrize(
    "address",
    [
        "ssh://git@git.example.org:2222/mara/Ark.git", "git@git.example.org:mara/Ark", "https://git.example.org/mara/ark/",
        "https://mara:x@GIT.example.org/Mara/ARK.git",
    ],
)  # fmt: skip
def test_however_a_remote_is_written_its_clones_are_one_project(home: Path, projects: Projects, address: str) -> None:
    assert named(projects, repository(home / "one", ORIGIN)) == "Ark"
    assert named(projects, repository(home / "two", address)) == "Ark"


def test_a_fork_that_knows_where_it_comes_from_is_the_same_project_and_another_is_not(
    home: Path, projects: Projects
) -> None:
    fork = "https://git.example.org/jonas/Ark.git"
    assert named(projects, repository(home / "one", ORIGIN)) == "Ark"
    alone = repository(home / "alone", fork)
    assert named(projects, alone) == "jonas/Ark"
    tied = repository(home / "tied", "https://git.example.org/ada/Ark.git")
    git(tied, "remote", "add", "upstream", ORIGIN)
    assert named(projects, tied) == "Ark"


def test_a_project_keeps_its_name_when_its_remote_moves(home: Path, projects: Projects) -> None:
    checkout = repository(home / "checkout", ORIGIN)
    assert named(projects, checkout) == "Ark"
    git(checkout, "remote", "set-url", "origin", "https://forge.example.net/harbour/Boat.git")

    assert named(projects, checkout) == "Ark"
    assert named(projects, repository(home / "new", "git@forge.example.net:harbour/Boat.git")) == "Ark"


def test_another_repository_in_the_same_place_is_another_project(home: Path, projects: Projects) -> None:
    checkout = repository(home / "checkout", ORIGIN)
    os.utime(checkout / ".git" / "description", (1_700_000_000, 1_700_000_000))  # cloned long ago
    assert named(projects, checkout) == "Ark"
    shutil.rmtree(checkout)

    assert named(projects, repository(checkout, "https://git.example.org/jonas/Boat.git")) == "Boat"


def test_a_folder_keeps_its_project_when_it_becomes_a_repository_and_when_it_is_moved(
    home: Path, projects: Projects
) -> None:
    (home / "notes").mkdir()
    assert named(projects, home / "notes") == "notes"
    repository(home / "notes")
    assert named(projects, home / "notes") == "notes"
    (home / "papers").mkdir()
    (home / "notes").rename(home / "papers" / "notes")
    assert named(projects, home / "papers" / "notes") == "notes"


def test_nothing_but_names_depends_on_the_file(home: Path, projects: Projects) -> None:
    checkout = repository(home / "checkout", ORIGIN)
    assert named(projects, checkout) == "Ark"
    (home / "data" / FILE).write_text("{")

    assert named(projects, checkout) == "Ark"
    assert (home / "data" / FILE).read_text() == "{"


async def test_a_session_begins_with_nothing_of_another_project_of_the_same_name(
    home: Path, assistant: Assistant
) -> None:
    first = repository(home / "one" / "api", "https://git.example.org/mara/api.git")
    second = repository(home / "two" / "api", "https://git.example.org/jonas/api.git")
    async with connected(**assistant.settings) as client:
        assert "project=api." in assistant.context("SessionStart", cwd=str(first), session_id="a")
        await remember(client, "Deployments of the first go to Lyon.", project="api")
        await remember(client, "Mara prefers green tea.", kind="preference")

        begun = assistant.context("SessionStart", cwd=str(second), session_id="b")

    assert "project=jonas/api." in begun
    assert "green tea" in begun
    assert "Lyon" not in begun


async def test_a_server_knows_the_project_of_the_folder_it_was_started_in(
    home: Path, assistant: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = repository(home / "checkout", ORIGIN)
    for name, text in (("Ark", "The ark needs a new mast."), ("Boat", "The boat needs a new oar.")):
        async with connected(**assistant.settings) as client:
            await remember(client, text, project=name)
    monkeypatch.chdir(checkout)
    async with connected(**assistant.settings) as client:
        assert "belongs to project=Ark." in str(client.instructions)
        opening = (await call(client, "recall_context"))["context"]
    monkeypatch.chdir(home)
    async with connected(**assistant.settings) as client:
        assert "belongs to project" not in str(client.instructions)

    assert "mast" in opening
    assert "oar" not in opening


def typed(assistant: Assistant, *words: str) -> Any:
    settings = {f"PGENGRAM_{name.upper()}": value for name, value in assistant.settings.items()}
    return CliRunner().invoke(app, ["projects", *words], env=settings)


async def test_an_alias_stands_for_a_project_until_it_is_removed(home: Path, assistant: Assistant) -> None:
    website = home / "ark-website"
    website.mkdir()
    async with connected(**assistant.settings) as client:
        await remember(client, "The ark needs a new mast.", project="Ark")
        await remember(client, "The website is made of plain pages.", project="ark-website")
        await asyncio.to_thread(assistant.typed, "projects", "alias", "ark-website", "Ark")
        found = await hits(client, project="Ark")
        begun = assistant.context("SessionStart", cwd=str(website), session_id="a")
        listed = (await asyncio.to_thread(assistant.typed, "projects", "list"))["projects"][0]
        await asyncio.to_thread(assistant.typed, "projects", "unalias", "Ark Website")
        alone = assistant.context("SessionStart", cwd=str(website), session_id="b")

    assert len(found) == 2
    assert "mast" in begun
    assert "plain pages" in begun
    assert (listed["name"], listed["memories"], listed["aliases"]) == ("Ark", 2, ["ark-website"])
    assert "mast" not in alone
    assert "plain pages" in alone


async def test_an_alias_holds_for_what_was_said_what_was_given_and_what_is_counted(
    home: Path, assistant: Assistant
) -> None:
    website, ark = home / "ark-website", home / "Ark"
    for folder in (website, ark):
        folder.mkdir()
    async with connected(**assistant.settings, answers="short") as client:
        await remember(client, "The website is made of plain pages.", project="ark-website")
        await remember(client, "The ark needs a new mast.", project="Ark")
        place = local_socket.Endpoints(environment(**assistant.settings))
        for event in ({"hook_event_name": "SessionStart"}, {"hook_event_name": "UserPromptSubmit", "prompt": SAID}):
            given = {"session_id": "a", "cwd": str(website), **event}
            asked = {"hook": "codex", "keeps": True, "event": given}
            await asyncio.to_thread(local_socket.ask_server, place, asked, PATIENCE_S)
        before = await call(client, "search_memories", query=SAID, include="turns", project="Ark")
        await asyncio.to_thread(assistant.typed, "projects", "alias", "ark-website", "Ark")

        found = await call(client, "search_memories", query=SAID, include="turns", project="Ark")
        begun = assistant.context("SessionStart", cwd=str(ark), session_id="b")
        counted = await call(client, "memory_stats", project="Ark")
        whole = await call(client, "memory_stats")
        receipts = await assistant.answered("receipts")
        listed = (await asyncio.to_thread(assistant.typed, "conversations", "list", "--project", "ark"))[
            "conversations"
        ]
        erased = await asyncio.to_thread(assistant.typed, "conversations", "erase", "--project", "Ark", "--yes")

    assert before["turns"] == []
    assert [turn["text"] for turn in found["turns"]] == [SAID]
    assert f"ended with the user saying: {SAID}" in begun
    assert counted["totals"]["memories"] == 2
    assert whole["by_project"] == {"Ark": 2}
    assert {one["project"] for one in receipts} == {"Ark"}
    assert [one["project"] for one in listed] == ["Ark"]
    assert erased == {"erased": 1}


async def test_a_renamed_project_takes_its_memories_folders_and_conversations_along(
    home: Path, assistant: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = repository(home / "checkout", ORIGIN)
    monkeypatch.chdir(checkout)
    async with connected(**assistant.settings) as client:
        await remember(client, "The ark needs a new mast.", project="Ark")
        await remember(client, "The boat needs a new oar.", project="Boat")
    assert (await asyncio.to_thread(assistant.typed, "projects", "list"))["here"] == {"name": "Ark", "collection": None}

    assert (await asyncio.to_thread(assistant.typed, "projects", "rename", "ark", "Big Ship"))["memories"] == 1
    listed = await asyncio.to_thread(assistant.typed, "projects", "list")
    [ship] = [one for one in listed["projects"] if one["name"] == "Big Ship"]

    assert listed["here"]["name"] == "Big Ship"
    assert (ship["memories"], ship["aliases"]) == (1, ["ark"])
    assert [
        one["project"] for one in (await asyncio.to_thread(assistant.typed, "list", "--project", "."))["results"]
    ] == ["Big Ship"]
    refused = await asyncio.to_thread(typed, assistant, "rename", "Big Ship", "Boat")
    assert refused.exit_code == 2
    assert "projects alias" in refused.output


def test_what_cannot_be_an_alias_is_refused(assistant: Assistant) -> None:
    assert typed(assistant, "alias", "Ark", "ark").exit_code == 2
    assert "be an alias of itself" in typed(assistant, "alias", "Ark", "ark").output
    assert "is not an alias" in typed(assistant, "unalias", "Boat").output
    assert "There is no project" in typed(assistant, "rename", "Boat", "Ship").output


def test_aliases_of_aliases_stand_for_the_last(projects: Projects) -> None:
    projects.alias("sloop", "boat")
    projects.alias("boat", "ark")
    projects.alias("dinghy", "SLOOP")

    assert projects.names().all_of("dinghy") == ["ark", "sloop", "boat", "dinghy"]
    assert json.loads(projects._file.read_text())["default"]["aliases"]["sloop"] == "ark"


def test_a_setting_names_the_project_whatever_the_folder_is(home: Path) -> None:
    fixed = Projects(Settings(data_dir=str(home / "data"), project="Billing"))
    off = Projects(Settings(data_dir=str(home / "data"), project="off"))

    assert (fixed.of(str(home)), fixed.worked_on(str(home))) == (Project("Billing"), Project("Billing"))
    assert (off.of(str(home / "notes")), off.worked_on(str(home / "notes"))) == (None, None)
