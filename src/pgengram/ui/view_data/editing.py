"""The form of a memory: its fields as they are in it, and what somebody changed there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pgengram.errors import InvalidInput
from pgengram.text.moments import local_moment
from pgengram.views import Shown

DAYS: Final = ("occurred_at", "expires_at")
NEEDED: Final = ("content", "importance")  # never cleared
FIELDS: Final = (*NEEDED, "kind", "project", "tags", *DAYS, "speaker", "user", "source", "pinned")


def as_typed(memory: Shown) -> dict[str, str]:
    """Return the fields of a memory as its form shows them."""
    return {name: _form_text(name, memory.get(name)) for name in FIELDS}


def _form_text(name: str, value: Any) -> str:
    if name == "tags":
        return ", ".join(value or ())
    if name == "pinned":
        return "on" if value else ""
    if name in DAYS:
        return str(local_moment(datetime.fromisoformat(value)).date()) if value else ""
    return "" if value is None else str(value)


def edited(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that somebody changed since the form was shown; all of them if it doesn't say what it showed.

    Raises:
        InvalidInput: what it showed cannot be read.
    """
    given = {name: fields.get(name, "").replace("\r\n", "\n") for name in FIELDS if name in fields or name == "pinned"}
    try:
        before = dict(json.loads(fields.get("before") or "{}"))
    except (TypeError, ValueError):
        raise InvalidInput("This form cannot be read.", "Load the page again.") from None
    return {name: value for name, value in given.items() if name not in before or before[name] != value}


def change_asked(id_: UUID, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the change that a form asks for, as arguments of update_memory."""
    given = edited(fields)
    change: dict[str, Any] = {"id": str(id_), "clear": []}
    if "pinned" in given:
        change["pinned"] = given.pop("pinned") == "on"
    for name, value in given.items():
        kept = value if name == "content" else value.strip(" ,")
        if kept or name in NEEDED:
            change[name] = f"{kept}T00:00:00Z" if name in DAYS else kept
        else:
            change["clear"].append(name)
    return change | ({"expected_version": fields["version"]} if fields.get("version") else {})
