"""Files that are broken, hostile or strange: refused or taken in part, told where, and the rest spared."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from helpers import Database
from machine import answered
from pgengram.errors import InvalidInput
from pgengram.service.manager import MemoryManager
from pgengram.transfer.importing import import_from
from pgengram.transfer.input.json_records import MOST_OF_ONE
from pgengram.transfer.report import Imported

KEY = "ghp_" + "a1B2c3D4" * 5
UNICODE = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")
OTHERS = {"cp1252": "Zoë rows.", "cp1251": "Зоя гребёт.", "shift_jis": "ゾエは漕ぐ。", "gb18030": "佐伊划船。"}


async def brought_in(manager: MemoryManager, path: Path, system: str = "", **options: Any) -> Imported:
    return await import_from(manager, system, str(path), dry_run=False, **{"report": lambda *_: None, **options})


def chats(count: int, *, texts: dict[int, str] | None = None) -> list[str]:
    """Return conversations of Claude.ai as JSON."""
    return [
        json.dumps(
            {
                "uuid": f"c-{number}", "name": f'The "{number}"', "created_at": "2024-05-01T10:00:00Z",
                "chat_messages": [
                    {"uuid": f"m-{number}", "text": (texts or {}).get(number, f"Fact {{{number}}}."), "sender": "human",
                     "created_at": "2024-05-01T10:00:00Z"}
                ],
            }
        )
        for number in range(count)
    ]  # fmt: skip


def written(path: Path, conversations: list[str]) -> Path:
    path.write_text(f"[{', '.join(conversations)}]", encoding="utf-8")
    return path


def kept(database: Database) -> set[str]:
    return {row["conversation"] for row in database.rows("SELECT conversation FROM conversation_turns")}


def contents(database: Database) -> list[str]:
    return [row["content"] for row in database.rows("SELECT content FROM memories ORDER BY content")]


BREAKS = {
    "a quote is missing": '{"uuid": "c-3, "name": "x", "chat_messages": [[[',
    "a bracket is missing": '{"uuid": "c-3", "name": "x", "chat_messages": [{"text": "y"',
    "a bracket is too many": '{"uuid": "c-3", "name": "x", "created_at": nothing}}]',
    "an escape is wrong": '{"uuid": "c-3", "name": "\\x"}',
    "it is too deep": '{"uuid": "c-3", "name": "x", "a": ' + "[" * 5_000 + "]" * 5_000 + "}",
}


@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
async def test_a_broken_record_is_told_by_its_place_and_costs_the_others_nothing(
    manager: MemoryManager, database: Database, tmp_path: Path, broken: str
) -> None:
    conversations = chats(8)
    conversations[3] = broken
    at = len(", ".join(["[" + conversations[0], *conversations[1:3], ""]))

    report = await brought_in(manager, written(tmp_path / "conversations.json", conversations))

    assert kept(database) == {f"c-{number}" for number in range(8)} - {"c-3"}
    assert f"conversations.json, byte {at:,}" in [one.place for one in report.left]


async def test_a_file_that_ends_in_the_middle_is_taken_as_far_as_it_goes(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    whole = written(tmp_path / "conversations.json", chats(5)).read_bytes()
    (tmp_path / "conversations.json").write_bytes(whole[:-60])

    report = await brought_in(manager, tmp_path / "conversations.json")

    assert kept(database) == {"c-0", "c-1", "c-2", "c-3"}
    assert list(report.reasons) == ["it ends in the middle"]


async def test_a_zip_bomb_a_path_that_climbs_out_and_broken_bytes_are_left_out_and_the_rest_is_taken(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("conversations.json", f"[{', '.join(chats(2))}]")
        archive.writestr("conversations-bomb.json", b" " * (MOST_OF_ONE * 2))
        archive.writestr("../conversations-out.json", f"[{chats(9)[8]}]")
        archive.writestr("conversations-torn.json", f"[{chats(8)[7]}]" * 3_000)
    torn = bytearray(path.read_bytes())
    start = torn.find(b"conversations-torn.json")
    torn[start + 200 : start + 260] = bytes(60)
    path.write_bytes(torn)

    report = await brought_in(manager, path)

    assert kept(database) - {"c-7"} == {"c-0", "c-1"}
    places = {one.place: one.reason for one in report.left}
    assert places["conversations-bomb.json"] == "it unpacks to more than 200 times its size"
    assert places["../conversations-out.json"] == "it leads out of the folder"
    assert "it can't be read to its end" in places["conversations-torn.json"]


async def test_something_that_is_nothing_is_refused_with_what_can_be_given(
    manager: MemoryManager, tmp_path: Path
) -> None:
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 no zip" + b"PK\x05\x06" + bytes(18))
    (tmp_path / "photo.bin").write_bytes(bytes(range(256)))

    for name in ("broken.zip", "photo.bin", "not-there"):
        with pytest.raises(InvalidInput):
            await brought_in(manager, tmp_path / name)


@pytest.mark.parametrize("encoding", UNICODE)
async def test_any_kind_of_unicode_is_recognised(
    manager: MemoryManager, database: Database, tmp_path: Path, encoding: str
) -> None:
    (tmp_path / "notes.csv").write_bytes("text,date\nZoë rows → home 🚣.,2024-05-01\n".encode(encoding))

    await brought_in(manager, tmp_path / "notes.csv")

    assert contents(database) == ["Zoë rows → home 🚣."]


@pytest.mark.parametrize("encoding", OTHERS)
async def test_another_encoding_is_asked_for_and_read_when_it_is_told(
    manager: MemoryManager, database: Database, tmp_path: Path, encoding: str
) -> None:
    (tmp_path / "notes.csv").write_bytes(f"text,date\n{OTHERS[encoding]},2024-05-01\n".encode(encoding))

    with pytest.raises(InvalidInput, match="--encoding"):
        await brought_in(manager, tmp_path / "notes.csv")
    await brought_in(manager, tmp_path / "notes.csv", encoding=encoding)

    assert contents(database) == [OTHERS[encoding]]


async def test_dates_of_many_shapes_are_read_and_one_that_is_none_is_told(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    shapes = (
        "2024-05-01T10:00:00Z", "2024-05-01T12:00:00+02:00", "1714557600", "1714557600000", "Wed, 01 May 2024 10:00:00 GMT",
        "2024-05-01 10:00:00 UTC", "1714557600.0",
    )  # fmt: skip
    rows = [f'text {number},"{shape}"' for number, shape in enumerate((*shapes, "the day after"))]
    (tmp_path / "notes.csv").write_text("\n".join(["content,created_at", *rows]), encoding="utf-8")

    report = await brought_in(manager, tmp_path / "notes.csv")

    days = database.rows(
        "SELECT DISTINCT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS at, count(*) AS n FROM memories GROUP BY 1"
    )
    assert days == [{"at": "2024-05-01 10:00", "n": len(shapes)}]
    assert [one.place for one in report.left] == ["notes.csv, line 9"]


@pytest.mark.nightly
async def test_a_message_of_40_mb_is_kept_in_part_and_one_that_is_larger_is_left_out(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    texts = {1: "é" + "x" * 40_000_000, 3: "y" * (MOST_OF_ONE + 1)}

    report = await brought_in(manager, written(tmp_path / "conversations.json", chats(5, texts=texts)))

    assert kept(database) == {"c-0", "c-1", "c-2", "c-4"}
    [row] = database.rows("SELECT length(text) AS n FROM conversation_turns WHERE conversation = 'c-1'")
    assert 200_000 < row["n"] < 200_100
    assert {reason: one.count for reason, one in report.reasons.items()} == {
        "only its beginning is kept, as it is too long": 1, "it is larger than 48 MB": 1,
    }  # fmt: skip


async def test_secrets_and_characters_that_postgresql_refuses_are_not_stored(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    conversations = chats(2, texts={0: f"Use {KEY} there.", 1: "A \0 and a \ud800."})
    conversations[0] = conversations[0].replace('The \\"0\\"', f"Key {KEY}").replace('"c-0"', '"c-0\\u0000"')
    notes = tmp_path / "notes.csv"
    notes.write_text(f"text\nUse {KEY} there.\nUse the other.\n", encoding="utf-8")

    said = await brought_in(manager, written(tmp_path / "conversations.json", conversations))
    noted = await brought_in(manager, notes)

    assert said.redacted == 1
    stored = [
        str(row) for row in database.rows("SELECT * FROM conversation_turns t JOIN conversations USING (conversation)")
    ]
    assert len(stored) == 2
    assert not any("ghp_" in row for row in stored)
    assert contents(database) == ["Use the other."]
    assert [one.place for one in noted.left] == ["notes.csv, line 2"]


async def test_an_interrupted_import_is_repeated_and_loses_and_doubles_nothing(
    manager: MemoryManager, database: Database, tmp_path: Path
) -> None:
    path = written(tmp_path / "conversations.json", chats(3_000, texts=dict.fromkeys(range(3_000), "Row home. " * 100)))
    seen: list[tuple[int, int]] = []

    def broken_off(done: int, total: int) -> None:
        seen.append((done, total))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await brought_in(manager, path, report=broken_off)
    [(done, total)] = seen
    again = await brought_in(manager, path)

    assert done < total  # it was not read whole
    assert (again.known["turn"], again.added["turn"]) == (done, 3_000 - done)
    assert database.rows("SELECT count(*) AS n, count(DISTINCT conversation) AS m FROM conversation_turns") == [
        {"n": 3_000, "m": 3_000}
    ]


def test_the_command_line_takes_a_hostile_zip_in_part_and_says_where_the_rest_is(
    database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "export.zip"
    long = "z" * 40_000_000
    good = chats(4, texts={0: f"Use {KEY} there.", 2: long})
    good[1] = BREAKS["a quote is missing"]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("conversations.json", f"[{', '.join(good)}]")
        archive.writestr("../conversations-out.json", f"[{chats(9)[8]}]")
        archive.writestr("/conversations-root.json", f"[{chats(9)[7]}]")
        archive.writestr("conversations-bomb.json", b" " * (MOST_OF_ONE * 2))

    told = answered("import", str(path), "--json", expect=1, database_url=database.url, embedder="none:")

    assert kept(database) == {"c-0", "c-2", "c-3"}
    assert (told["from"], told["added"], told["redacted"]) == ("claude-ai", {"turn": 3}, 1)
    reasons = {one["place"].partition(",")[0]: one["reason"] for one in told["left"]}
    assert reasons.keys() == {
        "conversations.json", "../conversations-out.json", "/conversations-root.json", "conversations-bomb.json",
    }  # fmt: skip
    assert KEY not in str(database.rows("SELECT text FROM conversation_turns")) + str(told)


def test_the_command_line_reads_another_encoding_and_five_shapes_of_dates(database: Database, tmp_path: Path) -> None:
    shapes = (
        "2024-05-01T10:00:00Z",
        "2024-05-01 10:00",
        "1714557600",
        "1714557600000",
        "Wed, 01 May 2024 10:00:00 GMT",
    )
    rows = [f"Zoë rows {number}.;{shape}" for number, shape in enumerate((*shapes, "someday"))]
    path = tmp_path / "notes.csv"
    path.write_bytes("\n".join(["text;date", *rows]).encode("cp1252"))

    told = answered(
        "import", str(path), "--encoding", "cp1252", "--json", expect=1, database_url=database.url, embedder="none:"
    )

    assert [one["place"] for one in told["left"]] == ["notes.csv, line 7"]
    days = database.rows("SELECT DISTINCT created_at FROM memories")
    assert [row["created_at"].isoformat()[:16] for row in days] == ["2024-05-01T10:00"]
    assert contents(database) == [f"Zoë rows {number}." for number in range(5)]
