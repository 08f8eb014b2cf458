"""The embedded PostgreSQL: finds or starts the server of a data folder and gives back a URL."""

from pgengram.postgres.carrier import Binaries, binaries
from pgengram.postgres.server import EmbeddedPostgres, Status, start_embedded, status

__all__ = ["Binaries", "EmbeddedPostgres", "Status", "binaries", "start_embedded", "status"]
