"""Starts `python -m pgengram` and `alembic` by forking an interpreter that has imported its libraries: a second less of processor each.

What is started is a real process: its pid, parent, pipes, environment, working directory, arguments, signals and end are its own, and
`subprocess`, asyncio and the SDK wait for it as for any child. Only the imports are not done again. A start is an ordinary one where that
would make a difference (see `_Order.of`), outside Linux, and everywhere with PGENGRAM_TEST_FORK=0. A test that is about starting
itself is marked `real_start`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

LIBRARIES: Final = (
    "alembic.command", "anyio._backends._asyncio", "email.parser", "importlib.readers", "importlib.resources.readers", "jinja2", "markdown_it",
    "mcp.client.stdio", "mcp.server.lowlevel", "mcp.server.stdio", "numpy", "onnxruntime", "pgvector.psycopg", "psycopg.types.json",
    "psycopg_pool", "pydantic", "pydantic.networks", "rich._emoji_codes", "rich.console", "rich.markdown", "rich.progress", "rich.table",
    "snowballstemmer", "sqlalchemy.dialects.postgresql", "starlette.applications", "tokenizers", "tomlkit", "typer._adapters",
    "typer.rich_utils", "uvicorn", "yaml",
)  # fmt: skip
LEFT_OUT: Final = ("pgengram.__main__", "pgengram.embedders.all_minilm_l6_v2")
READ_AT_IMPORT: Final = (
    "PYTHON", "LC_", "LANG", "LD_", "OMP_", "OPENBLAS_", "MALLOC_", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "TERM", "COLORTERM", "NO_COLOR", "_TYPER",
)  # fmt: skip
HOOKS_PATIENCE: Final = "TEST_HOOKS_PATIENCE_S"  # how long a hook waits for its answer, where a test is not about that
ABOUT_BYTECODE: Final = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
MOMENTARY: Final = "pgengram.local"  # what hooks and commands start themselves
MOST_BYTES: Final = 100_000  # of one order, which is one packet
PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h


@dataclass(frozen=True)
class _Order:
    """What the new process is."""

    arguments: list[str]  # of Python, without its own name
    environment: dict[str, str]
    folder: str
    new_session: bool

    @classmethod
    def of(cls, given: dict[str, Any], scripts: frozenset[str]) -> _Order | None:
        """Return what `Popen._execute_child` was asked for, or None if only a new interpreter does it truthfully."""
        command = given["args"]
        if not isinstance(command, (list, tuple)) or given["shell"] or not given["close_fds"] or given["executable"]:
            return None
        unusual = ("preexec_fn", "pass_fds", "uid", "gid", "gids")
        if any(given[name] not in (None, ()) for name in unusual):
            return None
        if given["umask"] != -1 or given.get("process_group", -1) not in (-1, None) or not given["restore_signals"]:
            return None
        words = [os.fsdecode(word) for word in command]
        module = words[2:] if words[1:2] == ["-P"] else words[1:]
        ours = module[:1] == ["-m"] and module[1:2] in (["pgengram"], ["alembic"], [MOMENTARY])
        if words[0] != sys.executable or not (ours or (words[1:2] and words[1] in scripts)):
            return None
        environment = dict(os.environ if given["env"] is None else given["env"])
        return cls(words[1:], environment, os.path.abspath(given["cwd"] or os.getcwd()), given["start_new_session"])

    @property
    def at_import(self) -> dict[str, str]:
        """The part of the environment that libraries read while they are imported."""
        return {
            name: value
            for name, value in self.environment.items()
            if name.startswith(READ_AT_IMPORT) and name not in ABOUT_BYTECODE
        }


class ForkServer:
    """The interpreter that is forked, as one child of this process; it ends with it."""

    def __init__(self, scripts: frozenset[str] = frozenset()) -> None:
        self.scripts = scripts
        self._lock = threading.Lock()
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._at_import = _Order([], dict(os.environ), "", new_session=False).at_import
        with there:
            self._process = _Popen([sys.executable, __file__, str(there.fileno())], pass_fds=[there.fileno()])

    @property
    def fits(self) -> bool:
        """Whether what starts in the environment of this process can be forked."""
        return _Order([], dict(os.environ), "", new_session=False).at_import == self._at_import

    def start(self, given: dict[str, Any]) -> int | None:
        """Start what `Popen` was asked for and return its pid; None where it must be started in the ordinary way."""
        order = _Order.of(given, self.scripts)
        if order is None or order.at_import != self._at_import:
            return None
        packet = json.dumps(asdict(order)).encode()
        if len(packet) > MOST_BYTES:
            return None
        pipes = [given["p2cread"], given["c2pwrite"], given["errwrite"]]
        with self._lock, _adopting():
            socket.send_fds(self._here, [packet], [own if pipe == -1 else pipe for own, pipe in enumerate(pipes)])
            return int(self._here.recv(64)) or None

    def close(self) -> None:
        """End it; what it has started goes on."""
        self._here.close()
        self._process.wait()


class _adopting:  # noqa: N801 - used like a function
    """Makes this process the parent of those whose own parent ends meanwhile."""

    def __enter__(self) -> None:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)

    def __exit__(self, *_: object) -> None:
        _prctl(PR_SET_CHILD_SUBREAPER, 0)


def _prctl(option: int, value: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


_Popen = subprocess.Popen
_execute_child = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_signature = inspect.signature(_execute_child)
PIPES: Final = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def _has_started(process: Any, pid: int, given: dict[str, Any]) -> None:
    """Let a `Popen` know its process, as `_execute_child` does."""
    process.pid, process._child_created = pid, True
    process._close_pipe_fds(*(given[name] for name in PIPES))


def _start_from_a_fork(process: Any, *arguments: Any) -> None:
    """Fork a forked process when it starts a server for the moment, before any thread of it runs."""
    given = _signature.bind(process, *arguments).arguments
    order = _Order.of(given, frozenset())
    here = _Order([], dict(os.environ), "", new_session=False)
    if (
        order is None
        or order.arguments[1:] != [MOMENTARY]
        or order.at_import != here.at_import
        or threading.active_count() > 1
    ):
        _execute_child(process, *arguments)
        return
    pid = os.fork()
    if pid == 0:
        try:
            pipes = [given["p2cread"], given["c2pwrite"], given["errwrite"]]
            _become(order, [own if pipe == -1 else pipe for own, pipe in enumerate(pipes)])
            _run_to_the_end(order.arguments)
        finally:
            os._exit(1)
    _has_started(process, pid, given)


class Forking(ExitStack):
    """Sends the starts of this process to a fork server for as long as it is entered."""

    def __init__(self, scripts: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.paused = False
        self.server: ForkServer | None = None
        self._scripts = scripts

    def __enter__(self) -> Forking:
        super().__enter__()
        if sys.platform == "linux" and os.environ.get("PGENGRAM_TEST_FORK") != "0":
            self.server = server = ForkServer(self._scripts)
            self.callback(server.close)

            def start(process: Any, *arguments: Any) -> None:
                given = _signature.bind(process, *arguments).arguments
                pid = None if self.paused else server.start(given)
                if pid is None:
                    _execute_child(process, *arguments)
                else:
                    _has_started(process, pid, given)

            subprocess.Popen._execute_child = start  # type: ignore[attr-defined]
            self.callback(setattr, subprocess.Popen, "_execute_child", _execute_child)
        return self

    @contextmanager
    def paused_if(self, condition: bool) -> Iterator[None]:
        """Start new interpreters for the length of a block, if `condition` holds."""
        self.paused = condition
        try:
            yield
        finally:
            self.paused = False


def _import_all() -> None:
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # as `embedders.onnx` does; its thread would not survive a fork
    for name in LIBRARIES:
        importlib.import_module(name)
    import pgengram

    for module in pkgutil.walk_packages(pgengram.__path__, "pgengram.", onerror=lambda _: None):
        if not module.name.startswith(LEFT_OUT) and ".migrations" not in module.name:
            importlib.import_module(module.name)
    _work_out_the_tools()
    _read_the_lists()
    _load_the_models()


def _read_the_lists() -> None:
    """Have the lists of words, times and secrets read that every process reads once for its first text."""
    from datetime import UTC, datetime

    from pgengram.inputs import NewMemory
    from pgengram.search.dates import periods
    from pgengram.search.features import weights
    from pgengram.store.memory.memories import draft
    from pgengram.store.schema.migrate import newest_version
    from pgengram.text.secrets import secrets_in

    for text in ("The pilot's boat left last week; its key is new.", "Das Boot des Lotsen fuhr letzte Woche ab."):
        secrets_in(text)
        periods(text, datetime.now(UTC))
        draft(NewMemory(content=text, tags=["boats"]), session_id="none", sequence=1)
    weights("ranking")
    newest_version()


def _load_the_models() -> None:
    """Have the built-in models at hand, loaded once; what checks their files before still does."""
    from pgengram.embedders import onnx
    from pgengram.embedders.builtin import BuiltinEmbedder

    builtin, made = BuiltinEmbedder(), onnx._Model
    loaded = {one.folder.model: made(one.folder) for one in (builtin.english, builtin.others)}
    onnx._Model = lambda folder: loaded.get(folder.model) or made(folder)  # type: ignore[assignment,misc]


def _work_out_the_tools() -> None:
    """Make the schemas and the checks of all tools, which are the same in every process."""
    from pgengram.errors import PgengramError
    from pgengram.mcp.binding import ToolBinding
    from pgengram.service.manager import MemoryManager
    from pgengram.settings import Settings

    for tool in MemoryManager(Settings(embedder="none:", toolsets="all")).tools:
        binding = ToolBinding(tool)
        assert binding.listed
        with suppress(PgengramError):
            binding.read({})


def _look_at_the_terminal() -> None:
    """Let the command line's consoles see what it is connected to now."""
    from pgengram.cli import runtime

    runtime.screen.__init__()  # type: ignore[misc]
    runtime.notes.__init__(stderr=True)  # type: ignore[misc]


def _fork(order: _Order, pipes: list[int], server: socket.socket) -> bool:
    """Fork twice, so that the one who gave the order becomes the parent; return whether this is the new process."""
    from_child, to_server = os.pipe()
    wait, go = os.pipe()
    between = os.fork()
    if between == 0:
        new = os.fork()
        if new:
            os.write(to_server, b"%d" % new)
            os._exit(0)
        os.close(go)
        os.read(wait, 1)  # until the process between has ended, and its parent is ours
        _become(order, pipes)
        return True
    os.close(to_server)
    pid = os.read(from_child, 64)
    os.waitpid(between, 0)
    for fd in (from_child, wait, go, *pipes):
        os.close(fd)
    server.send(pid)
    return False


def _become(order: _Order, pipes: list[int]) -> None:
    """Take over the pipes, the folder, the environment and the arguments."""
    above = [os.dup(pipe) for pipe in pipes]
    for target, fd in enumerate(above):
        os.dup2(fd, target, inheritable=True)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):  # the list's own
                os.close(int(name))
    if order.new_session:
        os.setsid()
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    if patience_s := os.environ.pop(HOOKS_PATIENCE, ""):
        from pgengram.runtime import hook_client

        hook_client.PATIENCE_S = float(patience_s)
    for name, mode, fd in (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2)):
        setattr(sys, name, _stream(getattr(sys, name), mode, fd))
        setattr(sys, f"__{name}__", getattr(sys, name))
    _look_at_the_terminal()


def _stream(was: Any, mode: str, fd: int) -> Any:
    """Open a standard stream as the interpreter does when it starts."""
    raw = open(fd, f"{mode}b", 0, closefd=False)  # noqa: SIM115
    raw.name = f"<{('stdin', 'stdout', 'stderr')[fd]}>"  # type: ignore[misc]
    unbuffered = isinstance(was.buffer, io.RawIOBase)
    binary = raw if unbuffered else io.BufferedReader(raw) if fd == 0 else io.BufferedWriter(raw)
    new = io.TextIOWrapper(
        binary,  # type: ignore[type-var]
        was.encoding,
        was.errors,
        newline=None if fd == 0 else "\n",
        line_buffering=not unbuffered and (fd == 2 or os.isatty(fd)),
        write_through=unbuffered,
    )
    new.mode = mode  # type: ignore[misc]
    return new


def _run(arguments: list[str]) -> None:
    """Do what `python` does with these arguments."""
    if arguments[0] in ("-m", "-P"):
        sys.path[:1] = [os.getcwd()] if arguments[0] == "-m" else []
        arguments = arguments[arguments.index("-m") :]
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


def _run_to_the_end(arguments: list[str]) -> None:
    """Do so and end as an interpreter does, but for taking all modules apart, which would copy the memory shared with the parent."""
    code: object = 0
    try:
        _run(arguments)
    except SystemExit as ended:
        code = ended.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):  # to a pipe that nobody reads: the ordinary end has a code for that
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        if isinstance(code, int):
            os._exit(code & 0xFF)
    raise SystemExit(code)


def main() -> None:
    """Fork once for each packet, until whoever gave them is gone."""
    with socket.socket(fileno=int(sys.argv[1])) as server:
        _import_all()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.collect()
        gc.freeze()  # so that collecting in a child does not copy what all share
        while True:
            packet, pipes, _, _ = socket.recv_fds(server, 2 * MOST_BYTES, 3)
            if not packet:
                return
            order = _Order(**json.loads(packet))
            if _fork(order, pipes, server):
                server.detach()
                break
    subprocess.Popen._execute_child = _start_from_a_fork  # type: ignore[attr-defined]
    _run_to_the_end(order.arguments)


if __name__ == "__main__":
    main()
