"""Whole sessions of real assistants with hooks, a stand-in in the place of their models.

    python benchmarks/real_clients.py [--programs FOLDER] [claude-code] [codex] [gemini-cli]

Each that is installed is connected in a home folder of its own, has a session of two prompts with a tool call and a
compaction, and a second session. What the hooks put before the model is read from what the model was asked, what they
keep from the store. Then come a prompt with a file, one that is sent while another is answered, one that is taken back,
a fork, and a session that is compressed, as far as the client can do each without a terminal; its files are imported
into a second store, too. The exit code is 1 where something did not happen that docs/how-to/have-it-used.md and
docs/how-to/bring-your-memories.md say.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from model_stand_in import ASKED, SAYS, StandIn, running

FACT: Final = "The Ark project deploys from the office in Lyon."
FIRST: Final = f"From which office do we deploy the Ark project? Please {ASKED}."
SECOND: Final = "We decided that Ines releases on Fridays from now on."
LATER: Final = "Good morning, what is next?"
FILE, CONTENTS = "notes.txt", "The keel of the ark is made of oak."
WITH_FILE: Final = f"What is the keel made of? See @{FILE}."
QUEUED: Final = "And never paint it red."
LEFT: Final = "Let us build the mast of pine."
INSTEAD: Final = "Let us build the mast of spruce."
FORKED: Final = "Let us do without a mast."
WAIT_S: Final = 120.0
LEFT_OUT: Final = ("PGENGRAM_", "CLAUDE", "PYTHONDONTWRITEBYTECODE")  # without bytecode a start takes twice as long
FULL_AT: Final = 200_000  # tokens, for clients that can be told


@dataclass
class Bench:
    """A client in a home folder of its own, with a store and a project.

    Args:
        client: as pgengram calls it.
        program: path of its program.
        home: the folder.
        model: the stand-in of its model.
    """

    client: str
    program: str
    home: Path
    model: StandIn

    @property
    def project(self) -> Path:
        return self.home / "ark"

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
        return inherited | {
            "HOME": str(self.home), "PGENGRAM_DATA_DIR": str(self.home / "store"), "PGENGRAM_EMBEDDER": "builtin:",
            "CODEX_HOME": str(self.home / ".codex"), "ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "none",
            "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            "STAND_IN_KEY": "none", "GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model.url, "NO_BROWSER": "1",
        }  # fmt: skip

    def transcripts(self) -> list[Path]:
        """Return the files of the client's sessions, the oldest first."""
        found = (self.home / CLIENTS[self.client].sessions).rglob("*.jsonl")
        return sorted(found, key=lambda path: path.stat().st_mtime)

    def run(self, *words: str) -> str:
        """Run the client's program in the project, and return what it prints.

        That goes to a file: a pipe would be held open by whatever the program leaves behind.
        """
        printed = self.home / "printed.txt"
        with printed.open("w") as file:
            ended = subprocess.run(
                [self.program, *words], cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, timeout=WAIT_S, check=False,
            )  # fmt: skip
        if ended.returncode:
            raise SystemExit(f"{self.client} ended with {ended.returncode}: {printed.read_text()[-800:]}")
        return printed.read_text()

    def pgengram(self, *words: str, store: str = "store") -> Any:
        """Run a command of pgengram, and return what it answers as JSON."""
        ended = subprocess.run(
            [sys.executable, "-m", "pgengram", *words, "--json"], capture_output=True, text=True, check=True,
            env=self.environment | {"PGENGRAM_DATA_DIR": str(self.home / store)}, timeout=WAIT_S,
        )  # fmt: skip
        return json.JSONDecoder().raw_decode(ended.stdout)[0]  # connect answers for the entry, then for the hooks

    def write(self, path: str, text: str) -> None:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


# -- the clients -------------------------------------------------------------------------------------------------------


def claude_code(bench: Bench) -> None:
    """One process for the whole first session, which is told each prompt when the one before is answered."""
    tell_claude(bench, FIRST, SECOND, "/compact")


def tell_claude(bench: Bench, *prompts: str, at_once: bool = False) -> None:
    """Tell one process of Claude Code several prompts, at once or each when the one before is answered."""
    line = ["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
    process = subprocess.Popen(
        [bench.program, *line, "--dangerously-skip-permissions"], cwd=bench.project, env=bench.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    for prompt in prompts:
        message = {"role": "user", "content": [{"type": "text", "text": prompt}]}
        process.stdin.write(json.dumps({"type": "user", "message": message}) + "\n")
        process.stdin.flush()
        for answer in () if at_once else process.stdout:
            if json.loads(answer).get("type") == "result":
                break
    process.stdin.close()
    process.stdout.read()
    process.wait(WAIT_S)


def claude_branches(bench: Bench) -> None:
    tell_claude(bench, WITH_FILE, QUEUED, at_once=True)
    path = bench.transcripts()[-1]
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    *_, answer = (line["uuid"] for line in lines if line.get("type") == "assistant")
    bench.run("-p", "--resume", path.stem, LEFT)
    bench.run("-p", "--resume", path.stem, "--resume-session-at", answer, INSTEAD)
    bench.run("-p", "--resume", path.stem, "--fork-session", FORKED)


def claude_again(bench: Bench) -> None:
    bench.run("-p", LATER)


CODEX: Final = """
model = "gpt-5-codex"
model_provider = "stand_in"
model_auto_compact_token_limit = {full_at}
[model_providers.stand_in]
name = "stand-in"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "STAND_IN_KEY"
"""
CODEX_RUN: Final = (
    "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox",
)  # fmt: skip


def codex(bench: Bench) -> None:
    bench.run(*CODEX_RUN, FIRST)
    bench.model.is_full = True
    bench.run(*CODEX_RUN, "resume", "--last", SECOND)
    bench.run(*CODEX_RUN, "resume", "--last", "Thanks.")


def codex_again(bench: Bench) -> None:
    bench.run(*CODEX_RUN, LATER)


def codex_branches(bench: Bench) -> None:
    bench.run(*CODEX_RUN, WITH_FILE)
    path = bench.transcripts()[-1]
    bench.run(*CODEX_RUN, "resume", "--last", INSTEAD)
    bench.run(*CODEX_RUN, "fork", path.stem[-36:], FORKED)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


GEMINI: Final = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "general": {"disableAutoUpdate": True}, "privacy": {"usageStatisticsEnabled": False},
}  # fmt: skip
GEMINI_RUN: Final = ("-m", "gemini-2.5-flash", "-y")


def gemini(bench: Bench) -> None:
    bench.run(*GEMINI_RUN, "-p", FIRST)
    bench.model.is_full = True
    bench.run(*GEMINI_RUN, "--resume", "latest", "-p", f"{SECOND} Please {ASKED}.")


def gemini_again(bench: Bench) -> None:
    bench.run(*GEMINI_RUN, "-p", LATER)


def gemini_branches(bench: Bench) -> None:
    bench.run(*GEMINI_RUN, "-p", WITH_FILE)
    bench.run(*GEMINI_RUN, "--resume", "latest", "-p", INSTEAD)


@dataclass(frozen=True)
class Client:
    """How a client is told where its model is, has its two sessions, and what else it can do; the sign of a compaction
    in what is asked, the folder of its sessions, and what a user says in the last of them.
    """

    program: str
    first: Callable[[Bench], None]
    second: Callable[[Bench], None]
    compacts: str
    branches: Callable[[Bench], None]
    sessions: str
    says: tuple[str, ...]
    settings: Callable[[Bench], None] = lambda _: None


CLIENTS: Final[Mapping[str, Client]] = {
    "claude-code": Client("claude", claude_code, claude_again, "End the summary with a list", claude_branches,
                          ".claude/projects", (WITH_FILE, QUEUED, INSTEAD, FORKED)),
    "codex": Client(
        "codex", codex, codex_again, "CONTEXT CHECKPOINT COMPACTION", codex_branches, ".codex/sessions",
        (WITH_FILE, INSTEAD, FORKED),
        lambda bench: bench.write(".codex/config.toml", CODEX.format(url=bench.model.url, full_at=FULL_AT)),
    ),
    "gemini-cli": Client(
        "gemini", gemini, gemini_again, "state_snapshot", gemini_branches, ".gemini/tmp", (WITH_FILE, INSTEAD),
        lambda bench: bench.write(".gemini/settings.json", json.dumps(GEMINI)),
    ),
}  # fmt: skip


# -- a run -------------------------------------------------------------------------------------------------------------


def run(name: str, program: str) -> list[tuple[str, bool]]:
    """Run a client's two sessions, and return what was to happen and whether it did."""
    client = CLIENTS[name]
    home = Path(tempfile.mkdtemp(prefix="pg-real-"))  # short, as the path of a socket has to be
    server = None
    try:
        with running() as model:
            bench = Bench(name, program, home, model)
            bench.project.mkdir()
            client.settings(bench)
            bench.pgengram("connect", name, "--hooks", "--yes")
            bench.pgengram("add", FACT, "--project", "ark")
            server = warm(bench)
            client.first(bench)
            first = model.given()
            second_from = len(model.asked)
            client.second(bench)
            happened = seen(bench, first, model.given(second_from))
            bench.write(f"ark/{FILE}", CONTENTS)
            client.branches(bench)
            settle(bench)
            return happened + once(bench)
    finally:
        if server is not None:
            server.terminate()
            server.wait(WAIT_S)
        shutil.rmtree(home, ignore_errors=True)


def warm(bench: Bench) -> subprocess.Popen[bytes]:
    """Start a server of the store, as another assistant would have, and wait until it listens."""
    server = subprocess.Popen([sys.executable, "-m", "pgengram.local"], env=bench.environment)
    deadline = time.monotonic() + WAIT_S
    while not list((bench.home / "store" / "run").glob("*.sock")):
        if time.monotonic() > deadline:
            raise SystemExit("no server of the store came up")
        time.sleep(0.1)
    bench.pgengram("search", "office")  # the first question loads what all others find loaded
    return server


def settle(bench: Bench) -> None:
    """Wait until the server has taken up what hooks have left for it, which it does after each request."""
    deadline = time.monotonic() + WAIT_S
    while list((bench.home / "store" / "run").glob("*.event")) and time.monotonic() < deadline:
        bench.pgengram("search", "office")
        time.sleep(1)


def seen(bench: Bench, first: str, second: str) -> list[tuple[str, bool]]:
    """Return what was to happen in the two sessions, and whether it did."""
    listed = bench.pgengram("conversations", "list")["conversations"]
    turns = bench.pgengram("conversations", "show", listed[-1]["conversation"])["turns"] if listed else []
    said = [(turn["role"], turn["text"]) for turn in turns]
    receipts = bench.pgengram("receipts")["receipts"]
    log = bench.home / "store" / "hooks.log"
    if log.exists():
        print(log.read_text(), file=sys.stderr)
    return [
        ("the first session begins with what matters for the project", FACT in first),
        ("the tool that the model calls runs, and its output comes back", "from-the-tool" in first or "functionResponse" in first),
        ("a compaction happens", CLIENTS[bench.client].compacts in first),
        ("both prompts are kept, once each", [text for role, text in said if role == "user"][:2].count(FIRST) == 1
         and sum(SECOND in text for role, text in said if role == "user") == 1),
        ("the answers are kept", ("assistant", SAYS) in said),
        ("what the tool printed is kept, where the client tells it", bench.client == "gemini-cli"
         or any(role == "tool" and "from-the-tool" in text for role, text in said)),
        ("no memory comes twice in a conversation",
         len({(one["memory_id"], one["conversation"]) for one in receipts}) == len(receipts)),
        ("the second session begins with what matters", FACT in second),
        ("the second session is told how the first ended", "The last conversation (" in second),
        ("the second session is told what has no memory yet", "Not stored yet" in second and "Ines releases" in second),
        ("each injection has a receipt", {one["conversation"] for one in receipts} == {one["conversation"] for one in listed}),
    ]  # fmt: skip


def once(bench: Bench) -> list[tuple[str, bool]]:
    """Return what was to come of what else was said, by hooks and by an import, and whether it did."""
    client = CLIENTS[bench.client]
    folder = str(bench.home / client.sessions)
    bench.pgengram("import", folder, "--from", bench.client, store="other")
    again = bench.pgengram("import", folder, "--from", bench.client, store="other")
    found = []
    for who, store in (("hooks", "store"), ("an import", "other")):
        listed = bench.pgengram("conversations", "list", "--limit", "100", store=store)["conversations"]
        shown = [bench.pgengram("conversations", "show", one["conversation"], store=store)["turns"] for one in listed]
        said = [turn["text"] for turns in shown for turn in turns if turn["role"] == "user"]
        found += [
            (f"each prompt is kept once by {who}", all(said.count(text) == 1 for text in client.says)),
            (f"nobody is made to say what stands in a file by {who}", not any(CONTENTS in text for text in said)),
            (f"what was taken back is not kept by {who}", LEFT not in said),
        ]
    return [*found, ("a second import adds nothing", not any(again["added"].values()))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", choices=[*CLIENTS, []], default=[])
    parser.add_argument("--programs", help="folder with the clients' programs; else they are looked for in PATH")
    given = parser.parse_args()
    missed = 0
    for name in given.clients or CLIENTS:
        program = shutil.which(CLIENTS[name].program, path=given.programs)
        if program is None:
            print(f"\n{name}: not installed")
            continue
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        print(f"\n{name}: {version}", flush=True)
        for what, happened in run(name, str(Path(program).absolute())):
            missed += not happened
            print(f"  {'yes' if happened else 'NO '}  {what}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
