"""The one way from a client's id to what is known of it, and fetching the document about one from the web, so that no
request reaches a machine that is not public.

The name is resolved once, every address must be a public one, and the connection goes to the address that was checked,
with the certificate of the name. No redirect is followed, no proxy of the environment is used, and nothing is unpacked.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

import httpx

from pgengram.sign_in import clients
from pgengram.sign_in.clients import InvalidClient, OAuthClient, of_document
from pgengram.store.clients.connections import Connections

TIMEOUT_S: Final = 3.0
MAX_BYTES: Final = 16_384
PLAIN_URL: Final = re.compile(r"[!-~]{1,1024}")  # of visible ASCII
AT_ONCE: Final = 2
FRESH_S: Final = (300.0, 86_400.0)  # how long a document is good, whatever its headers say
STALE_S: Final = 7 * 86_400.0  # how long the last good one stands in for one that cannot be had
FAILED_S: Final = 60.0
MOST_KEPT: Final = 256
NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
UNICAST: Final = ipaddress.ip_network("2000::/3")  # what is routed of IPv6

Resolve = Callable[[str], Awaitable[Sequence[str]]]


@dataclass(slots=True)
class _Kept:
    client: OAuthClient | None
    good_until: float
    stale_until: float


class ClientDocuments:
    """Documents about clients, fetched when needed and kept as long as their headers say.

    Args:
        resolve: returns the addresses of a name.
        transport: of httpx; the usual one by default.
    """

    def __init__(self, resolve: Resolve | None = None, transport: httpx.AsyncBaseTransport | None = None) -> None:
        # Threads of our own, which names that nobody answers for may keep: others of the process go on.
        self._threads = ThreadPoolExecutor(AT_ONCE, "names of client documents")
        self._resolve = resolve or self._addresses
        self._transport = transport
        self._kept: dict[str, _Kept] = {}
        self._fetching = asyncio.Semaphore(AT_ONCE)

    async def client(self, url: str) -> OAuthClient:
        """Return the client that the document at a URL describes.

        Raises:
            InvalidClient: the URL may not be fetched, or has no such document.
        """
        checked_url(url)
        now = time.monotonic()
        kept = self._kept.get(url)
        if kept is not None and now < kept.good_until:
            return _known(kept)
        try:
            async with self._fetching, asyncio.timeout(TIMEOUT_S):
                client, fresh_s = await self._fetched(url)
        except (InvalidClient, httpx.HTTPError, TimeoutError, OSError, ValueError, RecursionError):
            if kept is not None and kept.client is not None and now < kept.stale_until:
                kept.good_until = now + FAILED_S
                return kept.client
            self._keep(url, _Kept(None, now + FAILED_S, now))
            raise InvalidClient("the document about it cannot be had") from None
        self._keep(url, _Kept(client, now + fresh_s, now + STALE_S))
        return client

    def _keep(self, url: str, kept: _Kept) -> None:
        self._kept.pop(url, None)
        self._kept[url] = kept
        while len(self._kept) > MOST_KEPT:
            self._kept.pop(next(iter(self._kept)))

    async def _fetched(self, url: str) -> tuple[OAuthClient, float]:
        parts = urlsplit(url)
        name = parts.hostname or ""
        addresses = await self._resolve(name)
        if not addresses or not all(is_public(address) for address in addresses):
            raise InvalidClient("its document is not on a public machine")
        async with (
            httpx.AsyncClient(
                transport=self._transport, trust_env=False, follow_redirects=False, timeout=TIMEOUT_S
            ) as web,
            web.stream(
                "GET",
                _url_at(addresses[0], parts),
                headers={"host": name, "accept": "application/json", "accept-encoding": "identity"},
                extensions={"sni_hostname": name},
            ) as response,
        ):
            if response.status_code != httpx.codes.OK or "json" not in response.headers.get("content-type", ""):
                raise InvalidClient("there is no document about it")
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise InvalidClient("the document about it is packed")  # to who knows what size
            body = b""
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MAX_BYTES:
                    raise InvalidClient("the document about it is too large")
        return of_document(url, json.loads(body)), _fresh_s(response.headers.get("cache-control", ""))

    async def _addresses(self, name: str) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)
        )
        return [str(one[4][0]) for one in found]


class ClientResolver:
    """Finds clients by their ids.

    Args:
        connections: whose key seals registered ids, and who knows which clients were let in.
        documents: fetches what is known of clients that do not come along; None allows only those, and registration.
        registers: whether clients may register themselves.
    """

    def __init__(self, connections: Connections, documents: ClientDocuments | None, *, registers: bool) -> None:
        self._connections = connections
        self._documents = documents
        self.registers = registers

    async def find(self, id_: str, *, may_fetch: bool = True) -> OAuthClient:
        """Return the client with this id.

        Raises:
            InvalidClient: there is none.
        """
        if (known := clients.known().get(id_)) is not None:
            return known
        if id_.startswith(clients.REGISTERED):
            found = clients.unsealed(await self._connections.key("clients"), id_) if self.registers else None
            if found is None:
                raise InvalidClient("it is not registered here")
            return found
        if self._documents is None or not may_fetch or not id_.startswith("https://"):
            raise InvalidClient("it is not known here")
        return await self._documents.client(id_)

    async def named(self, id_: str) -> str:
        """Return the id of a client that asks for tokens.

        Nothing is fetched, as strangers may ask this as often as they like, and a program whose document can't be had
        today may refresh: who was let in by its document is known by its grant.

        Raises:
            InvalidClient: there is none, so that it has to register again.
        """
        if id_.startswith("https://") and self._documents is not None and await self._connections.knows(id_):
            return id_
        return (await self.find(id_, may_fetch=False)).id


def _url_at(address: str, parts: SplitResult) -> str:
    """Return a URL with an address for its host, so that no other is asked than the one that was looked at."""
    host = f"[{address}]" if ":" in address else address
    return urlunsplit(("https", host, parts.path, parts.query, ""))


def checked_url(url: str) -> None:
    """Refuse a URL that no document may be fetched from.

    Raises:
        InvalidClient: it is not https, or has a port, user, fragment or no path.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidClient("its id isn't a URL") from None
    if not PLAIN_URL.fullmatch(url) or parts.scheme != "https" or not parts.hostname or port not in (None, 443):
        raise InvalidClient("its id is not an https URL")
    if parts.username is not None or "#" in url or len(parts.path) < len("/x"):
        raise InvalidClient("its id is not the URL of a document")
    if not {".", ".."}.isdisjoint(parts.path.split("/")):
        raise InvalidClient("its id is not the URL of a document")


def is_public(address: str) -> bool:
    """Whether an address is one of the open internet, also where it is wrapped into another."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1]
        if found in NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if found not in UNICAST:
            return False
    return found.is_global and not found.is_multicast


def _known(kept: _Kept) -> OAuthClient:
    if kept.client is None:
        raise InvalidClient("the document about it cannot be had")
    return kept.client


def _fresh_s(cache_control: str) -> float:
    shortest, longest = FRESH_S
    for part in cache_control.split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "max-age" and value.isdigit():
            return min(longest, max(shortest, float(value)))
    return shortest
