"""What other programs take for "anything"."""

from __future__ import annotations

import re
from typing import Final

_ANYTHING: Final = re.compile(r"[\s*%.:?_]*")
_WITH_AN_ASTERISK: Final = re.compile(r"[\s.:]*\*[\s*.:]*|\s*")


def means_anything(text: str, *, exact: bool = False) -> bool:
    """Whether a text asks for nothing in particular: blank, or a wildcard such as *, %, *:* or .*

    Args:
        text: of a query.
        exact: whether its characters are looked for as they are; then % and _ are not wildcards.
    """
    return (_WITH_AN_ASTERISK if exact else _ANYTHING).fullmatch(text) is not None
