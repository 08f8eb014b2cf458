"""Which program asks to sign in, and to which addresses its answer may go.

A client is known by the URL of a document about it (a client-id metadata document), or by a sealed text that a
registration gave it (RFC 7591); nothing is stored for either.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

from pgengram.sign_in import seals

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
REGISTERED: Final = "dcr_"
MAX_URIS: Final = 10
PLAIN_URI: Final = re.compile(r"[!#-;=?-\[\]-~]{1,512}")  # of visible ASCII, without what quotes or escapes
MAX_NAME: Final = 80
SEALED_FOR: Final = "client"
# A host and its port; of plain characters only, as it gets into the policy of the page.
NETLOC: Final = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
QUOTATION: Final = re.compile(
    "[\"'\u00ab\u00bb\u2018-\u201f\u2039\u203a\u300c-\u300f\uff02\uff07]"
)  # marks, between which names are shown
WITH_PORT: Final = re.compile(r"http://(?P<host>127\.0\.0\.1|\[::1\]|localhost)(?::\d{0,5})?(?P<rest>/.*)")


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A program: how it is called, by itself, and where its answers may go."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]

    @property
    def host(self) -> str:
        """Whose document names it; empty for one that named itself."""
        return urlsplit(self.id).hostname or "" if self.id.startswith("https://") else ""

    def allows(self, redirect_uri: str) -> bool:
        """Whether an answer may go there: equal, or a loopback address that differs in its port only."""
        return any(same_address(known, redirect_uri) for known in self.redirect_uris)


class InvalidClient(ValueError):
    """No client can be made of what was given; the text says why and nothing of what was given."""


def same_address(known: str, given: str) -> bool:
    """Whether a redirect URI is a known one (RFC 9700, 4.1.3; for loopback RFC 8252, 7.3)."""
    if known == given:
        return True
    one, other = WITH_PORT.fullmatch(known), WITH_PORT.fullmatch(given)
    return (
        one is not None
        and other is not None
        and usable(given)
        and one["host"] == other["host"]
        and one["rest"] == other["rest"]
    )


def usable(uri: str) -> bool:
    """Whether a browser may be sent to a redirect URI: https, or http to this machine, and nothing hidden in it."""
    if not PLAIN_URI.fullmatch(uri):
        return False
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return False
    if not NETLOC.fullmatch(parts.netloc) or "#" in uri:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


@cache
def known() -> dict[str, OAuthClient]:
    """Return the clients whose documents come along, by the URLs of these."""
    text = (files("pgengram.sign_in") / "known_clients.toml").read_text(encoding="utf-8")
    return {
        id_: OAuthClient(id_, about["name"], tuple(about["redirect_uris"]))
        for id_, about in tomllib.loads(text).items()
    }


def of_document(url: str, document: Any) -> OAuthClient:
    """Return the client that a metadata document describes.

    Raises:
        InvalidClient: the document is not about this URL, or asks for what is not done here.
    """
    if not isinstance(document, Mapping) or document.get("client_id") != url:
        raise InvalidClient("its document is about another client")
    methods = document.get("token_endpoint_auth_methods_supported") or []
    if document.get("token_endpoint_auth_method", "none") != "none" and "none" not in methods:
        raise InvalidClient("its document asks for a secret")
    uris = _uris(document.get("redirect_uris"))
    if not uris:
        raise InvalidClient("its document has no address that can be used")
    return OAuthClient(url, _name(document.get("client_name")), uris)


def registered(key: bytes, request: Any, now: int) -> OAuthClient:
    """Return a client that registers itself; its id holds all that is known of it, sealed with a key.

    Raises:
        InvalidClient: it has no redirect URI that can be used.
    """
    uris = _uris(request.get("redirect_uris")) if isinstance(request, Mapping) else ()
    if not uris:
        raise InvalidClient("no redirect URI can be used")
    name = _name(request.get("client_name"))
    return OAuthClient(REGISTERED + seals.sealed(key, SEALED_FOR, [name, uris, now]), name, uris)


def unsealed(key: bytes, id_: str) -> OAuthClient | None:
    """Return the client that registered itself under this id; None for any other text."""
    found = seals.value_of(key, SEALED_FOR, id_.removeprefix(REGISTERED))
    return None if found is None else OAuthClient(id_, found[0], tuple(found[1]))


def _uris(given: Any) -> tuple[str, ...]:
    """Return the redirect URIs that can be used; others are left out: some clients also name a scheme of their own."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        return ()
    return tuple(uri for uri in given[:MAX_URIS] if isinstance(uri, str) and usable(uri))


def _name(given: Any) -> str:
    name = " ".join(QUOTATION.sub("", given).split())[:MAX_NAME] if isinstance(given, str) else ""
    return name if name and name.isprintable() else "a program without a name"
