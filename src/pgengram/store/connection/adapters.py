"""How values travel to PostgreSQL and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
from psycopg.adapt import PyFormat
from psycopg.types.array import ListBinaryDumper
from psycopg.types.json import set_json_loads

from pgengram.store.connection import pooler

if TYPE_CHECKING:
    from pgengram.embedders import Passage


class Vectors(list[Any]):
    """What psycopg sends as halfvec[], in binary."""


def vectors_parameter(vectors: Sequence[Any]) -> Vectors:
    """Return float vectors, shape (dims,) each, as what psycopg sends as halfvec[]."""
    from pgvector import HalfVector

    return Vectors(HalfVector(vector) for vector in vectors)


def vectors_of(parts_of: Iterable[tuple[UUID, Passage]]) -> dict[str, Any]:
    """Return the vectors of memories part by part, as statements take them."""
    flat = [(id_, number, part) for id_, parts in parts_of for number, part in enumerate(parts)]
    return {
        "vector_ids": [id_ for id_, _, _ in flat],
        "vector_parts": [number for _, number, _ in flat],
        "vectors": vectors_parameter([part for _, _, part in flat]),
    }


async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
    """Teach a new connection the vector types, which are there once the schema is, and to read JSON as fast as may
    be.
    """
    from pgvector import HalfVector
    from pgvector.psycopg import register_vector_async
    from pydantic_core import from_json

    await pooler.adapt(connection)
    await register_vector_async(connection)
    # The dumper registered last is taken; as text a vector is three times as long, and takes longer to write.
    connection.adapters.register_dumper(HalfVector, connection.adapters.get_dumper(HalfVector, PyFormat.BINARY))
    connection.adapters.register_dumper(Vectors, ListBinaryDumper)
    set_json_loads(from_json, connection)  # each hit has some: a fortieth of the time that the driver's own takes
