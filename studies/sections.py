"""The generated sections of the documentation, from the stored results."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from estimates import UNTUNED, Line, dos, kept, kept_rows, read, run, source, stored, table
from fcfg.guidance import Guidance
from fcfg.reports.wording import number
from fcfg.storage import shipped
from frontiers import equal_strength

FCFG = "fcfg:affected=3.0,invariant=1.2"
_FACES = ("smiling", "male", "young")
_TRUTH = (
    *("do", "answer", "asked attribute", "other attributes", "error", "error of the change"),
    *("error after return", "network evaluations"),
)
_ANCHORS = {
    "plain": "",
    "inferred": ", anchored to inferred noise",
    "drawn": ", anchored with drawn noise",
}


def front() -> str:
    """Return the default on drawings beside no change and FCFG, against the truth."""
    rows: list[list[str]] = []
    for do in _FACES:
        rows += [_no_change(do, "portraits"), _of_paper(do, "portraits")]
        for name, line in _equal_care(do):
            if name.startswith("FCFG") and "inferred" not in name:
                rows.append([do, name, *_factorial(line, do, "A")])
        rows.append(_default(do, "portraits"))
    return table(_TRUTH, rows)


def drawings(name: str) -> str:
    """Return the default of a drawn model beside no change and FCFG at the paper's weights.

    Args:
        name: The shipped model.
    """
    rows: list[list[str]] = []
    for do in dos(run(name, f"plain-{name}")):
        plain = run(name, f"plain-{name}")[do, "none"]
        rows += [_no_change(do, name), [do, "unguided", *_against_truth(plain)]]
        rows += [_of_paper(do, name), _default(do, name)]
    runs = (f"drawn-noise-{name}", f"plain-{name}")
    return f"{table(_TRUTH, rows)}\n\n{source(name, *runs)}"


def _no_change(do: str, name: str) -> list[str]:
    error = run(name, "no-change")[do, "no change"].plain("truth_mae", 4)
    return [do, "no change", "", "", error, "1", "0", "0"]


def _of_paper(do: str, name: str) -> list[str]:
    line = run(name, f"plain-{name}")[do, FCFG]
    return [do, f"FCFG 3.0 / 1.2, the paper's weights, {UNTUNED}", *_against_truth(line)]


def _default(do: str, name: str) -> list[str]:
    line = _calibrated(do, name)
    rule = _rule(line)
    label = f"**the default, calibrated: {rule}, anchored with drawn noise**"
    return [do, label, *_against_truth(line)]


def _calibrated(do: str, name: str) -> Line:
    """Return the line of a shipped model's default."""
    weight = _weights(name)[do]["weight"]
    return run(name, f"drawn-noise-{name}")[do, f"contrast:{weight};anchor=true;drawn_noise=true"]


def _weights(name: str) -> dict[str, dict[str, float]]:
    return json.loads((shipped()[name] / "calibration.json").read_text("utf-8"))["attributes"]


def _rule(line: Line) -> str:
    return line.label.removeprefix("anchored ").removesuffix(" drawn noise")


def _against_truth(line: Line) -> list[str]:
    """Return the columns of a table of drawings, behind the intervention and the answer."""
    return [
        line.shown(f"factor_error {line['do']}", 2, signed=True),
        line.shown(line.largest("factor_error"), 2, signed=True),
        *(line.shown(key, digits) for key, digits in (("truth_mae", 4), ("truth_changed", 2))),
        line.shown("reversal_mae", 3),
        line.plain("evaluations", 0),
    ]


def _equal_care(do: str, training: str = "shipped") -> Iterator[tuple[str, Line]]:
    """Yield every method that was calibrated with equal care, and its numbers."""
    for line in read("factorial"):
        if (line["do"], line["weights"], line["training"]) == (do, "calibrated", training):
            rule, anchor = line["method"].split()
            weights = Guidance.parse(line["guidance"]).weights
            numbers = " / ".join(f"{weight:g}" for _, weight in weights)
            yield f"{rule} {numbers}{_ANCHORS[anchor]}, calibrated", line


def _factorial(line: Line, do: str, judge: str) -> list[str]:
    prefix = f"shift {judge} "
    others = [
        key
        for key in line.fields
        if key.startswith(prefix) and not key.endswith((" low", " high")) and key != prefix + do
    ]
    largest = max(others, key=lambda key: abs(line.value(key) or 0.0))
    return [
        *(line.shown(prefix + do, 2, signed=True), line.shown(largest, 2, signed=True)),
        *(line.shown("mae", 4), line.shown("changed", 2)),
        *(line.shown("reversal, same noise", 3), line.plain("rows", 0)),
    ]


def drawn_noise() -> str:
    """Return what drawn noise changes on drawings: paired differences of two defaults."""
    kinds = {
        "truth_mae": ("error", 4),
        "truth_changed": ("error of the change", 2),
        "reversal_mae": ("error after return", 3),
    }
    found: dict[tuple[str, str], list[str]] = {}
    for line in read("differences"):
        model = line["run"].removeprefix("drawn-noise-")
        cell = line.shown("difference", kinds[line["metric"]][1], signed=True)
        found.setdefault((model, line["do"]), []).append(cell)
    heads = ["model", "do", *(title for title, _ in kinds.values())]
    rows = [[model, do, *cells] for (model, do), cells in found.items()]
    end = "Paired differences on 1,000 drawings; [CSV](../studies/results/differences.csv)."
    return f"{table(heads, rows)}\n\n{end}"


def faces_in_brief() -> str:
    """Return the calibrated default beside the paper's rule on test photographs."""
    plain, returned = run("celeba", "celeba-64-fid"), run("celeba", "celeba-64-core")
    name = "drawn-noise-celeba-64-at-least-real"
    default, rows = run("celeba", name), [_real("celeba", name, "photographs")]
    for do in _FACES:
        rows.append(_judged(plain[do, FCFG], returned[do, FCFG]))
        line = _last(default, do)  # the others are of weights that were not raised
        label = f"**the default, calibrated: {_rule(line)}, anchored with drawn noise**"
        rows.append([do, label, *_judged(line, line)[2:]])
    about = stored("runs")
    counts = f"{about[name]['images']} photographs; returns of FCFG of "
    counts += f"{about['celeba-64-core']['images']} of them."
    names = ("celeba-64-fid", "celeba-64-core", name)
    return f"{table(_judged_heads(_FACES), rows)}\n\n{source('celeba', *names)}\n\n{counts}"


def radiographs() -> str:
    """Return anchored answers beside the paper's rule on held-out radiographs."""
    core, rows = run("radiographs", "nih-core"), [_real("radiographs", "nih-anchored", "images")]
    attributes = ("sex", "age", "effusion", "view")
    for do in dos(core):
        rows.append(_judged(core[do, FCFG], core[do, FCFG], attributes))
        for name in ("nih-anchored", "drawn-noise-nih"):  # not raised: the first after 1.5
            lines = [line for key, line in run("radiographs", name).items() if key[0] == do]
            line = next(line for line in lines if not _ROUND.match(line["guidance"]))
            rows.append(_judged(line, line, attributes))
    names = ("nih-core", "nih-anchored", "drawn-noise-nih")
    return f"{table(_judged_heads(attributes), rows)}\n\n{source('radiographs', *names)}"


_ROUND = re.compile("none|[a-z]+:1.5;")  # not calibrated


def _last(lines: dict[tuple[str, str], Line], do: str) -> Line:
    return next(line for line in reversed(lines.values()) if line["do"] == do)


def _judged_heads(attributes: tuple[str, ...]) -> list[str]:
    kinds = [f"{name}: {'error' if name == 'age' else 'AUROC'}" for name in attributes]
    return [
        "do",
        "answer",
        *kinds,
        "MAE after return",
        "LPIPS after return",
        "network evaluations",
    ]


def _real(file: str, name: str, noun: str) -> list[str]:
    line = run(file, name)["", "real"]
    attributes = _FACES if file == "celeba" else ("sex", "age", "effusion", "view")
    return ["", f"real {noun}", *_read(line, attributes), "", "", ""]


def _read(line: Line, attributes: tuple[str, ...]) -> list[str]:
    return [line.shown(f"{'error' if a == 'age' else 'auroc'} {a}", 1) for a in attributes]


def _judged(line: Line, back: Line, attributes: tuple[str, ...] = _FACES) -> list[str]:
    """Return the row of an answer; ``back`` holds its reversal."""
    returns = [back.shown(name, 3) for name in ("reversal_mae", "reversal_lpips")]
    return [
        line["do"],
        line.label,
        *_read(line, attributes),
        *returns,
        line.plain("evaluations", 0),
    ]


def composition() -> str:
    """Return how far images move in one and in ten null interventions in a row."""
    heads = ["images", "answer", "MAE, once", "ten times"]
    rows = [
        [images, line.label, *(line.plain(key, 4) for key in _CYCLES)]
        for images, name in (("drawings", "portraits"), ("photographs", "celeba-64"))
        for line in run("cycles", f"cycles-{name}").values()
        if not line["do"] and line["guidance"] != "real"
    ]
    runs = ("cycles-portraits", "cycles-celeba-64")
    return f"{table(heads, rows)}\n\n{source('cycles', *runs)}"


_CYCLES = ("change_mae", "repeated_mae")


def claims() -> str:
    """Return how often each claim holds, for each data set and pair of guidances."""
    runs = {"photographs": "celeba", "radiographs": "nih", "drawings": "portraits"}
    found: dict[tuple[str, str], list[Line]] = {}
    for data, name in runs.items():
        for line in read("claims"):
            if line["run"] == f"{name}-core":
                rules = [line[key].partition(":")[0].upper() for key in ("factored", "global")]
                found.setdefault((data, ", ".join(rules)), []).append(line)
    names = list(dict.fromkeys(_claim(line) for lines in found.values() for line in lines))
    rows = [[*key, *(_held(lines, name) for name in names)] for key, lines in found.items()]
    return table(["data", "rules", *names], rows)


def _claim(line: Line) -> str:
    """Return a claim; the shift and the factor error are two measures of the same."""
    return re.sub(r"\(factor error\)", "(shift)", line["claim"])


def _held(lines: list[Line], claim: str) -> str:
    own = [line["holds"] for line in lines if _claim(line) == claim and line["holds"]]
    return f"{own.count('yes')} of {len(own)}" if own else "–"


def core(file: str, name: str, *, every: bool = True) -> str:
    """Return each rule, global and factored, at its strongest.

    Args:
        file: Name of the file.
        name: Name of the run.
        every: Whether to show all rules, or CFG and FCFG only.
    """
    lines = run(file, name)
    attributes = [key.removeprefix("delta ") for key in lines["", "real"].fields]
    attributes = [a for a in attributes if f"delta {a} low" in lines["", "real"].fields]
    paper = {
        (s["do"], s["guidance"], s["attribute"]): s for s in read("signs") if s["run"] == name
    }
    rows: list[list[str]] = []
    for (do, guidance), line in lines.items():
        if not do or guidance == "none" or not (every or guidance.startswith(("cfg:", "fcfg:"))):
            continue
        cells = [do, line.label]
        for attribute in attributes:
            digits = 2 if attribute == "age" else 1
            text = line.shown(f"delta {attribute}", digits, signed=True)
            said = paper.get((do, guidance, attribute))
            theirs = f" *({number(float(said['paper']), 1, signed=True)})*" if said else ""
            cells.append(text + theirs)
        rows.append([*cells, line.plain("reversal_mae", 3), line.plain("reversal_lpips", 3)])
    heads = ["do", "guidance", *(f"Δ {name}" for name in attributes), "MAE", "LPIPS"]
    return f"{table(heads, rows)}\n\n{source(file, name)}"


def core_drawings() -> str:
    """Return the same on drawings, against the truth."""
    rows: list[list[str]] = []
    for (do, guidance), line in run("portraits", "portraits-core").items():
        if do not in ("", "young") and guidance.startswith(("none", "cfg:", "fcfg:")):
            errors = [line.shown(f"factor_error {name}", 2, signed=True) for name in _FACES]
            rows.append([do, line.label, *errors, line.plain("truth_mae", 4)])
    heads = ["do", "guidance", *(f"factor error, {name}" for name in _FACES), "MAE to the truth"]
    return f"{table(heads, rows)}\n\n{source('portraits', 'portraits-core')}"


def reversibility() -> str:
    """Return the error after reversal by steps, training and masks."""
    found: dict[tuple[str, ...], list[str]] = {}
    for line in read("reversibility"):
        trained = f"{int(line['trained']):,}" if line["trained"] else "3,000"
        masks = "yes" if line["masks"] else "no"
        key = (line["steps"], line["precision"], trained, line["weights"], masks)
        if (line["precision"] == "bf16" and key not in found) or len(found.get(key, [])) < 3:
            found.setdefault(key, []).append(line.plain("mae", 3))
    heads = ["steps", "precision", "steps of training", "weights", "masks in training"]
    heads += ["unguided", "CFG 3.0", f"FCFG 3.0 / 1.2, {UNTUNED}"]
    rows = [
        [*key, *cells] for key, cells in found.items() if key[3] != "average" or key[4] == "yes"
    ]
    return (
        f"{table(heads, rows)}\n\nAll: [reversibility.csv](../studies/results/reversibility.csv)."
    )


def solvers(name: str) -> str:
    """Return which solvers, grids and steps equal the reference, under which guidances.

    Args:
        name: Name of the study.
    """
    ways: dict[str, list[Line]] = {}
    for line in read("solvers"):
        if line["run"] == f"solvers-{name}":
            ways.setdefault(line["way"], []).append(line)
    rows: list[list[str]] = []
    for way, lines in ways.items():
        (pushed,) = (line for line in lines if line["guidance"].startswith("fcfg"))
        equal = [_guided(line) for line in lines if not line["misses"]]
        if equal or way.startswith("ddim"):
            cells = [pushed.plain("evaluations", 0), pushed.plain("reversal", 4)]
            rows.append(
                [way, f"{float(pushed['evaluations']):,.0f}", cells[1], ", ".join(equal) or "–"]
            )
    about = stored("runs")[f"solvers-{name}"]
    made = f"{about['images']:,} images, {about['precision']} on {about['device']}"
    heads = ["sampling", "rows", "error after return, FCFG", "equals the reference under"]
    return f"{table(heads, rows)}\n\n{made}, commit {about['commit'][:12]}."


def _guided(line: Line) -> str:
    rule = line["guidance"].partition(":")[0]
    return "no guidance" if rule == "none" else rule.upper()


def weights(name: str) -> str:
    """Return calibrated weights beside those that the true counterfactuals would choose.

    Args:
        name: The shipped model.
    """
    heads = ["do", "chosen", "95 % interval"]
    heads += ["truth, by its reading", "truth, by changed pixels", "truth, by all pixels"]
    rows: list[list[str]] = []
    for do, own in _weights(name).items():
        truth = [f"{own['truth'][key]:g}" for key in ("reading", "change", "mae")]
        rows.append([do, f"{own['weight']:g}", f"{own['low']:g} to {own['high']:g}", *truth])
    return table(heads, rows)


def digits() -> str:
    """Return the calibrated answers of the model of digits, beside none and the paper's rule."""
    attributes = ("thickness", "intensity", "digit")
    heads = ["do", "answer", "thickness, error", "intensity, error", "digit, AUROC"]
    heads += ["MAE after return"]
    rows: list[list[str]] = []
    for (do, guidance), line in run("rivals", "rivals-morphomnist-karras-20").items():
        if do and (guidance in ("none", FCFG) or "anchor" in guidance):
            kinds = [f"{'auroc' if a == 'digit' else 'error'} {a}" for a in attributes]
            read_out = [line.shown(k, 1 if "auroc" in k else 2) for k in kinds]
            rows.append([do, line.label, *read_out, line.shown("reversal_mae", 3)])
    return f"{table(heads, rows)}\n\n{source('rivals', 'rivals-morphomnist-karras-20')}"


#: Sections with a name of their own; others are tables of studies/results/tables.
def guarantees() -> str:
    """Return what is promised, beside the tests that hold it."""
    held: dict[str, list[str]] = {}
    for file in sorted((Path(__file__).parents[1] / "tests").glob("test_*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            for mark in getattr(node, "decorator_list", ()):
                if ast.unparse(mark).startswith("pytest.mark.promise("):
                    test = f"`{file.stem}::{node.name}`"
                    held.setdefault(mark.args[0].value, []).append(test)
    rows = [[promise, "<br>".join(tests)] for promise, tests in sorted(held.items())]
    return table(("promise", "tests"), rows)


def scale_cost() -> str:
    """Return what ten million pictures cost, from measured rates: cards, and cores beside them."""
    count, rows = 10_000_000, list[list[str]]()
    for line in kept_rows("bench-h200-1"):
        if line[""] in ("ours, eager", "ours, compiled"):
            hours = count / float(line["images/s"]) / 3600
            shares = [f"{hours / cards:.1f}" for cards in (1, 8, 64)]
            rows.append([line[""], line["precision"], line["images/s"], *shares])
    stages = {line["picture"]: line for line in kept_rows("scale-stages")}
    steps = ("read", "decode", "encode", "write")
    core = {name: sum(float(line[step]) for step in steps) for name, line in stages.items()}
    each = [f"{hours * count / 3.6e6:,.0f} for {name}" for name, hours in core.items()]
    heads = ("hours of an H200", "precision", "images/s", "1 card", "8 cards", "64 cards")
    cores = f"Hours of one core beside it, whatever the network: {', '.join(each)}."
    rates = "From [measured rates](results-speed.md) of 64² pictures, 10 steps."
    return f"{table(heads, rows)}\n\n{rates} {cores}"


SECTIONS: dict[str, Callable[[], str]] = {
    "guarantees": guarantees,
    "bench/h200": lambda: "\n\n".join(
        [kept("bench-h200-1", (0, 1, 2, 5, 6, 7)), kept("bench-h200-2", (0, 1, 2, 6, 7))]
    ),
    "claims": claims,
    "composition": composition,
    "core/celeba": lambda: core("celeba", "celeba-core"),
    "digits": digits,
    "drawn-noise": drawn_noise,
    "equal-strength": equal_strength,
    "faces-in-brief": faces_in_brief,
    "front": front,
    "front-brief": lambda: re.sub(r" ± [0-9.]+", "", front()),
    "portraits-brief": core_drawings,
    "radiographs": radiographs,
    "radiographs-brief": lambda: core("radiographs", "nih-core", every=False),
    "real-faces": lambda: core("celeba", "celeba-core", every=False),
    "reversibility": reversibility,
    "scale-cost": scale_cost,
    "rivals-training": lambda: kept("rivals-training", (0, 1, 2, 3, 5)),
}
#: Sections named KIND/NAME, by kind.
KINDS: dict[str, Callable[[str], str]] = {
    "anchored": drawings,
    "solvers": solvers,
    "weights": weights,
}


def section(name: str) -> str:
    """Return the text of a section."""
    kind, _, rest = name.rpartition("/")
    if name in SECTIONS:
        return SECTIONS[name]()
    return KINDS[kind](rest) if kind in KINDS else kept(name.replace("/", "-"))
