"""What comes to an endpoint of the authorization server, and the forms of its answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.responses import Response

EVERYWHERE: Final = {"access-control-allow-origin": "*"}
BROWSERS: Final = ("Edg", "OPR", "Firefox", "Chrome", "Safari")  # in this order: each names later ones, too
NAMES: Final = {"Edg": "Edge", "OPR": "Opera"}
SYSTEMS: Final = {
    "Windows": "Windows", "Android": "Android", "iPhone": "iOS", "iPad": "iOS", "Macintosh": "macOS",
    "CrOS": "ChromeOS", "Linux": "Linux",
}  # fmt: skip
UNSTORED: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Asking:
    """A request to one of the endpoints, whole."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    content_type: str = ""
    cookie: str = ""
    origin: str | None = None
    fetch_site: str | None = None
    user_agent: str = ""


class OAuthError(Exception):
    """An error as the RFCs name it."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error, self.description, self.status = error, description, status


class PageError(Exception):
    """What a person is told where no program may be told anything."""


def parameters(text: str) -> dict[str, str]:
    """Return the parameters of a query or form.

    Raises:
        OAuthError: one comes twice or holds a NUL, which the database keeps in no text, or there are too many.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=64, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise OAuthError("invalid_request", "the parameters can't be read") from None
    if any("\0" in text for pair in pairs for text in pair):
        raise OAuthError("invalid_request", "the parameters can't be read")
    found = dict(pairs)
    if len(found) < len(pairs):
        raise OAuthError("invalid_request", "a parameter comes twice")
    return found


def form_of(asking: Asking) -> dict[str, str]:
    """Return the parameters of a form.

    Raises:
        OAuthError: the body isn't a form, or one comes twice.
    """
    if asking.content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise OAuthError("invalid_request", "the body must be application/x-www-form-urlencoded")
    try:
        return parameters(asking.body.decode("ascii"))
    except UnicodeDecodeError:
        raise OAuthError("invalid_request", "the parameters can't be read") from None


def cookie_value(header: str, name: str) -> str:
    """Return the value of a cookie; empty without it, or if it is there twice."""
    found = [part.strip().partition("=") for part in header.split(";")]
    values = [value for one, _, value in found if one == name]
    return values[0] if len(values) == 1 else ""


def browser_name(agent: str) -> str:
    """Return how a person calls the browser that sends this User-Agent."""
    browser = next((one for one in BROWSERS if f"{one}/" in agent), "")
    system = next((name for word, name in SYSTEMS.items() if word in agent), "")
    if not browser:
        return re.sub(r"[^\w./ -]", "", agent)[:40] or "unknown"
    return f"{NAMES.get(browser, browser)} on {system}" if system else NAMES.get(browser, browser)


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer in JSON, which no cache keeps and a web page may read."""
    return Response(json.dumps(content), status, {**UNSTORED, **EVERYWHERE, **(headers or {})}, "application/json")
