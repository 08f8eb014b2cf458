"""The embedded PostgreSQL: finds or starts the server of a data folder and gives back a URL."""

from pgengram.postgres.binaries import Binaries, find_binaries
from pgengram.postgres.supervisor import (
    EmbeddedPostgres,
    Status,
    exchange_data,
    has_data,
    server_status,
    start_embedded,
    take_data_back,
    throw_away,
)

__all__ = [
    "Binaries", "EmbeddedPostgres", "Status", "exchange_data", "find_binaries", "has_data", "server_status",
    "start_embedded", "take_data_back", "throw_away",
]  # fmt: skip
