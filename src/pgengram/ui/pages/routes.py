"""The pages by their addresses, and how a browser comes in."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from pgengram.errors import NotFound
from pgengram.ui.pages import markup
from pgengram.ui.pages.memory_pages import ConversationPages, MemoryPages
from pgengram.ui.pages.overview_pages import NewsPages, OverviewPages
from pgengram.ui.pages.page_application import Page
from pgengram.ui.pages.review_pages import ReviewPages
from pgengram.ui.pages.settings_pages import SettingsPages
from pgengram.ui.session_guard import IDENTITY_PATH
from pgengram.ui.sign_ins import SIGN_IN_PATH, Shut
from pgengram.ui.view_data.jobs import Absent

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
            ("/export", self.export, get), ("/export", self.start_export, post),
            ("/export/pgengram.jsonl", self.download, get),
            ("/tokens", self.tokens, get), ("/tokens", self.make_token, post),
            ("/tokens/revoke", self.revoke_token, post),
            ("/connections", self.connections, get), ("/connections/end", self.end_connection, post),
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
