"""Looking after a store by typing: count, review, tidy."""

from __future__ import annotations

import pytest

from helpers import Database, nightly
from machine import answered, has_terminals, pgengram, typed_in_a_terminal

WORDS = {"embedder": "none:"}


def remembered(database: Database, content: str, *more: str) -> str:
    answer = answered("call", "create_memory", f"content={content}", *more, database_url=database.url, **WORDS)
    return str(answer["memory_id"])


def test_one_project_is_counted_with_as_many_tags_as_wanted(database: Database) -> None:
    remembered(database, "The ark leaks.", "project=ark", "tags=wood,water")
    remembered(database, "The shed leaks.", "project=shed")

    outcome = answered("stats", "--json", "--project", "ark", "--tags", "1", database_url=database.url, **WORDS)

    assert outcome["totals"]["active"] == 1
    assert (outcome["totals"]["tags"], list(outcome["tags"])) == (2, ["water"])
    screen = pgengram("stats", "--all", database_url=database.url, **WORDS).stdout
    assert "by project" in screen
    assert "The ark leaks." in screen


def test_a_review_shows_what_needs_care_and_changes_nothing(database: Database) -> None:
    remembered(database, "ok")

    outcome = answered("review", "--json", "--find", "fragments", database_url=database.url, **WORDS)
    screen = pgengram("review", database_url=database.url, **WORDS).stdout

    assert [finding["excerpts"] for finding in outcome["findings"]] == [["ok"]]
    assert "fragments: 1" in screen
    assert database.value("SELECT count(*) FROM memories WHERE version = 1") == 1


def test_a_safe_plan_is_carried_out_without_a_question_when_told_so(database: Database) -> None:
    id_ = remembered(database, "The bridge is closed.", "occurred_at=2019-01-01", "expires_at=2020-01-01T00:00:00Z")

    done = pgengram("tidy", "apply", "--yes", database_url=database.url, **WORDS).stdout

    assert "The bridge is closed." in done  # a person agrees to texts, not to ids
    assert "Done: archive 1 memory." in done
    assert "confirm_token" not in done
    assert database.value("SELECT status FROM memories WHERE id = %s", [id_]) == "archived"


def test_an_index_that_is_not_built_is_said_to_be_none(database: Database) -> None:
    screen = pgengram("reindex", database_url=database.url).stdout

    assert "No index was built. Searches use exact search; an index is built once there are 5,000 vectors." in screen


FADED = """
WITH made AS (
  INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
  SELECT current_setting('pgengram.namespace_id')::integer, gen_random_uuid(), 'semantic', 'The bus was late ' || n,
    decode(md5('v' || n), 'hex'), now() FROM generate_series(1, %s) AS n RETURNING namespace_id, id
)
INSERT INTO memory_activation (namespace_id, memory_id, importance, rate_per_day, started_at)
SELECT namespace_id, id, 0.1, (SELECT max(rate_per_day) FROM decay_classes), now() FROM made RETURNING 1
"""


def test_what_one_run_leaves_for_the_next_is_told(database: Database) -> None:
    remembered(database, "The harbour is north of the town.", "importance=1")
    database.rows(FADED, [1_003])
    archive = ("tidy", "archive", "--older-than-days", "0", "--yes")

    done = pgengram(*archive, database_url=database.url, **WORDS).stdout
    assert "Done: archive 1,000 memories." in done
    assert "3 memories of the same kind are left: run the command again." in done

    done = pgengram(*archive, database_url=database.url, **WORDS).stdout
    assert "Done: archive 3 memories." in done
    assert "left" not in done


def test_nothing_is_archived_unless_somebody_agrees(database: Database) -> None:
    id_ = remembered(database, "The bus was late.", "importance=0.1")
    arguments = ("tidy", "archive", "--older-than-days", "0")

    preview = answered(*arguments, "--json", database_url=database.url, **WORDS)
    assert [change["id"] for change in preview["changes"]] == [id_]
    assert database.value("SELECT status FROM memories") == "active"

    assert answered(*arguments, "--json", "--yes", database_url=database.url, **WORDS)["done"] is True
    assert database.value("SELECT status FROM memories") == "archived"


@has_terminals
@pytest.mark.parametrize(
    "arguments",
    [
        ("forget", "--hard"),
        ("tidy", "apply"),
        *nightly(("tidy", "archive", "--older-than-days", "0"), ("tidy", "prune", "--older-than-days", "0")),
    ],
    ids=" ".join,
)
def test_a_yes_in_the_terminal_is_for_the_versions_that_were_shown(
    database: Database, arguments: tuple[str, ...]
) -> None:
    id_ = remembered(
        database, "The bus was late.", "importance=0.05", "occurred_at=2019-01-01", "expires_at=2020-01-01T00:00:00Z"
    )
    if "prune" in arguments:
        database.as_login("UPDATE memories SET status = 'archived'")
    words = (*arguments, id_) if arguments[0] == "forget" else arguments
    settings = {"database_url": database.url, **WORDS}

    def change() -> None:
        database.as_login("UPDATE memories SET version = version + 1")

    before = database.rows("SELECT status, version FROM memories")[0]
    refused = typed_in_a_terminal("y\n", *words, expect=1, meanwhile=change, **settings)
    assert "was changed" in refused
    assert database.rows("SELECT status, version FROM memories") == [before | {"version": before["version"] + 1}]

    typed_in_a_terminal("y\n", *words, **settings)
    assert before["status"] not in [row["status"] for row in database.rows("SELECT status FROM memories")]


@pytest.mark.parametrize(
    "arguments", [("tidy", "explode"), ("tidy", "archive", "--below-importance", "7"), ("review", "--find", "lost")]
)
def test_what_is_not_known_is_refused(database: Database, arguments: tuple[str, ...]) -> None:
    assert pgengram(*arguments, expect=2, database_url=database.url, **WORDS).stdout == ""
