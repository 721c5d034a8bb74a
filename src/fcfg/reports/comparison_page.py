"""The page of a comparison, from ``comparison.html.jinja``, with its figures and tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from fcfg.evaluation.result_files import identity
from fcfg.metrics import MIN_IMAGES, Estimate
from fcfg.reports.comparison import Comparison, Row, compare
from fcfg.reports.comparison_columns import Column, columns
from fcfg.reports.comparison_figures import comparison_panels, comparison_strips
from fcfg.reports.comparison_tables import comparison_csv, comparison_latex
from fcfg.reports.comparison_verdict import comparison_reading
from fcfg.reports.numbers import interval, listed, named, number, with_interval
from fcfg.reports.strips import Strip
from fcfg.reports.svg import Panel
from fcfg.reports.template import rendered
from fcfg.reports.wording import in_words, steps_text, too_few
from fcfg.support.files import file_name
from fcfg.support.hashing import hex_digest
from fcfg.support.outputs import Outputs


@dataclass(frozen=True, eq=False)
class ComparisonReport:
    """A comparison that was written."""

    paths: tuple[Path, ...]  #: every file, the page first
    comparison: Comparison

    @property
    def page(self) -> Path:
        """The page to open."""
        return self.paths[0]


def write_comparison(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str] | None = None,
    *,
    against: str | None = None,
    overwrite: bool = False,
) -> ComparisonReport:
    """Write ``report.html``, ``figures/``, ``table.csv`` and ``table.tex`` of several runs.

    Args:
        paths: Folders of runs, or result files; at least two.
        out: Folder to write to; by default a folder ``comparison`` beside the first result files.
        against: Name of a model, alone or followed by a colon and a setting: the reference of the
            paired differences. By default the first model at its default or strongest setting.
        overwrite: Whether to replace files that are not the comparison of these runs.
    """
    comparison = compare(paths, against)
    panels, strips = comparison_panels(comparison), comparison_strips(comparison)
    contents = {
        "report.html": build_comparison_page(comparison, panels, strips).encode(),
        **{f"figures/{file_name(panel.name)}.svg": panel.file.encode() for panel in panels},
        **{f"figures/{file_name(strip.name)}.png": strip.png for strip in strips},
        "table.csv": comparison_csv(comparison).encode(),
        "table.tex": comparison_latex(comparison).encode(),
    }
    first = Path(paths[0])
    folder = Path(out or (first if first.is_dir() else first.parent) / "comparison")
    subject = hex_digest(" ".join(identity(s.header) for s in comparison.systems))
    outputs = Outputs(folder, "report", subject, overwrite)
    return ComparisonReport(tuple(outputs.write(contents)), comparison)


def build_comparison_page(
    comparison: Comparison, panels: Sequence[Panel], strips: Sequence[Strip]
) -> str:
    """The whole page, which needs no other file.

    Args:
        comparison: The runs.
        panels: Drawings of target against other attributes.
        strips: Pictures of all models.
    """
    first = comparison.systems[0].summary
    tables = {do: _Table(comparison, do) for do in comparison.dos}
    notes = [f"{too_few(comparison.n)}."] if comparison.n < MIN_IMAGES else []
    return rendered(
        "comparison.html.jinja",
        comparison=comparison,
        systems=comparison.systems,
        data=first.header["data"],
        knows_truth=first.knows_truth,
        verdict=comparison_reading(comparison),
        questions=listed(map(named, comparison.dos)),
        tables=tables,
        has_minimality=any(c.group == "minimality" for t in tables.values() for c in t.columns),
        in_words={do: _in_words(comparison, do) for do in comparison.dos},
        notes=[*comparison.notes, *notes],
        panels=panels,
        strips=strips,
        steps=steps_text,
    )


def _in_words(comparison: Comparison, do: str) -> str:
    return in_words(comparison.rows(do)[0].system.summary, do)


@dataclass(frozen=True)
class _Number:
    text: str
    interval: str = ""
    is_bold: bool = False
    beside: tuple[tuple[str, str], ...] = ()  #: further numbers, with their names


class _Table:
    """The numbers of one intervention, and their differences from the reference."""

    def __init__(self, comparison: Comparison, do: str) -> None:
        rows = comparison.rows(do)
        self.columns = columns(comparison, do)
        self.groups = _groups(self.columns)
        best = [column.best(rows) for column in self.columns]
        pairs = list(zip(self.columns, best, strict=True))
        self.rows = [
            (row, [_shown(column, row, is_best=row is first) for column, first in pairs])
            for row in rows
        ]
        self.reference = reference = comparison.reference(do)
        self.compared: list[Column] = []
        self.differences: list[tuple[Row, list[_Number | None]]] = []
        if reference is not None:
            self.compared = [c for c in self.columns if c.size(reference) is not None]
            self.differences = [
                (row, [_difference(column, row, reference) for column in self.compared])
                for row in rows
                if row.setting != reference.setting
            ]
        self.compared_groups = _groups(self.compared)


def _groups(found: Sequence[Column]) -> list[tuple[str, int]]:
    return [(group, len(list(some))) for group, some in groupby(found, lambda c: c.group)]


def _shown(column: Column, row: Row, *, is_best: bool) -> _Number | None:
    value = column.get(row)
    digits, signed = column.metric.digits, column.metric.signed
    if value is None:
        return None
    if not isinstance(value, Estimate):
        return _Number(f"{value:.3g}" if column.heading == "seconds" else f"{value:,.{digits}f}")
    return _Number(
        number(value.value, digits, signed=signed),
        interval(value.low, value.high, digits, signed=signed),
        is_best,
        tuple(
            (name, with_interval(other, digits, signed=True))
            for name, get in column.beside
            if name != row.cell.guidance and isinstance(other := get(row), Estimate)
        ),
    )


def _difference(column: Column, row: Row, reference: Row) -> _Number | None:
    gap, digits = column.gap(row, reference), column.metric.digits
    if gap is None:
        return None
    ends = interval(gap.low, gap.high, digits, signed=True)
    return _Number(number(gap.value, digits, signed=True), ends, gap.excludes_zero)
