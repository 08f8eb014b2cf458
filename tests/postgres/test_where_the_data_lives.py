"""Any folder will do, whatever its name, and only its owner reaches the server."""

import hashlib
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import psutil
import psycopg
import pytest
from server_users import AS_ROOT, SETPRIV, Users, put_out, until

from pgengram.errors import NotReady
from pgengram.postgres import (
    Binaries,
    binaries,
    find_binaries,
    new_data,
    process_locks,
    server_status,
    start_embedded,
    supervisor,
    system,
)
from pgengram.runtime import local_socket

posix = pytest.mark.skipif(sys.platform == "win32", reason="sockets, modes and users of Unix")

QUOTED = "it's 'quoted' $HOME `x`, 100%2F&#" if sys.platform == "win32" else 'it\'s "quoted" $HOME `x`, 100%2F?&#'
SHORT = pytest.mark.skipif(sys.platform == "win32", reason="PostgreSQL's paths have at most 260 characters there")


@pytest.mark.parametrize("name", [QUOTED, "Gedächtnis 記憶", pytest.param("long" + "g" * 180, marks=SHORT)])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    try:
        database = start_embedded(folder)
        with psycopg.connect(database.url) as connection:
            assert connection.execute("SELECT current_database()").fetchone() == ("pgengram",)
        database.stop()
        assert not server_status(folder).running
    finally:
        put_out(folder)


@posix
def test_a_server_that_was_killed_in_a_long_folder_can_be_stopped_and_leaves_no_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("long" + "g" * 180)
    home = str(folder / "postgres")
    try:
        database = start_embedded(folder)
        host, _ = process_locks.address(home) or ("", 0)
        os.kill(server_status(folder).pid or 0, signal.SIGKILL)
        until(lambda: process_locks.has_ended(home))
        database.stop()

        assert host
        assert not Path(host).exists()
    finally:
        put_out(folder)


@posix
def test_a_server_in_a_long_folder_can_be_stopped_by_several_at_once(tmp_path: Path) -> None:
    folder = tmp_path / ("long" + "g" * 180)
    home = str(folder / "postgres")
    try:
        start_embedded(folder)
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(process_locks.stop_server, [home] * 4))
    finally:
        put_out(folder)


def test_a_server_that_ends_just_before_it_is_asked_to_has_been_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_embedded(folder)
    home = str(folder / "postgres")
    listens = process_locks.postmaster_listens

    def ends_meanwhile(home: str) -> bool:
        heard = listens(home)
        monkeypatch.setattr(process_locks, "postmaster_listens", listens)
        server.stop()
        put_out(folder)
        return heard

    monkeypatch.setattr(process_locks, "postmaster_listens", ends_meanwhile)

    assert process_locks.stop_server(home)


@posix
def test_the_folder_is_closed_to_other_users_and_those_above_are_left_alone(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir(mode=0o700)
    folder = above / "data"
    try:
        start_embedded(folder)

        assert stat.S_IMODE(above.stat().st_mode) == 0o700
        for private in (folder / "postgres", folder / "postgres" / "cluster"):
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
    finally:
        put_out(folder)


@posix
@pytest.mark.parametrize("squat", ["link", "open"])
def test_a_short_folder_that_another_could_enter_is_not_used(tmp_path: Path, squat: str) -> None:
    folder = tmp_path / ("long" + "g" * 180)
    cluster = folder / "postgres" / "cluster"
    uid = system.owner(cluster)
    name = hashlib.sha256(os.fsencode(cluster)).hexdigest()[:12]
    short = Path(system.SHORT) / f"pgengram-{os.geteuid() if uid is None else uid}-{name}"
    trap = tmp_path / "trap"
    trap.mkdir(mode=0o777)
    if squat == "link":
        short.symlink_to(trap)
    else:
        short.mkdir()
        short.chmod(0o777)
    try:
        database = start_embedded(folder)
        host, _ = process_locks.address(str(folder / "postgres")) or ("", 0)

        assert host != str(short)
        assert not list(trap.iterdir())
        with psycopg.connect(database.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        database.stop()
        assert not Path(host).exists()
    finally:
        put_out(folder)
        short.unlink() if squat == "link" else short.rmdir()


@posix
def test_a_pid_file_that_points_to_a_folder_of_another_is_not_believed(settled: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    trap.chmod(0o755)
    lines = ["1", "somewhere", "0", "5432", str(trap), "", "0 0", "ready"]
    (settled / "postgres" / "cluster" / "postmaster.pid").write_text("\n".join(lines) + "\n")

    assert process_locks.address(str(settled / "postgres")) is None


def test_data_moves_with_its_folder(folder: Path) -> None:
    database = start_embedded(folder)
    with psycopg.connect(database.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    database.stop()
    put_out(folder)
    moved = folder.with_name("moved")
    folder.rename(moved)
    try:
        database = start_embedded(moved)
        with psycopg.connect(database.url) as connection:
            assert connection.execute("SELECT n FROM kept").fetchone() == (1,)
        database.stop()
    finally:
        put_out(moved)


def test_a_folder_that_is_not_one_is_refused_with_the_setting_to_change(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotReady) as refused:
        start_embedded(tmp_path / "file" / "data")

    assert "PGENGRAM_DATA_DIR" in refused.value.hint


@pytest.mark.skipif(sys.platform != "win32", reason="the shares of Windows")
def test_a_share_of_another_machine_is_refused() -> None:
    with pytest.raises(NotReady, match="network drive") as refused:
        start_embedded(Path(r"\\localhost\pgengram\data"))

    assert "PGENGRAM_DATA_DIR" in refused.value.hint


@posix
def test_a_network_drive_is_refused_and_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share = SimpleNamespace(mountpoint=str(folder.parent.resolve()), fstype="nfs4")
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: [SimpleNamespace(mountpoint="/", fstype="ext4"), share])

    with pytest.raises(NotReady, match=r"network drive \(nfs4\)") as refused:
        start_embedded(folder)

    assert "PGENGRAM_DATA_DIR" in refused.value.hint
    assert not folder.exists() or not any(folder.iterdir())


def test_a_data_folder_that_was_copied_in_part_is_refused_and_left_alone(folder: Path) -> None:
    start_embedded(folder).stop()
    cluster = folder / "postgres" / "cluster"
    (cluster / "global" / "pg_control").unlink()
    before = sorted(path.relative_to(cluster) for path in cluster.rglob("*"))

    with pytest.raises(NotReady, match="is incomplete: global/pg_control is missing") as refused:
        start_embedded(folder)

    assert "pgengram restore" in refused.value.hint
    assert sorted(path.relative_to(cluster) for path in cluster.rglob("*")) == before


@pytest.mark.skipif(not AS_ROOT, reason="only root can give a folder away")
def test_the_folder_of_another_user_is_refused(folder: Path) -> None:
    (folder / "postgres").mkdir(parents=True)
    os.chown(folder / "postgres", 60001, 60001)

    with pytest.raises(NotReady, match="belongs to another user"):
        start_embedded(folder)


@pytest.mark.skipif(not AS_ROOT, reason="about root")
def test_run_by_root_the_server_belongs_to_an_unprivileged_user(folder: Path) -> None:
    start_embedded(folder)

    assert os.stat(f"/proc/{server_status(folder).pid}").st_uid == system.SERVER_UID


@pytest.mark.skipif(not AS_ROOT, reason="about root")
def test_data_that_root_restored_from_a_backup_is_given_to_the_server_again(settled: Path) -> None:
    system.give(settled / "postgres" / "cluster", 0)

    start_embedded(settled)

    assert server_status(settled).running


@pytest.mark.skipif(not AS_ROOT, reason="about root")
def test_a_data_folder_that_a_hook_of_root_made_first_can_be_passed_by_the_server(folder: Path) -> None:
    local_socket.log_line(local_socket.Endpoints({"PGENGRAM_DATA_DIR": str(folder)}), "a hook had nobody to ask")

    assert stat.S_IMODE(folder.stat().st_mode) == 0o711


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Binaries:
    """PostgreSQL in a virtual environment that only root can enter."""
    found = find_binaries()
    package = found.bin.parents[1]
    environment = tmp_path / "venv"
    environment.mkdir(mode=0o700)
    for part in (f"{package.name}/{found.bin.parent.name}", f"{package.name}.libs"):
        subprocess.run(["cp", "-r", "--parents", part, str(environment)], cwd=package.parent, check=True)
    inside = Binaries(environment / package.name / found.bin.parent.name / "bin", found.major)
    monkeypatch.setattr(supervisor, "find_binaries", lambda _=None: inside)
    return inside


@pytest.mark.skipif(not AS_ROOT, reason="about root")
@pytest.mark.usefixtures("closed")
def test_programs_that_the_server_user_cannot_reach_are_copied_once(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Path(
        subprocess.run(
            ["mktemp", "-d", "/var/tmp/pgengram.XXXXXX"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    shelf.chmod(0o700)  # closed, as whoever made it first may have left it
    monkeypatch.setattr(binaries, "COMMON", shelf)
    try:
        start_embedded(folder).stop()
        start_embedded(folder)

        [copy] = (shelf / "runtime").iterdir()
        with psycopg.connect(start_embedded(folder).url) as connection:
            [(programs,)] = connection.execute("SELECT setting FROM pg_config WHERE name = 'BINDIR'").fetchall()
            assert Path(programs).is_relative_to(copy)
            connection.execute("CREATE EXTENSION vector")
    finally:
        put_out(folder)
        subprocess.run(["rm", "-r", str(shelf)], check=True)


@pytest.mark.skipif(not AS_ROOT, reason="about root")
def test_without_an_open_place_for_a_copy_the_closed_folder_is_named(
    closed: Binaries, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "COMMON", tmp_path / "closed too")

    with pytest.raises(NotReady) as refused:
        start_embedded(folder)

    first_closed = binaries.barrier(closed.bin)
    assert str(first_closed) in refused.value.message
    assert "PGENGRAM_DATA_DIR" in refused.value.hint


@pytest.mark.skipif(not (AS_ROOT and SETPRIV), reason="only root can become somebody else")
@pytest.mark.parametrize("inside", [(), ("data",)], ids=["the folder", "one above"])
def test_a_place_where_its_user_may_not_write_is_named_with_the_setting_to_change(
    folder: Path, inside: tuple[str, ...]
) -> None:
    folder.mkdir(mode=0o755)
    user = Users(folder.joinpath(*inside), 60001).launch()

    told = user.hears("failed")

    assert f"The data folder {folder.joinpath(*inside)} cannot be used: " in told
    assert "PGENGRAM_DATA_DIR" in told
    assert not any(folder.iterdir())
    user.process.communicate()


@pytest.mark.skipif(not (AS_ROOT and SETPRIV), reason="only root can become nobody in particular")
def test_a_user_without_a_name_gets_a_server(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, 60001, 60001)
    user = Users(folder, 60001).launch().ready()

    assert user.asks("SELECT 1") == [(1,)]
    user.stop()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such users")
def test_where_initdb_has_to_make_the_data_a_user_without_a_name_is_told_why_it_does_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_data, "_template_fits", lambda _: False)
    monkeypatch.setattr("pwd.getpwall", list)
    monkeypatch.setattr(system, "owner", lambda _: None)

    with pytest.raises(NotReady, match="has no name here"):
        start_embedded(folder)

    assert not (folder / "postgres" / "cluster").exists()


@pytest.mark.skipif(not (AS_ROOT and SETPRIV), reason="about root")
def test_a_root_without_capabilities_is_told_how_to_go_on(folder: Path) -> None:
    bare = [SETPRIV or "", "--bounding-set=-all", "--inh-caps=-all", sys.executable]
    script = str(Path(__file__).with_name("one_user.py"))
    answer = subprocess.run([*bare, script, str(folder)], capture_output=True, text=True, check=True).stdout

    assert "failed PostgreSQL refuses to run as root" in answer
    assert "ordinary user" in answer
