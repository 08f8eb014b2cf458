"""What a person sees who lets a program in, or may not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.responses import Response

from pgengram.sign_in.clients import LOOPBACK
from pgengram.sign_in.requests import UNSTORED
from pgengram.store.clients.connections import Asked
from pgengram.store.clients.tokens import PAGE_CLIENT
from pgengram.store.persons import Right

# Not no-referrer: browsers would name no origin with the form, and it could not be told from one of another page.
HEADERS: Final = {**UNSTORED, "referrer-policy": "same-origin"}


@dataclass(frozen=True, slots=True)
class SpaceChoice:
    """A shared space that may be allowed, as it is shown, with how many are in it and what may be done there."""

    id: int
    name: str
    members: int
    right: Right


def consent(
    asked: Asked,
    request: str,
    resource: str,
    *,
    to_sign: Mapping[str, Any] | None = None,
    wrong: str = "",
    left: int = 0,
) -> Response:
    """Return the page that asks whether a program may come in, and for a code or a passkey.

    Args:
        asked: what it asks for.
        request: the id of its request.
        resource: our address.
        to_sign: what a passkey would have to sign; None where there are none.
        wrong: what was wrong, a code or a passkey; empty for nothing.
        left: how many tries are left then.
    """
    return _asked(asked, request, resource, to_sign=json.dumps(to_sign) if to_sign else "", wrong=wrong, left=left)


def choices(
    asked: Asked,
    request: str,
    resource: str,
    *,
    name: str,
    writes: bool,
    spaces: Sequence[SpaceChoice],
    to_add: Mapping[str, Any] | None,
    failed: bool,
) -> Response:
    """Return the page that shows whose memories are opened, and lets their person choose what of it is allowed.

    Args:
        asked: what is asked for.
        request: the id of the request.
        resource: our address.
        name: whose memories.
        writes: whether they may be written, too.
        spaces: the shared spaces that may be allowed.
        to_add: what a browser needs to make a passkey; None where none is to be added.
        failed: whether one that it made was worth nothing.
    """
    adding = json.dumps(to_add) if to_add else ""
    return _asked(
        asked, request, resource, name=name, writes=writes, spaces=spaces, to_add=adding, failed=failed, proven=True
    )


def _asked(asked: Asked, request: str, resource: str, **facts: Any) -> Response:
    here = "a program on the device where your browser runs"
    is_page = asked.client_id == PAGE_CLIENT
    return shown(
        200,
        title="Show your memory on this device?" if is_page else "Let a program use your memory?",
        asked=asked,
        is_page=is_page,
        request=request,
        resource_host=urlsplit(resource).netloc,
        who=asked.client_host or "a program that named itself",
        where=here if asked.redirect_host in LOOPBACK else asked.redirect_host,
        target="" if is_page else asked.redirect_uri,
        **facts,
    )


def refused(why: str) -> Response:
    """Return a page that tells a person why a program can't come in."""
    return shown(400, title="This can’t go on", text=why, next="Begin again in the program that sent you here.")


def unavailable(retry_after: Mapping[str, str]) -> Response:
    """Return a page for a moment when the database does not answer."""
    return shown(
        503, retry_after, title="One moment", text="The memory does not answer now.", next="Load this page again."
    )


def shown(status: int, headers: Mapping[str, str] | None = None, *, target: str = "", **facts: Any) -> Response:
    """Return a page; its form may lead to `target`, too, as browsers hold the redirect after a form to the policy."""
    parts = urlsplit(target)
    to = f" {parts.scheme}://{parts.netloc}" if target else ""
    policy = (
        "default-src 'none'; style-src 'self'; script-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
        f"form-action 'self'{to}"
    )
    text = _template().render(**facts)
    return Response(text, status, {**HEADERS, "content-security-policy": policy, **(headers or {})}, "text/html")


def style() -> Response:
    """Return the pages' style sheet."""
    return Response(_text("style.css"), 200, {**HEADERS, "cache-control": "max-age=3600"}, "text/css")


def script() -> Response:
    """Return the script with which pages ask for passkeys."""
    return Response(_text("passkeys.js"), 200, {**HEADERS, "cache-control": "max-age=3600"}, "text/javascript")


@cache
def _text(name: str) -> str:
    return (files("pgengram.sign_in") / "templates" / name).read_text(encoding="utf-8")


@cache
def _template() -> Any:
    from jinja2 import Environment

    return Environment(autoescape=True).from_string(_text("page.html"))
