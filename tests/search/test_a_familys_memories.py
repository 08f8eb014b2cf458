"""What two people told one assistant in two languages over weeks: what holds is found first and marked, whoever said it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from helpers import call, hits

TOLD: list[dict[str, Any]] = json.loads(Path(__file__).with_name("a_familys_memories.json").read_text(encoding="utf-8"))
# The beginning of a newer text, and that of an older one that it replaces.
CHANGES = (
    ("The family trip of Mira, Paul, Jonas and Lena to Valencia is moved", "The family trip of Mira, Paul, Jonas and Lena to Valencia is planned"),
    ("The family has changed its doctor", "The family doctor of Mira and Paul is Dr. Hofer"),
    ("Paul has moved from Babbel", "Paul studies Spanish with the app Babbel"),
    ("The allergologist retested Lena", "Lena, the daughter"),
    ("Lena is still allergic", "The allergologist retested Lena"),
    ("Paul is leaving Gasthaus Kastner", "Paul works as sous chef"),
    ("In project Nordwind the dark theme", "Decision in project Nordwind"),
    ("Tomasz Nowak has left", "Tomasz Nowak is the front-end developer"),
    ("The budget of project Nordwind was raised", "The budget of project Nordwind is 48,000"),
)  # fmt: skip
ASKED = {
    "Ab wie viel Grad backt Paul die Pizza?": ("Paul's pizza dough", None),
    "Who is our family doctor?": (
        "The family has changed its doctor",
        "The family doctor of Mira and Paul is Dr. Hofer",
    ),
    "What is the default theme of the Nordwind app?": (
        "In project Nordwind the dark theme",
        "Decision in project Nordwind",
    ),
    "What is the Nordwind budget?": (
        "The budget of project Nordwind was raised",
        "The budget of project Nordwind is 48,000",
    ),
    "Wer ist Entwickler bei Nordwind?": ("Tomasz Nowak has left", "Tomasz Nowak is the front-end developer"),
    "How does Paul learn Spanish?": ("Paul has moved from Babbel", "Paul studies Spanish"),
    "Is Lena allergic to hazelnuts?": ("Lena is still allergic", None),
}


@pytest.fixture
async def family(client: Client) -> tuple[Client, list[dict[str, Any]]]:
    answers = [await call(client, "create_memory", **one) for one in TOLD]
    return client, answers


async def test_what_holds_is_asked_about_when_it_is_stored_and_found_first(
    family: tuple[Client, list[dict[str, Any]]],
) -> None:
    client, answers = family
    ids = {one["content"]: answer["memory_id"] for one, answer in zip(TOLD, answers, strict=True)}

    def id_of(beginning: str) -> str:
        return next(id_ for content, id_ in ids.items() if content.startswith(beginning))

    hinted = {answer["memory_id"]: {one["id"] for one in answer.get("may_replace", ())} for answer in answers}
    missed = [(newer, older) for newer, older in CHANGES if id_of(older) not in hinted[id_of(newer)]]
    assert missed == []
    assert id_of("Paul's pizza dough") not in hinted[id_of("How Paul gets a burnt pan clean")]

    for question, (first, older) in ASKED.items():
        found = await hits(client, question)
        assert found[0]["content"].startswith(first), question
        assert older is None or id_of(older) in found[0]["older"], question
