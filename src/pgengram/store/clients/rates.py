"""How much a client may ask for, counted in the database: the same for one server as for several behind one address.

A client's row says when its calls would be paid for if no more came (the generic cell rate algorithm, ITU-T I.371). It
is in a table that no log is written of, so a count costs one round trip and waits for no disk; a crash forgets it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pgengram.store.store import Store

WORK_BYTES: Final = (
    2_000  # of what a call brings that cost as much as another call: about 0.1 s to embed, the rate's own
)
BURST_S: Final = 10  # a client that was silent may call as often at once as otherwise in so many seconds

# Uses client_rates_pkey. Without a row in the answer the client has to wait.
TAKE: Final = """
INSERT INTO client_rates AS r (client, paid_at) VALUES (%(client)s, clock_timestamp() + %(cost)s)
ON CONFLICT (client) DO UPDATE SET paid_at = greatest(r.paid_at, clock_timestamp()) + %(cost)s
  WHERE r.paid_at <= clock_timestamp() + %(credit)s
RETURNING CASE WHEN %(with_position)s THEN pg_current_wal_flush_lsn()::text END AS position
"""
# Uses client_rates_pkey.
WAIT: Final = """
SELECT extract(epoch FROM paid_at - clock_timestamp() - %(credit)s)::double precision AS wait_s FROM client_rates
WHERE client = %(client)s
"""
# Uses client_rates_pkey.
CHARGE: Final = """
UPDATE client_rates SET paid_at = greatest(paid_at, clock_timestamp()) + %(cost)s WHERE client = %(client)s
"""
# Uses no index: there are as many rows as clients lately. Whoever has paid for everything is as good as unknown.
FORGET_PAID: Final = "DELETE FROM client_rates WHERE paid_at < clock_timestamp()"


def burst(per_minute: int) -> float:
    """Return how many calls a client that was silent may make at once."""
    return max(1.0, per_minute / 60 * BURST_S)


@dataclass(frozen=True, slots=True)
class Counted:
    """What became of a call: the seconds to wait, 0 for none; and where the log ended, for reading from a replica."""

    wait_s: float
    position: str | None = None


async def count(store: Store, client: str, per_minute: int) -> Counted:
    """Count one call of a client; when it has made too many, count none and return the seconds until it may make one.

    Raises:
        DatabaseFailed: nothing was counted.
    """
    cost = timedelta(seconds=60 / per_minute)
    given = {
        "client": _bucket_key(client),
        "cost": cost,
        "credit": cost * (burst(per_minute) - 1),
        "with_position": store.replica is not None,
    }
    if (taken := await store.one(TAKE, given)) is not None:
        return Counted(0.0, taken["position"])
    row = await store.one(WAIT, given)
    return Counted(max(0.001, row["wait_s"]) if row else 0.001)


async def charge(store: Store, client: str, work: int, per_minute: int) -> None:
    """Count what a call that was counted costs beyond one: as many calls, which its client waits for before the next.

    Raises:
        DatabaseFailed: nothing was counted.
    """
    await store.one(CHARGE, {"client": _bucket_key(client), "cost": timedelta(seconds=60 / per_minute * work)})


def _bucket_key(client: str) -> bytes:
    return hashlib.sha256(client.encode()).digest()


async def forget_paid(store: Store) -> None:
    """Remove what no longer matters of clients that have been silent."""
    await store.one(FORGET_PAID)
