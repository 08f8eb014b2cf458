"""Memories as a person reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from pgengram.cli.runtime import print_note, say, screen
from pgengram.errors import NotFound
from pgengram.ids import SHORT_DIGITS, short
from pgengram.text.markdown import one_line
from pgengram.text.shown import NEAREST, ago, exact, fit_of

# Of a memory: what `show` prints apart from its other fields, and what says nothing to a person.
APART: Final = frozenset({
    "id", "type", "kind", "content", "tags", "history", "history_in_all", "relations", "relations_in_all", "clusters",
    "embedded", "created_at",
})  # fmt: skip
UNSAID: Final = frozenset({
    "confidence", "trust", "capture_mode", "session_id", "session_sequence", "version", "valid_from", "half_life_days",
    "relevance", "last_confirmed_at", "access_count", "last_accessed_at",
})  # fmt: skip
OWN_DETAIL: Final = frozenset({"confidence"})  # said of the whole memory
SCORE: Final = {"score": lambda hit: hit.get("score")}
PARTS: Final = {
    "meaning": lambda hit: hit.get("why", {}).get("similarity"),
    "words": lambda hit: hit.get("why", {}).get("words"),
    "relevance": lambda hit: hit.get("relevance"),
}
WEIGHT: Final = {"importance": lambda hit: hit["importance"], "relevance": lambda hit: hit["relevance"]}
MORE: Final = {
    "relations": "`pgengram graph` with the id, --depth 1 and a higher --limit shows them.",
    "history": "`pgengram export` writes all of them.",
}
SAID: Final = {"source_provider": "stored by", "updated_at": "changed", "valid_to": "valid until"}  # names of fields
EMPTY: Final[tuple[Any, ...]] = (None, [], {}, "")
BETWEEN: Final = " · "


def as_line(value: object) -> str:
    """Return a value as it stands on one line."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def kind_of(hit: Mapping[str, Any]) -> str:
    """Return what a memory was said to be; empty where nobody said so, as its type is nothing that a person chose."""
    return str(hit.get("kind") or "")


def when(hit: Mapping[str, Any]) -> datetime:
    """Return when a hit happened, else when it was stored, in this machine's time."""
    return datetime.fromisoformat(hit.get("occurred_at") or hit["created_at"]).astimezone()


def about_hit(hit: Mapping[str, Any]) -> Text:
    """Return the dim line below a memory's text: its kind, when it happened, its tags."""
    tags = [f"#{tag}" for tag in hit.get("tags") or []]
    author = [f"by {hit['author']}"] if hit.get("author") else []
    return Text(BETWEEN.join(filter(None, [kind_of(hit), ago(when(hit)), *author, *tags])), style="dim")


def plain_table(title: str = "", *headings: str, header: bool = True) -> Table:
    """Return a table without lines, below a title."""
    return Table(
        *headings, title=Text(f"\n{title}", style="bold") if title else None, title_justify="left", box=None, pad_edge=False,
        padding=(0, 2, 0, 0), show_header=header, header_style="dim",
    )  # fmt: skip


def print_hits(
    hits: list[dict[str, Any]], measures: Mapping[str, Callable[[dict[str, Any]], object]], *, mark: str = ""
) -> None:
    """Print a list of memories without lines around it, with a column for each measure; `mark` is the id to tick."""
    table = plain_table()
    table.expand = True
    table.add_column("id", no_wrap=True, width=SHORT_DIGITS)
    table.add_column("memory", ratio=1)
    for measure in measures:
        table.add_column(measure, justify="right", no_wrap=True)
    for hit in hits:
        tick = ("✓ ", "green") if hit["id"] == mark else ""
        says = Text.assemble(tick, one_line(hit["content"]), "\n", about_hit(hit))
        values = (of(hit) for of in measures.values())
        shown = ("–" if value is None else f"{value:.2f}" for value in values)
        table.add_row(Text(short(hit["id"]), style="cyan"), says, *shown)
    screen.print(table)


def print_found(
    hits: list[dict[str, Any]], measures: Mapping[str, Callable[[dict[str, Any]], object]], note: str | None = None
) -> None:
    """Print memories, or that none was found, and why."""
    if hits:
        print_hits(hits, measures)
    else:
        say(f"Nothing found. {note or ''}".rstrip())


def print_search(found: Mapping[str, Any], *, why: bool, everything: bool) -> None:
    """Print the hits of a search, best first, and turns that match; those that hardly fit only if all are wanted.

    Where nothing fits, the nearest few are shown as such; where it isn't sure that one answers, that is said.
    """
    hits = found["results"]
    fit = fit_of(found.get("query", ""), hits, found.get("evidence"))
    measures = SCORE | PARTS if why else SCORE
    if hits and not found.get("query"):
        say("Nothing was asked. The newest:")
        measures = {}
    elif hits and not fit.sure:
        say("Perhaps:" if fit.hits else "Nothing fits for certain. The nearest:")
    shown = hits if everything else fit.hits or hits[:NEAREST]
    if shown or not found.get("turns"):
        print_found(shown, measures, found.get("note"))
    else:
        say("No memory fits, but this was said:")
    if left := len(hits) - len(shown):
        say(f"{left:,} more hardly fit{'s' if left == 1 else ''}: --all")
    _print_turns(found)


def _print_turns(found: Mapping[str, Any]) -> None:
    """Print the turns of conversations that match, or how many there are."""
    for turn in found.get("turns") or []:
        screen.print(Text.assemble((f"{turn['date']} {turn['role']} ", "dim"), one_line(turn["text"])))
    if matching := found.get("turns_match"):
        turns = "1 turn of a conversation matches" if matching == 1 else f"{matching:,} turns of conversations match"
        say(f"{turns}: --turns shows the best.")


def print_list(found: Mapping[str, Any], following: int) -> None:
    """Print memories that were listed, and how to see those after them."""
    print_found(found["results"], WEIGHT, found.get("note"))
    if found.get("next_cursor"):
        say(f"There may be more: --offset {following}")


def print_read(found: Mapping[str, Any]) -> None:
    """Print whole memories, and which ids have none."""
    for memory in found["memories"]:
        print_memory(memory)
    print_errors([{**one, "ok": False} for one in found.get("missing") or ()])


def print_stored(stored: Mapping[str, Any]) -> None:
    """Print what became of a memory that was to be stored, and what stands beside it, with what to type next.

    Of the message only the first sentence is for a person; the others name tools.
    """
    id_ = short(stored["memory_id"])
    first = stored["message"].partition(". ")[0].rstrip(".")
    screen.print(Text.assemble(f"{first}. ", (id_, "cyan")))
    if stored["created"]:
        say_undo("forget", stored["memory_id"])
    if replaced := stored.get("replaced"):
        say(f"Forgotten, as this holds instead: {', '.join(map(short, replaced))}")
        say_undo("restore", *replaced)
    if kept := stored.get("kept_as_stored"):
        say(f"Kept as stored: {', '.join(kept)}. To change it: pgengram edit {id_}")
    _print_similar(stored, id_)


def _print_similar(stored: Mapping[str, Any], id_: str) -> None:
    """Print which memories say nearly the same as a new one, and which it may replace."""
    alike: list[Mapping[str, Any]] = []
    older: list[Mapping[str, Any]] = []
    for row in stored.get("near_duplicates") or []:
        (older if row.get("possible_conflict") else alike).append(row)
    older += stored.get("may_replace") or []
    for title, rows in (
        ("Nearly the same:", alike),
        ("Something like it was forgotten:", stored.get("previously_corrected") or []),
        ("This may replace:", older),
    ):
        for row in rows:
            say(f"{title} {_in_a_line(row)}")
    if older:
        say(f"If so: pgengram forget {' '.join(short(row['id']) for row in older)} --replaced-by {id_}")


def _in_a_line(row: Mapping[str, Any]) -> str:
    return f"{short(row['id'])} {one_line(row.get('text') or row['excerpt'])}"


def say_undo(command: str, *ids: str, option: str = "") -> None:
    """Print the command that undoes what was done."""
    words = [command, *map(short, ids), *([option] if option else [])]
    screen.print(Text(f"Undo: pgengram {' '.join(words)}", style="dim"))


def print_memory(memory: dict[str, Any]) -> None:
    """Print one whole memory: its text first, then what is known about it, and what was asked for around it."""
    screen.print(Text.assemble((short(memory["id"]), "cyan"), "  ", about_hit(memory)))
    say(f"\n{memory['content']}\n")
    table = plain_table(header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(ratio=1)
    for name, value in memory.items():
        if _is_told(name, value, memory) and (said := _field(name, value)):
            table.add_row(SAID.get(name) or name.replace("_", " ").removesuffix(" at"), Text(said))
    table.add_row("stored", Text(dated(memory["created_at"])))
    table.add_row("id", Text(memory["id"]))
    screen.print(table)
    _print_around("Links", memory, "relations", _link_text)
    _print_around("Clusters", memory, "clusters", lambda one: Text(f"{one['name']} ({one['strength']:.2f})"))
    _print_around("History", memory, "history", _change)


def _is_told(name: str, value: Any, memory: Mapping[str, Any]) -> bool:
    """Whether a field says something that is not said elsewhere, or true of most memories."""
    if name in APART | UNSAID or value in EMPTY or value is False:
        return False
    return bool(value != (memory["created_at"] if name == "updated_at" else "active"))


def dated(moment: str) -> str:
    """Return a moment as a person reads it: the day and time here, and how long ago."""
    at = datetime.fromisoformat(moment)
    absolute, relative = exact(at), ago(at)
    return absolute if absolute.startswith(relative) else f"{absolute} ({relative})"


def _field(name: str, value: Any) -> str:
    if isinstance(value, dict):
        said = {key: one for key, one in value.items() if one not in EMPTY and key not in OWN_DETAIL}
        return ", ".join(f"{key.replace('_', ' ')}: {as_line(one)}" for key, one in said.items())
    if name.endswith("_at") or name == "valid_to":
        return dated(value)
    return f"{value:.2f}" if isinstance(value, float) else as_line(value)


def _print_around(title: str, memory: dict[str, Any], name: str, line: Callable[[dict[str, Any]], Text]) -> None:
    """Print a list that belongs to a memory, and how much of it is not shown."""
    rows = memory.get(name) or []
    if rows:
        screen.print(Text(f"\n{title}", style="bold"))
    for row in rows:
        screen.print(Padding(line(row), (0, 0, 0, 2)))
    if in_all := memory.get(f"{name}_in_all", 0):
        say(f"  … and {in_all - len(rows):,} more {name}: {MORE[name]}")


def _link_text(one: dict[str, Any]) -> Text:
    arrow = "→" if one["direction"] == "out" else "←"
    return Text.assemble(f"{arrow} {one['type']} ", (short(one["id"]), "cyan"), f" {one_line(one['content'])}")


def _change(one: dict[str, Any]) -> Text:
    """Return an entry of a memory's history: what was done, by whom and when, and what differs, word by word."""
    from pgengram.text.differences import word_changes

    by = f" · {one['actor']}" if one.get("actor") else ""
    text = Text.assemble((f"{one['operation']}", "bold"), (f" · {ago(datetime.fromisoformat(one['at']))}{by}", "dim"))
    for name, pair in (one.get("changes") or {}).items():
        if name not in UNSAID:
            text.append(f"\n{name.replace('_', ' ')}: ", style="dim")
            if len(pair) == 2 and all(isinstance(value, str) for value in pair):
                for verb, words in word_changes(*pair):
                    text.append(*_marked(verb, words))
            else:
                text.append(" → ".join(as_line(value) or "–" for value in pair))
    return text


def _marked(verb: str, words: str) -> tuple[str, str]:
    """Return words that went or came as a word diff has them: by colour on a terminal, else by signs."""
    if verb == "same":
        return words, ""
    if screen.is_terminal and not screen.no_color:
        return words, "strike red" if verb == "gone" else "green"
    return (f"[-{words}-]" if verb == "gone" else f"{{+{words}+}}"), ""


def print_graph(nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> None:
    """Print each start with what was reached from it, every memory once, below the one before it on its path."""
    types: dict[frozenset[str], str] = {}
    for edge in edges:
        types.setdefault(frozenset((edge["from_id"], edge["to_id"])), edge["type"])
    trees: dict[str, Tree] = {}
    for node in sorted(nodes, key=lambda node: node["depth"]):
        label = Text.assemble((short(node["id"]), "cyan"), f" {node['excerpt']} ")
        above = node["path"][-2] if len(node["path"]) > 1 else ""
        if above in trees:
            link = types.get(frozenset((above, node["id"])), "linked")
            trees[node["id"]] = trees[above].add(label.append(f"({link}, {node['strength']:.2f})", style="dim"))
        else:
            trees[node["id"]] = Tree(label, guide_style="dim")
    for node in nodes:
        if len(node["path"]) <= 1:
            screen.print(trees[node["id"]])


def rows_table(title: str, rows: Mapping[str, Any], *headings: str) -> Table:
    """Return a table of names and values, counts to the right with commas, under the headings if there are any."""
    table = plain_table(title, header=bool(headings))
    for heading in headings or ("", ""):
        table.add_column(heading)
    for name, value in rows.items():
        table.add_row(name, Text(in_cell(value), justify="right" if is_count(value) else "left"))
    return table


def in_lines(texts: Iterable[Text], width: int) -> Text:
    """Return short texts one after another, no line broken within one of them."""
    lines = [Text()]
    for text in texts:
        if lines[-1] and cell_len(lines[-1].plain) + len(BETWEEN) + cell_len(text.plain) > width:
            lines.append(Text())
        lines[-1] = Text(BETWEEN).join([lines[-1], text]) if lines[-1] else text
    return Text("\n").join(lines)


def is_count(value: object) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def in_cell(value: Any) -> str:
    """Return a value as it is in a cell of a table."""
    if is_count(value):
        return f"{value:,}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else ", ".join(map(str, value)) or "–" if isinstance(value, list) else str(value)


def print_errors(results: list[dict[str, Any]]) -> None:
    """Print to standard error what could not be done, and to which memory."""
    for one in results:
        if not one["ok"]:
            print_note(f"{one['id']}: {one['error']['message']}")
    if any(not one["ok"] and one["error"].get("code") == NotFound.code for one in results):
        print_note("`pgengram search` and `pgengram list` show the ids.")
