"""How programs of the same user reach a running server of a store: hooks of assistants, commands and further servers.

Each process that serves a store listens on one socket in a private folder below the data folder, on Windows on a pipe
that a file there names; whoever asks takes the first that answers, whichever namespace it asks about. One line of JSON
goes each way, or many from a server. As a hook must cost next to nothing, only a few standard modules are imported.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import time

from pgengram import __version__
from pgengram.data_folder import default_data_folder, make_data_folder
from pgengram.runtime import module_command

TYPE_CHECKING = False  # as typing has it, which would take longer to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Mapping

PIPES = sys.platform == "win32"
SUPPORTED = PIPES or hasattr(socket, "AF_UNIX")
WITHOUT = "Python has no local sockets on this system, so hooks cannot ask a server."
# Settings that each program has for itself and sends along; in all others it uses those of the server that answers.
OWN = ("PGENGRAM_NAMESPACE", "PGENGRAM_PROJECT", "PGENGRAM_SECRETS")
FOLDER = "run"  # below the data folder
ELSEWHERE = "run-folder"  # a file there with the name of the folder, where another user has taken the usual one
LONGEST_PATH = 103  # bytes that a socket's path may have on macOS; Linux has 107
SHORT = "/tmp"  # noqa: S108 - where no data folder is too deep; what we make in it is private and checked before use
SOCKET, EVENT, STARTING, LOG = ".sock", ".event", ".starting", "hooks.log"
LONGEST_LINE = 16_000_000  # bytes of a request or an answer
START_S = 15.0  # in which a server that somebody starts has come up or never will
POLL_S = 0.02
LOG_BYTES = 200_000  # of one log; the one before it is kept
MAX_EVENTS = 2_000  # that wait for a server


class Unanswered(Exception):
    """A server took the request and gave no answer in time; it may have done what was asked."""


class Endpoints:
    """Where the servers of one store are found, and the settings of whoever asks them.

    Args:
        environ: the settings, as environment variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        named = environ.get("PGENGRAM_DATA_DIR")
        data = os.path.abspath(os.path.expanduser(named)) if named else default_data_folder()
        url = environ.get("PGENGRAM_DATABASE_URL")
        self.key = _short_hash(url) if url else "own"  # of the database; servers of several may share a data folder
        self.own = {name: environ[name] for name in OWN if environ.get(name)}
        self.log = os.path.join(data, LOG)
        self.folder = os.path.join(data, FOLDER)
        self._elsewhere = ""  # the file that names the folder, where the data folder is too deep for it
        if not PIPES and len(os.fsencode(self.socket(4_194_304))) > LONGEST_PATH:
            self._elsewhere = os.path.join(data, ELSEWHERE)
            self.folder = _read_name(self._elsewhere) or f"{SHORT}/pgengram-{_user()}-{_short_hash(data)}-run"

    @property
    def starting(self) -> str:
        """The file that is there while somebody starts a server."""
        return os.path.join(self.folder, self.key + STARTING)

    def make(self) -> None:
        """Make the folder if it is not there.

        Raises:
            OSError: it cannot be made, or others than this user may enter it.
        """
        make_data_folder(os.path.dirname(self._elsewhere or self.folder))
        try:
            os.mkdir(self.folder, 0o700)
        except FileExistsError:
            if _is_private(self.folder):
                return
            if not self._elsewhere:
                raise PermissionError(f"{self.folder} is open to others than its owner") from None
            self._make_another()

    def _make_another(self) -> None:
        """Make a folder with a name that nobody can have taken, and let all processes of the store find it."""
        import tempfile

        self.folder = tempfile.mkdtemp(prefix="pgengram-", dir=SHORT)
        with open(f"{self._elsewhere}.{os.getpid()}", "w", encoding="utf-8", opener=_open_private) as file:
            file.write(self.folder)
        os.replace(file.name, self._elsewhere)

    def socket(self, pid: int) -> str:
        """Return the path of a server's socket."""
        return os.path.join(self.folder, f"{self.key}-{pid}{SOCKET}")

    def files(self, ending: str) -> list[str]:
        """Return the paths of this store's files with an ending, sorted by name; none while the folder is not private.

        A socket in a folder that others may write to could be theirs.
        """
        names = os.listdir(self.folder) if _is_private(self.folder) else []
        return [os.path.join(self.folder, one) for one in sorted(names) if self._is_ours(one, ending)]

    def _is_ours(self, name: str, ending: str) -> bool:
        return name.startswith(self.key) and name.endswith(ending)


def ask_server(place: Endpoints, request: dict[str, object], timeout_s: float) -> dict[str, object] | None:
    """Return what the first server that answers says; None where no server listens.

    Raises:
        Unanswered: a server took the request and did not answer within `timeout_s`.
    """
    sent = {"version": __version__, "until": time.time() + timeout_s, "settings": place.own, **request}
    line = json.dumps(sent).encode() + b"\n"
    deadline = time.monotonic() + timeout_s
    for path in place.files(SOCKET):
        answer = _ask_at(path, line, deadline)
        if answer is not None and answer.get("version") == __version__:
            return answer
    return None


def ask_or_start(place: Endpoints, request: dict[str, object], timeout_s: float) -> dict[str, object] | None:
    """Return what a server says, started for the moment where none listens; None when it isn't up within `timeout_s`.

    Raises:
        Unanswered: as `ask`.
    """
    deadline = time.monotonic() + timeout_s
    answer = ask_server(place, request, timeout_s)
    if answer is None:
        start_server(place)
    while answer is None and time.monotonic() < deadline:
        time.sleep(POLL_S)
        answer = ask_server(place, request, deadline - time.monotonic())
    return answer


def start_server(place: Endpoints) -> None:
    """Start a server that ends by itself once nobody asks, unless somebody is doing that just now."""
    place.make()
    try:
        if 0 <= time.time() - os.stat(place.starting).st_mtime < START_S:  # a clock may have been set back since
            return
        os.utime(place.starting)
    except FileNotFoundError:
        os.close(os.open(place.starting, os.O_CREAT | os.O_WRONLY, 0o600))
    import subprocess

    apart = {"creationflags": 0x08000208} if sys.platform == "win32" else {"start_new_session": True}
    with open(place.log, "ab", opener=_open_private) as log:
        if not PIPES:
            os.fchmod(log.fileno(), 0o600)  # one of an earlier version may be open to others
        subprocess.Popen(  # noqa: S603 - ours
            module_command("pgengram.local"),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=place.folder, **apart,
        )  # fmt: skip


def keep_for_later(place: Endpoints, request: dict[str, object]) -> None:
    """Leave a request for the next server of the store, which answers nobody.

    Raises:
        OSError: too many wait, or the file cannot be written.
    """
    place.make()
    if len(place.files(EVENT)) >= MAX_EVENTS:
        raise OSError(f"{MAX_EVENTS} events wait for a server already")
    path = os.path.join(place.folder, f"{place.key}-{time.time_ns()}-{os.getpid()}{EVENT}")
    with open(f"{path}.new", "w", encoding="utf-8", opener=_open_private) as file:
        json.dump({"settings": place.own, **request}, file)
    os.replace(f"{path}.new", path)


def log_line(place: Endpoints, text: str) -> None:
    """Add a line to the log of hooks, which stays small."""
    make_data_folder(os.path.dirname(place.log))
    if os.path.exists(place.log) and os.path.getsize(place.log) > LOG_BYTES:
        os.replace(place.log, f"{place.log}.1")
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with open(place.log, "a", encoding="utf-8", opener=_open_private) as file:
        file.write(f"{moment} {text}\n")


def _ask_at(path: str, line: bytes, deadline: float) -> dict[str, object] | None:
    """Return the answer of one server; None where nobody listens there."""
    try:
        said = _exchange(path, line, deadline)
    except OSError as error:
        raise Unanswered(f"{type(error).__name__} from {os.path.basename(path)}") from None
    return parsed_object(said) if said else None


def parsed_object(line: bytes) -> dict[str, object] | None:
    """Return a line of JSON as an object; None where it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _exchange(path: str, line: bytes, deadline: float) -> bytes | None:
    if PIPES:
        from pgengram.runtime import windows_pipe

        return windows_pipe.exchange_line(path, line, deadline)
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            connection.connect(path)
        except OSError:  # a server that was killed has left it
            return None
        connection.sendall(line)
        return _read_line(connection, deadline)


def servers(place: Endpoints) -> list[str]:
    """Return the sockets of this store behind which a server is."""
    return [path for path in place.files(SOCKET) if listens(path)]


def listens(path: str) -> bool:
    """Whether a server is behind a socket or pipe."""
    if PIPES:
        from pgengram.runtime import windows_pipe

        return windows_pipe.pipe_listens(path)
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _read_line(connection: socket.socket, deadline: float) -> bytes:
    read = bytearray()
    while not read.endswith(b"\n"):
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(262_144)
        if not part:
            raise ConnectionResetError
        read += part
    return bytes(read)


def _is_private(folder: str) -> bool:
    """Whether a folder is there, the user's own, and nobody else may enter it; Windows keeps them apart by itself."""
    if sys.platform == "win32" or not os.path.lexists(folder):
        return os.path.isdir(folder)
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _read_name(path: str) -> str:
    """Return the folder that a file names, if that is this user's alone."""
    try:
        with open(path, encoding="utf-8") as file:
            folder = file.read(LONGEST_PATH)
        return folder if _is_private(folder) else ""
    except (OSError, ValueError):
        return ""


def _short_hash(text: str) -> str:
    import hashlib  # loads OpenSSL

    return hashlib.sha256(os.fsencode(text)).hexdigest()[:12]


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _user() -> int:
    return 0 if sys.platform == "win32" else os.geteuid()


def working_folder() -> str:
    """Return the folder that this program was started in; "" if it was removed since."""
    try:
        return os.getcwd()
    except OSError:
        return ""
