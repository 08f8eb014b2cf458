"""Which project a folder belongs to: worktrees and clones of one repository are one project, a submodule is its own.

Git is not run: what it would say is in a few small files, which are read in well under a millisecond.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePath, PureWindowsPath
from typing import Final

OFF: Final = "off"  # as a setting: no project
REMOTES: Final = ("origin", "upstream")  # before any other
MANIFESTS: Final = (
    "package.json", "pyproject.toml", "Cargo.toml", "go.mod", "pom.xml", "build.gradle", "build.gradle.kts",
    "composer.json", "Gemfile", "mix.exs", "Package.swift", "CMakeLists.txt",
)  # fmt: skip # each begins a part of a repository that holds several
LONGEST: Final = 256  # characters of a name
# A folder of Windows as its programs write it; some put a slash before the drive.
WINDOWS: Final = re.compile(r"/?([A-Za-z]:[/\\].*|\\\\.+)", re.DOTALL)
URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^@/]*@)?([^/:]*)(?::\d+)?/*(.*)", re.IGNORECASE)
HOST_AND_PATH: Final = re.compile(r"(?:[^@:/\\]+@)?([^:/\\]{2,}):(.*)")  # one letter is a drive
NOT_WORKED_IN: Final = frozenset({"appdata", "library"})  # below the home folder, where programs keep their own


@dataclass(frozen=True, slots=True)
class Project:
    """What a folder belongs to.

    Args:
        name: the project's, as memories have it.
        collection: the part of the repository that the folder is in, where it holds several.
    """

    name: str
    collection: str | None = None


@dataclass(frozen=True, slots=True)
class Sighting:
    """A project as a folder shows it.

    Args:
        parts: of its address or path, the last of which it is called by.
        keys: what it is known by: the addresses of its usual remotes, then where it lies. Whatever shares one is the
            same project.
        collection: as a project has it.
    """

    parts: tuple[str, ...]
    keys: tuple[str, ...]
    collection: str | None = None

    def names(self) -> Iterator[str]:
        """Yield what it may be called, the shortest first: `ark`, then `mara/ark` beside another `ark`."""
        for count in range(1, len(self.parts) + 1):
            yield " ".join("/".join(self.parts[-count:]).split())[-LONGEST:]


def project_of(folder: str, fixed: str = "") -> Project | None:
    """Return the project of a folder; None for one that is nobody's, such as the home folder.

    Args:
        folder: where an assistant works; it need not be there.
        fixed: the project whatever the folder is, or `off` for none.
    """
    if fixed:
        return None if fixed.lower() == OFF else Project(fixed[:LONGEST])
    seen = sighting_of(folder)
    return Project(next(seen.names()), seen.collection) if seen else None


def sighting_of(folder: str) -> Sighting | None:
    """Return the project that a folder shows, as `project_of` finds it."""
    windows = WINDOWS.fullmatch(folder)
    if windows and sys.platform != "win32":
        return _of_windows(PureWindowsPath(windows[1]))
    folder = windows[1] if windows else folder
    if not os.path.isabs(folder):
        return None
    here = Path(os.path.realpath(folder))
    nobodys = {*_shared_folders(), Path(here.anchor)}
    for top in takewhile(lambda one: one not in nobodys, (here, *here.parents)):
        common = _common_folder(top)
        if common is not None:
            return _of_repository(here, top, common)
    return None if here in nobodys else Sighting(_folder_parts(here), (_folder_identity(here),))


def is_worked_in(folder: str) -> bool:
    """Whether somebody works in a folder that a program was started in: in a repository, or among their own folders.

    Programs are started in system folders and in their own, too, which are not projects.
    """
    here, home = Path(os.path.realpath(folder)), Path(os.path.realpath(Path.home()))
    if any(_common_folder(top) for top in (here, *here.parents) if top not in (home, *home.parents)):
        return True
    if home == here or home not in here.parents:
        return False
    steps = here.relative_to(home).parts
    return steps[0].lower() not in NOT_WORKED_IN and not any(step.startswith(".") for step in steps)


def has_moved(key: str) -> bool:
    """Whether a key is a place where its project lies no more; never for a remote."""
    place, _, moment = key.rpartition("@")
    if not os.path.isabs(place):
        return False
    became_a_repository = os.path.exists(os.path.join(place, ".git"))
    return not os.path.isdir(place) or became_a_repository or moment != str(_cloned_at(place))


def _shared_folders() -> set[Path]:
    """Return the folders that hold projects and are none themselves."""
    home = Path(os.path.realpath(Path.home()))
    return {home, *home.parents, Path(os.path.realpath(tempfile.gettempdir()))}


def _of_windows(folder: PureWindowsPath) -> Sighting | None:
    """Return the project of a folder of another machine, by its name; None for a drive, a share and a home folder."""
    steps = folder.parts[1:]
    if not steps or (steps[0].lower() == "users" and len(steps) < 3):
        return None
    return Sighting(_folder_parts(folder), (folder.as_posix().lower(),))


def _common_folder(top: Path) -> Path | None:
    """Return the folder that all worktrees of a repository share, if `top` is the top of one, or a bare repository."""
    git = os.path.join(top, ".git")
    if os.path.isdir(git):
        return Path(git)
    if os.path.isfile(git):
        target = _first_line(git).removeprefix("gitdir:").strip()
        own = os.path.realpath(top / target)
        if not os.path.isdir(own) or own == str(top):
            return None
        shared = _first_line(os.path.join(own, "commondir"))
        return Path(os.path.realpath(os.path.join(own, shared)))
    is_bare = os.path.isfile(top / "HEAD") and all(os.path.isdir(top / one) for one in ("objects", "refs"))
    return top if is_bare else None


def _of_repository(here: Path, top: Path, common: Path) -> Sighting:
    # Without an address it is called by the folder: of the main worktree, of a submodule, or of a bare repository.
    folder = common.parent if common.name.startswith(".") else common
    addresses = [_address_parts(one, folder) for one in _remote_addresses(common / "config")]
    parts = next((one for one in addresses if one), _folder_parts(folder))
    keys = ["/".join(one).lower() for one in addresses if one]
    return Sighting(parts, (*dict.fromkeys(keys), _folder_identity(common)), _nearest_manifest(here, top))


def _nearest_manifest(here: Path, top: Path) -> str | None:
    """Return the path, from the top, of the nearest folder with a manifest of its own."""
    for folder in (here, *here.parents):
        if folder == top:
            return None
        if any(os.path.isfile(folder / name) for name in MANIFESTS):
            return folder.relative_to(top).as_posix()[:LONGEST]
    return None


def _remote_addresses(config: Path) -> list[str]:
    """Return the addresses of a repository's usual remotes, or of the first where there is none of these."""
    read = ConfigParser(strict=False, interpolation=None, allow_no_value=True, comment_prefixes=("#", ";"))
    try:
        lines = config.read_text(encoding="utf-8", errors="replace").splitlines()
        read.read_string("\n".join(line.strip() for line in lines))  # git indents; a parser takes that for more text
    except (OSError, ConfigError):
        return []
    urls = {
        found[1]: url
        for section in read.sections()
        if (found := re.fullmatch(r'remote "(.+)"', section)) and (url := read[section].get("url"))
    }
    return [urls[name] for name in REMOTES if name in urls] or [*urls.values()][:1]


def _address_parts(address: str, folder: Path) -> tuple[str, ...]:
    """Return host and path of an address: a URL, host:path, or any system's path, perhaps from the repository's folder.

    How it is reached, by whom and on which port doesn't count.
    """
    found = URL.fullmatch(address.strip()) or HOST_AND_PATH.fullmatch(address.strip())
    place = "/".join(found.groups()) if found else address.strip()
    if place.startswith("."):
        place = os.path.normpath(folder / place)
    parts = [part for part in re.split(r"[/\\:]", place) if part and part != ".git"]
    return (*parts[:-1], parts[-1].removesuffix(".git")) if parts else ()


def _folder_parts(folder: PurePath) -> tuple[str, ...]:
    return (*folder.parts[1:-1], folder.name.removesuffix(".git"))


def _folder_identity(folder: Path) -> str:
    """Return what a folder is known by as long as it is the same one: its path, and when it was cloned or made."""
    path = str(folder).lower() if sys.platform in ("win32", "darwin") else str(folder)
    return f"{path}@{_cloned_at(folder)}"


def _cloned_at(folder: str | Path) -> int:
    """Return when git made a folder, by the description that it writes once; 0 for others."""
    if not os.path.isfile(os.path.join(folder, "HEAD")):
        return 0
    try:
        return int(os.stat(os.path.join(folder, "description")).st_mtime)
    except OSError:
        return 0


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""
