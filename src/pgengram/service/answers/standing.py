"""What always matters, whatever a conversation is about: what is pinned, preferences, and limits such as allergies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pgengram.runtime.context import here
from pgengram.search.results import budget
from pgengram.service.answers import contexts
from pgengram.service.answers.digest import Line, digest, grouped
from pgengram.text.markdown import fenced
from pgengram.text.similarity.sameness import folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pgengram.search.results.hits import Hit
    from pgengram.service.core import Core

NOTHING_OF_THEIRS: Final = "Nothing is remembered of this user or project yet; what is remembered is of others."
SHARE: Final = 0.5  # of the room, that the topic may have the rest
# Words of limits that harm when they are forgotten; the words of other languages are looked for as they are written.
LIMITS: Final = (
    "allergy allergies allergic intolerant intolerance vegan vegetarian coeliac celiac diabetic diabetes medication "
    "Allergie Allergien allergisch Unverträglichkeit vegetarisch Diabetiker "
    "alergia alérgico alérgica intolerancia vegetariano vegetariana diabético "
    "allergique intolérance végétarien végétarienne diabétique alergię alergia uczulenie"
)
LIMITED: Final[dict[str, Any]] = {"query": LIMITS, "mode": "text"}
SORTS: Final[tuple[dict[str, Any], ...]] = (
    {"pinned": True, "sort": "relevance"},
    LIMITED,
    {"kind": ["preference"], "sort": "relevance"},
)


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
    lines: list[Line] = []
    if project is None and core.here is not None:
        lines = await digest(core, always, room, user=user, project=core.here.name)
    if not any(line.hit.project for line in lines):
        lines = await digest(core, always, room, user=user, project=project)
    if not lines and (user or project) and await digest(core, always, room, user=None, project=None):
        return f"{date}\n{NOTHING_OF_THEIRS}", []
    return (f"{date}\n{fenced([*grouped(lines)])}" if lines else ""), [line.hit for line in lines]


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
    return await contexts.first_trusted(core, LIMITED)


async def standing(core: Core) -> list[Hit]:
    """Return what always matters, the most important first, each text once."""
    found: dict[str, Hit] = {}
    for sort in SORTS:
        for hit in await contexts.first_trusted(core, sort):
            found.setdefault(folded(hit.content), hit)
    return [*found.values()]
