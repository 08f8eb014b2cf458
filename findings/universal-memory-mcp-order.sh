#!/bin/sh
# universal-memory-mcp 0.1.2: a conversation imported from Markdown has all questions first and all answers after them.
#
# Expected: the messages of "Human: …" and "Claude: …" are kept in the order in which they were said.
# Seen:     the importer looks for all that the human said and then for all that Claude said, and keeps that order. A "yes"
#           stands far from the question that it answers. Each has the minute of the import as its time, so nothing is
#           left from which the order could be found again.
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
from importlib.metadata import version
from pathlib import Path

from universal_memory_mcp.importers.claude_importer import ClaudeImporter


def imported(turns: list[tuple[str, str]]) -> list[str]:
    note = Path("ark.md").resolve()
    note.write_text("# Ark\n\n" + "\n\n".join(f"**{who}**: {text}" for who, text in turns) + "\n")
    store = Path(f"store{len(turns)}").resolve()
    result = ClaudeImporter(store).import_file(note)
    assert result.success, result.errors
    [kept] = store.rglob("conv_*.json")
    return [f"{one['role']}: {one['content']}" for one in json.loads(kept.read_text())["messages"]]


short = imported([("Human", "Three decks?"), ("Claude", "Yes.")])
turns = [("Human", "Three decks?"), ("Claude", "Yes."), ("Human", "Of willow?"), ("Claude", "No, of gopher wood.")]
long = imported(turns)
print(f"universal-memory-mcp {version('universal-memory-mcp')}")
print("said:     ", " | ".join(text for _, text in turns))
print("imported: ", " | ".join(one.split(": ", 1)[1] for one in long))
wrong = ["user: Three decks?", "user: Of willow?", "assistant: Yes.", "assistant: No, of gopher wood."]
raise SystemExit(0 if short == wrong[:1] + wrong[2:3] and long == wrong else 1)
PYTHON
