#!/bin/sh
# mcp-memory-service 12.4.0: a memory that differs from another in capital letters only is refused as its exact double.
#
# Expected: "The password hint is Oak." and "… oak." are two memories, or at least near ones; the second corrects the first.
# Seen:     the hash that tells doubles is made of the text in small letters, so the second is refused as "Duplicate content
#           detected (exact match)", and the first stays as it was. A correction of a name, a command, a variable or an
#           acronym cannot be stored, and an import of such a pair loses one of the two.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
# Not every Python can load extensions of SQLite, which the server needs; pysqlite3-binary can.
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mcp-memory-service==12.4.0 pysqlite3-binary==0.5.4.post2
cd "$folder"
export HOME="$folder" MCP_MEMORY_BASE_DIR="$folder"
"$folder/venv/bin/python" - <<'PYTHON' 2>errors.txt
import asyncio
import sys
from importlib.metadata import version

import pysqlite3

sys.modules["sqlite3"] = pysqlite3

from mcp_memory_service.models.memory import Memory
from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
from mcp_memory_service.utils.hashing import generate_content_hash


async def stored(*texts: str) -> list[tuple[bool, str]]:
    storage = SqliteVecMemoryStorage("memories.db")
    await storage.initialize()
    memories = [Memory(content=text, content_hash=generate_content_hash(text), tags=["chest"]) for text in texts]
    return [await storage.store(memory) for memory in memories]


texts = ("The password hint is Oak.", "The password hint is oak.", "The password hint is ash.")
answers = asyncio.run(stored(*texts))
print(f"mcp-memory-service {version('mcp-memory-service')}")
for text, (taken, answer) in zip(texts, answers, strict=True):
    print(f"{text} -> stored: {taken} ({answer})")
refused = "exact match" in answers[1][1]
raise SystemExit(0 if [taken for taken, _ in answers] == [True, False, True] and refused else 1)
PYTHON
