"""The door to the authorization server: what strangers may ask of it, and how often."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope

from pgengram.mcp.http.bodies import whole_body
from pgengram.mcp.http.requests import HTTPRejection, Network, Rates, Request, Rules, SignIn
from pgengram.sign_in.consents import AUTHORIZE, OPEN_PAGE
from pgengram.sign_in.documents import ClientDocuments
from pgengram.sign_in.requests import Asking
from pgengram.sign_in.server import MAX_BODY, REGISTER, AuthorizationServer
from pgengram.store.store import Store

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
