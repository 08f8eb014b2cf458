#!/bin/sh
# ricoeur 0.4.4: of a ChatGPT conversation with an edited prompt it archives the branch that its owner left.
#
# Expected: the export names the branch that was on the screen last ("current_node"). That one is archived, or all are.
# Seen:     at each fork the last child is taken, whatever current_node says. Who looked at a second version and went back
#           to the first finds the rejected question and answer in the archive, and the ones that count, with all that
#           was said after them, are nowhere. The import counts the conversation as new and tells of nothing left out.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ricoeur==0.4.4
export HOME="$folder/home" NO_COLOR=1 COLUMNS=120
mkdir "$HOME"
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import json
from importlib.metadata import version
from pathlib import Path

ID = "11111111-1111-4111-8111-111111111111"
TREE = [  # id, parent, who, text
    ("root", None, None, None),
    ("q1", "root", "user", "Which wood for the ark?"),
    ("a1", "q1", "assistant", "Gopher wood."),
    ("q2", "a1", "user", "And how many decks?"),
    ("a2", "q2", "assistant", "Three decks."),
    ("q1b", "root", "user", "Which wood for the ark, if cheap?"),
    ("a1b", "q1b", "assistant", "Cheap willow."),
]


def write(name: str, current: str) -> None:
    mapping = {}
    for number, (node, parent, who, text) in enumerate(TREE):
        content = {"content_type": "text", "parts": [text]}
        said = {"id": node, "author": {"role": who}, "content": content, "create_time": 1756800000.0 + number}
        children = [one[0] for one in TREE if one[1] == node]
        message = None if who is None else said | {"metadata": {}, "status": "finished_successfully"}
        mapping[node] = {"id": node, "parent": parent, "children": children, "message": message}
    whole = {"id": ID, "conversation_id": ID, "title": "Ark", "create_time": 1756800000.0, "update_time": 1756800009.0}
    whole |= {"default_model_slug": "gpt-5", "mapping": mapping, "current_node": current}
    Path(name).write_text(json.dumps([whole]))


write("kept.json", "a2")
write("other.json", "a1b")
print(f"ricoeur {version('ricoeur')}")
PYTHON
archive() { # the words of the first branch and of the second one in the archive
  rm -rf "$HOME/.ricoeur"
  "$folder/venv/bin/ricoeur" init >/dev/null
  "$folder/venv/bin/ricoeur" import chatgpt "$1" >printed.txt
  "$folder/venv/bin/ricoeur" show 11111111-1111-4111-8111-111111111111 >shown.txt
  first=0; grep -q "Three decks" shown.txt && first=1
  second=0; grep -q "Cheap willow" shown.txt && second=1
  echo "$first $second"
}
second=$(archive other.json)
first=$(archive kept.json)
echo "the second branch was on the screen: archived of the first and the second: $second"
echo "the first branch was on the screen:  archived of the first and the second: $first"
[ "$second" = "0 1" ] && [ "$first" = "0 1" ]
