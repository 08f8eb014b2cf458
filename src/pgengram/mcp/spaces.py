"""How a call names a space: one argument of every tool, read here and nowhere else.

A tool that writes goes to the person's own memories unless a space is named; what searches or reads without naming one
looks into both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from pgengram.errors import InvalidInput, NotFound
from pgengram.mcp.binding import ToolBinding
from pgengram.service import merged
from pgengram.service.sharing import Sharing
from pgengram.service.spaces import PERSONAL
from pgengram.service.tools import tools_of
from pgengram.service.toolsets import offered
from pgengram.settings import TOOLSETS_BY_NAME_ONLY
from pgengram.store import membership

if TYPE_CHECKING:
    from pgengram.service.calls.arguments import Call
    from pgengram.service.manager import MemoryManager
    from pgengram.service.spaces import Spaces
    from pgengram.service.tools import Tool

ARGUMENT: Final = "space"
SCHEMA: Final = {"type": "string", "description": "A shared space, by name; without it the user's own memories."}
SCHEMA_OF_READING: Final = {
    "type": "string",
    "description": "Only this shared space, or 'personal'; without it the user's own memories and all their spaces.",
}
READS_ALL: Final = frozenset({"search_memories", "recall_context", "get_memories"})
# Tools of the person, which take no space or one of their own, and those whose arguments somebody else has fixed.
WITHOUT: Final = frozenset({"share_memories", "list_spaces", "search", "fetch"})
THERE: Final = "Memory {} is in the shared space {!r}."
NAME_IT: Final = "Call again with space={!r}."


class SpaceCalls:
    """Calls of one client that may name a space.

    Args:
        spaces: that it may use.
    """

    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces
        self.tools = tools_of(Sharing(spaces))

    def arguments_of(self, tool: Tool) -> dict[str, Any]:
        """Return the schema of the argument of a tool; nothing where it takes none."""
        if tool.name in WITHOUT:
            return {}
        return {ARGUMENT: SCHEMA_OF_READING if tool.name in READS_ALL else SCHEMA}

    def read(self, binding: ToolBinding, given: Mapping[str, Any]) -> Callable[[], Awaitable[Any]]:
        """Return a call that may be made.

        Raises:
            InvalidInput: an argument is wrong.
        """
        if binding.tool.name in WITHOUT:
            return binding.read(given).run
        rest = {name: value for name, value in given.items() if name != ARGUMENT}
        space = given.get(ARGUMENT) or ""
        if not isinstance(space, str):
            raise InvalidInput("space must be the name of one shared space.", "list_spaces names them.")
        call = binding.read(rest)
        return lambda: run(self._spaces, call, rest, space.strip())


async def run(spaces: Spaces, call: Call, given: Mapping[str, Any], space: str) -> Any:
    """Return what a tool answers in a space, or over all that may be read: `call` is that of one's own memories,
    `given` its arguments as they came, and `space` the name in them; empty for none.

    Raises:
        NoSuchSpace: it may not be used.
        NotAllowed: it may not be changed.
        NotFound: a memory is in a space that was not named.
    """
    name = call.tool.name
    if space and space != PERSONAL:
        return await _in_space(spaces, call, space)
    if space or name not in READS_ALL:
        try:
            return await call.run()
        except NotFound as error:
            raise await _with_whereabouts(spaces, given, error) from None
    if name == "search_memories":
        answer: BaseModel = await merged.searched(spaces, call.arguments["question"])
    elif name == "get_memories":
        answer = await merged.read(spaces, call.arguments["ids"], call.arguments.get("include", []))
    else:
        rest = {key: value for key, value in call.arguments.items() if key != "context"}
        answer = await merged.recalled(spaces, call.arguments.get("context", ""), rest)
    return _told(call.noted(answer), await spaces.notices())


async def _in_space(spaces: Spaces, call: Call, name: str) -> Any:
    space = await spaces.named(name)
    if not call.tool.hints.read_only:
        membership.refuse_reader(space.role)
    async with spaces.manager(space) as manager:
        return await replace(call, tool=_tool_of_space(manager, call.tool.name)).run()


def _tool_of_space(manager: MemoryManager, name: str) -> Tool:
    """Return the tool of a name as one of another manager."""
    tools = manager.tools
    if all(tool.name != name for tool in tools):
        tools = offered(manager, frozenset(TOOLSETS_BY_NAME_ONLY))
    return next(tool for tool in tools if tool.name == name)


async def _with_whereabouts(spaces: Spaces, given: Mapping[str, Any], error: NotFound) -> NotFound:
    """Return an error that says in which space a memory is that was looked for among one's own."""
    ids = [one for one in (given.get("id"), *(given.get("ids") or [])) if isinstance(one, str)]
    where = await merged.whereabouts(spaces, ids) if ids else None
    if where is not None:
        error.message, error.hint = THERE.format(ids[0], where), NAME_IT.format(where)
    return error


def _told(answer: BaseModel, notices: list[str]) -> BaseModel:
    """Return an answer with what the person is to be told."""
    if not notices:
        return answer
    told = "Tell the user: " + " ".join(notices)
    said = getattr(answer, "note", None)
    return answer.model_copy(update={"note": f"{told} {said}" if said else told})
