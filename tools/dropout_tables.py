"""What dropping the condition less, dropping single attributes, and the independence term change.

The files are docs/results/dropout-PRESET.jsonl.gz, dropout-PRESET-diagnosis.json and
dropout-PRESET-training.jsonl, of the short runs in docs/training.md.
"""

from __future__ import annotations

import json
from typing import Any

from fcfg.evaluation import Cell, Summary, read_results, summarise
from fcfg.metrics import Estimate
from fcfg.reports.numbers import interval, number, off_target, on_target
from fcfg.reports.paper import paper_rows
from fcfg.reports.rule_styles import setting
from fcfg.reports.tables import table_row
from reproduction_tables import RESULTS

#: Presets and what they change.
PRESETS = {
    "portraits-dropout-02": "p_null 0.2",
    "portraits": "p_null 0.5",
    "portraits-dropout-groups": "p_null 0.5, p_group 0.3",
    "portraits-independence": "the same, independence 1",
}
_DO = "smiling"
_FACTORED = "fcfg:affected=3.0,invariant=1.2"
_PAPER = "tab:app_dropout_ablation"


def table() -> str:
    """Return the paper's table with our columns, and what else the presets change."""
    runs = {name: summarise(read_results(_file(name))) for name in PRESETS}
    command = next(iter(runs.values())).header["command"]
    return "\n\n".join([_reversal(runs), _models(runs), f"`{command}`, and so on."])


def _file(name: str) -> str:
    return str(RESULTS / f"dropout-{name}.jsonl.gz")


def _reversal(runs: dict[str, Summary]) -> str:
    """Return MAE and LPIPS after reversal, by rule."""
    paper = {row.method: row for row in paper_rows("celeba-hq") if row.table == _PAPER}
    lines = [["rule", "paper, 0.2", "paper, 0.5", *PRESETS.values()]]
    lines.append(["---"] * len(lines[0]))
    for cell in next(iter(runs.values())).cells_of(_DO):
        label = setting(cell.guidance).label
        rows = [paper.get(f"{label.split()[0]}, p_null = {p}") for p in ("0.2", "0.5")]
        theirs = [f"{row.mae:.3f} / {row.lpips:.3f}" if row else "–" for row in rows]
        ours = [_back(summary.cells[_DO, cell.guidance]) for summary in runs.values()]
        lines.append([label, *theirs, *ours])
    return "\n".join(map(table_row, lines))


def _back(cell: Cell) -> str:
    assert cell.reversal_mae is not None
    assert cell.reversal_lpips is not None
    return f"{_with_half(cell.reversal_mae, 3)} / {number(cell.reversal_lpips.value, 3)}"


def _models(runs: dict[str, Summary]) -> str:
    """Return gap, shifts and error of the change, by preset."""
    head = ["preset", "validation loss", "gap of the groups", "target, unguided", "target, FCFG"]
    lines = [[*head, "off target, FCFG", "error of the change, FCFG"]]
    lines.append(["---"] * len(lines[0]))
    for name, summary in runs.items():
        plain, factored = summary.cells[_DO, "none"], summary.cells[_DO, _FACTORED]
        stay = [each for each in factored.attributes if each != _DO]
        shifts = [on_target([plain], [_DO]), on_target([factored], [_DO])]
        shifts.append(off_target([factored], stay))
        texts = [_with_half(shift, 2, signed=True) for shift in shifts]
        error = _with_half(factored.truth_changed, 2)
        lines.append([f"`{name}`", number(_loss(name), 4), _gap(name), *texts, error])
    return "\n".join(map(table_row, lines))


def _loss(name: str) -> float:
    """Return the last validation loss, without the independence term."""
    log = (RESULTS / f"dropout-{name}-training.jsonl").read_text("utf-8").splitlines()
    last = [entry for entry in map(json.loads, log) if "validation_loss" in entry][-1]
    return last.get("validation_without_independence", last["validation_loss"])


def _gap(name: str) -> str:
    found = json.loads((RESULTS / f"dropout-{name}-diagnosis.json").read_text("utf-8"))
    gap: dict[str, Any] = found["by_attribute"]["overall"]
    value, low, high = (100 * gap[key] for key in ("value", "low", "high"))
    return f"{value:.0f} % {interval(low, high, 0)}"


def _with_half(estimate: Estimate | None, digits: int, *, signed: bool = False) -> str:
    """Return an estimate and half of its interval."""
    assert estimate is not None
    half = number((estimate.high - estimate.low) / 2, digits)
    return f"{number(estimate.value, digits, signed=signed)} ± {half}"
