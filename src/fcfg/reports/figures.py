"""Every figure of a report, on the page and as a file of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from fcfg.evaluation.result_files import Result
from fcfg.evaluation.summary import Summary
from fcfg.reports.axes import Panel
from fcfg.reports.bars import DELTA, FACTOR, SHIFT, bar_panels
from fcfg.reports.numbers import knows_truth
from fcfg.reports.opening import Opening, find_opening
from fcfg.reports.strips import (
    Strip,
    answer_strips,
    read_pictures,
    reversal_strips,
    truth_strips,
)
from fcfg.reports.tradeoff import tradeoff_panels
from fcfg.support.files import file_name


@dataclass(frozen=True, eq=False)
class Figures:
    """What a report shows; lists are empty where there is nothing to show."""

    opening: Opening | None = field(repr=False)
    drift: list[Panel] = field(repr=False)  #: factor errors, or shifts
    delta: list[Panel] = field(repr=False)  #: effectiveness against no guidance
    tradeoff: list[Panel] = field(repr=False)
    answers: list[Strip] = field(repr=False)
    truth: list[Strip] = field(repr=False)
    reversals: list[Strip] = field(repr=False)

    @property
    def strips(self) -> list[Strip]:
        """All that is made of pictures."""
        first = [] if self.opening is None else [self.opening.strip]
        return [*first, *self.answers, *self.truth, *self.reversals]

    @property
    def files(self) -> dict[str, bytes]:
        """By file name: drawings as SVG, strips as PNG."""
        panels = [*self.drift, *self.delta, *self.tradeoff]
        drawn = {f"{file_name(panel.name)}.svg": panel.file.encode() for panel in panels}
        return drawn | {f"{file_name(strip.name)}.png": strip.png for strip in self.strips}


def make_figures(summary: Summary, result: Result) -> Figures:
    """Draw everything that the results have something for.

    Args:
        summary: Of the result.
        result: With the folder that its pictures lie in.
    """
    pictures = read_pictures(result)
    return Figures(
        find_opening(summary, result, pictures) if pictures else None,
        bar_panels(summary, FACTOR if knows_truth(summary) else SHIFT),
        bar_panels(summary, DELTA),
        tradeoff_panels(summary),
        answer_strips(summary, pictures) if pictures else [],
        truth_strips(summary, pictures) if pictures else [],
        reversal_strips(summary, pictures) if pictures else [],
    )
