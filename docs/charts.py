"""Draws `docs/pictures/speed.svg` from the tables of measurements.

    python docs/charts.py

The picture has one group of bars for each row: the time of a peer divided by the time of pytpu. A bar to the right of
the line at 1 is a row in which pytpu is faster. The elapsed times come from the table after `<!-- chart: elapsed -->`
in `docs/performance.md`, the estimated cycles from the first table of `docs/performance/tpu-programs.md`.
"""

import math
import pathlib
import re
import textwrap
from dataclasses import dataclass
from xml.sax.saxutils import escape

DOCS = pathlib.Path(__file__).resolve().parent
PICTURE = DOCS / "pictures" / "speed.svg"

COLORS = {"PyTorch": "#c8553d", "JAX": "#3d6fb4"}
LEFT, RIGHT, BAR, GAP, GROUP, LINE = 300, 700, 13, 3, 12, 14
# A label has lines of at most so many characters: wider ones would leave the picture.
CHARACTERS = 42
LEAST, MOST = 0.5, 10.0


@dataclass
class Row:
    """A row of the picture: its name, and for each peer the ratio of its time to that of pytpu."""

    name: str
    ratios: dict[str, float]


def table_after(text: str, mark: str) -> list[list[str]]:
    """Return the cells of the first table after `mark`, without the line under the heading."""
    lines = text[text.index(mark) :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    cells = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return [cells[0], *cells[2:]]


def number(text: str) -> float | None:
    """Return the number at the start of a cell, with its unit `k` or `M`, or None for an empty cell."""
    match = re.match(r"([\d.]+) ?([kM]?)", text)
    return float(match[1]) * {"": 1.0, "k": 1e3, "M": 1e6}[match[2]] if match else None


def elapsed_rows() -> list[Row]:
    """Rows of elapsed time. The faster device of pytpu counts."""
    heading, *rows = table_after((DOCS / "performance.md").read_text(), "<!-- chart: elapsed -->")
    ours = [i for i, name in enumerate(heading) if name.startswith("`")]
    found = []
    for row in rows:
        best = min(time for i in ours if (time := number(row[i])) is not None)
        times = {peer: number(row[heading.index(peer)]) for peer in COLORS if peer in heading}
        ratios = {peer: time / best for peer, time in times.items() if time is not None}
        found.append(Row(row[0].replace("`", ""), ratios))
    return found


def cycle_rows(chip: str) -> list[Row]:
    """Rows of the estimated cycles of training steps for one TPU. A row without a name continues the one above it."""
    heading, *rows = table_after((DOCS / "performance" / "tpu-programs.md").read_text(), "| step")
    ours, peer, where = heading.index("cycles, ours"), heading.index("JAX"), heading.index("chip")
    name, found = "", []
    for row in rows:
        name = row[0].replace("`", "") or name
        mine, theirs = number(row[ours]), number(row[peer])
        if row[where] == chip and mine and theirs:
            # "The same" is explained by the row above it.
            found.append(Row(shortened(name, found), {"JAX": theirs / mine}))
    return found


def shortened(name: str, before: list[Row]) -> str:
    """Replace "the same" by the first words of the row before."""
    rest = name.removeprefix("the same")
    return name if rest == name else before[-1].name.split(",")[0] + rest


def at(ratio: float) -> float:
    """Return the x position of a ratio on the logarithmic axis."""
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * (RIGHT - LEFT)


def panel(title: str, rows: list[Row], top: float) -> tuple[list[str], float]:
    """Return the SVG lines of a panel and the y position of its end."""
    parts = [f'<text x="16" y="{top + 14:.0f}" font-weight="bold">{escape(title)}</text>']
    y = top + 30
    for row in rows:
        label = textwrap.wrap(row.name, CHARACTERS)
        bars = len(row.ratios) * (BAR + GAP) - GAP
        height = max(bars, len(label) * LINE - LINE + BAR)
        first = y + height / 2 + 4 - (len(label) - 1) * LINE / 2
        for i, text in enumerate(label):
            parts.append(f'<text x="{LEFT - 10}" y="{first + i * LINE:.1f}" text-anchor="end">{escape(text)}</text>')
        end = y + height + GAP
        y += (height - bars) / 2
        for peer, ratio in row.ratios.items():
            left, right = sorted((at(1.0), at(ratio)))
            parts.append(
                f'<rect x="{left:.1f}" y="{y:g}" width="{max(right - left, 1.5):.1f}" height="{BAR}" '
                f'fill="{COLORS[peer]}"/>'
            )
            parts.append(f'<text x="{max(right, at(1.0)) + 5:.1f}" y="{y + 11:g}">{ratio:.2f}</text>')
            y += BAR + GAP
        y = end + GROUP - GAP
    parts.insert(0, f'<path d="M{at(1.0):.1f} {top + 22:.0f}V{y - 6:g}" stroke="#333" stroke-width="1"/>')
    return parts, y


def draw() -> str:
    """Return the picture as SVG."""
    body, y = panel("CPU, two cores: elapsed time of the peer / of pytpu", elapsed_rows(), 12)
    more, y = panel("TPU v5e: estimated cycles of the peer / of pytpu", cycle_rows("v5e"), y + 14)
    body += more
    y += 20
    x = 16
    for peer, color in COLORS.items():
        body.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{color}"/>')
        body.append(f'<text x="{x + 18}" y="{y}">{peer}</text>')
        x += 90
    body.append(f'<text x="{x}" y="{y}">right of the line (above 1): pytpu is faster</text>')
    width, height = RIGHT + 60, y + 16
    lines = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{lines}\n</svg>\n'
    )


if __name__ == "__main__":
    PICTURE.write_text(draw())
    print(PICTURE)
