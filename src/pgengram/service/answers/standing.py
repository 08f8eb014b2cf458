"""What always matters, whatever a conversation is about: what is pinned, preferences, and limits such as allergies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pgengram.runtime.clock import here
from pgengram.search.results import budget
from pgengram.service.answers import contexts
from pgengram.service.answers.digest import digest
from pgengram.text.fencing import fenced
from pgengram.text.similarity.normalising import folded

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
    core: Core, then: Sequence[Hit] | None, max_chars: int, *, user: str | None = None, project: str | None = None
) -> tuple[str, list[Hit]]:
    """Return the text a conversation begins with, and the memories in it; empty where no memory fits.

    Today's date, then a digest, or where there is a topic what `beginning` chooses. Where neither a topic nor a project
    is named, it is for the project of the folder where the client works, if anything is known of that.
    """
    date = today()
    room = max_chars - len(date) - 1
    if then is not None:
        fitting = await beginning(core, then, room, user=user, project=project)
        return (f"{date}\n{budget.recalled(fitting)}" if fitting else ""), fitting
    always = await standing(core)
    chosen: list[Hit] = []
    lines: list[str] = []
    if project is None and core.here is not None:
        lines, chosen = await digest(core, always, room, user=user, project=core.here.name)
    if not any(hit.project for hit in chosen):
        lines, chosen = await digest(core, always, room, user=user, project=project)
    if not chosen and (user or project) and (await digest(core, always, room, user=None, project=None))[1]:
        return f"{date}\n{NOTHING_OF_THEIRS}", []
    return (f"{date}\n{fenced(lines)}" if chosen else ""), chosen


def today() -> str:
    """Return a sentence that says which day it is."""
    return f"Today is {here():%A, %Y-%m-%d}."


async def beginning(
    core: Core, then: Sequence[Hit] | None, max_chars: int, *, user: str | None = None, project: str | None = None
) -> list[Hit]:
    """Return the memories a conversation begins with: what always matters in at most half of the room, then what else
    is given, each once.

    Nothing of another user or project is among them, and nothing that strangers may have written.

    Args:
        core: whose memories.
        then: what matters for the topic, best first; None for what matters most, where there is no topic.
        max_chars: of the recalled text.
        user: who is served; None if that is not known.
        project: what is worked on; None if that is not known, "" if it is no project.
    """
    if then is None:
        own = await contexts.most_relevant(core, project=project) if project else []
        then = [*own, *await contexts.most_relevant(core)]
    else:
        then = budget.worth_recalling(await contexts.trusted(core, then))
    always = await standing(core)

    def concerning(hits: Sequence[Hit]) -> list[Hit]:
        return [hit for hit in hits if contexts.concerns(core, hit, user=user, project=project)]

    first = budget.select_for_context(concerning(always), int(max_chars * SHARE))
    taken = {hit.id for hit in first}
    rest = [hit for hit in concerning(then) if hit.id not in taken]
    left = max_chars - len(budget.recalled(first)) + len(fenced([]))
    return [*first, *budget.select_for_context(rest, left)]


async def limits(core: Core) -> list[Hit]:
    """Return limits that harm when they are forgotten, such as allergies."""
    return await contexts.first_trusted(core, LIMITED)


async def standing(core: Core) -> list[Hit]:
    """Return what always matters, the most important first, each text once."""
    found: dict[str, Hit] = {}
    for sort in SORTS:
        for hit in await contexts.first_trusted(core, sort):
            found.setdefault(folded(hit.content), hit)
    return [*found.values()]
