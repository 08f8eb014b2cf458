#!/bin/sh
# claude2md 0.5.1: a straight conversation of Claude Code falls apart into "branches" where an attachment lies between.
#
# Expected: two questions and two answers, none rewound, are one branch, and the whole is written.
# Seen:     the answer to a prompt names as its parent the line before it, which is often of the type "attachment" (a
#           file that was mentioned, a reminder). Such lines are passed over, so the chain is cut there: without --branch
#           it refuses ("Multiple branches"), and the newest branch that it offers starts at the last answer, without
#           the question and everything before it.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check claude2md==0.5.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import json


def session(with_attachment: bool) -> str:
    said = [("user", "how many decks?"), ("assistant", "Three."), ("user", "which wood, after @ark.md?")]
    said += [("attachment", "ark.md")] * with_attachment + [("assistant", "Gopher wood.")]
    lines, parent = [], None
    for number, (type_, text) in enumerate(said):
        line = {"type": type_, "uuid": f"l{number}", "parentUuid": parent, "timestamp": f"2026-09-02T10:00:0{number}Z"}
        line |= {"sessionId": "11111111-1111-4111-8111-111111111111", "cwd": "/w/ark", "version": "2.1.332"}
        if type_ == "attachment":
            line["attachment"] = {"type": "file", "filename": text, "content": {"type": "text", "file": {"content": "oak?"}}}
        else:
            line["message"] = {"role": type_, "content": [{"type": "text", "text": text}]}
        parent = line["uuid"]
        lines.append(json.dumps(line) + "\n")
    return "".join(lines)


open("plain.jsonl", "w").write(session(False))
open("attached.jsonl", "w").write(session(True))
PYTHON
claude2md="$folder/venv/bin/claude2md"
"$claude2md" --version
plain=$("$claude2md" plain.jsonl | grep -cE "decks|Three|wood" || true)
refused=0; "$claude2md" attached.jsonl >printed.txt 2>&1 || refused=1
branches=$("$claude2md" --branches attached.jsonl | wc -l)
newest=$("$claude2md" --branches attached.jsonl | tail -1 | cut -f1)
"$claude2md" --branch "$newest" attached.jsonl >newest.md
kept=$(grep -cE "decks|Three|which wood" newest.md || true)
echo "without the attachment: $plain of 4 messages"
echo "with it: refused: $refused; branches: $branches; messages before the last answer in the newest branch: $kept of 3"
[ "$plain" = 4 ] && [ "$refused" = 1 ] && [ "$branches" = 2 ] && [ "$kept" = 0 ]
