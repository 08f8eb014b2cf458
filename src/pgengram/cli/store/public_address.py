"""`pgengram doctor --public`: what can be seen from here of an address that programs on the internet call."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import httpx

from pgengram.sign_in.clients import LOOPBACK
from pgengram.sign_in.consents import AUTHORIZE, READ, WRITE
from pgengram.sign_in.documents import is_public
from pgengram.sign_in.server import METADATA, TOKEN

PATIENCE_S: Final = 10.0  # Claude gives up after that
EXPIRES_SOON_DAYS: Final = 10  # a certificate of 90 days is renewed a month before
AGENTS: Final = ("Claude-User", "python-httpx/0.28")  # that firewalls of providers refuse
RESOURCE: Final = "/.well-known/oauth-protected-resource"
NEEDED: Final[dict[str, Any]] = {  # of the metadata, and without which programs give up
    "code_challenge_methods_supported": ["S256"],
    "token_endpoint_auth_methods_supported": ["none"],
    "client_id_metadata_document_supported": True,
}
PASS_ON: Final = "Let the proxy or tunnel pass every path and method on to `pgengram serve`, unchanged."  # noqa: S105
OUTSIDE: Final = "Some routers don't lead their own public address back: open it on a phone without Wi-Fi, too."

Row = tuple[str, bool, str, str]  # what, whether it is well, what was seen, how to repair it
Resolve = Callable[[str], Awaitable[Sequence[str]]]


class Amiss(Exception):
    """Something that keeps programs away: what was seen, and what to do."""

    def __init__(self, seen: str, repair: str) -> None:
        super().__init__(seen)
        self.seen, self.repair = seen, repair


async def addresses(name: str) -> Sequence[str]:
    """Return the addresses of a name."""
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return sorted({str(one[4][0]) for one in found})


@dataclass(slots=True)
class PublicAddress:
    """Checks an address in the order in which a program comes by it.

    url: that programs are given; resolve: returns the addresses of a name; context: whom certificates are trusted from;
    transport: of httpx, the usual one by default.
    """

    url: str
    resolve: Resolve = addresses
    context: ssl.SSLContext = field(default_factory=httpx.create_ssl_context)
    transport: httpx.AsyncBaseTransport | None = None
    parts: SplitResult = field(init=False)

    def __post_init__(self) -> None:
        self.parts = urlsplit(self.url)

    async def findings(self) -> AsyncIterator[Row]:
        """Yield what was found; after something that everything else depends on, nothing more."""
        is_local = self.parts.scheme == "http" and self.parts.hostname in LOOPBACK
        reaching = [("Name", self._name), ("Certificate", self._certificate)]
        checks = [
            ("Address", self._address),
            *([] if is_local else reaching),
            ("Challenge", self._challenge),
            ("Resource metadata", self._resource),
            ("Server metadata", self._server),
            ("Sign-in", self._sign_in),
        ]
        for what, check in checks:
            try:
                yield (what, True, await check(), "")
            except Amiss as amiss:
                yield (what, False, amiss.seen, amiss.repair)
                if check in (self._address, self._name, self._certificate):
                    return

    # -- how it is reached -----------------------------------------------------------------------------------------

    async def _address(self) -> str:
        parts = self.parts
        usable = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
        if not usable or not parts.hostname or parts.query or parts.fragment or parts.path != "/mcp":
            raise Amiss(
                f"{self.url} can't be given to programs",
                "Use https://, the name and /mcp, without a slash at the end, here and in `serve --url`.",
            )
        return self.url

    async def _name(self) -> str:
        name = self.parts.hostname or ""
        try:
            found = await self.resolve(name)
        except OSError:
            raise Amiss(
                f"{name} has no address", "Add an A record to the name's zone, and wait until it is known."
            ) from None
        hidden = [one for one in found if not is_public(one)]
        if hidden:
            raise Amiss(
                f"{name} leads to {', '.join(hidden)}, which the internet can't reach",
                "Let it lead to the public address; if only your network says this, check on a phone without Wi-Fi.",
            )
        if all(":" in one for one in found):
            raise Amiss(f"{name} has no IPv4 address", "Add an A record: Claude calls over IPv4 only.")
        return ", ".join(found)

    async def _certificate(self) -> str:
        name, port = self.parts.hostname or "", self.parts.port or 443
        try:
            async with asyncio.timeout(PATIENCE_S):
                _, writer = await asyncio.open_connection(name, port, ssl=self.context)
        except ssl.SSLCertVerificationError as error:
            raise Amiss(f"the certificate isn't good: {error.verify_message}", _certificate_repair(error)) from None
        except (OSError, TimeoutError):
            raise Amiss(
                f"nothing answers with TLS at {name}, port {port}",
                f"Open the port, or start the tunnel or proxy. {OUTSIDE}",
            ) from None
        certificate = writer.get_extra_info("peercert")
        writer.close()
        days = int((ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()) / 86_400)
        if days < EXPIRES_SOON_DAYS:
            raise Amiss(f"the certificate ends in {days} days", "See why it isn't renewed by itself.")
        return f"complete and of this name, for {days} more days"

    # -- what answers ----------------------------------------------------------------------------------------------

    async def _challenge(self) -> str:
        for agent in AGENTS:
            answer = await self._asked("POST", self.parts.path, headers={"user-agent": agent})
            if answer.status_code == httpx.codes.MISDIRECTED_REQUEST:
                raise Amiss(
                    "the server doesn't know the host name it is asked for",
                    "Pass the Host header on, or name it with --allowed-host.",
                )
            if answer.status_code == httpx.codes.FORBIDDEN:
                raise Amiss(f"{agent} is refused", "Allow it in the firewall of the provider, tunnel or proxy.")
            if answer.status_code != httpx.codes.UNAUTHORIZED:
                raise Amiss(f"{self.url} answers {answer.status_code} instead of 401", PASS_ON)
            declared = answer.headers.get("www-authenticate", "")
            missing = [
                one
                for one in (f'resource_metadata="{self._origin}{RESOURCE}{self.parts.path}"', f'scope="{READ} {WRITE}"')
                if one not in declared
            ]
            if missing:
                raise Amiss(
                    f"the challenge lacks {' and '.join(missing)}",
                    f"Start the server with --sign-in --url {self.url}. {PASS_ON}",
                )
        return "401, and where to sign in"

    async def _resource(self) -> str:
        for path in (RESOURCE + self.parts.path, RESOURCE):
            declared = await self._document(path)
            if declared.get("resource") != self.url:
                raise Amiss(
                    f"{path} speaks of {declared.get('resource')!r}",
                    f"Start the server with --url {self.url}, letter by letter.",
                )
            if self._origin not in declared.get("authorization_servers", ()):
                raise Amiss(f"{path} names another authorization server", "Start the server with --sign-in.")
        return "as programs expect it"

    async def _server(self) -> str:
        documents = [await self._document(one + end) for one in METADATA for end in ("", self.parts.path)]
        if any(one != documents[0] for one in documents):
            raise Amiss("its four addresses give different documents", PASS_ON)
        declared = documents[0]
        if declared.get("issuer") != self._origin:
            raise Amiss(f"the issuer is {declared.get('issuer')!r}", f"Start the server with --url {self.url}.")
        wrong = [name for name, value in NEEDED.items() if declared.get(name) != value]
        if wrong:
            raise Amiss(f"it lacks {', '.join(wrong)}", "Something between changes it: " + PASS_ON)
        answer = await self._asked("OPTIONS", METADATA[0])
        if answer.headers.get("access-control-allow-origin") != "*":
            raise Amiss("web pages may not read it", "Let the proxy pass OPTIONS and the Access-Control headers.")
        return "the same at all four addresses"

    async def _sign_in(self) -> str:
        page = await self._asked("GET", AUTHORIZE)
        if page.status_code != httpx.codes.BAD_REQUEST or "text/html" not in page.headers.get("content-type", ""):
            raise Amiss(f"{AUTHORIZE} answers {page.status_code} instead of the page", PASS_ON)
        answer = await self._asked("POST", TOKEN, data={"client_id": "x"})
        if answer.status_code != httpx.codes.UNAUTHORIZED or "invalid_client" not in answer.text:
            raise Amiss(f"{TOKEN} answers {answer.status_code} to a form", PASS_ON)
        return "the page and the tokens answer"

    @property
    def _origin(self) -> str:
        return f"{self.parts.scheme}://{self.parts.netloc}"

    async def _asked(self, method: str, path: str, **how: Any) -> httpx.Response:
        """Return the answer to a request, which has to come at once and from here."""
        try:
            async with httpx.AsyncClient(
                transport=self.transport, verify=self.context, trust_env=False, timeout=PATIENCE_S
            ) as web:
                answer = await web.request(method, self._origin + path, **how)
        except httpx.TimeoutException:
            raise Amiss(
                f"{path} gives no answer within {PATIENCE_S:g} s", f"Programs give up then. {PASS_ON}"
            ) from None
        except httpx.HTTPError:
            raise Amiss(
                f"{path} can't be reached", f"See whether the server runs, and the proxy or tunnel. {OUTSIDE}"
            ) from None
        if answer.is_redirect:
            raise Amiss(
                f"{path} is redirected to {answer.headers.get('location')}",
                "Programs don't follow that: serve it at this very address.",
            )
        return answer

    async def _document(self, path: str) -> dict[str, Any]:
        answer = await self._asked("GET", path)
        try:
            declared = json.loads(answer.content)
        except ValueError:
            declared = None
        if answer.status_code != httpx.codes.OK or not isinstance(declared, dict):
            raise Amiss(f"{path} answers {answer.status_code} and no metadata", PASS_ON)
        return declared


def _certificate_repair(error: ssl.SSLCertVerificationError) -> str:
    said = error.verify_message.lower()
    if "local issuer" in said:
        return "Serve the whole chain (fullchain.pem), from an authority that systems trust."
    if "expired" in said:
        return "Renew it, and see why that isn't done by itself."
    if "mismatch" in said:
        return "Get a certificate of this very name."
    return "Get one of an authority that systems trust, such as Let's Encrypt."
