"""How old a PostgreSQL is: what `pgengram doctor` and CI say of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from helpers import Database
from machine import answered, pgengram
from pgengram.postgres import binaries
from pgengram.postgres.binaries import find_binaries

SCRIPT = Path(__file__).parents[2] / "packaging" / "postgres" / "minors.py"


def test_a_server_lacks_the_newest_release_of_its_own_major_version_only() -> None:
    for major, newest in binaries.newest_releases().items():
        minor = int(newest.version.partition(".")[2])
        assert newest.version.startswith(f"{major}.")
        assert binaries.missing_release(f"{major}.{minor - 1}") == newest
        assert binaries.missing_release(f"{major}.{minor - 1} (Debian {major}.{minor}-1)") == newest
        assert binaries.missing_release(newest.version) is None
        assert binaries.missing_release(f"{major}.{minor + 9}") is None
    assert binaries.missing_release("19beta2") is None
    assert {*binaries.newest_releases()} == {15, 16, 17, 18}
    assert all(one.released <= binaries.looked_up() for one in binaries.newest_releases().values())


def test_the_doctor_says_how_old_the_server_is_and_what_to_do(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(version,)] = database.as_login("SHOW server_version")
    found = {one["what"]: one for one in answered("doctor", "--json", database_url=database.url, embedder="none:")}

    fixes = found["Fixes"]
    assert fixes["ok"]
    assert f"PostgreSQL {version.split()[0]}" in fixes["seen"]
    assert ("lacks the fixes" in fixes["seen"]) == bool(fixes["repair"]) == bool(binaries.missing_release(version))
    mark = "!" if fixes["repair"] else "✓"
    assert f"{mark} Fixes" in pgengram("doctor", database_url=database.url, embedder="none:").stdout


def compared(answer: list[dict[str, object]], tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the maintainers' check with a list as PostgreSQL publishes it."""
    file = tmp_path / "versions.json"
    file.write_text(json.dumps(answer))
    return subprocess.run([sys.executable, str(SCRIPT), file.as_uri()], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})  # fmt: skip


def test_ci_warns_of_an_old_server_and_fails_where_the_list_is_out_of_date(tmp_path: Path) -> None:
    published = [
        {
            "major": str(major),
            "latestMinor": one.version.partition(".")[2],
            "relDate": str(one.released),
            "supported": True,
        }
        for major, one in binaries.newest_releases().items()
    ]
    published.append({"major": "9.6", "latestMinor": "24", "relDate": "2021-11-11", "supported": False})
    up_to_date = compared(published, tmp_path, GITHUB_ACTIONS="true")
    published[3] |= {"latestMinor": "99", "relDate": str(date(2027, 2, 11))}
    out_of_date = compared(published, tmp_path)

    assert (up_to_date.returncode, out_of_date.returncode) == (0, 1), up_to_date.stderr + out_of_date.stderr
    assert "lacks 18.99" in out_of_date.stdout
    carried = find_binaries(18).version
    assert binaries.said(carried) in up_to_date.stdout
    assert ("::warning::" in up_to_date.stdout) == (binaries.missing_release(carried) is not None)
