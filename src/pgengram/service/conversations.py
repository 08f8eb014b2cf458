"""Keeping conversations word for word, without secrets and without the bulk of what tools print."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pgengram import fields as f
from pgengram.errors import Conflict
from pgengram.store.assistant import conversations as store
from pgengram.store.assistant import recall_receipts
from pgengram.store.assistant.conversations import Conversation, Keeping, Turn
from pgengram.text.secrets.redaction import redacted

if TYPE_CHECKING:
    from pgengram.service.core import Core
    from pgengram.store.connection.database import Row

MAX_CHARS: Final = {"user": 200_000, "assistant": 200_000, "tool": 2_000}  # of one turn
SCREENED: Final = 4  # times as much is searched for secrets, so that none is cut in two
CATCHES_UP: Final = 3  # earlier conversations whose end may have been missed
NAME: Final = 256  # characters of an id, a title or a project
BEGINS: Final = 120  # characters that are shown of how a conversation begins

Read = Callable[[str, str, int], Sequence[Turn]]  # a transcript's path, a conversation's id and the last number read


@dataclass(slots=True)
class Brought:
    """What bringing in turns came to: the places of those that are new, and of those among them that were shortened;
    how many had secrets.
    """

    added: list[int] = field(default_factory=list)
    shortened: list[int] = field(default_factory=list)
    redacted: int = 0


class Conversations:
    """The conversations of one namespace.

    Args:
        core: whose they are.
    """

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._projects = core.projects
        self._silence = core.silence
        self._matched: set[tuple[str, str, int]] = set()  # turns that stand for one that was brought

    async def keep(self, conversation: Conversation, read: Callable[[int], Sequence[Turn]]) -> int:
        """Keep what was said since the last time, each turn once; return how many turns are new.

        Args:
            conversation: which.
            read: returns the turns after a number.
        """
        async with self._store.transaction() as tx:
            keeping = await store.keeping(tx)
            last = await store.begin(tx, conversation)
            turns = await asyncio.to_thread(read, last)
            if not turns:
                return 0
            said = [turn for turn in turns if turn.text]
            kept = [_fit_to_keep(turn) for turn in said] if keeping.keeps else []
            added = await store.keep(tx, conversation, kept, keeping.keep_days)
            await store.read_to(tx, conversation, turns[-1].number, said[-1].time if said else None)
        self._silence.note(spoken=True)
        return added

    async def bring(self, said: Sequence[tuple[Conversation, Turn]], *, dry_run: bool = False) -> Brought:
        """Keep turns of conversations from elsewhere, each once; they stay until they are erased.

        Args:
            said: in any order, of any conversations.
            dry_run: change nothing.
        """
        brought = Brought()
        named = {conversation: _named(conversation) for conversation in {conversation for conversation, _ in said}}
        said = [(named[conversation], turn) for conversation, turn in said]
        places = await self._new_numbers(said)
        kept = await asyncio.to_thread(lambda: [_fitted(said[place][1]) for place in places])
        fresh = [(said[place][0], turn) for place, (turn, _) in zip(places, kept, strict=True)]
        known = await self._known_otherwise(fresh)
        turns: list[tuple[Conversation, Turn]] = []
        for at, (place, (_, secrets)) in enumerate(zip(places, kept, strict=True)):
            if at not in known:
                turns.append(fresh[at])
                brought.added.append(place)
                brought.redacted += secrets
                if said[place][1].role != "tool" and _too_long(said[place][1]):
                    brought.shortened.append(place)
        if turns and not dry_run:
            async with self._store.transaction() as tx:
                await store.bring(tx, turns)
            self._silence.note(spoken=True)
        return brought

    async def _new_numbers(self, turns: Sequence[tuple[Conversation, Turn]]) -> list[int]:
        """Return the places of turns whose number their conversation doesn't have yet, of each number the first."""
        there = await self._store.read_transaction(lambda tx: store.known(tx, turns))
        places: dict[tuple[str, str, int], int] = {}
        for place, (conversation, turn) in enumerate(turns):
            places.setdefault((conversation.client, conversation.id, turn.number), place)
        return [place for key, place in places.items() if key not in there]

    async def _known_otherwise(self, turns: Sequence[tuple[Conversation, Turn]]) -> set[int]:
        """Return the places of turns that hooks have kept under numbers of their own, or the other way round; each of
        those stands for one turn, however often the same was said.
        """
        if not turns:
            return set()
        known: set[int] = set()
        for place, number in await self._store.read_transaction(lambda tx: store.same(tx, turns)):
            key = (turns[place][0].client, turns[place][0].id, number)
            if place not in known and key not in self._matched:
                self._matched.add(key)
                known.add(place)
        return known

    async def keep_told(self, conversation: Conversation, said: tuple[str, str], at: datetime) -> bool:
        """Keep what an event tells, by role and text; return whether it is new.

        It is not if it was told before at this moment, as a hook that got no answer leaves it for the next server; nor
        if it is the last turn, as a client runs a hook again that it had to kill.
        """
        async with self._store.transaction() as tx:
            keeping = await store.keeping(tx)
            last = await store.begin(tx, conversation)
            turn = _fit_to_keep(Turn(last + 1, *said, at))
            if not keeping.keeps or await store.is_kept(tx, conversation, turn):
                return False
            await store.keep(tx, conversation, [turn], keeping.keep_days)
            await store.read_to(tx, conversation, turn.number, at)
        self._silence.note(spoken=True)
        return True

    async def catch_up(self, current: Conversation, read: Read) -> None:
        """Keep the end of earlier conversations whose client ended before its hook could run."""
        async with self._store.transaction() as tx:
            earlier = await store.unfinished(tx, current, CATCHES_UP)
            await store.forget_old(tx, await store.keeping(tx))
        for one in earlier:
            await self.keep(one, partial(read, one.transcript or "", one.id))

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

    async def state(self) -> dict[str, Any]:
        """Return whether conversations are kept, how long, and how much there is."""
        async with self._store.transaction() as tx:
            keeping, counted = await store.keeping(tx), await store.counted(tx)
        oldest = counted.pop("oldest", None)
        counts = {**counted, "oldest": f.as_utc(oldest)} if oldest else counted
        return {"kept": keeping.keeps, "keep_days": keeping.keep_days, **counts}

    async def listed(
        self, where: Mapping[str, str | None], *, limit: int = 20, offset: int = 0
    ) -> list[dict[str, Any]]:
        """Return the conversations of which turns are kept, the latest first: of a client, id or project, or all."""
        rows = await self._store.read_transaction(
            lambda tx: store.listed(tx, self._chosen(where), limit=limit, offset=offset, chars=BEGINS)
        )
        utc = [{"at": f.as_utc(row["at"]), "began_at": f.as_utc(row["began_at"])} for row in rows]
        return [{**row, **times, "project": self._meant(row["project"])} for row, times in zip(rows, utc, strict=True)]

    async def turns(self, beginning: str, **part: Any) -> list[dict[str, Any]]:
        """Return the turns of the latest conversation whose id begins so, in their order; see `store.turns`."""
        rows = await self._store.read_transaction(lambda tx: store.turns(tx, beginning, **part))
        return [{**row, "time": f.as_utc(row["time"])} for row in rows]

    async def receipts(self, conversation: str | None, **part: int) -> list[Row]:
        """Return what was put before models, of one conversation or all, latest first; see `recall_receipts.listed`."""
        rows = await self._store.read_transaction(
            lambda tx: recall_receipts.listed(tx, conversation=conversation, **part)
        )
        return [{**row, "project": self._meant(row["project"])} for row in rows]

    async def counted(self, where: Mapping[str, str | None]) -> Row:
        """Return how many turns and conversations of a client, conversation or project are kept."""
        return await self._store.read_transaction(lambda tx: store.counted(tx, self._chosen(where)))

    async def erase(self, where: Mapping[str, str | None], expected: int | None = None) -> int:
        """Take away the turns of one client, conversation or project, or all; return how many there were.

        They don't come again: how far each conversation was read is still known.

        Raises:
            Conflict: it would not be the expected number.
        """
        async with self._store.transaction() as tx:
            erased = await store.erase(tx, self._chosen(where))
            if expected not in (None, erased):
                raise Conflict("These conversations changed after they were shown.", "Nothing was erased. Look again.")
        return erased

    def _meant(self, project: str | None) -> str | None:
        return None if project is None else self._projects.names().meant(project)

    def _chosen(self, where: Mapping[str, str | None]) -> store.Chosen:
        """Return which conversations are meant; a project by all its names."""
        projects = self._projects.names().in_small_letters(where.get("project"))
        return {name: value for name, value in where.items() if name != "project"} | {"projects": projects}


def _fit_to_keep(turn: Turn) -> Turn:
    return _fitted(turn)[0]


def _named(conversation: Conversation) -> Conversation:
    """Return a conversation whose names are no longer than names are, and without what PostgreSQL refuses or nobody may
    see.
    """
    names: dict[str, Any] = {
        name: _clean(value)[:NAME] if (value := getattr(conversation, name)) else value
        for name in ("id", "project", "title")
    }
    return replace(conversation, **names | {"title": redacted(names["title"])[0] if names["title"] else None})


def _clean(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _too_long(turn: Turn) -> bool:
    return len(turn.text) > MAX_CHARS[turn.role]


def _fitted(turn: Turn) -> tuple[Turn, bool]:
    """Return a turn without secrets, no longer than one may be, with nothing that PostgreSQL refuses; and whether there
    were secrets.
    """
    most = MAX_CHARS[turn.role]
    text, names = redacted(_clean(turn.text[: most * SCREENED]))
    left = len(turn.text) - most
    shown = text if left <= 0 else f"{text[:most]}\n[{left:,} characters left out]"
    return replace(turn, text=shown), bool(names)
