"""The report of one run, or of several on the same images: a page, its figures, and tables."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from fcfg.evaluation.metric_table import METRICS
from fcfg.evaluation.result_files import identity
from fcfg.reports.charts import bar_panels, tradeoff_panels
from fcfg.reports.comparison import Comparison
from fcfg.reports.frontiers import equal_strength, frontier_files, frontier_panels
from fcfg.reports.strips import Strip, make_strips, read_album
from fcfg.reports.svg import Panel
from fcfg.reports.tables import differences, models, numbers, overview, table_files
from fcfg.reports.template import rendered
from fcfg.support.files import file_name
from fcfg.support.hashing import hex_digest
from fcfg.support.outputs import Outputs


@dataclass(frozen=True, eq=False)
class Report:
    """A report that was written."""

    paths: tuple[Path, ...]  #: every file, the page first
    comparison: Comparison

    @property
    def page(self) -> Path:
        """The page to open."""
        return self.paths[0]


def write_report(
    comparison: Comparison,
    out: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
) -> Report:
    """Write ``report.html``, ``figures/``, ``table.csv`` and ``table.tex``.

    Several models have ``differences.csv``, too, and compared methods ``frontiers.csv``.

    Args:
        comparison: One run, or several, of :func:`compare`.
        out: Folder to write to; by default a folder ``report`` beside the first result files, or
            ``comparison`` for several runs.
        overwrite: Whether to replace files that are not the report of these runs.
    """
    figures = make_figures(comparison)
    contents = {
        "report.html": build_page(comparison, figures).encode(),
        **{f"figures/{name}": data for name, data in figures.files.items()},
        **table_files(comparison),
        **frontier_files(comparison),
    }
    source = comparison.runs[0].path
    beside = source if source.is_dir() else source.parent
    folder = Path(out or beside / ("report" if comparison.is_alone else "comparison"))
    subject = hex_digest(" ".join(identity(run.header) for run in comparison.runs))
    outputs = Outputs(folder, "report", subject, overwrite)
    return Report(tuple(outputs.write(contents)), comparison)


@dataclass(frozen=True, eq=False)
class Figures:
    """The figures of a report, by section of the page."""

    panels: dict[str, list[Panel]] = field(repr=False)
    strips: dict[str, list[Strip]] = field(repr=False)

    @property
    def files(self) -> dict[str, bytes]:
        """Contents by file name: drawings as SVG, strips as PNG."""
        panels = {
            f"{file_name(p.name)}.svg": p.file.encode() for p in chain(*self.panels.values())
        }
        return panels | {f"{file_name(s.name)}.png": s.png for s in chain(*self.strips.values())}


def make_figures(comparison: Comparison) -> Figures:
    """Draw every figure that the results have data for."""
    panels = {
        "frontiers": frontier_panels(comparison),
        "tradeoff": tradeoff_panels(comparison),
        "drift": bar_panels(comparison, comparison.drift),
        "effectiveness": bar_panels(comparison, METRICS["delta"]),
    }
    album = read_album(comparison)
    strips = {} if album is None else make_strips(comparison, album)
    return Figures(panels, {name: own for name, own in strips.items() if own})


def build_page(comparison: Comparison, figures: Figures) -> str:
    """The whole page, which needs no other file."""
    return rendered(
        "page.html.jinja",
        comparison=comparison,
        figures=figures,
        glance=overview(comparison),
        frontiers=equal_strength(comparison),
        numbers={do: numbers(comparison, do) for do in comparison.measured},
        differences={do: differences(comparison, do) for do in comparison.dos},
        models=models(comparison),
        written=partial(json.dumps, indent=1, ensure_ascii=False),
    )
