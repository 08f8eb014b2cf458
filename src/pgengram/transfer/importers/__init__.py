"""What reads the stores of other systems. To add one, add a module with a function `read` and its `FORMAT`, or for an
export of plain records its line to `LISTED` and its rows to `layouts`. The formats of what is here are in `LISTED`, so
that nothing is imported to know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pkgutil import walk_packages
from typing import Final

from pgengram.errors import InvalidInput
from pgengram.transfer.input.reading import archive_of
from pgengram.transfer.input.sources import File, Source, is_one_of
from pgengram.transfer.records import Reader


@dataclass(frozen=True, slots=True)
class Format:
    """A format that can be imported.

    Args:
        name: as `--from` takes it.
        files: which files of a folder or zip hold it; a file that is given by itself may have any name.
        sign: what stands at the beginning of such a file; for a SQLite database, in what made its tables. Without a
            sign it is never recognised by itself.
        module: that reads it; by default one that is called like it.
        streams: it reads a `Source`, not a path.
    """

    name: str
    files: str = "*"
    sign: bytes = b""
    module: str = ""
    streams: bool = False

    def reader(self) -> Reader:
        """Return what reads it: a `Source`, or where it does not stream a path."""
        found: Reader = import_module(MODULES[self.module or self.name.replace("-", "_")]).read
        return partial(found, self.name) if self.module == "layouts" else found

    def is_in(self, source: Source) -> bool:
        """Whether a source looks like it."""
        if not self.sign:
            return False
        files = [file for file in source.files if not file.reason and file.size]
        if len(source.files) > 1 or source.path.is_dir():
            files = [file for file in files if is_one_of(file, self.files.split())]
        return any(re.search(self.sign, source.head(file)) for file in files[:LOOKED_AT])


LOOKED_AT: Final = 20  # files of a source, to recognise it
OURS: Final = re.compile(rb'"(?:content|record)"\s*:')

# In each folder of this package: the module's own name, and where it is.
MODULES: Final = {
    one.name.rpartition(".")[2]: one.name for one in walk_packages(__path__, f"{__name__}.") if not one.ispkg
}
# In the order in which they are tried.
LISTED: Final = (
    Format("jsonl", "*.jsonl", rb'^\{"record": ?"', streams=True),
    Format("chatgpt", "conversations*.json", rb'"mapping"\s*:', streams=True),
    Format("claude-ai", "conversations*.json projects.json memories.json",
           rb'"chat_messages"\s*:|"conversations_memory"\s*:|"prompt_template"\s*:', streams=True),
    Format("codex", "rollout-*.jsonl rollout-*.json history.jsonl",
           rb'"session_meta"|^\{"id":.*"instructions"\s*:|^\s*\{\s*"session"\s*:\s*\{[^{}]*"instructions"|^\{\s*"session_id"\s*:[^\n]*"ts"\s*:', streams=True),
    Format("gemini-cli", "session-*.json session-*.jsonl checkpoint-*.json logs.json",
           rb'^\s*\[\s*\{\s*"sessionId"\s*:[^{}]*"messageId"\s*:|"sessionId"[^\n]*\s*"projectHash"|"projectHash"[^\n]*\s*"sessionId"|^\s*(?:\[|\{\s*"history"\s*:\s*\[)\s*\{\s*"(?:role"\s*:\s*"(?:user|model)"|parts"\s*:)', streams=True),
    Format("cursor", "state.vscdb", rb"\bcursorDiskKV\b", streams=True),
    Format("vscode", "*[cC]hatSessions/*.json *[cC]hatSessions/*.jsonl *-*-*-*-*.json *-*-*-*-*.jsonl",
           rb'"(?:requester|responder)Username"\s*:', streams=True),
    Format("claude-code", "*.jsonl",
           rb'"sessionId"\s*:|^\s*\{\s*"display"\s*:[^\n]*"pastedContents"\s*:|(?m:^)\{(?=[^\n]*"type"\s*:\s*"(?:user|assistant)")(?=[^\n]*"message"\s*:\s*\{)', streams=True),
    Format("mem0", "*.json", rb'"memory"\s*:\s*"(?s:.*)"(?:hash|user_id|agent_id|run_id)"', module="layouts", streams=True),
    Format("hindsight", "*.json", rb'"(?:mentioned_at|fact_type)"\s*:', module="layouts", streams=True),
    Format("claude-mem", "*.json", rb'"totalObservations"\s*:|CREATE TABLE[^(]*session_summaries', module="layouts", streams=True),
    Format("engram", "*.json", rb'"exported_at"(?s:.*)"(?:sessions|observations)"\s*:|CREATE TABLE[^(]*user_prompts(?s:.*)topic_key|topic_key(?s:.*)user_prompts', module="layouts", streams=True),
    Format("graphiti", "*.json", rb'"(?:source_node_uuid|name_embedding|episode_body)"\s*:|"uuid"\s*:(?s:.*)"group_id"\s*:', module="layouts", streams=True),
    Format("letta", "*.af *.json", rb'"(?:block_ids|core_memory|in_context_message_ids)"\s*:', module="layouts", streams=True),
    Format("agi", "*.json *.sql", rb"semantic_memories"),
    Format("mcp-memory-service", "*.db *.json", rb'content_hash'),
    Format("session-continuity", "*.db", rb"CREATE TABLE[^;]*\bmemories\b[^;]*\bmemory_type\b[^;]*\baccess_count\b"),
    Format("skynet", "*.sqlite3", rb"CREATE TABLE[^(]*embedding_metadata|\"documents\"\s*:"),
    Format("ownsona", "*.json", rb'"provenance"|"source_provider"\s*:|"(?:capture_mode|forget_reason|last_confirmed_at|soft_deleted)"\s*:|"memories"\s*:\s*\[\s*\{[^{}]*"text"\s*:'),
    Format("crow", "*.db", rb"CREATE TABLE[^;]*\bmemories\b[^;]*\bcategory\b[^;]*\baccessed_at\b"),
    Format("mcp-memory", "*.json *.jsonl",
           rb'"type"\s*:\s*"(?:entity|relation)"|"(?:entityType|relationType)"\s*:|"entities"\s*:\s*\[(?s:.*)"observations"\s*:'),
)  # fmt: skip
OF_ANY_SHAPE: Final = (
    Format("csv", "*.csv *.tsv", streams=True, module="rows"),
    Format("json", "*.json *.jsonl", streams=True, module="rows"),
    Format("markdown", "*.md", streams=True),
)  # fmt: skip


def _declared() -> Iterator[Format]:
    """Yield the format of each module that is not listed, as the module has it."""
    listed = {one.module or one.name.replace("-", "_") for one in (*LISTED, *OF_ANY_SHAPE)}
    for name in sorted(MODULES.keys() - listed):
        yield import_module(MODULES[name]).FORMAT


FORMATS: Final = (*LISTED, *_declared(), *OF_ANY_SHAPE)
SYSTEMS: Final = tuple(one.name for one in FORMATS)


def format_of(name: str) -> Format:
    """Return the format of a system.

    Raises:
        InvalidInput: there is no such system.
    """
    for one in FORMATS:
        if one.name == name:
            return one
    raise InvalidInput(f"There is no importer for {name}.", f"Use one of {', '.join(SYSTEMS)}.")


def recognised(source: Source) -> str:
    """Return which system's a source looks to be.

    Raises:
        InvalidInput: none's.
    """
    for one in FORMATS:
        if one.is_in(source):
            return one.name
    for file in source.files[:LOOKED_AT]:
        if shape := _shape(file.path.suffix.lower(), b"" if file.reason else source.head(file).lstrip()):
            return shape
    if archives := [f"{file.place}: {todo}" for file in source.files if (todo := archive_of(file))]:
        raise InvalidInput(f"{source.path} holds archives alone.", f"{archives[0]}.")
    raise InvalidInput(
        f"{source.path} is not in a known format.", f"Name the format with --from: {', '.join(SYSTEMS)}."
    )


def reader_of(source: Source, file: File, system: str) -> str:
    """Return which system's a file of a folder or zip looks to be, if not of `system`; empty if nothing is known."""
    fits = [one for one in LISTED if one.sign and is_one_of(file, one.files.split())]
    if file.reason or all(one.name == system for one in fits):
        return ""
    begins = source.head(file)
    names = [one.name for one in fits if re.search(one.sign, begins)]
    return names[0] if names and system not in names else ""


def _shape(ending: str, begins: bytes) -> str | None:
    """Return the format of any shape that a file has by its name or how it begins."""
    if ending in (".md", ".csv", ".tsv"):
        return "markdown" if ending == ".md" else "csv"
    if ending in (".jsonl", ".ndjson") or begins[:1] in (b"{", b"["):
        return "jsonl" if begins[:1] != b"[" and ending != ".json" and OURS.search(begins) else "json"
    return None
