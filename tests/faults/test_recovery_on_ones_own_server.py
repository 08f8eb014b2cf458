"""Backups and restores by the login that owns the database and can do nothing else, of files that strangers made, and
onto older servers."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import PATIENCE_S, SERVER, Database, database_of, environment, examples, in_database
from later_version import LATER, later_version
from machine import answered, closed_in_the_end, pgengram
from owners import Owned, owned
from pgengram import postgres as embedded
from pgengram.errors import InvalidInput
from pgengram.postgres import binaries, supervisor
from pgengram.postgres.binaries import find_binaries
from pgengram.store.recovery import archive, backup, restoring
from pgengram.store.schema import migrate

NO_EMBEDDER = {"embedder": "none:"}


def remembers(url: str, *contents: str, namespace: str = "default") -> None:
    for content in contents:
        pgengram("call", "create_memory", f"content={content}", database_url=url, namespace=namespace, **NO_EMBEDDER)


def contents(db: Database, namespace: str = "default") -> list[str]:
    return sorted(row["content"] for row in db.rows("SELECT content FROM memories", namespace=namespace))


@pytest.fixture
def vector_in_new_databases(postgres: str) -> Iterator[None]:
    """What an administrator does where pgvector may be made by a superuser alone."""
    template1 = in_database(postgres, "template1")
    with psycopg.connect(template1, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    yield
    with psycopg.connect(template1, autocommit=True) as connection:
        connection.execute("DROP EXTENSION vector")


OF_ANOTHER_PROGRAM = (
    "CREATE TABLE invoices (id integer); REVOKE ALL ON invoices FROM PUBLIC",
    "CREATE SCHEMA shop; CREATE TABLE shop.orders (id integer)",
)


def test_the_owner_makes_a_backup_of_all_namespaces_and_of_nothing_else(postgres: str, tmp_path: Path) -> None:
    path = tmp_path / "all.backup"
    with owned(postgres) as made:
        remembers(made.url, "Ada's.", namespace="ada")
        remembers(made.url, "Ben's.", "Ben's too.", namespace="ben")
        made.admin.as_login(*OF_ANOTHER_PROGRAM)

        answer = answered("backup", str(path), "--json", database_url=made.url)

        assert answer["tables"]["memories"]["rows"] == 3
        assert answer["left_out"] == ["public.invoices", "shop.orders"]
        assert made.db.as_login("SELECT count(*) FROM memories") == [(0,)], "without saying so it sees none"
        rows = answered("doctor", "--json", database_url=made.url, backup_days="1", expect=0, **NO_EMBEDDER)
        [row] = [row for row in rows if row["what"] == "Backups"]
        assert row["ok"]
        assert "CREATEDB" in row["seen"]

        refused = pgengram("restore", str(path), "--yes", database_url=made.url, expect=1)
        assert "public.invoices, shop.orders" in refused.stderr
        assert contents(made.db, "ben") == ["Ben's too.", "Ben's."]
    with owned(postgres) as other:
        remembers(other.url, "Here before.")
        refused = pgengram("restore", str(path), "--yes", database_url=other.url, expect=1)
        assert f"ALTER ROLE {other.login} CREATEDB" in refused.stderr
        assert contents(other.db) == ["Here before."]


def test_a_restore_by_the_owner_needs_what_it_says_before_and_keeps_what_the_database_says_of_itself(
    postgres: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "ada.backup"
    with owned(postgres) as made:
        remembers(made.url, "Ada's.", namespace="ada")
        pgengram("backup", str(path), database_url=made.url)
        rows = archive.read_manifest(path).tables
    with owned(postgres, login="CREATEDB") as other:
        remembers(other.url, "Here before.")
        name = other.admin.name
        if not can_make_vector(other):
            refused = pgengram("restore", str(path), "--yes", database_url=other.url, expect=1)
            assert "in the database template1: CREATE EXTENSION vector;" in refused.stderr
            assert contents(other.db) == ["Here before."]
            if SERVER:
                pytest.skip("the template of new databases is everybody's here")
            request.getfixturevalue("vector_in_new_databases")
        other.admin.as_login(
            f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC",
            f"ALTER DATABASE {name} SET statement_timeout = '61s'",
            f"ALTER ROLE {other.login} IN DATABASE {name} SET search_path = public, pg_catalog",
        )
        other.admin.close()

        pgengram("restore", str(path), "--yes", database_url=other.url)

        with psycopg.connect(other.url) as connection:
            assert backup.prints(connection) == rows
        assert contents(other.db, "ada") == ["Ada's."]
        assert other.db.as_login("SHOW search_path") == [("public, pg_catalog",)]
        acl = "SELECT datacl::text ~ '[{,]=[a-zA-Z]*c' FROM pg_database WHERE datname = current_database()"
        assert other.db.as_login(acl) == [(False,)]
        assert other.db.as_login("SHOW statement_timeout") == [("61s",)]
        named = "SELECT DISTINCT roles::text FROM pg_policies WHERE policyname = 'maintenance'"
        assert other.db.as_login(named) == [(f"{{{other.login}}}",)]
        remembers(other.url, "Ada's second.", namespace="ada")


def can_make_vector(made: Owned) -> bool:
    trusted = "SELECT bool_or(trusted) FROM pg_available_extension_versions WHERE name = 'vector'"
    return made.admin.as_login(trusted) == [(True,)]


EVIL = (
    "CREATE FUNCTION pwn() RETURNS integer LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'COPY (SELECT 1) TO PROGRAM ''touch {}'''; RETURN 1; END $$",
    "CREATE FUNCTION pwned() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pwn(); RETURN NEW; END $$",
    "CREATE FUNCTION pwned_by_event() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pwn(); END $$",
    "CREATE MATERIALIZED VIEW digest AS SELECT pwn() WITH NO DATA",
    "CREATE TRIGGER pwns BEFORE INSERT ON memories FOR EACH ROW EXECUTE FUNCTION pwned()",
    "CREATE TABLE loot (id integer CHECK (pwn() = 1)); ALTER TABLE loot ALTER id SET DEFAULT pwn()",
    "CREATE VIEW memories_of_all AS SELECT * FROM memories",
)


def test_nothing_in_a_strangers_backup_runs(
    postgres: str, template: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    open_to_all = tmp_path_factory.mktemp("open")
    open_to_all.chmod(0o777)
    touched = open_to_all / "pwned"
    path = tmp_path / "evil.backup"
    with database_of(postgres, template) as evil:
        remembers(evil.url, "A gift.")
        with psycopg.connect(evil.url) as connection:
            tables = backup.prints(connection)
        evil.as_login(*(statement.format(touched) for statement in EVIL), "CREATE EVENT TRIGGER pwns ON ddl_command_end EXECUTE FUNCTION pwned_by_event()", "ALTER EVENT TRIGGER pwns DISABLE", "ALTER MATERIALIZED VIEW digest OWNER TO CURRENT_USER")  # fmt: skip
        packed(evil, path, tables)
    with database_of(postgres, template, keeps=False) as mine:
        answer = answered("restore", str(path), "--yes", "--json", database_url=mine.url)

        assert not touched.exists()
        assert contents(mine) == ["A gift."]
        for what in ("materialized view digest", "function pwn()", "table loot", "view memories_of_all",
                     "trigger memories pwns", "event trigger pwns"):  # fmt: skip
            assert what in answer["left_out"]
        left = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'pwn%'"
        assert mine.as_login(left) == [(0,)]
        relevance = "SELECT pgengram_relevance('-Infinity', 0, now())"
        assert mine.as_login(relevance) == [(0.0,)], "a function is ours even if the file says another of that name"


def packed(database: Database, path: Path, tables: archive.Tables) -> None:
    """Write a backup of a whole database, as somebody who means harm would: its functions say something else."""
    dump = path.with_suffix(".dump")
    tools = binaries.programs_for(18)
    subprocess.run([tools.program("pg_dump"), "--format=custom", f"--file={dump}", database.url], check=True)
    whole = dump.read_bytes()
    assert b"THEN 0.0" in whole
    dump.write_bytes(whole.replace(b"THEN 0.0", b"THEN 6.6"))
    whole = dump.read_bytes()
    made = backup.Manifest(1, "0.1.0", "", "18.4", "2026-01-01", hashlib.sha256(whole).hexdigest(), len(whole), tables)
    archive.pack(path, replace(made, schema=migrate.newest_version()), dump)
    dump.unlink()


def test_a_backup_of_a_newer_postgresql_is_restored_on_an_older_one(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "newer.backup"
    remembers(database.url, "From the newer one: Größe, 日本, 👋, \\N and\ta tab.")
    pgengram("backup", str(path), database_url=database.url)
    monkeypatch.setattr(supervisor, "find_binaries", lambda major=None: find_binaries(major or 16))
    with closed_in_the_end(tmp_path / "older") as folder:
        older = embedded.start_embedded(folder)
        try:
            restoring.restore_backup(older.url, path)

            with psycopg.connect(older.url) as connection:
                assert connection.info.server_version // 10_000 == 16
                assert backup.prints(connection) == archive.read_manifest(path).tables
        finally:
            older.stop()


def test_a_backup_of_an_older_schema_is_restored_and_brought_up_to_date(
    postgres: str, template: str, tmp_path: Path
) -> None:
    path = tmp_path / "older.backup"
    with database_of(postgres, template) as older:
        remembers(older.url, "Jonas is allergic to peanuts.")
        pgengram("backup", str(path), database_url=older.url)
    with database_of(postgres, keeps=False) as mine, later_version(tmp_path):
        answer = restoring.restore_backup(mine.url, path)

        assert answer.left_out == []
        assert migrate.state(mine.url).version == LATER
        assert mine.as_login("SELECT content, mood_count FROM memories") == [("Jonas is allergic to peanuts.", 7)]
        assert mine.as_login("SELECT convalidated FROM pg_constraint WHERE conname = 'memories_namespace_id_fkey'") == [(True,)]  # fmt: skip


@pytest.fixture(scope="module")
def a_backup(postgres: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "kept.backup"
    with database_of(postgres, template) as database:
        remembers(database.url, "Kept.")
        pgengram("backup", str(path), database_url=database.url)
    return path


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(60))
@given(data=st.data())
def test_whatever_the_manifest_says_is_a_backup_or_refused(a_backup: Path, data: st.DataObject) -> None:
    with archive.opened(a_backup) as (manifest, packed_dump):
        dump = packed_dump.read()
    said = asdict(manifest)
    name = data.draw(st.sampled_from([*said, "more", "tables/memories", "tables/memories/rows"]))
    wrong = data.draw(JSON.filter(lambda value: not isinstance(value, str)) | st.sampled_from(["", "eighteen", "١٨"]))
    place, *rest = name.split("/")
    inside = said
    for part in (place, *rest)[:-1]:
        inside = inside[part]
    before = inside.get([place, *rest][-1])
    inside[[place, *rest][-1]] = wrong
    written(a_backup.with_name("odd.backup"), json.dumps(said).encode(), dump)

    if isinstance(wrong, type(before)):
        with suppress(InvalidInput):
            archive.read_manifest(a_backup.with_name("odd.backup"))
    else:
        with pytest.raises(InvalidInput, match=r"odd\.backup"):
            archive.read_manifest(a_backup.with_name("odd.backup"))


@pytest.mark.parametrize(
    "manifest", [b"[]", b"7", b"null", b"[" * 100_000, b'"format"', b'{"format": 1}', b"\xff", b""]
)
def test_a_manifest_of_another_shape_is_refused_by_the_command(a_backup: Path, tmp_path: Path, manifest: bytes) -> None:
    path = tmp_path / "odd.backup"
    written(path, manifest, b"PGDMP")

    with pytest.raises(InvalidInput, match="not a backup"):
        archive.read_manifest(path)


def written(path: Path, manifest: bytes, dump: bytes) -> None:
    import io
    import tarfile

    with tarfile.open(path, "w") as tar:
        for name, content in ((archive.MANIFEST, manifest), (archive.DUMP, dump)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def test_a_restore_that_is_killed_leaves_no_text_in_any_file(
    a_backup: Path, postgres: str, template: str, tmp_path: Path
) -> None:
    with database_of(postgres, template, keeps=False) as mine:
        variables = environment(database_url=mine.url) | {"TMPDIR": str(tmp_path), "PGENGRAM_DATA_DIR": str(tmp_path)}
        incoming = f"SELECT count(*) FROM pg_database WHERE datname = '{mine.name}_incoming'"
        restoring_ = subprocess.Popen(
            [sys.executable, "-m", "pgengram", "restore", str(a_backup), "--yes"], env=variables
        )
        try:
            deadline = time.monotonic() + PATIENCE_S
            while Database(postgres).as_login(incoming) != [(1,)]:
                assert time.monotonic() < deadline
                assert restoring_.poll() is None
        finally:
            restoring_.kill()
            restoring_.wait()
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
        pgengram("restore", str(a_backup), "--yes", database_url=mine.url)
        assert contents(mine) == ["Kept."]
