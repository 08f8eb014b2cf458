"""Says how old the PostgreSQL is that pgengram brings along, and keeps the list of newest minor releases.

usage: python packaging/postgres/minors.py            compare the carried servers with the list
       python packaging/postgres/minors.py URL        compare the list with what PostgreSQL's makers publish there, too;
                                                      with --write, write it anew

URL answers as https://www.postgresql.org/versions.json does. Ends with 1 where the list is out of date: then write it anew,
and look whether the package that carries PostgreSQL has a release with the new minor (decision 10 says when to change it).
That a carried server is old does not end with 1, since no change here could mend it; it is printed, as a warning of the
workflow where GitHub runs it.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from datetime import date
from typing import Any

from pgengram.errors import NotReady
from pgengram.postgres import binaries
from pgengram.postgres.binaries import INSTALLS, find_binaries


def carried() -> list[str]:
    """Return the versions of the servers that this installation brings along."""
    found = []
    for major in INSTALLS:
        try:
            found.append(find_binaries(major).version)
        except NotReady:
            continue
    return found


def published(answer: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the newest minor of each major version that we support, from PostgreSQL's own list."""
    return {
        str(one["major"]): {"version": f"{one['major']}.{one['latestMinor']}", "released": one["relDate"]}
        for one in sorted(answer, key=lambda one: int(float(one["major"])))
        if one["supported"] and float(one["major"]) >= min(binaries.newest_releases())
    }


def main(*arguments: str) -> int:
    """Print how old each carried server is, and whether the list is."""
    for version in carried():
        mark = "::warning::" if binaries.missing_release(version) and "GITHUB_ACTIONS" in os.environ else ""
        print(f"{mark}carried: {binaries.said(version)}")
    urls = [one for one in arguments if not one.startswith("--")]
    if not urls:
        return 0
    with urllib.request.urlopen(urls[0], timeout=60) as response:
        there = published(json.load(response))
    ours = json.loads(binaries.FILE.read_text(encoding="ascii"))["minors"]
    here = {major: one["version"] for major, one in ours.items()}
    newer = {major: one["version"] for major, one in there.items() if here.get(major) != one["version"]}
    if "--write" in arguments:
        lines = ",\n".join(f'    "{major}": {json.dumps(one)}' for major, one in there.items())
        text = f'{{\n  "looked_up": "{date.today()}",\n  "minors": {{\n{lines}\n  }}\n}}\n'
        binaries.FILE.write_text(text, encoding="ascii")
        return 0
    print(f"list: {'lacks ' + ', '.join(newer.values()) if newer else 'up to date'}")
    return int(bool(newer))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
