"""Tables on a terminal or in a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.table
    from rich.console import Console

    from fcfg.reports.comparison import Comparison
    from fcfg.reports.table import Cell, Column, Table


_WIDE = 1000  # columns of a file or a pipe, more than any table has


def table_console() -> Console:
    """Return a console for tables, which cuts none of them where there is no terminal."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    return console


def print_grid(grid: rich.table.Table) -> None:
    """Print columns of numbers; in a narrow terminal cells wrap, and no number is cut."""
    for column in grid.columns:
        cells = [str(cell) for cell in (column.header, *column.cells)]
        lines = [line for cell in cells for line in cell.splitlines()]
        words = lines if column.no_wrap else " ".join(cells).split()
        column.min_width = max(map(len, words), default=0)
    table_console().print(grid, crop=False)


def show_rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print texts as a table, of which all columns but the first hold numbers."""
    from fcfg.reports.table import Column, Row, Table

    lines = tuple(Row((name,), tuple(cells)) for name, *cells in rows)
    print_table(Table((heads[0],), tuple(map(Column, heads[1:])), lines))


def print_table(table: Table) -> None:
    """Print a table with half of each interval behind its number; the best numbers are bold."""
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(title=table.title, box=box.SIMPLE_HEAD, title_justify="left")
    for name in table.names:
        grid.add_column(name, no_wrap=True)
    for column in table.columns:
        parts = (column.group, f"{column.heading} ({column.role})", column.unit)
        heading = "\n".join(filter(None, parts)).replace(" ()", "")
        grid.add_column(heading, justify="right")
    for row in table.rows:
        cells = zip(table.columns, row.cells, strict=True)
        texts = (Text(_text(own, c), "bold" if own in row.best else "") for own, c in cells)
        grid.add_row(*row.names, *texts)
    print_grid(grid)


def _text(column: Column, cell: Cell) -> str:
    """Words, or a number and half of its interval."""
    margin = column.margin(cell)
    return "" if cell is None else f"{column.text(cell)} {margin}".strip()


def print_overview(comparison: Comparison) -> None:
    """Print the table of a report at a glance, below what makes a run useless and its notes."""
    from fcfg.reports.tables import overview
    from fcfg.reports.wording import RETURNS, sample

    if comparison.failures:
        print("The model fails without guidance, so the run says nothing about guidance.")
        print(*comparison.failures, sep="\n")
    print_table(overview(comparison))
    print(sample(comparison.runs[0].summary))
    print("±: half of a 95 % interval; → 0: distance from 0; bold: clearly the best.")
    if any(run.header["reverse"] for run in comparison.runs):
        print(f"After reversal: {RETURNS}")


def print_numbers(comparison: Comparison) -> None:
    """Print the drift and the errors of every intervention, and the table at a glance."""
    from fcfg.reports.frontiers import equal_strength
    from fcfg.reports.tables import numbers
    from fcfg.reports.wording import in_words, named

    shown = (comparison.drift.group, "error to the truth", "after reversal")
    for do in comparison.dos:
        words = in_words(comparison.measured[do].rows[0].run.summary, do)
        print_table(replace(numbers(comparison, do).only(shown), title=f"{named(do)}: {words}"))
    for table in equal_strength(comparison).values():
        print_table(table)
    print_overview(comparison)
