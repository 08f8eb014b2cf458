"""The commands for the whole store: backups, transfer, re-embedding, erasing, Citus."""
