"""A new server's data comes from a template where that is what initdb would make, and from initdb elsewhere."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from server_users import put_out

from pgengram.errors import NotReady
from pgengram.postgres import find_binaries, new_data, start_embedded
from pgengram.postgres.process_locks import CLUSTER
from pgengram.postgres.system import home_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere initdb makes all data")

# What PostgreSQL counts, measures or draws; all else of a control file says what the data is like.
# The sign of `char` is that of x86-64 in the template; PostgreSQL goes by the control file, as after pg_upgrade from
# such a machine.
OF_ITS_OWN = (
    "identifier", "modified", "checkpoint", "Latest", "nonce", "timeline", "Minimum", "Backup", "Fake",
    *(() if platform.machine() == "x86_64" else ("Default char data signedness",)),
)  # fmt: skip
CATALOGS = "SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' ORDER BY 1"
COUNTED = ("pg_statistic", "pg_class", "pg_database", "pg_collation")  # pages and rows, or what this system has
PARTS = {
    "pg_class": "relname, relkind, relnatts, relpersistence, relacl",
    "pg_database": "datname, encoding, datlocprovider, datistemplate, datcollate, datctype, datlocale, datcollversion",
    "pg_collation": "collname, collprovider, collcollate, collctype, colllocale",
}
# The bytes of a constant in a stored expression. A processor whose `char` has a sign writes 255 as -1; both are read as
# the same byte.
BYTES = re.compile(r"(?<=constvalue )\d+ \[[-\d ]+\]")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Path]:
    """A second data folder."""
    yield tmp_path / "other"
    put_out(tmp_path / "other")


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the template, which is used in its place."""
    copy = tmp_path / "template"
    shutil.copytree(new_data.TEMPLATE, copy)
    monkeypatch.setattr(new_data, "TEMPLATE", copy)
    return copy


def control(data_dir: Path) -> dict[str, str]:
    """Return what pg_controldata says of a data folder."""
    command = [find_binaries(18).program("pg_controldata"), str(home_of(data_dir) / CLUSTER)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^([^:]+):\s*(.*)$", said, re.MULTILINE))


def without_signs(constant: re.Match[str]) -> str:
    return re.sub(r"-\d+", lambda byte: str(int(byte[0]) + 256), constant[0])


def catalogs(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of every catalog of a database, in an order of their own."""
    found = {}
    with psycopg.connect(url) as connection:
        for (name,) in connection.execute(CATALOGS).fetchall():
            if name in COUNTED and name not in PARTS:
                continue
            query = f"SELECT ({PARTS.get(name, 'r')})::text FROM pg_catalog.{name} r ORDER BY 1"
            rows = connection.execute(query.replace("(r)", "r").encode()).fetchall()
            found[name] = [(BYTES.sub(without_signs, row),) for (row,) in rows]
        found["settings"] = connection.execute(
            "SELECT name, setting FROM pg_settings WHERE source <> 'override' AND name !~ 'path|director|file' ORDER BY 1"
        ).fetchall()
    return found


def test_the_template_holds_what_initdb_makes(folder: Path, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = start_embedded(folder)
    monkeypatch.setattr(new_data, "_template_fits", lambda _: False)
    made = start_embedded(other)

    assert catalogs(copied.url) == catalogs(made.url)

    copied.stop()
    made.stop()
    alike = [
        {name: value for name, value in control(one).items() if not any(word in name for word in OF_ITS_OWN)}
        for one in (folder, other)
    ]
    assert alike[0] == alike[1]
    assert alike[0]["Data page checksum version"] == "1"
    rules = [(home_of(one) / CLUSTER / "pg_hba.conf").read_text() for one in (folder, other)]
    assert rules[0] == rules[1]


def test_each_store_has_an_identifier_of_its_own_and_whole_pages(folder: Path, other: Path) -> None:
    for one in (folder, other):
        start_embedded(one).stop()

    names = [control(one)["Database system identifier"] for one in (folder, other)]
    check = [find_binaries(18).program("pg_checksums"), "--check", "-D", str(home_of(folder) / CLUSTER)]

    assert names[0] != names[1]
    subprocess.run(check, check=True, capture_output=True)


def test_a_damaged_template_is_refused_and_leaves_no_data(folder: Path, template: Path) -> None:
    packed = (template / new_data.ARCHIVE).read_bytes()
    (template / new_data.ARCHIVE).write_bytes(packed[:-1])

    with pytest.raises(NotReady, match="is damaged") as refused:
        start_embedded(folder)

    assert "Install pgengram again" in refused.value.hint
    assert not (home_of(folder) / CLUSTER).exists()


def test_data_for_another_postgresql_is_made_by_its_initdb(folder: Path, template: Path) -> None:
    sums = template / "SHA256SUMS"
    sums.write_text(re.sub(r"\S+(?=  postgres\.bki)", "0" * 64, sums.read_text()))
    (template / new_data.ARCHIVE).unlink()

    server = start_embedded(folder)

    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("pgengram",)
    server.stop()
