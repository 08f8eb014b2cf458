"""What an answer costs a model: its bytes and tokens, through a real MCP client, in answers as assistants have them.

    python benchmarks/assistant.py [--json PATH]

The memories of the own corpus are stored one by one, and each of its questions is asked by search_memories and recall_context.
Tokens are estimated as bytes of the answer's text / 3.7, what JSON with ids costs large models.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpus import CORPUS, World, worlds
from retrieval import WIDTH, database, mean, table
from rich.console import Console

from pgengram.cli.clients.mcp_client import connected
from pgengram.settings import Settings

BYTES_PER_TOKEN = 3.7
LIMIT = 10
TEXT = ("text", "content")


async def asked(client: Any, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Call a tool and return its structured answer and the bytes of the text that a model reads.

    Raises:
        ValueError: the tool refused.
    """
    answer = await client.call_tool(tool, arguments)
    text = answer.content[0].text
    if answer.is_error:
        raise ValueError(f"{tool}: {text}")
    return dict(answer.structured_content), len(text.encode())


async def answers_of(world: World, settings: Settings) -> dict[str, list[tuple[dict[str, Any], int]]]:
    """Return every answer of each tool with its size."""
    found: dict[str, list[tuple[dict[str, Any], int]]] = defaultdict(list)
    async with connected(settings) as client:
        for step in (step for session in world.sessions for step in session.steps if step.does == "create"):
            found["create_memory"].append(await asked(client, "create_memory", step.arguments))
        for query in world.queries:
            if query.wanted:
                search = await asked(client, "search_memories", {"query": query.text, "limit": LIMIT, "now": world.now})
                is_list = len(search[0]["results"]) > LIMIT
                found[f"search_memories{', for all there is' * is_list}"].append(search)
                found["recall_context"].append(await asked(client, "recall_context", {"context": query.text}))
    return found


def cost(answers: list[tuple[dict[str, Any], int]]) -> dict[str, Any]:
    """Return the size of an answer, on average, and the share of its bytes that the memories' own words take."""
    said = [sum(len(str(hit[name]).encode()) for hit in one.get("results", ()) for name in TEXT if name in hit)
            + len(one.get("context", "").encode()) for one, _ in answers]  # fmt: skip
    whole = [size for _, size in answers]
    return {"answers": len(answers), "bytes": round(mean(whole)), "tokens": round(mean(whole) / BYTES_PER_TOKEN),
            "content, %": 100 * sum(said) / sum(whole)}  # fmt: skip


def by_field(answers: list[tuple[dict[str, Any], int]]) -> dict[str, float]:
    """Return the bytes of each field of a hit, on average over the answers."""
    counted = Counter[str]()
    for one, _ in answers:
        for hit in one.get("results", ()):
            counted.update(
                {name: len(json.dumps({name: its}, ensure_ascii=False).encode()) - 1 for name, its in hit.items()}
            )
    return {name: size / len(answers) for name, size in counted.most_common()}


async def sizes(settings: Settings) -> dict[str, dict[str, int]]:
    """Return the bytes of each tool in tools/list, and of the instructions."""
    async with connected(settings) as client:
        listed = (await client.list_tools()).tools
        instructions = client.instructions or ""
    each = {
        tool.name: {"bytes": len(tool.model_dump_json(by_alias=True, exclude_none=True).encode())} for tool in listed
    }
    whole = {
        "tools/list": {"bytes": sum(one["bytes"] for one in each.values())},
        "instructions": {"bytes": len(instructions.encode())},
    }
    return {**whole, **each}


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    screen = Console(width=max(Console().width, WIDTH))
    [world] = worlds(CORPUS)
    with database() as settings:
        short = replace(settings, answers="short")
        answers = await answers_of(world, short)
        figures = {
            "one answer, on average": {tool: cost(its) for tool, its in answers.items()},
            "bytes of each field of the hits": {"search_memories": by_field(answers["search_memories"])},
            "what a client reads at the start": await sizes(short),
        }
    for title, rows in figures.items():
        screen.print(table(title, rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
