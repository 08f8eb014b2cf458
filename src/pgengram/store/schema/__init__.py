"""The tables, and bringing a database up to them."""

from __future__ import annotations

from typing import Final

from pgengram.text.derived import TURN

UNEXPIRED: Final = "(m.expires_at IS NULL OR m.expires_at > now())"
VISIBLE: Final = f"m.status = 'active' AND {UNEXPIRED}"  # of `memories m`

# All others, of the table `memories` itself. Says the predicate of the partial index memories_hidden, so that it is
# used.
HIDDEN: Final = """(status <> 'active' OR expires_at IS NOT NULL)
    AND (status <> 'active' OR expires_at <= now())"""
# Few memories are hidden, so the visible ones are known by their absence from this list. Uses memories_hidden.
HIDDEN_IDS: Final = f"""hidden AS MATERIALIZED (
  SELECT id FROM memories WHERE namespace_id = %(namespace_id)s AND {HIDDEN})"""

SPOKEN: Final = f"({{0}}.turn_features & {TURN} <> 0 OR {{0}}.speaker_key IS NOT NULL)"  # of a row of `memories`
