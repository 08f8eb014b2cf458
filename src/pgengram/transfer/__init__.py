"""Taking memories out and bringing them in: pgengram's own format, and the stores of other systems."""

from __future__ import annotations

from pgengram.transfer.exporting import TAKERS, export_notes, export_text, export_to
from pgengram.transfer.importers import SYSTEMS
from pgengram.transfer.importing import import_from

__all__ = ["SYSTEMS", "TAKERS", "export_notes", "export_text", "export_to", "import_from"]
