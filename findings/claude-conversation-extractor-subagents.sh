#!/bin/sh
# claude-conversation-extractor 1.1.2: transcripts of subagents overwrite each other in the backup, which says it has all.
#
# Expected: `claude-extract --all` writes one file for each transcript that it counts.
# Seen:     a file is named after the date and the first eight characters of its transcript's name. Claude Code names
#           those of subagents "agent-" and an id, so two characters of the id are left, and the first is always an "a".
#           The later of two such files replaces the earlier, while "Successfully extracted 4/4 sessions" is printed.
#           The orders that the main agent gave them stand under "User". Known upstream.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check claude-conversation-extractor==1.1.2
cd "$folder"
export HOME="$folder/home"
"$folder/venv/bin/python" - <<'PYTHON'
import json
from importlib.metadata import version
from pathlib import Path

SESSION = "11111111-1111-4111-8111-111111111111"
PROJECT = Path.home() / ".claude" / "projects" / "-w-ark"


def write(path: Path, question: str, answer: str, **more: object) -> None:
    common = {"sessionId": SESSION, "cwd": "/w/ark", "version": "2.1.332", "timestamp": "2026-09-02T10:00:00Z", **more}
    user = {"type": "user", "uuid": "u" + path.stem, "parentUuid": None, "message": {"role": "user", "content": question}}
    said = {"role": "assistant", "content": [{"type": "text", "text": answer}]}
    assistant = {"type": "assistant", "uuid": "a" + path.stem, "parentUuid": "u" + path.stem, "message": said}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one | common) + "\n" for one in (user, assistant)), encoding="utf-8")


write(PROJECT / f"{SESSION}.jsonl", "what does the ark lack?", "Tar, rope and wood.", isSidechain=False)
for agent, thing in (("a1b2c3d", "tar"), ("a1f0e9d", "rope"), ("a7a7a7a", "wood")):
    path = PROJECT / SESSION / "subagents" / f"agent-{agent}.jsonl"
    write(path, f"find {thing}", f"There is {thing} in the barn.", isSidechain=True, agentId=agent)
print(f"claude-conversation-extractor {version('claude-conversation-extractor')}")
PYTHON
"$folder/venv/bin/claude-extract" --all --output backup >printed.txt
grep "Successfully" printed.txt
files=$(find backup -name '*.md' | wc -l)
answers=$(cat backup/*.md | grep -c "in the barn")
echo "files written: $files of 4; answers of subagents in them: $answers of 3"
grep -q "4/4" printed.txt && [ "$files" = 3 ] && [ "$answers" = 2 ]
