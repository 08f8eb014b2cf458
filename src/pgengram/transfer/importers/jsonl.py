"""pgengram's own export: one record a line."""

from __future__ import annotations

import json
from pathlib import Path

from pgengram.errors import InvalidInput
from pgengram.transfer.exporting import FORMAT
from pgengram.transfer.records import Item, Left, Read, existing


def read(source: str) -> Read:
    """Read an export, or lines that each hold at least a content."""
    with existing(Path(source)).open(encoding="utf-8") as opened:
        for number, line in enumerate(opened, 1):
            if not line.strip():
                continue
            place = f"line {number}"
            try:
                record = json.loads(line)
            except ValueError:
                yield Left(place, "it is not valid JSON")
                continue
            if not isinstance(record, dict):
                yield Left(place, "it is not a JSON object")
            elif record.get("record") == "export":
                if record.get("format") != FORMAT:
                    raise InvalidInput(
                        f"{source} is an export of another format.",
                        "Import it with the version that wrote it, or a newer one.",
                    )
            else:
                yield Item(place, {"record": "memory", **record}, foreign=False)
