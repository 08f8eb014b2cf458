"""What a person sees who lets a program in, or may not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.responses import Response

from pgengram.sign_in.clients import LOOPBACK
from pgengram.sign_in.requests import UNSTORED
from pgengram.store.clients.asked import Asked
from pgengram.store.clients.page_sign_ins import PAGE_CLIENT

# Not no-referrer: browsers would name no origin with the form, and it could not be told from one of another page.
HEADERS: Final = {**UNSTORED, "referrer-policy": "same-origin"}


def consent(asked: Asked, request: str, resource: str, *, wrong: bool = False, left: int = 0) -> Response:
    """Return the page that asks whether a program may come in.

    Args:
        asked: what it asks for.
        request: the id of its request.
        resource: our address.
        wrong: whether the code that was typed was wrong.
        left: how many tries are left then.
    """
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
        wrong=wrong,
        left=left,
        target="" if is_page else asked.redirect_uri,
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
    """Return a page; its form may lead to `target` besides, as browsers hold the redirect after a form to the policy."""
    parts = urlsplit(target)
    to = f" {parts.scheme}://{parts.netloc}" if target else ""
    policy = f"default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'{to}"
    text = _template().render(**facts)
    return Response(text, status, {**HEADERS, "content-security-policy": policy, **(headers or {})}, "text/html")


def style() -> Response:
    """Return the pages' style sheet."""
    return Response(_text("style.css"), 200, {**HEADERS, "cache-control": "max-age=3600"}, "text/css")


@cache
def _text(name: str) -> str:
    return (files("pgengram.sign_in") / "templates" / name).read_text(encoding="utf-8")


@cache
def _template() -> Any:
    from jinja2 import Environment

    return Environment(autoescape=True).from_string(_text("page.html"))
