"""``fcfg report``: a page to look at, from result files alone."""

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
            help="Where to write; by default a folder 'report' beside the result files.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace files that are not the report of this run."),
    ] = False,
) -> None:
    """Make a report of an evaluation: a page to look at, figures and tables.

    The folder gets report.html, one file that needs no other and no network; figures/, every
    figure as SVG or PNG; table.csv and table.tex. The model is not needed.

    Examples:
      fcfg report runs/core
      fcfg report docs/results/portraits-core.jsonl.gz --out report
    """
    from fcfg.reports import reading, write_report

    made = write_report(results, out, overwrite=overwrite)
    print(*reading(made.summary), sep="\n")
    print(f"Written to {made.page}, with {len(made.paths) - 1} figures and tables beside it")
