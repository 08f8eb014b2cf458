"""The same memories and questions for other memory servers: python benchmarks/compare.py [--only NAME …] [--json PATH].

Each server is started as a client starts it, over stdin and stdout, is given the 115 memories of `pgengram demo` one by one, and is
asked the 26 questions, which hardly share a word with the memory that answers them. The table tells how many of those are among
the first three and the first ten, and what a call took. Nothing is tuned, no language model helps any of them, and the corpus is
ours: it shows how each behaves, and is no score. Needs node and npm for server-memory; mcp-memory-service is installed from PyPI,
and fetches its embedding model from the net when it is first used (without that it falls back to vectors without meaning).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from importers import python_with_extensions, run, told
from mcp import Client, StdioServerParameters
from rich.console import Console
from rich.table import Table

from pgengram.demo import load

FIRST, MORE = 3, 10
LONG_WORD = 4  # letters from which a word of a question is looked for by itself

Store = Callable[[str, str], Awaitable[object]]  # key, text
Ask = Callable[[str], Awaitable[list[str]]]  # a question; the texts of the answer, best first


@dataclass(frozen=True)
class Contestant:
    """A server under way: how it is told something, and how it is asked."""

    store: Store
    ask: Ask


@dataclass(frozen=True)
class Result:
    """What came of it."""

    server: str
    in_first_three: int
    in_first_ten: int
    asked: int
    store_ms: float
    ask_ms: float


def started(command: str, *arguments: str | Path, **variables: str) -> Client:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PGENGRAM_")}
    return Client(
        StdioServerParameters(command=command, args=[str(one) for one in arguments], env=inherited | variables)
    )


@asynccontextmanager
async def pgengram(folder: Path) -> AsyncIterator[Contestant]:
    async with started(sys.executable, "-m", "pgengram", PGENGRAM_DATA_DIR=str(folder)) as client:

        async def ask(question: str) -> list[str]:
            answer = json.loads(await told(client, "search_memories", query=question, limit=MORE, detail=True))
            return [hit["content"] for hit in answer["results"]]

        yield Contestant(lambda _, text: told(client, "create_memory", content=text), ask)


@asynccontextmanager
async def server_memory(folder: Path) -> AsyncIterator[Contestant]:
    """The official server: an entity for each memory. It looks for a text letter by letter, so each long word is asked for by
    itself, as a model would, and what more of the words found comes first."""
    run("npm", "install", "--silent", "--prefix", folder, "@modelcontextprotocol/server-memory")
    server = folder / "node_modules" / "@modelcontextprotocol" / "server-memory" / "dist" / "index.js"
    async with started("node", server, MEMORY_FILE_PATH=str(folder / "memory.jsonl")) as client:

        async def store(key: str, text: str) -> object:
            return await told(
                client, "create_entities", entities=[{"name": key, "entityType": "memory", "observations": [text]}]
            )

        async def ask(question: str) -> list[str]:
            words = [word for word in re.findall(r"\w+", question) if len(word) >= LONG_WORD]
            hits: Counter[str] = Counter()
            for word in words:
                graph = json.loads(await told(client, "search_nodes", query=word))
                hits.update(text for entity in graph["entities"] for text in entity["observations"])
            return [text for text, _ in hits.most_common()]

        yield Contestant(store, ask)


@asynccontextmanager
async def mcp_memory_service(folder: Path) -> AsyncIterator[Contestant]:
    run(python_with_extensions(), "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "mcp-memory-service")
    variables = {
        "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
        "MCP_MEMORY_SQLITE_PATH": str(folder / "sqlite_vec.db"),
        "MCP_MEMORY_BASE_DIR": str(folder / "base"),
    }
    async with started(str(folder / "venv" / "bin" / "memory"), "server", **variables) as client:

        async def ask(question: str) -> list[str]:
            return [await told(client, "memory_search", query=question, limit=MORE)]

        yield Contestant(lambda _, text: told(client, "memory_store", content=text), ask)


SERVERS = {"pgengram": pgengram, "server-memory": server_memory, "mcp-memory-service": mcp_memory_service}


async def compared(name: str) -> Result:
    """Fill one server, ask it everything, and return what came."""
    corpus = load()
    texts = {memory.key: memory.content for memory in corpus.memories}
    stored_ms, asked_ms, ranks = [], [], []
    with tempfile.TemporaryDirectory(prefix="pgengram-compare-", ignore_cleanup_errors=True) as folder:
        async with SERVERS[name](Path(folder)) as server:
            for key, text in texts.items():
                begun = time.perf_counter()
                await server.store(key, text)
                stored_ms.append((time.perf_counter() - begun) * 1e3)
            for question in corpus.questions:
                begun = time.perf_counter()
                answer = await server.ask(question.question)
                asked_ms.append((time.perf_counter() - begun) * 1e3)
                ranks.append(rank(texts[question.expects], answer))
    found = [sum(place is not None and place <= most for place in ranks) for most in (FIRST, MORE)]
    return Result(name, *found, len(ranks), round(median(stored_ms), 1), round(median(asked_ms), 1))


def rank(wanted: str, answer: list[str]) -> int | None:
    """Return the place of a text among texts; in an answer of one piece, among those that stand in it, by where it begins."""
    if len(answer) == 1:
        found = {
            memory.content: place for memory in load().memories if (place := answer[0].find(memory.content[:60])) >= 0
        }
        answer = sorted(found, key=lambda text: found[text])
    return answer.index(wanted) + 1 if wanted in answer else None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results: list[Result] = [asyncio.run(compared(name)) for name in given.only]
    table = Table("server", f"in the first {FIRST}", f"in the first {MORE}", "of", "ms to store one", "ms to ask")
    for one in results:
        table.add_row(*(str(value) for value in asdict(one).values()))
    Console(width=110).print(table)
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in results], indent=2) + "\n")


if __name__ == "__main__":
    main()
