#!/bin/sh
# claude-code-transcripts 0.6: a prompt that was typed while Claude Code was busy is missing from the page that it makes.
#
# Expected: the page of a session has every prompt.
# Seen:     Claude Code writes such a prompt as a line of the type "attachment" with a "queued_command", not as a line of
#           the type "user". The page counts and shows the lines of the type "user" alone, so the prompt is nowhere, while
#           the answer to it is. A question that was rewound is shown as if it still stood: the two lines that name the
#           same parentUuid are both there.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check claude-code-transcripts==0.6
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import json

SESSION = "11111111-1111-4111-8111-111111111111"


def line(type_: str, uuid: str, parent: str | None, second: int, **more: object) -> str:
    common = {"sessionId": SESSION, "cwd": "/w/ark", "version": "2.1.332", "isSidechain": False}
    time = f"2026-09-02T10:00:0{second}Z"
    return json.dumps({"type": type_, "uuid": uuid, "parentUuid": parent, "timestamp": time, **common, **more}) + "\n"


def user(text: str, *where: object) -> str:
    return line("user", *where, message={"role": "user", "content": text})


def assistant(text: str, *where: object) -> str:
    return line("assistant", *where, message={"role": "assistant", "content": [{"type": "text", "text": text}]})


queued = {"type": "queued_command", "commandMode": "prompt", "prompt": "and never touch schema.sql"}
with open("session.jsonl", "w", encoding="utf-8") as file:
    file.write(user("plan the store", "u1", None, 0) + assistant("Which database?", "a1", "u1", 1))
    file.write(user("use Redis", "u2", "a1", 2) + assistant("Redis it is.", "a2", "u2", 3))
    file.write(user("use PostgreSQL", "u3", "a1", 4) + line("attachment", "q1", "u3", 5, attachment=queued))
    file.write(assistant("PostgreSQL, and I leave the schema alone.", "a3", "q1", 6))
PYTHON
"$folder/venv/bin/claude-code-transcripts" --version
"$folder/venv/bin/claude-code-transcripts" json session.jsonl -o page > printed.txt
grep "prompts" printed.txt
shown=0; grep -rq "schema.sql" page && shown=1
answered=0; grep -rq "leave the schema alone" page && answered=1
rewound=0; grep -rq "use Redis" page && rewound=1
echo "the queued prompt is shown: $shown; its answer: $answered; the question that was rewound: $rewound"
[ "$shown$answered$rewound" = 011 ]
