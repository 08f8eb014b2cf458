"""Keeping conversations word for word, without secrets and without the bulk of what tools print."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pgengram import fields as f
from pgengram.errors import Conflict
from pgengram.service.turn_arrivals import Arrivals, Brought, fitted
from pgengram.store import conversations as store
from pgengram.store import turn_arrivals
from pgengram.store.conversations import Conversation, Keeping, Turn
from pgengram.text.secrets import redacted

if TYPE_CHECKING:
    from pgengram.service.core import Core
    from pgengram.store.connection.database import Row, Transaction

CATCHES_UP: Final = 3  # earlier conversations whose end may have been missed
NAME: Final = 256  # characters of an id, a title or a project
BEGINS: Final = 120  # characters that are shown of how a conversation begins

# Returns a conversation with what its transcript says of it, and the turns of that, of those up to a number at least
# the ones that were taken back since. The last one has no text, and says how far it goes.
Read = Callable[[Conversation, int], tuple[Conversation, Sequence[Turn]]]
Noting = Callable[
    ["Transaction", Collection[turn_arrivals.Name], Sequence[tuple[turn_arrivals.Name, int | None]]], Awaitable[None]
]


class Conversations:
    """The conversations of one namespace.

    Args:
        core: whose they are.
    """

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._projects = core.projects
        self._silence = core.silence
        self._told = core.told
        self._arrivals: dict[bool, Arrivals] = {}

    async def keep(self, conversation: Conversation, read: Read) -> int:
        """Keep what was said since the last time, and take back what was; return how many turns are new."""
        async with self._store.transaction() as tx:
            keeping = await store.keeping(tx)
            last, kept_from = await store.begin_conversation(tx, conversation)
            taken_back = await turn_arrivals.taken_back(tx, conversation)
            known, turns = await asyncio.to_thread(read, conversation, last)
            if not turns:
                return 0
            is_another = last > turns[-1].number  # file, which has the name now
            if is_another or _stands_any_again(turns, last, taken_back):
                known, turns = await asyncio.to_thread(read, conversation, -1)
            last = -1 if is_another else last
            said = [turn for turn in turns if turn.text]
            added = 0
            if keeping.keeps:
                after = _kept_after(keeping.keep_days, kept_from if last < 0 else None)
                kept = [turn for turn in said if _is_to_be_kept(turn, last, after, taken_back)]
                added = await _bring_kept(tx, known, kept)
            await store.read_to(tx, conversation, turns[-1].number, _time_of_last(said, last), kept=keeping.keeps)
        self._silence.note(spoken=True)
        return added

    async def bring(
        self, turns: Sequence[tuple[Conversation, Turn]], *, dry_run: bool = False, note: Noting | None = None
    ) -> Brought:
        """Keep turns of conversations from elsewhere, each once; they stay until they are erased.

        Args:
            turns: in any order, of any conversations.
            dry_run: change nothing.
            note: called in the transaction that stores them, with the names of the conversations and what is new.
        """
        named = {
            conversation: _with_short_names(conversation)
            for conversation in {conversation for conversation, _ in turns}
        }
        turns = [(named[conversation], turn) for conversation, turn in turns]
        arrivals = self._arrivals.setdefault(dry_run, Arrivals(imported=True, dry_run=dry_run))
        async with self._store.transaction() as tx:
            brought = await arrivals.bring(tx, turns)
            if note and not dry_run:
                await note(tx, {turn_arrivals.conversation_name(one) for one, _ in turns}, brought.stored)
        if brought.added and not dry_run:
            self._silence.note(spoken=True)
        return brought

    async def keep_told(self, conversation: Conversation, told: tuple[str, str], at: datetime, named: str = "") -> bool:
        """Keep what an event tells, by role and text; return whether it is new.

        It is not if it was told before at this moment, as a hook that got no answer leaves it for the next server; nor
        if it is the last turn, as a client runs a hook again that it had to kill, or that is in two of its files:
        unless the client calls it (`named`) another turn than the last one.
        """
        name = (conversation.client, conversation.id)
        is_another = bool(named) and self._told.get(name, named) != named
        if named:
            self._told |= {name: named}
        async with self._store.transaction() as tx:
            keeping = await store.keeping(tx)
            last, _ = await store.begin_conversation(tx, conversation)
            turn = fitted(Turn(last + 1, *told, at))[0]
            if not keeping.keeps or await store.is_kept(tx, conversation, turn, again=not is_another):
                return False
            await turn_arrivals.add_turns(tx, [turn_arrivals.turn_row(conversation, turn)])
            await store.read_to(tx, conversation, turn.number, at)
        self._silence.note(spoken=True)
        return True

    async def catch_up(self, current: Conversation, read: Read) -> None:
        """Keep the end of earlier conversations whose client ended before its hook could run."""
        async with self._store.transaction() as tx:
            earlier = await store.unfinished_conversations(tx, current, CATCHES_UP)
            await store.remove_old_turns(tx, await store.keeping(tx))
        for one in earlier:
            await self.keep(one, read)

    async def last_words(self, current: Conversation) -> list[Row]:
        """Return what each side said last in the latest other conversation about the same project."""
        return await self._store.read_transaction(lambda tx: store.last_words(tx, current))

    async def set_keeping(self, *, keeps: bool | None = None, keep_days: int | None = None) -> Keeping:
        """Change whether conversations are kept and how long, as far as it is given; return what holds now."""
        async with self._store.transaction() as tx:
            now = await store.keeping(tx)
            wanted = Keeping(now.keeps if keeps is None else keeps, now.keep_days if keep_days is None else keep_days)
            await store.set_keeping(tx, wanted)
        return wanted

    async def older_than(self, days: int) -> int:
        """Return how many turns would be erased if conversations were kept for so many days; imported ones stay."""
        return await self._store.read_transaction(lambda tx: store.older(tx, days))

    async def state(self) -> dict[str, Any]:
        """Return whether conversations are kept, how long, and how much there is."""
        async with self._store.transaction() as tx:
            keeping, counted = await store.keeping(tx), await store.count_kept(tx)
        oldest = counted.pop("oldest", None)
        counts = {**counted, "oldest": f.as_utc(oldest)} if oldest else counted
        return {"kept": keeping.keeps, "keep_days": keeping.keep_days, **counts}

    async def listed(
        self, where: Mapping[str, str | None], *, limit: int = 20, offset: int = 0
    ) -> list[dict[str, Any]]:
        """Return the conversations of which turns are kept, the latest first: of a client, id or project, or all."""
        rows = await self._store.read_transaction(
            lambda tx: store.list_kept(tx, self._chosen(where), limit=limit, offset=offset, chars=BEGINS)
        )
        utc = [{"at": f.as_utc(row["at"]), "began_at": f.as_utc(row["began_at"])} for row in rows]
        return [{**row, **times, "project": self._meant(row["project"])} for row, times in zip(rows, utc, strict=True)]

    async def turns(self, beginning: str, **part: Any) -> list[dict[str, Any]]:
        """Return the turns of the latest conversation whose id begins so, in their order; see `store.turns`."""
        rows = await self._store.read_transaction(lambda tx: store.turns(tx, beginning, **part))
        return [{**row, "time": f.as_utc(row["time"])} for row in rows]

    async def receipts(self, conversation: str | None, **part: int) -> list[Row]:
        """Return what was put before models, of one conversation or all, latest first; see `list_receipts`."""
        rows = await self._store.read_transaction(lambda tx: store.list_receipts(tx, conversation=conversation, **part))
        return [{**row, "project": self._meant(row["project"])} for row in rows]

    async def counted(self, where: Mapping[str, str | None]) -> Row:
        """Return how many turns and conversations of a client, conversation or project are kept."""
        return await self._store.read_transaction(lambda tx: store.count_kept(tx, self._chosen(where)))

    async def erase(self, where: Mapping[str, str | None], expected: int | None = None) -> int:
        """Take away the turns of one client, conversation or project, or all; return how many there were.

        They don't come again: how far each conversation was read is still known.

        Raises:
            Conflict: it would not be the expected number.
        """
        async with self._store.transaction() as tx:
            erased = await store.erase_turns(tx, self._chosen(where))
            if expected not in (None, erased):
                raise Conflict("These conversations changed after they were shown.", "Nothing was erased. Look again.")
        return erased

    def _meant(self, project: str | None) -> str | None:
        return None if project is None else self._projects.names().meant(project)

    def _chosen(self, where: Mapping[str, str | None]) -> store.Chosen:
        """Return which conversations are meant; a project by all its names."""
        projects = self._projects.names().in_small_letters(where.get("project"))
        return {name: value for name, value in where.items() if name != "project"} | {"projects": projects}


async def _bring_kept(tx: Transaction, conversation: Conversation, kept: Sequence[Turn]) -> int:
    """Store the turns of a conversation that cite nothing erased; return how many are new."""
    wanted = await _not_erased(tx, [(conversation, turn) for turn in kept])
    return len((await Arrivals(imported=False).bring(tx, wanted)).added)


def _kept_after(days: int, kept_from: datetime | None) -> datetime:
    """Return the moment from which on turns are kept: so many days ago, or later if they are kept only since."""
    old = datetime.now(UTC) - timedelta(days=days)
    return max(old, kept_from) if kept_from else old


def _is_to_be_kept(turn: Turn, last: int, after: datetime, taken_back: Collection[int | None]) -> bool:
    """Whether a turn is new and not too old, or was taken back, or may stand again."""
    return turn.withdrawn or turn.key in taken_back or (turn.number > last and turn.time > after)


def _time_of_last(said: Sequence[Turn], last: int) -> datetime | None:
    """Return when the last turn was said, of those after a number."""
    return next((turn.time for turn in reversed(said) if turn.number > last), None)


def _stands_any_again(turns: Sequence[Turn], last: int, taken_back: Collection[int | None]) -> bool:
    """Whether one of the turns that were read before may stand again after it was taken back."""
    return any(turn.number <= last and not turn.withdrawn and turn.key in taken_back for turn in turns)


async def _not_erased(tx: Transaction, turns: Sequence[turn_arrivals.Said]) -> list[turn_arrivals.Said]:
    """Return the turns but for copies of what was erased or off the record where they are copied from."""
    names = {(one.client, turn.copied_from[0]) for one, turn in turns if turn.copied_from}
    known = await turn_arrivals.known_conversations(tx, names) if names else {}

    def is_erased(one: Conversation, turn: Turn) -> bool:
        origin = known.get((one.client, turn.copied_from[0])) if turn.copied_from else None
        return bool(origin and origin.kept_from and turn.time <= origin.kept_from)

    return [(one, turn) for one, turn in turns if not is_erased(one, turn)]


def _with_short_names(conversation: Conversation) -> Conversation:
    """Return a conversation with short names, and without what PostgreSQL refuses or nobody may see."""
    names: dict[str, Any] = {
        name: turn_arrivals.clean(value)[:NAME] if (value := getattr(conversation, name)) else value
        for name in ("id", "project", "title", "forked_from")
    }
    return replace(conversation, **names | {"title": redacted(names["title"])[0] if names["title"] else None})
