"""The machines that exchange these memories, as the page of the settings shows them."""

from __future__ import annotations

from typing import Any

from pgengram.errors import Conflict
from pgengram.service.core import Core
from pgengram.sync import devices


async def machines_of(core: Core) -> dict[str, Any] | None:
    """Return how the exchange with other machines stands, as `pgengram sync status` does; None without one."""
    try:
        return (await devices.status(core)).as_dict()
    except Conflict:  # it is not exchanged
        return None
