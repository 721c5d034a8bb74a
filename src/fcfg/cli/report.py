"""``fcfg report``: a page, figures and tables from result files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    results: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="The folder that 'fcfg evaluate' wrote, or a result file (*.jsonl, *.jsonl.gz).",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder to write to; by default 'report' beside the result files.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace files that are not the report of this run."),
    ] = False,
) -> None:
    """Write a report of an evaluation: a page, figures and tables.

    The folder gets report.html, a page that needs no other file and no network; figures/, every
    figure as SVG or PNG; table.csv and table.tex. The model is not needed.

    Examples:
      fcfg report runs/core
      fcfg report docs/results/portraits-core.jsonl.gz --out report
    """
    from fcfg.reports import reading, write_report

    written = write_report(results, out, overwrite=overwrite)
    print(*reading(written.summary), sep="\n")
    print(f"Written to {written.page}, with {len(written.paths) - 1} figures and tables beside it")
