#!/bin/sh
# claude-vault 0.9.1: of two conversations of one day with the same title one note is left, and both are told as saved.
#
# Expected: `claude-vault sync` of an export of Claude.ai writes a note for each conversation.
# Seen:     the note is named after the day and the title (letters, digits and dashes, 50 of them), with nothing that
#           tells two apart, and is written over what is there. The sync counts two new conversations, the next one
#           "Unchanged 2", and `claude-vault verify` finds both, while the words of the first are nowhere in the vault.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check claude-vault==0.9.1
mkdir "$folder/home" "$folder/vault"
export HOME="$folder/home" COLUMNS=120
cd "$folder/vault"
"$folder/venv/bin/python" - <<'PYTHON'
import json
from importlib.metadata import version
from pathlib import Path


def conversation(uuid: str, title: str, hour: int, *texts: str) -> dict:
    time = f"2026-09-02T{hour:02}:00:00.000000Z"
    messages = [
        {
            "uuid": f"{uuid[:-1]}{number + 1}",
            "sender": ("human", "assistant")[number % 2],
            "text": text,
            "content": [{"type": "text", "text": text}],
            "created_at": time,
            "updated_at": time,
            "attachments": [],
            "files": [],
        }
        for number, text in enumerate(texts)
    ]
    account = {"uuid": "99999999-9999-4999-8999-999999999999"}
    common = {"uuid": uuid, "name": title, "created_at": time, "updated_at": time, "account": account}
    return common | {"chat_messages": messages}


both = [
    conversation("11111111-1111-4111-8111-111111111110", "Ark plan", 9, "Which wood?", "Gopher wood."),
    conversation("22222222-2222-4222-8222-222222222220", "Ark plan", 15, "How many decks?", "Three decks."),
]
Path("../same.json").write_text(json.dumps(both))
both[1]["name"] = "Ark decks"
Path("../other.json").write_text(json.dumps(both))
print(f"claude-vault {version('claude-vault')}")
PYTHON
vault="$folder/venv/bin/claude-vault"
sync() { # the export; prints how many are told as new, how many notes there are, and whether the first one's words are
  mkdir "$1"
  (cd "$1" && "$vault" init >/dev/null && "$vault" sync "../../$1.json" >sync.txt && "$vault" verify >verify.txt)
  new=$(grep "New conversations" "$1/sync.txt" | tr -cd '0-9')
  verified=0; grep -q "All conversations verified" "$1/verify.txt" && verified=1
  notes=$(find "$1" -name '2026-*.md' | wc -l)
  first=0; grep -rq "Gopher wood" "$1" --include='2026-*.md' && first=1
  echo "$new $notes $first $verified"
}
other=$(sync other)
same=$(sync same)
echo "two titles: new, notes, words of the first, verified: $other"
echo "one title:  new, notes, words of the first, verified: $same"
[ "$other" = "2 2 1 1" ] && [ "$same" = "2 1 0 1" ]
