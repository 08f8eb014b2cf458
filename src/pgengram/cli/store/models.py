"""`pgengram model`: better embedding models than the built-in one, from a hub on the line."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Annotated

import typer

from pgengram.cli.help import Commands
from pgengram.cli.options import AsJson
from pgengram.cli.output import plain_table
from pgengram.cli.progress import ProgressBar
from pgengram.cli.runtime import command, opened_store, print_json, print_line, print_note, say, screen
from pgengram.cli.store.reembedding import move_to
from pgengram.settings import Settings
from pgengram.store.schema.embedding_models import model_of_state

BUILTIN = "builtin"
MODELS = "models"  # folder beside the embedded database

model = Commands("Download an embedding model, or list those you have.")


@model.command()
@command
async def use(
    name: Annotated[
        str, typer.Argument(help="Its name on the hub, such as intfloat/multilingual-e5-small; or builtin.")
    ],
    revision: Annotated[
        str, typer.Option(help="A commit, tag or branch. The commit it names now is recorded.")
    ] = "main",
    file: Annotated[str | None, typer.Option(help="Which ONNX file to use if there are several.")] = None,
    dimensions: Annotated[
        int | None, typer.Option(help="Keep only the first dimensions, if the model is trained for it.", min=16)
    ] = None,
    query_prefix: Annotated[str | None, typer.Option(help="Text to put before each question.")] = None,
    passage_prefix: Annotated[str | None, typer.Option(help="Text to put before each memory.")] = None,
    as_json: AsJson = False,
) -> None:
    """Download a model, check its hashes, and move all memories to it.

    Servers keep running. Run the same command again to continue after an interruption.

    Models come from huggingface.co, or from HF_ENDPOINT. Set HF_TOKEN for models that need an account.

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
