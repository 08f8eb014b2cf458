"""What Ownsona's tools take and give: requests, and memories as its facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from pgengram import fields as f
from pgengram.compat.adapter import NumericId, Raw, number_of, without_none
from pgengram.errors import PgengramError
from pgengram.inputs import Request
from pgengram.service.toolsets.maintenance import NONE_GIVEN, Statistics
from pgengram.store.maintenance.findings import Pair
from pgengram.text.markdown import one_line
from pgengram.text.tags import normalised_tag
from pgengram.views import Shown

DedupPolicy = Literal["insert", "skip_if_near", "ask"]
Score = Annotated[float | None, Field(ge=-1, le=1, description="Least cosine.")]
Query = Annotated[str, f.Text, Field(min_length=1, max_length=f.MAX_QUERY)]
Limit = Annotated[int, Field(ge=1, le=f.MAX_LIMIT)]
# A blank name is none.
Name = Annotated[
    f.Name | None, BeforeValidator(lambda given: (given.strip() or None) if isinstance(given, str) else given)
]


class Fact(Request):
    """One durable fact."""

    text: f.Content
    tags: f.Tags = Field(default_factory=list)
    source_provider: Name = None
    importance: f.Importance = 0.5
    capture_mode: f.CaptureMode | None = None
    session_id: Name = None
    dedup_policy: DedupPolicy = "ask"
    expires_at: f.Expiry | None = None
    last_confirmed_at: f.Past | None = None


class FactChange(Request):
    """A change of one fact; only what is given changes."""

    id: NumericId
    text: f.Content | None = None
    tags: f.Tags | None = None
    importance: f.Importance | None = None
    expires_at: f.Expiry | None = None
    last_confirmed_at: f.Past | None = None
    dry_run: bool = False


class Recalling(Request):
    """A question."""

    query: Query
    limit: Annotated[int, Field(ge=1, le=50)] = 8
    min_score: Score = None
    tags: f.Tags = Field(default_factory=list)


class Which(Request):
    """Which facts are listed or counted; all conditions hold together."""

    include_deleted: bool = False
    untagged_only: bool = False
    min_chars: Annotated[int | None, Field(ge=0, le=f.MAX_CONTENT)] = None
    max_chars: Annotated[int | None, Field(ge=0, le=f.MAX_CONTENT)] = None
    not_confirmed_since: f.Past | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Which:
        if self.min_chars is not None and self.max_chars is not None and self.min_chars > self.max_chars:
            raise ValueError("min_chars is above max_chars; swap them")
        return self

    @property
    def filters(self) -> dict[str, Any]:
        """The same as the manager knows them."""
        return {
            "untagged": self.untagged_only or None,
            "min_length": self.min_chars,
            "max_length": self.max_chars,
            "not_confirmed_since": self.not_confirmed_since,
        }


class Listing(Which):
    """A page of facts."""

    limit: Limit = 20
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0


class Counting(Which):
    """Which facts to count."""

    tags: f.Tags = Field(default_factory=list)
    source_provider: Name = None


def memory_fields(fact: Fact) -> dict[str, Any]:
    """Return a fact as the fields of a new memory."""
    fields = {"content": fact.text, **fact.model_dump(exclude={"text"})}
    return without_none(fields)


def remembered(
    stored: Mapping[str, Any], near: list[dict[str, Any]], corrected: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return what became of a fact, with the facts that are near it and those that were forgotten."""
    answer = {
        "ok": True,
        "memory_id": number_of(stored["memory_id"]),
        "message": "Ok" if stored["created"] else "Already remembered",
        "near_duplicates": near,
        "candidates": near,
        "previously_corrected": corrected,
        "redacted": stored.get("redacted") or [],
    }
    return {name: value for name, value in answer.items() if value != []}


def dropped(tags: list[str]) -> dict[str, Any]:
    """Return which tags were left out, as they are none here; nothing where all were kept."""
    lost = [tag for tag in tags if not normalised_tag(tag)]
    return {"dropped_tags": lost} if lost else {}


FACT_FIELDS: Final = (
    "source_provider", "importance", "capture_mode", "session_id", "expires_at", "last_confirmed_at", "created_at",
    "updated_at",
)  # fmt: skip
NULLS: Final = ("source_provider", "expires_at", "last_confirmed_at", "deleted_at", "forget_reason", "replaced_by_id")


def fact_of(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a memory as a fact: `text`, a number for its id, and what became of it when it was forgotten."""
    fact = {"id": number_of(memory["id"]), "text": memory["content"], "tags": memory.get("tags") or []}
    fact |= {name: memory[name] for name in FACT_FIELDS if memory.get(name) is not None}
    if memory.get("status") == "invalidated":
        instead = [number_of(other) for other in memory.get("replaced_by") or ()]
        end = {"deleted_at": memory.get("valid_to"), "forget_reason": memory.get("reason")}
        end |= {"replaced_by_id": instead[0] if instead else None, "replaced_by": instead}
        fact |= {name: value for name, value in end.items() if value}
    return fact


def whole_fact(memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return a memory as a fact with null for what it has not."""
    return dict.fromkeys(NULLS) | fact_of(memory)


def exported(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a memory as Ownsona exports it; what is empty is left out."""
    return fact_of({**record, "importance": record["activation"]["importance"]})


def match(hit: Mapping[str, Any]) -> dict[str, Any]:
    """Return a hit as a match: the fact and its score, the cosine where there is one."""
    similarity = hit["why"]["similarity"]
    return {**fact_of(hit), "score": hit["score"] if similarity is None else similarity}


RULE: Final = "-" * 17


def fact_line(content: str) -> str:
    """Return a fact as one line that is not taken for the rule below the facts."""
    line = one_line(content)
    return f"\u2013 {line.lstrip('-')}" if line.startswith("---") else line


def envelope(facts: list[str], prompt: str) -> str:
    """Return a prompt with what is known before it, in the words that its manual fixes."""
    known = facts or ["No relevant previously known facts were found."]
    return "\n\n".join(
        ["The following are previously known facts:", *known, RULE, "The following is the user's prompt:", prompt]
    )


def erased_fact(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a preview shows of a fact, or the receipt of one that was erased."""
    shown: dict[str, Any] = {name: one[name] for name in ("would_remove", "erased_at", "removed") if name in one}
    return {"text": one["content"], **shown} if "content" in one else shown


def forgotten_message(one: Mapping[str, Any], *, hard: bool, dry_run: bool) -> str:
    """Say what became of a fact, or would, in the words of its manual."""
    if not dry_run:
        return "Hard deleted" if hard else "Forgotten"
    if hard:
        return "Would hard-delete"
    return "Would update tombstone (already soft-deleted)" if one.get("already_forgotten") else "Would soft-delete"


def group_of(facts: list[dict[str, Any]], similarities: list[float], why: str) -> dict[str, Any]:
    """Return facts that say nearly the same as a group."""
    near = {"max_similarity": round(max(similarities, default=1.0), 4), "pair_count": max(1, len(similarities))}
    return {"ids": [fact["id"] for fact in facts], **near, "memories": facts, "why": why}


def is_shown(record: Mapping[str, Any]) -> bool:
    """Whether a search shows the memory of a record: it is active, and has not expired."""
    over = record["expires_at"] and datetime.fromisoformat(record["expires_at"]) <= datetime.now(UTC)
    return record["status"] == "active" and not over


def facts_of(finding: Mapping[str, Any], facts: Mapping[str, Any]) -> list[Any]:
    """Return the facts that a finding is about."""
    return [facts[id_] for id_ in finding["ids"]]


def similarities(finding: Mapping[str, Any], pairs: Iterable[Pair]) -> list[float]:
    """Return how near those memories of a finding are to each other that were compared."""
    return [pair.similarity for pair in pairs if {str(pair.one), str(pair.other)} <= {*finding["ids"]}]


def counted_by(name: str, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return counts as a list of objects, without those of nothing."""
    return [{name: word, "count": count} for word, count in counts.items() if count]


def each(items: Sequence[Any], read: Callable[[Any], Any]) -> tuple[list[dict[str, Any]], dict[int, Any]]:
    """Return a result for each item, complete for the bad ones, and the good ones as read, by their place."""
    results: list[dict[str, Any]] = [{"input_index": place} for place in range(len(items))]
    good: dict[int, Any] = {}
    for place, item in enumerate(items):
        try:
            good[place] = read(item)
        except PgengramError as error:
            named = {"id": item["id"]} if isinstance(item, dict) and isinstance(item.get("id"), int) else {}
            results[place] |= {**named, "ok": False, "error": error.as_dict()}
    return results, good


def batch(results: Sequence[Mapping[str, Any]], *, dry_run: bool | None = None, **counts: int) -> Raw:
    """Return the answer of a tool for several facts, with a summary of what became of them."""
    good = sum(one["ok"] for one in results)
    bad = len(results) - good
    summary = {"total": len(results), "succeeded": good, "failed": bad, **counts, "errors": bad}
    echoed = {} if dry_run is None else {"dry_run": dry_run}
    return Raw({"ok": True, **echoed, "results": results, "summary": summary})


def near_duplicates(
    found: Mapping[str, Sequence[Shown]], facts: Mapping[str, dict[str, Any]], pairs: Sequence[Pair]
) -> dict[str, Any]:
    """Return groups of facts that say nearly the same, the nearest first, and the pairs that may contradict."""
    groups = [group_of(facts_of(one, facts), similarities(one, pairs), one["why"]) for one in found["duplicates"]]
    groups.sort(key=lambda group: -group["max_similarity"])
    summary = {"groups": len(groups), "pairs": sum(group["pair_count"] for group in groups)}
    conflicts = [{"memories": facts_of(one, facts), "why": one["why"]} for one in found["contradictions"]]
    return {"groups": groups, "possible_conflicts": conflicts, "summary": summary}


def statistics(counted: Statistics, extent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of facts by state, tag and provider, with their age and importance."""
    totals, tables = counted.totals, counted.model_dump(mode="json", exclude={"totals", "redacted"})
    providers = {"(none)" if name == NONE_GIVEN else name: n for name, n in tables["by_source_provider"].items()}
    known = {
        "avg_importance": extent["importance"],
        "oldest_created_at": f.as_utc(extent["oldest"]),
        "newest_created_at": f.as_utc(extent["newest"]),
    }
    return {
        "total": totals["memories"] - totals["working"],
        "soft_deleted": totals["forgotten"],
        **{name: totals[name] for name in ("active", "expired", "untagged")},
        **without_none(known),
        "top_tags": counted_by("tag", tables["tags"]),
        "by_provider": counted_by("provider", providers),
    }
