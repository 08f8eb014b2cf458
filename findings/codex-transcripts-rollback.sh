#!/bin/sh
# codex-transcripts 0.1.1: a prompt that was taken back in Codex stands on the page that it makes as if it had stayed.
#
# Expected: what a user took back (Codex writes an event "thread_rolled_back" that counts the prompts) is left out or marked.
# Seen:     the page has the prompt and its answer between the others, without a mark, and counts it as a prompt. Codex
#           never removes lines of a session, so whoever reads a session has to undo what such an event counts.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check codex-transcripts==0.1.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import json

ID = "01999999-1111-7111-8111-111111111111"


def line(second: int, type_: str, **payload: object) -> str:
    return json.dumps({"timestamp": f"2026-09-02T10:00:0{second}Z", "type": type_, "payload": payload}) + "\n"


def said(second: int, role: str, text: str) -> str:
    kind = "output_text" if role == "assistant" else "input_text"
    return line(second, "response_item", type="message", role=role, content=[{"type": kind, "text": text}])


with open(f"rollout-2026-09-02T10-00-00-{ID}.jsonl", "w", encoding="utf-8") as file:
    file.write(line(0, "session_meta", id=ID, timestamp="2026-09-02T10:00:00Z", cwd="/w/ark", cli_version="0.171.0"))
    file.write(said(1, "user", "pick a wood") + said(2, "assistant", "Oak."))
    file.write(said(3, "user", "no, take pine") + said(4, "assistant", "Pine it is."))
    file.write(line(5, "event_msg", type="thread_rolled_back", num_turns=1))
    file.write(said(6, "user", "and the tar?") + said(7, "assistant", "Three coats."))
PYTHON
"$folder/venv/bin/codex-transcripts" --version
"$folder/venv/bin/codex-transcripts" json rollout-*.jsonl -o page > printed.txt
grep "prompts" printed.txt
kept=0; grep -rq "no, take pine" page && kept=1
marked=0; grep -rqiE "rolled|taken back|undone" page && marked=1
echo "the prompt that was taken back is shown: $kept; marked as such: $marked"
[ "$kept$marked" = 10 ]
