"""Near duplicates: told of, left out or merged, and never when a number, a date, a name or a "not" differs."""

from __future__ import annotations

import asyncio

import pytest
from mcp import Client

from helpers import Answer, Database, Served, call, connected, diagonal, found, hits, read, remember, remember_expired

FIRST = "The staging database is backed up to the office NAS every night by a cron job."
NEAR = "The staging database is backed up every night to the office NAS by a cron job."
LONGER = f"{FIRST} The job runs on the database host."
OWN = [1.0, *[0.0] * 383]  # whatever a model makes of two texts, it cannot hold them to be nearer than this
APART = "Ines prefers oat milk in her coffee."
# Each says something else than its neighbour, in languages and words of which the program has no list.
APART_BY_A_WORD = {
    "number in German": ("Zum Fest kommen fünfzehn Leute.", "Zum Fest kommen sechzehn Leute."),
    "number in English": (
        "The proxy listens on port eight thousand eighty.",
        "The proxy listens on port eight thousand eighty-one.",
    ),
    "number in Finnish": ("Juhlaan tulee viisitoista vierasta.", "Juhlaan tulee kuusitoista vierasta."),
    "number in Turkish": ("Partiye on beş kişi geliyor.", "Partiye on altı kişi geliyor."),
    "number in Dutch": ("Er komen vijfentwintig gasten.", "Er komen vijfendertig gasten."),
    "number in Hungarian": ("Tizenöt vendég jön vasárnap.", "Tizenhat vendég jön vasárnap."),
    "number in Swahili": ("Wageni kumi na tano wanakuja.", "Wageni kumi na sita wanakuja."),
    "number in Hindi": ("दावत में पंद्रह लोग आएंगे।", "दावत में सोलह लोग आएंगे।"),
    "number in Korean": ("파티에 열다섯 명이 와요.", "파티에 열여섯 명이 와요."),
    "fraction": ("Half of the fund goes to the choir.", "A third of the fund goes to the choir."),
    "weekday in Finnish": ("Kuoro kokoontuu tiistaina.", "Kuoro kokoontuu torstaina."),
    "month in Hungarian": ("Márciusban költözünk.", "Májusban költözünk."),
    "opposite in German": ("Das Ventil muss immer auf sein.", "Das Ventil muss immer zu sein."),
    "opposite in Italian": ("Vendo la barca di mio zio.", "Compro la barca di mio zio."),
    "opposite in Swedish": ("Lampan i hallen är tänd.", "Lampan i hallen är släckt."),
    "opposite in Greek": ("Η πόρτα είναι ανοιχτή.", "Η πόρτα είναι κλειστή."),
    "opposite in Japanese": ("会議の前に電話する。", "会議の後に電話する。"),
    "bought and sold": ("Nora bought the red canoe.", "Nora sold the red canoe."),
    "prefix": ("The result was surprising and useful.", "The result was surprising and useless."),
    "negation in Swahili": ("Anapenda chai asubuhi.", "Hapendi chai asubuhi."),
    "negation in Esperanto": ("Li trinkas teon vespere.", "Li ne trinkas teon vespere."),
    "one word more": ("She has few friends in Oslo.", "She has a few friends in Oslo."),
    "restriction": ("The shop on the quay is open.", "The shop on the quay is open only in summer."),
    "colour in Polish": ("Rower Oli jest czerwony.", "Rower Oli jest zielony."),
    "unit": ("The beam is three feet long.", "The beam is three metres long."),
    "tense": ("Mara lives in the old mill.", "Mara lived in the old mill."),
    "case": ("Мать любит сестру Петра.", "Мать любит сестра Петра."),
    "who does it to whom": (
        "Gisteren zag de oude vrouw het kleine kind.",
        "Gisteren zag het kleine kind de oude vrouw.",
    ),
    "order of steps": ("Open the valve, close the hatch.", "Close the hatch, open the valve."),
    "question": ("Mara is in the old mill.", "Is Mara in the old mill?"),
    "sign": ("He writes the parser in C++ now.", "He writes the parser in C now."),
    "picture": ("Lunch at the canteen: 👍", "Lunch at the canteen: 👎"),
    "spelling of a name": ("The package is called foo-bar.", "The package is called foo_bar."),
    "Thai": ("ร้านเปิดวันจันทร์", "ร้านเปิดวันอังคาร"),
    "Vietnamese": ("Quán mở cửa buổi sáng.", "Quán mở cửa buổi chiều."),
}
CONFLICTS = {
    "sign": ("Keep the cellar at 5 °C all year.", "Keep the cellar at -5 °C all year.", "numbers"),
    "unit": ("We sold 10k of them in May.", "We sold 10m of them in May.", "numbers"),
    "currency": ("The kettle cost €50 in the end.", "The kettle cost $50 in the end.", "numbers"),
    "half of the day": ("Call the bank before 8 am.", "Call the bank before 8 pm.", "numbers"),
    "how often": ("Water the fern once a week.", "Water the fern once a month.", "dates"),
    "side": ("The north gate is locked at night.", "The south gate is locked at night.", "negation"),
    "weekday in Polish": ("Spotykamy się w poniedziałek.", "Spotykamy się we wtorek.", "dates"),
    "month in Russian": ("Мы едем к морю в мае.", "Мы едем к морю в июне.", "dates"),
    "number in Polish": ("Mieszka z dwiema siostrami.", "Mieszka z trzema siostrami.", "numbers"),
    "time of day in German": ("Er joggt immer morgens.", "Er joggt immer abends.", "dates"),
    "side in Spanish": ("La llave está a la izquierda.", "La llave está a la derecha.", "negation"),
    "order in French": ("Il appelle avant le repas.", "Il appelle après le repas.", "negation"),
    "number": ("The database listens on port 5432.", "The database listens on port 5433.", "numbers"),
    "full-width number": ("The database listens on port 5432.", "The database listens on port ５４３３.", "numbers"),
    "number word": ("The team has three people on call.", "The team has four people on call.", "numbers"),
    "date": ("The release is on 3 March 2026.", "The release is on 4 March 2026.", "numbers"),
    "weekday": ("The release is due on Monday morning.", "The release is due on Tuesday morning.", "dates"),
    "name": ("Mara moved billing to Stripe in spring.", "Mara moved billing to Adyen in spring.", "names"),
    "name at the beginning": ("Mara moved billing to Stripe.", "Mona moved billing to Stripe.", "names"),
    "changed places": ("Mara reports to Jonas in the team.", "Jonas reports to Mara in the team.", "names"),
    "changed order": ("The user prefers tabs over spaces.", "The user prefers spaces over tabs.", "order"),
    "not": ("We decided to ship the new editor.", "We decided not to ship the new editor.", "negation"),
    "n't": ("The cache does survive a restart.", "The cache doesn't survive a restart.", "negation"),
    "opposite": ("Dark mode is enabled in the editor.", "Dark mode is disabled in the editor.", "negation"),
    "German": ("Der Server wird am Wochenende gewartet.", "Der Server wird am Wochenende nicht gewartet.", "negation"),
    "French": ("Le serveur redémarre la nuit.", "Le serveur ne redémarre pas la nuit.", "negation"),
    "Spanish": ("El servidor se reinicia por la noche.", "El servidor no se reinicia por la noche.", "negation"),
    "Russian": ("Сервер перезапускается ночью.", "Сервер не перезапускается ночью.", "negation"),
    "Chinese": ("小美喜歡喝烏龍茶。", "小美不喜歡喝烏龍茶。", "negation"),
    "Chinese name": ("我们的服务器在北京的数据中心运行。", "我们的服务器在上海的数据中心运行。", "names"),
    "Japanese": ("サーバーは夜に再起動する。", "サーバーは夜に再起動しない。", "negation"),
    "Korean": ("민준은 커피를 마십니다.", "민준은 커피를 안 마십니다.", "negation"),
    "Korean name": ("민준은 부산에 삽니다.", "민준은 서울에 삽니다.", "names"),
}  # fmt: skip


async def count(db: Database) -> int:
    return int(db.value("SELECT count(*) FROM memories"))


@pytest.mark.shows(8)
async def test_a_near_duplicate_is_stored_and_told_of(client: Client, db: Database) -> None:
    first = await remember(client, FIRST)
    await remember(client, APART)

    answer = await call(client, "create_memory", content=NEAR)

    assert answer["created"] is True
    assert answer["memory_id"] != first
    [near] = answer["near_duplicates"]
    assert (near["id"], near["excerpt"]) == (first, FIRST)
    assert 0.92 <= near["similarity"] <= 1
    assert near["possible_conflict"] is False
    assert "near_duplicates" in answer["message"]
    assert await count(db) == 3


async def test_what_is_not_near_is_not_told_of(client: Client) -> None:
    await remember(client, APART)

    assert "near_duplicates" not in await call(client, "create_memory", content=FIRST)


@pytest.mark.shows(8)
async def test_skip_if_near_stores_nothing_and_gives_the_memory_that_is_there(client: Client, db: Database) -> None:
    first = await remember(client, FIRST)

    answer = await call(client, "create_memory", content=NEAR, dedup_policy="skip_if_near")

    assert (answer["memory_id"], answer["created"]) == (first, False)
    assert answer["memory"]["content"] == FIRST
    assert answer["near_duplicates"][0]["id"] == first
    assert await count(db) == 1


async def test_insert_looks_for_nothing(client: Client, db: Database) -> None:
    await remember(client, FIRST)

    answer = await call(client, "create_memory", content=NEAR, dedup_policy="insert")

    assert answer["created"] is True
    assert "near_duplicates" not in answer
    assert await count(db) == 2


@pytest.mark.shows(8, 9)
@pytest.mark.parametrize(("case", "policy"), diagonal(CONFLICTS, ["ask", "skip_if_near", "merge"]))
async def test_what_differs_in_a_number_a_date_a_name_or_a_not_is_stored_and_told_of_as_a_conflict(
    client: Client, db: Database, case: str, policy: str
) -> None:
    first, other, differs_in = CONFLICTS[case]
    id_ = await remember(client, first, embedding=OWN)

    answer = await call(client, "create_memory", content=other, dedup_policy=policy, embedding=OWN)

    assert answer["created"] is True
    assert (await read(client, id_))["content"] == first
    assert await count(db) == 2
    [near] = answer["near_duplicates"]
    assert (near["id"], near["possible_conflict"]) == (id_, True)
    assert differs_in in near["differs_in"]


async def test_no_word_in_place_of_another_and_no_word_more_is_nearly_the_same(client: Client, db: Database) -> None:
    def items(texts: list[str], **more: object) -> list[Answer]:
        return [{"content": text, "project": f"p{n}", "embedding": OWN, **more} for n, text in enumerate(texts)]

    firsts, others = ([*texts] for texts in zip(*APART_BY_A_WORD.values(), strict=True))
    await call(client, "create_memories", items=items(firsts))

    for policy in ("skip_if_near", "merge"):
        answer = await call(client, "create_memories", items=items(others, dedup_policy=policy))
        lost = [name for name, one in zip(APART_BY_A_WORD, answer["results"], strict=True) if not one["created"]]
        assert lost == []
        assert all("differs_in" in one["near_duplicates"][0] for one in answer["results"])
        if policy == "skip_if_near":
            await call(client, "forget_memories", ids=[one["memory_id"] for one in answer["results"]][:20])
            await call(client, "forget_memories", ids=[one["memory_id"] for one in answer["results"]][20:])
    review = await call(client, "review_memories", find=["duplicates"], threshold=0.5)
    assert review["plan"] == []
    tidied = await call(client, "tidy_memories", action="merge")
    assert tidied["changes"] == []
    active = db.rows("SELECT content FROM memories WHERE status = 'active'")
    assert {one["content"] for one in active} >= {*firsts, *others}


async def test_what_says_more_is_not_skipped(client: Client) -> None:
    id_ = await remember(client, FIRST)

    answer = await call(client, "create_memory", content=LONGER, dedup_policy="skip_if_near")

    assert answer["created"] is True
    assert answer["near_duplicates"][0]["id"] == id_


async def test_the_built_in_model_holds_another_port_to_be_near(client: Client) -> None:
    first, other, _ = CONFLICTS["number"]
    id_ = await remember(client, first)

    answer = await call(client, "create_memory", content=other, dedup_policy="skip_if_near")

    assert answer["created"] is True
    assert [(near["id"], near["possible_conflict"]) for near in answer["near_duplicates"]] == [(id_, True)]


async def test_what_happened_on_another_day_or_was_said_by_another_is_not_skipped(client: Client) -> None:
    await remember(client, FIRST, occurred_at="2026-01-01T00:00:00Z", speaker="Mira")

    for about in ({"occurred_at": "2026-01-02T00:00:00Z", "speaker": "Mira"}, {"occurred_at": "2026-01-01T00:00:00Z"}):
        answer = await call(client, "create_memory", content=NEAR, dedup_policy="skip_if_near", **about)

        assert answer["created"] is True


@pytest.mark.parametrize("scope", ["user", "project", "collection"])
async def test_only_memories_of_the_same_scope_are_near_unless_they_say_the_same(client: Client, scope: str) -> None:
    mine = await remember(client, FIRST, **{scope: "mine"})
    await remember(client, LONGER, **{scope: "another"})
    theirs = await remember(client, NEAR, **{scope: "theirs"})

    answer = await call(client, "create_memory", content=NEAR, **{scope: "mine"})

    differing = {near["id"]: near.get("differs_in") for near in answer["near_duplicates"]}
    assert differing == {mine: None, theirs: [scope]}


async def test_forgotten_and_expired_memories_are_no_near_duplicates(client: Client) -> None:
    gone = await remember(client, FIRST)
    await call(client, "forget_memories", ids=[gone])
    await remember_expired(client, FIRST)

    assert "near_duplicates" not in await call(client, "create_memory", content=NEAR)


async def test_at_most_five_are_told_of_nearest_first(client: Client) -> None:
    for n in range(8):
        await remember(client, f"{FIRST} See shelf {n}.", dedup_policy="insert")

    near = (await call(client, "create_memory", content=f"{FIRST} See shelf 9."))["near_duplicates"]

    assert len(near) == 5
    assert [one["similarity"] for one in near] == sorted((one["similarity"] for one in near), reverse=True)


async def test_of_long_texts_all_parts_have_to_be_near(client: Client) -> None:
    common = "The backup runs every night and writes to the office NAS, where the oldest copies are removed. " * 25
    first = await remember(client, common + "Mira waters the plants of the office. " * 60)
    other = common + "Boats in the harbour are painted again in spring. " * 60

    assert "near_duplicates" not in await call(client, "create_memory", content=other)
    assert (await call(client, "create_memory", content=other + " Again."))["near_duplicates"][0]["id"] != first


# -- merging -------------------------------------------------------------------------------------------------------


@pytest.mark.shows(9)
async def test_a_merge_keeps_the_longer_text_and_all_the_rest(client: Client, db: Database) -> None:
    id_ = await remember(
        client, FIRST, tags=["backup", "night"], metadata={"category": ["ops"], "rack": 4}, importance=0.4, kind="fact"
    )

    answer = await call(
        client, "create_memory", content=LONGER, dedup_policy="merge", tags=["cron", "backup"],
        metadata={"category": ["database"], "room": "B"}, importance=0.9, kind="fact",
    )  # fmt: skip

    assert (answer["memory_id"], answer["created"], answer["merged"]) == (id_, False, True)
    memory = await read(client, id_)
    assert memory["content"] == LONGER
    assert memory["tags"] == ["backup", "night", "cron"]
    assert memory["detail"]["category"] == ["ops", "database"]
    assert memory["metadata"] == {"rack": 4, "room": "B"}
    assert memory["importance"] == 0.9
    assert memory["version"] == 2
    assert await count(db) == 1
    *_, outcome = db.history(id_)
    assert (outcome["operation"], outcome["version"]) == ("merge", 2)
    assert outcome["changes"]["content"] == [FIRST, LONGER]


@pytest.mark.shows(9)
async def test_a_merged_memory_is_found_by_its_new_words_and_its_new_meaning(client: Client, db: Database) -> None:
    id_ = await remember(client, FIRST)
    vector = db.value("SELECT embedding::text FROM memory_vectors")

    await call(client, "create_memory", content=LONGER, dedup_policy="merge", tags=["quokka"])

    assert await found(client, "host", mode="text") == [id_]
    assert await found(client, "quokka", mode="text") == [id_]
    assert db.value("SELECT embedding::text FROM memory_vectors") != vector
    assert (await hits(client, LONGER))[0]["why"]["similarity"] > 0.99


async def test_a_shorter_text_is_merged_into_the_longer_one_and_stands_in_the_history(
    client: Client, db: Database
) -> None:
    id_ = await remember(client, LONGER, importance=0.8)

    answer = await call(client, "create_memory", content=FIRST, dedup_policy="merge", importance=0.2, tags=["nas"])

    assert answer["merged"] is True
    memory = await read(client, id_)
    assert (memory["content"], memory["importance"], memory["tags"]) == (LONGER, 0.8, ["nas"])
    assert db.history(id_)[-1]["changes"]["told"] == [None, FIRST]


async def test_merging_again_and_again_never_raises_importance_above_what_was_told(client: Client) -> None:
    id_ = await remember(client, LONGER, importance=1)

    for _ in range(3):
        await call(client, "create_memory", content=FIRST, dedup_policy="merge", importance=1)

    assert (await read(client, id_))["importance"] == 1


@pytest.mark.shows(9)
async def test_memories_of_no_project_are_merged(client: Client, db: Database) -> None:
    id_ = await remember(client, FIRST)

    assert (await call(client, "create_memory", content=LONGER, dedup_policy="merge"))["memory_id"] == id_
    assert await count(db) == 1


async def test_memories_of_different_types_are_not_merged(client: Client, db: Database) -> None:
    await remember(client, FIRST, type="semantic")

    answer = await call(client, "create_memory", content=LONGER, type="episodic", dedup_policy="merge")

    assert answer["created"] is True
    assert answer["near_duplicates"]
    assert await count(db) == 2


@pytest.mark.shows(9)
@pytest.mark.parametrize(
    ("first", "longer"),
    [
        ("小美每天早上喜歡喝烏龍茶。", "小美每天早上喜歡喝烏龍茶。真的。"),
        ("민준은 매일 아침 커피를 마십니다.", "민준은 매일 아침 커피를 마십니다. 정말로."),
    ],
    ids=["Chinese", "Korean"],
)
async def test_texts_without_spaces_are_merged(client: Client, db: Database, first: str, longer: str) -> None:
    id_ = await remember(client, first, embedding=OWN)

    answer = await call(client, "create_memory", content=longer, dedup_policy="merge", embedding=OWN)

    assert (answer["memory_id"], answer["merged"]) == (id_, True)
    assert (await read(client, id_))["content"] == longer


async def test_what_only_a_vector_holds_to_be_the_same_is_not_merged(client: Client, db: Database) -> None:
    await remember(client, "The printer on the ground floor jams often.", embedding=OWN)

    answer = await call(
        client, "create_memory", content="It is bread that is baked at dawn.", dedup_policy="merge", embedding=OWN
    )

    assert answer["created"] is True
    assert answer["near_duplicates"][0]["possible_conflict"] is False
    assert await count(db) == 2


# -- batches -------------------------------------------------------------------------------------------------------


async def test_a_batch_is_compared_with_what_is_there_and_with_itself(client: Client, db: Database) -> None:
    there = await remember(client, FIRST)
    items: list[Answer] = [
        {"content": NEAR}, {"content": APART}, {"content": "Ines prefers oat milk in her coffee now."},
        {"content": LONGER, "dedup_policy": "insert"},
    ]  # fmt: skip

    results = (await call(client, "create_memories", items=items))["results"]

    assert all(result["created"] for result in results)
    assert results[0]["near_duplicates"][0]["id"] == there
    assert "near_duplicates" not in results[1]
    assert [near["id"] for near in results[2]["near_duplicates"]] == [results[1]["memory_id"]]
    assert "near_duplicates" not in results[3]


@pytest.mark.parametrize(
    ("policy", "texts"), [("skip_if_near", [LONGER, FIRST, NEAR]), ("merge", [FIRST, LONGER, NEAR])]
)
async def test_near_items_of_one_batch_become_one_memory_when_told_so(
    client: Client, db: Database, policy: str, texts: list[str]
) -> None:
    items = [{"content": text, "dedup_policy": policy, "tags": [f"t{n}"]} for n, text in enumerate(texts)]

    answer = await call(client, "create_memories", items=items)

    assert [result["created"] for result in answer["results"]] == [True, False, False]
    assert len({result["memory_id"] for result in answer["results"]}) == 1
    assert await count(db) == 1
    memory = await read(client, answer["results"][0]["memory_id"])
    assert memory["content"] == LONGER
    assert memory.get("tags") == (["t0", "t1", "t2"] if policy == "merge" else ["t0"])


async def test_near_tellings_at_the_same_moment_are_one_memory_when_told_so(served: Served) -> None:
    texts = [FIRST, NEAR, FIRST.removesuffix(".")]
    async with connected(database_url=served.db.url) as other:
        await call(other, "search_memories")
        for round_ in range(5):
            about = {"project": f"p{round_}", "dedup_policy": "skip_if_near", "embedding": OWN}

            answers = await asyncio.gather(
                *(
                    call(client, "create_memory", content=text, **about)
                    for text in texts
                    for client in (served.client, other) * 2
                )
            )

            assert sum(answer["created"] for answer in answers) == 1
            assert len({answer["memory_id"] for answer in answers}) == 1


# -- what was forgotten --------------------------------------------------------------------------------------------


@pytest.mark.shows(10)
async def test_what_was_forgotten_for_a_reason_is_told_of_when_it_is_told_again(client: Client, db: Database) -> None:
    instead = [await remember(client, APART), await remember(client, "The weekly report is written by Jonas.")]
    gone = await remember(client, FIRST)
    await call(client, "forget_memories", ids=[gone], reason="The NAS was sold.", replaced_by_ids=instead)

    for text in (NEAR, FIRST):
        answer = await call(client, "create_memory", content=text)

        assert answer["created"] is True
        [corrected] = answer["previously_corrected"]
        assert corrected["id"] == gone
        assert corrected["text"] == FIRST
        assert corrected["reason"] == "The NAS was sold."
        assert corrected["replaced_by_ids"] == instead
        assert corrected["score"] > 0.9


async def test_what_was_forgotten_of_another_project_is_told_of_where_it_says_just_the_same(client: Client) -> None:
    gone = await remember(client, FIRST, project="harbour")
    await call(client, "forget_memories", ids=[gone], reason="Sold.")

    assert "previously_corrected" not in await call(client, "create_memory", content=LONGER)
    assert "previously_corrected" in await call(client, "create_memory", content=FIRST)


async def test_a_batch_is_told_what_was_forgotten(client: Client) -> None:
    gone = await remember(client, FIRST)
    await call(client, "forget_memories", ids=[gone])

    [result] = (await call(client, "create_memories", items=[{"content": NEAR}]))["results"]

    assert [one["id"] for one in result["previously_corrected"]] == [gone]


# -- without an embedder -------------------------------------------------------------------------------------------


async def test_without_an_embedder_near_duplicates_are_found_by_their_words(wordless: Served) -> None:
    first = await remember(wordless.client, FIRST)
    await remember(wordless.client, APART)

    answer = await call(wordless.client, "create_memory", content=LONGER)

    assert [near["id"] for near in answer["near_duplicates"]] == [first]
    skipped = await call(wordless.client, "create_memory", content=NEAR, dedup_policy="skip_if_near")
    assert skipped["created"] is False


async def test_without_an_embedder_what_differs_in_a_number_is_stored(wordless: Served) -> None:
    first, other, _ = CONFLICTS["number"]
    long = " It is reached from the office network only, and from the build machines."
    id_ = await remember(wordless.client, first + long)

    answer = await call(wordless.client, "create_memory", content=other + long, dedup_policy="merge")

    assert answer["created"] is True
    assert [(near["id"], near["possible_conflict"]) for near in answer["near_duplicates"]] == [(id_, True)]


async def test_without_an_embedder_what_was_forgotten_is_told_of(wordless: Served) -> None:
    gone = await remember(wordless.client, FIRST)
    await call(wordless.client, "forget_memories", ids=[gone], reason="Sold.")

    answer = await call(wordless.client, "create_memory", content=NEAR)

    assert [(one["id"], one["reason"]) for one in answer["previously_corrected"]] == [(gone, "Sold.")]


async def test_without_an_embedder_a_batch_is_compared_with_itself(wordless: Served) -> None:
    items = [{"content": text, "dedup_policy": "skip_if_near"} for text in (FIRST, APART, NEAR)]

    results = (await call(wordless.client, "create_memories", items=items))["results"]

    assert [result["created"] for result in results] == [True, True, False]
    assert results[2]["memory_id"] == results[0]["memory_id"]


async def test_the_same_said_of_two_people_is_no_conflict(client: Client) -> None:
    await remember(client, "Ana works on design in the team.")
    await remember(client, "Bo works on backend in the team.")

    found = (await call(client, "search_memories", query="Who works on what in the team?", detail=True))["results"]

    assert len(found) == 2
    assert not any("conflicts_with" in hit for hit in found)
