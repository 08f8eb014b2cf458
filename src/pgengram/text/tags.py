"""Tags as they are stored and looked for: one spelling for each, and one word where several mean the same."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pgengram.fields import MAX_TAG

# Words that mean exactly the same tag; every namespace has them until they are edited.
SYNONYMS: Final[dict[str, str]] = {
    "fam": "family", "families": "family", "relatives": "family", "kin": "family",
    "job": "work", "employment": "work",
    "pref": "preferences", "prefs": "preferences", "preference": "preferences",
}  # fmt: skip

# Words that a broader tag would swallow, with what they say beyond it; off until a namespace takes them over.
BROADER: Final[dict[str, str]] = {
    "tech": "software", "programming": "software", "coding": "software", "code": "software", "dev": "software",
    "development": "software", "engineering": "software", "technology": "software",
    "book": "publishing", "books": "publishing", "writing": "publishing", "author": "publishing",
    "authorship": "publishing",
    "bio": "personal", "biography": "personal", "personal-info": "personal",
    "career": "work", "likes": "preferences", "dislikes": "preferences",
    "medical": "health", "medicine": "health", "medications": "health",
    "religion": "philosophy", "beliefs": "philosophy", "values": "philosophy",
}  # fmt: skip

_GAPS = re.compile(r"[\s_-]+")


def normalised_tag(tag: str) -> str:
    """Return the one spelling of `tag`, empty when nothing is left that could be one.

    Compatibility characters are made plain and letters small; spaces, underscores and hyphens become one hyphen. Kept
    are letters and digits of any script and `+ # . / : @ &` where they join or end words (`c++`, `c#`, `node.js`,
    `.net`,
    `lang:python`); everything else is dropped. What is longer than a tag may be is cut. What is dropped may leave what
    has another spelling, so it is spelled until that changes nothing.
    """
    while (spelled := _spelled_tag(tag)) != tag:
        tag = spelled
    return spelled


def _spelled_tag(tag: str) -> str:
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", tag).casefold())
    plain = _GAPS.sub("-", plain.strip())
    kept = "".join(c for c in plain if c.isalnum() or c in "-+#./:@&" or unicodedata.category(c) in ("Mn", "Mc"))
    kept = re.sub(r"-{2,}", "-", kept).rstrip("-./:@&").lstrip("-#+/:@&")
    kept = re.sub(r"^\.+(?=\.|[^\w]|$)", "", kept)[:MAX_TAG].rstrip("-./:@&")
    return kept if any(c.isalnum() for c in kept) else ""


def mapped_tags(tags: Iterable[str], synonyms: Mapping[str, str]) -> list[str]:
    """Return `tags` in one spelling, synonyms replaced, each once, in order."""
    spelled = (normalised_tag(tag) for tag in tags)
    return list(dict.fromkeys(synonyms.get(tag, tag) for tag in spelled if tag))


def tag_groups(tags: Sequence[str], synonyms: Mapping[str, str]) -> list[list[str]]:
    """Return for each tag that is asked for all the tags it may be stored as.

    A memory stored before a synonym was made has the old word, so the tag and all its aliases count as one. A word that
    can be no tag is an empty group, which nothing has: a filter must never widen because a part of it was dropped.
    """
    groups: dict[str, list[str]] = {}
    for tag in tags:
        spelled = normalised_tag(tag)
        meant = synonyms.get(spelled, spelled)
        aliases = [alias for alias, target in synonyms.items() if target == meant]
        groups[meant] = [meant, *aliases] if meant else []
    return list(groups.values())


def flattened(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return what each alias means in the end, from the shipped synonyms and a namespace's own ones on top.

    An alias of itself switches a shipped synonym off. Aliases of aliases are followed; a circle means nothing.
    """
    direct = {alias: tag for alias, tag in (SYNONYMS | dict(overrides)).items() if alias != tag}
    final: dict[str, str] = {}
    for alias in direct:
        seen, tag = {alias}, direct[alias]
        while tag in direct and tag not in seen:
            seen.add(tag)
            tag = direct[tag]
        if tag not in seen:
            final[alias] = tag
    return final


_ANYTHING: Final = re.compile(r"[\s*%.:?_]*")
_WITH_AN_ASTERISK: Final = re.compile(r"[\s.:]*\*[\s*.:]*|\s*")


def means_anything(text: str, *, exact: bool = False) -> bool:
    """Whether a text asks for nothing in particular: blank, or a wildcard such as *, %, *:* or .*

    Args:
        text: of a query.
        exact: whether its characters are looked for as they are; then % and _ are not wildcards.
    """
    return (_WITH_AN_ASTERISK if exact else _ANYTHING).fullmatch(text) is not None
