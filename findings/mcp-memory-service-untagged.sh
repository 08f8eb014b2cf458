#!/bin/sh
# mcp-memory-service 12.4.0: a memory that is stored without tags gets the tag "untagged", and then its own count of
# untagged memories does not find it.
#
# Expected: GET /api/manage/untagged/count counts a memory that nobody gave a tag.
# Seen:     models/memory.py writes the word "untagged" into its tags, and web/api/manage.py counts only empty tags, so
#           the count is 0 and "delete untagged" removes nothing. Whoever imports such a store meets a tag that no person
#           chose, on every memory without tags.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps mcp-memory-service==12.4.0
"$folder/venv/bin/python" - <<'PYTHON'
import ast
import sqlite3
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from mcp_memory_service.models.memory import Memory

stored = Memory(content="The mill opens at nine.", content_hash="1", tags=[])

# The statement of the server's own count; importing its module would need the whole web server.
source = Path(find_spec("mcp_memory_service").origin).parent / "web" / "api" / "manage.py"
[predicate] = [
    ast.literal_eval(one.value)
    for one in ast.parse(source.read_text()).body
    if isinstance(one, ast.Assign) and one.targets[0].id == "_UNTAGGED_PREDICATE"
]
table = sqlite3.connect(":memory:")
table.execute("CREATE TABLE memories (content TEXT, tags TEXT, deleted_at REAL)")
table.execute("INSERT INTO memories VALUES (?, ?, NULL)", (stored.content, ",".join(stored.tags)))
[counted] = table.execute(f"SELECT count(*) FROM memories WHERE {predicate}").fetchone()

print(f"mcp-memory-service {version('mcp-memory-service')}")
print(f"stored without tags, it has the tags {stored.tags}; counted as untagged: {counted} of 1")
raise SystemExit(0 if stored.tags == ["untagged"] and counted == 0 else 1)
PYTHON
