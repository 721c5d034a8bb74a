"""The table of a model card: the distance of a model of the drawn world from the truth.

Table and verdicts are functions of the result file of tools/portraits_truth.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "docs" / "results"
UNGUIDED, CFG, FCFG = "none", "cfg:3.0", "fcfg:affected=3.0,invariant=1.2"

# Demands on a shipped model: the largest error at ω = 1 on the pixels that truly change, and the
# largest share of the amplification of CFG under FCFG.
CHANGED_ERROR = {"smiling": 0.5, "male": 0.65, "young": 0.5}
AMPLIFICATION = {"smiling": 1 / 5, "male": 1 / 3, "young": 1 / 3}


def verdicts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Check the demands on a shipped model.

    The demand on amplification applies only where CFG amplifies, with its interval above 0.
    Otherwise ``met`` is None.
    """
    found = {(row["do"], row["guidance"]): row for row in rows}
    answers: list[dict[str, Any]] = []
    for do, limit in CHANGED_ERROR.items():
        if (do, UNGUIDED) not in found:
            continue
        value = found[do, UNGUIDED]["changed_error"]["mean"]
        demand = f"do({do}), ω = 1: error on the pixels that truly change"
        answers.append(_verdict(demand, value, "at most", limit))
        cfg, fcfg = (found[do, guidance]["factor_error"] for guidance in (CFG, FCFG))
        for name in cfg:
            if name == do:
                continue
            value, limit = max(0.0, fcfg[name]["mean"]), AMPLIFICATION[do] * cfg[name]["mean"]
            demand = (
                f"do({do}): amplification of {name} under FCFG (3.0, 1.2), against "
                f"1/{1 / AMPLIFICATION[do]:.0f} of that under CFG 3.0"
            )
            applies = cfg[name]["low"] > 0
            answers.append(_verdict(demand, value, "at most", max(0.0, limit), applies))
        demand = f"do({do}): shift of the target under FCFG (3.0, 1.2), against CFG 3.0"
        answers.append(_verdict(demand, fcfg[do]["mean"], "at least", cfg[do]["mean"]))
    return answers


def _verdict(
    demand: str, value: float, sense: str, limit: float, applies: bool = True
) -> dict[str, Any]:
    met = value <= limit if sense == "at most" else value >= limit
    return {
        "demand": demand,
        "value": value,
        "sense": sense,
        "limit": limit,
        "met": met if applies else None,
    }


def card_table(name: str) -> str:
    """Return the table of a shipped model."""
    return markdown(json.loads((RESULTS / f"{name}-truth.json").read_text("utf-8")))


def markdown(result: dict[str, Any]) -> str:
    """Return the table, its provenance and the verdicts.

    Args:
        result: Contents of a result file of tools/portraits_truth.py.
    """
    rows = result["rows"]
    factors, scores = list(rows[0]["factor_error"]), list(rows[0]["auroc"])
    columns: dict[str, list[str]] = {
        "do": [row["do"] for row in rows],
        "guidance": [f"`{row['guidance']}`" for row in rows],
        "error on changed pixels": [_interval(row["changed_error"], "") for row in rows],
        "MAE": [f"{row['image_mae']:.4f}" for row in rows],
    }
    for name in factors:
        columns[f"factor error, {name}"] = [_interval(r["factor_error"][name], "+") for r in rows]
    columns[f"AUROC {' / '.join(scores)}"] = [
        " / ".join("–" if v is None else f"{100 * v:.1f}" for v in row["auroc"].values())
        for row in rows
    ]
    if rows[0]["attribute_accuracy"]:
        columns["attributes right"] = [
            ", ".join(f"{name} {share:.3f}" for name, share in row["attribute_accuracy"].items())
            for row in rows
        ]
    if any(row["reversal_mae"] is not None for row in rows):
        columns["reversal MAE"] = [f"{row['reversal_mae']:.4f}" for row in rows]
    lines = [_line(columns), _line(["---"] * len(columns))]
    lines += [_line(cells) for cells in zip(*columns.values(), strict=True)]
    lines += ["", _measured_with(result)]
    if result["verdicts"]:
        lines += ["", *(f"- {verdict_line(verdict)}" for verdict in result["verdicts"])]
    return "\n".join(lines) + "\n"


def verdict_line(verdict: dict[str, Any]) -> str:
    """Return a verdict as a sentence."""
    met = {True: "met", False: "**not met**", None: "no demand, CFG does not surely amplify"}
    return (
        f"{verdict['demand']}: {verdict['value']:z.3f}, wanted {verdict['sense']} "
        f"{verdict['limit']:z.3f}: {met[verdict['met']]}"
    )


def _measured_with(result: dict[str, Any]) -> str:
    commit = (result["commit"] or "unknown")[:12]
    dirty = {True: " with changes", False: "", None: ""}[result["dirty"]]
    environment = result["environment"]
    return (
        f"{result['n']:,} held-out drawings of `{result['variant']}` (seed {result['seed']:,}), "
        f"{result['steps']} steps of DDIM, {result['precision']} on {environment['device']} "
        f"(torch {environment['torch']}); 95 % intervals from "
        f"{result['bootstrap']['resamples']:,} resamples of the images; factor errors against "
        "the true counterfactual, in standard deviations of the factor, positive where the "
        "attribute shows too strongly. fcfg "
        f"{result['fcfg']}, commit {commit}{dirty}, config.json "
        f"sha256 {result['model']['config_sha256'][:12]}."
    )


def _interval(interval: dict[str, float], sign: str) -> str:
    mean, low, high = (format(interval[key], f"{sign}z.2f") for key in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"
