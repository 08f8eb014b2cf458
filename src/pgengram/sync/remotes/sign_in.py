"""Signing this machine in to a pgengram server in the browser, as programs do, instead of carrying a token there.

The authorization code flow of OAuth 2.1 for a program on a person's machine (RFC 8252): the browser comes back to an
address of this machine. What it gets is kept where a token would be, as JSON, and renewed before it ends.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx

from pgengram.errors import InvalidInput

TIMEOUT_S: Final = 30.0
PATIENCE_S: Final = 600.0  # for the person to answer the page
EARLY_S: Final = 300.0  # before its end, an access token is renewed
METADATA: Final = "/.well-known/oauth-authorization-server"
RESOURCE: Final = "/.well-known/oauth-protected-resource"
WRITE: Final = "memory:write"
SCOPES: Final = f"memory:read {WRITE} offline_access"
CALLBACK: Final = "http://127.0.0.1:{}/signed-in"
ENDED: Final = "{} has ended this machine's connection; run `pgengram sync sign-in`"
# What a token endpoint says of a connection that no later request can renew (RFC 6749, 5.2), and with which status.
ENDING: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
ENDING_STATUS: Final = frozenset({400, 401})
HINT: Final = "Use --token with what `pgengram token create` prints on the server."
DONE: Final = b"<!doctype html><title>pgengram</title><p>You can close this page and go back to the terminal.</p>"


@dataclass(frozen=True, slots=True)
class SignIn:
    """What a server gave this machine: an access token until a moment, in seconds since 1970, and what renews it."""

    endpoint: str
    client: str
    resource: str
    access: str
    refresh: str
    until: float

    @classmethod
    def of(cls, token: str | None) -> Self | None:
        """Read what `as_token` returned; None for a token that somebody carried here."""
        return cls(**json.loads(token)) if token and token.startswith("{") else None

    def as_token(self) -> str:
        """Return it as it is kept."""
        return json.dumps(asdict(self))

    @property
    def is_due(self) -> bool:
        """Whether the access token ends soon."""
        return time.time() > self.until - EARLY_S

    def renewed(self) -> Self:
        """Return what takes its place, the same again if the last answer was lost.

        Raises:
            OSError: the server is away, or the connection was ended there.
        """
        form = {"grant_type": "refresh_token", "refresh_token": self.refresh, "client_id": self.client,
                "resource": self.resource}  # fmt: skip
        try:
            answer = httpx.post(self.endpoint, data=form, timeout=TIMEOUT_S)
        except httpx.HTTPError as error:
            raise ConnectionError(f"{_host(self.endpoint)} cannot be reached ({type(error).__name__})") from error
        try:
            given = answer.json()
            if answer.status_code in ENDING_STATUS and given["error"] in ENDING:
                raise ConnectionError(ENDED.format(_host(self.endpoint)))
            return self._with(given)
        except (ValueError, KeyError, TypeError) as error:
            raise ConnectionError(f"{_host(self.endpoint)} answered {answer.status_code}; try again later") from error

    def _with(self, given: Mapping[str, Any]) -> Self:
        until = time.time() + float(given["expires_in"])
        return replace(self, access=str(given["access_token"]), refresh=str(given["refresh_token"]), until=until)


def sign_in(address: str, name: str, show: Callable[[str], None], patience_s: float = PATIENCE_S) -> str | None:
    """Let a person sign this machine in to a server; return what is kept as its token, None if nobody signs in there.

    Args:
        address: of the server.
        name: what this machine is called.
        show: opens the page, given its address, without waiting for an answer.
        patience_s: for that answer.

    Raises:
        InvalidInput: the server is away or another, or whoever was asked did not allow it.
    """
    parts = urlsplit(address)
    with httpx.Client(base_url=f"{parts.scheme}://{parts.netloc}", timeout=TIMEOUT_S) as client, _Callback() as back:
        try:
            signed_in = _by_browser(client, back, name, show, patience_s)
            return None if signed_in is None else signed_in.as_token()
        except httpx.HTTPError as error:
            raise InvalidInput(f"{parts.netloc} cannot be reached ({type(error).__name__}).") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{parts.netloc} does not answer as a pgengram server does.", HINT) from error


def _by_browser(
    client: httpx.Client, back: _Callback, name: str, show: Callable[[str], None], patience_s: float
) -> SignIn | None:
    issuer = str(client.base_url).rstrip("/")
    about = client.get(METADATA)
    if about.status_code == httpx.codes.NOT_FOUND:
        return None
    if about.json()["issuer"] != issuer or "registration_endpoint" not in about.json():
        raise InvalidInput(f"{_host(issuer)} does not let this program sign in.", HINT)
    resource = str(client.get(f"{RESOURCE}/mcp").json()["resource"])
    here = CALLBACK.format(back.server_port)
    wish = {"client_name": f"pgengram sync on {name}", "redirect_uris": [here], "token_endpoint_auth_method": "none"}
    made = client.post(_own(about.json()["registration_endpoint"], issuer), json=wish).json()
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    asked = {
        "response_type": "code", "client_id": made["client_id"], "redirect_uri": here, "state": state, "scope": SCOPES,
        "code_challenge": challenge, "code_challenge_method": "S256", "resource": resource,
    }  # fmt: skip
    show(f"{_own(about.json()['authorization_endpoint'], issuer)}?{urlencode(asked)}")
    code = back.answer(patience_s, state, issuer)
    form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, "redirect_uri": here,
            "client_id": made["client_id"], "resource": resource}  # fmt: skip
    endpoint = _own(about.json()["token_endpoint"], issuer)
    given = client.post(endpoint, data=form).json()
    if WRITE not in given["scope"].split():
        raise InvalidInput("This machine may only read there.", "Sign in again, and allow it to write.")
    return SignIn(endpoint, made["client_id"], resource, "", "", 0.0)._with(given)


def _own(url: Any, issuer: str) -> str:
    """Return the address of an endpoint.

    Raises:
        ValueError: it is another server's.
    """
    if not str(url).startswith(issuer + "/"):
        raise ValueError(url)
    return str(url)


def _host(url: str) -> str:
    return urlsplit(url).netloc


class _Callback(HTTPServer):
    """The address of this machine to which a browser comes back."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.given: dict[str, str] = {}

    def answer(self, patience_s: float, state: str, issuer: str) -> str:
        """Return the code that the browser brings; what others send is passed over.

        Raises:
            InvalidInput: none came in time, or the person did not allow it.
        """
        until = time.monotonic() + patience_s
        while (left_s := until - time.monotonic()) > 0:
            self.timeout = left_s
            self.handle_request()
            given, self.given = self.given, {}
            if (
                not secrets.compare_digest(given.get("state", "").encode(), state.encode())
                or given.get("iss") != issuer
            ):
                continue
            if "code" not in given:
                raise InvalidInput("It was not allowed on the page, so this machine is not signed in.")
            return given["code"]
        raise InvalidInput("Nobody answered the page in time.", "Run the command again.")

    def handle_error(self, *_: Any) -> None:
        """Go on waiting if what came went away before its answer."""


class _Answering(BaseHTTPRequestHandler):
    timeout = 10  # seconds for one request, so that a connection that says nothing keeps nobody out
    server: _Callback

    def do_GET(self) -> None:
        """Take what the browser brings."""
        self.server.given = dict(parse_qsl(urlsplit(self.path).query))
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(DONE)))
        self.end_headers()
        self.wfile.write(DONE)

    def log_message(self, *_: Any) -> None:
        """Say nothing: what comes has a code in it."""
