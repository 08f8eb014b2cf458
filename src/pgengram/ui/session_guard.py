"""Who may see the page: whoever has the link, in a browser on this machine, and no other page that runs in it.

Another page in the same browser can send requests here, but it cannot read the answers, does not have the cookie
(SameSite) and does not know the mark that every change must carry. A name that was bent to this address is told by the
header Host.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import os
import secrets
import shutil
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import parse_qsl, unquote

from starlette.datastructures import Headers, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pgengram.data_folder import make_data_folder
from pgengram.errors import InvalidInput, LimitExceeded, PgengramError
from pgengram.runtime.context import ACTOR, PAGE

SIGN_IN_PATH: Final = "/enter"
STATIC: Final = "/static/"
MAX_FORM: Final = 256 * 1024  # bytes; a memory has at most 16,000 characters
MAX_FIELDS: Final = 1_000
MAX_UPLOAD: Final = 4_000_000_000  # bytes
READING: Final = ("GET", "HEAD")
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
NEW_LINK: Final = "Stop `pgengram ui` in its terminal and start it again: it prints a new link."
REMEMBERED_S: Final = 180 * 86_400  # how long a browser is let in
TAB: Final = "pgengram-namespace"  # header: the namespace that a page shows which is open already
KEPT_IN: Final = "ui-session.key"
SECRET_BYTES: Final = 32
FORMS: Final = "application/x-www-form-urlencoded"
UPLOADS: Final = "multipart/form-data"


class Shut(PgengramError):
    """Somebody without the right to be here; the page says how to come in."""

    code = "FORBIDDEN"
    default_hint = NEW_LINK


class SessionGuard:
    """The ASGI application in front of all others.

    Args:
        inner: the pages.
        port: where the server listens on this machine.
        refuse: makes the page that tells of a refusal.
        secret: what the cookie and the mark are made of; the same after a restart, so that browsers stay in.
        namespace: whose pages these are; a form of another one's is turned away.

    Attributes:
        ticket: opens the entrance once; empty from then on.
        mark: what every form must carry.
    """

    def __init__(
        self, inner: ASGIApp, port: int, refuse: Callable[[Shut], Response], secret: bytes, namespace: str
    ) -> None:
        self._inner = inner
        self._refuse = refuse
        self.namespace_cookie = f"pgengram_namespace_{port}"
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self.cookie = f"pgengram_ui_{port}"  # cookies do not tell ports apart
        self._session = _derived(secret, "session")
        self.ticket = secrets.token_urlsafe(32)
        self.mark = _derived(secret, f"mark of {namespace}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or turn it away; every answer says how strict a browser must be with it."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        always = {"cache-control": "no-cache" if scope["path"].startswith(STATIC) else "no-store", **HEADERS}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                named = {name.lower() for name, _ in message["headers"]}
                more = [(name.encode(), value.encode()) for name, value in always.items()]
                message["headers"] = [*message["headers"], *(one for one in more if one[0] not in named)]
            await send(message)

        ACTOR.set(PAGE)
        try:
            self._check(Headers(scope=scope), scope["method"], scope["path"])
        except Shut as refusal:
            await self._refuse(refusal)(scope, receive, sending)
            return
        await self._inner(scope, receive, sending)

    def _check(self, headers: Headers, method: str, path: str) -> None:
        """Refuse foreign names, foreign pages, and whoever has no cookie.

        Raises:
            Shut: the request goes no further.
        """
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or host not in self._hosts:
            raise Shut("This request was sent to the wrong address.", "Open it by the link that `pgengram ui` printed.")
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            raise Shut("Another page sent this request.", "Open the page itself and repeat the change there.")
        if method not in READING and origin is None:
            raise Shut("A change must say which page it comes from.", "Use the buttons of this page.")
        if path != SIGN_IN_PATH and not path.startswith(STATIC) and not self.knows(headers):
            raise Shut("Open the link printed by `pgengram ui`.")

    def knows(self, headers: Headers) -> bool:
        """Whether a request comes from a browser that has come in."""
        return hmac.compare_digest(cookie_of(headers, self.cookie).encode(), self._session.encode())

    def admit(self, ticket: str, answer: Response) -> None:
        """Give the browser that has the ticket its cookie; the ticket is worth nothing from then on.

        Raises:
            Shut: it is not the ticket, or was used before.
        """
        if not self.ticket or not hmac.compare_digest(ticket.encode(), self.ticket.encode()):
            raise Shut("This link was used before or is incomplete: it works once.")
        self.ticket = ""
        self._set(answer, self.cookie, self._session)

    def show_namespace(self, name: str, answer: Response) -> None:
        """Have the browser show another namespace from now on."""
        self._set(answer, self.namespace_cookie, base64.urlsafe_b64encode(name.encode()).decode())

    @staticmethod
    def _set(answer: Response, name: str, value: str) -> None:
        answer.set_cookie(name, value, max_age=REMEMBERED_S, httponly=True, samesite="strict", path="/")

    async def form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form of ours.

        Raises:
            Shut: it does not carry our mark.
            InvalidInput: it is no form.
            LimitExceeded: it is too long.
        """
        if _content_type(request) != FORMS:
            raise InvalidInput("This is not a form of this page.")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_FORM:
                raise LimitExceeded("The form is too long.")
        try:
            fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
        except ValueError:
            raise InvalidInput("The form cannot be read.") from None
        self._check_mark(fields)
        return fields

    async def upload(self, request: Request, path: Path) -> tuple[dict[str, str], str]:
        """Write the file of a form of ours to `path`; return the other fields, and the file's name.

        Raises:
            Shut: it does not carry our mark.
            InvalidInput: it is no such form, or has no file.
            LimitExceeded: the file is too large.
        """
        if _content_type(request) != UPLOADS:
            raise InvalidInput("This is not a form of this page.")
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_UPLOAD:
            raise LimitExceeded(
                f"A file may have at most {MAX_UPLOAD // 10**9} GB.", "Import a larger one with `pgengram import`."
            )
        try:
            async with request.form(max_files=1, max_fields=10) as form:
                fields = {name: value for name, value in form.items() if isinstance(value, str)}
                self._check_mark(fields)
                given = form.get("file")
                if not isinstance(given, UploadFile) or not given.filename:
                    raise InvalidInput("Select a file.")
                with path.open("wb") as kept:
                    await asyncio.to_thread(shutil.copyfileobj, given.file, kept)
                return fields, PurePath(given.filename.replace("\\", "/")).name
        except HTTPException:
            raise InvalidInput("The form cannot be read.", "Load the page again and repeat it.") from None

    def _check_mark(self, fields: dict[str, str]) -> None:
        if not hmac.compare_digest(fields.pop("mark", "").encode(), self.mark.encode()):
            raise Shut(
                "This form belongs to another namespace or to another store.",
                "Load the page again and repeat the change.",
            )


def cookie_of(headers: Headers, name: str) -> str:
    """Return the value of a cookie, empty when it is not there or cannot be read."""
    for header in headers.getlist("cookie"):
        with contextlib.suppress(CookieError):
            if (found := SimpleCookie(header).get(name)) is not None:
                return found.value
    return ""


def chosen_namespace(headers: Headers, name: str) -> str:
    """Return the namespace that an open page says it shows, else the one that a cookie names, empty for none."""
    if TAB in headers:
        return unquote(headers[TAB])
    try:
        return base64.urlsafe_b64decode(cookie_of(headers, name)).decode()
    except ValueError:
        return ""


def remembered_secret(folder: Path) -> bytes:
    """Return the secret that is kept in a folder for its owner alone, made when it is not there.

    Raises:
        OSError: the folder cannot be written.
    """
    path = folder / KEPT_IN
    make_data_folder(str(folder))
    with contextlib.suppress(FileExistsError), open(path, "xb", opener=_for_its_owner) as file:
        file.write(secrets.token_bytes(SECRET_BYTES))
    return path.read_bytes()


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _derived(secret: bytes, purpose: str) -> str:
    return hmac.new(secret, purpose.encode(), "sha256").hexdigest()


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
