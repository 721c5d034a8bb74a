"""The report of a run: a page from ``page.html.jinja``, its figures as files, and tables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import fmean

from fcfg.evaluation.metric_table import METRICS, Metric, drift_metric, effectiveness
from fcfg.evaluation.result_files import BASELINE, Result, read_results
from fcfg.evaluation.summary import Cell, Summary, summarise
from fcfg.metrics import MIN_IMAGES, Estimate
from fcfg.reports.bars import bar_panels
from fcfg.reports.numbers import interval, listed, named, number, with_interval
from fcfg.reports.rule_styles import Setting, setting, settings_of
from fcfg.reports.strips import (
    Strip,
    make_strips,
    opening_strip,
    read_pictures,
)
from fcfg.reports.svg import Panel
from fcfg.reports.tables import Entry, Key, entries, report_outputs, table_files
from fcfg.reports.template import rendered
from fcfg.reports.tradeoff import tradeoff_panels
from fcfg.reports.verdict import failures, reading
from fcfg.reports.wording import in_words, steps_text, takes_steps, too_few
from fcfg.support.files import file_name


@dataclass(frozen=True, eq=False)
class Report:
    """A report that was written."""

    paths: tuple[Path, ...]  #: every file, the page first
    summary: Summary

    @property
    def page(self) -> Path:
        """The page to open."""
        return self.paths[0]


def write_report(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
) -> Report:
    """Write ``report.html``, ``figures/``, ``table.csv`` and ``table.tex``.

    Args:
        path: Folder of a run, or one result file.
        out: Folder to write to; by default a folder ``report`` beside the result files.
        overwrite: Whether to replace files that are not the report of this run.
    """
    source = Path(path)
    result = read_results(source)
    summary = summarise(result)
    figures = make_figures(summary, result)
    beside = source if source.is_dir() else source.parent
    contents = {
        "report.html": build_page(summary, figures).encode(),
        **{f"figures/{name}": data for name, data in figures.files.items()},
        **table_files(summary),
    }
    outputs = report_outputs(summary, Path(out or beside / "report"), overwrite=overwrite)
    return Report(tuple(outputs.write(contents)), summary)


@dataclass(frozen=True, eq=False)
class Figures:
    """The figures of a report; a list is empty if there is nothing to show."""

    opening: Strip | None = field(repr=False)
    panels: dict[str, list[Panel]] = field(repr=False)  #: by section of the page
    strips: dict[str, list[Strip]] = field(repr=False)

    @property
    def all_strips(self) -> list[Strip]:
        """Every figure that is made of pictures."""
        first = [] if self.opening is None else [self.opening]
        return [*first, *(strip for strips in self.strips.values() for strip in strips)]

    @property
    def files(self) -> dict[str, bytes]:
        """Contents by file name: drawings as SVG, strips as PNG."""
        panels = [panel for panels in self.panels.values() for panel in panels]
        drawn = {f"{file_name(panel.name)}.svg": panel.file.encode() for panel in panels}
        return drawn | {f"{file_name(strip.name)}.png": strip.png for strip in self.all_strips}


def make_figures(summary: Summary, result: Result) -> Figures:
    """Draw every figure that the results have data for.

    Args:
        summary: Summary of the result.
        result: A whole run, with the folder of its pictures.
    """
    panels = {
        "drift": bar_panels(summary, drift_metric(summary)),
        "effectiveness": bar_panels(summary, METRICS["delta"]),
        "tradeoff": tradeoff_panels(summary),
    }
    pictures = read_pictures(result)
    if pictures is None:
        return Figures(None, panels, {})
    opening = opening_strip(summary, result, pictures)
    return Figures(opening, panels, make_strips(summary, pictures))


def build_page(summary: Summary, figures: Figures) -> str:
    """The whole page, which needs no other file.

    Args:
        summary: Summary of a run.
        figures: Its figures.
    """
    provenance = summary.header["model"].get("provenance")
    composition = summary.composition and summary.composition.change_mae
    every = entries(summary)
    return rendered(
        "page.html.jinja",
        summary=summary,
        header=summary.header,
        figures=figures,
        settings=[setting(text) for text in summary.settings],
        verdict=reading(summary),
        has_failed=bool(failures(summary)),
        drift=drift_metric(summary).title,
        tables={do: _Table(summary, every, do) for do in summary.dos},
        in_words={do: in_words(summary, do) for do in summary.dos},
        composition=composition and with_interval(composition, METRICS["change_mae"].digits),
        compositions=_compositions(summary),
        notes=missing_notes(summary),
        steps=steps_text(summary.header),
        takes_steps=takes_steps(summary.header),
        costs=_costs(summary),
        questions=listed(named(do) for do in summary.dos),
        provenance=provenance and json.dumps(provenance, indent=1, ensure_ascii=False),
    )


def missing_notes(summary: Summary) -> list[str]:
    """What the tables lack, and why."""
    notes = [f"{too_few(summary.n)}."] if summary.n < MIN_IMAGES else []
    for name, title in (("lpips", "LPIPS"), ("inception", "FID")):
        about = summary.header["metrics"].get(name) or {"missing": f"no {title}: not requested"}
        if "missing" in about:
            reason = about["missing"]
            notes.append(f"{reason[:1].upper()}{reason[1:].removesuffix('.')}.")
    if not summary.header["reverse"]:
        notes.append("No reversibility: not requested.")
    return notes


@dataclass(frozen=True)
class _Column:
    """A metric of one attribute, or of whole images."""

    metric: Metric
    attribute: str
    unit: str  #: below the name of an attribute
    role: str  #: of an attribute: target, follows or nothing
    is_first: bool  #: of its group


@dataclass(frozen=True)
class _Number:
    text: str
    interval: str
    is_bold: bool = False
    paper: str = ""
    note: str = ""
    is_delta: bool = False


class _Table:
    """All numbers of one intervention, for the template; empty columns are left out."""

    def __init__(self, summary: Summary, every: Mapping[Key, Entry], do: str) -> None:
        self._summary, self._entries = summary, every
        self._cells = summary.cells_of(do)
        self.columns = self._columns()
        self.groups = [
            (group, len(list(columns)))
            for group, columns in groupby(self.columns, lambda column: column.metric.group)
        ]
        settings = settings_of([(cell, summary.header) for cell in self._cells])
        self.rows = [
            (own, [self._numbers(cell, column) for column in self.columns])
            for own, cell in zip(settings, self._cells, strict=True)
        ]
        self.real = [self._real(column) for column in self.columns]

    def _columns(self) -> list[_Column]:
        summary, cell, columns = self._summary, self._cells[0], list[_Column]()
        drift = drift_metric(summary)
        other = {METRICS["shift"], METRICS["factor_error"]} - {drift}
        shown = [metric for metric in METRICS.values() if metric.group and metric not in other]
        for _, metrics in groupby(shown, lambda metric: metric.group):
            is_first, of_group = True, list(metrics)
            for name in (*summary.space.names, ""):
                role = "follows" if name in cell.affected else ""
                role = "target" if name in cell.targets else role
                for metric in of_group:
                    if any(self._entry(cell, metric, name) for cell in self._cells):
                        unit = metric.heading or metric.unit_of(summary, name) or ""
                        columns.append(_Column(metric, name, unit, role, is_first))
                        is_first = False
        return columns

    def _entry(self, cell: Cell, metric: Metric, attribute: str) -> Entry | None:
        return self._entries.get((cell.do, cell.guidance, metric.name, attribute))

    def _numbers(self, cell: Cell, column: _Column) -> list[_Number]:
        """A number, and the Δ of an effectiveness."""
        metric, name, is_unguided = column.metric, column.attribute, cell.guidance == BASELINE
        entry = self._entry(cell, metric, name)
        if entry is None or (is_unguided and metric.name == "shift"):
            return []
        numbers, delta = [_shown(entry)], self._entry(cell, METRICS["delta"], name)
        if delta is not None and metric.group == "effectiveness" and not is_unguided:
            numbers.append(_shown(delta))
        return numbers

    def _real(self, column: _Column) -> _Number | None:
        """Effectiveness on the factual images."""
        real, digits = self._summary.real.get(column.attribute), column.metric.digits
        if real is None or column.metric is not effectiveness(self._summary, column.attribute):
            return None
        return _Number(number(real.value, digits), interval(real.low, real.high, digits))


def _shown(entry: Entry) -> _Number:
    metric = METRICS[entry.metric].in_unit(entry.unit)
    digits, signed, bracket, excludes_zero = metric.digits, metric.signed, "", False
    if entry.low is not None and entry.high is not None:
        bracket = interval(entry.low, entry.high, digits, signed=signed)
        excludes_zero = entry.low > 0 or entry.high < 0
    return _Number(
        number(entry.value, digits, signed=signed),
        bracket,
        is_bold=signed and excludes_zero,
        paper="" if entry.paper is None else number(entry.paper, digits, signed=signed),
        note=entry.note,
        is_delta=metric.name == "delta",
    )


def _compositions(summary: Summary) -> list[tuple[Setting, list[str]]]:
    """Errors of one and of all null interventions in a row, by setting; empty for single ones."""
    names = ("change_mae", "repeated_mae", "change_lpips", "repeated_lpips")
    cells = [cell for cell in summary.compositions.values() if cell.repeated_mae is not None]
    rows = [(cell, [METRICS[name].value(summary, cell) for name in names]) for cell in cells]
    return [
        (
            setting(cell.guidance),
            [with_interval(v, 3) if isinstance(v, Estimate) else "–" for v in values],
        )
        for cell, values in rows
    ]


def _costs(summary: Summary) -> list[tuple[Setting, str, str, str]]:
    """Network rows, the same relative to no guidance, and seconds, by setting."""
    rows: list[tuple[Setting, str, str, str]] = []
    plain = [c.evaluations for c in summary.cells.values() if c.guidance == BASELINE]
    for text in summary.settings:
        cells = [cell for cell in summary.cells.values() if cell.guidance == text]
        evaluations = fmean(cell.evaluations for cell in cells)
        times = f"{evaluations / fmean(plain):.1f} ×" if plain else "–"
        seconds = fmean(cell.seconds for cell in cells)
        rows.append((setting(text), f"{evaluations:,.0f}", times, f"{seconds:.3g}"))
    return rows
