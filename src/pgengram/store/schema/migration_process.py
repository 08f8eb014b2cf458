"""Migrations in a process of their own: what they import would stay with a server, 25 MB for as long as it runs.

Run as a program this file reads a URL and answers with the error, if there is one.
"""

from __future__ import annotations

import json
import subprocess
import sys

from pgengram.errors import NotReady, PgengramError
from pgengram.postgres.process_locks import NO_WINDOW
from pgengram.runtime import module_command


def migrate_apart(url: str) -> None:
    """Bring a schema to this version, in another process. Blocks.

    Raises:
        NotReady: as `migrate`.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    how = {"text": True, "encoding": "utf-8", "creationflags": NO_WINDOW} | pipes
    process = subprocess.Popen(module_command(__name__), **how)  # type: ignore[call-overload]  # noqa: S603
    answer, _ = process.communicate(json.dumps(url))
    if process.returncode != 0:
        raise NotReady("The process that updates the schema stopped.", "See the log (stderr).")
    if answer:
        raise NotReady(*json.loads(answer))


def main() -> None:
    """Migrate the database whose URL comes; without one do nothing, as whoever started this is gone."""
    from pgengram.store.schema.migrate import migrate

    url = sys.stdin.read()
    if not url:
        return
    try:
        migrate(json.loads(url))
    except PgengramError as error:
        sys.stdout.write(json.dumps([error.message, error.hint]))


if __name__ == "__main__":
    main()
