"""What is remembered of those whom a message names: a meal for two is cooked for both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pgengram.inputs import Question, validated
from pgengram.runtime.clock import here
from pgengram.search.results import cursors
from pgengram.service.answers import contexts, standing
from pgengram.text.languages import language_data
from pgengram.text.lexical.language import function_words, language_of
from pgengram.text.lexical.words import words
from pgengram.text.similarity.differences import new_names

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
    limits = await standing.harmful_if_forgotten(core)
    looked_up = set(_unknown(context, names, chosen))
    taken = {hit.id for hit in chosen}
    found: list[Hit] = []
    for name in names:
        theirs = [hit for hit in limits if _is_about(hit, name)]
        if name in looked_up:
            asked = validated(Question, {"query": name, "mode": "text", "limit": OF_EACH, "project": project})
            hits = (await core.search(asked.without_counting_hidden(), cursors.Cursor(here()))).found
            theirs += [hit for hit in hits if _speaks_of(hit, name)]
        new = {hit.id: hit for hit in theirs if hit.id not in taken}
        # Those of a person who is named count for whoever asks about them.
        whose = {id_: hit.user if hit.user and _is_about(hit, name) else user for id_, hit in new.items()}
        found += [hit for hit in new.values() if contexts.concerns(core, hit, user=whose[hit.id], project=project)][
            :OF_EACH
        ]
        taken |= {hit.id for hit in found}
    return await contexts.trusted(core, found)


def _names(context: str, user: str | None) -> list[str]:
    """Return the user, and the names in a message in their order; where nouns have capitals, these among them."""
    names = new_names(context, "")
    given = [word for word in map(_plain, words(context)) if word in names]
    return [*dict.fromkeys([*([user] if user else []), *given])]


def _unknown(context: str, names: Sequence[str], chosen: Sequence[Hit]) -> list[str]:
    """Return the names that no chosen memory is of, without common words that have a capital for another reason."""
    language = language_of(context).code
    common, begins = function_words(language), _plain(words(context)[0])
    doubted = common if language_data(language).nouns_have_capitals else common & {begins}
    return [name for name in names if name not in doubted and not any(_is_about(hit, name) for hit in chosen)][
        :MOST_NAMES
    ]


def _speaks_of(hit: Hit, name: str) -> bool:
    return _has(f"{hit.content} {hit.user or ''}", name)


def _is_about(hit: Hit, name: str) -> bool:
    """Whether a memory is of a person who is named; where it is nobody's in particular, whether it speaks of them."""
    return _has(hit.user or hit.content, name)


def _has(text: str, name: str) -> bool:
    """Whether a text has each word of a name, perhaps as a genitive."""
    its = {_plain(word) for word in words(text)}
    return all(its & {part, f"{part}s", part.removesuffix("s")} for part in map(_plain, words(name)))


def _plain(word: str) -> str:
    return word.casefold().removesuffix("'s").removesuffix("’s")
