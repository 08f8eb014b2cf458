"""What holds stands before what held, and says of what it is the newer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mcp import Client

from helpers import Database, call, found, hits, remember
from pgengram.search.succession import Statement, signals_of, succeeds

HALL = "The choir of Esther rehearses on Wednesdays in the parish hall."
LIBRARY = "The choir of Esther now meets on Mondays in the library."
ASKED = "On which day and where does the choir of Esther rehearse in the parish hall?"
BESIDE = (
    "Esther is allergic to wasps.",
    "Esther's brother Otto mends clocks.",
    "The choir of Esther sang in Bruges in May.",
)


async def a_week_ago(client: Client, db: Database, *contents: str, **more: object) -> list[str]:
    """Store memories as if a week ago."""
    ids = [await remember(client, content, **more) for content in contents]
    db.as_login(
        "UPDATE memories SET created_at = created_at - interval '7 days', last_confirmed_at = last_confirmed_at - interval '7 days'"
    )
    return ids


@pytest.mark.shows(14)
async def test_what_holds_stands_before_what_held_and_names_it(client: Client, db: Database) -> None:
    older, *_ = await a_week_ago(client, db, HALL, *BESIDE)
    newer = await remember(client, LIBRARY)

    first, second, *_ = await hits(client, ASKED)

    assert [first["id"], second["id"]] == [newer, older]
    assert first["why"]["similarity"] < second["why"]["similarity"]  # so it was put there
    assert first["older"] == [older]
    assert "older" not in second


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("Meeting room A seats 8 people.", "Meeting room B seats 12 people.", "How many people does meeting room A seat?"),
        ("Jonas hat 2 Katzen.", "Petra hat jetzt 3 Katzen.", "Wie viele Katzen hat Jonas?"),
        ("Marta vive en Sevilla.", "Pablo vive en Bilbao.", "¿Dónde vive Marta?"),
        ("Invoice 1001 is 250 euros.", "Invoice 1002 is 310 euros.", "How much is invoice 1001?"),
    ],
)  # fmt: skip
async def test_what_is_told_of_another_is_not_put_before_what_a_question_names(
    client: Client, db: Database, older: str, newer: str, question: str
) -> None:
    first, *_ = await a_week_ago(client, db, older, *BESIDE)
    await remember(client, newer)

    hit = (await hits(client, question))[0]

    assert (hit["id"], "older" in hit) == (first, False)


async def test_what_happened_at_the_time_that_a_question_names_stands_first(client: Client) -> None:
    oslo = await remember(client, "Tom flew to Oslo for a fair.", occurred_at="2026-01-14")
    await remember(client, "Tom flew to Kyiv for a fair.", occurred_at="2026-02-24")
    for text in BESIDE:
        await remember(client, text)

    assert (await found(client, "Where did Tom fly on 14 January 2026?"))[0] == oslo


async def test_what_was_confirmed_since_holds(client: Client, db: Database) -> None:
    older, *_ = await a_week_ago(client, db, HALL, *BESIDE)
    newer = await remember(client, LIBRARY)
    db.as_login("UPDATE memories SET last_confirmed_at = last_confirmed_at - interval '2 hours'")
    assert (await found(client, ASKED))[0] == newer

    await call(client, "update_memory", id=older, confirm=True)

    assert (await found(client, ASKED))[0] == older


@pytest.mark.parametrize("more", [{"project": "opera"}, {"type": "episodic"}], ids=lambda more: next(iter(more)))
async def test_what_is_about_something_else_or_happened_outdates_nothing(
    client: Client, db: Database, more: dict[str, str]
) -> None:
    older, *_ = await a_week_ago(client, db, HALL, *BESIDE)
    await remember(client, LIBRARY, **more)

    shown = await hits(client, ASKED)

    assert shown[0]["id"] == older
    assert not any("older" in hit for hit in shown)


@pytest.mark.parametrize("more", [{"user": "Otto"}, {"speaker": "Otto"}], ids=lambda more: next(iter(more)))
async def test_a_change_holds_whoever_tells_it_and_whose_ever_it_is_said_to_be(
    client: Client, db: Database, more: dict[str, str]
) -> None:
    older, *_ = await a_week_ago(client, db, HALL, *BESIDE)

    answer = await call(client, "create_memory", content=LIBRARY, **more)

    assert answer["may_replace"][0]["id"] == older
    first, second = (await hits(client, ASKED))[:2]
    assert [first["id"], first["older"], second["id"]] == [answer["memory_id"], [older], older]


async def test_what_each_says_of_themselves_outdates_nothing_that_another_said(client: Client, db: Database) -> None:
    await a_week_ago(client, db, "My favourite colour is blue.", speaker="Ann")

    answer = await call(client, "create_memory", content="My favourite colour is green now.", speaker="Bob")

    assert "may_replace" not in answer
    assert not any("older" in hit for hit in await hits(client, "favourite colour"))


async def test_what_was_told_in_one_sitting_holds_together(client: Client) -> None:
    older = await remember(client, HALL)
    await remember(client, LIBRARY.replace(" now", ""))

    assert (await found(client, ASKED))[0] == older


async def test_what_was_told_as_a_change_holds_at_once(client: Client) -> None:
    older = await remember(client, "Mara's dentist appointment is on 10 December at Dr. Huber's.")
    newer = await remember(client, "Mara's dentist appointment was postponed to 17 December.")

    first, second = (await hits(client, "When is Mara's dentist appointment at Dr. Huber's?"))[:2]

    assert [first["id"], second["id"]] == [newer, older]
    assert first["older"] == [older]


async def test_as_of_a_moment_nothing_is_put_first(client: Client, db: Database) -> None:
    older, *_ = await a_week_ago(client, db, HALL, *BESIDE)
    await remember(client, LIBRARY)

    assert (await found(client, ASKED, as_of="2099-01-01T00:00:00Z"))[0] == older


async def test_pages_of_any_size_give_what_one_large_page_gives(client: Client, db: Database) -> None:
    older, *_ = await a_week_ago(client, db, HALL, *BESIDE)
    newer = await remember(client, LIBRARY)

    together = await found(client, ASKED, limit=50)
    one_by_one = [(await found(client, ASKED, limit=1, offset=place))[0] for place in range(len(together))]

    assert together[:2] == [newer, older]
    assert one_by_one == together


@pytest.mark.shows(24)
async def test_recalled_text_says_which_memory_is_older(client: Client, db: Database) -> None:
    older, *_ = await a_week_ago(client, db, HALL, *BESIDE)
    newer = await remember(client, LIBRARY)

    recalled = await call(client, "recall_context", context=ASKED)

    assert recalled["memory_ids"][:2] == [newer, older]
    assert f"; {newer[-8:]}; newer than {older[-8:]})" in recalled["context"]


GAUGES = "The network collects levels from 38 tide gauges in 7 towns."


@pytest.mark.parametrize(
    ("newer", "counts"),
    [
        ("It covers 52 gauges.", True),
        ("It covers 38 gauges.", False),
        ("It covers 52 rivers.", False),
        ("It covers 5.2 gauges.", False),
        ("It covers 52 gauges outside.", True),
        ("It covers 52 gauges and 9 rivers.", False),
    ],
    ids=["another number", "the same number", "another thing", "no whole number", "and a word", "and another thing"],
)
def test_another_number_of_the_same_thing_is_evidence_that_it_changed(newer: str, counts: bool) -> None:
    older = Statement(GAUGES, "semantic", "fact", None, (None, None, None), is_turn=False, told_at=None)
    plain = replace(older, content="It covers the gauges.")

    assert (succeeds(replace(older, content=newer), older, 0.5, 0.4) > succeeds(plain, older, 0.5, 0.4)) == counts


@pytest.mark.parametrize(
    ("older", "newer", "otherwise"),
    [
        ("Hypothesis H3 has confidence 0.55.", "Priya raises H3 to confidence 0.7.", True),
        ("Der Port ist 5432.", "Der Port ist 5433.", True),
        ("La mensualité : 40 €", "La mensualité est de 45 €.", True),
        ("The build takes 11 minutes.", "The build now takes 5 min 40 s.", True),
        ("The port is 5432.", "The port is 5432 again.", False),
        ("Gauges in 7 towns.", "Gauges and 9 rivers.", False),
        ("Levels from 38 wells.", "Rain from 40 towns fell.", False),
        ("Deadline: 5 March", "Deadline: 12 March", False),
        ("Build 4711-a failed.", "Build 4712-a failed.", False),
    ],
    ids=["number behind", "is", "with a colon", "verb", "same", "of something else", "function word", "day", "code"],
)
def test_another_number_behind_the_same_word_is_evidence_that_it_changed(
    older: str, newer: str, otherwise: bool
) -> None:
    statement = Statement(older, "semantic", "fact", None, (None, None, None), is_turn=False, told_at=None)

    assert signals_of(replace(statement, content=newer), statement, 0.5, 0.4)["number"] == otherwise


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("on 2 November 2026 at 19:30", "on 2 November 2026 at 19:30"),
        ("am 2. November 2026", "seit 2. November 2026"),
        ("le 2 novembre 2026", "le 2 novembre 2026"),
        ("2026-11-02", "2026-11-02"),
        ("2018 geboren", "am 3. März 2021 geboren"),
    ],
    ids=["English", "German", "French", "in figures", "years before the same word"],
)
def test_days_and_years_are_no_evidence_that_one_replaces_the_other(first: str, second: str) -> None:
    older = Statement(f"Esther, {first}.", "semantic", "fact", None, (None, None, None), is_turn=False, told_at=None)

    signals = signals_of(replace(older, content=f"Otto, {second}."), older, 0.5, 0.4)

    assert (signals["repeated"], signals["number"]) == (0, False)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Deadline: 5 March", "Deadline: 12 March"),
        ("The deadline is 5 March.", "The deadline is 12 March."),
        ("Choir rehearsal: Wednesday", "Choir rehearsal: Monday"),
    ],
)
async def test_a_label_is_replaced_like_a_sentence(client: Client, db: Database, older: str, newer: str) -> None:
    first, *_ = await a_week_ago(client, db, older, *BESIDE)

    stored = await call(client, "create_memory", content=newer)

    assert [one["id"] for one in stored["may_replace"]] == [first]


@pytest.mark.parametrize(
    ("old", "correction", "question"),
    [
        ("The backup runs on host kestrel.", "We moved it: heron does the nightly copies from now on.", "which host runs the backup?"),
        ("Das Treffen findet im Saal Ost statt.", "Verlegt: wir kommen ab jetzt im Westflügel zusammen.", "In welchem Saal findet das Treffen statt?"),
        ("The landlord is Mr Ferrante.", "From now on a Ms Okafor owns the house and collects the rent.", "Who is the landlord?"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("beside", [[], ["The boat lies in the harbour."]], ids=["alone", "beside another"])
async def test_a_correction_in_other_words_stands_before_or_is_named_beside_what_it_corrects(
    client: Client, old: str, correction: str, question: str, beside: list[str]
) -> None:
    first = await remember(client, old, occurred_at="2026-08-01")
    for content in beside:
        await remember(client, content, occurred_at="2026-08-02")
    newer = await remember(client, correction, occurred_at="2026-10-01")

    hit = (await hits(client, question))[0]

    assert hit["id"] == newer or (hit["id"] == first and hit["newer"] == [newer])
