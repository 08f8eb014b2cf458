"""What a turn of a conversation is found by.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

from pgengram.store.schema.migration_steps import run

revision = "0004"
down_revision = "0003"

FUNCTION = r"""
CREATE FUNCTION pgengram_turn_terms(body text) RETURNS integer[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  -- What a turn is found by: the first 32 bits of the MD5 of each stem of its first 50,000 characters.
  SELECT coalesce(array_agg(DISTINCT ('x' || left(md5(word), 8))::bit(32)::integer), '{}')
  FROM (
    SELECT unnest(tsvector_to_array(to_tsvector('pg_catalog.english'::regconfig,
      regexp_replace(left(body, 50000), '[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17D3\u3040-\u30FF\u3400-\u9FFF\uAC00-\uD7AF]+', ' ', 'g'))))
    UNION ALL
    SELECT first || second
    FROM (SELECT c AS first, lead(c, 1, '') OVER (ORDER BY n) AS second
          FROM unnest(string_to_array(left(body, 50000), NULL)) WITH ORDINALITY AS t(c, n)
          WHERE body ~ '[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17D3\u3040-\u30FF\u3400-\u9FFF\uAC00-\uD7AF]') AS pairs
    WHERE first || second ~ '^[\u0E00-\u0EFF\u1000-\u109F\u1780-\u17D3\u3040-\u30FF\u3400-\u9FFF\uAC00-\uD7AF]{2}$') AS found(word)
$$
"""


def upgrade() -> None:
    """Add the function, and the column that is made by it, of the turns that are there, too."""
    run(FUNCTION)
    run(
        "ALTER TABLE conversation_turns ADD COLUMN terms integer[] GENERATED ALWAYS AS (pgengram_turn_terms(text)) STORED"
    )
