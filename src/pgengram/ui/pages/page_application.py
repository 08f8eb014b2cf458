"""How pages are drawn from templates, and what is shown when one fails."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from pgengram import __version__
from pgengram import fields as f
from pgengram.errors import PgengramError
from pgengram.service.toolsets.graph import TOLD
from pgengram.service.toolsets.maintenance import NONE_GIVEN
from pgengram.text import differences
from pgengram.text.shown import NEAREST, ago, day_in_words, exact
from pgengram.transfer.importers import SYSTEMS
from pgengram.transfer.importers.rows import FIELDS
from pgengram.ui.pages import markup
from pgengram.ui.session_guard import PublicGuard, SessionGuard
from pgengram.ui.sign_ins import Shut, SignIns
from pgengram.ui.view_data.changes import Done
from pgengram.ui.view_data.jobs import Absent, Job
from pgengram.ui.view_data.query_values import turn_place
from pgengram.ui.view_data.view_service import ViewService

HERE: Final = Path(__file__).parent.parent
STATUS: Final = {
    "INVALID_INPUT": 422, "SECRET_REJECTED": 422, "LIMIT_EXCEEDED": 413, "NOT_FOUND": 404, "CONFLICT": 409,
    "CONFIRM_REQUIRED": 409, "FORBIDDEN": 403,
}  # fmt: skip
UNREADY: Final = 503
# Of the rail: a name, an icon, and the pages that share the section, the first of which it opens. A phone has room for
# the first three; the last page leads to the others.
SECTIONS: Final = (
    ("Search", "search", {"/": "Search"}),
    ("Timeline", "clock", {"/timeline": "Timeline", "/news": "What happened", "/conversations": "Conversations"}),
    ("Review", "check", {"/review": "Review"}),
    ("Projects", "folder", {"/projects": "Projects and tags", "/clusters": "Clusters"}),
    ("Map", "map", {"/map": "Map", "/graph": "Graph"}),
    ("Trash", "trash", {"/trash": "Trash"}),
    (
        "Settings",
        "gear",
        {
            "/settings": "Settings", "/import": "Import", "/export": "Export", "/health": "Health",
            "/sign-ins": "Sign-ins", "/tokens": "Tokens", "/connections": "Connections",
            "/receipts": "Receipts",
        },
    ),
)  # fmt: skip
# What is done on the owner's machine only: what takes everything away or brings much in, and what decides who is let
# in. (/health is the server's own over HTTP.)
HERE_ONLY: Final = (
    "/enter", "/identity", "/sign-ins", "/namespaces", "/import", "/export", "/tokens", "/settings", "/health",
    "/conversations/erase",
)  # fmt: skip
KEYS: Final = (  # what they do, on the page that explains them; the address of those that lead somewhere
    ("/", "Search", "/"), ("n", "Add a memory", "/new"), ("Ctrl K", "Go to a page or search, from anywhere", ""),
    ("j k", "Move down and up a list", ""), ("Enter", "Open the marked memory", ""), ("x", "Select the marked memory", ""),
    ("a", "Go to what can be done with the selected memories", ""), ("e", "Edit the memory that is open", ""),
    ("u", "Undo the change that was just confirmed", ""), ("m", "Go to the menu", ""), ("1 to 5", "Answer a question of the review", ""),
    ("arrows + - 0", "Move and zoom the map, the graph and the chart", ""), ("?", "Show this page", "/help"),
)  # fmt: skip
SORTS: Final = {
    "": "best first", "created": "newest stored", "updated": "last changed", "occurred": "when it happened",
    "importance": "importance", "relevance": "relevance now", "accessed": "last read",
}  # fmt: skip
SORTED_BY: Final = {"created_at": "stored", "updated_at": "changed", "last_accessed_at": "read"}  # fields of lists
TIMES: Final = frozenset({  # fields whose changes are shown to the minute
    "occurred_at", "expires_at", "last_confirmed_at", "valid_from", "valid_to", "created_at", "updated_at",
})  # fmt: skip
IN_PLAIN_WORDS: Final = {
    "episodic": "events",
    "semantic": "facts",
    "procedural": "how-to",
    "strategic": "decisions and lessons",
}
TYPE_NAMES: Final = {one: IN_PLAIN_WORDS.get(one, one) for one in f.TYPES}
PERIODS: Final = {
    "": "any time",
    "day": "past 24 hours",
    "week": "past week",
    "month": "past month",
    "year": "past year",
}
MODES: Final = {"": "meaning and words", "semantic": "meaning", "text": "words", "substring": "exact characters"}
PARTS: Final = {
    "similarity": "meaning", "words": "words", "heard": "just said", "near_by": "near by",
    "voice": "speaker", "period": "time", "relevance": "relevance",
}  # fmt: skip
LISTS: Final = {"hits": "_found.html", "more": "_hits.html"}  # what is sent for a part of the page with hits
Page = Callable[[Request], Awaitable[Response]]
Made = TypeVar("Made")


@dataclass(slots=True)
class PageApplication(ABC):
    """The pages of one run: how they are drawn, and what takes the place of one that cannot be.

    views: what they show; namespace: whose memories; sign_ins: the browsers that are let in; namespaces:
    returns the names of all; said: what the last change did, shown on the next page; origin: where browsers that
    signed in over HTTP find these pages, empty for those of this machine alone.
    """

    views: ViewService
    namespace: str
    port: int
    sign_ins: SignIns = field(default_factory=SignIns)
    namespaces: Callable[[], Awaitable[list[str]]] | None = None
    said: list[Done] = field(default_factory=list)
    origin: str = ""
    session_guard: SessionGuard = field(init=False)
    _templates: Environment = field(init=False)

    def __post_init__(self) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals |= {
            "sections": self._sections(), "places": self._places(), "has_page": self._has_page,
            "may_erase": not self.origin, "KEYS": KEYS, "guides": markup.TITLES,
            "turn_address": _turn_address, "namespace": self.namespace, "version": __version__, "TYPES": TYPE_NAMES,
            "KINDS": f.KINDS, "SORTS": SORTS, "SORTED_BY": SORTED_BY, "MODES": MODES, "parts": _score_parts,
            "changed": differences.word_changes, "query": urlencode,
            "SYSTEMS": SYSTEMS, "COLUMN_FIELDS": FIELDS, "NONE_GIVEN": NONE_GIVEN, "NEAREST": NEAREST,
            "PERIODS": PERIODS, "TIMES": TIMES,
            "LINK_TYPES": TOLD.split(", "), "excerpt": markup.excerpt, "highlighted": markup.highlighted,
        }  # fmt: skip
        self._templates.filters |= {
            "when": _when,
            "ago": _time_ago,
            "in_words": day_in_words,
            "duration": _duration_text,
            "markdown": markup.markdown,
            "on_page": markup.on_page,
        }
        inner, rest = self._application(), (self._error, self.sign_ins, self.namespace)
        self.session_guard = (
            PublicGuard(inner, self.origin, *rest) if self.origin else SessionGuard(inner, self.port, *rest)
        )

    def _has_page(self, path: str) -> bool:
        """Whether there is a page at an address, for those who see these pages."""
        return not self.origin or not any(path == one or path.startswith(f"{one}/") for one in HERE_ONLY)

    def _sections(self) -> list[tuple[str, str, dict[str, str]]]:
        shown = [
            (name, icon, {path: title for path, title in pages.items() if self._has_page(path)})
            for name, icon, pages in SECTIONS
        ]
        return [section for section in shown if section[2]]

    def _places(self) -> list[tuple[str, str, str]]:
        """Return what Ctrl+K leads to: every page of the rail, with its key if it has one."""
        pages = [one for *_, pages in SECTIONS for one in pages.items()]
        found = [
            ("Add a memory", "/new", "n"),
            *((name, path, "/" if path == "/" else "") for path, name in pages),
            ("Namespaces", "/namespaces", ""),
            ("Help and keys", "/help", "?"),
        ]
        return [one for one in found if self._has_page(one[1])]

    @abstractmethod
    def _routes(self) -> list[tuple[str, Page, str]]:
        """Return the address, the handler and the method of every page."""

    def _application(self) -> ASGIApp:
        return Starlette(
            routes=[
                *(
                    Route(path, self._reporting(page), methods=[method])
                    for path, page, method in self._routes()
                    if self._has_page(path)
                ),
                Mount("/static", StaticFiles(directory=HERE / "static")),
            ],
            exception_handlers={HTTPException: self._lost, Exception: self._broken},
        )

    # -- showing ---------------------------------------------------------------------------------------------------

    def _page(self, name: str, code: int = 200, /, **shown: Any) -> HTMLResponse:
        said: list[Done] = []
        if name not in ("waiting.html", "candidates.html", "map_list.html") and not name.startswith(
            "_"
        ):  # shown where it stays to be read
            said, self.said[:] = list(self.said), []
        shown = {"mark": self.session_guard.mark, "said": said, "here": "", "refresh": "", **shown}
        return HTMLResponse(self._templates.get_template(name).render(shown), code)

    def _error(self, error: PgengramError) -> Response:
        status = STATUS.get(error.code, UNREADY)
        if isinstance(error, Shut) and not self.origin:
            return self._page("come_in.html", status, error=error, inside=False)
        return self._page("error.html", status, error=error, inside=True)

    async def _lost(self, _: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        report = self._page(
            "error.html",
            status,
            error=Absent("There is no page at that address.", "Choose one from the menu."),
            inside=True,
        )
        if isinstance(error, HTTPException) and error.headers:
            report.headers.update(error.headers)
        return report

    async def _broken(self, _: Request, __: Exception) -> Response:
        server = "pgengram serve" if self.origin else "pgengram ui"
        error = PgengramError("An internal error occurred.", f"The terminal of `{server}` has the details.")
        return self._page("error.html", 500, error=error, inside=True)

    def _reporting(self, page: Page) -> Page:
        """Return `page` as one that shows our errors instead of failing; a part of a page gets a part."""

        async def report(request: Request) -> Response:
            try:
                return await page(request)
            except ClientDisconnect:
                return Response(status_code=204)  # nobody reads it
            except PgengramError as error:
                target = request.headers.get("hx-target")
                if target not in LISTS:
                    return self._error(error)
                status = STATUS.get(error.code, UNREADY)
                return self._page("_refused.html", status, error=error, target=target, looking=False, part=True)

        return report

    def _then(self, address: str, done: Done | str) -> Response:
        self.said.append(done if isinstance(done, Done) else Done(done))
        return RedirectResponse(address, 303)

    def _waiting(self, request: Request, here: str, what: str) -> Response:
        address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return self._page("waiting.html", here=here, what=what, address=address)

    def _progress(self, request: Request, name: str, here: str, *, job: Job, **shown: Any) -> Response:
        """Show a page with work under way; the bar alone is asked for again and again, and then the whole page."""
        answer = self._page(name, here=here, job=job, **shown)
        if request.headers.get("hx-target") == "work" and not job.running:
            answer.headers["hx-refresh"] = "true"
        return answer


async def while_awaited(request: Request, work: Coroutine[Any, Any, Made]) -> Made:
    """Return what work comes to; it is cancelled if the browser closes the connection, as it does when more is typed.

    Raises:
        ClientDisconnect: it was.
    """
    making, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({making, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if making.done():
            return making.result()
        raise ClientDisconnect
    finally:
        for task in (making, leaving):
            task.cancel()
        await asyncio.wait({making, leaving})


async def _disconnected(request: Request) -> None:
    """Return when the browser closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _score_parts(hit: Mapping[str, Any]) -> Markup:
    """Return the parts of a hit's score, as rows with bars."""
    return markup.score_parts(
        hit["score"], {name: (label, hit["why"][name]) for name, label in PARTS.items() if hit["why"].get(name)}
    )


def _given_moment(given: str | datetime | float) -> datetime:
    """Return a moment that is given as text, or in seconds since 1970."""
    if isinstance(given, str):
        at = datetime.fromisoformat(given)
        return at if at.tzinfo else at.replace(tzinfo=UTC)  # a day without a time
    return given if isinstance(given, datetime) else datetime.fromtimestamp(given, UTC)


def _when(given: str | datetime | float) -> Markup:
    """Return a moment in words, with the exact one for whoever points at it."""
    at = _given_moment(given)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(f.as_utc(at), exact(at), ago(at))


def _turn_address(cite: str) -> str:
    """Return where a turn that a memory cites is shown; empty if it cites something else."""
    place = turn_place(cite) if cite.startswith(("turn:", "tool:")) else {}
    if not place.get("conversation"):
        return ""
    asked = {"client": place["client"], "conversation": place["conversation"], "turn": place["number"]}
    return f"/conversation?{urlencode(asked)}#turn-{place['number']}"


def _time_ago(given: str | datetime | float) -> str:
    return ago(_given_moment(given))


def _duration_text(seconds: int) -> str:
    return f"{seconds} s" if seconds < 100 else f"{round(seconds / 60)} min"
