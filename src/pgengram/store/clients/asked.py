"""What a program asks for when it signs in, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

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
