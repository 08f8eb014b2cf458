"""Bringing turns in, so that each is there once: whichever file, copy, fork or hook brings it, in whatever order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from pgengram.store.assistant import turn_arrivals as store
from pgengram.store.assistant.conversations import Turn, source_key
from pgengram.store.assistant.turn_arrivals import Name, Said, Stored, digest_of, name_of
from pgengram.store.connection.database import Transaction
from pgengram.text.secrets.redaction import redacted

MAX_CHARS: Final = {"user": 200_000, "assistant": 200_000, "tool": 2_000}  # of one turn
SCREENED: Final = 4  # times as much is searched for secrets, so that none is cut in two


@dataclass(slots=True)
class Brought:
    """What bringing in turns came to: the places of those that are new, and of those among them that were shortened;
    how many had secrets.
    """

    added: list[int] = field(default_factory=list)
    shortened: list[int] = field(default_factory=list)
    redacted: int = 0


class Arrivals:
    """Turns that come in one after the other.

    A turn that its conversation has under the same key is known; if it says more now, its text is replaced. One that is
    byte for byte the same in another conversation of the client is a copy of that, and what a fork begins with is a copy
    of what it was forked from. What an event told gets its key once a file names it. Of two states of a conversation the
    later one decides which turns were taken back.

    Args:
        imported: whether the turns stay until they are erased.
        dry_run: change nothing.
    """

    def __init__(self, *, imported: bool, dry_run: bool = False) -> None:
        self._imported = imported
        self._dry_run = dry_run
        self._copying: dict[
            Name, tuple[int, Counter[tuple[str, str]]]
        ] = {}  # how far forks were read, and what may follow
        self._named: set[tuple[Name, int]] = set()  # turns without a key that one that was brought stands for

    async def bring(self, tx: Transaction, said: Sequence[Said], *, are_own: bool = False) -> Brought:
        """Bring turns in; the forks among them after the others, as these may be what they were forked from.

        Args:
            tx: of the namespace.
            said: the turns.
            are_own: whether forks are without the copies at their beginning already.
        """
        places: dict[Name | None, list[int]] = {None: []}
        for place, (one, _) in enumerate(said):
            places.setdefault(name_of(one) if one.forked_from else None, []).append(place)
        if said and not self._dry_run:
            await store.lock(tx, said, imported=self._imported)
        brought = Brought()
        for name, whole in places.items():
            own = await self.own(tx, [said[place] for place in whole]) if name and not are_own else range(len(whole))
            group = [whole[at] for at in own]
            part = await _Batch(self, [said[place] for place in group]).bring(tx)
            brought.added += [group[place] for place in part.added]
            brought.shortened += [group[place] for place in part.shortened]
            brought.redacted += part.redacted
        grown = {name_of(said[place][0]) for place in brought.added}
        if grown and not self._dry_run:
            await store.drop_copies(tx, grown)
        return brought

    async def own(self, tx: Transaction, said: Sequence[Said]) -> list[int]:
        """Return the places of the next turns of a conversation, without those at its beginning that are copies of what
        it was forked from; where their numbers begin anew, another file of it begins.
        """
        one = said[0][0] if said else None
        if one is None or one.forked_from is None:
            return list(range(len(said)))
        copies: set[int] = set()
        begins = 0
        for at in range(1, len(said) + 1):
            if at == len(said) or said[at][1].number <= said[at - 1][1].number:
                copies |= await self._copies(tx, said, begins, at)
                begins = at
        return [at for at in range(len(said)) if at not in copies]

    async def _copies(self, tx: Transaction, said: Sequence[Said], begins: int, ends: int) -> set[int]:
        """Return the places of copies between two places, all of one file."""
        one, first = said[begins][0], said[begins][1].number
        last, before = self._copying.get(name_of(one), (first, None))
        if before is None or first <= last:
            before = await store.before_fork(tx, one.client, str(one.forked_from))
        standing = [at for at in range(begins, ends) if not said[at][1].withdrawn]
        texts = [(said[at][1].role, digest_of(fitted(said[at][1])[0].text)) for at in standing] if before else []
        self._copying[name_of(one)] = said[ends - 1][1].number, before
        return set(standing[: store.copied(texts, before)])

    def stands_for(self, name: Name, number: int) -> bool:
        """Whether no other turn stands for one without a key yet; from now on this one does."""
        free = (name, number) not in self._named
        self._named.add((name, number))
        return free

    @property
    def changes(self) -> bool:
        """Whether anything is stored."""
        return not self._dry_run


class _Batch:
    """Some turns at once: of one fork, or of conversations that are none."""

    def __init__(self, arrivals: Arrivals, said: Sequence[Said]) -> None:
        self._arrivals = arrivals
        self._said = [
            (
                one,
                turn
                if turn.key is not None
                else replace(turn, key=source_key(one.id, turn.number, turn.role, turn.text)),
            )
            for one, turn in said
        ]
        self._new: set[tuple[str, int | None, str, datetime]] = set()
        self._fitted: dict[int, tuple[Turn, bool]] = {}
        self._there: dict[tuple[Name, int | None], list[Stored]] = {}
        self._elsewhere: dict[int, list[Stored]] = {}
        self._growing: dict[tuple[Name, int], Said] = {}
        self._taken_back: list[tuple[Name, int]] = []
        self._naming: list[tuple[Said, int]] = []

    async def bring(self, tx: Transaction) -> Brought:
        brought = Brought()
        if not self._said:
            return brought
        self._states = await store.states(tx, {name_of(one) for one, _ in self._said})
        standing, withdrawn = self._judged()
        await self._look_up(tx)
        unknown = [place for place in standing if not await self._is_known(tx, place)]
        fresh = await self._without_keyless(tx, unknown)
        await self._take_back(tx, withdrawn)
        for place in fresh:
            turn, secrets = self._fit(place)
            brought.added.append(place)
            brought.redacted += secrets
            if turn.role != "tool" and _too_long(self._said[place][1]):
                brought.shortened.append(place)
        if self._arrivals.changes:
            await self._store(tx, fresh)
        return brought

    # -- what was taken back -------------------------------------------------------------------------------------------

    def _judged(self) -> tuple[list[int], list[int]]:
        """Return the places of turns that stand, and of those that were taken back, as the latest state has it."""
        latest: dict[tuple[Name, int | None], int] = {}
        for place, (one, turn) in enumerate(self._said):
            key = name_of(one), turn.key
            if key not in latest or _moment(self._said[latest[key]][0].as_of) <= _moment(one.as_of):
                latest[key] = place
        standing: list[int] = []
        withdrawn: list[int] = []
        for place, (one, turn) in enumerate(self._said):
            state = self._states[name_of(one)]
            if turn.withdrawn != self._said[latest[name_of(one), turn.key]][1].withdrawn or turn.key is None:
                continue
            if _moment(one.as_of) >= _moment(state.as_of):
                (state.withdrawn.add if turn.withdrawn else state.withdrawn.discard)(turn.key)
                (withdrawn if turn.withdrawn else standing).append(place)
            elif not turn.withdrawn and turn.key not in state.withdrawn:
                standing.append(place)
        for one, _ in self._said:
            state = self._states[name_of(one)]
            state.as_of = max((at for at in (state.as_of, one.as_of) if at), default=None)
        return standing, withdrawn

    async def _take_back(self, tx: Transaction, places: Sequence[int]) -> None:
        for place in places:
            one, turn = self._said[place]
            self._taken_back += [
                (name_of(one), there.number) for there in self._there.pop((name_of(one), turn.key), ())
            ]
        asked = [(place, (self._said[place][0], self._fit(place)[0])) for place in places]
        for place, number in await store.keyless(tx, asked):
            name = name_of(self._said[place][0])
            if self._arrivals.stands_for(name, number):
                self._taken_back.append((name, number))

    # -- what is there already -----------------------------------------------------------------------------------------

    async def _look_up(self, tx: Transaction) -> None:
        for place, stored in (await store.by_key(tx, self._said)).items():
            one, turn = self._said[place]
            self._there[name_of(one), turn.key] = [there for there in stored if there.conversation == one.id]
            self._elsewhere[place] = [there for there in stored if there.conversation != one.id]

    async def _is_known(self, tx: Transaction, place: int) -> bool:
        """Whether a turn is there under its key, or is new from now on; one that says more than before grows."""
        one, turn = self._said[place]
        there = self._there.setdefault((name_of(one), turn.key), [])
        digests = {stored.digest for stored in there}
        if digest_of(turn.text) in digests:
            return True
        digest = digest_of(self._fit(place)[0].text)
        copies = {(stored.digest, stored.time) for stored in self._elsewhere.get(place, ())}
        if digest in digests or (digest, turn.time) in copies or (one.client, turn.key, digest, turn.time) in self._new:
            return True
        for stored in there:
            if await self._is_part(tx, place, stored):
                return True
        there.append(Stored(one.id, -1 - place, turn.role, turn.time, digest))
        self._new.add((one.client, turn.key, digest, turn.time))
        return False

    async def _is_part(self, tx: Transaction, place: int, stored: Stored) -> bool:
        """Whether a turn and one that is there are two states of the same; the one that says more stays."""
        one, (turn, _) = self._said[place][0], self._fit(place)
        if stored.role != turn.role:
            return False
        name = name_of(one)
        if stored.number < 0:  # it came with this batch
            text = self._fit(-1 - stored.number)[0].text
        else:
            grown = self._growing.get((name, stored.number))
            text = grown[1].text if grown else await store.text_of(tx, one, stored.number)
        if text.startswith(turn.text):
            return True
        if not turn.text.startswith(text):
            return False
        if stored.number < 0:
            self._fitted[-1 - stored.number] = turn, self._fit(place)[1]
        else:
            self._growing[name, stored.number] = one, turn
        return True

    async def _without_keyless(self, tx: Transaction, places: Sequence[int]) -> list[int]:
        """Return the places of turns that no turn without a key stands for; each of those gets the key."""
        asked = [(place, (self._said[place][0], self._fit(place)[0])) for place in places]
        known: set[int] = set()
        for place, number in await store.keyless(tx, asked) if asked else ():
            if place not in known and self._arrivals.stands_for(name_of(self._said[place][0]), number):
                known.add(place)
                self._naming.append((self._said[place], number))
        return [place for place in places if place not in known]

    # -- storing -------------------------------------------------------------------------------------------------------

    async def _store(self, tx: Transaction, fresh: Sequence[int]) -> None:
        if fresh:
            await store.add(tx, [(self._said[place][0], self._fit(place)[0]) for place in fresh])
        await store.name_turns(tx, self._naming)
        await store.grow(tx, [(said, number) for (_, number), said in self._growing.items()])
        await store.remove(tx, self._taken_back)
        await store.set_states(tx, {name: state for name, state in self._states.items() if state.as_of})

    def _fit(self, place: int) -> tuple[Turn, bool]:
        if place not in self._fitted:
            self._fitted[place] = fitted(self._said[place][1])
        return self._fitted[place]


def _moment(at: datetime | None) -> float:
    return at.timestamp() if at else float("-inf")


def _too_long(turn: Turn) -> bool:
    return len(turn.text) > MAX_CHARS[turn.role]


def clean(text: str) -> str:
    """Return a text without what PostgreSQL refuses."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def fitted(turn: Turn) -> tuple[Turn, bool]:
    """Return a turn without secrets, no longer than one may be, with nothing that PostgreSQL refuses; and whether there
    were secrets.
    """
    most = MAX_CHARS[turn.role]
    text, names = redacted(clean(turn.text[: most * SCREENED]))
    left = len(turn.text) - most
    shown = text if left <= 0 else f"{text[:most]}\n[{left:,} characters left out]"
    return replace(turn, text=shown), bool(names)
