"""Embeddings from any server that speaks the OpenAI API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pgengram.embedders import Passage, Scheme, spans, unit
from pgengram.errors import EmbeddingFailed, InvalidInput

if TYPE_CHECKING:
    import httpx
    import numpy as np
    from numpy.typing import NDArray

PART_CHARACTERS = 2_000  # fits the smallest common window, 512 tokens, for most languages
OVERLAP_CHARACTERS = 250
BATCH_TEXTS = 32  # the least of the common servers' default limits
BATCH_CHARACTERS = 40_000
TRIES = 4
PAUSE_S = 0.5  # before the second try; doubled for each further one
LONGEST_PAUSE_S = 30.0  # a server that asks for more has failed, as far as a waiting client can tell
TIMEOUT_S = 30.0  # for one try, from connecting to the last byte
URL_HINT = "Write it as openai+https://host/v1#model (or openai+http://…), without user name, password or query."
SERVER_HINT = (
    "Nothing was stored. Check that the embedding server runs and that PGENGRAM_EMBEDDER names it, then call again."
)
HINTS = {
    401: "Check PGENGRAM_EMBEDDER_API_KEY.",
    403: "Check PGENGRAM_EMBEDDER_API_KEY and that it may use this model.",
    404: "Check the path (usually /v1) and the model after # in PGENGRAM_EMBEDDER.",
}


class OpenAIEmbedder:
    """Embeds by POST …/embeddings; nothing is sent before the first text.

    Long texts are cut into overlapping parts of `PART_CHARACTERS`, because the model's own window cannot be asked for.

    Args:
        url: `http(s)://host[:port]/v1#model`.
        api_key: sent as a bearer token when not empty.
        timeout_s: seconds for one try.
        pause_s: seconds before the second try.

    Raises:
        InvalidInput: the URL or the key is not usable.
    """

    def __init__(self, url: str, api_key: str = "", *, timeout_s: float = TIMEOUT_S, pause_s: float = PAUSE_S) -> None:
        self._endpoint, self.host, self.model = _split(url)
        self.name = f"openai:{self.host}/{self.model}"
        self.timeout_s = timeout_s
        self.pause_s = pause_s
        self._headers = _headers(api_key.strip())
        self._dimensions: int | None = None
        self._client: httpx.AsyncClient | None = None

    async def dimensions(self) -> int:
        """Return the length of every vector; the first call asks the server for one."""
        if self._dimensions is None:
            await self.query("dimensions")
        assert self._dimensions is not None  # noqa: S101 - set by every answer
        return self._dimensions

    async def passages(self, texts: Sequence[str]) -> list[Passage]:
        """Return what each text is stored by; one request at a time."""
        import numpy as np

        parts = [_cut_to_fit(text) for text in texts]
        flat = [part for several in parts for part in several]
        rows = [await self._request(batch) for batch in _request_batches(flat)]
        ends = np.cumsum([len(several) for several in parts])
        return [*map(Passage, np.split(np.concatenate(rows), ends[:-1]))] if rows else []

    async def query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question; of a very long one the mean of its parts."""
        import numpy as np

        [parts] = await self.passages([text])
        return unit(np.asarray(parts.vectors).mean(axis=0))

    def load_ahead(self) -> None:
        """Do nothing: the model is loaded elsewhere, and nothing is sent before the first text."""

    def describe(self) -> dict[str, object]:
        """Return name, server and limits, without calling the server."""
        return {
            "name": self.name,
            "loaded": self._client is not None,
            "endpoint": self._endpoint,
            "key_given": bool(self._headers),
            "dimensions": self._dimensions,
            "window_characters": PART_CHARACTERS,
        }

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _request(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Return (len(batch), dimensions) of unit length."""
        vectors = unit(_response_vectors(await self._answer(batch), len(batch), self.host))
        if self._dimensions is None:
            self._dimensions = vectors.shape[1]
        if vectors.shape[1] != self._dimensions:
            raise EmbeddingFailed(
                f"The embedding server at {self.host} gave {vectors.shape[1]} dimensions instead of "
                f"{self._dimensions}.",
                "Another model now answers under this name. Restart, or name the model to use.",
            )
        return vectors

    async def _answer(self, batch: Sequence[str]) -> httpx.Response:
        """Return a successful response; try again when that may help.

        Raises:
            EmbeddingFailed: the server refused, or `TRIES` tries failed.
        """
        import httpx

        reason, asked_s = "", 0.0
        for attempt in range(TRIES):
            if attempt:
                pause_s = self.pause_s * 2 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311
                await asyncio.sleep(max(pause_s, asked_s))
            try:
                async with asyncio.timeout(self.timeout_s):
                    response = await self._connected().post(self._endpoint, json=self._body(batch))
            except (httpx.RequestError, TimeoutError) as error:
                reason, asked_s = type(error).__name__, 0.0
                continue
            if response.is_success:
                return response
            reason, asked_s = f"status {response.status_code}", _retry_after_s(response)
            if not _may_pass(response.status_code) or asked_s > LONGEST_PAUSE_S:
                hint = HINTS.get(response.status_code, SERVER_HINT)
                raise EmbeddingFailed(f"The embedding server at {self.host} refused: {reason}.", hint)
        raise EmbeddingFailed(
            f"The embedding server at {self.host} failed {TRIES} times, last with {reason}.", SERVER_HINT
        )

    def _connected(self) -> httpx.AsyncClient:
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(headers=self._headers, timeout=self.timeout_s)
        return self._client

    def _body(self, batch: Sequence[str]) -> dict[str, object]:
        return {"model": self.model, "input": list(batch)}


def _split(url: str) -> tuple[str, str, str]:
    """Return endpoint, host and model of a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput("The embedder's URL cannot be read.", URL_HINT) from None
    model = unquote(parts.fragment).strip()
    usable = parts.scheme in {"http", "https"} and parts.hostname and model and port != 0
    if not usable or parts.username is not None or parts.query:
        raise InvalidInput("The embedder's URL needs http or https, a host and a #model, and nothing else.", URL_HINT)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/embeddings", str(parts.hostname), model


def _headers(api_key: str) -> dict[str, str]:
    if not api_key:
        return {}
    if not (api_key.isascii() and api_key.isprintable()):
        raise InvalidInput("PGENGRAM_EMBEDDER_API_KEY may contain printable ASCII characters only.")
    return {"Authorization": f"Bearer {api_key}"}


def _cut_to_fit(text: str) -> list[str]:
    return [text[cut] for cut in spans(len(text), PART_CHARACTERS, OVERLAP_CHARACTERS)]


def _request_batches(parts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the parts in order, in batches of at most `BATCH_TEXTS` and `BATCH_CHARACTERS`."""
    batch: list[str] = []
    characters = 0
    for part in parts:
        if batch and (len(batch) == BATCH_TEXTS or characters + len(part) > BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(part)
        characters += len(part)
    if batch:
        yield batch


def _may_pass(status: int) -> bool:
    return status in {408, 429} or status >= 500


def _retry_after_s(response: httpx.Response) -> float:
    """Return the seconds that Retry-After asks for, as a number or a date; 0 when it says nothing."""
    asked = response.headers.get("Retry-After", "")
    if asked.isdecimal():
        return float(asked)
    with suppress(ValueError):
        when = parsedate_to_datetime(asked)
        return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    return 0.0


def _response_vectors(response: httpx.Response, count: int, host: str) -> NDArray[np.float64]:
    """Return (count, dimensions) in the order of the request.

    Raises:
        EmbeddingFailed: the answer is not one list of numbers for each text.
    """
    import numpy as np

    hint = "Check that PGENGRAM_EMBEDDER names an embedding model of a server with the OpenAI API."
    try:
        items: list[dict[str, Any]] = sorted(response.json()["data"], key=lambda item: item["index"])
        order = [item["index"] for item in items]
        vectors = np.array([item["embedding"] for item in items], dtype=np.float64)
    except (KeyError, TypeError, ValueError, OverflowError):
        # without its cause, which quotes the answer
        raise EmbeddingFailed(f"The embedding server at {host} sent no embeddings.", hint) from None
    if order != list(range(count)) or vectors.ndim != 2 or vectors.shape[1] == 0:
        raise EmbeddingFailed(
            f"The embedding server at {host} did not send one vector for each of {count} texts.", hint
        )
    return vectors


def _scheme(protocol: str) -> Scheme:
    return Scheme("openai+http(s)://host/v1#model", lambda rest, api_key: OpenAIEmbedder(f"{protocol}:{rest}", api_key))


SCHEMES = {"openai+http": _scheme("http"), "openai+https": _scheme("https")}
