"""Files in a folder of a machine that is reached by the `ssh` program; it needs nothing but a shell and tar."""

from __future__ import annotations

import hashlib
import io
import shlex
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from pgengram.sync.folder import NAME
from pgengram.sync.keys import Key
from pgengram.sync.mirror import Files
from pgengram.sync.remotes import IDLE_PAUSES, run_program, with_bytes

AT_ONCE: Final = 50  # files that one call brings
LIST: Final = (
    "cd {folder} 2>/dev/null || exit 0; sha256sum */*.sync 2>/dev/null || shasum -a 256 */*.sync 2>/dev/null; true"
)
GET: Final = "cd {folder} && tar -cf - {names} 2>/dev/null; true"
PUT: Final = (
    "mkdir -p {device} && cd {device} && mkdir .part.$$ && tar -xf - -C .part.$$ && mv .part.$$/* . && rmdir .part.$$"
)
DROP: Final = "cd {folder} && rm -f {names}"


class SSHRemote:
    """Brings files to and from a folder by the `ssh` program, which knows how to sign in there.

    Args:
        address: `ssh://[USER@]HOST[:PORT]/FOLDER`; a folder that begins with `~/` is in the user's home.
        key: of the memory.
        _token, _mirror: unused; ssh has keys of its own, and nothing is kept.
    """

    idle_pauses = IDLE_PAUSES

    def __init__(self, address: str, key: Key, _token: str | None, _mirror: Path) -> None:
        parts = urlsplit(address)
        port = ["-p", str(parts.port)] if parts.port else []
        host = f"{parts.username}@{parts.hostname}" if parts.username else str(parts.hostname)
        self._command = ["ssh", "-o", "BatchMode=yes", *port, "--", host]
        self._folder = PurePosixPath(unquote(parts.path).removeprefix("/~/")) / NAME / key.folder_name

    def digest(self, data: bytes) -> str:
        """Return the SHA-256 of a file's bytes."""
        return hashlib.sha256(data).hexdigest()

    def list_files(self) -> Files:
        """Return which files there are; see `Remote`."""
        lines = (line.split(maxsplit=1) for line in self._run(LIST).decode(errors="replace").splitlines())
        return {name.lstrip("*"): digest for digest, name in lines}

    def get(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield files; see `Remote`."""
        for start in range(0, len(names), AT_ONCE):
            packed = io.BytesIO(self._run(GET, names=names[start : start + AT_ONCE]))
            with tarfile.open(fileobj=packed) as archive:
                for member in archive:
                    if (file := archive.extractfile(member)) is not None:
                        yield member.name, file.read()

    def put(self, folder: Path, names: Sequence[str]) -> None:
        """Bring files; see `Remote`."""
        for start in range(0, len(names), AT_ONCE):
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as archive:
                for name, data in with_bytes(folder, names[start : start + AT_ONCE]):
                    member = tarfile.TarInfo(name.partition("/")[2])
                    member.size, member.mode = len(data), 0o600
                    archive.addfile(member, io.BytesIO(data))
            self._run(PUT, device=names[0].partition("/")[0], given=packed.getvalue())

    def drop(self, _: Path, names: Sequence[str]) -> None:
        """Remove files; see `Remote`."""
        self._run(DROP, names=names)

    def _run(self, script: str, *, names: Sequence[str] = (), device: str = "", given: bytes = b"") -> bytes:
        filled = script.format(
            folder=shlex.quote(str(self._folder)),
            device=shlex.quote(str(self._folder / device)),
            names=" ".join(map(shlex.quote, names)),
        )
        return run_program([*self._command, filled], given)
