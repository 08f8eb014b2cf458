"""Memories for Python programs: `from pgengram import Memory`.

```python
async with Memory(namespace="notes") as memory:
    await memory.add("Mara prefers green tea.", kind="preference", tags=["drinks"])
    for hit in (await memory.search("what does she drink?")).results:
        print(hit["score"], hit["content"])
```

[An example that runs](../../examples/remember_and_ask.py). The checks, [errors](errors.md) (`pgengram.errors`) and
answers are those of the [tools](tools.md). But what an assistant may write loosely, such as an importance of 7 or an
unknown kind, raises `InvalidInput`, and a type checker refuses a misspelt argument or key.

## Many people, one program

`Memory` is for one namespace. A program for many people opens one `Pgengram`, with one pool of connections and one
model, and asks it for a namespace when it needs one; that costs nothing. With FastAPI:

```python
@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Pgengram("postgresql://…", pool_size=8, timeout_s=20) as app.state.store:
        yield


@app.get("/search")
async def search(request: Request, user: CurrentUser, question: str) -> list[Hit]:
    return (await request.app.state.store.namespace(user.id).search(question)).results
```

## Without `async`

An object belongs to the event loop of its first call; in another, a call raises `Misused`. So keep one loop:

```python
import asyncio
from pgengram import Memory
from pgengram.runtime.process_setup import event_loop

memory = Memory(namespace="notes")
with asyncio.Runner(loop_factory=event_loop) as runner:
    runner.run(memory.add("Bees dance."))
    print(runner.run(memory.search("bees")).results)
    runner.run(memory.close())
```

A notebook has one loop: open `memory = Memory()` in one cell, and `await memory.search("bees")` in any other.
`event_loop` matters on Windows, where psycopg cannot use the default one.

## Time-outs

A call that takes longer than `timeout_s` of its object, or than the 2 seconds of `memory.with_timeout(2)`, is
cancelled and raises `TimedOut`. `asyncio.timeout` works, too.
"""

from __future__ import annotations

from pgengram.library.given import (
    Changed,
    Chosen,
    DetailGiven,
    Narrowed,
    New,
    NewItem,
    SettingNames,
    SourceGiven,
    StoreSettings,
)
from pgengram.library.memory import Memory, Pgengram
from pgengram.library.results import Found, Hit, Stored, WholeMemory

__all__ = [
    "Changed", "Chosen", "DetailGiven", "Found", "Hit", "Memory", "Narrowed", "New", "NewItem", "Pgengram", "SettingNames",
    "SourceGiven", "StoreSettings", "Stored", "WholeMemory",
]  # fmt: skip
