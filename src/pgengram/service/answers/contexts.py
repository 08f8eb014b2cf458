"""What a model gets unasked: no stranger's words, nothing of another project, and what surely answers a prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pgengram import fields as f
from pgengram.inputs import Question, validated
from pgengram.runtime.context import here
from pgengram.search.results import Cursor, budget
from pgengram.store.reading.names import alike, untrusted
from pgengram.text.vocabulary import is_small_talk
from pgengram.text.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgengram.search.results import Hit
    from pgengram.service.core import Core

MAX_CHARS: Final = 3_600
LOOKED_AT: Final = 30  # memories, of which as many are taken as fit
PASSED_OVER: Final = 5_000  # memories of strangers
ABOUT_A_PROMPT_CHARS: Final = 1_500
ABOUT_A_PROMPT: Final = 5  # memories at most
FEW_WORDS: Final = 3  # fewer, such as "go on", are about nothing


async def first_trusted(core: Core, asked: dict[str, Any]) -> list[Hit]:
    """Return the first memories of a list that may be put before a model unasked, however many of strangers' stand
    before them, up to `PASSED_OVER`.
    """
    found: list[Hit] = []
    place = Cursor(here())
    while len(found) < LOOKED_AT and place.offset < PASSED_OVER:
        question = validated(Question, {**asked, "limit": f.MAX_LIMIT if place.offset else LOOKED_AT})
        hits = (await core.search(question, place)).found
        found += await trusted(core, hits)
        if len(hits) < question.limit:
            break
        place = replace(place, offset=place.offset + len(hits))
    return found[:LOOKED_AT]


async def sure_about(core: Core, text: str, project: str | None) -> list[Hit]:
    """Return the memories that surely have to do with what somebody says, best first; of no other project."""
    if len(words(text)) < FEW_WORDS or is_small_talk(text):
        return []
    question = validated(Question, {"query": text, "limit": LOOKED_AT})
    found = await core.search(question, Cursor(here()))
    if found.evidence != "strong":
        return []
    about = [hit for hit in found.found if concerns(core, hit, project=project or "")]
    sure = budget.worth_recalling(await trusted(core, about))
    return budget.select_for_context(sure, ABOUT_A_PROMPT_CHARS)[:ABOUT_A_PROMPT]


async def trusted(core: Core, hits: Sequence[Hit]) -> list[Hit]:
    """Return what may be put before a model unasked: no stranger's words, unless a person has confirmed them."""
    if not hits:
        return []
    ids = [hit.id for hit in hits]
    strange = await core.store.read_transaction(lambda tx: untrusted(tx, ids))
    return [hit for hit in hits if hit.id not in strange]


def has_name(text: str, name: str) -> bool:
    """Whether a text has each word of a name, perhaps as a genitive."""
    its = {without_genitive(word) for word in words(text)}
    return all(its & {part, f"{part}s", part.removesuffix("s")} for part in map(without_genitive, words(name)))


def without_genitive(word: str) -> str:
    """Return a word in small letters without the ending of a genitive: "Mira's" as "mira"."""
    return word.casefold().removesuffix("'s").removesuffix("’s")


def concerns(core: Core, hit: Hit, *, user: str | None = None, project: str | None = None) -> bool:
    """Whether a memory counts for this user and project: it is theirs, or nobody's in particular, or names the user.

    Of an unknown user or project, None, every memory counts; for none at all, "", only what is of nobody's.
    """
    named = bool(user and has_name(hit.content, user))
    asked = {"user": None if user is None or named else [user], "project": None if project is None else [project]}
    if project:
        asked["project"] = core.projects.names().all_of(project)
    return all(_is_of(names, getattr(hit, what)) for what, names in asked.items())


def _is_of(names: Sequence[str] | None, own: str | None) -> bool:
    return names is None or own is None or any(alike(name, [own]) for name in names)
