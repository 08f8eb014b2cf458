"""The pages about the conversations that hooks keep, and about what hooks have put before a model."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from pgengram.errors import NotFound
from pgengram.service.answers import said
from pgengram.service.conversations import Conversations
from pgengram.ui.pages.page_application import PageApplication
from pgengram.ui.view_data.query_values import whole_number
from pgengram.ui.view_data.view_service import PAGE

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
        after, turns = await self._part(client, id_, whole_number(asked.get("after"), -1), asked.get("turn", ""))
        shown: dict[str, Any] = {"one": found[0], "turns": turns[:TURNS], "more": len(turns) > TURNS}
        return self._page("conversation.html", here="/conversations", after=after, **shown)

    async def _part(self, client: str, id_: str, after: int, wanted: str) -> tuple[int, list[dict[str, Any]]]:
        """Return the turns after one, and one more than a page has; from where on a page has the wanted one, if that is
        there.
        """
        while True:
            turns = await self._kept.turns(id_, client=client, after=after, limit=TURNS + 1)
            if not wanted or len(turns) <= TURNS or wanted in {str(turn["number"]) for turn in turns[:TURNS]}:
                return after, turns
            after = turns[TURNS - 1]["number"]

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
