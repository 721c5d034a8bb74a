"""The tables of a comparison: at a glance, by intervention, as differences, and every number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fcfg.evaluation.metric_table import METRICS, effectiveness
from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.failures import FEWEST
from fcfg.reports.measures import REST, Measure, Value, aims, best, every_number, measures, sized
from fcfg.reports.numbers import average, listed, named
from fcfg.reports.paper import dataset_of, match
from fcfg.reports.svg import mark
from fcfg.reports.table import Cell, Column, Number, Table
from fcfg.reports.table import Row as Line
from fcfg.reports.wording import hardware, made, steps_text

#: Columns of a table for a paper.
_PRINTED = (
    *("effectiveness", "shift", "factor error", "difference from real images"),
    *("error to the truth", "after reversal"),
)


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a page."""

    glance: Table
    numbers: dict[str, Table]  #: by intervention, the null intervention last
    differences: dict[str, Table | None]
    models: Table


def make_tables(comparison: Comparison) -> Tables:
    """Compute every table of a page."""
    return Tables(
        overview(comparison),
        {do: numbers(comparison, do) for do in comparison.rows},
        {do: differences(comparison, do) for do in comparison.dos},
        models(comparison),
    )


def overview(comparison: Comparison) -> Table:
    """Means, of distances from 0, over the interventions that all models or settings have."""
    chosen = {do: _by_name(comparison, do) for do in comparison.dos}
    names = list(dict.fromkeys(name for rows in chosen.values() for name in rows))
    if comparison.is_alone:
        names = [name for name in names if all(name in rows for rows in chosen.values())]
    chosen = {do: rows for do, rows in chosen.items() if all(name in rows for name in names)}
    found: dict[Column, list[tuple[str, Measure]]] = {}
    for do in chosen:
        for own in aims(comparison, do):
            found.setdefault(own.column, []).append((do, own))
    groups = [metric.group for metric in METRICS.values()]
    columns: dict[Column, list[Value]] = {}
    for column in sorted(found, key=lambda one: (groups.index(one.group), one.title == REST)):
        plain = replace(column, signed=column.signed and column.better != "→ 0")
        columns[plain] = [
            _average([sized(column, own.get(chosen[do][name])) for do, own in found[column]])
            for name in names
        ]
    shown = [[rows[name] for rows in chosen.values()] for name in names] if chosen else []
    labels = [listed(dict.fromkeys(row.setting.label for row in rows), "or") for rows in shown]
    table = _table(comparison, [rows[0] for rows in shown], columns, labels)
    return replace(table, title=f"Means over {listed(map(named, chosen))}" if chosen else "")


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
    columns = {own.column: [own.get(row) for row in rows] for own in measures(comparison, do)}
    table = _table(comparison, rows, columns, [row.names[1] for row in rows])
    lines: list[Line] = []
    for row, line in zip(rows, table.rows, strict=True):
        lines.append(line)
        if paper := _of_paper(row, table.columns):
            lines.append(_pale(table, "the paper", paper))
    real = [_real(comparison, column) for column in table.columns]
    if any(real):
        lines.append(_pale(table, "factual images", real))
    return replace(table, rows=tuple(lines), title=named(do))


def differences(comparison: Comparison, do: str) -> Table | None:
    """Paired differences from the reference, if there is one; those that exclude 0 are marked."""
    reference = comparison.reference(do)
    if reference is None:
        return None
    rows = [row for row in comparison.rows[do] if row is not reference]
    columns = {
        replace(own.column, signed=True): [own.gap(row, reference) for row in rows]
        for own in measures(comparison, do)
        if isinstance(own.get(reference), Estimate) and not own.column.is_small
    }
    table = _table(comparison, rows, columns, [row.names[1] for row in rows], is_gap=True)
    return replace(table, title=f"{named(do)}, against {reference.setting.title}")


def _table(
    comparison: Comparison,
    rows: Sequence[Row],
    columns: Mapping[Column, Sequence[Value]],
    labels: Sequence[str],
    *,
    is_gap: bool = False,
) -> Table:
    """Rows of numbers; the clearly best of each column is marked, unless a run says nothing."""
    claims = comparison.n >= FEWEST and not (comparison.is_alone and comparison.failures)
    cells: list[list[Cell]] = []
    for column, values in columns.items():
        first = best(column, values) if claims and not is_gap else None
        clear = [is_gap and isinstance(v, Estimate) and v.excludes_zero for v in values]
        marks = [clear[k] or k == first for k in range(len(values))]
        pairs = zip(values, marks, strict=True)
        cells.append([None if v is None else Number.of(v, is_best=m) for v, m in pairs])
    lines = [
        Line(
            (label,) if comparison.is_alone else (row.run.name, label),
            tuple(column[k] for column in cells),
            str(mark(row.setting, 8, 8)),
            row.setting.colour,
        )
        for k, (row, label) in enumerate(zip(rows, labels, strict=True))
    ]
    names = ("setting",) if comparison.is_alone else ("model", "setting")
    return Table(names, tuple(columns), tuple(lines)).filled()


def table_files(comparison: Comparison, tables: Tables) -> dict[str, bytes]:
    """Contents of the files of tables, by name."""
    own = every_number(comparison)
    rows = comparison.rows
    texts = {
        "table.csv": _plain(own, rows, lambda one, row: one.get(row), _of_paper),
        "table.tex": "\n".join(
            replace(
                tables.numbers[do].only(_PRINTED).filled(),
                notes=(f"n = {comparison.n:,}", *(made(run.header) for run in comparison.runs)),
            ).latex()
            for do in comparison.dos
        ),
    }
    if comparison.against is not None:
        known = {do: base for do in rows if (base := comparison.reference(do)) is not None}
        texts["differences.csv"] = _plain(
            own, {do: rows[do] for do in known}, lambda one, row: one.gap(row, known[row.cell.do])
        )
    return {name: text.encode() for name, text in texts.items()}


def _plain(
    own: Sequence[Measure],
    rows: Mapping[str, Sequence[Row]],
    get: Callable[[Measure, Row], Value],
    others: Callable[[Row, Sequence[Column]], Sequence[Cell]] = lambda row, columns: (),
) -> str:
    """Every number of every row, with those of others under the model 'the paper'."""
    columns = tuple(one.column for one in own)
    lines: list[Line] = []
    for do, row in ((do, row) for do, some in rows.items() for row in some):
        values = [get(one, row) for one in own]
        cells = tuple(None if value is None else Number.of(value) for value in values)
        lines.append(Line((row.run.name, do, row.cell.guidance), cells))
        if paper := others(row, columns):
            lines.append(Line(("the paper", do, row.cell.guidance), tuple(paper)))
    return Table(("model", "do", "guidance"), columns, tuple(lines)).csv()


def models(comparison: Comparison) -> Table:
    """What was run, and where."""
    titles = ("parameters", "sampling", "hardware", "experiment", "checkpoint", "commit")
    columns = tuple(Column(title) for title in titles)
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
    return Table(("model",), columns, tuple(lines), "Models")


def _pale(table: Table, name: str, cells: Sequence[Cell]) -> Line:
    return Line((*("" for _ in table.names[1:]), name), tuple(cells), is_pale=True)


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
