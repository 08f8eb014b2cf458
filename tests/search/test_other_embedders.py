"""Evidence and hints with an embedder whose vectors all point much the same way, as those of many models do."""

from __future__ import annotations

from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from math import sqrt
from typing import Any

from mcp import Client
from test_evidence import ASKING, LIFE, UNRELATED

from helpers import Database, call, connected
from listener import Reply, listening
from pgengram.embedders import embedder_from

COMMON = 1.7  # of each vector's length, in one direction: unrelated texts have a cosine of about .76
NEWER = "Mira's staging database listens on port 6000 now."
QUESTIONS = (ASKING, "What is Mira allergic to?", "What is the cat's name?", *UNRELATED)


@dataclass
class Answers:
    evidence: list[str]
    replaced: int


async def answers(client: Client, questions: tuple[str, ...]) -> Answers:
    await call(client, "create_memories", items=[{"content": text} for text in LIFE])
    evidence = [(await call(client, "search_memories", query=text))["evidence"] for text in questions]
    newer = await call(client, "create_memory", content=NEWER)
    return Answers(evidence, len(newer.get("may_replace", ())))


async def test_a_model_with_much_in_common_is_judged_as_the_built_in_one(client: Client, database: Database) -> None:
    own = embedder_from("builtin:", None)
    assert own is not None
    texts = (*LIFE, *QUESTIONS, NEWER)
    vectors = {
        text: [float(value) for value in part[0]] for text, part in zip(texts, await own.passages(texts), strict=True)
    }
    length = sqrt(1 + COMMON**2)

    def answer(_: BaseHTTPRequestHandler, request: Any) -> Reply:
        data = [
            {
                "index": place,
                "embedding": [*(value / length for value in vectors.get(text, [0.0] * 384)), COMMON / length],
            }
            for place, text in enumerate(request["input"])
        ]
        return 200, {}, {"data": data}

    with listening(answer) as address:
        setting = f"openai+{address}/v1#model"
        async with connected(database_url=database.url, embedder=setting) as other:
            found = await answers(other, QUESTIONS)
    await own.close()

    assert found == await answers(client, QUESTIONS)
    assert (found.evidence[:3], found.replaced) == (["strong"] * 3, 1)
    assert "strong" not in found.evidence[3:]
