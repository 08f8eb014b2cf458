"""Makes the data of a new server: from a template where that fits, else by PostgreSQL's initdb, which takes longer."""

from __future__ import annotations

import secrets
import struct
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from pgengram.postgres import process_locks, system
from pgengram.postgres.binaries import Binaries, require_hash, sums_of
from pgengram.runtime.operating_system import remove_tree, rename, sha256_of

USER = DATABASE = "pgengram"
TEMPLATE = Path(__file__).with_name("template")  # made by packaging/postgres/template.py, see SOURCE.md there
CTYPES = ("en-US", "C") if sys.platform == "win32" else ("C.UTF-8", "en_US.UTF-8", "C")
BUILTIN_LOCALES = 17  # the first version with locales of its own
# Segments of the log have 16 MB otherwise, and initdb leaves 8 MB of used ones; the server itself uses them again.
SMALL = ("--wal-segsize=1", "--set=min_wal_size=2MB", "--set=wal_recycle=off")
UNPACK = Path(__file__).with_name("unpack.py")
ARCHIVE = "18.tar.xz"
BKI = "postgres.bki"
CONTROL = "global/pg_control"
SYNC = ("--sync-only", "--sync-method=syncfs")  # one call in place of a thousand, which slow disks feel
CRC_32C = 0x82F63B78  # the reflected polynomial of Castagnoli


def make_data(home: Path, programs: Binaries, uid: int | None, keep: Sequence[int]) -> None:
    """Make the data folder beside its final place, so that it is there as a whole or not at all.

    Args:
        home: of the server.
        programs: the PostgreSQL that is to run on it.
        uid: the user that is to run it, None for our own.
        keep: file descriptors that the programs inherit.

    Raises:
        NotReady: PostgreSQL cannot make it, with its own words.
    """
    draft = home / "cluster.new"
    if draft.exists():
        remove_tree(draft)  # an earlier attempt was interrupted; its processes have gone, we hold their lock
    draft.mkdir(mode=0o700)
    try:
        fill = _copy_template if _template_fits(programs) else _initialise
        fill(home, draft, programs, uid, keep)
    except BaseException:
        remove_tree(draft)
        raise
    rename(draft, home / process_locks.CLUSTER)


def _template_fits(programs: Binaries) -> bool:
    """Tell whether this PostgreSQL would make the very data that the template holds.

    Its catalogs come from `postgres.bki`. The databases in the template name the system's locale C.UTF-8, which nearly
    every Linux has, and Windows and macOS have not.
    """
    source = programs.bin.parent / "share" / "postgresql" / BKI
    return (
        sys.platform == "linux"
        and Path(programs.program("pg_resetwal")).exists()  # copies of older releases have none
        and sha256_of(source) == sums_of(TEMPLATE)[BKI]
        and _has_utf8()
        and find_spec("_lzma") is not None  # some builds of Python go without
    )


def _has_utf8() -> bool:
    import ctypes

    c = ctypes.CDLL(None)
    c.newlocale.restype = ctypes.c_void_p
    c.newlocale.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p]
    return c.newlocale(1, b"C.UTF-8", None) is not None  # 1: the mask of LC_CTYPE, in glibc and musl


def _copy_template(home: Path, draft: Path, programs: Binaries, uid: int | None, keep: Sequence[int]) -> None:
    """Unpack the template, give it an identity of its own and an empty log, and wait until the disk has it."""
    packed = TEMPLATE / ARCHIVE
    require_hash(packed, sums_of(TEMPLATE)[ARCHIVE])
    _do(home, [sys.executable, "-I", "-S", str(UNPACK), str(packed), str(draft)], cwd=Path(home.anchor), keep=keep)
    control = draft / CONTROL
    control.write_bytes(renamed(control.read_bytes()))
    if uid is not None:
        system.give(draft, uid)
    folder = system.folder_argument(draft, uid)
    for name, options in (("pg_resetwal", ()), ("initdb", SYNC)):
        _do(home, [programs.program(name), *options, "-D", folder], cwd=draft, uid=uid, keep=keep)


def _do(home: Path, command: list[str], *, cwd: Path, keep: Sequence[int], uid: int | None = None) -> None:
    code, said = system.run_program(command, cwd=cwd, uid=uid, keep=keep)
    if code != 0:
        raise system.failed(home, "PostgreSQL's data folder could not be made.", system.tail(said))


def renamed(control: bytes) -> bytes:
    """Return a file pg_control with a system identifier of its own, by which PostgreSQL tells stores' data apart.

    The identifier is its first eight bytes. A CRC-32C of all that stands before it ends what is used of the file.
    """
    used = next(end for end, crc in _crcs(control) if control[end : end + 4] == crc)
    new = secrets.token_bytes(8) + control[8:used]
    crc = [crc for _, crc in _crcs(new)][-1]
    return new + crc + control[used + 4 :]


def _crcs(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield for each length of a beginning of `data` its CRC-32C as PostgreSQL writes it."""
    crc = 0xFFFFFFFF
    for end, byte in enumerate(data, 1):
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CRC_32C if crc & 1 else 0)
        yield end, struct.pack("<I", crc ^ 0xFFFFFFFF)


def _initialise(home: Path, draft: Path, programs: Binaries, uid: int | None, keep: Sequence[int]) -> None:
    maker = system.maker(uid)
    if maker is not None:
        system.give(draft, maker)
    _initdb(home, draft, programs, maker, keep)
    with (draft / "postgresql.conf").open("a", encoding="utf-8") as file:
        file.write("\ninclude 'pgengram.conf'\n")
    (draft / "pgengram.conf").touch(mode=0o600)
    if uid is not None:
        system.give(draft, uid)


def _initdb(home: Path, draft: Path, programs: Binaries, maker: int | None, keep: Sequence[int]) -> None:
    command = [programs.program("initdb"), "-D", system.folder_argument(draft, maker), f"--username={USER}"]
    command += ["--no-instructions", "--data-checksums", "--encoding=UTF8", "--locale=C", *SMALL]
    if programs.major >= BUILTIN_LOCALES:
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if sys.platform == "win32":
        command += ["--auth=scram-sha-256", f"--pwfile={_new_password(home)}"]
    else:
        command += ["--auth-local=trust", "--auth-host=reject"]  # nobody else can enter the socket's folder
    cwd = Path(home.anchor) if sys.platform == "win32" else draft  # Windows renames no folder that somebody is in
    said = ""
    for ctype in CTYPES:  # full text search cuts words by it, and not every system has the good one
        code, said = system.run_program([*command, f"--lc-ctype={ctype}"], cwd=cwd, uid=maker, keep=keep)
        if code == 0:
            return
    raise system.failed(home, "PostgreSQL could not make its data folder.", system.tail(said))


def _new_password(home: Path) -> Path:
    secret = home / "password"
    secret.touch(mode=0o600)
    system.protect(secret)
    secret.write_text(secrets.token_urlsafe(32), encoding="ascii")
    return secret
