"""What a person is shown of the memory in a card of the chat, where the host can show one."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from pgengram import fields as f
from pgengram.errors import InvalidInput
from pgengram.inputs import Question
from pgengram.service.tools import READS, tool
from pgengram.service.toolsets import Toolset
from pgengram.views import Read


class Card(Toolset):
    """The tool whose answer is for a person."""

    @tool(READS, title="Show memories")
    async def show_memories(
        self,
        query: Annotated[str, f.Text, Field(max_length=f.MAX_QUERY, description="What they are about.")] = "",
        ids: Annotated[list[f.BareId], f.AnyOf, Field(max_length=f.MAX_GET, description="Instead of a query.")] = [],  # noqa: B006
    ) -> Read:
        """Show memories to the user, who can correct or forget each in a card.

        Use when the user asks what you know or remember; to look something up yourself: search_memories. Without a
        query the newest. Error: NOT_FOUND.
        """
        if query and ids:
            raise InvalidInput("Give a query or ids, not both.")
        manager: Any = self.core
        chosen = ids
        if not ids:
            found = await manager.search_memories(Question(query=query, limit=f.USUAL_LIMIT))
            chosen = [hit["id"] for hit in found.results]
        if not chosen:
            return Read(memories=[], missing=[], note="Nothing is remembered about this.")
        shown: Read = await manager.get_memories(chosen, touch=False)
        return shown
