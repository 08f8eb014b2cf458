"""What is remembered of those that a message names, where what fits its topic says nothing of them: a meal for two is cooked
for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgengram.inputs import Question, checked
from pgengram.runtime.clock import here
from pgengram.search.results import cursors
from pgengram.service.answers import contexts, standing
from pgengram.text.lexical.language import ENGLISH, function_words, language_of
from pgengram.text.lexical.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgengram.search.results.hits import Hit
    from pgengram.service.core import Core

MOST_NAMES: Final = 4
OF_EACH: Final = 3  # memories
LONGEST: Final = 400  # characters; a longer message is no question about a few


async def left_out(
    core: Core, context: str, chosen: Sequence[Hit], *, user: str | None, project: str | None
) -> list[Hit]:
    """Return what is missing beside those `chosen` of the people in a message, and of the user it is for: limits such
    as allergies of each, and anything of those whom none of them is of.
    """
    if len(context) > LONGEST or not (names := _names(context, user)):
        return []
    limits = await standing.limits(core)
    taken = {hit.id for hit in chosen}
    found: list[Hit] = []
    for name in names:
        theirs = [hit for hit in limits if _is_of(hit, name)]
        if name != user and not any(_is_of(hit, name) for hit in chosen):
            asked = checked(Question, {"query": name, "mode": "text", "limit": OF_EACH, "project": project})
            hits = (await core.search(asked.without_counting_hidden(), cursors.Cursor(here()))).found
            theirs += [hit for hit in hits if _speaks_of(hit, name)]
        found += [
            hit
            for hit in theirs
            if hit.id not in taken and contexts.concerns(core, hit, user=_asked(hit, name, user), project=project)
        ][:OF_EACH]
        taken |= {hit.id for hit in found}
    return await contexts.trusted(core, found)


def _asked(hit: Hit, name: str, user: str | None) -> str | None:
    """Return whose memories count: those of a person who is named count for whoever asks about them."""
    return hit.user if hit.user and _is_of(hit, name) else user


def _names(context: str, user: str | None) -> list[str]:
    """Return the user, and the words with a capital without those that every text may begin with."""
    common = function_words(ENGLISH) | function_words(language_of(context).code)
    given = [word for word in words(context) if word[:1].isupper() and word.lower() not in common]
    return [*dict.fromkeys([*([user] if user else []), *given])][: MOST_NAMES + bool(user)]


def _speaks_of(hit: Hit, name: str) -> bool:
    return _has(f"{hit.content} {hit.user or ''}", name)


def _is_of(hit: Hit, name: str) -> bool:
    """Whether a memory is of a person who is named; where it is nobody's in particular, whether it speaks of them."""
    return _has(hit.user or hit.content, name)


def _has(text: str, name: str) -> bool:
    return name.casefold().removesuffix("'s") in text.casefold()
