"""Run other memory servers' own tests, examples and documents against our drop-in modes, over stdio.

    python benchmarks/drop_in.py FOLDER [--json PATH]

FOLDER holds checkouts of their repositories, which a developer fetches: agi-mcp-server (with its node_modules), Ownsona, crow,
claude-session-continuity-mcp and skynet (as of its first commit, which has the documents); one that is not there is left out. Nothing of theirs is changed but what carries a call: the agi tests call
our server where theirs called a database. Prints for each source how many checks there are, hold and fail, and what failed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any, Final

from mcp import Client, StdioServerParameters

DIMENSIONS: Final = 1_536  # of agi's vectors
UNKNOWN: Final = "00000000-0000-7000-8000-000000000000"


@dataclass
class Source:
    """What one source of checks came to."""

    system: str
    source: str
    hold: int = 0
    failed: list[str] = field(default_factory=list)

    def check(self, holds: bool, what: str) -> None:
        """Count one check."""
        self.hold += holds
        if not holds:
            self.failed.append(what)

    def named(self, names: set[str], there: set[str], where: str) -> None:
        """Count one check for each name that must be there."""
        for name in sorted(names):
            self.check(name in there, f"{where}: {name}")


# -- our server --------------------------------------------------------------------------------------------------------


class Ours:
    """A client of our server in one drop-in mode."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def says(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return its answer, an error's too."""
        answer = await self.client.call_tool(tool, arguments)
        return json.loads("".join(getattr(block, "text", "") for block in answer.content))

    async def accepts(self, tool: str, arguments: dict[str, Any]) -> bool:
        """Whether a call is no error."""
        return not (await self.client.call_tool(tool, arguments)).is_error

    async def arguments(self) -> dict[str, set[str]]:
        """Return the arguments of each tool."""
        listed = (await self.client.list_tools()).tools
        return {tool.name: {*tool.input_schema.get("properties", {})} for tool in listed}


def server(mode: str, folder: Path, **settings: str) -> StdioServerParameters:
    """Return how to start our server in a mode, with a store of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PGENGRAM_")}
    ours = {"PGENGRAM_COMPAT": mode, "PGENGRAM_DATA_DIR": str(folder)} | settings
    return StdioServerParameters(command=sys.executable, args=["-m", "pgengram"], env=inherited | ours)


def keys_in(value: Any) -> set[str]:
    """Return every key anywhere in an answer."""
    if isinstance(value, list):
        return {key for one in value for key in keys_in(one)}
    if not isinstance(value, dict):
        return set()
    return {*value} | {key for one in value.values() for key in keys_in(one)}


@contextmanager
def embeddings() -> Iterator[str]:
    """Serve the embeddings API with vectors of the length that agi's tests send, made from a hash of the text."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            found = [{"index": place, "embedding": vector(text)} for place, text in enumerate(texts)]
            body = json.dumps({"data": found, "model": "hashes"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=http.serve_forever, daemon=True).start()
    yield f"openai+http://127.0.0.1:{http.server_port}/v1#hashes"
    http.shutdown()


def vector(text: str) -> list[float]:
    """Return a vector that is the same for the same text."""
    chance = Random(hashlib.sha256(text.encode()).digest())
    return [chance.uniform(-1, 1) for _ in range(DIMENSIONS)]


# -- agi ---------------------------------------------------------------------------------------------------------------

# Stands where agi's MemoryManager is: each method calls the tool that its mcp.js makes of it.
CARRIER: Final = """
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const TOOLS = {
  createMemory: ['create_memory', 'type', 'content', 'embedding', 'importance', 'metadata'],
  searchMemoriesBySimilarity: ['search_memories_similarity', 'embedding', 'limit', 'threshold'],
  searchMemoriesByText: ['search_memories_text', 'query', 'limit'],
  searchMemoriesAdvanced: ['search_memories_advanced', 'criteria'],
  getMemoryById: ['get_memory', 'memory_id'], accessMemory: ['get_memory', 'memory_id'],
  getMemoryClusters: ['get_memory_clusters', 'limit'],
  createMemoryCluster: ['create_memory_cluster', 'name', 'cluster_type', 'description', 'keywords'],
  getClusterMemories: ['activate_cluster', 'cluster_id'],  // which its mcp.js reaches by that tool alone
  activateCluster: ['activate_cluster', 'cluster_id', 'context'],
  getClusterInsights: ['get_cluster_insights', 'cluster_id'],
  findSimilarClusters: ['find_similar_clusters', 'cluster_id', 'threshold'],
  getActiveThemes: ['get_active_themes', 'days'], getIdentityCore: ['get_identity_core'],
  getWorldviewPrimitives: ['get_worldview'], getMemoryHealth: ['get_memory_health'],
  createMemoryRelationship: ['create_memory_relationship', 'from_memory_id', 'to_memory_id', 'relationship_type', 'properties'],
  getMemoryRelationships: ['get_memory_relationships', 'memory_id', 'direction', 'relationship_type'],
  findRelatedMemories: ['find_related_memories', 'memory_id', 'max_depth', 'min_strength'],
  createWorkingMemory: ['create_working_memory', 'content', 'embedding', 'context'],
  getWorkingMemories: ['get_working_memories', 'include_expired'],
  cleanupExpiredWorkingMemory: ['cleanup_expired_working_memory'],
  consolidateWorkingMemory: ['consolidate_working_memory', 'working_memory_ids', 'consolidated_content', 'consolidated_embedding'],
  archiveOldMemories: ['archive_old_memories', 'days_old', 'importance_threshold'],
  pruneMemories: ['prune_memories', 'criteria'], getMemoryHistory: ['get_memory_history', 'memory_id'],
};

let client;
async function call(tool, args) {
  if (!client) {
    client = new Client({ name: 'drop-in', version: '1' });
    const { command, args: words, env } = JSON.parse(process.env.PGENGRAM_SERVER);
    await client.connect(new StdioClientTransport({ command, args: words, env }));
  }
  const answer = await client.callTool({ name: tool, arguments: args });
  const text = answer.content.map((block) => block.text).join('');
  if (answer.isError) throw new Error(text);
  return JSON.parse(text);
}

export class MemoryManager {
  constructor() { this.db = { execute: () => call('get_memory_health', {}), transaction: async () => null }; }
  async closeAllConnections() { await client?.close(); client = undefined; }
  async trackMemoryChange() { return null; }
}
for (const [method, [tool, ...names]] of Object.entries(TOOLS)) {
  MemoryManager.prototype[method] = (...given) => call(tool, Object.fromEntries(
    names.map((name, place) => [name, given[place]]).filter(([, value]) => value !== undefined && value !== null)));
}
"""
COUNTER: Final = """
import { afterEach, expect } from 'vitest';
import { appendFileSync } from 'node:fs';
afterEach((context) => {
  const state = expect.getState();
  const failed = context.task.result?.state === 'fail' || (context.task.result?.errors?.length ?? 0) > 0;
  appendFileSync(process.env.DROP_IN_COUNTS, JSON.stringify({ name: context.task.name, calls: state.assertionCalls, failed }) + '\\n');
});
"""


def agi_tests(checkout: Path, work: Path) -> Source:
    """Its vitest files, unchanged; only what they call is ours."""
    result = Source("agi", "its vitest files")
    copied = work / "agi"
    shutil.copytree(checkout, copied, symlinks=True)
    (copied / "src" / "memory-manager.js").write_text(CARRIER)
    (copied / "tests" / "counter.js").write_text(COUNTER)
    config = copied / "vitest.config.js"
    config.write_text(config.read_text().replace("'./tests/setup.js'", "'./tests/setup.js', './tests/counter.js'"))
    counts = work / "counts.jsonl"
    with embeddings() as embedder:
        ours = server("agi", work / "agi-store", PGENGRAM_EMBEDDER=embedder)
        told = {"command": ours.command, "args": ours.args, "env": ours.env}
        variables = {"PGENGRAM_SERVER": json.dumps(told), "DROP_IN_COUNTS": str(counts)}
        command = ["node", "node_modules/vitest/vitest.mjs", "run"]
        done = subprocess.run(
            command, cwd=copied, env=os.environ | variables, capture_output=True, text=True, check=False
        )
    if not counts.exists():
        raise SystemExit(f"agi's tests did not run:\n{done.stdout[-3000:]}\n{done.stderr[-1000:]}")
    for line in counts.read_text().splitlines():
        one = json.loads(line)
        result.hold += one["calls"] - one["failed"]
        if one["failed"]:
            result.failed.append(one["name"])
    return result


def columns(schema: str) -> dict[str, set[str]]:
    """Return the names that agi's tables and views have in its answers, without vectors."""
    found = {}
    for table in re.finditer(
        r"export const (\w+) = pg(?:Table|View)\(\"\w+\", \{(.*?)\n?\}(?:, \(table\)|\)\.as|\);)", schema, re.DOTALL
    ):
        names = set(re.findall(r"^\s*(\w+): ", table[2], re.MULTILINE)) | set(re.findall(r"^\s*\t(\w+): ", table[2]))
        found[table[1]] = {name for name in names if not name.lower().endswith("embedding")}
    return found


def selected(manager: str) -> dict[str, set[str]]:
    """Return the names that each method of agi's manager selects by itself."""
    found = {}
    for method in re.split(r"\n  async ", manager)[1:]:
        name = method.split("(", 1)[0]
        for block in re.findall(r"\.select\(\{(.*?)\}\)\s*\.from", method, re.DOTALL)[:1]:
            found[name] = set(re.findall(r"^ {10}(\w+): ", block, re.MULTILINE))
    return found


async def agi_rows(checkout: Path, work: Path) -> Source:
    """The names in the rows of its schema.js and memory-manager.js."""
    result = Source("agi", "rows of schema.js and the manager")
    tables = columns((checkout / "src" / "db" / "schema.js").read_text())
    lists = selected((checkout / "src" / "memory-manager.js").read_text())
    async with Client(server("agi", work / "agi-rows")) as client:
        ours = Ours(client)
        made = {}
        for type_ in ("episodic", "semantic", "procedural", "strategic"):
            row = made[type_] = await ours.says("create_memory", type=type_, content=f"A {type_} memory of bees.")
            result.named(tables["memories"], {*row}, f"create_memory {type_}")
            read = await ours.says("get_memory", memory_id=row["id"])
            result.named(tables["memories"], {*read}, f"get_memory {type_}")
            result.named(tables[f"{type_}Memories"], {*read["type_specific_data"]}, f"type_specific_data {type_}")
        one, other = made["episodic"]["id"], made["semantic"]["id"]
        ends = {"from_memory_id": one, "to_memory_id": other, "relationship_type": "causal"}
        linked = await ours.says("create_memory_relationship", **ends, properties={"strength": 0.9})
        result.named(tables["memoryRelationships"], {*linked}, "create_memory_relationship")
        [edge] = await ours.says("get_memory_relationships", memory_id=one)
        result.named(lists["getMemoryRelationships"], {*edge}, "get_memory_relationships")
        [near] = await ours.says("find_related_memories", memory_id=one)
        walked = {"memory_id", "relationship_type", "strength", "depth", "path", "content", "type", "importance"}
        result.named(walked, {*near}, "find_related_memories")
        result.named(
            tables["memoryChanges"], keys_in(await ours.says("get_memory_history", memory_id=one)), "get_memory_history"
        )
        for method, tool, arguments in (
            ("searchMemoriesBySimilarity", "search_memories_similarity", {"query": "bees", "threshold": 0}),
            ("searchMemoriesByText", "search_memories_text", {"query": "bees"}),
            ("searchMemoriesAdvanced", "search_memories_advanced", {"criteria": {"text_query": "bees"}}),
        ):
            hits = await ours.says(tool, **arguments)
            result.check(isinstance(hits, list) and bool(hits), f"{tool}: hits")
            result.named(lists[method], {*hits[0]}, tool)
        cluster = await ours.says("create_memory_cluster", name="Bees", cluster_type="theme", keywords=["honey"])
        result.named(tables["memoryClusters"], {*cluster}, "create_memory_cluster")
        listed = await ours.says("get_memory_clusters")
        result.named(lists["getMemoryClusters"], {*listed[0]}, "get_memory_clusters")
        result.check(
            isinstance(await ours.says("activate_cluster", cluster_id=cluster["id"]), list), "activate_cluster: list"
        )
        insights = await ours.says("get_cluster_insights", cluster_id=cluster["id"])
        result.named(lists["getClusterInsights"], {*insights}, "get_cluster_insights")
        result.named(tables["activeThemes"], keys_in(await ours.says("get_active_themes")), "get_active_themes")
        result.named(tables["memoryHealth"], keys_in(await ours.says("get_memory_health")), "get_memory_health")
        held = await ours.says("create_working_memory", content="Held for now.", context={"ttl": 60, "why": "to see"})
        result.named(tables["workingMemory"], {*held}, "create_working_memory")
        result.named(tables["workingMemory"], keys_in(await ours.says("get_working_memories")), "get_working_memories")
        for tool in ("get_memory", "get_memory_history", "get_memory_relationships", "find_related_memories"):
            for unknown in (UNKNOWN, "invalid-id"):
                told = await ours.says(tool, memory_id=unknown)
                result.check(told in (None, []), f"{tool} {unknown}: nothing")
    return result


# -- ownsona -----------------------------------------------------------------------------------------------------------


def ownsona_manual(text: str) -> dict[str, tuple[set[str], set[str]]]:
    """Return for each tool of the manual the names of its arguments and those in the example of its answer."""
    found = {}
    for section in re.split(r"\n@node The (?=\w+ tool)", text)[1:]:
        tool = section.split(" ", 1)[0]
        parts = re.split(r"\n@subsection ", section)
        inputs = next((part for part in parts if part.startswith("Inputs")), "")
        output = next((part for part in parts if part.startswith("Output")), "")
        found[tool] = (set(re.findall(r"^@item (\w+)$", inputs, re.MULTILINE)), set(re.findall(r'"(\w+)":', output)))
    return found


async def ownsona_documents(checkout: Path, work: Path) -> Source:
    """The arguments and answers of its manual."""
    result = Source("ownsona", "arguments and answers of the manual")
    manual = ownsona_manual((checkout / "user-manual" / "mcp-tools.texi").read_text())
    async with Client(server("ownsona", work / "ownsona")) as client:
        ours = Ours(client)
        arguments = await ours.arguments()
        answers = await _ownsona_answers(ours)
        for tool, (taken, told) in manual.items():
            result.named(taken - {"text_search"}, arguments.get(tool, set()), f"{tool} takes")
            result.named(told, keys_in(answers.get(tool)), f"{tool} tells")
        gone = answers["gone"]
        for tool in ("update_memory", "confirm"):
            change = {"text": "Other."} if tool == "update_memory" else {}
            error = await ours.says(tool, id=gone, **change)
            result.check(error.get("error", {}).get("code") == "NOT_FOUND", f"{tool} of a forgotten fact")
        for wrong in (
            {"min_chars": 5, "max_chars": 1},
            {"not_confirmed_since": "2999-01-01T00:00:00Z"},
            {"min_chars": -1},
        ):
            error = await ours.says("list_memories", **wrong)
            result.check(error.get("error", {}).get("code") == "INVALID_INPUT", f"list_memories refuses {wrong}")
    return result


async def _ownsona_answers(ours: Ours) -> dict[str, Any]:
    fact = {"tags": ["family"], "source_provider": "openai", "capture_mode": "explicit"}
    first = await ours.says("remember", text="The user's son Colby lives in the city of Los Angeles.", **fact)
    wrong = await ours.says("remember", text="The user's car is a green Volvo estate from 1998.")
    await ours.says("forget", id=wrong["memory_id"], reason="sold")
    corrected = await ours.says("remember", text="The user's car is a green Volvo estate from the year 1998.")
    near = await ours.says("remember", text="The user's son Colby is living in the city of Los Angeles.", **fact)
    id_ = first["memory_id"]
    item = {"id": id_, "tags": ["family"]}
    return {
        "gone": wrong["memory_id"],
        "remember": [first, near, corrected],
        "remember_batch": await ours.says("remember_batch", items=[{"text": "One."}, {"text": ""}]),
        "recall": await ours.says("recall", query="where does my son live"),
        "search_memory": await ours.says("search_memory", query="where does my son live"),
        "build_context_prompt": await ours.says("build_context_prompt", user_prompt="Where is Colby?"),
        "list_memories": await ours.says("list_memories", include_deleted=True),
        "update_memory": await ours.says("update_memory", id=id_, importance=0.7, tags=["family"]),
        "update_memory_batch": await ours.says("update_memory_batch", items=[item, {"id": 42, "tags": ["work"]}]),
        "confirm": await ours.says("confirm", id=id_),
        "forget": await ours.says("forget", id=corrected["memory_id"], dry_run=True),
        "forget_batch": await ours.says("forget_batch", ids=[corrected["memory_id"], 999_999], dry_run=True),
        "find_near_duplicates": await ours.says("find_near_duplicates", threshold=0.8),
        "text_search": await ours.says("text_search", text="colby"),
        "get_memory": await ours.says("get_memory", id=wrong["memory_id"]),
        "count_memories": await ours.says("count_memories"),
        "memory_stats": await ours.says("memory_stats"),
        "list_tags": await ours.says("list_tags", include_deleted=True),
        "export_memories": await ours.says("export_memories", include_deleted=True),
    }


# -- crow --------------------------------------------------------------------------------------------------------------


def crow_parameters(code: str) -> dict[str, set[str]]:
    """Return the parameters of each tool of its server.js."""
    found = {}
    pattern = r'server\.tool\(\s*"(\w+)",\s*(?:".*?"|\'.*?\'),\s*\{(\}|.*?\n    \}),'
    for tool in re.finditer(pattern, code, re.DOTALL):
        found[tool[1]] = set(re.findall(r"^ {6}(\w+): z", tool[2], re.MULTILINE))
    return found


def as_json(written: str) -> Any:
    """Read an object as JavaScript writes it; None where it is only sketched."""
    quoted = re.sub(r"(?m)^(\s*)(\w+):", r'\1"\2":', re.sub(r"\{\s*(\w+):", r'{ "\1":', written))
    try:
        return json.loads(re.sub(r",\s*\}", "}", quoted))
    except ValueError:
        return None


async def crow_documents(checkout: Path, work: Path) -> Source:
    """The parameters of its code, the calls in its skills, and the questions of its onboarding."""
    result = Source("crow", "server.js, skills, onboarding")
    parameters = crow_parameters((checkout / "servers" / "memory" / "server.js").read_text())
    async with Client(server("crow", work / "crow")) as client:
        ours = Ours(client)
        arguments = await ours.arguments()
        for tool, taken in parameters.items():
            if tool in arguments:
                result.named(taken, arguments[tool], f"{tool} takes")
        for page in sorted((checkout / "skills").glob("*.md")):
            for tool, written in re.findall(r"(crow_\w+)\((\{.*?\n?\})\)", page.read_text(), re.DOTALL):
                given = as_json(written)
                if tool in arguments and given is not None:
                    result.check(await ours.accepts(tool, given), f"{page.name}: {tool}")
        panels = checkout / "servers" / "gateway" / "dashboard" / "panels"
        starter = (panels / "onboarding" / "starter-content.js").read_text()
        for content, tags in re.findall(r'content:\s*"((?:[^"\\]|\\.)*)",.*?tags:\s*"(.*?)"', starter, re.DOTALL):
            await ours.says("crow_store_memory", content=json.loads(f'"{content}"'), tags=tags, source="starter")
        asked = (checkout / "tests" / "recall-or-fallback.test.js").read_text()
        chips = re.findall(r"const CHIPS_\w+ = \[(.*?)\]", asked, re.DOTALL)
        for question in re.findall(r'"(.*?)"', "".join(chips)):
            for tool, name in (("crow_recall_by_context", "context"), ("crow_search_memories", "query")):
                result.check((await ours.says(tool, **{name: question}))["count"] > 0, f"{tool}: {question}")
        nothing = await ours.says("crow_recall_by_context", context="zanzibar quokka flugelhorn")
        result.check("No relevant memories found" in json.dumps(nothing), "crow_recall_by_context of nonsense")
    return result


# -- session continuity ------------------------------------------------------------------------------------------------


async def session_documents(checkout: Path, work: Path) -> Source:
    """The arguments of its memory tools and the names in their answers."""
    result = Source("session-continuity", "memory.ts: arguments and answers")
    code = (checkout / "src" / "tools-v2" / "memory.ts").read_text()
    tools, *handlers = re.split(r"\nexport async function handle", code)
    async with Client(server("session-continuity", work / "session")) as client:
        ours = Ours(client)
        arguments = await ours.arguments()
        for tool in re.split(r"\n    name: '", tools)[1:]:
            name = tool.split("'", 1)[0]
            taken = set(re.findall(r"^ {8}(\w+): \{", tool, re.MULTILINE))
            result.named(taken, arguments[name], f"{name} takes")
        one = await ours.says("memory_store", content="We chose Vitest.", type="decision", project="web", tags=["js"])
        other = await ours.says("memory_store", content="The build failed.", type="error", metadata={"node": 18})
        answers = {
            "MemoryStore": one,
            "MemoryGet": await ours.says("memory_get", ids=[one["id"]]),
            "MemoryDelete": await ours.says("memory_delete", id=other["id"]),
        }
        for handler in handlers:
            name = handler.split("(", 1)[0]
            told = "".join(re.findall(r"JSON\.stringify\(\{(.*?)\}[,)]", handler, re.DOTALL))
            names = set(re.findall(r"^\s+(\w+)(?::|,|$)", told, re.MULTILINE))
            if name in answers:
                result.named(names, keys_in(answers[name]), f"{name} tells")
        compact = (await ours.says("memory_search", query="Vitest"))["memories"][0]
        result.named({"id", "summary", "type", "tags", "importance", "createdAt"}, {*compact}, "a compact hit")
        whole = (await ours.says("memory_search", query="We chose Vitest.", detail=True, semantic=True))["memories"][0]
        detailed = {"id", "content", "type", "tags", "project", "importance", "similarity", "createdAt"}
        result.named(detailed, {*whole}, "a hit in detail")
        gone = await ours.says("memory_get", ids=[other["id"]])
        result.check(gone["found"] == 0, "memory_get of what was deleted")
    return result


# -- skynet ------------------------------------------------------------------------------------------------------------


def skynet_manual(text: str) -> dict[str, tuple[set[str], set[str], list[Any]]]:
    """Return for each tool of docs/api/memory.md its arguments, the names in its answer, and the calls of its examples."""
    found = {}
    for section in re.split(r"\n## (?=memory_\w+\n)", text)[1:]:
        taken, told = section.split("**Parameters:**")[1].split("**Returns:**")[:2]
        answer = told.split("**Example:**")[0]
        names = set(re.findall(r"^\s*(\w+)\??: ", answer, re.MULTILINE))
        calls = [as_json(call) for call in re.findall(r"await \w+\((\{.*?\n\})\)", section, re.DOTALL)]
        found[section.split("\n")[0]] = (set(re.findall(r"^- `(\w+)`", taken, re.MULTILINE)), names, calls)
    return found


async def skynet_documents(checkout: Path, work: Path) -> Source:
    """The arguments, answers and examples of its documentation."""
    result = Source("skynet", "docs/api/memory.md")
    manual = skynet_manual((checkout / "docs" / "api" / "memory.md").read_text())
    async with Client(server("skynet", work / "skynet")) as client:
        ours = Ours(client)
        arguments = await ours.arguments()
        stored = []
        for tool, (taken, told, calls) in manual.items():
            result.named(taken, arguments.get(tool, set()), f"{tool} takes")
            for call in filter(None, calls):
                answer = await ours.says(tool, **call)
                empty = tool == "memory_search" and not answer.get("results")
                shown = {"results", "query", "count"} if empty else told - {"user", "emotion"}
                result.named(shown, keys_in(answer), f"{tool} {call.get('query', '')} tells")
                if tool == "memory_store":
                    stored.append(answer["id"])
                    kept = answer["metadata"].items() >= call["metadata"].items()
                    result.check(kept, f"memory_store keeps {call['metadata']}")
                for hit in answer.get("results", []):
                    wanted = call.get("filter", {})
                    fits = all(hit["metadata"].get(name) == wanted[name] for name in wanted if name != "minImportance")
                    enough = hit["metadata"]["importance"] >= wanted.get("minImportance", 0)
                    result.check(fits and enough and hit["id"] in stored, f"a hit of {call['query']}")
                distances = [hit["distance"] for hit in answer.get("results", [])]
                result.check(distances == sorted(distances), "nearest first")
    return result


# -- import, then go on with the old tools -----------------------------------------------------------------------------

TEXTS: Final = (
    "The ferry to Groix leaves at nine.", "Ada keeps bees behind the bakery.", "The invoice number 4711 is due in May.",
)  # fmt: skip
WHEN: Final = "2025-09-01T08:30:00Z"


def own_table(code: str) -> str:
    """Return the statement with which a system makes its table of memories."""
    return re.search(r"CREATE TABLE IF NOT EXISTS memories \(.*?\n\s*\);", code, re.DOTALL)[0]  # type: ignore[index]


def filled(path: Path, schema: str, rows: list[dict[str, Any]]) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(schema)
        for row in rows:
            marks = ", ".join(f":{name}" for name in row)
            connection.execute(f"INSERT INTO memories ({', '.join(row)}) VALUES ({marks})", row)
    return path


def stores(folder: Path, work: Path) -> dict[str, Path]:
    """Build the store of each system, with its own schema where it has one, and return where it is."""
    made = {}
    if (crow := folder / "crow" / "scripts" / "init-db.js").is_file():
        rows = [{"content": text, "category": "person", "tags": "bees,groix", "importance": 8} for text in TEXTS]
        made["crow"] = filled(work / "crow.db", own_table(crow.read_text()), rows)
    if (code := folder / "claude-session-continuity-mcp" / "src" / "db" / "database.ts").is_file():
        rows = [{"content": text, "memory_type": "learning", "tags": '["bees", "groix"]', "importance": 8, "project": "ark"}
                for text in TEXTS]  # fmt: skip
        made["session-continuity"] = filled(work / "sessions.db", own_table(code.read_text()), rows)
    if (folder / "skynet").is_dir():
        metadata = {
            "type": "fact",
            "user": "alice",
            "importance": 0.8,
            "tags": "bees,groix",
            "timestamp": 1756715400000,
        }
        dump = {"ids": list("123"), "documents": TEXTS, "metadatas": [metadata] * 3}
        (made.setdefault("skynet", work / "skynet.json")).write_text(json.dumps(dump))
    if (folder / "Ownsona").is_dir():
        facts = [{"id": place, "text": text, "tags": ["bees", "groix"], "importance": 0.8, "source_provider": "openai", "created_at": WHEN, "updated_at": WHEN}
                 for place, text in enumerate(TEXTS)]  # fmt: skip
        (made.setdefault("ownsona", work / "ownsona.json")).write_text(json.dumps({"memories": facts}))
    return made


GO_ON: Final = {  # how each searches, stores again, changes, lists or counts, and forgets
    "crow": (
        "crow_search_memories", "crow_store_memory", {"category": "person", "tags": "bees,groix", "importance": 8},
        ("crow_update_memory", {"importance": 3}), ("crow_memory_stats", "total"), "crow_delete_memory",
    ),
    "session-continuity": (
        "memory_search", "memory_store", {"type": "learning", "project": "ark", "importance": 8},
        None, ("memory_stats", "total"), "memory_delete",
    ),
    "skynet": ("memory_search", "memory_store", {"metadata": {"type": "fact", "user": "alice"}}, None, None, None),
    "ownsona": (
        "recall", "remember", {"tags": ["bees"]}, ("update_memory", {"importance": 0.3}), ("count_memories", "count"), "forget",
    ),
}  # fmt: skip


async def go_on(folder: Path, work: Path) -> Source:
    """Import each system's store, then use its old tools on what was imported."""
    result = Source("several", "import, then go on with the old tools")
    for system, path in stores(folder, work).items():
        ours = server(system, work / f"{system}-went-on")
        command = [ours.command, "-m", "pgengram", "import", str(path), "--json"]
        env = {name: value for name, value in (ours.env or {}).items() if name != "PGENGRAM_COMPAT"}
        done = await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, text=True, check=False)
        if not done.stdout:
            raise SystemExit(f"{system} was not imported:\n{done.stderr[-2000:]}")
        report = json.loads(done.stdout)
        result.check(report["from"] == system, f"{system}: recognised")
        result.check(report["added"].get("memory") == len(TEXTS) and not report["left"], f"{system}: all imported")
        async with Client(ours) as client:
            await _old_tools(result, system, Ours(client))
    return result


async def _old_tools(result: Source, system: str, ours: Ours) -> None:
    search, store, more, change, count, forget = GO_ON[system]
    found = json.dumps(await ours.says(search, query="When does the ferry to Groix leave?"))
    result.check(TEXTS[0] in found, f"{system}: {search} finds it")
    result.check("bees" in found and "groix" in found, f"{system}: with its tags")
    result.check('"importance": 8' in found or '"importance": 0.8' in found, f"{system}: with its importance")
    again = await ours.says(store, **{"text" if system == "ownsona" else "content": TEXTS[0]}, **more)
    id_ = next((again[name] for name in ("id", "memory_id") if name in again), None)
    result.check(id_ is not None and str(id_) in found, f"{system}: told again it is the same memory")
    if change:
        result.check("error" not in await ours.says(change[0], id=id_, **change[1]), f"{system}: {change[0]}")
    if count:
        told = await ours.says(count[0])
        result.check(len(TEXTS) in _numbers(told), f"{system}: {count[0]} counts {len(TEXTS)}")
    if forget:
        gone = await ours.says(forget, id=id_)
        if "confirm_token" in gone:
            await ours.says(forget, id=id_, confirm_token=gone["confirm_token"])
        left = json.dumps(await ours.says(search, query="When does the ferry to Groix leave?"))
        result.check(TEXTS[0] not in left, f"{system}: {forget}")


def _numbers(value: Any) -> set[Any]:
    """Return every number anywhere in an answer."""
    if isinstance(value, dict):
        return {number for one in value.values() for number in _numbers(one)}
    if isinstance(value, list):
        return {number for one in value for number in _numbers(one)}
    return {value} if isinstance(value, int) and not isinstance(value, bool) else set()


# -- all of them -------------------------------------------------------------------------------------------------------


async def results(folder: Path, work: Path) -> list[Source]:
    """Return what each source that is there came to."""
    found = []
    if (agi := folder / "agi-mcp-server").is_dir():
        found += [await asyncio.to_thread(agi_tests, agi, work), await agi_rows(agi, work)]
    for name, checks in (
        ("Ownsona", ownsona_documents), ("crow", crow_documents), ("claude-session-continuity-mcp", session_documents),
        ("skynet", skynet_documents),
    ):  # fmt: skip
        if (folder / name).is_dir():
            found.append(await checks(folder / name, work))
    return [*found, await go_on(folder, work)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgengram-drop-in-", ignore_cleanup_errors=True) as work:
        found = asyncio.run(results(given.folder, Path(work)))
    print(f"{'system':<20}{'source':<40}{'checks':>8}{'hold':>8}{'fail':>8}{'share':>8}")
    for one in found:
        checks = one.hold + len(one.failed)
        print(f"{one.system:<20}{one.source:<40}{checks:>8}{one.hold:>8}{len(one.failed):>8}{one.hold / checks:>8.1%}")
    for one in found:
        for failed in one.failed:
            print(f"  {one.system}: {failed}")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n")


if __name__ == "__main__":
    main()
