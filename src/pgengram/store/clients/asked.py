"""What a program asks for when it signs in, what shows whose memories it may have, and what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal

from pgengram.store.spaces.names import Right

ACCESS_LIFE: Final = timedelta(hours=24)

Scope = Literal["read-only", "read-write"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a program asks for: who it is, where its answer goes, and what the answer is bound to."""

    client_id: str
    client_name: str
    client_host: str
    redirect_uri: str
    redirect_host: str
    challenge: str
    resource: str
    state: str | None
    may_write: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a program is given: an access token for some time, and one for the next."""

    access: str
    refresh: str
    scope: Scope
    lifetime: timedelta = ACCESS_LIFE


@dataclass(frozen=True, slots=True)
class Proof:
    """Whose memories somebody may open, and how far.

    spaces: the shared spaces, by key, with the most that may be done there; None for all that the person is in.
    person_id: who has that namespace; None where nobody was added for it.
    by: what showed it.
    """

    namespace: str
    may_write: bool
    spaces: Mapping[int, Right] | None = field(default_factory=dict)
    person_id: int | None = None
    by: str = "code"

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of(cls, row: Mapping[str, Any], **other: Any) -> Proof:
        """Return the proof that a row or its JSON holds."""
        values = {name: row[name] for name in cls.__slots__ if name in row} | other
        if values["spaces"] is not None:
            values["spaces"] = {int(key): right for key, right in values["spaces"].items()}
        return cls(**values)
