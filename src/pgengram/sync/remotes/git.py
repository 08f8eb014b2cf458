"""Files in a git repository: each machine has a branch of its own, which never holds more than its files as they are.

A branch is one commit without a parent, so nothing is ever merged, and what was erased is in no history. The copy of
the repository that is kept here has no working tree; `git` finds out what it has to fetch and to push. While no branch
there changes, one `git ls-remote` is all that a look takes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pgengram.sync.keys import Key
from pgengram.sync.mirror import Files
from pgengram.sync.remotes import IDLE_PAUSES, run_program

WHO: Final = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "pgengram"), ("EMAIL", "pgengram@localhost"))
}


class GitRemote:
    """Brings files to and from a repository by the `git` program, which knows how to sign in there.

    Args:
        address: of the repository, after `git+`.
        key: of the memory.
        _: a token; git has ways of its own to sign in.
        mirror: beside which the copy of the repository is kept.
    """

    idle_pauses = IDLE_PAUSES

    def __init__(self, address: str, key: Key, _: str | None, mirror: Path) -> None:
        self._address, self._memory = address.removeprefix("git+"), key.folder_name
        self._copy = mirror.with_name(mirror.name + ".git")
        self._blobs: Files = {}
        self._branches: bytes | None = None  # as they were there when `_blobs` were listed

    def digest(self, data: bytes) -> str:
        """Return what git calls a file's bytes."""
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def list_files(self) -> Files:
        """Return which files there are; see `Remote`."""
        if not self._copy.is_dir():
            self._copy.parent.mkdir(parents=True, exist_ok=True)
            self._run("init", "--quiet", "--bare")
            self._branches = None
        theirs = f"refs/heads/{self._memory}/*"
        branches = self._run("ls-remote", self._address, theirs)
        if branches == self._branches:
            return dict(self._blobs)
        self._run("fetch", "--quiet", "--prune", "--no-tags", self._address, f"+{theirs}:{theirs}")
        self._blobs, self._branches = {}, None
        for ref in self._run("for-each-ref", "--format=%(refname)", f"refs/heads/{self._memory}").decode().split():
            device = ref.rpartition("/")[2]
            for line in self._run("ls-tree", ref).decode().splitlines():
                about, _, name = line.partition("\t")
                self._blobs[f"{device}/{name}"] = about.split()[2]
        self._branches = branches
        return dict(self._blobs)

    def get(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield files; see `Remote`."""
        for name in names:
            yield name, self._run("cat-file", "blob", self._blobs[name])

    def put(self, folder: Path, names: Sequence[str]) -> None:
        """Bring all files of one device as they are; see `Remote`."""
        device = names[0].partition("/")[0]
        paths = sorted(path for path in (folder / device).iterdir() if path.suffix == ".sync")
        given = "".join(f"{path}\n" for path in paths).encode()
        blobs = self._run("hash-object", "-w", "--no-filters", "--stdin-paths", given=given).decode().split()
        lines = "".join(f"100644 blob {blob}\t{path.name}\n" for blob, path in zip(blobs, paths, strict=True))
        tree = self._run("mktree", given=lines.encode()).decode().strip()
        commit = self._run("commit-tree", tree, "-m", "Files of one machine").decode().strip()
        self._run("push", "--quiet", "--force", self._address, f"{commit}:refs/heads/{self._memory}/{device}")

    def drop(self, folder: Path, names: Sequence[str]) -> None:
        """Bring all files of one device as they are, without these; see `Remote`."""
        self.put(folder, names)

    def _run(self, *words: str, given: bytes = b"") -> bytes:
        environment = {**os.environ, **WHO, "GIT_TERMINAL_PROMPT": "0", "GIT_DIR": str(self._copy)}
        return run_program(["git", *words], given, environment)
