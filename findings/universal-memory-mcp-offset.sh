#!/bin/sh
# universal-memory-mcp 0.1.2: a conversation whose time has an offset ("+00:00") is dated to the moment of the import.
#
# Expected: 2019-03-01T10:00:00+00:00 and 2019-03-01T10:00:00Z are the same moment, in 2019. ISO 8601 and RFC 3339 write
#           it both ways, and most programs write the first.
# Seen:     times are tried in five forms, none with an offset. What fits none becomes "now", and the import counts as a
#           success. The conversation then stands among today's, in this month's folder.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps universal-memory-mcp==0.1.2
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import json
import logging
from datetime import date
from importlib.metadata import version
from pathlib import Path

from universal_memory_mcp.importers.claude_importer import ClaudeImporter

logging.disable(logging.CRITICAL)


def dated(time: str) -> str:
    said = [{"role": "user", "content": "Three decks?"}, {"role": "assistant", "content": "Yes."}]
    file = Path("ark.json").resolve()
    file.write_text(json.dumps({"id": "ark", "title": "Ark", "created_at": time, "messages": said}))
    store = Path(f"store-{len(time)}").resolve()
    result = ClaudeImporter(store).import_file(file)
    assert result.success and not result.errors, result.errors
    [kept] = store.rglob("conv_*.json")
    return json.loads(kept.read_text())["date"][:10]


print(f"universal-memory-mcp {version('universal-memory-mcp')}")
before = date.today().isoformat()
zulu, offset = dated("2019-03-01T10:00:00Z"), dated("2019-03-01T10:00:00+00:00")
print(f"2019-03-01T10:00:00Z is dated {zulu}; 2019-03-01T10:00:00+00:00 is dated {offset}")
raise SystemExit(0 if zulu == "2019-03-01" and before <= offset <= date.today().isoformat() else 1)
PYTHON
