"""The doors beside MCP: browsers that signed in see the pages, strangers ask the authorization server only so often."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from urllib.parse import urlencode, urlsplit

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pgengram.errors import DatabaseFailed
from pgengram.mcp.http.requests import HTTPRejection, Network, Rates, Request, Rules, SignIn, replayed, whole_body
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
