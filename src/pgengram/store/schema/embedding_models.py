"""The embedding models that a store knows: which there are, and which is the active one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pgengram.errors import NotReady
from pgengram.store.connection import locks
from pgengram.store.connection.database import FIND_MODEL_OF_STATE, RENEW_MARK, Database, Row

if TYPE_CHECKING:
    import psycopg

FIND_MODEL: Final = "SELECT id, name, dimensions, embedder, state FROM embedding_models WHERE name = %(name)s"
ADD_MODEL: Final = """
INSERT INTO embedding_models (name, dimensions, embedder) VALUES (%(name)s, %(dimensions)s, %(embedder)s)
ON CONFLICT (name) DO NOTHING
"""
NOTE_EMBEDDER: Final = "UPDATE embedding_models SET embedder = %(embedder)s WHERE name = %(name)s"
SET_STATE: Final = "UPDATE embedding_models SET state = %(state)s WHERE id = %(id)s"


@dataclass(frozen=True, slots=True)
class StoredModel:
    """An embedding model as the store knows it; `embedder` is the setting that leads to it, where it is known."""

    id: int
    name: str
    dimensions: int
    embedder: str | None
    state: str


async def model_of_state(database: Database, state: str) -> StoredModel | None:
    """Return the one model that is `active` or `filling`, or None."""
    async with database.as_login() as connection:
        row = await (await connection.execute(FIND_MODEL_OF_STATE, {"state": state})).fetchone()
    return None if row is None else StoredModel(**row)


async def first_model(database: Database, name: str, dimensions: int, embedder: str) -> StoredModel:
    """Return the active model, which is `name` from now on where there was none.

    Raises:
        NotReady: vectors of another length are stored under this name.
    """
    async with database.as_login() as connection:
        await connection.execute(locks.WAIT, {"key": locks.MODELS})
        row = await (await connection.execute(FIND_MODEL_OF_STATE, {"state": "active"})).fetchone()
        if row is not None:
            return StoredModel(**row)
        model = await add_model(connection, name, dimensions, embedder)
        await connection.execute(SET_STATE, {"id": model.id, "state": "active"})
        await connection.execute(RENEW_MARK)
        return model


async def add_model(connection: psycopg.AsyncConnection[Row], name: str, dimensions: int, embedder: str) -> StoredModel:
    """Return the model `name`, registered when first named; remember which setting leads to it.

    Raises:
        NotReady: vectors of another length are stored under this name.
    """
    parameters = {"name": name, "dimensions": dimensions, "embedder": embedder}
    row = await (await connection.execute(FIND_MODEL, parameters)).fetchone()
    if row is None:
        await connection.execute(ADD_MODEL, parameters)
        row = await (await connection.execute(FIND_MODEL, parameters)).fetchone()
    if row is None or row["dimensions"] != dimensions:
        raise NotReady(
            f"This store's vectors of the model {name} don't have {dimensions} dimensions.",
            "Set PGENGRAM_EMBEDDER to the model the store was filled with.",
        )
    if row["embedder"] != embedder:
        await connection.execute(NOTE_EMBEDDER, parameters)
    return StoredModel(**row | {"embedder": embedder})


async def note_embedder(database: Database, name: str, embedder: str) -> None:
    """Remember which setting leads to a model now."""
    async with database.as_login() as connection:
        await connection.execute(NOTE_EMBEDDER, {"name": name, "embedder": embedder})
