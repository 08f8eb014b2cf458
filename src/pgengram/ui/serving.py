"""Serving the page on this machine until somebody stops it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import json
import logging
import secrets
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlencode

import uvicorn
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from pgengram.errors import InvalidInput, NoSuchSpace, NotFound
from pgengram.runtime.context import AUTHORS
from pgengram.runtime.web_server import WebServer, bound_socket
from pgengram.service.manager import MemoryManager
from pgengram.service.spaces import managers_of, own_spaces
from pgengram.settings import Settings
from pgengram.store.connection.begin import Member
from pgengram.store.connection.database import SPACE
from pgengram.store.reading import ui_queries
from pgengram.sync.schedule import ExchangeScheduler
from pgengram.ui.pages import markup
from pgengram.ui.pages.memory_pages import ConversationPages, MemoryPages
from pgengram.ui.pages.overview_pages import NewsPages, OverviewPages
from pgengram.ui.pages.page_application import Page
from pgengram.ui.pages.review_pages import ReviewPages
from pgengram.ui.pages.settings_pages import SettingsPages
from pgengram.ui.session_guard import IDENTITY_PATH, TAB, SessionGuard, chosen_namespace
from pgengram.ui.sign_ins import (
    LOOPBACK,
    SECRET_BYTES,
    SIGN_IN_PATH,
    Shut,
    SignIns,
    host_name,
    made_ticket,
    proof,
    remembered_secret,
)
from pgengram.ui.view_data.jobs import Absent
from pgengram.ui.view_data.view_service import ViewService

MAX_NONCE: Final = 64  # characters


class Pages(MemoryPages, NewsPages, OverviewPages, ReviewPages, SettingsPages, ConversationPages):
    """The pages by their addresses."""

    def _routes(self) -> list[tuple[str, Page, str]]:
        get, post = "GET", "POST"
        return [
            (SIGN_IN_PATH, self.enter, get), (IDENTITY_PATH, self.identity, get),
            ("/sign-ins", self.show_sign_ins, get), ("/sign-ins/end", self.sign_out, post),
            ("/namespaces", self.show_namespaces, get),
            ("/namespaces", self.switch, post), ("/", self.search, get), ("/live", self.live, get),
            ("/count", self.count, get), ("/facets", self.facets, get), ("/turns", self.turns, get),
            ("/new", self.new, get), ("/new", self.add, post), ("/memory/{id:uuid}", self.memory, get),
            ("/memory/{id:uuid}", self.edit, post), ("/memory/{id:uuid}/forget", self.forget, post),
            ("/memory/{id:uuid}/restore", self.restore, post), ("/memory/{id:uuid}/pin", self.pin, post),
            ("/memory/{id:uuid}/link", self.link, post), ("/memory/{id:uuid}/candidates", self.candidates, get),
            ("/timeline", self.timeline, get), ("/news", self.news, get), ("/news/seen", self.seen, post),
            ("/news/undo", self.take_back, post),
            ("/projects", self.counts, get), ("/health", self.counts, get), ("/trash", self.trash, get),
            ("/about", self.about, get), ("/projects/rename-tag", self.rename_tag, post), ("/graph", self.graph, get),
            ("/clusters", self.clusters, get), ("/cluster/{id:uuid}", self.cluster, get), ("/map", self.map, get),
            ("/map/points", self.map_points, get),
            ("/map/memory", self.map_memory, get), ("/map/hits", self.map_hits, get),
            ("/map/list", self.map_list, post),
            ("/review", self.review, get), ("/review/preview", self.preview, post),
            ("/preview/{key}", self.show_preview, get),
            ("/review/answer", self.answer, post), ("/compare/{one:uuid}/{other:uuid}", self.compare, get),
            ("/apply", self.apply, post), ("/undo", self.undo, post),
            ("/selection", self.select, post),
            ("/import", self.import_, get), ("/import", self.give, post), ("/import/bring", self.bring, post),
            ("/import/map", self.map_columns, post), ("/import/end", self.break_off, post),
            ("/import/other", self.another, post),
            ("/import/undo", self.show_undo, get), ("/import/undo", self.undo_import, post),
            ("/export", self.export, get), ("/export", self.start_export, post),
            ("/export/pgengram.jsonl", self.download, get),
            ("/tokens", self.tokens, get), ("/tokens", self.make_token, post),
            ("/tokens/revoke", self.revoke_token, post),
            ("/connections", self.connections, get), ("/connections/end", self.end_connection, post),
            ("/passkeys/remove", self.end_passkey, post),
            ("/settings", self.settings, get), ("/settings/conversations", self.keep_conversations, post),
            ("/settings/backup", self.back_up, post), ("/more", self.more, get), ("/help", self.help, get),
            ("/help/{name}", self.guide, get), ("/conversations", self.conversations, get),
            ("/conversation", self.conversation, get), ("/conversations/erase", self.show_erasure, get),
            ("/conversations/erase", self.erase_conversations, post), ("/receipts", self.receipts, get),
        ]  # fmt: skip

    async def enter(self, request: Request) -> Response:
        """Give the browser that opened the link its cookie; a page of ours leads on, as a strict cookie needs that."""
        answer = self._page("enter.html", refresh="0;url=/", inside=False)
        before = self.session_guard.known(request.headers)
        try:
            self.session_guard.admit(request.query_params.get("token", ""), request.headers, answer)
        except Shut:
            if before is None:
                raise
        else:
            self.sign_ins.end("" if before is None else before.id)
            if name := request.query_params.get("namespace"):
                self.session_guard.show_namespace(name, answer)
        return answer

    async def identity(self, request: Request) -> Response:
        """Show to another process of the owner whose page this is."""
        return JSONResponse(self.sign_ins.identity(self.port, request.query_params.get("nonce", "")[:MAX_NONCE]))

    async def more(self, _: Request) -> Response:
        """Lead to the pages that a phone's bar has no room for."""
        return self._page("more.html", here="/more")

    async def help(self, _: Request) -> Response:
        """Show the keys, and the guides that are installed."""
        return self._page("help.html", here="/help")

    async def guide(self, request: Request) -> Response:
        """Show a guide."""
        name = request.path_params["name"]
        if name not in markup.TITLES:
            raise Absent("There is no guide of that name.", "The page Help lists them.")
        return self._page("guide.html", here="/help", guide=name, text=markup.text(name))

    async def show_namespaces(self, _: Request) -> Response:
        """Show which namespaces there are."""
        names = [self.namespace] if self.namespaces is None else await self.namespaces()
        return self._page("namespaces.html", here="/namespaces", names=names)

    async def switch(self, request: Request) -> Response:
        """Show another namespace in this browser from now on."""
        fields = await self.session_guard.form(request)
        name = fields.get("name", "")
        if self.namespaces is None or name not in await self.namespaces():
            raise NotFound("namespace", name[:128], "The list shows them.")
        answer = RedirectResponse("/", 303)
        self.session_guard.show_namespace(name, answer)
        return answer


PATIENCE_S: Final = 2.0
MAX_ANSWER: Final = 4_096  # bytes


async def new_link(settings: Settings, secret: bytes, port: int) -> str:
    """Return a link that signs a browser in to the page of this store at a port; empty if something else is there.

    Only a server that can read the secret in the data folder, is of the same database and has this very port can prove
    to be that page.
    """
    nonce = secrets.token_hex(16)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        async with asyncio.timeout(PATIENCE_S):
            answer = json.loads(await _fetched(port, f"{IDENTITY_PATH}?nonce={nonce}"))
        run, shown = str(answer["run"]), str(answer["proof"])
        if hmac.compare_digest(shown.encode(), proof(secret, port, settings.database_url, run, nonce).encode()):
            query = urlencode({"token": made_ticket(secret, run), "namespace": settings.namespace})
            return f"http://{host_name(secret)}:{port}{SIGN_IN_PATH}?{query}"
    return ""


async def _fetched(port: int, path: str) -> bytes:
    """Return the body that a server of this machine answers, of a few kilobytes at most; it may be anybody's."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        answer = b""
        while len(answer) < MAX_ANSWER and (piece := await reader.read(MAX_ANSWER)):
            answer += piece
        return answer.partition(b"\r\n\r\n")[2]
    finally:
        writer.close()


class NamespacePages:
    """An ASGI application: the pages of the settings' namespace, and of those that somebody switches to.

    Args:
        settings: whose memories are shown first, and where the others are.
        manager: of that namespace; its database and embedder serve the others, too.
        folder: of this run.
        port: where the server listens.
        sign_ins: the browsers that are let in.
    """

    def __init__(self, settings: Settings, manager: MemoryManager, folder: Path, port: int, sign_ins: SignIns) -> None:
        self._settings, self._manager, self._folder, self._port = settings, manager, folder, port
        self._sign_ins = sign_ins
        self._managers, self._spaces = managers_of(manager), own_spaces(manager)
        self._pages: dict[str, Pages] = {}
        self.first: Final = self._of(settings.namespace, manager)

    @property
    def session_guard(self) -> SessionGuard:
        """What lets a browser in."""
        return self.first.session_guard

    def _of(self, name: str, manager: MemoryManager) -> Pages:
        folder = self._folder / str(len(self._pages))
        folder.mkdir()
        pages = Pages(ViewService(manager, folder), name, self._port, self._sign_ins, self._namespaces)
        self._pages[name] = pages
        return pages

    async def _namespaces(self) -> list[str]:
        """Return the namespaces of this store, of the shared spaces only those that the person is in."""
        async with self._manager.store.as_login() as connection:
            names = await ui_queries.namespaces(connection)
        personal = [name for name in names if not name.startswith(SPACE)]
        return personal + [SPACE + space.name for space in await self._spaces.listed()]

    async def _manager_of(self, name: str) -> MemoryManager:
        """Return a manager of another namespace."""
        if name.startswith(SPACE):
            space, person = await self._spaces.named(name.removeprefix(SPACE)), await self._spaces.person()
            return self._managers.made((space.id, Member(person.id)))
        manager = MemoryManager(replace(self._settings, namespace=name), self._manager)
        manager.accompany(ExchangeScheduler(manager))
        await manager.open()
        return manager

    async def _may_show(self, name: str) -> bool:
        """Whether the pages of a namespace may still be shown; of a space its people are shown by their names then."""
        if not name.startswith(SPACE):
            return True
        try:
            space = await self._spaces.named(name.removeprefix(SPACE))
        except NoSuchSpace:
            return False
        AUTHORS.set(space.authors)
        return True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the pages of the namespace that the browser has chosen, once it has come in; a page that is open
        goes on with its own.
        """
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        name = self._settings.namespace
        if self.session_guard.known(headers):
            name = chosen_namespace(headers, self.session_guard.namespace_cookie) or name
        pages = self._pages.get(name)
        if pages is None and name in await self._namespaces():
            manager = await self._manager_of(name)
            pages = self._pages.get(name) or self._of(name, manager)
        if pages is not None and not await self._may_show(name):
            pages = None
        if pages is None and TAB in headers:
            await PlainTextResponse("This namespace is gone. Load the page again.", 404)(scope, receive, send)
            return
        await (pages or self.first).session_guard(scope, receive, send)

    async def close(self) -> None:
        """End what is under way in every namespace, and let go of the managers but the first."""
        for pages in self._pages.values():
            await pages.views.close()
            if pages is not self.first:
                await pages.views.manager.close()


STOP_S: Final = 3
NO_IPV6: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
TAKEN: Final = (errno.EADDRINUSE, getattr(errno, "WSAEACCES", errno.EADDRINUSE))  # the second where it is exclusive


log = logging.getLogger(__name__)


def local_sockets(port: int) -> list[socket.socket]:
    """Return sockets of this machine alone at a port, 0 for any free one: of both its addresses, since a browser that
    is given a name tries both.

    Raises:
        OSError: another program has the port.
    """
    made = [bound_socket(socket.AF_INET, (LOOPBACK, port))]
    try:
        made.append(bound_socket(socket.AF_INET6, ("::1", made[0].getsockname()[1])))
    except OSError as error:
        if error.errno not in NO_IPV6:
            made[0].close()
            if port == 0:  # somebody has this number at the other address
                return local_sockets(0)
            raise
    return made


async def serve_ui(settings: Settings, port: int, announce: Callable[[str, bool], None]) -> None:
    """Serve the page of the settings' namespace until a signal comes; where the store's page is served already, have
    that one announced with a new link.

    Args:
        settings: which database and whose memories.
        port: where to listen; 0 for any free one.
        announce: called with the link that opens the page once, and whether the server ran before.

    Raises:
        InvalidInput: another program has the port.
        NotReady: the database does not come up.
    """
    secret = _secret(settings)
    try:
        listeners = local_sockets(port)
    except OSError as error:
        link = await new_link(settings, secret, port)
        if link:
            announce(link, True)
            return
        raise _refusal(port, error) from None
    manager = MemoryManager(settings)
    manager.accompany(ExchangeScheduler(manager))
    try:
        await manager.open()
        with TemporaryDirectory(prefix="pgengram-ui-") as folder:
            number = listeners[0].getsockname()[1]
            sign_ins = SignIns(secret, settings.database_url)
            pages = NamespacePages(settings, manager, Path(folder), number, sign_ins)
            config = uvicorn.Config(
                pages,
                interface="asgi3",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=STOP_S,
            )
            link = f"http://{host_name(secret)}:{number}{SIGN_IN_PATH}?token={sign_ins.ticket()}"
            try:
                await WebServer(config, lambda: announce(link, False), STOP_S).serve(sockets=listeners)
            finally:
                await pages.close()
    finally:
        for listener in listeners:
            listener.close()
        await manager.close()


def _refusal(port: int, error: OSError) -> InvalidInput:
    what = "is used by another program" if error.errno in TAKEN else f"cannot be used ({error.strerror})"
    return InvalidInput(
        f"Port {port} {what}, so the page isn't served: stop that program, or choose another port with --port.", ""
    )


def _secret(settings: Settings) -> bytes:
    """Return the secret of the data folder; one for this run alone where that cannot be written."""
    try:
        return remembered_secret(settings.data_path)
    except OSError as error:
        log.warning("A second `pgengram ui` can't make a link to this one: %s", error)
        return secrets.token_bytes(SECRET_BYTES)
