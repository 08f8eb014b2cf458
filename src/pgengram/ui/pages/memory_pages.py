"""The pages with memories: search, one memory, a new one, and those that are forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pgengram import fields as f
from pgengram.errors import InvalidInput, NotFound, PgengramError
from pgengram.service.answers import said
from pgengram.service.conversations import Conversations
from pgengram.text.differences import names_in
from pgengram.ui.pages.page_application import LISTS, STATUS, UNREADY, PageApplication, while_awaited
from pgengram.ui.view_data.changes import as_typed, change_asked, edited
from pgengram.ui.view_data.query_values import FIND_IT, memory_id, number_given, turn_after, whole_number
from pgengram.ui.view_data.view_service import PAGE, Results

CANDIDATES: Final = 8  # to link to
LONG_TEXT: Final = 1_500  # characters, and lines, from which on a text is shown in part at first
LONG_LINES: Final = 25
FEW_WORDS: Final = 3  # that may be the name of something
FIRST_TURNS: Final = 3  # below the memories
MAX_TURNS: Final = 50
COUNT_AT_ONCE_S: Final = 0.02  # that the list itself waits for it
COUNTING_S: Final = 20.0  # that an open page waits for a count


def _search_fields(request: Request) -> dict[str, str]:
    """Return what the fields of the search form say; several of one name with commas."""
    given = request.query_params
    return {name: ",".join(filter(None, given.getlist(name))) for name in given}


def _onward(asked: Mapping[str, str], found: Results | None) -> dict[str, Any]:
    """Return where the next page of hits is, and whether filters were given."""
    kept = {name: value for name, value in asked.items() if value and name not in ("cursor", "pages")}
    more = None
    if found and found.next_cursor:
        weak = {"weak": "True"} if found.strong < len(found.hits) else {}
        more = "/?" + urlencode(kept | {"cursor": found.next_cursor} | weak)
    return {"more": more, "narrowed": bool(kept.keys() - {"q", "sort", "mode", "weak", "at"})}


def _subjects(question: str) -> list[str]:
    """Return what there may be a page about: a few words themselves, else the names in a question."""
    words = len(question.split())
    return [question] if 1 <= words <= FEW_WORDS else names_in(question)[:FEW_WORDS]


class MemoryPages(PageApplication):
    """One memory, lists of them, and what is forgotten."""

    async def search(self, request: Request) -> Response:
        """Show what is found; or only the hits while somebody types, whose search ends as soon as more is typed."""
        asked = _search_fields(request)
        target = request.headers.get("hx-target", "")
        part = target in LISTS
        if asked.get("period"):
            asked.setdefault("at", datetime.now(UTC).isoformat(timespec="seconds"))  # its pages count from one moment
        if part:
            found = await while_awaited(request, self.views.hits(asked, patience_s=None))
        else:
            found = await self.views.hits(asked)
        lists = found is not None and self.views.lists(asked)
        total = await self.views.total(asked, found, patience_s=COUNT_AT_ONCE_S) if lists else None
        shown: dict[str, Any] = {"asked": asked, "found": found, **_onward(asked, found), "looking": found is None}
        shown |= {"subjects": _subjects(asked.get("q", "").strip())}
        shown |= {"address": "/?" + urlencode(asked), "total": total, "counting": lists and total is None}
        if not part:
            shown |= {"facets": await self.views.facets(asked, patience_s=COUNT_AT_ONCE_S), "watched": None}
        return self._page(LISTS.get(target, "search.html"), here="/", part=part, **shown)

    async def facets(self, request: Request) -> Response:
        """Show the filters again, each value with how many memories it would leave."""
        asked = _search_fields(request)
        return self._page("_facets.html", asked=asked, facets=await self.views.facets(asked, patience_s=COUNTING_S))

    async def turns(self, request: Request) -> Response:
        """Show the turns of conversations that match what is looked for."""
        asked = _search_fields(request)
        limit = MAX_TURNS if asked.get("all") else FIRST_TURNS
        turns, matching = await self.views.turns(asked, limit) if asked.get("q") else ([], 0)
        return self._page("_turns.html", asked=asked, turns=turns, matching=matching)

    async def count(self, request: Request) -> Response:
        """Tell how many memories pass the filters, where that took longer than the list itself."""
        asked = _search_fields(request)
        total = await self.views.total(asked, None, patience_s=COUNTING_S)
        return self._page("_count.html", found=None, subjects=[], total=total, counting=False, part=False)

    async def live(self, request: Request) -> Response:
        """Tell an open page the versions of the newest memories and of its own, so that it sees what others change."""
        given = request.query_params.get("id")
        return JSONResponse(await self.views.versions(memory_id(given) if given else None))

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
        content, stored, mine = memory["content"], as_typed(memory), edited(typed) if typed else {}
        shown: dict[str, Any] = {
            "memory": memory,
            "error": error,
            "stored": stored,
            "typed": stored | mine,
            "differing": {
                name: (stored[name], value)
                for name, value in mine.items()
                if value != stored[name] and name != "content"
            },
            "long": len(content) > LONG_TEXT or content.count("\n") > LONG_LINES,
            "most": f.MAX_CONTENT,
            "watched": memory,
        }
        return self._page("memory.html", 200 if error is None else STATUS.get(error.code, UNREADY), here="/", **shown)

    async def edit(self, request: Request) -> Response:
        """Change what the form of a memory says; when that is refused, show the form as it was filled in."""
        id_ = request.path_params["id"]
        fields = await self.session_guard.form(request)
        try:
            done = await self.views.changes.update(change_asked(id_, fields))
        except PgengramError as error:
            return await self._memory(id_, error, fields)
        return self._then(f"/memory/{id_}", done)

    async def new(self, request: Request) -> Response:
        """Show the form for a new memory, with what was said in a turn of a conversation if it cites one."""
        given = request.query_params
        typed = {name: given[name] for name in ("content", "cite", "occurred_at", "project") if given.get(name)}
        return self._page("new.html", here="/new", typed=typed, error=None, most=f.MAX_CONTENT)

    async def add(self, request: Request) -> Response:
        """Store a memory; when that is refused, show the form as it was filled in."""
        fields = await self.session_guard.form(request)
        try:
            stored = await self.views.add(fields)
        except PgengramError as error:
            status = STATUS.get(error.code, UNREADY)
            return self._page("new.html", status, here="/new", typed=fields, error=error, most=f.MAX_CONTENT)
        said = "Memory added" if stored.created else "You already have this memory:"
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
        strength = number_given(fields.get("strength"), 1.0)
        done = await self.views.changes.link(*ends, fields.get("type", ""), strength, remove="remove" in fields)
        return self._then(f"/memory/{id_}", done)

    async def trash(self, request: Request) -> Response:
        """Show what was forgotten or archived, the last first."""
        status = request.query_params.get("status", "invalidated")
        if status not in ("invalidated", "archived"):
            raise InvalidInput("Only invalidated and archived are shown here.")
        asked = {"cursor": request.query_params.get("cursor", "")}
        found = await self.views.search(asked, status=status, sort="updated", detail=True)
        more = found.next_cursor and "/trash?" + urlencode({"status": status, "cursor": found.next_cursor})
        return self._page("trash.html", here="/trash", found=found, status=status, more=more)


TURNS: Final = 100  # of a conversation on a page
RECEIPTS: Final = 50
EXCERPT: Final = 240  # characters of a memory
MOST_TURNS: Final = 50  # that a search shows
CHOICES: Final = ("client", "conversation", "project")  # which conversations


def _filters(given: Mapping[str, str]) -> dict[str, str | None]:
    return {name: given.get(name) or None for name in CHOICES}


class ConversationPages(PageApplication):
    """Conversations word for word, and receipts."""

    @property
    def _kept(self) -> Conversations:
        return Conversations(self.views.manager)

    async def conversations(self, request: Request) -> Response:
        """Show which conversations are kept, the latest first."""
        asked = request.query_params
        sought = {"q": asked.get("q", "").strip(), "all": "yes"}
        turns, matching = await self.views.turns(sought, MOST_TURNS) if sought["q"] else ([], 0)
        where, page = _filters(asked), whole_number(asked.get("page"), 1)
        found = await self._kept.listed(where, limit=PAGE + 1, offset=(page - 1) * PAGE)
        given = {name: value for name, value in where.items() if value}
        shown: dict[str, Any] = {"found": found[:PAGE], "more": len(found) > PAGE, "page": page, "given": given}
        shown |= {"sought": sought, "turns": turns, "matching": matching}
        skip = whole_number(asked.get("skip"), 0)
        offers, in_all = await said.worth_remembering(self.views.manager, where, skip=skip)
        shown |= {"offers": offers, "offered": skip + len(offers), "offers_in_all": in_all}
        return self._page("conversations.html", here="/conversations", state=await self._kept.state(), **shown)

    async def conversation(self, request: Request) -> Response:
        """Show a conversation word for word, and what was put before the model in it."""
        asked = request.query_params
        client, id_ = asked.get("client", ""), asked.get("conversation", "")
        found = await self._kept.listed({"client": client, "conversation": id_}, limit=1)
        if not found:
            raise NotFound("conversation", id_[:64], "It may have been erased, or it has expired.")
        after, turns = await self._part(client, id_, turn_after(asked.get("after")), asked.get("turn", ""))
        shown: dict[str, Any] = {"one": found[0], "turns": turns[:TURNS], "more": len(turns) > TURNS}
        return self._page("conversation.html", here="/conversations", after=after, **shown)

    async def _part(self, client: str, id_: str, after: int, wanted: str) -> tuple[int, list[dict[str, Any]]]:
        """Return the turns after one, and one more than a page has; from the wanted one's page on."""
        while True:
            turns = await self._kept.turns(id_, client=client, after=after, limit=TURNS + 1)
            if not wanted or len(turns) <= TURNS or wanted in {str(turn["number"]) for turn in turns[:TURNS]}:
                return after, turns
            after = turns[TURNS - 1]["id"]

    async def show_erasure(self, request: Request) -> Response:
        """Show which conversations would be erased, and ask."""
        where = _filters(request.query_params)
        counted = await self._kept.counted(where)
        found = await self._kept.listed(where, limit=PAGE)
        given = {name: value for name, value in where.items() if value}
        return self._page("erase_conversations.html", here="/conversations", counted=counted, found=found, given=given)

    async def erase_conversations(self, request: Request) -> Response:
        """Erase the conversations that were shown."""
        fields = await self.session_guard.form(request)
        erased = await self._kept.erase(_filters(fields), whole_number(fields.get("turns"), 0))
        return self._then("/conversations", f"{erased:,} {'turn' if erased == 1 else 'turns'} permanently erased")

    async def receipts(self, request: Request) -> Response:
        """Show what was put before a model unasked: moment by moment, the latest first."""
        asked = request.query_params
        id_, page = asked.get("conversation") or None, whole_number(asked.get("page"), 1)
        rows = await self._kept.receipts(id_, limit=RECEIPTS + 1, offset=(page - 1) * RECEIPTS, chars=EXCERPT)
        moments = groupby(rows[:RECEIPTS], lambda row: (row["at"], row["client"], row["conversation"], row["event"]))
        shown: dict[str, Any] = {"page": page, "more": len(rows) > RECEIPTS, "id": id_}
        return self._page("receipts.html", here="/receipts", moments=[list(its) for _, its in moments], **shown)
