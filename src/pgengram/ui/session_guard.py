"""Who may see the page: whoever has a link, in a browser on this machine, and no other page that runs in it.

Another page in the same browser can send requests here, but it cannot read the answers, does not have the cookie
(SameSite) and does not know the mark that every change must carry. A name that was bent to this address is told by the
header Host.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
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

from pgengram.errors import InvalidInput, LimitExceeded
from pgengram.runtime.context import ACTOR, PAGE
from pgengram.store.clients.tokens import SIGN_IN_KEY
from pgengram.ui.sign_ins import LOOPBACK, SIGN_IN_PATH, SIGN_IN_S, Shut, SignIn, SignIns

IDENTITY_PATH: Final = "/identity"
STATIC: Final = "/static/"
MAX_FORM: Final = 512 * 1024  # bytes; a memory has at most 16,000 characters, and its form sends them twice
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
TAB: Final = "pgengram-namespace"  # header: the namespace that a page shows which is open already
FORMS: Final = "application/x-www-form-urlencoded"
UPLOADS: Final = "multipart/form-data"


class SessionGuard:
    """The ASGI application in front of all others.

    Args:
        inner: the pages.
        port: where the server listens on this machine.
        refuse: makes the page that tells of a refusal.
        sign_ins: the browsers that are signed in.
        namespace: whose pages these are; a form of another one's is turned away.

    Attributes:
        mark: what every form must carry.
    """

    def __init__(
        self, inner: ASGIApp, port: int, refuse: Callable[[Shut], Response], sign_ins: SignIns, namespace: str
    ) -> None:
        self._inner = inner
        self._refuse = refuse
        self.namespace_cookie = f"pgengram_namespace_{port}"
        self._hosts = frozenset(f"{name}:{port}" for name in (LOOPBACK, "localhost", sign_ins.own_name))
        self.cookie = f"pgengram_ui_{port}"  # cookies do not tell ports apart
        self.sign_ins = sign_ins
        self.mark = sign_ins.mark(namespace)

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
            self._check(scope)
        except Shut as refusal:
            await self._refuse(refusal)(scope, receive, sending)
            return
        await self._inner(scope, receive, sending)

    def _check(self, scope: Scope) -> None:
        """Refuse foreign names, foreign pages, and whoever has no cookie.

        Raises:
            Shut: the request goes no further.
        """
        headers, path = Headers(scope=scope), scope["path"]
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or host not in self._hosts:
            raise Shut("This request was sent to the wrong address.", "Open it by the link that `pgengram ui` printed.")
        _check_origin(headers, scope["method"], f"http://{host}")
        if path not in (SIGN_IN_PATH, IDENTITY_PATH) and not path.startswith(STATIC) and not self.known(headers):
            raise Shut("This browser isn't signed in, or no longer. Open the link printed by `pgengram ui`.")

    def known(self, headers: Headers) -> SignIn | None:
        """Return the sign-in of the browser that a request comes from, None if it has none."""
        return self.sign_ins.known(cookie_of(headers, self.cookie))

    def admit(self, ticket: str, headers: Headers, answer: Response) -> None:
        """Give the browser that has the ticket its cookie; the ticket is worth nothing from then on.

        Raises:
            Shut: it is not the ticket, or was used before.
        """
        self._set(answer, self.cookie, self.sign_ins.sign_in(ticket, headers.get("user-agent", "")))

    def show_namespace(self, name: str, answer: Response) -> None:
        """Have the browser show another namespace from now on."""
        self._set(answer, self.namespace_cookie, base64.urlsafe_b64encode(name.encode()).decode())

    @staticmethod
    def _set(answer: Response, name: str, value: str) -> None:
        answer.set_cookie(name, value, max_age=SIGN_IN_S, httponly=True, samesite="strict", path="/")

    async def form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form of ours.

        Raises:
            Shut: it does not carry our mark.
            InvalidInput: it is not a form.
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
            InvalidInput: it is not such a form, or has no file.
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


class PublicGuard(SessionGuard):
    """The same for browsers that signed in over HTTP: the door before it knows the name and the sign-in.

    Args:
        inner: the pages.
        origin: of the pages, as browsers know it.
        refuse: makes the page that tells of a refusal.
        sign_ins: makes the mark of forms.
        namespace: whose pages these are.
    """

    def __init__(
        self, inner: ASGIApp, origin: str, refuse: Callable[[Shut], Response], sign_ins: SignIns, namespace: str
    ) -> None:
        super().__init__(inner, 0, refuse, sign_ins, namespace)
        self._origin = origin

    def _check(self, scope: Scope) -> None:
        _check_origin(Headers(scope=scope), scope["method"], self._origin)
        if scope["method"] not in READING and not scope[SIGN_IN_KEY].may_write:
            raise Shut("On this device memories can only be read.", "A new sign-in can allow more.")


def _check_origin(headers: Headers, method: str, own: str) -> None:
    """Refuse what another page sends, and a change that doesn't say which page it comes from.

    Raises:
        Shut: the request goes no further.
    """
    origin = headers.get("origin")
    if origin is not None and origin != own:
        raise Shut("Another page sent this request.", "Open the page itself and repeat the change there.")
    if method not in READING and origin is None:
        raise Shut("A change must say which page it comes from.", "Use the buttons of this page.")


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


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
