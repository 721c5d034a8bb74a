"""``fcfg report``: a page, figures and tables from result files."""

from __future__ import annotations

from pathlib import Path

from fcfg.cli.options import Given, options_of, with_options


@with_options
def report(
    results: list[Path],
    /,
    *,
    asked: Given = options_of("reports.comparison.compare", "against"),
    written: Given = options_of("reports.page.write_report", "out overwrite"),
) -> None:
    """Write a report of an evaluation, or compare several: a page, figures and tables.

    The folder gets report.html, a page that needs no other file and no network; figures/, every
    figure as SVG or PNG; table.csv and table.tex. The model is not needed. Several runs must be of
    the same images and judge.

    Examples:
      fcfg report runs/core
      fcfg report runs/portraits.jsonl.gz --out report
      fcfg report runs/ours runs/hvae --against ours:cfg:3.0

    Options:
        results: Folders that 'fcfg evaluate' wrote, or result files (*.jsonl, *.jsonl.gz); several
            are compared.
    """
    from fcfg.cli.tables import print_overview
    from fcfg.reports import compare, write_report

    comparison = compare(*results, **asked)
    paths = write_report(comparison, **written).paths
    print_overview(comparison)
    print(f"Written to {paths[0]}, with {len(paths) - 1} other files: figures and tables")
