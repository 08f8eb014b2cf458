"""The pages of every namespace that is looked at in one run; a cookie says which one a browser shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from pgengram.errors import NoSuchSpace
from pgengram.runtime.context import AUTHORS
from pgengram.service.manager import MemoryManager
from pgengram.service.spaces.access import SpaceManagers, Spaces
from pgengram.settings import Settings
from pgengram.store.connection.begin import Member
from pgengram.store.connection.database import SPACE
from pgengram.store.reading import ui_queries
from pgengram.store.spaces import membership
from pgengram.sync.schedule import ExchangeScheduler
from pgengram.ui.pages.routes import Pages
from pgengram.ui.session_guard import TAB, SessionGuard, chosen_namespace
from pgengram.ui.sign_ins import SignIns
from pgengram.ui.view_data.view_service import ViewService


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
        self._managers = SpaceManagers(manager)
        self._spaces = Spaces(self._managers, None)
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
        people = await membership.members(self._manager.store, space.id)
        AUTHORS.set({one.id: one.shown for one in people})
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
