"""Bringing turns in, so that each is there once: whichever file, copy, fork or hook brings it, in whatever order.

Every file says what it has of each turn of a conversation, as of its own state: that the turn stands there, or that it
was taken back. Of what is said of one turn in one conversation the latest counts; in the same state, that it was taken
back. A turn that several conversations have is stored in the one of them that began first. So each order of files comes
to the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from pgengram.store import turn_arrivals as store
from pgengram.store.connection.database import Transaction
from pgengram.store.conversations import Conversation, Turn, source_key
from pgengram.store.turn_arrivals import Fact, Known, Name, Said, clean, conversation_name, text_digest
from pgengram.text.secrets import redacted

MAX_CHARS: Final = {"user": 200_000, "assistant": 200_000, "tool": 2_000}  # of one turn
SCREENED: Final = 4  # times as much is searched for secrets, so that none is cut in two
LAST: Final = datetime.max.replace(tzinfo=UTC)  # a conversation that has only copies has not begun


@dataclass(slots=True)
class Brought:
    """What bringing in turns came to: the places of those that are new, and of those among them that were shortened;
    how many had secrets; and the conversation and id of each that is new, and of each that was there.
    """

    added: list[int] = field(default_factory=list)
    stored: list[tuple[Name, int | None]] = field(default_factory=list)
    known: list[tuple[Name, int | None]] = field(default_factory=list)
    shortened: list[int] = field(default_factory=list)
    redacted: int = 0


class Arrivals:
    """Turns that come in one batch after the other.

    Args:
        imported: whether the turns stay until they are erased.
        dry_run: change nothing.
    """

    def __init__(self, *, imported: bool, dry_run: bool = False) -> None:
        self.imported = imported
        self.dry_run = dry_run
        self._named: set[tuple[Name, int]] = set()  # turns without a key that one that was brought stands for

    async def bring(self, tx: Transaction, said: Sequence[Said]) -> Brought:
        """Bring turns in.

        Args:
            tx: of the namespace.
            said: the turns.
        """
        turns = [
            (place, (one, turn if turn.key is not None else _keyed(one, turn)))
            for place, (one, turn) in enumerate(said)
            if not turn.from_history
        ]
        copies = [(place, copied) for place, one in turns if (copied := _original(*one))]
        facts = [*turns, *copies]
        await self._lock(tx, facts)
        brought = await _Batch(self, facts).bring(tx) if facts else Brought()
        prompts = [(place, one) for place, one in enumerate(said) if one[1].from_history]
        if prompts:
            await self._bring_prompts(tx, prompts, brought)
        return brought

    async def _lock(self, tx: Transaction, said: Sequence[tuple[int, Said]]) -> None:
        """Lock the conversations of turns that are going to be stored."""
        if said and not self.dry_run:
            await store.lock_conversations(tx, [one for _, one in said], imported=self.imported)

    async def _bring_prompts(self, tx: Transaction, prompts: Sequence[tuple[int, Said]], brought: Brought) -> None:
        """Store the prompts of conversations that no other source has."""
        fits = {place: fitted(turn) for place, (_, turn) in prompts}
        asked = [(place, (one, fits[place][0])) for place, (one, _) in prompts]
        known = await store.known_prompts(tx, asked)
        fresh = [(place, one) for place, one in asked if place not in known]
        if fresh and not self.dry_run:
            await self._lock(tx, fresh)
            ids = await store.add_turns(tx, [store.turn_row(*one) for _, one in fresh])
            brought.stored += [
                (conversation_name(one), id_) for (_, (one, _)), (_, id_) in zip(fresh, ids, strict=True)
            ]
        brought.added += [place for place, _ in fresh]
        brought.redacted += sum(fits[place][1] for place, _ in fresh)

    def stands_for(self, name: Name, id_: int) -> bool:
        """Whether no other turn stands for one without a key yet; from now on this one does."""
        free = (name, id_) not in self._named
        self._named.add((name, id_))
        return free


def _keyed(conversation: Conversation, turn: Turn) -> Turn:
    return replace(turn, key=source_key(conversation.id, turn.number, turn.role, turn.text))


def _original(conversation: Conversation, turn: Turn) -> Said | None:
    """Return a turn that was copied from another conversation as that one has it."""
    if turn.copied_from is None:
        return None
    id_, as_of = turn.copied_from
    original = replace(conversation, id=id_, as_of=as_of, title=None, began_at=None, forked_from=None)
    return original, replace(turn, withdrawn=False, copied_from=None)


class _Batch:
    """What some files say of turns, put together with what is known of them.

    Args:
        arrivals: to which it belongs.
        said: the turns, each with its place; one that was copied comes once for each conversation.
    """

    def __init__(self, arrivals: Arrivals, said: Sequence[tuple[int, Said]]) -> None:
        self._arrivals = arrivals
        self._said = [one for _, one in said]
        self._place_of = [place for place, _ in said]
        self._facts: dict[tuple[Name, int], list[Fact]] = {}
        self._withdrawn: dict[tuple[Name, int], Fact] = {}
        self._before: dict[int, dict[str, Any]] = {}  # facts as they were, by their identity
        self._hidden: list[Fact] = []  # as they were
        self._texts: dict[int, int] = {}  # which said what a new fact says
        self._grown: dict[int, tuple[Fact, int]] = {}
        self._fitted: dict[int, tuple[Turn, bool]] = {}
        self._spare: dict[tuple[int, str], tuple[str, str | None]] = {}  # texts that nothing else may have any more
        self._removed: list[tuple[Name, int | None]] = []
        self._added: list[tuple[Fact, int | None, Fact | None]] = []  # with what was said, or what has the text

    async def bring(self, tx: Transaction) -> Brought:
        """Merge what was said, and store what comes of it."""
        touched = [*map(_name_and_key, self._said)]
        self._take(await store.by_key(tx, {(name[0], key) for name, key in touched}))
        fresh: list[int] = []
        taken_back: list[int] = []
        for at, (_, turn) in enumerate(self._said):
            if turn.withdrawn:
                taken_back += [at] if self._take_back(at) else []
            elif await self._is_new(tx, at):
                fresh.append(at)
        await self._without_keyless(tx, fresh, taken_back)
        families = await self._align(tx, {name for name, _ in touched})
        await self._know(tx)
        self._settle([*touched, *families])
        if not self._arrivals.dry_run:
            await self._store(tx)
        return self._brought()

    def _take(self, facts: Sequence[Fact]) -> None:
        """Note what is known already."""
        known = {(fact.name, fact.key, fact.withdrawn, fact.digest) for fact in self._all()}
        for fact in facts:
            if (fact.name, fact.key, fact.withdrawn, fact.digest) in known:
                continue
            if fact.withdrawn:
                self._withdrawn[fact.name, fact.key] = fact
            else:
                self._facts.setdefault((fact.name, fact.key), []).append(fact)
            self._before[id(fact)] = {**fact.row, "stored": fact.stored}
            if not fact.stored:
                self._hidden.append(fact)

    def _all(self) -> Iterator[Fact]:
        yield from self._withdrawn.values()
        for facts in self._facts.values():
            yield from facts

    # -- merging -------------------------------------------------------------------------------------------------------

    def _take_back(self, at: int) -> bool:
        """Note that a turn was taken back; return whether that is the latest of it."""
        one, turn = self._said[at]
        name, key = _name_and_key(self._said[at])
        before = self._withdrawn.get((name, key))
        if before is None or _as_of_seconds(one.as_of) > _as_of_seconds(before.as_of):
            digest = text_digest(self._fit(at)[0].text)
            fact = Fact(name, key, digest, turn.role, turn.number, turn.time, one.as_of, withdrawn=True)
            self._withdrawn[name, key] = fact
        return all(_as_of_seconds(one.as_of) >= _as_of_seconds(fact.as_of) for fact in self._facts.get((name, key), ()))

    async def _is_new(self, tx: Transaction, at: int) -> bool:
        """Whether a turn stands that was not known; what is known of it is as of its state, too, from now on."""
        one, turn = self._said[at]
        name, key = _name_and_key(self._said[at])
        taken_back = self._withdrawn.get((name, key))
        if taken_back and _as_of_seconds(one.as_of) <= _as_of_seconds(taken_back.as_of):
            return False
        there = self._facts.setdefault((name, key), [])
        known, digest = await self._known(tx, at, there)
        if known is None:
            known = Fact(name, key, digest, turn.role, turn.number, turn.time, one.as_of)
            self._texts[id(known)] = at
            there.append(known)
            return True
        if not known.stored and id(known) not in self._texts and known.digest == digest:
            self._texts[id(known)] = at  # nothing may be stored of it anywhere any more
        known.as_of = max(known.as_of, one.as_of, key=_as_of_seconds)
        known.time = min(known.time, turn.time)
        return False

    async def _known(self, tx: Transaction, at: int, there: Sequence[Fact]) -> tuple[Fact | None, str]:
        """Return what is known of a turn already, and the digest that it has here."""
        digest = text_digest(self._said[at][1].text)
        known = _with_digest(there, digest)
        if known is None:
            digest = text_digest(self._fit(at)[0].text)
            known = _with_digest(there, digest) or await self._part(tx, at, there)
        return known, digest

    async def _part(self, tx: Transaction, at: int, there: Sequence[Fact]) -> Fact | None:
        """Return the turn of which this is another state, with the text of the one that says more."""
        turn = self._fit(at)[0]
        for fact in there:
            text = await self._text_of(tx, fact) if fact.role == turn.role else ""
            if text and text.startswith(turn.text):
                return fact
            if text and turn.text.startswith(text):
                self._spare[fact.origin, fact.digest] = text, self._said[at][0].project
                fact.digest = text_digest(turn.text)
                if fact.stored:
                    self._grown[id(fact)] = fact, at
                else:
                    self._texts[id(fact)] = at
                return fact
        return None

    async def _text_of(self, tx: Transaction, fact: Fact) -> str:
        if id(fact) in self._grown:
            return self._fit(self._grown[id(fact)][1])[0].text
        if id(fact) in self._texts:
            return self._fit(self._texts[id(fact)])[0].text
        alike = [
            one
            for one in self._all()
            if one.stored and (one.origin, one.digest) == (fact.origin, fact.digest) and id(one) not in self._grown
        ]
        return (await store.turn_text(tx, fact if fact.stored else alike[0]))[0] if fact.stored or alike else ""

    async def _without_keyless(self, tx: Transaction, fresh: Sequence[int], taken_back: Sequence[int]) -> None:
        """Give new turns the place of those without a key that say the same; take those away that were taken back."""
        of = {at: fact for (fact, at) in ((fact, self._texts.get(id(fact))) for fact in self._all()) if at is not None}
        asked = [(at, (self._said[at][0], self._fit(at)[0])) for at in (*fresh, *taken_back)]
        named: set[int] = set()
        for at, number, id_ in await store.keyless(tx, asked):
            name = conversation_name(self._said[at][0])
            if at in named or not self._arrivals.stands_for(name, id_):
                continue
            if self._said[at][1].withdrawn:
                self._removed.append((name, id_))
            elif at in of:
                named.add(at)
                of[at].number, of[at].id, of[at].stored = number, id_, True
                self._grown[id(of[at])] = of[at], self._texts.pop(id(of[at]))

    # -- forks ---------------------------------------------------------------------------------------------------------

    async def _align(self, tx: Transaction, names: set[Name]) -> list[tuple[Name, int]]:
        """Find which turns at the beginning of forks are copies; return the turns of all that are related."""
        forked = await store.family(tx, names)
        forked |= {
            conversation_name(one): (one.client, one.forked_from)
            for one, _ in self._said
            if one.forked_from not in (None, one.id)
        }  # fmt: skip
        if not forked:
            return []
        family = {*forked, *forked.values()}
        self._take(await store.of_conversations(tx, family))
        of: dict[Name, list[Fact]] = {name: [] for name in family}
        for fact in self._all():
            if fact.name in family:
                of[fact.name].append(fact)
        for name in sorted(forked, key=lambda one: _forks_before(forked, one)):
            await self._note_copies(tx, _by_place(of[name]), _by_place(of[forked[name]]))
        return [(fact.name, fact.key) for facts in of.values() for fact in facts]

    async def _note_copies(self, tx: Transaction, fork: list[list[Fact]], before: list[list[Fact]]) -> None:
        """Note of the turns of a fork which are copies of those of the conversation before it."""
        copies = _copied_facts([alike[0] for alike in fork], [alike[0] for alike in before])
        for place, alike in enumerate(fork):
            copied = copies[place].origin if place < len(copies) else None
            for fact in alike:
                if copied is None and fact.copy_of is not None and not fact.stored and not fact.withdrawn:
                    self._spare[fact.key, fact.digest] = await self._text_of(tx, fact), None
                fact.copy_of = copied

    def _stands(self, fact: Fact) -> bool:
        taken_back = self._withdrawn.get((fact.name, fact.key))
        return not fact.withdrawn and (
            taken_back is None or _as_of_seconds(fact.as_of) > _as_of_seconds(taken_back.as_of)
        )

    # -- where each is stored ------------------------------------------------------------------------------------------

    async def _know(self, tx: Transaction) -> None:
        """Learn when the conversations began."""
        self._began = {name: row["began_at"] or LAST for name, row in store.about_conversations(self._said).items()}
        known: dict[Name, Known] = await store.known_conversations(tx, {fact.name for fact in self._all()})
        for name, one in known.items():
            self._began[name] = min(one.began_at or LAST, self._began.get(name, LAST))

    def _settle(self, touched: Sequence[tuple[Name, int]]) -> None:
        """Decide of each turn in which conversation it is stored."""
        for alike in self._alike(touched):
            self._settle_group(alike)
        for place, facts in self._facts.items():
            self._facts[place] = [fact for fact in facts if self._stands(fact) or fact.stored]

    def _alike(self, touched: Sequence[tuple[Name, int]]) -> list[list[Fact]]:
        """Return what is known of each turn that was touched, from all conversations that have it."""
        origins = {(name[0], fact.origin) for name, key in touched for fact in self._facts.get((name, key), ())}
        known = [fact for facts in self._facts.values() for fact in facts]
        explicit = {(fact.name[0], fact.copy_of) for fact in known}
        groups: dict[tuple[Any, ...], list[Fact]] = {}
        for fact in known:
            group = fact.name[0], fact.origin
            if group in origins:  # ids that a client gives twice are no copies; those have the same time
                time = None if group in explicit else fact.time
                groups.setdefault((*group, fact.role, fact.digest, time), []).append(fact)
        return [*groups.values()]

    def _settle_group(self, facts: Sequence[Fact]) -> None:
        standing = [fact for fact in facts if self._stands(fact)]
        stored = [fact for fact in facts if fact.stored]
        owner = min(standing, key=lambda one: (self._began.get(one.name, LAST), one.name), default=None)
        if owner and not owner.stored:
            self._add(owner, facts, stored)
        for fact in stored:
            if fact is not owner:
                self._removed.append((fact.name, fact.id))
                fact.stored, fact.id = False, None

    def _add(self, owner: Fact, alike: Sequence[Fact], stored: Sequence[Fact]) -> None:
        """Note that a turn is to be stored, if its text can be had: from one that is, from a file, or to spare."""
        texts = [self._texts[id(fact)] for fact in alike if id(fact) in self._texts]
        if stored:
            self._added.append((owner, None, replace(stored[0])))
        elif texts:
            self._added.append((owner, texts[0], None))
        elif (owner.origin, owner.digest) in self._spare:
            self._added.append((owner, None, None))

    # -- storing -------------------------------------------------------------------------------------------------------

    async def _store(self, tx: Transaction) -> None:
        await store.grow(tx, [(fact, self._fit(at)[0].text) for fact, at in self._grown.values()])
        rows = [await self._row(tx, *added) for added in self._added]
        await store.remove_turns(tx, self._removed)
        places = await store.add_turns(tx, rows) if rows else []
        for (fact, _, _), (number, id_) in zip(self._added, places, strict=True):
            fact.number, fact.id, fact.stored = number, id_, True
        await self._store_changes(tx, new={id(fact) for fact, _, _ in self._added})

    async def _store_changes(self, tx: Transaction, new: set[int]) -> None:
        """Store what changed of turns that are not new, and what is known of turns that are stored elsewhere."""
        changed = [fact for fact in self._all() if not self._is_as_before(fact)]
        await store.renew_turns(tx, [fact for fact in changed if fact.stored and id(fact) not in new])
        await store.set_hidden(tx, self._hidden_no_longer(), [fact for fact in changed if not fact.stored])

    def _hidden_no_longer(self) -> list[dict[str, Any]]:
        """Return what was known of turns stored elsewhere, as it was, where that has changed."""
        stays = {id(fact) for fact in self._all() if not fact.stored and self._is_as_before(fact)}
        return [self._before[id(fact)] for fact in self._hidden if id(fact) not in stays]

    async def _row(self, tx: Transaction, fact: Fact, at: int | None, source: Fact | None) -> dict[str, Any]:
        """Return a turn to be added as a row: with the text of one that is stored, that was brought, or is to spare."""
        if source is not None:
            text, project = await store.turn_text(tx, source)
        elif at is not None:
            text, project = self._fit(at)[0].text, self._said[at][0].project
        else:
            text, project = self._spare[fact.origin, fact.digest]
        return {**fact.row, "text": text, "project": project, "id": None if at is None else self._said[at][1].id}

    def _is_as_before(self, fact: Fact) -> bool:
        return self._before.get(id(fact)) == {**fact.row, "stored": fact.stored}

    def _known_turns(self) -> Iterator[tuple[Name, int | None]]:
        """Yield the name and id of what was said and was stored before."""
        new = {id(fact) for fact, at, _ in self._added if at is not None}
        for said in self._said:
            facts = self._facts.get(_name_and_key(said), ())
            yield from ((fact.name, fact.id) for fact in facts if fact.stored and id(fact) not in new)

    def _brought(self) -> Brought:
        brought = Brought(
            stored=[(fact.name, fact.id) for fact, at, _ in self._added if at is not None], known=[*self._known_turns()]
        )
        for at in sorted(at for _, at, _ in self._added if at is not None):
            place, turn = self._place_of[at], self._said[at][1]
            brought.added.append(place)
            brought.redacted += self._fit(at)[1]
            if turn.role != "tool" and len(turn.text) > MAX_CHARS[turn.role]:
                brought.shortened.append(place)
        return brought

    def _fit(self, at: int) -> tuple[Turn, bool]:
        if at not in self._fitted:
            self._fitted[at] = fitted(self._said[at][1])
        return self._fitted[at]


def _name_and_key(said: Said) -> tuple[Name, int]:
    conversation, turn = said
    return conversation_name(conversation), turn.key or 0


def _with_digest(facts: Sequence[Fact], digest: str) -> Fact | None:
    return next((fact for fact in facts if fact.digest == digest), None)


def _by_place(facts: Sequence[Fact]) -> list[list[Fact]]:
    """Return what a conversation has of each turn, in its order."""
    found: dict[int, list[Fact]] = {}
    for fact in sorted(facts, key=lambda one: (one.number, one.withdrawn)):
        found.setdefault(fact.key, []).append(fact)
    return list(found.values())


def _copied_facts(turns: Sequence[Fact], before: Sequence[Fact]) -> list[Fact]:
    """Return what the turns at the beginning of a fork are copies of.

    A fork goes on with what a user says, so what differs in an answer was asked again, even if in the same words. Of
    turns that say the same the last ones are taken: the others were taken back before the fork.
    """
    count = 0
    for one in before:
        count += count < len(turns) and _may_be_copy(one, turns[count])
    if count < len(turns) and turns[count].role != "user":
        count = next((place for place in range(count - 1, -1, -1) if turns[place].role == "user"), count)
    found: list[Fact] = []
    for one in reversed(before):
        if len(found) < count and _may_be_copy(one, turns[count - 1 - len(found)]):
            found.append(one)
    return found[::-1]


def _may_be_copy(one: Fact, other: Fact) -> bool:
    return (one.role, one.digest) == (other.role, other.digest)


def _forks_before(forked: dict[Name, Name], name: Name) -> int:
    """Return how many forks lie before a conversation."""
    seen: set[Name] = set()
    while name in forked and name not in seen:
        seen.add(name)
        name = forked[name]
    return len(seen)


def _as_of_seconds(at: datetime | None) -> float:
    return at.timestamp() if at else float("-inf")


def fitted(turn: Turn) -> tuple[Turn, bool]:
    """Return a turn without secrets, not too long, with nothing PostgreSQL refuses; and whether it had secrets."""
    most = MAX_CHARS[turn.role]
    text, names = redacted(clean(turn.text[: most * SCREENED]))
    left = len(turn.text) - most
    shown = text if left <= 0 else f"{text[:most]}\n[{left:,} characters left out]"
    return replace(turn, text=shown), bool(names)
