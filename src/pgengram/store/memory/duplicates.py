"""What is near to a memory that is told: others that say nearly the same, forgotten ones, and those it may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from psycopg.types.json import Jsonb

from pgengram import fields as f
from pgengram.fields import SCOPE
from pgengram.store.connection.begin import NO_SORT
from pgengram.store.connection.database import Row, Transaction
from pgengram.store.connection.pool import vectors_parameter
from pgengram.store.memory.memories import Draft, Outcome
from pgengram.store.schema import VISIBLE
from pgengram.text.differences import differences, overlap
from pgengram.text.sameness import OTHERWISE, folded, said_otherwise
from pgengram.text.words import apart, extra_terms

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

# Cosines of different models are no common measure. Of a model that was not looked at, only what is nearly the same
# text counts: a near duplicate that is not noticed does less harm than a merge of what does not belong together.
NEAR_BY_MODEL: Final = {"all-MiniLM-L6-v2": 0.92}
NEAR_OTHERWISE: Final = 0.95
CORRECTED_MARGIN: Final = 0.02  # forgotten memories are told of a little sooner: they change nothing
NEAR_ELSEWHERE: Final = 0.98  # of another user, project or collection: equal or nearly so
NEAR_BY_WORDS: Final = 0.75  # share of words in common, without an embedder
MAX_REPORTED: Final = 5  # near ones of each kind
FEW_IN_SCOPE: Final = 1_000  # the same for the memories of one project, user or collection
NEAREST: Final = 50  # vectors that the index gives for one text, of any scope and status
NEAREST_OF_FEW: Final = 200  # the same where each vector is looked at
FAR: Final = 0.65  # a distance from which on nothing is told of
LOOKED_AT: Final = 20  # of these, to find those of the same scope that a text may change
ALIKE_KEPT: Final = 5  # of these
NEAR_PROBES: Final = 10  # lists visited: what is nearly the same lies in the same list or in one beside it
WORDS_LOOKED_UP: Final = 8  # of one text, the rarest that any memory has
MAX_POSTINGS: Final = 500  # read for one of them
MOST_OF_IT: Final = 0.6  # of the words of a text, that a memory must have to be looked at


class Model(Protocol):
    """The model whose vectors are compared, and how those of a namespace are searched."""

    id: int
    dimensions: int

    @property
    def few(self) -> int:
        """How many vectors of a namespace are compared one by one."""

    def way(self, namespace_id: int) -> str:
        """Return each, index or either."""

    def note(self, namespace_id: int, vectors: int) -> None:
        """Remember how many vectors were counted."""


@dataclass(slots=True)
class Near:
    """A memory near to what is told: its cosine (or share of words), its row, and in what the two differ."""

    id: UUID
    similarity: float
    row: Row
    differs_in: list[str]


@dataclass(slots=True)
class WriteCandidate:
    """What is found and decided about one draft.

    near: active memories near to it, nearest first; corrected: forgotten ones; alike: the active ones of its scope that
    are nearest, however far; known: an active memory says the same; looks: it asks for near ones.
    earlier: drafts of the same batch near to it: cosine, place, in what they differ. target, stands_for: the memory or
    the place of the earlier draft that stands for it.
    """

    draft: Draft
    place: int
    near: list[Near] = field(default_factory=list)
    corrected: list[Near] = field(default_factory=list)
    alike: list[Row] = field(default_factory=list)
    earlier: list[tuple[float, int, list[str]]] = field(default_factory=list)
    known: bool = False
    looks: bool = False
    target: Near | None = None
    stands_for: int | None = None
    outcome: Outcome | None = None

    @property
    def said_again(self) -> set[UUID]:
        """The memories near to it that say the same in other words."""
        return {near.id for near in self.near if {*near.differs_in} <= {*OTHERWISE}}

    @property
    def replaced(self) -> list[UUID]:
        """The memories that are forgotten for what it has become."""
        return [id_ for id_ in self.draft.replaced if self.outcome and id_ != self.outcome.id]

    @property
    def settled(self) -> bool:
        """Whether a memory or an earlier draft stands for it, so that it is not stored by itself."""
        return not (self.outcome is None and self.target is None and self.stands_for is None)


def threshold(model_name: str) -> float:
    """Return the cosine from which on two texts are near duplicates by this model."""
    return next((near for name, near in NEAR_BY_MODEL.items() if name in model_name), NEAR_OTHERWISE)


# What is told, one row for each part of each text.
ASKED: Final = """asked AS MATERIALIZED (
  SELECT * FROM unnest(%(places)s::integer[], %(parts)s::smallint[], %(vectors)b::halfvec[], %(users)s::text[],
    %(projects)s::text[], %(collections)s::text[])
    AS a(place, part, vector, "user", project, collection)
)"""
# Where all that the index gave is near, more of the text's own scope may be: there the members of named scopes that
# have few are looked at. Uses memories_by_project, memories_by_user and memories_by_collection.
MEMBERS: Final = f"""crowded AS MATERIALIZED (
  SELECT place FROM near_by WHERE {{many}} AND distance <= 1 - %(least)s GROUP BY place HAVING count(*) >= {NEAREST}
), scopes AS MATERIALIZED (
  SELECT DISTINCT project, "user", collection FROM asked JOIN crowded USING (place)
  WHERE coalesce(project, "user", collection) IS NOT NULL
), members AS MATERIALIZED (
  SELECT project, "user", collection, id FROM (
    SELECT scopes.*, m.id, count(*) OVER (PARTITION BY scopes.project, scopes."user", scopes.collection) AS members
    FROM scopes CROSS JOIN LATERAL (
      (SELECT id FROM memories m WHERE m.namespace_id = %(namespace_id)s AND scopes.project IS NOT NULL
         AND m.project = scopes.project LIMIT {FEW_IN_SCOPE + 1})
      UNION ALL
      (SELECT id FROM memories m WHERE m.namespace_id = %(namespace_id)s AND scopes.project IS NULL AND scopes."user" IS NOT NULL
         AND m."user" = scopes."user" LIMIT {FEW_IN_SCOPE + 1})
      UNION ALL
      (SELECT id FROM memories m WHERE m.namespace_id = %(namespace_id)s AND scopes.project IS NULL AND scopes."user" IS NULL
         AND m.collection = scopes.collection LIMIT {FEW_IN_SCOPE + 1})) AS m) AS counted
  WHERE members <= {FEW_IN_SCOPE}
)"""
SEEN: Final = """m.id, m.type, m.kind, m.status, m.content, m.content_hash, m.speaker, m.occurred_at, m.reason,
  m.replaced_by, m."user", m.project, m.collection, m.turn_features, m.created_at, m.last_confirmed_at, m.expires_at"""
# Uses memories_pkey; what was forgotten is near, too.
JUDGED: Final = f"""
SELECT * FROM (
  SELECT j.*, row_number() OVER (PARTITION BY j.place, j.status, j.elsewhere ORDER BY j.similarity DESC, j.id DESC) AS rank
  FROM (SELECT n.place, {{similarity}} AS similarity, m.*, (m."user", m.project, m.collection)
          IS DISTINCT FROM (a."user", a.project, a.collection) AS elsewhere
        FROM (SELECT place, memory_id, max(similarity) AS similarity FROM near GROUP BY place, memory_id) AS n
        JOIN (SELECT DISTINCT place, "user", project, collection FROM asked) AS a USING (place)
        CROSS JOIN LATERAL (
          SELECT {SEEN} FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m.id = n.memory_id
            AND ({VISIBLE} OR m.status = 'invalidated') OFFSET 0) AS m) AS j
  WHERE j.similarity >= CASE WHEN j.elsewhere THEN greatest(%(least)s, {NEAR_ELSEWHERE}) ELSE %(least)s END) AS ranked
WHERE rank <= {MAX_REPORTED + 1} ORDER BY place, elsewhere, rank
"""


# Of the nearest, the memories that may be of the text's own scope: a user, project or collection that is not named may
# be any. Uses memories_pkey.
ALIKE: Final = f"""
SELECT * FROM (
  SELECT n.place, 1 - n.distance AS similarity, m.*, false AS elsewhere,
    row_number() OVER (PARTITION BY n.place ORDER BY n.distance, m.id DESC) AS rank
  FROM (SELECT place, "user", project, collection, memory_id, min(distance) AS distance FROM near_by
        WHERE rank <= {LOOKED_AT} GROUP BY place, "user", project, collection, memory_id) AS n
  CROSS JOIN LATERAL (SELECT {SEEN} FROM memories m WHERE m.namespace_id = %(namespace_id)s AND m.id = n.memory_id OFFSET 0) AS m
  WHERE {VISIBLE} AND coalesce(m."user" = n."user", true)
    AND coalesce(m.project = n.project, true) AND coalesce(m.collection = n.collection, true)) AS ranked
WHERE rank <= {ALIKE_KEPT}
"""


def near_by_meaning(model: Model, way: str) -> str:
    """Return the statement that finds what is near to each of some texts by their vectors.

    A text is compared by its first part; of what that finds, all parts decide: each of the one's with the best of the
    other's, in the direction that fits less. Uses memory_vectors_pkey for the few, else the index of the model. Rows
    that are `alike` are the nearest of the text's scope, by the first part alone.
    """
    mine = f"v.namespace_id = %(namespace_id)s AND v.model_id = {model.id}"
    few, many = {
        "each": ("true", "false"),
        "index": ("false", "true"),
        "either": (f"(SELECT vectors <= {model.few} FROM sized)", f"(SELECT vectors > {model.few} FROM sized)"),
    }[way]
    exact = "v.embedding <=> a.vector"
    indexed = f"(v.embedding::halfvec({model.dimensions})) <=> a.vector::halfvec({model.dimensions})"
    walked = f"SELECT v.memory_id, {indexed} AS distance FROM memory_vectors v WHERE {mine} ORDER BY {indexed} LIMIT {NEAREST}"
    looked_at = f"""SELECT * FROM (SELECT v.memory_id, {exact} AS distance FROM memory_vectors v WHERE {mine} OFFSET 0) AS v
      WHERE v.distance <= {FAR} ORDER BY v.distance LIMIT {NEAREST_OF_FEW}"""

    def nearest(vectors: str, condition: str) -> str:
        return f"""SELECT a.place, a."user", a.project, a.collection, v.memory_id, v.distance, row_number() OVER (PARTITION BY a.place ORDER BY v.distance) AS rank
  FROM (SELECT * FROM asked WHERE part = 0 AND {condition}) AS a CROSS JOIN LATERAL ({vectors}) AS v WHERE v.distance <= {FAR}"""

    ways = {"each": nearest(looked_at, few), "index": nearest(walked, many)}
    near_by = ways.get(way) or " UNION ALL ".join(ways.values())
    members = f"""SELECT a.place, v.memory_id, 1 - v.distance FROM asked a JOIN crowded USING (place)
      JOIN members ON members.project IS NOT DISTINCT FROM a.project AND members."user" IS NOT DISTINCT FROM a."user"
        AND members.collection IS NOT DISTINCT FROM a.collection
      CROSS JOIN LATERAL (SELECT v.memory_id, {exact} AS distance FROM memory_vectors v
        WHERE {mine} AND v.memory_id = members.id OFFSET 0) AS v
      WHERE a.part = 0 AND v.distance <= 1 - %(least)s::double precision"""
    near = "SELECT place, memory_id, 1 - distance AS similarity FROM near_by WHERE distance <= 1 - %(least)s::double precision"
    known = {"each": "0", "index": str(model.few + 1)}
    count = f"""(SELECT count(*) FROM (
      SELECT 1 FROM memory_vectors v WHERE {mine} LIMIT {model.few + 1}) AS some_of_them)"""
    best = "1 - min(v.embedding <=> a.vector) AS best FROM asked a JOIN memory_vectors v ON"
    parts = f"{best} {mine} AND v.memory_id = n.memory_id WHERE a.place = n.place GROUP BY"
    similarity = f"""least((SELECT avg(best) FROM (SELECT {parts} a.part) AS told),
          (SELECT avg(best) FROM (SELECT {parts} v.part) AS there))"""
    return f"""WITH {ASKED}, sized AS MATERIALIZED (SELECT {known.get(way, count)} AS vectors),
near_by AS MATERIALIZED ({near_by}), {"" if way == "each" else MEMBERS.format(many=many) + ","}
near AS MATERIALIZED ({near} {"" if way == "each" else "UNION ALL " + members}),
judged AS ({JUDGED.format(similarity=similarity)}), alike AS ({ALIKE})
SELECT sized.vectors, found.* FROM sized LEFT JOIN (
  SELECT judged.*, false AS alike FROM judged UNION ALL SELECT alike.*, true FROM alike) AS found ON true
ORDER BY place, alike, elsewhere, rank
"""


# What is given, its words, and the memories that have most of them: those with its rarest ones, and of the forgotten
# ones, which no search by words finds, any. The share of the words is counted array by array: over rows, 200 texts that
# have words in common would be compared 200 times as often. Uses memory_words_waiting, memory_posting_lists_pkey,
# memories_hidden and memory_words_pkey.
BY_WORDS: Final = f"""WITH asked AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(%(candidates)s) AS g(
    place integer, content text, extra text[], "user" text, project text, collection text)
), wanted AS MATERIALIZED (
  SELECT a.place, array_agg(t.term) AS terms FROM asked a, pgengram_terms(a.content, a.extra) AS t GROUP BY a.place
), words AS MATERIALIZED (
  SELECT DISTINCT term FROM wanted, unnest(terms) AS t(term)
), waiting AS MATERIALIZED (
  SELECT t.term, w.memory_id, row_number() OVER (PARTITION BY t.term ORDER BY w.memory_id DESC) AS rank
  FROM memory_words w CROSS JOIN LATERAL unnest(w.terms) AS t(term)
  WHERE w.namespace_id = %(namespace_id)s AND w.segment IS NULL AND t.term IN (SELECT term FROM words)
), known AS MATERIALIZED (
  SELECT d.term, coalesce(w.memories, 0) + (SELECT coalesce(sum(cardinality(l.memory_ids)), 0) FROM memory_posting_lists l
       WHERE l.namespace_id = %(namespace_id)s AND l.term = d.term) AS memories
  FROM words d LEFT JOIN (SELECT term, count(*) AS memories FROM waiting GROUP BY term) AS w USING (term)
), rare AS MATERIALIZED (
  SELECT place, term FROM (
    SELECT wanted.place, term, row_number() OVER (PARTITION BY wanted.place ORDER BY memories) AS rank
    FROM wanted CROSS JOIN LATERAL unnest(terms) AS t(term) JOIN known USING (term) WHERE memories > 0) AS ranked
  WHERE rank <= {WORDS_LOOKED_UP}
), found AS MATERIALIZED (
  SELECT place, memory_id FROM (
    SELECT p.place, p.memory_id, row_number() OVER (PARTITION BY p.place ORDER BY count(*) DESC) AS rank
    FROM (
      SELECT rare.place, waiting.memory_id FROM rare JOIN waiting ON waiting.term = rare.term AND waiting.rank <= {MAX_POSTINGS}
      UNION ALL
      SELECT rare.place, l.id FROM rare CROSS JOIN LATERAL (
        SELECT id FROM memory_posting_lists l, unnest(l.memory_ids) AS id
        WHERE l.namespace_id = %(namespace_id)s AND l.term = rare.term LIMIT {MAX_POSTINGS}) AS l) AS p
    GROUP BY p.place, p.memory_id) AS counted
  WHERE rank <= {NEAREST}
  UNION ALL
  SELECT wanted.place, m.id FROM wanted CROSS JOIN memories m
  WHERE m.namespace_id = %(namespace_id)s AND m.status = 'invalidated'
), near AS MATERIALIZED (
  SELECT * FROM (
    SELECT found.place, found.memory_id, (SELECT count(*) FROM unnest(wanted.terms) AS t(term)
      WHERE t.term = ANY(w.terms))::double precision / cardinality(wanted.terms) AS similarity
    FROM found JOIN wanted USING (place)
    JOIN memory_words w ON w.namespace_id = %(namespace_id)s AND w.memory_id = found.memory_id AND w.terms && wanted.terms) AS shared
  WHERE similarity >= %(least)s
)"""


async def find_by_words(tx: Transaction, candidates: Sequence[WriteCandidate]) -> None:
    """Note for each candidate which memories of its scope have nearly the same words."""
    candidates_json = [
        {
            "place": t.place,
            "content": apart(t.draft.row["content"]),
            "extra": extra_terms(t.draft.row["content"]),
            **{name: t.draft.row[name] for name in SCOPE},
        }
        for t in candidates
    ]
    rows = await tx.rows(
        BY_WORDS + JUDGED.format(similarity="n.similarity"), {"candidates": Jsonb(candidates_json), "least": MOST_OF_IT}
    )
    by_place = {t.place: t for t in candidates}
    measured = [
        {**row, "similarity": overlap(by_place[row["place"]].draft.row["content"], row["content"])} for row in rows
    ]
    least = {True: NEAR_ELSEWHERE, False: NEAR_BY_WORDS - CORRECTED_MARGIN}
    enough = [row for row in measured if row["similarity"] >= least[row["elsewhere"]]]
    _note_near(by_place, sorted(enough, key=lambda row: -row["similarity"]), NEAR_BY_WORDS)


async def note_similar(tx: Transaction, candidates: Sequence[WriteCandidate], model: Model, least: float) -> None:
    """Note for each candidate which memories of its scope are near to it, active and forgotten, by one statement."""
    vectors = [(t, number, part) for t in candidates for number, part in enumerate(t.draft.parts)]
    if not vectors:
        return
    way = model.way(tx.namespace_id)
    if way != "each":
        await tx.set_local(NO_SORT)
    rows = await tx.rows(near_by_meaning(model, way), _meaning_parameters(vectors, least))
    if way == "either":
        model.note(tx.namespace_id, rows[0]["vectors"])
    _note_found({t.place: t for t in candidates}, [row for row in rows if row["id"] is not None], least)


def _note_found(candidates: dict[int, WriteCandidate], rows: Sequence[Row], least: float) -> None:
    """Note the memories that are near, and those that are alike, for the candidates at their places."""
    _note_near(candidates, [row for row in rows if not row["alike"]], least)
    for row in rows:
        if row["alike"]:
            candidates[row["place"]].alike.append(row)


def _meaning_parameters(vectors: Sequence[tuple[WriteCandidate, int, Any]], least: float) -> dict[str, Any]:
    """Return the parameters of `by_meaning` for the numbered vectors of candidates."""
    asking, numbers, parts = zip(*vectors, strict=True)
    return {
        "places": [t.place for t in asking],
        "parts": list(numbers),
        "vectors": vectors_parameter(parts),
        "least": least - CORRECTED_MARGIN,
        **{f"{name}s": [t.draft.row[name] for t in asking] for name in SCOPE},
    }


def _note_near(candidates: dict[int, WriteCandidate], rows: Sequence[Row], least: float) -> None:
    for row in rows:
        candidate = candidates[row["place"]]
        same = bytes(row["content_hash"]) == candidate.draft.hash
        if row["status"] == "active":
            candidate.known |= same
            if same or row["similarity"] < least or len(candidate.near) == MAX_REPORTED:
                continue
        elif len(candidate.corrected) == MAX_REPORTED:
            continue
        found = Near(row["id"], row["similarity"], row, unlike(candidate.draft, row))
        (candidate.near if row["status"] == "active" else candidate.corrected).append(found)


def unlike(draft: Draft, row: Row) -> list[str]:
    """Return in what a draft and another, or a row, differ, so that neither stands for the other."""
    texts = draft.row["content"], row["content"]
    found = differences(*texts)
    then = row["occurred_at"]
    if draft.row["occurred_at"] != (f.as_utc(then) if isinstance(then, datetime) else then) and "dates" not in found:
        found.append("dates")
    if draft.row["speaker"] != row["speaker"] and "names" not in found:
        found.append("names")
    return found + said_otherwise(*texts, found) + [name for name in SCOPE if draft.row[name] != row[name]]


def stands_elsewhere(draft: Draft, near: Near) -> bool:
    """Whether a draft that names no user, project or collection says what a memory of one says, in the same words."""
    scoped = any(draft.row[name] is not None for name in SCOPE)
    return (
        not scoped and set(near.differs_in) <= {*SCOPE} and folded(draft.row["content"]) == folded(near.row["content"])
    )


def compare(candidates: Sequence[WriteCandidate], least: float, *, by_words: bool = False) -> None:
    """Note for each candidate that looks the earlier ones of the same batch and scope that are nearest to it."""
    if not any(one.looks for one in candidates):
        return
    least = NEAR_BY_WORDS if by_words else least
    nearest = _by_share(candidates, least) if by_words else _by_cosine(candidates, least - CORRECTED_MARGIN)
    for one, found in zip(candidates, nearest, strict=True):
        if one.looks:
            ordered = [(measure, candidates[place]) for measure, place in sorted(found, key=lambda pair: -pair[0])]
            _note_earlier(one, ordered, least, by_words=by_words)


def _note_earlier(
    one: WriteCandidate, found: Sequence[tuple[float, WriteCandidate]], least: float, *, by_words: bool
) -> None:
    for measure, other in found:
        if len(one.earlier) == MAX_REPORTED:
            break
        if not _differ_in_scope(one.draft, other.draft):
            continue
        alike = measure if by_words else likeness(one.draft.parts, other.draft.parts)
        if alike >= least:
            one.earlier.append((alike, other.place, unlike(one.draft, other.draft.row)))


def _differ_in_scope(one: Draft, other: Draft) -> bool:
    """Whether drafts of one batch say different things in the same scope."""
    return one.hash != other.hash and all(one.row[name] == other.row[name] for name in SCOPE)


def _by_cosine(candidates: Sequence[WriteCandidate], least: float) -> list[list[tuple[float, int]]]:
    """Return for each text the earlier ones whose first part is near to its own, each with the cosine.

    By einsum: matrix multiplication would take all processors for a moment, PostgreSQL's too, and then wait on them.
    """
    import numpy as np

    found: list[list[tuple[float, int]]] = [[] for _ in candidates]
    there = [place for place, t in enumerate(candidates) if len(t.draft.parts)]
    if len(there) > 1:
        first = np.stack([np.asarray(candidates[place].draft.parts[0], dtype=np.float32) for place in there])
        cosines = np.einsum("ik,jk->ij", first, first)
        for place, earlier in zip(*np.nonzero(np.tril(cosines >= least, -1)), strict=True):
            found[there[place]].append((float(cosines[place, earlier]), there[earlier]))
    return found


def _by_share(candidates: Sequence[WriteCandidate], least: float) -> list[list[tuple[float, int]]]:
    """Return for each text the earlier ones that have enough words in common with it, each with their share of all."""
    texts = [t.draft.row["content"] for t in candidates]
    shares = ([overlap(text, earlier) for earlier in texts[:place]] for place, text in enumerate(texts))
    return [[(share, place) for place, share in enumerate(row) if share >= least] for row in shares]


def likeness(one: NDArray[float32] | Sequence[Any], other: NDArray[float32] | Sequence[Any]) -> float:
    """Return how near two texts are by their parts, shape (parts, dims) each: the mean of the best."""
    import numpy as np

    cosines = np.asarray(one, dtype=np.float32) @ np.asarray(other, dtype=np.float32).T
    return float(min(cosines.max(axis=1).mean(), cosines.max(axis=0).mean()))
