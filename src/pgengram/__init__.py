"""Long-term memory for AI assistants, in PostgreSQL."""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own; a hook starts with this module, and importing typing would take longer
if TYPE_CHECKING:
    from pgengram.library import Memory as Memory
    from pgengram.library import Pgengram as Pgengram
else:

    def __getattr__(name: str) -> object:
        """Import the library when it is first asked for, so that the server starts without it."""
        if name in ("Memory", "Pgengram"):
            from pgengram import library

            return getattr(library, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"
__all__ = ["Memory", "Pgengram", "__version__"]
