"""What dropping the condition less, dropping single attributes, and the independence term change.

The files are docs/results/dropout-PRESET.jsonl.gz and dropout-PRESET-diagnosis.json, of the short
runs in docs/training.md.
"""

from __future__ import annotations

import json

from diagnosis_tables import percent
from fcfg.evaluation import Cell, Summary, read_results, summarise
from fcfg.metrics import Estimate
from fcfg.reports.numbers import number, off_target, on_target
from fcfg.reports.paper import paper_rows
from fcfg.reports.rule_styles import setting
from fcfg.reports.tables import table_row
from reproduction_tables import RESULTS

PRESETS = (
    *("portraits-dropout-02", "portraits"),
    *("portraits-dropout-groups", "portraits-independence"),
)
#: Pairs of presets that differ in one option.
_DIFFERENCES = {
    "p_null 0.2 − 0.5": PRESETS[:2],
    "p_group 0.3 − 0": (PRESETS[2], PRESETS[1]),
    "independence 1 − 0": (PRESETS[3], PRESETS[2]),
}
_DO = "smiling"
_FACTORED = "fcfg:affected=3.0,invariant=1.2"
_PAIRS = ("male and young", "smiling and male", "smiling and young")
_PAPER = "tab:app_dropout_ablation"


def table() -> str:
    """Return the paper's table with our columns, and what else the presets change."""
    runs = {name: summarise(read_results(_file(name))) for name in PRESETS}
    command = next(iter(runs.values())).header["command"]
    return "\n\n".join([_reversal(runs), _models(runs), f"`{command}`, and so on."])


def _file(name: str) -> str:
    return str(RESULTS / f"dropout-{name}.jsonl.gz")


def _reversal(runs: dict[str, Summary]) -> str:
    """Return MAE and LPIPS after reversal by rule, and paired differences of the MAE."""
    paper = {row.method: row for row in paper_rows("celeba-hq") if row.table == _PAPER}
    lines = [["rule", "paper, 0.2", "paper, 0.5", "ours, 0.2", "ours, 0.5", *_DIFFERENCES]]
    lines.append(["---"] * len(lines[0]))
    for cell in next(iter(runs.values())).cells_of(_DO):
        label = setting(cell.guidance).label
        rows = [paper.get(f"{label.split()[0]}, p_null = {p}") for p in ("0.2", "0.5")]
        texts = [f"{row.mae:.3f} / {row.lpips:.3f}" if row else "–" for row in rows]
        cells = {name: summary.cells[_DO, cell.guidance] for name, summary in runs.items()}
        texts += [_back(cells[name]) for name in ("portraits-dropout-02", "portraits")]
        for one, other in _DIFFERENCES.values():
            change = _mae(cells[one]) - _mae(cells[other])
            texts.append(_with_half(change, 4, signed=True))
        lines.append([label, *texts])
    return "\n".join(map(table_row, lines))


def _mae(cell: Cell) -> Estimate:
    assert cell.reversal_mae is not None
    return cell.reversal_mae


def _back(cell: Cell) -> str:
    assert cell.reversal_lpips is not None
    return f"{number(_mae(cell).value, 3)} / {number(cell.reversal_lpips.value, 3)}"


def _models(runs: dict[str, Summary]) -> str:
    """Return gaps, shifts and the error on changed pixels, by preset."""
    gaps = ["gap", *_PAIRS]
    lines = [["preset", *gaps, "target, unguided", "target, FCFG", "off target, FCFG", "error"]]
    lines.append(["---"] * len(lines[0]))
    for name, summary in runs.items():
        plain, factored = summary.cells[_DO, "none"], summary.cells[_DO, _FACTORED]
        stay = [each for each in factored.attributes if each != _DO]
        shifts = [on_target([plain], [_DO]), on_target([factored], [_DO])]
        shifts.append(off_target([factored], stay))
        texts = [_with_half(shift, 2, signed=True) for shift in shifts]
        error = _with_half(factored.truth_changed, 2)
        lines.append([f"`{name}`", *_gaps(name), *texts, error])
    return "\n".join(map(table_row, lines))


def _gaps(name: str) -> list[str]:
    """Return the gap of one group per attribute, and those of pairs."""
    found = json.loads((RESULTS / f"dropout-{name}-diagnosis.json").read_text("utf-8"))
    pairs = {" and ".join(n for (n,) in gap["groups"]): gap for gap in found["pairs"]}
    return [percent(gap) for gap in (found["by_attribute"], *(pairs[pair] for pair in _PAIRS))]


def _with_half(estimate: Estimate | None, digits: int, *, signed: bool = False) -> str:
    """Return an estimate and half of its interval."""
    assert estimate is not None
    half = number((estimate.high - estimate.low) / 2, digits)
    return f"{number(estimate.value, digits, signed=signed)} ± {half}"
