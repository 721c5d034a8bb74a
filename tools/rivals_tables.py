"""Tables of several models on the same images, for docs/rivals.md.

The result files of a comparison are docs/results/rivals-DATA-MODEL.jsonl.gz, one for each model.
"""

from __future__ import annotations

from fcfg.metrics import Estimate
from fcfg.reports import compare, comparison_reading
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.comparison_columns import Column, columns
from fcfg.reports.numbers import named, number
from fcfg.reports.tables import table_row
from reproduction_tables import RESULTS


def section(data: str) -> str:
    """Return which model is best at what, and a table for each intervention.

    Args:
        data: Name of the data, such as 'portraits'.
    """
    files = sorted(RESULTS.glob(f"rivals-{data}-*.jsonl.gz"))
    if len(files) < 2:
        return f"The models have not been compared on `{data}` yet."
    comparison = compare(files)
    reading = "\n".join(f"- {line}" for line in comparison_reading(comparison))
    notes = [f"*{note}*" for note in comparison.notes]
    commands = [f"`{system.header['command']}`" for system in comparison.systems]
    tables = [f"{named(do)}:\n\n{_table(comparison, do)}" for do in comparison.dos]
    return "\n\n".join([reading, *notes, *tables, "  \n".join(commands)])


def _table(comparison: Comparison, do: str) -> str:
    shown, rows = columns(comparison, do), comparison.rows(do)
    heads = [" ".join(filter(None, (c.group, c.heading, c.arrow))) for c in shown]
    lines = [["model", "setting", "parameters", *heads]]
    lines.append(["---"] * len(lines[0]))
    best = {column: column.best(rows) for column in shown}
    for row in rows:
        cells = [_cell(column, row, is_best=best[column] is row) for column in shown]
        lines.append([row.system.name, row.label, row.system.parameters, *cells])
    return "\n".join(map(table_row, lines))


def _cell(column: Column, row: Row, *, is_best: bool) -> str:
    value, digits = column.get(row), column.metric.digits
    if value is None:
        return "–"
    if not isinstance(value, Estimate):
        return number(value, digits)
    text = f"{number(value.value, digits)} ± {number((value.high - value.low) / 2, digits)}"
    return f"**{text}**" if is_best else text
