#!/bin/sh
# mem0ai 2.2.1: expired memories hide living ones: get_all shows some of six although it may show twenty.
#
# Expected: get_all leaves out what has expired and returns the others, up to top_k (20).
# Seen:     it takes the first 80 rows of the store (four times top_k), expired or not and in no order that means
#           anything, and only then drops the expired ones. With 250 expired memories most of the living are beyond the
#           80. Nothing says that there are more, and which ones are missing differs from store to store.
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


def shown(expired: int) -> tuple[int, int]:
    where = {"path": f"store{expired}", "embedding_model_dims": 26, "collection_name": "notes"}
    config = {"vector_store": {"provider": "qdrant", "config": where}, "history_db_path": f"history{expired}.db"}
    memory = Memory.from_config(config)
    memory.embedding_model = Letters()
    for number in range(expired):
        memory.add(f"Gate {number} is shut.", user_id="noah", infer=False, expiration_date="2020-01-01")
    for number in range(6):
        memory.add(f"Plank {number} is oak.", user_id="noah", infer=False)
    few = len(memory.get_all(filters={"user_id": "noah"})["results"])
    many = len(memory.get_all(filters={"user_id": "noah"}, top_k=1000)["results"])
    memory.vector_store.client.close()
    return few, many


print(f"mem0ai {version('mem0ai')}")
without, with_expired = shown(0), shown(250)
print(f"six living memories: get_all shows {without[0]}, with top_k=1000 {without[1]}")
print(f"and 250 expired ones: get_all shows {with_expired[0]}, with top_k=1000 {with_expired[1]}")
raise SystemExit(0 if without == (6, 6) and with_expired[0] < 6 == with_expired[1] else 1)
PYTHON
