r"""How well solvers answer, against the network rows and seconds they cost.

    python tools/solver_study.py portraits --images 1000 --out docs/results/solvers.json \
        --work runs/solvers --precision bf16 --compile
    python tools/solver_study.py portraits --images 8 --sweep "ddim uniform 10" --out x.json

Every sampling configuration (solver, grid, number of steps) is evaluated on the same images, as
``fcfg evaluate`` does: without guidance, with CFG and FCFG (or ``--guidance``), with reversal. The
first one is the reference: the paper's 1,000 steps of DDIM, or ``--reference``. A configuration is
*equal* to it if the signed shift of every attribute and every Δ lie in the reference's 95 %
interval, and its reversal error is at most 5 % larger.

Results are kept under ``--work``, and an interrupted study resumes there.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import fcfg
from fcfg.evaluation import Evaluation, Experiment, Summary, choose_subset, find_evaluators
from fcfg.evaluation.summary import Cell, summarise
from fcfg.metrics import Estimate
from fcfg.sampling import PRESETS, SamplingConfig
from study import model_arguments, provenance, write_json

GUIDANCE = ("cfg:3.0", "fcfg:affected=3.0,invariant=1.2")
REFERENCE = str(PRESETS["paper"])
SWEEP = (
    *(f"ddim uniform {steps}" for steps in (10, 20, 50, 100, 200)),
    *(f"ddim karras {steps}" for steps in (20, 50)),
    *(f"fixed-point:2 uniform {steps}" for steps in (20, 50)),
    *(f"dpm-2m {grid} {steps}" for grid in ("uniform", "karras") for steps in (10, 20, 30, 50)),
    *(f"dpm-2m log-snr {steps}" for steps in (20, 50)),
    *(f"heun karras {steps}" for steps in (10, 20)),
    *(f"bdia:{g} uniform {steps}" for g in (0.1, 0.3, 1.0) for steps in (10, 20, 30, 50)),
)
MOST_REVERSAL = 1.05  # largest reversal error, relative to the reference


def folder_of(config: SamplingConfig) -> str:
    """Return the name of the folder for the results of a configuration."""
    return str(config).replace(" ", "-").replace(":", "-")


def misses(cell: Cell, reference: Cell) -> list[str]:
    """List the measures that are not equal to those of the reference."""
    pairs = {
        **{f"shift of {name}": (e, reference.drift[name]) for name, e in cell.drift.items()},
        **{f"Δ of {name}": (e, reference.delta[name]) for name, e in cell.delta.items()},
    }
    found = [name for name, (ours, other) in pairs.items() if not _within(ours, other)]
    back, other = cell.reversal_mae, reference.reversal_mae
    assert back is not None
    assert other is not None
    return [*found, *(["way back"] if back.value > MOST_REVERSAL * other.value else [])]


def _within(ours: Estimate, other: Estimate) -> bool:
    return other.low <= ours.value <= other.high


def row(config: SamplingConfig, cell: Cell, reference: Cell) -> dict[str, Any]:
    """Return the measures of one intervention under one guidance."""

    def to_json(estimate: Estimate | None) -> dict[str, float | int] | None:
        return None if estimate is None else estimate.to_json()

    return {
        "way": str(config),
        "do": cell.do,
        "guidance": cell.guidance,
        "evaluations": cell.evaluations,
        "seconds": cell.seconds,
        "target": {name: to_json(cell.drift[name]) for name in cell.targets},
        "off_target": {name: to_json(cell.drift[name]) for name in cell.invariant},
        "delta": {name: to_json(estimate) for name, estimate in cell.delta.items()},
        "truth": to_json(cell.truth_changed),
        "reversal": to_json(cell.reversal_mae),
        "misses": misses(cell, reference),
    }


class Study:
    """Evaluations of sampling configurations on the same images of one model."""

    def __init__(self, args: argparse.Namespace, about: dict[str, Any]) -> None:
        self.args, self.about = args, about
        self.pipeline = fcfg.load(args.model).to(args.device)
        reference = self._experiment(SamplingConfig.parse(args.reference))
        self.subset = choose_subset(self.pipeline, reference, data=args.data)
        size = min(self.subset.images.shape[-2:])
        self.evaluators = find_evaluators(self.pipeline, None, None, fid=False, size=size)
        self.prepared = False

    def _experiment(self, config: SamplingConfig) -> Experiment:
        do = self.args.do or list(self.pipeline.space.names)
        return Experiment(
            name=f"solvers/{folder_of(config)}",
            do=tuple(do),
            guidance=tuple(self.args.guidance),
            images=self.args.images,
            composition=False,
            **config.to_json(),
        )

    def summary(self, config: SamplingConfig) -> Summary:
        """Evaluate a configuration, or read its results."""
        start = time.perf_counter()
        evaluation = Evaluation(
            self.pipeline,
            self._experiment(config),
            self.subset,
            self.evaluators,
            self.args.work / folder_of(config),
            model=Path(self.args.model).name,
            provenance=self.about,
            batch_size=self.args.batch_size,
            block=self.args.block,
            pictures=0,
        )
        if not self.prepared:
            rows, compiled = evaluation.block_size, self.args.compile
            self.pipeline.prepare(self.args.precision, compile=compiled, batch_size=rows)
            self.prepared = True
        found = summarise(evaluation.run())
        print(f"{config!s:30} {time.perf_counter() - start:8.1f} s", flush=True)
        return found


def main(words: list[str]) -> None:
    """Evaluate all configurations, and write the file after each."""
    parser = model_arguments(__doc__)
    add = parser.add_argument
    add("--do", nargs="+", help="attributes to intervene on; all by default")
    add("--guidance", nargs="+", default=list(GUIDANCE), help="in addition to none")
    add("--images", type=int, default=1000)
    add("--block", type=int, help="images per block; 1,024 on a GPU, 32 on a CPU")
    add("--reference", default=REFERENCE, metavar="'SOLVER GRID STEPS'")
    add("--sweep", nargs="+", default=list(SWEEP), metavar="'SOLVER GRID STEPS'")
    add("--precision", default="tf32")
    add("--work", type=Path, default=Path("runs/solvers"), help="folder for the evaluations")
    args = parser.parse_args(words)
    study = Study(args, provenance("solver_study", words, args))
    configs = list(dict.fromkeys(map(SamplingConfig.parse, [args.reference, *args.sweep])))
    reference: Summary | None = None
    rows: list[dict[str, Any]] = []
    for config in configs:
        found = study.summary(config)
        reference = reference or found
        rows += [row(config, cell, reference.cells[key]) for key, cell in found.cells.items()]
        result = {
            **study.about,
            "model": {"name": found.header["model"]["name"]},
            "digest": found.header["model"]["digest"],
            "data": found.header["data"],
            "n": found.n,
            "reference": str(configs[0]),
            "rows": rows,
        }
        write_json(args.out, result)


if __name__ == "__main__":
    main(sys.argv[1:])
