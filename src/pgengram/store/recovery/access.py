"""Who is let in after a restore: a backup restores no token, connection or passkey that has been ended since, and none
in an earlier state.

The rows of ended ones are copied, too, so that a backup restored later knows of them as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg.types.json import Jsonb

# The tables by which somebody is let in, in the order in which their rows can be added, and the column that says when
# one was ended.
ENDED: Final = {"oauth_grants": "revoked_at", "access_tokens": "revoked_at", "passkeys": "removed_at"}
READ: Final = "SELECT coalesce(jsonb_agg(t), '[]') FROM {table} AS t"
END: Final = """
UPDATE {table} AS t SET {ended} = known.{ended} FROM jsonb_populate_recordset(NULL::{table}, %(rows)s) AS known
WHERE t.id = known.id AND t.{ended} IS NULL AND known.{ended} IS NOT NULL
"""
ADD_ENDED: Final = """
INSERT INTO {table} SELECT known.* FROM jsonb_populate_recordset(NULL::{table}, %(rows)s) AS known
WHERE known.{ended} IS NOT NULL AND EXISTS (SELECT FROM namespaces n WHERE n.name = known.namespace) {condition}
ON CONFLICT DO NOTHING
"""
CONDITIONS: Final = {
    "access_tokens": "AND (known.grant_id IS NULL OR EXISTS (SELECT FROM oauth_grants g WHERE g.id = known.grant_id))"
}
FORGET_KEYS: Final = "UPDATE passkeys SET credential = NULL WHERE removed_at IS NOT NULL"
# A program that has refreshed since goes on with what it was given last, and with nothing older.
GO_ON: Final = """
UPDATE oauth_grants AS t SET generation = known.generation, refresh_hash = known.refresh_hash,
  previous_hash = known.previous_hash, rotated_at = known.rotated_at
FROM jsonb_populate_recordset(NULL::oauth_grants, %(rows)s) AS known
WHERE t.id = known.id AND t.generation < known.generation
"""
COUNT_ON: Final = """
UPDATE passkeys AS t SET sign_count = known.sign_count, last_used_at = known.last_used_at
FROM jsonb_populate_recordset(NULL::passkeys, %(rows)s) AS known
WHERE t.id = known.id AND t.sign_count < known.sign_count
"""
# Codes that wait may have been used since; they last for minutes only.
FORGET_WAITING: Final = "DELETE FROM oauth_requests; DELETE FROM pairing_codes"
COUNT_UNKNOWN: Final = """
SELECT (SELECT count(*) FROM access_tokens WHERE grant_id IS NULL AND revoked_at IS NULL
    AND coalesce(expires_at > now(), true) AND NOT id = ANY(%(access_tokens)s))
  + (SELECT count(*) FROM oauth_grants WHERE revoked_at IS NULL AND expires_at > now() AND NOT id = ANY(%(oauth_grants)s))
  + (SELECT count(*) FROM passkeys WHERE removed_at IS NULL AND NOT id = ANY(%(passkeys)s))
"""


@dataclass(frozen=True, slots=True)
class Access:
    """Whom a store lets in, and whom no longer: rows as JSON, by their table."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {table: [] for table in ENDED})


@dataclass(frozen=True, slots=True)
class Renewed:
    """What came of the access that a backup holds.

    ended: tokens, connections and passkeys that were ended again.
    unknown: those that are good and that the replaced store did not have.
    """

    ended: int = 0
    unknown: int = 0


def read_access(connection: psycopg.Connection[Any]) -> Access:
    """Return whom a store lets in, and whom no longer."""
    found = {}
    for table in ENDED:
        [found[table]] = connection.execute(READ.format(table=table)).fetchone() or [[]]
    return Access(found)


def renew(url: str, known: Access) -> Renewed:
    """End again in a restored database what the one that it replaces had ended.

    Raises:
        psycopg.Error: that failed; nothing was changed.
    """
    ended = 0
    with psycopg.connect(url) as connection:
        connection.execute(FORGET_WAITING)
        for table, column in ENDED.items():
            names = {"table": table, "ended": column, "condition": CONDITIONS.get(table, "")}
            rows = {"rows": Jsonb(known.rows[table])}
            ended += connection.execute(END.format(**names), rows).rowcount
            connection.execute(ADD_ENDED.format(**names), rows)
        connection.execute(GO_ON, {"rows": Jsonb(known.rows["oauth_grants"])})
        connection.execute(COUNT_ON, {"rows": Jsonb(known.rows["passkeys"])})
        connection.execute(FORGET_KEYS)
        ids = {table: [row["id"] for row in rows] for table, rows in known.rows.items()}
        row = connection.execute(COUNT_UNKNOWN, ids).fetchone()
    return Renewed(ended, int(row[0]) if row else 0)
