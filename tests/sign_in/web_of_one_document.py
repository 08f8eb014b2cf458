"""An authorization server of this process, and a web in which one program has its document."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx
from signing_in import Profile, Program

from pgengram.sign_in.documents import ClientDocuments
from pgengram.sign_in.requests import Asking
from pgengram.sign_in.server import AuthorizationServer
from pgengram.store.store import Store

BASE = "https://memory.example.org"
APP = Profile("App", "https://app.example.org/oauth/client.json", "https://app.example.org/back")


class Web:
    """A web with one document, which can be away."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False

    def documents(self) -> ClientDocuments:
        """Return documents from this web, as a server that has just started has them."""

        async def answers(_: httpx.Request) -> httpx.Response:
            self.asked += 1
            if self.is_away:
                raise httpx.ConnectError("away")
            about = {"client_id": APP.client_id, "client_name": APP.name, "redirect_uris": [APP.redirect_uri]}
            return httpx.Response(200, json=about)

        async def resolve(_: str) -> Sequence[str]:
            return ["93.184.216.34"]

        return ClientDocuments(resolve, httpx.MockTransport(answers))


class Inside(httpx.AsyncBaseTransport):
    """Hands requests to an authorization server of this process."""

    def __init__(self, server: AuthorizationServer) -> None:
        self.server = server

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        parts = urlsplit(str(request.url))
        sent = request.headers.get
        asking = Asking(
            request.method, parts.path, parts.query, await request.aread(), sent("content-type", ""),
            sent("cookie", ""), sent("origin"), sent("sec-fetch-site"), sent("user-agent", ""),
        )  # fmt: skip
        made = await self.server.answer(asking)
        return httpx.Response(made.status_code, headers=made.raw_headers, content=bytes(made.body))


def program_of(store: Store, web: Web) -> Program:
    """Return a program whose document is on a web, at a server that has just started."""
    inside = Inside(AuthorizationServer(store, f"{BASE}/mcp", documents=web.documents()))
    program = Program(BASE, APP, browser=httpx.AsyncClient(transport=inside))
    program.client_id = APP.client_id
    return program
