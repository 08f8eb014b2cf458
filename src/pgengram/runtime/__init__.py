"""The process itself: its event loop, its logs, its metrics."""
