"""The metrics of an evaluation: how each is named and written.

Every table and figure takes its names, digits, units and order from :data:`METRICS`. A new metric
is one entry here, and its number in :class:`fcfg.evaluation.summary.Cell`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from fcfg.causal.attributes import AttributeSpace, Continuous

Better: TypeAlias = Literal["", "↑", "↓", "→ 0"]  #: more, less, nearer to 0; or nothing is better

#: Units of the judge's score for a discrete attribute, and of anything on a continuous scale.
PROBABILITY, SD = "probability", "sd"
_AUROC, _OWN, _PIXELS = "AUROC x 100", "units of {name}", "of images in [-1, 1]"
_EFFECT, _TRUTH = "effectiveness", "error to the truth"
_FRECHET, _REAL = "Fréchet distance", "to real images of the requested value"


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


#: By name, in the order of tables.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        # The judge's scores against the requested attributes: an AUROC from at least 200 images.
        Metric(*("auroc", "AUROC", 1, _AUROC, None, _EFFECT), reached="↑", paper="auroc"),
        Metric(*("error", "error", 2, None, _OWN, _EFFECT), reached="↓"),
        Metric(  # against no guidance
            *("delta", "Δ", 1, _AUROC, _OWN, "", "", ""),
            paper="delta",
            signed=True,
            is_relative=True,
            continuous_digits=2,
        ),
        Metric(  # against the original images and their attributes
            *("delta_real", "Δ real", 1, _AUROC, _OWN, "difference from real images", "→ 0"),
            signed=True,
            continuous_digits=2,
        ),
        Metric(  # of the judge's scores, against no guidance
            *("shift", "shift", 3, PROBABILITY, SD, "shift", "→ 0", "↑"),
            signed=True,
            is_relative=True,
        ),
        Metric(*("strength", "strength", 2, SD, SD), signed=True),  # against real images
        Metric(  # against the true counterfactual
            *("factor_error", "factor error", 2, SD, SD, "factor error", "→ 0", "→ 0"), signed=True
        ),
        Metric("truth_mae", "MAE", 4, _PIXELS, None, _TRUTH, "↓"),
        # On the pixels that change in the truth, relative to that change: 1 if nothing was done.
        Metric("truth_changed", "changed pixels", 2, "of the change", None, _TRUTH, "↓"),
        Metric("change_mae", "MAE", 3, _PIXELS, None, "change"),  # from image to counterfactual
        Metric("change_lpips", "LPIPS", 3, "LPIPS", None, "change"),
        Metric("reversal_mae", "MAE", 3, _PIXELS, None, "after reversal", "↓", paper="mae"),
        Metric("reversal_lpips", "LPIPS", 3, "LPIPS", None, "after reversal", "↓", paper="lpips"),
        # With noise that was drawn anew, as a recipient of the answer would draw it.
        Metric("fresh_mae", "MAE, fresh noise", 3, _PIXELS, None, "after reversal", "↓"),
        Metric("fresh_lpips", "LPIPS, fresh noise", 3, "LPIPS", None, "after reversal", "↓"),
        # From the original image to the last of several null interventions in a row.
        Metric("repeated_mae", "MAE", 3, _PIXELS, None, "after all cycles", "↓"),
        Metric("repeated_lpips", "LPIPS", 3, "LPIPS", None, "after all cycles", "↓"),
        Metric("minimality", "CLD", 3, "CLD", None, "minimality", "↓"),
        Metric("fd_judge", "FD-judge", 1, "FD-judge", None, _FRECHET, "↓"),
        Metric("fid", "FID", 1, "FID", None, _FRECHET, "↓", paper="fid"),
        # To held-out real images that have the requested values, see realism.py.
        Metric("real_fd_judge", "FD-judge", 1, "FD-judge", None, _REAL, "↓"),
        Metric("real_kid_judge", "KID-judge", 2, "x 1000", None, _REAL, "↓", signed=True),
        Metric("real_fid", "FID", 1, "FID", None, _REAL, "↓"),
        Metric("real_kid", "KID", 2, "x 1000", None, _REAL, "↓", signed=True),
        # For one counterfactual: network rows, with abduction; and on the header's hardware.
        Metric("evaluations", "rows", 0, "rows", None, "cost", "↓"),
        Metric("seconds", "seconds", 3, "s", None, "cost", "↓"),
    )
}


def effectiveness(space: AttributeSpace, attribute: str) -> Metric:
    """Metric of effectiveness for an attribute: an error if it is continuous, else AUROC."""
    return METRICS["error" if isinstance(space[attribute], Continuous) else "auroc"]
