"""A text may say "tomorrow": the day is understood, kept beside the text, and told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from mcp import Client

from helpers import call, read

DAYS = {
    "Anna's dentist is tomorrow at 9.": ("tomorrow", 1),
    "Gestern ist Jonas nach Basel gezogen.": ("Gestern", -1),
    "El dentista de Luis es mañana a las 9.": ("mañana", 1),
    "Il y a deux jours le serveur de Claire est tombé.": ("Il y a deux jours", -2),
    "Domani Luca parte per Roma.": ("Domani", 1),
    "Jutro Ola ma egzamin.": ("Jutro", 1),
    "Paul has his knee operation in three days.": ("in three days", 3),
    "In zwei Wochen zieht Mara um.": ("In zwei Wochen", 14),
    "Dans 10 jours Claire part à Lille.": ("Dans 10 jours", 10),
    "El taller entrega el coche dentro de una semana.": ("dentro de una semana", 7),
    "The lease ends a week from now.": ("a week from now", 7),
    "Через пять дней Вера сдаёт отчёт.": ("Через пять дней", 5),
    "Ayşe üç gün sonra taşınıyor.": ("üç gün sonra", 3),
}


@pytest.mark.parametrize(("content", "told"), DAYS.items(), ids=[word for word, _ in DAYS.values()])
async def test_a_day_that_counts_from_now_is_kept_as_the_time_it_happens(
    client: Client, content: str, told: tuple[str, int]
) -> None:
    word, away = told
    days = {f"{datetime.now(UTC) + timedelta(days=away + off):%Y-%m-%d}" for off in (0, 1)}  # midnight may pass

    answer = await call(client, "create_memory", content=content)

    memory = await read(client, answer["memory_id"])
    assert memory["content"] == content
    assert memory["occurred_at"][:10] in days
    assert answer["read"][word] == f"{memory['occurred_at'][:10]}, kept in occurred_at"


async def test_a_week_is_kept_by_its_first_day_and_several_times_beside_each_other(client: Client) -> None:
    answer = await call(
        client,
        "create_memories",
        items=[
            {"content": "Next week Anna is in Rome."},
            {"content": "Jonas left yesterday and comes back tomorrow.", "metadata": {"by": "Anna"}},
        ],
    )

    week, both = [await read(client, one["memory_id"]) for one in answer["results"]]
    assert answer["results"][0]["read"]["Next week"].startswith(week["occurred_at"][:10] + "..")
    assert "occurred_at" not in both
    assert both["metadata"]["by"] == "Anna"
    assert both["metadata"]["times"].keys() == {"yesterday", "tomorrow"}


@pytest.mark.parametrize(
    "content",
    [
        "The choir rehearses on Mondays.",
        "Anna trinkt morgens Kaffee.",
        "Leo was born on 27 November 2021.",
        "The report is due in March.",
        "The demo is on 2026-12-04.",
        "Anna currently lives in Basel.",
        "Anna lives three days a week in Basel.",
        "The bakery closed for two weeks in August.",
    ],
)
async def test_what_does_not_count_from_now_is_left_as_it_is(client: Client, content: str) -> None:
    answer = await call(client, "create_memory", content=content)

    assert "read" not in answer
    assert "occurred_at" not in await read(client, answer["memory_id"])


async def test_the_callers_own_date_stands_and_a_change_is_read_likewise(client: Client) -> None:
    answer = await call(client, "create_memory", content="Yesterday it rained.", occurred_at="2026-01-02")
    id_ = answer["memory_id"]
    assert (await read(client, id_))["occurred_at"] == "2026-01-02T00:00:00Z"

    changed = await call(client, "update_memory", id=id_, content="Anna's dentist moved to tomorrow.")

    assert "kept in occurred_at" in changed["read"]["tomorrow"]
    assert (await read(client, id_))["occurred_at"] > "2026-01-03"
