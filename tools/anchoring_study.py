r"""Which sampling and guidance answer best, anchored and plain, on validation images.

    python tools/anchoring_study.py portraits --images 256 --out docs/results/anchoring.json
    python tools/anchoring_study.py runs/celeba --data celeba64 --images 256 --out faces.json

Every combination is evaluated as ``fcfg evaluate`` does, on images that no result is reported on:
drawings of another seed, or the validation split. ``--variants`` adds the weaker anchors of
tools/anchoring_variants.py.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fcfg
from anchoring_variants import VARIANTS, add_given, variant
from fcfg.evaluation import Evaluation, Experiment, Subset, choose_subset, find_evaluators
from fcfg.evaluation.summary import Cell, summarise
from fcfg.guidance import Guidance
from fcfg.metrics import Estimate
from study import model_arguments, provenance, write_json

VALIDATION_SEED = 1  # of drawings; results have seed 0
FULL = [f"cfg:{w}" for w in (1.25, 1.5, 2.0)]
FULL += [f"contrast:{w}" for w in (1.25, 1.5, 2.0)]
FULL += [f"fgiven:affected={w},invariant=1.0" for w in (1.25, 1.5, 2.0)]
FULL += ["none", "fcfg:affected=1.5,invariant=1.2", "fcfg:affected=1.5,invariant=2.0"]
SWEEP = [
    *(f"{solver} {steps}" for solver in ("ddim uniform", "dpm-2m uniform") for steps in (8, 12)),
    *(f"dpm-2m quadratic {steps}" for steps in (8, 11, 15)),
    *(f"dpm-2m karras {steps}" for steps in (8, 12, 20)),
    *("ddim quadratic 11", "dpm-2m log-snr 12", "dpm-2m uniform 15", "heun uniform 6"),
    "bdia:0.5 uniform 12",
]
PLAIN = ["none", "cfg:3.0", "fcfg:affected=3.0,invariant=1.2", "contrast:1.5"]


def validation_subset(pipeline: Any, experiment: Experiment, data: Path | None) -> Subset:
    """Return images of the validation split, or drawings of the seed for validation."""
    from fcfg.evaluation import subset

    split = subset._SPLIT  # pyright: ignore[reportPrivateUsage] # a study
    subset._SPLIT = "val"  # pyright: ignore[reportPrivateUsage]
    try:
        return choose_subset(pipeline, experiment, data=data)
    finally:
        subset._SPLIT = split  # pyright: ignore[reportPrivateUsage]


def row(sampling: str, kind: str, cell: Cell) -> dict[str, Any]:
    """Return the measures of one intervention under one guidance."""

    def to_json(estimate: Estimate | None) -> dict[str, float | int] | None:
        return None if estimate is None else estimate.to_json()

    return {
        "sampling": sampling,
        "variant": kind,
        "do": cell.do,
        "guidance": cell.guidance,
        "evaluations": cell.evaluations,
        "seconds": cell.seconds,
        "effectiveness": {name: to_json(e) for name, e in cell.effectiveness.items()},
        "drift": {name: to_json(e) for name, e in cell.drift.items()},
        "targets": cell.targets,
        "truth_mae": to_json(cell.truth_mae),
        "truth_changed": to_json(cell.truth_changed),
        "change_mae": to_json(cell.change_mae),
        "reversal_mae": to_json(cell.reversal_mae),
        "reversal_lpips": to_json(cell.reversal_lpips),
        "fd_judge": cell.fd_judge,
        "fid": cell.fid,
    }


def main(words: list[str]) -> None:
    """Measure all combinations and write them."""
    parser = model_arguments(__doc__ or "")
    add = parser.add_argument
    add("--do", nargs="+", default=["smiling", "male", "young"])
    add("--images", type=int, default=256)
    add("--balance", nargs="*", help="attributes to balance; all discrete ones by default")
    add("--sweep", nargs="+", default=SWEEP)
    add("--guidance", nargs="+", default=FULL)
    add("--plain", nargs="*", default=PLAIN, help="guidances that are not anchored")
    add("--plain-sweep", nargs="*", default=["dpm-2m karras 20"])
    add("--variants", nargs="*", default=[], help="samplings under which to weaken the anchor")
    add("--precision", default="tf32")
    add("--lpips", type=Path)
    add("--inception", type=Path)
    args = parser.parse_args(words)
    add_given()
    pipeline = fcfg.load(args.model).to(args.device)
    pipeline.prepare(args.precision, compile=args.compile, batch_size=args.batch_size)
    anchored = [repr(Guidance.parse(f"{text};anchor=true")) for text in args.guidance]
    runs = [(sampling, "", args.plain) for sampling in args.plain_sweep]
    runs += [(sampling, "", anchored) for sampling in args.sweep]
    runs += [(sampling, kind, anchored) for sampling in args.variants for kind in VARIANTS]
    rows: list[dict[str, Any]] = []
    subset = real = None
    for sampling, kind, guidance in runs:
        experiment = Experiment(
            name="anchoring",
            do=args.do,
            guidance=guidance,
            images=args.images,
            balance=args.balance,
            seed=VALIDATION_SEED,
            composition=False,
            fid=args.inception is not None,
            sampling=sampling,
        )
        if subset is None:
            subset = validation_subset(pipeline, experiment, args.data)
            size = min(subset.images.shape[-2:])
            evaluators = find_evaluators(
                pipeline, args.lpips, args.inception, fid=experiment.fid, size=size
            )
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder, variant(kind):
            evaluation = Evaluation(
                pipeline,
                experiment,
                subset,
                evaluators,
                Path(folder),
                batch_size=args.batch_size,
                block=4096,
                pictures=0,
            )
            summary = summarise(evaluation.run(), resamples=200)
        real = real or {name: e.to_json() for name, e in summary.real.items()}
        new = [row(sampling, kind, cell) for cell in summary.cells.values()]
        asked = set(guidance)
        rows += [each for each in new if each["guidance"] in asked]
        print(f"{sampling} {kind} {time.perf_counter() - start:.0f} s", flush=True)
        for each in new:
            print(line(each), flush=True)
        about = {"model": Path(args.model).name, "images": len(subset), "real": real}
        write_json(args.out, {**about, "rows": rows, **provenance("anchoring_study", words, args)})


def line(each: dict[str, Any]) -> str:
    """Return one row as text."""
    drift = {name: round(e["value"], 2) for name, e in each["drift"].items()}
    auroc = {name: round(e["value"], 1) for name, e in each["effectiveness"].items()}
    numbers = " ".join(
        f"{name} {each[name]['value']:.4f}"
        for name in ("truth_mae", "truth_changed", "reversal_mae", "reversal_lpips", "change_mae")
        if each[name] is not None
    )
    return (
        f"  do({each['do']}) {each['guidance']:42} rows {each['evaluations']:.0f} {numbers} "
        f"drift {drift} auroc {auroc} fd {each['fd_judge']} fid {each['fid']}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
