"""Turning text into vectors: the built-in model, a local ONNX folder or an HTTP server, chosen by one URL.

A file of this folder that holds an embedder says in its `SCHEMES` which URLs lead to it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from pgengram.embedders.cache import Cached
from pgengram.embedders.protocol import Embedder, Scheme
from pgengram.errors import InvalidInput

__all__ = ["Embedder", "embedder_from", "spelled"]


@lru_cache
def _schemes() -> dict[str, Scheme]:
    """Return all kinds of embedder URLs, by the word before the colon."""
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__) if not found.ispkg]
    return {word: scheme for module in modules for word, scheme in getattr(module, "SCHEMES", {}).items()}


def embedder_from(url: str, api_key: str = "") -> Embedder | None:
    """Return the embedder that `url` names, with a cache before it; None for `none:`.

    Nothing is loaded or called yet; for `onnx:` the files are read once to name the model.

    Raises:
        InvalidInput: the URL names no embedder, or the folder does not exist.
        EmbeddingFailed: the folder holds no model that can be used, or the built-in one is damaged.
    """
    word, colon, rest = url.strip().partition(":")
    if (word, colon, rest) == ("none", ":", ""):
        return None
    scheme = _schemes().get(word)
    if not colon or scheme is None:
        raise InvalidInput("PGENGRAM_EMBEDDER names no embedder.", _allowed())
    try:
        return Cached(scheme.make(rest, api_key))
    except InvalidInput as error:
        raise InvalidInput(error.message, _allowed()) from None


def _allowed() -> str:
    written = ", ".join(dict.fromkeys(scheme.written for scheme in _schemes().values()))
    return f"Allowed are {written}, and none: for text search only."


def spelled(url: str) -> str:
    """Return a URL of `embedder_from` as it can be kept: the folder of `onnx:` absolute, whoever reads it wherever."""
    kind, colon, folder = url.strip().partition(":")
    return f"onnx:{Path(folder).expanduser().absolute()}" if kind == "onnx" else kind + colon + folder
