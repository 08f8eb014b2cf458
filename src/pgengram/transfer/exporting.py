"""Everything a namespace has, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TextIO

from pgengram.service.core import Core
from pgengram.store.reading import transferring

FORMAT: Final = 1
Report = Callable[[int, int], None]  # memories done, memories in all


async def export_to(file: TextIO, core: Core, report: Report, *, mine: bool = False) -> dict[str, int]:
    """Write everything of the namespace as it is at this moment; return how many lines of each kind of record.

    The first line says what this is; each other line is one record. Memories come first, oldest first, in all statuses,
    each with its tags, detail, uses and history; then what leads from one to another. Vectors and words are left out:
    they are made again from the texts.

    Args:
        file: where it is written.
        core: whose memories.
        report: is told how far it is.
        mine: in a space, only the memories that whoever asks has stored.
    """
    counts: dict[str, int] = {}
    async with core.store.snapshot() as tx:
        author = tx.member.person_id if mine and tx.member else None
        total = await transferring.begin_reading(tx)
        header = {
            "record": "export",
            "format": FORMAT,
            "exported_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "namespace": core.settings.namespace,
            "memories": total,
        }
        file.write(json.dumps(header) + "\n")
        report(0, total)
        async for lines in transferring.memory_pages(tx, author=author):
            _write_lines(file, "memory", lines, counts)
            report(counts["memory"], total)
        for table in () if mine else transferring.TABLES:
            async for lines in transferring.row_pages(tx, table):
                _write_lines(file, table.record, lines, counts)
    return counts


def _write_lines(file: TextIO, record: str, lines: list[str], counts: dict[str, int]) -> None:
    file.writelines(line + "\n" for line in lines)
    counts[record] = counts.get(record, 0) + len(lines)
