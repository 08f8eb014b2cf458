"""Finds and runs PostgreSQL's own pg_dump, pg_restore and psql, wherever they are installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgengram.errors import NotReady
from pgengram.postgres.binaries import INSTALLS, Binaries, find_binaries
from pgengram.postgres.process_locks import NO_WINDOW
from pgengram.runtime.operating_system import UNREADABLE, for_c_programs

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
    """Write the database into a new file in pg_dump's custom format, as the exported snapshot sees it; `options` are
    more of pg_dump's.

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
