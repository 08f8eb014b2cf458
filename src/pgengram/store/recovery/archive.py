"""The file that a backup is: a tar of two files, `manifest.json`, which says what must come back, and `database.dump` in
pg_dump's custom format, which pg_restore understands without us.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Annotated, Final

from pydantic import ConfigDict, Field, NonNegativeInt, TypeAdapter
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from pgengram.errors import InvalidInput
from pgengram.runtime.system.files import rename

FORMAT: Final = 1
MANIFEST, DUMP = "manifest.json", "database.dump"
MOST_MANIFEST_BYTES: Final = 1 << 20
CHUNK: Final = 1 << 20
NOT_ONE: Final = "Give the path of a file that `pgengram backup` has written. Nothing was changed."


class Print(TypedDict):
    """How many rows a table has, and a hash over all of them, whatever their order."""

    rows: NonNegativeInt
    sha256: str


Tables = dict[str, Print]


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Manifest:
    """What a backup holds.

    schema: the version of the tables; postgres: of the server, as in 18.4; tables: what each table holds.
    dump_sha256, dump_bytes: of the dump inside the backup.
    """

    format: int
    pgengram: str
    schema: str
    postgres: Annotated[str, Field(pattern=r"^\d{1,4}(\.|$)")]
    made_at: str
    dump_sha256: str
    dump_bytes: int
    tables: Tables

    @property
    def memories(self) -> int:
        """How many memories it holds, forgotten ones too."""
        return self.tables["memories"]["rows"] if "memories" in self.tables else 0


_SHAPE: Final = TypeAdapter(Manifest)


def read_manifest(path: Path) -> Manifest:
    """Return what a backup holds, after every byte of it was compared with its hash.

    Raises:
        InvalidInput: it is damaged or not a backup.
    """
    with opened(path) as (manifest, dump):
        digest = hashlib.sha256()
        while chunk := dump.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != manifest.dump_sha256:
        raise InvalidInput(f"{path} is damaged: the dump doesn't match its hash.", "Nothing was changed.")
    return manifest


@contextmanager
def opened(path: Path) -> Iterator[tuple[Manifest, IO[bytes]]]:
    """Yield what a backup says of itself, and its dump."""
    try:
        with tarfile.open(path, mode="r:") as packed:
            about, dump = (packed.extractfile(packed.getmember(name)) for name in (MANIFEST, DUMP))
            if about is None or dump is None:
                raise InvalidInput(f"{path} is not a backup.", NOT_ONE)
            text = about.read(MOST_MANIFEST_BYTES)
            said = json.loads(text)
            if isinstance(said, dict) and said.get("format") != FORMAT:
                raise InvalidInput(f"{path} has a format that this version doesn't know.", NOT_ONE)
            yield _SHAPE.validate_json(text), dump
    except FileNotFoundError as error:
        raise InvalidInput(f"There is no file {path}.", NOT_ONE) from error
    except (tarfile.TarError, KeyError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is damaged or not a backup.", NOT_ONE) from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read and unpacked: {error.strerror}.", NOT_ONE) from error


@contextmanager
def draft_archive(path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the paths of a draft and of its dump; the draft takes its name when it is complete and on the disk.

    Raises:
        InvalidInput: the file cannot be written.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InvalidInput(f"{path} cannot be written.", "Give the path of a file in a folder that exists.")
    draft, dump = (path.with_name(f"{path.name}.{word}") for word in ("unfinished", "dump"))
    try:
        for one in (draft, dump):
            one.unlink(missing_ok=True)
            os.close(os.open(one, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        yield draft, dump
        rename(draft, path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}.", "Give another path.") from error
    finally:
        for one in (draft, dump):
            one.unlink(missing_ok=True)


def pack(draft: Path, manifest: Manifest, dump: Path) -> None:
    """Write the tar, down to the disk."""
    text = json.dumps(asdict(manifest), indent=2).encode() + b"\n"
    with draft.open("wb") as file:
        with tarfile.open(fileobj=file, mode="w") as packed:
            entry = tarfile.TarInfo(MANIFEST)
            entry.size, entry.mode = len(text), 0o600
            packed.addfile(entry, io.BytesIO(text))
            packed.add(dump, arcname=DUMP, filter=_without_owner)
        file.flush()
        os.fsync(file.fileno())


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
