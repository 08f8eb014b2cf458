#!/bin/sh
# claude-code-log 1.7.0: --to-date with a date leaves out that day, --to-date with the word "today" takes it in.
#
# Expected: "messages up to this date" with today's date in figures gives what "today" gives, and from a day to the same
#           day gives that day, as it does with "yesterday".
# Seen:     words are taken to the end of the day, a date in figures to its first moment. --from-date 2026-09-02 --to-date
#           2026-09-02 gives a page without a single message, and the last day of every range is missing from the archive
#           without a word.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check claude-code-log==1.7.0
cd "$folder"
export HOME="$folder/home" TZ=UTC
mkdir "$HOME"
cat >session.py <<'PYTHON'
"""A session of Claude Code with a question in each of the last three days; prints yesterday's date."""

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

noon = datetime.now(timezone.utc).replace(hour=12, minute=0, second=0, microsecond=0)
lines, parent = [], None
for days, text in ((2, "EARLIER: which wood?"), (1, "YESTERDAY: how many decks?"), (0, "TODAY: which pitch?")):
    line = {"type": "user", "uuid": f"u{days}", "parentUuid": parent, "isSidechain": False, "userType": "external"}
    line |= {"sessionId": "11111111-1111-4111-8111-111111111111", "cwd": "/w/ark", "version": "2.1.332"}
    line["timestamp"] = (noon - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    line["message"] = {"role": "user", "content": text}
    parent = line["uuid"]
    lines.append(json.dumps(line) + "\n")
Path("session.jsonl").write_text("".join(lines))
print(f"{noon - timedelta(days=1):%Y-%m-%d}")
PYTHON
day=$("$folder/venv/bin/python" session.py)
"$folder/venv/bin/claude-code-log" --version
shown() { # the questions on the page that is made with these options
  "$folder/venv/bin/claude-code-log" session.jsonl --no-cache -f md -o page.md "$@" >/dev/null 2>&1
  grep -oE "^(EARLIER|YESTERDAY|TODAY)" page.md | tr '\n' ' ' || true
  rm -f page.md
}
words=$(shown --from-date yesterday --to-date yesterday)
figures=$(shown --from-date "$day" --to-date "$day")
upto=$(shown --to-date "$day")
echo "from yesterday to yesterday: ${words:-nothing}"
echo "from $day to $day: ${figures:-nothing}"
echo "to $day: ${upto:-nothing}"
[ "$words" = "YESTERDAY " ] && [ -z "$figures" ] && [ "$upto" = "EARLIER " ]
