"""The memory servers that compare.py measures: how each is installed and started, and which of its tools store, find and read."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import onnxruntime
from importers import EXTENSIONS, run
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import pgengram

MORE = 10  # hits that are asked for
BATCH = 200  # memories that pgengram takes in one call
LONG_WORD = 4  # letters from which a word of a question is looked for by itself
WINDOW = 256  # tokens that the lent model reads of a text
STORE_BATCH = """
import asyncio, json, sys
from mcp_memory_service.config import EMBEDDING_MODEL_NAME, SQLITE_VEC_PATH
from mcp_memory_service.models.memory import Memory
from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
from mcp_memory_service.utils.hashing import generate_content_hash

async def fill(texts):
    storage = SqliteVecMemoryStorage(SQLITE_VEC_PATH, embedding_model=EMBEDDING_MODEL_NAME)
    await storage.initialize()
    for first in range(0, len(texts), 100):
        batch = [Memory(content=text, content_hash=generate_content_hash(text)) for text in texts[first : first + 100]]
        refused = [why for stored, why in await storage.store_batch(batch) if not stored]
        if refused:
            sys.exit(str(refused[0]))

asyncio.run(fill(json.load(sys.stdin)))
"""  # for mcp-memory-service
MODEL = Path(pgengram.__file__).parent / "embedders" / "all_minilm_l6_v2"


class Failed(RuntimeError):
    """A call was answered with an error, or a server cannot be installed here."""


async def outcome(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool and return the text of its answer."""
    answer = await client.call_tool(tool, arguments)
    text = "\n".join(getattr(block, "text", "") for block in answer.content)
    if answer.is_error:
        raise Failed(f"{tool}: {text[:200]}")
    return text


class Server(ABC):
    """A server: how it is installed and started, and which tools store, find and read. A memory has a key of ours and a text."""

    name = ""
    package = ""
    python = ""  # the interpreter of its virtual environment, where it has one

    def __init__(self, environments: Path, home: Path, *, model: Path | None = None) -> None:
        self.environments, self.place, self.home = environments, environments / self.name, home
        self.model = model  # the folder of one that is lent
        self.lent = {} if model is None else self.lend(model)
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

    def lend(self, model: Path) -> dict[str, str]:  # noqa: ARG002 - not all of them embed
        """Put a model where it looks for one, and return the variables that make it do so."""
        return {}

    @abstractmethod
    async def store(self, client: Client, key: str, text: str) -> str:
        """Store a text and return by what it is read again."""

    async def fill(self, client: Client, texts: list[str]) -> None:
        """Store many texts that nobody reads again, in the quickest way that the server has."""
        for number, text in enumerate(texts):
            await self.store(client, f"more-{number}", text)

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

    async def fill(self, client: Client, texts: list[str]) -> None:
        for first in range(0, len(texts), BATCH):
            await outcome(client, "create_memories", items=texts[first : first + BATCH])

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

    def lend(self, model: Path) -> dict[str, str]:
        folder = self.home / ".cache" / "mcp_memory" / "onnx_models" / "all-MiniLM-L6-v2" / "onnx"
        folder.mkdir(parents=True, exist_ok=True)
        lend_model(model, folder)
        return {"HF_HUB_OFFLINE": "1"}

    async def store(self, client: Client, key: str, text: str) -> str:
        await outcome(client, "memory_store", content=text, conversation_id="compare")
        return key

    async def fill(self, client: Client, texts: list[str]) -> None:  # noqa: ARG002 - beside the server, which has no such tool
        """Store them by the batches of its own library, many times quicker than by its tool."""
        run(self.interpreter, "-c", STORE_BATCH, given=json.dumps(texts), HOME=str(self.home), **self.lent)

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

    def lend(self, model: Path) -> dict[str, str]:
        cached = self.home / ".basic-memory" / "fastembed_cache" / "models--Qdrant--all-MiniLM-L6-v2-onnx"
        folder = cached / "snapshots" / "lent"
        folder.mkdir(parents=True, exist_ok=True)
        (cached / "refs").mkdir(exist_ok=True)
        (cached / "refs" / "main").write_text("lent")
        lend_model(model, folder)
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


def lend_model(model: Path, folder: Path) -> None:
    """Copy a model into a folder: in one file, and its tokenizer cuts off what the model cannot read, as published."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(folder / "model.onnx")
    for entry, value in (("file_name", "none"), ("min_size_in_bytes", str(1 << 30))):  # none is as large
        options.add_session_config_entry(f"session.optimized_model_external_initializers_{entry}", value)
    onnxruntime.InferenceSession(str(model / "model.onnx"), options, providers=["CPUExecutionProvider"])
    shutil.copy(model / "config.json", folder)
    tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
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
    raise Failed(f"No Python of {least} or newer was found whose SQLite may load extensions; put one on the PATH.")
