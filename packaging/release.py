"""A release: its version and its repository in every file that names them, and its notes from the changelog.

    python packaging/release.py name OWNER/REPOSITORY   write the repository's name everywhere
    python packaging/release.py prepare VERSION         write the version everywhere, and date its section in CHANGELOG.md
    python packaging/release.py check TAG               fail unless TAG names the version that all files have
    python packaging/release.py notes                   print the section of CHANGELOG.md about the version

The version stands in `src/pgengram/__init__.py`, from where the build takes it, and the repository in pyproject.toml; this writes the others.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CHANGELOG: Final = ROOT / "CHANGELOG.md"
VERSION: Final = r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?"
REPOSITORY: Final = r"[\w-]+/[\w.-]+"
# Where a version stands: the only group of the expression is the version.
VERSIONS: Final = {
    "src/pgengram/__init__.py": rf'__version__ = "({VERSION})"',
    "server.json": rf'"version": "({VERSION})"',
    "integrations/mcpb/manifest.json": rf'(?:"version": "|"pgengram==)({VERSION})"',
    "integrations/mcpb/pyproject.toml": rf'(?:^version = "|"pgengram==)({VERSION})"',
    "integrations/claude-code/.claude-plugin/plugin.json": rf'"version": "({VERSION})"',
}
# Where the repository stands, as OWNER/REPOSITORY.
REPOSITORIES: Final = {
    "pyproject.toml": rf'= "https://github\.com/({REPOSITORY}?)(?:/[^"]*)?"',
    "server.json": rf'"(?:name|url)": "(?:io\.github\.|https://github\.com/)({REPOSITORY})"',
    "README.md": rf"<!-- mcp-name: io\.github\.({REPOSITORY}) -->",
    "Dockerfile": rf'io\.modelcontextprotocol\.server\.name="io\.github\.({REPOSITORY})"',
}


def version() -> str:
    """Return the version of this checkout."""
    return found("src/pgengram/__init__.py", VERSIONS["src/pgengram/__init__.py"])[0]


def repository() -> str:
    """Return the name of the repository, from pyproject.toml."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    return str(urls["Repository"]).removeprefix("https://github.com/")


def found(file: str, pattern: str) -> list[str]:
    """Return what stands in a file at each place that a pattern names.

    Raises:
        ValueError: there is none.
    """
    if not (all_ := re.findall(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)):
        raise ValueError(f"{file} has nothing like {pattern}.")
    return all_


def write(places: dict[str, str], new: str) -> None:
    """Write one value at every place."""
    for file, pattern in places.items():
        path = ROOT / file
        replaced = re.sub(pattern, _with(new), path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        path.write_text(replaced, encoding="utf-8")


def _with(new: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match[0].replace(match[1], new)


def differing() -> list[str]:
    """Return which files name another version or another repository than this checkout has."""
    wanted = ((VERSIONS, version()), (REPOSITORIES, repository()))
    return sorted(
        {file for places, value in wanted for file, pattern in places.items() if {*found(file, pattern)} != {value}}
    )


def notes(of: str, changelog: str) -> str:
    """Return the section about a version, without its heading.

    Raises:
        ValueError: there is none.
    """
    section = re.search(rf"^## \[{re.escape(of)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if section is None:
        raise ValueError(f"CHANGELOG.md has no section [{of}]. Run: python packaging/release.py prepare {of}")
    return section[1].strip() + "\n"


def dated(changelog: str, of: str, day: str) -> str:
    """Return the changelog with what is unreleased under a version and its day, and an empty section above."""
    if f"## [{of}]" in changelog:
        return changelog
    return changelog.replace("## [Unreleased]\n", f"## [Unreleased]\n\n## [{of}] - {day}\n", 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, argument in (("name", "repository"), ("prepare", "version"), ("check", "tag"), ("notes", "")):
        added = commands.add_parser(command)
        if argument:
            added.add_argument(argument)
    given = parser.parse_args()
    if given.command == "name":
        if not re.fullmatch(REPOSITORY, given.repository):
            parser.error(f"{given.repository} is not OWNER/REPOSITORY")
        write(REPOSITORIES, given.repository)
    elif given.command == "prepare":
        if not re.fullmatch(VERSION, given.version):
            parser.error(f"{given.version} is not a version such as 0.2.0 or 1.0.0rc1")
        write(VERSIONS, given.version)
        day = datetime.now(UTC).date().isoformat()
        CHANGELOG.write_text(dated(CHANGELOG.read_text(encoding="utf-8"), given.version, day), encoding="utf-8")
    elif given.command == "check":
        if wrong := differing():
            sys.exit(f"Not the version {version()} or not the repository {repository()}: {', '.join(wrong)}")
        if given.tag != f"v{version()}":
            sys.exit(f"The tag is {given.tag}, the version {version()}.")
        notes(version(), CHANGELOG.read_text(encoding="utf-8"))
    else:
        print(notes(version(), CHANGELOG.read_text(encoding="utf-8")), end="")


if __name__ == "__main__":
    main()
