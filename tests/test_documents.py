"""What the documents tell people to type can be typed, and gives what they show."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from helpers import PATIENCE_S, environment
from machine import closed_in_the_end, kept_running
from pgengram.cli.app import app

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial" / "first-memories.md"
PAGES = sorted([
    ROOT / "README.md", ROOT / ".github" / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "integrations").rglob("*.md"),
])  # fmt: skip
PROMISES = [ROOT / "docs" / "security.md", ROOT / "docs" / "reliability.md"]
SHOWN_BY = re.compile(
    r"\]\(\.\./(tests/[^)]+\.py)\)|(?<!\*)\*([^*|]+)\*"
)  # a link to a file of tests, or the name of one of them
UsageError = typer.BadParameter.__mro__[1]
# What is typed beside our own commands; each page that needs another program says where it comes from.
OTHERS = {
    ".", "bash", "cd", "claude", "createdb", "createuser", "curl", "docker", "export", "git", "lint-imports", "mypy", "npx", "openssl",
    "pip", "psql", "pytest", "ruff", "sudo", "systemctl", "set", "runuser", "systemd-analyze", "useradd", "groupadd", "install", "journalctl", "mkdir", "chown", "cp", "launchctl", "tar", "uv", "uvx", "which",
}  # fmt: skip
NOT_THERE = re.compile(r"does not exist")  # files of the reader's


def lines(page: Path) -> Iterator[str]:
    """Yield the lines of every block for a shell, those that go on joined, and the help's own examples."""
    for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield line.strip()


def commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line, without the variables before it and what comes after a redirection."""
    words = shlex.split(re.sub(r";(\s)", r" ;\1", line), comments=True)
    found: list[str] = []
    for word in [*words, ";"]:
        if word in (";", "&&", "||", "|", ">", ">>", "<"):
            while found and re.fullmatch(r"[A-Z_]+=.*", found[0]):
                found = found[1:]
            if found and word != "<":
                yield found
            found = []
        else:
            found.append(word)


def check_ours(words: list[str]) -> None:
    """Have the command line's own parser read what stands after `pgengram`."""
    shown = typer.main.get_command(app)
    path = ["pgengram"]
    words = words[2:] if words[:1] == ["--space"] else words  # it stands before any command
    while words and hasattr(shown, "commands") and not words[0].startswith("-"):
        assert words[0] in shown.commands, f"there is no {' '.join([*path, words[0]])}"
        shown = shown.commands[words[0]]
        path.append(words[0])
        words = words[1:]
    if words and words[-1] == "&":
        words = words[:-1]
    if hasattr(shown, "commands"):
        assert {*words} <= {"--version", "--help", "--install-completion"}
        return
    try:
        shown.make_context(" ".join(path), [*words])  # reads the words, and calls nothing
    except UsageError as error:  # type: ignore[misc]
        if not NOT_THERE.search(str(error)):
            raise AssertionError(f"{' '.join([*path, *words])}: {error}") from None


def check_script(words: list[str]) -> None:
    """Have a script of this project be there, with the options that are named."""
    if words[0] in ("-m", "-c"):
        return
    script = ROOT / words[0]
    assert script.exists(), f"there is no {words[0]}"
    text = script.read_text(encoding="utf-8")
    if "ArgumentParser" not in text:  # it hands its words on
        return
    for option in (word for word in words[1:] if word.startswith("--")):
        assert f'"{option}"' in text, f"{words[0]} has no {option}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if [*lines(page)]], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_command_of_every_page_can_be_typed(page: Path) -> None:
    for line in lines(page):
        for program, *words in commands(line):
            name = program.rpartition("/")[2]
            if name == "pgengram":
                check_ours(words)
            elif name.startswith("python"):
                check_script(words)
            else:
                ours = [place for place, word in enumerate(words) if word.rpartition("/")[2] == "pgengram"]
                if ours and (name in ("runuser", "sudo") or words[0] in ("run", "exec")):
                    check_ours(words[ours[-1] + 1 :])
                assert name in OTHERS, f"{page.name}: {program}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with closed_in_the_end(tmp_path_factory.mktemp("tutorial")) as made:
        yield made


def alike(printed: str, ids: dict[str, str]) -> str:
    """Return what a command printed, without what differs from run to run; `ids` are the page's, by those of the run."""
    for real, shown in ids.items():
        printed = printed.replace(real, shown)
    for pattern, instead in (
        (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID"),
        (r"\d{1,2} [A-Z][a-z]{2} \d{4}, \d\d:\d\d", "DATE"),
        (r"just now|\d+ \w+ ago", "AGO"),
        (r"\b\d\.\d\d\b", "NUMBER"),  # of a model's, which differs a little between processors
    ):
        printed = re.sub(pattern, instead, printed)
    return "\n".join(line.rstrip() for line in printed.strip().splitlines())


def test_the_tutorial_prints_what_it_shows_word_by_word(folder: Path) -> None:
    answer = TUTORIAL.read_text(encoding="utf-8").partition("<!-- tutorial -->")[2].partition("<!-- /tutorial -->")[0]
    blocks = "".join(re.findall(r"^```console\n(.*?)^```$", answer, re.MULTILINE | re.DOTALL))
    steps = re.findall(r"^\$ pgengram (.*)\n((?:(?!\$ ).*\n)*)", blocks, re.MULTILINE)
    ids: dict[str, str] = {}

    assert len(steps) == 10
    with kept_running(folder):
        for words, shown in steps:
            for real, told in ids.items():
                words = words.replace(told, real)
            ended = subprocess.run(
                [sys.executable, "-m", "pgengram", *shlex.split(words)],
                env=environment(data_dir=str(folder)) | {"COLUMNS": "80"}, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, encoding="utf-8", timeout=PATIENCE_S, check=False,
            )  # fmt: skip
            assert ended.returncode == 0, ended.stderr
            if told := re.match(r"Remembered\. (\w{8})$", shown, re.MULTILINE):
                ids[ended.stdout.split()[1]] = told[1]
            assert alike(ended.stdout, ids) == alike(shown, {}), words


@pytest.mark.parametrize("page", PROMISES, ids=lambda page: page.name)
def test_each_test_that_shows_a_promise_is_there(page: Path) -> None:
    named: list[tuple[Path, str]] = []
    for cell in re.split(r"[|\n]", page.read_text(encoding="utf-8")):
        file = None
        for path, name in SHOWN_BY.findall(cell):
            file = ROOT / path if path else file
            named += [(file, re.sub(r"\W+", "_", name))] if name and file else []

    assert named
    assert [name for file, name in named if f"def test_{name}" not in file.read_text(encoding="utf-8")] == []
