"""`pgengram citus` by typing: on a store of one machine, and where there is a cluster."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from helpers import Database, environment


def typed(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pgengram", "citus", *words]
    return subprocess.run(command, env=environment(**settings), capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [("init",), ("status",), ("add-node", "db2"), ("rebalance",), ("isolate", "acme")],
    ids=lambda words: words[0],
)
def test_a_database_without_citus_is_told_that_it_needs_nothing(database: Database, words: tuple[str, ...]) -> None:
    if database.as_login("SELECT 1 FROM pg_extension WHERE extname = 'citus'"):
        pytest.skip("this database is part of a cluster")
    before = database.as_login("SELECT count(*) FROM pg_constraint")

    answer = typed(*words, database_url=database.url)

    assert answer.returncode == 1
    assert "no extension citus" in answer.stderr
    assert "CREATE EXTENSION" in answer.stderr
    assert database.as_login("SELECT count(*) FROM pg_constraint") == before


def test_the_embedded_server_is_for_one_machine() -> None:
    answer = typed("status")

    assert answer.returncode == 2
    assert "PGENGRAM_DATABASE_URL" in answer.stderr


@pytest.mark.parametrize("place", ["db2:", "db2:port", ":5432", "db2:70000"])
def test_a_machine_must_have_a_name_and_a_port(database: Database, place: str) -> None:
    answer = typed("add-node", place, database_url=database.url)

    assert answer.returncode == 2
    assert "HOST:PORT" in answer.stderr


def test_the_state_of_a_cluster_is_shown_to_people_and_to_programs(cluster_db: Database) -> None:
    shown = typed("status", database_url=cluster_db.url)
    answer = json.loads(typed("status", "--json", database_url=cluster_db.url).stdout)

    assert shown.returncode == 0
    assert "is in force on every shard" in shown.stdout
    assert answer["row_level_security"] is True
    assert answer["missing"] == []
    assert sum(node["shards"] for node in answer["nodes"]) == answer["shards"]


def test_one_file_does_not_back_up_a_cluster(cluster_db: Database, tmp_path: object) -> None:
    command = [sys.executable, "-m", "pgengram", "backup", f"{tmp_path}/all.backup"]
    settings = environment(database_url=cluster_db.url)
    answer = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)

    assert answer.returncode == 1
    assert "several machines" in answer.stderr
