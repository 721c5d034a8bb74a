"""Tables of anchored predictions beside plain ones, from the result files under docs/results."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import factorial_tables
from fcfg.causal.attributes import Continuous
from fcfg.datasets import portraits
from fcfg.evaluation import read_results
from fcfg.evaluation.metric_table import METRICS
from fcfg.evaluation.summary import Cell, Summary
from fcfg.metrics import Estimate
from fcfg.pipeline.calibration import Calibration
from fcfg.reports.numbers import listed, number, with_interval
from fcfg.reports.rule_styles import setting
from fcfg.reports.tables import table_row
from reproduction_tables import RESULTS, summary_of

MODELS = Path(__file__).parents[1] / "src" / "fcfg" / "pipeline" / "models"
FCFG = "fcfg:affected=3.0,invariant=1.2"
_INFERRED = "cfg:1.5;anchor=true"  # the guidances of the study of ghosts
_DRAWN = "contrast:1.5;anchor=true;drawn_noise=true"
_TRUTH = [
    *("do", "answer", "asked attribute", "other attributes", "error", "error of the change"),
    *("error after return", "network evaluations"),
]
_UNTUNED = "not calibrated"  # nor is any FCFG in the files read here
_REFERENCE = (
    "Fréchet distances are to the factual images of the run: changing nothing would score 0."
)


def drawings(name: str = "portraits", *, unguided: bool = True) -> str:
    """Return the default of a drawn model beside the paper's rule, against the truth.

    Args:
        name: The shipped model.
        unguided: Whether to show answers without guidance, too.
    """
    drawn, without, _ = _files(name)
    ours_of, plain = summary_of(drawn), summary_of(without)
    calibration = Calibration.read(MODELS / name)
    lines = [_TRUTH, ["---"] * len(_TRUTH)]
    idle = _idle_errors(drawn)
    for do in plain.dos:
        ours = repr(calibration.guidance([do]))
        lines.append([do, "no change", "", "", f"{idle[do]:.4f}", "1", "0", "0"])
        for summary, text in ((plain, "none"), (plain, FCFG), (ours_of, ours)):
            label = _default(text) if text == ours else _label(text)
            if unguided or text != "none":
                lines.append([do, label, *_against_truth(summary.cells[do, text])])
    return _table(lines, [drawn, without])


def front() -> str:
    """Return the same with calibrated FCFG; the page of results names the files."""
    heads, rule, *rows = drawings(unguided=False).partition("\n\n")[0].splitlines()
    lines = [heads, rule]
    for row in rows:
        if "**" in row:  # the default stands last
            do = row.split(" | ")[0].removeprefix("| ")
            lines += map(table_row, factorial_tables.front_rows(do))
        lines.append(row)
    return "\n".join(lines)


def front_brief() -> str:
    """Return the same without intervals, for the README."""
    return re.sub(r" ± [0-9.]+", "", front())


def _default(text: str) -> str:
    """Return the name of a calibrated default with drawn noise."""
    rule = setting(text).label.removeprefix("anchored ").removesuffix(" drawn noise")
    return f"**the default, calibrated: {rule}, anchored with drawn noise**"


def _label(text: str) -> str:
    """Return the name of an answer; FCFG says that its weights are not calibrated."""
    label = setting(text).label
    if text == FCFG:
        return f"{label}, the paper's weights, {_UNTUNED}"
    return f"{label}, {_UNTUNED}" if text.startswith("fcfg:") else label


def _files(name: str) -> list[Path]:
    """Return the results with drawn noise, without an anchor, and with inferred noise."""
    names = (f"drawn-noise-{name}", f"plain-{name}", f"{name}-anchored")
    return [RESULTS / f"{file}.jsonl.gz" for file in names]


def _against_truth(cell: Cell) -> list[str]:
    """Return the columns of a table of drawings, behind the intervention and the answer."""
    return [
        _shown(cell.drift.get(cell.do), 2, signed=True),
        _largest(cell),
        *(_shown(e, digits) for e, digits in ((cell.truth_mae, 4), (cell.truth_changed, 2))),
        _shown(cell.reversal_mae, 3),
        f"{cell.evaluations:.0f}",
    ]


def drawn_noise(name: str) -> str:
    """Return anchored answers of drawings with inferred and with drawn noise, both calibrated.

    Args:
        name: The shipped model.
    """
    file, _, other = _files(name)
    drawn_of, inferred_of = summary_of(file), summary_of(other)
    calibration = Calibration.read(MODELS / name)
    lines = [_TRUTH, ["---"] * len(_TRUTH)]
    for do in drawn_of.dos:
        drawn = drawn_of.cells[do, repr(calibration.guidance([do]))]
        (inferred,) = (c for c in inferred_of.cells_of(do) if c.guidance.startswith("contrast:"))
        for cell in (inferred, drawn):
            lines.append([do, setting(cell.guidance).label, *_against_truth(cell)])
        kinds = (("truth_mae", 4), ("truth_changed", 2), ("reversal_mae", 3))
        changes = [
            with_interval(getattr(drawn, kind) - getattr(inferred, kind), digits, signed=True)
            for kind, digits in kinds
        ]
        lines.append([do, "difference", "", "", *changes, ""])
    return f"{_table(lines, [file, other])}\n\n{drawn_of.n} drawings."


def chosen_weights(name: str) -> str:
    """Return calibrated weights beside those that the true counterfactuals would choose.

    Args:
        name: The shipped model.
    """
    heads = ["do", "chosen", "95 % interval"]
    heads += ["truth, by its reading", "truth, by changed pixels", "truth, by all pixels"]
    lines = [heads, ["---"] * len(heads)]
    for do, own in Calibration.read(MODELS / name).attributes.items():
        truth = [f"{own.truth[key]:g}" for key in ("reading", "change", "mae")]
        lines.append([do, f"{own.weight:g}", f"{own.low:g} to {own.high:g}", *truth])
    return "\n".join(map(table_row, lines))


def truth_bound() -> str:
    """Return how close to the truth a network comes that was trained on true counterfactuals."""
    found = json.loads((RESULTS / "truth-bound.json").read_text("utf-8"))
    lines = [["do", "MAE to the truth", "changed pixels"], ["---"] * 3]
    for do, row in found["rows"].items():
        cells = (("truth_mae", 4), ("truth_changed", 2))
        lines.append([do, *(number(row[name]["value"], digits) for name, digits in cells)])
    return "\n".join([*map(table_row, lines), "", f"`{found['command']}`"])


@cache
def _idle_errors(file: Path) -> dict[str, float]:
    """Return the error to the truth of the factual images themselves, under each intervention.

    Args:
        file: Result file of the first drawings of a seed.
    """
    result = read_results(file)
    data, wanted = result.header["data"], dict[str, list[Any]]()
    for row in sorted(result.rows, key=lambda row: row["image"]):
        if row["do"] and row["guidance"] == "none":
            wanted.setdefault(row["do"], []).append(row["target"][row["do"]])
    drawn = portraits.sample(
        len(result.header["images"]), seed=data["seed"], variant=data["format"]
    )
    truths = {do: portraits.counterfactual(drawn, {do: v}).images for do, v in wanted.items()}
    return {do: float((truth - drawn.images).abs().mean()) for do, truth in truths.items()}


def faces() -> str:
    """Return anchored answers beside the paper's rule on test photographs."""
    return _judged("celeba-64", "fid", "photographs", "celeba-64-at-least-real")


def faces_in_brief() -> str:
    """Return the calibrated default beside the paper's rule on test photographs."""
    names = ("celeba-64-fid", "celeba-64-core", "drawn-noise-celeba-64-at-least-real")
    files = [RESULTS / f"{name}.jsonl.gz" for name in names]
    plain, returned, default = map(summary_of, files)
    lines = _judged_heads(default, "photographs", with_fid=False)
    for do in default.dos:
        theirs, back = plain.cells[do, FCFG], returned.cells[do, FCFG]
        lines.append(_judged_row(theirs, back, with_fid=False))
        ours = default.cells_of(do)[-1]  # the others are of weights that were not raised
        row = _judged_row(ours, ours, with_fid=False)
        lines.append([do, _default(ours.guidance), *row[2:]])
    table = _table(lines, files)
    return f"{table}\n\n{default.n} photographs; returns of FCFG of {returned.n} of them."


def unseen_faces() -> str:
    """Return calibrated answers on test photographs that no other evaluation had."""
    file = RESULTS / "drawn-noise-celeba-64-unseen.jsonl.gz"
    summary = summary_of(file)
    lines = _judged_heads(summary, "photographs", with_fid=False)
    for do in summary.dos:
        cells = [cell for cell in summary.cells_of(do) if cell.guidance != "none"]
        lines += [_judged_row(cell, cell, with_fid=False) for cell in cells]
    return f"{_table(lines, [file])}\n\n{summary.n} photographs."


def radiographs() -> str:
    """Return anchored answers beside the paper's rule on held-out radiographs."""
    return _judged("nih", "core", "radiographs")


def _judged(name: str, kind: str, noun: str, *further: str) -> str:
    """Return the table of images whose true counterfactuals nobody knows.

    Args:
        name: Beginning of the names of the result files.
        kind: Experiment with plain answers; those that were reversed are in 'core'.
        noun: What the images are.
        *further: Names of further results with drawn noise.
    """
    files = [RESULTS / f"{name}-{which}.jsonl.gz" for which in ("anchored", kind, "core")]
    files += [RESULTS / f"drawn-noise-{which}.jsonl.gz" for which in (name, *further)]
    anchored, plain, core, *drawn = map(summary_of, files)
    with_fid = any(cell.fid for cell in anchored.cells.values())
    lines = _judged_heads(anchored, noun, with_fid=with_fid)
    for do in anchored.dos:
        cells = {
            text: (plain.cells[do, text], core.cells.get((do, text)))
            for text in ("fcfg:affected=2.0,invariant=1.2", FCFG)
            if (do, text) in plain.cells
        }
        for summary in (anchored, *drawn):
            for cell in summary.cells_of(do):
                cells.setdefault(cell.guidance, (cell, cell))
        shown = [pair for text, pair in cells.items() if text != "none"]
        lines += [_judged_row(cell, back, with_fid=with_fid) for cell, back in shown]
    counts = f"{anchored.n} {noun}"
    if core.n != anchored.n:
        counts += f"; reversals of FCFG of {core.n} of them"
    reference = f" {_REFERENCE}" if with_fid else ""
    return f"{_table(lines, files)}\n\n{counts}.{reference}"


def _judged_heads(summary: Summary, noun: str, *, with_fid: bool) -> list[list[str]]:
    """Return the first lines of the table, down to the row of real images."""
    space, heads = summary.space, ["do", "answer"]
    heads += [f"{a.name}: {'error' if isinstance(a, Continuous) else 'AUROC'}" for a in space]
    heads += ["MAE after return", "LPIPS after return"]
    heads += [*([METRICS["fid"].title] * with_fid), "network evaluations"]
    real = [_shown(summary.real[attribute], 1) for attribute in space.names]
    return [
        *(heads, ["---"] * len(heads)),
        ["", f"real {noun}", *real, *([""] * (3 + with_fid))],
    ]


def _judged_row(cell: Cell, back: Cell | None, *, with_fid: bool, name: str = "{}") -> list[str]:
    """Return the row of an answer.

    Args:
        cell: Its results.
        back: Those of its reversal, if it was reversed.
        with_fid: Whether the table has a column of Fréchet distances.
    """
    return [
        *(cell.do, _label(cell.guidance)),
        *(_shown(estimate, 1) for estimate in cell.effectiveness.values()),
        "–" if back is None else _shown(back.reversal_mae, 3),
        "–" if back is None else _shown(back.reversal_lpips, 3),
        *([f"{cell.fid:.1f}" if cell.fid else "–"] * with_fid),
        f"{cell.evaluations:.0f}",
    ]


def ghosts() -> str:
    """Return anchors of full strength beside weaker ones, with inferred noise."""
    drawings = ("portraits", "portraits-variants")
    return _ghosts(_INFERRED, drawings, ("celeba-64",), ("radiographs",))


def ghosts_drawn() -> str:
    """Return the same with drawn noise."""
    names = ("portraits", "celeba-64", "radiographs")
    return _ghosts(_DRAWN, *((f"{name}-drawn-noise",) for name in names))


def _ghosts(
    guidance: str,
    drawings: Sequence[str],
    photographs: Sequence[str],
    radiographs: Sequence[str],
) -> str:
    """Return a table for each set of questions.

    Args:
        guidance: Guidance of all rows.
        drawings: Names of studies, see :func:`study`.
        photographs: The same, of photographs.
        radiographs: The same, of radiographs.
    """
    faces = {"drawings": drawings, "photographs": photographs}
    first = _ghosts_of(guidance, faces, ("smiling", "male", "young"))
    chests = {"radiographs": radiographs}
    second = _ghosts_of(guidance, chests, ("sex", "view", "age", "effusion"))
    return f"{first}\n\n{second}\n\n{_REFERENCE}"


def _ghosts_of(guidance: str, studies: dict[str, Sequence[str]], dos: tuple[str, ...]) -> str:
    heads = ["images", "sampling", "anchor", *(f"do({do})" for do in dos)]
    lines = [heads, ["---"] * len(heads)]
    for images, names in studies.items():
        cells: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
        for name in names:
            for row in json.loads((RESULTS / f"anchoring-{name}.json").read_text("utf-8"))["rows"]:
                if row["guidance"] == guidance:
                    cells.setdefault((row["sampling"], row["variant"]), {})[row["do"]] = row
        for sampling, kind in sorted(cells):
            own = [_distances(cells[sampling, kind][do]) for do in dos]
            lines.append([images, sampling, _VARIANTS[kind], *own])
    return "\n".join(map(table_row, lines))


_VARIANTS = {"": "as it is", "fade": "fades towards the image", "gate": "gate"}


def _distances(row: dict[str, Any]) -> str:
    """Return the Fréchet distance and the errors of one cell of a study."""
    back = f"{row['reversal_mae']['value']:.3f}"
    if row["truth_mae"] is None:
        return f"{row['fid']:.1f} / {back}"
    return f"{row['fd_judge']:.1f} / {row['truth_changed']['value']:.2f} / {back}"


def repeated_composition() -> str:
    """Return how far images move in one and in ten null interventions in a row."""
    heads = ["images", "answer"]
    heads += [f"{kind}, {n}" for kind in ("MAE", "LPIPS") for n in ("once", "ten times")]
    lines = [heads, ["---"] * len(heads)]
    files = {
        "drawings": RESULTS / "cycles-portraits.jsonl.gz",
        "photographs": RESULTS / "cycles-celeba-64.jsonl.gz",
    }
    for images, file in files.items():
        summary = summary_of(file)
        for text, cell in summary.compositions.items():
            once, often = cell.change_mae, cell.repeated_mae
            far, farther = cell.change_lpips, cell.repeated_lpips
            shown = [_shown(estimate, 4) for estimate in (once, often, far, farther)]
            lines.append([f"{summary.n} {images}", setting(text).label, *shown])
    return _table(lines, list(files.values()))


def study(name: str) -> str:
    """Return the table of tools/anchoring_study.py.

    Args:
        name: ``docs/results/anchoring-NAME.json`` holds the study.
    """
    result = json.loads((RESULTS / f"anchoring-{name}.json").read_text("utf-8"))
    rows: list[dict[str, Any]] = result["rows"]
    dos = list(dict.fromkeys(row["do"] for row in rows))
    heads = ["sampling", "guidance", "network rows", *(f"do({do})" for do in dos)]
    lines = [heads, ["---"] * len(heads)]
    cells = {(r["sampling"], r["variant"], r["guidance"], r["do"]): r for r in rows}
    for sampling, variant, guidance in dict.fromkeys(key[:3] for key in cells):
        own = [cells[sampling, variant, guidance, do] for do in dos]
        lines.append(
            [
                f"{sampling} {variant}".strip(),
                setting(guidance).label,
                f"{own[0]['evaluations']:.0f}",
                *map(_measures, own),
            ]
        )
    about = f"{result['images']} validation images; `{result['command']}`, "
    about += f"{result['environment']['device']}, commit {result['commit'][:12]}."
    about += f" {_REFERENCE}" if rows[0]["fid"] is not None else ""
    return "\n".join([*map(table_row, lines), "", about])


def _measures(row: dict[str, Any]) -> str:
    """Return the numbers of one cell of a study, separated by slashes."""
    back = f"{row['reversal_mae']['value']:.3f}"
    if row["truth_mae"] is None:
        auroc = " ".join(f"{e['value']:.1f}" for e in row["effectiveness"].values())
        return f"{auroc} / {back} / {row['reversal_lpips']['value']:.3f} / {row['fid']:.1f}"
    (target,) = row["targets"]
    errors = f"{row['truth_mae']['value']:.4f} / {row['truth_changed']['value']:.2f}"
    return f"{errors} / {back} / {row['drift'][target]['value']:+.2f}"


def _largest(cell: Cell) -> str:
    """Return the largest drift of an attribute that should stay."""
    drifts = [cell.drift[name] for name in cell.invariant if name in cell.drift]
    largest = max(drifts, key=lambda drift: abs(drift.value), default=None)
    return _shown(largest, 2, signed=True)


def _shown(estimate: Estimate | None, digits: int, *, signed: bool = False) -> str:
    """Return a value and half the width of its interval."""
    if estimate is None:
        return "–"
    half = (estimate.high - estimate.low) / 2
    return f"{number(estimate.value, digits, signed=signed)} ± {number(half, digits)}"


def _table(lines: list[list[str]], files: Sequence[Path]) -> str:
    """Return the table, then the files that its rows are from; each holds its own command."""
    sources = []
    for file in dict.fromkeys(files):
        header = summary_of(file).header
        how = f"{header['steps']} steps, {header['grid']}, {header['environment']['precision']}"
        sources.append(f"`docs/results/{file.name}` ({how})")
    return "\n".join([*map(table_row, lines), "", f"From {listed(sources)}."])
