"""Questions that name a time: it bounds the answer when nothing else is asked, and weighs otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from mcp import Client

from helpers import call, found, hits, remember

NOW = "2026-05-13T12:00:00Z"  # a Wednesday
LAST_WEEK = "2026-05-04..2026-05-10"


@pytest.mark.parametrize(
    "question",
    [
        "What happened last week?", "Was ist letzte Woche passiert?", "Was passierte letzte Woche?", "¿Qué pasó la semana pasada?",
        "Que s'est-il passé la semaine dernière ?", "Que s'est-il produit la semaine dernière ?",
    ],
)  # fmt: skip
async def test_a_question_for_a_time_alone_lists_what_happened_then(client: Client, question: str) -> None:
    early = await remember(client, "We painted the fence.", occurred_at="2026-05-05T10:00:00Z")
    late = await remember(client, "The week of the fair began.", occurred_at="2026-05-09T10:00:00Z")
    await remember(client, "Last week was nice, and the week before.", occurred_at="2026-03-01T10:00:00Z")

    answer = await call(client, "search_memories", query=question, now=NOW)

    assert ([hit["id"] for hit in answer["results"]], answer["period"]) == ([late, early], LAST_WEEK)
    assert answer["evidence"] == "strong"


@pytest.mark.parametrize("context", ["What happened yesterday?", "Was ist gestern passiert?", "¿Qué pasó ayer?"])
async def test_what_happened_then_is_recalled_for_a_time_alone(client: Client, context: str) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    then = await remember(client, "We painted the fence.", occurred_at=yesterday.isoformat())
    await remember(client, "Yesterday was nice.", occurred_at="2026-03-01T10:00:00Z")

    recalled = await call(client, "recall_context", context=context)
    nothing = await call(client, "recall_context", context="What happened on 5 May 2019?")

    assert (recalled["memory_ids"], recalled["evidence"]) == ([then], "strong")
    assert nothing["evidence"] == "none"


async def test_a_time_beside_a_subject_decides_between_what_fits_and_hides_nothing(client: Client) -> None:
    before = await remember(client, "We walked along the river.", occurred_at="2026-04-05T10:00:00Z")
    then = await remember(client, "We walked along the river to the mill.", occurred_at="2026-05-05T10:00:00Z")

    answer = await call(client, "search_memories", query="Where did we walk along the river last week?", now=NOW)

    assert ([hit["id"] for hit in answer["results"]], answer["period"]) == ([then, before], LAST_WEEK)


@pytest.mark.parametrize(
    "said", ["on 5 May 2026", "am 5. Mai", "2026-05-05", "May 5, 2026", "le 5 mai 2026", "el 5 de mayo de 2026"]
)
async def test_a_day_that_the_text_itself_names_counts_as_when_it_happened(client: Client, said: str) -> None:
    other = await remember(client, "We walked along the river, on 5 May 2019.")
    then = await remember(client, f"We walked along the river, {said}.")

    assert await found(client, "Where did we walk along the river last week?", now=NOW) == [then, other]


@pytest.mark.parametrize(
    ("question", "day"),
    [
        ("Was passiert am 7. Dezember?", "2026-12-07"), ("What happens on December 7?", "2026-12-07"), ("Was ist im Dezember los?", "2026-12-07"),
        ("What do we have on Thursday?", "2026-12-03"), ("Was ist am Donnerstag?", "2026-12-03"), ("Was ist in zwei Wochen?", "2026-12-12"),
    ],
)  # fmt: skip
async def test_a_day_without_a_year_may_be_the_next_one(client: Client, question: str, day: str) -> None:
    then = await remember(client, "Mara presents the mill.", occurred_at=f"{day}T10:00:00Z")
    for content in ("The mill needs a roof.", "Tom sails.", "Die Mühle mahlt."):
        await remember(client, content, occurred_at="2026-03-01T10:00:00Z")

    assert (await found(client, question, now="2026-11-28T12:00:00Z"))[0] == then


async def test_no_memory_is_found_for_the_words_of_the_time_itself(client: Client) -> None:
    walk = await remember(client, "The mill has a path beside the river.")
    await remember(client, "Last week the week of last things was the last week.")

    assert (await found(client, "river path last week", now=NOW))[0] == walk


@pytest.mark.parametrize(
    ("now", "today"),
    [
        ("2026-05-14T00:30:00+09:00", {"day", "early", "late"}),  # when it is the 13th in London
        ("2026-05-14T23:30:00+09:00", {"day", "early", "late"}),
        ("2026-05-13T18:00:00-08:00", {"before", "early"}),
        ("2026-05-14T12:00:00Z", {"day", "late", "after"}),
    ],
)
async def test_a_day_is_that_of_the_clock_where_it_is_asked(client: Client, now: str, today: set[str]) -> None:
    """A day without a time of day is that day everywhere."""
    happened = {
        "before": "2026-05-13",
        "early": "2026-05-13T16:00:00Z",  # 01:00 of the 14th in Tokyo
        "day": "2026-05-14",
        "late": "2026-05-14T14:59:00Z",
        "after": "2026-05-14T15:01:00Z",
        "next": "2026-05-15",
    }
    ids = {
        await remember(client, f"The ferry trip was {name}.", occurred_at=when): name for name, when in happened.items()
    }
    away = {"before", "next"} if "-08:00" not in now else {"day", "late"}

    assert {ids[id_] for id_ in await found(client, "What happened today?", now=now)} == today
    ranked = {ids[hit["id"]]: hit["why"].get("period", 0) for hit in await hits(client, "Was there a ferry trip today?", now=now)}  # fmt: skip
    assert all(ranked[name] > ranked[other] for name in today for other in away)


@pytest.mark.parametrize(
    "question",
    ["What happens next week?", "Was steht nächste Woche an?", "¿Qué hay la próxima semana?", "appointments next week"],
)
async def test_what_happens_in_a_time_ahead_is_an_answer_whatever_word_asks_for_it(
    client: Client, question: str
) -> None:
    visit = await remember(client, "Halina comes for a visit.", occurred_at="2026-05-20T10:00:00Z")
    due = await remember(client, "The library books are due on 19 May 2026.")
    await remember(client, "Mira is allergic to walnuts.")

    answer = await call(client, "search_memories", query=question, now=NOW, detail=True)

    assert answer["period"] == "2026-05-18..2026-05-24"
    assert answer["evidence"] != "none"
    assert {visit, due} <= {hit["id"] for hit in answer["results"] if not hit.get("unlikely")}


async def test_what_was_only_stored_or_is_of_another_time_is_no_answer_to_a_time_ahead(client: Client) -> None:
    await remember(client, "Halina came for a visit.", occurred_at="2026-05-06T10:00:00Z")
    await remember(client, "Mira is allergic to walnuts.")

    answer = await call(client, "search_memories", query="Which concerts are next week?", now=NOW)

    assert answer["evidence"] == "none"


@pytest.mark.parametrize(
    "asked", ["Tom's trip plan in June", "¿Qué plan de viaje tiene Tom en junio?", "Quel voyage en juin ?"]
)
async def test_of_a_month_without_a_year_that_is_soon_the_last_and_the_next_are_named(
    client: Client, asked: str
) -> None:
    await remember(client, "Tom's plan is a trip to the coast.", occurred_at="2026-06-12T10:00:00Z")

    answer = await call(client, "search_memories", query=asked, now=NOW)
    past = await call(client, "search_memories", query="Tom trip plan in March", now=NOW)

    assert answer["period"] == "2025-06-01..2025-06-30, 2026-06-01..2026-06-30"
    assert past["period"] == "2026-03-01..2026-03-31"
