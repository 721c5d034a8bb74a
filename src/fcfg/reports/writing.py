"""A report from result files alone: a page, its figures as files, and tables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fcfg.evaluation.result_files import read_results
from fcfg.evaluation.summary import Summary, summarise
from fcfg.reports.figures import make_figures
from fcfg.reports.page import build_page
from fcfg.reports.tables import report_outputs, table_files


@dataclass(frozen=True, eq=False)
class Report:
    """What was written."""

    paths: tuple[Path, ...]  #: every file, the page first
    summary: Summary

    @property
    def page(self) -> Path:
        """What to open."""
        return self.paths[0]


def write_report(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
) -> Report:
    """Write ``report.html``, ``figures/``, ``table.csv`` and ``table.tex``.

    Args:
        path: The folder of a run, or one result file.
        out: Folder to write to; by default a folder ``report`` beside the result files.
        overwrite: Permission to replace files that are not the report of this run.
    """
    place = Path(path)
    result = read_results(place)
    summary = summarise(result)
    figures = make_figures(summary, result)
    folder = (
        Path(out) if out is not None else (place if place.is_dir() else place.parent) / "report"
    )
    files = {
        "report.html": build_page(summary, figures).encode(),
        **{f"figures/{name}": data for name, data in figures.files.items()},
        **table_files(summary),
    }
    paths = report_outputs(summary, folder, overwrite=overwrite).write(files)
    return Report(tuple(paths), summary)
