"""A summary as a long list: one entry for each number, ours and the paper's side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fcfg.causal.attributes import Continuous
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import Estimate
from fcfg.reports.numbers import SD, shift_unit
from fcfg.reports.paper import PaperRow, dataset_of, match

Key: TypeAlias = tuple[str, str, str, str]  # intervention, guidance, metric, attribute


@dataclass(frozen=True)
class Metric:
    """How a kind of number is called and written."""

    title: str
    digits: int
    sign: str = ""  #: '+' where both signs have a meaning


#: By name, in the order of tables.
METRICS: dict[str, Metric] = {
    "auroc": Metric("AUROC", 1),
    "error": Metric("error", 2),
    "delta": Metric("Δ", 1, "+"),
    "delta_real": Metric("Δ against real images", 1, "+"),
    "shift": Metric("shift", 3, "+"),
    "factor_error": Metric("factor error", 2, "+"),
    "change_mae": Metric("change, MAE", 3),
    "change_lpips": Metric("change, LPIPS", 3),
    "reversal_mae": Metric("MAE", 3),
    "reversal_lpips": Metric("LPIPS", 3),
    "truth_mae": Metric("MAE to the truth", 4),
    "truth_changed": Metric("error where it truly changes", 2),
    "fd_judge": Metric("FD-judge", 1),
    "fid": Metric("FID", 1),
    "evaluations": Metric("network rows", 0),
    "seconds": Metric("seconds", 2),
}
_UNITS = {"auroc": "AUROC x 100", "error": "units of {name}"}  # of effectiveness
_PIXELS = "of images in [-1, 1]"
_WHOLE: dict[str, tuple[str, Callable[[Cell], Estimate | float | None]]] = {
    "change_mae": (_PIXELS, lambda cell: cell.change_mae),
    "change_lpips": ("LPIPS", lambda cell: cell.change_lpips),
    "reversal_mae": (_PIXELS, lambda cell: cell.reversal_mae),
    "reversal_lpips": ("LPIPS", lambda cell: cell.reversal_lpips),
    "truth_mae": (_PIXELS, lambda cell: cell.truth_mae),
    "truth_changed": ("of the change", lambda cell: cell.truth_changed),
    "fd_judge": ("FD-judge", lambda cell: cell.fd_judge),
    "fid": ("FID", lambda cell: cell.fid),
    "evaluations": ("rows", lambda cell: cell.evaluations),
    "seconds": ("s", lambda cell: cell.seconds),
}
_PAPER: dict[str, Callable[[PaperRow], Mapping[str, float] | float | None]] = {
    "auroc": lambda row: row.auroc,
    "delta": lambda row: row.delta,
    "reversal_mae": lambda row: row.mae,
    "reversal_lpips": lambda row: row.lpips,
    "fid": lambda row: row.fid,
}


@dataclass(frozen=True)
class Entry:
    """One number of a run."""

    do: str  #: "" is the null intervention
    guidance: str
    metric: str  #: one of METRICS
    attribute: str  #: "" where it is of whole images
    value: float
    low: float | None  #: of the 95 % interval, where there is one
    high: float | None
    n: int
    unit: str
    paper: float | None  #: what the paper has for the same setting
    note: str  #: what is wrong with the paper's row

    @property
    def half(self) -> float | None:
        """Half the width of the interval; None for a number that is what it is."""
        if self.low is None or self.high is None or self.low == self.high:
            return None
        return (self.high - self.low) / 2

    def text(self, value: float) -> str:
        """A value in the manner of the metric; no negative zero."""
        metric = METRICS[self.metric]
        return format(value, f"{metric.sign}z.{metric.digits}f")


def entries(summary: Summary) -> dict[Key, Entry]:
    """All numbers of a run, the null intervention first, then in its own order."""
    composition = [summary.composition] if summary.composition else []
    found = [e for cell in (*composition, *summary.cells.values()) for e in _of(cell, summary)]
    return {(entry.do, entry.guidance, entry.metric, entry.attribute): entry for entry in found}


def heading(summary: Summary, metric: str, attribute: str) -> str:
    """The title of a metric in an attribute's column; of a shift with its unit, which differs."""
    unit = f", {shift_unit(summary, attribute)}" if metric == "shift" else ""
    return METRICS[metric].title + unit


def effectiveness(summary: Summary, attribute: str) -> str:
    """The metric of effectiveness for an attribute: by its kind."""
    return "error" if isinstance(summary.space[attribute], Continuous) else "auroc"


def _of(cell: Cell, summary: Summary) -> Iterator[Entry]:
    row = match(dataset_of(summary.header), cell.do, cell.guidance) if cell.do else None
    for name in summary.space.names:
        metric = effectiveness(summary, name)
        own = _UNITS[metric].format(name=name)
        for key, unit, found in (
            (metric, own, cell.effectiveness),
            ("delta", own, cell.delta),
            ("delta_real", own, cell.delta_real),
            ("shift", shift_unit(summary, name), cell.shift),
            ("factor_error", SD, cell.factor_error),
        ):
            if name in found:
                yield _entry(cell, key, name, found[name], unit, row)
    for key, (unit, get) in _WHOLE.items():
        value = get(cell)
        if value is not None:
            yield _entry(cell, key, "", value, unit, row)


def _entry(
    cell: Cell,
    metric: str,
    attribute: str,
    found: Estimate | float,
    unit: str,
    row: PaperRow | None,
) -> Entry:
    theirs = _PAPER[metric](row) if row is not None and metric in _PAPER else None
    low, high = (found.low, found.high) if isinstance(found, Estimate) else (None, None)
    return Entry(
        do=cell.do,
        guidance=cell.guidance,
        metric=metric,
        attribute=attribute,
        value=found.value if isinstance(found, Estimate) else found,
        low=low,
        high=high,
        n=cell.n,
        unit=unit,
        paper=theirs.get(attribute) if isinstance(theirs, Mapping) else theirs,
        note=row.note or "" if row is not None else "",
    )
