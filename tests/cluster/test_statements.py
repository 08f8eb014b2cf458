"""Every statement about a namespace's rows names the namespace, so that a cluster sends it to one worker."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import pytest
from life import Life, recorded
from psycopg import sql
from sql_rules import NAMED, faults

import pgengram.search
import pgengram.service.toolsets
import pgengram.store
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings

# What looks after the whole store, on every shard, and answers no namespace.
OF_ALL_NAMESPACES = {
    "NOTE_CHANGE_FUNCTION": "pgengram.store.sync.state",  # of triggers, which a cluster has not
    "ADD": "pgengram.store.memory.deletion",  # a backup of all namespaces is put back
    "ERASED": "pgengram.store.memory.deletion",
    "ANALYZE": "pgengram.store.maintenance.indexes",
    "COUNT_ROWS": "pgengram.store.maintenance.index_state",
    "VACUUM": "pgengram.store.maintenance.postings_compaction",
}


def constants() -> Iterator[tuple[str, str, str]]:
    """Module, name and text of everything that is SQL about a namespace's tables."""
    for package in (pgengram.store, pgengram.search, pgengram.service.toolsets):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if found.name == "pgengram.store.schema.tables":
                continue
            for name, value in vars(import_module(found.name)).items():
                text = value.as_string() if isinstance(value, sql.Composable) else value
                if isinstance(text, str) and not name.startswith("__") and NAMED.search(text):
                    yield found.name, name, text


def test_every_statement_in_the_program_says_whose_rows_it_means() -> None:
    checked = [(module, name, faults(text)) for module, name, text in constants() if name not in OF_ALL_NAMESPACES]

    assert len(checked) > 100
    assert [entry for entry in checked if entry[2]] == []


@pytest.mark.parametrize(("name", "module"), OF_ALL_NAMESPACES.items())
def test_what_looks_after_all_namespaces_is_named_here(name: str, module: str) -> None:
    assert faults(getattr(import_module(module), name))


async def test_every_statement_that_the_tools_send_says_whose_rows_it_means(settings: Settings) -> None:
    manager = MemoryManager(Settings(database_url=settings.database_url, toolsets="all"))
    await manager.ready()
    life = Life(manager)
    try:
        with recorded() as sent:
            await life.one_of_each()
    finally:
        await manager.close()

    assert life.called == life.tools
    texts = {text for text, _ in sent}
    assert len(texts) > 60
    assert [(text, wrong) for text in texts if (wrong := faults(text))] == []


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id FROM memories WHERE id = %(id)s",
        "SELECT m.id FROM memories m JOIN memory_tags t ON t.memory_id = m.id WHERE m.namespace_id = %(namespace_id)s",
        "SELECT ARRAY(SELECT tag FROM memory_tags t WHERE t.namespace_id = m.namespace_id) FROM memories m WHERE m.namespace_id = %(namespace_id)s",
        "SELECT 1 FROM memories WHERE namespace_id = %(namespace_id)s AND EXISTS (SELECT 1 FROM memory_words WHERE terms = '{}')",
        "DELETE FROM memory_vectors v USING memories m WHERE v.namespace_id = %(namespace_id)s AND m.id = v.memory_id",
        "UPDATE memories SET version = 2 WHERE id = %(id)s",
        "UPDATE memories m SET people = (people)[:32] WHERE m.namespace_id = %(namespace_id)s",
        "INSERT INTO memory_tags (memory_id, tag) VALUES (%(id)s, 'a')",
        "INSERT INTO memory_tags (namespace_id, memory_id, tag) SELECT %(namespace_id)s, %(id)s, 'a'",
        "SELECT 1 FROM memories WHERE namespace_id = %(namespace_id)s AND EXISTS (SELECT FROM unnest(%(a)s))",
    ],
)
def test_a_statement_that_would_ask_more_than_one_worker_is_noticed(statement: str) -> None:
    assert faults(statement)
