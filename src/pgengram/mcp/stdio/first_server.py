"""Which of the servers of a store is the first, which answers the clients of the others.

Standard library only, as every relay keeps it.
"""

from __future__ import annotations

import contextlib
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

# Settings that each client has for itself. All others are of the process, and servers that differ in them don't stand
# in for each other, nor do those that differ in what libpq and OpenTelemetry read.
OWN: Final = (*local_socket.OWN, "PGENGRAM_TOOLSETS", "PGENGRAM_COMPAT", "PGENGRAM_ANSWERS")
OF_PROCESS: Final = ("PG", "OTEL_")
FOLDER: Final = "PGENGRAM_DATA_DIR"  # in which the socket is
GREETING_S: Final = 10.0


class FirstServer:
    """The lock that makes one server the first of those with the same settings, and which names its process.

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
        self.key = f"all-{hashlib.sha256(os.fsencode(decisive)).hexdigest()[:12]}"
        self.place = local_socket.Endpoints(environ)
        self._held = -1

    @property
    def _lock(self) -> str:
        return os.path.join(self.place.folder, f"{self.key}.lock")

    def prepare(self) -> bool:
        """Make sure of the folder; return whether servers can stand in for each other here at all."""
        if sys.platform == "win32":
            return False
        try:
            self.place.make()
        except OSError:
            return False
        return True

    def take(self) -> bool:
        """Become the first server; False while there is one, and while the folder is taken away."""
        try:
            fd = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        if os.fstat(fd).st_nlink == 0:  # released between our two steps: the name means another file now
            os.close(fd)
            return False
        os.ftruncate(fd, 0)  # a server that was killed has left its own
        os.write(fd, str(os.getpid()).encode())
        self._held = fd
        return True

    def release(self) -> None:
        """Let another server become the first."""
        if self._held >= 0:
            with contextlib.suppress(FileNotFoundError):  # the folder was taken away
                os.unlink(self._lock)
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
        """Return a connection to what may be the first server, which its answer tells; None while nobody listens."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(GREETING_S)
        try:
            with open(self._lock, "rb") as file:
                connection.connect(self.place.socket(int(file.read())))
        except (OSError, ValueError):  # it has just begun
            connection.close()
            return None
        return connection
