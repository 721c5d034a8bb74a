"""A report from result files alone: a page, its figures as files, and tables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fcfg.experiments.record import read_results
from fcfg.experiments.summary import Summary, summarise
from fcfg.files import write_atomically
from fcfg.reports.figures import make_figures
from fcfg.reports.page import build_page
from fcfg.reports.tables import write_tables


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
    path: str | os.PathLike[str], out: str | os.PathLike[str] | None = None
) -> Report:
    """Write ``report.html``, ``figures/``, ``table.csv`` and ``table.tex``.

    Args:
        path: The folder of a run, or one result file.
        out: Where to write; by default a folder ``report`` beside the result files.
    """
    place = Path(path)
    result = read_results(place)
    summary = summarise(result)
    figures = make_figures(summary, result)
    folder = (
        Path(out) if out is not None else (place if place.is_dir() else place.parent) / "report"
    )
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    files = {
        "report.html": build_page(summary, figures).encode(),
        **{f"figures/{name}": data for name, data in figures.files.items()},
    }
    for name, data in files.items():
        write_atomically(folder / name, data)
    return Report((*(folder / name for name in files), *write_tables(summary, folder)), summary)
