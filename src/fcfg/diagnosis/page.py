"""The page of a diagnosis: the verdict, gaps over time, and matrices as coloured tables."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from itertools import chain
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fcfg.diagnosis.additivity import Gap
from fcfg.diagnosis.diagnosis import Diagnosis, percent
from fcfg.diagnosis.entanglement import Matrix
from fcfg.reports.numbers import interval, listed, named, number
from fcfg.reports.rule_styles import palette_css, variable
from fcfg.reports.svg import INK, PALE, RULE, Scale, described, drawing, stroke, tag, write

_WIDTH, _HEIGHT = 480.0, 300.0  # without the legend
_LEFT, _RIGHT, _TOP, _BOTTOM, _LINE = 48.0, 12.0, 14.0, 46.0, 20.0
_COLOURS = ("fcfg", "cfg", "fapg", "apg", "cfg++", "fcfg++", "fown", "own")
_LABELS = 12  # of times below an axis


class _Cell(NamedTuple):
    """A number in a coloured table."""

    text: str
    interval: str
    colour: str
    strength: int  #: of the colour, in percent
    is_bold: bool


def diagnosis_page(diagnosis: Diagnosis, model: str, about: Mapping[str, str]) -> str:
    """Return the whole page, which needs no other file.

    Args:
        diagnosis: The diagnosis.
        model: Name of the model.
        about: Facts for the end of the page, such as the command.
    """
    environment = Environment(
        loader=PackageLoader("fcfg.diagnosis", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found = diagnosis.entanglement
    return environment.get_template("page.html.jinja").render(
        diagnosis=diagnosis,
        model=model,
        about=about,
        style=Markup(
            palette_css() + files("fcfg.reports").joinpath("style.css").read_text("utf-8")
        ),
        charts=[
            _chart(diagnosis, "Groups", groupings(diagnosis)),
            _chart(diagnosis, "Pairs of attributes", _largest(diagnosis)),
        ],
        groupings=[
            (name, listed(map(" + ".join, gap.groups)), _gap_cell(diagnosis, gap))
            for name, gap in groupings(diagnosis).items()
        ],
        pairs={
            key: _gap_cell(diagnosis, gap)
            for (a, b), gap in diagnosis.pairs.items()
            for key in ((a, b), (b, a))
        },
        matrices=found
        and {"In the data": _cells(found.data), "As the judge reads": _cells(found.readings)},
        percent=percent,
    )


def groupings(diagnosis: Diagnosis) -> dict[str, Gap]:
    """Return the gaps of whole groupings, by their names for readers."""
    by_do = {named(target): gap for target, gap in diagnosis.by_intervention.items()}
    gaps = {"one group per attribute": diagnosis.by_attribute, **by_do}
    known = [gap.groups for gap in gaps.values()]
    is_new = diagnosis.suggested.groups not in known and len(diagnosis.suggestion) > 1
    return gaps | ({"suggested groups": diagnosis.suggested} if is_new else {})


def _largest(diagnosis: Diagnosis) -> dict[str, Gap]:
    """The pairs with the largest gaps, as many as there are colours."""
    pairs = sorted(diagnosis.pairs.items(), key=lambda pair: -pair[1].overall.value)
    return {f"{a} and {b}": gap for (a, b), gap in pairs[: len(_COLOURS)]}


def _gap_cell(diagnosis: Diagnosis, gap: Gap) -> _Cell:
    overall = gap.overall
    ends = interval(100 * overall.low, 100 * overall.high, 0)
    strength = min(60, round(30 * overall.value / max(diagnosis.threshold, 0.01)))
    is_large = overall.value > diagnosis.threshold
    return _Cell(f"{100 * overall.value:.0f} %", ends, variable("cfg"), strength, is_large)


def _cells(matrix: Matrix) -> dict[tuple[str, str], _Cell]:
    return {
        pair: _Cell(
            number(found.value, 2, signed=True),
            interval(found.low, found.high, 2, signed=True),
            variable("cfg" if found.value > 0 else "fcfg"),
            round(60 * abs(found.value)),
            pair[0] != pair[1] and found.excludes_zero,
        )
        for pair, found in matrix.items()
    }


def _chart(diagnosis: Diagnosis, title: str, gaps: Mapping[str, Gap]) -> Markup:
    """Gaps over time as lines with bands, above bars for the weight of each time."""
    bottom, right, limit = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, diagnosis.threshold
    ends = chain.from_iterable((e.high for e in gap.over_time) for gap in gaps.values())
    up = Scale(0.0, 1.1 * max(0.05, 1.1 * limit, *ends), bottom, _TOP)
    times = diagnosis.times
    across = Scale(-0.5, len(times) - 0.5, _LEFT, right)
    weights = [size**2 for size in diagnosis.by_attribute.push]
    wide = 0.7 * (right - _LEFT) / len(times)
    parts = [
        tag(
            "rect",
            x=across(place) - wide / 2,
            y=bottom - (height := 0.9 * (bottom - _TOP) * weight / max(weights)),
            width=wide,
            height=height,
            fill=RULE,
            fill_opacity=0.45,
        )
        for place, weight in enumerate(weights)
    ]
    for tick in up.ticks:
        y = up(tick)
        parts.append(stroke(_LEFT, y, right, y, PALE if tick == 0 else RULE))
        label = f"{number(100 * tick, max(0, up.digits - 2))} %"
        parts.append(write(_LEFT - 7, y + 4, label, PALE, anchor="end", size=10.5))
    for place in range(0, len(times), -(-len(times) // _LABELS)):
        label = {"anchor": "middle", "size": 10.5}
        parts.append(write(across(place), bottom + 15, str(times[place]), PALE, **label))
    caption = "time t, from image to noise →"
    parts.append(write(right, bottom + 33, caption, PALE, anchor="end", size=11))
    parts.append(stroke(_LEFT, up(limit), right, up(limit), INK, stroke_dasharray="5 4"))
    parts.append(
        write(right, up(limit) - 5, f"limit {100 * limit:.0f} %", INK, anchor="end", size=10.5)
    )
    for row, (name, gap) in enumerate(gaps.items()):
        colour, y = variable(_COLOURS[row % len(_COLOURS)]), _HEIGHT + _LINE * row + 4
        dash = "6 3" if row >= len(_COLOURS) else None
        parts.append(_line(name, gap, times, colour, dash, across, up))
        look = {"stroke_width": 2.5, "stroke_dasharray": dash}
        parts.append(stroke(_LEFT, y, _LEFT + 22, y, colour, **look))
        parts.append(write(_LEFT + 30, y + 4, f"{name}: {percent(gap.overall)}"))
    words = "; ".join(f"{name}: {percent(gap.overall)}" for name, gap in gaps.items())
    return drawing(_WIDTH, _HEIGHT + _LINE * len(gaps), f"{title}: gap over time", words, *parts)


def _line(
    name: str,
    gap: Gap,
    times: tuple[int, ...],
    colour: str,
    dash: str | None,
    across: Scale,
    up: Scale,
) -> Markup:
    def path(heights: list[float]) -> list[str]:
        return [f"{across(place):.1f},{up(height):.1f}" for place, height in enumerate(heights)]

    low, value, high = (
        path([getattr(e, end) for e in gap.over_time]) for end in ("low", "value", "high")
    )
    dots = [
        described(
            tag("circle", cx=across(place), cy=up(e.value), r=2.6, fill=colour),
            f"{name}, t = {times[place]}: {percent(e)}",
        )
        for place, e in enumerate(gap.over_time)
    ]
    look = {"fill": "none", "stroke": colour, "stroke_width": 1.8, "stroke_dasharray": dash}
    return tag(
        "g",
        tag("polygon", points=" ".join([*low, *high[::-1]]), fill=colour, fill_opacity=0.15),
        tag("polyline", points=" ".join(value), **look),
        *dots,
    )
