"""The local socket: whoever runs a server of a store answers hooks of the same user, and nobody else's."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hooked_assistant import Assistant

from helpers import PATIENCE_S, connected, environment, remember
from pgengram import __version__
from pgengram.runtime import hook_client, local_socket

PRIVATE = 0o077  # what others than the owner may do
SLOW_S = 0.5  # of a start
NOBODY = 4_194_304  # no process has this id


async def test_a_running_server_puts_what_is_remembered_before_a_session(assistant: Assistant) -> None:
    async with connected(**assistant.settings) as client:
        await remember(client, "The office is in Lyon.")

        begun = assistant.context("SessionStart", source="startup")
        compacted = assistant.context("SessionStart", source="compact")

    assert "is connected" in begun
    assert "The office is in Lyon." in begun
    assert "was just compacted" in compacted
    assert assistant.log == ""


async def test_only_its_user_can_ask_a_server_and_nothing_is_left_of_it(assistant: Assistant) -> None:
    async with connected(**assistant.settings) as client:
        await remember(client, "The office is in Lyon.")
        [socket] = assistant.files(".sock")

        assert socket.is_socket()
        assert not socket.stat().st_mode & PRIVATE
        assert not socket.parent.stat().st_mode & PRIVATE

    assert assistant.files("") == []


@pytest.mark.parametrize("name", [f"{NOBODY}{local_socket.SOCKET}", f"0{local_socket.EVENT}"])
async def test_a_folder_in_place_of_a_socket_or_an_event_holds_nothing_up(assistant: Assistant, name: str) -> None:
    place = local_socket.Endpoints(environment(**assistant.settings))
    place.make()
    os.mkdir(os.path.join(place.folder, f"{place.key}-{name}"))
    local_socket.keep_for_later(place, {"kind": "hook"})
    [event] = [path for path in assistant.files(local_socket.EVENT) if path.is_file()]

    async with connected(**assistant.settings) as client:
        await remember(client, "The office is in Lyon.")
        assert "The office is in Lyon." in assistant.context("SessionStart", source="startup")
    assert not event.exists()
    assert not [path for path in assistant.files("") if path.is_file()]


async def test_a_folder_that_others_may_enter_is_not_believed(assistant: Assistant) -> None:
    async with connected(**assistant.settings) as client:
        await remember(client, "The office is in Lyon.")
        [socket] = assistant.files(".sock")
        socket.parent.chmod(0o777)

        assert assistant.hook("SessionStart") == ""
        socket.parent.chmod(0o700)

    assert "is open to others" in assistant.log


def test_a_server_is_started_for_the_moment_and_takes_up_what_came_before_it(assistant: Assistant) -> None:
    assert assistant.hook("SessionEnd") == ""
    assistant.wait()

    [server] = assistant.momentary()
    assert "is connected" in assistant.context("SessionStart", source="startup")
    assert assistant.momentary() == [server]


def test_a_server_for_the_moment_ends_by_itself_once_nobody_asks(assistant: Assistant) -> None:
    briefly = "import sys; from pgengram.local import __main__ as it; it.IDLE_S = 0.1; sys.exit(it.main())"

    ended = subprocess.run(
        [sys.executable, "-c", briefly], env=environment(**assistant.settings), timeout=PATIENCE_S, check=False
    )

    assert ended.returncode == 0
    assert assistant.files(".sock") == []


@pytest.mark.skipif(sys.platform == "win32", reason="servers there don't stand in for each other")
async def test_a_server_that_greets_another_than_the_first_gets_no_answer(assistant: Assistant) -> None:
    """The number of a process that was killed may be another's by then."""
    async with connected(**assistant.settings) as client:
        await remember(client, "The office is in Lyon.")
        greeting = {"first": "all-of-others", "settings": {}, "folder": "", "handshake": 0, "unanswered": 0}

        assert await answer_of(assistant, greeting) == b""


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe has no path")
@pytest.mark.parametrize("own", ["ada", {"PGENGRAM_NAMESPACE": 7}, {"PGENGRAM_SECRETS": "tell"}, None])
async def test_settings_that_cannot_be_are_refused(assistant: Assistant, own: object) -> None:
    async with connected(**assistant.settings) as client:
        await remember(client, "The office is in Lyon.")
        request = {"version": __version__, "settings": own, "call": "search_memories", "arguments": {}}

        assert json.loads(await answer_of(assistant, request))["error"]["code"] == "INVALID_INPUT"


async def answer_of(assistant: Assistant, request: dict[str, object]) -> bytes:
    """Return what the one server answers to a line."""
    [path] = assistant.files(".sock")
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(json.dumps(request).encode() + b"\n")
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe has no path")
def test_a_data_folder_that_is_too_deep_for_a_socket_has_a_private_one_elsewhere(assistant: Assistant) -> None:
    deep = assistant.folder / "deep" / ("d" * 90)
    place = local_socket.Endpoints(environment(**assistant.settings | {"data_dir": str(deep)}))
    place.make()
    try:
        assert len(os.fsencode(place.socket(NOBODY))) <= local_socket.LONGEST_PATH
        assert os.stat(place.folder).st_mode & PRIVATE == 0
        assert (
            place.folder != local_socket.Endpoints(environment(**assistant.settings | {"data_dir": f"{deep}2"})).folder
        )
    finally:
        os.rmdir(place.folder)


def test_a_clock_that_was_set_back_keeps_no_server_from_starting(assistant: Assistant) -> None:
    place = local_socket.Endpoints(environment(**assistant.settings))
    place.make()
    started = Path(place.starting)
    started.touch()
    os.utime(started, (time.time() + 86_400,) * 2)  # by the clock of before

    assistant.hook("SessionEnd")
    assistant.wait()

    assert len(assistant.momentary()) == 1


async def test_a_socket_that_a_killed_server_has_left_is_passed_by(assistant: Assistant) -> None:
    assistant.hook("SessionEnd")
    assistant.wait()
    [killed] = assistant.momentary()
    killed.kill()
    killed.wait()

    async with connected(**assistant.settings) as client:
        await remember(client, "The office is in Lyon.")

        assert "The office is in Lyon." in assistant.context("SessionStart")
        assert len(assistant.files(".sock")) == 1


def test_a_hook_that_nobody_can_answer_lets_the_session_go_on(assistant: Assistant) -> None:
    assistant.settings["database_url"] = "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2"

    assert assistant.hook("SessionStart") == ""
    assert assistant.raw("{") == ""
    assert "Unanswered" in assistant.log or "DATABASE_ERROR" in assistant.log
    assert "JSONDecodeError" in assistant.log


@pytest.mark.skipif(sys.platform != "linux", reason="tells only how long the process has used the processor")
def test_a_hook_waits_the_less_the_longer_its_own_start_has_taken(assistant: Assistant) -> None:
    place = local_socket.Endpoints(environment(**assistant.settings))
    place.make()
    slowly = (
        f"import time; time.sleep({SLOW_S}); from pgengram.runtime import hook_client as h; h.main(['claude-code'])"
    )
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place.socket(NOBODY))
        server.listen()
        server.settimeout(PATIENCE_S)  # a hook that ends before it asks is not waited for
        hook = subprocess.Popen(
            [sys.executable, "-c", slowly], stdin=subprocess.PIPE, env=environment(**assistant.settings), text=True
        )
        assert hook.stdin is not None
        hook.stdin.write('{"hook_event_name": "SessionStart"}')
        hook.stdin.close()
        connection, _ = server.accept()
        with connection, connection.makefile() as file:
            request = json.loads(file.readline())

    assert hook.wait(PATIENCE_S) == 0
    waits_s = request["until"] - request["at"]
    assert waits_s < hook_client.PATIENCE_S - hook_client.ENDING_S - SLOW_S / 2


def test_a_hook_imports_nothing_that_takes_long() -> None:
    code = "import sys, pgengram.__main__, pgengram.runtime.hook_client; print(*sys.modules)"
    imported = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout

    ours = {name for name in imported.split() if name.startswith("pgengram")}
    assert ours == {
        "pgengram", "pgengram.__main__", "pgengram.data_folder", "pgengram.runtime",
        "pgengram.runtime.hook_client", "pgengram.runtime.local_socket",
    }  # fmt: skip
    others = {name.partition(".")[0] for name in imported.split()} - set(sys.stdlib_module_names)
    assert {name for name in others if not name.startswith("_")} <= {"pgengram", "sitecustomize"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes, and names pipes by itself")
async def test_an_event_that_names_a_pipe_as_its_transcript_is_answered_and_forgotten(assistant: Assistant) -> None:
    pipe = assistant.folder / "pipe"
    os.mkfifo(pipe)
    async with connected(**assistant.settings) as client:
        await remember(client, "The office is in Lyon.")

        assistant.hook("Stop", transcript_path=str(pipe))
        assistant.hook("Stop", transcript_path="/dev/zero")
        assistant.hook("Stop", transcript_path=str(assistant.folder))
        begun = assistant.context("SessionStart")

    assert "The office is in Lyon." in begun
    assert assistant.log.count("The transcript is not a regular file.") == 3
    assert assistant.files(".event") == []


async def test_an_event_over_which_servers_end_is_given_up(assistant: Assistant) -> None:
    assistant.late("SessionStart")
    [event] = assistant.files(".event")
    event.rename(event.with_stem(f"{event.stem}~3"))

    async with connected(**assistant.settings) as client:
        await remember(client, "The office is in Lyon.")
        assistant.hook("SessionStart")

    assert assistant.files(".event") == []


async def test_an_event_of_twenty_megabytes_is_kept_by_way_of_a_file(assistant: Assistant) -> None:
    async with connected(**assistant.settings) as client:
        await remember(client, "The office is in Lyon.")
        assistant.hook("Stop", last_assistant_message="x" * 20_000_000)
        assistant.hook("Stop")

    assert assistant.files(".event") == []
    assert "Traceback" not in assistant.log


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps users' folders apart by itself")
def test_where_another_user_has_taken_the_folder_of_sockets_another_is_made(tmp_path: Path) -> None:
    deep = {"PGENGRAM_DATA_DIR": str(tmp_path / ("d" * 100))}
    usual = Path(local_socket.Endpoints(deep).folder)
    usual.mkdir(mode=0o700)
    usual.chmod(0o777)
    try:
        place = local_socket.Endpoints(deep)
        place.make()
        made = Path(place.folder)
        assert made != usual
        assert not made.stat().st_mode & PRIVATE
        assert local_socket.Endpoints(deep).folder == place.folder
        made.chmod(0o777)
        assert local_socket.Endpoints(deep).folder == str(usual)
        made.rmdir()
    finally:
        usual.rmdir()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps users' folders apart by itself")
def test_the_log_of_hooks_is_their_users_alone_also_if_it_was_not(assistant: Assistant) -> None:
    log = assistant.folder / local_socket.LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    log.chmod(0o644)

    assistant.hook("SessionStart")

    assert not log.stat().st_mode & PRIVATE
