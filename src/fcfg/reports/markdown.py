"""Tables for README and documentation, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fcfg.evaluation.summary import Summary
from fcfg.reports.metric_values import METRICS, Entry, effectiveness, entries, heading
from fcfg.reports.rule_styles import setting
from fcfg.reports.texts import measured_with
from fcfg.support.errors import check_among


def markdown_table(
    summary: Summary,
    *,
    attributes: Sequence[str] = ("auroc", "delta"),
    images: Sequence[str] = ("reversal_mae", "reversal_lpips"),
    dos: Sequence[str] | None = None,
    guidance: Sequence[str] | None = None,
    paper: bool = True,
) -> str:
    """One row for each intervention and guidance, one column for each attribute.

    Half the width of the 95 % interval follows each number; the paper's stand under ours, in
    italics, where it has the setting. Columns that would be empty are left out.

    Args:
        summary: Of a run.
        attributes: Metrics of attributes, all in the attribute's column; auroc stands for the
            error where an attribute is continuous.
        images: Metrics of whole images, a column each.
        dos: The interventions to show; all by default.
        guidance: The settings to show; all by default.
        paper: Whether to show the paper's numbers.
    """
    for metric in (*attributes, *images):
        check_among("metric", metric, METRICS)
    for do in dos or ():
        check_among("intervention", do, summary.dos)
    for text in guidance or ():
        check_among("guidance", text, summary.settings)
    found = entries(summary)
    columns: dict[str, list[tuple[str, str]]] = {}
    for name in summary.space.names:
        own = effectiveness(summary, name)
        metrics = [own if metric == "auroc" else metric for metric in attributes]
        there = [m for m in metrics if any(key[2:] == (m, name) for key in found)]
        title = f"{name}: {' / '.join(heading(summary, m, name) for m in there)}"
        columns |= {title: [(m, name) for m in there]} if there else {}
    for metric in images:
        if any(key[0] and key[2] == metric for key in found):
            columns[METRICS[metric].title] = [(metric, "")]
    rows = [["do", "guidance", *columns], ["---"] * (2 + len(columns))]
    for do, text in summary.cells:
        if do in (dos or summary.dos) and text in (guidance or summary.settings):
            cells = [[found.get((do, text, *key)) for key in keys] for keys in columns.values()]
            shown = [_cell(cell, paper) for cell in cells]
            rows.append([do.replace("+", ", "), setting(text).label, *shown])
    return "\n".join([*map(table_row, rows), "", measured_with(summary)]) + "\n"


def table_row(cells: Iterable[str]) -> str:
    r"""One line of a table.

    >>> table_row(["do", "a|b"])
    '| do | a\\|b |'
    """
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def number(entry: Entry) -> str:
    """A number with half the width of its interval."""
    half = entry.half
    margin = "" if half is None else f" ± {entry.text(half).lstrip('+')}"
    return entry.text(entry.value) + margin


def _cell(cell: Sequence[Entry | None], paper: bool) -> str:
    ours = " / ".join("–" if entry is None else number(entry) for entry in cell)
    theirs = ["–" if e is None or e.paper is None else e.text(e.paper) for e in cell]
    if not paper or set(theirs) == {"–"}:
        return ours
    return f"{ours}<br>*{' / '.join(theirs)}*"
