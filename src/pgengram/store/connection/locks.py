"""The advisory locks that pgengram takes: each key once, so that no two purposes wait for each other.

PostgreSQL has two key spaces, one number and a pair of numbers, which never meet. The first of a pair says what is
locked, the second whose: a namespace's id, or the hash of a database's name.
"""

from __future__ import annotations

from typing import Final

# -- of the whole database: one number
# -----------------------------------------------------------------------------------

BACKUP: Final = 0x70_67_65_62  # one server at a time makes the daily backup
INDEXES: Final = 0x70_67_65_69  # one process at a time builds vector indexes
MODELS: Final = 0x70_67_65_6D  # one transaction at a time says which embedding model is the active one
MIGRATION: Final = 0x70_67_65_6E  # one process at a time migrates the schema; every release uses the same number
REEMBEDDING: Final = 0x70_67_65_76  # one process at a time moves a store to another embedding model

# -- of a namespace or a named database: a pair
# --------------------------------------------------------------------------

IDENTITY: Final = 0x70_67_69_64  # one call at a time records the identity or a belief
NEAR_DUPLICATES: Final = 0x70_67_6E_64  # one batch at a time that may merge looks for near duplicates and stores
POSTINGS: Final = 0x70_67_70_6C  # one process at a time compacts the postings
RESTORE: Final = 0x70_67_72_73  # one restore at a time replaces a database
SYNC: Final = 0x70_67_73_63  # one process at a time exchanges changes with other machines
SYNONYMS: Final = 0x70_67_73_79  # one call at a time edits tag synonyms, so that two cannot close a circle together
WORKING: Final = 0x70_67_77_6D  # one call at a time looks for a working memory and holds it

WAIT: Final = "SELECT pg_advisory_xact_lock(%(key)s)"
WAIT_IN_NAMESPACE: Final = "SELECT pg_advisory_xact_lock(%(key)s, %(namespace_id)s::integer)"
TRY_IN_NAMESPACE: Final = "SELECT pg_try_advisory_xact_lock(%(key)s, %(namespace_id)s::integer) AS taken"
