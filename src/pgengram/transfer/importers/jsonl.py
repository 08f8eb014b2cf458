"""pgengram's own export: one record a line."""

from __future__ import annotations

from pgengram.errors import InvalidInput
from pgengram.transfer.exporting import FORMAT
from pgengram.transfer.input.json_records import Broken
from pgengram.transfer.input.reading import files_of
from pgengram.transfer.input.sources import Source
from pgengram.transfer.records import Item, Left, Read


def read(source: Source) -> Read:
    """Read an export, or lines that each hold at least a content."""
    for file in files_of(source, "*.jsonl"):
        if isinstance(file, Left):
            yield file
            continue
        for number, record in source.objects(file):
            place = f"line {number + 1}"
            if isinstance(record, Broken):
                yield Left(place, record.reason)
            elif record.get("record") == "export":
                if record.get("format") != FORMAT:
                    raise InvalidInput(
                        f"{source.path} is an export of another format.",
                        "Import it with the version that wrote it, or a newer one.",
                    )
            else:
                yield Item(place, {"record": "memory", **record}, foreign=False)
