"""Makes the template of a new server's data, which takes the place of initdb at a first start on Linux.

usage: python packaging/postgres/template.py

Writes `18.tar.xz` and `SHA256SUMS` into src/pgengram/postgres/template, from the PostgreSQL that the carrier package of
this environment brings. Run it where the system has the locale C.UTF-8, whenever the carrier's PostgreSQL, the options
for initdb or what is done to its databases has changed; a test says so.
"""

from __future__ import annotations

import hashlib
import lzma
import tarfile
import tempfile
from pathlib import Path

import psycopg

from pgengram.postgres import find_binaries, new_data, start_embedded
from pgengram.postgres.process_locks import CLUSTER
from pgengram.postgres.system import home_of

# What a server writes anew: its log, its statistics, caches of catalogs, and how it was last started.
LEFT_OUT = ("pg_wal/0*", "pg_stat/*", "base/*/pg_internal.init", "global/pg_internal.init", "postmaster.*")
EMPTIED = "pgengram.conf"


def main() -> None:
    """Make the data as a first start without a template does, and pack it."""
    new_data._template_fits = lambda _: False
    with tempfile.TemporaryDirectory() as made:
        data_dir = Path(made) / "data"
        Path(made).chmod(0o755)
        server = start_embedded(data_dir)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        server.stop()
        packed = _packed(home_of(data_dir) / CLUSTER)
    bki = find_binaries(18).bin.parent / "share" / "postgresql" / new_data.BKI
    (new_data.TEMPLATE / new_data.ARCHIVE).write_bytes(packed)
    sums = {new_data.ARCHIVE: packed, new_data.BKI: bki.read_bytes()}
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sums.items()]
    (new_data.TEMPLATE / "SHA256SUMS").write_text("".join(lines), encoding="ascii")


def _packed(cluster: Path) -> bytes:
    left_out = {path for pattern in LEFT_OUT for path in cluster.glob(pattern)}
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for path in sorted(cluster.rglob("*")):
                if path in left_out:
                    continue
                entry = tarfile.TarInfo(path.relative_to(cluster).as_posix())  # whose owner and time are nobody's
                if path.is_dir():
                    entry.type = tarfile.DIRTYPE
                    archive.addfile(entry)
                    continue
                with path.open("rb") as data:
                    entry.size = 0 if path.name == EMPTIED else path.stat().st_size
                    archive.addfile(entry, data)
        file.seek(0)
        return lzma.compress(file.read(), preset=9 | lzma.PRESET_EXTREME)


if __name__ == "__main__":
    main()
