"""How a server starts and, above all, how it ends: cleanly, in bounded time, whatever the client or a call does."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from protocol_peer import HELLO, PATIENCE_S, TOY, Peer, toy, until

from helpers import Database
from pgengram.mcp.stdio import watchdog
from pgengram.runtime import operating_system

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and /proc")
ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]


@pytest.mark.real_start
def test_the_first_request_is_answered_before_anything_is_opened(tmp_path: Path) -> None:
    with toy(tmp_path / "journal", TOY_READY_S="600") as peer:
        assert peer.written() == []
        assert peer.hello()["serverInfo"]["name"] == "pgengram"
        assert peer.ask("tools/list")["result"]["tools"]
        peer.wait_for("open")


def test_nothing_is_opened_for_a_client_that_asks_nothing(fresh: Peer) -> None:
    fresh.stdin.close()

    assert fresh.end() == 0
    assert fresh.written() == ["close"]


HEAVY = {"numpy", "psycopg", "sqlalchemy", "alembic", "onnxruntime", "tokenizers"}


def test_serving_imports_nothing_heavy() -> None:
    code = f"import sys, pgengram.mcp.sdk_server; print(*{HEAVY} & set(sys.modules))"

    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b""


def test_claiming_stdio_imports_no_protocol() -> None:
    code = "import sys, pgengram.mcp.stdio.watchdog; sys.exit('mcp_types' in sys.modules or 'pydantic' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def has_model(peer: Peer) -> bool:
    """Whether the library that runs models is in the memory of the server."""
    return any("onnxruntime" in one.path for one in psutil.Process(peer.process.pid).memory_maps())


@pytest.mark.real_start
@pytest.mark.skipif(sys.platform == "darwin", reason="shows no maps")
def test_the_model_is_loaded_for_the_first_text_and_not_before(tmp_path: Path, database: Database) -> None:
    settings = {"PGENGRAM_DATABASE_URL": database.url, "PGENGRAM_DATA_DIR": str(tmp_path)}
    with toy(tmp_path / "journal", command=[sys.executable, "-m", "pgengram"], **settings) as peer:
        peer.hello()
        peer.ask("tools/list")
        for call in ({"query": ""}, {"query": " ", "tags": []}, {}):
            peer.call("search_memories", call)
        assert not has_model(peer)

        answer = peer.call("search_memories", {"query": "Where is the key?"})

        assert not answer.get("isError")
        assert has_model(peer)


# At the end of the input


def test_calls_that_finish_within_the_grace_are_answered_after_the_input_ends(server: Peer) -> None:
    server.start_call("keep", {"text": "x"}, 1)
    server.start_call("wait", {"seconds": 0.5}, 2)
    server.stdin.close()

    assert {frame["id"]: frame["result"]["isError"] for frame in server.rest()} == {1: False, 2: False}
    assert server.end() == 0


def test_frames_piped_in_at_once_are_all_answered(tmp_path: Path) -> None:
    with toy(tmp_path / "journal") as peer:
        peer.send(id="hello", method="initialize", params=HELLO)
        for number in range(200):
            peer.start_call("keep", {"text": "x" * 2_000}, number)
        peer.stdin.close()

        assert sorted(str(frame["id"]) for frame in peer.rest()) == sorted(["hello", *map(str, range(200))])


def test_a_loop_that_waits_for_sockets_only_serves_over_pipes(tmp_path: Path) -> None:
    with toy(tmp_path / "journal", TOY_WINDOWS="1") as peer:
        peer.hello()
        for number in range(200):  # more than are read ahead
            peer.start_call("keep", {"text": "x" * 2_000}, number)
        assert sorted(peer.receive()["id"] for _ in range(200)) == list(range(200))
        peer.stdin.close()

        assert peer.end() == 0


def test_a_last_frame_without_a_line_end_is_answered(server: Peer) -> None:
    server.raw(b'{"jsonrpc":"2.0","id":8,"method":"ping"}')
    server.stdin.close()

    assert [frame["id"] for frame in server.rest()] == [8]


def test_frames_may_come_from_a_file(tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    frames.write_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
    answers = tmp_path / "answers"

    with frames.open() as stdin, answers.open("w") as stdout:
        done = subprocess.run([sys.executable, str(TOY)], stdin=stdin, stdout=stdout, timeout=PATIENCE_S, check=False)

    assert done.returncode == 0
    assert len(answers.read_bytes().splitlines()) == 2


def test_a_call_that_outlasts_the_grace_is_cancelled_and_the_manager_is_closed(server: Peer) -> None:
    server.start_call("wait", {"seconds": 60}, 1)
    server.wait_for("waiting")
    server.stdin.close()

    assert server.end() == 0
    assert server.written()[-2:] == ["cancelled", "close"]


# When a signal comes


@posix
@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_the_server_cleanly(server: Peer, number: int) -> None:
    server.wait_for("open")
    server.process.send_signal(number)

    assert server.end() == 0
    assert server.written() == ["open", "close"]
    assert server.log == b""


@posix
@pytest.mark.real_start
@pytest.mark.parametrize("number", ENDING)
def test_a_signal_during_the_start_ends_it_quietly(tmp_path: Path, number: int) -> None:
    with toy(tmp_path / "journal", TOY_START="stuck") as peer:
        until(lambda: catches(peer.process.pid, signal.SIGHUP), "handler, the last of them")
        peer.process.send_signal(number)

        assert peer.end() == 0
        assert peer.log == b""


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        pytest.skip("needs /proc")
    caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


@posix
def test_calls_that_finish_within_the_grace_are_answered_after_a_signal(server: Peer) -> None:
    server.start_call("wait", {"seconds": 0.5}, 1)
    server.wait_for("waiting")
    server.process.send_signal(signal.SIGTERM)

    assert [frame["result"]["isError"] for frame in server.rest()] == [False]
    assert server.end() == 0


@posix
def test_a_second_signal_neither_breaks_nor_prolongs_the_end(server: Peer) -> None:
    server.start_call("get_stuck", {"how": "deaf"}, 1)
    server.wait_for("stuck")
    server.process.send_signal(signal.SIGTERM)
    server.wait_for("deaf")
    server.process.send_signal(signal.SIGINT)
    server.process.send_signal(signal.SIGTERM)

    assert server.end() == 0
    assert server.written()[-1] in ("close", "deaf")
    assert "close" in server.written()
    assert b"Traceback" not in server.log


@posix
def test_a_hang_up_ignored_from_the_start_stays_ignored(tmp_path: Path) -> None:
    command = ["sh", "-c", f"trap '' HUP; exec {sys.executable} {TOY}"]
    with toy(tmp_path / "journal", command=command) as peer:
        peer.hello()
        peer.process.send_signal(signal.SIGHUP)
        assert peer.ask("ping")["result"] == {}


# When something is stuck


def test_a_manager_that_does_not_close_is_given_up(tmp_path: Path) -> None:
    with toy(tmp_path / "journal", TOY_CLOSE="stuck") as peer:
        peer.hello()
        peer.stdin.close()
        assert peer.end() in (0, 1)


def test_a_blocked_loop_does_not_outlive_the_input(server: Peer) -> None:
    server.start_call("get_stuck", {"how": "loop"}, 1)
    server.wait_for("stuck")
    server.stdin.close()

    assert server.end() == 1


@posix
@pytest.mark.nightly
def test_a_blocked_loop_does_not_outlive_a_signal(server: Peer) -> None:
    server.start_call("get_stuck", {"how": "loop"}, 1)
    server.wait_for("stuck")
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGTERM)

    assert server.end() == 1


# When the client is gone


def test_a_client_that_closes_only_its_reading_end_ends_the_server_quietly(tmp_path: Path) -> None:
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, str(TOY)], stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE, pass_fds=()
    )
    os.close(write)
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    process.stdin.flush()
    assert os.read(read, 1_000)
    os.close(read)

    assert process.wait(PATIENCE_S) == 0
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()


def test_a_client_that_does_not_read_neither_blocks_the_loop_nor_loses_an_answer(tmp_path: Path) -> None:
    read, write = os.pipe()
    journal = tmp_path / "journal"
    process = subprocess.Popen(
        [sys.executable, str(TOY)], stdin=subprocess.PIPE, stdout=write, env={**os.environ, "TOY_JOURNAL": str(journal)}
    )
    os.close(write)
    hello = b'{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25",' + (
        b'"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}\n'
    )
    big = (
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"keep","arguments":{"text":"' + b"x" * 50_000
    )
    wait = b'{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"wait","arguments":{}}}\n'
    process.stdin.write(hello + b"".join((big % number) + b'"}}}\n' for number in range(20)) + wait)
    process.stdin.flush()

    until(lambda: journal.exists() and "waited" in journal.read_text(), "call behind the full pipe")
    with os.fdopen(read, "rb") as stdout:
        answers = [stdout.readline() for _ in range(22)]
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
    assert all(answer.endswith(b"}\n") for answer in answers)


@pytest.mark.nightly
def test_a_client_that_reads_slowly_gets_every_answer_whole(server: Peer) -> None:
    sent = range(150)

    def send() -> None:
        for number in sent:
            server.start_call("keep", {"text": "x" * 50_000}, number)

    sender = threading.Thread(target=send)
    sender.start()

    assert sorted(server.receive()["id"] for _ in sent) == list(sent)
    sender.join()


def test_a_client_that_never_reads_does_not_keep_the_server(tmp_path: Path) -> None:
    read, write = os.pipe()
    journal = tmp_path / "journal"
    process = subprocess.Popen(
        [sys.executable, str(TOY)], stdin=subprocess.PIPE, stdout=write, env={**os.environ, "TOY_JOURNAL": str(journal)}
    )
    os.close(write)
    process.stdin.write(b'{"id":1}\n' * 15_000)
    process.stdin.close()

    assert process.wait(PATIENCE_S) == 0
    assert journal.read_text() == "close\n"
    os.close(read)


CLIENT = """
import subprocess, sys, time
subprocess.Popen(sys.argv[1:], stdin=0, stdout=1)
time.sleep(600)
"""


@contextmanager
def orphaned(tmp_path: Path, command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """Start a client that starts `command`, both ends of whose pipes are ours: killing the client closes nothing."""
    (stdin, to_server), (from_server, stdout) = os.pipe(), os.pipe()
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, *command],
        stdin=stdin,
        stdout=stdout,
        env={**os.environ, "TOY_JOURNAL": str(tmp_path / "journal")},
    )
    os.close(stdin)
    os.close(stdout)
    try:
        os.write(to_server, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert os.read(from_server, 1_000)
        yield client, to_server, from_server
    finally:
        client.kill()
        client.wait()
        os.close(to_server)
        os.close(from_server)


@pytest.mark.parametrize(
    "wrapper",
    [
        pytest.param([], marks=pytest.mark.nightly),
        pytest.param(["sh", "-c", '"$@"; exit', "sh"], marks=posix),
        pytest.param(["timeout", "300"], marks=[posix, pytest.mark.nightly]),
        pytest.param(["cmd", "/c"], marks=pytest.mark.skipif(sys.platform != "win32", reason="the shell of Windows")),
    ],
    ids=["bare", "sh", "timeout", "cmd"],
)
def test_the_death_of_the_client_ends_a_server_whose_pipe_somebody_else_holds(
    tmp_path: Path, wrapper: list[str]
) -> None:
    with orphaned(tmp_path, [*wrapper, sys.executable, str(TOY)]) as (client, _, from_server):
        client.kill()

        if sys.platform != "win32":  # there a pipe cannot be waited for
            assert select.select([from_server], [], [], PATIENCE_S)[0]
        assert os.read(from_server, 1_000) == b""  # nobody writes any more
        assert (tmp_path / "journal").read_text().splitlines()[-1] == "close"


def test_a_server_lives_as_long_as_its_client(tmp_path: Path) -> None:
    with orphaned(tmp_path, [sys.executable, str(TOY)]) as (_, to_server, from_server):
        until(lambda: looked_often_enough(tmp_path), "looks at the ancestors")
        os.write(to_server, b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
        assert b'"id":2' in os.read(from_server, 1_000)


PROCESSES_STARTED = """
import os, sys
from pgengram.runtime.operating_system import ancestors_gone
started = []
sys.addaudithook(lambda event, _: started.append(event) if event in {events} else None)
gone = ancestors_gone(os.getppid())
assert not any(gone() for _ in range(3))
print(started)
"""
STARTING = {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"}


def test_looking_whether_the_client_lives_starts_no_process() -> None:
    code = PROCESSES_STARTED.replace("{events}", repr(STARTING))

    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"[]"


def looked_often_enough(tmp_path: Path) -> bool:
    journal = tmp_path / "journal"
    return journal.exists() and time.time() - journal.stat().st_mtime > 2 * watchdog.TICK_S


@pytest.mark.parametrize(
    ("command", "wraps"),
    [
        ("uvx pgengram", True),
        ("/home/a/.local/bin/uv tool uvx pgengram", True),
        ("C:\\Users\\a\\uvx.exe pgengram", True),
        ("node /usr/bin/npx pgengram", True),
        ("npm exec pgengram", True),
        ("python3 -m pipx run pgengram", True),
        ("-zsh", True),
        ("sh -c pgengram", True),
        ("node /opt/client/cli.js", False),
        ("claude", False),
        ("/Applications/Claude.app/Contents/MacOS/Claude", False),
        ("python client.py", sys.platform == "win32"),  # there Python starts Python
    ],
)
def test_a_wrapper_is_told_from_a_client(command: str, *, wraps: bool) -> None:
    assert operating_system.is_wrapper(command.split(" ")) is wraps


@posix
def test_a_dead_process_does_not_live_even_before_its_parent_has_asked_for_its_code() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = psutil.Process(child.pid)
        assert operating_system.lives(found)
        child.stdin.close()
        until(lambda: not operating_system.lives(found), "end of the child")
