"""The files that machines exchange, for those that come over HTTP: listed, read, written and removed under one path.

A namespace that is exchanged through a folder of this machine offers that folder, so that this machine takes part as
one of them; any other has a folder of its own in the data folder, in which all is encrypted with a key that this
server doesn't have.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

from starlette.responses import FileResponse, Response
from starlette.types import Receive

from pgengram.mcp.http.namespaces import Grant, NamespaceServers
from pgengram.mcp.http.requests import HTTPRejection, Request, json_response, whole_body
from pgengram.runtime.operating_system import sha256_of
from pgengram.store.sync import state
from pgengram.sync import files
from pgengram.sync.addresses import remote_for, stored_files
from pgengram.sync.folder import CHANGES, ERASED, ID, NAME, listed_in

PATH: Final = "/sync/"
SHAPE: Final = re.compile(
    rf"{PATH}(?P<memory>[0-9a-f]{{20}})"
    rf"(?:/(?P<device>{ID.pattern})/(?P<name>{CHANGES.pattern}|{ERASED}|{state.DEVICE}))?"
)
MAX_FILE: Final = 64 * 2**20  # bytes
MAX_ALL: Final = 4 * 2**30  # bytes of one memory
MAX_FILES: Final = 20_000
SLOWER: Final = 15  # than a message of MCP a file may arrive
CALL_BYTES: Final = 100_000  # of a file that cost as much as a call


class FileExchange:
    """Answers machines that exchange files.

    Args:
        namespaces: whose memories they are of.
        patience_s: for a request to arrive; a file may take longer.
    """

    def __init__(self, namespaces: NamespaceServers, patience_s: float) -> None:
        self._namespaces, self._patience_s = namespaces, patience_s * SLOWER
        self._digests: dict[tuple[Path, str], str] = {}  # of files by their marks

    def serves(self, request: Request) -> bool:
        """Whether a request is about such files."""
        return request.path.startswith(PATH)

    def cost(self, request: Request) -> int:
        """Return how many calls what is sent costs besides this one."""
        return int(request.one(b"content-length") or "0") // CALL_BYTES

    async def answer(self, request: Request, grant: Grant, receive: Receive) -> Response:
        """Answer a request.

        Raises:
            HTTPRejection: it may not, names no such file, or brings one that is too large or too slow.
            Gone: the client hung up.
        """
        if b"origin" in request.headers:
            raise HTTPRejection(403, "Files are not exchanged with web pages.", close=True)
        if not grant.writes:
            raise HTTPRejection(403, "Exchanging files needs a token that may write.", close=True)
        asked = SHAPE.fullmatch(request.path)
        if asked is None:
            raise HTTPRejection(404, "There is no such file.")
        folder = await self._folder(grant.namespace) / NAME / asked["memory"]
        if asked["name"] is None:
            if request.method != "GET":
                raise HTTPRejection(405, "Only GET is supported here.", allow="GET")
            return json_response({"files": await asyncio.to_thread(self._listed, folder)})
        return await self._answer_file(request, folder, folder / asked["device"] / asked["name"], receive)

    async def _answer_file(self, request: Request, folder: Path, path: Path, receive: Receive) -> Response:
        match request.method:
            case "PUT":
                await self._take(request, folder, path, receive)
                return Response(None, 204)
            case "DELETE":
                await asyncio.to_thread(lambda: path.unlink(missing_ok=True))
                return Response(None, 204)
            case "GET" if await asyncio.to_thread(path.is_file):
                return FileResponse(path, media_type="application/octet-stream", headers={"cache-control": "no-store"})
            case "GET":
                raise HTTPRejection(404, "There is no such file.")
        raise HTTPRejection(405, "Only GET, PUT and DELETE are supported here.", allow="GET, PUT, DELETE")

    async def _folder(self, namespace: str) -> Path:
        """Return the folder of a namespace's files."""
        async with self._namespaces.namespaces.of(namespace) as served:
            await served.manager.ready(None, False)
            async with served.manager.store.transaction(reads=True) as tx:
                settings, key = await state.settings(tx), tx.namespace_id
        if settings is None or remote_for(settings.folder) is not None:
            return stored_files(key, self._namespaces.settings.data_path)
        if not await asyncio.to_thread(Path(settings.folder).is_dir):
            raise HTTPRejection(503, "The folder of the files is away; try again later.", retry_after="60")
        return Path(settings.folder)

    def _listed(self, folder: Path) -> dict[str, str]:
        """Return the files of a folder with the digest of each; a file's is worked out once."""
        found = {}
        for file in listed_in(folder):
            mark = file.path, file.mark
            if mark not in self._digests:
                self._digests[mark] = sha256_of(file.path)
            found[f"{file.device}/{file.name}"] = self._digests[mark]
        if len(self._digests) > MAX_FILES:
            self._digests.clear()
        return found

    async def _take(self, request: Request, folder: Path, path: Path, receive: Receive) -> None:
        there = await asyncio.to_thread(lambda: list(listed_in(folder)))
        if len(there) >= MAX_FILES or sum(file.size for file in there) > MAX_ALL:
            raise HTTPRejection(507, "There is no more room for files of this memory.", close=True)
        body = await whole_body(request, receive, MAX_FILE, self._patience_s)
        if not body.startswith(files.MAGIC):
            raise HTTPRejection(422, "That is not a file of `pgengram sync`.")
        try:
            await asyncio.to_thread(files.put_bytes, path, [body])
        except OSError as error:
            raise HTTPRejection(507, f"The file cannot be kept: {error.strerror}.") from None
