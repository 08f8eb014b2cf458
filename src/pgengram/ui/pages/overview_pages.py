"""The pages that show memories from afar: timeline, counts, graph, clusters and map."""

from __future__ import annotations

import logging
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pgengram import fields as f
from pgengram.errors import InvalidInput, NotFound, PgengramError
from pgengram.ui.pages.page_application import PageApplication
from pgengram.ui.session_guard import cookie_of
from pgengram.ui.sign_ins import SIGN_IN_S
from pgengram.ui.view_data import drawing, query_values
from pgengram.ui.view_data.map_view import MAX_POINTS, as_places
from pgengram.ui.view_data.query_values import (
    date_of,
    days_beside,
    memory_id,
    number_given,
    whole_number,
)

log = logging.getLogger(__name__)
DEPTHS: Final = range(1, 5)
BRIEF: Final = 160  # characters


class OverviewPages(PageApplication):
    """Memories by days, counts, links, clusters and places."""

    async def timeline(self, request: Request) -> Response:
        """Show how many memories each day has, and those of one day."""
        days = await self.views.days()
        if days is None:
            return self._waiting(request, "/timeline", "Counting days")
        day = date_of(request.query_params.get("day")) or next(iter(days), None)
        found, more = None, None
        if day is not None:
            asked = {"since": str(day), "until": str(day), "cursor": request.query_params.get("cursor", "")}
            found = await self.views.search(asked, sort="occurred")
            more = found.next_cursor and f"/timeline?{urlencode({'day': day, 'cursor': found.next_cursor})}"
        previous_day, next_day = days_beside(day, days)
        beside: dict[str, Any] = {"previous_day": previous_day, "next_day": next_day, "chart": drawing.by_day(days)}
        return self._page("timeline.html", here="/timeline", days=days, day=day, found=found, more=more, **beside)

    async def counts(self, request: Request) -> Response:
        """Show which tags, kinds and types there are, or how index, embedder, database and memories are."""
        here = request.url.path
        counted = await self.views.statistics()
        if counted is None:
            return self._waiting(request, here, "Counting")
        shown: dict[str, Any] = {"backups": self.views.backups.state(), "degraded": self.views.manager.degraded}
        return self._page(f"{here[1:]}.html", here=here, counted=counted.model_dump(), **shown)

    async def about(self, request: Request) -> Response:
        """Show what is known of a project, a topic or a name, in an order that reads as a text."""
        given = request.query_params
        what = next((one for one in query_values.SUBJECTS if given.get(one, "").strip()), None)
        if what is None:
            raise InvalidInput("Say what the page is about: a project, a tag or a name.")
        name = given[what].strip()
        memories, more = await self.views.about(what, name)
        days = sorted(map(query_values.stated_at, memories))
        shown: dict[str, Any] = {"name": name, "memories": memories, "more": more}
        shown |= {"first": days[0] if days else "", "last": days[-1] if days else ""}
        shown |= {"account": query_values.sections(memories), "changed": query_values.changed_lately(memories)}
        shown |= {"namesakes": await self.views.namesakes(name) if what == "name" else []}
        shown |= await self._open_questions({one["id"] for one in memories})
        asked = {"q": name, "mode": "substring"} if what == "name" else {what: name}
        return self._page("about.html", here="/projects", asked=asked, **shown)

    async def _open_questions(self, ids: set[str]) -> dict[str, Any]:
        """Return what a review asks about memories, or why it can't be told: the rest of the page needs none."""
        try:
            return {"open": await self.views.questions_about(ids), "unknown": ""}
        except Exception as error:  # whatever it is, it is logged and said
            log.exception("What a review found could not be looked up")
            why = error.message if isinstance(error, PgengramError) else "An internal error occurred."
            return {"open": [], "unknown": why}

    async def rename_tag(self, request: Request) -> Response:
        """Give every memory with a tag another one instead."""
        fields = await self.session_guard.form(request)
        tag, name = fields.get("tag", "").strip(), fields.get("name", "").strip()
        if not (await self.views.search({"tags": tag}, sort="created")).results:
            raise InvalidInput(f"No memory has the tag {tag[: f.MAX_TAG]}.", "Choose one from the list.")
        return self._then("/projects", await self.views.changes.rename_tag(tag, name))

    async def graph(self, request: Request) -> Response:
        """Show links around a memory, or the strongest of all."""
        asked = request.query_params
        depth, strength = number_given(asked.get("depth"), 2), number_given(asked.get("strength"), 0.3)
        if depth not in DEPTHS or not 0 <= strength <= 1:
            raise InvalidInput("depth must be 1 to 4, strength 0 to 1.")
        id_ = memory_id(asked["id"]) if asked.get("id") else None
        network = await self.views.network.drawn(id_, int(depth), strength)
        if network is None:
            return self._waiting(request, "/graph", "Drawing")
        return self._page(
            "graph.html", here="/graph", network=network, depth=int(depth), strength=strength, depths=DEPTHS
        )

    async def clusters(self, _: Request) -> Response:
        """Show the clusters."""
        found = await self.views.clusters.get_memory_clusters(limit=f.MAX_LIMIT, members=0)
        return self._page("clusters.html", here="/clusters", found=found)

    async def cluster(self, request: Request) -> Response:
        """Show one cluster with its members."""
        cluster, members = await self.views.cluster(request.path_params["id"])
        return self._page("cluster.html", here="/clusters", cluster=cluster, members=members)

    async def map(self, request: Request) -> Response:
        """Show where memories lie."""
        made = await self.views.map.newest()
        if made is None:
            return self._waiting(request, "/map", "Drawing the map")
        return self._page("map.html", here="/map", map=made, degraded=self.views.manager.degraded, most=MAX_POINTS)

    async def map_points(self, request: Request) -> Response:
        """Send the points of a map."""
        drawn = self.views.map.kept(request.query_params.get("key", ""))
        return Response(drawn.points, media_type="application/octet-stream")

    async def map_memory(self, request: Request) -> Response:
        """Tell which memory lies at a place of a map, and how it begins."""
        given = request.query_params
        ids = self.views.map.at(given.get("key", ""), as_places(given.get("at", "")))
        rows = await self.views.changes.rows(ids)
        if not rows:
            raise NotFound("memory", ids[0] if ids else "", "Load the map again.")
        [(id_, row), *_] = rows.items()
        return JSONResponse({"id": id_, "text": row["content"][:BRIEF]})

    async def map_hits(self, request: Request) -> Response:
        """Tell which places of a map a search lights up."""
        given = request.query_params
        return JSONResponse(await self.views.map_hits(given.get("key", ""), given.get("q", "")))

    async def map_list(self, request: Request) -> Response:
        """Show the memories of an area of the map."""
        fields = await self.session_guard.form(request)
        ids = self.views.map.at(fields.get("key", ""), as_places(fields.get("at", "")))
        rows = await self.views.changes.rows(ids)
        return self._page("map_list.html", rows=[rows[str(id_)] for id_ in ids if str(id_) in rows])


AWAY_S: Final = 1_800  # without a page, after which somebody was away
FIRST_S: Final = 86_400  # that the first visit looks back
GROUPS: Final = {"create": "stored", "forget": "forgotten", "archive": "forgotten"}  # anything else changed a memory


class NewsPages(PageApplication):
    """What happened since the last visit."""

    @property
    def _visits(self) -> str:
        return f"pgengram_visits_{self.port}"

    def _last_visit(self, request: Request) -> tuple[float, float]:
        """Return when the last visit ended, in seconds since 1970, and this moment, which belongs to the present one; 0
        while the first visit lasts.
        """
        now = time.time()
        ended, _, active = cookie_of(request.headers, self._visits).partition("-")
        if not (ended.isdecimal() and active.isdecimal()):
            return 0, now
        return float(active if now - int(active) > AWAY_S else ended), now

    def _note_visit(self, answer: Response, ended: float, active: float) -> Response:
        value = f"{int(ended)}-{int(active)}"
        answer.set_cookie(self._visits, value, max_age=12 * SIGN_IN_S, httponly=True, samesite="strict", path="/")
        return answer

    async def news(self, request: Request) -> Response:
        """Show what happened since the last visit; a line of it alone for the first page."""
        ended, now = self._last_visit(request)
        since = ended or now - FIRST_S
        rows = await self.views.news(datetime.fromtimestamp(since, UTC))
        part = request.headers.get("hx-target") == "news"
        if rows is None:
            return Response(status_code=204) if part else self._waiting(request, "/news", "Looking at what happened")
        actors = Counter(row["actor"] or "" for row in rows)
        chosen = request.query_params.get("by")
        shown = [row for row in rows if chosen is None or (row["actor"] or "") == chosen]
        counts = Counter(GROUPS.get(row["operation"], "changed") for row in shown)
        given: dict[str, Any] = {"since": since, "counts": counts, "in_all": rows[0]["in_all"] if rows else 0}
        given["first"] = not ended
        if part:
            return self._note_visit(self._page("_news.html", **given), ended, now)
        memories = await self.views.changes.rows(list({row["id"]: None for row in shown}))
        given |= {"rows": shown, "memories": memories, "actors": actors, "chosen": chosen}
        return self._note_visit(self._page("news.html", here="/news", **given), ended, now)

    async def seen(self, request: Request) -> Response:
        """Begin to count again from now on."""
        await self.session_guard.form(request)
        return self._note_visit(self._then("/", "You have seen everything until now"), time.time(), time.time())

    async def take_back(self, request: Request) -> Response:
        """Undo one thing that somebody else did."""
        fields = await self.session_guard.form(request)
        id_, version = memory_id(fields.get("id", "")), whole_number(fields.get("version"), 1)
        return self._then("/news", await self.views.changes.take_back(id_, version))
