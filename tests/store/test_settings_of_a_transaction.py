"""What holds in a transaction, whatever the server is set to."""

from __future__ import annotations

from helpers import Database
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings


async def test_no_statement_is_compiled_before_it_runs(database: Database) -> None:
    """The ranking takes seconds to compile, and each search would pay for it: longer than a statement may take."""
    database.as_login(f"ALTER DATABASE {database.name} SET jit = on")
    manager = MemoryManager(Settings(database_url=database.url, embedder="none:"))
    await manager.ready()

    async with manager.store.transaction() as tx:
        found = await tx.row("SELECT current_setting('jit') AS jit")

    await manager.close()
    assert found == {"jit": "off"}
