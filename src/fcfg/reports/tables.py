"""The tables of a comparison: at a glance, by intervention, as differences, and every number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fcfg.evaluation.metric_table import METRICS, effectiveness
from fcfg.metrics import Estimate
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.failures import FEWEST
from fcfg.reports.measures import REST, Measure, Value, aims, every_number, measures
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


def overview(comparison: Comparison) -> Table:
    """Means over the interventions that all models have, or of one run all settings.

    Distances from 0 are averaged, so that opposite errors do not cancel.
    """
    chosen = {do: _by_name(comparison, do) for do in comparison.dos}
    names = list(dict.fromkeys(name for rows in chosen.values() for name in rows))
    if comparison.is_alone:
        names = [name for name in names if all(name in rows for rows in chosen.values())]
    dos = [do for do, rows in chosen.items() if all(name in rows for name in names)]
    if not dos:
        return Table(_names(comparison), (), ())
    found: dict[Column, list[tuple[str, Measure]]] = {}
    for do in dos:
        for own in aims(comparison, do):
            found.setdefault(own.column, []).append((do, own))
    groups = [metric.group for metric in METRICS.values()]
    ordered = sorted(
        found.items(), key=lambda own: (groups.index(own[0].group), own[0].title == REST)
    )
    means = [_mean(comparison, column, own, chosen) for column, own in ordered]
    rows = [chosen[dos[0]][name] for name in names]
    table = _table(comparison, rows, means, f"Means over {listed(map(named, dos))}")
    lines: list[Line] = []
    for line, name in zip(table.rows, names, strict=True):
        used = dict.fromkeys(chosen[do][name].setting.label for do in dos)
        lines.append(replace(line, names=(*line.names[:-1], listed(used, "or"))))
    return replace(table, rows=tuple(lines))


def _by_name(comparison: Comparison, do: str) -> dict[str, Row]:
    """Rows of one run by setting; of several, the representative ones by model."""
    if comparison.is_alone:
        return {row.cell.guidance: row for row in comparison.rows[do]}
    return {row.run.name: row for row in comparison.representative(do)}


def _mean(
    comparison: Comparison,
    column: Column,
    own: Sequence[tuple[str, Measure]],
    chosen: Mapping[str, Mapping[str, Row]],
) -> Measure:
    def get(row: Row) -> Estimate | None:
        name = row.cell.guidance if comparison.is_alone else row.run.name
        sizes = [measure.size(chosen[do][name]) for do, measure in own]
        known = [size for size in sizes if size is not None]
        return average(known) if len(known) == len(own) else None

    return Measure(replace(column, signed=column.signed and column.better != "→ 0"), get)


def numbers(comparison: Comparison, do: str) -> Table:
    """All rows of an intervention, with the paper's below ours, and the factual images last."""
    rows = comparison.rows[do]
    table = _table(comparison, rows, measures(comparison, do), named(do))
    lines: list[Line] = []
    for row, line in zip(rows, table.rows, strict=True):
        lines.append(line)
        if paper := _of_paper(row, table.columns):
            lines.append(_pale(table, "the paper", paper))
    real = [_real(comparison, column) for column in table.columns]
    if any(real):
        lines.append(_pale(table, "factual images", real))
    return replace(table, rows=tuple(lines))


def differences(comparison: Comparison, do: str) -> Table | None:
    """Paired differences from the reference, if there is one under the intervention."""
    reference = comparison.reference(do)
    if reference is None:
        return None
    own = [one for one in measures(comparison, do) if one.size(reference) is not None]
    rows = [row for row in comparison.rows[do] if row.cell is not reference.cell]
    title = f"{named(do)}, against {reference.setting.title}"
    return _gaps(comparison, rows, own, reference, title)


def every_table(comparison: Comparison) -> dict[str, bytes]:
    """Contents of the files of tables, by name."""
    own = every_number(comparison)
    rows = comparison.rows
    texts = {
        "table.csv": _plain(own, rows, lambda one, row: one.get(row), _of_paper),
        "table.tex": "\n".join(
            replace(
                numbers(comparison, do).only(_PRINTED).filled(),
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


def _table(
    comparison: Comparison, rows: Sequence[Row], own: Sequence[Measure], title: str
) -> Table:
    """Rows of numbers; the clearly best of each column is marked, unless a run says nothing."""
    claims = comparison.n >= FEWEST and not (comparison.is_alone and comparison.failures)
    best = [one.best(rows) if claims else None for one in own]
    lines: list[Line] = []
    for row in rows:
        values = [one.get(row) for one in own]
        cells = [
            None if value is None else Number.of(value, is_best=row is first)
            for value, first in zip(values, best, strict=True)
        ]
        lines.append(_line(comparison, row, cells))
    columns = tuple(one.column for one in own)
    return Table(_names(comparison), columns, tuple(lines), title).filled()


def _gaps(
    comparison: Comparison, rows: Sequence[Row], own: Sequence[Measure], base: Row, title: str
) -> Table:
    """Rows of paired differences, those marked that exclude 0."""
    lines: list[Line] = []
    for row in rows:
        gaps = [one.gap(row, base) for one in own]
        cells = [None if gap is None else Number.of(gap, is_best=_is_clear(gap)) for gap in gaps]
        lines.append(_line(comparison, row, cells))
    columns = tuple(replace(one.column, signed=True) for one in own)
    return Table(_names(comparison), columns, tuple(lines), title).filled()


def _names(comparison: Comparison) -> tuple[str, ...]:
    return ("setting",) if comparison.is_alone else ("model", "setting")


def _is_clear(gap: Estimate | float) -> bool:
    return isinstance(gap, Estimate) and gap.excludes_zero


def _line(comparison: Comparison, row: Row, cells: Sequence[Cell]) -> Line:
    names = row.names[1:] if comparison.is_alone else row.names
    return Line(names, tuple(cells), str(mark(row.setting, 8, 8)), row.setting.colour)


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
