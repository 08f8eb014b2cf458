"""The authorization server's endpoints: what clients discover, the page that a person sees, and tokens.

OAuth 2.1 for public clients as MCP asks for it: PKCE with S256 only, resource indicators (RFC 8707), the issuer in
each answer (RFC 9207), refresh tokens that are replaced at each use, revocation (RFC 7009), registration without a
memory (RFC 7591).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.responses import Response

from pgengram.errors import DatabaseFailed, InvalidInput
from pgengram.sign_in import clients, pages
from pgengram.sign_in.clients import InvalidClient
from pgengram.sign_in.consents import AUTHORIZE, OFFLINE, OPEN_PAGE, READ, WRITE, Consents
from pgengram.sign_in.documents import ClientDocuments, ClientResolver
from pgengram.sign_in.requests import EVERYWHERE, UNSTORED, Asking, OAuthError, PageError, form_of, json_answer
from pgengram.store.clients import connections
from pgengram.store.clients.connections import Asked, Connections, Tokens
from pgengram.store.store import Store

log = logging.getLogger(__name__)

METADATA: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
TOKEN, REVOKE, REGISTER, STYLE = (f"/oauth/{name}" for name in ("token", "revoke", "register", "style.css"))
SCRIPT: Final = "/oauth/passkeys.js"
FOR_PEOPLE: Final = (AUTHORIZE, OPEN_PAGE)
MAX_BODY: Final = 65_536  # bytes
VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
RETRY_S: Final = 2


Failure = OAuthError | PageError | DatabaseFailed | TimeoutError


def _for_person(error: Failure) -> Response:
    """Return the page that says what went wrong."""
    if isinstance(error, OAuthError):
        return pages.refused(f"The program that asks made a mistake: {error.description}.")
    if isinstance(error, PageError):
        return pages.refused(str(error))
    return pages.unavailable({"retry-after": str(RETRY_S)})


def _for_program(error: Failure) -> Response:
    if isinstance(error, OAuthError):
        return json_answer({"error": error.error, "error_description": error.description}, error.status)
    if isinstance(error, PageError):
        return pages.refused(str(error))
    return json_answer({"error": "temporarily_unavailable"}, 503, {"retry-after": str(RETRY_S)})


class AuthorizationServer:
    """Signs programs in to the memories of one store.

    Args:
        store: whose memories.
        resource: the address of MCP as clients know it, such as https://memory.example.org/mcp.
        documents: fetches what is known of clients that do not come along; None allows only those, and registration.
        registers: whether clients may register themselves.

    Raises:
        InvalidInput: the address cannot be signed in to.
    """

    def __init__(
        self, store: Store, resource: str, *, documents: ClientDocuments | None = None, registers: bool = True
    ) -> None:
        parts = urlsplit(resource)
        is_local = parts.scheme == "http" and parts.hostname in clients.LOOPBACK
        if not (parts.scheme == "https" or is_local) or not parts.hostname or parts.query or parts.fragment:
            raise InvalidInput(
                "--sign-in needs --url with https://, such as https://memory.example.org/mcp.",
                "Put a TLS proxy or a tunnel in front; http:// is for this machine only.",
            )
        self.resource = resource
        self.issuer = f"{parts.scheme}://{parts.netloc}"
        self._connections = Connections(store)
        self._resolver = ClientResolver(self._connections, documents, registers=registers)
        self.consents = Consents(self._connections, self._resolver, resource)

    # -- what is where ---------------------------------------------------------------------------------------------

    @cached_property
    def _routes(self) -> dict[tuple[str, str], Any]:
        path = urlsplit(self.resource).path.rstrip("/")
        metadata = {("GET", one + end): self._metadata for one in METADATA for end in {"", path}}
        posts = {AUTHORIZE: self.consents.answer, TOKEN: self._token, REVOKE: self._revoke, REGISTER: self._register}
        return {
            **metadata,
            ("GET", AUTHORIZE): self.consents.ask,
            ("GET", OPEN_PAGE): self.consents.ask_for_page,
            ("GET", STYLE): self._style,
            ("GET", SCRIPT): self._script,
            **{("POST", one): answer for one, answer in posts.items()},
        }

    def serves(self, path: str) -> bool:
        """Whether a path is one of the endpoints."""
        return any(path == known for _, known in self._routes)

    async def answer(self, asking: Asking) -> Response:
        """Answer a request to one of the endpoints."""
        if asking.method == "OPTIONS" and asking.path not in FOR_PEOPLE:
            allowed = {"access-control-allow-methods": "GET, POST", "access-control-allow-headers": "*"}
            return Response(None, 204, {**EVERYWHERE, **allowed, "access-control-max-age": "600"})
        method = "GET" if asking.method == "HEAD" else asking.method
        answer = self._routes.get((method, asking.path))
        if answer is None:
            allow = ", ".join(sorted({one for one, path in self._routes if path == asking.path}))
            return json_answer({"error": "invalid_request"}, 405, {"allow": allow})
        try:
            return await answer(asking)  # type: ignore[no-any-return]
        except (OAuthError, PageError, DatabaseFailed, TimeoutError) as error:
            return _for_person(error) if asking.path in FOR_PEOPLE else _for_program(error)

    async def _metadata(self, _: Asking) -> Response:
        metadata = {
            "issuer": self.issuer,
            "authorization_endpoint": self.issuer + AUTHORIZE,
            "token_endpoint": self.issuer + TOKEN,
            "revocation_endpoint": self.issuer + REVOKE,
            **({"registration_endpoint": self.issuer + REGISTER} if self._resolver.registers else {}),
            "scopes_supported": [READ, WRITE, OFFLINE],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
        }
        return json_answer(metadata)

    async def _style(self, _: Asking) -> Response:
        return pages.style()

    async def _script(self, _: Asking) -> Response:
        return pages.script()

    # -- tokens ----------------------------------------------------------------------------------------------------

    async def _token(self, asking: Asking) -> Response:
        given = form_of(asking)
        client_id = await self._named(given)
        await self._connections.key("tokens")  # before the transactions below, so that it is stored whatever they do
        match given.get("grant_type"):
            case "authorization_code":
                tokens = await self._by_code(given, client_id)
            case "refresh_token":
                tokens = await self._by_refresh(given, client_id)
            case _:
                raise OAuthError("unsupported_grant_type", "grant_type must be authorization_code or refresh_token")
        scopes = [READ, WRITE] if tokens.scope == "read-write" else [READ]
        return json_answer(
            {
                "access_token": tokens.access,
                "token_type": "Bearer",
                "expires_in": int(tokens.lifetime.total_seconds()),
                "refresh_token": tokens.refresh,
                "scope": " ".join(scopes),
            }
        )

    async def _named(self, given: Mapping[str, str]) -> str:
        """Return the id of the client that a form names.

        Raises:
            OAuthError: there is none, so that it has to register again.
        """
        try:
            return await self._resolver.named(given.get("client_id", ""))
        except InvalidClient as error:
            raise OAuthError("invalid_client", str(error), 401) from None

    async def _by_code(self, given: Mapping[str, str], client_id: str) -> Tokens:
        async with self._connections.login() as connection:
            row = await self._connections.code(connection, given.get("code", ""))
            if row is not None and row["code_used_at"] is not None:
                await self._connections.end(connection, row["id"])
                await connections.note(connection, "code_used_again", row["asked"], grant_id=row["id"])
                row = None
            problem = _problem(row, given, client_id, self.resource)
            if problem is None and row is not None:
                tokens = await self._connections.first_tokens(connection, row)
                problem = None if tokens else _no_grant()
        if problem is not None or tokens is None:
            raise problem or _no_grant()
        return tokens

    async def _by_refresh(self, given: Mapping[str, str], client_id: str) -> Tokens:
        if given.get("resource", self.resource) != self.resource:
            raise OAuthError("invalid_target", f"resource must be {self.resource}")
        async with self._connections.login() as connection:
            token = given.get("refresh_token", "")
            tokens = await self._connections.refreshed(connection, token, client_id, self.resource)
            if tokens is not None and WRITE in given.get("scope", "").split() and tokens.scope != "read-write":
                raise OAuthError("invalid_scope", "more than was granted is asked for")  # and nothing is replaced
        if tokens is None:
            raise _no_grant()
        return tokens

    async def _revoke(self, asking: Asking) -> Response:
        given = form_of(asking)
        client_id = await self._named(given)
        if not given.get("token"):
            raise OAuthError("invalid_request", "token is missing")
        async with self._connections.login() as connection:
            await self._connections.end_by_token(connection, given["token"], client_id)
        return Response(None, 200, {**UNSTORED, **EVERYWHERE})

    async def _register(self, asking: Asking) -> Response:
        if not self._resolver.registers:
            raise OAuthError("invalid_client_metadata", "clients are not registered here", 403)
        if not asking.content_type.startswith("application/json"):
            raise OAuthError("invalid_client_metadata", "the body must be application/json")
        try:
            request = json.loads(asking.body)
        except (ValueError, RecursionError):
            raise OAuthError("invalid_client_metadata", "the body is not JSON") from None

        now = int(time.time())
        try:
            client = clients.registered(await self._connections.key("clients"), request, now)
        except InvalidClient as error:
            raise OAuthError("invalid_redirect_uri", str(error)) from None
        made = {
            "client_id": client.id,
            "client_id_issued_at": now,
            "client_name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
        return json_answer(made, 201)


def _problem(
    row: Mapping[str, Any] | None, given: Mapping[str, str], client_id: str, resource: str
) -> OAuthError | None:
    """Return what is wrong with a code that is to open a resource, or nothing."""
    if row is None or not row["is_fresh"]:
        return _no_grant()
    asked: Asked = row["asked"]
    if (asked.client_id, asked.resource) != (client_id, resource):
        return _no_grant()
    if given.get("redirect_uri", asked.redirect_uri) != asked.redirect_uri:
        return _no_grant()
    verifier = given.get("code_verifier", "")
    made = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("utf-8", "replace")).digest()).decode().rstrip("=")
    if not VERIFIER.fullmatch(verifier) or not hmac.compare_digest(made, asked.challenge):
        return _no_grant()
    if given.get("resource", resource) != resource:
        return OAuthError("invalid_target", f"resource must be {resource}")
    return None


def _no_grant() -> OAuthError:
    return OAuthError("invalid_grant", "the code or token is unknown, used, expired or not this client's")
