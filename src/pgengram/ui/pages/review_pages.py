"""The pages on which many memories are changed: review, preview, selection and undo."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pgengram import fields as f
from pgengram.errors import NotFound
from pgengram.service.toolsets.reviewing import FINDINGS
from pgengram.ui.pages.page_application import PageApplication
from pgengram.ui.sign_ins import Shut
from pgengram.ui.view_data.changes import plan_of
from pgengram.ui.view_data.query_values import (
    FIND_IT,
    PAIRED,
    PLAN,
    chosen_finding,
    memory_id,
    whole_number,
)
from pgengram.ui.view_data.view_service import PAGE

PICKED: Final = "id:"  # before the id of a memory that is selected in a list
VERSION: Final = "version:"  # before the id of a memory that is shown in a question
LISTS: Final = re.compile(
    r"/|/timeline|/news|/map|/trash|/review|/cluster/[\w-]+"
)  # pages on which memories can be selected
MOST_SIDES: Final = 6  # memories of one finding that are shown side by side


def _own_address(address: str) -> str:
    """Return an address of these pages; the first one instead of any other."""
    return address if re.fullmatch(r"/(?!/)[\w/?=&%.+~!*'(),:;@$-]*", address) else "/"


def _back(request: Request, otherwise: str) -> str:
    """Return the list that a form was sent from, with its filters and page; `otherwise` if it was not a list."""
    sent = urlsplit(request.headers.get("referer", ""))
    return (
        _own_address(f"{sent.path}?{sent.query}" if sent.query else sent.path)
        if LISTS.fullmatch(sent.path)
        else otherwise
    )


class ReviewPages(PageApplication):
    """What needs care, and changes of many memories, with a preview and undo."""

    async def review(self, request: Request) -> Response:
        """Show what needs care: all the findings of one name, some at a time, or the plan."""
        asked = request.query_params
        if "again" in asked:
            self.views.look_again()
            return RedirectResponse("/review", 303)
        offset, page = whole_number(asked.get("offset"), 0), whole_number(asked.get("page"), 1)
        reviewed = await self.views.review(offset)
        if reviewed is None:
            return self._waiting(request, "/review", "Comparing memories with similar ones")
        names = [*(name for name in FINDINGS if name in reviewed.found), PLAN]
        chosen = chosen_finding(asked.get("find"), names, reviewed.found)
        found, paired = self.views.findings(reviewed, chosen), chosen in PAIRED
        size = 1 if paired else PAGE
        pages = max(1, -(-len(found) // size))
        page = min(page, pages)
        rows, shown = await self._asked(found, (page - 1) * size, size)
        if chosen == PLAN:
            rows = await self.views.changes.rows([UUID(step["ids"][0]) for step in reviewed.plan])
        place: dict[str, Any] = {"page": page, "pages": pages, "offset": offset, "sides": MOST_SIDES}
        findings: dict[str, Any] = {
            "names": names,
            "chosen": chosen,
            "found": found,
            "shown": shown,
            "rows": rows,
            "paired": paired,
        }
        place["counts"] = {PLAN: len(reviewed.plan)} | {
            name: self.views.still_open(reviewed, name) for name in names[:-1]
        }
        full = len(reviewed.plan) >= f.MAX_BATCH
        return self._page("review.html", here="/review", reviewed=reviewed, full=full, **findings, **place)

    async def _asked(
        self, found: Sequence[Mapping[str, Any]], start: int, size: int
    ) -> tuple[dict[str, Any], Sequence[Mapping[str, Any]]]:
        """Return the findings of a page and their memories; those whose memories are gone meanwhile are passed over."""
        shown = found[start : start + size]
        rows = await self.views.changes.rows([UUID(id_) for one in shown for id_ in one["ids"][:MOST_SIDES]])
        rows = {id_: row for id_, row in rows.items() if row["status"] == "active"}
        there = [one for one in shown if {*one["ids"][:2]} <= rows.keys()]
        if there or not shown:
            return rows, there
        return await self._asked(found, start + size, size)

    async def compare(self, request: Request) -> Response:
        """Show two memories side by side, with what can be done about them."""
        ids = [request.path_params["one"], request.path_params["other"]]
        rows = await self.views.changes.rows(ids)
        if len(rows) < len(ids):
            raise NotFound("memory", next(id_ for id_ in ids if str(id_) not in rows), FIND_IT)
        one = {"ids": [str(id_) for id_ in ids], "why": "These may contradict each other."}
        return self._page("compare.html", here="/", one=one, rows=rows)

    async def answer(self, request: Request) -> Response:
        """Do what was chosen for the memories of a question, and show the next one."""
        fields = await self.session_guard.form(request)
        versions = {name.removeprefix(VERSION): value for name, value in fields.items() if name.startswith(VERSION)}
        done = await self.views.answer(fields.get("step", ""), fields.get("ids", "").split(","), versions)
        return self._then(_own_address(fields.get("back", "")), done)

    async def preview(self, request: Request) -> Response:
        """Work out what a step would change."""
        fields = await self.session_guard.form(request)
        return self._preview(await self.views.preview(fields.get("step", "")), _back(request, "/review"))

    def _preview(self, key: str, back: str) -> Response:
        return RedirectResponse(f"/preview/{key}?{urlencode({'back': back})}", 303)

    async def show_preview(self, request: Request) -> Response:
        """Show what would be changed, some of it at a time."""
        key, page = request.path_params["key"], whole_number(request.query_params.get("page"), 1)
        shown, back = self.views.changes.shown(key), _own_address(request.query_params.get("back", ""))
        pages = max(1, -(-len(shown.changes) // PAGE))
        changes = shown.changes[(page - 1) * PAGE : page * PAGE]
        place: dict[str, Any] = {"page": page, "pages": pages, "key": key, "back": back, "changes": changes}
        return self._page("preview.html", here=back.partition("?")[0], shown=shown, **place)

    async def select(self, request: Request) -> Response:
        """Do something with the memories that are selected in a list: after a preview, unless it changes none."""
        fields = await self.session_guard.form(request)
        ids = [name.removeprefix(PICKED) for name in fields if name.startswith(PICKED)]
        action = fields.get("action", "")
        if action == "restore":
            return self._then(
                _back(request, "/trash"), await self.views.changes.restore([memory_id(id_) for id_ in ids])
            )
        if action == "cluster":
            return self._then(f"/cluster/{await self.views.make_cluster(fields.get('name', ''), ids)}", "Cluster made")
        plan = plan_of(action, ids, fields.get("tags", ""))
        erases = action == "erase"
        if erases and self.origin:
            raise Shut(
                "What can't be restored is done on the computer where pgengram runs.",
                "Forget memories here: they don't appear in searches, and can be restored.",
            )
        back = _back(request, "/trash" if erases else "/")
        return self._preview(await self.views.changes.preview(plan, erases=erases), back)

    async def apply(self, request: Request) -> Response:
        """Do what was previewed."""
        fields = await self.session_guard.form(request)
        done, _ = await self.views.changes.apply(fields.get("key", ""), turns="turns" in fields)
        return self._then(_own_address(fields.get("back", "")), done)

    async def undo(self, request: Request) -> Response:
        """Take the last change back, and go where it was seen."""
        fields = await self.session_guard.form(request)
        said, ids = await self.views.undo(fields.get("key", ""))
        seen = f"/memory/{ids[0]}" if len(ids) == 1 else _own_address(fields.get("back", ""))
        return self._then(_back(request, seen), said)
