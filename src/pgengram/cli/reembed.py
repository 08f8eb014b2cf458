"""`pgengram reembed`: to another embedding model, while servers go on serving."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict, replace
from typing import Any, Final

from rich.console import Console

from pgengram.cli.progress import Told
from pgengram.embedders import embedder_from, spelled
from pgengram.errors import Conflict, InvalidInput
from pgengram.settings import Settings
from pgengram.store.maintenance import reembedding
from pgengram.store.schema.embedding_models import model_of_state
from pgengram.store.store import Store

TOLD_EVERY_S: Final = 1.0
WORDS: Final = {
    "embedding": "Embedding",
    "indexing": "Building the index",
    "switching": "Switching over",
    "removing": "Removing the old vectors",
}


async def run_reembed(settings: Settings, url: str | None, *, cancel: bool, as_json: bool) -> int:
    """Move the store to the model of `url`, go on with a move, or give one up."""
    store = Store(replace(settings, embedder="none:"))
    try:
        await store.open()
        if cancel:
            return await _cancel(store, as_json=as_json)
        chosen = url or await _begun(store)
        embedder = embedder_from(chosen, settings.embedder_api_key)
        if embedder is None:
            raise InvalidInput("none: embeds nothing.", "Name builtin:, onnx:FOLDER or openai+http(s)://host/v1#model.")
        try:
            with _Moving(as_json=as_json) as told:
                moved = await reembedding.move(store.database, embedder, spelled(chosen), told.at)
        except asyncio.CancelledError:
            Console(stderr=True).print("Broken off: `pgengram reembed` goes on with it, --cancel gives it up.")
            raise
        finally:
            await embedder.close()
    finally:
        await store.close()
    if as_json:
        _print({"step": "moved", **asdict(moved)})
        return 0
    became = "is the store's model now" if moved.switched else "was the store's model already"
    Console().print(
        f"{moved.model} {became}; {moved.embedded:,} memories were embedded, {moved.removed:,} old vectors removed.",
        highlight=False,
    )
    return 0


async def _begun(store: Store) -> str:
    filling = await model_of_state(store.database, "filling")
    if filling is None or filling.embedder is None:
        raise InvalidInput(
            "No move is under way, so name the embedder to move to.", "For example: pgengram reembed builtin:"
        )
    return filling.embedder


async def _cancel(store: Store, *, as_json: bool) -> int:
    name = await reembedding.cancel(store.database)
    if name is None:
        raise Conflict("No move to another model is under way.", "`pgengram stats` shows the store's model.")
    if as_json:
        _print({"step": "cancelled", "model": name})
    else:
        Console().print(f"The move to {name} is given up and its vectors are removed.", highlight=False)
    return 0


def _print(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)  # noqa: T201 - one object a line, as it happens


class _Moving(Told):
    """Tells how far a move is: on standard error as ever, or for programs in a line of JSON a second."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(WORDS["embedding"], quiet=as_json)
        self._as_json = as_json
        self._step = ""
        self._printed = 0.0

    def __enter__(self) -> _Moving:
        super().__enter__()
        return self

    def at(self, now: reembedding.Progress) -> None:
        """Say how far the move is."""
        if now.step != "done":  # the last line tells that
            self.step(WORDS[now.step])
            self(now.done, now.total)
        if self._as_json and (now.step != self._step or time.monotonic() - self._printed >= TOLD_EVERY_S):
            self._printed = time.monotonic()
            left = self.seconds_left(now.done, now.total)
            _print(asdict(now) | {"seconds_left": None if left is None else round(left, 1)})
        self._step = now.step
