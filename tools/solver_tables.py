"""Tables and figures of the solver studies docs/results/solvers-NAME.json."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from markupsafe import Markup

from fcfg.reports.svg import (
    INK,
    PALE,
    RULE,
    Panel,
    Scale,
    described,
    drawing,
    stroke,
    symbol,
    tag,
    write,
)
from fcfg.reports.tables import table_row

RESULTS = Path(__file__).parents[1] / "docs" / "results"
_FACTORED = "fcfg:"
_COLOURS = {  # of solvers
    "ddim": "#3465a4",
    "fixed-point": "#16798a",
    "dpm-2m": "#cc5500",
    "heun": "#2e8b57",
    "bdia": "#8e44ad",
}
_MARKS = {"uniform": "circle", "karras": "square", "log-snr": "triangle"}  # of grids
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440.0, 330.0, 52.0, 140.0, 34.0, 44.0


@dataclass(frozen=True)
class Line:
    """One sampling configuration, over all interventions, under FCFG."""

    way: str
    rows: float  #: network rows per counterfactual
    seconds: float  #: of the prediction of one image
    target: float  #: signed shift of the target, from no guidance or from the truth
    off_target: float  #: largest absolute shift of an invariant attribute
    truth: float | None  #: error on changed pixels
    reversal: float  #: mean absolute error of reversed images
    equal: tuple[str, ...]  #: rules under which all interventions equal the reference
    rules: int  #: number of rules

    @property
    def family(self) -> str:
        """The configuration without its steps."""
        return self.way.rpartition(" ")[0]

    @property
    def label(self) -> str:
        """The configuration, bold if it equals the reference under all rules."""
        return f"**{self.way}**" if len(self.equal) == self.rules else self.way


def study(name: str, folder: Path = RESULTS) -> str:
    """Return the figure and table of a study."""
    file = folder / f"solvers-{name}.json"
    if not file.exists():
        return "This has not been measured yet. Run `tools/solver_study.py`."
    result = json.loads(file.read_text("utf-8"))
    lines = lines_of(result)
    heads = ["sampling", "rows", "seconds", "target", "off target"]
    heads += ["error of change"] if lines[0].truth is not None else []
    heads += ["reversal error", "equal under"]
    rows = [heads, ["---"] * len(heads)]
    for line in lines:
        truth = [] if line.truth is None else [f"{line.truth:.3f}"]
        rows.append(
            [
                line.label,
                f"{line.rows:,.0f}",
                f"{line.seconds:.2g}",
                f"{line.target:+.3f}",
                f"{line.off_target:.3f}",
                *truth,
                f"{line.reversal:.4f}",
                ", ".join(line.equal) or "–",
            ]
        )
    environment = result["environment"]
    return "\n".join(
        [
            f"![{_caption(result)}](figures/solvers-{name}.svg)",
            "",
            *map(table_row, rows),
            "",
            f"{_caption(result)} `{result['command']}`, {environment['precision']} on "
            f"{environment['device']}, commit {(result['commit'] or '?')[:12]}.",
        ]
    )


def lines_of(result: dict[str, Any]) -> list[Line]:
    """Return a line for each configuration: the reference, then solver by solver, by cost."""
    ways = dict.fromkeys(row["way"] for row in result["rows"])
    first, *others = [
        _line(way, [row for row in result["rows"] if row["way"] == way]) for way in ways
    ]
    families = list(dict.fromkeys(line.family for line in others))
    return [first, *sorted(others, key=lambda x: (families.index(x.family), -x.rows))]


def _line(way: str, rows: Sequence[dict[str, Any]]) -> Line:
    pushed = [row for row in rows if row["guidance"].startswith(_FACTORED)]
    truths = [row["truth"]["value"] for row in pushed if row["truth"] is not None]
    rules = list(dict.fromkeys(_rule(row) for row in rows))
    missed = {_rule(row) for row in rows if row["misses"]}
    return Line(
        way=way,
        rows=fmean(row["evaluations"] for row in pushed),
        seconds=fmean(row["seconds"] for row in pushed),
        target=fmean(e["value"] for row in pushed for e in row["target"].values()),
        off_target=max(abs(e["value"]) for row in pushed for e in row["off_target"].values()),
        truth=fmean(truths) if truths else None,
        reversal=fmean(row["reversal"]["value"] for row in pushed),
        equal=tuple(rule for rule in rules if rule not in missed),
        rules=len(rules),
    )


def _rule(row: dict[str, Any]) -> str:
    """Return the name of the guidance rule."""
    rule = row["guidance"].partition(":")[0]
    return "no guidance" if rule == "none" else rule.upper()


def _caption(result: dict[str, Any]) -> str:
    return (
        f"{result['model']['name']}: {result['n']:,} images, FCFG 3.0 / 1.2; settings in bold "
        f"equal {result['reference']}."
    )


def picture(file: Path) -> str:
    """Return the figure of a study, as an SVG file."""
    result = json.loads(file.read_text("utf-8"))
    lines = lines_of(result)
    truths = {line: line.truth for line in lines if line.truth is not None}
    qualities = {"reversal error": {line: line.reversal for line in lines}}
    qualities |= {"error on changed pixels": truths} if truths else {}
    costs: list[tuple[str, Callable[[Line], float]]] = [
        ("network rows", lambda line: line.rows),
        ("seconds", lambda line: line.seconds),
    ]
    panels = [
        tag(
            "g",
            _panel(title, unit, [(line, cost(line), value) for line, value in values.items()]),
            transform=f"translate({column * _WIDTH:.0f} {row * _HEIGHT:.0f})",
        )
        for row, (title, values) in enumerate(qualities.items())
        for column, (unit, cost) in enumerate(costs)
    ]
    width, height = _WIDTH * len(costs), _HEIGHT * len(qualities)
    svg = drawing(width, height, result["model"]["name"], _caption(result), *panels)
    return Panel(file.stem, svg).file


def _panel(title: str, unit: str, points: Sequence[tuple[Line, float, float]]) -> Markup:
    """Plot a measure against a cost, on logarithmic scales; the reference is a dashed line."""
    across = _log_scale([x for _, x, _ in points], _LEFT, _WIDTH - _RIGHT)
    up = _log_scale([y for *_, y in points], _HEIGHT - _BOTTOM, _TOP)
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts: list[str] = [write(_LEFT, 18, title, weight="600")]
    for tick in _round(across):
        x = across(math.log10(tick))
        parts += [stroke(x, _TOP, x, bottom, RULE)]
        parts += [write(x, bottom + 15, f"{tick:g}", fill=PALE, anchor="middle", size=10.5)]
    for tick in _round(up):
        y = up(math.log10(tick))
        parts += [stroke(_LEFT, y, right, y, RULE)]
        parts += [write(_LEFT - 6, y + 4, f"{tick:g}", fill=PALE, anchor="end", size=10.5)]
    parts.append(write(right, bottom + 33, f"{unit} →", fill=PALE, anchor="end", size=11))
    level = up(math.log10(points[0][2]))
    parts.append(stroke(_LEFT, level, right, level, INK, stroke_dasharray="2 4"))
    families = list(dict.fromkeys(line.family for line, *_ in points))
    for i, family in enumerate(families):
        solver, grid = family.split()
        colour, kind = _COLOURS[solver.partition(":")[0]], _MARKS[grid]
        own = sorted((p for p in points if p[0].family == family), key=lambda p: p[0].rows)
        places = [(across(math.log10(x)), up(math.log10(y))) for _, x, y in own]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(tag("polyline", points=path, fill="none", stroke=colour, stroke_width=1.5))
        for (line, x, y), (left, top) in zip(own, places, strict=True):
            dot = symbol(kind, left, top, 3.5, fill=colour)
            parts.append(described(dot, f"{line.way}: {x:g} {unit}, {y:.4f}"))
        place = _TOP + 12 + 16 * i
        parts.append(symbol(kind, right + 12, place - 4, 3.5, fill=colour))
        parts.append(write(right + 20, place, family, fill=colour, size=11))
    return tag("g", *parts)


def _log_scale(values: Sequence[float], start: float, stop: float) -> Scale:
    low, high = math.log10(min(values)), math.log10(max(values))
    room = 0.08 * (high - low) or 0.5
    return Scale(low - room, high + room, start, stop)


def _round(scale: Scale) -> list[float]:
    """Return round ticks within a logarithmic scale."""
    decades = scale.high - scale.low
    if decades < 0.4:  # too short for powers
        return Scale(10**scale.low, 10**scale.high, scale.start, scale.stop).ticks
    digits = (1, 2, 3, 5, 7) if decades < 0.8 else (1, 2, 5) if decades < 1.5 else (1, 3)
    powers = range(math.floor(scale.low), math.ceil(scale.high) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in digits]
    return [tick for tick in ticks if scale.low <= math.log10(tick) <= scale.high]
