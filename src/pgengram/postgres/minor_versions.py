"""How old a PostgreSQL is: each minor release repairs what is known to be wrong with the ones before, security
included.

What has been released is in `newest_minors.json`, as no program of a user's asks the network for it; the maintainers'
`packaging/postgres/minors.py` keeps that up.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Final

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
