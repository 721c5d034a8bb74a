"""Frontiers of the methods on drawings: a table at equal strength, and the figure.

    python studies/frontiers.py    # writes docs/figures/frontiers-portraits.svg

A method is interpolated between its two measured weights around strength 0, where judge B, which
chose nothing, reads the asked attribute as on the truth. Ends of intervals are interpolated, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
from markupsafe import Markup

from estimates import Line, read, table
from fcfg.metrics import Estimate
from fcfg.reports.rule_styles import TINTS, setting
from fcfg.reports.svg import Panel, Scale, around
from fcfg.reports.template import rendered
from fcfg.support.files import write_atomically

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "frontiers-portraits.svg"
#: Methods of the figure; the table has all.
DRAWN = ("contrast drawn", "FCFG drawn", "FCFG plain", "FlowEdit", "LEDITS++", "edit-friendly")
DO, NEAR = "male", 0.9  # of the figure: intervention, and largest strength
SHIFT, CHANGED = "shift B", "changed"
ENDS = ("", " low", " high")
NAMES = {"plain": "", "inferred": ", anchored, inferred noise", "drawn": ", anchored, drawn noise"}


@dataclass(frozen=True)
class Frontier:
    """A method under one intervention, weight by weight."""

    method: str
    do: str
    lines: tuple[Line, ...]

    def at_zero(self, name: str) -> float | None:
        """Interpolate a number where the strength is 0; None if the method is nowhere so clear."""
        strength = f"{SHIFT} {self.do}"
        for one, other in pairwise(self.lines):
            low, high = float(one[strength]), float(other[strength])
            if low <= 0 <= high:
                share = -low / (high - low)
                return float(one[name]) + share * (float(other[name]) - float(one[name]))
        return None

    @property
    def others(self) -> float | None:
        """The largest shift of another attribute there."""
        heads = [head for head in self.lines[0].fields if head.startswith(f"{SHIFT} ")]
        names = [h for h in heads if h.split()[2] != self.do and not h.endswith((" low", " high"))]
        found = [self.at_zero(name) for name in names]
        return None if None in found else max(abs(x) for x in found if x is not None)


def frontiers() -> Iterator[Frontier]:
    """Yield every method under every intervention."""
    for (method, do), own in groupby(
        read("frontiers-portraits"), lambda line: (line["method"], line["do"])
    ):
        yield Frontier(method, do, tuple(own))


def label(method: str) -> str:
    """Return the words for a method.

    >>> label("FCFG drawn"), label("SDEdit")
    ('FCFG, anchored, drawn noise', 'SDEdit')
    """
    rule, _, anchor = method.partition(" ")
    return rule + NAMES.get(anchor, "")


def equal_strength() -> str:
    """Return the error of every method where its answers are as clear as the truth."""
    found: dict[str, list[Frontier]] = {}
    for own in frontiers():
        found.setdefault(own.method, []).append(own)
    ranked: list[tuple[float, list[str]]] = []
    for method, every in found.items():
        errors = [own.at_zero(CHANGED) for own in every]
        ends = [[own.at_zero(CHANGED + end) for end in ENDS] for own in every]
        known = [error for error in errors if error is not None]
        whole = len(known) == len(errors)
        shifts = [own.others or 0.0 for own in every]
        first = every[0].lines[0]
        row = [
            label(method),
            options(first["guidance"]),
            first["sampling"],
            *("never" if x[0] is None else "{:.3f} [{:.3f}, {:.3f}]".format(*x) for x in ends),
            f"{fmean(known):.3f}" if whole else "–",
            f"{max(shifts):.2f}" if whole else "–",
            first["rows"],
        ]
        ranked.append((fmean(known) if whole else np.inf, row))
    heads = ("method", "options", "sampling", *(f"do({own.do})" for own in every))
    heads = (*heads, "mean", "other attributes", "network evaluations")
    return table(heads, [row for _, row in sorted(ranked)])


def options(guidance: str) -> str:
    """Return the options of a guidance that are not its anchor.

    >>> options("cfg:1.0;anchor=true;drawn_noise=true;noises=4")
    'noises=4'
    """
    every = guidance.split(";")[1:]
    return ";".join(o for o in every if o.partition("=")[0] not in ("anchor", "drawn_noise"))


def figure() -> Markup:
    """Return the figure: error of the change against strength, not far from that of the truth."""
    every = [own for own in frontiers() if own.do == DO and own.method in DRAWN]
    every.sort(key=lambda own: DRAWN.index(own.method))
    drawn = [_drawn(own, number) for number, own in enumerate(every)]
    points = [point for own in drawn for point in own.points]
    return rendered(
        "frontiers.svg.jinja",
        chart=SimpleNamespace(
            do=DO, title="error of changed pixels", reference="the truth", frontiers=drawn
        ),
        across=around([p.x.value for p in points], 48, 470),
        up=Scale(min(p.y.low for p in points), max(p.y.high for p in points), 322, 42),
        digits=2,
        cycle=len(TINTS),
    )


def _drawn(own: Frontier, number: int) -> Any:
    """Return a method as the template of reports takes it."""
    tint = TINTS[number % len(TINTS)]
    points = [
        SimpleNamespace(
            x=_estimate(line, f"{SHIFT} {own.do}"),
            y=_estimate(line, CHANGED),
            setting=replace(setting(line["guidance"]), tint=tint),
            row=SimpleNamespace(cell=SimpleNamespace(guidance=line["guidance"])),
        )
        for line in own.lines
        if abs(float(line[f"{SHIFT} {own.do}"])) <= NEAR
    ]
    nearest = min(points, key=lambda point: abs(point.x.value))
    return SimpleNamespace(
        title=label(own.method).removesuffix(", drawn noise"),
        number=number,
        points=points,
        setting=nearest.setting,
        calibrated=nearest,
        published=None,
        error=None,
        place=f"{own.at_zero(CHANGED):.3f} at strength 0",
    )


def _estimate(line: Line, name: str) -> Estimate:
    """Return a stored number with its interval."""
    value, low, high = (float(line[name + end]) for end in ENDS)
    return Estimate(value, np.repeat([low, high], 100), 384)


def main() -> None:
    """Write the figure."""
    write_atomically(FIGURE, Panel(FIGURE.stem, figure()).file.encode())


if __name__ == "__main__":
    main()
