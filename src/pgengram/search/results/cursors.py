"""Cursors: where a page of results ended, as a text that callers hand back and need not understand."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel

from pgengram.errors import InvalidInput
from pgengram.search.results.hits import Hit

NOT_OURS: Final = "cursor is not one that an earlier page gave."
BEGIN_AGAIN: Final = "Leave it out to begin again."


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next page begins: after a sort key and id in a list, at an offset in a ranking; `now` is the first
    page's.
    """

    now: datetime
    offset: int = 0
    after: tuple[str, UUID] | None = None

    @property
    def is_further(self) -> bool:
        """Whether it is not a first page."""
        return bool(self.offset or self.after)


def query_fingerprint(question: BaseModel) -> str:
    """Return a short text that is the same for the same question on every page."""
    same = question.model_dump_json(exclude={"cursor", "offset", "limit", "detail", "max_chars", "now"})
    return sha256(same.encode()).hexdigest()[:12]


def write_cursor(place: Cursor, mark: str) -> str:
    """Return `place` as a cursor that is valid for the question of `mark` only."""
    after = None if place.after is None else [place.after[0], str(place.after[1])]
    where = [place.now.isoformat(), place.offset, after]
    return base64.urlsafe_b64encode(json.dumps([mark, _checksum(mark, where), *where]).encode()).decode()


def _checksum(mark: str, where: list[Any]) -> str:
    """Return a short text that another place does not have, so that a cursor with a changed sort key is known."""
    return sha256(json.dumps([mark, *where]).encode()).hexdigest()[:12]


def parse_cursor(cursor: str, mark: str) -> Cursor:
    """Return the place that a cursor stands for.

    Raises:
        InvalidInput: it is none of ours, or belongs to another question.
    """
    try:
        its_mark, seal, now, offset, after = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        place = Cursor(
            datetime.fromisoformat(now), int(offset), None if after is None else (str(after[0]), UUID(after[1]))
        )
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError):
        raise InvalidInput(NOT_OURS, BEGIN_AGAIN) from None
    if seal != _checksum(its_mark, [now, offset, after]):
        raise InvalidInput(NOT_OURS, BEGIN_AGAIN)
    if its_mark != mark or not 0 <= place.offset <= 100_000:
        raise InvalidInput("cursor belongs to a different query.", "Repeat the query unchanged, or leave cursor out.")
    return place


def next_cursor(place: Cursor, mark: str, shown: list[Hit], *, more: bool) -> str | None:
    """Return where the page after the hits `shown` begins, or None when there may be no more."""
    if not more or not shown:
        return None
    last = shown[-1]
    if last.sort_key is not None:
        return write_cursor(Cursor(place.now, after=(last.sort_key, last.id)), mark)
    return write_cursor(Cursor(place.now, place.offset + len(shown)), mark)
