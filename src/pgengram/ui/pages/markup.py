"""How a memory's text is shown: Markdown as safe HTML, words of a search marked, the part of it that fits a search."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

import pgengram
from pgengram.text.language import function_words
from pgengram.text.markdown import one_line
from pgengram.text.shown import LEAST_PART
from pgengram.text.words import extra_terms, words

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


EXCERPT: Final = 300  # characters of a hit
LEAD: Final = 60  # of them before the first word that was looked for
LEAST_STEM: Final = 3
ENDINGS: Final = ("ingly", "edly", "ations", "ation", "ings", "ing", "ies", "ic", "ed", "es", "ly", "y", "s", "e")
NAMES_FILE: Final = re.compile(r"\S*[./]\w")  # a message that begins with the name of a file, which stays as it is
MARKS: Final = re.compile(
    r"^ {0,3}(?:#{1,6} +|[-*+>] +(?:\[[ xX]\] +)?|(?:```|~~~).*$)|^ *\|(?: *:?-+:? *\|)+ *$"
    r"|\*\*|`|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)",
    re.MULTILINE,
)
ROW: Final = re.compile(r"^ *\|(.*)\| *$", re.MULTILINE)  # of a table
TASK: Final = re.compile(r"(<li[^>]*>\s*(?:<p[^>]*>)?)\[([ xX])\] ")
WORD: Final = re.compile(r"\w+")
CALLS: Final = (  # what an assistant is told of its arguments and calls, and what whoever is at the page is told
    (r"^(\w+)\[\d+\] ", r"\1 "),
    (r"^content is required: .*", "The text is missing."),
    (r"^content must be text of at most", "The text may have at most"),
    (r"^content ", "The text "),
    (r"^occurred_at ", "Happened on "),
    (r"; to store all of it call create_memories\(.*\), each part in full with the other fields of this call",
     ", or import a file with the whole text"),
    (r"The memory is at version \d+, not \d+\.", "This memory was changed while you were editing it."),
    (r"Read the memory again with get_memories and repeat the change on what is there now\.",
     "Nothing was overwritten."),
    (r"Correct the argument and call again; nothing was changed\.", "Nothing was changed. Correct it and try again."),
    (r"The call can be retried: a repeated create stores nothing twice\.", "Try again: nothing is stored twice."),
    (r"the call can be retried", "you can try again"),
    (r"Use search_memories to find the right id\.", "Search for it in its own words."),
    (r"\bCall again\b", "Try again"),
    (r"\bcall again\b", "try again"),
)  # fmt: skip


@cache
def _markdown() -> MarkdownIt:
    """Return a reader of Markdown that passes no HTML on, loads no picture and follows no script: link."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True}).enable(
        ["table", "strikethrough"]
    )
    return reader.disable("image")


def markdown(text: str) -> Markup:
    """Return a memory's Markdown as HTML; its headings begin at h2, below that of the page."""
    html = _markdown().render(text)
    used = {level: place for place, level in enumerate(sorted(set(re.findall(r"<h([1-6])>", html))), 2)}
    html = re.sub(r"(?<=<)(/?)h([1-6])(?=>)", lambda found: f"{found[1]}h{min(6, used[found[2]])}", html)
    html = re.sub(r"<(p|h[2-6]|ul|ol|blockquote|table)>", r'<\1 dir="auto">', html)
    html = TASK.sub(_task, html)
    html = html.replace("<pre>", '<pre tabindex="0">')
    return Markup(html.replace("<a href=", '<a rel="noreferrer noopener" target="_blank" href='))  # noqa: S704


def _table_row(found: re.Match[str]) -> str:
    return ", ".join(cell.strip() for cell in found[1].split("|"))


def _task(found: re.Match[str]) -> str:
    done = found[2] != " "
    state = 'checked aria-label="done"' if done else 'aria-label="to do"'
    return f'{found[1]}<input type="checkbox" disabled {state}> '


def on_page(text: str) -> str:
    """Return what an error says, for whoever is at the page and calls no tool."""
    for call, meant in CALLS:
        text = re.sub(call, meant, text, flags=re.DOTALL)
    first = text[:1] if NAMES_FILE.match(text) else text[:1].upper()
    return first + text[1:] + ("" if not text or text.endswith((".", "?", "…")) else ".")


def score_parts(score: float, parts: Mapping[str, tuple[str, float]]) -> Markup:
    """Return the parts of a score as rows with bars; by hand, as a template takes most of a list's time for them.

    Args:
        score: of a hit; parts: by name, how each is called on the page, and its share from 0 to 1.
    """
    rows = "".join(
        f'<div><dt>{label}</dt><dd><svg class="bar {name}" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        f'aria-label="{label} {share:.2f}"><rect class="track" width="100" height="8" rx="2"/><rect class="fill" '
        f'width="{min(100, max(0, 100 * share)):.1f}" height="8" rx="2"/></svg><span>{share:.2f}</span></dd></div>'
        for name, (label, share) in parts.items()
    )
    return Markup(f'<div class="total"><dt>score</dt><dd>{score:.3f}</dd></div>{rows}')  # noqa: S704


def excerpt(text: str, query: str = "") -> str:
    """Return the part of a text with the first word looked for, on one line, without Markdown's marks."""
    line = one_line(ROW.sub(_table_row, MARKS.sub("", text)))
    if len(line) <= EXCERPT:
        return line
    first = next((start for start, _ in _matches(line, query)), 0)
    begin = 0 if first < EXCERPT - LEAD else line.rfind(" ", 0, first - LEAD) + 1
    return f"{'…' if begin else ''}{line[begin : begin + EXCERPT]}{'…' if begin + EXCERPT < len(line) else ''}"


def highlighted(text: str, query: str) -> Markup:
    """Return a text with the words marked that the query looks for."""
    pieces, place = [], 0
    for start, end in _matches(text, query):
        if end > place:
            pieces += [
                escape(text[place:start]),
                Markup("<mark>"),
                escape(text[max(start, place) : end]),
                Markup("</mark>"),
            ]
            place = end
    return Markup("").join([*pieces, escape(text[place:])])


def _matches(text: str, query: str) -> list[tuple[int, int]]:
    """Return where words of a query are in a text, and what contains the whole query or its unspaced characters."""
    folded, whole = text.casefold(), query.strip().casefold()
    spans = _words_in(text, query)
    if len(folded) == len(text):
        parts = [term for term in (*extra_terms(query), whole) if len(term) >= (LEAST_PART if term == whole else 2)]
        spans += [found.span() for part in parts for found in re.finditer(re.escape(part), folded)]
    return sorted(spans, key=lambda span: (span[0], -span[1]))  # of two that begin together the longer one


def _words_in(text: str, query: str) -> list[tuple[int, int]]:
    """Return where words of the same stem are, and those that begin with what is being typed."""
    asked = words(query)
    wanted = {_english_stem(word) for word in asked} - _empty_words()
    if not wanted:
        return []
    begun = asked[-1].casefold() if len(asked[-1]) >= LEAST_PART and not query.endswith(" ") else "\0"
    found = WORD.finditer(text)
    return [one.span() for one in found if _english_stem(one[0]) in wanted or one[0].casefold().startswith(begun)]


@cache
def _empty_words() -> frozenset[str]:
    return frozenset(map(_english_stem, function_words("en")))


@lru_cache(maxsize=8_192)  # a list has the same words again and again
def _english_stem(word: str) -> str:
    """Return a word without its English ending; for marking, where too much does little harm."""
    word = word.casefold().partition("'")[0].partition("’")[0]
    ending = next((one for one in ENDINGS if word.endswith(one) and len(word) - len(one) >= LEAST_STEM), "")
    return word.removesuffix(ending)


FOLDERS: Final = ("how-to", "explanation", "reference")
OTHERS: Final = frozenset({"how-forgetting-works", "glossary"})  # beside those of how-to
PACKAGE: Final = Path(pgengram.__file__).parent
LINK: Final = re.compile(
    r'<a rel="noreferrer noopener" target="_blank" href="(?!https?:)([^"#]*)[^"]*">(.*?)</a>', re.DOTALL
)


def _guide_paths() -> dict[str, Path]:
    """Return the guides by name: inside the installed package, or beside `src` in a checkout."""
    home = next((one for one in (PACKAGE / "docs", PACKAGE.parents[1] / "docs") if one.is_dir()), None)
    files = [] if home is None else [path for folder in FOLDERS for path in sorted((home / folder).glob("*.md"))]
    return {path.stem: path for path in files if path.parent.name == "how-to" or path.stem in OTHERS}


_FILES: Final = _guide_paths()


def _guide_title(path: Path) -> str:
    return path.read_text("utf-8").partition("\n")[0].removeprefix("# ")


TITLES: Final = {name: _guide_title(path) for name, path in _FILES.items()}


def text(name: str) -> Markup:
    """Return a guide as HTML; links to other guides lead there, those to other pages of the documentation are text."""

    def lead(link: re.Match[str]) -> str:
        there = Path(link[1]).stem
        return f'<a href="/help/{there}">{link[2]}</a>' if there in TITLES else link[2]

    below = _FILES[name].read_text("utf-8").partition("\n")[2]  # the page has the title
    return Markup(LINK.sub(lead, markdown(below)))  # noqa: S704
