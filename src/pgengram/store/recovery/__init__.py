"""Backups, restores, and what must not come back with them."""
