"""How many memories each kind, project and tag would leave, beside the filters that are set already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pgengram.inputs import Question
from pgengram.search.filters import scope_of
from pgengram.store.connection.database import Transaction

MOST: Final = 200  # values of a filter
OF_TAGS: Final = "JOIN memory_tags t ON t.namespace_id = %(namespace_id)s AND t.memory_id = m.id"
# Of each filter its column, and the join that makes it known.
FACETS: Final = {"kind": ("m.kind", ""), "project": ("m.project", ""), "tags": ("t.tag", OF_TAGS)}
# Any of several kinds, and one project, may hold: what is chosen there leaves the others as they are. Of tags all hold.
LIFTED: Final = frozenset({"kind", "project"})
# Uses what `listing.COUNT` uses, and memory_tags_pkey.
COUNT: Final = """
SELECT {column} AS name, count(*) AS memories FROM memories m {join} {activation}
WHERE m.namespace_id = %(namespace_id)s AND {conditions} AND {column} IS NOT NULL
GROUP BY {column} ORDER BY memories DESC, {column} LIMIT %(limit)s
"""


async def counted(tx: Transaction, questions: Mapping[str, Question]) -> dict[str, dict[str, int]]:
    """Return for each filter its values, the most frequent first, with how many memories would be left by each.

    Args:
        tx: the namespace's transaction.
        questions: for each of FACETS what the other filters ask for.
    """
    found = {}
    for name, (column, join) in FACETS.items():
        scope = scope_of(questions[name])
        statement = COUNT.format(column=column, join=join, activation=scope.activation, conditions=scope.conditions)
        rows = await tx.rows(statement, {**scope.parameters, "limit": MOST})
        found[name] = {row["name"]: row["memories"] for row in rows}
    return found
