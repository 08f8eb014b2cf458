"""The doors beside MCP: for browsers that signed in, strangers who sign in, and machines that exchange files."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlencode, urlsplit

from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from pgengram.errors import DatabaseFailed
from pgengram.mcp.http.namespaces import Grant, NamespaceServers
from pgengram.mcp.http.requests import (
    HTTPRejection,
    Network,
    Rates,
    Request,
    Rules,
    SignIn,
    json_response,
    replayed,
    whole_body,
)
from pgengram.runtime.operating_system import sha256_of
from pgengram.service.core import Core
from pgengram.settings import Settings
from pgengram.sign_in import pages
from pgengram.sign_in.consents import AUTHORIZE, OPEN_PAGE, page_cookie
from pgengram.sign_in.documents import ClientDocuments
from pgengram.sign_in.requests import Asking
from pgengram.sign_in.server import MAX_BODY, REGISTER, AuthorizationServer
from pgengram.store.clients import tokens
from pgengram.store.clients.tokens import SIGN_IN_KEY, PageSignIn
from pgengram.store.store import Store
from pgengram.store.sync import state
from pgengram.sync import files
from pgengram.sync.addresses import remote_for, stored_files
from pgengram.sync.folder import CHANGES, ERASED, ID, NAME, listed_in

MEMORY: Final = "/m/"  # before the id of a memory that a program cites
MAX_FORM: Final = 2**20  # bytes
LOOK_UPS: Final = 2  # at once, so that strangers cannot take every connection to the database
LOOK_UP_S: Final = 5.0
RETRY_S: Final = 2
READING: Final = ("GET", "HEAD")


class PageServer(Protocol):
    """The pages: an ASGI application that finds the sign-in in the scope."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

    async def close(self) -> None:
        """End what is under way."""


PagesOf = Callable[[Settings, Core, str], PageServer]  # of the database and embedder of a Core, at an origin


class PageDoor:
    """Lets browsers through that signed in.

    Args:
        pages_: what is behind it.
        rules: our address, and how many requests one browser may make.
        store: who signed in.
    """

    def __init__(self, pages_: PageServer, rules: Rules, store: Store) -> None:
        self._pages = pages_
        self._resource = rules.resource
        self._is_secure = urlsplit(rules.resource).scheme == "https"
        self._patience_s = rules.patience_s
        self._rates = Rates(rules.calls_per_minute)
        self._store = store
        self._looking_up = asyncio.Semaphore(LOOK_UPS)

    async def answer(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is neither for MCP nor for the authorization server.

        Raises:
            HTTPRejection: nobody who signed in sends it.
        """
        cookie = page_cookie(request.one(b"cookie") or "", is_secure=self._is_secure)
        try:
            sign_in = await self._known(cookie) if cookie else None
        except (DatabaseFailed, TimeoutError):
            await pages.unavailable({"retry-after": str(RETRY_S)})(scope, receive, send)
            return
        if sign_in is None:
            await self._asked_to_sign_in(request, had_cookie=bool(cookie))(scope, receive, send)
            return
        if wait_s := self._rates.wait_s(sign_in.id):
            raise HTTPRejection(429, "Too many requests; wait.", retry_after=str(int(wait_s) + 1))
        if request.path.startswith(MEMORY) and request.method in READING:
            await _led_to(f"/memory/{request.path.removeprefix(MEMORY)}")(scope, receive, send)
            return
        if request.method not in READING:
            receive = replayed(await whole_body(request, receive, MAX_FORM, self._patience_s), receive)
        await self._pages({**scope, SIGN_IN_KEY: sign_in}, receive, send)

    async def _known(self, cookie: str) -> PageSignIn | None:
        async with self._looking_up, asyncio.timeout(LOOK_UP_S):
            return await tokens.sign_in_of(self._store, cookie, self._resource)

    @staticmethod
    def _asked_to_sign_in(request: Request, *, had_cookie: bool) -> Response:
        """Lead a person to the sign-in, and then to what they wanted; a program learns nothing.

        Raises:
            HTTPRejection: no person looks for a page here.
        """
        is_page = request.path == "/" or request.path.startswith(MEMORY)
        is_browser = had_cookie or "text/html" in (request.one(b"accept") or "")
        if request.method not in READING or not (is_page or is_browser):
            raise HTTPRejection(404, "There is nothing at this address; MCP is served at /mcp.")
        if b"hx-request" in request.headers:  # a part of a page that is open: load it again
            return Response(None, 204, {**pages.HEADERS, "hx-refresh": "true"})
        query = f"?{request.query.decode('latin-1')}" if request.query else ""
        return _led_to(f"{OPEN_PAGE}?{urlencode({'to': request.path + query})}")


def _led_to(address: str) -> Response:
    return Response(None, 303, {**pages.HEADERS, "location": address})


# Tokens can't be guessed, so asking for them isn't counted: behind a tunnel all programs come from one address, and a
# stranger must not keep them from refreshing.
IPV4: Final = 4
WITH_PORT: Final = re.compile(r"\[?([0-9.]+|(?<=\[)[0-9a-fA-F:.]+(?=\]))\]?:[0-9]{1,5}")
COUNTED: Final = (AUTHORIZE, OPEN_PAGE, REGISTER)


class SignInDoor:
    """Lets requests through to the authorization server, each source only so many of those that a stranger can make.

    Args:
        rules: who may sign in, and to which address.
        store: whose memories.
    """

    def __init__(self, rules: Rules, store: Store) -> None:
        how = rules.sign_in or SignIn()
        documents = ClientDocuments() if how.fetches else None
        self._server = AuthorizationServer(store, rules.resource, documents=documents, registers=how.registers)
        self._rates = Rates(how.pages_per_minute)
        self._proxies = how.proxies
        self._patience_s = rules.patience_s

    @property
    def issuer(self) -> str:
        """Who gives out the tokens."""
        return self._server.issuer

    def serves(self, request: Request) -> bool:
        """Whether a request is for the authorization server."""
        return self._server.serves(request.path)

    async def answer(self, request: Request, scope: Scope, receive: Receive) -> Response:
        """Answer a request to the authorization server.

        Raises:
            HTTPRejection: it is too large, too slow, or one of too many.
        """
        peer = str((scope.get("client") or ("?",))[0])
        source = source_of(peer, request.all(b"x-forwarded-for") or "", self._proxies)
        wait_s = self._rates.wait_s(source) if request.path in COUNTED else 0.0
        if wait_s:
            raise HTTPRejection(429, "Too many requests to sign in; wait.", retry_after=str(int(wait_s) + 1))
        return await self._server.answer(
            Asking(
                method=request.method,
                path=request.path,
                query=request.query.decode("latin-1"),
                body=await whole_body(request, receive, MAX_BODY, self._patience_s)
                if request.method == "POST"
                else b"",
                content_type=request.one(b"content-type") or "",
                cookie=request.one(b"cookie") or "",
                origin=request.one(b"origin"),
                fetch_site=request.one(b"sec-fetch-site"),
                user_agent=request.one(b"user-agent") or "",
            )
        )


def source_of(peer: str, forwarded: str, proxies: Sequence[Network]) -> str:
    """Return who is counted: the last address that trusted proxies name, and that isn't one of theirs.

    What stands before it anybody may have written. Of IPv6, a network of 64 bits is one, as anybody has all of it.

    Args:
        peer: the other end of the connection.
        forwarded: the header X-Forwarded-For.
        proxies: those that are trusted.
    """
    source = _visitor(peer)
    for named in reversed(forwarded.split(",")):
        if source is None or not any(source in proxy for proxy in proxies):
            break
        found = _visitor(named.strip())
        if found is None:
            break
        source = found
    if source is None:
        return peer
    return str(source if source.version == IPV4 else ipaddress.ip_network((source, 64), strict=False))


def _visitor(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address, which some proxies write with a port; None for anything else."""
    with_port = WITH_PORT.fullmatch(text)
    try:
        found = ipaddress.ip_address(with_port[1] if with_port else text.strip("[]"))
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


SYNC_PATH: Final = "/sync/"
FILE_SHAPE: Final = re.compile(
    rf"{SYNC_PATH}(?P<memory>[0-9a-f]{{20}})"
    rf"(?:/(?P<device>{ID.pattern})/(?P<name>{CHANGES.pattern}|{ERASED}|{state.DEVICE}))?"
)
MAX_FILE: Final = 64 * 2**20  # bytes
MAX_ALL: Final = 4 * 2**30  # bytes of one memory
MAX_FILES: Final = 20_000
SLOWER: Final = 15  # than a message of MCP a file may arrive
CALL_BYTES: Final = 100_000  # of a file that cost as much as a call


class FileExchange:
    """Answers machines that exchange files: listed, read, written and removed under one path.

    A namespace that is exchanged through a folder of this machine offers that folder, so that this machine takes part
    as one of them; any other has a folder of its own in the data folder, in which all is encrypted with a key that this
    server doesn't have.

    Args:
        namespaces: whose memories they are of.
        patience_s: for a request to arrive; a file may take longer.
    """

    def __init__(self, namespaces: NamespaceServers, patience_s: float) -> None:
        self._namespaces, self._patience_s = namespaces, patience_s * SLOWER
        self._digests: dict[tuple[Path, str], str] = {}  # of files by their marks

    def serves(self, request: Request) -> bool:
        """Whether a request is about such files."""
        return request.path.startswith(SYNC_PATH)

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
        asked = FILE_SHAPE.fullmatch(request.path)
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
