"""Which memories an ordinary search shows: those that are active and have not expired."""

from __future__ import annotations

from typing import Final

UNEXPIRED: Final = "(m.expires_at IS NULL OR m.expires_at > now())"
VISIBLE: Final = f"m.status = 'active' AND {UNEXPIRED}"  # of `memories m`

# All others, of the table `memories` itself. Says the predicate of the partial index memories_hidden, so that it is
# used.
HIDDEN: Final = """(status <> 'active' OR expires_at IS NOT NULL)
    AND (status <> 'active' OR expires_at <= now())"""
# Few memories are hidden, so the visible ones are known by their absence from this list. Uses memories_hidden.
HIDDEN_IDS: Final = f"""hidden AS MATERIALIZED (
  SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND {HIDDEN})"""
