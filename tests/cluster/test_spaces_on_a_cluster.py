"""Shared spaces on a cluster: what their rules say is held by the workers, where the memories are."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest

from helpers import Database
from pgengram.errors import NotFound
from pgengram.store import membership
from pgengram.store.connection.database import Role

sys.path.append(str(Path(__file__).parents[1] / "spaces"))  # the same people as on one machine

from sharing_team import made

OVEN = "The oven in the shared kitchen runs ten degrees hot."


async def test_the_workers_hold_what_members_guests_and_former_members_may_do(cluster_db: Database) -> None:
    async with AsyncExitStack() as stack:
        team = await made(cluster_db, stack)
        hers = await team.mara.remember(OVEN, space="Kitchen")
        his = await team.ben.remember("Flour is on the top shelf.", space="Kitchen")
        await team.ben.remember("The alarm code is under the mat.")

        hits = (await team.cleo.call("search_memories", query="oven flour"))["results"]
        assert {(hit["space"], hit["author"]) for hit in hits} == {("Kitchen", "Mara"), ("Kitchen", "Ben")}
        assert "NOT_ALLOWED" in await team.cleo.refused("create_memory", content="Buy flour.", space="Kitchen")
        assert "NOT_ALLOWED" in await team.ben.refused("forget_memories", ids=[hers], space="Kitchen")
        changed = {"id": hers, "add_tags": ["heat"], "expected_version": 1, "space": "Kitchen"}
        assert (await team.ben.call("update_memory", **changed))["ok"]
        assert await team.dora.found("oven") == []

        def as_person(name: str, statement: str) -> int:
            with psycopg.connect(cluster_db.url) as connection:
                settings = {"pgengram.namespace_id": team.kitchen.id, "pgengram.person_id": team.people[name].id}
                connection.execute("SET LOCAL citus.propagate_set_commands = 'local'")
                connection.execute("SET LOCAL ROLE pgengram_app")
                for setting, value in settings.items():
                    connection.execute(f"SET LOCAL {setting} = '{value}'".encode())
                done = connection.execute(statement.encode(), [team.kitchen.id]).rowcount
                connection.rollback()
                return done

        every, of_hers = "namespace_id = %s", f"namespace_id = %s AND id = '{hers}'"
        assert as_person("cleo", f"SELECT 1 FROM memories WHERE {every}") == 2
        assert as_person("cleo", f"DELETE FROM memories WHERE {every}") == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            as_person("cleo", f"UPDATE memories SET pinned = true WHERE {every}")
        assert as_person("ben", f"DELETE FROM memories WHERE {of_hers}") == 0
        assert as_person("ben", f"DELETE FROM memories WHERE namespace_id = %s AND id = '{his}'") == 1
        assert as_person("mara", f"DELETE FROM memories WHERE {every}") == 2
        assert as_person("dora", f"SELECT 1 FROM memories WHERE {every}") == 0

        async with team.ben.spaces.manager(team.kitchen) as kitchen, kitchen.store.transaction() as tx:
            assert tx.role is Role.WRITE
            await membership.remove(team.home.store, team.kitchen.id, team.people["ben"], by=team.people["mara"])
            assert await tx.rows("SELECT 1 FROM memories WHERE namespace_id = %(namespace_id)s") == []
            with pytest.raises(NotFound):
                async with kitchen.store.transaction():
                    pass
        assert await team.ben.found("oven alarm") == ["The alarm code is under the mat."]
