"""Several questions in one search: what each of them finds, ranked as one."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from uuid import uuid4

import pytest
from mcp import Client

from helpers import call, found, remember
from pgengram.search.results import Hit, Hits, Match
from pgengram.search.results.budget import fused, question_parts

QUESTIONS = ["What does Elin drink in the morning?", "Where is the spare key?"]


async def test_a_list_of_questions_finds_what_each_of_them_asks(client: Client) -> None:
    tea = await remember(client, "Elin has a cup of rooibos after waking up.")
    key = await remember(client, "The key to the boathouse hangs behind the barometer.")
    for n in range(12):
        await remember(client, f"Elin drank lemonade at the fair of the year {1990 + n}, where the band played.")

    assert {*await found(client, QUESTIONS, limit=2)} == {tea, key}


async def test_the_same_question_in_two_languages_counts_a_memory_once(client: Client) -> None:
    key = await remember(client, "The key to the boathouse hangs behind the barometer.")

    assert await found(client, ["Where is the key?", "Wo ist der Schlüssel?"]) == [key]


async def test_pages_of_a_list_of_questions_neither_repeat_nor_skip(client: Client) -> None:
    ids = {await remember(client, f"Elin keeps the key number {n} in drawer {n}, near the tea.") for n in range(9)}

    first = await call(client, "search_memories", query=QUESTIONS, limit=4)
    second = await call(client, "search_memories", query=QUESTIONS, limit=4, cursor=first["next_cursor"])
    third = await call(client, "search_memories", query=QUESTIONS, limit=4, cursor=second["next_cursor"])

    pages = [hit["id"] for page in (first, second, third) for hit in page["results"]]
    assert len(pages) == len(ids)
    assert {*pages} == ids


async def test_more_questions_than_five_are_cut_and_it_is_told(client: Client) -> None:
    answer = await call(client, "search_memories", query=[f"question {n}" for n in range(7)])

    assert answer["read"]["query"] == "7 questions → the first 5"


async def test_exact_characters_may_be_looked_for_in_several_spellings(client: Client) -> None:
    one, other = await remember(client, "error TW-0419 again"), await remember(client, "Fehler TW-0420")
    await remember(client, "no error at all")

    assert {*await found(client, ["tw-0419", "tw-0420"], mode="substring")} == {one, other}


@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_pasted_text_is_asked_by_its_parts_and_most_by_its_end(client: Client, place: str) -> None:
    key = await remember(client, "The key to the boathouse hangs behind the barometer.")
    code = await remember(client, "Code BX-7741 means that the pump ran dry.")
    for n in range(12):
        await remember(client, f"The harbour fair of {1990 + n} had a band, a raffle and lemonade.")
    log = [f"09:{n:02}:07 listening, nothing to tell, buffers at {n} of 40" for n in range(20)]
    log.insert(0 if place == "before" else 15, "pump: BX-7741")

    ranked = await found(client, "\n".join([*log, "Where do we keep the key to the boathouse?"]), limit=3)

    assert ranked[0] == key
    assert code in ranked


async def test_a_text_pasted_in_chinese_is_asked_by_its_parts_too(client: Client) -> None:
    key = await remember(client, "船屋的钥匙挂在气压计后面。")
    for n in range(12):
        await remember(client, f"{1990 + n} 年的港口集市有乐队、抽奖和柠檬水。")
    pasted = [f"第{n}天我们又去看了海边的热闹，孩子们听音乐，老人们坐着聊天。" for n in range(12)]

    ranked = await found(client, "".join([*pasted, "钥匙在哪里？"]), limit=3)

    assert ranked[0] == key


@pytest.mark.parametrize(
    ("end", "asked"),
    [
        ("The night was cold. Where is the key to the boathouse?", "Where is the key to the boathouse?"),
        ("The night was cold. Where is the key? And the lamp?", "Where is the key? And the lamp?"),
        ("The pump has stopped. Why?", "The pump has stopped. Why?"),  # too little by itself
        ("Find the key. The night was cold.", "Find the key. The night was cold."),
    ],
)
def test_what_asks_in_a_pasted_text_are_the_questions_at_its_end(end: str, asked: str) -> None:
    pasted = "The harbour fair had a band, a raffle and lemonade, and everybody stayed until the lamps went out over the quay and the last boat had left for the island. "
    weight, first = question_parts(pasted * 6 + end)[0]
    assert (weight, first) == (1.0, asked)


async def test_in_mode_text_each_of_several_texts_is_looked_for_by_its_signs(client: Client) -> None:
    lamp, well, gate = [
        await remember(client, f"The {name} is old.") for name in ("red lamp", "deep well", "iron gate")
    ]

    asked = {"mode": "text", "query": ['"red lamp"', "well -iron"]}
    assert {*await found(client, **asked)} == {lamp, well}
    assert gate not in await found(client, **asked)


def test_a_memory_that_one_question_recalls_is_recalled_whatever_it_fits_best() -> None:
    match = Match(
        fit=0.9, similarity=None, words=0, found_by="words", why={}, standalone=0, is_named=False, is_of_long_talk=False
    )
    weak = replace(match, score=0.04, unlikely=True, recalled=False)
    sure = replace(match, fit=0.5, score=0.02, unlikely=True, recalled=True)
    columns = dict.fromkeys(
        one.name for one in fields(Hit) if one.default is MISSING and one.default_factory is MISSING
    )
    hit = Hit(**columns | {"id": uuid4()})

    together = fused([(1.0, Hits([replace(hit, match=one)], "exact")) for one in (weak, sure)], 0, 10)

    assert [one.match.recalled for one in together.found if one.match] == [True]
