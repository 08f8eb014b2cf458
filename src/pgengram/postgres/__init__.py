"""The embedded PostgreSQL: finds or starts the server of a data folder and gives back a URL."""

from pgengram.postgres.binaries import Binaries, find_binaries
from pgengram.postgres.supervisor import (
    EmbeddedPostgres,
    Status,
    exchange,
    has_data,
    start_embedded,
    status,
    take_back,
    throw_away,
)

__all__ = [
    "Binaries",
    "EmbeddedPostgres",
    "Status",
    "exchange",
    "find_binaries",
    "has_data",
    "start_embedded",
    "status",
    "take_back",
    "throw_away",
]
