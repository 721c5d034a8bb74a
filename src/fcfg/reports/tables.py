"""The tables of a comparison: at a glance, by intervention, as differences, and every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fcfg.evaluation.metric_table import METRICS
from fcfg.evaluation.summary import BESIDE
from fcfg.metrics.intervals import Estimate, average, holm
from fcfg.reports.comparison import Comparison
from fcfg.reports.failures import FEWEST
from fcfg.reports.measures import REST, Row, Value, estimated, sized
from fcfg.reports.paper import dataset_of, match
from fcfg.reports.table import Cell, Column, Table
from fcfg.reports.table import Row as Line
from fcfg.reports.wording import hardware, listed, made, named, sample, steps_text

#: Columns of a table for a paper.
_PRINTED = (
    *("effectiveness", "shift", "factor error", "difference from real images"),
    *("error to the truth", "after reversal"),
)


def overview(comparison: Comparison) -> Table:
    """Means, of distances from 0, over the interventions that all models or settings have."""
    asked = {do: _by_name(comparison, do) for do in comparison.dos}
    names = list(dict.fromkeys(name for rows in asked.values() for name in rows))
    if comparison.is_alone:
        names = [name for name in names if all(name in rows for rows in asked.values())]
    asked = {do: rows for do, rows in asked.items() if all(name in rows for name in names)}
    found: dict[Column, dict[Row, Value]] = {}
    for own, sizes in (aim for do in asked for aim in comparison.measured[do].aims.items()):
        found.setdefault(replace(own, names=()), {}).update(sizes)  # of other attributes each time
    groups = [metric.group for metric in METRICS.values()]
    columns: dict[Column, list[Value]] = {}
    for column in sorted(found, key=lambda one: (groups.index(one.group), one.title == REST)):
        plain = replace(column, signed=column.signed and column.better != "→ 0")
        sizes = found[column]
        every = [[sizes[r[name]] for r in asked.values() if r[name] in sizes] for name in names]
        columns[plain] = [
            average(map(estimated, own)) if all(map(estimated, own)) else None for own in every
        ]
    shown = [[rows[name] for rows in asked.values()] for name in names] if asked else []
    labels = [
        name if row.setting.method else listed(dict.fromkeys(r.setting.label for r in own), "or")
        for name, own in zip(names, shown, strict=False)
        for row in own[:1]
    ]
    title = f"Means over {listed(map(named, asked))}" if asked else ""
    return table_of(comparison, [rows[0] for rows in shown], labels, columns, title)


def _by_name(comparison: Comparison, do: str) -> dict[str, Row]:
    """Rows of one run by setting; of several, the representative ones by model."""
    if comparison.is_alone:
        rows = [(row, row.setting) for row in comparison.measured[do].shown]
        named_so = [(row, [f"{s.method}, {role}" for role in s.roles]) for row, s in rows]
        return {name: row for row, own in named_so for name in own or [row.cell.guidance]}
    return {row.run.name: row for row in comparison.representative(do)}


def numbers(comparison: Comparison, do: str) -> Table:
    """All rows of an intervention, with the paper's below ours, and the factual images last."""
    measured, rows = comparison.measured[do], comparison.measured[do].shown
    columns = {own: [values[row] for row in rows] for own, values in measured.table.items()}
    labels = [row.names[1] for row in rows]
    table = table_of(comparison, rows, labels, columns, named(do))
    beside = ("",) * (len(table.names) - 1)
    lines: list[Line] = []
    for row, line in zip(rows, table.rows, strict=True):
        lines += filter(None, [line, _of_paper(row, table.columns, (*beside, "the paper"))])
    summary = comparison.runs[0].summary  # whose factual images are those of all
    real = tuple(summary.real.get((own.metric, own.attribute)) for own in table.columns)
    if any(real):
        lines.append(Line((*beside, "factual images"), real, is_pale=True))
    for name in BESIDE:
        known = measured.rows[0].cell.numbers
        cells = tuple(known.get((column.metric, name)) for column in table.columns)
        lines += [Line((*beside, name), cells, is_pale=True)] if any(cells) else []
    return replace(table, rows=tuple(lines))


def _of_paper(row: Row, columns: Sequence[Column], names: tuple[str, ...]) -> Line | None:
    """The paper's numbers for the same setting, if it has some."""
    found = match(dataset_of(row.run.header), row.cell.do, row.cell.guidance)
    cells: list[Cell] = []
    for column in columns if found else ():
        field = METRICS[column.metric].paper
        value = getattr(found, field) if field else None
        cells.append(value.get(column.attribute) if isinstance(value, Mapping) else value)
    if found is None or all(cell is None for cell in cells):
        return None
    return Line(names, tuple(cells), note=found.note or "", is_pale=True)


def differences(comparison: Comparison, do: str) -> Table | None:
    """Paired differences from the reference, if there is one.

    Marked are those whose intervals exclude 0, if Holm's method over the table allows it.
    """
    reference, measured = comparison.reference(do), comparison.measured[do]
    if reference is None:
        return None
    rows = [row for row in measured.shown if row is not reference]
    columns: dict[Column, list[Value]] = {}
    for own, values in measured.table.items():
        sizes = {row: sized(own, value) for row, value in values.items()}
        if estimated(sizes[reference]) and not own.is_small:
            columns[replace(own, signed=True)] = [gap(sizes[r], sizes[reference]) for r in rows]
    labels = [row.names[1] for row in rows]
    title = f"{named(do)}, against {reference.setting.title}"
    family = [one for own in columns.values() for one in map(estimated, own) if one is not None]
    clear = [one for one in family if one.excludes_zero]
    allowed = zip(family, holm([one.p_value for one in family]), strict=True)
    kept = [one for one, holds in allowed if holds and one.excludes_zero]
    note = (
        f"Bold: clear at 5 % by Holm's method over the {len(family)} differences of this table. "
        f"{len(kept)} are; {len(clear)} intervals exclude 0."
    )
    return replace(table_of(comparison, rows, labels, columns, title, kept), notes=(note,))


def gap(ours: Value, theirs: Value) -> Value:
    """Paired difference of two numbers of one kind; None if either is missing."""
    if isinstance(ours, Estimate):
        return ours - theirs if isinstance(theirs, Estimate) else None
    return ours - theirs if isinstance(theirs, float) and ours is not None else None


def table_of(
    comparison: Comparison,
    rows: Sequence[Row],
    labels: Sequence[str],
    columns: Mapping[Column, Sequence[Cell]],
    title: str,
    marked: Sequence[Estimate] | None = None,
) -> Table:
    """Rows of numbers; the clearly best of each column is marked, unless a run says nothing.

    Or those that are given are marked.
    """
    claims = comparison.n >= FEWEST and not (comparison.is_alone and comparison.failures)
    shown = {column: own for column, own in columns.items() if set(own) != {None}}
    marks: dict[Column, list[bool]] = {}
    for column, values in shown.items():
        winner = best(column, values) if claims else None
        marks[column] = [k == winner for k in range(len(rows))]
        if marked is not None:
            marks[column] = [any(value is one for one in marked) for value in values]
    lines = [
        Line(
            (label,) if comparison.is_alone else (row.run.name, label),
            tuple(values[k] for values in shown.values()),
            row.setting,
            frozenset(column for column in shown if marks[column][k]),
        )
        for k, (row, label) in enumerate(zip(rows, labels, strict=True))
    ]
    names = ("setting",) if comparison.is_alone else ("model", "setting")
    return Table(names, tuple(shown), tuple(lines), title)


def best(column: Column, values: Sequence[Cell]) -> int | None:
    """Place of the best value, if its paired difference from the next one excludes 0."""
    sign = {"": 0, "↑": -1, "↓": 1, "→ 0": 1}[column.better]
    every = {k: estimated(sized(column, estimated(v))) for k, v in enumerate(values)}
    sizes = {k: size for k, size in every.items() if size is not None}
    ranked = sorted(sizes, key=lambda k: sign * sizes[k].value)
    if not sign or len(ranked) < 2 or not (sizes[ranked[0]] - sizes[ranked[1]]).excludes_zero:
        return None
    return ranked[0]


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
    about = (sample(comparison.runs[0].summary), *(made(run.header) for run in comparison.runs))
    printed = (numbers(comparison, do).only(_PRINTED) for do in comparison.dos)
    texts = {"table.tex": "\n".join(replace(table, notes=about).latex() for table in printed)}
    lines: dict[str, list[Line]] = {"table.csv": []}
    lines |= {"differences.csv": []} if comparison.against else {}
    for do, measured in comparison.measured.items():
        reference, every = comparison.reference(do), measured.every.values()
        for row in measured.rows:
            asked = do, row.cell.guidance
            own = Line((row.run.name, *asked), tuple(values[row] for values in every))
            paper = _of_paper(row, tuple(measured.every), ("the paper", *asked))
            lines["table.csv"] += filter(None, [own, paper])
            if reference:
                gaps = tuple(gap(values[row], values[reference]) for values in every)
                lines["differences.csv"].append(replace(own, cells=gaps))
    columns = tuple(next(iter(comparison.measured.values())).every)  # the same in all
    for name, own in lines.items():
        texts[name] = Table(("model", "do", "guidance"), columns, tuple(own)).csv()
    return {name: text.encode() for name, text in texts.items()}
