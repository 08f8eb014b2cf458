"""The process itself, its logs and metrics, and what differs between operating systems."""
