"""The tables of a comparison: every number as CSV, and those of the page as LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from fcfg.evaluation.metric_table import METRICS, Metric
from fcfg.evaluation.summary import Cell
from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison, Row, System
from fcfg.reports.comparison_columns import Column, Value, columns
from fcfg.reports.numbers import number
from fcfg.reports.tables import escaped, latex_minus, latex_row

_FIELDS = (
    *("model", "parameters", "do", "guidance", "metric", "attribute", "value", "low", "high"),
    *("n", "unit", "difference", "difference_low", "difference_high"),
)


def comparison_csv(comparison: Comparison) -> str:
    """One line for each number of every run.

    ``difference`` is the paired difference from the same number of the reference, with its
    interval. Numbers are written in full; fields that have none are empty.

    Args:
        comparison: The runs.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, _FIELDS, lineterminator="\n")
    writer.writeheader()
    for system in comparison.systems:
        summary = system.summary
        for cell in (*summary.compositions.values(), *summary.cells.values()):
            if cell.do in ("", *comparison.dos):
                writer.writerows(_lines(comparison, system, cell))
    return text.getvalue()


def _lines(comparison: Comparison, system: System, cell: Cell) -> Iterator[dict[str, object]]:
    reference = comparison.reference(cell.do) if cell.do else None
    for name in (*system.summary.space.names, ""):
        for metric in METRICS.values():
            value = metric.value(system.summary, cell, name)
            if value is None:
                continue
            yield {
                "model": system.name,
                "parameters": system.header["model"].get("parameters"),
                "do": cell.do,
                "guidance": cell.guidance,
                "metric": metric.name,
                "attribute": name,
                **_numbers(value, ("value", "low", "high")),
                "n": cell.n,
                "unit": metric.unit_of(system.summary, name),
                **_numbers(
                    _difference(value, metric, name, reference),
                    ("difference", "difference_low", "difference_high"),
                ),
            }


def _difference(
    value: Estimate | float, metric: Metric, attribute: str, reference: Row | None
) -> Value:
    if reference is None:
        return None
    base = metric.value(reference.system.summary, reference.cell, attribute)
    if isinstance(value, Estimate) and isinstance(base, Estimate):
        return value - base
    if isinstance(value, Estimate) or isinstance(base, Estimate) or base is None:
        return None
    return value - base


def _numbers(value: Value, names: tuple[str, str, str]) -> dict[str, float | None]:
    if isinstance(value, Estimate):
        return dict(zip(names, (value.value, value.low, value.high), strict=True))
    return {names[0]: value}


def comparison_latex(comparison: Comparison) -> str:
    r"""One ``tabular`` for each intervention, with the columns of the page.

    To ``\input`` into a document that uses booktabs. The best number of a column is bold if its
    difference from the next one excludes 0.

    Args:
        comparison: The runs.
    """
    return "\n".join(_tabular(comparison, do) for do in comparison.dos)


def _tabular(comparison: Comparison, do: str) -> str:
    rows, found = comparison.rows(do), columns(comparison, do)
    best = [column.best(rows) for column in found]
    heads = [
        f"{escaped(f'{column.group}, {column.heading}')} {_ARROWS[column.arrow]}".strip()
        for column in found
    ]
    lines = [
        f"% do({do})",
        rf"\begin{{tabular}}{{llr{'r' * len(found)}}}",
        r"\toprule",
        latex_row(["Model", "Setting", "Parameters", *heads]),
        r"\midrule",
    ]
    model = ""
    for row in rows:
        cells = [
            _cell(column, column.get(row), is_best=row is winner)
            for column, winner in zip(found, best, strict=True)
        ]
        name, label = row.system.name, escaped(row.label)
        first = ["", label, ""] if name == model else [escaped(name), label, row.system.parameters]
        lines.append(latex_row([*first, *cells]))
        model = name
    about = rf"n = {comparison.n:,} images; $\pm$: half of a 95 \% interval over images."
    lines += [
        r"\bottomrule",
        latex_row([rf"\multicolumn{{{3 + len(found)}}}{{l}}{{\tiny {about}}}"]),
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


_ARROWS = {"": "", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "→ 0": r"$\to 0$"}


def _cell(column: Column, value: Value, *, is_best: bool) -> str:
    if value is None:
        return "--"
    digits, signed = column.metric.digits, column.metric.signed
    size = value.value if isinstance(value, Estimate) else value
    text = latex_minus(number(size, digits, signed=signed, ascii_only=True))
    if isinstance(value, Estimate):
        margin = number((value.high - value.low) / 2, digits)
        text = rf"\textbf{{{text}}}" if is_best else text
        text += rf"{{\tiny$\,\pm\,${margin}}}"
    return text
