"""A plot without a plotting library: horizontal bars, each a share of what is allowed, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

ROW, LEFT, WIDTH, RIGHT, TOP, BOTTOM = 24, 270, 360, 250, 46, 30
CUT = 1.6  # a longer bar is cut here; its figures stand beside it
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 } .small { font-size: 11px; fill: #59636e }
.reached { fill: #2da44e } .missed { fill: #cf222e } .limit { stroke: #59636e; stroke-dasharray: 4 3 } .paper { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .small { fill: #9198a1 } .reached { fill: #3fb950 } .missed { fill: #f85149 }
  .limit { stroke: #9198a1 } .paper { fill: #0d1117 }
}
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One row: what was measured, the share of the limit that it takes (1 just reaches it), and its figures in words."""

    name: str
    share: float
    said: str


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Return an SVG of one bar a row, with a line at the limit."""
    height = TOP + ROW * len(rows) + BOTTOM
    limit = LEFT + WIDTH / CUT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect class="paper" width="100%" height="100%" rx="6"/><text class="title" x="14" y="26">{escape(title)}</text>',
        *(_bar(row, TOP + ROW * number) for number, row in enumerate(rows)),
        f'<line class="limit" x1="{limit:.1f}" x2="{limit:.1f}" y1="{TOP - 6}" y2="{height - BOTTOM + 4}"/>',
        f'<text class="small" x="{limit:.1f}" y="{height - 10}" text-anchor="middle">limit; shorter is better</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _bar(row: Bar, top: int) -> str:
    length = max(2.0, min(row.share, CUT) * WIDTH / CUT)
    kind = "reached" if row.share <= 1 else "missed"
    return (
        f'<text x="{LEFT - 10}" y="{top + 15}" text-anchor="end">{escape(row.name)}</text>'
        f'<rect class="{kind}" x="{LEFT}" y="{top + 4}" width="{length:.1f}" height="{ROW - 9}" rx="2"/>'
        f'<text class="small" x="{LEFT + WIDTH + 10}" y="{top + 15}">{escape(row.said)}</text>'
    )


PANEL, PLOT, KEY, MARGIN = 340, 230, 17, 52  # width and height of a panel, a line of its key, room for an axis
COLOURS = 6
SLACK = 0.01  # of a power of ten, that a value may lie beyond the last line


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a panel: its name and its points, all above zero."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def log_log(title: str, x_axis: str, panels: Sequence[tuple[str, Sequence[Line]]]) -> str:
    """Return an SVG of panels side by side, each a name of its upright axis and lines over logarithmic axes."""
    width = MARGIN + len(panels) * (PANEL + MARGIN)
    height = TOP + PLOT + 40 + KEY * max(len(lines) for _, lines in panels) + 10
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}{LINE_STYLE}</style>",
        f'<rect class="paper" width="100%" height="100%" rx="6"/><text class="title" x="14" y="26">{escape(title)}</text>',
    ]
    for number, (name, lines) in enumerate(panels):
        drawn += [
            f'<g transform="translate({MARGIN + number * (PANEL + MARGIN)} {TOP})">',
            *_panel(name, x_axis, lines),
            "</g>",
        ]
    return "\n".join([*drawn, "</svg>"]) + "\n"


LINE_STYLE = (
    ".grid { stroke: #8c959f; stroke-opacity: .35 } .series { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 6 3 }\n"
    + "\n".join(
        f".c{number} {{ stroke: {colour}; fill: {colour} }}"
        for number, colour in enumerate(("#0969da", "#bf8700", "#2da44e", "#cf222e", "#8250df", "#6e7781"))
    )
    + "\n.series { fill: none }\n"
)


def _panel(name: str, x_axis: str, lines: Sequence[Line]) -> list[str]:
    across, up = (_decades([point[axis] for line in lines for point in line.points]) for axis in (0, 1))

    def place(x: float, y: float) -> tuple[float, float]:
        return _share(x, across) * PANEL, PLOT - _share(y, up) * PLOT

    drawn = []
    for exponent in range(across[0], across[1] + 1):
        x, _ = place(10.0**exponent, 10.0 ** up[0])
        drawn.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{PLOT}"/>')
        drawn.append(f'<text class="small" x="{x:.1f}" y="{PLOT + 15}" text-anchor="middle">{_power(exponent)}</text>')
    for exponent in range(up[0], up[1] + 1):
        _, y = place(10.0 ** across[0], 10.0**exponent)
        drawn.append(f'<line class="grid" x1="0" x2="{PANEL}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<text class="small" x="-6" y="{y + 4:.1f}" text-anchor="end">{_power(exponent)}</text>')
    drawn.append(f'<text class="small" x="0" y="-7">{escape(name)}</text>')
    drawn.append(f'<text class="small" x="{PANEL}" y="{PLOT + 30}" text-anchor="end">{escape(x_axis)}</text>')
    for number, line in enumerate(lines):
        colour, dashed = f"c{number % COLOURS}", " dashed" if line.dashed else ""
        path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line.points)
        drawn.append(f'<polyline class="{colour} series{dashed}" points="{path}"/>')
        drawn += [
            '<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"/>'.format(colour, *place(x, y)) for x, y in line.points
        ]
        y = PLOT + 44 + KEY * number
        drawn.append(f'<line class="{colour} series{dashed}" x1="0" x2="24" y1="{y}" y2="{y}"/>')
        drawn.append(f'<text class="small" x="32" y="{y + 4}">{escape(line.name)}</text>')
    return drawn


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the whole powers of ten around the values."""
    low, high = floor(log10(min(values)) + SLACK), ceil(log10(max(values)) - SLACK)
    return low, max(high, low + 1)


def _share(value: float, decades: tuple[int, int]) -> float:
    return (log10(value) - decades[0]) / (decades[1] - decades[0])


def _power(exponent: int) -> str:
    """Return a power of ten as people write it."""
    names = {3: "1 k", 4: "10 k", 5: "100 k", 6: "1 M", 7: "10 M", 8: "100 M", 9: "1 G"}
    return names.get(exponent) or f"{10.0**exponent:,.{max(0, -exponent)}f}"
