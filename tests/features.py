"""What pgengram can do: `python tests/features.py` writes docs/features.md from this, and each capability has tests.

A test says which capability it shows by its marker: `@pytest.mark.shows(7, 8)`. Tests are read, not run.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "features.md"


@dataclass(frozen=True)
class Feature:
    """A capability: its words, and how it is used."""

    words: str
    use: str


@dataclass(frozen=True)
class Shown:
    """A test that shows a capability."""

    file: str
    name: str


FEATURES: dict[int, Feature] = {
    1: Feature(
        "Four types of memory, each with its own details, stored in one step",
        "`create_memory` with `type`, and the details in `metadata`.",
    ),
    2: Feature(
        "Vectors computed from the text",
        "Automatic, or pass your own in `embedding`.",
    ),
    3: Feature(
        "Any embedding model, switched while searches go on, or none at all",
        "`PGENGRAM_EMBEDDER`; `pgengram reembed` moves a store to another model.",
    ),
    4: Feature(
        "Documented, enforced limits",
        "In each tool's schema, and in the error when a value exceeds one.",
    ),
    5: Feature(
        "Errors with a code, a message and a next step",
        "`ok` is false, and `error` has `code`, `message` and `hint`.",
    ),
    6: Feature(
        "Secrets are refused in every field",
        "Automatic: `SECRET_REJECTED`. With `PGENGRAM_SECRETS` set to `redact`, the rest is stored.",
    ),
    7: Feature(
        "Saying the same again creates no second memory",
        "`create_memory` returns `created: false`, confirms the existing memory and merges tags.",
    ),
    8: Feature(
        "Near duplicates are detected",
        "`dedup_policy` of `create_memory`: `ask` stores and reports them, `skip_if_near` stores only what differs, `insert` skips the check.",
    ),
    9: Feature(
        "Near duplicates can be merged",
        "`dedup_policy: merge`, if one text says all that the other says in the same words.",
    ),
    10: Feature(
        "A warning if something was corrected before",
        "`create_memory` returns `previously_corrected`: what was forgotten, why, and what replaced it.",
    ),
    11: Feature(
        "Consistent tags",
        "`tags` as a list or separated by commas; synonyms by `tidy_memories` or `pgengram tags`.",
    ),
    12: Feature(
        "Provenance",
        "`source`, `source_provider`, `capture_mode`, `session_id`, `speaker`, and `sources`, each with a level of trust.",
    ),
    13: Feature(
        "Memories that expire",
        "`expires_at`. Searches report in `hidden` how many they left out; `get_memories` still shows them.",
    ),
    14: Feature(
        "Confirming that something is still true",
        "`update_memory` with `confirm`. Hits that disagree name each other.",
    ),
    15: Feature(
        "Importance that fades over time",
        "Automatic, at a rate set by `kind` and `type`. Answers show `relevance` and `half_life_days`.",
    ),
    16: Feature(
        "Use is counted and strengthens a memory",
        "Automatic: reading, confirming and changing strengthen a memory for a while; appearing in results is only counted.",
    ),
    17: Feature(
        "Search by meaning",
        "`search_memories` with `mode: semantic` for meaning only; `min_similarity` sets a minimum cosine similarity.",
    ),
    18: Feature(
        "Search by words",
        '`mode: text` supports "phrases" and -exclusions; `mode: substring` matches exact characters.',
    ),
    19: Feature(
        "Search by meaning and words together",
        "`search_memories` without `mode`; `why` shows the parts of each score.",
    ),
    20: Feature(
        "Filters that apply before ranking",
        "`type`, `kind`, `tags`, `min_importance`, `since`, `until`, `user`, `project`, `emotion`, `source` and more.",
    ),
    21: Feature(
        "Short answers",
        "Contents are cut at 300 characters; `detail` shows them whole, `max_chars` sets a budget.",
    ),
    22: Feature(
        "Reading complete memories",
        "`get_memories` with up to 20 `ids`, which can be shortened; `include` adds `history`, `relations` and `clusters`.",
    ),
    23: Feature(
        "Lists, pages and counts",
        "`search_memories` without `query`, with `sort`, `offset` or `cursor`; `count_only` returns the number.",
    ),
    24: Feature(
        "Context for a task, as one text",
        "`recall_context` with the task or message and `max_chars`; it ranks as a search does.",
    ),
    25: Feature(
        "Changing any field",
        "`update_memory`: `clear` empties fields, `metadata` is merged, `expected_version` protects changes by others, `dry_run` only reports.",
    ),
    26: Feature(
        "Success rates of procedures",
        "`update_memory` with `outcome: success` or `failure`, and `failure_point`.",
    ),
    27: Feature(
        "Forgetting that can be undone",
        "`forget_memories` with `reason` and `replaced_by_ids`; `update_memory` with `status: active` restores.",
    ),
    28: Feature(
        "Confirmation before anything is lost",
        "Erasing, and changing many at once, first shows a preview. The client asks its user, or you pass `confirm_token`.",
    ),
    29: Feature(
        "Batches",
        "`create_memories` with up to 200 `items`; all or none with `atomic`.",
    ),
    30: Feature(
        "Typed links between memories",
        "`link_memories` with `type`, `strength` and `properties`; `related_to` links a new memory.",
    ),
    31: Feature(
        "Exploring the links",
        "`explore_memories` with `depth`, `direction`, `types` and `min_strength`. It also shows similar memories.",
    ),
    32: Feature(
        "Clusters of memories",
        "`create_memory_cluster`, `update_cluster_members`, `activate_cluster`; `get_memory_clusters` with `insights` and similar clusters.",
    ),
    33: Feature(
        "Working memory",
        "`create_working_memory` with `ttl_seconds`, `get_working_memories`, `consolidate_working_memory`.",
    ),
    34: Feature(
        "Archiving and pruning old memories",
        "`tidy_memories` with `action: archive` or `prune`, and thresholds; it shows a preview first.",
    ),
    35: Feature(
        "A history of every change",
        "`get_memories` with `include: history` shows old and new values, and who changed them.",
    ),
    36: Feature(
        "A review that finds what to tidy up",
        "`review_memories` proposes a plan; `tidy_memories` with `plan` shows it, then applies it in one transaction.",
    ),
    37: Feature(
        "Counts and health",
        "`memory_stats`: states, types, kinds, projects, tags, histograms, vectors and index.",
    ),
    38: Feature(
        "Themes, identity and worldview",
        "`get_memory_clusters` with `days`; `record_identity` and `get_identity_core`; `record_belief` and `get_worldview`.",
    ),
    39: Feature(
        "Export and import",
        "`pgengram export` and `pgengram import`, which also reads the data of other systems.",
    ),
    40: Feature(
        "Resources",
        "`memory://categories`, `memory://stats`, `memory://context`, and one for each memory.",
    ),
    41: Feature(
        "Prompts",
        "To begin and end a session, to remember and to recall.",
    ),
    42: Feature(
        "Remembered text is data, never instructions",
        "Automatic: no content can close the marks around recalled text, and SQL values are parameters.",
    ),
    43: Feature(
        "Emotion and confidence",
        "`emotion`, `confidence`, and `emotional_valence` in `metadata`.",
    ),
    44: Feature(
        "Automatic schema updates",
        "Automatic, when a server starts, completely or not at all.",
    ),
    45: Feature(
        "Clean protocol output",
        "Automatic. Calls without arguments work too.",
    ),
    46: Feature(
        "Spaces that several people share",
        "`pgengram person`, `pgengram space`; every tool takes `space`, `share_memories` copies after a person's yes.",
    ),
}


@cache
def shown() -> dict[int, list[Shown]]:
    """Return the tests that show each capability, in the order of files and lines."""
    found: dict[int, list[Shown]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body if "mark.shows(" in text else []:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for number in _numbers(node):
                    found[number].append(Shown(path.relative_to(TESTS.parent).as_posix(), node.name))
    return found


def _numbers(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[int]:
    """Yield what stands in the marker `shows` of a test."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.shows":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def page() -> str:
    """Return docs/features.md."""
    return "\n".join([HEAD, *(_row(number, feature) for number, feature in FEATURES.items()), ""])


HEAD = """\
# What pgengram can do

Each capability, and how to use it. `pytest` fails unless a test shows it: search the tests for `shows(` and its number.
"""


def _row(number: int, feature: Feature) -> str:
    return f"{number}. **{feature.words}.** {feature.use}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
