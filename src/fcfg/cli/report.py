"""``fcfg report``: a page, figures and tables from result files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fcfg.cli.options import Overwrite


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Folders that 'fcfg evaluate' wrote, or result files (*.jsonl, *.jsonl.gz); "
            "several are compared.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder to write to; by default 'report', or 'comparison' for several, beside "
            "the first result files.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL[:SETTING]",
            help="Reference of paired differences; by default that of several models is the "
            "default or strongest setting of the first.",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a report of an evaluation, or compare several: a page, figures and tables.

    The folder gets report.html, a page that needs no other file and no network; figures/, every
    figure as SVG or PNG; table.csv and table.tex. The model is not needed. Several runs must be of
    the same images and judge.

    Examples:
      fcfg report runs/core
      fcfg report runs/portraits.jsonl.gz --out report
      fcfg report runs/ours runs/hvae --against ours:cfg:3.0
    """
    from fcfg.cli.tables import print_overview
    from fcfg.reports import compare, write_report

    comparison = compare(*results, against=against)
    paths = write_report(comparison, out, overwrite=overwrite).paths
    print_overview(comparison)
    print(f"Written to {paths[0]}, with {len(paths) - 1} other files: figures and tables")
