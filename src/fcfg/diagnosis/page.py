"""The page of a diagnosis: the verdict, gaps over time, and matrices as coloured tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from markupsafe import Markup

from fcfg.diagnosis.diagnosis import Diagnosis, percent
from fcfg.diagnosis.entanglement import Association
from fcfg.diagnosis.pushes import Gap
from fcfg.reports import svg
from fcfg.reports.rule_styles import TINTS, variable
from fcfg.reports.template import rendered
from fcfg.reports.wording import named, number

_WIDTH, _HEIGHT, _LINE = 480.0, 300.0, 20.0  # of a chart, and of a line of its legend
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 468.0, 14.0, 254.0  # of the plot
_LABELS = 12  # times below an axis


class _Cell(NamedTuple):
    """A number in a coloured table."""

    text: str
    note: str
    colour: str
    strength: int  #: of the colour, in percent
    is_bold: bool


def diagnosis_page(diagnosis: Diagnosis, model: str, about: Mapping[str, object]) -> str:
    """Return the whole page, which needs no other file."""
    cells = {pair: _gap_cell(gap, diagnosis.threshold) for pair, gap in diagnosis.pairs.items()}
    return rendered(
        "diagnosis.html.jinja",
        "fcfg.diagnosis",
        diagnosis=diagnosis,
        model=model,
        about=about,
        charts={
            "Groups": _chart(diagnosis, groupings(diagnosis)),
            "Pairs of attributes": _chart(diagnosis, largest_pairs(diagnosis, len(TINTS))),
        },
        gaps=cells | {(b, a): cell for (a, b), cell in cells.items()},
        variables=list(dict.fromkeys(a for a, _ in diagnosis.associations)),
        associations={pair: _cell(found) for pair, found in diagnosis.associations.items()},
    )


def groupings(diagnosis: Diagnosis) -> dict[str, Gap]:
    """Return the gaps of whole groupings, by their names for readers."""
    gaps = {"one group per attribute": diagnosis.by_attribute}
    gaps |= {named(target): gap for target, gap in diagnosis.by_intervention.items()}
    if 1 < len(diagnosis.suggestion) < len(diagnosis.attributes):
        gaps["suggested groups"] = diagnosis.suggested
    return gaps


def largest_pairs(diagnosis: Diagnosis, count: int) -> dict[str, Gap]:
    """Return the pairs with the largest gaps, by their names for readers."""
    pairs = sorted(diagnosis.pairs.items(), key=lambda pair: -pair[1].overall.value)
    return {f"{a} and {b}": gap for (a, b), gap in pairs[:count]}


def _gap_cell(gap: Gap, limit: float) -> _Cell:
    text, _, note = percent(gap.overall).partition(" [")
    strength = min(60, round(30 * gap.overall.value / max(limit, 0.01)))
    return _Cell(text, f"[{note}", variable("cfg"), strength, gap.overall.value > limit)


def _cell(found: Association) -> _Cell:
    data, reading = found
    value = number(data.value, 2, signed=True)
    note = "" if reading is None else f"judge {number(reading.value, 2, signed=True)}"
    colour = variable("cfg" if data.value > 0 else "fcfg")
    return _Cell(value, note, colour, round(60 * abs(data.value)), data.excludes_zero)


def _chart(diagnosis: Diagnosis, gaps: Mapping[str, Gap]) -> Markup:
    """Gaps over time as lines with bands, above bars for the weight of each time."""
    times, limit = diagnosis.times, diagnosis.threshold
    highest = max(0.05, 1.1 * limit, *(e.high for gap in gaps.values() for e in gap.over_time))
    up = svg.Scale(0.0, 1.1 * highest, _BOTTOM, _TOP)
    across = svg.Scale(-0.5, len(times) - 0.5, _LEFT, _RIGHT)
    weights = [size**2 for size in diagnosis.by_attribute.push]
    parts: list[Markup] = []
    for place, weight in enumerate(weights):
        x, wide = across(place - 0.35), across(0.7) - across(0.0)
        height = 0.9 * (_BOTTOM - _TOP) * weight / max(weights)
        size = {"width": wide, "height": height, "fill": svg.RULE, "fill_opacity": 0.45}
        parts.append(svg.tag("rect", x=x, y=_BOTTOM - height, **size))
    digits = max(0, up.digits - 2)
    parts += svg.levels(up, _LEFT, _RIGHT, lambda tick: f"{number(100 * tick, digits)} %")
    for place in range(0, len(times), -(-len(times) // _LABELS)):
        middle = {"anchor": "middle", "size": 10.5}
        parts.append(svg.write(across(place), _BOTTOM + 15, str(times[place]), svg.PALE, **middle))
    caption = "time t, from image to noise →"
    parts.append(svg.write(_RIGHT, _BOTTOM + 33, caption, svg.PALE, anchor="end", size=11))
    parts.append(svg.stroke(_LEFT, up(limit), _RIGHT, up(limit), svg.INK, stroke_dasharray="5 4"))
    text = f"limit {100 * limit:.0f} %"
    parts.append(svg.write(_LEFT + 4, up(limit) - 5, text, svg.INK, size=10.5))
    for row, (name, gap) in enumerate(gaps.items()):
        colour, y = variable(TINTS[row % len(TINTS)]), _HEIGHT + _LINE * row + 4
        dash = "6 3" if row >= len(TINTS) else None
        look = {"stroke": colour, "stroke_width": 1.8, "stroke_dasharray": dash}
        parts.append(_line(name, gap, times, look, across, up))
        parts.append(svg.tag("line", x1=_LEFT, y1=y, x2=_LEFT + 22, y2=y, **look))
        parts.append(svg.write(_LEFT + 30, y + 4, f"{name}: {percent(gap.overall)}"))
    words = "; ".join(f"{name}: {percent(gap.overall)}" for name, gap in gaps.items())
    return svg.drawing(_WIDTH, _HEIGHT + _LINE * len(gaps), "Gap over time", words, *parts)


def _line(
    name: str,
    gap: Gap,
    times: tuple[int, ...],
    look: Mapping[str, object],
    across: svg.Scale,
    up: svg.Scale,
) -> Markup:
    """One line with its band, and a dot with its numbers at each time."""
    low, value, high = (
        [f"{across(x):.1f},{up(getattr(e, end)):.1f}" for x, e in enumerate(gap.over_time)]
        for end in ("low", "value", "high")
    )
    dots = [
        svg.described(
            svg.tag("circle", cx=across(place), cy=up(e.value), r=2.6, fill=look["stroke"]),
            f"{name}, t = {t}: {percent(e)}",
        )
        for place, (t, e) in enumerate(zip(times, gap.over_time, strict=True))
    ]
    ends = " ".join([*low, *high[::-1]])
    band = svg.tag("polygon", points=ends, fill=look["stroke"], fill_opacity=0.15)
    line = svg.tag("polyline", points=" ".join(value), fill="none", **look)
    return svg.tag("g", band, line, *dots)
