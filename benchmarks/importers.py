"""Prove the importers on real stores: python benchmarks/importers.py [RIVAL…] [--memories N] [--history MB] [--json PATH].

With --history only a history is measured: a ChatGPT export of so many megabytes is made, its import is killed in the midst and
repeated, and the table shows the rate, what reading the file alone takes, the most memory, whether every message is
there once, and whether every record is accounted for: added, there already, or left out.

Installs the npm server-memory and claude-mem, mcp-memory-service, basic-memory, mem0 and Letta into a temporary folder, fills each through
its own MCP tools or library, brings its store into an empty pgengram with the command, and compares counts and texts with what the rival
itself tells. Needs node, npm, the two package registries, a Python whose SQLite may load extensions (mcp-memory-service wants
that) and one from 3.12 on (basic-memory).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from mcp import Client, StdioServerParameters

from pgengram.demo import load_corpus
from pgengram.transfer.opening import Opened

EXTENSIONS = "import sqlite3; raise SystemExit(not hasattr(sqlite3.Connection, 'enable_load_extension'))"
FROM_3_12 = "import sys; raise SystemExit(sys.version_info < (3, 12))"
PYTHONS = (
    sys.executable,
    "python3",
    "python3.12",
    "python3.13",
    "python3.14",
    "/usr/bin/python3",
    "/opt/homebrew/bin/python3",
)


@dataclass(frozen=True)
class Compared:
    """What a rival had, and what arrived."""

    rival: str
    memories: int
    arrived: int
    texts_missing: int
    edges: int
    edges_arrived: int
    again_added: int

    @property
    def complete(self) -> bool:
        return (self.memories, self.edges, 0, 0) == (
            self.arrived,
            self.edges_arrived,
            self.texts_missing,
            self.again_added,
        )


def run(*command: str | Path, given: str = "", **variables: str) -> str:
    """Run a command that must succeed, and return what it printed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PGENGRAM_")}
    done = subprocess.run(
        [str(part) for part in command],
        env=inherited | variables,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


async def outcome(client: Client, tool: str, **arguments: Any) -> str:
    """Call a rival's tool and return the text of its answer."""
    answer = await client.call_tool(tool, arguments)
    text = "\n".join(getattr(block, "text", "") for block in answer.content)
    if answer.is_error:
        raise SystemExit(f"{tool} failed: {text[:500]}")
    return text


def texts(count: int) -> list[str]:
    return [memory.content for memory in load_corpus().memories[:count]]


# -- npm: @modelcontextprotocol/server-memory --------------------------------------------------------------------------


async def mcp_memory(folder: Path, count: int) -> Compared:
    """A knowledge graph: every fifth text begins an entity, the others are its observations."""
    run("npm", "install", "--silent", "--prefix", folder, "@modelcontextprotocol/server-memory")
    file = folder / "memory.jsonl"
    server = folder / "node_modules" / "@modelcontextprotocol" / "server-memory" / "dist" / "index.js"
    groups = [texts(count)[start : start + 5] for start in range(0, count, 5)]
    names = [f"Topic {number}" for number in range(len(groups))]
    async with Client(
        StdioServerParameters(command="node", args=[str(server)], env={**os.environ, "MEMORY_FILE_PATH": str(file)})
    ) as client:
        entities = [
            {"name": name, "entityType": "project", "observations": group[:1]} for name, group in zip(names, groups, strict=True)
        ]  # fmt: skip
        await outcome(client, "create_entities", entities=entities)
        added = [
            {"entityName": name, "contents": group[1:]} for name, group in zip(names, groups, strict=True) if group[1:]
        ]
        await outcome(client, "add_observations", observations=added)
        relations = [{"from": one, "to": other, "relationType": "leads to"} for one, other in pairwise(names)]
        await outcome(client, "create_relations", relations=relations)
        graph = json.loads(await outcome(client, "read_graph"))
    observations = [text for entity in graph["entities"] for text in entity["observations"]]
    return compared(
        "mcp-memory", folder, file,
        memories=len(graph["entities"]) + len(observations), wanted=observations,
        edges=len(graph["relations"]) + len(observations),  # each observation leads to its entity
    )  # fmt: skip


# -- PyPI: mcp-memory-service ------------------------------------------------------------------------------------------


def python_that(can: str) -> str:
    """Return a Python that runs this without an error."""
    for name in PYTHONS:
        path = shutil.which(name)
        if path and subprocess.run([path, "-c", can], capture_output=True, check=False).returncode == 0:
            return path
    raise SystemExit(f"No Python was found for: {can}")


def installed(folder: Path, python: str, *packages: str) -> Path:
    """Install packages into an environment of its own, and return the folder of its programs."""
    run(python, "-m", "venv", "--without-pip", folder / "venv")
    run(sys.executable, "-m", "pip", "--python", folder / "venv" / "bin" / "python", "install", "--quiet", *packages)
    return folder / "venv" / "bin"


async def mcp_memory_service(folder: Path, count: int) -> Compared:
    """Memories with tags and types, one of them deleted again."""
    programs = installed(folder, python_that(EXTENSIONS), "mcp-memory-service")
    file = folder / "sqlite_vec.db"
    variables = {
        "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
        "MCP_MEMORY_SQLITE_PATH": str(file),
        "MCP_MEMORY_BASE_DIR": str(folder / "base"),
        "HF_HUB_OFFLINE": "1",
    }
    server = StdioServerParameters(command=str(programs / "memory"), args=["server"], env={**os.environ, **variables})
    wanted = texts(count)
    async with Client(server) as client:
        for number, text in enumerate(wanted):
            told_of = {"tags": f"batch, number-{number}", "type": ("note", "decision", "observation")[number % 3]}
            await outcome(client, "memory_store", content=text, metadata=told_of)
        listed, page = [], 1
        while more := json.loads(await outcome(client, "memory_list", page=page, page_size=100)).get("memories"):
            listed += [memory["content"] for memory in more]
            page += 1
    return compared("mcp-memory-service", folder, file, memories=len(listed), wanted=listed, edges=0)


# -- PyPI: basic-memory ------------------------------------------------------------------------------------------------


async def basic_memory(folder: Path, count: int) -> Compared:
    """Notes with tags and a relation to the one before, written by its own tool."""
    programs = installed(folder, python_that(FROM_3_12), "basic-memory")
    notes = folder / "notes"
    notes.mkdir()
    variables = {"HOME": str(folder), "BASIC_MEMORY_HOME": str(notes), "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false"}
    server = StdioServerParameters(
        command=str(programs / "basic-memory"), args=["mcp"], env={**os.environ, **variables}
    )
    wanted = texts(count)
    async with Client(server) as client:
        for number, text in enumerate(wanted):
            before = f"\n\n- follows [[Note {number - 1}]]" if number else ""
            told = {"title": f"Note {number}", "content": f"{text}{before}", "directory": "batch", "tags": ["batch"]}
            await outcome(client, "write_note", **told)
    there = len(list(notes.rglob("*.md")))
    return compared("basic-memory", folder, notes, system="markdown", memories=there, wanted=wanted, edges=count - 1)


# -- PyPI: mem0 --------------------------------------------------------------------------------------------------------

MEM0 = """
import json, sys, zlib
from pathlib import Path
from mem0 import Memory

class Words:
    class config:
        embedding_dims = 64
    def embed(self, text, *_):
        vector = [0.0] * 64
        for word in text.lower().split():
            vector[zlib.crc32(word.encode()) % 64] += 1.0
        return vector
    def embed_batch(self, texts, *_):
        return [self.embed(text) for text in texts]

folder, key = Path(sys.argv[1]), {"api_key": "none"}
store = {"path": str(folder / "qdrant"), "embedding_model_dims": 64, "on_disk": True}
memory = Memory.from_config({"vector_store": {"provider": "qdrant", "config": store}, "history_db_path": str(folder / "history.db"),
    "llm": {"provider": "openai", "config": key}, "embedder": {"provider": "openai", "config": key}})
memory.embedding_model = Words()
texts = json.loads(sys.stdin.read())
made = [memory.add(text, user_id="ada", infer=False, metadata={"batch": "first"})["results"][0]["id"] for text in texts]
memory.update(made[0], texts[0] + " Changed.")
memory.delete(made[-1])
print(json.dumps(memory.get_all(filters={"user_id": "ada"}, top_k=10000)))
"""


async def mem0(folder: Path, count: int) -> Compared:
    """Memories added without a model, one changed and one deleted again; what `get_all` returns is the export."""
    programs = installed(folder, sys.executable, "mem0ai")
    given = json.dumps(texts(count + 1))
    file = folder / "mem0.json"
    file.write_text(run(programs / "python", "-c", MEM0, folder, given=given, HOME=str(folder), MEM0_TELEMETRY="False"))
    told = [memory["memory"] for memory in json.loads(file.read_text())["results"]]
    return compared("mem0", folder, file, memories=len(told), wanted=told, edges=0)


# -- npm: claude-mem -------------------------------------------------------------------------------------------------

CLAUDE_MEM = """
const [library, file] = process.argv.slice(2);
const { SessionStore } = require(library);
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
const store = new SessionStore(file);
store.ensureMemorySessionIdRegistered(store.createSDKSession("chat", "ark", texts[0]), "memory");
texts.forEach((text, number) => {
  store.saveUserPrompt("chat", number + 1, "Note this: " + text);
  const seen = { type: "decision", title: "Note " + number, subtitle: null, facts: ["fact " + number], narrative: text };
  store.storeObservation("memory", "ark", { ...seen, concepts: ["batch"], files_read: ["a.py"], files_modified: [] }, number + 1);
});
const all = (table, column) => store.db.prepare(`SELECT ${column} AS one FROM ${table}`).all().map((row) => row.one);
console.log(JSON.stringify({ observations: all("observations", "narrative"), prompts: all("user_prompts", "prompt_text") }));
"""


async def claude_mem(folder: Path, count: int) -> Compared:
    """Observations and prompts written by its own library, which runs in Bun; no model is asked."""
    run("npm", "install", "--silent", "--prefix", folder, "bun")
    packed = run("npm", "pack", "claude-mem", "--silent", "--pack-destination", folder).split()[-1]
    run("tar", "-xzf", folder / packed, "-C", folder)
    (folder / "fill.cjs").write_text(CLAUDE_MEM)
    library, file = folder / "package" / "plugin" / "sqlite" / "SessionStore.js", folder / "claude-mem.db"
    bun = folder / "node_modules" / ".bin" / "bun"
    told = json.loads(run(bun, folder / "fill.cjs", library, file, given=json.dumps(texts(count)), HOME=str(folder)))
    found = compared(
        "claude-mem", folder, file, memories=len(told["observations"]), wanted=told["observations"], edges=0
    )
    return replace(found, texts_missing=found.texts_missing + abs(turns_in(folder) - len(told["prompts"])))


# -- PyPI: letta -------------------------------------------------------------------------------------------------------

LETTA = """
import json, sys
from openai.types.chat.chat_completion_message_tool_call import ChatCompletionMessageToolCall, Function
from letta.schemas.agent_file import AgentFileSchema, AgentSchema, BlockSchema, MessageSchema
from letta.schemas.letta_message_content import TextContent
from letta.system import get_login_event, package_function_response, package_user_message

def said(role, text, **more):
    messages.append(MessageSchema(id=f"message-{len(messages)}", role=role, content=[TextContent(text=text)], **more))

texts, messages = json.loads(sys.stdin.read()), []
said("user", get_login_event("UTC"))
for number, text in enumerate(texts):
    told = Function(name="send_message", arguments=json.dumps({"message": f"Noted: {text}"}))
    said("user", package_user_message(text, "UTC"))
    said("assistant", "I think.", tool_calls=[ChatCompletionMessageToolCall(id=f"call-{number}", type="function", function=told)])
    said("tool", package_function_response(True, None, "UTC"), tool_call_id=f"call-{number}")
blocks = [BlockSchema(id=f"block-{number}", label=f"note-{number}", value=text) for number, text in enumerate(texts)]
agent = AgentSchema(id="agent-0", name="Noah", messages=messages, block_ids=[one.id for one in blocks])
rest = {"groups": [], "files": [], "sources": [], "tools": [], "mcp_servers": []}
print(AgentFileSchema(agents=[agent], blocks=blocks, **rest).model_dump_json())
"""
LETTA_NEEDS = (
    "letta==0.16.8",
    "asyncpg",
    "pgvector",
    "sqlite-vec",
    "psycopg2-binary",
    "pg8000",
)  # later ones are another program


async def letta(folder: Path, count: int) -> Compared:
    """An agent file with blocks and what was said, written by Letta's own schema; no model is asked."""
    programs = installed(folder, sys.executable, *LETTA_NEEDS)
    wanted, file = texts(count), folder / "agent.af"
    file.write_text(run(programs / "python", "-c", LETTA, given=json.dumps(wanted), HOME=str(folder)))
    found = compared("letta", folder, file, memories=count, wanted=wanted, edges=0)
    return replace(found, texts_missing=found.texts_missing + abs(turns_in(folder) - 2 * count))


# -- pgengram ----------------------------------------------------------------------------------------------------------


def compared(
    rival: str, folder: Path, file: Path, *, memories: int, wanted: list[str], edges: int, system: str = ""
) -> Compared:
    """Bring a rival's store into an empty one, recognised by itself and twice, and hold the export against what the rival
    told.
    """
    variables = {"PGENGRAM_DATA_DIR": str(folder / "pgengram")}
    command = (sys.executable, "-m", "pgengram")
    first = json.loads(run(*command, "import", file, "--json", **variables))
    again = json.loads(run(*command, "import", file, "--json", **variables))
    if first["from"] != (system or rival):
        raise SystemExit(f"{rival} is taken for {first['from']}.")
    records = [json.loads(line) for line in run(*command, "export", "-", **variables).splitlines()]
    arrived = [record["content"] for record in records if record["record"] == "memory"]
    return Compared(
        rival,
        memories,
        len(arrived),
        sum(not any(text in content for content in arrived) for text in wanted),
        edges,
        sum(record["record"] == "relationship" for record in records),
        sum(again["added"].values()),
    )


def turns_in(folder: Path) -> int:
    """Return how many turns of conversations there are."""
    variables = {"PGENGRAM_DATA_DIR": str(folder / "pgengram"), "PGENGRAM_EMBEDDER": "none:"}
    command = (sys.executable, "-m", "pgengram", "conversations", "list", "--json")
    return int(json.loads(run(*command, **variables))["turns"])


# -- a large history ---------------------------------------------------------------------------------------------------

TEXTS = [memory.content for memory in load_corpus().memories]  # texts of the demo


@dataclass(frozen=True)
class Measured:
    """What importing a large history took."""

    megabytes: float
    turns: int
    seconds: float
    most_mb: float
    killed_after: int
    stored: int
    again_s: float
    again_added: int
    left: int
    accounted: int
    reading_s: float

    @property
    def complete(self) -> bool:
        told = (self.stored, self.again_added, self.left, self.accounted)
        return told == (self.turns, 0, 1, self.turns + 1)


def write_history(path: Path, megabytes: int) -> int:
    """Write conversations.json of this size with one broken record near its end; return how many messages it has."""
    made = random.Random(7)
    count = number = broken = 0
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        while file.tell() < megabytes << 20:
            nodes, parent = {}, None
            for place in range(made.randint(4, 40)):
                name = f"m-{number}-{place}"
                text = " ".join(made.choices(TEXTS, k=made.randint(1, 16)))
                author = {"role": ("user", "assistant")[place % 2]}
                content = {"content_type": "text", "parts": [text]}
                message = {"id": name, "author": author, "create_time": 1.6e9 + number * 60 + place, "content": content}
                nodes[name] = {"id": name, "message": message, "parent": parent, "children": []}
                parent = name
            count += len(nodes)
            chat = {"title": f"Chat {number}", "create_time": 1.6e9 + number * 60, "mapping": nodes, "current_node": parent,
                    "conversation_id": f"c-{number}"}  # fmt: skip
            if not broken and file.tell() > 0.9 * (megabytes << 20):
                broken = file.write(', {"title": "A quote is missing, "mapping": {"m": [[')
            file.write(("," if number else "") + json.dumps(chat))
            number += 1
        file.write("]")
    return count


def imported(path: Path, variables: dict[str, str], *, kill_after_s: float | None = None) -> tuple[float, float, str]:
    """Import a file; return how many seconds it took, the most memory in MB, and what it printed."""
    command = [sys.executable, "-m", "pgengram", "import", str(path), "--json"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PGENGRAM_")}
    began, most = time.monotonic(), 0
    with tempfile.TemporaryFile("w+") as printed:
        with subprocess.Popen(command, env=inherited | variables, stdout=printed, stderr=subprocess.DEVNULL) as running:
            process = psutil.Process(running.pid)
            while running.poll() is None:
                with contextlib.suppress(psutil.Error):
                    most = max(most, process.memory_info().rss)
                if kill_after_s is not None and time.monotonic() - began > kill_after_s:
                    running.kill()
                time.sleep(0.05)
        printed.seek(0)
        return time.monotonic() - began, most / 1e6, printed.read()


def reading(path: Path) -> float:
    """Return how many seconds of processor it takes to read a file and to parse what is in it, which no import can do without."""
    began = time.process_time()
    opened = Opened("chatgpt", str(path), None, "", "")
    while opened.batch():
        pass
    return time.process_time() - began


def history(folder: Path, megabytes: int) -> Measured:
    """Import a large history, killed in the midst and repeated."""
    path = folder / "conversations.json"
    turns = write_history(path, megabytes)
    alone = reading(path)
    print(f"reading alone: {alone:,.0f} s of processor", flush=True)
    variables = {"PGENGRAM_DATA_DIR": str(folder / "pgengram"), "PGENGRAM_EMBEDDER": "none:"}
    run(sys.executable, "-m", "pgengram", "list", **variables)  # makes the store
    imported(path, variables, kill_after_s=max(8.0, megabytes / 20))
    seconds, most, printed = imported(path, variables)
    report = json.loads(printed)
    print(f"the rest: {seconds:,.0f} s, at most {most:.0f} MB of memory", flush=True)
    before = report["known"].get("turn", 0)
    again_s, _, printed = imported(path, variables)
    again = json.loads(printed)
    stored = turns_in(folder)
    return Measured(
        path.stat().st_size / 1e6,
        turns,
        seconds,
        most,
        before,
        stored,
        again_s,
        again["added"].get("turn", 0),
        len(again["left"]),
        sum(report["added"].values()) + before + sum(one["count"] for one in report["reasons"] + report["passed"]),
        alone,
    )


def print_history(one: Measured) -> None:
    rate = (one.turns - one.killed_after) / one.turns * one.megabytes / one.seconds
    print(
        f"{one.megabytes:,.0f} MB, {one.turns:,} messages; killed after {one.killed_after:,}, then the rest in {one.seconds:,.0f} s"
    )
    print(f"{rate:.1f} MB/s, at most {one.most_mb:.0f} MB of memory; once more, all known: {one.again_s:.0f} s")
    print(
        f"reading alone: {one.megabytes / one.reading_s:.1f} MB/s, {one.megabytes / one.reading_s / rate:.1f} times as fast"
    )
    print(
        f"{one.accounted:,} accounted for; {one.stored:,} stored, {one.again_added:,} added again, {one.left} broken record told"
    )
    print("complete" if one.complete else "NOT COMPLETE")


RIVALS = {
    "mcp-memory": mcp_memory,
    "mcp-memory-service": mcp_memory_service,
    "basic-memory": basic_memory,
    "mem0": mem0,
    "claude-mem": claude_mem,
    "letta": letta,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rivals", nargs="*", choices=[*RIVALS, []], metavar="RIVAL")
    parser.add_argument("--memories", type=int, default=50)
    parser.add_argument("--history", type=int, metavar="MB")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.history:
        with tempfile.TemporaryDirectory(prefix="pgengram-importers-", ignore_cleanup_errors=True) as folder:
            one = history(Path(folder), given.history)
        print_history(one)
        if given.json:
            given.json.write_text(json.dumps(asdict(one) | {"complete": one.complete}, indent=2) + "\n")
        raise SystemExit(not one.complete)
    results = []
    for rival in [RIVALS[name] for name in given.rivals or RIVALS]:
        with tempfile.TemporaryDirectory(prefix="pgengram-importers-", ignore_cleanup_errors=True) as folder:
            results.append(asyncio.run(rival(Path(folder), given.memories)))
    print(f"{'rival':<20}{'memories':>10}{'arrived':>10}{'missing':>10}{'edges':>8}{'arrived':>10}{'second':>8}")
    for one in results:
        counts = f"{one.memories:>10}{one.arrived:>10}{one.texts_missing:>10}{one.edges:>8}{one.edges_arrived:>10}{one.again_added:>8}"
        print(f"{one.rival:<20}{counts}  {'complete' if one.complete else 'NOT COMPLETE'}")
    if given.json:
        given.json.write_text(
            json.dumps([asdict(one) | {"complete": one.complete} for one in results], indent=2) + "\n"
        )
    if not all(one.complete for one in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
