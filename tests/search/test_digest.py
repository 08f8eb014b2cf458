"""A session begins with what holds, by whose it is, and with what is due; nobody has to ask for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from mcp import Client

from helpers import Served, call, owned_tables, remember

OLD = "Esther's choir rehearses on Wednesdays in the parish hall."
NEW = "Esther's choir now meets on Mondays in the library."


def day(ahead: int) -> str:
    return f"{datetime.now(UTC) + timedelta(days=ahead):%Y-%m-%d}"


@pytest.fixture
async def client(serving: Served) -> Client:
    serving.db.empty(owned_tables())
    for content, more in {
        OLD: {"user": "Esther"},
        "Esther is allergic to wasps.": {"user": "Esther"},
        "Otto ist laktoseintolerant.": {"user": "Otto"},
        "clockwork is written in Rust.": {"project": "clockwork", "kind": "project"},
        f"Otto's tax return is due on {day(9)}.": {"user": "Otto"},
        f"Esther was born on {(datetime.now(UTC) + timedelta(days=5)).strftime('%d %B')} 1990.": {"user": "Esther"},
    }.items():
        await remember(serving.client, content, **more)
    serving.db.as_login(
        "UPDATE memories SET created_at = now() - interval '30 days', last_confirmed_at = now() - interval '30 days'"
    )
    await remember(serving.client, "The parcel for Otto arrives.", user="Otto", occurred_at=day(2))
    await remember(serving.client, "The fair is open.", expires_at=day(12))
    return serving.client


async def begun(client: Client, **asked: str) -> str:
    return str((await call(client, "recall_context", **asked))["context"])


@pytest.mark.shows(14)
async def test_a_store_that_fits_is_shown_whole_by_person_and_project_with_the_day_of_each_statement(
    client: Client,
) -> None:
    text = await begun(client)

    for said in ("Otto ist laktoseintolerant.", "clockwork is written in Rust.", "Esther is allergic to wasps."):
        assert text.count(said) == 1
    assert {"Esther:", "Otto:", "clockwork:"} <= {*text.splitlines()}
    assert f"stated {day(-30)}" in text
    assert text == text.replace("updated", "")


@pytest.mark.parametrize("greeting", ["Hi!", "Guten Morgen", "Hola, ¿qué tal?"])
async def test_a_greeting_begins_like_no_topic_at_all(client: Client, greeting: str) -> None:
    without, greeted = await begun(client), await begun(client, context=greeting)

    assert greeted.splitlines()[2:-1] == without.splitlines()[2:-1]  # but for the mark of the fence


async def test_what_is_due_in_two_weeks_stands_first_by_its_day(client: Client) -> None:
    lines = (await begun(client)).splitlines()

    assert "Of nobody in particular:" not in lines  # what is, is due
    assert ":" not in lines
    start = lines.index("Next two weeks:") + 1
    assert [line[2:12] for line in lines[start : start + 4]] == [day(2), day(5), day(9), day(12)]


async def test_the_days_of_a_text_that_names_two_of_them_from_now_are_due_as_well(client: Client) -> None:
    said = "In three days Otto hands in the flat's keys, and in six days he gets the deposit."
    await remember(client, said, user="Otto")

    lines = (await begun(client)).splitlines()

    assert day(3) in next(line for line in lines[lines.index("Next two weeks:") :] if said in line)


async def test_since_today_is_nothing_that_is_due(client: Client) -> None:
    await remember(client, f"Otto is a vegan since {day(0)}.", user="Otto")

    text = await begun(client)

    assert text.index("Otto:") < text.index("Otto is a vegan")


async def test_whoever_is_named_in_anothers_memories_begins_with_these(client: Client) -> None:
    await remember(client, "Esther's niece Paula is intolerant of lactose.", user="Esther")

    text = await begun(client, user="Paula")

    assert "Paula is intolerant of lactose." in text
    assert "wasps" not in text


async def test_the_day_on_which_a_thing_was_said_is_not_when_it_is_due(client: Client) -> None:
    await remember(client, f"Otto still takes no milk (said on {day(0)}).", user="Otto")

    text = await begun(client)

    assert text.index("Otto:") < text.index("Otto still takes no milk")


async def test_what_limits_people_is_standing_in_any_language(client: Client) -> None:
    sayings = ("Лара веганка.", "Ola ma uczulenie na orzechy.", "Nils är vegetarian.", "Deniz çölyak hastası.")
    for said in sayings:
        await remember(client, said, user=said.split()[0])

    text = await begun(client, context="sundials and their shadows")

    assert [said for said in sayings if said not in text] == []


@pytest.mark.parametrize("said", ["Rosa ist Vegetarierin.", "Rosa a une allergie aux noix.", "Роза — веганка."])
async def test_what_another_person_who_is_named_must_not_eat_is_recalled_for_whoever_cooks(
    client: Client, said: str
) -> None:
    await remember(client, said, user=said.split()[0])

    text = await begun(client, context=f"What should I cook for {said.split()[0]} and Otto tonight?", user="Otto")

    assert said in text


async def test_what_is_asked_of_a_time_ahead_is_recalled_whole(client: Client) -> None:
    await remember(client, "Otto gives a talk on sundials.", user="Otto", occurred_at=day(7))

    text = await begun(client, context="What is due in the next two weeks?")

    for said in ("The parcel for Otto arrives.", "Otto gives a talk on sundials."):
        assert said in text


@pytest.mark.parametrize(
    "question", ["What changed lately?", "Was ist in letzter Zeit passiert?", "¿Qué ha pasado últimamente?"]
)
async def test_what_changed_lately_is_what_was_said_lately(client: Client, serving: Served, question: str) -> None:
    serving.db.as_login(
        "UPDATE memories SET created_at = created_at - interval '60 days' WHERE content LIKE 'clockwork%%'"
    )

    text = await begun(client, context=question)

    assert "The fair is open." in text
    assert "clockwork" not in text


async def test_what_another_replaced_is_shown_beside_that_or_not_at_all(client: Client) -> None:
    await remember(client, NEW, user="Esther")

    text = await begun(client)

    assert NEW in text
    assert OLD not in text or "perhaps replaced by" in next(line for line in text.splitlines() if OLD in line)


async def test_reading_an_outdated_memory_again_and_again_does_not_put_it_before_what_holds(
    client: Client, serving: Served
) -> None:
    [old] = [str(one) for one in (serving.db.value("SELECT id FROM memories WHERE content = %s", [OLD]),)]
    await remember(client, NEW, user="Esther")
    for _ in range(6):
        await call(client, "get_memories", ids=[old])

    text = await begun(client, user="Esther")
    found = (await call(client, "search_memories", query="When does Esther's choir meet?"))["results"]

    assert NEW in text
    assert OLD not in text or text.index(NEW) < text.index(OLD)
    assert found[0]["content"] == NEW


async def test_two_people_in_one_store_stay_apart(client: Client) -> None:
    text = await begun(client, user="Otto")

    assert "Otto ist laktoseintolerant." in text
    assert "wasps" not in text


async def test_a_topic_of_which_nothing_is_known_does_not_leave_a_session_empty(client: Client) -> None:
    answer = await call(client, "recall_context", context="Prove Fermat's last theorem.")

    assert answer["evidence"] == "none"
    assert "Nothing is remembered about this" in answer["note"]
    assert "Esther is allergic to wasps." in answer["context"]


async def test_a_meal_for_two_brings_what_each_of_them_cannot_eat(client: Client) -> None:
    text = await begun(client, context="What should I cook for Esther and Otto tonight?")

    assert "Esther is allergic to wasps." in text
    assert "Otto ist laktoseintolerant." in text


@pytest.mark.parametrize(
    "asked", [{"context": "What should we cook tonight?", "user": "Esther"}, {"context": "A trip of Esther"}]
)
async def test_a_limit_comes_beside_whatever_else_fits_of_that_person(client: Client, asked: dict[str, str]) -> None:
    await remember(client, "Esther moved in with Otto and likes to cook tonight.", user="Esther")
    await remember(client, "Esther made a trip to Bruges.", user="Esther")

    text = await begun(client, **asked)

    assert "Esther is allergic to wasps." in text
    assert "laktoseintolerant" not in text


async def test_a_name_that_is_also_a_common_word_is_a_name_and_no_part_of_another(client: Client) -> None:
    await remember(client, "Rosa is allergic to shellfish.", user="Rosa")
    await remember(client, "Mark is vegan.")
    await remember(client, "Rosalind is allergic to nuts.", user="Rosalind")
    await remember(client, "Rosa and Mark moved to Ghent to cook dinner.", user="Rosa")

    text = await begun(client, context="What should I cook for Rosa and Mark tonight?")

    assert "shellfish" in text
    assert "vegan" in text
    assert "Rosalind" not in text


async def test_a_digest_keeps_to_its_budget_and_takes_the_first_of_each_person(client: Client) -> None:
    for n in range(40):
        await remember(
            client,
            f"Otto mended the clock with the number {n:03} in the tower of a village.",
            user="Otto",
            importance=0.9,
        )

    text = await begun(client)

    assert len(text.encode()) <= 3_600
    assert {"Esther:", "Otto:"} <= {*text.splitlines()}
    assert len(await begun(client, max_chars="600")) <= 600


async def test_someone_of_whom_nothing_is_known_is_told_so_with_the_date(client: Client) -> None:
    for hit in (await call(client, "search_memories", limit=50))["results"]:
        if "user" not in hit:  # what is of nobody in particular is everybody's
            await call(client, "forget_memories", ids=[hit["id"]])

    text = await begun(client, user="Ada")

    assert text.startswith("Today is ")
    assert "Nothing is remembered of this user" in text
    assert "wasps" not in text


async def test_a_prompt_leaves_out_what_is_of_somebody_else(client: Client) -> None:
    start = await client.get_prompt("session-start", {"user": "Otto"})
    asked = await client.get_prompt("recall", {"query": "What is there an allergy to?", "user": "Otto"})

    for text in (str(start.messages[0].content), str(asked.messages[0].content)):
        assert "wasps" not in text
    assert "laktoseintolerant" in str(start.messages[0].content)
