"""Turning text into vectors: the built-in model, a local ONNX folder or an HTTP server, chosen by one URL.

A file of this folder that holds an embedder is named like the scheme of its URLs, up to a plus, and says in its
`SCHEMES` which they are. Only that file is loaded.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from pgengram.embedders.vectors import Cached, Embedder, Scheme
from pgengram.errors import InvalidInput

__all__ = ["Embedder", "embedder_from", "spelled"]


def _kinds(module: str) -> dict[str, Scheme]:
    """Return the kinds of embedder URLs that lead to a file of this folder, by the word before the colon."""
    return getattr(import_module(f"{__name__}.{module}"), "SCHEMES", {})


def _files() -> list[str]:
    return [found.name for found in iter_modules(__path__) if not found.ispkg]


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
    file = word.partition("+")[0]
    scheme = _kinds(file).get(word) if colon and file in _files() else None
    if scheme is None:
        raise InvalidInput("PGENGRAM_EMBEDDER is not a known embedder.", _allowed())
    try:
        return Cached(scheme.make(rest, api_key))
    except InvalidInput as error:
        raise InvalidInput(error.message, _allowed()) from None


def _allowed() -> str:
    kinds = [scheme for file in _files() for scheme in _kinds(file).values()]
    written = ", ".join(dict.fromkeys(scheme.written for scheme in kinds))
    return f"Allowed are {written}, and none: for text search only."


def spelled(url: str) -> str:
    """Return a URL of `embedder_from` as it can be kept: the folder of `onnx:` absolute, whoever reads it wherever."""
    kind, colon, folder = url.strip().partition(":")
    return f"onnx:{Path(folder).expanduser().absolute()}" if kind == "onnx" else kind + colon + folder
