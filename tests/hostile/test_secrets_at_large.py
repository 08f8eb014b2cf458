"""Secrets among many notes and many files: no ordinary note is held for one, and a refused one is nowhere afterwards."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from helpers import connected, refused, remember
from machine import closed_in_the_end, copied
from pgengram.demo import load_corpus
from pgengram.text.secrets import secrets_in

SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2"
CHANCE = random.Random(7)
KINDS = {
    "a UUID": lambda: f"Order {UUID(int=CHANCE.getrandbits(128))} was shipped on 3 March 2026.",
    "a commit": lambda: f"The fault came with commit {CHANCE.getrandbits(160):040x}, fixed in {CHANCE.getrandbits(28):07x}.",
    "a SHA-256": lambda: f"sha256:{CHANCE.getrandbits(256):064x} is the checksum of the image.",
    "an MD5": lambda: f"The file's md5 is {CHANCE.getrandbits(128):032x}.",
    "a number": lambda: f"Invoice {CHANCE.randrange(10**9)} of {CHANCE.randrange(10**6) / 100:.2f} EUR, phone +49 30 {CHANCE.randrange(10**7)}.",
    "an address": lambda: f"https://example.org/{CHANCE.getrandbits(64):x}/page?id={CHANCE.randrange(10**8)}&lang=en",
    "a version": lambda: f"pip install package-{CHANCE.randrange(99)}=={CHANCE.randrange(20)}.{CHANCE.randrange(50)}.{CHANCE.randrange(9)}",
}  # fmt: skip


def files_holding(folder: Path, text: str) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.fixture
def folder(tmp_path: Path, prepared: Path) -> Iterator[Path]:
    with closed_in_the_end(tmp_path / "store") as made:
        copied(prepared, made)
        yield made


def test_of_more_than_five_hundred_ordinary_notes_none_is_held_for_a_secret() -> None:
    notes = [memory.content for memory in load_corpus().memories]
    notes += [make() for make in KINDS.values() for _ in range(60)]

    assert len(notes) >= 500
    assert [note for note in notes if secrets_in(note)] == []


async def test_a_refused_secret_is_in_no_file_of_the_store(folder: Path) -> None:
    async with connected(data_dir=str(folder), embedder="none:", log_level="DEBUG") as client:
        id_ = await remember(client, "The token is in the safe.")
        for tool, arguments in (
            ("create_memory", {"content": f"The token is {SECRET}."}),
            ("create_memory", {"content": "A token.", "metadata": {"token": SECRET}, "tags": [SECRET]}),
            ("update_memory", {"id": id_, "content": f"It is {SECRET}."}),
            ("forget_memories", {"ids": [id_], "reason": SECRET}),
        ):
            error = await refused(client, tool, **arguments)
            assert error["code"] == "SECRET_REJECTED"
            assert SECRET not in str(error)

    assert any("pg_wal" in name for name in files_holding(folder, "in the safe"))
    assert files_holding(folder, SECRET) == []
