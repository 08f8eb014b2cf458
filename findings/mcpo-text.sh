#!/bin/sh
# mcpo 0.0.20: what a tool says is changed on the way if it looks like JSON: "3.10" arrives as 3.1, "1e5" as 100000.0.
#
# Expected: a tool that answers with the text 3.10 (a version, a chapter, a price) answers so over HTTP too.
# Seen:     each text is parsed as JSON first, and what comes of it is sent on, although the tool's result says "type":
#           "text". Zeros at the end, exponents and the difference between the word true and a truth value are lost. An
#           assistant behind it reads that Noah wrote for Python 3.1.
#
# Needs python3 with venv and a package index. Exits with 1 if this is no longer seen.
set -eu
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
# mcpo does not start with mcp 2 or with the newest fastapi.
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mcpo==0.0.20 mcp==1.30.0 fastapi==0.120.4
cd "$folder"
cat >notes.py <<'PYTHON'
from mcp.server.fastmcp import FastMCP

server = FastMCP("notes")
NOTES = {"python": "3.10", "host": "1e5", "answer": "true", "sentence": "Python 3.10"}


@server.tool()
def recall(name: str) -> str:
    """What the note says."""
    return NOTES[name]


server.run()
PYTHON
cat >ask.py <<'PYTHON'
import json
import sys
import time
from importlib.metadata import version
from urllib.request import Request, urlopen

address = f"http://127.0.0.1:{sys.argv[1]}/recall"


def ask(name: str) -> str:
    request = Request(address, json.dumps({"name": name}).encode(), {"Content-Type": "application/json"})
    for _ in range(120):
        try:
            return urlopen(request, timeout=10).read().decode()
        except OSError:
            time.sleep(0.5)
    raise SystemExit("mcpo did not start")


print(f"mcpo {version('mcpo')}")
told = {"python": "3.10", "host": "1e5", "answer": "true", "sentence": "Python 3.10"}
heard = {name: ask(name) for name in told}
for name, text in told.items():
    print(f"the tool says {json.dumps(text)}, HTTP says {heard[name]}")
wrong = {"python": "3.1", "host": "100000.0", "answer": "true", "sentence": '"Python 3.10"'}
raise SystemExit(0 if heard == wrong else 1)
PYTHON
port=$("$folder/venv/bin/python" -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")
"$folder/venv/bin/mcpo" --host 127.0.0.1 --port "$port" -- "$folder/venv/bin/python" notes.py >mcpo.log 2>&1 &
server=$!
"$folder/venv/bin/python" ask.py "$port"
