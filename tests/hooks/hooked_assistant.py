"""Hooks as an assistant runs them: a process with an event on its standard input."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from typer.testing import CliRunner

from forkserver import HOOKS_PATIENCE
from helpers import PATIENCE_S, environment
from pgengram.cli.app import app
from pgengram.runtime import local_socket

ANSWER_S = 60.0  # for a hook whose answer a test needs


@dataclass
class Assistant:
    """A client with hooks, of one store.

    Args:
        settings: of the store, as a server gets them.
    """

    settings: dict[str, str]
    name: str = "claude-code"
    session: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The data folder."""
        return Path(self.settings["data_dir"])

    def hook(self, event: str, **fields: Any) -> str:
        """Run the hook of an event and return what it prints."""
        given = {"session_id": "s-1", "cwd": str(self.folder), **self.session, "hook_event_name": event, **fields}
        return self.raw(json.dumps(given))

    def raw(self, given: str, *, patience_s: float | None = None) -> str:
        """Run a hook with anything on its standard input; it has to end well."""
        ended = subprocess.run(
            [sys.executable, "-m", "pgengram", "hook", self.name, *self.options], input=given, capture_output=True, text=True,
            env=environment(**self.settings) | ({} if patience_s is None else {HOOKS_PATIENCE: str(patience_s)}), timeout=PATIENCE_S,
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout

    def context(self, event: str, **fields: Any) -> str:
        """Run the hook of an event and return what it puts before the model, however slow the machine is; empty for
        nothing.
        """
        given = {"session_id": "s-1", "cwd": str(self.folder), **self.session, "hook_event_name": event, **fields}
        printed = self.raw(json.dumps(given), patience_s=ANSWER_S)
        return str(json.loads(printed)["hookSpecificOutput"]["additionalContext"]) if printed else ""

    async def answered(self, command: str) -> list[dict[str, Any]]:
        """Return the rows that a command lists, which runs in a thread, as each has a loop of its own."""
        return list((await asyncio.to_thread(self.typed, command))[command])

    def late(self, event: str) -> None:
        """Leave an event for the next server, as a hook does that gave up."""
        place = local_socket.Endpoints(environment(**self.settings))
        given = {"session_id": "s-1", "cwd": str(self.folder), **self.session, "hook_event_name": event}
        local_socket.keep_for_later(place, {"hook": self.name, "event": given, "keeps": True})

    def typed(self, *words: str, as_json: bool = True) -> Any:
        """Run a command of pgengram, and return what it answers as JSON."""
        settings = {f"PGENGRAM_{name.upper()}": value for name, value in self.settings.items()}
        result = CliRunner().invoke(app, [*words, *(["--json"] if as_json else [])], env=settings)
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout) if as_json else None

    def files(self, ending: str) -> list[Path]:
        """Return the files of the local socket's folder."""
        return sorted((self.folder / "run").glob(f"*{ending}"))

    @property
    def log(self) -> str:
        """What hooks have to say about what failed."""
        path = self.folder / "hooks.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def momentary(self) -> list[psutil.Process]:
        """Return the servers that hooks of this store have started for the moment."""
        pids = [int(path.stem.rpartition("-")[2]) for path in self.files(".sock")]
        return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]

    def wait(self) -> None:
        """Wait until a server for the moment listens and no event waits."""
        deadline = time.monotonic() + PATIENCE_S
        while self.files(".event") or not self.files(".sock"):
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)
