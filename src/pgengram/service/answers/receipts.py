"""The answers of writing tools: what became of memories that were stored, changed or removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from pgengram.ids import short
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.memory import changes, deletion
from pgengram.store.memory.memories import Draft
from pgengram.store.memory.plans import ChangePlan
from pgengram.store.memory.upsert import WriteResult
from pgengram.text.shown import counted
from pgengram.views import (
    Forgotten,
    Updated,
    corrected_view,
    cut,
    memory_view,
    near_view,
    problems_view,
    receipt_view,
    replaced_view,
)

# What is to be done about `may_replace`: nothing is forgotten by itself.
REPLACING: Final = " What may_replace lists may no longer hold; if so: forget_memories(ids=[…], {})."
CHANGING: Final = (
    " It tells of a change, but nothing that it changes was found; if something is remembered that no longer holds: "
    "forget_memories(ids=[…], {})."
)

OUT_OF_SEARCH: Final = {"invalidated": "forgotten", "archived": "archived"}

# Turns of conversations that erased memories cite, by whether they are erased, too.
CITED: Final = {
    False: " {turns} cited turns of conversations stay; turns=true erases them, too.",
    True: " {turns} cited turns of conversations would be, too.",
}


def message_of(result: WriteResult) -> str:
    """Say what became of a memory that was to be stored."""
    said = {
        "new": "Remembered.",
        "known": "Already remembered.",
        "near": "Not stored: a memory says nearly the same already.",
        "merged": "Merged into a memory that says nearly the same.",
        "key": "Nothing stored: this is the memory of the first call with this idempotency_key.",
    }[result.outcome.how]
    if result.kept:
        said += f" Kept as stored: {', '.join(result.kept)}; update_memory changes that."
    if result.created and result.near:
        said += " Others say nearly the same: see near_duplicates."
    if result.corrected:
        said += " Something like it was forgotten: see previously_corrected."
    if result.replaced:
        said += f" It replaces {counted(len(result.replaced))}, forgotten now."
    if result.may_replace:
        said += REPLACING.format(f'replaced_by_ids=["{short(result.id)}"]')
    if result.may_change:
        said += CHANGING.format(f'replaced_by_ids=["{short(result.id)}"]')
    return said


def noticed(result: WriteResult) -> dict[str, Any]:
    """Return what stands beside a memory that was to be stored, as it is shown; nothing for what there is not."""
    seen = {
        "merged": result.outcome.how == "merged",
        "taken_over": result.outcome.taken_over,
        "kept_as_stored": result.kept,
        "near_duplicates": [near_view(*near) for near in result.near],
        "previously_corrected": [corrected_view(one.id, one.similarity, one.row) for one in result.corrected],
        "replaced": [str(id_) for id_ in result.replaced],
        "may_replace": [replaced_view(row) for row in result.may_replace],
    }
    return {name: value for name, value in seen.items() if value}


def _erased_counts(row: Row) -> dict[str, Any]:
    return {"id": str(row["id"]), "ok": True, "already_forgotten": row["status"] == "invalidated"}


def _not_removed(made: ChangePlan) -> list[dict[str, Any]]:
    return [one | {"ok": False} for one in problems_view(made.problems)]


def of_batch(
    drafts: Mapping[int, Draft],
    outcomes: Sequence[WriteResult],
    refused: Mapping[int, dict[str, str]],
    coerced: Mapping[int, dict[str, str]],
) -> list[dict[str, Any]]:
    """Return what became of each item of a batch, in the order of the items."""
    results: dict[int, dict[str, Any]] = {
        index: {"index": index, "ok": False, "error": problem} for index, problem in refused.items()
    }
    for (index, draft), result in zip(drafts.items(), outcomes, strict=True):
        stored = {"memory_id": str(result.id), "created": result.created}
        results[index] = {"index": index, "ok": True, **stored, **noticed(result)}
        beside = {"read": coerced[index], "redacted": draft.redacted}
        results[index] |= {name: value for name, value in beside.items() if value}
    return [results[index] for index in sorted(results)]


def updated(row: Row, made: changes.Plan, dates: dict[str, str], *, dry_run: bool) -> Updated:
    """Say which fields were changed, or would be, and which dates were read in the text."""
    if not made.changes:
        message = "Nothing to change: every field has this value already."
    else:
        message = f"{'Would change' if dry_run else 'Changed'} {', '.join(made.changed_fields)}."
    if (hidden := OUT_OF_SEARCH.get(row["status"])) and "status" not in made.changed_fields:
        message += f" It is {hidden}, so search leaves it out; status active restores it."
    return Updated(
        memory_id=str(row["id"]),
        changed_fields=made.changed_fields,
        message=message,
        version=row["version"],
        memory=memory_view(row),
        dry_run=dry_run or None,
        extra_metadata=made.extra_metadata or None,
        read=dates or None,
    )


async def preview(tx: Transaction, made: ChangePlan) -> Forgotten:
    """Say what would go, and how much of each."""
    [step] = made.steps
    hard, rows = step.action == "erase", [made.rows[id_] for id_ in step.ids if id_ in made.rows]
    belongings = await deletion.belongings(tx, step.ids) if hard else {}
    turns = await deletion.count_cited(tx, made.cited) if hard else 0
    shown = [
        _erased_counts(row)
        | {"content": cut(row["content"])}
        | ({"would_remove": belongings[row["id"]]} if hard else {})
        for row in rows
    ]
    return Forgotten(
        ok=bool(rows),
        results=[*shown, *_not_removed(made)],
        forgotten=0,
        message=f"{counted(len(rows))} would be {'permanently erased' if hard else 'forgotten'}."
        + (CITED[step.turns].format(turns=turns) if turns else ""),
        previewed=True,
        turns=turns or None,
    )


def removal(made: ChangePlan, erased: Mapping[UUID, Any]) -> Forgotten:
    """Say what was forgotten or erased."""
    [step] = made.steps
    if step.action == "erase":
        return Forgotten(
            ok=bool(erased),
            results=[*map(receipt_view, erased.values()), *_not_removed(made)],
            forgotten=0,
            erased=len(erased),
            message=_what_became(("permanently erased", len(erased)), ("not found", len(made.problems))),
        )
    results = [_erased_counts(made.rows[id_]) for id_ in step.ids if id_ in made.rows]
    fresh = sum(not result["already_forgotten"] for result in results)
    return Forgotten(
        ok=bool(results),
        results=[*results, *_not_removed(made)],
        forgotten=fresh,
        message=_what_became(
            ("forgotten", fresh), ("already forgotten", len(results) - fresh), ("not found", len(made.problems))
        ),
    )


def _what_became(*parts: tuple[str, int]) -> str:
    """Return how many memories became what, without what happened to none."""
    (what, number), *more = [part for part in parts if part[1]] or [parts[0]]
    return f"{counted(number)} {what}{''.join(f', {rest:,} {other}' for other, rest in more)}."
