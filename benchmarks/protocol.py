"""What the protocol costs: our server against a trivial one of the same SDK, alternating in one run.

    python benchmarks/protocol.py [--server "pgengram"] [--tool NAME --arguments JSON] [--json PATH]
    python benchmarks/protocol.py --before CHECKOUT [--rounds 5] [--json PATH]

Both are real processes over real pipes, driven with raw frames, so that no client's cost is in the figures. Without
--server the toy of tests/protocol is measured: the edge alone, no database behind it. With --before our server of another
checkout is measured beside this one's, each with stores of its own: starts until a question is answered, one call, and
the memory of all its processes.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
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
SETTLE_S = 4.0  # after the last call, by when what the start left behind is given back


class Peer:
    """A raw client of one server process."""

    def __init__(self, command: list[str], *, modern: bool, **started: Any) -> None:
        self._modern = modern
        self._id = 0
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **started
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


def measure_starts(checkout: Path, calls: int) -> dict[str, float]:
    """Return what a new store's first server and its second one cost, by the code of a checkout."""
    from compare import memory_mb

    question = {"name": "search_memories", "arguments": {"query": "Where does Mara keep her boat?"}}
    with tempfile.TemporaryDirectory(prefix="pgengram-protocol-", ignore_cleanup_errors=True) as home:
        started = {
            "cwd": home,
            "env": {**os.environ, "PYTHONPATH": str(checkout / "src"), "PGENGRAM_DATA_DIR": f"{home}/data"},
        }
        figures: dict[str, float] = {}
        for start in ("first", "later"):
            began = time.perf_counter()
            with Peer([sys.executable, "-m", "pgengram"], modern=False, **started) as peer:
                peer.hello()
                figures[f"{start} greeting ms"] = (time.perf_counter() - began) * 1e3
                peer.ask("tools/call", question)
                figures[f"{start} start ms"] = (time.perf_counter() - began) * 1e3
                if start == "later":
                    figures["call p50 ms"] = statistics.median(_timed(peer, question) for _ in range(calls))
                    time.sleep(SETTLE_S)
                    figures["memory MB"] = memory_mb(Path(home))
    return figures


def beside(before: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Measure this checkout and another one in turns."""
    ours, reference = [], []
    for _ in range(given.rounds):
        reference.append(measure_starts(before, given.calls))
        ours.append(measure_starts(ROOT, given.calls))
    return {"ours": median(ours), "reference": median(reference)}


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
    parser.add_argument("--before", type=Path, help="another checkout to measure our server beside")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    if given.before:
        report = beside(given.before.resolve(), given)
        print(table("this, the other", **report))
    else:
        report = beside_the_sdk(given)
    if given.json:
        given.json.write_text(json.dumps(report, indent=2) + "\n")


def beside_the_sdk(given: argparse.Namespace) -> dict[str, Any]:
    """Measure a server and the trivial one in turns, in both eras."""
    report: dict[str, Any] = {"server": given.server, "calls": given.calls, "rounds": given.rounds}
    for era, modern in (("handshake era", False), ("2026-07-28 era", True)):
        ours, reference = [], []
        for _ in range(given.rounds):
            reference.append(measure([sys.executable, "-c", REFERENCE], "keep", TEN_NOTES, given.calls, modern=modern))
            ours.append(measure(shlex.split(given.server), given.tool, given.arguments, given.calls, modern=modern))
        report[era] = {"ours": median(ours), "reference": median(reference)}
        print(table(era, **report[era]), end="\n\n")
    return report


if __name__ == "__main__":
    main()
