"""The animated picture at the top of the README: a terminal in which real commands print their real output.

    python benchmarks/terminal.py [--output docs/img/terminal.svg]

Runs the commands in a temporary folder and draws what they print, with its colours, as an SVG that plays in a loop. Who prefers
reduced motion sees the last screen.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text

ROOT = Path(__file__).parents[1]
COLUMNS = 80
WIDE, HIGH, SIZE = 8.4, 19, 14  # of one character: pixels across and down, and of its font
LEFT, TOP, BOTTOM = 18, 56, 14
TYPING_S, READING_S, PAUSE_S, LAST_S = 0.035, 2.2, 0.5, 5.0
PROMPT = "$ "
# {1} and {2} stand for the ids that the first and second command have printed.
TYPED = (
    'pgengram add "Mara moved billing to Stripe: it handles SEPA." --kind decision',
    'pgengram add "Jonas is allergic to peanuts and carries an adrenaline pen."',
    'pgengram search "Why did we change the payment provider?" --limit 2',
    'pgengram forget {2} --reason "told in confidence"',
    "pgengram restore {2}",
)
# By rich's names for what a terminal calls red, green, yellow, blue, magenta and cyan.
COLOURS = {
    "color(1)": "#ff7b72", "color(2)": "#56d364", "color(3)": "#e3b341",
    "color(4)": "#79c0ff", "color(5)": "#d2a8ff", "color(6)": "#56d4dd",
}  # fmt: skip
STYLE = f"""
text {{ font: {SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #e6edf3; white-space: pre }}
.dim {{ fill: #8b949e }} .bold {{ font-weight: 700 }} .paper {{ fill: #0d1117; stroke: #30363d }} .title {{ fill: #8b949e }}
.cursor {{ fill: #e6edf3 }}
@media (prefers-reduced-motion: reduce) {{ g, rect {{ animation: none !important }} .cover, .cursor {{ display: none }} }}
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and the lines that it printed."""

    typed: str
    printed: list[Text]


def recorded(folder: str) -> Iterator[Step]:
    """Run the commands one after the other on a store in `folder`."""
    own = {"PGENGRAM_DATA_DIR": folder, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PGENGRAM_")}
    ids: list[str] = []
    for typed in TYPED:
        shown = typed.format("", *ids, *["…"] * 2)
        program, *words = shlex.split(shown)
        ended = subprocess.run(
            [sys.executable, "-m", program, *words], env=inherited | own, stdout=subprocess.PIPE, text=True, check=True
        )
        printed = Text.from_ansi(ended.stdout.rstrip("\n")).split("\n")
        ids += re.findall(r"\b[0-9a-f]{8}\b", printed[0].plain) if " add " in typed else []
        yield Step(shown, list(printed))


def wrapped(text: str) -> list[str]:
    """Break a typed line where a terminal does."""
    whole = PROMPT + text
    return [whole[at : at + COLUMNS] for at in range(0, len(whole), COLUMNS)]


def spans(line: Text, y: int) -> Iterator[str]:
    """Yield one text element for each run of one style, placed by its column so that every font keeps the columns."""
    ends = sorted({0, len(line.plain), *(end for span in line.spans for end in (span.start, span.end))})
    for start, end in pairwise(ends):
        part = line.plain[start:end]
        if not part.strip():
            continue
        styles = [str(span.style) for span in line.spans if span.start <= start and end <= span.end]
        words = {word for style in styles for word in style.split()}
        fill = next((f' style="fill:{COLOURS[word]}"' for word in words if word in COLOURS), "")
        kind = " ".join(sorted(words & {"dim", "bold"}))
        wide = cell_len(part) * WIDE
        x = LEFT + cell_len(line.plain[:start]) * WIDE
        yield (
            f'<text x="{x:.1f}" y="{y}" textLength="{wide:.1f}" lengthAdjust="spacingAndGlyphs"'
            f"{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}{fill}>{escape(part)}</text>"
        )


class Film:
    """Parts of the picture, each with the second at which it appears."""

    def __init__(self) -> None:
        self.now, self.row = 0.0, 0
        self._parts: list[tuple[float, float, str, str]] = []  # from, until (0: never), kind, SVG

    def type(self, text: str) -> None:
        """Type a line: a cover with the cursor at its edge runs off the text, one character at a time."""
        for part in wrapped(text):
            y = TOP + self.row * HIGH
            until = self.now + TYPING_S * len(part)
            self._parts.append((self.now, 0, "show", "".join(spans(Text(part), y))))
            self._parts.append((self.now, until, f"cover {len(part)}", f'y="{y - SIZE}"'))
            self.now, self.row = until, self.row + 1
        self.now += PAUSE_S

    def print(self, lines: list[Text]) -> None:
        """Show lines all at once, with an empty one below."""
        shown = "".join("".join(spans(line, TOP + (self.row + at) * HIGH)) for at, line in enumerate(lines))
        self._parts.append((self.now, 0, "show", shown))
        self.row += len(lines) + 1
        self.now += READING_S

    def svg(self, title: str) -> str:
        """Return the film."""
        whole = self.now + LAST_S
        width, height = LEFT * 2 + COLUMNS * WIDE, TOP + self.row * HIGH + BOTTOM
        rules, drawn = [], []
        for number, (start, end, kind, part) in enumerate(self._parts):
            name, begins, ends = f"a{number}", 100 * start / whole, 100 * end / whole
            if kind == "show":
                rules.append(
                    f"@keyframes {name} {{ 0%, {begins:.2f}% {{ opacity: 0 }} {begins + 0.01:.2f}%, 100% {{ opacity: 1 }} }}"
                )
                drawn.append(f'<g style="animation:{name} {whole:.1f}s infinite">{part}</g>')
                continue
            letters = int(kind.split()[1])
            rules.append(
                f"@keyframes {name} {{ 0%, {max(begins - 0.01, 0):.2f}% {{ transform: none; opacity: 0 }} {begins:.2f}% {{ transform: none; opacity: 1; "
                f"animation-timing-function: steps({letters}) }} {ends:.2f}% {{ transform: translateX({letters * WIDE:.1f}px); opacity: 1 }} "
                f"{ends + 0.01:.2f}%, 100% {{ transform: translateX({letters * WIDE:.1f}px); opacity: 0 }} }}"
            )  # fmt: skip
            drawn.append(
                f'<g class="cover" style="animation:{name} {whole:.1f}s infinite"><rect x="{LEFT}" {part} width="{width}" height="{HIGH}" '
                f'fill="#0d1117"/><rect class="cursor" x="{LEFT}" {part} width="{WIDE}" height="{HIGH - 2}"/></g>'
            )
        frame = f'<rect class="paper" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>'
        dots = "".join(
            f'<circle cx="{20 + 20 * at}" cy="20" r="6" fill="{fill}"/>'
            for at, fill in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        )
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">',
            f"<title>{escape(title)}</title><style>{STYLE}{chr(10).join(rules)}</style>",
            frame, dots, *drawn, "</svg>\n",
        ])  # fmt: skip


def main() -> None:
    """Run the commands and write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "img" / "terminal.svg")
    output = parser.parse_args().output
    film = Film()
    with tempfile.TemporaryDirectory(prefix="pgengram-terminal-", ignore_cleanup_errors=True) as folder:
        for step in recorded(folder):
            film.type(step.typed)
            film.print(step.printed)
    output.write_text(
        film.svg("A terminal in which pgengram is told two things and finds one of them in other words."),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
