"""Turns of a conversation are ranked by how well each word of a question is met in them and beside them."""

from __future__ import annotations

from mcp import Client

from helpers import Database, call, found, hits, remember

TALK = (
    ("Ann", "My week was long, the office is being painted and everybody is in the way."),
    ("Bob", "Mine too! At least the garden is growing."),
    ("Ann", "What did you put in the beds this year?"),
    ("Bob", "Mostly tomatoes and a row of beans, the slugs ate the salad."),
    ("Ann", "Slugs are a plague. My sister keeps ducks against them."),
    ("Bob", "Ducks would be lovely, but the neighbour has a dog."),
    ("Ann", "True. Did you finish the shed?"),
    ("Bob", "The roof is on, the door is missing."),
)


async def talk(client: Client) -> list[str]:
    items = [
        {"content": text, "speaker": name, "session_id": "garden", "type": "episodic", "importance": 0.5}
        for name, text in TALK
    ]
    answer = await call(client, "create_memories", items=items)
    return [result["memory_id"] for result in answer["results"]]


def words(db: Database) -> dict[str, int]:
    """Return how many words each memory that has any is kept with."""
    rows = db.rows(
        "SELECT m.content, sum(length(v.words)) / 16 AS words FROM memories m JOIN memory_vectors v ON v.memory_id = m.id "
        "WHERE v.words IS NOT NULL GROUP BY 1"
    )
    return {row["content"]: int(row["words"]) for row in rows}


async def test_a_hit_says_how_well_words_are_met(client: Client) -> None:
    ids = await talk(client)

    met = {hit["id"]: hit["why"]["met"] for hit in await hits(client, "Which vegetables grow in the beds?")}

    assert met[ids[3]] > met[ids[7]] + 0.05
    assert all(0 <= value <= 1 for value in met.values())


async def test_words_of_turns_are_kept_and_no_others(client: Client, db: Database) -> None:
    await talk(client)
    await remember(client, "The boiler is serviced in October.")

    assert words(db).keys() == {text for _, text in TALK}


async def test_a_new_text_has_words_of_its_own(client: Client, db: Database) -> None:
    ids = await talk(client)

    await call(client, "update_memory", id=ids[3], content="Pumpkins.")

    assert words(db)["Pumpkins."] == 1
    assert len(words(db)) == len(TALK)


async def test_turns_without_words_are_found_all_the_same(client: Client, db: Database) -> None:
    """As those are that a program gave a vector of its own, or an older version stored."""
    ids = await talk(client)
    question = "Which vegetables grow in the beds?"
    everything = set(await found(client, question))

    for without in (ids[:2], ids):
        db.rows("UPDATE memory_vectors SET words = NULL WHERE memory_id = ANY(%s::uuid[])", [without])
        assert set(await found(client, question)) == everything
    assert all("met" not in hit["why"] for hit in await hits(client, question))


async def test_pages_of_a_conversation_have_each_turn_once(client: Client) -> None:
    await talk(client)
    question = "Which vegetables grow in the beds?"

    whole = await found(client, question, limit=8)
    pages = [whole[:3]]
    answer = await call(client, "search_memories", query=question, limit=3)
    while cursor := answer.get("next_cursor"):
        answer = await call(client, "search_memories", query=question, limit=3, cursor=cursor)
        pages.append([hit["id"] for hit in answer["results"]])

    assert [id_ for page in pages for id_ in page] == whole


async def test_a_question_without_a_word_is_answered_as_before(client: Client) -> None:
    ids = await talk(client)

    asked = await hits(client, "???", limit=8)

    assert {hit["id"] for hit in asked} <= set(ids)
    assert all("met" not in hit["why"] for hit in asked)
