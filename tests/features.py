"""What pgengram can do, and the tests that show it: `python tests/features.py` writes docs/features.md from both.

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

AGI, CONTINUITY, SKYNET, OWNSONA, CROW = SYSTEMS = ("agi", "session-continuity", "skynet", "ownsona", "crow")


@dataclass(frozen=True)
class Feature:
    """A capability: its words, which of the other systems promise it, and how it is used here."""

    words: str
    promised_by: tuple[str, ...]
    use: str


@dataclass(frozen=True)
class Shown:
    """A test that shows a capability."""

    file: str
    name: str


FEATURES: dict[int, Feature] = {
    1: Feature(
        "Memories of four types, each with its detail, written together",
        (AGI,),
        "`create_memory` with `type`; detail goes into `metadata`, what is no detail of the type is kept there and reported.",
    ),
    2: Feature(
        "Vectors are made from the text",
        (CONTINUITY, SKYNET, OWNSONA, CROW),
        "Nothing to do. `embedding` takes a vector of one's own when its length fits.",
    ),
    3: Feature(
        "Any embedding model, a change of it while searches go on, or none",
        (OWNSONA, CROW),
        "`PGENGRAM_EMBEDDER`; `pgengram reembed` moves a store to another model. With `none:` answers say `degraded`.",
    ),
    4: Feature(
        "Limits that are told and kept",
        (CONTINUITY, OWNSONA),
        "They stand in each tool's schema, and in the message when something does not fit.",
    ),
    5: Feature(
        "Errors with a code, a message and the next step",
        (OWNSONA,),
        "`ok` is false and `error` has `code`, `message` and `hint`; after `INVALID_INPUT` nothing was changed.",
    ),
    6: Feature(
        "Secrets are refused wherever they stand",
        (OWNSONA,),
        "Nothing to do: `SECRET_REJECTED`, and nothing is stored. `PGENGRAM_SECRETS` set to `redact` stores the rest.",
    ),
    7: Feature(
        "The same said again is the same memory",
        (OWNSONA,),
        "`create_memory` answers `created` false, confirms what is there, unites tags and revives what had expired.",
    ),
    8: Feature(
        "What is nearly the same is recognised",
        (OWNSONA,),
        "`dedup_policy` of `create_memory`: `ask` stores and reports, `skip_if_near` stores only what differs, `insert` does not look.",
    ),
    9: Feature(
        "A new text is merged into what is nearly the same",
        (CONTINUITY,),
        "`dedup_policy` `merge`; never when numbers, dates, names or a negation differ. The old text stays in the history.",
    ),
    10: Feature(
        "A warning when something was corrected before",
        (OWNSONA,),
        "`create_memory` answers `previously_corrected`: what was forgotten, why, and what holds instead.",
    ),
    11: Feature(
        "Tags in one spelling",
        (OWNSONA, CONTINUITY, CROW),
        "`tags` as a list or with commas, in writing and in filters; synonyms are edited with `tidy_memories` or `pgengram tags`.",
    ),
    12: Feature(
        "Where a memory comes from",
        (OWNSONA, CROW, AGI),
        "`source`, `source_provider`, `capture_mode`, `session_id`, `speaker`, and `sources`, each with the trust it deserves.",
    ),
    13: Feature(
        "Memories that expire",
        (OWNSONA, AGI),
        "`expires_at`; searches say in `hidden` how many they left out, `get_memories` shows them, `clear` takes the end away.",
    ),
    14: Feature(
        "Confirming that something still holds",
        (OWNSONA,),
        "`update_memory` with `confirm`; of memories that say nearly the same the newly confirmed one comes first, and hits that disagree name each other.",
    ),
    15: Feature(
        "Importance that fades",
        (AGI, CONTINUITY),
        "By `kind` and `type`, exact at every moment: `relevance` and `half_life_days` are shown, `pinned` ones do not fade.",
    ),
    16: Feature(
        "Use is counted and strengthens",
        (AGI, CONTINUITY, CROW),
        "Reading, confirming and changing strengthen for a while; being shown is only counted, and a reading with touch set to false not at all. `importance` stays as it was given.",
    ),
    17: Feature(
        "Search by meaning",
        SYSTEMS,
        "`search_memories`, `mode` `semantic` for meaning alone; `min_similarity` bounds the cosine.",
    ),
    18: Feature(
        "Search by words",
        (AGI, CONTINUITY, CROW),
        '`mode` `text` knows "phrases" and -without, `substring` takes each character for itself; no sign is an error.',
    ),
    19: Feature(
        "Search by both at once",
        (AGI, CROW),
        "`search_memories` without a `mode`; `why` shows the parts of each score.",
    ),
    20: Feature(
        "Filters that apply before the best are taken",
        (AGI, SKYNET, OWNSONA, CROW),
        "`type`, `kind`, `tags`, `min_importance`, `since`, `until`, `user`, `project`, `emotion`, `source` and more; bounds count in, and names in camel case are understood.",
    ),
    21: Feature(
        "Short answers",
        (CONTINUITY,),
        "Contents are cut at 300 characters; `detail` shows all, `max_chars` sets a budget, no vector is ever shown.",
    ),
    22: Feature(
        "Reading memories whole",
        (AGI, CONTINUITY, OWNSONA),
        "`get_memories` with up to 20 `ids`, which may be shortened; `include` adds `history`, `relations` and `clusters`.",
    ),
    23: Feature(
        "Lists, pages and counts",
        (OWNSONA, CROW),
        "`search_memories` without a `query`, with `sort`, `offset` or `cursor`; `count_only` gives the number.",
    ),
    24: Feature(
        "What fits a task, as one text",
        (CROW, OWNSONA, CONTINUITY),
        "`recall_context` with the task or message and `max_chars`; the ranking is that of a search.",
    ),
    25: Feature(
        "Changing any field",
        (OWNSONA, CROW),
        "`update_memory`; `clear` empties, `metadata` is merged, `expected_version` spares others' changes, `dry_run` only reports.",
    ),
    26: Feature(
        "Procedures that know how often they worked",
        (AGI,),
        "`update_memory` with `outcome` `success` or `failure`, and `failure_point`.",
    ),
    27: Feature(
        "Forgetting, and taking it back",
        (OWNSONA,),
        "`forget_memories` with `reason` and `replaced_by_ids`; `update_memory` with `status` `active` restores. `hard` erases.",
    ),
    28: Feature(
        "No loss without a yes",
        (CROW,),
        "What erases or changes many first shows what would go: the client asks its user, or `confirm_token` confirms within 60 s.",
    ),
    29: Feature(
        "Many at once",
        (OWNSONA,),
        "`create_memories` with up to 200 `items`; a bad one spares the others, or with `atomic` none is stored. `forget_memories` with `replacements` splits one in a single step.",
    ),
    30: Feature(
        "Typed links between memories",
        (AGI, CONTINUITY, SKYNET),
        "`link_memories` with `type`, `strength` and `properties`; `related_to` links on creating.",
    ),
    31: Feature(
        "Walking along the links",
        (AGI, CONTINUITY),
        "`explore_memories` with `depth`, `direction`, `types` and `min_strength`; what means nearly the same is shown as well.",
    ),
    32: Feature(
        "Clusters of memories",
        (AGI,),
        "`create_memory_cluster`, `update_cluster_members`, `activate_cluster`; `get_memory_clusters` with `insights` and similar ones.",
    ),
    33: Feature(
        "Working memory",
        (AGI,),
        "`create_working_memory` with `ttl_seconds`, `get_working_memories`, `consolidate_working_memory`; what matters is kept.",
    ),
    34: Feature(
        "Archiving and pruning what is old",
        (AGI,),
        "`tidy_memories` with `action` `archive` or `prune`, and thresholds; it first shows what would go.",
    ),
    35: Feature(
        "A history of every change",
        (AGI,),
        "`get_memories` with `include` `history`: old and new values, who and in which session. It survives erasing, without texts.",
    ),
    36: Feature(
        "A review that finds what needs tidying",
        (OWNSONA, CROW),
        "`review_memories` proposes a plan; `tidy_memories` with `plan` shows it, then does it in one transaction.",
    ),
    37: Feature(
        "Counts and health",
        SYSTEMS,
        "`memory_stats`: states, types, kinds, projects, tags, histograms, the newest and most read, vectors and index.",
    ),
    38: Feature(
        "Themes, identity and worldview",
        (AGI,),
        "`get_memory_clusters` with `days`; `record_identity` and `get_identity_core`; `record_belief` and `get_worldview`.",
    ),
    39: Feature(
        "Export and import",
        (OWNSONA,),
        "`pgengram export` and `pgengram import`, which also reads what other systems left.",
    ),
    40: Feature(
        "Resources",
        (CROW,),
        "`memory://categories`, `memory://stats`, `memory://context`, and one for each memory.",
    ),
    41: Feature(
        "Prompts",
        (CONTINUITY, CROW, AGI),
        "For the beginning and the end of a session, to remember and to recall; a client offers them to its user.",
    ),
    42: Feature(
        "Remembered text stays data",
        (OWNSONA, CROW),
        "Nothing to do: recalled text stands in a fence that no content can close, and values are always parameters.",
    ),
    43: Feature(
        "Emotion and confidence",
        (SKYNET, AGI),
        "`emotion`, `confidence`, and `emotional_valence` in `metadata`; hits tell distance as well as similarity.",
    ),
    44: Feature(
        "A schema that keeps itself up to date",
        (OWNSONA,),
        "Nothing to do: a server brings it up to date when it starts, one of several at a time, wholly or not at all.",
    ),
    45: Feature(
        "Nothing but the protocol on its output",
        (),
        "Nothing to do; calls without arguments are fine.",
    ),
}


@cache
def shown() -> dict[int, list[Shown]]:
    """Return the tests that show each capability, in the order of files and lines."""
    found: dict[int, list[Shown]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
    tests = shown()
    rows = [_row(number, feature, tests.get(number, [])) for number, feature in FEATURES.items()]
    return "\n".join([HEAD, *rows, ""])


HEAD = f"""\
# What pgengram can do

Each row names which of five other memory systems promise the capability, by their names for `PGENGRAM_COMPAT`
({", ".join(f"`{name}`" for name in SYSTEMS)}), how it is used here, and the tests that show it. Written by
`python tests/features.py` from the markers of the tests.

| | capability | promised by | how to use it | shown by |
| --- | --- | --- | --- | --- |"""


def _row(number: int, feature: Feature, tests: list[Shown]) -> str:
    links = [f"[{test.name.removeprefix('test_').replace('_', ' ')}](../{test.file})" for test in tests]
    by = ", ".join(feature.promised_by) or "none of them"
    return f"| {number} | {feature.words} | {by} | {feature.use} | {'<br>'.join(links)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
