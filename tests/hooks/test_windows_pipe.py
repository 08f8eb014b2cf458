"""The local socket of Windows, as far as other systems can show it: a FIFO that echoes stands in for its pipe."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from pgengram import __version__
from pgengram.local.socket_server import LocalServer, PipeServer
from pgengram.runtime import local_socket, windows_pipe
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there the hooks themselves use the pipe")
QUESTION = b'{"version": "0"}\n'


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that names a pipe whose server answers what it is asked."""
    monkeypatch.setattr(local_socket, "PIPES", True)
    monkeypatch.setattr(windows_pipe, "NAME", f"{tmp_path}/pipe-")
    name = windows_pipe.new_name()
    os.mkfifo(name)
    (tmp_path / "run").mkdir(mode=0o700)
    file = tmp_path / "run" / "own-1.sock"
    file.write_text(name)
    return file


def soon() -> float:
    return time.monotonic() + 20


def test_a_question_is_answered_over_the_pipe_that_a_file_names(pipe: Path) -> None:
    assert windows_pipe.exchange_line(str(pipe), QUESTION, soon()) == QUESTION


def test_hooks_and_commands_ask_over_the_pipe(pipe: Path) -> None:
    place = local_socket.Endpoints({"PGENGRAM_DATA_DIR": str(pipe.parents[1])})

    answer = local_socket.ask_server(place, {"hook": "claude-code"}, 20)

    assert answer is not None
    assert answer["hook"] == "claude-code"


def test_the_pipe_of_another_user_is_not_asked(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows_pipe, "_owner", lambda _: "S-1-5-21-0-0-0-1001")
    monkeypatch.setattr(windows_pipe, "write_all", lambda *_: pytest.fail("another user was told something"))

    assert windows_pipe.exchange_line(str(pipe), QUESTION, soon()) is None


def test_only_its_user_may_open_a_pipe() -> None:
    mine = "S-1-5-21-0-0-0-1000"

    assert windows_pipe.security(mine) == f"O:{mine}D:P(A;;GA;;;{mine})"  # its owner, no inherited right, one right


@pytest.mark.parametrize("named", ["", "/etc/hostname", r"\\.\pipe\of-somebody-else", "é"])
def test_a_file_that_names_no_pipe_of_ours_is_passed_by(pipe: Path, named: str) -> None:
    pipe.write_text(named)

    assert windows_pipe.exchange_line(str(pipe), QUESTION, soon()) is None


def test_a_pipe_that_a_killed_server_has_left_named_is_passed_by(pipe: Path) -> None:
    Path(pipe.read_text()).unlink()

    assert windows_pipe.exchange_line(str(pipe), QUESTION, soon()) is None


def test_a_server_that_does_not_answer_in_time_is_not_waited_for(pipe: Path) -> None:
    with pytest.raises(TimeoutError):
        windows_pipe.exchange_line(str(pipe), b"half a line", time.monotonic() + 0.05)


def test_no_two_pipes_have_one_name() -> None:
    assert len({windows_pipe.new_name() for _ in range(100)}) == 100


def test_a_deep_data_folder_is_as_good_as_any_where_no_path_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("folder" * 20)
    monkeypatch.setattr(local_socket, "PIPES", True)

    assert local_socket.Endpoints({"PGENGRAM_DATA_DIR": str(deep)}).folder == str(deep / "run")


async def test_a_server_that_cannot_make_its_pipe_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local_socket, "PIPES", True)

    assert not await LocalServer(MemoryManager(Settings(data_dir=str(tmp_path)))).start()
    assert "no local socket" in caplog.text


async def test_a_server_answers_what_comes_over_the_pipe_that_its_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipe itself is Windows' own; a list takes its place."""
    monkeypatch.setattr(local_socket, "PIPES", True)
    made: list[PipeServer] = []
    monkeypatch.setattr(PipeServer, "start", lambda pipe: made.append(pipe))
    server = LocalServer(MemoryManager(Settings(data_dir=str(tmp_path))))

    assert await server.start()
    [pipe] = made
    [file] = (tmp_path / "run").iterdir()
    assert windows_pipe.name_in(str(file)) == pipe.name
    for line in (QUESTION, b"[]\n", b"{\n", b'{"first": "all-of-others"}\n'):
        assert json.loads(await pipe._answer(line)) == {"version": __version__}
    request = {"version": __version__, "settings": {"PGENGRAM_SECRETS": "tell"}}
    assert b"PGENGRAM_SECRETS must be" in await pipe._answer(json.dumps(request).encode() + b"\n")
    await server.close()
    assert list((tmp_path / "run").iterdir()) == []
