"""Which project a folder belongs to: worktrees and clones of one repository are one project, a submodule is its own.

Git is not run: what it would say stands in a few small files, which are read in well under a millisecond.
"""

from __future__ import annotations

import os
import re
import tempfile
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OFF: Final = "off"  # as a setting: no project
REMOTES: Final = ("origin", "upstream")  # before any other
MANIFESTS: Final = (
    "package.json", "pyproject.toml", "Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts",
    "composer.json", "Gemfile", "mix.exs", "Package.swift", "CMakeLists.txt",
)  # fmt: skip # each begins a part of a repository that holds several
LONGEST: Final = 256  # characters of a name


@dataclass(frozen=True, slots=True)
class Project:
    """What a folder belongs to.

    Args:
        name: the project's, as memories have it.
        collection: the part of the repository that the folder is in, where it holds several.
    """

    name: str
    collection: str | None = None


def project_of(folder: str, fixed: str = "") -> Project | None:
    """Return the project of a folder; None for one that is nobody's, such as the home folder.

    Args:
        folder: where an assistant works; it need not be there.
        fixed: the project whatever the folder is, or `off` for none.
    """
    if fixed:
        return None if fixed.lower() == OFF else Project(fixed[:LONGEST])
    if not folder:
        return None
    here = Path(os.path.realpath(folder))
    for top in (here, *here.parents):
        if top in _nobodys() or top == Path(top.anchor):
            break
        common = _common_folder(top)
        if common is not None:
            return _of_repository(here, top, common)
    if here in _nobodys() or here == Path(here.anchor):
        return None
    return Project(here.name[:LONGEST])


def _nobodys() -> set[Path]:
    """Return the folders that hold projects and are none themselves."""
    return {Path(os.path.realpath(one)) for one in (Path.home(), tempfile.gettempdir())}


def _common_folder(top: Path) -> Path | None:
    """Return the folder that all worktrees of a repository share, if `top` is the top of one, or a bare repository."""
    git = top / ".git"
    if git.is_dir():
        return git
    if git.is_file():
        told = _first_line(git).removeprefix("gitdir:").strip()
        own = Path(os.path.realpath(top / told))
        if not own.is_dir():
            return None
        shared = _first_line(own / "commondir")
        return Path(os.path.realpath(own / shared)) if shared else own
    is_bare = (top / "HEAD").is_file() and (top / "objects").is_dir() and (top / "refs").is_dir()
    return top if is_bare else None


def _of_repository(here: Path, top: Path, common: Path) -> Project:
    address = _address(common / "config")
    named = _last_part(address) if address else ""
    # Without an address the folder's own name: of the main worktree, of a submodule, or of a bare repository.
    folder = common.parent.name if common.name == ".git" else common.name.removesuffix(".git")
    return Project((named or folder)[:LONGEST], _part(here, top))


def _part(here: Path, top: Path) -> str | None:
    """Return the path, from the top, of the nearest folder with a manifest of its own."""
    for folder in (here, *here.parents):
        if folder == top:
            return None
        if any((folder / name).is_file() for name in MANIFESTS):
            return folder.relative_to(top).as_posix()[:LONGEST]
    return None


def _address(config: Path) -> str:
    """Return the address of a repository's usual remote; empty for none."""
    read = ConfigParser(strict=False, interpolation=None, allow_no_value=True, comment_prefixes=("#", ";"))
    try:
        lines = config.read_text(encoding="utf-8", errors="replace").splitlines()
        read.read_string("\n".join(line.strip() for line in lines))  # git indents; a parser takes that for more text
    except (OSError, ConfigError):
        return ""
    urls = {
        found[1]: url
        for section in read.sections()
        if (found := re.fullmatch(r'remote "(.+)"', section)) and (url := read[section].get("url"))
    }
    return next((urls[name] for name in REMOTES if name in urls), next(iter(urls.values()), ""))


def _last_part(address: str) -> str:
    """Return what a repository is called at an address: a URL, host:path, or a path of any system."""
    parts = [part for part in re.split(r"[/\\:]", address.strip().rstrip("/\\")) if part]
    return parts[-1].removesuffix(".git") if parts else ""


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""
