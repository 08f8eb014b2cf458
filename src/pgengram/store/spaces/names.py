"""Names of people and spaces: how they are kept, when two are the same, and when two only look the same."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from pgengram.errors import InvalidInput
from pgengram.store.connection.begin import FIRST_SPACE
from pgengram.store.connection.database import SPACE

Right = Literal["read", "write"]  # what a client may do in a space at most
MAX_NAME: Final = 64
RESERVED: Final = frozenset({"personal", "all"})  # what `space` means without being one
# Letters and digits of the Latin script that many typefaces draw alike.
DRAWN_ALIKE: Final = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "5": "s", "8": "b"})


def checked_name(given: str, what: str) -> str:
    """Return a name as it is kept.

    Raises:
        InvalidInput: it is empty, too long, reserved, or has characters that cannot be seen.
    """
    name = " ".join(unicodedata.normalize("NFKC", given).split())
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable() or any(_is_invisible(letter) for letter in name):
        raise InvalidInput(f"The name of a {what} must have 1 to {MAX_NAME} visible characters.")
    if key(name) in RESERVED or name.startswith(SPACE):
        raise InvalidInput(f"A {what} cannot be called {name!r}.", "Choose another name.")
    return name


def key(name: str) -> str:
    """Return what two spellings of the same name have in common."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _is_invisible(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cf", "Cc", "Co", "Cn")


def told_apart(names: Mapping[int, str]) -> dict[int, str]:
    """Return names as they are shown, by key: one that could be taken for another has its number beside it.

    That is any name with letters of another script than Latin, as most scripts have letters that look Latin, and names
    that differ in nothing but marks, case, or characters that are drawn alike.
    """
    shapes = Counter(map(_outline, names.values()))
    return {
        id_: name if _is_latin(name) and shapes[_outline(name)] == 1 else f"{name} (number {id_ - FIRST_SPACE})"
        for id_, name in names.items()
    }


def _outline(name: str) -> str:
    bare = "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))
    return bare.casefold().translate(DRAWN_ALIKE)


def _is_latin(name: str) -> bool:
    return all(unicodedata.name(letter, "").startswith("LATIN") for letter in name if letter.isalpha())
