"""Access tokens of an OAuth issuer: signed JWTs, checked with the keys that the issuer publishes.

We are the resource server of RFC 9728; we issue nothing and see no passwords. What is checked: the signature with an
asymmetric algorithm, issuer, audience, times, scopes (RFC 9068).
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jwt

from pgengram.errors import InvalidInput, NotReady

log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
DISCOVERY: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
KEYS_FRESH_S: Final = 600.0
KEYS_GOOD_S: Final = 3_600.0  # while the issuer cannot be reached
ASK_AGAIN_S: Final = 30.0  # at the earliest, however many tokens name keys that are not known
FETCH_TIMEOUT_S: Final = 5.0
MAX_DOCUMENT: Final = 2**20  # bytes of what an issuer publishes
LEEWAY_S: Final = 30  # between the issuer's clock and ours
EMAIL: Final = "email"  # a claim that is worth nothing unless the issuer has verified it
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
MAX_NAMESPACE: Final = 128


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose tokens are accepted, and what they mean.

    namespace_prefix: put before the claim, so that nobody gets into a namespace by choosing a name at the issuer.
    person_claim: names the person that is made of whoever is seen first; empty to make nobody.
    """

    issuer: str
    audience: str
    read_scope: str = "memory:read"
    write_scope: str = "memory:write"
    namespace_claim: str = "sub"
    namespace_prefix: str = "oauth:"
    person_claim: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
            raise InvalidInput("The issuer must be an https:// URL.")
        if parts.query or parts.fragment:
            raise InvalidInput("The issuer's URL must have neither a query nor a fragment.")


@dataclass(frozen=True, slots=True)
class Bearer:
    """Who holds a token that is good, what the issuer lets them do, and what it calls them as a person, if asked."""

    subject: str
    name: str
    namespace: str
    scopes: frozenset[str]
    person: str | None = None


class Issuer:
    """Checks tokens of one issuer; its keys are fetched when they are needed, and kept for ten minutes.

    Args:
        trust: whose tokens are accepted.
    """

    def __init__(self, trust: Trust) -> None:
        self.trust = trust
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched_at = -KEYS_FRESH_S
        self._asked_at = -ASK_AGAIN_S
        self._fetching = asyncio.Lock()

    async def verify(self, token: str) -> Bearer | None:
        """Return who holds a token; None when it is not good.

        Raises:
            NotReady: the issuer's keys cannot be had now.
        """
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            return None
        if header.get("alg") not in ALGORITHMS or not isinstance(header.get("kid", ""), str):
            return None
        key = await self._key(header.get("kid"))
        if key is None:
            return None
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[header["alg"]],
                issuer=self.trust.issuer,
                audience=self.trust.audience,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.InvalidTokenError, jwt.InvalidKeyError) as error:
            log.info("a token was not accepted: %s", type(error).__name__)
            return None
        return self._bearer(claims)

    def _bearer(self, claims: dict[str, Any]) -> Bearer | None:
        whose = _verified(claims, self.trust.namespace_claim)
        if whose is None:
            log.info("a token was not accepted: no claim %s", self.trust.namespace_claim)
            return None
        namespace = self.trust.namespace_prefix + whose
        if len(namespace) > MAX_NAMESPACE:
            return None
        metadata = claims.get("scope", claims.get("scp", ""))
        listed = metadata.split() if isinstance(metadata, str) else metadata if isinstance(metadata, list) else []
        scopes = [one for one in listed if isinstance(one, str)]
        name = _printable(claims.get("client_id", claims.get("azp"))) or claims["sub"]
        person = _verified(claims, self.trust.person_claim)
        return Bearer(f"{claims['sub']}", name[:64], namespace, frozenset(scopes), person)

    async def _key(self, kid: str | None) -> jwt.PyJWK | None:
        """Return the issuer's key with this id, or its only key for a token that names none."""
        if time.monotonic() - self._fetched_at < KEYS_FRESH_S and (known := self._chosen(kid)) is not None:
            return known
        async with self._fetching:
            now = time.monotonic()
            stale = now - self._fetched_at > KEYS_FRESH_S
            if (stale or self._chosen(kid) is None) and now - self._asked_at > ASK_AGAIN_S:
                self._asked_at = now
                try:
                    self._keys, self._fetched_at = await self._fetch(), now
                except (httpx.HTTPError, ValueError, TypeError, KeyError, jwt.PyJWTError) as error:
                    log.warning("the keys of the issuer cannot be had: %s", type(error).__name__)
            if now - self._fetched_at > KEYS_GOOD_S:
                self._keys = {}
            if not self._keys:
                raise NotReady("The issuer's keys are not available now.")
            return self._chosen(kid)

    def _chosen(self, kid: str | None) -> jwt.PyJWK | None:
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)

    async def _fetch(self) -> dict[str, jwt.PyJWK]:
        async with httpx.AsyncClient(timeout=FETCH_TIMEOUT_S, follow_redirects=False) as client:
            metadata = await self._discovered(client)
            keys = await _document(client, self._same_scheme(metadata["jwks_uri"]))
        found: dict[str, jwt.PyJWK] = {}
        for place, one in enumerate(keys["keys"]):
            if one.get("kty") in ("RSA", "EC", "OKP") and one.get("use", "sig") == "sig":
                try:
                    found[one.get("kid") or f"#{place}"] = jwt.PyJWK(one)
                except jwt.PyJWTError as error:  # of a kind that we do not know: the others are good all the same
                    log.info("a key of the issuer cannot be used: %s", type(error).__name__)
        return found

    async def _discovered(self, client: httpx.AsyncClient) -> dict[str, Any]:
        """Return the issuer's metadata: RFC 8414 puts the well-known part before its path, OpenID Connect behind it."""
        parts = urlsplit(self.trust.issuer)
        origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
        oauth, openid = DISCOVERY
        for address in (f"{origin}{oauth}{path}", f"{origin}{path}{openid}", f"{origin}{openid}{path}"):
            try:
                metadata = await _document(client, address)
            except (httpx.HTTPStatusError, ValueError):
                continue
            if metadata.get("issuer") == self.trust.issuer:
                return metadata
        raise ValueError("no metadata of this issuer")

    def _same_scheme(self, address: str) -> str:
        if urlsplit(address).scheme not in ("https", urlsplit(self.trust.issuer).scheme):
            raise ValueError("keys must not come by a weaker way than the issuer's")
        return address


async def _document(client: httpx.AsyncClient, address: str) -> dict[str, Any]:
    """Return a JSON object from the issuer.

    Raises:
        ValueError: it is too large, or no object.
    """
    async with client.stream("GET", address) as response:
        response.raise_for_status()
        text = b""
        async for piece in response.aiter_bytes():
            text += piece
            if len(text) > MAX_DOCUMENT:
                raise ValueError("too large")
    found = httpx.Response(200, content=text).json()
    if not isinstance(found, dict):
        raise ValueError("no object")  # noqa: TRY004 - what came over the wire is wrong, not the call
    return found


def _verified(claims: dict[str, Any], name: str) -> str | None:
    """Return what a claim says; not an address that the issuer has not verified, as anybody may give a stranger's."""
    trusted = name != EMAIL or claims.get("email_verified") is True
    return _printable(claims.get(name)) if trusted else None


def _printable(claim: Any) -> str | None:
    """Return a claim that can be a name, None for any other."""
    return claim if isinstance(claim, str) and claim and claim.isprintable() else None
