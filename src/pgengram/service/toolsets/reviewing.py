"""What a review of memories finds, and what it proposes to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from time import monotonic
from typing import Any, Final, Literal, get_args
from uuid import UUID

from pydantic_core import to_json

from pgengram.ids import short
from pgengram.runtime.context import BRIEFLY, author_of, report_progress
from pgengram.search.succession import HINTED, Succession, at_most, surest
from pgengram.search.vector_index import VectorIndex
from pgengram.service.toolsets.pairs import crowding_of_pairs, includes_all, sorted_out, succeeding, told_last, worth
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.maintenance import findings
from pgengram.store.maintenance.findings import Pair
from pgengram.store.memory import memories
from pgengram.store.memory.plans import Step
from pgengram.store.reading.transferring import BEGIN_READING
from pgengram.store.sync import disputes
from pgengram.text.markdown import one_line
from pgengram.text.shown import day_in_words, local_moment
from pgengram.text.words import words
from pgengram.views import Shown, cut

Finding = Literal[
    "disputed",
    "contradictions",
    "outdated",
    "duplicates",
    "expired",
    "stale",
    "fragments",
    "multi_fact",
    "unsourced",
    "untagged",
]
FINDINGS: Final[tuple[Finding, ...]] = get_args(Finding)
COMPARED: Final = 2_000  # memories whose neighbours one review looks for, the newest first
COMPARING_S: Final = 12.0  # a client waits about a minute
MAX_PAIRS: Final = 5_000
FINDING_EXCERPT_CHARS: Final = 120
KNOWN_TAGS: Final = 500
SUGGESTED_TAGS: Final = 3
SHORTEST_TAG: Final = 3  # letters; shorter ones stand in too many texts
LEAST_COSINE: Final = 0.35  # of pairs that are looked at
MERGING: Final = "says nearly the same as the one that replaces it"
ELSEWHERE: Final = "It was changed on two machines at the same time. The other one says"
CHOOSE: Final = "Confirm what is shown, or update_memory to the other."
LINKED: Final = "linked as contradicting each other"
COMPARING: Final = frozenset({"duplicates", "contradictions", "outdated"})


class Review:
    """One look at a namespace's memories.

    Args:
        tx: the namespace's transaction; nothing is written in it.
        projects: look at the one with these names only.
        limit: how many of each finding are told.

    Attributes:
        findings: by name, what was found, as it is shown.
        steps: by name, what is safe to be done about it; no memory is in two of them.
        found: by name, how many memories (or groups, or pairs) there are.
        looked_at: how many memories were looked at and compared.
        pairs: those that are near to each other, whatever they differ in.
    """

    def __init__(self, tx: Transaction, projects: Sequence[str] | None, limit: int) -> None:
        self.findings: dict[str, list[Shown]] = {}
        self.steps: dict[str, list[Step]] = {}
        self.found: dict[str, int] = {}
        self.looked_at: Shown = {}
        self.pairs: list[Pair] = []
        self._tx = tx
        self._projects = projects
        self._limit = limit
        self._planned_ids: set[UUID] = set()

    async def inspect(
        self, wanted: Sequence[str], model: VectorIndex | None, *, threshold: float, offset: int, stale: timedelta
    ) -> None:
        """Find what needs care of the `wanted` kinds.

        Args:
            wanted: names of findings.
            model: whose vectors tell what is near; None compares nothing.
            threshold: least cosine of duplicates.
            offset: of the memories that are compared.
            stale: for how long a memory of no use was not used.
        """
        await self._tx.rows(BEGIN_READING)  # pairs are judged between statements, for seconds on a busy machine
        if "disputed" in wanted:
            await self.note_disputes()
        if not COMPARING.isdisjoint(wanted):
            await self.compare(model, threshold=threshold, offset=offset)
        await self.judge([name for name in wanted if name in findings.CONDITIONS], stale)

    # -- pairs -----------------------------------------------------------------------------------------------------

    async def compare(self, model: VectorIndex | None, *, threshold: float, offset: int) -> None:
        """Find near duplicates, contradictions and what may no longer hold among up to `COMPARED` memories and their
        neighbours, from `offset` on.
        """
        ids, all_of_them = await findings.candidates(self._tx, projects=self._projects, limit=COMPARED, offset=offset)
        self.looked_at = {"memories": all_of_them, "compared": 0}
        near = [] if model is None else await self._near(ids, model, threshold, offset)
        self.pairs = [pair for pair in near if pair.similarity >= threshold]
        apart, crowded = await asyncio.to_thread(_worth_reading, near, threshold)
        linked = await findings.linked_contradictions(self._tx, projects=self._projects, limit=self._limit)
        named = {*chain(((pair.one, pair.other) for pair in (*self.pairs, *apart)), linked)}
        rows = await memories.read_memories(self._tx, sorted({*chain.from_iterable(named)}), self._tx.model_id)
        # Thousands of texts are compared: other calls are answered meanwhile.
        await asyncio.to_thread(self._note_pairs, apart, crowded, linked, rows)

    def _note_pairs(
        self,
        apart: Sequence[Pair],
        crowded: Mapping[Pair, float],
        linked: Iterable[tuple[UUID, UUID]],
        rows: dict[UUID, Row],
    ) -> None:
        """Judge what the memories of near pairs are to each other, and note it; in any thread."""
        alike, otherwise, differing = sorted_out(self.pairs, rows)
        self._note_contradictions(differing, linked, rows)
        self._note_outdated(surest(succeeding(apart, crowded, rows), HINTED), rows)
        self._note_duplicates(alike, rows)
        self._note_wording(otherwise, rows)

    async def _near(self, ids: Sequence[UUID], model: VectorIndex, threshold: float, offset: int) -> list[Pair]:
        """Return the pairs that are near enough to look at, and note from where on the next call compares."""
        if model.id != self._tx.model_id:
            return []
        near = await self._pairs(ids, model, threshold)
        compared = self.looked_at["compared"]
        if offset + compared < self.looked_at["memories"]:
            self.looked_at["next_offset"] = offset + compared
        return near

    async def _pairs(self, ids: Sequence[UUID], model: VectorIndex, threshold: float) -> list[Pair]:
        found: dict[tuple[UUID, UUID], Pair] = {}
        started = monotonic()
        for start in range(0, len(ids), findings.CHUNK):
            chunk = ids[start : start + findings.CHUNK]
            for pair in await findings.near_pairs(
                self._tx,
                chunk,
                model=model.id,
                dimensions=model.dimensions,
                indexed=model.indexed,
                threshold=min(threshold, LEAST_COSINE),
            ):
                found[min(pair.one, pair.other), max(pair.one, pair.other)] = pair
            self.looked_at["compared"] += len(chunk)
            await report_progress(f"{self.looked_at['compared']:,} of {len(ids):,} memories are compared.")
            near = sum(pair.similarity >= threshold for pair in found.values())
            if monotonic() - started > COMPARING_S or near > MAX_PAIRS:
                break
        return list(found.values())

    def _note_contradictions(
        self, differing: Iterable[tuple[Pair, list[str]]], linked: Iterable[tuple[UUID, UUID]], rows: dict[UUID, Row]
    ) -> None:
        why = {
            tuple(
                sorted((pair.one, pair.other))
            ): f"Nearly the same (similarity {pair.similarity:.2f}), but they differ in {' and '.join(names)}"
            for pair, names in differing
        }
        why |= {tuple(sorted(pair)): LINKED.capitalize() for pair in linked if {*pair} <= rows.keys()}
        self.found["contradictions"] = len(why)
        for pair, reason in list(why.items())[: self._limit]:
            older, newer = sorted((rows[id_] for id_ in pair), key=told_last)
            self._note(
                "contradictions",
                [older, newer],
                action="forget",
                into={"ids": [str(older["id"])], "replaced_by": [str(newer["id"])]},
                why=f"{reason}. If only one is true, forget the other.",
            )

    def _note_outdated(self, judged: Sequence[tuple[Succession, float]], rows: dict[UUID, Row]) -> None:
        self.found["outdated"] = len(judged)
        for (newer, older), _ in sorted(judged, key=lambda one: -one[1])[: self._limit]:
            self._note(
                "outdated",
                [rows[older], rows[newer]],
                action="forget",
                into={"ids": [str(older)], "replaced_by": [str(newer)]},
                why="The second is newer and may replace the first. If so, forget the first; if both are true, "
                "confirm both.",
            )

    def _note_duplicates(self, alike: Sequence[Pair], rows: dict[UUID, Row]) -> None:
        similarity = {frozenset((pair.one, pair.other)): pair.similarity for pair in alike}
        grouped = findings.groups([(pair.one, pair.other) for pair in alike])
        self.found["duplicates"] = len(grouped)
        for group in grouped[: self._limit]:
            stays, *others = sorted((rows[id_] for id_ in group), key=worth, reverse=True)
            goes = [row for row in others if not row["pinned"] and includes_all(stays, row)]
            if goes:
                self._take("duplicates", Step("merge", [row["id"] for row in goes], into=stays["id"], reason=MERGING))
                self._note(
                    "duplicates",
                    [stays, *goes],
                    action="merge",
                    into={"into": str(stays["id"])},
                    why=_why_alike(similarity, stays, goes),
                )

    def _note_wording(self, pairs: Sequence[Pair], rows: dict[UUID, Row]) -> None:
        """Show what may say the same in other words; whether it does only a reader can tell, so nothing is planned."""
        self.found["duplicates"] += len(pairs)
        shown = len(self.findings.get("duplicates", ()))
        for pair in pairs[: max(0, self._limit - shown)]:
            stays, goes = sorted((rows[id_] for id_ in (pair.one, pair.other)), key=worth, reverse=True)
            alike = _why_alike({frozenset((pair.one, pair.other)): pair.similarity}, stays, [goes])
            why = f"{alike} Each has words that the other has not: merge them only if one says all that the other says."
            self._note("duplicates", [stays, goes], action="keep", why=why)

    async def note_disputes(self) -> None:
        """Find memories that two machines changed at the same time: the later text is shown, and the other is kept."""
        disputed = {UUID(id_): fields for id_, fields in (await disputes.found(self._tx, self._limit)).items()}
        rows = await memories.read_memories(self._tx, sorted(disputed), self._tx.model_id)
        self.found["disputed"] = await disputes.count(self._tx) if disputed else 0
        for id_, fields in disputed.items():
            if id_ in rows and (self._projects is None or rows[id_]["project"] in self._projects):
                said = "; ".join(
                    f"{name}: {cut(one_line(str(value)), FINDING_EXCERPT_CHARS)}" for name, value in fields
                )
                self._note("disputed", [rows[id_]], action="confirm", why=f"{ELSEWHERE} {said}. {CHOOSE}")

    # -- one by one ------------------------------------------------------------------------------------------------

    async def judge(self, names: Sequence[str], stale: timedelta) -> None:
        """Find memories that need care for themselves."""
        found, rows = await findings.count_findings(
            self._tx, names, projects=self._projects, stale=stale, limit=self._limit
        )
        self.found |= found
        tags = await findings.tag_counts(self._tx, limit=KNOWN_TAGS) if "untagged" in found else {}
        for name in names:
            mine = [row for row in rows if row["finding"] == name]
            getattr(self, f"_note_{name}")(mine, [tag for tag in tags if len(tag) >= SHORTEST_TAG])

    def _note_expired(self, rows: Sequence[Row], _: Sequence[str]) -> None:
        self._take_all("expired", rows)
        for row in rows:
            why = f"It has not appeared in search since {_day(row['expires_at'])}."
            self._note("expired", [row], action="archive", why=why)

    def _note_stale(self, rows: Sequence[Row], _: Sequence[str]) -> None:
        self._take_all("stale", rows)
        for row in rows:
            why = f"Not read, changed or confirmed since {_day(row['touched_at'])}."
            self._note("stale", [row], action="archive", why=why)

    def _note_fragments(self, rows: Sequence[Row], _: Sequence[str]) -> None:
        for row in rows:
            self._note(
                "fragments", [row], action="forget", why="It makes no sense on its own: complete it or forget it."
            )

    def _note_multi_fact(self, rows: Sequence[Row], _: Sequence[str]) -> None:
        for row in rows:
            why = f"{len(row['content']):,} characters with several facts: store each on its own, then forget this one."
            self._note("multi_fact", [row], action="keep", why=why)

    def _note_untagged(self, rows: Sequence[Row], tags: Sequence[str]) -> None:
        for row in rows:
            fitting = suggested(row["content"], tags)
            if fitting and row["id"] not in self._planned_ids:
                self._take("untagged", Step("tag", [row["id"]], tags=fitting))
            why = "It contains tags of other memories." if fitting else "It has no tag."
            self._note("untagged", [row], action="tag", into={"tags": fitting} if fitting else {}, why=why)

    def _note_unsourced(self, rows: Sequence[Row], _: Sequence[str]) -> None:
        for row in rows:
            unsure = row["confidence"] is not None and row["confidence"] < findings.UNSURE
            reason = f"Uncertain (confidence {row['confidence']:g})" if unsure else "Inferred and without a source"
            self._note("unsourced", [row], action="confirm", why=f"{reason}: confirm it, or forget it.")

    def leave_out(self, names: Sequence[str], room: int) -> list[str]:
        """Leave out the findings of the last of these names, and what would be done about them, until the rest fits
        into so many bytes; return the names of which nothing is left though something was found.
        """
        shown = [name for name in names if self.findings.get(name)]
        left_out: list[str] = []
        while len(shown) > 1 and len(to_json([self.findings[name] for name in shown])) > room:
            left_out.insert(0, last := shown.pop())
            self.steps.pop(last, None)
            del self.findings[last]
        return left_out

    def shown(self, names: Sequence[str]) -> Shown:
        """Return these findings, how many there are of each, and what was looked at."""
        return {
            "findings": [finding for name in names for finding in self.findings.get(name, ())],
            "found": {name: self.found.get(name, 0) for name in names if name != "disputed" or self.found.get(name)},
            "looked_at": self.looked_at,
        }

    def steps_of(self, names: Sequence[str]) -> list[Step]:
        """Return what is safe to be done about these findings."""
        return [step for name in names for step in self.steps.get(name, ())]

    # -- both ------------------------------------------------------------------------------------------------------

    def _take(self, name: str, step: Step) -> None:
        self._planned_ids |= set(step.touched)
        self.steps.setdefault(name, []).append(step)

    def _take_all(self, name: str, rows: Sequence[Row]) -> None:
        """Archive, not forget: what was forgotten is told of as corrected when somebody says it again."""
        ids = [row["id"] for row in rows if row["id"] not in self._planned_ids and not row["pinned"]]
        if ids:
            self._take(name, Step("archive", ids))

    def _note(
        self, name: str, rows: Sequence[Row], *, action: str, why: str, into: dict[str, Any] | None = None
    ) -> None:
        finding: Shown = {
            "finding": name,
            "ids": [str(row["id"]) for row in rows],
            "excerpts": [cut(one_line(row["content"]), FINDING_EXCERPT_CHARS) for row in rows],
            "why": why,
            "propose": {"action": action, **(into or {})},
        }
        authors = [author_of(row.get("person_id")) for row in rows]
        if any(authors):
            finding["authors"] = authors
        self.findings.setdefault(name, []).append(_in_brief(finding) if BRIEFLY.get() else finding)


def _worth_reading(near: Sequence[Pair], threshold: float) -> tuple[list[Pair], dict[Pair, float]]:
    """Return the pairs below the threshold whose texts may tell of a change, and how crowded it is around each pair."""
    crowded = crowding_of_pairs(near)
    further = (pair for pair in near if pair.similarity < threshold)
    return [pair for pair in further if at_most(pair.similarity, crowded[pair]) >= HINTED], crowded


def _day(moment: datetime) -> str:
    return day_in_words(local_moment(moment))


def _in_brief(finding: Shown) -> Shown:
    """Return a finding with short ids."""
    made = {
        name: _shortened(finding["propose"][name])
        for name in ("ids", "replaced_by", "into")
        if name in finding["propose"]
    }
    return {**finding, "ids": _shortened(finding["ids"]), "propose": {**finding["propose"], **made}}


def _shortened(ids: str | list[str]) -> str | list[str]:
    return short(ids) if isinstance(ids, str) else [short(id_) for id_ in ids]


def _why_alike(similarity: Mapping[frozenset[UUID], float], stays: Row, goes: Sequence[Row]) -> str:
    near = [similarity[pair] for row in goes if (pair := frozenset((stays["id"], row["id"]))) in similarity]
    return f"They say nearly the same{f' (similarity at least {min(near):.2f})' if near else ''}."


def suggested(content: str, tags: Sequence[str]) -> list[str]:
    """Return the first of `tags` all of whose words are in `content`."""
    there = {word.casefold() for word in words(content)}
    return [tag for tag in tags if (parts := words(tag.replace("-", " "))) and {*parts} <= there][:SUGGESTED_TAGS]
