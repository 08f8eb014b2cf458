"""An export that only a passphrase or a key opens, and what is said to whoever has neither."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import PATIENCE_S, Database, database_of, environment
from machine import answered, exit_code, has_terminals, pgengram, what_comes

pyrage = pytest.importorskip("pyrage")
TEXT = "The harbour office pays by the tide."


@pytest.fixture
def store(database: Database) -> dict[str, str]:
    settings = {"database_url": database.url, "embedder": "none:"}
    pgengram("add", TEXT, **settings)
    return settings


@pytest.fixture
def other(postgres: str, template: str) -> Iterator[dict[str, str]]:
    with database_of(postgres, template) as made:
        yield {"database_url": made.url, "embedder": "none:"}


def contents(settings: dict[str, str]) -> list[str]:
    return [hit["content"] for hit in answered("list", "--json", **settings)["results"]]


def at_a_terminal(*words: str, says: list[str], **settings: str) -> tuple[int, str]:
    """Run a command at a terminal, and answer each question for a passphrase."""
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-m", "pgengram", *words], environment(**settings))
    shown = b""
    answers = iter(says)
    for part in what_comes(terminal):
        shown += part
        if shown.endswith(b": "):  # nothing is echoed from here on
            os.write(terminal, f"{next(answers)}\n".encode())
    os.close(terminal)
    return exit_code(pid), shown.decode()


@has_terminals
def test_what_a_passphrase_encrypted_it_alone_opens(
    store: dict[str, str], other: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "memories.age"

    made = at_a_terminal("export", "--encrypt", str(path), says=["two wet dogs", "two wet dogs"], **store)
    wrong = at_a_terminal("import", str(path), says=["one dry cat"], **other)
    nothing = contents(other)
    right = at_a_terminal("import", str(path), says=["two wet dogs"], **other)

    assert made[0] == 0
    assert "two wet dogs" not in made[1]
    assert path.read_bytes().startswith(b"age-encryption.org/v1")
    assert path.stat().st_mode & 0o077 == 0
    assert TEXT.encode() not in path.read_bytes()
    assert (wrong[0], nothing) == (2, [])
    assert "This passphrase doesn't open the file" in wrong[1]
    assert "Traceback" not in wrong[1]
    assert (right[0], contents(other)) == (0, [TEXT])


def test_what_was_encrypted_for_a_key_is_imported_with_the_secret_one_alone(
    store: dict[str, str], other: dict[str, str], tmp_path: Path
) -> None:
    key, foreign = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
    (tmp_path / "key.txt").write_text(f"# created: 2026-11-27\n{key}\n")
    (tmp_path / "foreign.txt").write_text(str(foreign))
    (tmp_path / "recipients.txt").write_text(f"# both of us\n{key.to_public()}\n\n{foreign.to_public()}\n")
    path = tmp_path / "memories.jsonl.age"

    pgengram("export", "--recipient", str(key.to_public()), str(path), **store)
    refused = {
        "--identity": pgengram("import", str(path), expect=2, **other),
        "doesn't open the file": pgengram("import", str(path), "--identity", str(tmp_path / "foreign.txt"), expect=2, **other),
        "holds no secret key": pgengram("import", str(path), "--identity", str(tmp_path / "recipients.txt"), expect=2, **other),
        "can't be read": pgengram("import", str(path), "--identity", str(tmp_path / "none"), expect=2, **other),
    }  # fmt: skip
    torn = tmp_path / "torn.age"
    torn.write_bytes(path.read_bytes()[:-9])
    refused["damaged"] = pgengram("import", str(torn), "--identity", str(tmp_path / "key.txt"), expect=2, **other)
    nothing = contents(other)
    pgengram("import", str(path), "--identity", str(tmp_path / "key.txt"), **other)
    pgengram("export", "--recipient", str(tmp_path / "recipients.txt"), str(path), **store)

    for said, ended in refused.items():
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr
    assert nothing == []
    assert contents(other) == [TEXT]
    assert pyrage.decrypt(path.read_bytes(), [foreign]).decode().startswith('{"record": "export"')


def test_it_is_written_to_and_read_from_a_pipe(store: dict[str, str], other: dict[str, str], tmp_path: Path) -> None:
    key = pyrage.x25519.Identity.generate()
    (tmp_path / "key.txt").write_text(str(key))
    export = [sys.executable, "-m", "pgengram", "export", "-", "--recipient", str(key.to_public())]
    written = subprocess.run(export, env=environment(**store), capture_output=True, timeout=PATIENCE_S, check=True)

    taken = subprocess.run(
        [sys.executable, "-m", "pgengram", "import", "-", "--identity", str(tmp_path / "key.txt")],
        env=environment(**other), input=written.stdout, capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip

    assert taken.returncode == 0, taken.stderr
    assert contents(other) == [TEXT]


def test_what_cannot_be_encrypted_is_refused_before_anything_is_written(store: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "memories.age"

    no_key = pgengram("export", "--recipient", "age1nonsense", str(path), expect=2, **store)
    no_terminal = pgengram("export", "--encrypt", str(path), expect=2, **store)
    notes = pgengram("export", "--format", "markdown", "--encrypt", str(tmp_path / "notes"), expect=2, **store)

    assert "is not a public key" in no_key.stderr
    assert "no terminal" in no_terminal.stderr
    assert "--recipient" in no_terminal.stderr
    assert "can't be encrypted" in notes.stderr
    assert [*tmp_path.iterdir()] == []


def test_among_other_files_it_is_named_as_encrypted(other: dict[str, str], tmp_path: Path) -> None:
    key = pyrage.x25519.Identity.generate()
    (tmp_path / "secret.jsonl").write_bytes(pyrage.encrypt(b"{}", [key.to_public()]))
    (tmp_path / "plain.jsonl").write_text('{"record": "export", "format": 1}\n')

    said = pgengram("import", str(tmp_path), expect=1, **other)

    assert "it is encrypted" in said.stdout
