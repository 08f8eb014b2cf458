"""`pgengram reembed`: to another embedding model, while servers go on serving."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pgengram.embedders import embedder_from, spelled
from pgengram.errors import Conflict, InvalidInput
from pgengram.settings import Settings
from pgengram.store import reembedding
from pgengram.store.database import model_of_state
from pgengram.store.store import Store

TOLD_EVERY_S: Final = 1.0
WORDS: Final = {
    "embedding": "Embedding",
    "indexing": "Building the index",
    "switching": "Switching over",
    "removing": "Removing the old vectors",
    "done": "Done",
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
            with _Told(as_json=as_json) as told:
                moved = await reembedding.move(store.database, embedder, spelled(chosen), told)
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


class _Told:
    """Tells how far a move is: a bar with the time left on a terminal, a line of JSON a second for programs."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        notes = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            console=notes, disable=as_json or not notes.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task(WORDS["embedding"], total=None)
        self._begun = self._last = time.monotonic()
        self._first: int | None = None
        self._step = ""

    def __enter__(self) -> _Told:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, at: reembedding.Progress) -> None:
        self._bar.update(self._task, description=WORDS[at.step], completed=at.done, total=at.total)
        now = time.monotonic()
        if self._first is None:
            self._first = at.done
        if self._as_json and (at.step != self._step or now - self._last >= TOLD_EVERY_S):
            self._last = now
            _print(asdict(at) | {"seconds_left": self._seconds_left(at, now)})
        self._step = at.step

    def _seconds_left(self, at: reembedding.Progress, now: float) -> float | None:
        made = at.done - (self._first or 0)
        return round((now - self._begun) / made * (at.total - at.done), 1) if made else None
