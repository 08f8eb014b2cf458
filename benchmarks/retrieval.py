"""Whether the right memories are found: the product beside plain baselines, on every data set at hand.

    python benchmarks/retrieval.py [FILE or FOLDER ...] [--questions N] [--only WORD ...] [--fit all|hints] [--json PATH]

The own corpus, the probe in eight languages and words as people type them are always asked; corpus.py names the others that are understood. Each world (a
conversation, a chat, some weeks) has a namespace of its own and is stored through the manager as a client's calls would
be; sessions with a date are moved to it. Baselines score every text: cosine (of the question's vector and the nearest part's),
BM25 (k1 1.2, b .75, PostgreSQL's stems), and .6 · cosine + .4 · BM25 as a share of the best.

R@k is the mean share of what answers among the first k (a question that needs any or half of it has that as its whole);
first: the first hit answers. older above: something that held before stands above what holds. AUC: the chance that a
question with an answer has the higher probability of one than a question without (own: the set's own; foreign: questions
of the next world). unlikely: first hits that are right and marked as unlikely. strong: unanswerable questions that are
called strong. Hints: what a new memory replaces, named when it was stored; and new memories that falsely name something.

Vectors are kept in results/, so that only the first run makes them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import pickle
import sqlite3
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import fitting
import numpy as np
import psycopg
from corpus import CORPUS, Query, Session, World, probe, shift, typed, worlds
from fitting import auc, recall
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from pgengram.inputs import Change, Question
from pgengram.postgres import start_embedded
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

RESULTS = Path(__file__).parent / "results"
CUTS = (1, 5, 10)
LIMIT = 10
BATCH = 100
FOREIGN = 20  # questions of the next world, asked of each
K1, B = 1.2, 0.75
WIDTH = 170  # columns of the tables, also where nobody watches
RANKERS = ("product", "cosine", "BM25", "mix")
STEMS = """
SELECT t.place - 1, w.lexeme, cardinality(w.positions) FROM unnest(%s::text[]) WITH ORDINALITY AS t(text, place),
  unnest(to_tsvector('english', t.text)) AS w
"""
Floats = NDArray[np.float64]


class KeptVectors:
    """An embedder whose vectors are kept in a file, as to make them takes longer than all else together."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        RESULTS.mkdir(exist_ok=True)
        self._file = sqlite3.connect(RESULTS / "vectors.sqlite", timeout=60)
        self._file.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, made BLOB)")

    @property
    def name(self) -> str:
        return str(self._embedder.name)

    async def dimensions(self) -> int:
        return int(await self._embedder.dimensions())

    def _key(self, purpose: str, text: str) -> bytes:
        return sha256(f"{self.name}\0{purpose}\0{text}".encode(errors="replace")).digest()

    def _known(self, key: bytes) -> Any:
        row = self._file.execute("SELECT made FROM vectors WHERE key = ?", [key]).fetchone()
        return None if row is None else pickle.loads(row[0])

    def _keep(self, made: Iterable[tuple[bytes, Any]]) -> None:
        with self._file:
            rows = [(key, pickle.dumps(one)) for key, one in made]
            self._file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    async def passages(self, texts: Sequence[str]) -> list[Any]:
        keys = [self._key("passage", text) for text in texts]
        found = {key: self._known(key) for key in keys}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if found[key] is None}
        for start in range(0, len(missing), 16):
            batch = [*missing.items()][start : start + 16]
            made = await self._embedder.passages([text for _, text in batch])
            found |= (new := {key: one for (key, _), one in zip(batch, made, strict=True)})
            self._keep(new.items())
        return [found[key] for key in keys]

    async def query(self, text: str) -> Any:
        key = self._key("query", text)
        if (made := self._known(key)) is None:
            made = await self._embedder.query(text)
            self._keep([(key, made)])
        return made

    def load_ahead(self) -> None:
        """Nothing: most runs need no model."""

    def describe(self) -> dict[str, object]:
        return dict(self._embedder.describe())

    async def close(self) -> None:
        await self._embedder.close()
        self._file.close()


@dataclass(slots=True)
class Filled:
    """A world in its store: which memory each id is, and which a new one was said to replace."""

    world: World
    manager: MemoryManager
    keys: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    hinted: dict[str, set[str]] = field(default_factory=dict)
    pairs: list[tuple[str, Floats, str]] = field(default_factory=list)

    def replacing(self) -> Iterator[tuple[Floats, bool]]:
        """Yield the signals of each new memory and an older one, and whether the first replaces the second."""
        by_text = {step.arguments["content"]: step.key for session in self.world.sessions
                   for step in session.steps if step.does == "create"}  # fmt: skip
        for text, signals, older in self.pairs:
            yield signals, self.keys.get(older, "") in self.world.replaces.get(by_text.get(text, ""), ())


@dataclass(frozen=True, slots=True)
class Answered:
    """One question and the keys of the hits of each ranker, and what the product says of its evidence."""

    world: World
    query: Query
    group: str
    hits: dict[str, list[str]]
    evidence: str = "none"
    answered: float = 0.0
    unlikely: frozenset[str] = frozenset()


# ------------------------------------------------------------------------------------------------------------ storing


@contextmanager
def database() -> Iterator[Settings]:
    """Yield the settings of the environment, with a database for this run where they name none."""
    settings = replace(Settings.from_environment(), answers="full")
    if settings.database_url:
        yield settings
        return
    with tempfile.TemporaryDirectory(prefix="pgengram-retrieval-", ignore_cleanup_errors=True) as folder:
        server = start_embedded(Path(folder) / "data")
        try:
            yield replace(settings, database_url=server.url)
        finally:
            server.stop()


async def fill(world: World, host: MemoryManager) -> Filled:
    """Store a world in a namespace of its own."""
    name = f"{world.data} {world.name.partition('|')[0]}"
    filled = Filled(world, MemoryManager(replace(host.settings, namespace=name), host))
    await filled.manager.ready(embeds=False)
    for session in world.sessions:
        with psycopg.connect(host.settings.database_url) as connection:
            [began] = connection.execute("SELECT now()").fetchone() or ()
        await _store(session, filled)
        if session.date is not None:
            shift(host.settings.database_url, began, session.date)
    return filled


async def _store(session: Session, filled: Filled) -> None:
    new = [step for step in session.steps if step.does == "create"]
    for start in range(0, len(new), BATCH):
        batch = new[start : start + BATCH]
        with fitting.noting_pairs() as pairs:
            answer = await filled.manager.create_memories([step.arguments for step in batch])
        filled.pairs += pairs
        for result in answer.results:
            if id_ := result.get("memory_id"):
                key = batch[result["index"]].key
                filled.keys.setdefault(id_, key)
                filled.ids[key] = id_
                filled.hinted[key] = {filled.keys.get(one["id"], "") for one in result.get("may_replace") or ()}
    for step in session.steps:
        if step.does == "update":
            await filled.manager.update_memory(Change.model_validate({"id": filled.ids[step.key], **step.arguments}))
        elif step.does == "forget":
            others = [filled.ids[key] for key in step.others]
            await filled.manager.forget_memories([filled.ids[step.key]], replaced_by_ids=others, **step.arguments)


# -------------------------------------------------------------------------------------------------------------- asking


class Baselines:
    """Scores of every text of a world by plain formulas."""

    def __init__(self, filled: Filled, vectors: Sequence[Any], rows: Iterable[tuple[int, str, int]]) -> None:
        self._keys = [*filled.world.texts]
        self._vectors = np.concatenate([np.asarray(one.vectors) for one in vectors])
        self._starts = np.cumsum([0, *(len(one) for one in vectors[:-1])])
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)
        for place, stem, count in rows:
            self._counts[stem][place] = count
        self._lengths = np.zeros(len(self._keys))
        for counted in self._counts.values():
            for place, count in counted.items():
                self._lengths[place] += count

    def hits(self, vector: Floats, stems: Iterable[str]) -> dict[str, list[str]]:
        """Return the best keys by each baseline."""
        cosine = np.maximum.reduceat(self._vectors @ vector, self._starts)
        words = np.zeros(len(self._keys))
        usual = self._lengths.mean() or 1.0
        for stem in stems:
            its = self._counts.get(stem, {})
            weight = math.log1p((len(self._keys) - len(its) + 0.5) / (len(its) + 0.5))
            for place, count in its.items():
                words[place] += weight * count * (K1 + 1) / (count + K1 * (1 - B + B * self._lengths[place] / usual))
        mix = 0.6 * cosine + 0.4 * words / max(float(words.max(initial=0.0)), 1e-9)
        scores = {"cosine": cosine, "BM25": words, "mix": mix}
        return {name: [self._keys[i] for i in np.argsort(-its, kind="stable")[:LIMIT]] for name, its in scores.items()}


def _stems(url: str, texts: Sequence[str]) -> list[tuple[int, str, int]]:
    with psycopg.connect(url) as connection:
        return [(int(row[0]), str(row[1]), int(row[2])) for row in connection.execute(STEMS, [list(texts)])]


def some(queries: Sequence[Query], most: int) -> list[Query]:
    """Return at most so many, evenly spread; all of them for 0."""
    step = max(1, -(-len(queries) // most)) if most else 1
    return [*queries[::step]]


def questions(world: World, other: World | None, most: int) -> list[tuple[Query, str]]:
    """Return what a world is asked, each with its group: its own questions, and some of another world's."""
    asked: list[tuple[Query, str]] = []
    for group in ("answerable", "unanswerable", "idle"):
        asked += [(query, group) for query in some([one for one in world.queries if one.group == group], most)]
    if other is not None:
        foreign = [one for one in other.queries if one.group == "answerable"]
        asked += [(query, "foreign") for query in some(foreign, min(most or FOREIGN, FOREIGN))]
    return asked


async def ask(filled: Filled, other: World | None, most: int, *, baselines: bool) -> list[Answered]:
    """Ask a world its own questions and some of another world's."""
    world, url = filled.world, filled.manager.settings.database_url
    asked = questions(world, other, most)
    plain = None
    if baselines:
        texts = [*world.texts.values()]
        vectors = await filled.manager.models.passages(texts)
        plain = Baselines(filled, vectors.vectors, _stems(url, texts))
        stems: dict[int, list[str]] = defaultdict(list)
        for place, stem, _ in _stems(url, [query.text for query, _ in asked]):
            stems[place].append(stem)
    found = []
    for place, (query, group) in enumerate(asked):
        hits: dict[str, list[str]] = {}
        if plain is not None and group == "answerable":
            vector = (await filled.manager.models.question(query.text)).vectors[0]
            hits = plain.hits(vector, stems[place])
        answer = await filled.manager.search_memories(Question(query=query.text, limit=LIMIT, now=world.now))
        named = [(filled.keys.get(hit["id"], "?"), hit) for hit in answer.results]
        hits["product"] = [key for key, _ in named]
        unlikely = frozenset(key for key, hit in named if hit.get("unlikely"))
        found.append(
            Answered(world, query, group, hits, answer.evidence or "no claim", answer.answered or 0.0, unlikely)
        )
    return found


# ----------------------------------------------------------------------------------------------------------- measuring


def mean(values: Sequence[float]) -> float:
    """Return the mean, NaN of nothing."""
    return sum(values) / len(values) if values else math.nan


def ndcg(query: Query, hits: Sequence[str]) -> float:
    """Return nDCG@10."""
    gain = sum(1 / math.log2(place + 2) for place, key in enumerate(hits[:LIMIT]) if key in query.wanted)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(LIMIT, len(query.wanted))))


def found_by(ranker: str, its: Sequence[Answered]) -> dict[str, Any]:
    """Return the measures of one ranker on one data set."""
    pairs = [(one.query, one.hits[ranker]) for one in its if one.group == "answerable" and ranker in one.hits]
    changed = [(query, hits) for query, hits in pairs if query.stale]
    return {
        "n": len(pairs),
        **{f"R@{cut}": 100 * mean([recall(query, hits, cut) for query, hits in pairs]) for cut in CUTS},
        "nDCG": 100 * mean([ndcg(query, hits) for query, hits in pairs]),
        "first": f"{sum(hits[0] in query.wanted for query, hits in pairs if hits)}",
        "older above": f"{sum(_older_above(query, hits) for query, hits in changed)} of {len(changed)}"
        if changed
        else "",
    }


def _older_above(query: Query, hits: Sequence[str]) -> bool:
    newest = query.wanted - query.stale
    places = [[place for place, key in enumerate(hits) if key in keys] for keys in (query.stale, newest)]
    return min(places[0], default=math.inf) < min(places[1], default=math.inf)


def evidence(its: Sequence[Answered]) -> dict[str, Any]:
    """Return how well the product's evidence tells questions with an answer from others."""
    of = {
        group: [one for one in its if one.group == group] for group in ("answerable", "unanswerable", "foreign", "idle")
    }
    chance = {group: [one.answered for one in ones] for group, ones in of.items()}
    right = [one for one in of["answerable"] if (hits := one.hits["product"]) and hits[0] in one.query.wanted]
    marked = sum(one.hits["product"][0] in one.unlikely for one in right)
    return {
        **{f"AUC {group}": auc(chance["answerable"], chance[group]) for group in ("unanswerable", "foreign", "idle")},
        "unlikely": f"{marked} of {len(right)}",
        **{f"{group}: strong/weak/none": _levels(ones) for group, ones in of.items() if group != "idle"},
    }


def _levels(its: Sequence[Answered]) -> str:
    return "/".join(str(sum(one.evidence == level for one in its)) for level in ("strong", "weak", "none"))


def hints(filled: Sequence[Filled]) -> dict[str, Any]:
    """Count what new memories were said to replace."""
    named = expected = false = others = 0
    for one in filled:
        for key, hinted in one.hinted.items():
            older = one.world.replaces.get(key)
            expected, named = expected + bool(older), named + bool(older and older & hinted)
            others, false = others + (older is None), false + (older is None and bool(hinted))
    return {"hints": f"{named} of {expected}", "false hints": f"{false} of {others}"}


# -------------------------------------------------------------------------------------------------------------- showing


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.2f}" if abs(value) <= 1 else f"{value:.1f}"
    return str(value)


def table(title: str, rows: dict[str, dict[str, Any]]) -> Table:
    """Return a table with one row for each name."""
    shown = Table(title=title)
    shown.add_column("")
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    for name in columns:
        shown.add_column(name, justify="right")
    for name, row in rows.items():
        shown.add_row(name, *(_cell(row.get(column, "")) for column in columns))
    return shown


def show(figures: dict[str, Any], screen: Console) -> None:
    """Print all tables."""
    screen.print(
        table(
            "found, in per cent",
            {f"{data}: {ranker}": row for data, its in figures["found"].items() for ranker, row in its.items()},
        )
    )
    screen.print(table("is there an answer?", figures["evidence"]))
    if figures["hints"]:
        screen.print(table("what a new memory replaces", figures["hints"]))


def measured(answers: Sequence[Answered], filled: Sequence[Filled]) -> dict[str, Any]:
    """Return all figures by data set."""
    by_data: dict[str, list[Answered]] = defaultdict(list)
    for one in answers:
        by_data[one.world.data].append(one)
    stored: dict[str, list[Filled]] = defaultdict(list)
    for one in filled:
        if one.world.replaces:
            stored[one.world.data].append(one)
    return {
        "found": {data: {ranker: found_by(ranker, its) for ranker in RANKERS if any(ranker in one.hits for one in its)} for data, its in by_data.items()},
        "evidence": {data: evidence(its) for data, its in by_data.items() if any(one.group != "answerable" for one in its)},
        "hints": {data: hints(its) for data, its in stored.items()},
    }  # fmt: skip


def chosen(paths: Sequence[Path], only: Sequence[str]) -> list[World]:
    """Return the worlds of the files and the own ones, of data sets whose name holds one of the words."""
    found = [one for path in paths for one in worlds(path)] + [*worlds(CORPUS), *probe(), *typed()]
    return [one for one in found if not only or any(word.lower() in one.data.lower() for word in only)]


async def run(arguments: argparse.Namespace, settings: Settings, progress: Progress) -> dict[str, Any]:
    """Fill the stores, ask everything and return the figures."""
    host = MemoryManager(replace(settings, namespace="host"))
    host.models.configured = KeptVectors(host.models.configured) if host.models.configured else None
    await host.ready(embeds=False)
    all_of_them = chosen(arguments.paths, arguments.only)
    stored: dict[str, Filled] = {}
    answers: list[Answered] = []
    seen: list[fitting.Seen] = []
    began = datetime.now(UTC)
    for place, world in enumerate(progress.track(all_of_them, description="worlds")):
        name = f"{world.data} {world.name.partition('|')[0]}"
        filled = replace(stored[name], world=world) if name in stored else await fill(world, host)
        stored.setdefault(name, filled)
        after = all_of_them[(place + 1) % len(all_of_them)]
        same = [one for one in all_of_them if one.data == world.data]
        foreign = same[(same.index(world) + 1) % len(same)] if len(same) > 1 else after
        other = foreign if foreign is not world and "asked in" not in world.name else None
        if arguments.fit:
            seen += await capture(filled, other, arguments.questions) if arguments.fit == "all" else []
            continue
        answers += await ask(filled, other, arguments.questions, baselines=not arguments.product_only)
    if arguments.fit:
        pairs = [pair for one in stored.values() if one.world.replaces for pair in one.replacing()]
        embedder = str(host.models.key and host.models.configured and host.models.configured.name)
        if arguments.fit == "hints":
            fitting.keep(fitted_hints(pairs), embedder)
        else:
            fit(fitting.kept(seen, RESULTS / "seen.pickle"), pairs, embedder, Console(width=WIDTH))
    figures = measured(answers, [*stored.values()])
    await host.close()
    figures["seconds"] = (datetime.now(UTC) - began).total_seconds()
    if arguments.misses:
        show_misses(answers)
    return figures


async def capture(filled: Filled, other: World | None, most: int) -> list[fitting.Seen]:
    """Return what the product knew of a world's questions and of some of another world's, in each way of searching."""
    found = []
    for query, group in questions(filled.world, other, most):
        for mode in fitting.MODES:
            with fitting.noting() as noted:
                asked = Question(query=query.text, mode=mode, limit=LIMIT, now=filled.world.now)
                await filled.manager.search_memories(asked)
            if len(noted) == 1:  # a long text is asked in parts, and a time alone is a list
                found.append(fitting.of(filled.world.data, query, group, mode, filled.keys, noted[0]))
    return found


def fit(seen: Sequence[fitting.Seen], pairs: Sequence[tuple[Floats, bool]], embedder: str, screen: Console) -> None:
    """Print what weights fitted with and without each data set and feature find, and keep those fitted on all."""
    ranking, rows = fitting.table_of([one for one in seen if one.mode == "auto" and one.group == "answerable"])
    screen.print(table("R@1 / R@10, of the ranking alone", rows))
    found: dict[str, Any] = {"ranking": ranking, "sharpness": {}, "evidence": {}}
    for mode in fitting.MODES:
        its = fitting.judged(one for one in seen if one.mode == mode)
        evidence_of = fitting.fitted_evidence(its)
        found["sharpness"][mode] = evidence_of["sharpness"]
        if mode != "semantic":  # which has the signals of auto
            found["evidence"][mode] = evidence_of["weights"]
        if mode == "auto" and evidence_of["speaker"]:
            found["speaker"] = evidence_of["speaker"]
        screen.print(table(f"is there an answer? data set left out, mode {mode}", fitting.evidence_table(its)))
    found["sharpness"]["auto"] = fitting.SHARPNESS
    found |= fitted_hints(pairs)
    screen.print(found)
    fitting.keep(found, embedder)


def fitted_hints(pairs: Sequence[tuple[Floats, bool]]) -> dict[str, Any]:
    """Return the weights of the rule for what holds; nothing where no new memory replaces another."""
    if not any(replaces for _, replaces in pairs):
        return {}
    told, replaces = zip(*pairs, strict=True)
    return {"succession": fitting.fitted_succession(np.array(told), np.array(replaces, dtype=float))}


def show_misses(answers: Iterable[Answered]) -> None:
    """Print each question that was not answered by the first hit."""
    for one in answers:
        hits = one.hits["product"]
        if one.group == "answerable" and not (hits and hits[0] in one.query.wanted):
            print(one.world.data, "|", " ".join(one.query.text.split())[-90:], "|", sorted(one.query.wanted), hits[:3])


async def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="*", help="data sets")
    parser.add_argument("--questions", type=int, default=0, help="of each group and world; 0 asks all")
    parser.add_argument("--only", nargs="*", default=[], help="data sets whose name holds one of these words")
    parser.add_argument("--product-only", action="store_true", help="leave the baselines out")
    parser.add_argument(
        "--fit", choices=("all", "hints"), help="fit all weights instead, or only those of what a new memory replaces"
    )
    parser.add_argument("--misses", action="store_true", help="name each question whose answer isn't first")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    screen = Console(width=max(Console().width, WIDTH))
    with database() as settings, Progress(disable=not screen.is_terminal) as progress:
        figures = await run(arguments, settings, progress)
    if not arguments.fit:
        show(figures, screen)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
