"""The columns of a comparison: what each measures, which value is better, and which is best."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fcfg.evaluation.metric_table import METRICS, Metric, effectiveness
from fcfg.evaluation.result_files import BASELINE
from fcfg.evaluation.summary import Cell, Estimates
from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.numbers import average, distance

Value: TypeAlias = Estimate | float | None
Get: TypeAlias = Callable[[Row], Value]

_DISTANCE = METRICS["fid"].group

#: Columns of whole images: metric, headings of the group and of the column, an arrow (see
#: :class:`Column`), and the aim in the verdict.
_IMAGES = (
    ("truth_mae", "error to the truth", "MAE", "↓", "Likeness to the true counterfactual (MAE)"),
    ("truth_changed", "error to the truth", "of the change", "↓", "Error of the change"),
    ("change_mae", "change", "MAE", "", ""),
    ("change_mae", "composition", "MAE", "↓", ""),
    ("reversal_mae", "after reversal", "MAE", "↓", "Return to the factual image (MAE)"),
    ("reversal_lpips", "after reversal", "LPIPS", "↓", "Return to the factual image (LPIPS)"),
    ("minimality", "minimality", "CLD", "↓", "Minimality (CLD)"),
    ("fd_judge", _DISTANCE, "FD-judge", "↓", ""),
    ("fid", _DISTANCE, "FID", "↓", ""),
    ("evaluations", "cost", "rows", "↓", ""),
    ("seconds", "cost", "seconds", "↓", ""),
)
_KEPT = "Keeping what should not change"


@dataclass(frozen=True, eq=False)
class Column:
    """One kind of number of every row."""

    metric: Metric  #: for digits and sign
    group: str
    heading: str
    unit: str
    get: Get = field(repr=False)
    arrow: str = ""  #: ↑ if more is better, ↓ if less is, → 0 if nothing is best; "" for neither
    beside: tuple[tuple[str, Get], ...] = ()  #: further numbers in small print, with their names
    is_target: bool = False
    aim: str = ""  #: what a model is good at if it is good here; "" if the verdict leaves it out

    def size(self, row: Row) -> Estimate | None:
        """What is compared between rows: the number, or its distance from 0.

        Args:
            row: A row; None is returned if it has no number with an interval.
        """
        value = self.get(row)
        if not isinstance(value, Estimate):
            return None
        return distance(value) if self.arrow == "→ 0" else value

    def gap(self, row: Row, other: Row) -> Estimate | None:
        """Paired difference of two rows; None if either has no number with an interval.

        Args:
            row: A row.
            other: The row to subtract.
        """
        ours, theirs = self.size(row), self.size(other)
        return None if ours is None or theirs is None else ours - theirs

    def best(self, rows: Sequence[Row]) -> Row | None:
        """The best row, if its difference from the next one excludes 0.

        Args:
            rows: Rows of one intervention.
        """
        sign = {"↑": -1, "↓": 1, "→ 0": 1}.get(self.arrow, 0)
        sizes = {row: size for row in rows if sign and (size := self.size(row)) is not None}
        ranked = sorted(sizes, key=lambda row: sign * sizes[row].value)
        if len(ranked) < 2 or not (sizes[ranked[0]] - sizes[ranked[1]]).excludes_zero:
            return None
        return ranked[0]


def columns(comparison: Comparison, do: str) -> list[Column]:
    """The columns of an intervention that have numbers.

    Args:
        comparison: The runs.
        do: An intervention of at least two of them.
    """
    rows = comparison.rows(do)
    found = _of_attributes(comparison, rows[0].cell)
    for name, group, heading, arrow, aim in _IMAGES:
        metric = METRICS[name]
        get = _composition if group == "composition" else _field(metric)
        found.append(Column(metric, group, heading, "", get, arrow, aim=aim))
    return [column for column in found if any(column.get(row) is not None for row in rows)]


def _field(metric: Metric) -> Get:
    def get(row: Row) -> Value:
        return metric.value(row.system.summary, row.cell)

    return get


def _mean(part: Callable[[Cell], Estimates], names: Collection[str]) -> Get:
    """Mean over the attributes that were measured."""

    def get(row: Row) -> Estimate | None:
        values = part(row.cell)
        return average(values[name] for name in names if name in values)

    return get


def _from_unguided(names: Collection[str]) -> Get:
    """Mean difference to no guidance; a model without guidance has none."""
    mean = _mean(lambda cell: cell.delta, names)
    return lambda row: None if row.system.kind == "hvae" else mean(row)


def _of_attributes(comparison: Comparison, cell: Cell) -> list[Column]:
    """Effectiveness on targets and what follows, and means over what should not change."""
    summary, found = comparison.systems[0].summary, list[Column]()
    real = METRICS["delta_real"]
    for name in cell.affected:
        metric, is_target = effectiveness(summary, name), name in cell.targets
        found.append(
            Column(
                metric,
                "effectiveness",
                f"{name} ({'target' if is_target else 'follows'})",
                metric.unit_of(summary, name) or "",
                _mean(lambda cell: cell.effectiveness, [name]),
                "↓" if metric.name == "error" else "↑",
                (
                    ("real", _mean(lambda cell: cell.delta_real, [name])),
                    (BASELINE, _from_unguided([name])),
                ),
                is_target,
                _reaching(metric, name) if is_target else "",
            )
        )
    units: dict[str, list[str]] = {}
    for name in cell.invariant:
        units.setdefault(real.unit_of(summary, name) or "", []).append(name)
    for unit, names in units.items():
        found.append(
            Column(
                real.in_unit(unit),
                "effectiveness",
                "off target, Δ real",
                unit,
                _mean(lambda cell: cell.delta_real, names),
                "→ 0",
                ((BASELINE, _from_unguided(names)),),
                aim="" if summary.knows_truth else _keeping(unit),
            )
        )
    error = METRICS["factor_error"]
    for heading, names in (("target", cell.targets), ("off target", cell.invariant)):
        get, is_target = _mean(lambda cell: cell.factor_error, names), heading == "target"
        aim = "" if is_target else f"{_KEPT} (factor error in sd)"
        found.append(Column(error, "factor error", heading, "sd", get, "→ 0", (), is_target, aim))
    return found


def _reaching(metric: Metric, name: str) -> str:
    if metric.name == "error":
        return f"Reaching the requested {name} (mean error)"
    return "Reaching the target (AUROC × 100)"


def _keeping(unit: str) -> str:
    return f"{_KEPT} (distance from real images in {unit.replace(' x ', ' × ')})"


def _composition(row: Row) -> Estimate | None:
    """Distance of the factual image from the answer to the null intervention."""
    cell = row.system.summary.compositions.get(row.cell.guidance)
    return cell and cell.change_mae
