"""Tables of several models on the same images, for docs/rivals.md.

The result files of a comparison are docs/results/rivals-DATA-MODEL.jsonl.gz, one for each model.
Seconds are left out: models were trained on the same GPU meanwhile. See rivals_seconds.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from fcfg.evaluation.metric_table import FACTUAL
from fcfg.metrics import Estimate
from fcfg.reports import compare, comparison_reading
from fcfg.reports.comparison import Comparison, Row
from fcfg.reports.comparison_columns import Column, columns
from fcfg.reports.numbers import named, number
from fcfg.reports.paper import paper_rows
from fcfg.reports.rule_styles import setting
from fcfg.reports.tables import table_row
from reproduction_tables import RESULTS

#: Runs on the same faces: 400 of them, and the 200 of SA-DCG.
_WHOLE = (
    (
        *("celeba-64-default", "celeba-64-karras-20"),
        *("celeba-64-hvae-celeba-64", "celeba-64-hvae-soft-celeba-64"),
    ),
    ("faces-200-default", "faces-200-karras-20", "celeba-64-sadcg-celeba-64"),
)

#: An earlier training of SA-DCG, and the one that is compared.
_SADCG = {
    "drawings": ("earlier-portraits-sadcg", "portraits-sadcg-portraits"),
    "faces": ("earlier-celeba-64-sadcg", "celeba-64-sadcg-celeba-64"),
}
_SHOWN = ("unguided", "CFG 2.0", "anchored CFG 2.0")
_ASKED = {  # by their names in sadcg-portraits-semantics.json
    "readout": "a linear readout of the semantics, on factual drawings",
    "attributes": "the judge, after an intervention on the attribute",
    "semantics": "the judge, after an exchange of the semantics",
}


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
    text = "\n\n".join([reading, *notes, *tables, "  \n".join(commands)])
    return text.replace(f"(rivals-{data}-", "(")  # a model with two runs is named after its files


def distances() -> str:
    """Return Fréchet distances and minimality on faces, which need all images of a run."""
    lines: list[list[str]] = []
    for names in _WHOLE:
        runs = compare([RESULTS / f"rivals-{name}.jsonl.gz" for name in names])
        heads = [f"{kind}, {named(do)} ↓" for kind in ("FD-judge", "CLD") for do in runs.dos]
        lines = lines or [["images", "model", "setting", *heads], ["---"] * (3 + len(heads))]
        for alike in zip(*(runs.rows(do) for do in runs.dos), strict=True):
            labels = " / ".join(dict.fromkeys(row.label for row in alike))
            cells = [
                _cell(column, row, is_best=False)
                for heading in ("FD-judge", "CLD")
                for do, row in zip(runs.dos, alike, strict=True)
                for column in columns(runs, do)
                if column.heading == heading
            ]
            name = re.sub(r"\(rivals-(celeba-64|faces-200)-", "(", alike[0].system.name)
            lines.append([str(runs.n), name, labels, *cells])
    table = "\n".join(map(table_row, lines))
    note = f"FD-judge and CLD compare with the {FACTUAL}: changing nothing would score 0 and 0.30."
    return f"{table}\n\n{note}"


def sadcg_steps() -> str:
    """Return what SA-DCG answers after trainings of different length."""
    lines: list[list[str]] = []
    for data, names in _SADCG.items():
        runs = compare([RESULTS / f"rivals-{name}.jsonl.gz" for name in names])
        kinds = {"effectiveness": "target ↑", "after reversal": "MAE after reversal ↓"}
        heads = [f"{kind}, {named(do)}" for kind in kinds.values() for do in runs.dos]
        lines = lines or [["data", "steps", "setting", *heads], ["---"] * (3 + len(heads))]
        for alike in zip(*(runs.rows(do) for do in runs.dos), strict=True):
            if alike[0].label not in _SHOWN:
                continue
            header = alike[0].system.header
            steps = int(header["model"]["provenance"]["steps"]["diffusion"].split(" of ")[0])
            cells = [
                _cell(next(c for c in columns(runs, do) if c.group == kind), row, is_best=False)
                for kind in kinds
                for do, row in zip(runs.dos, alike, strict=True)
            ]
            lines.append([data, f"{steps:,}", alike[0].label, *cells])
    return "\n".join(map(table_row, lines))


def semantics() -> str:
    """Return what tells the attributes of SA-DCG's drawings: AUROC × 100."""
    found = json.loads((RESULTS / "sadcg-portraits-semantics.json").read_text("utf-8"))
    names = list(found["auroc"]["readout"])
    lines = [["read by", *names], ["---"] * (1 + len(names))]
    for key, text in _ASKED.items():
        lines.append([text, *(number(found["auroc"][key][name], 1) for name in names)])
    table = "\n".join(map(table_row, lines))
    return f"{table}\n\n`{found['provenance']['command']}`"


def paper() -> str:
    """Return the rows of the paper's own comparison."""
    lines = [["data", "do", "method", "Δ target", "Δ off target", "MAE", "LPIPS"]]
    lines.append(["---"] * len(lines[0]))
    rows = [row for data in ("celeba-hq", "mimic-cxr") for row in paper_rows(data)]
    for row in (row for row in rows if row.table == "tab:app_baseline_comparison"):
        method = row.method or setting(row.guidance or "none").label
        others = [change for name, change in row.delta.items() if name != row.do]
        off = row.off_target if row.off_target is not None else others[0]
        changes = [number(change, 1, signed=True) for change in (row.delta[row.do], off)]
        back = ["–" if value is None else number(value, 3) for value in (row.mae, row.lpips)]
        lines.append([row.dataset, row.do, method, *changes, *back])
    return "\n".join(map(table_row, lines))


def _table(comparison: Comparison, do: str) -> str:
    shown = [c for c in columns(comparison, do) if c.heading != "seconds"]
    rows = comparison.rows(do)
    heads = [" ".join(filter(None, (c.group, c.heading, _unit(c, shown), c.arrow))) for c in shown]
    lines = [["model", "setting", "parameters", *heads]]
    lines.append(["---"] * len(lines[0]))
    best = {column: column.best(rows) for column in shown}
    for row in rows:
        cells = [_cell(column, row, is_best=best[column] is row) for column in shown]
        lines.append([row.system.name, row.label, row.system.parameters, *cells])
    return "\n".join(map(table_row, lines))


def _unit(column: Column, shown: Sequence[Column]) -> str:
    """Return the unit of a column, if another one has the same heading."""
    alike = [c for c in shown if (c.group, c.heading) == (column.group, column.heading)]
    return f"in {column.unit}" if len(alike) > 1 else ""


def _cell(column: Column, row: Row, *, is_best: bool) -> str:
    value, digits = column.get(row), column.metric.digits
    if value is None:
        return "–"
    if not isinstance(value, Estimate):
        return number(value, digits)
    text = f"{number(value.value, digits)} ± {number((value.high - value.low) / 2, digits)}"
    return f"**{text}**" if is_best else text
