"""The vector index on a cluster: each shard's piece lives by itself, after its own vectors."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import psycopg
import pytest

from helpers import Database
from pgengram.store.maintenance import index_state
from pgengram.store.maintenance.index_state import FIRST_BUILD_ROWS, index_name
from pgengram.store.maintenance.indexes import GROWTH, maintain

DIMENSIONS = 8
# Vectors in all directions: namespace and number decide which. As the login, which may copy past row-level security.
MAKE = """
CREATE TEMP TABLE made AS SELECT gen_random_uuid() AS id, n, ARRAY(
  SELECT ('x' || left(md5({owner} || '/' || n || '/' || k), 8))::bit(32)::integer / 2147483648.0
  FROM generate_series(1, 8) AS k)::real[]::vector::halfvec AS embedding FROM generate_series({start} + 1, {end}) AS n
"""
ADD_MEMORIES = """
INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
SELECT {owner}, id, 'semantic', 'Vector ' || n, decode(md5({owner} || 'v' || n), 'hex'), now() FROM made
"""
ADD_VECTORS = """
INSERT INTO memory_vectors (namespace_id, memory_id, model_id, part, embedding) SELECT {owner}, id, {model}, 0, embedding FROM made
"""
NEAREST = """
SELECT array_agg(memory_id) FROM (SELECT memory_id FROM memory_vectors WHERE namespace_id = {owner} AND model_id = {model}
  ORDER BY ((embedding::halfvec(8)) <=> '{vector}'::halfvec(8)) {exactly} LIMIT 10) AS nearest
"""


@dataclass
class Vectors:
    """A cluster with vectors of one model."""

    db: Database
    model: int

    def add(self, namespace: int, rows: int, start: int = 0) -> None:
        given = {"owner": namespace, "start": start, "end": start + rows, "model": self.model}
        made = [statement.format(**given) for statement in (MAKE, ADD_MEMORIES, ADD_VECTORS)]
        self.db.as_login(*made, "DROP TABLE made", "ANALYZE memory_vectors")

    async def maintained(self) -> bool:
        return await maintain(self.db.url, self.model, DIMENSIONS)

    async def pieces(self) -> dict[str, index_state.Piece]:
        async with await psycopg.AsyncConnection.connect(self.db.url, autocommit=True) as connection:
            return {piece.name: piece for piece in await index_state.pieces(connection, index_name(self.model))}

    def recall(self, namespace: int) -> float:
        """The share of the true ten nearest of one namespace that the index finds, with as many probes as searches take."""
        found = 0
        sample = (
            f"SELECT embedding::text FROM memory_vectors WHERE namespace_id = {namespace} ORDER BY memory_id LIMIT 10"
        )
        with psycopg.connect(self.db.url) as connection:
            connection.execute("SET LOCAL citus.propagate_set_commands = 'local'")
            connection.execute("SET LOCAL ivfflat.probes = 20")
            connection.execute("SET LOCAL enable_seqscan = off")
            for (vector,) in connection.execute(sample).fetchall():
                given = {"owner": namespace, "model": self.model, "vector": vector}
                [truth] = connection.execute(NEAREST.format(exactly="+ 0", **given)).fetchone() or [[]]
                [near] = connection.execute(NEAREST.format(exactly="", **given)).fetchone() or [[]]
                found += len(set(truth) & set(near))
        return found / 100


@pytest.fixture
def vectors(cluster_db: Database) -> Vectors:
    cluster_db.as_login("INSERT INTO namespaces (name) SELECT 'owner ' || n FROM generate_series(1, 20) AS n")
    [(model,)] = cluster_db.as_login(
        f"INSERT INTO embedding_models (name, dimensions, state) VALUES ('m', {DIMENSIONS}, 'active') RETURNING id"
    )
    return Vectors(cluster_db, model)


def of_different_shards(db: Database, how_many: int) -> list[int]:
    """Namespaces no two of whom share a shard."""
    rows = db.as_login(
        "SELECT min(id) FROM namespaces GROUP BY get_shard_id_for_distribution_column('memory_vectors', id) ORDER BY 1"
    )
    return [namespace for (namespace,) in rows[:how_many]]


async def test_each_shard_has_lists_after_its_own_vectors_and_an_empty_one_learns_when_a_namespace_comes(
    vectors: Vectors,
) -> None:
    large, small, late = of_different_shards(vectors.db, 3)
    vectors.add(large, FIRST_BUILD_ROWS - 600)
    vectors.add(small, 500)
    assert not await vectors.maintained()
    assert await vectors.pieces() == {}

    vectors.add(large, 100, start=FIRST_BUILD_ROWS - 600)
    assert await vectors.maintained()

    built = await vectors.pieces()
    assert sorted(piece.rows for piece in built.values()) == [0, 0, 500, FIRST_BUILD_ROWS - 500]
    for piece in built.values():
        assert piece.lists**2 <= GROWTH * max(piece.rows, 1)
    assert max(piece.lists for piece in built.values()) in (isqrt(FIRST_BUILD_ROWS // 4), isqrt(FIRST_BUILD_ROWS - 500))
    assert vectors.recall(large) >= 0.95

    vectors.add(late, FIRST_BUILD_ROWS)  # into a shard that was empty when its index was built
    assert await vectors.maintained()

    grown = await vectors.pieces()
    assert all(piece.lists**2 <= GROWTH * max(piece.rows, 1) for piece in grown.values())
    [learned] = [piece for piece in grown.values() if piece.rows == FIRST_BUILD_ROWS]
    assert learned.lists**2 * GROWTH >= FIRST_BUILD_ROWS
    assert vectors.recall(late) >= 0.95
    assert vectors.recall(large) >= 0.95
