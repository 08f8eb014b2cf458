"""What others stored, changed and forgot since the last visit, to be read in a minute and undone one by one."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from pgengram.ui.pages.page_application import PageApplication
from pgengram.ui.session_guard import cookie_of
from pgengram.ui.sign_ins import SIGN_IN_S
from pgengram.ui.view_data.query_values import memory_id, whole_number

AWAY_S: Final = 1_800  # without a page, after which somebody was away
FIRST_S: Final = 86_400  # that the first visit looks back
GROUPS: Final = {"create": "stored", "forget": "forgotten", "archive": "forgotten"}  # anything else changed a memory


class NewsPages(PageApplication):
    """What happened since the last visit."""

    @property
    def _visits(self) -> str:
        return f"pgengram_visits_{self.port}"

    def _last_visit(self, request: Request) -> tuple[float, float]:
        """Return when the last visit ended, in seconds since 1970, and this moment, which belongs to the present one; a
        day ago if there was none.
        """
        now = time.time()
        ended, _, active = cookie_of(request.headers, self._visits).partition("-")
        if not (ended.isdecimal() and active.isdecimal()):
            return now - FIRST_S, now
        return float(active if now - int(active) > AWAY_S else ended), now

    def _note_visit(self, answer: Response, ended: float, active: float) -> Response:
        value = f"{int(ended)}-{int(active)}"
        answer.set_cookie(self._visits, value, max_age=12 * SIGN_IN_S, httponly=True, samesite="strict", path="/")
        return answer

    async def news(self, request: Request) -> Response:
        """Show what happened since the last visit; a line of it alone for the first page."""
        ended, now = self._last_visit(request)
        rows = await self.views.news(datetime.fromtimestamp(ended, UTC))
        part = request.headers.get("hx-target") == "news"
        if rows is None:
            return Response(status_code=204) if part else self._waiting(request, "/news", "Looking at what happened")
        actors = Counter(row["actor"] or "" for row in rows)
        chosen = request.query_params.get("by")
        shown = [row for row in rows if chosen is None or (row["actor"] or "") == chosen]
        counts = Counter(GROUPS.get(row["operation"], "changed") for row in shown)
        given: dict[str, Any] = {"since": ended, "counts": counts, "in_all": rows[0]["in_all"] if rows else 0}
        given["first"] = not cookie_of(request.headers, self._visits)
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
