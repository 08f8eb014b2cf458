"""The door to the pages: a browser that signed in sees them, and any other is asked to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol
from urllib.parse import urlencode, urlsplit

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pgengram.errors import DatabaseFailed
from pgengram.mcp.http.bodies import whole_body
from pgengram.mcp.http.requests import HTTPRejection, Rates, Request, Rules, replayed
from pgengram.service.core import Core
from pgengram.settings import Settings
from pgengram.sign_in import pages
from pgengram.sign_in.consents import OPEN_PAGE, page_cookie
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
