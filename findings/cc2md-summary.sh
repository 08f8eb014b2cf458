#!/bin/sh
# cc2md 1.0: after a compaction the user says in the Markdown what no user said: the summary and the output of commands.
#
# Expected: a summary that Claude Code wrote (its line says "isCompactSummary") and what a local command printed are
#           left out or marked as such. The user typed three prompts, so three stand under "User".
# Seen:     Claude Code stores both as lines with the role "user", and the page has them under "## User" like prompts.
#           Whoever takes a person's words from the page takes the machine's.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check cc2md==1.0
cd "$folder"
export HOME="$folder/home"
"$folder/venv/bin/python" - <<'PYTHON'
import json
from importlib.metadata import version
from pathlib import Path

SESSION = "11111111-1111-4111-8111-111111111111"
path = Path.home() / ".claude" / "projects" / "-w-ark" / f"{SESSION}.jsonl"
path.parent.mkdir(parents=True)
lines: list[str] = []


def add(type_: str, **more: object) -> None:
    number = len(lines)
    common = {"type": type_, "uuid": f"l{number}", "parentUuid": f"l{number - 1}" if number else None}
    where = {"sessionId": SESSION, "cwd": "/w/ark", "version": "2.1.332", "isSidechain": False}
    lines.append(json.dumps(common | where | {"timestamp": f"2026-09-02T10:00:{number:02}Z"} | more) + "\n")


def user(text: str, **more: object) -> None:
    add("user", message={"role": "user", "content": text}, **more)


def assistant(text: str) -> None:
    add("assistant", message={"role": "assistant", "content": [{"type": "text", "text": text}]})


user("plan the ark")
assistant("Three decks.")
user("make it four")
assistant("Four decks.")
add("system", subtype="compact_boundary", content="Conversation compacted", parentUuid=None, logicalParentUuid="l3")
summary = "This session is being continued from a previous conversation. The user is fond of oak."
user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)
user("<command-name>/compact</command-name>\n<command-message>compact</command-message>\n<command-args></command-args>")
user("<local-command-stdout>Compacted.</local-command-stdout>")
user("which wood?")
assistant("Pine.")
path.write_text("".join(lines), encoding="utf-8")
print(f"cc2md {version('cc2md')}")
PYTHON
"$folder/venv/bin/cc2md" --latest -o page >/dev/null
page=$(find . -maxdepth 2 -path './page*' -type f)
under_user=$(grep -c "^## User" "$page")
summary=$(grep -A2 "^## User" "$page" | grep -c "fond of oak" || true)
output=$(grep -A2 "^## User" "$page" | grep -c "local-command-stdout" || true)
echo "prompts that the user typed: 3; headings \"User\": $under_user; the summary under one: $summary; a command's output: $output"
[ "$under_user$summary$output" = 611 ]
