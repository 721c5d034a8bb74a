"""The metrics of an evaluation: how each is named, written and read from a summary.

Every table and figure takes its names, digits, units and order from :data:`METRICS`. A new metric
is one entry here, and a field of :class:`fcfg.evaluation.summary.Cell`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from fcfg.causal.attributes import AttributeSpace, Continuous
from fcfg.evaluation.summary import Cell, Estimates, Summary
from fcfg.metrics import Estimate

Better: TypeAlias = Literal["", "↑", "↓", "→ 0"]  #: more, less, nearer to 0; or nothing is better

#: Units of the judge's score for a discrete attribute, and of anything on a continuous scale.
PROBABILITY, SD = "probability", "sd"
_AUROC, _OWN, _PIXELS = "AUROC x 100", "units of {name}", "of images in [-1, 1]"
_EFFECT, _TRUTH = "effectiveness", "error to the truth"
_FRECHET = "Fréchet distance"


@dataclass(frozen=True)
class Metric:
    """One kind of number, measured for each attribute or for whole images."""

    name: str
    title: str  #: its column, below the heading of its group
    digits: int
    unit: str | None  #: for discrete attributes and whole images; None: not defined for them
    continuous_unit: str | None = None  #: for continuous attributes; {name} is the attribute
    group: str = ""  #: heading above its columns in tables; "" leaves it out there
    better: Better = ""  #: of whole images, and of attributes that should not change
    reached: Better | None = None  #: of targets and what follows; None: as effectiveness says
    paper: str = ""  #: field of :class:`fcfg.reports.paper.PaperRow`, if the paper reports it
    signed: bool = False  #: whether both signs have a meaning
    is_relative: bool = False  #: whether it is a difference from no guidance
    field: str = ""  #: field of a cell that holds it; the name of the metric by default
    continuous_digits: int | None = None  #: for continuous attributes, if they need others

    def unit_of(self, space: AttributeSpace, attribute: str) -> str | None:
        """Unit of an attribute's values; None if the metric is not defined for the attribute."""
        if attribute and isinstance(space[attribute], Continuous):
            return self.continuous_unit and self.continuous_unit.format(name=attribute)
        return self.unit

    def digits_in(self, unit: str | None) -> int:
        """Decimal places of values in a unit."""
        own = self.digits if self.continuous_digits is None else self.continuous_digits
        return self.digits if unit == self.unit else own

    def value(self, summary: Summary, cell: Cell, attribute: str = "") -> Estimate | float | None:
        """Value in one cell; None if it was not measured."""
        found: Estimates | Estimate | float | None = getattr(cell, self.field or self.name)
        if isinstance(found, dict):
            return found.get(attribute) if self.unit_of(summary.space, attribute) else None
        return None if attribute else found


#: By name, in the order of tables.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            *("auroc", "AUROC", 1, _AUROC, None, _EFFECT),
            reached="↑",
            paper="auroc",
            field=_EFFECT,
        ),
        Metric("error", "error", 2, None, _OWN, _EFFECT, reached="↓", field=_EFFECT),
        Metric(
            *("delta", "Δ", 1, _AUROC, _OWN),
            reached="",
            paper="delta",
            signed=True,
            is_relative=True,
            continuous_digits=2,
        ),
        Metric(
            *("delta_real", "Δ real", 1, _AUROC, _OWN, "difference from real images", "→ 0"),
            signed=True,
            continuous_digits=2,
        ),
        Metric(
            *("shift", "shift", 3, PROBABILITY, SD, "shift", "→ 0", "↑"),
            signed=True,
            is_relative=True,
        ),
        Metric(
            *("factor_error", "factor error", 2, SD, SD, "factor error", "→ 0", "→ 0"), signed=True
        ),
        Metric("truth_mae", "MAE", 4, _PIXELS, None, _TRUTH, "↓"),
        Metric("truth_changed", "changed pixels", 2, "of the change", None, _TRUTH, "↓"),
        Metric("change_mae", "MAE", 3, _PIXELS, None, "change"),
        Metric("change_lpips", "LPIPS", 3, "LPIPS", None, "change"),
        Metric("reversal_mae", "MAE", 3, _PIXELS, None, "after reversal", "↓", paper="mae"),
        Metric("reversal_lpips", "LPIPS", 3, "LPIPS", None, "after reversal", "↓", paper="lpips"),
        Metric("repeated_mae", "MAE", 3, _PIXELS, None, "after all cycles", "↓"),
        Metric("repeated_lpips", "LPIPS", 3, "LPIPS", None, "after all cycles", "↓"),
        Metric("minimality", "CLD", 3, "CLD", None, "minimality", "↓"),
        Metric("fd_judge", "FD-judge", 1, "FD-judge", None, _FRECHET, "↓"),
        Metric("fid", "FID", 1, "FID", None, _FRECHET, "↓", paper="fid"),
        Metric("evaluations", "rows", 0, "rows", None, "cost", "↓"),
        Metric("seconds", "seconds", 3, "s", None, "cost", "↓"),
    )
}


def effectiveness(space: AttributeSpace, attribute: str) -> Metric:
    """Metric of effectiveness for an attribute: an error if it is continuous, else AUROC."""
    return METRICS["error" if isinstance(space[attribute], Continuous) else "auroc"]
