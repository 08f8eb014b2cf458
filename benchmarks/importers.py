"""Prove the importers on real stores: python benchmarks/importers.py [--memories N] [--json PATH].

Installs the npm server-memory and mcp-memory-service into a temporary folder, fills each through its own MCP tools, brings its
store into an empty pgengram with the command, and compares counts and texts with what the rival itself tells. Needs node, npm,
the two package registries, and a Python whose SQLite may load extensions (mcp-memory-service wants that).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from pgengram.demo import load

EXTENSIONS = "import sqlite3; raise SystemExit(not hasattr(sqlite3.Connection, 'enable_load_extension'))"


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


def run(*command: str | Path, **variables: str) -> str:
    """Run a command that must succeed, and return what it printed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PGENGRAM_")}
    done = subprocess.run(
        [str(part) for part in command], env=inherited | variables, capture_output=True, text=True, check=False
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
    return [memory.content for memory in load().memories[:count]]


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


def python_with_extensions() -> str:
    """Return a Python whose SQLite may load extensions."""
    for name in (sys.executable, "python3", "/usr/bin/python3", "/opt/homebrew/bin/python3"):
        path = shutil.which(name)
        if path and subprocess.run([path, "-c", EXTENSIONS], capture_output=True, check=False).returncode == 0:
            return path
    raise SystemExit("No Python was found whose SQLite may load extensions.")


async def mcp_memory_service(folder: Path, count: int) -> Compared:
    """Memories with tags and types, one of them deleted again."""
    run(python_with_extensions(), "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "mcp-memory-service")
    file = folder / "sqlite_vec.db"
    variables = {
        "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
        "MCP_MEMORY_SQLITE_PATH": str(file),
        "MCP_MEMORY_BASE_DIR": str(folder / "base"),
        "HF_HUB_OFFLINE": "1",
    }
    server = StdioServerParameters(
        command=str(folder / "venv" / "bin" / "memory"), args=["server"], env={**os.environ, **variables}
    )
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


# -- pgengram ----------------------------------------------------------------------------------------------------------


def compared(rival: str, folder: Path, file: Path, *, memories: int, wanted: list[str], edges: int) -> Compared:
    """Bring a rival's store into an empty one, twice, and hold the export against what the rival told."""
    variables = {"PGENGRAM_DATA_DIR": str(folder / "pgengram")}
    command = (sys.executable, "-m", "pgengram")
    run(*command, "import", "--from", rival, file, "--json", **variables)
    again = json.loads(run(*command, "import", "--from", rival, file, "--json", **variables))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--memories", type=int, default=50)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = []
    for rival in (mcp_memory, mcp_memory_service):
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
