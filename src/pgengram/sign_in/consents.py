"""The pages on which a person lets a program in, or a browser that is to show the memories.

What is asked for is in the page itself, sealed, and bound to a cookie of its own: until somebody answers, nothing is
kept here, and two pages in one browser don't know of each other.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from starlette.responses import Response

from pgengram.errors import Conflict
from pgengram.sign_in import clients, pages, passkeys, seals
from pgengram.sign_in.clients import InvalidClient, OAuthClient
from pgengram.sign_in.documents import ClientResolver
from pgengram.sign_in.pages import SpaceChoice
from pgengram.sign_in.passkeys import InvalidPasskey, PasskeyVerifier
from pgengram.sign_in.requests import Asking, OAuthError, PageError, browser_name, cookie_value, form_of, parameters
from pgengram.store import membership, persons
from pgengram.store.clients import connections
from pgengram.store.clients.connections import Asked, Connection, Connections, Proof
from pgengram.store.clients.sign_in_requests import PAGE_LIFE, REQUEST_LIFE, SignInRequests
from pgengram.store.clients.tokens import PAGE_CLIENT, hashed
from pgengram.store.connection.database import Role
from pgengram.store.persons import Right

READ, WRITE, OFFLINE = "memory:read", "memory:write", "offline_access"
AUTHORIZE: Final = "/oauth/authorize"
MAX_ADDRESS: Final = 512  # characters
OPEN_PAGE: Final = "/oauth/page"
CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
COOKIE: Final = "__Host-pgengram-sign-in-"  # and the name of the request
PAGE_COOKIE: Final = "__Host-pgengram-page"
SECURE_ONLY: Final = "__Host-"  # not where the address is http, on this machine only
SEALED_FOR: Final = "request"
NAME_CHARACTERS: Final = 12  # of a request's id, in the name of its cookie


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person says to a request, in the transaction in which it is heard.

    browser: where they say it.
    """

    connection: Connection
    id: str
    asked: Asked
    given: Mapping[str, str]
    browser: str

    def writes(self, proof: Proof) -> bool:
        """Whether memories may be written, too: if it is asked for, proven and allowed."""
        return proof.may_write and self.asked.may_write and self.given.get("may_write") == "yes"


class Consents:
    """Asks a person, and keeps what they say.

    Args:
        connections_: what is kept.
        resolver: knows the programs.
        resource: the address of MCP as clients know it.
    """

    def __init__(self, connections_: Connections, resolver: ClientResolver, resource: str) -> None:
        parts = urlsplit(resource)
        self._connections = connections_
        self._requests = SignInRequests(connections_)
        self._resolver = resolver
        self._resource = resource
        self._issuer = f"{parts.scheme}://{parts.netloc}"
        self._is_local = parts.scheme == "http"
        offered = passkeys.is_installed() and passkeys.can_have(self._issuer)
        self._verifier = PasskeyVerifier(self._issuer) if offered else None

    # -- what is asked ---------------------------------------------------------------------------------------------

    async def ask(self, asking: Asking) -> Response:
        """Show who asks for what, or send a program that asks for something else back with the error."""
        given = parameters(asking.query)
        client, redirect_uri = await self._checked_client(given)
        try:
            asked = self._asked(given, client, redirect_uri)
        except OAuthError as error:
            return self._back(redirect_uri, given.get("state"), error=error.error, error_description=error.description)
        return await self._show(asked)

    async def ask_for_page(self, asking: Asking) -> Response:
        """Show how a browser is let in that is to show the memories."""
        to = parameters(asking.query).get("to", "/")
        return await self._show(
            Asked(
                client_id=PAGE_CLIENT,
                client_name=browser_name(asking.user_agent),
                client_host="",
                redirect_uri=to if _is_of_the_page(to) else "/",
                redirect_host=urlsplit(self._issuer).hostname or "",
                challenge="",
                resource=self._resource,
                state=None,
                may_write=True,
            )
        )

    async def _show(self, asked: Asked) -> Response:
        id_, secret = secrets.token_hex(16), secrets.token_urlsafe(24)
        until = int(time.time() + REQUEST_LIFE.total_seconds())
        request = seals.sealed(
            await self._connections.key("requests"), SEALED_FOR, [id_, hashed(secret).hex(), until, asked.as_json()]
        )
        await self._requests.show(asked)
        response = await self._asked_for_proof(asked, id_, request)
        self._set_cookie(response, COOKIE + id_[:NAME_CHARACTERS], secret, REQUEST_LIFE.total_seconds(), "strict")
        return response

    async def _asked_for_proof(self, asked: Asked, id_: str, request: str, **problem: Any) -> Response:
        to_sign = None
        if self._verifier is not None:
            to_sign = self._verifier.to_sign(await self._connections.key(passkeys.KEY), id_)
        return pages.consent(asked, request, self._resource, to_sign=to_sign, **problem)

    async def _checked_client(self, given: Mapping[str, str]) -> tuple[OAuthClient, str]:
        """Return who asks, and an address of theirs; nobody is sent to any other.

        Raises:
            PageError: the client or the address is not good.
        """
        try:
            client = await self._resolver.find(given.get("client_id", ""))
        except InvalidClient as error:
            async with self._connections.login() as connection:
                await connections.note(connection, "client_refused")
            raise PageError(f"The program that asks is not known: {error}.") from None
        redirect_uri = given.get("redirect_uri", client.redirect_uris[0] if len(client.redirect_uris) == 1 else "")
        if not clients.usable(redirect_uri) or not client.allows(redirect_uri):
            raise PageError("The program that asks wants the answer sent to an address that is not its own.")
        return client, redirect_uri

    def _asked(self, given: Mapping[str, str], client: OAuthClient, redirect_uri: str) -> Asked:
        if given.get("response_type") != "code":
            raise OAuthError("unsupported_response_type", "response_type must be code")
        if given.get("code_challenge_method") != "S256" or not CHALLENGE.fullmatch(given.get("code_challenge", "")):
            raise OAuthError("invalid_request", "PKCE with code_challenge_method=S256 is needed")
        if given.get("resource") != self._resource:
            raise OAuthError("invalid_target", f"resource must be {self._resource}")
        scopes = set(given.get("scope", "").split()) & {READ, WRITE}
        return Asked(
            client_id=client.id,
            client_name=client.name,
            client_host=client.host,
            redirect_uri=redirect_uri,
            redirect_host=urlsplit(redirect_uri).hostname or "",
            challenge=given["code_challenge"],
            resource=self._resource,
            state=given.get("state"),
            may_write=WRITE in scopes or not scopes,
        )

    # -- what the person says --------------------------------------------------------------------------------------

    async def answer(self, asking: Asking) -> Response:
        """Take a person's answer, and send the browser on with what it came to."""
        if asking.origin not in (None, self._issuer) or asking.fetch_site not in (None, "same-origin"):
            raise PageError("The answer came from another page.")
        given = form_of(asking)
        request = given.get("request", "")
        id_, asked = await self._shown_before(request, asking.cookie)
        await self._connections.key(passkeys.KEY)  # before the transaction, as it is stored in one of its own
        try:
            async with self._connections.login() as connection:
                return await self._answered(Answer(connection, id_, asked, given, browser_name(asking.user_agent)))
        except Conflict as error:
            raise PageError(f"{error.message} The code can’t be used.") from None

    async def _answered(self, answer: Answer) -> Response:
        answering = await self._requests.answering(answer.connection, answer.id, answer.asked)
        if not answering.left:
            raise PageError("This request is over, or was answered already.")
        if answer.given.get("decision") != "allow":
            await self._requests.deny(answer.connection, answer.id, answer.asked)
            return self._denied(answer.asked)
        if answering.proof is not None:
            is_choice = answer.given.get("step") == "choose"
            spaces = await self._spaces(answer, answering.proof)
            return await (self._chosen if is_choice else self._asked_to_choose)(answer, answering.proof, spaces)
        proof = await self._proven(answer)
        if proof is None:
            return await self._asked_again(answer, answering.left - 1)
        spaces = await self._spaces(answer, proof)
        if not spaces and not self._adds_passkey(answer, proof):
            return await self._given_what_is_allowed(answer, proof, {})
        await self._requests.keep_proof(answer.connection, answer.id, proof)
        return await self._asked_to_choose(answer, proof, spaces)

    async def _proven(self, answer: Answer) -> Proof | None:
        """Return what a code or a passkey is worth; None, and a try less, for a wrong one."""
        connection, id_, asked = answer.connection, answer.id, answer.asked
        signed = answer.given.get("passkey", "")
        if not signed or self._verifier is None:
            return await self._requests.proven_by_code(connection, id_, asked, answer.given.get("code", ""))
        try:
            return await self._verifier.proven(connection, await self._connections.key(passkeys.KEY), id_, signed)
        except InvalidPasskey:
            await self._requests.miss(connection, id_, asked)
            return None

    async def _asked_again(self, answer: Answer, left: int) -> Response:
        wrong = "passkey" if answer.given.get("passkey") and self._verifier is not None else "code"
        if not left:
            return pages.refused(f"The {wrong} was wrong too often.")
        return await self._asked_for_proof(answer.asked, answer.id, answer.given["request"], wrong=wrong, left=left)

    # -- what of it the person allows ------------------------------------------------------------------------------

    def _adds_passkey(self, answer: Answer, proof: Proof) -> bool:
        return self._verifier is not None and proof.by == "code" and answer.given.get("add_passkey") == "yes"

    async def _spaces(self, answer: Answer, proof: Proof) -> list[SpaceChoice]:
        """Return the shared spaces that may be allowed: those that the person is in now, as far as the proof goes."""
        if proof.person_id is None or answer.asked.client_id == PAGE_CLIENT:
            return []
        found = []
        for space in await membership.spaces_of(answer.connection, proof.person_id):
            most = "write" if proof.spaces is None else proof.spaces.get(space.id)
            if most is not None:
                can_write = answer.writes(proof) and most == "write" and space.role >= Role.WRITE
                found.append(SpaceChoice(space.id, space.shown, space.members, "write" if can_write else "read"))
        return found

    async def _asked_to_choose(
        self, answer: Answer, proof: Proof, spaces: Sequence[SpaceChoice], *, failed: bool = False
    ) -> Response:
        name = await persons.shown_name(answer.connection, proof.namespace)
        to_add = None
        if self._verifier is not None and self._adds_passkey(answer, proof):
            to_add = self._verifier.to_add(await self._connections.key(passkeys.KEY), answer.id, name)
        return pages.choices(
            answer.asked,
            answer.given["request"],
            self._resource,
            name=name,
            writes=answer.writes(proof),
            spaces=spaces,
            to_add=to_add,
            failed=failed,
        )

    async def _chosen(self, answer: Answer, proof: Proof, offered: Sequence[SpaceChoice]) -> Response:
        made = answer.given.get("passkey", "")
        if made and self._verifier is not None and self._adds_passkey(answer, proof):
            key = await self._connections.key(passkeys.KEY)
            try:
                await self._verifier.keep(answer.connection, key, answer.id, made, proof, answer.browser)
            except InvalidPasskey:
                return await self._asked_to_choose(answer, proof, offered, failed=True)
        return await self._given_what_is_allowed(
            answer, proof, {one.id: one.right for one in offered if answer.given.get(f"space-{one.id}") == "yes"}
        )

    async def _given_what_is_allowed(self, answer: Answer, proof: Proof, spaces: Mapping[int, Right]) -> Response:
        asked = answer.asked
        value = await self._requests.allow(
            answer.connection, answer.id, asked, proof.namespace, may_write=answer.writes(proof), spaces=spaces
        )
        if asked.client_id == PAGE_CLIENT:
            return self._let_in(asked, value)
        return self._back(asked.redirect_uri, asked.state, 303, code=value)

    async def _shown_before(self, request: str, cookies: str) -> tuple[str, Asked]:
        """Return the id of a request that this browser was shown, and what was asked for.

        Raises:
            PageError: it is over, or isn't one of this browser.
        """
        found: Any = seals.value_of(await self._connections.key("requests"), SEALED_FOR, request)
        if found is None or found[2] <= time.time() or found[3]["resource"] != self._resource:
            raise PageError("This request is over, or was answered already.")
        id_, digest, _, asked = found
        secret = cookie_value(cookies, self._name(COOKIE + id_[:NAME_CHARACTERS]))
        if not hmac.compare_digest(digest, hashed(secret).hex()):
            raise PageError("This request belongs to another browser, or this browser keeps no cookies.")
        return id_, Asked(**asked)

    def _denied(self, asked: Asked) -> Response:
        if asked.client_id == PAGE_CLIENT:
            return pages.shown(200, title="Not opened", text="Your memory isn’t shown on this device.")
        return self._back(asked.redirect_uri, asked.state, error="access_denied")

    def _let_in(self, asked: Asked, value: str) -> Response:
        response = Response(None, 303, {**pages.HEADERS, "location": asked.redirect_uri})
        # Lax, so that a link in a chat leads to its memory; every change needs its form's mark and its origin, too.
        self._set_cookie(response, PAGE_COOKIE, value, PAGE_LIFE.total_seconds(), "lax")
        return response

    def _set_cookie(self, response: Response, name: str, value: str, life_s: float, same_site: Any) -> None:
        response.set_cookie(
            self._name(name),
            value,
            max_age=int(life_s),
            path="/",
            secure=not self._is_local,
            httponly=True,
            samesite=same_site,
        )

    def _name(self, name: str) -> str:
        return name.removeprefix(SECURE_ONLY) if self._is_local else name

    def _back(self, redirect_uri: str, state: str | None, status: int = 302, **told: str) -> Response:
        """Send the browser back to the program, with who answers."""
        query = urlencode({**told, **({"state": state} if state is not None else {}), "iss": self._issuer})
        address = f"{redirect_uri}{'&' if urlsplit(redirect_uri).query else '?'}{query}"
        return Response(None, status, {**pages.HEADERS, "location": address})


def page_cookie(cookies: str, *, is_secure: bool) -> str:
    """Return what a browser has that was let in to show the memories; empty if it has nothing."""
    return cookie_value(cookies, PAGE_COOKIE if is_secure else PAGE_COOKIE.removeprefix(SECURE_ONLY))


def _is_of_the_page(to: str) -> bool:
    """Whether an address is one of this server, whatever a browser makes of it."""
    return (
        to.startswith("/")
        and not to.startswith("//")
        and "\\" not in to
        and to.isascii()
        and to.isprintable()
        and " " not in to
        and len(to) <= MAX_ADDRESS
    )
