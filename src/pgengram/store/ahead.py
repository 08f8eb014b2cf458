"""Starting the embedded server, making a new store and loading the model, while the program is still being imported."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

from pgengram.embedders import builtin
from pgengram.errors import EmbeddingFailed, NotReady

if TYPE_CHECKING:
    from pgengram.postgres import EmbeddedPostgres
    from pgengram.settings import Settings

_begun: Final[dict[Path, Begun]] = {}


class Begun:
    """A start of the server of a folder, in a thread of its own; what it says is kept until somebody listens.

    Args:
        folder: the data folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said: list[str] = []
        self._report: Callable[[str], None] | None = None
        self._turn = Lock()
        self._server: Future[EmbeddedPostgres] = Future()
        # A daemon: where it is still at work when the program ends, the server's supervisor cleans up.
        Thread(target=self._start, name="starting PostgreSQL", daemon=True).start()

    def listen(self, report: Callable[[str], None]) -> None:
        """Tell what was said until now, and from now on everything at once."""
        with self._turn:
            self._report = report
            for message in self._said:
                report(message)

    def server(self) -> EmbeddedPostgres:
        """Return the running server. Blocks.

        Raises:
            NotReady: it did not come up.
        """
        return self._server.result()

    def _start(self) -> None:
        from pgengram.postgres import has_data, start_embedded
        from pgengram.store.schema.migrate import make_new

        try:
            is_new = not has_data(self._folder)
            server = start_embedded(self._folder, report=self._tell)
            if is_new:
                with suppress(NotReady):  # whoever opens the store tries again, and is told
                    make_new(server.url)
            self._server.set_result(server)
        except BaseException as error:  # noqa: BLE001 - whoever asks for the server is told
            self._server.set_exception(error)

    def _tell(self, message: str) -> None:
        with self._turn:
            self._said.append(message)
            if self._report is not None:
                self._report(message)


def start_ahead(settings: Settings, *, embeds: bool) -> None:
    """Begin to start the server of a store, and to load the model; the first store of its folder takes the server.

    Another embedder than the usual one may be one that cannot be used, and then nothing is to be made. Nor is it where
    a file of the model is missing, which whoever loads it is told.

    Args:
        settings: of the store.
        embeds: whether there will be a text to embed.
    """
    # numpy would start a thread for each core, which waits busily for work that a vector of 384 numbers never is.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not settings.has_default_embedder:
        return
    try:
        encoder = builtin.ahead() if embeds else None
    except EmbeddingFailed:
        return
    _begin_server(settings)
    if encoder is not None:
        encoder.begin()


def _begin_server(settings: Settings) -> None:
    if not settings.database_url:
        import pgengram.postgres
        import pgengram.store.schema.migrate  # noqa: F401 - two threads that import slow each other down

        _begun[settings.data_path] = Begun(settings.data_path)


def taken(folder: Path) -> Begun | None:
    """Return the start of the server of a folder that was begun ahead, once."""
    return _begun.pop(folder, None)
