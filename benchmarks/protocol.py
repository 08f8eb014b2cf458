"""What the protocol costs: our server against a trivial one of the same SDK, alternating in one run.

    python benchmarks/protocol.py [--server "pgengram"] [--tool NAME --arguments JSON] [--json PATH]

Both are real processes over real pipes, driven with raw frames, so that no client's cost is in the figures. Without
--server the toy of tests/protocol is measured: the edge alone, no database behind it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
TOY = f"{shlex.quote(sys.executable)} {shlex.quote(str(ROOT / 'tests/protocol/toy.py'))}"
TEN_NOTES = {"text": "a note", "words": ["one", "two"], "detail": {"items": list(range(10))}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "benchmark", "version": "1"},
}
REFERENCE = '''
from typing import Annotated, Any
from mcp.server import MCPServer
from pydantic import BaseModel, Field

class Kept(BaseModel):
    ok: bool = True
    text: str
    weight: float
    words: list[str]
    detail: dict[str, Any] = {}

mcp = MCPServer("reference", instructions="Keeps notes.")

@mcp.tool()
async def keep(
    text: Annotated[str, Field(min_length=1, max_length=100000)],
    weight: Annotated[float, Field(ge=0, le=1)] = 0.5,
    words: list[str] = [],
    detail: dict[str, Any] = {},
) -> Kept:
    """Keep one note."""
    return Kept(text=text, weight=weight, words=words, detail=detail)

mcp.run()
'''


class Peer:
    """A raw client of one server process."""

    def __init__(self, command: list[str], *, modern: bool) -> None:
        self._modern = modern
        self._id = 0
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._id += 1
        params = {**(params or {}), "_meta": ENVELOPE} if self._modern else (params or {})
        frame = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]  # type: ignore[no-any-return]

    def hello(self) -> None:
        self.ask("server/discover") if self._modern else self.ask("initialize", HELLO)

    def rss_mb(self) -> float:
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(self.process.pid)], capture_output=True, check=True)
        return int(shown.stdout) / 1024


def measure(command: list[str], tool: str, arguments: dict[str, Any], calls: int, *, modern: bool) -> dict[str, float]:
    """Start one server and return its figures: milliseconds, and megabytes of memory after the calls."""
    began = time.perf_counter()
    with Peer(command, modern=modern) as peer:
        peer.hello()
        figures = {"first answer ms": (time.perf_counter() - began) * 1e3}
        figures["tools/list kB"] = len(json.dumps(peer.ask("tools/list")["tools"], separators=(",", ":"))) / 1e3
        call = {"name": tool, "arguments": arguments}
        for _ in range(50):
            peer.ask("tools/call", call)
        times = sorted(_timed(peer, call) for _ in range(calls))
        figures["call p50 ms"] = times[len(times) // 2]
        figures["call p95 ms"] = times[int(len(times) * 0.95)]
        figures["RSS MB"] = peer.rss_mb()
    return figures


def _timed(peer: Peer, call: dict[str, Any]) -> float:
    began = time.perf_counter()
    peer.ask("tools/call", call)
    return (time.perf_counter() - began) * 1e3


def median(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def table(title: str, ours: dict[str, float], reference: dict[str, float]) -> str:
    lines = [f"{title:18}{'ours':>10}{'reference':>11}{'ratio':>8}"]
    lines += [f"{name:18}{ours[name]:10.2f}{reference[name]:11.2f}{ours[name] / reference[name]:8.2f}" for name in ours]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=TOY, help="command of the server to measure")
    parser.add_argument("--tool", default="keep", help="tool to call")
    parser.add_argument("--arguments", type=json.loads, default=TEN_NOTES, help="its arguments, as JSON")
    parser.add_argument("--calls", type=int, default=1_000, help="calls per round")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each kind and era")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    report: dict[str, Any] = {"server": given.server, "calls": given.calls, "rounds": given.rounds}
    for era, modern in (("handshake era", False), ("2026-07-28 era", True)):
        ours, reference = [], []
        for _ in range(given.rounds):
            reference.append(measure([sys.executable, "-c", REFERENCE], "keep", TEN_NOTES, given.calls, modern=modern))
            ours.append(measure(shlex.split(given.server), given.tool, given.arguments, given.calls, modern=modern))
        report[era] = {"ours": median(ours), "reference": median(reference)}
        print(table(era, **report[era]), end="\n\n")
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
