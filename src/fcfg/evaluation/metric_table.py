"""The metrics of an evaluation: how each is named, written and read from a summary.

Every table and figure takes its names, digits, units and order from :data:`METRICS`. A new metric
is one entry here, and a field of :class:`fcfg.evaluation.summary.Cell`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fcfg.causal.attributes import Continuous
from fcfg.evaluation.summary import Cell, Estimates, Summary
from fcfg.metrics import Estimate

#: Units of the judge's score for a discrete attribute, and of anything on a continuous scale.
PROBABILITY, SD = "probability", "sd"
FACTUAL = "factual images"  #: the reference of every Fréchet distance of a run
_AUROC, _OWN, _PIXELS = "AUROC x 100", "units of {name}", "of images in [-1, 1]"


@dataclass(frozen=True)
class Metric:
    """One kind of number, measured for each attribute or for whole images."""

    name: str
    title: str  #: its column in Markdown and LaTeX
    digits: int
    unit: str | None  #: for discrete attributes and whole images; None: not defined for them
    continuous_unit: str | None = None  #: for continuous attributes; {name} is the attribute
    group: str = ""  #: heading above its columns on the page; "" leaves it out there
    heading: str = ""  #: its column on the page; the unit of an attribute by default
    paper: str = ""  #: field of :class:`fcfg.reports.paper.PaperRow`, if the paper reports it
    signed: bool = False  #: whether both signs have a meaning
    field: str = ""  #: field of a cell that holds it; the name of the metric by default
    continuous_digits: int = 0  #: for continuous attributes; as many as for others by default

    def get(self, cell: Cell) -> Estimates | Estimate | float | None:
        """Values in one cell, by attribute for a metric of attributes."""
        return getattr(cell, self.field or self.name)

    def unit_of(self, summary: Summary, attribute: str) -> str | None:
        """Unit of an attribute's values; None if the metric is not defined for the attribute.

        Args:
            summary: Summary of a run.
            attribute: Name of an attribute; "" for whole images.
        """
        if attribute and isinstance(summary.space[attribute], Continuous):
            return self.continuous_unit and self.continuous_unit.format(name=attribute)
        return self.unit

    def in_unit(self, unit: str | None) -> Metric:
        """The metric with as many decimal places as values in that unit have."""
        is_own = unit == self.unit or self.continuous_digits == 0
        return self if is_own else replace(self, digits=self.continuous_digits)

    def value(self, summary: Summary, cell: Cell, attribute: str = "") -> Estimate | float | None:
        """Value in one cell; None if it was not measured.

        Args:
            summary: Summary of a run.
            cell: One of its cells.
            attribute: Name of an attribute; "" for whole images.
        """
        found = self.get(cell)
        if isinstance(found, dict):
            return found.get(attribute) if self.unit_of(summary, attribute) else None
        return None if attribute else found


#: By name, in the order of tables.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            *("auroc", "AUROC", 1, _AUROC, None, "effectiveness", "AUROC"),
            paper="auroc",
            field="effectiveness",
        ),
        Metric(
            *("error", "error", 2, None, _OWN, "effectiveness", "mean error"),
            field="effectiveness",
        ),
        Metric("delta", "Δ", 1, _AUROC, _OWN, signed=True, paper="delta", continuous_digits=2),
        Metric(
            *("delta_real", "Δ against real images", 1, _AUROC, _OWN),
            signed=True,
            continuous_digits=2,
        ),
        Metric("shift", "shift", 3, PROBABILITY, SD, "shift", signed=True),
        Metric("factor_error", "factor error", 2, SD, SD, "factor error", signed=True),
        Metric("change_mae", "change, MAE", 3, _PIXELS),
        Metric("change_lpips", "change, LPIPS", 3, "LPIPS"),
        Metric("reversal_mae", "MAE", 3, _PIXELS, None, "reversibility", "MAE", paper="mae"),
        Metric(
            *("reversal_lpips", "LPIPS", 3, "LPIPS", None, "reversibility", "LPIPS"),
            paper="lpips",
        ),
        Metric("minimality", "minimality", 3, "CLD", None, "minimality", "CLD"),
        Metric("repeated_mae", "MAE after all cycles", 3, _PIXELS),
        Metric("repeated_lpips", "LPIPS after all cycles", 3, "LPIPS"),
        Metric("truth_mae", "MAE to the truth", 4, _PIXELS, None, "error to the truth", "MAE"),
        Metric(
            *("truth_changed", "error on changed pixels", 2, "of the change", None),
            *("error to the truth", "changed pixels"),
        ),
        *(
            Metric(
                *(name, f"{title} to the {FACTUAL}", 1, f"{title} to the {FACTUAL}", None),
                *(f"distance to the {FACTUAL}", title),
                paper="fid" if name == "fid" else "",
            )
            for name, title in (("fd_judge", "FD-judge"), ("fid", "FID"))
        ),
        Metric("evaluations", "network rows", 0, "rows", None, "cost", "network rows"),
        Metric("seconds", "seconds", 2, "s"),
    )
}


def effectiveness(summary: Summary, attribute: str) -> Metric:
    """Metric of effectiveness for an attribute: an error if it is continuous, else AUROC."""
    is_continuous = isinstance(summary.space[attribute], Continuous)
    return METRICS["error" if is_continuous else "auroc"]


def drift_metric(summary: Summary) -> Metric:
    """Metric of drift: the factor error if true counterfactuals are known, else the shift."""
    return METRICS["factor_error" if summary.knows_truth else "shift"]


def drift_units(summary: Summary) -> dict[str, tuple[str, ...]]:
    """Attributes by the unit of their drift."""
    metric, units = drift_metric(summary), dict[str, tuple[str, ...]]()
    for name in summary.space.names:
        unit = metric.unit_of(summary, name) or ""
        units[unit] = (*units.get(unit, ()), name)
    return units
