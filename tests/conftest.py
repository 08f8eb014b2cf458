"""One PostgreSQL for the whole run, one migrated template in it, and a copy of that for whoever needs a database."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest
import pytest_asyncio
from mcp import Client

import helpers
import shapes
from forkserver import Forking
from helpers import (
    SERVER,
    THOROUGH,
    Database,
    Served,
    add_postgres,
    clustered,
    connected,
    database_of,
    machines,
    owned_tables,
    read_url,
)
from machine import closed_in_the_end
from pgengram import settings as settings_module
from pgengram.runtime import local_socket
from pgengram.runtime.process_setup import event_loop
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

SCRIPTS = frozenset(str(Path(__file__).parent / name) for name in ("protocol/toy.py", "postgres/one_user.py"))
USUAL = "usual"  # the profile of hypothesis for every other run
MOST_WORKERS = 6  # each has a PostgreSQL of its own
IN_MEMORY = Path("/dev/shm")  # where Linux has a file system without a disk
ROOM = 4 << 30  # bytes to be free in it
# Folders whose tests mostly wait for processes and disks, and those that compute; in each the longest files first, the shortest last.
WAITING = ("sync", "sign_in", "faults", "postgres", "scale", "journeys", "protocol", "http", "hooks")
COMPUTING = ("ui", "spaces", "tools", "store", "embedders", "maintenance", "search", "hostile", "transfer", "compat")

gc.disable()  # until all tests are collected: of all that is imported and made until then, nothing goes away

# In many containers nothing may be written; then every process would compile all that it imports, and all tests.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as `store.ahead` sets it, in this process and in those that it starts

for _name in ("COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE"):  # Rich reads them when it is imported
    os.environ.pop(_name, None)


def _folder_in_memory() -> str:
    """Have temporary files of this process, and of all that it starts, lie in memory: a store is hundreds of files, and
    waits for a disk again and again. Return the folder that is to be removed in the end; empty where there is none,
    programs may not be run in it, it is small, or it was made by the process that started this one.
    """
    if not IN_MEMORY.is_dir() or tempfile.gettempdir().startswith(f"{IN_MEMORY}/"):
        return ""
    if os.statvfs(IN_MEMORY).f_flag & os.ST_NOEXEC or shutil.disk_usage(IN_MEMORY).free < ROOM:
        return ""
    folder = tempfile.mkdtemp(dir=IN_MEMORY, prefix="tests-")
    os.chmod(folder, 0o1777)  # as every such folder, for servers that run as somebody else
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    return folder


_in_memory = _folder_in_memory()

for _name in (USUAL, THOROUGH):
    hypothesis.settings.register_profile(_name, deadline=None)  # how long an example takes, the machine decides
hypothesis.settings.load_profile(USUAL)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have `tmp_path` in the folder in memory, by a name that leaves room for the path of a socket."""
    if _in_memory and not config.option.basetemp:
        config.option.basetemp = f"{_in_memory}/t"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Take two workers more than there are processors, as half of the tests wait for others; none for one file alone."""
    files = {argument.partition("::")[0] for argument in config.args}
    if len(files) == 1 and os.path.isfile(files.pop()):
        return 0
    return min((os.cpu_count() or 1) + 2, MOST_WORKERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix files that wait with files that compute, so that the processors are busy to the end; see also `shapes`."""
    position: dict[Path, float] = {}
    files = list(dict.fromkeys(item.path for item in items))
    waiting = [file for folder in WAITING for file in files if file.parent.name == folder]
    computing = [file for folder in COMPUTING for file in files if file.parent.name == folder]
    computing += [file for file in files if file not in waiting and file not in computing]
    for group in (waiting, computing):
        position |= {file: place / len(group) for place, file in enumerate(group)}
    items.sort(key=lambda item: position[item.path])
    shapes.skip_what_is_not_there(items)


def pytest_collection_finish() -> None:
    """Look for garbage again, but never more among what was made while collecting, which stays to the end."""
    gc.freeze()
    gc.enable()


if sys.platform == "win32":  # psycopg refuses the loop that asyncio takes there by itself

    def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
        """Run the tests in the loop that pgengram runs in."""
        return {"selector": event_loop}


def pytest_unconfigure() -> None:
    """Let the interpreter take all apart when it ends; some libraries complain of what is left."""
    gc.unfreeze()
    if _in_memory:
        shutil.rmtree(_in_memory, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    """Whoever runs the tests may use pgengram; its settings and its data folder are none of theirs."""
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="pgengram-", ignore_cleanup_errors=True) as made,
    ):
        for name in [name for name in os.environ if name.startswith("PGENGRAM_")]:
            patch.delenv(name)
        folder = os.path.join(made, "data")
        for module in (settings_module, local_socket):
            patch.setattr(module, "default_data_folder", lambda: folder)
        patch.setattr(helpers, "default_data", [folder])
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_signal_is_ignored() -> None:
    """Whoever is started in the background or by nohup inherits that some signals are ignored, and so do its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _forking(_no_settings_from_outside: None, _no_signal_is_ignored: None) -> Iterator[Forking]:
    """Whatever is started as `python -m pgengram`, or is one of SCRIPTS, need not import its libraries again."""
    with Forking(SCRIPTS) as forking:
        yield forking


@pytest.fixture(autouse=True)
def _real_start(request: pytest.FixtureRequest, _forking: Forking) -> Iterator[None]:
    """Start new interpreters in a test that is marked so, and let none change the environment for the tests after it."""
    with _forking.paused_if(request.node.get_closest_marker("real_start") is not None):
        yield
    assert _forking.server is None or _forking.server.fits, "what starts from this environment cannot be forked"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL whose login may create databases: the one given from outside, else an embedded one."""
    if SERVER:
        yield SERVER
        return
    from pgengram.postgres import start_embedded

    server = start_embedded(tmp_path_factory.mktemp("postgres"))
    with psycopg.connect(server.url, autocommit=True) as connection:
        # No test cuts the power, and each database that is dropped would have to wait for the disk.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("ALTER SYSTEM SET full_page_writes = off")
        connection.execute("SELECT pg_reload_conf()")
    add_postgres(server.url)
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def template(postgres: str) -> Iterator[str]:
    """The name of a migrated database without memories."""
    from pgengram.store.schema.migrate import migrate

    with database_of(postgres) as database:
        if len(machines(postgres)) > 1:
            clustered(postgres, database)
        else:
            migrate(database.url)
        yield database.as_template()


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose server has made its database, and is stopped: to be `copied`, which is quicker than making one."""
    from pgengram.postgres import start_embedded
    from pgengram.store.schema.migrate import migrate

    with closed_in_the_end(tmp_path_factory.mktemp("prepared") / "data") as folder:
        server = start_embedded(folder)
        migrate(server.url)
        server.stop()
    return folder


@pytest.fixture
def blank(postgres: str) -> Iterator[Database]:
    """A database in which nothing is."""
    with database_of(postgres) as database:
        yield database


@pytest.fixture
def database(postgres: str, template: str) -> Iterator[Database]:
    """A migrated database of the test's own."""
    with database_of(postgres, template) as made:
        yield made


@pytest.fixture
def settings(database: Database) -> Settings:
    """Settings for the test's own database, without an embedder."""
    return Settings(database_url=database.url, read_url=read_url(database.url), embedder="none:")


@pytest_asyncio.fixture
async def manager(settings: Settings) -> AsyncIterator[MemoryManager]:
    """A manager in this process, for laws that are asked hundreds of times."""
    made = MemoryManager(settings)
    await made.ready()
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module")
async def serving(request: pytest.FixtureRequest, postgres: str, template: str) -> AsyncIterator[Served]:
    """A server with the built-in model and the settings in the module's SERVER, for all tests of the module."""
    with database_of(postgres, template) as db:
        async with connected(database_url=db.url, **getattr(request.module, "SERVER", {})) as client:
            yield Served(client, db)


@pytest_asyncio.fixture(scope="module")
async def serving_words(postgres: str, template: str) -> AsyncIterator[Served]:
    """A server without an embedder, for all tests of a module."""
    with database_of(postgres, template) as db:
        async with connected(database_url=db.url, embedder="none:") as client:
            yield Served(client, db)


@pytest.fixture
def served(serving: Served) -> Served:
    """A server that remembers nothing yet."""
    serving.db.empty(owned_tables())
    return serving


@pytest.fixture
def client(served: Served) -> Client:
    """The client of a server that remembers nothing yet."""
    return served.client


@pytest.fixture
def db(served: Served) -> Database:
    """The database behind `client`."""
    return served.db


@pytest.fixture
def wordless(serving_words: Served) -> Served:
    """A server without an embedder that remembers nothing yet."""
    serving_words.db.empty(owned_tables())
    return serving_words
