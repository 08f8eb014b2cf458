"""The same material for other memory servers: python benchmarks/compare.py [--only NAME …] [--lend-model] [--locomo FILE] [--json PATH].

Each server is installed from its registry into a folder of its own, and started as a client starts it, over stdin and stdout, with its
default settings in an empty home. It is given the 115 memories of `pgengram demo` one by one and asked the 26 questions, which hardly
share a word with the memory that answers them. Then it is asked for what it was told, started again, used by eight clients at once, and
killed a few times while it stores. --larger fills it with more and asks again; --runs repeats all, and the table shows the median with the
least and the most. With --locomo it gets the turns and questions of conversations in that file instead. Nothing is tuned, no language model helps
any of them, and the corpus is ours: the table shows how each behaves, and is no score.

Needs /proc, for processor time and memory; node and npm for server-memory; for basic-memory a Python of 3.12 or newer. The SQLite of
the Python that runs the last two must be allowed to load extensions. Both fetch an embedding model when first used; --lend-model puts
pgengram's copy of all-MiniLM-L6-v2 where they look for theirs, for a machine without the net.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from importers import EXTENSIONS, outcome, run
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from rich.console import Console
from rich.table import Table

import pgengram
from pgengram.demo import load

FIRST, MORE = 3, 10
LONG_WORD = 4  # letters from which a word of a question is looked for by itself
SETTLE_S, PATIENCE_S = 5, 120  # after the last store, until it is idle: an index may be filled behind the answer
STARTS = 3
KILLS = 5
BEFORE_A_KILL = 20  # memories that are acknowledged before the moment is drawn
FEW_CLIENTS, CLIENTS, CALLS_EACH = 4, 8, 50
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
WINDOW = 256  # tokens that the lent model reads of a text
MODEL = Path(pgengram.__file__).parent / "embedders" / "all_minilm_l6_v2"

AWKWARD = (
    "  Spaces before and after  ",
    "Lines\n\n    indented\n\twith a tab\n",
    "Windows\r\nlines",
    "---\ntitle: Not a title\n---\nText under a front matter",
    "- [fact] Something #tag\n- links to [[Another note]]",
    "Ame\u0301lie, Am\u00e9lie, 👩‍👩‍👧, zero\u200bwidth, 日本語, עברית",
    '<b>&amp;</b> {"a": "\\\\n"} \'quoted\' %s $1 `code`',
    "Nine thousand letters: " + "pen and ink " * 750,
)


class Server(ABC):
    """A server: how it is installed and started, and which tools store, find and read. A memory has a key of ours and a text."""

    name = ""
    package = ""
    python = ""  # the interpreter of its virtual environment, where it has one

    def __init__(self, environments: Path, home: Path, *, lent: bool = False) -> None:
        self.environments, self.place, self.home = environments, environments / self.name, home
        self.lent = self.lend() if lent else {}
        self.texts: dict[str, str] = {}

    def install(self) -> str:
        """Install it where it is not yet, and return its version."""
        if not self.place.exists():
            run(python_for(self.python), "-m", "venv", "--without-pip", self.place)
            run(sys.executable, "-m", "pip", "--python", self.interpreter, "install", "--quiet", self.package)
        name = self.package.partition("[")[0]
        return run(self.interpreter, "-c", f"from importlib.metadata import version; print(version('{name}'))").strip()

    @property
    def interpreter(self) -> Path:
        return self.place / "bin" / "python"

    @abstractmethod
    def command(self) -> list[str | Path]:
        """Return what starts it."""

    def variables(self) -> dict[str, str]:
        """Return what its environment needs beside an empty home."""
        return {}

    def lend(self) -> dict[str, str]:
        """Put our model where it looks for one, and return the variables that make it do so."""
        return {}

    @abstractmethod
    async def store(self, client: Client, key: str, text: str) -> str:
        """Store a text and return by what it is read again."""

    @abstractmethod
    async def ask(self, client: Client, question: str) -> list[str]:
        """Return the texts that it finds, best first."""

    @abstractmethod
    async def read(self, client: Client, handles: list[str]) -> list[str]:
        """Return the texts behind what `store` returned; those that are not there are left out."""

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Client]:
        """Start it in its home, as a client would, and stop it at the end."""
        left_out = ("PGENGRAM_", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        program, *arguments = (str(part) for part in self.command())
        mine = {"HOME": str(self.home), **self.variables(), **self.lent}
        how = StdioServerParameters(command=program, args=arguments, env=inherited | mine, cwd=self.home)
        with (self.home.parent / "log").open("a") as log:
            async with Client(stdio_client(how, errlog=log)) as client:
                yield client


class Pgengram(Server):
    name = "pgengram"

    def install(self) -> str:
        return pgengram.__version__

    def command(self) -> list[str | Path]:
        return [sys.executable, "-m", "pgengram"]

    def variables(self) -> dict[str, str]:
        return {"PGENGRAM_DATA_DIR": str(self.home), "PYTHONPATH": str(Path(pgengram.__file__).parents[1])}

    async def store(self, client: Client, key: str, text: str) -> str:  # noqa: ARG002 - it makes its own
        return str(json.loads(await outcome(client, "create_memory", content=text))["memory_id"])

    async def ask(self, client: Client, question: str) -> list[str]:
        answer = json.loads(await outcome(client, "search_memories", query=question, limit=MORE, detail=True))
        return [hit["content"] for hit in answer["results"]]

    async def read(self, client: Client, handles: list[str]) -> list[str]:
        found = []
        for handle in handles:
            answer = await client.call_tool("get_memories", {"ids": [handle]})
            found += [one["content"] for one in said(answer)["memories"]]
        return found


class ServerMemory(Server):
    """The official server: an entity for each memory. It looks for a text letter by letter, so each long word is asked for by
    itself, as a model would, and what more of the words found comes first."""

    name = "server-memory"
    package = "@modelcontextprotocol/server-memory"

    def install(self) -> str:
        if not self.place.exists():
            run("npm", "install", "--silent", "--prefix", self.place, self.package)
        return str(json.loads((self.folder / "package.json").read_text())["version"])

    @property
    def folder(self) -> Path:
        return self.place / "node_modules" / self.package

    def command(self) -> list[str | Path]:
        return ["node", self.folder / "dist" / "index.js"]

    def variables(self) -> dict[str, str]:
        return {"MEMORY_FILE_PATH": str(self.home / "memory.jsonl")}

    async def store(self, client: Client, key: str, text: str) -> str:
        await outcome(
            client, "create_entities", entities=[{"name": key, "entityType": "memory", "observations": [text]}]
        )
        return key

    async def ask(self, client: Client, question: str) -> list[str]:
        hits: Counter[str] = Counter()
        for word in re.findall(rf"\w{{{LONG_WORD},}}", question):
            graph = json.loads(await outcome(client, "search_nodes", query=word))
            hits.update(text for entity in graph["entities"] for text in entity["observations"])
        return [text for text, _ in hits.most_common()]

    async def read(self, client: Client, handles: list[str]) -> list[str]:
        graph = json.loads(await outcome(client, "open_nodes", names=handles))
        return [text for entity in graph["entities"] for text in entity["observations"]]


class McpMemoryService(Server):
    """With the extra that embeds on the machine. Its check for what means the same is off, as for one conversation: no memory of
    the material is to be refused."""

    name = "mcp-memory-service"
    package = "mcp-memory-service[sqlite]"
    python = "3.10"

    def command(self) -> list[str | Path]:
        return [self.place / "bin" / "memory", "server"]

    def lend(self) -> dict[str, str]:
        folder = self.home / ".cache" / "mcp_memory" / "onnx_models" / "all-MiniLM-L6-v2" / "onnx"
        folder.mkdir(parents=True, exist_ok=True)
        lend_model(folder)
        return {"HF_HUB_OFFLINE": "1"}

    async def store(self, client: Client, key: str, text: str) -> str:
        await outcome(client, "memory_store", content=text, conversation_id="compare")
        return key

    async def ask(self, client: Client, question: str) -> list[str]:
        answer = await outcome(client, "memory_search", query=question, limit=MORE)
        return re.findall(r"^\d+\. (.*?)\n   Hash: ", answer, re.MULTILINE | re.DOTALL)

    async def read(self, client: Client, handles: list[str]) -> list[str]:  # noqa: ARG002 - it lists all
        found: list[str] = []
        for page in count(1):
            listed = json.loads(await outcome(client, "memory_list", page=page, page_size=100))
            found += [memory["content"] for memory in listed["memories"]]
            if not listed["has_more"]:
                break
        return found


class BasicMemory(Server):
    """A note for each memory, titled by its key. The empty line between a note's head and its text is the file's, not the text's."""

    name = "basic-memory"
    package = "basic-memory"
    python = "3.12"

    def command(self) -> list[str | Path]:
        return [self.place / "bin" / "basic-memory", "mcp"]

    def lend(self) -> dict[str, str]:
        cached = self.home / ".basic-memory" / "fastembed_cache" / "models--Qdrant--all-MiniLM-L6-v2-onnx"
        folder = cached / "snapshots" / "lent"
        folder.mkdir(parents=True, exist_ok=True)
        (cached / "refs").mkdir(exist_ok=True)
        (cached / "refs" / "main").write_text("lent")
        lend_model(folder)
        (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": WINDOW, "pad_token": "[PAD]"}))
        (folder / "special_tokens_map.json").write_text('{"pad_token": "[PAD]"}')
        return {
            "HF_HUB_OFFLINE": "1",
            "BASIC_MEMORY_SEMANTIC_EMBEDDING_MODEL": "sentence-transformers/all-MiniLM-L6-v2",
            "BASIC_MEMORY_SEMANTIC_MIN_SIMILARITY": "0.0",  # the default suits its own model, whose cosines are larger
        }

    async def store(self, client: Client, key: str, text: str) -> str:
        title = key.replace(":", "-")  # it becomes the name of a file
        self.texts[title] = text
        await outcome(client, "write_note", title=title, content=text, directory="memories")
        return title

    async def ask(self, client: Client, question: str) -> list[str]:
        found = json.loads(await outcome(client, "search_notes", query=question, page_size=MORE, output_format="json"))
        return [self.texts.get(hit["title"], "") for hit in found["results"]]

    async def read(self, client: Client, handles: list[str]) -> list[str]:
        notes = [
            said(await client.call_tool("read_note", {"identifier": one, "output_format": "json"})) for one in handles
        ]
        return [note["content"].removeprefix("\n") for note in notes if note.get("content")]


SERVERS = {kind.name: kind for kind in (Pgengram, ServerMemory, McpMemoryService, BasicMemory)}


def lend_model(folder: Path) -> None:
    """Copy our model into a folder, its tokenizer made to cut off what the model cannot read, as the published one does."""
    for name in ("model.onnx", "config.json"):
        shutil.copy(MODEL / name, folder)
    tokenizer = json.loads((MODEL / "tokenizer.json").read_text(encoding="utf-8"))
    cut = {"direction": "Right", "max_length": WINDOW, "strategy": "LongestFirst", "stride": 0}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer | {"truncation": cut}), encoding="utf-8")


def said(answer: Any) -> dict[str, Any]:
    """Return what a tool answered, also where it says that nothing is there."""
    return dict(json.loads(answer.content[0].text))


def python_for(least: str) -> str:
    """Return a Python of at least this version whose SQLite may load extensions."""
    recent = f"import sys; raise SystemExit(sys.version_info < ({least.replace('.', ', ')}))"
    for name in (sys.executable, "python3", "/usr/bin/python3", *(f"python3.{minor}" for minor in range(14, 9, -1))):
        path = shutil.which(name)
        if path and all(
            subprocess.run([path, "-c", code], capture_output=True, check=False).returncode == 0
            for code in (recent, EXTENSIONS)
        ):
            return path
    raise SystemExit(f"No Python of {least} or newer was found whose SQLite may load extensions; put one on the PATH.")


# -- what processes cost -----------------------------------------------------------------------------------------------


def processes(home: Path) -> Iterator[Path]:
    """Yield the /proc folders of the processes that work in a home: a server, what it started, and a database it brought along."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            inside = (folder / "cwd").readlink().is_relative_to(home)
        except OSError:  # it ended meanwhile, or is not ours
            continue
        if inside:
            yield folder


def read_of(folder: Path, name: str) -> str:
    """Return a file of a process, empty where it ended meanwhile."""
    try:
        return (folder / name).read_text()
    except OSError:
        return ""


def cpu_s(home: Path) -> float:
    """Return the processor time that they and their ended children used, in seconds."""
    fields = [read_of(folder, "stat").rpartition(")")[2].split() for folder in processes(home)]
    return sum(int(value) for one in fields for value in one[11:15]) * TICK_S


def memory_mb(home: Path) -> float:
    """Return what they hold in memory, pages that several share counted once."""
    shares = [re.search(r"^Pss:\s+(\d+) kB", read_of(one, "smaps_rollup"), re.MULTILINE) for one in processes(home)]
    return sum(int(share[1]) for share in shares if share) * 1024 / 1e6


def disk_mb(home: Path) -> float:
    """Return what a home takes on the disk, without lent or fetched models."""
    files = [path for path in home.rglob("*") if not {".cache", "fastembed_cache"} & set(path.parts)]
    return sum(path.lstat().st_blocks * 512 for path in files) / 1e6


def kill(home: Path) -> None:
    """End every process of a home without warning: the server, and the database that it brought along."""
    while found := [int(folder.name) for folder in processes(home)]:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # ended with the one before it
        time.sleep(0.05)


# -- what is measured --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Material:
    """Texts by key, and questions with the keys that answer them."""

    texts: dict[str, str]
    questions: list[tuple[str, set[str]]]


def demo() -> Material:
    corpus = load()
    return Material(
        {memory.key: memory.content for memory in corpus.memories},
        [(question.question, {question.expects}) for question in corpus.questions],
    )


def conversations(file: Path, most: int) -> list[Material]:
    """Return the first conversations of a LoCoMo file: speaker and date in each text, questions of categories 1 to 4."""
    from locomo import ADVERSARIAL, evidence, turns  # only for who has the file

    found = []
    for one in json.loads(file.read_text(encoding="utf-8"))[:most]:
        texts = {turn.id: turn.memory["content"] for turn in turns(one, plain=True)}
        asked = [(q["question"], evidence(q, set(texts))) for q in one["qa"] if q["category"] != ADVERSARIAL]
        found.append(Material(texts, [(question, its) for question, its in asked if its]))
    return found


def found_share(material: Material, answers: list[list[str]], most: int) -> int:
    """Return how many questions have a text that answers them among the first `most`."""
    wanted = [{material.texts[key] for key in keys} for _, keys in material.questions]
    return sum(bool(its & set(answer[:most])) for its, answer in zip(wanted, answers, strict=True))


async def settled(home: Path) -> None:
    """Wait until a server uses next to no processor time any more."""
    for _ in range(PATIENCE_S // SETTLE_S):
        before = cpu_s(home)
        await asyncio.sleep(SETTLE_S)
        if cpu_s(home) - before < SETTLE_S / 100:
            return


async def timed(calls: list[Any], home: Path) -> tuple[list[Any], float, float]:
    """Await calls one after the other; return the answers, the median in ms, and the processor time of one, what follows included."""
    answers, took, before = [], [], cpu_s(home)
    for call in calls:
        begun = time.perf_counter()
        answers.append(await call)
        took.append((time.perf_counter() - begun) * 1e3)
    await settled(home)
    return answers, median(took), (cpu_s(home) - before) / len(calls) * 1e3


async def filled(server: Server, client: Client, material: Material) -> dict[str, Any]:
    """Store the material, ask for it, and return what was found and what it took."""
    stores = [server.store(client, key, text) for key, text in material.texts.items()]
    _, store_ms, store_cpu_ms = await timed(stores, server.home)
    questions = [server.ask(client, question) for question, _ in material.questions]
    answers, ask_ms, ask_cpu_ms = await timed(questions, server.home)
    return {
        f"in the first {FIRST}": found_share(material, answers, FIRST),
        f"in the first {MORE}": found_share(material, answers, MORE),
        "questions": len(answers),
        "memories": len(material.texts),
        "ms to store one": round(store_ms, 1),
        "ms to ask": round(ask_ms, 1),
        "CPU ms to store one": round(store_cpu_ms, 1),
        "CPU ms to ask": round(ask_cpu_ms, 1),
    }


async def first_answer_s(server: Server) -> float:
    """Return the time from starting the process to the answer to a first question."""
    begun = time.perf_counter()
    async with server.started() as client:
        await server.ask(client, load().questions[0].question)
        return time.perf_counter() - begun


async def unchanged(server: Server, client: Client) -> int:
    """Return how many awkward texts are read again exactly as they were stored."""
    handles = [await server.store(client, f"awkward-{number}", text) for number, text in enumerate(AWKWARD)]
    return len(set(AWKWARD) & set(await server.read(client, handles)))


def note(number: int) -> str:
    return f"Note {number}: on day {number * 7 % 365} someone counted {number * 13 % 1000} of them."


async def store_on(server: Server, ledger: Path, start: int) -> None:
    """Store notes until killed; each that was acknowledged goes into the ledger first."""
    async with server.started() as client:
        with ledger.open("a", encoding="utf-8") as written:
            for number in count(start):
                handle = await server.store(client, f"note-{number}", note(number))
                written.write(json.dumps([number, handle]) + "\n")
                written.flush()


def store_until_killed(name: str, environments: Path, home: Path, lent: bool, ledger: Path, start: int) -> None:
    with (home.parent / "log").open("a") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())  # it tells that its server was killed
    asyncio.run(store_on(SERVERS[name](environments, home, lent=lent), ledger, start))


async def lost(server: Server, ledger: Path) -> tuple[int, int]:
    """Kill the server while it stores, a few times; return how many were acknowledged, and how many of those are gone."""
    chance = random.Random(7)
    for turn in range(KILLS):
        given = (server.name, server.environments, server.home, bool(server.lent), ledger, turn * 100_000)
        storing = multiprocessing.get_context("spawn").Process(target=store_until_killed, args=given)
        before = len(entries(ledger))
        storing.start()
        while len(entries(ledger)) < before + BEFORE_A_KILL:
            if not storing.is_alive():
                raise SystemExit(f"{server.name} did not store again after it was killed.")
            await asyncio.sleep(0.01)
        await asyncio.sleep(chance.random())
        kill(server.home)
        storing.kill()
        storing.join()
    acknowledged = entries(ledger)
    async with server.started() as client:
        there = set(await server.read(client, [handle for _, handle in acknowledged]))
    return len(acknowledged), sum(note(number) not in there for number, _ in acknowledged)


def entries(ledger: Path) -> list[tuple[int, str]]:
    """Return the numbers and handles that were acknowledged; a line that the kill cut off is none."""
    lines = ledger.read_text(encoding="utf-8").splitlines(keepends=True) if ledger.exists() else []
    return [tuple(json.loads(line)) for line in lines if line.endswith("\n")]


async def together(server: Server, material: Material) -> dict[str, Any]:
    """Have several clients, each with a process of its own, use one store; return what a few take of memory, and how fast many are."""
    took: list[float] = []

    async def use(client: Client, number: int) -> None:
        for place in range(CALLS_EACH):
            key = number * CALLS_EACH + place
            question, _ = material.questions[key % len(material.questions)]
            for call in (server.store(client, f"note-{key}", note(key)), server.ask(client, question)):
                begun = time.perf_counter()
                await call
                took.append((time.perf_counter() - begun) * 1e3)

    async with AsyncExitStack() as clients:
        there: list[Client] = []
        while len(there) < CLIENTS:
            there.append(await clients.enter_async_context(server.started()))
            await server.store(there[-1], f"guest-{len(there)}", f"Guest {len(there)} has arrived.")
            await server.ask(there[-1], material.questions[0][0])
            if len(there) == FEW_CLIENTS:
                few_mb = memory_mb(server.home)
        begun = time.perf_counter()
        await asyncio.gather(*(use(client, number) for number, client in enumerate(there)))
        seconds = time.perf_counter() - begun
    return {
        f"MB of memory, {FEW_CLIENTS} clients": round(few_mb, 1),
        f"calls a second, {CLIENTS} clients": round(len(took) / seconds),
        "ms of a call of theirs, 95 %": round(quantiles(took, n=20)[-1], 1),
    }


async def among(server: Server, material: Material, memories: int) -> dict[str, Any]:
    """Fill a server until it has so many memories, and return how long it takes to ask it then."""
    async with server.started() as client:
        for number in range(len(material.texts), memories):
            await server.store(client, f"more-{number}", f"{note(number)} That was in room {number}.")
        await settled(server.home)
        _, ask_ms, _ = await timed([server.ask(client, question) for question, _ in material.questions], server.home)
    return {f"ms to ask among {memories:,}": round(ask_ms, 1)}


async def compared(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Put one server through everything, or through the conversations, and return what came of it in each run."""
    given.environments.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"server": name, "version": SERVERS[name](given.environments, Path()).install()}
    runs = [await measured(name, given) for _ in range(given.runs)]
    return result | {measure: [one[measure] for one in runs] for measure in runs[0]}


async def measured(name: str, given: argparse.Namespace) -> dict[str, Any]:
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="pgengram-compare-", ignore_cleanup_errors=True) as folder:
        for number, material in enumerate(conversations(given.locomo, given.conversations) if given.locomo else []):
            server = empty(name, given, Path(folder) / f"talk-{number}")
            async with server.started() as client:
                found = await filled(server, client, material)
            result |= {f"conversation {number + 1}, {measure}": value for measure, value in found.items()}
        if given.locomo:
            return result
        server = empty(name, given, Path(folder) / "demo")
        result["s to the first answer, nothing stored"] = round(await first_answer_s(server), 2)
        async with server.started() as client:
            result |= await filled(server, client, demo())
            result["MB of memory"] = round(memory_mb(server.home), 1)
            result["MB on disk"] = round(disk_mb(server.home), 2)
        starts = [await first_answer_s(server) for _ in range(STARTS)]
        result["s to the first answer"] = round(median(starts), 2)
        for memories in given.larger:
            result |= await among(server, demo(), memories)
        result |= await together(server, demo())
        async with server.started() as client:
            result["awkward texts unchanged"] = f"{await unchanged(server, client)} of {len(AWKWARD)}"
        acknowledged, gone = await lost(server, Path(folder) / "ledger")
        result[f"lost in {KILLS} kills"] = f"{gone} of {acknowledged}"
    return result


def empty(name: str, given: argparse.Namespace, home: Path) -> Server:
    home.mkdir()
    return SERVERS[name](given.environments, home.resolve(), lent=given.lend_model)


def spread(values: list[Any]) -> str:
    """Return the median of several runs with the least and the most; what is no number, or always the same, as it is."""
    if len(set(values)) == 1:
        return str(values[0])
    if isinstance(values[0], str):
        return ", ".join(values)
    return f"{median(values):g} ({min(values):g} to {max(values):g})"


def print_results(results: list[dict[str, Any]]) -> None:
    """Print a column for each server."""
    table = Table("", *(f"{one['server']} {one['version']}" for one in results))
    for measure in list(results[0])[2:]:
        table.add_row(measure, *(spread(one[measure]) for one in results))
    Console(width=max(Console().width, 130)).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--lend-model", action="store_true", help="give them pgengram's copy of the model")
    parser.add_argument("--locomo", type=Path, help="LoCoMo's JSON: measure with it instead")
    parser.add_argument("--conversations", type=int, default=1, help="how many of that file")
    kept = Path(tempfile.gettempdir()) / "pgengram-compare"
    parser.add_argument("--environments", type=Path, default=kept, help=f"where they are installed, and kept ({kept})")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument(
        "--larger", type=int, nargs="*", default=[], help="ask again with so many memories, in rising order"
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = [asyncio.run(compared(name, given)) for name in given.only]
    print_results(results)
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
