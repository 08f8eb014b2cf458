"""A plot without a plotting library: horizontal bars, each a share of what is allowed, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

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
