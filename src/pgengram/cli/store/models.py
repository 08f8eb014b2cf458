"""`pgengram model`: better embedding models than the built-in one, from a hub on the line."""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import asdict, replace
from typing import Annotated, Any, Final

import typer

from pgengram.cli.help import Commands
from pgengram.cli.options import AsJson
from pgengram.cli.output import plain_table
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import (
    FAILED,
    command,
    completing,
    opened_manager,
    opened_store,
    print_answer,
    print_json,
    print_line,
    print_note,
    say,
    screen,
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
        typer.Option(help="ivfflat suits a changing store; hnsw answers faster.", autocompletion=completing(METHODS)),
    ] = METHODS[0],
    as_json: AsJson = False,
) -> int:
    """The server does this by itself when needed. Searches use the old index meanwhile.

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


BUILTIN = "builtin"
MODELS = "models"  # folder beside the embedded database

model = Commands("Download an embedding model, or list those you have.")


@model.command()
@command
async def use(
    name: Annotated[str, typer.Argument(help="Its name on the hub; or builtin.")],
    revision: Annotated[str, typer.Option(help="A commit, tag or branch.")] = "main",
    file: Annotated[str | None, typer.Option(help="Which of several ONNX files.")] = None,
    dimensions: Annotated[
        int | None, typer.Option(help="Keep only the first, if the model is trained for it.", min=16)
    ] = None,
    query_prefix: Annotated[str | None, typer.Option(help="Text to put before each question.")] = None,
    passage_prefix: Annotated[str | None, typer.Option(help="Text to put before each memory.")] = None,
    as_json: AsJson = False,
) -> None:
    """Download a model, check its hashes, and move all memories to it.

    Servers keep running, and the same command continues an interrupted move. Models come from huggingface.co, or from
    HF_ENDPOINT; HF_TOKEN opens those that need an account.

    Example: `pgengram model use intfloat/multilingual-e5-small --file onnx/model_O4.onnx`
    """
    import httpx

    from pgengram.embedders.hub import HUB, TIMEOUT_S, Choice, Hub

    settings = Settings.from_environment()
    url = f"{BUILTIN}:"
    if name != BUILTIN:
        token = os.environ.get("HF_TOKEN", "").strip()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        base = os.environ.get("HF_ENDPOINT", "").strip() or HUB
        choice = Choice(name, revision, file, dimensions, query_prefix, passage_prefix)
        with ProgressBar("Downloading", quiet=as_json) as bar:
            async with httpx.AsyncClient(
                base_url=base, headers=headers, timeout=TIMEOUT_S, follow_redirects=True
            ) as client:
                url = f"onnx:{await Hub(client).bring(choice, settings.data_path / MODELS, bar)}"
    async with opened_store(replace(settings, embedder="none:")) as store:
        text, facts = await move_to(store, settings, url, as_json=as_json)
    if as_json:
        print_line(facts)
    else:
        say(text)


@model.command(name="list")
@command
async def list_models(as_json: AsJson = False) -> None:
    """List the models on this machine and show which one the store uses.

    Example: `pgengram model list`
    """
    from pgengram.embedders.folder import MANIFEST

    settings = Settings.from_environment()
    async with opened_store(replace(settings, embedder="none:")) as store:
        active = await model_of_state(store.database, "active")
    here = [{"name": BUILTIN, "embedder": f"{BUILTIN}:"}]
    for manifest in sorted((settings.data_path / MODELS).glob(f"*/{MANIFEST}")):
        described = json.loads(manifest.read_bytes())
        here.append(
            {"name": f"{described['name']} at {described['revision'][:12]}", "embedder": f"onnx:{manifest.parent}"}
        )
    used = active and active.embedder
    rows = [{**one, "used": one["embedder"] == used} for one in here]
    if as_json:
        print_json(rows)
        return
    table = plain_table("", "used", "model", "embedder")
    for row in rows:
        table.add_row("✓" if row["used"] else "", str(row["name"]), str(row["embedder"]))
    screen.print(table)
    if used not in [row["embedder"] for row in rows]:
        print_note(f"The store uses {active.name if active else 'no model yet'}.")
