"""What hooks of assistants are answered: what is known is put before the model, and what was said is kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pgengram import fields as f
from pgengram.errors import InvalidInput
from pgengram.local.events import Event, printed, read_event, read_transcript
from pgengram.runtime.context import ACTOR, COMMAND_LINE, EMBEDDED_BY
from pgengram.runtime.projects import Project
from pgengram.search.results.budget import recalled_line
from pgengram.service.answers import contexts, names_asked, said
from pgengram.service.answers.digest import Line, digest, grouped
from pgengram.service.conversations import Conversations
from pgengram.service.projects import instruction
from pgengram.service.spaces import space_of_project
from pgengram.store.connection.database import Role
from pgengram.store.conversations import Conversation, Receipt, add_receipts, receipts_given, turn_reference
from pgengram.text.markdown import fenced, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pgengram.service.manager import MemoryManager


BEGUN: Final = (
    "Long-term memory is connected (tools search_memories, create_memory and others). Search it for the topic of every "
    "task; store decisions, preferences, corrections and facts as they come up."
)
COMPACTED: Final = (
    "The conversation was just compacted. Store now with create_memories what the summary lists under “To remember”; "
    "search_memories finds what is missing."
)
COMPACTING: Final = (
    "End the summary with a list “To remember”: each decision with its reason, preference, correction, commitment and "
    "lasting fact of this conversation that was not stored in long-term memory yet, one self-contained sentence each, "
    "with names and absolute dates and without secrets."
)
NOT_STORED: Final = (
    " What is marked “not stored yet” was said last time: store what of it still holds, with the words in brackets "
    "among its sources."
)
KNOWN: Final = "Long-term memory knows this about it:"
SHARED: Final = "The shared space {} knows:\n{}"
LAST_WORDS_CHARS: Final = 400  # of what each side said last
NOT_STORED_CHARS: Final = 200  # of each turn that no memory has yet
CHARS_OF_TOKEN: Final = 4  # about, in English


@dataclass(frozen=True, slots=True)
class Asked:
    """What is said beside an event.

    Args:
        keeps: whether the conversation is kept, as far as the namespace's settings allow.
        at: when it happened; the same event told twice has the same moment.
        until: when the client gives up, in monotonic seconds; None where nobody waits for the answer.
    """

    keeps: bool
    at: datetime
    until: float | None


async def answer_event(
    manager: MemoryManager, client: str, given: dict[str, Any], asked: Asked, missed: set[tuple[str, str]]
) -> str:
    """Return what a client is to print at an event; empty for nothing.

    Args:
        manager: the memories.
        client: the assistant.
        given: the event, as the client describes it.
        asked: what is said beside it.
        missed: conversations whose beginning was answered too late.
    """
    event = read_event(client, given)
    if event.kind is None:
        return ""
    begins = (client, event.conversation) in missed
    project = manager.projects.of(event.folder)
    async with space_of_project(manager, project.name if project else None) as bound:
        is_kept_there = bound is not None and bound[0].role > Role.READ
        made = _Answer(manager, event, replace(asked, keeps=asked.keeps and not is_kept_there))
        text = await made.text(begins=begins)
        if bound is not None:
            space, shared = bound
            there = _Answer(shared, event, replace(asked, keeps=asked.keeps and is_kept_there), project)
            beside = await there.text_of_space(space.shown, begins=begins)
            text = "\n\n".join(filter(None, (text, beside)))
    if event.kind in ("start", "prompt") and event.listens:
        (missed.discard if made.is_in_time else missed.add)((client, event.conversation))
    return printed(event, text)


class _Answer:
    """The answer to one event.

    Args:
        manager: the memories.
        event: what happened.
        asked: what is said beside it.
    """

    def __init__(self, manager: MemoryManager, event: Event, asked: Asked, project: Project | None = None) -> None:
        self._manager = manager
        self._event = event
        self._asked = asked
        self._began = time.monotonic()
        self._project: Project | None = project or manager.projects.of(event.folder)
        name = self._project.name if self._project else None
        aliases = tuple(manager.projects.names().all_of(name)[1:]) if name else ()
        self._conversation = Conversation(event.client, event.conversation, name, event.transcript, aliases=aliases)

    @property
    def is_in_time(self) -> bool:
        """Whether the client still waits for the answer."""
        return self._asked.until is not None and time.monotonic() < self._asked.until

    async def text(self, *, begins: bool) -> str:
        """Keep what was said, and return what is to be put before the model.

        Args:
            begins: whether a prompt is answered as the beginning of the session, too.
        """
        if self._asked.keeps and self._event.conversation:
            await self._keep()
        if self._event.kind == "end":
            return await said.what_became(self._manager.store, self._conversation)
        match self._event.kind if self._event.listens else "":
            case "start":
                return await self._start()
            case "prompt":
                parts = [await self._start() if begins else "", await self._prompt()]
                return "\n\n".join(filter(None, parts))
            case "compact":
                return COMPACTING
        return ""

    async def text_of_space(self, name: str, *, begins: bool) -> str:
        """Keep what was said in the space that the project is bound to, and return what it knows."""
        if self._asked.keeps and self._event.conversation:
            await self._keep()
        if not self._event.listens:
            return ""
        is_prompt = self._event.kind == "prompt"
        parts = await self._digest() if self._event.kind == "start" or (begins and is_prompt) else []
        parts += await self._sure() if is_prompt else []
        return SHARED.format(name, fenced(parts)) if parts else ""

    async def _keep(self) -> None:
        conversations = Conversations(self._manager)
        if self._event.transcript is not None:
            await conversations.keep(self._conversation, read_transcript)
        if self._event.said:
            await conversations.keep_told(self._conversation, self._event.said, self._asked.at, self._event.turn)
        if self._event.kind == "start":
            await conversations.catch_up(self._conversation, read_transcript)

    async def _start(self) -> str:
        """Return the date, a digest for this project, and where the last conversation about it ended."""
        lines = await self._digest()
        if self._event.source == "resume":
            return fenced(lines) if lines else ""
        missing: list[str] = []
        if self._event.source != "compact":
            lines += await self._last_words()
            missing = await self._not_stored()
        begun = f"{names_asked.today()} " + (COMPACTED if self._event.source == "compact" else BEGUN)
        if self._project is not None:
            begun += f" {instruction(self._project)}"
        begun += NOT_STORED if missing else ""
        lines += missing
        return f"{begun}\n\n{fenced(lines)}" if lines else begun

    async def _digest(self) -> list[str]:
        """Return what is remembered for this project and was not told in this conversation yet, as lines."""
        project = self._conversation.project or ""
        always = await names_asked.standing(self._manager)
        known = await digest(self._manager, always, contexts.MAX_CHARS, user=None, project=project)
        return [*grouped(await self._logged(known))]

    async def _prompt(self) -> str:
        """Return what is known about what the user says, if that is sure enough."""
        lines = await self._sure()
        return f"{KNOWN}\n{fenced(lines)}" if lines else ""

    async def _sure(self) -> list[str]:
        rows = await contexts.sure_about(self._manager, self._event.prompt[: f.MAX_QUERY], self._conversation.project)
        known = await self._logged([Line(hit, None, recalled_line(hit)) for hit in rows], evidence="strong")
        return [line.text for line in known]

    async def _last_words(self) -> list[str]:
        """Return how the last conversation about this project ended, as lines."""
        last = await Conversations(self._manager).last_words(self._conversation)
        who = {"user": "the user", "assistant": "the assistant"}
        return [
            f"- The last conversation ({row['at']:%Y-%m-%d}) ended with {who[row['role']]} saying: "
            f"{one_line(row['text'][:LAST_WORDS_CHARS])}"
            for row in sorted(last, key=lambda row: str(row["role"]), reverse=True)
        ]

    async def _not_stored(self) -> list[str]:
        """Return what the user said last time that is likely to last and that no memory has yet, as lines."""
        found = await said.not_stored(self._manager.store, self._conversation)
        return [
            f"- Not stored yet, said on {row['time']:%Y-%m-%d} ({turn_reference(row)}): "
            + one_line(row["text"][:NOT_STORED_CHARS])
            for row in found
        ]

    async def _logged(self, known: Sequence[Line], evidence: str | None = None) -> list[Line]:
        """Return the memories that were not put before the model in this conversation yet, and log them.

        There are none once it is too late: they would be logged and never seen.
        """
        talk = self._conversation
        async with self._manager.store.transaction() as tx:
            before = await receipts_given(tx, talk.client, talk.id)
            in_time = known if self.is_in_time else []
            fresh = [line for line in in_time if (line.hit.id, line.hit.version) not in before]
            receipts = [
                Receipt(
                    line.hit.id,
                    line.hit.version,
                    line.hit.match.score if line.hit.match else None,
                    len(line.text) // CHARS_OF_TOKEN,
                )
                for line in fresh
            ]
            if receipts and not tx.read_only and tx.role > Role.READ:
                await add_receipts(
                    tx, receipts, **talk.key, event=self._event.name, project=talk.project, evidence=evidence,
                    milliseconds=round((time.monotonic() - self._began) * 1000),
                )  # fmt: skip
        return fresh


WORDS_S: Final = 0.5  # for an answer by words alone, where the model is still loading
CALLED: Final = ("search_memories", "get_memories", "create_memory")  # what commands ask for


async def answer_request(
    manager: MemoryManager, request: dict[str, Any], missed: set[tuple[str, str]]
) -> dict[str, Any]:
    """Return the answer to one request, once the store is open.

    A request is `{"hook": client, "event": …, "keeps": whether conversations are kept, "at": when it happened}`, its
    answer `{"print": text}`; or `{"call": tool, "arguments": {…}}`, its answer `{"answer": the tool's whole answer, as
    lines of JSON}`.

    Args:
        manager: the memories.
        request: if somebody waits for the answer, with `until`: when they give up; moments are seconds since 1970.
        missed: conversations whose beginning was answered too late; their next prompt makes up for it.

    Raises:
        InvalidInput: it is none.
        PgengramError: the store cannot be read or written now.
    """
    until = _given_up(request)
    if "hook" in request:
        await (
            manager.store.open()
        )  # without the model, which most events don't need: it would compete for the processor
        client, event = request["hook"], request.get("event")
        if not isinstance(client, str) or not isinstance(event, dict):
            raise InvalidInput("A hook request needs a client and an event.")
        ACTOR.set(f"{client} hook")
        EMBEDDED_BY.set(until and until - WORDS_S)
        at = request.get("at")
        happened = datetime.fromtimestamp(at, UTC) if isinstance(at, int | float) else datetime.now(UTC)
        asked = Asked(keeps=request.get("keeps") is True, at=happened, until=until)
        return {"print": await answer_event(manager, client, event, asked, missed)}
    if request.get("call") in CALLED:
        await manager.ready()
        ACTOR.set(COMMAND_LINE)
        return {"answer": await _called(manager, request["call"], request.get("arguments"))}
    raise InvalidInput("Unknown request.", f"Ask for a hook, or call one of {', '.join(CALLED)}.")


def _given_up(request: Mapping[str, Any]) -> float | None:
    """Return when whoever asked waits no more, in monotonic seconds; a busy server reads a request late."""
    until = request.get("until")
    return time.monotonic() + until - time.time() if isinstance(until, int | float) else None


async def _called(manager: MemoryManager, name: str, arguments: Any) -> str:
    """Call a tool for somebody who types, as the command line does without a server."""
    from pgengram.service.calls.arguments import Arguments
    from pgengram.service.tools import tools_of

    [taken] = [Arguments(tool) for tool in tools_of(manager) if tool.name == name]
    answer = await taken.read(arguments).run()
    return str(answer.model_dump_json(indent=2, exclude_none=True))
