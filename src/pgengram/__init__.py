"""Long-term memory for AI assistants, in PostgreSQL."""

__version__ = "0.1.0"
