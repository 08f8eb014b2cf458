#!/bin/sh
# mcpo 0.0.20: a null that is given on purpose does not reach the tool, which takes its default instead.
#
# Expected: {"until": null} reaches a tool whose schema allows null ("forget the date"), and null is not the default.
# Seen:     all nulls are taken out of the arguments before the call, so the tool does what it does without the argument.
#           Whoever clears a date, an owner or an expiry through mcpo keeps it, and is answered as if all went well. It came
#           with the repair of another fault (arguments that were left out arrived as null); the documentation is silent.
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


@server.tool()
def keep(name: str, until: str | None = "Friday") -> str:
    """Keep a note until a day, or for good (null)."""
    return f"{name} stays {'for good' if until is None else 'until ' + until}"


server.run()
PYTHON
cat >ask.py <<'PYTHON'
import asyncio
import json
import sys
import time
from importlib.metadata import version
from urllib.request import Request, urlopen

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def over_http(until: str | None) -> str:
    arguments = json.dumps({"name": "ark", "until": until}).encode()
    request = Request(f"http://127.0.0.1:{sys.argv[1]}/keep", arguments, {"Content-Type": "application/json"})
    for _ in range(120):
        try:
            return json.loads(urlopen(request, timeout=10).read())
        except OSError:
            time.sleep(0.5)
    raise SystemExit("mcpo did not start")


async def directly(until: str | None) -> str:
    async with stdio_client(StdioServerParameters(command=sys.executable, args=["notes.py"])) as streams:
        async with ClientSession(*streams) as session:
            await session.initialize()
            return (await session.call_tool("keep", {"name": "ark", "until": until})).content[0].text


print(f"mcpo {version('mcpo')}")
direct, null, sunday = asyncio.run(directly(None)), over_http(None), over_http("Sunday")
print(f'{{"until": null}} directly: {direct}')
print(f'{{"until": null}} through mcpo: {null}')
print(f'{{"until": "Sunday"}} through mcpo: {sunday}')
expected = ("ark stays for good", "ark stays until Friday", "ark stays until Sunday")
raise SystemExit(0 if (direct, null, sunday) == expected else 1)
PYTHON
port=$("$folder/venv/bin/python" -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")
"$folder/venv/bin/mcpo" --host 127.0.0.1 --port "$port" -- "$folder/venv/bin/python" notes.py >mcpo.log 2>&1 &
server=$!
"$folder/venv/bin/python" ask.py "$port"
