"""The pages for browsers that signed in over HTTP, such as the owner's phone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.types import Receive, Scope, Send

from pgengram.service.core import Core
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.clients.connections import Connections
from pgengram.store.clients.tokens import SIGN_IN_KEY, PageSignIn
from pgengram.sync.schedule import ExchangeScheduler
from pgengram.ui.serving import Pages
from pgengram.ui.sign_ins import SignIns
from pgengram.ui.view_data.view_service import ViewService


class PublicPages:
    """An ASGI application: the pages of each namespace that a browser signed in to; its sign-in is in the scope.

    Args:
        settings: which database and embedder.
        host: whose database and embedder are used.
        origin: of the pages, such as https://memory.example.org.
    """

    def __init__(self, settings: Settings, host: Core, origin: str) -> None:
        self._settings, self._host, self._origin = settings, host, origin
        self._pages: dict[str, Pages] = {}
        self._opening = asyncio.Lock()
        self._folder = TemporaryDirectory(prefix="pgengram-page-")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the pages of the sign-in's namespace."""
        sign_in: PageSignIn = scope[SIGN_IN_KEY]
        pages = self._pages.get(sign_in.namespace) or await self._opened(sign_in.namespace)
        await pages.session_guard(scope, receive, send)

    async def _opened(self, namespace: str) -> Pages:
        async with self._opening:
            if namespace not in self._pages:
                manager = MemoryManager(replace(self._settings, namespace=namespace), self._host)
                manager.accompany(ExchangeScheduler(manager))
                await manager.open()
                folder = Path(self._folder.name) / str(len(self._pages))
                folder.mkdir()
                # The key is in the database, so that a form that one replica showed is good at another.
                sign_ins = SignIns(await Connections(manager.store).key("page"))
                views = ViewService(manager, folder)
                self._pages[namespace] = Pages(views, namespace, 0, sign_ins, origin=self._origin)
            return self._pages[namespace]

    async def close(self) -> None:
        """End what is under way in every namespace."""
        for pages in self._pages.values():
            await pages.views.close()
            await pages.views.manager.close()
        self._folder.cleanup()
