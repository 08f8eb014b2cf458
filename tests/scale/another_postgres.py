"""Tests on the older PostgreSQL that the carrier package brings along; it has none for Windows.

    python tests/scale/another_postgres.py 16 pytest tests/store

runs a command with PGENGRAM_TEST_DATABASE_URL naming a new server of that version.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch


def main(major: int, *command: str) -> int:
    """Run a command beside a server of the version `major`."""
    sys.path.append(str(Path(__file__).parents[1]))
    from helpers import add_postgres
    from pgengram.errors import NotReady
    from pgengram.postgres import find_binaries, start_embedded, supervisor

    try:
        found = find_binaries(major)
    except NotReady as error:
        sys.stdout.write(f"The tests did not run on PostgreSQL {major}: {error.message}\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="pgengram") as folder:
        Path(folder).chmod(0o755)
        with patch.object(supervisor, "find_binaries", lambda _=None: found):
            server = start_embedded(Path(folder) / "data")
        try:
            add_postgres(server.url)
            sys.stdout.write(f"$ {' '.join(command)}  # on PostgreSQL {found.version}\n")
            sys.stdout.flush()
            return subprocess.run(
                command, env=os.environ | {"PGENGRAM_TEST_DATABASE_URL": server.url}, check=False
            ).returncode
        finally:
            server.stop()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
