"""Whether an answer holds one: evidence is strong, weak or none, and a hit's score is its chance to answer."""

from __future__ import annotations

import pytest
from mcp import Client

from helpers import Served, call, remember
from pgengram.search.results.evidence import level

LIFE = (
    "Mira's staging database listens on port 5433.",
    "Mira is allergic to walnuts.",
    "Mira moved to Porto in May 2025.",
    "Tom repairs bicycles in a shed behind the harbour.",
    "Tom takes his tea without sugar.",
    "The office rent is 1,450 euros a month.",
    "Deployments happen on Tuesdays, never on Fridays.",
    "The choir rehearses in the old school every Monday evening.",
    "Ines teaches chemistry at the grammar school.",
    "The red kayak leaks at the stern.",
    "Invoices are sent on the last working day of the month.",
    "The cat is called Pixel and sleeps on the printer.",
)
ASKING = "Which port does the staging database listen on?"
GREETINGS = (
    "Hello", "Good morning", "ok thanks, that works", "Great, thank you so much", "yes please", "lol", "Never mind, forget it.",
    "Hallo", "Danke dir, das passt so", "Bonjour", "Merci beaucoup, c'est parfait", "Buenos días", "Dziękuję bardzo", "谢谢",
)  # fmt: skip
HOW_ARE_YOU = (
    "What’s up?", "Bis morgen!", "Hasta mañana", "Hasta el lunes", "Bonne nuit", "Merhaba, nasılsın?", "Hey, how are you doing?", "Na, alles gut?", "Guten Morgen, wie geht es Ihnen?", "Hola, ¿qué tal?", "À demain !",
    "Bonjour, comment allez-vous ?", "Olá, tudo bem?", "Come stai?", "Как дела?", "С добрым утром", "İyi geceler", "كيف حالك؟", "صباح الخير",
    "नमस्ते, आप कैसे हैं?", "你好吗？", "晚安", "お元気ですか？", "안녕히 가세요",
)  # fmt: skip
UNRELATED = (
    "What is the capital of Mongolia?",
    "Explain how photosynthesis works.",
    "Erzähl mir einen Witz über Pinguine.",
)


@pytest.fixture
async def life(client: Client) -> Client:
    await call(client, "create_memories", items=[{"content": text} for text in LIFE])
    return client


@pytest.mark.parametrize(
    "question", [ASKING, "What is Mira allergic to?", "Where does Tom mend bikes?", "What is the cat's name?"]
)
async def test_what_is_known_has_strong_evidence(life: Client, question: str) -> None:
    assert (await call(life, "search_memories", query=question))["evidence"] == "strong"
    recalled = await call(life, "recall_context", context=question)
    assert (recalled["evidence"], recalled["count"] > 0) == ("strong", True)


async def test_what_one_must_know_of_a_person_who_is_asked_about_is_not_called_unlikely(life: Client) -> None:
    more = (
        "Tom ist Vegetarier.",
        "Ines is a vegetarian.",
        "Mira and Tom fly to Norway in March.",
        "Tom cooks potato stew.",
    )
    await call(
        life, "create_memories", items=[{"content": text} for text in (*more, "Mira's dish is spinach lasagne.")]
    )

    found = (await call(life, "search_memories", query="What should I cook for Mira and Tom?", detail=True))["results"]

    likely = [hit["content"] for hit in found if not hit.get("unlikely")]
    assert {"Mira is allergic to walnuts.", "Tom ist Vegetarier."} <= {*likely}
    assert "Ines is a vegetarian." not in likely


@pytest.mark.parametrize(
    "question", [ASKING, "Who is Roland Ashcombe?", "What is Mira's blood group?", "Hello", *UNRELATED]
)
async def test_evidence_is_a_word_for_the_probability_that_there_is_an_answer(life: Client, question: str) -> None:
    answer = await call(life, "search_memories", query=question, detail=True)
    assert answer["evidence"] == level(answer["answered"])


@pytest.mark.parametrize(
    ("opening", "asked"),
    [
        ("¿", "Duerme Pixel sobre la impresora?"),
        ("“", "Mends Tom bikes in the courtyard?"),
        ("- ", "Mends Tom bikes there?"),
    ],
)
async def test_a_sign_before_its_first_word_makes_no_name_of_it(life: Client, opening: str, asked: str) -> None:
    plain = await call(life, "search_memories", query=asked, detail=True)
    opened = await call(life, "search_memories", query=opening + asked, detail=True)
    assert opened["answered"] == pytest.approx(plain["answered"], abs=0.25)


async def test_of_several_questions_the_surest_one_counts(life: Client) -> None:
    alone = await call(life, "search_memories", query=ASKING)
    together = await call(life, "search_memories", query=["Who is Roland Ashcombe?", ASKING])
    assert together["answered"] == pytest.approx(alone["answered"], abs=0.001)


@pytest.mark.parametrize(
    "question",
    [
        "What is Mira's blood group?",
        "Which car does Tom drive?",
        "Who is Roland Ashcombe?",
        "What does the ferry to Oslo cost?",
    ],
)
async def test_what_is_not_known_has_none_or_weak_evidence_and_its_hits_stay(life: Client, question: str) -> None:
    answer = await call(life, "search_memories", query=question)

    assert answer["evidence"] in ("none", "weak")
    assert answer["count"] == 10
    assert answer["results"][-1]["unlikely"] is True


@pytest.mark.parametrize("text", GREETINGS)
async def test_greetings_and_thanks_begin_as_no_topic_does(life: Client, text: str) -> None:
    recalled = await call(life, "recall_context", context=text)

    assert "evidence" not in recalled
    assert recalled["memory_ids"] == (await call(life, "recall_context"))["memory_ids"]
    assert (await call(life, "search_memories", query=text))["evidence"] != "strong"


@pytest.mark.parametrize(
    ("said", "asked"),
    [("The greenhouse work is done.", "greenhouse work done"), ("Perfect day: swimming in Kiel.", "perfect day"),
     ("Never forget: the key is under the pot.", "never forget"), ("Das Codewort heißt Guten Abend.", "guten abend"),
     ("Good luck charm: the old coin.", "good luck")],
)  # fmt: skip
async def test_a_search_whose_words_could_also_greet_or_agree_finds_and_says_so(
    life: Client, said: str, asked: str
) -> None:
    id_ = await remember(life, said)

    answer = await call(life, "search_memories", query=asked)

    assert (answer["results"][0]["id"], answer["evidence"]) == (id_, "strong")


@pytest.mark.parametrize("asked", ["done today", "no work today", "heute fertig"])
async def test_a_search_whose_words_could_also_agree_still_names_its_time(life: Client, asked: str) -> None:
    assert (await call(life, "search_memories", query=asked))["period"]


@pytest.mark.parametrize(
    "question",
    ["List all customers of Nordwind", "How many customers does Nordwind have?", "Zeig mir alle Kunden von Nordwind"],
)
async def test_the_word_that_commands_a_list_is_not_looked_for(client: Client, question: str) -> None:
    names = [
        f"{first}{second}"
        for first in ("Nor", "Ber", "Cal", "Dov", "Esk", "Fal")
        for second in ("lund", "mann", "sen", "ström", "holt")
    ]
    await call(
        client, "create_memories", items=[{"content": f"{name} is a customer of Nordwind in Kiel."} for name in names]
    )
    await call(client, "create_memories", items=[{"content": text} for text in LIFE[:8]])

    commanded = await call(client, "search_memories", query=question)
    bare = await call(
        client, "search_memories", query="Kunden von Nordwind" if "Zeig" in question else "customers of Nordwind"
    )

    assert commanded["evidence"] != "none"
    assert commanded["answered"] > bare["answered"] / 2


async def test_to_ask_how_somebody_is_in_any_language_begins_as_no_topic_does(client: Client) -> None:
    await remember(client, "我妈妈住在杭州，喜欢喝龙井茶。")
    await remember(client, "母の誕生日は五月十日です。")
    await remember(client, "Lenas Bruder Jonas studiert Maschinenbau in Aachen.")

    recalled = {text: (await call(client, "recall_context", context=text)).get("evidence") for text in HOW_ARE_YOU}

    assert {text for text, evidence in recalled.items() if evidence not in (None, "none")} == set()


@pytest.mark.parametrize(
    "text",
    [
        "Good tea without sugar",
        "Thanks, and where does Tom repair bicycles?",
        "Hello Kitty",
        "Yes, the old school, every Monday evening",
        "What's up with Mira?",
        "Wie geht es Tom?",
        "How are you? Where is Tom?",
    ],
)
async def test_what_only_begins_like_a_greeting_is_a_question(life: Client, text: str) -> None:
    kitty = await remember(life, "Ines collects Hello Kitty stickers.")

    recalled = await call(life, "recall_context", context=text)

    assert recalled["count"] > 0
    assert (kitty in recalled["memory_ids"]) == (text == "Hello Kitty")


@pytest.mark.parametrize("text", UNRELATED)
async def test_what_has_nothing_to_do_with_memories_is_no_topic_of_theirs(life: Client, text: str) -> None:
    recalled = await call(life, "recall_context", context=text)

    assert recalled["evidence"] != "strong"
    assert set(recalled["memory_ids"]) <= {*(await call(life, "recall_context"))["memory_ids"]}


async def test_a_score_is_a_probability_that_falls_and_does_not_depend_on_the_limit(life: Client) -> None:
    answer = await call(life, "search_memories", query=ASKING)
    first = await call(life, "search_memories", query=ASKING, limit=1)

    scores = [hit["score"] for hit in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert 0.5 < scores[0] <= 1
    assert 0 <= scores[-1] < 0.05
    assert (first["evidence"], first["count"]) == (answer["evidence"], 1)
    assert first["results"][0]["score"] == scores[0]


@pytest.mark.parametrize("mode", ["auto", "semantic", "text"])
async def test_every_mode_tells_its_evidence(life: Client, mode: str) -> None:
    assert (await call(life, "search_memories", query=ASKING, mode=mode))["evidence"] == "strong"


async def test_a_list_and_a_count_have_no_evidence(life: Client) -> None:
    assert "evidence" not in await call(life, "search_memories", limit=3)
    assert "evidence" not in await call(life, "search_memories", query=ASKING, count_only=True)


async def test_a_search_without_a_hit_has_none(client: Client) -> None:
    assert (await call(client, "search_memories", query=ASKING))["evidence"] == "none"


async def test_without_an_embedder_words_alone_tell(wordless: Served) -> None:
    await call(wordless.client, "create_memories", items=[{"content": text} for text in LIFE])

    known = await call(wordless.client, "search_memories", query=ASKING)
    unknown = await call(wordless.client, "search_memories", query="Which car does Tom drive to the notary?")

    assert (known["evidence"], known["degraded"]) == ("strong", True)
    assert unknown["evidence"] in ("none", "weak")
    begun = await call(wordless.client, "recall_context", context="ok thanks, that works")
    assert begun["memory_ids"] == (await call(wordless.client, "recall_context"))["memory_ids"]


async def test_what_another_speaker_said_of_himself_is_weaker_evidence(client: Client) -> None:
    said = [
        ("Ann", "I bought a green canoe last week."), ("Ben", "Wow, that sounds like a lot of fun!"),
        ("Ann", "My sister Rose will paddle with me."), ("Ben", "I prefer to stay dry, and play chess."),
    ]  # fmt: skip
    for speaker, text in said:
        await remember(client, text, speaker=speaker, session_id="boats")

    own = await call(client, "search_memories", query="What did Ann buy last week?")
    swapped = await call(client, "search_memories", query="What did Ben buy last week?")

    assert own["results"][0]["score"] > swapped["results"][0]["score"] + 0.1


@pytest.mark.parametrize("question", ["Куда переехала Катерина Лютер?", "Πού μένει η Κατερίνα Λούθηρος;"])
async def test_a_name_in_another_script_is_known_by_its_sound(life: Client, question: str) -> None:
    await call(life, "create_memories", items=[{"content": "Catherine Luther moved to Bergen."}])

    known = await call(life, "search_memories", query=question, detail=True)
    unknown = await call(life, "search_memories", query="Где живёт Борис Кузнецов?", detail=True)

    assert known["evidence"] in ("strong", "weak")
    assert unknown["evidence"] != "strong"
    assert unknown["answered"] < known["answered"] - 0.1
