"""Records a batch at a time: what is wrong with one of them costs that one alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

import psycopg

from pgengram.errors import Conflict, DatabaseFailed, PgengramError
from pgengram.service.core import Core
from pgengram.service.secret_filter import filter_fields
from pgengram.store.connection.translation import broken_rule
from pgengram.transfer.records import OTHER_FORMS, Item, Left, of_another_form
from pgengram.transfer.report import Imported

BATCH: Final = 64  # memories embedded and stored together
IDS: Final = frozenset({"id", "replaced_by", "cluster_id", "belief_id", "from_id", "to_id", "memory_id"})
One = TypeVar("One")


def batches(items: Iterable[One]) -> Iterator[list[One]]:
    """Yield items a batch at a time."""
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


def record_without_secrets(record: Mapping[str, Any], core: Core, report: Imported) -> Mapping[str, Any]:
    """Return a record without secrets; ids, which nobody chose, are not judged.

    Raises:
        SecretRejected: it holds one, and secrets are not to be redacted.
    """
    judged = {name: value for name, value in record.items() if name not in IDS}
    clean, names = filter_fields(judged, redact=core.settings.secrets == "redact")
    if names:
        report.redacted += 1
    return {**record, **clean} if names else record


async def one_by_one_if_needed(
    items: list[tuple[Item, Any]], take: Callable[[Any], Awaitable[None]], report: Imported
) -> None:
    """Take several at once; when the database refuses them, find out which one it is."""
    try:
        await take(items)
    except (DatabaseFailed, Conflict, *OTHER_FORMS) as error:
        reason = _refusal_reason(error) if isinstance(error, PgengramError) else of_another_form("").reason
        if reason is None:
            raise
        if len(items) == 1:
            report.leave(Left(items[0][0].place, reason))
            return
        for item in items:
            await one_by_one_if_needed([item], take, report)


def _refusal_reason(error: PgengramError) -> str | None:
    """Return why the database refused a record, or None when the fault is not the record's."""
    cause = error.__cause__
    if not isinstance(cause, psycopg.DataError | psycopg.IntegrityError):
        return None
    rule = broken_rule(cause)
    return f"it breaks the rule {rule}" if rule else f"a value of it is of another sort (SQLSTATE {cause.sqlstate})"
