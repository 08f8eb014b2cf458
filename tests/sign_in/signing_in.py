"""A person's browser, and programs that sign in the way that clients in use do."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
from http_server import modern

CLAUDE_CODE = "https://claude.ai/oauth/claude-code-client-metadata"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 Version/26.0 Mobile/15E148 Safari/604.1"
PAGE_HEADERS = {"sec-fetch-site": "same-origin"}
Pair = Callable[..., Awaitable[str]]  # prints a pairing code


AUTHORIZATION, OPENID = "oauth-authorization-server", "openid-configuration"  # where metadata is looked for


@dataclass(frozen=True)
class Profile:
    """How one client signs in.

    Args:
        client_id: the URL of its document; empty for one that registers itself.
        redirect_uri: where its answers go.
        scope: what it asks for, as it writes it.
        registers: what it sends to register.
        names_resource_to_refresh: whether its refreshes name the resource.
        begins: with what it finds out that it has to sign in: a message of its protocol, or nothing in a body.
        looks: where it looks for the metadata of the authorization server, in this order.
        needs: what that has to say for this client to go on.
        ends: whether it revokes its token when its person disconnects it.
    """

    name: str
    client_id: str
    redirect_uri: str
    scope: str | None = "memory:read memory:write"
    registers: tuple[str, ...] = ()
    names_resource_to_refresh: bool = True
    begins: str = "message"
    looks: tuple[str, ...] = (AUTHORIZATION,)
    needs: tuple[str, ...] = ("client_id_metadata_document_supported",)
    ends: bool = False


NAMES_ITSELF = ("client_id_metadata_document_supported", "authorization_response_iss_parameter_supported")
PROFILES = (
    Profile(
        "claude.ai",
        "https://claude.ai/oauth/mcp-oauth-client-metadata",
        "https://claude.ai/api/mcp/auth_callback",
        "memory:read memory:write offline_access",
    ),
    Profile("Claude Code", CLAUDE_CODE, "http://localhost:49152/callback", needs=NAMES_ITSELF),
    Profile(
        "ChatGPT",
        "https://chatgpt.com/oauth/client.json",
        "https://chatgpt.com/connector_platform_oauth_redirect",
        " offline_access",
        begins="nothing",
        looks=(OPENID, OPENID, OPENID),
        needs=NAMES_ITSELF,
        ends=True,
    ),
    Profile(
        "Codex",
        "https://chatgpt.com/oauth/codex/client.json",
        "http://127.0.0.1:5555/callback",
        None,
        names_resource_to_refresh=False,
        looks=(AUTHORIZATION, OPENID),
        needs=NAMES_ITSELF,
    ),
    Profile(
        "VS Code",
        "https://vscode.dev/oauth/client-metadata.json",
        "http://127.0.0.1:33418/",
        looks=(AUTHORIZATION, OPENID),
    ),
    Profile(
        "Cursor",
        "",
        "http://localhost:8787/callback",
        registers=(
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "http://localhost:8787/callback",
            "https://www.cursor.com/agents/mcp/oauth/callback",
        ),
        needs=("registration_endpoint",),
    ),
    Profile(
        "Gemini CLI",
        "",
        "http://localhost:7777/oauth/callback",
        registers=("http://localhost:7777/oauth/callback",),
        needs=("registration_endpoint",),
    ),
)


@dataclass
class Program:
    """A program that signs in to a server, and the browser of its person."""

    base: str
    profile: Profile = PROFILES[1]
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    client_id: str = ""
    browser: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(follow_redirects=False, timeout=60))

    @property
    def resource(self) -> str:
        return f"{self.base}/mcp"

    async def register(self) -> str:
        """Register, where the client has no document, and return its id."""
        self.client_id = self.profile.client_id
        if not self.client_id:
            wish = {"client_name": self.profile.name, "redirect_uris": self.profile.registers, "scope": "memory:read"}
            made = await self.browser.post(f"{self.base}/oauth/register", json=wish)
            assert made.status_code == 201, made.text
            self.client_id = made.json()["client_id"]
        return self.client_id

    def asks(self, **other: str | None) -> dict[str, str]:
        """Return the parameters of the request that opens the page; None leaves one out."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")
        usual: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client_id or self.profile.client_id,
            "redirect_uri": self.profile.redirect_uri,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "resource": self.resource,
            "state": "s&t=1",
            "scope": self.profile.scope,
        }
        return {name: value for name, value in (usual | other).items() if value is not None}

    async def page(self, **other: str | None) -> httpx.Response:
        """Open the page."""
        return await self.browser.get(f"{self.base}/oauth/authorize?{urlencode(self.asks(**other))}")

    async def answer(self, page: httpx.Response, code: str, decision: str = "allow", **other: str) -> httpx.Response:
        """Answer the page with a pairing code."""
        form = {"request": hidden(page), "code": code, "decision": decision, "may_write": "yes", **other}
        headers = {"origin": self.base, **PAGE_HEADERS}
        return await self.browser.post(f"{self.base}/oauth/authorize", data=form, headers=headers)

    async def code(self, pair: Pair, **other: str | None) -> str:
        """Sign in as far as the authorization code."""
        if not self.client_id:
            await self.register()
        back = await self.answer(await self.page(**other), await pair())
        assert back.status_code == 303, back.text
        told = query(back)
        assert told["iss"] == self.base
        assert told["state"] == "s&t=1"
        assert back.headers["location"].startswith(self.profile.redirect_uri)
        return told["code"]

    async def token(self, **form: str | None) -> httpx.Response:
        """Ask the token endpoint."""
        usual = {"client_id": self.client_id or self.profile.client_id, "resource": self.resource}
        given = {name: value for name, value in (usual | form).items() if value is not None}
        return await self.browser.post(f"{self.base}/oauth/token", data=given)

    async def exchange(self, code: str, **other: str | None) -> httpx.Response:
        """Exchange an authorization code for tokens."""
        usual = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": self.verifier,
            "redirect_uri": self.profile.redirect_uri,
        }
        return await self.token(**(usual | other))

    async def refresh(self, token: str, **other: str | None) -> httpx.Response:
        """Exchange a refresh token for new tokens."""
        named = {} if self.profile.names_resource_to_refresh else {"resource": None}
        return await self.token(**{"grant_type": "refresh_token", "refresh_token": token, **named, **other})

    async def signed_in(self, pair: Pair, **other: str | None) -> dict[str, Any]:
        """Sign in, and return the tokens."""
        answer = await self.exchange(await self.code(pair, **other))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def call(self, token: str, tool: str = "search_memories", **arguments: Any) -> httpx.Response:
        """Call a tool with an access token."""
        headers, body = modern("tools/call", name=tool, arguments=arguments or {"query": "tea"})
        return await self.browser.post(self.resource, json=body, headers=headers | {"authorization": f"Bearer {token}"})


@dataclass
class Phone:
    """A browser of the owner's that is to show the memories."""

    base: str
    browser: httpx.AsyncClient = field(
        default_factory=lambda: httpx.AsyncClient(
            follow_redirects=False, timeout=60, headers={"accept": "text/html", "user-agent": IPHONE}
        )
    )

    async def open(self, path: str) -> httpx.Response:
        """Open an address, and follow where it leads."""
        return await self.browser.get(self.base + path, follow_redirects=True)

    async def sign_in(self, code: str, path: str = "/", **other: str) -> httpx.Response:
        """Sign in at a page, and return the answer to the code."""
        form = {"request": hidden(await self.open(path)), "code": code, "decision": "allow", "may_write": "yes"}
        headers = {"origin": self.base, **PAGE_HEADERS}
        return await self.browser.post(f"{self.base}/oauth/authorize", data=form | other, headers=headers)

    async def shows(self, path: str) -> str:
        """Return a page once it is worked out."""
        while True:
            answer = await self.open(path)
            assert answer.status_code == 200, answer.text
            if not re.search('class="waiting"|id="work"|>Counting …<', answer.text):
                return answer.text
            await asyncio.sleep(0.05)

    async def send(
        self, path: str, *, origin: str | None = "", mark: str | None = None, **fields: str
    ) -> httpx.Response:
        """Send a form of the page; by default as a browser does that shows it."""
        if mark is None:
            mark = re.findall(r'name="mark" value="([^"]+)"', await self.shows("/new"))[0]
        headers = {} if origin is None else {"origin": origin or self.base}
        return await self.browser.post(self.base + path, data={"mark": mark, **fields}, headers=headers)


def hidden(page: httpx.Response) -> str:
    """Return the id of the request that a page is about."""
    assert page.status_code == 200, page.text
    found = re.search(r'name="request" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


def query(answer: httpx.Response) -> dict[str, str]:
    """Return what a redirect tells the program."""
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))
