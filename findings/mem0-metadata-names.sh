#!/bin/sh
# mem0ai 2.2.1: metadata under common names (role, id, hash, data) vanishes when a memory is added.
#
# Expected: what is passed as metadata with add(…, infer=False) comes back with get, or is refused.
# Seen:     the fields of the store lie in the same dictionary as the person's. "role" becomes the role of the message,
#           "hash" and "data" are written over, and "id" is kept but never shown. The other names come back. Importing
#           from a program whose notes have an id or a role loses just these, without a word.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mem0ai==2.2.1
export MEM0_TELEMETRY=False MEM0_DIR="$folder/mem0" OPENAI_API_KEY=unused
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import logging
from importlib.metadata import version

from mem0 import Memory

logging.disable(logging.WARNING)


class Letters:
    """Embeds without a network: counts letters."""

    def embed(self, text, memory_action=None):
        return [text.count(letter) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"]


where = {"path": "store", "embedding_model_dims": 26, "collection_name": "notes"}
memory = Memory.from_config({"vector_store": {"provider": "qdrant", "config": where}, "history_db_path": "history.db"})
memory.embedding_model = Letters()
given = {"role": "shipwright", "id": "plank-17", "hash": "pitch", "data": "cut in May", "deck": "two"}
[added] = memory.add("Plank 17 is oak.", user_id="noah", infer=False, metadata=given)["results"]
found = memory.get(added["id"])
memory.vector_store.client.close()

print(f"mem0ai {version('mem0ai')}")
print(f"given:      {given}")
print(f"came back:  {found.get('metadata')}, and role {found.get('role')!r}")
values = str(found)
lost = [name for name in given if given[name] not in values]
print(f"nowhere:    {lost}")
raise SystemExit(0 if lost == ["role", "id", "hash", "data"] and found["metadata"] == {"deck": "two"} else 1)
PYTHON
