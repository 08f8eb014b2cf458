"""What is remembered of those whom a message names, where what fits its topic is not: a meal for two is for both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pgengram.inputs import Question, validated
from pgengram.runtime.context import here
from pgengram.search.question import MAX_WORDS
from pgengram.search.results import Cursor, Hit, budget
from pgengram.service.answers import contexts
from pgengram.service.answers.digest import Line, digest, grouped
from pgengram.store.connection.database import Transaction
from pgengram.store.reading.names import alike, names, unknown
from pgengram.store.store import Store
from pgengram.text.differences import new_names
from pgengram.text.language import function_words, language_of
from pgengram.text.languages import language_data, languages
from pgengram.text.markdown import fenced
from pgengram.text.sameness import folded
from pgengram.text.words import beginning, words
from pgengram.views import EMPTY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from pgengram.search.results import Hit
    from pgengram.service.core import Core


NOTHING_OF_THEIRS: Final = "Nothing is remembered of this user or project yet; what is remembered is of others."
SHARE: Final = 0.5  # of the room, that the topic may have the rest
PINNED: Final[dict[str, Any]] = {"pinned": True, "sort": "relevance"}
PREFERENCES: Final[dict[str, Any]] = {"kind": ["preference"], "sort": "relevance"}


async def opening(
    core: Core, about: Sequence[Hit] | None, max_chars: int, *, user: str | None = None, project: str | None = None
) -> tuple[str, list[Hit]]:
    """Return the text a conversation begins with, and the memories in it; empty where no memory fits.

    Today's date, then what always matters and what is about the topic, or a digest where there is none. Where neither a
    topic nor a project is named, it is for the project of the folder where the client works, if anything is known of
    that.
    """
    date = today()
    room = max_chars - len(date) - 1
    if about is not None:
        fitting = await _with_topic(core, about, room, user=user, project=project)
        return (f"{date}\n{budget.recall_text(fitting)}" if fitting else ""), fitting
    always = await standing(core)
    lines = await _without_topic(core, always, room, user=user, project=project)
    if lines:
        return f"{date}\n{fenced([*grouped(lines)])}", [line.hit for line in lines]
    if (user or project) and await digest(core, always, room, user=None, project=None):
        return f"{date}\n{NOTHING_OF_THEIRS}", []
    return "", []


async def _without_topic(
    core: Core, always: Sequence[Hit], room: int, *, user: str | None, project: str | None
) -> list[Line]:
    """Return the digest of a project: the one named, else that of the folder if it has any memory, else of all."""
    if project is None and core.here is not None:
        lines = await digest(core, always, room, user=user, project=core.here.name)
        if any(line.hit.project for line in lines):
            return lines
    return await digest(core, always, room, user=user, project=project)


def today() -> str:
    """Return a sentence that says which day it is."""
    return f"Today is {here():%A, %Y-%m-%d}."


async def _with_topic(
    core: Core, about: Sequence[Hit], max_chars: int, *, user: str | None, project: str | None
) -> list[Hit]:
    """Return what always matters in at most half of the room, then what is about the topic, each once.

    Nothing of another user or project is among them, and nothing that strangers may have written.
    """

    def concerning(hits: Sequence[Hit]) -> list[Hit]:
        return [hit for hit in hits if contexts.concerns(core, hit, user=user, project=project)]

    first = budget.select_for_context(concerning(await standing(core)), int(max_chars * SHARE))
    taken = {hit.id for hit in first}
    rest = [hit for hit in concerning(await contexts.trusted(core, about)) if hit.id not in taken]
    left = max_chars - len(budget.recall_text(first)) + len(fenced([]))
    return [*first, *budget.select_for_context(budget.worth_recalling(rest), left)]


async def harmful_if_forgotten(core: Core) -> list[Hit]:
    """Return limits that harm when they are forgotten, such as allergies."""
    return await contexts.first_trusted(core, _limited())


async def standing(core: Core) -> list[Hit]:
    """Return what always matters, the most important first, each text once."""
    found: dict[str, Hit] = {}
    for asked in (PINNED, _limited(), PREFERENCES):
        for hit in await contexts.first_trusted(core, asked):
            found.setdefault(folded(hit.content), hit)
    return [*found.values()]


MOST_NAMES: Final = 4
OF_EACH: Final = 3  # memories
LONGEST: Final = 400  # characters; a longer message is no question about a few


async def left_out(
    core: Core, context: str, chosen: Sequence[Hit], *, user: str | None, project: str | None
) -> list[Hit]:
    """Return what is missing beside those `chosen` of the people in a message, and of the user it is for: limits such
    as allergies of each, and anything of those whom none of them is of.
    """
    if len(context) > LONGEST or not (names := _people_named(context, user)):
        return []
    looked_up = set(_doubtless_unknown(context, names, chosen))
    limits = await harmful_if_forgotten(core)
    known = {hit.id for hit in chosen}
    found: dict[UUID, Hit] = {}
    for name in names:
        theirs = [hit for hit in limits if _concerns_person(hit, name)]
        if name in looked_up:
            theirs += await _speaking_of(core, name, project)
        concerning = [hit for hit in theirs if _concerns_asker(core, hit, name, user=user, project=project)]
        found |= _first_new(concerning, known | found.keys())
    return await contexts.trusted(core, [*found.values()])


def _first_new(hits: Sequence[Hit], known: Collection[UUID]) -> dict[UUID, Hit]:
    """Return the first `OF_EACH` hits that are not known."""
    return dict(islice({hit.id: hit for hit in hits if hit.id not in known}.items(), OF_EACH))


def _concerns_asker(core: Core, hit: Hit, name: str, *, user: str | None, project: str | None) -> bool:
    """Whether a memory concerns who asks about somebody who is named: those of the one named do, too."""
    whose = hit.user if hit.user and _concerns_person(hit, name) else user
    return contexts.concerns(core, hit, user=whose, project=project)


async def _speaking_of(core: Core, name: str, project: str | None) -> list[Hit]:
    """Return the best memories that have a person's name."""
    asked = validated(Question, {"query": name, "mode": "text", "limit": OF_EACH, "project": project})
    hits = (await core.search(asked.without_counting_hidden(), Cursor(here()))).found
    return [hit for hit in hits if contexts.has_name(f"{hit.content} {hit.user or ''}", name)]


def keep_needed(question: Question, hits: Sequence[Hit]) -> None:
    """Don't call unlikely what limits a person whom a question names: who cooks for them has to know, though nothing in
    "Paul is allergic to hazelnuts" says so.
    """
    names = _people_named(question.query, None) if len(question.query) <= LONGEST else []
    for hit in hits if names else ():
        if hit.match is not None and hit.match.unlikely and _limits_any(hit, names):
            hit.match.unlikely = False


def _limits_any(hit: Hit, names: Sequence[str]) -> bool:
    limits = not _limiting().isdisjoint(map(beginning, words(folded(hit.content))))
    return limits and any(_concerns_person(hit, name) for name in names)


@cache
def _limiting() -> frozenset[str]:
    return frozenset(map(beginning, _words_of_limits()))


@cache
def _limited() -> dict[str, Any]:
    """Return the search for what limits people, in all languages, as a memory may be in any."""
    said = _words_of_limits()
    first, *others = (" ".join(said[start : start + MAX_WORDS]) for start in range(0, len(said), MAX_WORDS))
    return {"query": first, "further_queries": others, "mode": "text"}


@cache
def _words_of_limits() -> list[str]:
    return [*dict.fromkeys(word for one in languages().values() for word in words(folded(one.limits)))]


def _people_named(context: str, user: str | None) -> list[str]:
    """Return the user, and the names in a message in their order; where nouns have capitals, these among them."""
    names = new_names(context, "")
    given = [word for word in map(contexts.without_genitive, words(context)) if word in names]
    return [*dict.fromkeys([*([user] if user else []), *given])]


def _doubtless_unknown(context: str, names: Sequence[str], chosen: Sequence[Hit]) -> list[str]:
    """Return the names that no chosen memory is of, without common words that have a capital for another reason."""
    language = language_of(context).code
    common, begins = function_words(language), contexts.without_genitive(words(context)[0])
    doubted = common if language_data(language).nouns_have_capitals else common & {begins}
    return [name for name in names if name not in doubted and not any(_concerns_person(hit, name) for hit in chosen)][
        :MOST_NAMES
    ]


def _concerns_person(hit: Hit, name: str) -> bool:
    """Whether a memory is of a person who is named; where it is nobody's in particular, whether it speaks of them."""
    return contexts.has_name(hit.user or hit.content, name)


NAMED: Final = ("user", "project", "collection", "speaker", "tags")
# Arguments of a search that narrow nothing down.
STEERING: Final = frozenset(
    {
        "query",
        "further_queries",
        "mode",
        "sort",
        "limit",
        "offset",
        "cursor",
        "max_chars",
        "detail",
        "count_only",
        "now",
    }
    | {"embedding", "include", "tags_match"}
)
NARROWING: Final = (*NAMED, *(name for name in Question.model_fields if name not in STEERING.union(NAMED)))
Find = Callable[[Question], Awaitable[list[Hit]]]


async def retold(store: Store, question: Question) -> Question | None:
    """Return a search that found nothing with its names as they are stored; None when that changes nothing."""
    if not (named := _given(question)):
        return None
    changes = await store.read_transaction(lambda tx: _changed_filters(tx, named, question))
    return question.model_copy(update=changes) if changes else None


async def reason(store: Store, question: Question, find: Find) -> str | None:
    """Say why a search found nothing: which names are unknown, and how many hits there are without each filter."""
    if not (given := _given(question, NARROWING)):
        return None
    named = _given(question)
    notes = await store.read_transaction(lambda tx: _unknown_name(tx, named, question)) if named else []
    ways = [[what] for what in given] + ([given] if len(given) > 1 else [])
    for left_out in ways:
        without = {what: Question.model_fields[what].default for what in left_out}
        if found := await find(question.model_copy(update=without)):
            more = " or more" if len(found) == question.limit else ""
            notes.append(f"Without {', '.join(left_out)}: {len(found)}{more} found{_best(found, left_out)}.")
    return " ".join(notes) or None


async def _changed_filters(tx: Transaction, named: list[str], question: Question) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for what in named:
        known = await names(tx, what)
        stored = [next(iter(alike(one, known)), one) for one in _values(question, what)]
        if stored != _values(question, what):
            changes[what] = stored if what == "tags" else stored[0]
    return changes


async def _unknown_name(tx: Transaction, named: list[str], question: Question) -> list[str]:
    known = {what: await names(tx, what) for what in named}
    said = (
        unknown(what, one, known[what])
        for what in named
        for one in _values(question, what)
        if not alike(one, known[what])
    )
    return list(dict.fromkeys(said))


def _best(found: list[Hit], left_out: list[str]) -> str:
    """Say how similar the nearest of some hits is, where a least similarity was left out."""
    nearest = max((hit.match.similarity or 0.0 for hit in found if hit.match), default=0.0)
    return f", the nearest with similarity {nearest:.2f}" if nearest and "min_similarity" in left_out else ""


def _given(question: Question, names_of: tuple[str, ...] = NAMED) -> list[str]:
    return [what for what in names_of if getattr(question, what) not in (*EMPTY, Question.model_fields[what].default)]


def _values(question: Question, what: str) -> list[str]:
    value = getattr(question, what)
    return value if isinstance(value, list) else [value]
