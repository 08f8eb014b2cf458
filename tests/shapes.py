"""Which tests ask for something that a shape of the store does not have, and why: the one place in which they are skipped there.

A shape is chosen by the environment: PGENGRAM_TEST_DATABASE_URL may name a coordinator of Citus, PGENGRAM_TEST_PGBOUNCER_URL a
pooler before that server, PGENGRAM_TEST_REPLICA_URL a replica of it. A test is named by its file, or by its file and name.
Statements that only a test sends, and that Citus cannot run, skip their test in `helpers.py`, in Citus's own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

from helpers import POOLER, REPLICA, on_citus

CITUS, POOLED, READING_ELSEWHERE = "on Citus", "behind a pooler", "with a replica"

NOT_THERE: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    CITUS: {
        "the schema itself is looked at, which Citus adds to": (
            "tests/store/test_schema.py::test_only_the_vector_extension_is_required",
            "tests/store/test_schema.py::test_the_application_role_can_neither_pass_the_wall_nor_log_in",
            "tests/store/test_schema.py::test_the_migrations_lead_to_the_schema_that_the_tables_declare",
            "tests/store/test_schema.py::test_the_dimension_in_the_store_is_the_models",
        ),
        "a backup in one file is refused, as tests/cluster shows": (
            "tests/faults/test_backup.py",
            "tests/faults/test_recovery_on_ones_own_server.py",
            "tests/faults/test_restoring_the_erased.py",
        ),
        "a store on a cluster is not synchronised": tuple(
            f"tests/sync/{path.name}" for path in sorted((Path(__file__).parent / "sync").glob("test_*.py"))
        ),
        "settings are made by hand, which reach no worker; tests/cluster has the same": (
            "tests/spaces/test_rules_of_spaces.py::test_the_database_itself_lets_a_guest_change_nothing_and_a_writer_remove_only_their_own",
        ),
        "a writer waits for a minute, as a shard may be on its way to another machine": (
            "tests/hostile/test_exhaustion.py::test_a_lock_that_somebody_else_holds_is_not_waited_for_for_ever",
            "tests/hostile/test_exhaustion.py::test_every_transaction_bounds_its_statements_its_locks_and_its_idleness",
        ),
        "whoever waits is looked for on the coordinator, and waits on a worker": (
            "tests/maintenance/test_postings_compaction.py::test_a_change_during_compaction_waits_and_loses_nothing",
            "tests/tools/test_update_memory.py::test_a_text_that_someone_else_changes_meanwhile_never_keeps_the_vector_of_theirs",
        ),
        "the index is looked at, which is on the workers": (
            "tests/maintenance/test_postings_compaction.py::test_the_index_of_the_lists_is_built_anew_when_it_is_half_empty",
            "tests/store/test_vector_index.py::test_many_small_namespaces_do_not_keep_a_large_one_from_the_index",
        ),
        "the plan is looked at, which is the worker's there": (
            "tests/tools/test_graph.py::test_each_step_is_walked_by_the_indexes",
            "tests/store/test_vector_index.py::test_each_search_is_a_scan_of_the_index",
        ),
    },
    POOLED: {
        "what is set for a database reaches new sessions only, and a pooler keeps those it has": (
            "tests/faults/test_read_only_database.py",
            "tests/store/test_another_time_zone.py",
        ),
        "a session is set, which a pooler would give to others": ("tests/store/test_sql_for_people.py",),
        "a backup through a pooler is refused, as tests/faults shows": (
            "tests/maintenance/test_index_life_cycle.py::test_a_restored_store_of_thousands_has_its_index_at_once_and_searches_answer_as_before",
        ),
        "memory for building an index cannot be asked for through a pooler": (
            "tests/maintenance/test_index_life_cycle.py::test_an_index_that_would_need_more_memory_than_allowed_is_built_with_fewer_lists",
        ),
    },
    READING_ELSEWHERE: {},
}


def given() -> Iterator[str]:
    """Yield the shapes of this run."""
    if on_citus():
        yield CITUS
    if POOLER:
        yield POOLED
    if REPLICA:
        yield READING_ELSEWHERE


def skip_what_is_not_there(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that cannot run in the shapes of this run."""
    reasons = {
        name: f"{shape}: {reason}" for shape in given() for reason, names in NOT_THERE[shape].items() for name in names
    }
    for item in items:
        name = item.nodeid.partition("[")[0]
        reason = reasons.get(name) or reasons.get(name.partition("::")[0])
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
