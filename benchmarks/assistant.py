"""What an assistant gets: six weeks of three households, asked as people ask, through a real MCP client.

    python benchmarks/assistant.py [--batch] [--misses] [--json PATH]

Every session of data/assistant_corpus.json is stored by a server process of its own and then dated as the corpus says:
all moments that the session wrote are moved in the tables, as no tool takes them. Each question is asked by
search_memories (limit 10, `now` as in the corpus) and by recall_context. The place of an answer is the place of the
memory that answers; where several are needed, that of the last of them, less the others: 1 means that they stand
first. A contradiction counts as put right when the new memory is found and the older one isn't above it. A question for
all of something has up to 25 hits, so its cost stands in a row of its own.

Tokens are estimated as bytes of the answer's text / 3.7, what JSON with ids costs large models, as none of their
tokenizers ships with pgengram; the word pieces of the built-in model, which splits ids finely, stand beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from corpus import CORPUS, Stored, asked, id_of, live_through, read
from locomo import database, mean
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from pgengram.cli.clients.mcp_client import connected
from pgengram.settings import Settings

LIMIT = 10
BYTES_PER_TOKEN = 3.7
WIDTH = 130  # columns of the tables, also where nobody watches
PLACES = ("rank 1", "top 3", "top 10", "further", "miss")
IDLE = ("greetings and thanks", "unrelated")
GROUPS = ("unanswerable", *IDLE)
TEXT = ("text", "content")


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, and what search_memories and recall_context answered."""

    question: dict[str, Any]
    search: dict[str, Any]
    size: int
    recall: dict[str, Any]
    recall_size: int
    found: list[str | None]
    recalled: list[str]

    @property
    def wanted(self) -> list[str]:
        """The keys of the memories that answer; none where nothing does."""
        return list(self.question.get("answers", ()))

    @property
    def group(self) -> str:
        """Whether there is an answer, and what kind of prompt it is where there is none."""
        return "answerable" if self.wanted else str(self.question["category"])

    @property
    def place(self) -> int | None:
        """Where the answer stands, from 1; None where part of it is not among the hits."""
        if not set(self.wanted) <= set(self.found):
            return None
        return max(self.found.index(key) for key in self.wanted) + 2 - len(set(self.wanted))


def placed(place: int | None) -> str:
    """Return the column in which a place counts."""
    if place is None:
        return "miss"
    return next((name for name, last in (("rank 1", 1), ("top 3", 3), ("top 10", 10)) if place <= last), "further")


async def ask(stored: Stored, settings: Settings) -> list[Asked]:
    """Ask every question of the corpus in one session."""
    answers = []
    async with connected(settings) as client:
        for question in stored.corpus["questions"]:
            text = question["question"]
            arguments = {"query": text, "limit": LIMIT, "now": stored.corpus["now"]}
            search, size = await asked(client, "search_memories", arguments)
            recall, recall_size = await asked(client, "recall_context", {"context": text})
            found = [stored.key_of(id_of(hit)) for hit in search["results"]]
            recalled = stored.keys_in(json.dumps(recall))
            answers.append(Asked(question, search, size, recall, recall_size, found, recalled))
    return answers


def tally(answers: Iterable[Asked], by: Callable[[Asked], str]) -> dict[str, dict[str, int]]:
    """Count where the answers stand, by a property of the question."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for one in answers:
        if one.wanted:
            for name in (by(one), "all"):
                counted[name]["n"] += 1
                counted[name][placed(one.place)] += 1
                counted[name]["in recall"] += set(one.wanted) <= set(one.recalled)
    total = counted.pop("all")
    return {name: dict(row) for name, row in {**counted, "all": total}.items()}


def changes(answers: Iterable[Asked], stored: Stored) -> dict[str, int]:
    """Count how often what holds stands above what held, where both are memories."""
    counted = Counter[str]()
    for one in answers:
        [key, *others] = one.wanted or [""]
        old = stored.contradictions.get(key)
        if old is None or others or one.question["category"] != "current value after a change":
            continue
        counted["asked"] += 1
        above = key in one.found and (old not in one.found or one.found.index(key) < one.found.index(old))
        counted["current above outdated"] += above
        counted["outdated above current"] += not above and old in one.found
        counted["neither found"] += not above and old not in one.found
    return {
        name: counted[name] for name in ("asked", "current above outdated", "outdated above current", "neither found")
    }


def hinting(stored: Stored) -> dict[str, int]:
    """Count the hints at what a new memory may change."""
    new = [one for one in stored.written if one.tool != "update_memory"]
    outcome = [one for one in new if one.contradicts]
    others = [one for one in new if not one.contradicts]
    return {
        "contradictions": len(outcome),
        "hinted at": sum(one.contradicts in one.hinted for one in outcome),
        "others": len(others),
        "falsely hinted": sum(bool(one.hinted) for one in others),
    }


def sureness(answers: Iterable[Asked]) -> dict[str, dict[str, int]]:
    """Count what the answers say of their evidence, and what recall gives, by group."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for one in answers:
        row = counted[one.group]
        row["n"] += 1
        row[str(one.search.get("evidence", "absent"))] += 1
        row["recall gives none"] += not one.recalled
        row["recall gives at most one"] += len(one.recalled) <= 1
        row["recalled"] += len(one.recalled)
    return {group: dict(counted[group]) for group in ("answerable", *GROUPS)}


def by_field(answers: list[dict[str, Any]], items: str = "") -> dict[str, float]:
    """Return the bytes of each field of an answer, on average; those of the `items` under names of their own."""
    counted = Counter[str]()
    for answer in answers:
        for name, value in answer.items():
            if name == items:
                for item in value:
                    counted.update({f"{items}.{key}": written(key, its) for key, its in item.items()})
            else:
                counted[name] += written(name, value)
    return {name: round(size / len(answers), 1) for name, size in counted.most_common()}


def written(name: str, value: Any) -> int:
    """Return the bytes of one field in JSON."""
    return len(json.dumps({name: value}, ensure_ascii=False, separators=(",", ":")).encode()) - 1


def costs(answers: list[Asked], stored: Stored) -> dict[str, Any]:
    """Return the size of the answers of each tool, what of it is content, and its fields."""
    pieces = Tokenizer.from_str(
        (resources.files("pgengram.embedders") / "all_minilm_l6_v2" / "tokenizer.json").read_text("utf-8")
    )
    pieces.no_truncation()
    pieces.no_padding()
    asking = [one for one in answers if one.wanted]

    def one_tool(shown: list[dict[str, Any]], sizes: list[int], contents: list[int], items: str = "") -> dict[str, Any]:
        words = [len(pieces.encode(json.dumps(one, ensure_ascii=False), add_special_tokens=False)) for one in shown]
        return {
            "answers": len(shown),
            "bytes": round(mean(sizes)),
            "tokens": round(mean(sizes) / BYTES_PER_TOKEN),
            "word pieces": round(mean(words)),
            "content": round(sum(contents) / sum(sizes), 3),
            "fields": by_field(shown, items),
        }

    def searches(answered: list[Asked]) -> dict[str, Any]:
        return one_tool(
            [one.search for one in answered],
            [one.size for one in answered],
            [sum(text_size(hit) for hit in one.search["results"]) for one in answered],
            "results",
        )

    lists = [one for one in asking if len(one.search["results"]) > LIMIT]
    found = {
        "search_memories": searches([one for one in asking if len(one.search["results"]) <= LIMIT]),
        **({"search_memories, for all there is": searches(lists)} if lists else {}),
        "recall_context": one_tool(
            [one.recall for one in asking],
            [one.recall_size for one in asking],
            [sum(len(stored.said[key].encode()) for key in one.recalled) for one in asking],
        ),
    }
    for tool in sorted({one.tool for one in stored.written}):
        its = [one for one in stored.written if one.tool == tool]
        shown, sizes = [one.answer for one in its], [one.size for one in its]
        found[tool] = one_tool(shown, sizes, [text_size(one.get("memory", {})) for one in shown])
    return found


def text_size(hit: dict[str, Any]) -> int:
    """Return the bytes of the memory's own words in a hit."""
    return sum(len(str(hit[name]).encode()) for name in TEXT if name in hit)


async def sizes(settings: Settings) -> dict[str, Any]:
    """Return the bytes of tools/list, of each tool in it, and of the instructions."""
    async with connected(settings) as client:
        listed = (await client.list_tools()).tools
        instructions = client.instructions or ""
    each = {tool.name: len(tool.model_dump_json(by_alias=True, exclude_none=True).encode()) for tool in listed}
    together = sum(each.values()) + len(each) - 1 + len('{"tools":[]}')
    return {"tools/list": together, "tools": each, "instructions (characters)": len(instructions)}


# ------------------------------------------------------------------------------------------------------------- showing


def rows_of(title: str, first: str, columns: Iterable[str], rows: dict[str, dict[str, Any]]) -> Table:
    """Return a table with one row for each name."""
    table = Table(title=title)
    table.add_column(first)
    names = list(columns)
    for name in names:
        table.add_column(name, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(str(row.get(column, 0)) for column in names))
    return table


def show(figures: dict[str, Any], screen: Console) -> None:
    """Print all tables."""
    columns = ("n", *PLACES, "in recall")
    screen.print(rows_of(f"search_memories, limit {LIMIT}, by category", "category", columns, figures["by category"]))
    screen.print(rows_of("by language of the question", "language", columns, figures["by language"]))
    outcome = {
        "current value, both stored": figures["changes"],
        "hints on writing": figures["hints"],
    }
    for name, row in outcome.items():
        screen.print(rows_of(name, "", row, {"": row}))
    evidence = sorted(
        {name for row in figures["evidence"].values() for name in row} & {"strong", "weak", "none", "absent"}
    )
    recall = ("recall gives none", "recall gives at most one", "recalled")
    screen.print(rows_of("evidence and recall", "prompts", ("n", *evidence, *recall), figures["evidence"]))
    cost = ("answers", "bytes", "tokens", "word pieces", "content")
    screen.print(rows_of("one answer, on average; content is its share of the bytes", "tool", cost, figures["costs"]))
    for tool, its in figures["costs"].items():
        screen.print(f"{tool}: " + ", ".join(f"{name} {size:g}" for name, size in its["fields"].items()))
    screen.print(rows_of("bytes told at the start", "", ("bytes",), told_at_start(figures["sizes"])))


def told_at_start(outcome: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return the sizes of what a client reads before its first call, as rows."""
    whole = {name: size for name, size in outcome.items() if name != "tools"}
    return {name: {"bytes": size} for name, size in {**whole, **outcome["tools"]}.items()}


def show_misses(answers: Iterable[Asked], screen: Console) -> None:
    """Print each question that was not answered by the first hit."""
    for one in answers:
        if one.wanted and one.place != 1:
            text = " ".join(one.question["question"].split())[-90:]
            screen.print(f"{placed(one.place):7}{one.question['category'][:20]:22}{text}  {one.wanted} {one.found[:3]}")


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="another corpus of this form")
    parser.add_argument("--batch", action="store_true", help="store each session by create_memories")
    parser.add_argument("--misses", action="store_true", help="name each question whose answer isn't first")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    screen = Console(width=max(Console().width, WIDTH))
    with database("short") as settings:
        stored = await live_through(read(arguments.corpus), settings, batch=arguments.batch)
        answers = await ask(stored, settings)
        figures = {
            "by category": tally(answers, lambda one: str(one.question["category"])),
            "by language": tally(answers, lambda one: str(one.question["language"])),
            "changes": changes(answers, stored),
            "hints": hinting(stored),
            "evidence": sureness(answers),
            "costs": costs(answers, stored),
            "sizes": await sizes(settings),
        }
    show(figures, screen)
    if arguments.misses:
        show_misses(answers, screen)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
