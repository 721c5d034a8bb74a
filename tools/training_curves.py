"""The training curves of a model card: loss (line) and validation loss (dots), in logarithms."""

from __future__ import annotations

import json
import math
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, GAP = 340, 220, 52, 34, 26
COLOURS = {"loss": "#3465a4", "validation_loss": "#cc5500"}


def panel(entries: list[dict], part: str, x0: int) -> str:
    """Draw the curves of the judge or of the diffusion model."""
    series = {
        name: [(e["step"], e[name]) for e in entries if e["part"] == part and name in e]
        for name in COLOURS
    }
    points = [point for values in series.values() for point in values]
    last = max(step for step, _ in points)
    low, high = (f(math.log10(v) for _, v in points) for f in (min, max))

    def place(step: int, value: float) -> tuple[float, float]:
        share = (math.log10(value) - low) / (high - low)
        return x0 + LEFT + step / last * WIDTH, GAP + (1 - share) * HEIGHT

    parts = [
        f'<text x="{x0 + LEFT}" y="16" font-weight="bold">{part}</text>',
        f'<rect x="{x0 + LEFT}" y="{GAP}" width="{WIDTH}" height="{HEIGHT}" fill="none" '
        'stroke="#999"/>',
        f'<text x="{x0 + LEFT + WIDTH / 2}" y="{GAP + HEIGHT + 28}" text-anchor="middle">'
        f"step, of {last:,}</text>",
    ]
    for value in (low, (low + high) / 2, high):
        y = GAP + (1 - (value - low) / (high - low)) * HEIGHT + 4
        parts.append(
            f'<text x="{x0 + LEFT - 6}" y="{y:.0f}" text-anchor="end">{10**value:.2g}</text>'
        )
    line = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in series["loss"])
    parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS["loss"]}"/>')
    for x, y in (place(*point) for point in series["validation_loss"]):
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS["validation_loss"]}"/>'
        )
    return "\n".join(parts)


def draw(log: Path) -> str:
    """Return the curves of a training log as an SVG file."""
    entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    panels = [
        panel(entries, part, i * (WIDTH + LEFT + 20))
        for i, part in enumerate(("judge", "diffusion"))
    ]
    width, height = 2 * (WIDTH + LEFT + 20), HEIGHT + GAP + BOTTOM
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n'
        + "\n".join(panels)
        + "\n</svg>\n"
    )
