"""Tables on a terminal or in a file, and the numbers of a run as such tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from fcfg.evaluation.metric_table import Metric
    from fcfg.evaluation.summary import Cell, Summary


_WIDE = 1000  # columns of a file or a pipe, more than any table has


def table_console() -> Console:
    """Return a console for tables, which cuts none of them where there is no terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    return console


def print_table(table: Table) -> None:
    """Print a table of numbers; in a narrow terminal cells wrap, and no number is cut."""
    for column in table.columns:
        cells = [str(cell) for cell in (column.header, *column.cells)]
        lines = [line for cell in cells for line in cell.splitlines()]
        words = lines if column.no_wrap else " ".join(cells).split()
        column.min_width = max(map(len, words), default=0)
    table_console().print(table, crop=False)


def show_rows(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None
) -> None:
    """Print texts as a table, of which all columns but the first hold numbers."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left")
    for cells in rows:
        table.add_row(*cells)
    print_table(table)


def print_summary(summary: Summary) -> None:
    """Print a table for each intervention.

    If the model fails without guidance, the verdict comes first.
    """
    from rich import box
    from rich.table import Table

    from fcfg.evaluation.metric_table import METRICS, drift_metric
    from fcfg.reports.numbers import named
    from fcfg.reports.rule_styles import is_default, settings_of
    from fcfg.reports.verdict import failures, reading
    from fcfg.reports.wording import in_words

    if failures(summary):
        print(*reading(summary), sep="\n")
    columns = [(drift_metric(summary), name) for name in summary.space.names]
    columns += [(METRICS["truth_changed"], ""), (METRICS["reversal_mae"], "")]
    for do in summary.dos:
        cells = summary.cells_of(do)
        shown = [
            (metric, name)
            for metric, name in columns
            if any(metric.value(summary, cell, name) is not None for cell in cells)
        ]
        title = f"{named(do)}: {in_words(summary, do)}"
        table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
        table.add_column("guidance", no_wrap=True)
        for metric, name in shown:
            target = " (target)" if name in cells[0].targets else ""
            heading = f"{name}{target}" if name else f"{metric.group}\n{metric.heading}"
            table.add_column(heading, justify="right")
        settings = settings_of([(cell, summary.header) for cell in cells])
        for cell, own in zip(cells, settings, strict=True):
            texts = [_text(summary, cell, metric, name) for metric, name in shown]
            default = "default: " if is_default(cell, summary.header) else ""
            table.add_row(default + own.label, *texts)
        print_table(table)
    print(_legend(summary))


def _text(summary: Summary, cell: Cell, metric: Metric, name: str) -> str:
    from fcfg.metrics import Estimate
    from fcfg.reports.numbers import number

    estimate = metric.value(summary, cell, name)
    if not isinstance(estimate, Estimate):
        return ""
    margin = number((estimate.high - estimate.low) / 2, metric.digits)
    return f"{number(estimate.value, metric.digits, signed=metric.signed)} ±{margin}"


def _legend(summary: Summary) -> str:
    from fcfg.evaluation.metric_table import SD, drift_units
    from fcfg.reports.numbers import listed

    is_true, units = summary.knows_truth, drift_units(summary)
    against = "in the true counterfactual" if is_true else "without guidance"
    sd = f"standard deviations of the {'factor' if is_true else 'factual values'} (sd)"
    said = listed(
        f"in {sd if unit == SD else unit}" + (f" for {listed(names)}" if len(units) > 1 else "")
        for unit, names in units.items()
    )
    lines = [
        f"Under each attribute: how much more of it the judge reads than {against}, {said}",
        "(positive is amplification, negative attenuation), with half of the 95 % interval.",
    ]
    if is_true:
        lines.append("Error to the truth, on changed pixels: 1 means no change was made.")
    if summary.header["reverse"]:
        lines.append("Reversibility: mean absolute error after reversal, pixels in [-1, 1]; drawn")
        lines.append("noise is that of the way there.")
    return "\n".join(lines)
