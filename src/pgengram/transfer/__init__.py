"""Taking memories out and bringing them in: pgengram's own format, and the stores of other systems."""

from __future__ import annotations

from pgengram.transfer.exporting import export_to
from pgengram.transfer.importers import SYSTEMS
from pgengram.transfer.importing import import_from
from pgengram.transfer.markdown import export_notes
from pgengram.transfer.pasting import TAKERS, export_text

__all__ = ["SYSTEMS", "TAKERS", "export_notes", "export_text", "export_to", "import_from"]
