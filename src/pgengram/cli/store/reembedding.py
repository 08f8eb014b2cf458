"""`pgengram reembed` and `reindex`: another embedding model, or another index, while servers go on."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, replace
from typing import Annotated, Any, Final

import typer

from pgengram.cli.options import AsJson
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import (
    FAILED,
    command,
    completing,
    opened_manager,
    opened_store,
    print_answer,
    print_line,
    print_note,
    say,
)
from pgengram.embedders import embedder_from, spelled
from pgengram.errors import Conflict, InvalidInput
from pgengram.settings import Settings
from pgengram.store.maintenance import reembedding
from pgengram.store.schema.embedding_models import model_of_state
from pgengram.store.store import Store

EVERY_S: Final = 1.0  # between two lines of JSON
WORDS: Final = {
    "embedding": "Embedding",
    "indexing": "Building the index",
    "switching": "Switching over",
    "removing": "Removing the old vectors",
}
METHODS: Final = ("ivfflat", "hnsw")


@command
async def reindex(
    method: Annotated[
        str,
        typer.Option(
            help="ivfflat is built quickly and suits a changing store; hnsw answers faster.",
            autocompletion=completing(METHODS),
        ),
    ] = METHODS[0],
    as_json: AsJson = False,
) -> int:
    """The server does this by itself when needed. Searches use the old index until the new one is built.

    Example: `pgengram reindex --method hnsw`
    """
    async with opened_manager() as manager:
        with ProgressBar("Building the index", quiet=as_json):
            state = await manager.reindex(method)
    built = f"The index is built: {state}." if state.build.usable else f"No index was built. Searches use {state}."
    print_answer(built, {"method": method, "index": str(state)}, as_json=as_json)
    if state.problem is None:
        return 0
    print_note(" → ".join(filter(None, state.problem)))
    return FAILED


@command
async def reembed(
    embedder: Annotated[
        str | None, typer.Argument(help="As in PGENGRAM_EMBEDDER. Without it: continue an interrupted move.")
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel an unfinished move.")] = False,
    as_json: AsJson = False,
) -> None:
    """Servers keep running. You can continue an interrupted move.

    Example: `pgengram reembed onnx:/models/multilingual-e5-small`
    """
    settings = Settings.from_environment()
    async with opened_store(replace(settings, embedder="none:")) as store:
        if cancel:
            name = await reembedding.cancel(store.database)
            if name is None:
                raise Conflict("No move to another model is in progress.", "`pgengram stats` shows the store's model.")
            text, facts = (
                f"The move to {name} is cancelled; its vectors are removed.",
                {"step": "cancelled", "model": name},
            )
        else:
            text, facts = await move_to(store, settings, embedder or await _opening_line(store), as_json=as_json)
    if as_json:
        print_line(facts)
    else:
        say(text)


async def move_to(store: Store, settings: Settings, chosen: str, *, as_json: bool) -> tuple[str, dict[str, Any]]:
    """Move the store to the model of `chosen`; return what became of it, as a sentence and as data."""
    embedder = embedder_from(chosen, settings.embedder_api_key)
    if embedder is None:
        raise InvalidInput("none: makes no vectors.", "Use builtin:, onnx:FOLDER or openai+http(s)://host/v1#model.")
    try:
        with MoveProgress(as_json=as_json) as progress:
            moved = await reembedding.reembed_store(store.database, embedder, spelled(chosen), progress.at)
    except asyncio.CancelledError:
        print_note("Interrupted. `pgengram reembed` continues, `pgengram reembed --cancel` cancels the move.")
        raise
    finally:
        await embedder.close()
    became = "is the store's model now" if moved.switched else "was already the store's model"
    text = f"{moved.model} {became}; {moved.embedded:,} memories were embedded, {moved.removed:,} old vectors removed."
    return text, {"step": "moved", **asdict(moved)}


async def _opening_line(store: Store) -> str:
    filling = await model_of_state(store.database, "filling")
    if filling is None or filling.embedder is None:
        raise InvalidInput(
            "No move is in progress. Name the embedder to move to.", "For example: pgengram reembed builtin:"
        )
    return filling.embedder


class MoveProgress(ProgressBar):
    """Shows how far a move is: on standard error, or for programs as a line of JSON a second."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__(WORDS["embedding"], quiet=as_json)
        self._as_json = as_json
        self._step = ""
        self._printed = 0.0

    def __enter__(self) -> MoveProgress:
        super().__enter__()
        return self

    def at(self, now: reembedding.Progress) -> None:
        """Report how far the move is."""
        if now.step != "done":  # the last line says that
            self.step(WORDS[now.step])
            self(now.done, now.total)
        if self._as_json and (now.step != self._step or time.monotonic() - self._printed >= EVERY_S):
            self._printed = time.monotonic()
            left = self.seconds_left(now.done, now.total)
            print_line(asdict(now) | {"seconds_left": None if left is None else round(left, 1)})
        self._step = now.step
