"""Two namespaces of one database: what belongs to the one is nothing to the other, by any tool, after any failure."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference
from namespaces import run
from rich.console import Console
from rich.progress import Progress

from helpers import Database, call, connected, database_of, nightly, read, refused, remember
from pgengram.errors import DatabaseFailed
from pgengram.store.connection.database import Database as Pool
from pgengram.store.schema.tables import LOOKUPS, OWNED, metadata

HERS = "canaryada"


@pytest.fixture(scope="module")
async def shared(postgres: str, template: str) -> Any:
    """Ada, who has something of everything, Ben, and the ids of what is hers."""
    with database_of(postgres, template) as db:
        settings = {"database_url": db.url, "embedder": "none:", "toolsets": "all"}
        async with connected(**settings, namespace="ada") as ada, connected(**settings, namespace="ben") as ben:
            memory = await remember(ada, f"The {HERS} gate is green.", tags=[HERS], project=HERS)
            await remember(ada, f"The {HERS} gate squeaks.", related_to=[memory])
            note = (await call(ada, "create_working_memory", content=f"Oil the {HERS} gate."))["memory_id"]
            cluster = (await call(ada, "create_memory_cluster", name=HERS, memory_ids=[memory]))["cluster"]["id"]
            belief = (await call(ada, "record_belief", belief=f"{HERS} gates last.", supported_by=[memory]))["belief"][
                "id"
            ]
            token = (await call(ada, "forget_memories", ids=[memory], hard=True))["confirm_token"]
            db.keep()
            yield db, ada, ben, {"memory": memory, "note": note, "cluster": cluster, "belief": belief, "token": token}


# Every way to name something by its id: {name} stands for Ada's, {mine} for Ben's own.
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("get_memories", {"ids": ["{memory}"]}),
    ("get_memories", {"ids": ["{memory}"], "include": ["history", "relations", "clusters"]}),
    ("get_memories", {"ids": ["{note}"]}),
    ("create_memory", {"content": "Mine.", "related_to": ["{memory}"]}),
    ("update_memory", {"id": "{memory}", "content": "Mine."}),
    ("update_memory", {"id": "{memory}", "status": "archived"}),
    ("update_memory", {"id": "{memory}", "confirm": True}),
    ("forget_memories", {"ids": ["{memory}"]}),
    ("forget_memories", {"ids": ["{memory}"], "hard": True}),
    ("forget_memories", {"ids": ["{memory}"], "hard": True, "confirm_token": "{token}"}),
    ("forget_memories", {"ids": ["{mine}"], "replaced_by_ids": ["{memory}"]}),
    ("forget_memories", {"ids": ["{mine}"], "hard": True, "confirm_token": "{token}"}),
    ("link_memories", {"from_id": "{mine}", "to_ids": ["{memory}"]}),
    ("link_memories", {"from_id": "{memory}", "to_ids": ["{mine}"]}),
    ("link_memories", {"from_id": "{memory}", "to_ids": ["{mine}"], "remove": True}),
    ("explore_memories", {"ids": ["{memory}"]}),
    ("tidy_memories", {"action": "apply", "plan": [{"action": "archive", "ids": ["{memory}"]}]}),
    ("tidy_memories", {"action": "apply", "plan": [{"action": "merge", "ids": ["{mine}", "{memory}"], "into": "{mine}"}]}),
    ("create_memory_cluster", {"name": "Mine", "memory_ids": ["{memory}"]}),
    ("update_cluster_members", {"cluster_id": "{cluster}", "name": "Mine"}),
    ("update_cluster_members", {"cluster_id": "{cluster}", "delete": True}),
    ("update_cluster_members", {"cluster_id": "{own}", "add": ["{memory}"]}),
    ("get_memory_clusters", {"ids": ["{cluster}"]}),
    ("activate_cluster", {"cluster_id": "{cluster}"}),
    ("consolidate_working_memory", {"ids": ["{note}"], "content": "Mine."}),
    ("record_belief", {"id": "{belief}", "confidence": 0.1}),
    ("record_belief", {"id": "{belief}", "remove": True}),
    ("record_belief", {"belief": "Mine.", "supported_by": ["{memory}"]}),
    ("record_belief", {"belief": "Mine.", "contradicted_by": ["{note}"]}),
]  # fmt: skip


def filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        return value.format(**names) if value.startswith("{") else value
    if isinstance(value, dict):
        return {key: filled(one, names) for key, one in value.items()}
    return [filled(one, names) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("cut", [False, *nightly(True)], ids=["whole", "shortened"])
@pytest.mark.parametrize(("tool", "arguments"), REFUSED, ids=lambda value: str(value)[:60])
async def test_the_id_of_another_namespace_means_nothing(
    shared: Any, tool: str, arguments: dict[str, Any], cut: bool
) -> None:
    db, _, ben, hers = shared
    before = everything(db, "ada")
    mine = await remember(ben, "Mine to begin with.")
    own = (await call(ben, "create_memory_cluster", name="Own"))["cluster"]["id"]
    names = {name: id_[-12:] if cut and name != "token" else id_ for name, id_ in hers.items()} | {
        "mine": mine,
        "own": own,
    }

    answer = await ben.call_tool(tool, filled(arguments, names))

    text = answer.content[0].text  # type: ignore[union-attr]
    assert answer.is_error, text
    assert '"NOT_FOUND"' in text or '"CONFIRM_REQUIRED"' in text
    assert HERS not in text
    assert (await read(ben, mine))["status"] == "active"
    assert everything(db, "ada") == before


def everything(db: Database, namespace: str) -> str:
    """Return all rows of the tables that calls could change, as text."""
    tables = ("memories", "memory_relationships", "memory_clusters", "memory_cluster_members", "working_memories",
              "memory_beliefs", "memory_belief_evidence", "memory_history", "memory_confirmations")  # fmt: skip
    return str([db.rows(f"SELECT t::text FROM {table} t ORDER BY 1", namespace=namespace) for table in tables])


async def test_nothing_of_another_namespace_is_in_what_names_no_id(shared: Any) -> None:
    _, ada, ben, hers = shared
    asked: list[tuple[str, dict[str, Any]]] = [
        ("search_memories", {"query": f"{HERS} gate", "limit": 100, "detail": True}),
        ("search_memories", {"project": HERS}),
        ("search_memories", {"tags": [HERS]}),
        ("search_memories", {"query": HERS, "mode": "substring"}),
        ("search_memories", {"query": HERS, "count_only": True}),
        ("recall_context", {"context": f"the {HERS} gate"}),
        ("get_working_memories", {}),
        ("get_memory_clusters", {"insights": True, "days": 30}),
        ("get_worldview", {}),
        ("get_identity_core", {"earlier": 10}),
        ("memory_stats", {"tags": 500}),
        ("review_memories", {}),
        ("tidy_memories", {"action": "archive", "older_than_days": 0, "below_importance": 1}),
    ]  # fmt: skip

    for tool, arguments in asked:
        answer = str({name: value for name, value in (await call(ben, tool, **arguments)).items() if name != "query"})
        assert HERS not in answer, tool
        assert not [id_ for id_ in hers.values() if id_ in answer], tool
    assert (await call(ada, "search_memories", query=HERS, mode="substring", count_only=True))["total"] == 2


async def test_resources_prompts_and_completions_show_ones_own_alone(shared: Any) -> None:
    _, ada, ben, hers = shared
    id_ = hers["memory"]

    for uri in (f"memory://{id_}", f"memory://{id_[-8:]}"):
        with pytest.raises(MCPError, match="No such resource"):
            await ben.read_resource(uri)
    for name in ("categories", "stats", "context"):
        assert HERS not in str(await ben.read_resource(f"memory://{name}"))
    for name, arguments in (("session-start", {}), ("recall", {"query": "gate"}), ("session-start", {"topic": "gate"})):
        assert HERS not in str(await ben.get_prompt(name, arguments))
    assert not {*await completed(ben, "id", id_[:8])} & {*hers.values()}
    assert await completed(ben, "project", "canary") == []
    assert await completed(ben, "tags", "canary") == []
    assert await completed(ada, "project", "canary") == [HERS]


async def completed(client: Client, name: str, begun: str) -> list[str]:
    ref: Any = ResourceTemplateReference(uri="memory://{id}") if name == "id" else PromptReference(name="recall")
    return list((await client.complete(ref, {"name": name, "value": begun})).completion.values)


@pytest.mark.parametrize("how", ["error", "raise", "cancel"])
async def test_a_pooled_connection_carries_no_namespace_after_a_failure(database: Database, how: str) -> None:
    pool = Pool(database.url)
    await pool.open()
    key = await pool.namespace_id("ada")

    async def fail() -> None:
        async with pool.transaction(key) as tx:
            assert (await tx.row("SELECT current_setting('pgengram.namespace_id') AS owner"))["owner"] == str(key)  # type: ignore[index]
            if how == "raise":
                raise ValueError
            await tx.rows("SELECT 1/0" if how == "error" else "SELECT pg_sleep(60)")

    try:
        for _ in range(3):
            failing = asyncio.create_task(fail())
            if how == "cancel":
                await asyncio.sleep(0.1)
                failing.cancel()
            with pytest.raises((DatabaseFailed, ValueError, asyncio.CancelledError)):
                await failing
            async with pool.as_login() as connection:
                found = await connection.execute(
                    "SELECT nullif(current_setting('pgengram.namespace_id', true), '') AS owner, nullif(current_setting('pgengram.actor', true), '') AS actor, current_user = session_user AS itself"
                )
                assert await found.fetchone() == {"owner": None, "actor": None, "itself": True}
    finally:
        await pool.close()


@pytest.mark.shows(26)
async def test_no_row_of_another_namespace_is_seen_in_hundreds_of_mixed_calls_with_cancellations(
    database: Database,
) -> None:
    """The short form of benchmarks/namespaces.py."""
    with Progress(console=Console(quiet=True)) as bar:
        seen = await run(database.url, namespaces=2, tasks=8, calls=15, embedder="none:", seed=3, bar=bar)

    assert seen["answers"]["answered"] > 100
    assert seen["answers"]["cancelled"] > 10
    assert seen["seen"] == []
    assert seen["rows with another's word"] == 0
    assert seen["connections that carry a namespace"] == seen["connections in the application's role"] == 0
    assert seen["connections in the pool, at most 2"] == 2


NO_NAMESPACES = [table for table in metadata.sorted_tables if table not in (*OWNED, *LOOKUPS)]


@pytest.mark.parametrize("table", [table.name for table in NO_NAMESPACES])
@pytest.mark.parametrize(
    "statement", ["SELECT 1 FROM {}", "INSERT INTO {} DEFAULT VALUES", "UPDATE {} SET {} = DEFAULT", "DELETE FROM {}"]
)
def test_the_application_has_no_right_on_what_belongs_to_no_namespace(shared: Any, table: str, statement: str) -> None:
    column = next(iter(metadata.tables[table].columns)).name

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        shared[0].rows(statement.format(table, column), namespace=None)


async def test_a_namespace_is_not_told_by_an_error(shared: Any) -> None:
    _, _, ben, hers = shared

    known = await refused(ben, "update_memory", id=hers["memory"], importance=1)
    unknown = await refused(ben, "update_memory", id="01a1fc39-4afe-78fc-937c-e480e8d03e19", importance=1)

    assert known["message"].replace(hers["memory"], "") == unknown["message"].replace(
        "01a1fc39-4afe-78fc-937c-e480e8d03e19", ""
    )
    assert (known["code"], known["hint"]) == (unknown["code"], unknown["hint"])
