"""The tables of a comparison: at a glance, by intervention, as differences, and every number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fcfg.evaluation.metric_table import METRICS, effectiveness
from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.failures import FEWEST
from fcfg.reports.measures import (
    REST,
    Value,
    aims,
    best,
    every_number,
    gap,
    measured,
    measures,
    sized,
)
from fcfg.reports.paper import dataset_of, match
from fcfg.reports.table import Cell, Column, Number, Table
from fcfg.reports.table import Row as Line
from fcfg.reports.wording import average, hardware, listed, made, named, steps_text

#: Columns of a table for a paper.
_PRINTED = (
    *("effectiveness", "shift", "factor error", "difference from real images"),
    *("error to the truth", "after reversal"),
)


def overview(comparison: Comparison) -> Table:
    """Means, of distances from 0, over the interventions that all models or settings have."""
    chosen = {do: _by_name(comparison, do) for do in comparison.dos}
    names = list(dict.fromkeys(name for rows in chosen.values() for name in rows))
    if comparison.is_alone:
        names = [name for name in names if all(name in rows for rows in chosen.values())]
    chosen = {do: rows for do, rows in chosen.items() if all(name in rows for name in names)}
    found: dict[Column, dict[str, Column]] = {}
    for do in chosen:
        for own in aims(comparison, do):  # of other attributes under each intervention
            found.setdefault(replace(own, names=()), {})[do] = own
    groups = [metric.group for metric in METRICS.values()]
    columns: dict[Column, list[Value]] = {}
    for column in sorted(found, key=lambda one: (groups.index(one.group), one.title == REST)):
        plain = replace(column, signed=column.signed and column.better != "→ 0")
        every = found[column].items()
        columns[plain] = [
            _average([sized(own, measured(own, chosen[do][name])) for do, own in every])
            for name in names
        ]
    shown = [[rows[name] for rows in chosen.values()] for name in names] if chosen else []
    labels = [listed(dict.fromkeys(row.setting.label for row in rows), "or") for rows in shown]
    title = f"Means over {listed(map(named, chosen))}" if chosen else ""
    return _table(comparison, [rows[0] for rows in shown], labels, columns, title)


def _by_name(comparison: Comparison, do: str) -> dict[str, Row]:
    """Rows of one run by setting; of several, the representative ones by model."""
    if comparison.is_alone:
        return {row.cell.guidance: row for row in comparison.rows[do]}
    return {row.run.name: row for row in comparison.representative(do)}


def _average(sizes: Sequence[Value]) -> Estimate | None:
    """Mean over interventions that all have a number."""
    known = [size for size in sizes if isinstance(size, Estimate)]
    return average(known) if len(known) == len(sizes) else None


def numbers(comparison: Comparison, do: str) -> Table:
    """All rows of an intervention, with the paper's below ours, and the factual images last."""
    rows = comparison.rows[do]
    columns = {own: [measured(own, row) for row in rows] for own in measures(comparison, do)}
    labels = [row.names[1] for row in rows]
    table = _table(comparison, rows, labels, columns, named(do))
    beside = ("",) * (len(table.names) - 1)
    lines: list[Line] = []
    for row, line in zip(rows, table.rows, strict=True):
        paper = _of_paper(row, table.columns)
        lines += [line, Line((*beside, "the paper"), paper, is_pale=True)] if paper else [line]
    real = tuple(_real(comparison, column) for column in table.columns)
    if any(real):
        lines.append(Line((*beside, "factual images"), real, is_pale=True))
    return replace(table, rows=tuple(lines))


def _real(comparison: Comparison, column: Column) -> Number | None:
    """Effectiveness on the factual images."""
    name = column.attribute
    real = comparison.runs[0].summary.real.get(name)
    if real is None or column.metric != effectiveness(comparison.space, name).name:
        return None
    return Number.of(real)


def _of_paper(row: Row, columns: Sequence[Column]) -> tuple[Cell, ...]:
    """The paper's numbers for the same setting; empty if it has none."""
    found = match(dataset_of(row.run.header), row.cell.do, row.cell.guidance)
    if found is None:
        return ()
    cells: list[Cell] = []
    for column in columns:
        field = METRICS[column.metric].paper
        value = getattr(found, field) if field else None
        value = value.get(column.attribute) if isinstance(value, Mapping) else value
        cells.append(None if value is None else Number(value, note=found.note or ""))
    return tuple(cells) if any(cells) else ()


def differences(comparison: Comparison, do: str) -> Table | None:
    """Paired differences from the reference, if there is one; those that exclude 0 are marked."""
    reference = comparison.reference(do)
    if reference is None:
        return None
    rows = [row for row in comparison.rows[do] if row is not reference]
    columns = {
        replace(own, signed=True): [gap(own, row, reference) for row in rows]
        for own in measures(comparison, do)
        if isinstance(measured(own, reference), Estimate) and not own.is_small
    }
    labels = [row.names[1] for row in rows]
    title = f"{named(do)}, against {reference.setting.title}"
    return _table(comparison, rows, labels, columns, title, is_gap=True)


def _table(
    comparison: Comparison,
    rows: Sequence[Row],
    labels: Sequence[str],
    columns: Mapping[Column, Sequence[Value]],
    title: str,
    *,
    is_gap: bool = False,
) -> Table:
    """Rows of numbers; the clearly best of each column is marked, unless a run says nothing."""
    claims = comparison.n >= FEWEST and not (comparison.is_alone and comparison.failures)
    cells: dict[Column, list[Number | None]] = {}
    for column, values in columns.items():
        if is_gap:
            marked = {
                k for k, v in enumerate(values) if isinstance(v, Estimate) and v.excludes_zero
            }
        else:
            marked = {best(column, values)} if claims else set[int | None]()
        if any(value is not None for value in values):
            cells[column] = [Number.of(v, is_best=k in marked) for k, v in enumerate(values)]
    lines = [
        Line(
            (label,) if comparison.is_alone else (row.run.name, label),
            tuple(column[k] for column in cells.values()),
            row.setting,
        )
        for k, (row, label) in enumerate(zip(rows, labels, strict=True))
    ]
    names = ("setting",) if comparison.is_alone else ("model", "setting")
    return Table(names, tuple(cells), tuple(lines), title)


def models(comparison: Comparison) -> Table:
    """What was run, and where."""
    titles = ("parameters", "sampling", "hardware", "experiment", "checkpoint", "commit")
    lines: list[Line] = []
    for run in comparison.runs:
        header = run.header
        count = header["model"].get("parameters")
        cells = (
            f"{count / 1e6:.1f} M" if count else "–",
            steps_text(header),
            hardware(header),
            header["experiment"],
            header["model"]["digest"],
            (header["commit"] or "unknown")[:12],
        )
        lines.append(Line((run.name,), cells))
    return Table(("model",), tuple(map(Column, titles)), tuple(lines), "Models")


def table_files(comparison: Comparison) -> dict[str, bytes]:
    """Contents of the files of tables, by name."""
    about = (f"n = {comparison.n:,}", *(made(run.header) for run in comparison.runs))
    printed = (numbers(comparison, do).only(_PRINTED) for do in comparison.dos)
    texts = {
        "table.csv": _every_line(comparison, measured, _of_paper),
        "table.tex": "\n".join(replace(table, notes=about).latex() for table in printed),
    }
    if comparison.against is not None:
        known = {do: comparison.reference(do) for do in comparison.rows}

        def from_reference(column: Column, row: Row) -> Value:
            reference = known[row.cell.do]
            return reference and gap(column, row, reference)

        texts["differences.csv"] = _every_line(comparison, from_reference)
    return {name: text.encode() for name, text in texts.items()}


def _every_line(
    comparison: Comparison,
    get: Callable[[Column, Row], Value],
    others: Callable[[Row, Sequence[Column]], tuple[Cell, ...]] = lambda row, columns: (),
) -> str:
    """Every number of every row, with those of others under the model 'the paper'."""
    columns, lines = tuple(every_number(comparison)), list[Line]()
    for row in (row for rows in comparison.rows.values() for row in rows):
        asked = row.cell.do, row.cell.guidance
        cells = tuple(Number.of(get(column, row)) for column in columns)
        lines.append(Line((row.run.name, *asked), cells))
        if found := others(row, columns):
            lines.append(Line(("the paper", *asked), found))
    return Table(("model", "do", "guidance"), columns, tuple(lines)).csv()
