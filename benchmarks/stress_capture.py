"""The run `capture` of stress.py: sessions of an assistant with hooks, some of which are killed, and what is kept of them."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg

from hooks import PATIENCE_S, Lab
from pgengram.postgres import start_embedded

WITHIN_S = 0.15  # of a hook's start it or the server is killed: a hook takes about as long


async def run_capture(folder: Path, options: argparse.Namespace, report: Callable[[float], None]) -> dict[str, Any]:
    """Hold sessions of one turn each; kill the hook or the server in some, and run the hook again as an assistant would."""
    lab = Lab(folder / "data")
    lab.environment["PGENGRAM_EMBEDDER"] = options.embedder
    return await asyncio.to_thread(_captured, lab, options, report)


def _captured(lab: Lab, options: argparse.Namespace, report: Callable[[float], None]) -> dict[str, Any]:
    lab.folder.mkdir()
    chance = random.Random(options.seed)
    victims = set(chance.sample(range(options.turns), options.kills))
    killed: Counter[str] = Counter()
    for turn in range(options.turns):
        session = _begun(lab, turn)
        if turn in victims:
            killed[_killed(lab, session, "hook" if sum(killed.values()) % 2 else "server", chance)] += 1
        lab.hook("SessionEnd", **session)
        report(turn + 1)
    _settled(lab)
    began = time.monotonic()
    while lab.processes() and time.monotonic() - began < PATIENCE_S:
        time.sleep(0.5)
    gone_s = round(time.monotonic() - began, 1)
    left = len(lab.processes())
    kept = _kept(lab.folder)
    return {
        "turns, each of a session of its own": options.turns,
        "killed while they were kept": dict(killed),
        "lost": sum(not kept[_said(turn)] for turn in range(options.turns)),
        "doubled": sum(count > 1 for count in kept.values()),
        "processes left": left,
        "the last was gone after s": gone_s,
        "limits": {"lost": "<= 0", "doubled": "<= 0", "processes left": "<= 0"},
    }


def _said(turn: int) -> str:
    return f"This is turn {turn}."


def _begun(lab: Lab, turn: int) -> dict[str, str]:
    """Begin a session and say something in it; return what its events have in common."""
    session = {"session_id": f"session-{turn}", "transcript_path": str(lab.folder / f"{turn}.jsonl")}
    lab.hook("SessionStart", source="startup", **session)
    line = {
        "type": "user", "message": {"role": "user", "content": _said(turn)}, "timestamp": datetime.now(UTC).isoformat(),
        "sessionId": session["session_id"],
    }  # fmt: skip
    Path(session["transcript_path"]).write_text(json.dumps(line) + "\n", encoding="utf-8")
    return session


def _killed(lab: Lab, session: dict[str, str], target: str, chance: random.Random) -> str:
    """Kill a session's hook, or the server that it asks, at a random moment; return which."""
    hook = lab.start("SessionEnd", **session)
    time.sleep(chance.uniform(0, WITHIN_S))
    for process in lab.servers() if target == "server" else [hook]:
        process.kill()
    hook.wait()
    return target


def _settled(lab: Lab) -> None:
    """Wait until a server has taken up what hooks that found none have left."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if lab.hook("SessionStart", session_id="last")[1] and not [*(lab.folder / "run").glob("*.event")]:
            return
        time.sleep(0.2)
    raise SystemExit(f"events still wait for a server:\n{(lab.folder / 'hooks.log').read_text()[-2000:]}")


def _kept(folder: Path) -> Counter[str]:
    """Return how often each text is among the turns that are kept."""
    database = start_embedded(folder)
    try:
        with psycopg.connect(database.url) as connection:
            return Counter(text for (text,) in connection.execute("SELECT text FROM conversation_turns"))
    finally:
        database.stop()
