"""The pages: what each takes from a request, and which template shows what it finds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from pgengram import fields as f
from pgengram.errors import InvalidInput, NotFound, PgengramError
from pgengram.service.toolsets.reviewing import FINDINGS
from pgengram.store.clients.tokens import Scope
from pgengram.transfer.importers import SYSTEMS
from pgengram.ui import drawing
from pgengram.ui.changes import plan_of
from pgengram.ui.conversation_pages import ConversationPages
from pgengram.ui.jobs import Absent
from pgengram.ui.page_application import LISTS, STATUS, UNREADY, Page
from pgengram.ui.query_values import (
    FIND_IT,
    PAIRED,
    PLAN,
    chosen_finding,
    date_of,
    memory_id,
    neighbours,
    number_of,
    whole_number,
)
from pgengram.ui.session_guard import SIGN_IN_PATH
from pgengram.ui.view_service import MAX_POINTS, PAGE

DEPTHS: Final = range(1, 5)
BRIEF: Final = 160  # characters
PICKED: Final = "id:"  # before the id of a memory that is selected in a list
CANDIDATES: Final = 8  # to link to
LONG_TEXT: Final = 1_500  # characters, and lines, from which on a text is shown in part at first
LONG_LINES: Final = 25
COUNT_AT_ONCE_S: Final = 0.02  # that the list itself waits for it
COUNTING_S: Final = 20.0  # that an open page waits for a count
VERSION: Final = "version:"  # before the id of a memory that is shown in a question
MOST_SIDES: Final = 6  # memories of one finding that are shown side by side


def _own(address: str) -> str:
    """Return an address of these pages; the first one instead of any other."""
    return address if re.fullmatch(r"/(?!/)[\w/?=&%.+-]*", address) else "/"


class Pages(ConversationPages):
    """The pages by their addresses."""

    def _routes(self) -> list[tuple[str, Page, str]]:
        get, post = "GET", "POST"
        return [
            (SIGN_IN_PATH, self.enter, get), ("/namespaces", self.show_namespaces, get),
            ("/namespaces", self.switch, post), ("/", self.search, get), ("/live", self.live, get), ("/count", self.count, get), ("/new", self.new, get),
            ("/new", self.add, post), ("/memory/{id:uuid}", self.memory, get),
            ("/memory/{id:uuid}", self.edit, post), ("/memory/{id:uuid}/forget", self.forget, post),
            ("/memory/{id:uuid}/restore", self.restore, post), ("/memory/{id:uuid}/pin", self.pin, post),
            ("/memory/{id:uuid}/link", self.link, post), ("/memory/{id:uuid}/candidates", self.candidates, get),
            ("/memory/{id:uuid}/brief", self.brief, get), ("/timeline", self.timeline, get),
            ("/projects", self.counts, get), ("/health", self.counts, get), ("/trash", self.trash, get),
            ("/graph", self.graph, get),
            ("/clusters", self.clusters, get), ("/cluster/{id:uuid}", self.cluster, get), ("/map", self.map, get),
            ("/map/hits", self.map_hits, get), ("/map/list", self.map_list, post),
            ("/review", self.review, get), ("/review/preview", self.preview, post), ("/preview/{key}", self.show_preview, get),
            ("/review/answer", self.answer, post), ("/compare/{one:uuid}/{other:uuid}", self.compare, get),
            ("/apply", self.apply, post), ("/undo", self.undo, post),
            ("/selection", self.select, post),
            ("/import", self.import_, get), ("/import", self.give, post), ("/import/bring", self.bring, post),
            ("/import/end", self.break_off, post), ("/import/other", self.another, post),
            ("/export", self.export, get), ("/export", self.start_export, post),
            ("/export/pgengram.jsonl", self.download, get),
            ("/tokens", self.tokens, get), ("/tokens", self.make_token, post),
            ("/tokens/revoke", self.revoke_token, post),
            ("/conversations", self.conversations, get), ("/conversations", self.keep_conversations, post),
            ("/conversation", self.conversation, get), ("/conversations/erase", self.show_erasure, get),
            ("/conversations/erase", self.erase_conversations, post), ("/receipts", self.receipts, get),
        ]  # fmt: skip

    # -- coming in -------------------------------------------------------------------------------------------------

    async def enter(self, request: Request) -> Response:
        """Give the browser that opened the link its cookie; a page of ours leads on, as a strict cookie needs that."""
        answer = self._page("enter.html", refresh="0;url=/", inside=False)
        if not self.session_guard.knows(request.headers):
            self.session_guard.admit(request.query_params.get("token", ""), answer)
        return answer

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

    # -- memories --------------------------------------------------------------------------------------------------

    async def search(self, request: Request) -> Response:
        """Show what is found, or only the hits while somebody types; the old ones stay until the new ones are there."""
        given = request.query_params
        asked = {name: ",".join(filter(None, given.getlist(name))) for name in given}
        target = request.headers.get("hx-target", "")
        if asked.get("period"):
            asked.setdefault("at", datetime.now(UTC).isoformat(timespec="seconds"))  # its pages count from one moment
        lists = self.views.lists(asked)
        if lists:
            await self.views.total(asked)  # counted beside the search
        found = await self.views.hits(asked)
        address, looking = "/?" + urlencode(asked), found is None and target != "more"
        if looking and target in LISTS:
            answer = self._page("_looking.html", address=address, looking=True)
            answer.headers.update({"hx-retarget": "#looking", "hx-reswap": "outerHTML"})
            return answer
        kept = {name: value for name, value in asked.items() if value and name not in ("cursor", "pages")}
        more = None
        if found and found.next_cursor:
            place = {"cursor": found.next_cursor, "weak": found.strong < len(found.hits) or ""}
            more = "/?" + urlencode(kept | {name: value for name, value in place.items() if value})
        narrowed = bool(kept.keys() - {"q", "sort", "mode", "weak", "at"})
        shown: dict[str, Any] = {"asked": asked, "found": found, "more": more, "narrowed": narrowed, "address": address}
        total = await self.views.total(asked, COUNT_AT_ONCE_S) if lists else None
        shown |= {"total": total, "counting": lists and total is None}
        template, part = LISTS.get(target, "search.html"), target in LISTS
        if not part:
            shown |= {"facets": await self.views.statistics(), "watched": None}
        return self._page(template, here="/", looking=looking, part=part, **shown)

    async def memory(self, request: Request) -> Response:
        """Show one memory with all that belongs to it."""
        return await self._memory(request.path_params["id"])

    async def _memory(
        self, id_: UUID, error: PgengramError | None = None, typed: Mapping[str, str] | None = None
    ) -> Response:
        try:
            memory = await self.views.memory(id_)
        except NotFound:
            raise NotFound("memory", id_, FIND_IT) from None
        status = 200 if error is None else STATUS.get(error.code, UNREADY)
        content = memory["content"]
        long = len(content) > LONG_TEXT or content.count("\n") > LONG_LINES
        shown: dict[str, Any] = {
            "memory": memory,
            "error": error,
            "typed": typed,
            "long": long,
            "most": f.MAX_CONTENT,
            "watched": memory,
        }
        return self._page("memory.html", status, here="/", **shown)

    async def edit(self, request: Request) -> Response:
        """Change what the form of a memory says; when that is refused, show the form as it was filled in."""
        id_ = request.path_params["id"]
        fields = await self.session_guard.form(request)
        change: dict[str, Any] = {"id": str(id_), "pinned": "pinned" in fields}
        change |= {name: fields[name] for name in ("content", "importance") if name in fields}
        given = {name: fields[name].strip(" ,") for name in ("tags", "project") if name in fields}
        change |= {name: value for name, value in given.items() if value}
        change["clear"] = [name for name, value in given.items() if not value]
        if fields.get("version"):
            change["expected_version"] = fields["version"]
        try:
            done = await self.views.changes.update(change)
        except PgengramError as error:
            return await self._memory(id_, error, fields)
        return self._then(f"/memory/{id_}", done)

    async def count(self, request: Request) -> Response:
        """Tell how many memories pass the filters, where that took longer than the list itself."""
        asked = {name: ",".join(filter(None, request.query_params.getlist(name))) for name in request.query_params}
        total = await self.views.total(asked, patience_s=COUNTING_S)
        return self._page("_count.html", found=None, total=total, counting=False, part=False)

    async def live(self, request: Request) -> Response:
        """Tell an open page the versions of the newest memories and of its own, so that it sees what others change."""
        given = request.query_params.get("id")
        return JSONResponse(await self.views.versions(memory_id(given) if given else None))

    async def new(self, _: Request) -> Response:
        """Show the form for a new memory."""
        return self._page("new.html", here="/new", typed={}, error=None, most=f.MAX_CONTENT)

    async def add(self, request: Request) -> Response:
        """Store a memory; when that is refused, show the form as it was filled in."""
        fields = await self.session_guard.form(request)
        try:
            stored = await self.views.add(fields)
        except PgengramError as error:
            status = STATUS.get(error.code, UNREADY)
            return self._page("new.html", status, here="/new", typed=fields, error=error, most=f.MAX_CONTENT)
        said = "Memory added" if stored.created else "That is remembered already. This is the memory:"
        return self._then(f"/memory/{stored.memory_id}", said)

    async def forget(self, request: Request) -> Response:
        """Forget a memory."""
        fields = await self.session_guard.form(request)
        id_ = request.path_params["id"]
        return self._then(f"/memory/{id_}", await self.views.changes.forget(id_, fields.get("reason", "").strip()))

    async def restore(self, request: Request) -> Response:
        """Bring a forgotten or archived memory back."""
        await self.session_guard.form(request)
        id_ = request.path_params["id"]
        return self._then(f"/memory/{id_}", await self.views.changes.restore([id_]))

    async def pin(self, request: Request) -> Response:
        """Let a memory fade no more, or again."""
        fields = await self.session_guard.form(request)
        id_ = request.path_params["id"]
        return self._then(
            f"/memory/{id_}", await self.views.changes.update({"id": str(id_), "pinned": "pinned" in fields})
        )

    async def candidates(self, request: Request) -> Response:
        """Show what a memory could be linked to."""
        asked = {"q": request.query_params.get("q", "")}
        type_ = request.query_params.get("type", "")
        id_, found = str(request.path_params["id"]), await self.views.search(asked, limit=CANDIDATES)
        return self._page("candidates.html", found=found.results, id=id_, type=type_)

    async def link(self, request: Request) -> Response:
        """Link a memory to another one, or unlink them."""
        fields = await self.session_guard.form(request)
        id_, to = str(request.path_params["id"]), str(memory_id(fields.get("to", "")))
        ends = (to, id_) if fields.get("direction") == "in" else (id_, to)
        strength = number_of(fields.get("strength"), 1.0)
        done = await self.views.changes.link(*ends, fields.get("type", ""), strength, remove="remove" in fields)
        return self._then(f"/memory/{id_}", done)

    async def brief(self, request: Request) -> Response:
        """Tell the beginning of a memory, for whoever points at it on the map."""
        id_ = str(request.path_params["id"])
        found = await self.views.changes.rows([UUID(id_)])
        if id_ not in found:
            raise NotFound("memory", id_, FIND_IT)
        return PlainTextResponse(found[id_]["content"][:BRIEF])

    async def trash(self, request: Request) -> Response:
        """Show what was forgotten or archived, the last first."""
        status = request.query_params.get("status", "invalidated")
        if status not in ("invalidated", "archived"):
            raise InvalidInput("Only invalidated and archived are shown here.")
        asked = {"cursor": request.query_params.get("cursor", "")}
        found = await self.views.search(asked, status=status, sort="updated", detail=True)
        more = found.next_cursor and "/trash?" + urlencode({"status": status, "cursor": found.next_cursor})
        return self._page("trash.html", here="/trash", found=found, status=status, more=more)

    # -- overviews -------------------------------------------------------------------------------------------------

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
        previous_day, next_day = neighbours(day, days)
        beside: dict[str, Any] = {"previous_day": previous_day, "next_day": next_day, "chart": drawing.by_day(days)}
        return self._page("timeline.html", here="/timeline", days=days, day=day, found=found, more=more, **beside)

    async def counts(self, request: Request) -> Response:
        """Show which tags, kinds and types there are, or how index, embedder and database are and how memories
        spread.
        """
        here = request.url.path
        counted = await self.views.statistics()
        if counted is None:
            return self._waiting(request, here, "Counting")
        return self._page(f"{here[1:]}.html", here=here, counted=counted.model_dump())

    async def graph(self, request: Request) -> Response:
        """Show links around a memory, or the strongest of all."""
        asked = request.query_params
        depth, strength = number_of(asked.get("depth"), 2), number_of(asked.get("strength"), 0.3)
        if depth not in DEPTHS or not 0 <= strength <= 1:
            raise InvalidInput("depth must be 1 to 4, strength 0 to 1.")
        id_ = memory_id(asked["id"]) if asked.get("id") else None
        network = await self.views.network(id_, int(depth), strength)
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
        made = await self.views.map()
        if made is None:
            return self._waiting(request, "/map", "Drawing the map")
        return self._page("map.html", here="/map", map=made, degraded=self.views.manager.degraded, most=MAX_POINTS)

    async def map_hits(self, request: Request) -> Response:
        """Tell which memories of the map a search finds."""
        return JSONResponse(await self.views.map_hits(request.query_params.get("q", "")))

    async def map_list(self, request: Request) -> Response:
        """Show the memories of an area of the map."""
        fields = await self.session_guard.form(request)
        ids = [memory_id(id_) for id_ in fields.get("ids", "").split(",") if id_][: f.MAX_LIMIT]
        rows = await self.views.changes.rows(ids)
        return self._page("map_list.html", rows=[rows[str(id_)] for id_ in ids if str(id_) in rows])

    # -- maintenance --------------------------------------------------------------------------------------------------

    async def review(self, request: Request) -> Response:
        """Show what needs care: all the findings of one name, some at a time, or the plan."""
        asked = request.query_params
        if "again" in asked:
            self.views.look_again()
            return RedirectResponse("/review", 303)
        offset, page = whole_number(asked.get("offset"), 0), whole_number(asked.get("page"), 1)
        reviewed = await self.views.review(offset)
        if reviewed is None:
            return self._waiting(request, "/review", "Looking at memories and what is near them")
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
        return self._then(_own(fields.get("back", "")), done)

    async def preview(self, request: Request) -> Response:
        """Work out what a step would change."""
        fields = await self.session_guard.form(request)
        return self._preview(await self.views.preview(fields.get("step", "")), "/review")

    def _preview(self, key: str, back: str) -> Response:
        return RedirectResponse(f"/preview/{key}?{urlencode({'back': back})}", 303)

    async def show_preview(self, request: Request) -> Response:
        """Show what would be changed, some of it at a time."""
        key, page = request.path_params["key"], whole_number(request.query_params.get("page"), 1)
        shown, back = self.views.changes.shown(key), _own(request.query_params.get("back", ""))
        pages = max(1, -(-len(shown.changes) // PAGE))
        changes = shown.changes[(page - 1) * PAGE : page * PAGE]
        place: dict[str, Any] = {"page": page, "pages": pages, "key": key, "back": back, "changes": changes}
        return self._page("preview.html", here=back, shown=shown, **place)

    async def select(self, request: Request) -> Response:
        """Do something with the memories that are selected in a list: after a preview, unless it changes none."""
        fields = await self.session_guard.form(request)
        ids = [name.removeprefix(PICKED) for name in fields if name.startswith(PICKED)]
        action = fields.get("action", "")
        if action == "restore":
            return self._then("/trash", await self.views.changes.restore([memory_id(id_) for id_ in ids]))
        if action == "cluster":
            return self._then(f"/cluster/{await self.views.make_cluster(fields.get('name', ''), ids)}", "Cluster made")
        plan = plan_of(action, ids, fields.get("tags", ""))
        erases = action == "erase"
        return self._preview(await self.views.changes.preview(plan, erases=erases), "/trash" if erases else "/")

    async def apply(self, request: Request) -> Response:
        """Do what was previewed."""
        fields = await self.session_guard.form(request)
        done, _ = await self.views.changes.apply(fields.get("key", ""))
        return self._then(_own(fields.get("back", "")), done)

    async def undo(self, request: Request) -> Response:
        """Take the last change back, and go where it was seen."""
        fields = await self.session_guard.form(request)
        said, ids = await self.views.undo(fields.get("key", ""))
        return self._then(f"/memory/{ids[0]}" if len(ids) == 1 else _own(fields.get("back", "")), said)

    # -- out and in ------------------------------------------------------------------------------------------------

    async def export(self, request: Request) -> Response:
        """Show how far an export is."""
        job = self.views.export.job
        return self._progress(request, "export.html", "/export", job=job, counts=job.result())

    async def start_export(self, request: Request) -> Response:
        """Begin an export."""
        await self.session_guard.form(request)
        self.views.export.begin()
        return RedirectResponse("/export", 303)

    async def download(self, _: Request) -> Response:
        """Hand the exported file over."""
        if self.views.export.job.result() is None:
            raise Absent("No export is finished.", "Begin one, and wait until it is done.")
        path = self.views.export.path
        return FileResponse(path, filename=path.name, media_type="application/jsonl")

    async def import_(self, request: Request) -> Response:
        """Show what a file holds, how far it is brought in, and what that came to."""
        arriving = self.views.arriving
        try:
            imported = arriving.result()
        except PgengramError as error:
            arriving.forget()
            hint = error.hint.replace(str(arriving.path), "the file")
            message = error.message.replace(str(arriving.path), "The file")
            shown: dict[str, Any] = {
                "arriving": arriving,
                "job": arriving.job,
                "imported": None,
                "error": InvalidInput(message, hint),
            }
            return self._page("import.html", STATUS.get(error.code, UNREADY), here="/import", **shown)
        return self._progress(
            request, "import.html", "/import", arriving=arriving, job=arriving.job, imported=imported, error=None
        )

    async def give(self, request: Request) -> Response:
        """Take a file, and begin to look through it."""
        arriving = self.views.arriving
        arriving.refuse_second()
        fields, name = await self.session_guard.upload(request, arriving.path)
        system = fields.get("system", "")
        if system not in SYSTEMS:
            raise InvalidInput("Say which system the file is of.", f"Known are {', '.join(SYSTEMS)}.")
        arriving.preview(name, system)
        return RedirectResponse("/import", 303)

    async def bring(self, request: Request) -> Response:
        """Begin to bring in what was looked at."""
        await self.session_guard.form(request)
        self.views.arriving.bring()
        return RedirectResponse("/import", 303)

    async def break_off(self, request: Request) -> Response:
        """End what is under way."""
        await self.session_guard.form(request)
        await self.views.arriving.break_off()
        self.views.cache.forget()
        return RedirectResponse("/import", 303)

    async def another(self, request: Request) -> Response:
        """Make room for another file."""
        await self.session_guard.form(request)
        self.views.arriving.forget()
        self.views.cache.forget()
        return RedirectResponse("/import", 303)

    # -- tokens ----------------------------------------------------------------------------------------------------

    async def tokens(self, _: Request) -> Response:
        """Show the tokens that lead to these memories."""
        return self._page(
            "tokens.html", here="/tokens", tokens=await self.views.tokens(), made="", error=None, typed={}
        )

    async def make_token(self, request: Request) -> Response:
        """Make a token, and show it this once."""
        fields = await self.session_guard.form(request)
        made, error = "", None
        try:
            days = number_of(fields.get("days"), 0)
            scope: Scope = "read-write" if fields.get("scope") == "read-write" else "read-only"
            made = await self.views.make_token(fields.get("name", ""), scope, days if fields.get("days") else None)
        except InvalidInput as refused:
            error = refused
        status, typed = (200, {}) if error is None else (422, fields)
        tokens = await self.views.tokens()
        return self._page("tokens.html", status, here="/tokens", tokens=tokens, made=made, error=error, typed=typed)

    async def revoke_token(self, request: Request) -> Response:
        """Make a token worthless."""
        fields = await self.session_guard.form(request)
        return self._then("/tokens", await self.views.revoke_token(fields.get("id", "")))
