"""Turning text into vectors: the built-in model, a local ONNX folder or an HTTP server, chosen by one URL."""

from __future__ import annotations

from pathlib import Path

from pgengram.embedders.cache import Cached
from pgengram.embedders.onnx import OnnxEmbedder
from pgengram.embedders.openai import OpenAIEmbedder
from pgengram.embedders.protocol import Embedder
from pgengram.errors import InvalidInput

__all__ = ["Embedder", "embedder_from", "spelled"]

ALLOWED = "Allowed are builtin:, onnx:FOLDER, openai+http(s)://host/v1#model, and none: for text search only."


def embedder_from(url: str, api_key: str = "") -> Embedder | None:
    """Return the embedder that `url` names, with a cache before it; None for `none:`.

    Nothing is loaded or called yet; for `onnx:` the files are read once to name the model.

    Raises:
        InvalidInput: the URL names no embedder, or the folder does not exist.
        EmbeddingFailed: the folder holds no model that can be used, or the built-in one is damaged.
    """
    match url.strip().partition(":"):
        case "none", ":", "":
            return None
        case "builtin", ":", "":
            return Cached(OnnxEmbedder.builtin())
        case "onnx", ":", folder if folder:
            return Cached(OnnxEmbedder(_folder(folder)))
        case "openai+http" | "openai+https", ":", _:
            return Cached(OpenAIEmbedder(url.strip().removeprefix("openai+"), api_key))
    raise InvalidInput("PGENGRAM_EMBEDDER names no embedder.", ALLOWED)


def spelled(url: str) -> str:
    """Return a URL of `embedder_from` as it can be kept: the folder of `onnx:` absolute, whoever reads it wherever."""
    kind, colon, folder = url.strip().partition(":")
    return f"onnx:{Path(folder).expanduser().absolute()}" if kind == "onnx" else kind + colon + folder


def _folder(name: str) -> Path:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InvalidInput(f"PGENGRAM_EMBEDDER: there is no folder {folder}.", ALLOWED)
    return folder
