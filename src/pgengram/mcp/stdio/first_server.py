"""Which of the servers of a store is the first, which answers the clients of the others.

Standard library only, as every relay keeps it.
"""

from __future__ import annotations

import os
import socket
import sys

from pgengram import __version__
from pgengram.runtime import local_socket

TYPE_CHECKING = False  # as in local_socket
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

if sys.platform != "win32":
    import fcntl

# Settings that each client has for itself: they go along. All others are of the process, and servers that differ in
# them don't stand in for each other, nor do those that differ in what libpq and OpenTelemetry read.
OWN: Final = tuple(f"PGENGRAM_{name}" for name in ("NAMESPACE", "PROJECT", "TOOLSETS", "COMPAT", "SECRETS", "ANSWERS"))
OF_PROCESS: Final = ("PG", "OTEL_")
FOLDER: Final = "PGENGRAM_DATA_DIR"  # in which the socket is
GREETING_S: Final = 10.0


class FirstServer:
    """Where the server that stands in for others with the same settings listens, and the lock that makes it the first.

    Args:
        environ: the settings, as environment variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        import hashlib

        shared = [
            f"{name}={value}"
            for name, value in sorted(environ.items())
            if value and name.startswith(OF_PROCESS) and name not in (*OWN, FOLDER)
        ]
        decisive = "\0".join((__version__, sys.executable, os.path.abspath(__file__), *shared))
        key = f"all-{hashlib.sha256(os.fsencode(decisive)).hexdigest()[:12]}"
        self.place = local_socket.Endpoints(environ)
        self.path = os.path.join(self.place.folder, f"{key}.first")
        self._lock = os.path.join(self.place.folder, f"{key}.lock")
        self._held = -1

    def prepare(self) -> bool:
        """Make the folder; return whether servers can stand in for each other here at all."""
        if sys.platform == "win32" or len(os.fsencode(self.path)) > local_socket.LONGEST_PATH:
            return False
        try:
            self.place.make()
        except OSError:
            return False
        return True

    def take(self) -> bool:
        """Become the first server; False while there is one, and while the folder is taken away and made again."""
        try:
            fd = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            self.place.make()
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        if os.fstat(fd).st_nlink == 0:  # released between our two steps: the name means another file now
            os.close(fd)
            return False
        self._held = fd
        return True

    def release(self) -> None:
        """Let another server become the first."""
        if self._held >= 0:
            for path in (self.path, self._lock):
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    continue
            os.close(self._held)
            self._held = -1

    def give_up(self) -> None:
        """Leave the folder as it was: this process cannot serve."""
        self.release()
        try:
            os.rmdir(self.place.folder)
        except OSError:  # others use it
            return

    def connect(self) -> socket.socket | None:
        """Return a connection; None while nobody listens."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(GREETING_S)
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            return None
        return connection
